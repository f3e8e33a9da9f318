"""The compiled chain against the oracle, bit for bit, and what it refuses."""

from __future__ import annotations

import chain_oracle as oracle
import mlx.core as mx
import numpy as np
import pytest
from mt19937_words import snapshot_giving

from mlx_sampling._ext import Chain, Dist, Greedy, Mt19937, RequestState, Temperature
from mlx_sampling.errors import MlxSamplingError, NonfiniteLogitsError

INF = float("inf")
STREAMS = ("distribution", "xtc", "mirostat", "adaptive")
ONES = 2**32 - 1


def state_with(row, seed=1, **options) -> RequestState:
    state = RequestState(seed, **options)
    refill(state, row)
    return state


def refill(state: RequestState, row) -> None:
    state.set_row(np.ascontiguousarray(row, dtype=np.float32))
    state.finish_row()


def snapshots(state: RequestState) -> list[bytes]:
    return [getattr(state, name).snapshot() for name in STREAMS]


def bits(values) -> list[int]:
    return np.asarray(values, dtype=np.float32).view(np.uint32).tolist()


@pytest.mark.parametrize("width", [1, 2, 3, 33, 1000, 1025])
@pytest.mark.parametrize("temperature", [0.1, 0.7, 0.8, 1.0, 1.7, 50.0])
@pytest.mark.parametrize("reference", ["libc++", "libstdc++"])
def test_temperature_and_dist_are_the_oracle_s(width, temperature, reference):
    steps = 12
    seed = width * 7 + int(temperature * 10)
    rng = np.random.default_rng(seed)
    words = oracle.words_of(seed, 2 * steps)
    chain = Chain([Temperature(temperature), Dist()])
    state = RequestState(seed, reference=reference)
    for step in range(steps):
        row = (rng.standard_normal(width) * rng.choice([0.5, 4, 30])).astype(np.float32)
        if step % 3 == 0:
            row = np.round(row)
        refill(state, row)
        token = chain.sample(state)
        scaled = oracle.temperature(row, temperature)
        u = oracle.uniform_f64(words[2 * step], words[2 * step + 1], reference)
        picked, probs = oracle.dist(scaled, u)
        ids, logits, p = state.candidates()
        assert token == picked
        assert ids.tolist() == list(range(width))
        assert bits(logits) == bits(scaled)
        assert bits(p) == bits(probs)
        assert state.distribution.position == 2 * (step + 1)
    assert [getattr(state, name).position for name in STREAMS[1:]] == [0, 0, 0]


def test_known_tokens():
    # Also llama.cpp's own: temp 0.8, dist seed 42, on these logits.
    chain = Chain([Temperature(0.8), Dist()])
    state = RequestState(42)
    tokens = []
    for step in range(16):
        refill(state, [((i * 37 + step * 11) % 23) / 4 for i in range(64)])
        tokens.append(chain.sample(state))
    assert tokens == [49, 9, 46, 37, 26, 9, 28, 19, 10, 42, 5, 47, 59, 1, 61, 39]


def test_the_row_stays_as_it_was():
    row = np.array([0.5, -2, 3], dtype=np.float32)
    state = state_with(row)
    Chain([Temperature(0.3), Dist()]).sample(state)
    assert bits(state.row()) == bits(row)
    Chain([Temperature(0.3), Dist()]).sample(state)
    assert state.distribution.position == 4


def test_dist_takes_a_mask_for_neither_a_uniform_of_0_nor_of_1():
    row = [-INF, -INF, 1.0, 2.0, -INF]
    chain = Chain([Dist()])
    for reference in ("libc++", "libstdc++"):
        state = state_with(row, reference=reference, neg_inf="masked")
        state.distribution.restore(snapshot_giving([0, 0]))
        assert chain.sample(state) == 2
        state.distribution.restore(snapshot_giving([ONES, ONES]))
        assert chain.sample(state) == 3


def test_dist_takes_the_first_candidate_that_reaches_the_target():
    # Four equal weights: running sums 1, 2, 3, 4 against 4u.
    state = state_with([1.0, 1.0, 1.0, 1.0])
    picks = []
    for words in ([0, 0], [0, 2**30], [1 << 12, 2**30], [0, 2**31], [0, 3 << 30], [ONES, ONES]):
        state.distribution.restore(snapshot_giving(words))
        picks.append(Chain([Dist()]).sample(state))
    assert picks == [0, 0, 1, 1, 2, 3]


def test_dist_draws_for_a_single_candidate():
    state = state_with([-3.0])
    assert Chain([Dist()]).sample(state) == 0
    assert state.distribution.position == 2
    assert state.candidates()[2].tolist() == [1.0]


def test_temperature_0_is_not_greedy_in_an_explicit_chain():
    state = state_with([1.0, 5.0, 2.0, 5.0])
    assert Chain([Temperature(0), Dist()]).sample(state) == 1
    assert state.candidates()[1].tolist() == [-INF, 5.0, -INF, -INF]
    assert state.distribution.position == 2


GREEDY_ROWS = [
    ([0.0], 0),
    ([-0.0, 0.0], 0),
    ([0.0, -0.0], 0),
    ([1.0, 3.0, 3.0, 2.0], 1),
    ([-5.0, -4.0, -4.0], 1),
    ([3e38, -3e38], 0),
    ([-INF, -1.0, -INF, -1.0], 1),
    ([1e-45, 0.0, 3e-45], 2),
]


@pytest.mark.parametrize(("row", "token"), GREEDY_ROWS)
def test_greedy_is_the_first_maximum_and_draws_nothing(row, token):
    state = state_with(row, neg_inf="masked")
    before = snapshots(state)
    assert Chain([Greedy()]).sample(state) == token
    # Not first in its chain, it goes through the candidates.
    assert Chain([Temperature(1), Greedy()]).sample(state) == token
    assert snapshots(state) == before


def test_greedy_shortcut_agrees_with_candidates_on_ties():
    rng = np.random.default_rng(0)
    for width in (1, 2, 1023, 1024, 1025, 5000):
        for levels in (1, 3, 50, 10**6):
            row = rng.integers(-levels, levels, width).astype(np.float32)
            state = state_with(row)
            expected = oracle.greedy(row)
            assert Chain([Greedy()]).sample(state) == expected
            assert Chain([Temperature(1), Greedy()]).sample(state) == expected


def test_greedy_finds_a_maximum_anywhere():
    for at in (0, 1, 1023, 1024, 2047, 4999):
        row = np.zeros(5000, dtype=np.float32)
        row[at] = 1
        assert Chain([Greedy()]).sample(state_with(row)) == at


def test_every_stream_starts_at_the_request_s_seed():
    assert snapshots(RequestState(5)) == [Mt19937(5).snapshot()] * 4


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], r"\[chain\] Expected at least one stage, got none\."),
        (
            [Temperature(1)],
            r'\[chain\] Expected a last stage that selects a token, got "temperature"\.',
        ),
        (
            [Greedy(), Dist()],
            r'\[chain\] Expected "greedy" as the last stage only: it selects a token\.',
        ),
    ],
)
def test_chains_that_make_no_sense(stages, message):
    with pytest.raises(ValueError, match=message):
        Chain(stages)


def test_stage_names():
    assert [s.name for s in (Temperature(1), Dist(), Greedy())] == ["temperature", "dist", "greedy"]


@pytest.mark.parametrize("value", [INF, -INF, float("nan")])
def test_temperature_out_of_range(value):
    message = rf"\[temperature\] Expected a finite value, got {value:g}\."
    with pytest.raises(ValueError, match=message):
        Temperature(value)


@pytest.mark.parametrize("value", [1e-60, 1e39])
def test_temperature_beyond_float32(value):
    message = rf"\[temperature\] Expected 0 or a value in float32's range, got {value:g}"
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        Temperature(value)


def test_a_failing_step_puts_the_streams_back():
    # Divided by 1e-3 the first logit overflows to inf, and its softmax is NaN.
    state = state_with([3e38, 1.0])
    before = snapshots(state)
    message = r"\[dist\] Expected logits with a finite softmax, got a sum of -?nan"
    with pytest.raises(ValueError, match=message):
        Chain([Temperature(1e-3), Dist()]).sample(state)
    assert snapshots(state) == before
    assert state.row().tolist() == [np.float32(3e38), 1.0]
    assert Chain([Greedy()]).sample(state) == 0


def test_a_step_that_fails_after_its_draw_puts_the_streams_back():
    # Dist draws for the only candidate, which the temperature has turned into -inf.
    state = state_with([-3e38])
    before = snapshots(state)
    message = r"\[chain\] Expected a candidate to pick, but the stages left none\."
    with pytest.raises(ValueError, match=message):
        Chain([Temperature(1e-3), Dist()]).sample(state)
    assert snapshots(state) == before


def test_no_row():
    state = RequestState(1)
    message = r"\[row\] Expected a row of logits, got none\."
    with pytest.raises(RuntimeError, match=message):
        Chain([Greedy()]).sample(state)
    with pytest.raises(RuntimeError, match=message):
        state.row()
    assert not state.has_row
    with pytest.raises(RuntimeError, match=r"\[finish_row\] Expected a row that begin_row"):
        state.finish_row()


def test_an_unfinished_row_is_no_row():
    state = state_with([1.0, 2.0])
    state.set_row(np.array([2.0, 1.0], dtype=np.float32))
    assert not state.has_row
    with pytest.raises(RuntimeError, match=r"Expected a row of logits, got none"):
        Chain([Greedy()]).sample(state)
    state.finish_row()
    assert Chain([Greedy()]).sample(state) == 0


BAD_ROWS = [
    ([0.0, float("nan"), 1.0], "error", "got nan at index 1."),
    ([0.0, float("nan"), 1.0], "masked", "got nan at index 1."),
    ([0.0, 1.0, INF], "error", "got +inf at index 2."),
    ([-INF, 1.0, INF], "masked", "got +inf at index 2."),
    ([-INF, 1.0], "error", 'got -inf at index 0 (neg_inf="masked" takes -inf as a mask).'),
    ([-INF, -INF], "masked", "Expected a candidate, got a row of 2 logits that are all -inf."),
    ([-INF], "error", "got -inf at index 0"),
]


@pytest.mark.parametrize(("row", "neg_inf", "message"), BAD_ROWS)
def test_bad_rows(row, neg_inf, message):
    state = state_with(np.ones(len(row)), neg_inf=neg_inf)
    before = snapshots(state)
    with pytest.raises(NonfiniteLogitsError) as error:
        refill(state, row)
    assert str(error.value).startswith("[logits] Expected ")
    assert message in str(error.value)
    assert isinstance(error.value, MlxSamplingError)
    assert isinstance(error.value, ValueError)
    assert not state.has_row
    with pytest.raises(RuntimeError, match=r"Expected a row that begin_row"):
        state.finish_row()
    assert snapshots(state) == before


@pytest.mark.parametrize("word", [0x7F800001, 0xFF800001, 0x7FC00000, 0xFFC00000, 0xFFFFFFFF])
@pytest.mark.parametrize("at", [0, 1500, 2047])
def test_every_kind_of_nan_is_found_anywhere(word, at):
    row = np.zeros(2048, dtype=np.float32)
    row.view(np.uint32)[at] = word
    with pytest.raises(NonfiniteLogitsError, match=rf"got nan at index {at}\."):
        state_with(row)


def test_the_greatest_and_least_finite_logits_are_legal():
    greatest = np.finfo(np.float32).max
    assert state_with([greatest, -greatest]).has_row


def test_another_width_is_refused_until_reset():
    state = state_with([1.0, 2.0, 3.0])
    message = r"\[logits\] Expected a row of 3 logits, as in the steps before, got 2 \(reset\(\)"
    with pytest.raises(ValueError, match=message):
        state.set_row(np.zeros(2, dtype=np.float32))
    with pytest.raises(ValueError, match=message):
        state.refill_row(mx.zeros(2))
    assert state.row().tolist() == [1.0, 2.0, 3.0]
    state.reset()
    refill(state, [1.0, 2.0])
    assert state.row().tolist() == [1.0, 2.0]


def test_a_refused_first_row_does_not_settle_the_width():
    state = RequestState(1)
    with pytest.raises(NonfiniteLogitsError):
        refill(state, [1.0, float("nan")])
    refill(state, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"Expected a row of 1 to 2147483647 logits, got 0\."):
        state.set_row(np.zeros(0, dtype=np.float32))


def test_reset_starts_the_streams_again():
    chain = Chain([Dist()])
    state = state_with([1.0, 2.0, 3.0], seed=5)
    fresh = snapshots(RequestState(5))
    first = [chain.sample(state) for _ in range(20)]
    assert snapshots(state) != fresh
    state.reset()
    assert snapshots(state) == fresh
    assert not state.has_row
    refill(state, [1.0, 2.0, 3.0])
    assert [chain.sample(state) for _ in range(20)] == first


def test_unknown_names():
    with pytest.raises(ValueError, match=r'\[neg_inf\] Expected "error" or "masked", got "ok"\.'):
        RequestState(1, neg_inf="ok")
    with pytest.raises(ValueError, match=r'\[reference\] Expected "libc\+\+" or'):
        RequestState(1, reference="msvc")
    assert RequestState(1, reference="libstdc++").reference == "libstdc++"


def row_of(array: mx.array) -> np.ndarray:
    state = RequestState(1, neg_inf="masked")
    state.refill_row(array)
    state.finish_row()
    return state.row()


def all_finite_halves() -> np.ndarray:
    words = np.arange(2**16, dtype=np.uint16)
    return words[(words & 0x7C00) != 0x7C00]


def all_finite_bfloats() -> np.ndarray:
    words = np.arange(2**16, dtype=np.uint16)
    return words[(words & 0x7F80) != 0x7F80]


@pytest.mark.parametrize("step", [1, -1, 3])
def test_every_float16_and_bfloat16_is_widened_exactly(step):
    words = all_finite_halves()
    halves = mx.array(words).view(mx.float16)[::step]
    assert bits(row_of(halves)) == bits(words.view(np.float16).astype(np.float32)[::step])
    words = all_finite_bfloats()
    bfloats = mx.array(words).view(mx.bfloat16)[::step]
    assert bits(row_of(bfloats)) == (words.astype(np.uint32) << 16)[::step].tolist()


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_rows_of_any_strides(dtype):
    base = mx.arange(-50, 3950).astype(dtype).reshape(4, 1000)
    wide = np.array(base.astype(mx.float32))
    cases = {
        "contiguous": (base[1], wide[1]),
        "[1, V]": (base[2:3], wide[2:3].ravel()),
        "last row": (base[None, -1, :], wide[-1]),
        "strided": (base[1, ::3], wide[1, ::3]),
        "reversed": (base[3, ::-1], wide[3, ::-1]),
        "reversed and strided": (base[3, 900:10:-7], wide[3, 900:10:-7]),
        "column": (base.T[17], wide.T[17]),
        "broadcast": (mx.broadcast_to(base[0, 7], (300,)), np.full(300, wide[0, 7])),
        "broadcast [1, V]": (mx.broadcast_to(base[0, 7], (1, 300)), np.full(300, wide[0, 7])),
        "one": (base[0, 5:6], wide[0, 5:6]),
        "lazy": (base[1] * 2 - base[1], wide[1] * 2 - wide[1] if dtype == mx.float32 else None),
    }
    for name, (array, expected) in cases.items():
        if expected is None:
            expected = np.array(array.astype(mx.float32))
        assert bits(row_of(array)) == bits(expected), name


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (mx.zeros(3, dtype=mx.int32), r"Expected logits of dtype float32, float16 or bfloat16"),
        (mx.array(1.0), r"Expected logits of shape \[\.\.\., V\], got a scalar"),
        (mx.zeros((2, 3)), r"Expected logits of shape \[V\] or \[1, V\], got shape \(2,3\)"),
        (mx.zeros((1, 1, 3)), r"Expected logits of shape \[V\] or \[1, V\], got shape \(1,1,3\)"),
        (mx.zeros((0,)), r"Expected logits of shape \[\.\.\., V\] with V > 0"),
    ],
)
def test_arrays_that_are_no_row(array, message):
    state = state_with([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"\[sample\] " + message):
        state.refill_row(array)
    assert state.row().tolist() == [1.0, 2.0, 3.0]


def test_an_evaluation_that_fails_keeps_the_row():
    def step(x):
        state.refill_row(x)
        return x

    state = state_with([1.0, 2.0, 3.0])
    with pytest.raises((ValueError, RuntimeError)):
        mx.compile(step)(mx.ones(3))
    assert state.row().tolist() == [1.0, 2.0, 3.0]
