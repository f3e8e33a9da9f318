"""The keywords of Draft 2020-12: which hold schemas, which assert, what their values must be.

A keyword that is in no table here is refused: a misspelt one would otherwise loosen a schema in silence.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

__all__ = [
    "ANNOTATIONS",
    "CHECKS",
    "LISTS",
    "MAPS",
    "SINGLES",
    "TYPES",
    "as_fraction",
    "hint_for",
    "kind_of",
    "shown",
]

TYPES = ("null", "boolean", "number", "string", "array", "object")
_TYPE_NAMES = (*TYPES, "integer")

# keywords whose value is a schema, a list of schemas, schemas by name
SINGLES = frozenset(
    [
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
MAPS = frozenset(
    {"$defs", "definitions", "dependentSchemas", "dependencies", "patternProperties", "properties"}
)

# they say nothing about what is valid; OpenAPI's, and "x-...", neither
ANNOTATIONS = frozenset(
    [
        "$anchor",
        "$comment",
        "$defs",
        "$dynamicAnchor",
        "$id",
        "$schema",
        "$vocabulary",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "default",
        "definitions",
        "deprecated",
        "description",
        "discriminator",
        "example",
        "examples",
        "externalDocs",
        "readOnly",
        "title",
        "writeOnly",
    ]
)

_ELSEWHERE = {
    "additionalItems": '"items" beside "prefixItems" says it since Draft 2020-12',
    "nullable": 'use "type": ["...", "null"]',
    "$recursiveRef": '"$dynamicRef" replaced it',
    "id": '"$id" replaced it',
    "divisibleBy": '"multipleOf" replaced it',
}


def hint_for(keyword: str, value: Any = None) -> str:
    """What may have been meant by a keyword that there is none of, or by its value: empty, or a sentence."""
    if keyword == "items" and isinstance(value, list):
        return ' "prefixItems" holds an array since Draft 2020-12.'
    if keyword in CHECKS:
        return ""
    if keyword in _ELSEWHERE:
        return f"; {_ELSEWHERE[keyword]}"
    close = difflib.get_close_matches(keyword[:60], [*CHECKS, *ANNOTATIONS], 1, 0.75)
    return f'; did you mean "{close[0]}"?' if close else ""


def kind_of(value: Any) -> str:
    """The JSON type of a value, for messages."""
    if value is None:
        return "null"
    for kinds, name in (
        ((bool,), "a boolean"),
        ((int, float, Decimal), "a number"),
        ((str,), "a string"),
        ((list, tuple), "an array"),
        ((dict,), "an object"),
    ):
        if isinstance(value, kinds):
            return name
    return type(value).__name__


def shown(value: Any) -> str:
    """A value for a message: itself where it is short."""
    short = isinstance(value, (str, bool, float)) or (
        isinstance(value, int) and abs(value) < 10**40
    )
    return f"{value!r:.60}" if short else kind_of(value)


def as_fraction(value: Any) -> Fraction | None:
    """A JSON number exactly as it is written; None for anything else, or what no double holds.

    What is not written as an integer but is one beyond 2^53 is the double that readers make of it: in
    digits, that is the same number to readers of exact integers, too.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        if not value.is_finite() or (value and not -323 <= value.adjusted() <= 308):
            return None
        if abs(value) >= 2**53:
            return Fraction(float(value))
        return Fraction(value) if len(value.as_tuple().digits) <= 400 else None
    return Fraction(value) if abs(value) < 10**400 else None


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _is_number(value: Any) -> bool:
    return as_fraction(value) is not None


def _is_count(value: Any) -> bool:
    number = as_fraction(value)
    return number is not None and number.denominator == 1 and 0 <= number < 2**31


def _is_names(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)


def _is_map_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, dict) and all(isinstance(k, str) and check(v) for k, v in value.items())
    )


def _is_type(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return _is_names(names) and len(names) > 0 and all(n in _TYPE_NAMES for n in names)


_SCHEMA = (_is_schema, "a schema (an object or a boolean)")
_SCHEMA_LIST = (
    lambda v: isinstance(v, (list, tuple)) and len(v) > 0 and all(map(_is_schema, v)),
    "an array of schemas that is not empty",
)
_SCHEMA_MAP = (_is_map_of(_is_schema), "an object of schemas")
_COUNT = (_is_count, "an integer from 0 to 2147483647")
_NUMBER = (_is_number, "a number in a double's range")
_TEXT = (lambda v: isinstance(v, str), "a string")
_FLAG = (lambda v: isinstance(v, bool), "a boolean")

# asserting keyword -> (check of its value, what is expected)
CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "$ref": _TEXT,
    "$dynamicRef": _TEXT,
    "type": (_is_type, f"one or more of {', '.join(_TYPE_NAMES)}"),
    "enum": (lambda v: isinstance(v, (list, tuple)), "an array of values"),
    "const": (lambda v: True, "a value"),
    "multipleOf": (lambda v: _is_number(v) and v > 0, "a number above 0"),
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _NUMBER,
    "exclusiveMaximum": _NUMBER,
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "pattern": _TEXT,
    "format": _TEXT,
    "prefixItems": _SCHEMA_LIST,
    "items": _SCHEMA,
    "contains": _SCHEMA,
    "minContains": _COUNT,
    "maxContains": _COUNT,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": _FLAG,
    "unevaluatedItems": _SCHEMA,
    "properties": _SCHEMA_MAP,
    "patternProperties": _SCHEMA_MAP,
    "additionalProperties": _SCHEMA,
    "propertyNames": _SCHEMA,
    "required": (_is_names, "an array of strings"),
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "dependentRequired": (_is_map_of(_is_names), "an object of arrays of strings"),
    "dependentSchemas": _SCHEMA_MAP,
    "dependencies": (
        _is_map_of(lambda v: _is_schema(v) or _is_names(v)),
        "an object of schemas and arrays of strings",
    ),
    "unevaluatedProperties": _SCHEMA,
    "allOf": _SCHEMA_LIST,
    "anyOf": _SCHEMA_LIST,
    "oneOf": _SCHEMA_LIST,
    "not": _SCHEMA,
    "if": _SCHEMA,
    "then": _SCHEMA,
    "else": _SCHEMA,
}
