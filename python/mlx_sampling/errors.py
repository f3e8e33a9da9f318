"""The errors of this project that a caller may want to catch by name.

Bad arguments are plain `ValueError` or `TypeError`. Nothing here uses the compiled extension.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AcceptanceError",
    "BatchError",
    "CacheNotRestoredError",
    "MlxSamplingError",
    "NonfiniteLogitsError",
]


class MlxSamplingError(Exception):
    """Base of the errors that are particular to mlx_sampling."""


class NonfiniteLogitsError(MlxSamplingError, ValueError):
    """A row of logits holds NaN or an infinity where none is allowed, or no candidate at all."""


class BatchError(MlxSamplingError):
    """Rows of a batch failed; the others did not.

    Attributes:
        results: Per row the token, or the exception that the row would have raised alone. A token
            here was drawn: its sampler is a step further.
        failed: Indices of the rows that failed, ascending.
    """

    def __init__(self, results: Sequence[int | Exception]):
        self.results = list(results)
        self.failed = [i for i, r in enumerate(results) if isinstance(r, Exception)]
        shown = "; ".join(f"row {i}: {results[i]}" for i in self.failed[:3])
        more = "; ..." if len(self.failed) > 3 else ""
        super().__init__(
            f"[sample_batch] Expected every row to give a token, got {len(self.failed)} of "
            f"{len(results)} that failed: {shown}{more}"
        )

    def __reduce__(self) -> tuple[type[BatchError], tuple[list[int | Exception]]]:
        return BatchError, (self.results,)


class AcceptanceError(MlxSamplingError, ValueError):
    """Fewer drafts were accepted than the caller asked for."""


class CacheNotRestoredError(MlxSamplingError, RuntimeError):
    """A step failed and its key-value cache could not be cut back: the cache is of no more use."""
