"""Every short cut of the chain switched off must give the same bits: see core/fast_paths.h."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mlx_sampling import _ext

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CORE = ROOT / "csrc" / "core"
REFERENCES = ("libc++", "libstdc++")
STREAMS = ("distribution", "xtc", "mirostat", "adaptive")

CHAINS = {
    "greedy": lambda: [_ext.Greedy()],
    "dist": lambda: [_ext.Dist()],
    "temperature": lambda: [_ext.Temperature(0.8), _ext.Dist()],
    "cold": lambda: [_ext.Temperature(0.05), _ext.Dist()],
    "top_k": lambda: [_ext.TopK(40), _ext.Greedy()],
    "top_k 128": lambda: [_ext.TopK(128), _ext.Dist()],
    "top_k 1": lambda: [_ext.TopK(1), _ext.Dist()],
    "top_k all": lambda: [_ext.TopK(10**6), _ext.Greedy()],
    "min_p": lambda: [_ext.MinP(0.05), _ext.Temperature(0.8), _ext.Dist()],
    "min_p min_keep": lambda: [_ext.MinP(0.5, 300), _ext.Dist()],
    "top_p": lambda: [_ext.TopP(0.95), _ext.Temperature(0.8), _ext.Dist()],
    "top_p little": lambda: [_ext.TopP(0.1, 2), _ext.Dist()],
    "top_p most": lambda: [_ext.TopP(0.9999, 3), _ext.Greedy()],
    "top_p after bias": lambda: [
        _ext.LogitBias([(3, 1.5), (0, -float("inf"))]),
        _ext.TopP(0.9),
        _ext.Dist(),
    ],
    "top_p then cuts": lambda: [
        _ext.TopP(0.95, 2),
        _ext.TopK(900),
        _ext.MinP(0.001),
        _ext.TopP(0.9),
        _ext.Temperature(1.5),
        _ext.Dist(),
    ],
    "top_p then ids": lambda: [_ext.TopP(0.9), _ext.LogitBias([(3, 1.5)]), _ext.Dist()],
    "top_p min_keep": lambda: [_ext.TopP(0.3, 2000), _ext.Dist()],
    "typical": lambda: [_ext.TypicalP(0.95), _ext.Dist()],
    "typical then": lambda: [_ext.TypicalP(0.9, 3), _ext.Temperature(1.3), _ext.Dist()],
    "typical greedy": lambda: [_ext.TypicalP(0.7), _ext.Greedy()],
    "typical most": lambda: [_ext.TypicalP(0.9995), _ext.Dist()],
    "typical then ids": lambda: [_ext.TypicalP(0.9), _ext.TopK(50), _ext.Dist()],
    "typical min_keep": lambda: [_ext.TypicalP(0.1, 1500), _ext.Dist()],
    "typical little": lambda: [_ext.TypicalP(0.2, 5), _ext.Dist()],
    "top_n_sigma": lambda: [_ext.TopNSigma(1.0), _ext.Dist()],
    "mirostat": lambda: [_ext.Mirostat(5.0, 0.1, 1000, 100)],
    "mirostat_v2": lambda: [_ext.MirostatV2(5.0, 0.1)],
    "mirostat_v2 wide": lambda: [_ext.MirostatV2(9.0, 0.5)],
    "adaptive_p": lambda: [_ext.AdaptiveP(0.3, 0.9)],
    "default": lambda: [
        _ext.TopK(40),
        _ext.TypicalP(0.99),
        _ext.TopP(0.95),
        _ext.MinP(0.05),
        _ext.Temperature(0.8),
        _ext.Dist(),
    ],
    "dynamic": lambda: [_ext.DynamicTemperature(1.0, 0.5, 1.0), _ext.Dist()],
    "xtc": lambda: [_ext.Xtc(1.0, 0.01), _ext.Dist()],
}
WIDTHS = (1, 2, 40, 255, 257, 1024, 1025, 1300, 3000, 9000)
KINDS = (
    "plain",
    "bfloat16",
    "coarse",
    "eighths",
    "masked",
    "flat",
    "zeros",
    "huge",
    "wide",
    "rising",
)


def row_of(kind: str, width: int, rng: np.random.Generator) -> np.ndarray:
    row = (2.5 * rng.standard_normal(width)).astype(np.float32)
    row[rng.integers(0, width, 4)] += np.float32(rng.uniform(0, 12))
    if kind in ("bfloat16", "masked"):
        row = (row.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    elif kind == "coarse":
        row = np.round(row)  # -0.0 and 0.0 among them
    elif kind == "eighths":
        row = np.round(row * 8) / 8 + np.float32(1e-3)  # tied, and not bfloat16
    elif kind == "flat":
        row = np.full(width, rng.uniform(-9, 9), dtype=np.float32)
    elif kind == "zeros":
        row = np.where(rng.random(width) < 0.5, np.float32(0.0), np.float32(-0.0))
    elif kind == "huge":
        row = row * np.float32(10.0 ** rng.integers(2, 12))
    elif kind == "wide":
        row = row * np.float32(20)  # exponentials that are denormal and 0
    elif kind == "rising":
        row = np.sort(row)
    if kind == "masked":
        row[rng.random(width) < rng.choice([0.05, 0.9])] = -np.inf
        row[rng.integers(0, width)] = 1
    return np.ascontiguousarray(row, dtype=np.float32)


def outcome(chain, state: _ext.RequestState, row: np.ndarray, fast: bool) -> tuple:
    _ext.set_fast_paths(fast)
    try:
        state.set_row(row)
        state.finish_row()
        try:
            token = chain.sample(state)
        except ValueError as error:
            return (str(error).replace("-nan", "nan"), state_of(state))
        candidates = state.candidates() if chain.greedy is False else ()
        return (token, *(c.tobytes() for c in candidates), state_of(state))
    finally:
        _ext.set_fast_paths(True)


def state_of(state: _ext.RequestState) -> tuple:
    mu = state.mirostat_mu
    return (
        *(getattr(state, name).position for name in STREAMS),
        None if mu is None else np.float32(mu).tobytes(),
        repr(state.adaptive_average),
    )


class Both:
    """A chain; a chain of greedy alone leaves only the winner where it is fast."""

    def __init__(self, stages: list):
        self.sample = _ext.Chain(stages).sample
        self.greedy = len(stages) == 1 and stages[0].name == "greedy"


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("reference", REFERENCES)
def test_both_ways_agree(name, reference):
    chain = Both(CHAINS[name]())
    rng = np.random.default_rng(len(name))
    for width, kind in itertools.product(WIDTHS, KINDS):
        pair = [_ext.RequestState(7, reference=reference, neg_inf="masked") for _ in range(2)]
        for _ in range(2 if width > 2000 else 4):
            row = row_of(kind, width, rng)
            fast, plain = (
                outcome(chain, s, row, on) for s, on in zip(pair, (True, False), strict=True)
            )
            assert fast == plain, (width, kind)


@pytest.mark.parametrize("name", CHAINS)
def test_both_ways_agree_on_large_rows(name):
    chain = Both(CHAINS[name]())
    rng = np.random.default_rng(len(name))
    for reference, kind in itertools.product(REFERENCES, ("plain", "bfloat16")):
        pair = [_ext.RequestState(7, reference=reference) for _ in range(2)]
        row = row_of(kind, 60_000, rng)
        fast, plain = (
            outcome(chain, s, row, on) for s, on in zip(pair, (True, False), strict=True)
        )
        assert fast == plain, (reference, kind)


def token_of(chain: _ext.Chain, state: _ext.RequestState) -> int | str:
    try:
        return chain.sample(state)
    except ValueError as error:  # logits too great for a bucket: the greatest need not stand first
        return str(error).replace("-nan", "nan")


@pytest.mark.parametrize("name", [name for name in CHAINS if name.startswith(("top_p", "typical"))])
@pytest.mark.parametrize("reference", REFERENCES)
def test_tokens_agree_where_nobody_looks_at_candidates(name, reference):
    chain = _ext.Chain(CHAINS[name]())
    rng = np.random.default_rng(len(name))
    for width, kind in itertools.product((1025, 6000), KINDS):
        row = row_of(kind, width, rng)
        tokens = []
        for fast in (True, False):
            _ext.set_fast_paths(fast)
            try:
                state = _ext.RequestState(11, reference=reference, neg_inf="masked")
                state.set_row(row)
                state.finish_row()
                tokens.append([token_of(chain, state) for _ in range(40 if fast else 15)][:15])
            finally:
                _ext.set_fast_paths(True)
        assert tokens[0] == tokens[1], (width, kind)


def open_state() -> tuple[_ext.RequestState, int]:
    """A state whose last step's candidates nobody has looked at, and the token."""
    state = _ext.RequestState(5, reference="libstdc++")
    state.set_row(row_of("bfloat16", 6000, np.random.default_rng(3)))
    state.finish_row()
    return state, _ext.Chain(CHAINS["top_p"]()).sample(state)


def columns(state: _ext.RequestState) -> list[bytes]:
    return [column.tobytes() for column in state.candidates()]


def test_a_look_at_candidates_changes_no_stream_and_a_second_one_nothing():
    state, token = open_state()
    before = state_of(state)
    ids, logits, _ = state.candidates()
    assert token in ids
    assert np.all(np.diff(logits) <= 0)
    assert state_of(state) == before
    assert columns(state) == columns(state)
    looked, not_looked = open_state()[0], open_state()[0]
    columns(looked)
    chain = _ext.Chain(CHAINS["top_p"]())
    assert [chain.sample(looked) for _ in range(9)] == [chain.sample(not_looked) for _ in range(9)]


def test_a_fork_has_the_candidates_of_its_original():
    state, _ = open_state()
    fork = state.fork()
    state.set_row(np.zeros(6000, dtype=np.float32))
    assert len(state.candidates()[0]) == 0  # their row is gone
    assert columns(fork) == columns(open_state()[0])


def test_processed_logprobs_are_those_of_settled_candidates():
    chain = _ext.Chain(CHAINS["top_p"]())
    state, _ = open_state()
    looked, _ = open_state()
    columns(looked)
    count = len(looked.candidates()[0])
    assert chain.top_logprobs(state, "processed", count) == chain.top_logprobs(
        looked, "processed", count
    )


def test_a_row_that_a_device_array_filled_is_indexed_too():
    import mlx.core as mx

    row = row_of("bfloat16", 3000, np.random.default_rng(1))
    for stages in ([_ext.Greedy()], [_ext.TopK(5), _ext.Dist()], [_ext.MinP(0.1), _ext.Dist()]):
        tokens = []
        for fill in ("host", "device"):
            state = _ext.RequestState(3)
            state.set_row(row) if fill == "host" else state.refill_row(mx.array(row))
            state.finish_row()
            tokens.append(_ext.Chain(stages).sample(state))
        assert tokens[0] == tokens[1]


@pytest.mark.parametrize("flags", [(), ("-DMLX_SAMPLING_NO_CLONES",)])
def test_pieces_beside_their_plain_ways(tmp_path, flags):
    if shutil.which("g++") is None or not CORE.is_dir():
        pytest.skip("no g++ or no source tree here")
    binary = tmp_path / "check"
    sources = [
        Path(__file__).with_name("fast_math_check.cpp"),
        *(CORE / name for name in ("exp_floats.cpp", "ordered_sum.cpp", "run_order.cpp")),
    ]
    options = ["-std=c++20", "-O3", "-ffp-contract=off", f"-I{ROOT / 'csrc'}", *flags]
    subprocess.run(["g++", *options, *sources, "-o", binary], check=True)
    # glibc has two versions of expf, with fused operations and without.
    for tunables in ("", "glibc.cpu.hwcaps=-FMA,-AVX2_Usable,-AVX2,-FMA4"):
        environment = {**os.environ, "GLIBC_TUNABLES": tunables}
        ran = subprocess.run([binary], env=environment, capture_output=True, text=True, check=True)
        lines = [line.split() for line in ran.stdout.splitlines()]
        assert [name for name, _, _ in lines] == [
            "exps",
            "sums",
            "bounded_sums",
            "sorts",
            "run_orders",
        ]
        for name, compared, differing in lines:
            assert int(compared) > 20_000, name
            assert int(differing) == 0, name
