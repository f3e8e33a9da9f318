"""The errors of this project that a caller may want to catch by name.

Bad arguments are plain `ValueError` or `TypeError`. Nothing here uses the compiled extension.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AcceptanceError",
    "BatchError",
    "CacheNotRestoredError",
    "GrammarError",
    "GrammarRefusalError",
    "JsonSchemaError",
    "MlxSamplingError",
    "NonfiniteLogitsError",
]


class MlxSamplingError(Exception):
    """Base of the errors that are particular to mlx_sampling."""


class NonfiniteLogitsError(MlxSamplingError, ValueError):
    """A row of logits holds NaN or an infinity where none is allowed, or no candidate at all."""


class GrammarError(MlxSamplingError, ValueError):
    """A grammar's text cannot be read: `3:14: rule "item" is not defined`.

    Attributes:
        line: Where, from 1.
        column: From 1, in code points.
    """

    def __init__(self, message: str, line: int, column: int):
        self.line = line
        self.column = column
        super().__init__(message)

    def __reduce__(self) -> tuple[type[GrammarError], tuple[str, int, int]]:
        return GrammarError, (str(self), self.line, self.column)


class GrammarRefusalError(MlxSamplingError, ValueError):
    """A token that the request's grammar does not allow, or a text that no token can go on with."""


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


class JsonSchemaError(MlxSamplingError, ValueError):
    """A JSON Schema that is not one, or asks for what no grammar of bounded size can enforce.

    Attributes:
        pointer: Where in the schema: a JSON pointer as a URI fragment, `#/properties/id`.
        keyword: The keyword that is not enforced; None where the schema itself is at fault.
    """

    def __init__(self, pointer: str, message: str, keyword: str | None = None):
        self.pointer = pointer
        self.keyword = keyword
        self._message = message
        super().__init__(f"{pointer}: {message}")

    def __reduce__(self) -> tuple[type[JsonSchemaError], tuple[str, str, str | None]]:
        return JsonSchemaError, (self.pointer, self._message, self.keyword)
