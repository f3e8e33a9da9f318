"""sample_stream: seeded tokens, the errors, and what the cache holds afterwards."""

import mlx.core as mx
import numpy as np
import pytest
from test_greedy import PROMPT, assert_holds
from tiny_models import Poisoned

from mlx_sampling import NonfiniteLogitsError, Sampler, greedy_stream, sample_stream

NAN = float("nan")


def tokens_of(model, seed, count=20, temperature=1.0):
    sampler = Sampler(temperature=temperature, seed=seed)
    return list(sample_stream(model, PROMPT, sampler, max_tokens=count))


def test_temperature_zero_equals_the_greedy_route(tiny_model):
    greedy = list(greedy_stream(tiny_model, PROMPT, max_tokens=40))
    assert tokens_of(tiny_model, 1, count=40, temperature=0) == greedy


def test_seeds(tiny_model):
    assert tokens_of(tiny_model, 5) == tokens_of(tiny_model, 5) != tokens_of(tiny_model, 6)


def test_tokens_are_those_of_the_rows(tiny_model):
    """The loop adds nothing: the same rows, one by one, give the same tokens."""
    tokens = tokens_of(tiny_model, 9)
    sampler = Sampler(temperature=1.0, seed=9)
    cache = tiny_model.make_cache()
    feed = PROMPT[:-1]
    tiny_model(mx.array([feed]), cache=cache)
    feed = PROMPT[-1]
    for token in tokens:
        row = np.array(tiny_model(mx.array([[feed]]), cache=cache)[0, -1])
        assert sampler.sample(row) == token
        feed = token


@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_cache_after_an_early_stop(tiny_model, count):
    cache = tiny_model.make_cache()
    sampler = Sampler(temperature=1.0, seed=2)
    stream = sample_stream(tiny_model, PROMPT, sampler, max_tokens=12, prompt_cache=cache)
    tokens = [next(stream) for _ in range(count)]
    stream.close()
    assert_holds(tiny_model, cache, tokens)


@pytest.mark.parametrize("step", [0, 1, 5])
def test_nonfinite_row(tiny_model, step):
    model = Poisoned(tiny_model, len(PROMPT) + step, NAN)
    cache = tiny_model.make_cache()
    sampler = Sampler(temperature=1.0, seed=2)
    tokens = []
    with pytest.raises(NonfiniteLogitsError, match=f"at step {step}"):
        for token in sample_stream(model, PROMPT, sampler, prompt_cache=cache):
            tokens.append(token)
    assert tokens == tokens_of(tiny_model, 2)[:step]
    assert sampler.row is None
    assert_holds(tiny_model, cache, tokens)


def test_stop_tokens(tiny_model):
    whole = tokens_of(tiny_model, 4)
    stop = whole[8]
    sampler = Sampler(temperature=1.0, seed=4)
    stream = sample_stream(tiny_model, PROMPT, sampler, stop_tokens={stop})
    assert list(stream) == whole[: whole.index(stop) + 1]


def test_bad_arguments(tiny_model):
    with pytest.raises(ValueError, match=r"\[max_tokens\] Expected an int >= 1, got 0"):
        sample_stream(tiny_model, PROMPT, Sampler(), max_tokens=0)
    with pytest.raises(ValueError, match=r"\[prompt\] Expected at least one token id"):
        sample_stream(tiny_model, [], Sampler())


def test_the_prompt_and_the_tokens_join_the_history(tiny_model):
    sampler = Sampler(temperature=1.0, seed=3, repeat_penalty=1.3)
    stream = sample_stream(tiny_model, PROMPT, sampler, max_tokens=6)
    tokens = list(stream)
    assert sampler.history == PROMPT + tokens
    plain = Sampler(temperature=1.0, seed=3)
    assert list(sample_stream(tiny_model, PROMPT, plain, max_tokens=40)) != list(
        sample_stream(
            tiny_model, PROMPT, Sampler(temperature=1.0, seed=3, repeat_penalty=3.0), max_tokens=40
        )
    )


def test_a_failing_forward_pass_gives_its_draw_back(tiny_model):
    class Failing:
        calls = 0
        args = tiny_model.args

        def make_cache(self):
            return tiny_model.make_cache()

        def __call__(self, tokens, cache):
            self.calls += 1
            if self.calls == 5:
                raise MemoryError("no room")
            return tiny_model(tokens, cache=cache)

    sampler = Sampler(temperature=1.0, seed=2)
    tokens = []
    with pytest.raises(MemoryError):
        for token in sample_stream(Failing(), PROMPT, sampler):
            tokens.append(token)
    assert len(tokens) == 2
    witness = Sampler(temperature=1.0, seed=2)
    stream = sample_stream(tiny_model, PROMPT, witness)
    assert [next(stream) for _ in range(2)] == tokens
    assert sampler.snapshot() == witness.snapshot()
