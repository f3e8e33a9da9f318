"""The `mlx-sampling` command: one module per subcommand, each with `add_parser` and `run`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

_INTERRUPTED = 130
_READER_GONE = 141  # What a shell reports for a program that SIGPIPE ended.


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (default: the process's own); returns the exit status.

    0: done. 1: an error, on stderr in one line. 2: a bad command line. 130: interrupted. 141: whoever
    read the output is gone; nothing is said.
    """
    message = None
    try:
        status = _run(argv)
    except KeyboardInterrupt:
        status, message = _INTERRUPTED, "interrupted"
    except BrokenPipeError:
        status = _READER_GONE
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        status, message = 1, f"mlx-sampling: {error}"
    _drop_unwritable_output()
    if message is not None and sys.stderr is not None:
        print(message, file=sys.stderr)
    return status


def _run(argv: Sequence[str] | None) -> int:
    from mlx_sampling import bench
    from mlx_sampling.cli import generate, grammar

    parser = argparse.ArgumentParser(
        prog="mlx-sampling", description="Turns a language model's logits into tokens on MLX."
    )
    parser.add_argument("--version", action="version", version=version("mlx-sampling"))
    commands = parser.add_subparsers(dest="command", required=True)
    for module in (generate, grammar, bench):
        module.add_parser(commands)
    try:
        args = parser.parse_args(argv)
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()  # Help, which argparse prints before it exits.
    if sys.stdout is None:
        raise OSError("[stdout] Expected an open standard output, got a closed one.")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in (
        "strict",
        "surrogateescape",
    ):
        # An answer may hold any character: one that the terminal lacks must not end it.
        sys.stdout.reconfigure(errors="backslashreplace")
    status: int = args.run(args)
    sys.stdout.flush()
    return status


def _drop_unwritable_output() -> None:
    """Sends what cannot be written nowhere: Python would try again as it exits, and complain."""
    if sys.stdout is None or sys.stdout.closed:
        return
    try:
        sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
