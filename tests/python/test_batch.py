"""`sample_batch`: each row is what it would be alone, whatever its batch does."""

from __future__ import annotations

import pickle
import threading

import mlx.core as mx
import numpy as np
import pytest
from request_kinds import KINDS, WIDTH, row, sampler_of, streams

from mlx_sampling import BatchError, NonfiniteLogitsError, Sampler, sample_batch
from mlx_sampling.sampler import StepTimings


def requests(count: int) -> list[Sampler]:
    kinds = list(KINDS)
    return [sampler_of(kinds[i % len(kinds)], seed=i // 3) for i in range(count)]


def rows(step: int, count: int) -> np.ndarray:
    return np.stack([row(1_000 * step + i) for i in range(count)])


@pytest.mark.parametrize("count", [1, 8, 64])
@pytest.mark.parametrize("threads", [None, 1, 3, 2**70])
def test_a_row_does_not_depend_on_its_batch(count, threads):
    together, alone = requests(count), requests(count)
    for step in range(6):
        batch = rows(step, count)
        tokens = sample_batch(mx.array(batch) if step % 2 else batch, together, threads=threads)
        assert tokens == [s.sample(r) for s, r in zip(alone, batch, strict=True)]
        for sampler, other, token in zip(together, alone, tokens, strict=True):
            sampler.accept(token)
            other.accept(token)
    assert [streams(s) for s in together] == [streams(s) for s in alone]
    assert [s.snapshot() for s in together] == [s.snapshot() for s in alone]
    assert [s.row.tolist() for s in together] == [s.row.tolist() for s in alone]


def test_the_same_request_in_batches_of_any_size():
    tokens = {}
    for count in (1, 8, 64):
        for place in {0, count // 2, count - 1}:
            samplers = requests(count)
            samplers[place] = sampler_of("xtc", seed=77)
            found = []
            for step in range(8):
                batch = rows(step, count)
                batch[place] = row(step)
                found.append(sample_batch(batch, samplers)[place])
            tokens[count, place] = found
    assert len(set(map(tuple, tokens.values()))) == 1
    assert len(tokens) == 7


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_arrays_of_any_type_and_strides(dtype):
    base = mx.array(np.stack([rows(0, 5)] * 3)).astype(dtype)
    for view in (base[1], base[1, ::-1], base.transpose(2, 1, 0)[:, :, 2].T, base[:, 2][:1]):
        count = view.shape[0]
        expected = [s.sample(view[i]) for i, s in enumerate(requests(count))]
        assert sample_batch(view, requests(count)) == expected
        if dtype != mx.bfloat16:
            assert sample_batch(np.array(view), requests(count)) == expected
    level = mx.broadcast_to(base[0, 1], (4, WIDTH))
    assert sample_batch(level, requests(4)) == [s.sample(base[0, 1]) for s in requests(4)]


def test_a_bad_row_is_its_own_request_s():
    batch = rows(0, 8)
    expected = sample_batch(batch, requests(8))
    damaged = batch.copy()
    damaged[2, 5], damaged[6] = np.nan, -np.inf
    samplers = requests(8)
    before = [streams(s) for s in samplers]
    with pytest.raises(
        BatchError, match=r"got 2 of 8 that failed: row 2: \[logits\] .*; row 6: "
    ) as e:
        sample_batch(damaged, samplers)
    assert e.value.failed == [2, 6]
    for i, (result, sampler) in enumerate(zip(e.value.results, samplers, strict=True)):
        if i in (2, 6):
            assert isinstance(result, NonfiniteLogitsError)
            assert streams(sampler) == before[i]
            assert sampler.row is None
        else:
            assert result == expected[i]
            assert sampler.row.tolist() == batch[i].tolist()
    again = sample_batch(batch[[2, 6]], [samplers[2], samplers[6]])
    assert again == [expected[2], expected[6]]
    assert pickle.loads(pickle.dumps(e.value)).failed == [2, 6]


def test_errors_keep_their_kind():
    samplers = [Sampler(seed=1), Sampler(seed=1), Sampler(seed=1, vocab_size=4), Sampler(seed=1)]
    samplers[1].sample(np.zeros(4, np.float32))
    samplers[3] = Sampler(seed=1, excluded=range(3))
    with pytest.raises(BatchError) as e:
        sample_batch(np.zeros((4, 3), np.float32), samplers)
    kinds = [type(result) for result in e.value.results]
    assert kinds == [int, ValueError, ValueError, NonfiniteLogitsError]
    assert samplers[1].row.tolist() == [0] * 4


def test_padding_of_the_head():
    batch = np.zeros((2, 10), np.float32)
    batch[:, 7:] = np.nan
    batch[:, 6] = 50
    samplers = [Sampler(seed=1, vocab_size=7), Sampler(seed=2, vocab_size=3)]
    tokens = sample_batch(batch, samplers)
    assert tokens[0] == 6
    assert tokens[1] < 3
    assert [len(s.row) for s in samplers] == [7, 3]


def test_timings():
    samplers = requests(3)
    sample_batch(rows(0, 3), samplers)
    assert all(isinstance(s.timings, StepTimings) and s.timings.chain > 0 for s in samplers)


def test_no_rows():
    assert sample_batch(np.zeros((0, 5), np.float32), []) == []


@pytest.mark.parametrize(
    ("logits", "error", "message"),
    [
        (
            np.zeros((3, 5), np.float32),
            ValueError,
            r"a row for each of 2 samplers, got shape \(3, 5\)",
        ),
        (mx.zeros((3, 5)), ValueError, r"a row for each of 2 samplers, got shape \(3,5\)\."),
        (mx.zeros((2, 1, 5)), ValueError, r"got shape \(2,1,5\)\."),
        (mx.zeros((2,)), ValueError, r"got shape \(2\)\."),
        (np.zeros(2, np.float32), ValueError, r"got shape \(2,\)\."),
        (np.zeros((2, 5)), ValueError, r"dtype float32, float16 or bfloat16, got float64\."),
        (mx.zeros((2, 5), mx.int32), ValueError, r"dtype float32, float16 or bfloat16"),
        ([[0.0] * 5] * 2, TypeError, r"Expected an mx.array or a NumPy array, got list\."),
    ],
    ids=str,
)
def test_what_is_no_batch(logits, error, message):
    samplers = requests(2)
    before = [streams(s) for s in samplers]
    with pytest.raises(error, match=r"\[sample_batch\] .*" + message):
        sample_batch(logits, samplers)
    assert [streams(s) for s in samplers] == before


def test_what_are_no_samplers():
    batch = np.zeros((2, 5), np.float32)
    one = Sampler(seed=1)
    with pytest.raises(
        ValueError, match=r"\[sample_batch\] Expected a sampler per row, got one of"
    ):
        sample_batch(batch, [one, one])
    with pytest.raises(
        TypeError, match=r"\[sample_batch\] Expected samplers, got SamplingParams\."
    ):
        sample_batch(batch, [one, Sampler(seed=1).params])
    for threads, error in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match=r"\[threads\] Expected an int >= 1, got "):
            sample_batch(batch, [one, Sampler(seed=2)], threads=threads)
    assert one._state.distribution.position == 0


def test_batches_in_several_threads():
    expected = sample_batch(rows(0, 16), requests(16))
    found = []

    def work() -> None:
        found.append(sample_batch(rows(0, 16), requests(16)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4
