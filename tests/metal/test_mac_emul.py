"""eval_gpu itself, run on Linux: MLX's Metal calls recorded, each dispatch run on the CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mac_needs import CHECKOUT, missing, program


@pytest.fixture(scope="module")
def emulated(mac_tools, metal_host, clean_sources, tmp_path_factory):
    """One line per case of emul_worker.py, of an extension built once for all tests here."""
    for name in ("cmake", "ninja"):
        program(name, f"pip install {name}")
    if not (Path(sys.prefix) / "bin" / "python").exists():
        missing(f"{sys.prefix} is no environment with a bin/python")
    try:
        import nanobind  # noqa: F401
    except ImportError:
        missing("nanobind is not installed: pip install nanobind==3.1.0")
    out = tmp_path_factory.mktemp("emul") / "out"
    emul = mac_tools / "mac_emul"
    build = [emul / "emul_build.sh", clean_sources, out, "-DMLX_SAMPLING_STUBS=OFF"]
    built = subprocess.run(
        ["bash", *build],
        env={**os.environ, "MX_VENV": sys.prefix},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    here = Path(__file__).parent
    path = [out / "b", out / "emul" / "b", CHECKOUT / "tests" / "ops"]
    worker = subprocess.run(
        [sys.executable, here / "emul_worker.py"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "MH_EMUL_RUN": f"{sys.executable} {emul / 'emul_run.py'}",
            "MH_EMUL_SEEDS": "0,1",
            "MH_EMUL_TMP": str(tmp_path_factory.mktemp("dispatches")),
        },
        capture_output=True,
        text=True,
    )
    assert worker.returncode == 0, worker.stdout[-2000:] + worker.stderr
    return [json.loads(line) for line in worker.stdout.splitlines()]


def problems_of(line):
    """Problems, but for phase 1's buffers that are still bound when phase 2 runs: an encoder keeps what
    was bound, and phase 1 itself is checked for buffers that it lacks."""
    count = 12 if line["name"].startswith("greedy_argmax") else 6
    left = {
        f"dispatch 1 (selection_phase2): buffer({i}) is set but the kernel has none"
        for i in range(4, count)
    }
    return [problem for problem in line["problems"] if problem not in left]


def test_no_problems(emulated):
    found = {f"{line['name']}, limit {line['limit']}": problems_of(line) for line in emulated}
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_tokens(emulated):
    assert [line["name"] for line in emulated if not line["right"]] == []
    assert {line["dtype"] for line in emulated} == {"uint32"}
    assert len(emulated) >= 75
    assert sum(line["picked"] for line in emulated) >= 250


def test_geometry(emulated):
    by_name = {(line["name"], line["limit"]): line["trace"] for line in emulated}
    one = by_name["argmax one row float32", 1024]
    assert len(one) == 2
    assert "argmax_phase1_float32) grid 198x1x1 tg 256x1x1" in one[0]
    assert "selection_phase2) grid 1x1x1 tg 224x1x1" in one[1]
    assert "grid 198x2x1 tg 256x1x1" in by_name["argmax batch float16", 1024][0]
    assert "tg 32x1x1" in by_name["argmax width 1", 1024][0]
    assert "tg 64x1x1" in by_name["argmax width 33", 1024][0]
    for limit in (128, 64, 32):
        for phase in by_name["argmax one row float32", limit]:
            assert f"tg {limit}x1x1" in phase
    assert by_name["argmax empty", 1024] == []
