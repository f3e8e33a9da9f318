"""speculative_stream: greedy tokens, sampler and cache afterwards, errors, figures."""

import mlx.core as mx
import numpy as np
import pytest
from test_greedy import PROMPT, assert_holds
from tiny_models import VOCAB, Poisoned, tiny_llama

from mlx_sampling import (
    LookupDrafter,
    ModelDrafter,
    NonfiniteLogitsError,
    Sampler,
    greedy_stream,
    sample_stream,
    speculative_stream,
)
from mlx_sampling.drafters import Draft, Drafter
from mlx_sampling.errors import AcceptanceError, CacheNotRestoredError
from mlx_sampling.speculative import draft_seed

mlx_lm_cache = pytest.importorskip("mlx_lm.models.cache")

NAN = float("nan")
PENALISED = {"repeat_penalty": 1.2, "dry_multiplier": 0.4, "dry_sequence_breakers": ()}


class Oracle(Drafter):
    """Drafts what it is told comes, with every `wrong`th token changed."""

    def __init__(self, tokens, wrong=0):
        self.tokens, self.wrong = tokens, wrong

    def begin(self, prompt, sampler, excluded):
        self.at = 0

    def propose(self, tokens, count):
        self.at += len(tokens)
        drafted = self.tokens[self.at : self.at + count]
        if self.wrong:
            drafted = [
                (t + 1) % VOCAB if (self.at + i) % self.wrong == 0 else t
                for i, t in enumerate(drafted)
            ]
        return Draft(drafted)


DRAFTERS = {
    "lookup": lambda model, tokens: LookupDrafter(),
    "same model": lambda model, tokens: model,
    "fewer layers": lambda model, tokens: tiny_llama(0, layers=1),
    "another model": lambda model, tokens: ModelDrafter(tiny_llama(1)),
    "right": lambda model, tokens: Oracle(tokens),
    "half right": lambda model, tokens: Oracle(tokens, 3),
    "none": lambda model, tokens: Oracle([]),
}
EVERY_DRAFTER = pytest.mark.parametrize("drafter_of", DRAFTERS.values(), ids=DRAFTERS.keys())


@EVERY_DRAFTER
@pytest.mark.parametrize("draft_tokens", [1, 4])
def test_greedy_tokens_are_those_of_the_plain_route(tiny_model, drafter_of, draft_tokens):
    plain = list(greedy_stream(tiny_model, PROMPT, max_tokens=256))
    stream = speculative_stream(
        tiny_model,
        drafter_of(tiny_model, plain),
        PROMPT,
        draft_tokens=draft_tokens,
        max_tokens=256,
    )
    assert list(stream) == plain
    assert stream.figures.tokens == 256


@EVERY_DRAFTER
def test_greedy_with_penalties(tiny_model, drafter_of):
    def sampler():
        return Sampler(temperature=0, logit_bias={7: 2.0}, **PENALISED)

    plain = list(sample_stream(tiny_model, PROMPT, sampler(), max_tokens=100))
    ours = sampler()
    drafter = drafter_of(tiny_model, plain)
    assert list(speculative_stream(tiny_model, drafter, PROMPT, ours, max_tokens=100)) == plain
    assert ours.history == PROMPT + plain
    assert ours._state.distribution.position == 0


def test_excluded_winners(tiny_model):
    plain = list(greedy_stream(tiny_model, PROMPT, max_tokens=30))
    never = plain[:3]
    expected = list(greedy_stream(tiny_model, PROMPT, max_tokens=30, excluded=never))
    for drafter in (LookupDrafter(), tiny_model):
        stream = speculative_stream(tiny_model, drafter, PROMPT, max_tokens=30, excluded=never)
        assert list(stream) == expected != plain
    assert stream.figures.acceptance == 1  # the drafter excludes them too


def sampled(model, drafter, cache=None, **options):
    sampler = Sampler(temperature=1.0, seed=2, **PENALISED)
    stream = speculative_stream(model, drafter, PROMPT, sampler, prompt_cache=cache, **options)
    return stream, sampler


def greedy(model, drafter, cache=None, **options):
    return speculative_stream(model, drafter, PROMPT, prompt_cache=cache, **options), None


STREAMS = pytest.mark.parametrize("stream_of", [sampled, greedy])


@STREAMS
@pytest.mark.parametrize("count", [1, 2, 3, 5, 11, 12])
@pytest.mark.parametrize("wrong", [0, 3])
def test_after_an_early_stop(tiny_model, stream_of, count, wrong):
    """Cache, history and streams are those of the tokens handed out, in the middle of a pass too."""
    whole, _ = stream_of(tiny_model, Oracle([]), max_tokens=12)
    drafter = Oracle(list(whole), wrong)
    cache = tiny_model.make_cache()
    stream, sampler = stream_of(tiny_model, drafter, cache, max_tokens=12)
    tokens = [next(stream) for _ in range(count)]
    stream.close()
    assert_holds(tiny_model, cache, tokens)
    assert stream.figures.tokens == count
    if sampler is not None:
        assert sampler.history == PROMPT + tokens
        again, other = stream_of(tiny_model, drafter, max_tokens=12)
        assert [next(again) for _ in range(count)] == tokens
        assert sampler.snapshot() == other.snapshot()
        assert sampler._state.distribution.position <= 3 * count


@STREAMS
def test_stop_tokens(tiny_model, stream_of):
    whole = list(stream_of(tiny_model, tiny_model, max_tokens=40)[0])
    stop = whole[7]
    cache = tiny_model.make_cache()
    stream, _ = stream_of(tiny_model, tiny_model, cache, max_tokens=40, stop_tokens={stop})
    tokens = list(stream)
    assert tokens == whole[: whole.index(stop) + 1]
    assert_holds(tiny_model, cache, tokens)


@STREAMS
def test_going_on_from_a_cache(tiny_model, stream_of):
    """Both caches: two runs in a row leave what one does."""
    drafter_cache = tiny_model.make_cache()
    cache = tiny_model.make_cache()
    tokens = []
    for _ in range(3):
        drafter = ModelDrafter(tiny_model, prompt_cache=drafter_cache)
        stream, _ = stream_of(tiny_model, drafter, cache, max_tokens=7)
        tokens += PROMPT + list(stream)
        assert drafter_cache[0].offset == cache[0].offset == len(tokens)
    for layer, other in zip(cache, drafter_cache, strict=True):
        size = layer.offset
        assert mx.allclose(layer.keys[..., :size, :], other.keys[..., :size, :], atol=1e-4)


def test_words_drawn(tiny_model):
    """One per draft looked at, two per token that is none; the others stay where they are."""
    sampler = Sampler(temperature=1.0, seed=5, vocab_size=VOCAB)
    others = [getattr(sampler._state, n).snapshot() for n in ("xtc", "mirostat", "adaptive")]
    drafter = ModelDrafter(tiny_llama(0, layers=1), Sampler(temperature=2.0))
    stream = speculative_stream(tiny_model, drafter, PROMPT, sampler, max_tokens=60)
    list(stream)
    figures = stream.figures
    judged = sum(p.judged for p in figures.positions)
    assert 0 < figures.accepted < judged <= figures.proposed
    words = judged + 2 * (figures.tokens - figures.accepted)
    assert sampler._state.distribution.position == words
    assert [
        getattr(sampler._state, n).snapshot() for n in ("xtc", "mirostat", "adaptive")
    ] == others


@pytest.mark.parametrize(
    "options",
    [
        {"mirostat": 2, "mirostat_tau": 3.0},
        {"mirostat": 1, "mirostat_tau": 3.0},
        {"samplers": "eka", "adaptive_target": 0.3, **PENALISED},
        {"dynatemp_range": 0.5, "typical_p": 0.9},
    ],
)
def test_the_same_model_drafts_what_the_request_would(tiny_model, options):
    """p = q at every step, so all drafts are kept: only if both sides' state is the same all along."""
    sampler = Sampler(seed=4, vocab_size=VOCAB, **options)
    stream = speculative_stream(tiny_model, tiny_model, PROMPT, sampler, max_tokens=60)
    assert len(list(stream)) == 60
    assert stream.figures.acceptance > 0.97
    assert stream.figures.tokens_per_pass > 4


def test_the_drafter_has_a_stream_of_its_own(tiny_model):
    """Of the documented seed; a request that goes on gets another one."""
    drafter, sampler = ModelDrafter(tiny_model), Sampler(seed=42, temperature=1.0)
    for _ in range(2):
        position = sampler._state.distribution.position
        stream = speculative_stream(tiny_model, drafter, PROMPT, sampler, max_tokens=5)
        next(stream)
        assert drafter._request.seed == draft_seed(42, position)
        list(stream)
    assert sampler.seed == 42
    assert sampler._state.distribution.position > 0


@STREAMS
@pytest.mark.parametrize("step", [0, 1, 4, 5, 6])
def test_nonfinite_row(tiny_model, stream_of, step):
    """The error comes at its step, though the row was seen with those before it."""
    whole = list(stream_of(tiny_model, Oracle([]), max_tokens=12)[0])

    class LateNan(Poisoned):
        def __call__(self, tokens, cache=None):
            start = cache[0].offset
            logits = self.model(tokens, cache=cache)
            at = len(PROMPT) + step - 1 - start
            if 0 <= at < tokens.shape[-1]:
                logits[:, at, 5] = self.value
            return logits

    cache = tiny_model.make_cache()
    model = LateNan(tiny_model, 0, NAN)
    stream, sampler = stream_of(model, Oracle(whole), cache, max_tokens=12)
    tokens = []
    with pytest.raises(NonfiniteLogitsError, match=f"at step {step}"):
        for token in stream:
            tokens.append(token)
    assert len(tokens) == step
    assert_holds(tiny_model, cache, tokens)
    if sampler is not None:
        assert sampler.row is None
        assert sampler.history == PROMPT + tokens
        again, other = stream_of(tiny_model, Oracle(whole), max_tokens=12)
        for _ in range(step):
            next(again)
        again.close()
        if step:
            assert sampler.snapshot() == other.snapshot()


@STREAMS
def test_nonfinite_row_of_the_draft_model(tiny_model, stream_of):
    cache = tiny_model.make_cache()
    drafter = Poisoned(tiny_model, len(PROMPT) + 6, NAN)
    stream, _ = stream_of(tiny_model, drafter, cache, max_tokens=20)
    tokens = []
    with pytest.raises(NonfiniteLogitsError, match=r"\[draft_model\]"):
        for token in stream:
            tokens.append(token)
    assert 0 < len(tokens) < 7
    assert_holds(tiny_model, cache, tokens)


@STREAMS
@pytest.mark.parametrize("call", [2, 3])
def test_a_failing_forward_pass(tiny_model, stream_of, call):
    """What it was to judge is given back; the token before it, which only it had fed, is not."""

    class Failing:
        args = tiny_model.args
        calls = 0

        def make_cache(self):
            return tiny_model.make_cache()

        def __call__(self, tokens, cache):
            self.calls += 1
            if self.calls == call + 1:  # the prompt takes two
                raise MemoryError("no room")
            return tiny_model(tokens, cache=cache)

    cache = tiny_model.make_cache()
    stream, sampler = stream_of(Failing(), tiny_model, cache, max_tokens=20)
    tokens = []
    with pytest.raises(MemoryError):
        for token in stream:
            tokens.append(token)
    assert len(tokens) == 1 + 5 * (call - 2)
    assert_holds(tiny_model, cache, tokens)
    if sampler is not None:
        assert sampler.history == PROMPT + tokens


class Broken:
    """A model that fails for good at its third call."""

    def __init__(self, model):
        self.model, self.args, self.calls = model, model.args, 0

    def make_cache(self):
        return self.model.make_cache()

    def __call__(self, tokens, cache):
        self.calls += 1
        if self.calls > 2:
            raise MemoryError("no room")
        return self.model(tokens, cache=cache)


@STREAMS
def test_a_model_that_fails_for_good(tiny_model, stream_of):
    cache = tiny_model.make_cache()
    stream, _ = stream_of(Broken(tiny_model), tiny_model, cache, max_tokens=20)
    next(stream)
    with pytest.raises(CacheNotRestoredError, match=r"make a new cache\. The failure: no room"):
        next(stream)
    assert cache[0].offset == len(PROMPT)


def test_a_last_token_that_the_model_refuses_is_taken_back(tiny_model):
    cache, sampler = tiny_model.make_cache(), Sampler(seed=1, temperature=1.0)
    stream = speculative_stream(
        Broken(tiny_model), LookupDrafter(), PROMPT, sampler, max_tokens=1, prompt_cache=cache
    )
    with pytest.raises(MemoryError):
        next(stream)
    assert sampler.history == PROMPT
    assert sampler._state.distribution.position == 0
    assert cache[0].offset == len(PROMPT)


@STREAMS
def test_a_new_stream_ends_an_abandoned_one(tiny_model, stream_of):
    cache = tiny_model.make_cache()
    abandoned, _ = stream_of(tiny_model, tiny_model, cache, max_tokens=20)
    held = [next(abandoned) for _ in range(3)]
    other = greedy_stream(tiny_model, [7, 8], max_tokens=4, prompt_cache=cache)
    assert len(list(other)) == 4
    assert cache[0].offset == len(PROMPT) + len(held) + 2 + 4
    with pytest.raises(RuntimeError, match="another has taken over"):
        next(abandoned)


@pytest.mark.parametrize("drafter_of", [LookupDrafter, lambda: ModelDrafter(tiny_llama())])
def test_a_drafter_serves_one_run_at_a_time(tiny_model, drafter_of):
    drafter = drafter_of()
    first = speculative_stream(tiny_model, drafter, PROMPT, max_tokens=20)
    tokens = [next(first) for _ in range(3)]
    second = speculative_stream(tiny_model, drafter, PROMPT, max_tokens=20)
    with pytest.raises(RuntimeError, match=r"^\[drafter\] Expected a drafter that is free"):
        next(second)
    tokens += list(first)
    assert tokens == list(greedy_stream(tiny_model, PROMPT, max_tokens=20))
    stopped = speculative_stream(tiny_model, drafter, PROMPT, max_tokens=20)
    next(stopped)
    stopped.close()
    assert list(speculative_stream(tiny_model, drafter, PROMPT, max_tokens=20)) == tokens


def test_adaptive_length(tiny_model):
    plain = list(greedy_stream(tiny_model, PROMPT, max_tokens=200))
    proposed = {}
    for name, drafter in {"right": Oracle(plain), "wrong": Oracle(plain, 1)}.items():
        for adaptive in (False, True):
            stream = speculative_stream(
                tiny_model, drafter, PROMPT, draft_tokens=6, adaptive=adaptive, max_tokens=200
            )
            assert list(stream) == plain
            proposed[name, adaptive] = stream.figures.proposed
    assert proposed["wrong", True] < 0.4 * proposed["wrong", False]
    assert proposed["right", True] > 0.8 * proposed["right", False]


def test_figures(tiny_model):
    plain = list(greedy_stream(tiny_model, PROMPT, max_tokens=10))
    stream = speculative_stream(tiny_model, Oracle(plain, 4), PROMPT, draft_tokens=3, max_tokens=10)
    assert list(stream) == plain
    figures = stream.figures
    # Passes: the prompt's (0); 1-3 and then 4 for the wrong one; 5-7, 8; 9 without a draft.
    assert (figures.tokens, figures.target_passes) == (10, 4)
    assert [p.proposed for p in figures.positions] == [2, 2, 2]
    assert [p.accepted for p in figures.positions] == [2, 2, 2]
    assert figures.acceptance == 1
    figures.check_acceptance()
    stream = speculative_stream(tiny_model, Oracle(plain, 2), PROMPT, draft_tokens=3, max_tokens=10)
    list(stream)
    assert [p.judged for p in stream.figures.positions][:2] == [
        stream.figures.positions[0].proposed,
        stream.figures.positions[0].accepted,
    ]
    with pytest.raises(
        AcceptanceError, match=r"^\[acceptance\] Expected at least 0.95 of the drafts"
    ):
        stream.figures.check_acceptance()


VOCAB_BUT_ONE = 210


def bare(tiny_model, width=None):
    class Bare:
        def make_cache(self):
            return tiny_model.make_cache()

        def __call__(self, tokens, cache):
            return tiny_model(tokens, cache=cache)[..., :width]

    return Bare()


def test_vocabularies(tiny_model):
    class Smaller:
        args = type("Args", (), {"vocab_size": VOCAB_BUT_ONE})()

        def __call__(self, tokens, cache=None):
            raise AssertionError("nothing runs")

    message = (
        rf"^\[draft_model\] Expected a vocabulary of {VOCAB} ids, .* got one of {VOCAB_BUT_ONE}"
    )
    with pytest.raises(ValueError, match=message):
        speculative_stream(tiny_model, Smaller(), PROMPT)
    # Models that do not tell are found out by their rows.
    stream = speculative_stream(bare(tiny_model), bare(tiny_model, VOCAB_BUT_ONE), PROMPT)
    next(stream)
    with pytest.raises(ValueError, match=message):
        next(stream)


@pytest.mark.parametrize(
    "cache",
    [
        lambda: [mlx_lm_cache.RotatingKVCache(max_size=32) for _ in range(2)],
        lambda: [mlx_lm_cache.ArraysCache(1) for _ in range(2)],
    ],
)
def test_caches_that_cannot_be_cut_back(tiny_model, cache):
    with pytest.raises(ValueError, match=r"^\[prompt_cache\] Expected a cache from which rejected"):
        speculative_stream(tiny_model, LookupDrafter(), PROMPT, prompt_cache=cache(), max_tokens=64)
    with pytest.raises(ValueError, match=r"^\[draft_cache\] Expected"):
        drafter = ModelDrafter(tiny_model, prompt_cache=cache())
        list(speculative_stream(tiny_model, drafter, PROMPT, max_tokens=64))


@STREAMS
def test_a_rotating_cache_with_room(tiny_model, stream_of):
    plain = list(stream_of(tiny_model, Oracle([]), max_tokens=30)[0])
    cache = [mlx_lm_cache.RotatingKVCache(max_size=128) for _ in range(2)]
    stream, _ = stream_of(tiny_model, tiny_model, cache, max_tokens=30)
    tokens = list(stream)
    if stream_of is greedy:
        assert tokens == plain
    assert_holds(tiny_model, cache, tokens)


class Wrong(Drafter):
    def __init__(self, draft):
        self.draft = draft

    def propose(self, tokens, count):
        return self.draft


@STREAMS
@pytest.mark.parametrize(
    ("draft", "message"),
    [
        (Draft([1, 2, 3]), r"\[draft\] Expected at most 2 tokens, got 3"),
        (Draft([VOCAB]), rf"\[draft\] Expected token ids in \[0, {VOCAB}\), got {VOCAB}"),
        (Draft([-1]), r"\[draft\] Expected an int in"),
        (Draft(mx.zeros((1, 1), mx.uint32)), r"\[draft\] Expected uint32 \[k\]"),
        (Draft(mx.zeros(1)), r"\[draft\] Expected uint32 \[k\]"),
    ],
)
def test_bad_drafts(tiny_model, stream_of, draft, message):
    cache = tiny_model.make_cache()
    stream, sampler = stream_of(tiny_model, Wrong(draft), cache, draft_tokens=2, max_tokens=9)
    token = next(stream)
    with pytest.raises(ValueError, match=message):
        next(stream)
    assert_holds(tiny_model, cache, [token])
    assert sampler is None or sampler.history == [*PROMPT, token]


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        (Draft([1], []), r"\[draft\] Expected probs for each of 1 tokens, got 0"),
        (Draft([1], [np.ones(VOCAB, np.float32)]), "add up to 1"),
        (Draft([1], [np.ones(3, np.float32) / 3]), rf"Expected {VOCAB} probabilities"),
        (Draft([1], [np.ones(VOCAB) / VOCAB]), r"\[draft_probs\[0\]\] Expected float32"),
    ],
)
def test_bad_probs_of_drafts(tiny_model, draft, message):
    stream, sampler = sampled(tiny_model, Wrong(draft), max_tokens=9)
    token = next(stream)
    before = sampler.snapshot()
    with pytest.raises(ValueError, match=message):
        next(stream)
    assert sampler.snapshot() == before
    assert sampler.history == [*PROMPT, token]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"draft_tokens": 0}, ValueError, r"^\[draft_tokens\] Expected an int >= 1, got 0"),
        ({"draft_tokens": 1.5}, TypeError, r"^\[draft_tokens\] Expected an int"),
        ({"max_tokens": 0}, ValueError, r"^\[max_tokens\]"),
        ({"prompt": []}, ValueError, r"^\[prompt\] Expected at least one token id"),
        ({"sampler": 3}, TypeError, r"^\[sampler\] Expected a Sampler or None, got int"),
        ({"adaptive": 3}, TypeError, r"^\[adaptive\] Expected True or False"),
        ({"excluded": [VOCAB]}, ValueError, r"^\[excluded\] Expected token ids"),
        (
            {"excluded": [1], "sampler": Sampler()},
            ValueError,
            r"^\[excluded\] Expected none beside",
        ),
        (
            {"sampler": Sampler(xtc_probability=0.5)},
            ValueError,
            r"^\[xtc\] Expected a chain without",
        ),
    ],
)
def test_bad_arguments(tiny_model, options, error, message):
    with pytest.raises(error, match=message):
        speculative_stream(tiny_model, LookupDrafter(), options.pop("prompt", PROMPT), **options)


def test_bad_samplers_of_drafters(tiny_model):
    with pytest.raises(ValueError, match=r"^\[xtc\] Expected"):
        ModelDrafter(tiny_model, Sampler(xtc_probability=0.5))
    drafter = ModelDrafter(tiny_model, Sampler())
    with pytest.raises(ValueError, match=r"^\[sampler\] Expected a drafter without a sampler"):
        list(speculative_stream(tiny_model, drafter, PROMPT))


def test_the_packaged_model(packaged):
    """256 greedy tokens, drafted by the text."""
    model, tokenizer = packaged
    prompt = tokenizer.encode("Repeat after me: one two three, one two three, one two")
    plain = list(greedy_stream(model, prompt, max_tokens=256))
    stream = speculative_stream(model, LookupDrafter(), prompt, max_tokens=256)
    assert list(stream) == plain
    assert stream.figures.tokens_per_pass > 1
