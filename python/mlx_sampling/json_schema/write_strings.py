"""Strings as grammar: each code point has one spelling, escaped only where JSON demands it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from mlx_sampling.json_schema.automaton import TooLarge
from mlx_sampling.json_schema.codepoints import ANY, CodePoints, intersect, invert, of, unite
from mlx_sampling.json_schema.gbnf import (
    NEVER,
    Expr,
    Grammar,
    alt,
    chars,
    lit,
    literals,
    ref,
    repeat,
    seq,
)
from mlx_sampling.json_schema.regex import Tree, tree_length
from mlx_sampling.json_schema.strings import Language, StringShape
from mlx_sampling.json_schema.values import string_text
from mlx_sampling.json_schema.write_automaton import automaton_expr

__all__ = ["string_expr", "values_expr"]

_SHORT = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_PLAIN = intersect(((0x20, 0x10FFFF),), invert(of('"\\')))
_QUOTE = lit('"')
_RUN = 16  # characters in a row that a narrowed expression should allow
_DIRECT = 40  # states of an automaton that is written rather than its expression


def values_expr(values: Iterable[str]) -> Expr:
    """One of these strings."""
    return literals(map(string_text, values))


def spell(grammar: Grammar, ranges: CodePoints) -> Expr:
    """One code point of a set, inside a string."""
    if ranges == ANY:
        return grammar.shared("char", "char", lambda: _spelled(ranges))
    found = _spelled(ranges)
    return found if found[0] != "alt" else grammar.shared(("chars", ranges), "chars", lambda: found)


def _spelled(ranges: CodePoints) -> Expr:
    short = "".join(letter for char, letter in _SHORT.items() if intersect(ranges, of(char)))
    parts = [chars(intersect(ranges, _PLAIN)), seq(lit("\\"), chars(of(short)))]
    controls = intersect(ranges, intersect(((0, 0x1F),), invert(of("".join(_SHORT)))))
    for high in (0, 1):
        low = intersect(controls, ((16 * high, 16 * high + 15),))
        digits = "".join(f"{c % 16:x}" for first, last in low for c in range(first, last + 1))
        parts.append(seq(lit(f"\\u00{high}"), chars(of(digits))))
    return alt(*(p for p in parts if p != NEVER)) if any(p != NEVER for p in parts) else NEVER


def string_expr(grammar: Grammar, shape: StringShape) -> Expr:
    """A string of a shape, with its quotes.

    Raises:
        TooLarge: It takes an automaton of too many states.
    """
    if shape.values is not None:
        return values_expr(shape.values)
    if not shape.atoms:
        return seq(_QUOTE, _others(grammar, shape))
    found = _as_written(grammar, shape)
    if found is not None:
        return found
    try:
        automaton = shape.automaton()
    except TooLarge:
        narrowed = _narrowed(shape)
        if narrowed is None:
            raise
        return seq(_QUOTE, _tree_expr(grammar, narrowed), _QUOTE)
    return seq(
        _QUOTE, automaton_expr(grammar, automaton, lambda r: spell(grammar, r), _QUOTE, "text")
    )


def _others(grammar: Grammar, shape: StringShape) -> Expr:
    """The rest of a string of bounded length that is none of the excluded, and its closing quote."""
    words = sorted(w for w in shape.excluded if len(w) >= shape.low)
    return _branch(grammar, words, 0, shape.low, shape.high)


def _branch(grammar: Grammar, words: list[str], depth: int, low: int, high: int | None) -> Expr:
    """After `depth` characters that the words share."""
    if high is not None and depth > high:
        return NEVER
    left = None if high is None else high - depth
    if not words:
        return seq(repeat(spell(grammar, ANY), max(0, low - depth), left), _QUOTE)
    groups: dict[str, list[str]] = {}
    for word in words:
        groups.setdefault(word[depth : depth + 1], []).append(word)
    parts = [] if "" in groups or depth < low else [_QUOTE]
    groups.pop("", None)
    if left != 0:
        free = invert(unite((ord(c), ord(c)) for c in groups))
        tail = repeat(
            spell(grammar, ANY), max(0, low - depth - 1), None if left is None else left - 1
        )
        parts.append(seq(spell(grammar, free), tail, _QUOTE))
        for char, group in groups.items():
            name = grammar.fresh("other")
            grammar.define(name, _branch(grammar, group, depth + 1, low, high))
            parts.append(seq(spell(grammar, of(char)), ref(name)))
    return alt(*parts)


def _as_written(grammar: Grammar, shape: StringShape) -> Expr | None:
    """The one expression of a shape taken over as it is; None where an automaton is needed."""
    if len(shape.atoms) != 1 or shape.excluded or not shape.atoms[0][1]:
        return None
    language = shape.atoms[0][0]
    body = language.whole()
    low, high = language.lengths()
    if low < shape.low or (shape.high is not None and (high is None or high > shape.high)):
        body = None if body is None else _bounded(body, shape)
        return None if body is None else seq(_QUOTE, _tree_expr(grammar, body), _QUOTE)
    if body is None:
        return _searched(grammar, language)
    return seq(_QUOTE, _tree_expr(grammar, body), _QUOTE)


def _bounded(body: Tree, shape: StringShape) -> Tree | None:
    """A repeated class with its bounds drawn in to those of the length."""
    parts = body[1] if body[0] == "cat" else (body,)
    if len(parts) != 1 or parts[0][0] != "repeat" or parts[0][1][0] != "chars":
        return None
    _, char, low, high = parts[0]
    highs = [h for h in (high, shape.high) if h is not None]
    low, high = max(low, shape.low), min(highs) if highs else None
    return None if high is not None and high < low else ("repeat", char, low, high)


def _searched(grammar: Grammar, language: Language) -> Expr | None:
    """An expression that has no simple automaton, with anything around it where it is not anchored."""
    try:
        if len(language.automaton().edges) <= _DIRECT:
            return None
    except TooLarge:
        pass
    entire = language.entire()
    return None if entire is None else seq(_QUOTE, _tree_expr(grammar, entire), _QUOTE)


def _narrowed(shape: StringShape) -> Tree | None:
    """One expression with its repetitions bounded so that no string is too long: not all, but only such."""
    if len(shape.atoms) != 1 or shape.excluded or not shape.atoms[0][1] or shape.high is None:
        return None
    entire = shape.atoms[0][0].entire()
    if entire is None or tree_length(entire)[0] < shape.low:
        return None
    found = None
    for outer in (8, 4, 2, 1, 0):
        inner = _most(partial(_clamped, entire, outer), shape.high)
        if inner is not None:
            found = _clamped(entire, outer, inner)
            if inner >= _RUN:
                break
    return found


def _most(tree_of: Callable[[int], Tree], high: int) -> int | None:
    """The greatest number whose tree is of no string longer than `high`."""
    fits, beyond = -1, high + 1
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        longest = tree_length(tree_of(middle))[1]
        fits, beyond = (
            (middle, beyond) if longest is not None and longest <= high else (fits, middle)
        )
    return fits if fits >= 0 else None


def _clamped(tree: Tree, outer: int, inner: int) -> Tree:
    """Repeated at most so often, beyond what must be: what holds repetitions, and what does not."""
    kind = tree[0]
    if kind == "repeat":
        _, part, low, high = tree
        times = outer if _repeats(part) else inner
        most = max(low, times if high is None else min(high, times))
        return ("repeat", _clamped(part, outer, inner), low, most)
    if kind in ("cat", "alt"):
        return (kind, tuple(_clamped(part, outer, inner) for part in tree[1]))
    return tree


def _repeats(tree: Tree) -> bool:
    return tree[0] == "repeat" or (tree[0] in ("cat", "alt") and any(map(_repeats, tree[1])))


def _tree_expr(grammar: Grammar, tree: Tree) -> Expr:
    kind = tree[0]
    if kind == "chars":
        return spell(grammar, tree[1])
    if kind == "repeat":
        part = tree[1]
        if tree_length(part)[1] == 0:
            return lit("")
        return repeat(_tree_expr(grammar, part), tree[2], tree[3])
    parts = [_tree_expr(grammar, part) for part in tree[1]]
    return seq(*parts) if kind == "cat" else alt(*parts)
