"""Shapes to a grammar: one rule per type that is reached, made when its turn comes."""

from __future__ import annotations

from typing import Any

from mlx_sampling.errors import JsonSchemaError
from mlx_sampling.json_schema.automaton import TooLarge
from mlx_sampling.json_schema.document import Node
from mlx_sampling.json_schema.gbnf import (
    EMPTY,
    NEVER,
    Expr,
    Grammar,
    alt,
    chars,
    lit,
    ref,
    repeat,
    seq,
)
from mlx_sampling.json_schema.normal import Conjunction, Normalizer
from mlx_sampling.json_schema.write_arrays import array_expr
from mlx_sampling.json_schema.write_numbers import number_expr
from mlx_sampling.json_schema.write_objects import object_expr
from mlx_sampling.json_schema.write_strings import string_expr, values_expr

__all__ = ["WHITESPACE", "Writer"]

RULES = 50_000
_KINDS = ("object", "array", "string", "number", "boolean", "null")
_INDENT = 32

WHITESPACE = ("bounded", "compact", "spaced")


class Writer:
    """Writes the rules of a grammar, once.

    Attributes:
        colon, comma, gap: What stands between the parts of a value.
        blamed: What an error points at: the schema whose rule is being written.
    """

    def __init__(self, context: Normalizer, whitespace: str, root: str):
        self.context = context
        self.grammar = Grammar()
        self.root = self.grammar.fresh(root)
        self.gap = EMPTY
        if whitespace == "bounded":
            blank: Expr = chars(((9, 9), (32, 32)))
            spaces = alt(lit(" "), seq(lit("\n"), repeat(blank, 0, _INDENT)))
            self.gap = self.grammar.shared("ws", "ws", lambda: repeat(spaces, 0, 1))
        space = lit(" ") if whitespace == "spaced" else self.gap
        self.colon = seq(lit(":"), space)
        self.comma = seq(lit(","), space)
        self._rules: dict[Conjunction, str] = {}
        self._waiting: list[Conjunction] = []
        self.blamed: Any = None

    def write(self, literals: Conjunction) -> str:
        """The text of the grammar of a type.

        Raises:
            JsonSchemaError: Something cannot be enforced, or no value is valid.
        """
        literals = self.context.simplified(literals)
        self._rules[literals] = self.root
        self._waiting.append(literals)
        while self._waiting:
            literals = self._waiting.pop()
            self.blamed = blamed(literals)
            body = self._union(literals)
            self.grammar.define(self._rules[literals], body)
            if len(self.grammar.rules) > RULES:
                raise self.blamed.error(f"the grammar takes more than {RULES} rules")
        if not self.grammar.prune(self.root):
            raise JsonSchemaError("#", "no value is valid")
        return self.grammar.text()

    def value(self, literals: Conjunction, hint: str) -> Expr:
        """A value of a type; `hint` is what its rule may be called."""
        literals = self.context.simplified(literals)
        if literals not in self._rules:
            self._rules[literals] = self.grammar.fresh(hint if literals else "value")
            self._waiting.append(literals)
        return ref(self._rules[literals])

    @property
    def hint(self) -> str:
        """A name for rules beside the one being written."""
        return (
            self.blamed.path[-1] if isinstance(self.blamed, Node) and self.blamed.path else "part"
        )

    def _union(self, literals: Conjunction) -> Expr:
        parts = []
        for kind in _KINDS:
            shapes = self.context.conjunction(literals, kind)
            full = self.context.full(kind)
            if full in shapes:
                parts.append(self._full(kind))
                continue
            if kind == "string":
                listed = [v for s in shapes if s.values is not None for v in s.values]
                shapes = [s for s in shapes if s.values is None]
                parts.append(values_expr(listed))
            parts += [self._shape(shape, kind) for shape in shapes]
        return alt(*(part for part in parts if part != NEVER))

    def _full(self, kind: str) -> Expr:
        return self.grammar.shared(
            ("full", kind), kind, lambda: self._shape(self.context.full(kind), kind)
        )

    def _shape(self, shape: Any, kind: str) -> Expr:
        try:
            return self._written(shape, kind)
        except TooLarge:
            keyword = {"number": "multipleOf", "object": "patternProperties"}.get(kind, "pattern")
            raise self.blamed.error("it takes an automaton of too many states", keyword) from None

    def _written(self, shape: Any, kind: str) -> Expr:
        if kind == "object":
            return object_expr(self, shape)
        if kind == "array":
            return array_expr(self, shape)
        if kind == "string":
            return string_expr(self.grammar, shape)
        if kind == "number":
            return number_expr(self.grammar, shape)
        words = {None: "null", False: "false", True: "true"}
        return alt(*(lit(words[value]) for value in shape.values))


def blamed(literals: Conjunction) -> Any:
    """What an error about a type points at."""
    return next((target for target, _ in literals if isinstance(target, Node)), _Nowhere())


class _Nowhere:
    def error(self, message: str, keyword: str | None = None) -> JsonSchemaError:
        return JsonSchemaError("#", message, keyword)
