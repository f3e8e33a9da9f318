"""Whether a shape is known to take nothing: what tells the branches of `oneOf` apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlx_sampling.json_schema.arrays import ArrayShape
from mlx_sampling.json_schema.automaton import TooLarge
from mlx_sampling.json_schema.objects import ObjectShape
from mlx_sampling.json_schema.simple import SimpleShape
from mlx_sampling.json_schema.strings import StringShape

if TYPE_CHECKING:
    from mlx_sampling.json_schema.normal import Normalizer

__all__ = ["is_empty", "tagged"]


def is_empty(context: Normalizer, shape: Any, depth: int) -> bool:
    """False where it is not known. Looks `depth` levels into items and properties."""
    if isinstance(shape, SimpleShape):
        return not shape.values
    if isinstance(shape, ArrayShape):
        return any(context.is_empty(shape.item(i), depth) for i in range(min(shape.low, 64)))
    if isinstance(shape, ObjectShape):
        try:
            return any(context.is_empty(shape.value_of(name), depth) for name in shape.required)
        except TooLarge:
            return False
    return bool(shape.is_empty())


def tagged(context: Normalizer, shapes: list[Any]) -> bool:
    """Whether one property that all of these objects have tells each from all others by its string."""
    if len(shapes) < 3 or not all(isinstance(shape, ObjectShape) for shape in shapes):
        return len(shapes) < 2
    return any(
        all(name in shape.required for shape in shapes) and _all_differ(context, shapes, name)
        for name in shapes[0].required[:8]
    )


def _all_differ(context: Normalizer, shapes: list[Any], name: str) -> bool:
    seen: set[str] = set()
    for shape in shapes:
        literals = shape.value_of(name)
        if any(
            context.conjunction(literals, k)
            for k in ("null", "boolean", "number", "array", "object")
        ):
            return False
        for tag in context.conjunction(literals, "string"):
            if (
                not isinstance(tag, StringShape)
                or tag.values is None
                or not seen.isdisjoint(tag.values)
            ):
                return False
            seen.update(tag.values)
    return True
