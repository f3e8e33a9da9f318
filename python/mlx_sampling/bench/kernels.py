"""`mlx-sampling bench kernels`: argmax and greedy_argmax beside mx.argmax and a composed greedy.

Two figures for each, in microseconds, medians over interleaved rounds:
  per op   one evaluation of many ops on different rows, divided by their number, less the cost of an op
           that reads one logit (measured in the same rounds): what the op itself costs inside a graph.
  latency  one evaluation of one op, with everything that an evaluation costs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import mlx.core as mx
import numpy as np

from mlx_sampling.bench.environment import environment, header
from mlx_sampling.ops import NO_TOKEN, argmax, greedy_argmax

VOCAB_SIZES = (32_000, 128_256, 202_048, 262_144)
ROWS = (1, 8, 64)
DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}

Op = Callable[[mx.array], mx.array]


def composed(logits: mx.array) -> mx.array:
    """What greedy_argmax gives, from mx ops: finite check, -inf mask, argmax."""
    finite = mx.all(mx.isfinite(logits), axis=-1)
    masked = mx.where(mx.isfinite(logits), logits, -mx.inf)
    return mx.where(finite, mx.argmax(masked, axis=-1), mx.array(NO_TOKEN, mx.uint32))


OPS: dict[str, Op] = {
    "argmax": argmax,
    "greedy_argmax": greedy_argmax,
    "mx.argmax": lambda logits: mx.argmax(logits, axis=-1),
    "composed": composed,
}


def add_parser(benches: Any) -> None:
    parser = benches.add_parser("kernels", help="argmax and greedy_argmax", description=__doc__)
    parser.add_argument(
        "--vocab",
        type=int,
        nargs="+",
        default=list(VOCAB_SIZES),
        metavar="V",
        help=f"default: {VOCAB_SIZES}",
    )
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS), help=f"default: {ROWS}")
    parser.add_argument("--dtype", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--rounds", type=int, default=7, help="rounds per case (default: 7)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    for name in ("vocab", "rows"):
        if any(value < 1 for value in getattr(args, name)):
            raise ValueError(f"[{name}] Expected ints >= 1, got {getattr(args, name)}.")
    if args.rounds < 1:
        raise ValueError(f"[rounds] Expected an int >= 1, got {args.rounds}.")
    results = []
    if not args.json:
        print(header())
        print(_table_head())
    for dtype in args.dtype:
        for vocab in args.vocab:
            for rows in args.rows:
                result = measure(vocab, rows, dtype, args.rounds)
                results.append(result)
                if not args.json:
                    print(_table_row(result), flush=True)
    if args.json:
        print(json.dumps({"environment": environment(), "results": results}, indent=2))
    return 0


def measure(vocab: int, rows: int, dtype: str, rounds: int) -> dict[str, Any]:
    """One case: microseconds of each op, and NumPy's argmax where NumPy has the dtype."""
    ops = max(4, 64 // rows)
    keys = mx.random.split(mx.random.key(vocab * 1000 + rows), ops)
    inputs = [(3 * mx.random.normal((rows, vocab), key=k)).astype(DTYPES[dtype]) for k in keys]
    tiny = [mx.zeros((rows, 1), DTYPES[dtype]) for _ in range(ops)]
    mx.eval(inputs, tiny)
    hosts = [np.array(x) for x in inputs] if dtype != "bfloat16" else []
    for op in OPS.values():
        mx.eval(op(inputs[0]), op(tiny[0]))
    per_op: dict[str, list[float]] = {name: [] for name in OPS}
    latency: dict[str, list[float]] = {name: [] for name in OPS}
    empty: list[float] = []
    numpy: list[float] = []
    for _ in range(rounds):
        empty.append(_many(argmax, tiny))
        for name, op in OPS.items():
            per_op[name].append(_many(op, inputs))
            latency[name].append(_many(op, inputs[:1]))
        if hosts:
            started = perf_counter()
            for host in hosts:
                host.argmax(axis=-1)
            numpy.append(1e6 * (perf_counter() - started) / ops)
    floor = median(empty)
    return {
        "vocab": vocab,
        "rows": rows,
        "dtype": dtype,
        "ops": ops,
        "empty_op_us": floor,
        "per_op_us": {name: median(us) - floor for name, us in per_op.items()},
        "latency_us": {name: median(us) for name, us in latency.items()},
        "numpy_us": median(numpy) if numpy else None,
    }


def _many(op: Op, inputs: list[mx.array]) -> float:
    """Microseconds per op of one evaluation of `op` on every input."""
    started = perf_counter()
    mx.eval([op(x) for x in inputs])
    return 1e6 * (perf_counter() - started) / len(inputs)


def _table_head() -> str:
    return (
        "# per op and latency in us; ratios: how many times as long the peer takes\n"
        f"{'dtype':9}{'V':>8}{'rows':>5} | {'argmax':>8}{'mx/':>8}{'np/':>8} | "
        f"{'greedy':>8}{'mx/':>8}{'comp/':>8}{'/argmax':>8} | "
        f"{'lat.arg':>8}{'lat.gre':>9}{'lat.mx':>10}{'lat.comp':>10}"
    )


def _table_row(r: dict[str, Any]) -> str:
    op, lat = r["per_op_us"], r["latency_us"]
    ours, greedy, theirs, comp = (op[n] for n in OPS)
    numpy = _ratio(r["numpy_us"], ours, 7) if r["numpy_us"] is not None else f" {'-':>7}"
    return (
        f"{r['dtype']:9}{r['vocab']:8}{r['rows']:5} | "
        f"{ours:8.1f}{_ratio(theirs, ours, 7)}{numpy} | "
        f"{greedy:8.1f}{_ratio(theirs, greedy, 7)}{_ratio(comp, greedy, 7)}"
        f"{_ratio(greedy, ours, 7, 2)} | "
        f"{lat['argmax']:8.1f}{lat['greedy_argmax']:9.1f}{lat['mx.argmax']:10.1f}{lat['composed']:10.1f}"
    )


def _ratio(a: float, b: float, width: int, digits: int = 1) -> str:
    """a / b; a dash where b is lost in the noise of the empty op that was taken off."""
    return f" {a / b:{width}.{digits}f}" if b > 0.5 else f" {'-':>{width}}"
