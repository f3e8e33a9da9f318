"""GBNF as expressions, simplified where they are made, and printed.

Rules that no text can complete are pruned before printing, so that a generator is never led into one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from mlx_sampling.json_schema import codepoints
from mlx_sampling.json_schema.codepoints import CodePoints

__all__ = ["EMPTY", "NEVER", "Expr", "Grammar", "alt", "chars", "lit", "ref", "repeat", "seq"]

# ("lit", text) ("chars", ranges) ("seq", parts) ("alt", parts) ("repeat", part, low, high) ("ref", name)
Expr = tuple
EMPTY: Expr = ("seq", ())
NEVER: Expr = ("alt", ())

_INLINE_DEPTH = 10
_INLINE_SIZE = 80


def lit(text: str) -> Expr:
    return ("lit", text) if text else EMPTY


def chars(ranges: CodePoints) -> Expr:
    if not ranges:
        return NEVER
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return lit(chr(ranges[0][0]))
    return ("chars", ranges)


def ref(name: str) -> Expr:
    return ("ref", name)


def seq(*parts: Expr) -> Expr:
    flat: list[Expr] = []
    for part in parts:
        if part == NEVER:
            return NEVER
        for piece in part[1] if part[0] == "seq" else (part,):
            if piece[0] == "lit" and flat and flat[-1][0] == "lit":
                flat[-1] = lit(flat[-1][1] + piece[1])
            else:
                flat.append(piece)
    return flat[0] if len(flat) == 1 else ("seq", tuple(flat))


def alt(*parts: Expr) -> Expr:
    flat: dict[Expr, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part[1] if part[0] == "alt" else (part,)))
    return next(iter(flat)) if len(flat) == 1 else ("alt", tuple(flat))


def repeat(part: Expr, low: int, high: int | None) -> Expr:
    if high is not None and high < low:
        return NEVER
    if part == NEVER:
        return NEVER if low else EMPTY
    if part == EMPTY or high == 0:
        return EMPTY
    if low == high == 1:
        return part
    return ("repeat", part, low, high)


def _children(expr: Expr) -> tuple[Expr, ...]:
    if expr[0] in ("seq", "alt"):
        return expr[1]
    return (expr[1],) if expr[0] == "repeat" else ()


def _refs(expr: Expr) -> list[str]:
    """Names of the rules in it, as often as they stand there."""
    found = []
    stack = [expr]
    while stack:
        top = stack.pop()
        if top[0] == "ref":
            found.append(top[1])
        stack.extend(reversed(_children(top)))
    return found


def _rebuild(expr: Expr, replace: Callable[[str], Expr]) -> Expr:
    kind = expr[0]
    if kind == "ref":
        return replace(expr[1])
    if kind == "seq":
        return seq(*(_rebuild(part, replace) for part in expr[1]))
    if kind == "alt":
        return alt(*(_rebuild(part, replace) for part in expr[1]))
    if kind == "repeat":
        return repeat(_rebuild(expr[1], replace), expr[2], expr[3])
    return expr


def _measure(expr: Expr) -> tuple[int, int]:
    """How deep an expression nests, and of how many parts it is."""
    inner = [_measure(part) for part in _children(expr)]
    return 1 + max((depth for depth, _ in inner), default=0), 1 + sum(size for _, size in inner)


class Grammar:
    """Rules by name, in the order they were asked for."""

    def __init__(self) -> None:
        self.rules: dict[str, Expr] = {}
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}
        self._shared: dict[object, str] = {}

    def fresh(self, hint: str) -> str:
        """A rule name that nothing else has, which reads like `hint`."""
        base = re.sub(r"[^A-Za-z0-9]+", "-", hint).strip("-")[:40] or "rule"
        name, count = base, self._counts.get(base, 1)
        while name in self._names:
            count += 1
            name = f"{base}-{count}"
        self._counts[base] = count
        self._names.add(name)
        return name

    def define(self, name: str, expr: Expr) -> None:
        self.rules[name] = expr

    def shared(self, key: object, hint: str, build: Callable[[], Expr]) -> Expr:
        """One rule per key: made at the first call, named at every one."""
        if key not in self._shared:
            self._shared[key] = self.fresh(hint)
            self.define(self._shared[key], build())
        return ref(self._shared[key])

    def prune(self, root: str) -> bool:
        """Drops what no text completes, and what `root` does not reach; whether `root` is left."""
        productive = self._productive()
        if root not in productive:
            return False
        keep = {
            name: _rebuild(expr, lambda n: ref(n) if n in productive else NEVER)
            for name, expr in self.rules.items()
            if name in productive
        }
        self.rules = _reachable(keep, root)
        self._inline(root)
        self.rules = _reachable(self.rules, root)
        return True

    def _productive(self) -> set[str]:
        users: dict[str, list[str]] = {}
        for name, expr in self.rules.items():
            for used in _refs(expr):
                users.setdefault(used, []).append(name)
        productive: set[str] = set()
        for name in _leaves_first(self.rules):
            if _completes(self.rules[name], productive):
                productive.add(name)
        # what a cycle kept back
        stack = [name for name in self.rules if name not in productive]
        while stack:
            name = stack.pop()
            if name not in productive and _completes(self.rules[name], productive):
                productive.add(name)
                stack.extend(user for user in users.get(name, ()) if user not in productive)
        return productive

    def _inline(self, root: str) -> None:
        """Puts a rule that is used once where it is used, unless that nests too deeply."""
        uses: dict[str, int] = {}
        for expr in self.rules.values():
            for used in _refs(expr):
                uses[used] = uses.get(used, 0) + 1
        simple = {
            name
            for name, expr in self.rules.items()
            if name != root
            and expr != ref(name)
            and (uses.get(name) == 1 or expr[0] in ("lit", "ref") or expr == EMPTY)
        }
        done: dict[str, Expr] = {}
        small: set[str] = set()
        for name in _leaves_first(self.rules):

            def replace(used: str) -> Expr:
                return done[used] if used in small else ref(used)

            done[name] = _rebuild(self.rules[name], replace)
            if name in simple:
                depth, size = _measure(done[name])
                if depth < _INLINE_DEPTH and size < _INLINE_SIZE:
                    small.add(name)
        self.rules = {name: done[name] for name in self.rules}

    def text(self) -> str:
        return "".join(f"{name} ::= {_print(expr, 0)}\n" for name, expr in self.rules.items())


def _completes(expr: Expr, productive: set[str]) -> bool:
    kind = expr[0]
    if kind == "ref":
        return expr[1] in productive
    if kind == "seq":
        return all(_completes(part, productive) for part in expr[1])
    if kind == "alt":
        return any(_completes(part, productive) for part in expr[1])
    return kind != "repeat" or expr[2] == 0 or _completes(expr[1], productive)


def _reachable(rules: dict[str, Expr], root: str) -> dict[str, Expr]:
    found = {root: rules[root]}
    stack = [root]
    while stack:
        for used in reversed(_refs(rules[stack.pop()])):
            if used not in found:
                found[used] = rules[used]
                stack.append(used)
    return {root: found[root]} | {name: e for name, e in rules.items() if name in found}


def _leaves_first(rules: dict[str, Expr]) -> list[str]:
    """Every rule once, after those it uses where there is no cycle."""
    order: list[str] = []
    state: dict[str, bool] = {}
    for start in rules:
        stack = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                order.append(name)
            elif name not in state:
                state[name] = True
                stack.append((name, True))
                stack.extend((used, False) for used in _refs(rules[name]))
    return order


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def _escape(char: str, special: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char in special:
        return "\\x5E" if char == "^" else "\\" + char
    if char.isprintable():
        return char
    code = ord(char)
    return (
        f"\\x{code:02X}"
        if code < 0x100
        else f"\\u{code:04X}"
        if code < 0x10000
        else f"\\U{code:08X}"
    )


def _print_chars(ranges: CodePoints) -> str:
    others = codepoints.invert(ranges)
    if not others:
        return "."
    negated = len(others) < len(ranges) or (
        ranges[-1][1] == codepoints.LAST and len(others) == len(ranges)
    )
    parts = []
    for first, last in others if negated else ranges:
        ends = [_escape(chr(c), '[]-^"') for c in (first, last)]
        parts.append(
            ends[0] if first == last else "".join(ends) if last == first + 1 else "-".join(ends)
        )
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def _bounds(low: int, high: int | None) -> str:
    simple = {(0, 1): "?", (0, None): "*", (1, None): "+"}
    if (low, high) in simple:
        return simple[low, high]
    if low == high:
        return f"{{{low}}}"
    return f"{{{low},{'' if high is None else high}}}"


def _print(expr: Expr, level: int) -> str:
    """Level 0: a rule's body; 1: a part of a sequence; 2: what is repeated."""
    kind = expr[0]
    if kind == "lit":
        return '"' + "".join(_escape(c, '"') for c in expr[1]) + '"'
    if kind == "chars":
        return _print_chars(expr[1])
    if kind == "ref":
        return expr[1]
    if kind == "repeat":
        inner = _print(expr[1], 2)
        text = inner + _bounds(expr[2], expr[3])
        return f"({text})" if level == 2 else text
    if kind == "seq":
        if not expr[1]:
            return '""' if level < 2 else '("")'
        text = " ".join(_print(part, 1) for part in expr[1])
        return f"({text})" if level == 2 else text
    text = " | ".join(_print(part, 0) for part in expr[1])
    return f"({text})" if level else text


def literals(texts: Iterable[str]) -> Expr:
    """One of these texts; a common beginning is written once when there are many."""
    texts = list(dict.fromkeys(texts))
    if len(texts) <= 8:
        return alt(*map(lit, texts))
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(text[:1], []).append(text)
    if "" in groups or len(groups) == len(texts):
        return alt(*map(lit, texts))
    parts = []
    for group in groups.values():
        size = len(_common_beginning(group))
        parts.append(seq(lit(group[0][:size]), literals(text[size:] for text in group)))
    return alt(*parts)


def _common_beginning(texts: list[str]) -> str:
    first, last = min(texts), max(texts)
    size = next((i for i, c in enumerate(first) if i >= len(last) or last[i] != c), len(first))
    return first[:size]
