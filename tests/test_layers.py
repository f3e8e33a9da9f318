"""Dependencies point one way: core <- ops <- bindings <- python <- programs."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "mlx_sampling"

# folder of csrc: what its files may not include, and why
FORBIDDEN_INCLUDES = {
    "core": (r"(ops|bindings|mlx|nanobind|Python\.h|metal_sources)", "is plain C++"),
    "ops": (r"(bindings|nanobind|Python\.h)", "knows MLX but not Python"),
}
LM_FOLDER = "mlx_lm/"
PROGRAMS = ("cli", "bench")


def include_faults(folder: str, name: str, text: str) -> list[str]:
    pattern, why = FORBIDDEN_INCLUDES[folder]
    found = re.findall(rf'^\s*#\s*include\s+[<"]({pattern}\b[^>"]*)', text, re.MULTILINE)
    return [f"csrc/{folder}/{name} includes {path}, but {folder} {why}." for path, *_ in found]


def imported(text: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def import_faults(path: str, text: str) -> list[str]:
    names = imported(text)
    faults = []
    if not path.startswith(LM_FOLDER) and any(n.split(".")[0] == "mlx_lm" for n in names):
        faults.append(f"{path} imports mlx_lm, but only {LM_FOLDER} may.")
    if path == "reference.py" and any("_ext" in n.split(".") for n in names):
        faults.append("reference.py imports _ext, but the oracle must stand by itself.")
    if not path.startswith(PROGRAMS) and path != "__main__.py":
        for program in PROGRAMS:
            if any(n.startswith(f"mlx_sampling.{program}") for n in names):
                faults.append(f"{path} imports {program}, but programs are built on the library.")
    return faults


@pytest.mark.parametrize("folder", FORBIDDEN_INCLUDES)
def test_includes(folder):
    sources = [p for p in (ROOT / "csrc" / folder).rglob("*") if p.suffix in {".h", ".cpp"}]
    assert sources
    faults = [f for p in sources for f in include_faults(folder, p.name, p.read_text())]
    assert not faults, "\n".join(faults)


def test_imports():
    modules = list(PACKAGE.rglob("*.py"))
    assert len(modules) > 10
    faults = []
    for module in modules:
        faults += import_faults(module.relative_to(PACKAGE).as_posix(), module.read_text())
    assert not faults, "\n".join(faults)


def test_planted_faults_are_named():
    assert include_faults("core", "a.h", '#include "ops/argmax.h"\n') == [
        "csrc/core/a.h includes ops/argmax.h, but core is plain C++."
    ]
    assert include_faults("ops", "a.cpp", "#include <nanobind/nanobind.h>") != []
    assert include_faults("core", "a.h", '#include "core/mt19937.h"\n#include <vector>') == []
    assert import_faults("greedy.py", "import mlx_lm.models") != []
    assert import_faults("reference.py", "from mlx_sampling import _ext") != []
    assert import_faults("ops.py", "from mlx_sampling.bench import kernels") != []


def test_no_two_test_modules_share_a_name():
    """They are imported by name alone: the second would get the first."""
    names = [path.stem for path in (ROOT / "tests").rglob("*.py") if path.stem != "conftest"]
    assert sorted(names) == sorted(set(names))


def test_nothing_is_imported_from_conftest():
    for path in (ROOT / "tests").rglob("*.py"):
        assert "conftest" not in imported(path.read_text()), path
