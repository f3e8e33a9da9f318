"""The `mlx-sampling` command: one module per subcommand, each with `add_parser` and `run`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (default: the process's own); returns the exit status."""
    from mlx_sampling import bench
    from mlx_sampling.cli import generate

    parser = argparse.ArgumentParser(
        prog="mlx-sampling", description="Turns a language model's logits into tokens on MLX."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for module in (generate, bench):
        module.add_parser(commands)
    args = parser.parse_args(argv)
    try:
        status: int = args.run(args)
    except (ValueError, OSError, ImportError) as error:
        print(f"mlx-sampling: {error}", file=sys.stderr)
        return 1
    return status
