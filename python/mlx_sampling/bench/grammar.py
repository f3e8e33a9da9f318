"""`mlx-sampling bench grammar`: masks, checks, compilation and set-up beside other engines, in one process.

Each workload is a grammar and a text that matches it, walked token by token (longest token first). At every
step each engine makes its full mask of the vocabulary, interleaved, then takes the token:
  mask     microseconds of a full mask: median, mean and 99th percentile over the steps of all walks.
  check    microseconds of asking about one token (ours, llama.cpp).
  compile  milliseconds from the grammar's or schema's text to a matcher, the first time.
  set-up   milliseconds from the tokens' bytes to the engine's vocabulary, once.
Engines that are not installed are left out: `pip install llguidance xgrammar`; llama.cpp by --llama, or the
environment's MLX_SAMPLING_LLAMA (release 0.5.0). Its masks take long: only some of the steps are measured.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from mlx_sampling.bench.environment import environment, header
from mlx_sampling.bench.grammar_peers import PEERS, Engine, Ours, Tokens
from mlx_sampling.bench.grammar_workloads import WORKLOADS, Workload, packaged_tokens, synthetic

SYNTHETIC_SIZE = 202_048
_SLOW_STRIDE = 5


def add_parser(benches: Any) -> None:
    parser = benches.add_parser("grammar", help="masks under grammars", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--vocab", nargs="+", choices=("packaged", "synthetic"), default=["packaged", "synthetic"]
    )
    parser.add_argument(
        "--workload", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS), metavar="NAME"
    )
    parser.add_argument("--walks", type=int, default=5, help="walks per workload (default: 5)")
    parser.add_argument(
        "--llama", type=Path, metavar="FOLDER", help="holds libllama 0.5.0 and its parts"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.walks < 1:
        raise ValueError(f"[walks] Expected an int >= 1, got {args.walks}.")
    llama = args.llama or os.environ.get("MLX_SAMPLING_LLAMA")
    results = []
    if not args.json:
        print(header())
    for kind in args.vocab:
        tokens = packaged_tokens()
        if kind == "synthetic":
            tokens = synthetic(tokens, SYNTHETIC_SIZE)
        engines, setup, absent = _engines(tokens, llama)
        if not args.json:
            print(f"\n# {kind} vocabulary, {len(tokens.texts)} tokens; not measured: {absent}")
            print("# set-up, ms: " + ", ".join(f"{n} {ms:.1f}" for n, ms in setup.items()))
            print(_HEAD)
        for name in args.workload:
            result = measure(WORKLOADS[name], tokens, engines, args.walks)
            results.append({"vocab": kind, "workload": name, "setup_ms": setup, **result})
            if not args.json:
                print(_rows(name, result), flush=True)
    if args.json:
        print(json.dumps({"environment": environment(), "results": results}, indent=2))
    return 0


def _engines(tokens: Tokens, llama: Any) -> tuple[list[Engine], dict[str, float], str]:
    """The engines that are there, milliseconds of their set-up, and which are not and why."""
    engines: list[Engine] = []
    setup, absent = {}, []
    kinds: tuple[type[Engine], ...] = (Ours, *PEERS)
    for kind in kinds:
        try:
            kind.load(llama)
            started = perf_counter()
            engine = kind(tokens)
            setup[kind.name] = 1e3 * (perf_counter() - started)
            engines.append(engine)
        except ImportError as error:
            absent.append(f"{kind.name} ({error})")
    return engines, setup, "; ".join(absent) or "none"


def measure(
    workload: Workload, tokens: Tokens, engines: list[Engine], walks: int
) -> dict[str, Any]:
    """One workload: per engine its figures, or why it has none."""
    figures: dict[str, Any] = {}
    going: list[Engine] = []
    for engine in engines:
        try:
            started = perf_counter()
            engine.compile(workload)
            figures[engine.name] = {"compile_ms": 1e3 * (perf_counter() - started)}
            going.append(engine)
        except ValueError as error:
            figures[engine.name] = {"refused": " ".join(str(error).split())[:120]}
    masks: dict[str, list[float]] = {engine.name: [] for engine in going}
    checks: dict[str, list[float]] = {engine.name: [] for engine in going}
    walked = [tokens.split(text.encode()) for text in workload.texts]
    steps = 0
    for walk in range(walks):
        path = walked[walk % len(walked)]
        for engine in going:
            engine.reset()
        for at, token in enumerate((*path, None)):
            steps += 1
            _step(going, walk + at, token, masks, checks)
    for engine in going:
        spent = masks[engine.name]
        figures[engine.name] |= {
            "mask_us": {
                "median": float(np.median(spent)),
                "mean": float(np.mean(spent)),
                "p99": float(np.percentile(spent, 99)),
                "steps": len(spent),
            },
            "check_us": float(np.median(checks[engine.name])) if checks[engine.name] else None,
        }
    return {"steps": steps, "engines": figures}


def _step(
    engines: list[Engine],
    at: int,
    token: int | None,
    masks: dict[str, list[float]],
    checks: dict[str, list[float]],
) -> None:
    """A mask of each engine in turn, another one first at each step; then the token, where one is left."""
    for i in range(len(engines)):
        engine = engines[(at + i) % len(engines)]
        if engine.slow and at % _SLOW_STRIDE != 0:
            continue
        started = perf_counter()
        engine.fill()
        masks[engine.name].append(1e6 * (perf_counter() - started))
        if token is None:
            continue
        started = perf_counter()
        allowed = engine.check(token)
        if allowed is not None:
            checks[engine.name].append(1e6 * (perf_counter() - started))
        if not (engine.allows(token) and allowed is not False):
            raise ValueError(f"[{engine.name}] Expected token {token} to be allowed; it is not.")
    for engine in engines:
        if token is not None:
            engine.accept(token)


_HEAD = (
    "# mask and check in us, compile in ms; ratio: how many times as long as ours, of medians\n"
    f"{'workload':14}{'engine':>12} | {'median':>9}{'mean':>9}{'p99':>9}{'ratio':>7} | {'check':>7} | "
    f"{'compile':>8}"
)


def _rows(name: str, result: dict[str, Any]) -> str:
    lines = []
    ours = result["engines"]["ours"]["mask_us"]["median"]
    for engine, r in result["engines"].items():
        if "refused" in r:
            lines.append(f"{name:14}{engine:>12} | refused: {r['refused']}")
            continue
        mask, check = r["mask_us"], r["check_us"]
        lines.append(
            f"{name:14}{engine:>12} | {mask['median']:9.1f}{mask['mean']:9.1f}{mask['p99']:9.1f}"
            f"{mask['median'] / ours:7.1f} | {'-' if check is None else f'{check:.1f}':>7} | "
            f"{r['compile_ms']:8.2f}"
        )
    return "\n".join(lines)
