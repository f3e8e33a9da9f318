"""minimum, maximum, exclusiveMinimum, exclusiveMaximum and multipleOf: sets of numbers.

Numbers are exact decimals, as they are written. Where anything but the type is asked of a number it has
no exponent, and with a fraction at most 15 digits: such decimals are told apart by doubles too, so that
a validator which rounds comes to the same answer.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from mlx_sampling.json_schema import automaton
from mlx_sampling.json_schema.automaton import Automaton, TooLarge
from mlx_sampling.json_schema.document import Node
from mlx_sampling.json_schema.keywords import as_fraction
from mlx_sampling.json_schema.number_automata import (
    decimals,
    half_line,
    multiples,
    scaled,
    whole_numbers,
)

if TYPE_CHECKING:
    from mlx_sampling.json_schema.normal import Normalizer

__all__ = ["NumberShape"]

_STATES = 20_000
_MODULUS = 10_000


class Bound(NamedTuple):
    value: Fraction
    strict: bool


class NumberShape(NamedTuple):
    """Numbers between bounds, whole or not, multiples or not; or a list of them."""

    whole: bool | None = None
    low: Bound | None = None
    high: Bound | None = None
    factors: tuple[tuple[Fraction, bool], ...] = ()
    excluded: frozenset[Fraction] = frozenset()
    values: tuple[Fraction, ...] | None = None

    def meet(self, other: NumberShape) -> NumberShape | None:
        if self.whole is not None and other.whole is not None and self.whole != other.whole:
            return None
        lows = [b for b in (self.low, other.low) if b is not None]
        highs = [b for b in (self.high, other.high) if b is not None]
        both = NumberShape(
            self.whole if other.whole is None else other.whole,
            max(lows) if lows else None,  # of equal values the strict one
            min(highs, key=lambda b: (b.value, not b.strict)) if highs else None,
            tuple(dict.fromkeys(self.factors + other.factors)),
            self.excluded | other.excluded,
        )
        lists = [v for v in (self.values, other.values) if v is not None]
        if lists:
            shared = set(lists[-1])
            kept = tuple(v for v in lists[0] if v in shared and both.holds(v))
            return NumberShape(values=kept) if kept else None
        return None if both.crossed() else both

    def crossed(self) -> bool:
        """Whether the bounds alone leave nothing."""
        if self.low is None or self.high is None:
            return False
        strict = self.low.strict or self.high.strict
        return self.low.value > self.high.value or (strict and self.low.value == self.high.value)

    def holds(self, value: Fraction) -> bool:
        if self.values is not None:
            return value in self.values
        low, high = self.low, self.high
        return (
            (self.whole is None or self.whole == (value.denominator == 1))
            and (low is None or value > low.value or (value == low.value and not low.strict))
            and (high is None or value < high.value or (value == high.value and not high.strict))
            and value not in self.excluded
            and all(((value / f).denominator == 1) == positive for f, positive in self.factors)
        )

    def is_empty(self) -> bool:
        """Whether it is known that no number is of this shape."""
        if self.values is not None:
            return not self.values
        if self.low is None and self.high is None and not self.factors:
            return False
        try:
            return self.automaton(2000).is_empty()
        except TooLarge:
            return False

    def automaton(self, limit: int = _STATES) -> Automaton:
        """Every spelling of every number of this shape, without exponents.

        Raises:
            TooLarge: It takes more states than `limit`.
        """
        parts = [(whole_numbers() if self.whole else decimals(), True)]
        if self.whole is False:
            parts.append((multiples(Fraction(1), limit), False))
        if self.low is not None:
            parts.append((half_line(self.low.value, above=True, strict=self.low.strict), True))
        if self.high is not None:
            parts.append((half_line(self.high.value, above=False, strict=self.high.strict), True))
        for factor, positive in self.factors:
            parts.append((multiples(factor, limit), positive))
        for value in sorted(self.excluded):
            parts.append((half_line(value, above=True, strict=False, exactly=True), False))
        return automaton.product(parts, limit)


def _shapes(kind: str, context: Normalizer, shape: NumberShape) -> list:
    return [shape] if kind == "number" else [context.full(kind)]


def _value(node: Node, keyword: str) -> Fraction:
    value = as_fraction(node.get(keyword))
    assert value is not None  # checked when the node was first met
    return value


def minimum(context: Normalizer, node: Node, kind: str) -> list:
    return _shapes(kind, context, NumberShape(low=Bound(_value(node, "minimum"), False)))


def not_minimum(context: Normalizer, node: Node, kind: str) -> list:
    return [NumberShape(high=Bound(_value(node, "minimum"), True))] if kind == "number" else []


def exclusive_minimum(context: Normalizer, node: Node, kind: str) -> list:
    return _shapes(kind, context, NumberShape(low=Bound(_value(node, "exclusiveMinimum"), True)))


def not_exclusive_minimum(context: Normalizer, node: Node, kind: str) -> list:
    return (
        [NumberShape(high=Bound(_value(node, "exclusiveMinimum"), False))]
        if kind == "number"
        else []
    )


def maximum(context: Normalizer, node: Node, kind: str) -> list:
    return _shapes(kind, context, NumberShape(high=Bound(_value(node, "maximum"), False)))


def not_maximum(context: Normalizer, node: Node, kind: str) -> list:
    return [NumberShape(low=Bound(_value(node, "maximum"), True))] if kind == "number" else []


def exclusive_maximum(context: Normalizer, node: Node, kind: str) -> list:
    return _shapes(kind, context, NumberShape(high=Bound(_value(node, "exclusiveMaximum"), True)))


def not_exclusive_maximum(context: Normalizer, node: Node, kind: str) -> list:
    return (
        [NumberShape(low=Bound(_value(node, "exclusiveMaximum"), False))]
        if kind == "number"
        else []
    )


def _factor(context: Normalizer, node: Node, kind: str) -> Fraction | None:
    value = _value(node, "multipleOf")
    if kind != "number":
        return None
    places, modulus = scaled(value)
    if modulus > _MODULUS:
        context.unsupported(
            node,
            "multipleOf",
            f"multipleOf of more than {_MODULUS} remainders ({modulus} in units of 1e-{places})",
        )
        return None
    return value


def multiple_of(context: Normalizer, node: Node, kind: str) -> list:
    factor = _factor(context, node, kind)
    return [context.full(kind) if factor is None else NumberShape(factors=((factor, True),))]


def not_multiple_of(context: Normalizer, node: Node, kind: str) -> list:
    factor = _factor(context, node, kind)
    return [] if factor is None else [NumberShape(factors=((factor, False),))]
