"""Arrays as grammar: a chain where only lengths and places count, otherwise one rule per state."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from mlx_sampling.json_schema.arrays import ArrayShape
from mlx_sampling.json_schema.gbnf import NEVER, Expr, alt, lit, ref, repeat, seq
from mlx_sampling.json_schema.numbers import NumberShape
from mlx_sampling.json_schema.values import number_text

if TYPE_CHECKING:
    from mlx_sampling.json_schema.normal import Conjunction
    from mlx_sampling.json_schema.writer import Writer

__all__ = ["array_expr"]

STATES = 3000
CHOICES = 30_000
_VALUES = 64  # of a type whose items are all different


def array_expr(writer: Writer, shape: ArrayShape) -> Expr:
    """An array of a shape."""
    if shape.high is not None and shape.high < 2:
        shape = shape._replace(unique=False)
    if not shape.unique:
        shape = shape._replace(contains=tuple(c for c in shape.contains if not _implied(shape, c)))
    if shape.contains or shape.unique:
        try:
            return _States(writer, shape).expr()
        except _Lost:
            return array_expr(writer, shape._replace(unique=False))
    return _chain(writer, shape)


def _implied(shape: ArrayShape, contains: Any) -> bool:
    """Whether lengths and types alone see to it."""
    if contains.high is not None:
        return False
    items = [shape.item(i) for i in range(contains.start, len(shape.prefix))] + [shape.rest]
    return shape.low >= contains.start + contains.low and all(
        all(literal in item for literal in contains.item) for item in items
    )


def _chain(writer: Writer, shape: ArrayShape) -> Expr:
    close = seq(writer.gap, lit("]"))
    low, high, size = shape.low, shape.high, len(shape.prefix)
    if high is not None:
        size = min(size, high)
    rest = seq(writer.comma, writer.value(shape.rest, f"{writer.hint}-item"))
    left = None if high is None else high - max(size, 1)
    tail = seq(repeat(rest, max(0, low - max(size, 1)), left), close)
    for i in range(size - 1, 0, -1):
        item = seq(writer.comma, writer.value(shape.prefix[i], f"{writer.hint}-{i}"))
        name = writer.grammar.fresh(f"{writer.hint}-tail")
        writer.grammar.define(name, tail)
        tail = seq(item, ref(name))
        if low <= i:
            tail = alt(close, tail)
    first = writer.value(shape.item(0), f"{writer.hint}-item")
    filled = seq(lit("["), writer.gap, first, tail)
    if high == 0:
        return lit("[]") if low == 0 else NEVER
    return alt(lit("[]"), filled) if low == 0 else filled


class _State(NamedTuple):
    place: int
    counts: tuple[int, ...]
    used: frozenset[int]


class _Choice(NamedTuple):
    item: Conjunction
    target: _State


class _States:
    """An array read item by item: its place, how often `contains` held, and which values were used."""

    def __init__(self, writer: Writer, shape: ArrayShape):
        self.writer = writer
        self.shape = shape
        starts = [c.start for c in shape.contains]
        self.last = max([len(shape.prefix), shape.low, shape.high or 0, *starts])
        self.values: dict[Conjunction, list[Any]] = {}
        self.numbers: dict[Any, int] = {}

    def expr(self) -> Expr:
        writer = self.writer
        start = _State(0, (0,) * len(self.shape.contains), frozenset())
        names = {start: writer.grammar.fresh(f"{writer.hint}-items")}
        order = [start]
        written = 0
        for state in order:
            parts = []
            if self.accepts(state):
                parts.append(lit("]") if state == start else seq(writer.gap, lit("]")))
            for item, target in self.choices(state):
                written += 1
                if target not in names:
                    if len(order) >= STATES or written > CHOICES:
                        raise writer.blamed.error(
                            f"contains or uniqueItems takes more than {STATES} states; it cannot be enforced",
                            "uniqueItems" if self.shape.unique else "contains",
                        )
                    names[target] = writer.grammar.fresh(f"{writer.hint}-items")
                    order.append(target)
                before = writer.gap if state == start else writer.comma
                parts.append(
                    seq(before, writer.value(item, f"{writer.hint}-item"), ref(names[target]))
                )
            writer.grammar.define(names[state], alt(*parts))
        return seq(lit("["), ref(names[start]))

    def accepts(self, state: _State) -> bool:
        counted = zip(self.shape.contains, state.counts, strict=True)
        return state.place >= self.shape.low and all(n >= c.low for c, n in counted)

    def choices(self, state: _State) -> list[_Choice]:
        shape = self.shape
        if shape.high is not None and state.place >= shape.high:
            return []
        item = shape.item(state.place)
        counting = [
            self._counting(c, n, state.place)
            for c, n in zip(shape.contains, state.counts, strict=True)
        ]
        found = []
        for value, used in self._distinct(item, state.used):
            for picks in product(*counting):
                extra = tuple(literal for _, literals in picks for literal in literals)
                target = _State(min(state.place + 1, self.last), tuple(n for n, _ in picks), used)
                found.append(_Choice(tuple(dict.fromkeys(item + value + extra)), target))
        return found

    def _counting(self, contains: Any, count: int, index: int) -> list[tuple[int, Conjunction]]:
        """Per way to take an item: the count after it, and what the item then is as well."""
        if index < contains.start:
            return [(count, ())]
        if contains.high is None:
            return [(count, ())] + ([(count + 1, contains.item)] if count < contains.low else [])
        ((target, positive),) = contains.item
        other: Conjunction = ((target, not positive),)
        return [(count, other)] + ([(count + 1, contains.item)] if count < contains.high else [])

    def _distinct(
        self, item: Conjunction, used: frozenset[int]
    ) -> list[tuple[Conjunction, frozenset[int]]]:
        if not self.shape.unique:
            return [((), used)]
        if item not in self.values:
            self.values[item] = self._finite(item)
        context = self.writer.context
        found: list[tuple[Conjunction, frozenset[int]]] = []
        for value in self.values[item]:
            constant = context.constant(value)
            number = self.numbers.setdefault(constant, len(self.numbers))
            if number not in used:
                found.append((((constant, True),), used | {number}))
        return found

    def _finite(self, item: Conjunction) -> list[Any]:
        """Every value of a type."""
        context = self.writer.context
        found: list[Any] = []
        for kind in ("null", "boolean", "number", "string", "array", "object"):
            for shape in context.conjunction(item, kind):
                values = (
                    _integers(shape)
                    if isinstance(shape, NumberShape)
                    else getattr(shape, "values", None)
                )
                if values is None or len(found) + len(values) > _VALUES:
                    context.unsupported(
                        self.writer.blamed,
                        "uniqueItems",
                        f"uniqueItems of more than {_VALUES} possible values, or of arrays or objects",
                    )
                    raise _Lost
                found += values
        return found


class _Lost(Exception):
    """uniqueItems cannot be enforced, and the caller accepts that."""


def _integers(shape: NumberShape) -> list[Any] | None:
    """The values of a shape that has few."""
    if shape.values is not None:
        return [_plain(v) for v in shape.values]
    if not shape.whole or shape.low is None or shape.high is None:
        return None
    first, last = -(-shape.low.value // 1), shape.high.value // 1
    if last - first > 4 * _VALUES:
        return None
    return [n for n in range(int(first), int(last) + 1) if shape.holds(Fraction(n))]


def _plain(value: Fraction) -> Any:
    return int(value) if value.denominator == 1 else Decimal(number_text(value))
