"""The errors of this project that a caller may want to catch by name.

Bad arguments are plain `ValueError` or `TypeError`. Nothing here uses the compiled extension.
"""

from __future__ import annotations

__all__ = ["CacheNotRestoredError", "MlxSamplingError", "NonfiniteLogitsError"]


class MlxSamplingError(Exception):
    """Base of the errors that are particular to mlx_sampling."""


class NonfiniteLogitsError(MlxSamplingError, ValueError):
    """A row of logits holds NaN or an infinity where none is allowed, or no candidate at all."""


class CacheNotRestoredError(MlxSamplingError, RuntimeError):
    """A step failed and its key-value cache could not be cut back: the cache is of no more use."""
