"""null and booleans: shapes that are a set of values."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SimpleShape"]


class SimpleShape(NamedTuple):
    """Some of null, false and true."""

    values: tuple[bool | None, ...]

    def meet(self, other: SimpleShape) -> SimpleShape | None:
        both = tuple(v for v in self.values if v in other.values)
        return SimpleShape(both) if both else None
