"""Ctrl-C while the `mlx-sampling` program imports: it ends with status 130 and no traceback.

The package is imported before the program's own code runs, so this cannot be in `cli`. Nothing happens
where the package is used as a library.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise
from pathlib import Path


def _is_program() -> bool:
    """Whether this process runs `mlx-sampling` or `python -m mlx_sampling`."""
    script = sys.argv[0] if sys.argv else ""
    if script != "-m":  # What it is until the module that -m names is found.
        return Path(script).stem == "mlx-sampling"
    return ("-m", "mlx_sampling") in pairwise(sys.orig_argv)


def exit_quietly() -> None:
    """Until `raise_again`, makes Ctrl-C end the program at once; only where it is one."""
    if _is_program() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_again() -> None:
    """Makes Ctrl-C a `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(*_: object) -> None:
    os._exit(130)
