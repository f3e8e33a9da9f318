"""Finds what runs and checks the Mac half on Linux, and says plainly what is missing.

The tools are looked for in $MAC_TOOLS, by default ../shared/mac-tools beside the checkout. Without them, or
without a compiler they need, a test here is skipped; with MLX_SAMPLING_REQUIRE_MAC=1 it fails instead.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mac_needs import CHECKOUT, missing, program

sys.path[:0] = [str(CHECKOUT / "tests" / "ops")]  # cases.py


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.metal)


@pytest.fixture(scope="session")
def mac_tools(tmp_path_factory):
    """A writable copy of the tools."""
    default = CHECKOUT.parent / "shared" / "mac-tools"
    source = Path(os.environ.get("MAC_TOOLS", default))
    if not (source / "mac_build.sh").is_file():
        missing(f"there are no mac-tools in {source}: set MAC_TOOLS to their folder")
    tools = tmp_path_factory.mktemp("tools") / "mac-tools"
    shutil.copytree(source, tools)
    for path in [tools, *tools.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o700)
    for name in ("zig-cc", "zig-c++"):  # links, which some copies turn into plain files
        (tools / "mac" / name).unlink(missing_ok=True)
        (tools / "mac" / name).symlink_to("zigcc.py")
    return tools


@pytest.fixture(scope="session")
def metal_host(mac_tools, tmp_path_factory):
    """The module that runs Metal kernels on the CPU."""
    clang = program(os.environ.get("MH_CLANG", "clang++-22"), "apt-get install clang-22")
    probe = tmp_path_factory.mktemp("probe")
    (probe / "a.cpp").write_text("int main() {}\n")
    linked = subprocess.run(
        [clang, "-fsanitize=address", str(probe / "a.cpp"), "-o", str(probe / "a")],
        capture_output=True,
        text=True,
    )
    if linked.returncode != 0:
        missing(f"{clang} links nothing with ASan: apt-get install libclang-rt-22-dev")
    sys.path.insert(0, str(mac_tools / "metal_host"))
    return importlib.import_module("metal_host")


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    """Stem -> Metal source, as embed_metal.cmake puts it into the extension."""
    header = tmp_path_factory.mktemp("embedded") / "metal_sources.h"
    metal = ";".join(map(str, sorted((CHECKOUT / "metal").glob("*.metal"))))
    cmake = program("cmake", "pip install cmake")
    script = CHECKOUT / "cmake" / "embed_metal.cmake"
    subprocess.run([cmake, f"-DOUT={header}", f"-DSOURCES={metal}", "-P", str(script)], check=True)
    found = re.findall(r'char (\w+)\[\] = R"metal\((.*?)\)metal";', header.read_text(), re.S)
    return dict(found)


@pytest.fixture(scope="session")
def clean_sources(tmp_path_factory):
    """A copy of what the extension is built from, and nothing else."""
    copy = tmp_path_factory.mktemp("copy") / "mlx-sampling-under-test"
    for name in ("cmake", "csrc", "metal", "python"):
        shutil.copytree(CHECKOUT / name, copy / name)
    for path in CHECKOUT.iterdir():
        if path.is_file() and path.suffix in (".txt", ".toml", ".md"):
            shutil.copy(path, copy)
    return copy
