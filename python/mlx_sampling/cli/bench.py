"""`mlx-sampling bench NAME`: a benchmark beside its peers, in one run."""

from __future__ import annotations

from typing import Any


def add_parser(commands: Any) -> None:
    from mlx_sampling.bench import kernels

    parser = commands.add_parser(
        "bench", help="measure beside peers", description="Measures beside peers, in one run."
    )
    benches = parser.add_subparsers(dest="bench", required=True)
    kernels.add_parser(benches)
