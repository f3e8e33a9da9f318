"""minLength, maxLength, pattern and format: sets of strings as they are after decoding."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from mlx_sampling.json_schema import automaton
from mlx_sampling.json_schema.automaton import Automaton, TooLarge
from mlx_sampling.json_schema.codepoints import ANY
from mlx_sampling.json_schema.document import Node
from mlx_sampling.json_schema.formats import FORMATS, NOT_ENFORCED
from mlx_sampling.json_schema.regex import BEGIN, END, RegexError, Tree, parse_regex, tree_length

if TYPE_CHECKING:
    from mlx_sampling.json_schema.normal import Normalizer

__all__ = ["Language", "StringShape", "has_assertion", "languages_of"]

SMALL = 2000  # states, of an automaton that is built to see whether it is empty

_ASSERTIONS = ("begin", "end", "ahead")


class Language:
    """The strings in which an expression is found. Compared by identity; made once per document.

    Attributes:
        tree: The expression as all validators read it; what must match matches it.
        wide: As any validator reads it; what must not match does not match it.
    """

    def __init__(self, tree: Tree, expression: str, part: int):
        self.tree = tree
        self._source = expression, part
        self._automata: dict[Tree, Automaton | None] = {}

    @cached_property
    def wide(self) -> Tree:
        expression, part = self._source
        return _conjuncts(parse_regex(expression, wide=True))[part][0]

    def automaton(self, positive: bool = True) -> Automaton:
        """Strings that surely match; strings that may match if it is to be complemented.

        Raises:
            TooLarge: It takes too many states.
        """
        tree = self.tree if positive else self.wide
        if tree not in self._automata:
            self._automata[tree] = None
            self._automata[tree] = automaton.from_regex(tree)
        found = self._automata[tree]
        if found is None:
            raise TooLarge
        return found

    def whole(self) -> Tree | None:
        """What a string is from end to end, where the expression says so; None where it does not."""
        parts = self.tree[1] if self.tree[0] == "cat" else (self.tree,)
        if len(parts) < 2 or parts[0] != BEGIN or parts[-1] != END:
            return None
        body: Tree = ("cat", parts[1:-1])
        return None if has_assertion(body) else body

    def entire(self) -> Tree | None:
        """A whole string, anything being around what is not anchored; None where it is not so simple."""
        parts = list(self.tree[1] if self.tree[0] == "cat" else (self.tree,))
        anything: Tree = ("repeat", ("chars", ANY), 0, None)
        begins, ends = parts[:1] == [BEGIN], parts[-1:] == [END]
        body = parts[int(begins) : len(parts) - int(ends)]
        if any(map(has_assertion, body)):
            return None
        return ("cat", (*([] if begins else [anything]), *body, *([] if ends else [anything])))

    def lengths(self) -> tuple[int, int | None]:
        """Bounds of the strings' lengths."""
        body = self.whole()
        if body is not None:
            return tree_length(body)
        return (0 if has_assertion(self.tree) else tree_length(self.tree)[0]), None

    def holds(self, text: str, positive: bool) -> bool:
        """Whether a string surely matches, or surely does not."""
        return self.automaton(positive).accepts(text) == positive


def has_assertion(tree: Tree) -> bool:
    if tree[0] in ("cat", "alt"):
        return any(map(has_assertion, tree[1]))
    return tree[0] in _ASSERTIONS or (tree[0] == "repeat" and has_assertion(tree[1]))


def languages_of(expression: str) -> tuple[tuple[Language, bool], ...]:
    """What an expression demands: each language holds the string (True) or does not (False).

    Look-aheads right after the beginning are languages of their own.

    Raises:
        RegexError: The expression is not one, or not of the supported kind.
    """
    parts = _conjuncts(parse_regex(expression))
    if any(_holds_ahead(tree) for tree, _ in parts):
        raise RegexError(
            f'look-ahead is supported only right after a leading "^", not in {expression[:60]!r}'
        )
    return tuple(
        (Language(tree, expression, i), positive) for i, (tree, positive) in enumerate(parts)
    )


def _conjuncts(tree: Tree) -> list[tuple[Tree, bool]]:
    """What an expression demands: to match each tree, or not to match it."""
    parts = list(tree[1]) if tree[0] == "cat" else [tree]
    found = []
    if parts and parts[0] == BEGIN:
        while len(parts) > 1 and parts[1][0] == "ahead":
            _, inner, positive = parts.pop(1)
            found.append((_flat(BEGIN, inner), positive))
    rest = _flat(*parts)
    if rest != BEGIN or not found:
        found.append((rest, True))
    return found


def _flat(*parts: Tree) -> Tree:
    """A sequence, without sequences in it; a group around the whole taken off."""
    flat: list[Tree] = []
    for part in parts:
        flat.extend(part[1] if part[0] == "cat" else (part,))
    return flat[0] if len(flat) == 1 else ("cat", tuple(flat))


def _holds_ahead(tree: Tree) -> bool:
    if tree[0] in ("cat", "alt"):
        return any(map(_holds_ahead, tree[1]))
    return tree[0] == "ahead" or (tree[0] == "repeat" and _holds_ahead(tree[1]))


class StringShape(NamedTuple):
    """Strings in every listed language, of bounded length, none of the excluded; or a list of them."""

    low: int = 0
    high: int | None = None
    atoms: tuple[tuple[Language, bool], ...] = ()
    excluded: frozenset[str] = frozenset()
    values: tuple[str, ...] | None = None

    def meet(self, other: StringShape) -> StringShape | None:
        highs = [h for h in (self.high, other.high) if h is not None]
        both = StringShape(
            max(self.low, other.low),
            min(highs) if highs else None,
            tuple(dict.fromkeys(self.atoms + other.atoms)),
            self.excluded | other.excluded,
        )
        if any((language, not positive) in both.atoms for language, positive in both.atoms):
            return None
        lists = [v for v in (self.values, other.values) if v is not None]
        if lists:
            shared = set(lists[-1])
            kept = tuple(v for v in lists[0] if v in shared and both.holds(v))
            return StringShape(values=kept) if kept else None
        return None if both.high is not None and both.high < both.low else both

    def holds(self, value: str) -> bool:
        if self.values is not None:
            return value in self.values
        return (
            self.low <= len(value)
            and (self.high is None or len(value) <= self.high)
            and value not in self.excluded
            and all(language.holds(value, positive) for language, positive in self.atoms)
        )

    def is_empty(self) -> bool:
        """Whether it is known that no string is of this shape."""
        if self.values is not None:
            return not self.values
        if not self.atoms:
            return False
        try:
            return self.automaton(SMALL).is_empty()
        except TooLarge:
            return False

    def automaton(self, limit: int = automaton.STATES) -> Automaton:
        """Every string of this shape.

        Raises:
            TooLarge: It takes more states than `limit`.
        """
        try:
            return _small_automaton(self)
        except TooLarge:
            if limit <= SMALL:
                raise
        return self.build(limit)

    def build(self, limit: int) -> Automaton:
        if self.low or self.high is not None:
            bounds = [language.lengths() for language, positive in self.atoms if positive]
            lows, highs = (
                [low for low, _ in bounds],
                [high for _, high in bounds if high is not None],
            )
            if max(lows, default=0) < self.low or (
                self.high is not None and min(highs, default=self.high + 1) > self.high
            ):
                counted = automaton.from_lengths(self.low, self.high, limit)
                others = self._replace(low=0, high=None).automaton(limit)
                return automaton.product([(others, True), (counted, True)], limit)
        if not self.atoms:
            words = automaton.from_words(sorted(self.excluded))
            return automaton.product([(words, False)], limit)
        # one by one: shapes that differ in the last expression share what comes before
        (language, positive), before = self.atoms[-1], self.atoms[:-1]
        last = (language.automaton(positive), positive)
        if not before and not self.excluded:
            return automaton.product([last], limit)
        rest = self._replace(low=0, high=None, atoms=before).automaton(limit)
        return automaton.product([(rest, True), last], limit)


@lru_cache(maxsize=len(FORMATS))
def _languages_of_format(name: str) -> tuple[tuple[Language, bool], ...]:
    return languages_of(FORMATS[name])


@lru_cache(maxsize=64)
def _small_automaton(shape: StringShape) -> Automaton:
    return shape.build(SMALL)


def length(context: Normalizer, node: Node, kind: str) -> list:
    """minLength and maxLength."""
    if kind != "string":
        return [context.full(kind)]
    high = node.get("maxLength")
    shape = StringShape(int(node.get("minLength") or 0), None if high is None else int(high))
    return [] if shape.high is not None and shape.high < shape.low else [shape]


def not_length(context: Normalizer, node: Node, kind: str) -> list:
    if kind != "string":
        return []
    shapes = []
    if node.get("minLength"):
        shapes.append(StringShape(0, int(node.get("minLength")) - 1))
    if node.has("maxLength"):
        shapes.append(StringShape(int(node.get("maxLength")) + 1))
    return shapes


def _pattern(context: Normalizer, node: Node) -> tuple[tuple[Language, bool], ...] | None:
    try:
        return context.languages(node.get("pattern"))
    except RegexError as error:
        context.unsupported(node, "pattern", f"pattern: {error}")
        return None


def pattern(context: Normalizer, node: Node, kind: str) -> list:
    atoms = _pattern(context, node) if kind == "string" else None
    return [context.full(kind)] if atoms is None else [StringShape(atoms=atoms)]


def not_pattern(context: Normalizer, node: Node, kind: str) -> list:
    atoms = _pattern(context, node) if kind == "string" else None
    return [StringShape(atoms=((language, not positive),)) for language, positive in atoms or ()]


def format_(context: Normalizer, node: Node, kind: str) -> list:
    """Known formats are enforced; of others the standard says that they are annotations."""
    name = node.get("format")
    if kind == "string" and name in NOT_ENFORCED:
        context.unsupported(node, "format", f'format "{name}"')
    if kind != "string" or name not in FORMATS:
        return [context.full(kind)]
    return [StringShape(atoms=_languages_of_format(name))]


def not_format(context: Normalizer, node: Node, kind: str) -> list:
    if kind == "string" and node.get("format") in FORMATS.keys() | NOT_ENFORCED:
        # a validator may take it as an annotation, which is never false: both readings cannot be met
        context.unsupported(node, "format", f'format "{node.get("format")}" where it must not hold')
    return []
