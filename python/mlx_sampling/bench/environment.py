"""Where a benchmark ran: figures without it mean nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import mlx.core as mx
import numpy as np


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def environment() -> dict[str, str | int]:
    """Machine, versions and MLX device of this process."""
    from importlib.metadata import version

    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "mlx": version("mlx"),
        "numpy": np.__version__,
        "mlx_sampling": version("mlx-sampling"),
        "device": str(mx.default_device()),
    }


def header() -> str:
    """The environment as lines of text."""
    return "\n".join(f"# {name}: {value}" for name, value in environment().items())
