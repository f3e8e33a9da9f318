"""JSON values as they are compared (1 and 1.0 are one value, 1 and true are two) and written."""

from __future__ import annotations

import json
from collections.abc import Hashable
from fractions import Fraction
from typing import Any

from mlx_sampling.json_schema.keywords import as_fraction

__all__ = ["is_text", "number_text", "string_text", "type_of", "value_key"]


def type_of(value: Any) -> str | None:
    """The schema type of a value; None if it is not a JSON value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (list, tuple)):
        return "array"
    if isinstance(value, dict):
        return "object"
    return "number" if as_fraction(value) is not None else None


def value_key(value: Any) -> Hashable:
    """Equal for equal JSON values, and for no others.

    Raises:
        ValueError: It is not a JSON value, or nests more than 100 deep.
    """
    return _key(value, 0)


def _key(value: Any, depth: int) -> Hashable:
    kind = type_of(value)
    if kind is None or depth > 100:
        raise ValueError("Expected a JSON value nested at most 100 deep, got another.")
    if kind == "number":
        return kind, as_fraction(value)
    if kind == "array":
        return kind, tuple(_key(v, depth + 1) for v in value)
    if kind == "object":
        if not all(isinstance(k, str) for k in value):
            raise ValueError("Expected keys that are strings, got others.")
        return kind, frozenset((k, _key(v, depth + 1)) for k, v in value.items())
    return kind, value


def is_text(text: str) -> bool:
    """Whether it can be written in UTF-8: no surrogates."""
    return not any(0xD800 <= ord(c) < 0xE000 for c in text)


def string_text(value: str) -> str:
    """The one way a string is written: escapes only where JSON demands them."""
    return json.dumps(value, ensure_ascii=False)


def number_text(value: Fraction) -> str:
    """The shortest decimal text without an exponent; with one where that takes over 40 digits."""
    digits = 0
    scale = value.denominator
    while scale % 10 == 0:
        scale //= 10
        digits += 1
    while scale % 2 == 0 or scale % 5 == 0:
        scale //= 2 if scale % 2 == 0 else 5
        digits += 1
    while digits and (value * 10 ** (digits - 1)).denominator == 1:
        digits -= 1
    whole = abs(value.numerator) * 10**digits // value.denominator
    sign = "-" if value < 0 else ""
    if digits > 40:
        return f"{sign}{whole}e-{digits}"
    text = str(whole).rjust(digits + 1, "0")
    return sign + (f"{text[:-digits]}.{text[-digits:]}" if digits else text)
