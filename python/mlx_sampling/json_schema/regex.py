"""ECMA-262 regular expressions (the `u` flag's reading), parsed.

Here: syntax to a tree. Not here: back references, word boundaries, look-behind, look-ahead anywhere but
at the start of an anchored expression; each is an error that says so.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mlx_sampling.json_schema import codepoints
from mlx_sampling.json_schema.codepoints import CodePoints

__all__ = ["BEGIN", "END", "RegexError", "Tree", "parse_regex", "tree_length"]

# ("chars", ranges) ("cat", parts) ("alt", parts) ("repeat", part, low, high) ("begin",) ("end",)
# ("ahead", part, positive)
Tree = tuple
BEGIN: Tree = ("begin",)
END: Tree = ("end",)

_CLASSES = {
    "d": codepoints.of("0123456789"),
    "w": codepoints.unite([(48, 57), (65, 90), (95, 95), (97, 122)]),
    "s": codepoints.unite(
        (
            *codepoints.of("\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"),
            (0x2000, 0x200A),
        )
    ),
}
_CONTROLS = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11}
_HEX = frozenset("0123456789abcdefABCDEF")
_DEPTH = 60


class RegexError(ValueError):
    """Not a regular expression, or one that is not of the supported kind."""


@lru_cache(maxsize=8)
def _class(letter: str, wide: bool) -> CodePoints:
    """\\d, \\w, \\s or the complement of one, as every reader has it, or (wide) as any one has it."""
    if letter.isupper():
        return codepoints.invert(_class(letter.lower(), not wide))
    everything = "".join(map(chr, (*range(0xD800), *range(0xE000, codepoints.LAST + 1))))
    unicode = codepoints.unite(
        (ord(run[0][0]), ord(run[0][-1])) for run in re.finditer(rf"\{letter}+", everything)
    )
    narrow = codepoints.intersect(_CLASSES[letter], unicode)
    return codepoints.unite((*_CLASSES[letter], *unicode)) if wide else narrow


class _Parser:
    def __init__(self, text: str, wide: bool):
        self.text = text
        self.wide = wide
        self.at = 0
        self.depth = 0

    def error(self, message: str) -> RegexError:
        return RegexError(f"{message} at character {self.at + 1} of {self.text[:80]!r}")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, expected: str) -> bool:
        if self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def alternatives(self) -> Tree:
        self.depth += 1
        if self.depth > _DEPTH:
            raise self.error(f"groups nest more than {_DEPTH} deep")
        parts = [self.sequence()]
        while self.take("|"):
            parts.append(self.sequence())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else ("alt", tuple(parts))

    def sequence(self) -> Tree:
        parts = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.quantified())
        return parts[0] if len(parts) == 1 else ("cat", tuple(parts))

    def quantified(self) -> Tree:
        atom = self.atom()
        bounds = self.quantifier()
        if bounds is None:
            return atom
        if atom[0] in ("begin", "end", "ahead"):
            raise self.error("an assertion is repeated")
        low, high = bounds
        self.take("?")  # lazy or greedy: the same language
        if self.quantifier() is not None:
            raise self.error("a quantifier is repeated")
        return ("repeat", atom, low, high)

    def quantifier(self) -> tuple[int, int | None] | None:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self.peek() in simple:
            self.at += 1
            return simple[self.text[self.at - 1]]
        if self.peek() != "{":
            return None
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : max(end, self.at)].partition(",")
        numbers = [low, high] if high else [low]
        if end < 0 or not all(n.isascii() and n.isdigit() and len(n) < 10 for n in numbers):
            raise self.error('expected bounds such as {2,5} after "{"')
        self.at = end + 1
        upper = int(high) if high else None if comma else int(low)
        if upper is not None and upper < int(low):
            raise self.error("bounds are out of order")
        return int(low), upper

    def atom(self) -> Tree:
        char = self.peek()
        if char == "(":
            return self.group()
        if char == "[":
            return ("chars", self.char_class())
        if char == "\\":
            return self.escape()
        if char in "*+?{}]":
            raise self.error(f"nothing to repeat, or an unescaped {char!r},")
        self.at += 1
        if char == "^":
            return BEGIN
        if char == "$":
            return ("alt", (END, ("cat", (("chars", ((10, 10),)), END)))) if self.wide else END
        if char == ".":
            return (
                "chars",
                codepoints.invert(codepoints.of("\n" if self.wide else "\n\r\u2028\u2029")),
            )
        return ("chars", codepoints.of(char))

    def group(self) -> Tree:
        self.at += 1
        ahead = None
        if self.take("?"):
            if self.take("=") or self.take("!"):
                ahead = self.text[self.at - 1] == "="
            elif self.take("<=") or self.take("<!"):
                raise self.error("look-behind is not supported")
            elif self.take("<"):
                end = self.text.find(">", self.at)
                if end < 0 or not self.text[self.at : end].isidentifier():
                    raise self.error("expected a group's name")
                self.at = end + 1
            elif not self.take(":"):
                raise self.error("expected (?:, (?=, (?! or (?<name>")
        inner = self.alternatives()
        if not self.take(")"):
            raise self.error("a group is not closed")
        return inner if ahead is None else ("ahead", inner, ahead)

    def escape(self) -> Tree:
        following = self.text[self.at + 1 : self.at + 2]
        if following in ("b", "B"):
            raise self.error("word boundaries are not supported")
        if following in ("k",) or (following in "123456789" and following):
            raise self.error("back references are not supported")
        return ("chars", self.class_escape())

    def class_escape(self) -> CodePoints:
        self.at += 1
        char = self.peek()
        self.at += 1
        if char.lower() in _CLASSES and char:
            return _class(char, self.wide)
        if char in _CONTROLS:
            return codepoints.of(chr(_CONTROLS[char]))
        if char == "0" and not self.peek().isdigit():
            return ((0, 0),)
        if char == "c" and self.peek().isascii() and self.peek().isalpha():
            self.at += 1
            return codepoints.of(chr(ord(self.text[self.at - 1]) % 32))
        if char == "x":
            return codepoints.of(chr(self.hex_digits(2)))
        if char == "u":
            return codepoints.of(chr(self.unicode_escape()))
        if char == "" or char.isalnum():
            self.at -= len(char)
            raise self.error(f"the escape \\{char} is not supported")
        return codepoints.of(char)

    def hex_digits(self, count: int) -> int:
        digits = self.text[self.at : self.at + count]
        if len(digits) != count or not set(digits) <= _HEX:
            raise self.error(f"expected {count} hexadecimal digits")
        self.at += count
        return int(digits, 16)

    def unicode_escape(self) -> int:
        if self.take("{"):
            end = self.text.find("}", self.at)
            digits = self.text[self.at : max(end, self.at)]
            if not digits or not set(digits) <= _HEX or int(digits, 16) > codepoints.LAST:
                raise self.error("expected a code point in braces")
            self.at = end + 1
            return int(digits, 16)
        code = self.hex_digits(4)
        if 0xD800 <= code < 0xDC00 and self.text.startswith("\\u", self.at):
            mark = self.at
            self.at += 2
            low = self.hex_digits(4)
            if 0xDC00 <= low < 0xE000:
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            self.at = mark
        return code

    def char_class(self) -> CodePoints:
        self.at += 1
        negated = self.take("^")
        if self.peek() == "]":
            raise self.error("an empty class")
        self.wide ^= negated
        ranges: list[tuple[int, int]] = []
        while not self.take("]"):
            if self.peek() == "":
                raise self.error("a class is not closed")
            first = self.class_atom()
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                last = self.class_atom()
                if not (_is_single(first) and _is_single(last)):
                    raise self.error("a range between classes")
                if last[0][0] < first[0][0]:
                    raise self.error("a range is out of order")
                first = ((first[0][0], last[0][0]),)
            ranges.extend(first)
        self.wide ^= negated
        found = codepoints.unite(ranges)
        return codepoints.invert(found) if negated else found

    def class_atom(self) -> CodePoints:
        char = self.peek()
        if char == "\\":
            if self.text[self.at + 1 : self.at + 2] == "b":
                self.at += 2
                return ((8, 8),)
            return self.class_escape()
        self.at += 1
        return codepoints.of(char)


def _is_single(ranges: CodePoints) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def parse_regex(text: str, wide: bool = False) -> Tree:
    """The tree of an expression.

    Validators differ in `.`, `\\d`, `\\w`, `\\s` and `$`: ECMA-262 has ASCII's digits, Python's `re` all of
    Unicode's, and lets `$` stand before a last line break.

    Args:
        text: The expression.
        wide: Whether what any of them matches is matched, rather than what all of them match.

    Raises:
        RegexError: It is not one, or has what is not supported.
    """
    parser = _Parser(text, wide)
    tree = parser.alternatives()
    if parser.peek():
        raise parser.error('unbalanced ")"')
    return tree


def tree_length(tree: Tree) -> tuple[int, int | None]:
    """Least and greatest number of code points; None: no greatest."""
    kind = tree[0]
    if kind == "chars":
        return 1, 1
    if kind == "repeat":
        low, high = tree_length(tree[1])
        most = 0 if high == 0 else None if high is None or tree[3] is None else high * tree[3]
        return low * tree[2], most
    if kind in ("cat", "alt"):
        lengths = [tree_length(part) for part in tree[1]]
        lows, highs = [low for low, _ in lengths], [high for _, high in lengths]
        join = sum if kind == "cat" else max
        least = sum(lows) if kind == "cat" else min(lows)
        return least, None if None in highs else join(h for h in highs if h is not None)
    return 0, 0
