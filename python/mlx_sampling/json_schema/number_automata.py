"""Automata over the decimal spellings of numbers: which are numbers, beside a bound, a multiple.

They are met with `decimals()` or `whole_numbers()`, so that they may take other texts as well.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

from mlx_sampling.json_schema.automaton import Automaton, TooLarge, explore
from mlx_sampling.json_schema.values import number_text

__all__ = ["decimals", "half_line", "multiples", "scaled", "whole_numbers"]

DIGITS = 15  # decimals of so many digits differ as doubles, too
_MINUS, _POINT, _ZERO, _NINE = map(ord, "-.09")

Moves = list[tuple[int, int, Hashable]]


def _by_digit(step: Callable[[int], Hashable | None]) -> Iterator[tuple[int, int, Hashable]]:
    for digit in range(10):
        target = step(digit)
        if target is not None:
            yield _ZERO + digit, _ZERO + digit, target


@lru_cache(maxsize=1)
def whole_numbers() -> Automaton:
    """Integers without a fraction; zero has no sign."""

    def moves(state: str) -> Moves:
        if state == "more":
            return [(_ZERO, _NINE, "more")]
        found: Moves = [(_ZERO + 1, _NINE, "more")]
        if state == "start":
            found = [(_MINUS, _MINUS, "minus"), (_ZERO, _ZERO, "zero"), *found]
        return [] if state == "zero" else found

    return explore("start", moves, lambda s: s in ("more", "zero"))


@lru_cache(maxsize=1)
def decimals() -> Automaton:
    """Numbers without an exponent; those with a fraction have at most `DIGITS` digits."""

    # (sign, digits before the point, digits after it or None, a digit other than 0 seen)
    def moves(state: tuple[bool, int, int | None, bool]) -> Moves:
        negative, before, after, nonzero = state
        found: Moves = []
        if not negative and before == 0:
            found.append((_MINUS, _MINUS, (True, 0, None, False)))
        if after is None and before and before < DIGITS:
            found.append((_POINT, _POINT, (negative, before, 0, nonzero)))

        def step(digit: int) -> Hashable | None:
            seen = nonzero or digit > 0
            if after is not None:
                return None if before + after >= DIGITS else (negative, before, after + 1, seen)
            if before and not nonzero:
                return None  # nothing follows a leading zero
            return negative, min(before + 1, DIGITS), None, seen

        return [*found, *_by_digit(step)]

    def accepts(state: tuple[bool, int, int | None, bool]) -> bool:
        negative, before, after, nonzero = state
        return before > 0 and after != 0 and (nonzero or not negative)

    return explore((False, 0, None, False), moves, accepts)


def half_line(bound: Fraction, *, above: bool, strict: bool, exactly: bool = False) -> Automaton:
    """Numbers above (or below) a bound, or equal to it unless `strict`; `exactly`: only equal ones."""
    whole, _, fraction = _plain(abs(bound)).partition(".")
    size = len(whole)

    def compare(order: int, digit: int, other: str) -> int:
        return order or (digit > int(other)) - (digit < int(other))

    # (sign, digits before the point, digits after it or None, the order of magnitudes so far)
    def moves(state: tuple[bool, int, int | None, int]) -> Moves:
        negative, before, after, order = state
        found: Moves = []
        if before == 0 and not negative:
            found.append((_MINUS, _MINUS, (True, 0, None, 0)))
        if after is None and before:
            found.append(
                (_POINT, _POINT, (negative, size, 0, order if before == size else _short(before)))
            )

        def step(digit: int) -> Hashable:
            if after is not None:
                other = fraction[after] if after < len(fraction) else "0"
                return negative, size, min(after + 1, len(fraction)), compare(order, digit, other)
            if before >= size:
                return negative, size + 1, None, 1
            return negative, before + 1, None, compare(order, digit, whole[before])

        return [*found, *_by_digit(step)]

    def _short(before: int) -> int:
        return -1 if before < size else 1

    def accepts(state: tuple[bool, int, int | None, int]) -> bool:
        negative, before, after, order = state
        if after is None and before != size:
            order = _short(before)
        if order == 0 and (after or 0) < len(fraction):
            order = -1  # digits of the bound are left, and their last is not 0
        if negative != (bound < 0) and not (order == 0 and bound == 0):
            order = -1 if negative else 1
        elif negative:
            order = -order
        if exactly or order == 0:
            return order == 0 and not strict
        return (order > 0) == above

    return explore((False, 0, None, 0), moves, accepts)


def _plain(value: Fraction) -> str:
    """Decimal text without an exponent, whatever its length."""
    text = number_text(value)
    mantissa, _, exponent = text.partition("e-")
    if not exponent:
        return text
    digits = mantissa.rjust(int(exponent) + 1, "0")
    return f"{digits[: -int(exponent)]}.{digits[-int(exponent) :]}"


def scaled(factor: Fraction) -> tuple[int, int]:
    """(p, m): the decimal `factor` is m times 10 to the power of -p, with p from 0 and least."""
    places = 0
    while (factor * 10**places).denominator != 1:
        places += 1
    return places, int(factor * 10**places)


def multiples(factor: Fraction, limit: int) -> Automaton:
    """Whole multiples of a positive number."""
    places, modulus = scaled(factor)
    if modulus > limit:
        raise TooLarge
    powers = [pow(10, i, modulus) for i in range(places + 1)]

    # (remainder of the digits so far, digits after the point or None)
    def moves(state: tuple[int, int | None]) -> Moves:
        remainder, after = state
        found: Moves = [(_MINUS, _MINUS, state)]
        if after is None:
            found.append((_POINT, _POINT, (remainder, 0)))

        def step(digit: int) -> Hashable | None:
            if after is not None and after >= places:
                return None if digit else state
            following = None if after is None else after + 1
            return (remainder * 10 + digit) % modulus, following

        return [*found, *_by_digit(step)]

    def accepts(state: tuple[Any, int | None]) -> bool:
        remainder, after = state
        return remainder * powers[places - (after or 0)] % modulus == 0

    return explore((0, None), moves, accepts, limit)
