"""Checks, before anything else is imported, that the loaded MLX is the one this build can talk to.

mlx.core and `_ext` exchange Python objects through nanobind, so they must come from the same pair of
versions. Each failure says what is loaded, what was built against, and the command that mends it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from types import ModuleType

from mlx_sampling._build import MLX_VERSION, NANOBIND_VERSION


def _install_command() -> str:
    backend = "" if sys.platform == "darwin" else "[cpu]"
    return f'pip install "mlx{backend}=={MLX_VERSION}"'


def load_mlx() -> ModuleType:
    """Imports `mlx.core` of the version that this build needs.

    Raises:
        ImportError: MLX is absent, has no backend, or is another version.
    """
    try:
        found = importlib.metadata.version("mlx")
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found is not None and found != MLX_VERSION:
        raise ImportError(
            f"mlx_sampling was built against mlx {MLX_VERSION}, but mlx {found} is installed; "
            f"mend it with: {_install_command()}"
        )
    try:
        core = importlib.import_module("mlx.core")
    except ImportError as error:
        if found is None:
            state = "mlx is not installed"
        else:
            state = f"mlx {found} is installed without a backend that loads ({error})"
        raise ImportError(
            f"mlx_sampling was built against mlx {MLX_VERSION}, but {state}; "
            f"mend it with: {_install_command()}"
        ) from error
    return core


def load_ext(core: ModuleType) -> ModuleType:
    """Imports `_ext` and checks that it takes and gives `mlx.core` arrays.

    Raises:
        ImportError: The extension is missing, does not load, or was built with another nanobind.
    """
    rebuild = "pip install --force-reinstall --no-deps mlx-sampling"
    try:
        ext = importlib.import_module("mlx_sampling._ext")
    except ImportError as error:
        raise ImportError(
            f"mlx_sampling's extension, built against mlx {MLX_VERSION}, does not load ({error}); "
            f"mend it with: {rebuild}"
        ) from error
    try:
        ext.is_available(core.array(0))
    except TypeError as error:
        raise ImportError(
            f"mlx_sampling's extension was built with nanobind {NANOBIND_VERSION}, which does not "
            f"match the loaded mlx {getattr(core, '__version__', '?')} (its calls fail with "
            f'"incompatible function arguments"); mend it with: {_install_command()} && {rebuild}'
        ) from error
    return ext
