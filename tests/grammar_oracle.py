"""A slow and obvious recognizer of GBNF, which shares nothing with the compiled one.

A parser of its own, and sets of positions: from where to where in a text can each part of the grammar
match? They grow until nothing changes. Grammars are taken to be well-formed.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = ["Grammar", "Node", "Trace", "trace"]

_SIMPLE = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}
_HEX = {"x": 2, "u": 4, "U": 8}
# Each character of a text that recurs on the right is a few calls deeper.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 6000))
NO_CHAR = -1  # an element of a text that no character can match


@dataclass(eq=False)
class Node:
    """A part of a grammar: kind, and what that kind needs.

    `chars`: ranges, negated. `tokens`: ids, negated. `rule`: name. `sequence`, `choice`: parts.
    `repeat`: parts[0], minimum, maximum (None: without end).
    """

    kind: str
    parts: list[Node] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    ids: set[int] = field(default_factory=set)
    negated: bool = False
    name: str = ""
    minimum: int = 0
    maximum: int | None = None

    def has(self, code_point: int) -> bool:
        """Whether a character matches."""
        return any(a <= code_point <= b for a, b in self.ranges) != self.negated

    def has_one_of(self, first: int, last: int) -> bool:
        """Whether one of the characters from first to last matches."""
        if not self.negated:
            return any(max(a, first) <= min(b, last) for a, b in self.ranges)
        for a, b in sorted(self.ranges):
            if a <= first <= b:
                first = b + 1
        return first <= last


class Grammar:
    """A grammar's rules, parsed.

    Args:
        text: Well-formed GBNF.
        names: Name in `< >` -> token id.
    """

    def __init__(self, text: str, names: dict[str, int] | None = None) -> None:
        self._text, self._at, self._names = text, 0, names or {}
        self.rules: dict[str, Node] = {}
        self._space(True)
        while self._at < len(text):
            name = self._match(r"[A-Za-z0-9-]+")
            self._space(False)
            self._match("::=")
            self._space(True)
            self.rules[name] = self._choice(False)
            self._match(r"\r\n|\r|\n|\Z")
            self._space(True)
        self.heights: dict[Node, int] = {}
        while self._measure():
            pass

    def nodes(self) -> list[Node]:
        """All parts of all rules, the smaller ones first."""
        found: list[Node] = []

        def add(node: Node) -> None:
            for part in node.parts:
                add(part)
            found.append(node)

        for rule in self.rules.values():
            add(rule)
        return found

    def is_productive(self, node: Node) -> bool:
        """Whether a node matches anything at all."""
        return node in self.heights

    def _measure(self) -> bool:
        """Goes once over `heights`, how deep the flattest match of a node is; whether they changed."""
        before = len(self.heights)
        for node in self.nodes():
            parts = [self.heights.get(part) for part in node.parts]
            known = [part for part in parts if part is not None]
            if node.kind == "chars":
                height = (
                    0 if node.has_one_of(0, 0xD7FF) or node.has_one_of(0xE000, 0x10FFFF) else None
                )
            elif node.kind == "tokens":
                height = 0
            elif node.kind == "rule":
                height = self.heights.get(self.rules[node.name])
            elif node.kind == "choice":
                height = min(known, default=None)
            elif node.kind == "repeat" and node.minimum == 0:
                height = 0
            else:
                height = max(known, default=0) if len(known) == len(parts) else None
            if height is not None and node not in self.heights:
                self.heights[node] = height + 1
        return len(self.heights) > before

    def _match(self, pattern: str) -> str:
        found = re.compile(pattern).match(self._text, self._at)
        assert found, f"{pattern} at {self._text[self._at :]!r}"
        self._at = found.end()
        return found[0]

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _space(self, breaks: bool) -> None:
        self._match(r"(?:[ \t\r\n]|#[^\r\n]*)*" if breaks else r"(?:[ \t]|#[^\r\n]*)*")

    def _choice(self, in_group: bool) -> Node:
        parts = [self._sequence(in_group)]
        while self._next() == "|":
            self._at += 1
            self._space(True)
            parts.append(self._sequence(in_group))
        return Node("choice", parts)

    def _sequence(self, in_group: bool) -> Node:
        parts: list[Node] = []
        while True:
            c = self._next()
            if c == '"':
                parts.append(self._literal())
            elif c == "[":
                parts.append(self._class())
            elif c == "(":
                self._at += 1
                self._space(True)
                parts.append(self._choice(True))
                self._match(r"\)")
            elif c and c in "<!":
                parts.append(self._token())
            elif c == ".":
                self._at += 1
                parts.append(Node("chars", negated=True))
            elif re.match("[A-Za-z0-9-]", c):
                parts.append(Node("rule", name=self._match("[A-Za-z0-9-]+")))
            elif c and c in "*+?{":
                parts.append(self._repeat(parts.pop()))
            else:
                return Node("sequence", parts)
            self._space(in_group)

    def _repeat(self, part: Node) -> Node:
        sign = self._match(r"[*+?]|\{[^}]*\}")
        if sign in "*+?":
            bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        else:
            numbers = re.sub(r"#[^\r\n]*|[{}\s]", "", sign).split(",")
            maximum = int(numbers[-1]) if numbers[-1] else None
            bounds = (int(numbers[0]), maximum)
        return Node("repeat", [part], minimum=bounds[0], maximum=bounds[1])

    def _character(self) -> int:
        c = self._match(r"(?s).")
        if c != "\\":
            return ord(c)
        kind = self._match(r"(?s).")
        if kind in _HEX:
            return int(self._match(f"[0-9A-Fa-f]{{{_HEX[kind]}}}"), 16)
        return ord(_SIMPLE[kind])

    def _literal(self) -> Node:
        self._at += 1
        parts = []
        while self._next() != '"':
            c = self._character()
            parts.append(Node("chars", ranges=[(c, c)]))
        self._at += 1
        return Node("sequence", parts)

    def _class(self) -> Node:
        negated = self._match(r"\[\^?") == "[^"
        ranges = []
        while self._next() != "]":
            first = last = self._character()
            if self._next() == "-" and self._text[self._at + 1] != "]":
                self._at += 1
                last = self._character()
            ranges.append((first, last))
        self._at += 1
        # The empty class and its negation are the empty text.
        return Node("chars", ranges=ranges, negated=negated) if ranges else Node("sequence")

    def _token(self) -> Node:
        negated = self._match("!?") == "!"
        name = self._match("<[^>]*>")
        by_id = re.fullmatch(r"<\[(\d+)\]>", name)
        return Node("tokens", ids={int(by_id[1]) if by_id else self._names[name]}, negated=negated)


def _completions() -> dict[bytes, tuple[int, int]]:
    """Every beginning of a character's UTF-8 that is no whole one -> the first and last such character."""
    found: dict[bytes, tuple[int, int]] = {}
    for first in range(0x80, 0x110000, 64):  # 64 characters differ in their last byte alone
        if not 0xD800 <= first <= 0xDFFF:
            encoded = chr(first).encode()
            for length in range(1, len(encoded)):
                prefix = encoded[:length]
                found[prefix] = (found.get(prefix, (first, 0))[0], first + 63)
    return found


COMPLETIONS = _completions()


@dataclass
class Trace:
    """What a grammar says of a text, by number of its bytes."""

    alive: list[bool]
    complete: list[bool]


def trace(
    grammar: Grammar, fragments: Iterable[bytes | tuple[int, bytes | None]], root: str = "root"
) -> Trace:
    """Runs a grammar over a text.

    Args:
        grammar: What to run.
        fragments: Bytes, or tokens as (id, bytes); None in place of the bytes for a control token,
            which counts as one byte.
        root: The rule to begin with. Default: "root".

    Returns:
        For each beginning of the text, whether it is alive: some text of the grammar goes on from
        there. And whether it is a whole text. Within a token only its end has a meaning.
    """
    elements: list[int] = []
    tokens: dict[int, tuple[int, int]] = {}  # where a token begins -> its id, where it ends
    for fragment in fragments:
        token, text = fragment if isinstance(fragment, tuple) else (None, fragment)
        begin = len(elements)
        elements += [NO_CHAR] if text is None else text
        if token is not None:
            tokens[begin] = (token, len(elements))
    return _Run(grammar, elements, tokens).trace(grammar.rules[root])


class _Run:
    def __init__(
        self, grammar: Grammar, elements: Sequence[int], tokens: dict[int, tuple[int, int]]
    ) -> None:
        self._grammar, self._elements, self._tokens = grammar, elements, tokens
        self._ends: dict[tuple[Node, int], set[int]] = defaultdict(set)
        self._seen: set[tuple[Node, int]] = set()
        self._tried: set[tuple[Node, int]] = set()  # characters, and where
        self._matched = {0}  # where a character or token has just matched
        self._open: set[tuple[Node, int]] = set()
        self._characters: dict[int, tuple[int, int] | None] = {}
        self._changed = self._guessed = True

    def trace(self, root: Node) -> Trace:
        while self._changed and self._guessed:
            self._changed = self._guessed = False
            self._seen.clear()
            self._from(root, 0)
        count = len(self._elements) + 1
        alive = [m in self._matched for m in range(count)]
        for node, begin in self._tried:
            for end in range(begin + 1, min(begin + 4, count)):
                alive[end] |= self._may_begin(node, self._elements[begin:end])
        complete = self._ends[root, 0]
        return Trace(alive, [m in complete for m in range(count)])

    def _may_begin(self, node: Node, elements: Sequence[int]) -> bool:
        if NO_CHAR in elements:
            return False
        characters = COMPLETIONS.get(bytes(elements))
        return characters is not None and node.has_one_of(*characters)

    def _from(self, node: Node, begin: int) -> set[int]:
        """Where `node` can end when it begins there, as far as is known yet."""
        if not self._grammar.is_productive(node):
            return set()
        key = (node, begin)
        if key in self._open:
            self._guessed = True  # it begins with itself, so all may be seen again
        if key not in self._seen:
            self._seen.add(key)
            self._open.add(key)
            ends = self._match_node(node, begin)
            self._open.remove(key)
            if not ends <= self._ends[key]:
                self._ends[key] |= ends
                self._changed = True
        return self._ends[key]

    def _match_node(self, node: Node, begin: int) -> set[int]:
        by_kind = {
            "chars": self._chars,
            "tokens": self._match_token,
            "rule": self._rule,
            "sequence": self._sequence,
            "choice": self._choice,
            "repeat": self._repeat,
        }
        return by_kind[node.kind](node, begin)

    def _chars(self, node: Node, begin: int) -> set[int]:
        self._tried.add((node, begin))
        if begin not in self._characters:
            self._characters[begin] = self._character_at(begin)
        character = self._characters[begin]
        if character is None or not node.has(character[0]):
            return set()
        self._matched.add(character[1])
        return {character[1]}

    def _character_at(self, begin: int) -> tuple[int, int] | None:
        """The code point of the character at a place, and where it ends; None where there is none."""
        for end in range(begin + 1, min(begin + 4, len(self._elements)) + 1):
            elements = self._elements[begin:end]
            if NO_CHAR in elements:
                break
            try:
                return ord(bytes(elements).decode()), end
            except UnicodeDecodeError:
                continue
        return None

    def _match_token(self, node: Node, begin: int) -> set[int]:
        if begin not in self._tokens:
            return set()
        token, end = self._tokens[begin]
        if (token in node.ids) == node.negated:
            return set()
        self._matched.add(end)
        return {end}

    def _rule(self, node: Node, begin: int) -> set[int]:
        return set(self._from(self._grammar.rules[node.name], begin))

    def _sequence(self, node: Node, begin: int) -> set[int]:
        ends = {begin}
        for part in node.parts:
            ends = {end for middle in ends for end in self._from(part, middle)}
        return ends

    def _choice(self, node: Node, begin: int) -> set[int]:
        return {end for part in node.parts for end in self._from(part, begin)}

    def _repeat(self, node: Node, begin: int) -> set[int]:
        now, ends, count = {begin}, set(), 0
        while now:
            if count >= node.minimum:
                if node.maximum is None and now <= ends:
                    break
                ends |= now
            if count == node.maximum:
                break
            after = {end for middle in now for end in self._from(node.parts[0], middle)}
            if after == now:  # and so for any number of times more
                return ends | now
            now, count = after, count + 1
        return ends
