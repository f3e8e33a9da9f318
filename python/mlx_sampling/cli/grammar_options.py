"""The command line's options that put an answer under a grammar."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mlx_sampling.cli.grammar import read_text
from mlx_sampling.grammar import Grammar
from mlx_sampling.json_schema import json_object_gbnf, json_schema_to_gbnf
from mlx_sampling.vocabulary import Vocabulary

_FILES = ("grammar", "json_schema")


def add(group: Any) -> None:
    """One of three: a grammar, a schema, any object."""
    kinds = group.add_mutually_exclusive_group()
    kinds.add_argument("--grammar", metavar="FILE", help="GBNF that the answer must match")
    kinds.add_argument(
        "--json-schema", metavar="FILE", help="JSON Schema that the answer must be valid for"
    )
    kinds.add_argument("--json-object", action="store_true", help="the answer is a JSON object")
    group.add_argument(
        "--grammar-first",
        action="store_true",
        help="apply the grammar before the samplers, not after a refused token",
    )


def is_given(args: argparse.Namespace) -> bool:
    """Whether a grammar is asked for.

    Raises:
        ValueError: --grammar-first without one.
    """
    # An empty name, as of a shell's unset variable, is one that cannot be read: not none.
    given = args.json_object or any(getattr(args, name) is not None for name in _FILES)
    if args.grammar_first and not given:
        raise ValueError("[grammar_first] Expected a grammar that it is for, got none.")
    return given


def source_of(args: argparse.Namespace) -> str | bytes | None:
    """The GBNF that is asked for, its file read; None where no grammar is.

    Raises:
        OSError: A file that cannot be read.
        ValueError: A schema that cannot be enforced, in the file's name; --grammar-first alone.
    """
    if not is_given(args):
        return None
    if args.json_object:
        return json_object_gbnf()
    if args.grammar is not None:
        return Path(args.grammar).read_bytes()
    try:
        return json_schema_to_gbnf(read_text(args.json_schema))
    except ValueError as error:
        raise ValueError(f"{args.json_schema}: {error}") from error


def grammar_of(args: argparse.Namespace, source: str | bytes, vocabulary: Vocabulary) -> Grammar:
    """The grammar, for a model's vocabulary.

    Raises:
        ValueError: The source is no grammar; the message names its file.
    """
    try:
        return Grammar(source, vocabulary)
    except ValueError as error:
        raise ValueError(f"{args.grammar or args.json_schema}: {error}") from error
