"""What a request asks of the sampler, checked once.

Here: the parameters and their plain-data form. Not here: what they do (see `sampler`).
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

__all__ = ["SamplingParams", "checked_int", "token_ids"]

_GREATEST_SEED = 2**32 - 2


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """A request's sampling parameters, with llama.cpp's defaults.

    Args:
        temperature: Finite, >= 0. 0 means greedy: the lowest id among the maxima, and nothing is
            drawn. Rounded to float32 where it is used. Default: 0.8.
        seed: int in [0, 2**32 - 2], or None for a fresh one, which `Sampler.seed` reports.
            Default: None.

    Raises:
        TypeError: A parameter of the wrong type (a bool or a str is no number).
        ValueError: A value out of range.

    Example:
        >>> from mlx_sampling import SamplingParams
        >>> SamplingParams(temperature=0.5, seed=7).to_dict()
        {'temperature': 0.5, 'seed': 7}
    """

    temperature: float = 0.8
    seed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", _temperature(self.temperature))
        if self.seed is not None:
            object.__setattr__(self, "seed", checked_int("seed", self.seed, 0, _GREATEST_SEED))

    def to_dict(self) -> dict[str, Any]:
        """Returns the parameters as plain data that `from_dict` takes back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SamplingParams:
        """Builds parameters from `to_dict`'s form; missing ones take their defaults.

        Args:
            values: Parameter name -> value.

        Raises:
            TypeError: `values` is no mapping, or a parameter has the wrong type.
            ValueError: An unknown name, or a value out of range.
        """
        if not isinstance(values, Mapping):
            raise TypeError(f"[SamplingParams] Expected a mapping, got {type(values).__name__}.")
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = [str(name) for name in values if name not in known]
        if unknown:
            raise ValueError(
                f"[SamplingParams] Expected names of {', '.join(known)}, got {', '.join(unknown)}."
            )
        return cls(**values)


def _temperature(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"[temperature] Expected a number, got {value!r}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"[temperature] Expected a finite value >= 0, got {value}.")
    rounded = _as_float32(number)
    if not math.isfinite(rounded) or (rounded == 0 and number != 0):
        raise ValueError(f"[temperature] Expected 0 or a value in float32's range, got {value}.")
    return number


def _as_float32(number: float) -> float:
    return ctypes.c_float(number).value


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
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"[{name}] Expected an int {span}, got {value!r}.") from None
    if number < least or (greatest is not None and number > greatest):
        raise ValueError(f"[{name}] Expected an int {span}, got {number}.")
    return number


def token_ids(name: str, ids: Iterable[int]) -> tuple[int, ...]:
    """Checks that `ids` are ints in [0, 2**31).

    Raises:
        TypeError: Something else than ints.
        ValueError: An id out of range.
    """
    return tuple(checked_int(name, token, 0, 2**31 - 1) for token in ids)
