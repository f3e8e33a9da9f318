"""reference_order.h against the real std::sort and std::partial_sort, element by element.

reference_order_check.cpp is compiled with each standard library found here. DIGESTS are the orders
of both flavours, so that a machine with one library checks the other flavour too; after a change of
the arrays, run the program and copy what it prints.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("reference_order_check.cpp")
FLAGS = ["-std=c++20", "-O2", f"-I{ROOT / 'csrc'}"]
DIGESTS = {"libc++": "be2efdfa44666604", "libstdc++": "0e9175ab958798de"}
CLANGS = ["clang++-22", "clang++-21", "clang++-20", "clang++-19", "clang++-18", "clang++"]


def built(*command: str | Path) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True).returncode == 0


def report_of(binary: Path) -> dict:
    ran = subprocess.run([binary], capture_output=True, text=True, check=True)
    print(ran.stdout, ran.stderr)
    return json.loads(ran.stdout)


def check(report: dict) -> None:
    assert report["mismatches"] == 0
    assert report["arrays"] >= 300_000
    assert report["arrays"] == report["sorts"] + report["partial_sorts"]
    for element in ("candidates", "size_ts", "ints", "boxed", "with_nan"):
        assert report[element] >= 70_000, element
    # Before LLVM 22, libc++ made heaps of integers in another way than the pinned one.
    old = report["library"] == "libc++" and report["version"] < 220_000
    assert report["uncompared"] == (report["size_ts"] + report["ints"] if old else 0)
    assert report["digests"] == DIGESTS


@pytest.fixture(autouse=True)
def _source_tree():
    if not (ROOT / "csrc").is_dir():
        pytest.skip("no source tree here")


def test_libstdcxx(tmp_path):
    binary = tmp_path / "check"
    if not built("g++", *FLAGS, SOURCE, "-o", binary):
        pytest.skip("no g++ with C++20 here")
    report = report_of(binary)
    if report["library"] != "libstdc++":
        pytest.skip("g++ here is clang with libc++")
    check(report)


def test_libcxx(tmp_path):
    binary = tmp_path / "check"
    for clang in CLANGS:
        if built(clang, "-stdlib=libc++", *FLAGS, SOURCE, "-o", binary):
            break
    else:
        pytest.skip("no clang++ with libc++ here (Debian: clang-19 and libc++-19-dev)")
    report = report_of(binary)
    if report["version"] < 170_000:
        pytest.skip(f"libc++ {report['version']} sorts as before LLVM 17")
    check(report)


def test_libcxx_of_zig(tmp_path):
    """The libc++ 22 headers in PyPI's ziglang; linking with zig would build its libc++ first."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("no ziglang here (pip install ziglang==0.17.1 has libc++ 22)")
    zig = [sys.executable, "-m", "ziglang", "c++"]
    unit, binary = tmp_path / "check.o", tmp_path / "check"
    assert built(*zig, *FLAGS, "-c", SOURCE, "-o", unit)
    # libstdc++ has all that the unit wants, bar one exception that is never thrown.
    never = "-Wl,--defsym=_ZNSt20bad_array_new_lengthC1Ev=main"
    if not built("g++", unit, "-o", binary, never):
        pytest.skip("no g++ here that links zig's object files")
    check(report_of(binary))
