"""type, enum, const, $ref, allOf, anyOf, oneOf, not and if: what puts whole schemas together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlx_sampling.errors import JsonSchemaError
from mlx_sampling.json_schema.arrays import ArrayShape
from mlx_sampling.json_schema.document import Node
from mlx_sampling.json_schema.emptiness import tagged
from mlx_sampling.json_schema.keywords import as_fraction
from mlx_sampling.json_schema.numbers import NumberShape
from mlx_sampling.json_schema.objects import ObjectShape, Rules, absent
from mlx_sampling.json_schema.simple import SimpleShape
from mlx_sampling.json_schema.strings import StringShape
from mlx_sampling.json_schema.values import is_text, type_of, value_key

if TYPE_CHECKING:
    from mlx_sampling.json_schema.normal import Conjunction, Normalizer

__all__ = ["constant_shapes", "not_constant_shapes"]


def type_(context: Normalizer, node: Node, kind: str) -> list:
    names = node.get("type")
    names = [names] if isinstance(names, str) else names
    if kind in names:
        return [context.full(kind)]
    return [NumberShape(whole=True)] if kind == "number" and "integer" in names else []


def not_type(context: Normalizer, node: Node, kind: str) -> list:
    names = node.get("type")
    names = [names] if isinstance(names, str) else names
    if kind in names:
        return []
    return (
        [NumberShape(whole=False)]
        if kind == "number" and "integer" in names
        else [context.full(kind)]
    )


def constant_shapes(context: Normalizer, value: Any, kind: str) -> list:
    """Exactly one value."""
    if type_of(value) != kind:
        return []
    if kind == "number":
        number = as_fraction(value)
        return [NumberShape(values=(number,))] if number is not None else []
    if kind == "string":
        return [StringShape(values=(value,))]
    if kind == "array":
        items = tuple(((context.constant(v), True),) for v in value)
        return [ArrayShape(items, low=len(items), high=len(items))]
    if kind == "object":
        named = tuple((k, ((context.constant(v), True),)) for k, v in value.items())
        return [ObjectShape((Rules(named, others=context.never(), evaluates=False),), tuple(value))]
    return [SimpleShape((value,))]


def not_constant_shapes(context: Normalizer, value: Any, kind: str) -> list:
    """Every value but one."""
    if type_of(value) != kind:
        return [context.full(kind)]
    if kind == "number":
        number = as_fraction(value)
        return [NumberShape(excluded=frozenset() if number is None else frozenset({number}))]
    if kind == "string":
        return [StringShape(excluded=frozenset({value}))]
    if kind == "array":
        return _not_array(context, value)
    if kind == "object":
        return _not_object(context, value)
    return [SimpleShape(tuple(v for v in context.full(kind).values if v is not value))]


def _not_array(context: Normalizer, value: Any) -> list:
    size = len(value)
    shapes = [ArrayShape(low=size + 1)] + ([ArrayShape(high=size - 1)] if size else [])
    for i, item in enumerate(value):
        prefix: tuple[Conjunction, ...] = (*[()] * i, ((context.constant(item), False),))
        shapes.append(ArrayShape(prefix, low=size, high=size))
    return shapes


def _not_object(context: Normalizer, value: Any) -> list:
    shapes = [ObjectShape(required=tuple(value), low=len(value) + 1)]
    for name, item in value.items():
        wrong = Rules(((name, ((context.constant(item), False),)),), evaluates=False)
        shapes += [absent(context, name), ObjectShape((wrong,), (name,))]
    return shapes


def _checked(node: Node, keyword: str, values: Any) -> list:
    """The values of enum or const, each once.

    Raises:
        JsonSchemaError: One is not a JSON value, or holds a surrogate, which UTF-8 cannot.
    """
    found = {}
    for value in values:
        try:
            found[value_key(value)] = value
        except ValueError as error:
            raise node.error(f"{keyword}: {error}") from error
        if not _writable(value):
            raise node.error(f"{keyword}: a surrogate cannot be written in UTF-8", keyword)
    return list(found.values())


def _writable(value: Any) -> bool:
    if isinstance(value, str):
        return is_text(value)
    if isinstance(value, dict):
        return all(is_text(k) and _writable(v) for k, v in value.items())
    return not isinstance(value, (list, tuple)) or all(map(_writable, value))


def enum(context: Normalizer, node: Node, kind: str) -> list:
    values = _checked(node, "enum", node.get("enum"))
    shapes = [s for v in values for s in constant_shapes(context, v, kind)]
    if kind in ("array", "object") or not shapes:
        return shapes
    together = tuple(v for s in shapes for v in s.values)
    return [shapes[0]._replace(values=together)]


def not_enum(context: Normalizer, node: Node, kind: str) -> list:
    shapes = [context.full(kind)]
    for value in _checked(node, "enum", node.get("enum")):
        shapes = context.meet(node, shapes, not_constant_shapes(context, value, kind))
    return shapes


def const(context: Normalizer, node: Node, kind: str) -> list:
    (value,) = _checked(node, "const", [node.get("const")])
    return constant_shapes(context, value, kind)


def not_const(context: Normalizer, node: Node, kind: str) -> list:
    (value,) = _checked(node, "const", [node.get("const")])
    return not_constant_shapes(context, value, kind)


def _reference(keyword: str, positive: bool) -> Any:
    def shapes(context: Normalizer, node: Node, kind: str) -> list:
        return context.shapes((node.document.resolve(node, keyword), positive), kind)

    return shapes


ref, not_ref = _reference("$ref", True), _reference("$ref", False)
dynamic_ref, not_dynamic_ref = _reference("$dynamicRef", True), _reference("$dynamicRef", False)


def all_of(context: Normalizer, node: Node, kind: str) -> list:
    shapes = [context.full(kind)]
    for child in node.children("allOf"):
        shapes = context.meet(node, shapes, context.shapes((child, True), kind)) if shapes else []
    return shapes


def not_all_of(context: Normalizer, node: Node, kind: str) -> list:
    return [s for child in node.children("allOf") for s in context.shapes((child, False), kind)]


def any_of(context: Normalizer, node: Node, kind: str) -> list:
    branches = [context.shapes((child, True), kind) for child in node.children("anyOf")]
    found = [s for shapes in branches for s in shapes]
    if node.document.unevaluated and kind in ("array", "object"):
        # where several branches hold, all of them have looked at items and properties
        together = branches[0]
        for i, shapes in enumerate(branches[1:], 1):
            found += [s for earlier in branches[:i] for s in context.meet(node, earlier, shapes)]
            together = context.meet(node, together, shapes)
        found += together
    return found


def not_any_of(context: Normalizer, node: Node, kind: str) -> list:
    shapes = [context.full(kind)]
    for child in node.children("anyOf"):
        shapes = context.meet(node, shapes, context.shapes((child, False), kind)) if shapes else []
    return shapes


def one_of(context: Normalizer, node: Node, kind: str) -> list:
    """Exactly one branch: each without what other branches take as well."""
    children = node.children("oneOf")
    branches = [context.shapes((child, True), kind) for child in children]
    if tagged(context, [s for shapes in branches for s in shapes]):
        return [s for shapes in branches for s in shapes]
    found = []
    for i, shapes in enumerate(branches):
        for shape in shapes:
            rest = [shape]
            for j, child in enumerate(children):
                if j != i and rest:
                    rest = _without(context, node, rest, branches[j], child, kind, (i, j))
            found += rest
    return found


def _without(
    context: Normalizer,
    node: Node,
    shapes: list,
    branch: list,
    child: Node,
    kind: str,
    pair: tuple[int, int],
) -> list:
    found = []
    for shape in shapes:
        if all(context.is_empty_meet(node, shape, other) for other in branch):
            found.append(shape)
            continue
        try:
            others = context.shapes((child, False), kind)
        except JsonSchemaError as error:
            context.unsupported(
                node,
                "oneOf",
                f"oneOf: branches {pair[0]} and {pair[1]} may both match ({error})",
            )
            found.append(shape)
            continue
        found += context.meet(node, [shape], others)
    return found


def not_one_of(context: Normalizer, node: Node, kind: str) -> list:
    """No branch, or two of them."""
    children = node.children("oneOf")
    found = not_branches(context, node, children, kind)
    for i, first in enumerate(children):
        for second in children[i + 1 :]:
            both = context.shapes((first, True), kind), context.shapes((second, True), kind)
            found += context.meet(node, *both)
    return found


def not_branches(context: Normalizer, node: Node, children: list[Node], kind: str) -> list:
    shapes = [context.full(kind)]
    for child in children:
        shapes = context.meet(node, shapes, context.shapes((child, False), kind)) if shapes else []
    return shapes


def not_(context: Normalizer, node: Node, kind: str) -> list:
    return context.shapes((node.child("not"), False), kind)


def not_not(context: Normalizer, node: Node, kind: str) -> list:
    return context.shapes((node.child("not"), True), kind)


def _branch(context: Normalizer, node: Node, keyword: str, positive: bool, kind: str) -> list:
    if not node.has(keyword):
        return [context.full(kind)] if positive else []
    return context.shapes((node.child(keyword), positive), kind)


def if_(context: Normalizer, node: Node, kind: str) -> list:
    """if, then and else."""
    condition = node.child("if")
    if not node.has("then") and not node.has("else"):
        looked = context.shapes((condition, True), kind) if node.document.unevaluated else []
        return [context.full(kind), *looked]
    then = context.meet(
        node, context.shapes((condition, True), kind), _branch(context, node, "then", True, kind)
    )
    otherwise = context.meet(
        node, context.shapes((condition, False), kind), _branch(context, node, "else", True, kind)
    )
    return then + otherwise


def not_if(context: Normalizer, node: Node, kind: str) -> list:
    found = []
    for keyword, positive in (("then", True), ("else", False)):
        if node.has(keyword):
            condition = context.shapes((node.child("if"), positive), kind)
            found += context.meet(node, condition, _branch(context, node, keyword, False, kind))
    return found
