"""Sets of code points as ascending, disjoint ranges, both ends included.

Surrogates never stand in a text, so whether a set holds them means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["ANY", "NOTHING", "CodePoints", "contains", "intersect", "invert", "of", "unite"]

CodePoints = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
ANY: CodePoints = ((0, LAST),)
NOTHING: CodePoints = ()


def of(characters: str) -> CodePoints:
    """The characters of a string."""
    return unite((ord(c), ord(c)) for c in characters)


def unite(ranges: Iterable[tuple[int, int]]) -> CodePoints:
    """Ranges in any order, as one set."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        elif first <= last:
            result.append((first, last))
    return tuple(result)


def invert(ranges: CodePoints) -> CodePoints:
    result = []
    start = 0
    for first, last in ranges:
        if start < first:
            result.append((start, first - 1))
        start = last + 1
    if start <= LAST:
        result.append((start, LAST))
    return tuple(result)


def intersect(a: CodePoints, b: CodePoints) -> CodePoints:
    result = []
    i = j = 0
    while i < len(a) and j < len(b):
        first, last = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if first <= last:
            result.append((first, last))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(result)


def contains(ranges: CodePoints, code_point: int) -> bool:
    return any(first <= code_point <= last for first, last in ranges)
