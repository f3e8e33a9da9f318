"""`Sampler`, a request as users see it: from arrays to tokens."""

from __future__ import annotations

import threading

import chain_oracle as oracle
import mlx.core as mx
import numpy as np
import pytest

from mlx_sampling.errors import NonfiniteLogitsError
from mlx_sampling.params import SamplingParams
from mlx_sampling.sampler import Sampler, StepTimings

INF = float("inf")
STREAMS = ("distribution", "xtc", "mirostat", "adaptive")
PLAIN = {"top_k": 0, "top_p": 1, "min_p": 0}  # temperature and the draw alone


def snapshots(sampler: Sampler) -> list[bytes]:
    return [getattr(sampler._state, name).snapshot() for name in STREAMS]


def rows(count: int, width: int = 64) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [(rng.standard_normal(width) * 2).astype(np.float32) for _ in range(count)]


def tokens(sampler: Sampler, count: int = 40) -> list[int]:
    return [sampler.sample(mx.array(row)) for row in rows(count)]


def test_seeded_tokens_are_the_oracle_s():
    words = oracle.words_of(11, 80)
    expected = []
    for step, row in enumerate(rows(40)):
        u = oracle.uniform_f64(words[2 * step], words[2 * step + 1])
        expected.append(oracle.dist(oracle.temperature(row, 0.8), u)[0])
    assert tokens(Sampler(seed=11, **PLAIN)) == expected
    assert tokens(Sampler(SamplingParams(seed=11, temperature=0.8, **PLAIN))) == expected


def test_same_seed_same_tokens_other_seed_other_tokens():
    assert tokens(Sampler(seed=3)) == tokens(Sampler(seed=3))
    assert tokens(Sampler(seed=3)) != tokens(Sampler(seed=4))
    assert tokens(Sampler(seed=3)) != tokens(Sampler(seed=3, temperature=1.5))


def test_a_fresh_seed_is_reported_and_replays():
    first = Sampler()
    assert 0 <= first.seed <= 2**32 - 2
    assert first.params.seed is None
    assert tokens(Sampler(seed=first.seed)) == tokens(first)
    assert len({Sampler().seed for _ in range(8)}) > 1
    assert Sampler(seed=2**32 - 2).seed == 2**32 - 2


def test_temperature_0_is_greedy_and_draws_nothing():
    sampler = Sampler(temperature=0)
    before = snapshots(sampler)
    assert [sampler.sample(row) for row in rows(40)] == [int(row.argmax()) for row in rows(40)]
    assert sampler.sample(np.array([1, 2] * 32, dtype=np.float32)) == 1
    assert snapshots(sampler) == before


def test_arrays_of_either_kind_and_any_strides_give_the_same_tokens():
    expected = tokens(Sampler(seed=8))

    def run(convert) -> list[int]:
        sampler = Sampler(seed=8)
        return [sampler.sample(convert(row)) for row in rows(40)]

    def strided(row):
        return np.stack([row, row + 1], axis=1)[:, 0]

    assert run(lambda row: row) == expected
    assert run(lambda row: row[None]) == expected
    assert run(lambda row: mx.array(row)[None]) == expected
    assert run(lambda row: row[::-1].copy()[::-1]) == expected
    assert run(lambda row: mx.array(row[::-1].copy())[::-1]) == expected
    assert run(strided) == expected
    assert run(lambda row: mx.array(np.stack([row, row + 1], axis=1))[:, 0]) == expected
    assert run(lambda row: row.astype(">f4")) == expected
    assert run(lambda row: mx.array(row) + 0) == expected


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_narrow_rows_are_as_their_float32_values(dtype):
    narrow, wide = Sampler(seed=2), Sampler(seed=2)
    for row in rows(40):
        array = mx.array(row).astype(dtype)
        assert narrow.sample(array) == wide.sample(array.astype(mx.float32))
        assert narrow.row.tolist() == wide.row.tolist()


def test_numpy_float16_and_broadcast_rows():
    one, other = Sampler(seed=2), Sampler(seed=2)
    for row in rows(20):
        half = row.astype(np.float16)
        assert one.sample(half[::-1]) == other.sample(half[::-1].astype(np.float32))
    level = np.broadcast_to(np.float32(0.5), (64,))
    assert one.sample(level) == other.sample(np.full(64, 0.5, dtype=np.float32))
    big_endian = rows(1)[0].astype(">f4")
    assert one.sample(big_endian) == other.sample(rows(1)[0])


def test_numpy_bfloat16_rows():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    one, other = Sampler(seed=2), Sampler(seed=2)
    for row in rows(20):
        narrow = row.astype(ml_dtypes.bfloat16)
        assert one.sample(narrow) == other.sample(narrow.astype(np.float32))


@pytest.mark.parametrize("convert", [np.array, mx.array])
@pytest.mark.parametrize("bad", [float("nan"), INF, -INF])
def test_a_nonfinite_row_is_refused_and_draws_nothing(convert, bad):
    steps = rows(6)
    sampler, undisturbed = Sampler(seed=9), Sampler(seed=9)
    for row in steps[:3]:
        sampler.sample(row)
        undisturbed.sample(row)
    before, timings = snapshots(sampler), sampler.timings
    damaged = steps[3].copy()
    damaged[40] = bad
    with pytest.raises(NonfiniteLogitsError, match=r"\[logits\] Expected finite logits, got .* 40"):
        sampler.sample(convert(damaged))
    assert sampler.row is None
    assert snapshots(sampler) == before
    assert sampler.timings == timings
    again = [sampler.sample(row) for row in steps[3:]]
    assert again == [undisturbed.sample(row) for row in steps[3:]]


def test_masked_rows():
    row = np.array([-INF, 1.0, -INF, 0.0], dtype=np.float32)
    sampler = Sampler(seed=1, neg_inf="masked", **PLAIN)
    assert {sampler.sample(row) for _ in range(200)} == {1, 3}
    before = snapshots(sampler)
    with pytest.raises(NonfiniteLogitsError, match=r"Expected a candidate, got a row of 4 logits"):
        sampler.sample(np.full(4, -INF, dtype=np.float32))
    with pytest.raises(NonfiniteLogitsError, match=r"got nan at index 3"):
        sampler.sample(np.array([-INF, 1, 2, np.nan], dtype=np.float32))
    assert snapshots(sampler) == before
    assert sampler.row is None


def test_the_row_is_a_copy():
    sampler = Sampler(seed=1)
    assert sampler.row is None
    source = rows(2)
    sampler.sample(source[0])
    kept = sampler.row
    assert kept.dtype == np.float32
    assert kept.tolist() == source[0].tolist()
    sampler.sample(source[1])
    assert kept.tolist() == source[0].tolist()
    kept[:] = 0
    assert sampler.row.tolist() == source[1].tolist()


def test_the_logits_are_never_written():
    row = rows(1)[0]
    row.flags.writeable = False
    array = mx.array(row)
    sampler = Sampler(seed=1)
    sampler.sample(row)
    sampler.sample(array)
    assert np.array(array).tolist() == row.tolist()


def test_reset_replays():
    sampler = Sampler()
    first = tokens(sampler)
    sampler.reset()
    assert sampler.row is None
    assert sampler.timings is None
    assert tokens(sampler) == first
    sampler.reset()
    assert sampler.sample(np.zeros(3, dtype=np.float32)) in (0, 1, 2)


@pytest.mark.parametrize("convert", [np.array, mx.array])
def test_the_width_may_not_change(convert):
    sampler = Sampler(seed=1)
    sampler.sample(convert(rows(1)[0]))
    before = snapshots(sampler)
    message = r"\[logits\] Expected a row of 64 logits, as in the steps before, got 63"
    with pytest.raises(ValueError, match=message):
        sampler.sample(convert(rows(1)[0][:63]))
    assert sampler.row.tolist() == rows(1)[0].tolist()
    assert snapshots(sampler) == before


@pytest.mark.parametrize(
    ("logits", "error", "message"),
    [
        (np.zeros(3), ValueError, r"dtype float32, float16 or bfloat16, got float64\."),
        (np.zeros((2, 3), np.float32), ValueError, r"shape \[V\] or \[1, V\], got shape \(2, 3\)"),
        (np.float32(1), TypeError, r"an mx.array or a NumPy array, got float32\."),
        (np.zeros((), np.float32), ValueError, r"shape \[V\] or \[1, V\], got shape \(\)"),
        (np.zeros(0, np.float32), ValueError, r"a row of 1 to 2147483647 logits, got 0\."),
        (np.ma.zeros(3, np.float32), TypeError, r"an mx.array or a NumPy array, got MaskedArray"),
        ([0.0, 1.0], TypeError, r"\[sample\] Expected an mx.array or a NumPy array, got list\."),
        (None, TypeError, r"\[sample\] Expected an mx.array or a NumPy array, got NoneType\."),
        (mx.zeros(3, mx.int32), ValueError, r"\[sample\] Expected logits of dtype float32"),
        (mx.zeros((2, 3)), ValueError, r"\[sample\] Expected logits of shape \[V\] or \[1, V\]"),
    ],
)
def test_what_is_no_row(logits, error, message):
    sampler = Sampler(seed=1)
    before = snapshots(sampler)
    with pytest.raises(error, match=message):
        sampler.sample(logits)
    assert snapshots(sampler) == before
    assert sampler.row is None


def test_timings():
    sampler = Sampler(seed=1)
    assert sampler.timings is None
    sampler.sample(mx.array(rows(1)[0]) * 2)
    assert isinstance(sampler.timings, StepTimings)
    phases = ("forward", "readback", "finite_scan", "chain", "grammar")
    assert sampler.timings._fields == phases
    assert all(type(value) is int and value >= 0 for value in sampler.timings)
    assert sampler.timings.chain > 0


def test_fields_replace_those_of_params():
    params = SamplingParams(temperature=0, seed=5)
    sampler = Sampler(params, seed=6)
    assert sampler.params == SamplingParams(temperature=0, seed=6)
    assert sampler.seed == 6
    assert params.seed == 5


def test_constructor_errors():
    with pytest.raises(TypeError, match=r"top_q"):
        Sampler(top_q=1)
    with pytest.raises(TypeError, match=r"Expected params to be SamplingParams, got dict\."):
        Sampler({"seed": 1})
    with pytest.raises(ValueError, match=r'\[neg_inf\] Expected "error" or "masked", got "no"\.'):
        Sampler(neg_inf="no")
    with pytest.raises(TypeError, match=r'\[neg_inf\] Expected "error" or "masked", got None\.'):
        Sampler(neg_inf=None)
    with pytest.raises(ValueError, match=r"\[temperature\] Expected a finite value >= 0, got -1"):
        Sampler(temperature=-1)


def test_requests_in_several_threads_do_not_touch_each_other():
    wide = rows(30, 20000)
    alone = [[Sampler(seed=s)] for s in range(4)]
    expected = [[cell[0].sample(row) for row in wide] for cell in alone]
    found: list[list[int]] = [[] for _ in range(4)]

    def work(seed: int) -> None:
        sampler = Sampler(seed=seed)
        found[seed] = [sampler.sample(row) for row in wide]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected
