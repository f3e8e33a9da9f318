"""Checks of single parameters: type, range, and the form they are kept in.

Each check takes the field's name and a value, and returns the value as it is stored. Not here: what
parameters mean together (see `params`).
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np

__all__ = [
    "Bias",
    "bias",
    "boolean",
    "checked_int",
    "choice",
    "integer",
    "number",
    "repeat_penalty",
    "texts",
    "token_ids",
]

Check = Callable[[str, Any], Any]
_GREATEST_ID = 2**31 - 1


class Bias(Mapping[int, float]):
    """A mapping token id -> bias that can be neither changed nor, so, mistaken for another."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[int, float]):
        self._entries = dict(entries)

    def __getitem__(self, token: int) -> float:
        return self._entries[token]

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return repr(self._entries)


def as_float32(value: float) -> float:
    return ctypes.c_float(value).value


def checked_int(name: str, value: Any, least: int, greatest: int | None = None) -> int:
    """Checks an int, Python's or NumPy's, against its range.

    Raises:
        TypeError: Not an int (a bool is none).
        ValueError: Out of range.
    """
    span = f">= {least}" if greatest is None else f"in [{least}, {greatest}]"
    if isinstance(value, bool):
        raise TypeError(f"[{name}] Expected an int {span}, got {value!r}.")
    try:
        found = operator.index(value)
    except TypeError:
        raise TypeError(f"[{name}] Expected an int {span}, got {value!r}.") from None
    if found < least or (greatest is not None and found > greatest):
        raise ValueError(f"[{name}] Expected an int {span}, got {found}.")
    return found


def token_ids(name: str, ids: Iterable[int]) -> tuple[int, ...]:
    """Checks that `ids` are ints in [0, 2**31).

    Raises:
        TypeError: Something else than ints.
        ValueError: An id out of range.
    """
    if not isinstance(ids, Iterable):
        raise TypeError(f"[{name}] Expected token ids, got {type(ids).__name__}.")
    return tuple(checked_int(name, token, 0, _GREATEST_ID) for token in ids)


def integer(least: int, greatest: int) -> Check:
    return lambda name, value: checked_int(name, value, least, greatest)


def number(least: float = -math.inf, greatest: float = math.inf, *, tiny: bool = True) -> Check:
    """A check of a finite number in [least, greatest] that is one as a float32 too.

    Args:
        tiny: Whether a number that float32 rounds to 0 may be one.
    """
    if greatest < math.inf:
        span = (
            f"value in [{least:g}, {greatest:g}]" if least > -math.inf else f"value <= {greatest:g}"
        )
    else:
        span = f"value >= {least:g}" if least > -math.inf else "value"

    def check(name: str, value: Any) -> float:
        found = _real(name, value)
        if not (math.isfinite(found) and least <= found <= greatest):
            raise ValueError(f"[{name}] Expected a finite {span}, got {value}.")
        rounded = as_float32(found)
        if not math.isfinite(rounded) or (rounded == 0 and found != 0 and not tiny):
            zero = "" if tiny else "0 or "
            raise ValueError(f"[{name}] Expected {zero}a value in float32's range, got {value}.")
        return found

    return check


def _real(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"[{name}] Expected a number, got {value!r}.")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def repeat_penalty(name: str, value: Any) -> float:
    """Checks a positive number whose reciprocal is finite in float32, as llama.cpp does."""
    found = number()(name, value)
    rounded = as_float32(found)
    if rounded <= 0 or math.isinf(as_float32(1 / rounded)):
        raise ValueError(
            f"[{name}] Expected a finite value > 0 with a finite reciprocal in float32, got {value}."
        )
    return found


def boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"[{name}] Expected True or False, got {value!r}.")
    return bool(value)


def choice(*names: str) -> Check:
    def check(name: str, value: Any) -> str:
        expected = " or ".join(f'"{known}"' for known in names)
        if not isinstance(value, str):
            raise TypeError(f"[{name}] Expected {expected}, got {value!r}.")
        if value not in names:
            raise ValueError(f'[{name}] Expected {expected}, got "{value}".')
        return value

    return check


def texts(name: str, value: Any) -> tuple[str, ...]:
    """Checks a sequence of nonempty strings; one string is no sequence here."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"[{name}] Expected a sequence of strings, got {value!r}.")
    found = tuple(value)
    for text in found:
        if not isinstance(text, str):
            raise TypeError(f"[{name}] Expected strings, got {text!r}.")
        if not text:
            raise ValueError(f"[{name}] Expected strings that are not empty, got ''.")
    return found


def bias(name: str, value: Any) -> Bias:
    """Checks a mapping from token ids to finite biases, or -inf."""
    if isinstance(value, Bias):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(
            f"[{name}] Expected a mapping from token ids to biases, got {type(value).__name__}."
        )
    entries = {}
    for token, amount in value.items():
        found = _real(name, amount)
        if found != -math.inf and not math.isfinite(as_float32(found)):
            raise ValueError(
                f"[{name}] Expected -inf or a finite bias in float32's range, got {amount} for "
                f"token {token}."
            )
        entries[checked_int(name, token, 0, _GREATEST_ID)] = found
    return Bias(entries)
