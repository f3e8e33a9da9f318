"""Damaged snapshots under the address and undefined-behaviour sanitizers.

snapshot_sanitized.cpp and the core are compiled here; without a g++ that has sanitizers the test is
skipped and says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("snapshot_sanitized.cpp")
SANITIZERS = "-fsanitize=address,undefined,float-cast-overflow"
FLAGS = ["-std=c++20", "-O1", "-g1", SANITIZERS, "-fno-sanitize-recover=all", f"-I{ROOT / 'csrc'}"]
TRIES = 4_000


def object_of(folder: Path, source: Path) -> Path:
    return folder / f"{source.parent.name}_{source.stem}.o"


def compiled(folder: Path, source: Path) -> subprocess.Popen:
    command = ["g++", *FLAGS, "-c", source, "-o", object_of(folder, source)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def test_damaged_snapshots(tmp_path):
    core = ROOT / "csrc" / "core"
    if not core.is_dir():
        pytest.skip("no source tree here")
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    probe = tmp_path / "probe.cpp"
    probe.write_text("int main() {}")
    if subprocess.run(
        ["g++", *FLAGS, probe, "-o", tmp_path / "probe"], capture_output=True
    ).returncode:
        pytest.skip("no g++ with C++20 and sanitizers here")
    sources = [SOURCE, *core.rglob("*.cpp")]
    at_once = os.cpu_count() or 1
    for first in range(0, len(sources), at_once):
        for job in [compiled(tmp_path, source) for source in sources[first : first + at_once]]:
            _, errors = job.communicate()
            assert job.returncode == 0, errors.decode()
    objects = [object_of(tmp_path, source) for source in sources]
    program = tmp_path / "check"
    subprocess.run(["g++", SANITIZERS, *objects, "-o", program, "-pthread"], check=True)
    ran = subprocess.run([program, str(TRIES)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    print(report)
    assert report["refused"] + report["restored"] == TRIES
    assert report["refused"] > TRIES / 2
    assert report["restored"] > TRIES / 50
    assert report["stepped"] > report["restored"]
