"""Objects as grammar: declared properties in their order, then the others.

No declared name is written twice, nor as one of the others. That two of the others differ is beyond any
context-free grammar; readers keep the last, and each has been checked.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from mlx_sampling.json_schema.gbnf import NEVER, Expr, alt, lit, ref, repeat, seq
from mlx_sampling.json_schema.objects import NamePattern, ObjectShape
from mlx_sampling.json_schema.strings import StringShape
from mlx_sampling.json_schema.values import is_text, string_text
from mlx_sampling.json_schema.write_strings import string_expr

if TYPE_CHECKING:
    from mlx_sampling.json_schema.normal import Conjunction
    from mlx_sampling.json_schema.writer import Writer

__all__ = ["object_expr"]

STATES = 20_000
PATTERNS = 5


class _Field(NamedTuple):
    pair: Expr
    required: bool


def object_expr(writer: Writer, shape: ObjectShape) -> Expr:
    """An object of a shape."""
    domain = writer.context.conjunction(shape.names, "string")
    listed = [v for s in domain if s.values is not None for v in s.values]
    names = list(dict.fromkeys(shape.declared() + listed))
    fields = []
    value_of = shape.lookup()
    required = frozenset(shape.required)
    for name in names:
        if not is_text(name):
            raise writer.blamed.error("a property's name holds a surrogate, which UTF-8 cannot")
        allowed = any(s.holds(name) for s in domain)
        literals = value_of(name)
        if not allowed or writer.context.is_empty(literals, 2):
            if name in required:
                return NEVER
            continue
        pair = seq(lit(string_text(name)), writer.colon, writer.value(literals, name))
        fields.append(_Field(pair, name in required))
    open_domain = [s for s in domain if s.values is None]
    others = _others(writer, shape, open_domain, frozenset(names))
    return _Counted(writer, shape, fields, others).expr()


def _others(
    writer: Writer, shape: ObjectShape, domain: list[StringShape], names: frozenset[str]
) -> Expr:
    """A property of a name that is not declared."""
    if not domain:
        return NEVER
    patterns = list(
        dict.fromkeys(pattern for rules in shape.rules for pattern, _ in rules.patterns)
    )
    if len(patterns) > PATTERNS:
        raise writer.blamed.error(
            f"patternProperties of more than {PATTERNS} expressions for one object; it cannot be enforced",
            "patternProperties",
        )
    classes: dict[Conjunction, list[StringShape]] = {}
    for signs in product((True, False), repeat=len(patterns)):
        matched = dict(zip(patterns, signs, strict=True))
        keys = [
            s for d in domain for s in _signed(d._replace(excluded=d.excluded | names), matched)
        ]
        classes.setdefault(_value_of_others(shape, matched), []).extend(keys)
    if len(classes) == 1 and patterns:
        (literals,) = classes
        classes = {literals: [d._replace(excluded=d.excluded | names) for d in domain]}
    parts = []
    for literals, keys in classes.items():
        if writer.context.is_empty(literals, 2):
            continue
        for key in keys:
            name = writer.grammar.shared(
                ("name", key), "name", partial(string_expr, writer.grammar, key)
            )
            parts.append(seq(name, writer.colon, writer.value(literals, f"{writer.hint}-value")))
    return alt(*parts)


def _value_of_others(shape: ObjectShape, matched: dict[NamePattern, bool]) -> Conjunction:
    found: list = []
    for rules in shape.rules:
        own = [item for pattern, item in rules.patterns if matched[pattern]]
        if not own and rules.others is not None:
            own = [rules.others]
        found += [literal for item in own for literal in item]
    return tuple(dict.fromkeys(found))


def _signed(shape: StringShape, matched: dict[NamePattern, bool]) -> list[StringShape]:
    """Names that match exactly those patterns."""
    shapes = [shape]
    for pattern, positive in matched.items():
        if positive:
            choices = [StringShape(atoms=pattern)]
        else:
            choices = [StringShape(atoms=((language, not sign),)) for language, sign in pattern]
        shapes = [both for s in shapes for c in choices if (both := s.meet(c)) is not None]
    return [s for s in shapes if not s.is_empty()]


class _Counted:
    """The properties as a chain of rules: after field `i` with `count` properties written."""

    def __init__(self, writer: Writer, shape: ObjectShape, fields: list[_Field], others: Expr):
        self.writer = writer
        self.fields = fields
        self.others = others
        needed = sum(field.required for field in fields)
        self.low = shape.low if shape.low > needed else 0
        bounded = shape.high is not None and (others != NEVER or shape.high < len(fields))
        self.high = shape.high if bounded else None
        # counts from here on are not told apart
        self.top = min(len(fields), max(self.low, self.high or 0, 1))

    def expr(self) -> Expr:
        if len(self.fields) * self.top > STATES:
            raise self.writer.blamed.error(
                f"minProperties or maxProperties takes more than {STATES} states; it cannot be enforced",
                "minProperties" if self.low else "maxProperties",
            )
        size = len(self.fields)
        after = [self._end(count) for count in range(self.top + 1)]
        for i in range(size - 1, -1, -1):
            names = [self.writer.grammar.fresh(f"{self.writer.hint}-rest") for _ in after]
            for name, expr in zip(names, after, strict=True):
                self.writer.grammar.define(name, expr)
            after = [self._field(i, count, names) for count in range(min(i, self.top) + 1)]
        return seq(lit("{"), after[0])

    def _field(self, i: int, count: int, names: list[str]) -> Expr:
        pair, required = self.fields[i]
        if self.high is not None and count >= self.high:
            return NEVER if required else ref(names[count])
        before = self.writer.comma if count else self.writer.gap
        following = min(count + 1, self.top)
        if not required and following == count:
            return seq(repeat(seq(before, pair), 0, 1), ref(names[count]))
        taken = seq(before, pair, ref(names[following]))
        return taken if required else alt(taken, ref(names[count]))

    def _end(self, count: int) -> Expr:
        """The other properties, and the closing brace."""
        writer = self.writer
        low = max(0, self.low - count)
        high = None if self.high is None else self.high - count
        if high is not None and high < low:
            return NEVER
        if low > 1 and self.others != NEVER:
            raise writer.blamed.error(
                "minProperties takes two or more properties of any name, which could be the same; "
                "it cannot be enforced",
                "minProperties",
            )
        close = seq(writer.gap, lit("}"))
        more = seq(writer.comma, self.others)
        if count:
            return seq(repeat(more, low, high), close)
        first = seq(
            writer.gap,
            self.others,
            repeat(more, max(0, low - 1), None if high is None else high - 1),
            close,
        )
        parts = [] if low else [lit("}")]
        return alt(*parts, NEVER if high == 0 else first)
