"""What the tests of the Mac half need, and what happens where it is missing."""

import os
import shutil
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


def missing(what: str) -> None:
    if os.environ.get("MLX_SAMPLING_REQUIRE_MAC") == "1":
        pytest.fail(f"MLX_SAMPLING_REQUIRE_MAC=1, but {what}", pytrace=False)
    pytest.skip(what)


def program(name: str, where_from: str) -> str:
    """Path of an executable, the running interpreter's folder first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        missing(f"{name} is not on PATH: {where_from}")
    return found
