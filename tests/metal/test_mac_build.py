"""The project's own CMakeLists.txt, built for macOS on Linux: every symbol must have a home there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from mac_needs import missing, program


def python_3_12():
    """A CPython 3.12 that can make an environment: the running one's base, PATH's or pyenv's."""
    if sys.version_info[:2] == (3, 12):
        return str(Path(sys.base_prefix) / "bin" / "python3.12")
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.12*/bin/python3.12"))
    candidates = [*map(str, pyenv), shutil.which("python3.12")]
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
            return candidate
    return missing("there is no Python 3.12, whose macOS wheel the build is checked against")


def test_builds_for_macos(mac_tools, clean_sources):
    program("llvm-ar", "apt-get install llvm")
    built = subprocess.run(
        ["bash", mac_tools / "mac_build.sh", clean_sources],
        env={**os.environ, "PYTHON": python_3_12()},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout[-6000:] + built.stderr[-6000:]
    assert "PASS: every undefined symbol has a home" in built.stdout
    assert "passes between them" in built.stdout
    assert "warning:" not in built.stderr + built.stdout
