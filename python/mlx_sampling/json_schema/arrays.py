"""prefixItems, items, minItems, maxItems, contains, uniqueItems and unevaluatedItems."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mlx_sampling.json_schema.document import Node

if TYPE_CHECKING:
    from mlx_sampling.json_schema.normal import Conjunction, Normalizer

__all__ = ["ArrayShape", "Contains"]


class Contains(NamedTuple):
    """From the item numbered `start` on, `low` to `high` items are of a type."""

    item: Conjunction
    low: int
    high: int | None
    start: int = 0


class ArrayShape(NamedTuple):
    """Arrays by the types of their items.

    Attributes:
        prefix: Types of the first items, where there are that many.
        rest: The type of all others.
        evaluated: How many items from the first were looked at by `prefixItems`; None: all.
        seen: Types of items that `contains` looked at.
    """

    prefix: tuple[Conjunction, ...] = ()
    rest: Conjunction = ()
    low: int = 0
    high: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: bool = False
    evaluated: int | None = 0
    seen: tuple[Conjunction, ...] = ()

    def item(self, index: int) -> Conjunction:
        return self.prefix[index] if index < len(self.prefix) else self.rest

    def meet(self, other: ArrayShape) -> ArrayShape | None:
        size = max(len(self.prefix), len(other.prefix))
        highs = [h for h in (self.high, other.high) if h is not None]
        low, high = max(self.low, other.low), min(highs) if highs else None
        if high is not None and high < low:
            return None
        evaluated = (self.evaluated, other.evaluated)
        return ArrayShape(
            tuple(tuple(dict.fromkeys(self.item(i) + other.item(i))) for i in range(size)),
            tuple(dict.fromkeys(self.rest + other.rest)),
            low,
            high,
            tuple(dict.fromkeys(self.contains + other.contains)),
            self.unique or other.unique,
            None if None in evaluated else max(e for e in evaluated if e is not None),
            tuple(dict.fromkeys(self.seen + other.seen)),
        )


def items(context: Normalizer, node: Node, kind: str) -> list:
    """prefixItems and items."""
    if kind != "array":
        return [context.full(kind)]
    prefix = tuple(((child, True),) for child in node.children("prefixItems"))
    rest = ((node.child("items"), True),) if node.has("items") else ()
    return [ArrayShape(prefix, rest, evaluated=None if node.has("items") else len(prefix))]


def not_items(context: Normalizer, node: Node, kind: str) -> list:
    if kind != "array":
        return []
    prefix = node.children("prefixItems")
    free: Conjunction = ()
    shapes = [
        ArrayShape(prefix=(*[free] * i, ((child, False),)), low=i + 1)
        for i, child in enumerate(prefix)
    ]
    if node.has("items"):
        wrong = Contains(((node.child("items"), False),), 1, None, len(prefix))
        shapes.append(ArrayShape(low=len(prefix) + 1, contains=(wrong,)))
    return shapes


def length(context: Normalizer, node: Node, kind: str) -> list:
    """minItems and maxItems."""
    if kind != "array":
        return [context.full(kind)]
    low, high = int(node.get("minItems") or 0), node.get("maxItems")
    if high is not None and high < low:
        return []
    return [ArrayShape(low=low, high=None if high is None else int(high))]


def not_length(context: Normalizer, node: Node, kind: str) -> list:
    if kind != "array":
        return []
    shapes = []
    if node.get("minItems"):
        shapes.append(ArrayShape(high=int(node.get("minItems")) - 1))
    if node.has("maxItems"):
        shapes.append(ArrayShape(low=int(node.get("maxItems")) + 1))
    return shapes


def contains(context: Normalizer, node: Node, kind: str) -> list:
    """contains, minContains and maxContains."""
    if kind != "array":
        return [context.full(kind)]
    low, high = _contains_bounds(node)
    item: Conjunction = ((node.child("contains"), True),)
    if high is not None and high < low:
        return []
    bounds = (Contains(item, low, high),) if low or high is not None else ()
    return [ArrayShape(low=low, contains=bounds, seen=(item,))]


def not_contains(context: Normalizer, node: Node, kind: str) -> list:
    if kind != "array":
        return []
    low, high = _contains_bounds(node)
    item: Conjunction = ((node.child("contains"), True),)
    shapes = []
    if low:
        shapes.append(ArrayShape(contains=(Contains(item, 0, low - 1),)))
    if high is not None:
        shapes.append(ArrayShape(low=high + 1, contains=(Contains(item, high + 1, None),)))
    return shapes


def _contains_bounds(node: Node) -> tuple[int, int | None]:
    low, high = node.get("minContains"), node.get("maxContains")
    return 1 if low is None else int(low), None if high is None else int(high)


def unique(context: Normalizer, node: Node, kind: str) -> list:
    """uniqueItems: whether it can be enforced shows when the array is written."""
    return [
        ArrayShape(unique=True)
        if kind == "array" and node.get("uniqueItems")
        else context.full(kind)
    ]


def not_unique(context: Normalizer, node: Node, kind: str) -> list:
    if kind == "array" and node.get("uniqueItems"):
        context.unsupported(node, "uniqueItems", "uniqueItems where it must not hold")
    return []


def unevaluated(context: Normalizer, node: Node, shape: ArrayShape) -> ArrayShape:
    """The shape with what `unevaluatedItems` demands of the items that nothing else looked at."""
    if shape.evaluated is None:
        return shape
    item: Conjunction = ((node.child("unevaluatedItems"), True),)
    allowed = context.any_of((item, *shape.seen)) if shape.seen else item
    prefix = [shape.item(i) for i in range(max(len(shape.prefix), shape.evaluated))]
    prefix = [p if i < shape.evaluated else p + allowed for i, p in enumerate(prefix)]
    return shape._replace(prefix=tuple(prefix), rest=shape.rest + allowed, evaluated=None)
