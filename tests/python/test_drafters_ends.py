"""speculative_stream where drafts end: at a grammar's last token, a drafter's fault, a model's fault."""

import pytest
from test_greedy import PROMPT, assert_holds
from tiny_models import tiny_llama

from mlx_sampling import (
    Grammar,
    GrammarRefusalError,
    LookupDrafter,
    ModelDrafter,
    Sampler,
    Vocabulary,
    speculative_stream,
)
from mlx_sampling.drafters import Draft, Drafter
from mlx_sampling.errors import CacheNotRestoredError
from mlx_sampling.grammar import GrammarTriggers

END = 200
TEXTS = [b"%c" % (65 + i % 26) * (1 + i // 26) for i in range(END)] + [b"<end>"]
VOCABULARY = Vocabulary(token_texts=TEXTS, eos_token_ids=[END])
ENDLESS = Vocabulary(token_texts=TEXTS)
DOUBLE_Q = TEXTS.index(b"QQ")
ROUNDS = range(12)
PROMPT_PASSES = 3  # of a model that does not tell how many ids it can embed


class Failing:
    """A model whose `at`th forward pass fails, after it has written to the cache."""

    def __init__(self, model, at):
        self.model, self.at, self.passes = model, at, 0

    def make_cache(self):
        return self.model.make_cache()

    def __call__(self, tokens, cache=None):
        self.passes += 1
        logits = self.model(tokens, cache=cache)
        if self.passes == self.at:
            raise MemoryError("no memory")
        return logits


class Told(Drafter):
    """Remembers what it is told; fails where it is asked to."""

    def __init__(self, draft=None, fails=False):
        self.draft, self.fails = draft, fails
        self.tokens, self.ends = [], 0

    def propose(self, tokens, count):
        self.tokens += tokens
        return Draft([]) if self.draft is None else self.draft

    def end(self, tokens):
        self.ends += 1
        self.tokens += tokens
        if self.fails:
            raise MemoryError("no memory")


@pytest.mark.parametrize("seed", ROUNDS)
def test_drafts_up_to_the_end_of_a_grammar(tiny_model, seed):
    """The drafter's text may end before a draft does: that is no error of the run."""
    grammar = Grammar('root ::= [A-C] "DD"?', VOCABULARY)
    sampler = Sampler(seed=seed, top_k=0, top_p=1, min_p=0, grammar=grammar)
    stream = speculative_stream(tiny_model, tiny_model, PROMPT, sampler, draft_tokens=6)
    tokens = list(stream)
    assert tokens[-1] == END
    assert sampler.grammar_is_terminated
    assert stream.figures.accepted > 0  # the end is drafted too


@pytest.mark.parametrize("seed", ROUNDS)
def test_drafts_where_a_grammar_allows_nothing_more(tiny_model, seed):
    """Without an end token it is the target that says so, after every token that there is."""
    sampler = Sampler(seed=seed, grammar=Grammar('root ::= "A" "B" "C"', ENDLESS))
    stream = speculative_stream(tiny_model, tiny_model, PROMPT, sampler, draft_tokens=8)
    with pytest.raises(GrammarRefusalError):
        list(stream)
    assert [TEXTS[token] for token in sampler.history[len(PROMPT) :]] == [b"A", b"B", b"C"]
    assert stream.figures.tokens == 3


def test_a_drafted_trigger_that_does_not_fit(tiny_model):
    """It is judged like any draft: where the target does not take it, it is no error of the run."""
    grammar = Grammar('root ::= "QX"', VOCABULARY)
    lazy = {"grammar": grammar, "grammar_triggers": GrammarTriggers(words=["QQ"])}
    sampler = Sampler(seed=3, logit_bias={DOUBLE_Q: -100.0}, **lazy)
    drafter = ModelDrafter(tiny_model, Sampler(logit_bias={DOUBLE_Q: 100.0}, **lazy))
    stream = speculative_stream(tiny_model, drafter, PROMPT, sampler, max_tokens=8)
    tokens = list(stream)
    assert len(tokens) == 8
    assert sampler.history == PROMPT + tokens
    assert sampler.grammar_is_waiting
    assert stream.figures.proposed > stream.figures.accepted == 0


def stream_of(model, drafter, **options):
    sampler = Sampler(seed=2, top_k=0)
    return speculative_stream(model, drafter, PROMPT, sampler, **options), sampler


def stream_into(tokens, stream):
    for token in stream:
        tokens.append(token)  # as they come: the stream may end in an error


@pytest.mark.parametrize("count", [1, 3, 6])
def test_a_drafter_is_told_each_token_once(tiny_model, count):
    """Its end is called once: also where the last token's stream is closed, as a for loop leaves it."""
    drafter = Told()
    stream, _ = stream_of(tiny_model, drafter, max_tokens=6)
    tokens = [next(stream) for _ in range(count)]
    stream.close()
    assert (drafter.tokens, drafter.ends) == (tokens, 1)


@pytest.mark.parametrize("at", range(1, 9))
def test_a_drafter_is_told_before_the_target_fails(tiny_model, at):
    drafter = Told()
    stream, _ = stream_of(Failing(tiny_model, at), drafter, max_tokens=6)
    tokens = []
    with pytest.raises(MemoryError):
        stream_into(tokens, stream)
    assert drafter.tokens == tokens
    assert drafter.ends == (1 if at > PROMPT_PASSES else 0)
    assert drafter.busy is False


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("drafted", [True, False])
def test_a_drafter_that_fails_at_the_last_token(tiny_model, count, drafted):
    """The token is not handed out, so neither the sampler nor the cache has it."""
    plain = list(stream_of(tiny_model, Told(), max_tokens=count)[0])
    cache = tiny_model.make_cache()
    drafter = LookupDrafter() if drafted else Told()
    drafter.end = Told(fails=True).end
    stream, sampler = stream_of(tiny_model, drafter, max_tokens=count, prompt_cache=cache)
    tokens = []
    with pytest.raises(MemoryError):
        stream_into(tokens, stream)
    assert len(tokens) == count - 1
    if not drafted:
        assert tokens == plain[:-1]
    assert sampler.history == PROMPT + tokens
    assert_holds(tiny_model, cache, tokens)


def test_the_drafter_ends_where_the_cache_is_lost(tiny_model):
    """An error of the drafter must not hide behind one of the target's, nor the other way round."""
    drafter = Told(draft=([1], None))  # no Draft
    model = Failing(tiny_model, PROMPT_PASSES + 1)  # the pass that feeds what is owed
    stream, _ = stream_of(model, drafter, max_tokens=6)
    token = next(stream)
    with pytest.raises(CacheNotRestoredError, match=r"Expected a Draft, got tuple"):
        next(stream)
    assert (drafter.tokens, drafter.ends, drafter.busy) == ([token], 1, False)


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("at", range(PROMPT_PASSES + 1, PROMPT_PASSES + 6))
def test_the_draft_cache_after_the_target_failed(tiny_model, greedy, layers, at):
    """It holds what the target's does: drafts that the failed pass was fed are in neither."""
    draft_model = tiny_llama(0, layers)
    caches = tiny_model.make_cache(), draft_model.make_cache()
    sampler = None if greedy else Sampler(seed=3)
    stream = speculative_stream(
        Failing(tiny_model, at),
        ModelDrafter(draft_model, prompt_cache=caches[1]),
        PROMPT,
        sampler,
        max_tokens=60,
        prompt_cache=caches[0],
    )
    tokens = []
    with pytest.raises(MemoryError):
        stream_into(tokens, stream)
    assert_holds(tiny_model, caches[0], tokens)
    assert {layer.offset for layer in caches[1]} == {len(PROMPT) + len(tokens)}


@pytest.mark.parametrize("draft", [None, ([1], None), [1]])
def test_what_is_no_draft(tiny_model, draft):
    drafter = Told()
    drafter.propose = lambda tokens, count: draft
    stream, sampler = stream_of(tiny_model, drafter, max_tokens=6)
    token = next(stream)
    with pytest.raises(
        TypeError, match=r"^\[draft\] Expected a Draft, got (NoneType|tuple|list)\.$"
    ):
        next(stream)
    assert sampler.history == [*PROMPT, token]


@pytest.mark.parametrize("drafter", [None, 5, LookupDrafter])
def test_what_is_no_drafter(tiny_model, drafter):
    with pytest.raises(TypeError, match=r"^\[drafter\] Expected a Drafter or a model, got "):
        speculative_stream(tiny_model, drafter, PROMPT)
