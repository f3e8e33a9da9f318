"""The import check: each mismatch gives one sentence that says what is loaded, built against, mends it."""

import importlib
import importlib.metadata
import subprocess
import sys
import types

import pytest

from mlx_sampling import _check
from mlx_sampling._build import MLX_VERSION, NANOBIND_VERSION


def test_the_installed_pair_is_the_built_one():
    assert importlib.metadata.version("mlx") == MLX_VERSION
    assert _check.load_ext(_check.load_mlx()).NO_TOKEN == 0xFFFFFFFF


def test_another_mlx(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.31.0")
    with pytest.raises(
        ImportError, match=rf"against mlx {MLX_VERSION}, but mlx 0\.31\.0 is ins.*pip"
    ):
        _check.load_mlx()


def failing(name_of, error):
    real = importlib.import_module

    def import_module(name, package=None):
        if name == name_of:
            raise error
        return real(name, package)

    return import_module


def test_no_mlx(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    monkeypatch.setattr(importlib, "import_module", failing("mlx.core", ImportError("no")))
    with pytest.raises(ImportError, match=r"mlx is not installed; mend it with: pip install"):
        _check.load_mlx()


def test_no_backend(monkeypatch):
    error = ImportError("libmlx.so: cannot open shared object file")
    monkeypatch.setattr(importlib, "import_module", failing("mlx.core", error))
    with pytest.raises(
        ImportError, match=r"without a backend that loads \(libmlx.*mend it with: pip"
    ):
        _check.load_mlx()


def test_an_extension_that_does_not_load(monkeypatch):
    error = ImportError("undefined symbol")
    monkeypatch.setattr(importlib, "import_module", failing("mlx_sampling._ext", error))
    with pytest.raises(ImportError, match=r"does not load \(undefined symbol\); mend it with: pip"):
        _check.load_ext(_check.load_mlx())


def test_another_nanobind(monkeypatch):
    def refuse(array):
        raise TypeError("is_available(): incompatible function arguments.")

    foreign = types.SimpleNamespace(is_available=refuse)
    monkeypatch.setattr(importlib, "import_module", lambda name: foreign)
    core = types.SimpleNamespace(array=lambda value: value, __version__="0.32.4")
    with pytest.raises(ImportError, match=rf"nanobind {NANOBIND_VERSION}, which does not match"):
        _check.load_ext(core)


def test_import_needs_no_mlx_lm():
    code = (
        "import sys; sys.modules['mlx_lm'] = None; import mlx_sampling; "
        "assert mlx_sampling.argmax and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
