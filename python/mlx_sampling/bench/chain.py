"""`mlx-sampling bench chain`: sampler chains beside llama.cpp's and mlx-lm's, from a row to a token.

Microseconds per token, medians over interleaved rounds, one thread, every call made from Python:
  ours       a finished float32 row in host memory is copied into the request's, checked, and sampled from.
  llama.cpp  its candidate array is filled from the row by a compiled loop, and sampled from.
             Needs a library of release 0.5.0: --llama, or the environment's MLX_SAMPLING_LLAMA.
  mlx-lm     its make_sampler with the same settings, where it has them, on MLX's default device; in
             rounds of its own after the others, since it leaves cold caches.
Our tokens must be llama.cpp's in every round: the run fails where one is not.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from mlx_sampling import _ext
from mlx_sampling.bench.environment import environment, header
from mlx_sampling.bench.llama_cpp import TOKEN_DATA, Llama, LlamaUnavailable, TokenDataArray

VOCAB_SIZES = (32_000, 128_256, 202_048)
KINDS = ("plain", "ties")
REFERENCES = ("libstdc++", "libc++")
SEED = 42
ROWS = 4

Pick = Callable[[int], int]  # from the index of a row to a token


class Setting(NamedTuple):
    """One chain: our stages, llama.cpp's samplers, and mlx-lm's arguments where it has the like."""

    ours: Callable[[], Sequence[Any]]
    theirs: tuple[tuple[Any, ...], ...]
    mlx_lm: dict[str, float] | None


_DIST = ("dist", SEED)
_TEMP = ("temp", 0.8)

CHAINS = {
    "greedy": Setting(lambda: [_ext.Greedy()], (("greedy",),), {"temp": 0.0}),
    "temp+dist": Setting(
        lambda: [_ext.Temperature(0.8), _ext.Dist()], (_TEMP, _DIST), {"temp": 0.8}
    ),
    "default": Setting(
        lambda: [
            _ext.TopK(40),
            _ext.TopP(0.95),
            _ext.MinP(0.05),
            _ext.Temperature(0.8),
            _ext.Dist(),
        ],
        (("top_k", 40), ("top_p", 0.95, 1), ("min_p", 0.05, 1), _TEMP, _DIST),
        {"temp": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05},
    ),
    "top_p": Setting(
        lambda: [_ext.TopP(0.95), _ext.Temperature(0.8), _ext.Dist()],
        (("top_p", 0.95, 1), _TEMP, _DIST),
        {"temp": 0.8, "top_p": 0.95},
    ),
    "min_p": Setting(
        lambda: [_ext.MinP(0.05), _ext.Temperature(0.8), _ext.Dist()],
        (("min_p", 0.05, 1), _TEMP, _DIST),
        {"temp": 0.8, "min_p": 0.05},
    ),
    "typical": Setting(
        lambda: [_ext.TypicalP(0.95), _ext.Dist()], (("typical", 0.95, 1), _DIST), None
    ),
    "top_n_sigma": Setting(
        lambda: [_ext.TopNSigma(1.0), _ext.Dist()], (("top_n_sigma", 1.0), _DIST), None
    ),
    "mirostat_v2": Setting(
        lambda: [_ext.MirostatV2(5.0, 0.1)], (("mirostat_v2", SEED, 5.0, 0.1),), None
    ),
}


def add_parser(benches: Any) -> None:
    parser = benches.add_parser("chain", help="sampler chains", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--vocab", type=int, nargs="+", default=list(VOCAB_SIZES), metavar="V")
    parser.add_argument("--chain", nargs="+", choices=list(CHAINS), default=list(CHAINS))
    parser.add_argument(
        "--rows", nargs="+", choices=KINDS, default=list(KINDS), help="ties: rounded to bfloat16"
    )
    parser.add_argument("--rounds", type=int, default=9, help="rounds per case (default: 9)")
    parser.add_argument(
        "--llama", type=Path, metavar="FOLDER", help="holds libllama 0.5.0 and its parts"
    )
    parser.add_argument(
        "--reference",
        choices=REFERENCES,
        default=REFERENCES[0],
        help="the standard library that llama.cpp is built with (default: libstdc++)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if any(vocab < 1 for vocab in args.vocab):
        raise ValueError(f"[vocab] Expected ints >= 1, got {args.vocab}.")
    if args.rounds < 1:
        raise ValueError(f"[rounds] Expected an int >= 1, got {args.rounds}.")
    llama, why = _find(args.llama)
    results = []
    if not args.json:
        print(header())
        print(f"# llama.cpp: {why}\n# reference: {args.reference}")
        print(_table_head())
    for kind in args.rows:
        for vocab in args.vocab:
            rows = make_rows(vocab, kind)
            for name in args.chain:
                result = measure(name, rows, args.rounds, llama, args.reference)
                result["rows"] = kind
                results.append(result)
                if not args.json:
                    print(_table_row(result), flush=True)
    if args.json:
        where = {**environment(), "llama_cpp": why, "reference": args.reference}
        print(json.dumps({"environment": where, "results": results}, indent=2))
    return 0


def _find(named: Path | None) -> tuple[Llama | None, str]:
    """The library, and a line that says which, or why there is none."""
    path = named or (Path(p) if (p := os.environ.get("MLX_SAMPLING_LLAMA")) else None)
    if path is None:
        return None, "not measured (name a folder with --llama or MLX_SAMPLING_LLAMA)"
    try:
        return Llama(path), "release 0.5.0, as named"
    except LlamaUnavailable as error:
        raise ValueError(f"[llama] Expected a folder that holds libllama, but {error}") from error


def make_rows(vocab: int, kind: str) -> list[np.ndarray]:
    """Normal logits with a few peaks, float32 `[V]`; "ties" are rounded to bfloat16."""
    rng = np.random.default_rng(vocab)
    rows = []
    for _ in range(ROWS):
        row = (2.5 * rng.standard_normal(vocab)).astype(np.float32)
        row[rng.integers(0, vocab, 8)] += rng.uniform(6, 14, 8).astype(np.float32)
        if kind == "ties":
            row = np.array(mx.array(row).astype(mx.bfloat16).astype(mx.float32))
        rows.append(row)
    return rows


def measure(
    name: str, rows: list[np.ndarray], rounds: int, llama: Llama | None, reference: str
) -> dict[str, Any]:
    """One case: microseconds per token of each side. Raises where a token is not llama.cpp's."""
    setting = CHAINS[name]
    sides: dict[str, Pick] = {"ours": _ours(setting, rows, reference)}
    if llama is not None:
        sides["llama.cpp"] = _theirs(setting, rows, llama)
    times: dict[str, list[float]] = {side: [] for side in (*sides, "mlx-lm")}
    for step in range(max(rounds, 1) * ROWS + ROWS):  # the first look at each row is not counted
        tokens = {}
        for side, pick in sides.items():
            started = perf_counter()
            tokens[side] = pick(step % ROWS)
            times[side].append(1e6 * (perf_counter() - started))
        if len(set(tokens.values())) > 1:
            raise ValueError(f"[{name}] Expected one token, got {tokens} in step {step}.")
    peer = _peer(setting, rows)
    if peer is not None:  # it takes some fifty times as long, and leaves cold caches: by itself
        for _ in range(max(rounds, 1) + 1):
            started = perf_counter()
            peer(0)
            times["mlx-lm"].append(1e6 * (perf_counter() - started))
    return {
        "chain": name,
        "vocab": len(rows[0]),
        "us": {
            side: median(us[1:] if side == "mlx-lm" else us[ROWS:])
            for side, us in times.items()
            if us
        },
    }


def _ours(setting: Setting, rows: list[np.ndarray], reference: str) -> Pick:
    chain = _ext.Chain(list(setting.ours()))
    state = _ext.RequestState(SEED, reference=reference)

    def pick(i: int) -> int:
        state.set_row(rows[i])
        state.finish_row()
        return chain.sample(state)

    return pick


def _theirs(setting: Setting, rows: list[np.ndarray], llama: Llama) -> Pick:
    chain = llama.chain([llama.make(*sampler) for sampler in setting.theirs])
    data = np.empty(len(rows[0]), TOKEN_DATA)
    memory = data.view(np.uint8)

    def pick(i: int) -> int:
        _ext.fill_candidates(rows[i], memory)
        array = TokenDataArray(data.ctypes.data, len(data), -1, False)
        chain.apply(array)
        at = array.data + array.selected * TOKEN_DATA.itemsize
        return ctypes.c_uint32.from_address(at).value

    return pick


def _peer(setting: Setting, rows: list[np.ndarray]) -> Pick | None:
    if setting.mlx_lm is None:
        return None
    try:
        from mlx_sampling.mlx_lm.peers import peer_sampler
    except ImportError:
        return None
    sampler = peer_sampler(**setting.mlx_lm)
    arrays = [mx.array(row)[None] for row in rows]
    mx.eval(arrays)
    return lambda i: sampler(arrays[i])


def _table_head() -> str:
    return (
        "# us per token; ratios: how many times as long the peer takes\n"
        f"{'chain':12}{'rows':>6}{'V':>8} | {'ours':>9} | {'llama.cpp':>10}{'ratio':>7} | "
        f"{'mlx-lm':>10}{'ratio':>7}"
    )


def _table_row(r: dict[str, Any]) -> str:
    us = r["us"]
    line = f"{r['chain']:12}{r['rows']:>6}{r['vocab']:8} | {us['ours']:9.1f}"
    for peer in ("llama.cpp", "mlx-lm"):
        if peer in us:
            line += f" | {us[peer]:10.1f}{us[peer] / us['ours']:7.1f}"
        else:
            line += f" | {'-':>10}{'-':>7}"
    return line
