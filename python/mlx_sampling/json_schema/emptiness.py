"""Whether a shape is known to take nothing: what tells the branches of `oneOf` apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlx_sampling.json_schema.arrays import ArrayShape
from mlx_sampling.json_schema.automaton import TooLarge
from mlx_sampling.json_schema.objects import ObjectShape
from mlx_sampling.json_schema.simple import SimpleShape

if TYPE_CHECKING:
    from mlx_sampling.json_schema.normal import Conjunction, Normalizer

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
    """Whether all of these differ by the values they list, or as objects by those of one property."""
    if not all(isinstance(shape, ObjectShape) for shape in shapes):
        return _all_differ([shapes])
    return len(shapes) < 2 or any(
        all(name in shape.required for shape in shapes)
        and _all_differ([_scalars(context, shape.value_of(name)) for shape in shapes])
        for name in shapes[0].required[:8]
    )


def _scalars(context: Normalizer, literals: Conjunction) -> list[Any]:
    kinds = ("null", "boolean", "number", "string", "array", "object")
    return [shape for kind in kinds for shape in context.conjunction(literals, kind)]


def _all_differ(groups: list[list[Any]]) -> bool:
    """Whether no value is listed in two groups, or twice in the only one; False if one is not a list."""
    seen: set[tuple[type, Any]] = set()
    for group in groups:
        own: list[tuple[type, Any]] = []
        for shape in group:
            values = getattr(shape, "values", None)
            if values is None:
                return False
            own += [(type(value), value) for value in values]
        if (len(groups) == 1 and len(set(own)) < len(own)) or not seen.isdisjoint(own):
            return False
        seen.update(own)
    return True
