"""properties, patternProperties, additionalProperties, required, the counts, propertyNames and
unevaluatedProperties."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mlx_sampling.json_schema.document import Node
from mlx_sampling.json_schema.regex import RegexError
from mlx_sampling.json_schema.strings import Language

if TYPE_CHECKING:
    from mlx_sampling.json_schema.normal import Conjunction, Literal, Normalizer

__all__ = ["NamePattern", "ObjectShape", "Rules"]

NamePattern = tuple[tuple[Language, bool], ...]


class Rules(NamedTuple):
    """What one schema says of an object's properties.

    Attributes:
        named: Types by name.
        patterns: Types of the names that match.
        others: The type of all other names; None: any.
        evaluates: Whether these names count as looked at for `unevaluatedProperties`.
    """

    named: tuple[tuple[str, Conjunction], ...] = ()
    patterns: tuple[tuple[NamePattern, Conjunction], ...] = ()
    others: Conjunction | None = None
    evaluates: bool = True


class ObjectShape(NamedTuple):
    """Objects by the types of their properties.

    Attributes:
        rules: All of them hold.
        required: Names that are there, in declared order.
        low: Least number of properties.
        high: Greatest number of properties.
        names: Types of the names.
    """

    rules: tuple[Rules, ...] = ()
    required: tuple[str, ...] = ()
    low: int = 0
    high: int | None = None
    names: Conjunction = ()

    def meet(self, other: ObjectShape) -> ObjectShape | None:
        highs = [h for h in (self.high, other.high) if h is not None]
        required = tuple(dict.fromkeys(self.required + other.required))
        low, high = max(self.low, other.low), min(highs) if highs else None
        if high is not None and high < max(low, len(required)):
            return None
        return ObjectShape(
            tuple(dict.fromkeys(self.rules + other.rules)),
            required,
            low,
            high,
            tuple(dict.fromkeys(self.names + other.names)),
        )

    def declared(self) -> list[str]:
        """Names that are spoken of, in the order of their first mention; required ones come in it too."""
        found = {name: None for rules in self.rules for name, _ in rules.named}
        return list(found | dict.fromkeys(self.required))

    def value_of(self, name: str) -> Conjunction:
        """The type of a property, by everything that is said of its name."""
        return self.lookup()(name)

    def lookup(self) -> Callable[[str], Conjunction]:
        """`value_of`, for many names."""
        tables = [(dict(rules.named), rules) for rules in self.rules]

        def value_of(name: str) -> Conjunction:
            found: dict[Literal, None] = {}
            for named, rules in tables:
                own = [named[name]] if name in named else []
                sure = bool(own) or any(matches(pattern, name) for pattern, _ in rules.patterns)
                own += [item for pattern, item in rules.patterns if not fails(pattern, name)]
                if not sure and rules.others is not None:
                    own.append(rules.others)
                for item in own:
                    found.update(dict.fromkeys(item))
            return tuple(found)

        return value_of


def matches(pattern: NamePattern, name: str) -> bool:
    return all(language.holds(name, positive) for language, positive in pattern)


def fails(pattern: NamePattern, name: str) -> bool:
    """Not simply the opposite of `matches`: validators may differ about a name."""
    return any(language.holds(name, not positive) for language, positive in pattern)


def _patterns(context: Normalizer, node: Node) -> list[tuple[NamePattern, Node]]:
    found = []
    for expression, child in node.named("patternProperties").items():
        try:
            found.append((context.languages(expression), child))
        except RegexError as error:
            context.unsupported(node, "patternProperties", f"patternProperties: {error}")
    return found


def properties(context: Normalizer, node: Node, kind: str) -> list:
    """properties, patternProperties and additionalProperties."""
    if kind != "object":
        return [context.full(kind)]
    named = tuple((name, ((child, True),)) for name, child in node.named("properties").items())
    patterns = tuple((pattern, ((child, True),)) for pattern, child in _patterns(context, node))
    others = (
        ((node.child("additionalProperties"), True),) if node.has("additionalProperties") else None
    )
    return [ObjectShape((Rules(named, patterns, others),))]


def not_properties(context: Normalizer, node: Node, kind: str) -> list:
    if kind != "object":
        return []
    shapes = [
        ObjectShape((Rules(((name, ((child, False),)),), evaluates=False),), (name,))
        for name, child in node.named("properties").items()
    ]
    for keyword, children in (
        ("patternProperties", list(node.named("patternProperties").values())),
        (
            "additionalProperties",
            [node.child("additionalProperties")] if node.has("additionalProperties") else [],
        ),
    ):
        if not all(context.is_any(child) for child in children):
            context.unsupported(
                node,
                keyword,
                f"{keyword} where it must not hold, which takes a property of any name",
            )
    return shapes


def required(context: Normalizer, node: Node, kind: str) -> list:
    return [
        ObjectShape(required=tuple(node.get("required")))
        if kind == "object"
        else context.full(kind)
    ]


def not_required(context: Normalizer, node: Node, kind: str) -> list:
    return [absent(context, name) for name in node.get("required")] if kind == "object" else []


def absent(context: Normalizer, name: str) -> ObjectShape:
    """Objects without a property."""
    return ObjectShape((Rules(((name, context.never()),), evaluates=False),))


def size(context: Normalizer, node: Node, kind: str) -> list:
    """minProperties and maxProperties."""
    if kind != "object":
        return [context.full(kind)]
    low, high = int(node.get("minProperties") or 0), node.get("maxProperties")
    if high is not None and high < low:
        return []
    return [ObjectShape(low=low, high=None if high is None else int(high))]


def not_size(context: Normalizer, node: Node, kind: str) -> list:
    if kind != "object":
        return []
    shapes = []
    if node.get("minProperties"):
        shapes.append(ObjectShape(high=int(node.get("minProperties")) - 1))
    if node.has("maxProperties"):
        shapes.append(ObjectShape(low=int(node.get("maxProperties")) + 1))
    return shapes


def names(context: Normalizer, node: Node, kind: str) -> list:
    """propertyNames."""
    item: Conjunction = ((node.child("propertyNames"), True),)
    return [ObjectShape(names=item) if kind == "object" else context.full(kind)]


def not_names(context: Normalizer, node: Node, kind: str) -> list:
    if kind == "object" and not context.is_any(node.child("propertyNames")):
        context.unsupported(node, "propertyNames", "propertyNames where it must not hold")
    return []


def dependent_required(context: Normalizer, node: Node, kind: str) -> list:
    """dependentRequired, and the lists among the older dependencies."""
    shapes = [context.full(kind)]
    if kind == "object":
        for name, needed in _needed(node):
            choices = [absent(context, name), ObjectShape(required=(name, *needed))]
            shapes = context.meet(node, shapes, choices)
    return shapes


def not_dependent_required(context: Normalizer, node: Node, kind: str) -> list:
    if kind != "object":
        return []
    return [
        absent(context, missing)._replace(required=(name,))
        for name, needed in _needed(node)
        for missing in needed
        if missing != name
    ]


def _needed(node: Node) -> list[tuple[str, list[str]]]:
    both = [
        *(node.get("dependentRequired") or {}).items(),
        *(node.get("dependencies") or {}).items(),
    ]
    return [(name, list(needed)) for name, needed in both if isinstance(needed, (list, tuple))]


def _dependents(node: Node) -> list[tuple[str, Node]]:
    found = list(node.named("dependentSchemas").items())
    older = node.get("dependencies") or {}
    return found + [
        (name, node.child("dependencies", name))
        for name in older
        if isinstance(older[name], (dict, bool))
    ]


def dependent_schemas(context: Normalizer, node: Node, kind: str) -> list:
    """dependentSchemas, and the schemas among the older dependencies."""
    shapes = [context.full(kind)]
    if kind == "object":
        for name, child in _dependents(node):
            present = context.meet(
                node, [ObjectShape(required=(name,))], context.shapes((child, True), kind)
            )
            shapes = context.meet(node, shapes, [absent(context, name), *present])
    return shapes


def not_dependent_schemas(context: Normalizer, node: Node, kind: str) -> list:
    if kind != "object":
        return []
    found = []
    for name, child in _dependents(node):
        found += context.meet(
            node, [ObjectShape(required=(name,))], context.shapes((child, False), kind)
        )
    return found


def unevaluated(context: Normalizer, node: Node, shape: ObjectShape) -> ObjectShape:
    """The shape with what `unevaluatedProperties` demands of the names that nothing else looked at."""
    looked = [rules for rules in shape.rules if rules.evaluates]
    if any(rules.others is not None for rules in looked):
        return shape
    known = dict.fromkeys(name for rules in looked for name, _ in rules.named)
    rules = Rules(
        tuple((name, ()) for name in known),
        tuple((pattern, ()) for rules in looked for pattern, _ in rules.patterns),
        ((node.child("unevaluatedProperties"), True),),
    )
    return shape._replace(rules=(*shape.rules, rules))
