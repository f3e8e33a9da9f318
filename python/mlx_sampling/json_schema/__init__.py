"""JSON Schema, Draft 2020-12, to GBNF.

Whatever the grammar lets through is valid. Each keyword is enforced, or is an annotation by the
standard, or is an error that points at it; `allow_unsupported` says which may be lost instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from mlx_sampling.errors import JsonSchemaError
from mlx_sampling.json_schema.document import Document, read_schema
from mlx_sampling.json_schema.normal import Normalizer
from mlx_sampling.json_schema.writer import WHITESPACE, Writer

__all__ = ["JsonSchemaError", "json_gbnf", "json_object_gbnf", "json_schema_to_gbnf"]


def json_schema_to_gbnf(
    schema: dict[str, Any] | bool | str,
    *,
    whitespace: str = "bounded",
    allow_unsupported: Iterable[str] = (),
    root: str = "root",
) -> str:
    """A grammar of the JSON texts that a schema takes.

    Properties come in declared order (required and optional as they stand, what no `properties` names
    after them), each declared one at most once. Strings are escaped only where JSON demands it. Numbers
    of which more than their type is asked have no exponent, and at most 15 digits if they have a
    fraction; integers have none. `format` is enforced for the formats of the standard, as a subset that
    all readers take; of other formats the standard says that they are annotations. Patterns are
    ECMA-262's, and what Python's `re` reads differently is not written.

    Beyond a grammar: two properties that no `properties` names may get the same name. And of a
    `multipleOf` such as 0.01 decimal multiples are written, which validators that divide doubles may
    refuse.

    Args:
        schema: The schema, or its JSON text (in which numbers are taken as they are written).
        whitespace: "bounded" (none, a space, or a line break with up to 32 blanks, where a line may be
            broken), "compact" (none), or "spaced" (one space after ":" and ",", as `json.dumps`).
        allow_unsupported: Keywords that may be lost where they cannot be enforced, unknown ones as well.
            Values may then be invalid by those keywords.
        root: The name of the grammar's first rule: letters, digits and "-".

    Returns:
        GBNF text. Same schema and arguments, same text.

    Raises:
        JsonSchemaError: The schema is not one; a keyword is unknown or cannot be enforced; it names
            something outside the document; no value is valid. The message starts with a JSON pointer.
        ValueError: `whitespace` or `root` is none of the above.
        TypeError: `allow_unsupported` is a string.

    Example:
        >>> print(json_schema_to_gbnf({"enum": ["yes", "no"]}), end="")
        root ::= "\\"yes\\"" | "\\"no\\""
    """
    if whitespace not in WHITESPACE:
        raise ValueError(
            f"[whitespace] Expected one of {', '.join(WHITESPACE)}, got {whitespace!r}."
        )
    if not isinstance(root, str) or not re.fullmatch("[A-Za-z0-9-]+", root):
        raise ValueError(f'[root] Expected letters, digits and "-", got {root!r}.')
    if isinstance(allow_unsupported, str):
        raise TypeError(
            f"[allow_unsupported] Expected a list of keywords, got {allow_unsupported!r}."
        )
    allowed = frozenset(allow_unsupported)
    value = read_schema(schema) if isinstance(schema, str) else schema
    dropped: frozenset[tuple[str, str]] = frozenset()
    while True:
        try:
            document = Document(value, allowed, dropped)
            return Writer(Normalizer(allowed), whitespace, root).write(((document.root, True),))
        except JsonSchemaError as error:
            dropped = _given_up(error, allowed, dropped)
        except RecursionError:
            raise JsonSchemaError("#", "the schema nests too deeply") from None


def _given_up(
    error: JsonSchemaError, allowed: frozenset[str], dropped: frozenset[tuple[str, str]]
) -> frozenset[tuple[str, str]]:
    """What to do without after an error: the keyword where it stands, or at last everywhere."""
    if error.keyword is None or error.keyword not in allowed:
        raise error
    for place in (error.pointer, ""):
        if (place, error.keyword) not in dropped and len(dropped) < 20:
            return dropped | {(place, error.keyword)}
    raise error


def json_gbnf(*, whitespace: str = "bounded") -> str:
    """A grammar of any JSON value. See `json_schema_to_gbnf` for `whitespace`."""
    return json_schema_to_gbnf(True, whitespace=whitespace)


def json_object_gbnf(*, whitespace: str = "bounded") -> str:
    """A grammar of any JSON object. See `json_schema_to_gbnf` for `whitespace`."""
    return json_schema_to_gbnf({"type": "object"}, whitespace=whitespace)
