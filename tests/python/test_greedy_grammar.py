"""greedy_stream under a grammar: route B's tokens are route A's, and the cache is what it promises."""

import mlx.core as mx
import numpy as np
import pytest
from tiny_models import VOCAB, Poisoned, tiny_llama

from mlx_sampling import (
    Grammar,
    GrammarRefusalError,
    NonfiniteLogitsError,
    Sampler,
    Vocabulary,
    greedy_stream,
    sample_stream,
)
from mlx_sampling.greedy_grammar import greedy_argmax

PROMPT = [3, 1, 4, 1, 5]
END = 200
TEXTS = [b"%c" % (65 + i % 26) * (1 + i // 26) for i in range(END)] + [b"<end>"]
VOCABULARY = Vocabulary(token_texts=TEXTS, eos_token_ids=[END])  # the head is wider: 211
GRAMMARS = {
    "vowels": "root ::= ([AEIOU]+ [B-D]){2,6}",
    "free": "root ::= [A-Z]*",
    "pairs": 'root ::= ("AA" | "BB" | "CC")*',
}


@pytest.fixture(params=GRAMMARS)
def grammar(request):
    return Grammar(GRAMMARS[request.param], VOCABULARY)


def naive(model, grammar, count, excluded=()):
    """The greatest logit that the grammar allows, over one forward pass of everything each time."""
    tokens = []
    matcher = grammar.matcher()
    while len(tokens) < count and not matcher.is_terminated:
        row = np.array(model(mx.array([PROMPT + tokens]))[0, -1])
        allowed = np.unpackbits(matcher.fill_bitmask().view(np.uint8), bitorder="little")
        row[: len(TEXTS)][allowed[: len(TEXTS)] == 0] = -np.inf
        row[len(TEXTS) :] = -np.inf
        row[list(excluded)] = -np.inf
        tokens.append(int(np.argmax(row)))
        assert matcher.accept_token(tokens[-1])
    return tokens


@pytest.mark.parametrize("seed", range(4))
def test_tokens_of_both_routes(grammar, seed):
    model = tiny_llama(seed)
    expected = naive(model, grammar, 24)
    assert list(greedy_stream(model, PROMPT, max_tokens=24, grammar=grammar)) == expected
    sampler = Sampler(temperature=0, grammar=grammar)
    assert list(sample_stream(model, PROMPT, sampler, max_tokens=24)) == expected
    assert sampler.grammar_is_terminated == (expected[-1] == END)


def test_only_a_refused_winner_is_picked_again(tiny_model, monkeypatch):
    calls = []

    def counted(logits, **options):
        calls.append(options.get("allowed") is not None)
        return greedy_argmax(logits, **options)

    monkeypatch.setattr("mlx_sampling.greedy_grammar.greedy_argmax", counted)
    free = Grammar("root ::= [A-Z]*", VOCABULARY)
    tokens = list(greedy_stream(tiny_model, PROMPT, max_tokens=20, grammar=free))
    unconstrained = list(greedy_stream(tiny_model, PROMPT, max_tokens=len(tokens)))
    if tokens == unconstrained:
        assert not any(calls)
    assert calls.count(False) == len(tokens)
    calls.clear()
    strict = Grammar("root ::= [AEIOU]*", VOCABULARY)
    list(greedy_stream(tiny_model, PROMPT, max_tokens=20, grammar=strict))
    assert 0 < calls.count(True) <= calls.count(False)


def test_excluded_ends_are_never_picked(tiny_model):
    grammar = Grammar('root ::= "A" "B" "A"', VOCABULARY)
    cache = tiny_model.make_cache()
    tokens = []
    message = "the grammar allows none that is not excluded: 3 tokens"
    with pytest.raises(GrammarRefusalError, match=message):
        for token in greedy_stream(
            tiny_model, PROMPT, excluded=[END], grammar=grammar, prompt_cache=cache
        ):
            tokens.append(token)
    assert tokens == naive(tiny_model, grammar, 3, [END])
    assert {layer.offset for layer in cache} == {len(PROMPT) + 3}


def test_a_matcher_goes_on(tiny_model):
    grammar = Grammar("root ::= [A-Z]{2,40}", VOCABULARY)
    matcher = grammar.matcher()
    cache = tiny_model.make_cache()
    options = {"prompt_cache": cache, "grammar": matcher, "max_tokens": 5}
    first = list(greedy_stream(tiny_model, PROMPT, **options))
    check = grammar.matcher()
    assert all(check.accept_token(token) for token in first)
    assert (check.fill_bitmask() == matcher.fill_bitmask()).all()
    second = list(greedy_stream(tiny_model, [9], **options))
    assert all(check.accept_token(token) for token in second)


@pytest.mark.parametrize("step", [0, 1, 4])
def test_a_bad_row_raises_at_its_step(tiny_model, step):
    grammar = Grammar("root ::= [A-Z]*", VOCABULARY)
    model = Poisoned(tiny_model, len(PROMPT) + step, float("nan"))
    cache = tiny_model.make_cache()
    matcher = grammar.matcher()
    tokens = []
    with pytest.raises(NonfiniteLogitsError, match=f"at step {step}, got NaN"):
        for token in greedy_stream(
            model, PROMPT, max_tokens=20, prompt_cache=cache, grammar=matcher
        ):
            tokens.append(token)
    assert len(tokens) == step
    assert {layer.offset for layer in cache} == {len(PROMPT) + step}
    check = grammar.matcher()
    assert all(check.accept_token(token) for token in tokens)
    assert (check.fill_bitmask() == matcher.fill_bitmask()).all()


def test_a_failing_forward_pass_takes_its_token_back(tiny_model):
    grammar = Grammar("root ::= [A-Z]*", VOCABULARY)

    class Failing(Poisoned):
        def __call__(self, tokens, cache=None):
            if cache[0].offset >= self.at:
                raise MemoryError("no room")
            return self.model(tokens, cache=cache)

    matcher = grammar.matcher()
    cache = tiny_model.make_cache()
    model = Failing(tiny_model, len(PROMPT) + 3, 0)
    tokens = []
    with pytest.raises(MemoryError):
        for token in greedy_stream(model, PROMPT, prompt_cache=cache, grammar=matcher):
            tokens.append(token)
    check = grammar.matcher()
    assert all(check.accept_token(token) for token in tokens)
    assert (check.fill_bitmask() == matcher.fill_bitmask()).all()


def test_bad_arguments(tiny_model):
    with pytest.raises(TypeError, match=r"\[grammar\] Expected a Grammar or a GrammarMatcher"):
        greedy_stream(tiny_model, PROMPT, grammar="root")
    with pytest.raises(ValueError, match=r"\[grammar\] Expected a grammar with a vocabulary"):
        greedy_stream(tiny_model, PROMPT, grammar=Grammar('root ::= "a"'))
    large = Vocabulary(token_texts=[b"a"] * (VOCAB + 1), eos_token_ids=[1])
    grammar = Grammar('root ::= "a"*', large)
    with pytest.raises(ValueError, match=rf"a vocabulary of at most {VOCAB} tokens"):
        next(greedy_stream(tiny_model, PROMPT, grammar=grammar))
