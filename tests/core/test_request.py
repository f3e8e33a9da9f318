"""What a request keeps from step to step: history, padding, clones, one thread at a time."""

from __future__ import annotations

import contextlib
import threading
import time

import mlx.core as mx
import numpy as np
import pytest
from request_kinds import KINDS, WIDTH, row, run, sampler_of, streams

from mlx_sampling import stages
from mlx_sampling.errors import NonfiniteLogitsError
from mlx_sampling.sampler import Sampler

INF = float("inf")


def test_sample_does_not_accept():
    sampler = sampler_of("greedy", 1)
    assert len({sampler.sample(row(0)) for _ in range(5)}) == 1
    assert sampler.history == []
    sampler.accept_prompt(np.array([3, 4], np.uint32))
    sampler.accept(np.int64(5))
    assert sampler.history == [3, 4, 5]


def test_the_first_token_sees_the_prompt():
    rows = np.array([0, 1, 0.5], np.float32)
    first = Sampler(temperature=0, presence_penalty=1)
    assert first.sample(rows) == 1
    second = Sampler(temperature=0, presence_penalty=1)
    second.accept_prompt([1])
    assert second.sample(rows) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_outside_the_vocabulary_accepts_nothing(kind):
    sampler = sampler_of(kind, 1)
    run(sampler, 0, 3)
    before = sampler.snapshot()
    for tokens in ([1, 2, WIDTH], [WIDTH], [2**31 - 1, 0]):
        message = r"\[accept_prompt\] Expected a token id in \[0, 97\), got "
        with pytest.raises(ValueError, match=message):
            sampler.accept_prompt(tokens)
    for token, error in (
        (WIDTH, ValueError),
        (-1, ValueError),
        (1.0, TypeError),
        (True, TypeError),
    ):
        with pytest.raises(error, match=r"\[accept\] Expected "):
            sampler.accept(token)
    with pytest.raises(TypeError, match=r"\[accept_prompt\] Expected an int in .*, got 'a'\."):
        sampler.accept_prompt([1, "a"])
    assert sampler.snapshot() == before


def test_reset_forgets_the_history():
    sampler = sampler_of("adaptive_p", 3)
    first = run(sampler, 0, 30)
    sampler.reset()
    assert sampler.history == []
    assert run(sampler, 0, 30) == first


def padded(step: int, filler: float) -> np.ndarray:
    return np.concatenate([row(step), np.full(31, filler, np.float32)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("filler", [0.0, 99.0, float("nan"), INF, -INF])
def test_padding_is_nobody_s_input(kind, filler):
    plain, wide = sampler_of(kind, 4), sampler_of(kind, 4)
    for step in range(25):
        token = plain.sample(row(step))
        array = padded(step, filler)
        assert wide.sample(mx.array(array)[None] if step % 2 else array) == token
        plain.accept(token)
        wide.accept(token)
        assert wide.row.tolist() == row(step).tolist()
    assert wide.snapshot() == plain.snapshot()


def test_a_row_below_the_vocabulary_is_refused():
    sampler = sampler_of("dist", 1)
    sampler.sample(row(0))
    before = sampler.row.tolist()
    for convert in (np.array, mx.array):
        with pytest.raises(
            ValueError,
            match=r"\[logits\] Expected a row of at least 97 logits \(vocab_size\), got 96",
        ):
            sampler.sample(convert(row(1, 96)))
    assert sampler.row.tolist() == before
    sampler.sample(row(1, 98))
    sampler.reset()
    with pytest.raises(ValueError, match=r"at least 97 logits"):
        sampler.sample(row(1, 96))


@pytest.mark.parametrize("kind", KINDS)
def test_a_clone_goes_on_alike_and_by_itself(kind):
    sampler = sampler_of(kind, 6)
    sampler.accept_prompt([1, 2, 1, 2])
    run(sampler, 0, 40)
    sampler.sample(row(40))
    clone = sampler.clone()
    assert clone.snapshot() == sampler.snapshot()
    assert clone.row.tolist() == sampler.row.tolist()
    assert clone.logprobs(5, "processed") == sampler.logprobs(5, "processed")
    assert (clone.params, clone.seed, clone.stages) == (
        sampler.params,
        sampler.seed,
        sampler.stages,
    )
    kept = sampler.snapshot()
    ahead = run(clone, 41, 60)
    assert sampler.snapshot() == kept
    assert run(sampler, 41, 60) == ahead
    assert streams(sampler) == streams(clone)


def test_explicit_stages_are_the_chain_to_the_letter():
    literal = Sampler.from_stages([stages.TopK(3), stages.Temperature(0), stages.Dist()], seed=1)
    assert literal.stages == ("top_k", "temperature", "dist")
    assert literal.params is None
    # llama.cpp's sort decides the tie, and the draw is taken.
    assert literal.sample(np.zeros(3, np.float32)) == 2
    assert literal._state.distribution.position == 2
    libstdcxx = Sampler.from_stages(
        [stages.TopK(3), stages.Greedy()], reference="libstdc++", neg_inf="masked", vocab_size=5
    )
    assert libstdcxx.sample(np.array([1, 0, 0, 0, 1, 9], np.float32)) == 0
    assert 0 <= libstdcxx.seed < 2**32 - 1
    assert libstdcxx.clone().stages == ("top_k", "greedy")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([],), ValueError, r"\[chain\] Expected at least one stage, got none\."),
        (
            ([stages.TopK(1)],),
            ValueError,
            r'\[chain\] Expected a last stage that selects .* "top_k"',
        ),
        ((["top_k"],), TypeError, r"\[stages\] Expected stages, got str\."),
        (([stages.Dist()], {"seed": -1}), ValueError, r"\[seed\] Expected an int in"),
        (([stages.Dist()], {"reference": "x"}), ValueError, r"\[reference\] Expected"),
        (([stages.Dist()], {"neg_inf": "x"}), ValueError, r"\[neg_inf\] Expected"),
        (([stages.Dist()], {"vocab_size": 0}), ValueError, r"\[vocab_size\] Expected"),
    ],
)
def test_what_is_no_chain(arguments, error, message):
    with pytest.raises(error, match=message):
        Sampler.from_stages(arguments[0], **(arguments[1] if len(arguments) > 1 else {}))


@pytest.mark.parametrize("kind", KINDS)
def test_no_candidate_is_an_error_of_its_own(kind):
    sampler = sampler_of(kind, 2, logit_bias=dict.fromkeys(range(WIDTH), -INF))
    before = sampler.snapshot()
    with pytest.raises(
        NonfiniteLogitsError, match=r"^\[chain\] Expected a candidate to pick, but "
    ):
        sampler.sample(row(0))
    assert sampler.snapshot() == before
    assert streams(sampler) == streams(sampler_of(kind, 2))
    masked = np.full(WIDTH, -INF, np.float32)
    masked[3] = 1
    last = sampler_of(kind, 2, neg_inf="masked", excluded=[3])
    with pytest.raises(NonfiniteLogitsError, match=r"^\[chain\] Expected a candidate to pick"):
        last.sample(masked)
    assert sampler_of(kind, 2, neg_inf="masked").sample(masked) == 3


def test_overflow_is_a_plain_value_error():
    sampler = Sampler(seed=1, temperature=1e-3, top_p=1, min_p=0)
    with pytest.raises(ValueError, match=r"\[dist\] Expected logits with a finite softmax") as e:
        sampler.sample(np.array([3e38, 1, 2], np.float32))
    assert type(e.value) is ValueError


def is_in_use(sampler: Sampler) -> bool:
    try:
        return sampler.history is None
    except RuntimeError:
        return True


def test_a_second_thread_gets_an_error():
    """A step over a row that takes long to sort, and everything else meanwhile."""
    wide = np.random.default_rng(1).permutation(3_000_000).astype(np.float32)
    sampler, alone = (Sampler(seed=1, top_k=0, typical_p=0.5) for _ in range(2))
    expected = alone.sample(wide)
    snapshot = alone.snapshot()
    calls = {
        "accept": lambda: sampler.accept(1),
        "accept_prompt": lambda: sampler.accept_prompt([1]),
        "sample": lambda: sampler.sample(wide[:5]),
        "sample mlx": lambda: sampler.sample(mx.zeros(5)),
        "clone": sampler.clone,
        "snapshot": sampler.snapshot,
        "restore": lambda: sampler.restore_state(snapshot),
        "logprobs": lambda: sampler.logprobs(1),
        "history": lambda: sampler.history,
        "reset": sampler.reset,
    }
    tokens: list[int] = []

    def work() -> None:
        while not tokens:  # again if the other thread's look came first
            with contextlib.suppress(RuntimeError):
                tokens.append(sampler.sample(wide))

    thread = threading.Thread(target=work)
    thread.start()
    while not is_in_use(sampler):
        assert thread.is_alive()
        time.sleep(0.001)
    for call in calls.values():
        with pytest.raises(RuntimeError, match=r"^\[sampler\] Expected one thread at a time"):
            call()
    assert thread.is_alive()
    thread.join()
    assert tokens == [expected]
    assert sampler.history == []
    assert streams(sampler) == streams(alone)
    sampler.accept(tokens[0])
