"""What `bench grammar` measures: grammars with texts that match them, and vocabularies."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from mlx_sampling.bench.grammar_peers import Tokens
from mlx_sampling.gguf import packaged_model_path
from mlx_sampling.vocabulary import Vocabulary

__all__ = ["WORKLOADS", "Workload", "packaged_tokens", "synthetic"]


class Workload(NamedTuple):
    """Either GBNF or a schema, and texts that match it."""

    gbnf: str | None
    schema: dict[str, Any] | None
    texts: tuple[str, ...]


JSON_GBNF = r"""root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array  ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= (" " | "\n" [ \t]{0,20})?
"""

NOTE_GBNF = r"""root    ::= title "\n\n" section+
title   ::= "# " line
section ::= "## " line "\n\n" (item | para)+ "\n"
item    ::= "- " line "\n"
para    ::= [^#\n-] line? "\n"
line    ::= [^\n]+
"""

NESTED_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {
            "type": "object",
            "properties": {
                "street": {"type": "string"},
                "city": {"type": "string"},
                "zip": {"type": "string"},
                "kind": {"enum": ["home", "work", "other"]},
            },
            "required": ["street", "city", "zip", "kind"],
            "additionalProperties": False,
        },
        "orders": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "price": {"type": "number"},
                    "paid": {"type": "boolean"},
                    "note": {"type": ["string", "null"]},
                },
                "required": ["id", "price", "paid", "note"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["name", "age", "tags", "address", "orders"],
    "additionalProperties": False,
}

_PERSON = {
    "name": "Ada Lovelace of Ockham Park",
    "age": 36,
    "tags": ["mathematics", "analytical engine", "correspondence"],
    "address": {"street": "12 St James's Square", "city": "London", "zip": "SW1Y", "kind": "home"},
    "orders": [
        {"id": 17, "price": 12.5, "paid": True, "note": None},
        {"id": 18, "price": 0.25, "paid": False, "note": "second volume, bound in green leather"},
    ],
}

_TEXT = (
    "# Notes on the engine\n\n## What it weaves\n\nThe Analytical Engine weaves algebraical patterns, just "
    "as the loom weaves flowers and leaves.\n- It computes the numbers of Bernoulli.\n- It has no "
    "pretensions to originate anything.\n\n## What is left\n\nA table of operations, in twenty-five "
    "steps.\n\n"
)

WORKLOADS = {
    "json": Workload(
        JSON_GBNF,
        None,
        (
            json.dumps(_PERSON, indent=2),
            json.dumps({"orders": _PERSON["orders"], "π": [[1], [-2e3]]}),
        ),
    ),
    "nested": Workload(None, NESTED_SCHEMA, (json.dumps(_PERSON, separators=(",", ":")),)),
    "note": Workload(NOTE_GBNF, None, (_TEXT,)),
}


def packaged_tokens() -> Tokens:
    """The packaged model's vocabulary."""
    vocabulary = Vocabulary.from_gguf(packaged_model_path())
    native = vocabulary.native
    return Tokens(
        [native.bytes_of(token) for token in range(native.size)],
        [t for t in range(native.size) if not native.is_text(t) and not native.is_end(t)],
        list(vocabulary.eos_token_ids),
    )


def synthetic(tokens: Tokens, size: int) -> Tokens:
    """A larger vocabulary: the tokens there are, then pairs of them that are no tokens yet."""
    rng = np.random.default_rng(size)
    silent = {*tokens.control, *tokens.ends}
    parts = [text for token, text in enumerate(tokens.texts) if token not in silent]
    texts = list(tokens.texts)
    known = set(texts)
    while len(texts) < size:
        first, second = rng.integers(len(parts), size=2)
        text = parts[first] + parts[second]
        if text not in known and len(text) <= 24:
            known.add(text)
            texts.append(text)
    return Tokens(texts, tokens.control, tokens.ends)
