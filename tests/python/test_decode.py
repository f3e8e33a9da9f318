"""What both decode loops promise about their cache, their model and their arguments."""

import gc

import mlx.core as mx
import mlx.nn as nn
import pytest
from test_greedy import DEPTHS, PROMPT, assert_holds, mlx_lm_greedy
from tiny_models import VOCAB, Poisoned, tiny_llama

from mlx_sampling import Sampler, greedy_stream, sample_stream
from mlx_sampling.errors import CacheNotRestoredError

mlx_lm_cache = pytest.importorskip("mlx_lm.models.cache")


def greedy(model, prompt, **options):
    return greedy_stream(model, prompt, **options)


def seeded(model, prompt, **options):
    return sample_stream(model, prompt, Sampler(temperature=0), **options)


STREAMS = pytest.mark.parametrize("stream_of", [greedy, seeded])


@STREAMS
def test_a_stream_that_has_ended_cuts_nothing_later(tiny_model, stream_of):
    cache = tiny_model.make_cache()
    first = stream_of(tiny_model, PROMPT, max_tokens=3, prompt_cache=cache)
    for _ in range(3):
        next(first)
    list(stream_of(tiny_model, [7, 8], max_tokens=4, prompt_cache=cache))
    offset = cache[0].offset
    del first
    gc.collect()
    assert offset == cache[0].offset == len(PROMPT) + 3 + 2 + 4


@STREAMS
def test_a_new_stream_ends_an_abandoned_one(tiny_model, stream_of):
    cache = tiny_model.make_cache()
    abandoned = stream_of(tiny_model, PROMPT, max_tokens=20, prompt_cache=cache)
    held = [next(abandoned) for _ in range(2)]
    tokens = list(stream_of(tiny_model, [7, 8], max_tokens=4, prompt_cache=cache))
    closed = tiny_model.make_cache()
    stream = stream_of(tiny_model, PROMPT, max_tokens=20, prompt_cache=closed)
    assert held == [next(stream) for _ in range(2)]
    stream.close()
    assert tokens == list(stream_of(tiny_model, [7, 8], max_tokens=4, prompt_cache=closed))
    with pytest.raises(RuntimeError, match="another has taken over"):
        next(abandoned)
    assert cache[0].offset == closed[0].offset


@STREAMS
def test_somebody_elses_tokens_are_not_cut(tiny_model, stream_of):
    cache = tiny_model.make_cache()
    stream = stream_of(tiny_model, PROMPT, max_tokens=20, prompt_cache=cache)
    next(stream)
    tiny_model(mx.array([[1, 2, 3]]), cache=cache)
    offset = cache[0].offset
    stream.close()
    assert cache[0].offset == offset


class Bare:
    """A model that tells nothing about itself."""

    def __init__(self, model):
        self._model = model

    def make_cache(self):
        return self._model.make_cache()

    def __call__(self, tokens, cache):
        return self._model(tokens, cache=cache)


@STREAMS
def test_prompt_ids_are_checked_even_where_the_model_tells_nothing(tiny_model, stream_of):
    cache = tiny_model.make_cache()
    bad = stream_of(Bare(tiny_model), [5, 9_999_999], prompt_cache=cache)
    with pytest.raises(ValueError, match=rf"^\[prompt\] Expected token ids in \[0, {VOCAB}\)"):
        next(bad)
    assert cache[0].offset == 0
    same = stream_of(Bare(tiny_model), PROMPT, max_tokens=5)
    assert list(same) == mlx_lm_greedy(tiny_model, PROMPT, 5)


def test_the_vocabulary_is_found_where_models_keep_it(tiny_model):
    class TextConfig:
        args = type("Args", (), {"text_config": {"vocab_size": 40}})()

    from mlx_sampling.decode import vocab_size_of

    assert vocab_size_of(TextConfig()) == 40
    assert vocab_size_of(tiny_model) == VOCAB
    without_args = nn.Module()
    assert vocab_size_of(without_args) is None
    without_args.wte = nn.Embedding(33, 4)
    assert vocab_size_of(without_args) == 33


@STREAMS
def test_a_head_wider_than_the_embedding(tiny_model, stream_of):
    class Wide(Bare):
        args = tiny_model.args

        def __call__(self, tokens, cache):
            logits = super().__call__(tokens, cache)
            top = mx.full((*logits.shape[:-1], 3), 1e6)
            return mx.concatenate([logits, top], axis=-1)

    stream = stream_of(Wide(tiny_model), PROMPT)
    with pytest.raises(
        ValueError, match=rf"below the {VOCAB} ids that the model embeds, got {VOCAB}"
    ):
        next(stream)


@STREAMS
@pytest.mark.parametrize("shape", [(1, VOCAB), (2, 1, VOCAB)])
def test_logits_of_another_shape(tiny_model, stream_of, shape):
    class Odd(Bare):
        def __call__(self, tokens, cache):
            super().__call__(tokens, cache)
            return mx.zeros(shape)

    cache = tiny_model.make_cache()
    with pytest.raises(ValueError, match=r"^\[model\] Expected logits \[1, 1, V\], got shape"):
        next(stream_of(Odd(tiny_model), [1], prompt_cache=cache))
    assert {layer.offset for layer in cache} == {0}


@STREAMS
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_a_cache_of_another_model(tiny_model, stream_of, layers):
    cache = [mlx_lm_cache.KVCache() for _ in range(layers)]
    with pytest.raises(ValueError, match=rf"^\[prompt_cache\] Expected 2 layers, got {layers}"):
        stream_of(tiny_model, PROMPT, prompt_cache=cache)


def test_sample_stream_wants_a_sampler(tiny_model):
    with pytest.raises(TypeError, match=r"^\[sampler\] Expected a Sampler, got NoneType"):
        sample_stream(tiny_model, PROMPT, None)


class Untrimmable(mlx_lm_cache.KVCache):
    def is_trimmable(self):
        return False


@STREAMS
def test_a_cache_that_cannot_be_restored_is_named(tiny_model, stream_of):
    class Failing(Bare):
        calls = 0

        def __call__(self, tokens, cache):
            self.calls += 1
            logits = super().__call__(tokens, cache)
            if self.calls == 3:
                raise MemoryError("no room")
            return logits

    cache = [Untrimmable() for _ in range(2)]
    with pytest.raises(CacheNotRestoredError, match=r"make a new cache\. The failure: no room"):
        list(stream_of(Failing(tiny_model), PROMPT, prompt_cache=cache))


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", ["ConcatenateKVCache", "ChunkedKVCache"])
def test_caches_whose_trim_does_not_restore_are_not_run_ahead(tiny_model, kind, depth):
    made = getattr(mlx_lm_cache, kind)

    def new():
        return [made(64) if kind == "ChunkedKVCache" else made() for _ in range(2)]

    whole = list(greedy_stream(tiny_model, PROMPT, max_tokens=12))
    cache = new()
    stream = greedy_stream(tiny_model, PROMPT, max_tokens=12, prompt_cache=cache, in_flight=depth)
    tokens = [next(stream) for _ in range(5)]
    stream.close()
    assert tokens == whole[:5]
    assert {layer.offset for layer in cache} == {len(PROMPT) + 5}
    fresh = tiny_model.make_cache()
    tiny_model(mx.array([PROMPT + tokens]), cache=fresh)
    after = list(greedy_stream(tiny_model, [9], max_tokens=6, prompt_cache=cache))
    assert after == list(greedy_stream(tiny_model, [9], max_tokens=6, prompt_cache=fresh))


def test_poisoned_rows_at_the_first_step_keep_the_prompt():
    model = tiny_llama(seed=1)
    cache = model.make_cache()
    stream = greedy_stream(Poisoned(model, 5, float("nan")), PROMPT, prompt_cache=cache)
    with pytest.raises(ValueError, match="at step 0"):
        next(stream)
    assert_holds(model, cache, [])
