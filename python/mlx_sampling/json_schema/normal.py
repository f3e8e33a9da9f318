"""Schemas as unions of shapes: per JSON type, a list of which one must hold.

A shape is one type's constraints with nothing left to combine; types of items and properties stay
conjunctions of schemas, taken up when they are reached, so that recursive schemas end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mlx_sampling.errors import JsonSchemaError
from mlx_sampling.json_schema import applicators, arrays, numbers, objects, strings
from mlx_sampling.json_schema.arrays import ArrayShape
from mlx_sampling.json_schema.automaton import TooLarge
from mlx_sampling.json_schema.document import Node
from mlx_sampling.json_schema.emptiness import is_empty
from mlx_sampling.json_schema.keywords import ANNOTATIONS
from mlx_sampling.json_schema.numbers import NumberShape
from mlx_sampling.json_schema.objects import NamePattern, ObjectShape
from mlx_sampling.json_schema.simple import SimpleShape
from mlx_sampling.json_schema.strings import StringShape
from mlx_sampling.json_schema.values import value_key

__all__ = ["FAMILIES", "Conjunction", "Constant", "Literal", "Normalizer", "Union"]

SHAPES = 2000  # in one union
DEPTH = 60  # of schemas within a schema that hold for the same value
STEPS = 100_000  # of combining unions, in a document


class Constant:
    """A schema that takes one value."""

    def __init__(self, value: Any):
        self.value = value


class Union:
    """A schema that takes what any of these take."""

    def __init__(self, branches: tuple[Conjunction, ...]):
        self.branches = branches


Literal = tuple[Any, bool]  # Node, Constant or Union; whether it must hold, or must not
Conjunction = tuple[Literal, ...]
Handler = Callable[["Normalizer", Node, str], list]


class Family(NamedTuple):
    """Keywords that are read together: the shapes where they hold, and where they do not."""

    keywords: tuple[str, ...]
    holds: Handler
    fails: Handler


FAMILIES: list[Family] = [
    Family(("type",), applicators.type_, applicators.not_type),
    Family(("enum",), applicators.enum, applicators.not_enum),
    Family(("const",), applicators.const, applicators.not_const),
    Family(("minimum",), numbers.minimum, numbers.not_minimum),
    Family(("exclusiveMinimum",), numbers.exclusive_minimum, numbers.not_exclusive_minimum),
    Family(("maximum",), numbers.maximum, numbers.not_maximum),
    Family(("exclusiveMaximum",), numbers.exclusive_maximum, numbers.not_exclusive_maximum),
    Family(("multipleOf",), numbers.multiple_of, numbers.not_multiple_of),
    Family(("minLength", "maxLength"), strings.length, strings.not_length),
    Family(("pattern",), strings.pattern, strings.not_pattern),
    Family(("format",), strings.format_, strings.not_format),
    Family(("prefixItems", "items"), arrays.items, arrays.not_items),
    Family(("minItems", "maxItems"), arrays.length, arrays.not_length),
    Family(("contains",), arrays.contains, arrays.not_contains),
    Family(("uniqueItems",), arrays.unique, arrays.not_unique),
    Family(
        ("properties", "patternProperties", "additionalProperties"),
        objects.properties,
        objects.not_properties,
    ),
    Family(("required",), objects.required, objects.not_required),
    Family(("minProperties", "maxProperties"), objects.size, objects.not_size),
    Family(("propertyNames",), objects.names, objects.not_names),
    Family(("$ref",), applicators.ref, applicators.not_ref),
    Family(("$dynamicRef",), applicators.dynamic_ref, applicators.not_dynamic_ref),
    Family(("allOf",), applicators.all_of, applicators.not_all_of),
    Family(("anyOf",), applicators.any_of, applicators.not_any_of),
    Family(("oneOf",), applicators.one_of, applicators.not_one_of),
    Family(("if",), applicators.if_, applicators.not_if),
    Family(("not",), applicators.not_, applicators.not_not),
    Family(
        ("dependentRequired", "dependencies"),
        objects.dependent_required,
        objects.not_dependent_required,
    ),
    Family(
        ("dependentSchemas", "dependencies"),
        objects.dependent_schemas,
        objects.not_dependent_schemas,
    ),
]
_UNEVALUATED = {"array": ("unevaluatedItems", arrays), "object": ("unevaluatedProperties", objects)}

_FULL = {
    "null": SimpleShape((None,)),
    "boolean": SimpleShape((True, False)),
    "number": NumberShape(),
    "string": StringShape(),
    "array": ArrayShape(),
    "object": ObjectShape(),
}


class Normalizer:
    """Gives the shapes of schemas, remembered per schema, polarity and type."""

    def __init__(self, allowed: frozenset[str]):
        self.allowed = allowed
        self._shapes: dict[tuple[Literal, str], list] = {}
        self._open: set[tuple[Literal, str]] = set()
        self._constants: dict[Any, Constant] = {}
        self._unions: dict[tuple[Conjunction, ...], Union] = {}
        self._languages: dict[str, NamePattern] = {}
        self._never: Conjunction = ((Union(()), True),)
        self._empty: dict[Conjunction, bool] = {}
        self._families: dict[Node, list[Family]] = {}
        self._steps = 0

    # -- what handlers make shapes of ---------------------------------------------------------------

    def full(self, kind: str) -> Any:
        """The shape of every value of a type."""
        return _FULL[kind]

    def never(self) -> Conjunction:
        """A type that nothing is of."""
        return self._never

    def languages(self, expression: str) -> NamePattern:
        """What an expression demands of a string.

        Raises:
            RegexError: The expression is not one, or not of the supported kind.
        """
        if expression not in self._languages:
            self._languages[expression] = strings.languages_of(expression)
        return self._languages[expression]

    def constant(self, value: Any) -> Constant:
        return self._constants.setdefault(value_key(value), Constant(value))

    def any_of(self, branches: tuple[Conjunction, ...]) -> Conjunction:
        return ((self._unions.setdefault(branches, Union(branches)), True),)

    def unsupported(self, node: Node, keyword: str, message: str) -> None:
        """Refuses what cannot be enforced, unless the caller accepts to lose the keyword."""
        if keyword not in self.allowed:
            raise node.error(f"{message}; it cannot be enforced", keyword)

    def meet(self, node: Node, left: list, right: list) -> list:
        """The shapes of what is in both unions.

        Raises:
            JsonSchemaError: There are too many.
        """
        found: dict[Any, None] = {}
        steps = len(left) * len(right) * max((_weight(shape) for shape in left), default=1)
        if steps > 1:
            self._count(node, steps)
        for a in left:
            for b in right:
                both = a.meet(b)
                if both is not None:
                    found[both] = None
            if len(found) > SHAPES:
                raise node.error(f"its alternatives combine to more than {SHAPES} cases")
        return list(found)

    def _count(self, node: Node, steps: int) -> None:
        self._steps += steps
        if self._steps > STEPS:
            raise node.error(f"its alternatives take more than {STEPS} steps to combine")

    # -- the shapes of schemas ----------------------------------------------------------------------

    def conjunction(self, literals: Conjunction, kind: str) -> list:
        """The shapes of one type that every schema of a conjunction takes."""
        shapes = [self.full(kind)]
        for literal in literals:
            found = self.shapes(literal, kind)
            shapes = self.meet(_node_of(literal, literals), shapes, found) if shapes else []
        return shapes

    def shapes(self, literal: Literal, kind: str) -> list:
        """The shapes of one type that a schema takes, or does not take.

        Raises:
            JsonSchemaError: It cannot be told, or the schema is its own part.
        """
        key = (literal, kind)
        if key in self._shapes:
            return self._shapes[key]
        target, positive = literal
        if key in self._open:
            raise target.error("the schema refers to itself without anything between")
        if len(self._open) > DEPTH:
            raise target.error(f"more than {DEPTH} schemas nest that hold for the same value")
        if isinstance(target, Constant):
            make = applicators.constant_shapes if positive else applicators.not_constant_shapes
            return make(self, target.value, kind)
        if isinstance(target, Union):
            return [s for branch in target.branches for s in self.conjunction(branch, kind)]
        self._open.add(key)
        try:
            found = self._node_shapes(target, positive, kind)
        except TooLarge:
            keyword = "multipleOf" if kind == "number" else "pattern"
            raise target.error("it takes an automaton of too many states", keyword) from None
        finally:
            self._open.discard(key)
        self._shapes[key] = found
        return found

    def _node_shapes(self, node: Node, positive: bool, kind: str) -> list:
        node.check()
        if isinstance(node.schema, bool):
            return [self.full(kind)] if node.schema == positive else []
        found = (
            self._holds(node, kind) if positive else list(map(_unlooked, self._fails(node, kind)))
        )
        if len(found) > SHAPES:
            raise node.error(f"its alternatives combine to more than {SHAPES} cases")
        return found

    def _families_of(self, node: Node) -> list[Family]:
        if node not in self._families:
            self._families[node] = families_of(node)
        return self._families[node]

    def _holds(self, node: Node, kind: str) -> list:
        shapes = [self.full(kind)]
        for family in self._families_of(node):
            shapes = self.meet(node, shapes, family.holds(self, node, kind))
            if not shapes:
                return []
        keyword, module = _UNEVALUATED.get(kind, ("", None))
        if module is not None and node.has(keyword):
            shapes = [module.unevaluated(self, node, shape) for shape in shapes]
        return shapes

    def _fails(self, node: Node, kind: str) -> list:
        families = self._families_of(node)
        if (
            families
            and families[0].keywords == ("type",)
            and not families[0].holds(self, node, kind)
        ):
            return [self.full(kind)]
        found = dict.fromkeys(s for family in families for s in family.fails(self, node, kind))
        keyword, module = _UNEVALUATED.get(kind, ("", None))
        if module is not None and node.has(keyword) and not self.is_any(node.child(keyword)):
            self.unsupported(node, keyword, f"{keyword} where it must not hold")
        return list(found)

    def simplified(self, literals: Conjunction) -> Conjunction:
        """The same type, without schemas that say nothing or only name another."""
        found: dict[Literal, None] = {}
        for target, positive in literals:
            for _ in range(DEPTH):
                if not isinstance(target, Node) or not isinstance(target.schema, dict):
                    break
                if target.schema.keys() - ANNOTATIONS != {"$ref"}:
                    break
                target.check()
                target = target.document.resolve(target, "$ref")
            if positive and isinstance(target, Node) and _says_nothing(target.schema):
                continue
            found[target, positive] = None
        return tuple(found)

    # -- what is known to be empty ------------------------------------------------------------------

    def is_any(self, node: Node) -> bool:
        """Whether a schema is plainly one that takes everything."""
        return _says_nothing(node.schema)

    def is_empty_meet(self, node: Node, left: Any, right: Any) -> bool:
        """Whether it is known that nothing is of both shapes."""
        self._count(node, 10)
        both = left.meet(right)
        return both is None or is_empty(self, both, 6)

    def is_empty(self, literals: Conjunction, depth: int) -> bool:
        """Whether it is known that nothing is of a type. Looks `depth` levels deep."""
        if literals in self._empty:
            return self._empty[literals]
        if depth == 0 or not literals:
            return False
        self._empty[literals] = False  # while it is looked at
        try:
            empty = all(
                is_empty(self, shape, depth - 1)
                for kind in _FULL
                for shape in self.conjunction(literals, kind)
            )
        except JsonSchemaError:  # raised again where the type is written
            empty = False
        del self._empty[literals]
        if empty or depth == 6:
            self._empty[literals] = empty
        return empty


def families_of(node: Node) -> list[Family]:
    """Those of a schema: the values first, then in the order in which they stand there."""
    order = {keyword: i for i, keyword in enumerate(node.schema)}
    present = [f for f in FAMILIES if any(k in order for k in f.keywords)]
    first = [f for f in present if f.keywords[0] in ("type", "enum", "const")]
    rest = [f for f in present if f not in first]
    return first + sorted(rest, key=lambda f: min(order[k] for k in f.keywords if k in order))


def _weight(shape: Any) -> int:
    """What it takes to combine a shape, in steps."""
    return (
        1 + (len(shape.rules) + len(shape.required)) // 8 if isinstance(shape, ObjectShape) else 1
    )


def _says_nothing(schema: Any) -> bool:
    return schema is True or (isinstance(schema, dict) and not schema.keys() - ANNOTATIONS)


def _unlooked(shape: Any) -> Any:
    """The shape with nothing looked at: what failed, or stood under `not`, leaves no annotations."""
    if isinstance(shape, ObjectShape):
        return shape._replace(rules=tuple(r._replace(evaluates=False) for r in shape.rules))
    return shape._replace(evaluated=0, seen=()) if isinstance(shape, ArrayShape) else shape


def _node_of(literal: Literal, literals: Conjunction) -> Any:
    """A node to blame."""
    return next((t for t, _ in (literal, *literals) if isinstance(t, Node)), _Nowhere())


class _Nowhere:
    def error(self, message: str, keyword: str | None = None) -> JsonSchemaError:
        return JsonSchemaError("#", message, keyword)
