"""A schema document: its nodes, and what `$ref`, `$anchor` and `$id` name in it.

Nothing outside the document is ever loaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urljoin

from mlx_sampling.errors import JsonSchemaError
from mlx_sampling.json_schema.keywords import (
    ANNOTATIONS,
    CHECKS,
    LISTS,
    MAPS,
    SINGLES,
    hint_for,
    kind_of,
    shown,
)

__all__ = ["Document", "Node", "read_schema"]

_NODES = 100_000
_DEPTH = 500
_DRAFTS = "json-schema.org/draft"


class Node:
    """A schema in the document. One object per place: nodes compare by identity."""

    __slots__ = ("_checked", "_children", "document", "parent", "path", "resource", "schema", "uri")

    def __init__(self, document: Document, schema: Any, parent: Node | None, path: tuple[str, ...]):
        self.document = document
        self.parent = parent
        self.path = path
        self.schema = document.kept(self, schema) if document.dropped else schema
        self.resource: Node = self if parent is None else parent.resource
        self.uri: str = "" if parent is None else parent.uri
        self._children: dict[tuple[str, ...], Node] = {}
        self._checked = False
        if isinstance(schema, dict) and isinstance(schema.get("$id"), str):
            identifier = schema["$id"].partition("#")[0]
            if identifier:
                self.uri = urljoin(self.uri, identifier)
                self.resource = self

    @property
    def pointer(self) -> str:
        tokens: list[str] = []
        node: Node | None = self
        while node is not None:
            tokens[:0] = node.path
            node = node.parent
        return "#" + "".join("/" + t.replace("~", "~0").replace("/", "~1") for t in tokens)

    def error(self, message: str, keyword: str | None = None) -> JsonSchemaError:
        return JsonSchemaError(self.pointer, message, keyword)

    def get(self, keyword: str) -> Any:
        """The keyword's value; None when it is absent."""
        return self.schema.get(keyword) if isinstance(self.schema, dict) else None

    def has(self, keyword: str) -> bool:
        return isinstance(self.schema, dict) and keyword in self.schema

    def child(self, *path: str) -> Node:
        """The schema at a path below this one."""
        if path not in self._children:
            value = self.schema
            for token in path:
                value = self._step(value, token, path)
            if not isinstance(value, (dict, bool)):
                raise self.error(
                    f"Expected a schema (an object or a boolean) at {'/'.join(path)}, got {kind_of(value)}."
                )
            self._children[path] = Node(self.document, value, self, path)
        return self._children[path]

    def _step(self, value: Any, token: str, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict) and token in value:
            return value[token]
        if isinstance(value, (list, tuple)) and token.isascii() and token.isdigit():
            index = int(token[:9])
            if index < len(value) and str(index) == token:
                return value[index]
        raise self.error(f"nothing is at {'/'.join(path)[:200]}")

    def children(self, keyword: str) -> list[Node]:
        """The schemas of a keyword that holds a list of them."""
        return [self.child(keyword, str(i)) for i in range(len(self.get(keyword) or ()))]

    def named(self, keyword: str) -> dict[str, Node]:
        """The schemas of a keyword that holds them by name."""
        return {name: self.child(keyword, name) for name in self.get(keyword) or {}}

    def check(self) -> None:
        """Refuses unknown keywords, and values that keywords cannot have."""
        if self._checked or not isinstance(self.schema, dict):
            return
        for keyword, value in self.schema.items():
            if keyword in CHECKS:
                valid, expected = CHECKS[keyword]
                if not valid(value):
                    got = shown(value)
                    hint = hint_for(keyword, value)
                    raise self.error(f'Expected "{keyword}" to be {expected}, got {got}.{hint}')
            elif not (
                keyword in ANNOTATIONS
                or keyword in self.document.allowed
                or str(keyword).startswith("x-")
            ):
                name = str(keyword)
                raise self.error(
                    f"{name[:60]!r} is no keyword of Draft 2020-12{hint_for(name)}", name
                )
        self._checked = True


class Document:
    """The root node, and every node that has a name of its own."""

    def __init__(
        self,
        schema: Any,
        allowed: frozenset[str],
        dropped: frozenset[tuple[str, str]] = frozenset(),
    ):
        self.allowed = allowed
        self.dropped = dropped  # (pointer, or empty for everywhere; keyword)
        self.unevaluated = False
        self.root = Node(self, schema, None, ())
        if not isinstance(schema, (dict, bool)):
            raise self.root.error(
                f"Expected a schema (an object or a boolean), got {kind_of(schema)}."
            )
        self._resources: dict[str, Node] = {"": self.root}
        self._anchors: dict[tuple[str, str], Node] = {}
        self._dynamic: dict[str, list[Node]] = {}
        self._register()

    def kept(self, node: Node, schema: Any) -> Any:
        """A schema without the keywords that were given up."""
        if not isinstance(schema, dict):
            return schema
        lost = {keyword for place, keyword in self.dropped if place in ("", node.pointer)}
        return {k: v for k, v in schema.items() if k not in lost}

    def _register(self) -> None:
        stack = [(self.root, 0)]
        count = 0
        while stack:
            node, depth = stack.pop()
            count += 1
            if count > _NODES:
                raise self.root.error(f"the document holds more than {_NODES} schemas")
            if depth > _DEPTH:
                raise node.error(f"schemas nest more than {_DEPTH} deep")
            if not isinstance(node.schema, dict):
                continue
            if node.resource is node:
                self._resources[node.uri] = node
            self._name(node)
            self.unevaluated |= (
                "unevaluatedItems" in node.schema or "unevaluatedProperties" in node.schema
            )
            stack += [(child, depth + 1) for child in _subschemas(node)]

    def _name(self, node: Node) -> None:
        draft = node.get("$schema")
        if draft is not None and _DRAFTS not in str(draft) and "$schema" not in self.allowed:
            raise node.error(
                f'Expected "$schema" to be Draft 2020-12, got {str(draft)[:100]!r}.', "$schema"
            )
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = node.get(keyword)
            if isinstance(anchor, str):
                self._anchors[node.uri, anchor] = node
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(anchor, []).append(node)

    def resolve(self, node: Node, keyword: str) -> Node:
        """What `$ref` or `$dynamicRef` of a node names.

        Raises:
            JsonSchemaError: It is outside the document, or there is no such place.
        """
        reference = node.get(keyword)
        address, _, fragment = reference.partition("#")
        fragment = unquote(fragment)
        uri = urljoin(node.uri, address) if address else node.uri
        if uri not in self._resources:
            raise node.error(
                f"{keyword} to {reference[:100]!r}: only what is inside the document can be named",
                keyword,
            )
        resource = self._resources[uri]
        if fragment and not fragment.startswith("/"):
            return self._anchored(node, keyword, uri, fragment)
        try:
            return _descend(resource, fragment)
        except JsonSchemaError as error:
            raise node.error(
                f"{keyword} to {reference[:100]!r}: there is no such schema"
            ) from error

    def _anchored(self, node: Node, keyword: str, uri: str, name: str) -> Node:
        if (uri, name) not in self._anchors:
            raise node.error(f'{keyword} to "#{name[:60]}": there is no such anchor')
        target = self._anchors[uri, name]
        dynamic = keyword == "$dynamicRef" and target.get("$dynamicAnchor") == name
        if dynamic and len(self._dynamic[name]) > 1:
            raise node.error(
                f'$dynamicRef to "#{name[:60]}", of which there are several, is not supported',
                keyword,
            )
        return target


def _subschemas(node: Node) -> Iterator[Node]:
    """The schemas right below one, where keywords hold them."""
    for keyword, value in node.schema.items():
        if keyword in SINGLES and isinstance(value, (dict, bool)):
            yield node.child(keyword)
        elif keyword in LISTS and isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                if isinstance(item, (dict, bool)):
                    yield node.child(keyword, str(i))
        elif keyword in MAPS and isinstance(value, dict):
            for name, item in value.items():
                if isinstance(item, (dict, bool)) and isinstance(name, str):
                    yield node.child(keyword, name)


def _descend(node: Node, pointer: str) -> Node:
    tokens = [t.replace("~1", "/").replace("~0", "~") for t in pointer.split("/")[1:]]
    at = 0
    while at < len(tokens):
        if tokens[at] in SINGLES:
            size = 1
        elif tokens[at] in LISTS | MAPS:
            size = 2
        else:
            size = len(tokens)
        node = node.child(*tokens[at : at + size])
        at += size
    return node


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonSchemaError("#", f"the key {key[:60]!r} stands twice in one object")
            seen.add(key)
    return result


def _no_constant(name: str) -> Any:
    raise JsonSchemaError("#", f"Expected a JSON text, got {name} in it.")


def read_schema(text: str) -> Any:
    """A schema from JSON text: numbers as they are written, no key twice.

    Raises:
        JsonSchemaError: It is not JSON, or nests too deeply to be read.
    """
    try:
        return json.loads(
            text, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_no_duplicates
        )
    except RecursionError:
        raise JsonSchemaError("#", "the JSON text nests too deeply to be read") from None
    except JsonSchemaError:
        raise
    except ValueError as error:
        raise JsonSchemaError(
            "#", f"Expected a JSON text, got one that ends in an error: {error}"
        ) from error
