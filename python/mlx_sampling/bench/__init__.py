"""Benchmarks: each beside its peers in one run, medians and ratios, an environment header."""

from __future__ import annotations

from typing import Any


def add_parser(commands: Any) -> None:
    """Adds `bench NAME` to the command line's subcommands."""
    from mlx_sampling.bench import chain, grammar, kernels, speculative

    parser = commands.add_parser(
        "bench", help="measure beside peers", description="Measures beside peers, in one run."
    )
    benches = parser.add_subparsers(dest="benchmark", required=True)
    for bench in (kernels, chain, grammar, speculative):
        bench.add_parser(benches)
