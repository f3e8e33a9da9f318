"""Random GBNF texts that use every feature of the language, and the names of those that each uses.

Not here: what the texts mean (`core/grammar_oracle.py`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["ALPHABET", "FEATURES", "GrammarText", "random_grammar"]

# Few characters, so that random texts meet: 1 to 4 bytes of UTF-8, two that share their lead byte,
# and those that need an escape.
ALPHABET = 'aaabbb01é à€😀\\"[]-^\n\r\t'
_ESCAPED = {"\\": "\\\\", '"': '\\"', "[": "\\[", "]": "\\]", "-": "\\-", "\n": "\\n", "\r": "\\r"}
_ESCAPED["\t"] = "\\t"
_NAMES = ("a", "item", "Ws-2", "42", "-", "x-")

FEATURES = (
    "literal", "long literal", "empty literal", "raw line break in a literal", "\\x", "\\u", "\\U",
    "\\t", "\\r", "\\n", "\\\\", '\\"', "\\[", "\\]", "\\-", "class", "negated class", "range",
    "dash at the end of a class", "empty class", "empty negated class", "inverted range", "any",
    "group", "empty group", "forward reference", "backward reference", "recursion",
    "choice", "empty alternative", "*", "+", "?", "{m}", "{m,}", "{m,n}", "space in braces",
    "stacked repetition", "repeated literal", "repeated group", "comment", "tab",
    "line break after ::=", "line break after |", "line break in a group", "CRLF", "tight",
)  # fmt: skip
TOKEN_FEATURES = ("token by id", "token by text", "negated token")


@dataclass
class GrammarText:
    """A grammar, and the features that it uses."""

    text: str
    features: set[str] = field(default_factory=set)


def random_grammar(
    draw: random.Random,
    tokens: Sequence[tuple[int, str | None]] = (),
    size: int = 3,
    large_counts: bool = True,
) -> GrammarText:
    """A grammar of up to `size` rules besides the root, all of them defined.

    It may be left recursive, ambiguous, or without any text.

    Args:
        draw: Where randomness comes from.
        tokens: (id, name in `< >` or None) pairs for token literals. Default: none are written.
        size: See above. Default: 3.
        large_counts: Whether some repetitions are of up to 70,000 times. Default: True.
    """
    return _Writer(draw, tokens, large_counts).grammar(size)


class _Writer:
    def __init__(
        self, draw: random.Random, tokens: Sequence[tuple[int, str | None]], large_counts: bool
    ) -> None:
        self._draw = draw
        self._large_counts = large_counts
        self._tokens = tokens
        self._features: set[str] = set()
        self._names: list[str] = []
        self._rule = 0
        self._break = "\n"

    def grammar(self, size: int) -> GrammarText:
        self._names = ["root", *self._draw.sample(_NAMES, self._draw.randint(0, size))]
        if self._chance(0.1):
            self._break = self._use("CRLF", "\r\n")
        lines = []
        for index, name in enumerate(self._names):
            self._rule = index
            after = " "
            if self._chance(0.1):
                after = self._use("line break after ::=", self._space(True) + self._break + " ")
            body = self._choice(2, in_group=False)
            lines.append(name + self._space(False) + "::=" + after + body + self._line_end())
        order = list(range(len(lines)))
        if self._chance(0.5):
            self._draw.shuffle(order)
        # An empty alternative at the end of a line would take the next line's rule for its own.
        return GrammarText("".join(lines[i] for i in order), self._features)

    def _chance(self, p: float) -> bool:
        return self._draw.random() < p

    def _use(self, feature: str, text: str) -> str:
        self._features.add(feature)
        return text

    def _line_end(self) -> str:
        if self._chance(0.1):
            comment = self._use("comment", ' # root ::= "é" |')
            return comment + self._break + (self._break + "\t# more" + self._break) * 2
        return self._break

    def _space(self, in_group: bool, needed: bool = False) -> str:
        kind = self._draw.random()
        if in_group and kind < 0.05:
            return self._use("line break in a group", self._break + "  ")
        if in_group and kind < 0.1:
            return self._use("comment", " # ) or not" + self._break)
        if kind < 0.15:
            return self._use("tab", "\t ")
        if kind < 0.3 and not needed:
            return self._use("tight", "")
        return " "

    def _choice(self, depth: int, in_group: bool) -> str:
        alternatives = [self._sequence(depth, in_group)]
        while self._chance(0.35) and len(alternatives) < 4:
            after = self._space(True)
            if self._chance(0.1):
                after = self._use("line break after |", self._break + " ")
            empty = self._chance(0.1) and in_group
            body = self._use("empty alternative", "") if empty else ""
            body = body if empty else self._sequence(depth, in_group)
            alternatives.append(self._use("choice", self._space(in_group) + "|" + after + body))
        return "".join(alternatives)

    def _sequence(self, depth: int, in_group: bool) -> str:
        items = [self._item(depth, in_group) for _ in range(self._draw.choice((1, 1, 2, 2, 3)))]
        text = items[0]
        for item in items[1:]:
            names_meet = (text[-1].isalnum() or text[-1] == "-") and (
                item[0].isalnum() or item[0] == "-"
            )
            text += self._space(in_group, needed=names_meet) + item
        return text

    def _item(self, depth: int, in_group: bool) -> str:
        symbols = [self._literal, self._literal, self._literal, self._class, self._class]
        symbols += [self._reference, self._reference, self._any]
        if self._tokens:
            symbols += [self._token] * 3
        if depth > 0:
            symbols += [lambda: self._group(depth - 1)] * 2
        symbol = self._draw.choice(symbols)()
        if symbol in ('""', "[]", "[^]") or not self._chance(0.35):
            return symbol
        if symbol[0] in '"(':
            self._use("repeated literal" if symbol[0] == '"' else "repeated group", "")
        text = symbol + self._space(in_group) + self._repetition(in_group)
        if self._chance(0.1):
            text += self._use("stacked repetition", self._repetition(in_group))
        return text

    def _repetition(self, in_group: bool) -> str:
        m = self._draw.choice((1, 1, 2, 3))
        n = m + self._draw.choice((0, 1, 2))
        if self._large_counts and self._chance(0.15):
            m = self._draw.choice((1, 5, 9, 17, 33))
            n = m + self._draw.choice((0, 1, 8, 100, 70_000))
        kind = self._draw.choice(("*", "+", "?", "{m}", "{m,}", "{m,n}"))
        self._use(kind, "")
        if len(kind) == 1:
            return kind
        space = self._space(in_group) if self._chance(0.2) else ""
        if space:
            self._use("space in braces", "")
        if kind == "{m,n}" and self._chance(0.4):
            m = 0
        parts = {"{m}": (str(m),), "{m,}": (str(m), ","), "{m,n}": (str(m), ",", str(n))}[kind]
        return "{" + space + space.join(parts) + space + "}"

    def _character(self, character: str, raw: str) -> str:
        """One character of a literal or class, as it is where it is in `raw` and luck has it."""
        kind = self._draw.random()
        if character in _ESCAPED and (character not in raw or kind < 0.5):
            return self._use(_ESCAPED[character], _ESCAPED[character])
        code = ord(character)
        if kind < 0.08 and code <= 0xFF:
            return self._use("\\x", f"\\x{code:02X}" if self._chance(0.5) else f"\\x{code:02x}")
        if kind < 0.12 and code <= 0xFFFF:
            return self._use("\\u", f"\\u{code:04x}")
        if kind < 0.16:
            return self._use("\\U", f"\\U{code:08X}")
        if character == "\n":
            self._use("raw line break in a literal", "")
        return character

    def _literal(self) -> str:
        if self._chance(0.04):
            return self._use("empty literal", '""')
        count = self._draw.choice((1, 1, 1, 2, 3))
        self._use("literal" if count == 1 else "long literal", "")
        characters = self._draw.choices(ALPHABET, k=count)
        return '"' + "".join(self._character(c, "[]-\n\r\t") for c in characters) + '"'

    def _class(self) -> str:
        if self._chance(0.06):
            kind = self._draw.choice(("[]", "[^]", "[b-a]"))
            names = {"[]": "empty class", "[^]": "empty negated class", "[b-a]": "inverted range"}
            return self._use(names[kind], kind)
        text = self._use("negated class", "[^") if self._chance(0.25) else self._use("class", "[")
        for _ in range(self._draw.choice((1, 1, 2, 3))):
            first, last = sorted(self._draw.choices(ALPHABET, k=2))
            if self._chance(0.4):
                self._use("range", "")
                text += self._character(first, '"') + "-" + self._character(last, '"')
            else:
                # `^` would negate at the beginning; `-` might make a range.
                text += "\\x5E" if first == "^" else self._character(first, '"')
        if self._chance(0.1):
            text += self._use("dash at the end of a class", "-")
        return text + "]"

    def _any(self) -> str:
        return self._use("any", ".")

    def _group(self, depth: int) -> str:
        if self._chance(0.04):
            return self._use("empty group", "(" + self._space(True) + ")")
        self._use("group", "")
        return "(" + self._space(True) + self._choice(depth, True) + self._space(True) + ")"

    def _reference(self) -> str:
        later = self._names[self._rule + 1 :]
        if later and self._chance(0.8):
            return self._use("forward reference", self._draw.choice(later))
        if not self._chance(0.3):
            return self._literal()
        name = self._draw.choice(self._names[: self._rule + 1])
        same = name == self._names[self._rule]
        return self._use("recursion" if same else "backward reference", name)

    def _token(self) -> str:
        token, name = self._draw.choice(self._tokens)
        negation = self._use("negated token", "!") if self._chance(0.3) else ""
        if name is None or self._chance(0.4):
            return negation + self._use("token by id", f"<[{token}]>")
        return negation + self._use("token by text", name)
