"""The names that samplers of the chain go by, as llama.cpp's command line has them.

Here: names, other spellings, letters, and the default order. Not here: what the samplers do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["DEFAULT_ORDER", "LETTERS", "sampler_order"]

# Name -> llama.cpp's letter (`--sampling-seq`).
LETTERS = {
    "dry": "d",
    "top_k": "k",
    "typical_p": "y",
    "top_p": "p",
    "top_n_sigma": "s",
    "min_p": "m",
    "temperature": "t",
    "xtc": "x",
    "infill": "i",
    "penalties": "e",
    "adaptive_p": "a",
}

DEFAULT_ORDER = (
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typical_p",
    "top_p",
    "min_p",
    "xtc",
    "temperature",
)

_OTHER_SPELLINGS = {"nucleus": "top_p", "temp": "temperature", "typ": "typical_p"}


def _spellings() -> dict[str, str]:
    names = dict(_OTHER_SPELLINGS)
    for written, name in [*zip(LETTERS, LETTERS, strict=True), ("typ_p", "typical_p")]:
        for spelling in (written, written.replace("_", "-"), written.replace("_", "")):
            names[spelling] = name
    return names


_NAMES = _spellings()
_BY_LETTER = {letter: name for name, letter in LETTERS.items()}


def sampler_order(name: str, value: Any) -> tuple[str, ...]:
    """Reads an order of samplers.

    Args:
        name: What an error calls the value.
        value: Names in any spelling that llama.cpp knows ("top_k", "top-k", "topk", "nucleus"; case
            does not matter), as a sequence or joined by ";"; or a string of its letters ("edskypmxt").

    Returns:
        Names, in the order given.

    Raises:
        TypeError: Something else than a string or a sequence of them.
        ValueError: An unknown name or letter, or a string that is both ("temp" and "typ").
    """
    if isinstance(value, str):
        return _of_string(name, value)
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        raise TypeError(f"[{name}] Expected names of samplers, got {value!r}.")
    return tuple(_of_name(name, spelling) for spelling in value)


def _of_string(name: str, value: str) -> tuple[str, ...]:
    letters = all(letter in _BY_LETTER for letter in value)
    if ";" in value or (value.lower() in _NAMES and not letters):
        return tuple(_of_name(name, spelling) for spelling in value.split(";"))
    if value.lower() in _NAMES:
        raise ValueError(
            f'[{name}] Expected names or letters, got "{value}", which is both: write ["{value}"] '
            f'for the name, or the names of "{", ".join(_BY_LETTER[letter] for letter in value)}".'
        )
    for letter in value:
        if letter not in _BY_LETTER:
            raise ValueError(
                f'[{name}] Expected letters of "{"".join(_BY_LETTER)}", or names of '
                f'{", ".join(LETTERS)}, got "{letter}" in "{value}".'
            )
    return tuple(_BY_LETTER[letter] for letter in value)


def _of_name(name: str, spelling: Any) -> str:
    if not isinstance(spelling, str):
        raise TypeError(f"[{name}] Expected names of samplers, got {spelling!r}.")
    found = _NAMES.get(spelling.lower())
    if found is None:
        raise ValueError(f'[{name}] Expected names of {", ".join(LETTERS)}, got "{spelling}".')
    return found
