"""greedy_stream: the tokens, the errors, and what the cache holds afterwards."""

import gc

import mlx.core as mx
import pytest
from tiny_models import VOCAB, Poisoned, tiny_llama

from mlx_sampling import NonfiniteLogitsError, greedy_stream

mlx_lm_generate = pytest.importorskip("mlx_lm.generate")
mlx_lm_cache = pytest.importorskip("mlx_lm.models.cache")

PROMPT = [3, 1, 4, 1, 5]
DEPTHS = [0, 1, 2, 5]


def mlx_lm_greedy(model, prompt, count, **options):
    steps = mlx_lm_generate.generate_step(mx.array(prompt), model, max_tokens=count, **options)
    return [int(token) for token, _ in steps]


def held(cache):
    """Keys and values that a cache holds, as bytes per layer."""
    mx.eval([layer.state for layer in cache])
    return [
        tuple(bytes(memoryview(a[..., : layer.offset, :])) for a in (layer.keys, layer.values))
        for layer in cache
    ]


def assert_holds(model, cache, tokens):
    """The cache holds exactly the prompt and `tokens`, bit for bit what feeding them gives."""
    assert {layer.offset for layer in cache} == {len(PROMPT) + len(tokens)}
    fresh = model.make_cache()
    model(mx.array([PROMPT[:-1]]), cache=fresh)
    for token in [PROMPT[-1], *tokens]:
        model(mx.array([[token]]), cache=fresh)
    assert held(cache) == held(fresh)


@pytest.mark.parametrize("depth", DEPTHS)
def test_same_tokens_as_mlx_lm(tiny_model, depth):
    ours = list(greedy_stream(tiny_model, PROMPT, max_tokens=40, in_flight=depth))
    assert ours == mlx_lm_greedy(tiny_model, PROMPT, 40)
    assert len(set(ours)) > 5


def test_token_identical_over_256_tokens_on_the_packaged_model(packaged):
    model, tokenizer = packaged
    prompt = tokenizer.encode("The history of mathematics begins with")
    ours = list(greedy_stream(model, prompt, max_tokens=256))
    assert len(ours) == 256
    assert ours == mlx_lm_greedy(model, prompt, 256)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("step", [0, 1, 2, 7])
def test_nonfinite_row_raises_at_its_step(tiny_model, step, depth, value):
    model = Poisoned(tiny_model, len(PROMPT) + step, value)
    cache = tiny_model.make_cache()
    tokens = []
    with pytest.raises(NonfiniteLogitsError, match=rf"at step {step}, got NaN.*: {step} tokens"):
        for token in greedy_stream(
            model, PROMPT, max_tokens=20, prompt_cache=cache, in_flight=depth
        ):
            tokens.append(token)
    assert tokens == list(greedy_stream(tiny_model, PROMPT, max_tokens=20))[:step]
    assert_holds(tiny_model, cache, tokens)
    assert all(int(fed.max()) < VOCAB for fed in model.fed)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("count", [1, 2, 3, 9, 12])
def test_cache_after_an_early_stop(tiny_model, count, depth):
    cache = tiny_model.make_cache()
    stream = greedy_stream(tiny_model, PROMPT, max_tokens=12, prompt_cache=cache, in_flight=depth)
    tokens = [next(stream) for _ in range(count)]
    stream.close()
    assert_holds(tiny_model, cache, tokens)


@pytest.mark.parametrize("depth", DEPTHS)
def test_cache_after_the_last_token_even_before_close(tiny_model, depth):
    cache = tiny_model.make_cache()
    stream = greedy_stream(tiny_model, PROMPT, max_tokens=4, prompt_cache=cache, in_flight=depth)
    tokens = [next(stream) for _ in range(4)]
    assert_holds(tiny_model, cache, tokens)
    assert list(stream) == []


def test_going_on_with_the_cache_gives_the_same_text(tiny_model):
    whole = list(greedy_stream(tiny_model, PROMPT, max_tokens=30))
    cache = tiny_model.make_cache()
    stream = greedy_stream(tiny_model, PROMPT, max_tokens=30, prompt_cache=cache)
    first = [next(stream) for _ in range(11)]
    del stream
    gc.collect()
    # The cache holds all of `first`; its last token's row is made again from a cache one shorter.
    mlx_lm_cache.trim_prompt_cache(cache, 1)
    rest = list(greedy_stream(tiny_model, first[-1:], max_tokens=19, prompt_cache=cache))
    assert first + rest == whole


@pytest.mark.parametrize("depth", DEPTHS)
def test_stop_tokens(tiny_model, depth):
    whole = list(greedy_stream(tiny_model, PROMPT, max_tokens=20))
    stop = whole[6]
    expected = whole[: whole.index(stop) + 1]
    cache = tiny_model.make_cache()
    stream = greedy_stream(
        tiny_model, PROMPT, stop_tokens=[stop], prompt_cache=cache, in_flight=depth
    )
    assert list(stream) == expected
    assert_holds(tiny_model, cache, expected)


def test_excluded_tokens_never_come(tiny_model):
    whole = list(greedy_stream(tiny_model, PROMPT, max_tokens=20))
    without = list(greedy_stream(tiny_model, PROMPT, max_tokens=20, excluded={whole[0]}))
    assert whole[0] not in without


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("count", [1, 3, 4, 5, 6, 14])
def test_rotating_cache(tiny_model, count, depth):
    """A full rotating cache cannot be cut back: the run must not queue what it may have to drop."""

    def rotating():
        return [mlx_lm_cache.RotatingKVCache(max_size=10, keep=2) for _ in range(2)]

    cache = rotating()
    stream = greedy_stream(tiny_model, PROMPT, max_tokens=20, prompt_cache=cache, in_flight=depth)
    tokens = [next(stream) for _ in range(count)]
    stream.close()
    assert tokens == mlx_lm_greedy(tiny_model, PROMPT, 20, prompt_cache=rotating())[:count]
    assert {layer.offset for layer in cache} == {len(PROMPT) + count}


class Untrimmable(mlx_lm_cache.KVCache):
    def is_trimmable(self):
        return False

    def trim(self, n):
        raise AssertionError("trimmed")


@pytest.mark.parametrize("depth", DEPTHS)
def test_untrimmable_cache(tiny_model, depth):
    whole = list(greedy_stream(tiny_model, PROMPT, max_tokens=20))
    cache = [Untrimmable(), Untrimmable()]
    stream = greedy_stream(tiny_model, PROMPT, max_tokens=20, prompt_cache=cache, in_flight=depth)
    tokens = [next(stream) for _ in range(7)]
    stream.close()
    assert tokens == whole[:7]
    assert_holds(tiny_model, cache, tokens)
    cache = [Untrimmable(), Untrimmable()]
    poisoned = Poisoned(tiny_model, len(PROMPT) + 3, float("nan"))
    with pytest.raises(NonfiniteLogitsError, match="at step 3"):
        list(greedy_stream(poisoned, PROMPT, prompt_cache=cache, in_flight=depth))
    assert_holds(tiny_model, cache, whole[:3])


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_cache_whose_offset_is_an_array(tiny_model, depth):
    """mlx-lm's batch caches count on the device: what to cut is known from what was fed."""
    whole = list(greedy_stream(tiny_model, PROMPT, max_tokens=20))
    cache = [mlx_lm_cache.BatchKVCache([0]) for _ in range(2)]
    stream = greedy_stream(tiny_model, PROMPT, max_tokens=20, prompt_cache=cache, in_flight=depth)
    tokens = [next(stream) for _ in range(7)]
    stream.close()
    assert tokens == whole[:7]
    assert {int(layer.offset.item()) for layer in cache} == {len(PROMPT) + 7}


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_failing_forward_pass_leaves_whole_layers(tiny_model, depth):
    """A pass that fails between two layers must not leave one cache longer than the other."""

    class Failing:
        calls = 0

        def __call__(self, tokens, cache):
            self.calls += 1
            if self.calls == 6:
                cache[0].update_and_fetch(mx.zeros((1, 2, 1, 8)), mx.zeros((1, 2, 1, 8)))
                raise RuntimeError("out of memory")
            return tiny_model(tokens, cache=cache)

    cache = tiny_model.make_cache()
    tokens = []
    with pytest.raises(RuntimeError, match="out of memory"):
        for token in greedy_stream(Failing(), PROMPT, prompt_cache=cache, in_flight=depth):
            tokens.append(token)
    assert_holds(tiny_model, cache, tokens)


def test_a_failing_prefill_restores_the_cache(tiny_model):
    cache = tiny_model.make_cache()
    list(greedy_stream(tiny_model, PROMPT, max_tokens=3, prompt_cache=cache))
    before = held(cache)

    class Failing:
        calls = 0

        def __call__(self, tokens, cache):
            self.calls += 1
            if self.calls == 3:
                raise RuntimeError("no")
            return tiny_model(tokens, cache=cache)

    with pytest.raises(RuntimeError, match="no"):
        list(greedy_stream(Failing(), PROMPT, prompt_cache=cache, prefill_step_size=2))
    assert held(cache) == before


@pytest.mark.parametrize("step_size", [1, 2, 4, 5, 100])
def test_prefill_in_pieces(step_size):
    model = tiny_llama(seed=3)
    prompt = [int(i * i % VOCAB) for i in range(1, 12)]
    ours = greedy_stream(model, mx.array(prompt), max_tokens=8, prefill_step_size=step_size)
    assert list(ours) == mlx_lm_greedy(model, prompt, 8)


BAD = [
    ({"prompt": []}, ValueError, r"\[prompt\] Expected at least one token id, got none"),
    ({"prompt": [1, -2]}, ValueError, r"\[prompt\] Expected an int in \[0, 2147483647\], got -2"),
    (
        {"prompt": "hello"},
        TypeError,
        r"\[prompt\] Expected token ids \[T\], got str: the tokenizer",
    ),
    ({"prompt": [1.5]}, TypeError, r"\[prompt\] Expected an int in .*, got 1.5"),
    ({"prompt": [True]}, TypeError, r"\[prompt\] Expected an int in .*, got True"),
    ({"prompt": mx.array([[1]])}, ValueError, r"\[prompt\] Expected token ids \[T\], got shape"),
    (
        {"prompt": [1, VOCAB]},
        ValueError,
        rf"\[prompt\] Expected token ids in \[0, {VOCAB}\), got {VOCAB}",
    ),
    ({"prompt": [2_000_000_000]}, ValueError, r"\[prompt\] .* got 2000000000"),
    (
        {"excluded": [VOCAB]},
        ValueError,
        rf"\[excluded\] Expected token ids in \[0, {VOCAB}\), got {VOCAB}",
    ),
    ({"max_tokens": 0}, ValueError, r"\[max_tokens\] Expected an int >= 1, got 0"),
    ({"max_tokens": 2.0}, TypeError, r"\[max_tokens\] Expected an int >= 1, got 2.0"),
    ({"in_flight": -1}, ValueError, r"\[in_flight\] Expected an int >= 0, got -1"),
    ({"prefill_step_size": 0}, ValueError, r"\[prefill_step_size\] Expected an int >= 1, got 0"),
    (
        {"stop_tokens": [-1]},
        ValueError,
        r"\[stop_tokens\] Expected an int in \[0, 2147483647\], got -1",
    ),
    ({"excluded": ["a"]}, TypeError, r"\[excluded\] Expected an int in .*, got 'a'"),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD)
def test_bad_arguments_are_refused_by_the_call(tiny_model, options, kind, message):
    arguments = {"prompt": PROMPT, **options}
    with pytest.raises(kind, match=message):
        greedy_stream(tiny_model, arguments.pop("prompt"), **arguments)
