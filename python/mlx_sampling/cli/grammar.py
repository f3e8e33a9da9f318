"""`mlx-sampling grammar`: checks a grammar, shows where a text leaves it, translates a JSON Schema."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mlx_sampling.grammar import Grammar, GrammarMatcher
from mlx_sampling.json_schema import JsonSchemaError, json_schema_to_gbnf

_SHOWN = 40


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "grammar", help="check a grammar, or a text against it", description=__doc__
    )
    actions = parser.add_subparsers(dest="action", required=True)
    check = actions.add_parser(
        "check",
        help="does the file hold a grammar, and do the texts match it",
        description="Status 1 where the grammar or a text is refused; the first fault is shown.",
    )
    check.add_argument("file", help="GBNF, or with --json-schema a JSON Schema")
    check.add_argument("--json-schema", action="store_true", help="the file is a JSON Schema")
    check.add_argument("--root", default="root", help="the rule to begin with (default: root)")
    check.add_argument(
        "--text", action="append", default=[], help="a text to match; may be given again"
    )
    check.add_argument(
        "--text-file", action="append", default=[], metavar="FILE", help="the same, from a file"
    )
    check.set_defaults(run=_check)
    convert = actions.add_parser("from-json-schema", help="print the GBNF of a JSON Schema")
    convert.add_argument("file", help="a JSON Schema")
    convert.set_defaults(run=_convert)


def _convert(args: argparse.Namespace) -> int:
    try:
        print(json_schema_to_gbnf(read_text(args.file)), end="")
    except JsonSchemaError as error:
        raise ValueError(f"{args.file}: {error}") from error
    return 0


def _check(args: argparse.Namespace) -> int:
    data = Path(args.file).read_bytes()
    schema = _decoded(args.file, data) if args.json_schema else None
    try:
        source = data if schema is None else json_schema_to_gbnf(schema)
        matcher = Grammar(source, root=args.root).matcher()
    except ValueError as error:
        raise ValueError(f"{args.file}: {error}") from error
    print(f"{args.file}: a grammar")
    named = [("--text", text) for text in args.text]
    named += [(name, read_text(name)) for name in args.text_file]
    faults = 0
    for name, text in named:
        matcher.reset()
        fault = fault_of(matcher, text)
        print(f"{name}: {'matches' if fault is None else fault}")
        faults += fault is not None
    return 1 if faults else 0


def fault_of(matcher: GrammarMatcher, text: str) -> str | None:
    """Where a text leaves the grammar, in words; None where it matches.

    Args:
        matcher: At the beginning; moved on by what matches.
        text: The text.
    """
    for at, character in enumerate(text):
        if not matcher.accept_text(character):
            place = _place(text, at)
            return f"{place}: the grammar does not allow {character!r} after {_tail(text[:at])}"
    if matcher.is_completed:
        return None
    return f"{_place(text, len(text))}: the text ends, but the grammar goes on after {_tail(text)}"


def _place(text: str, at: int) -> str:
    line_start = text.rfind("\n", 0, at) + 1
    return f"{text.count(chr(10), 0, at) + 1}:{at - line_start + 1}"


def _tail(text: str) -> str:
    if not text:
        return "the beginning"
    return repr(text) if len(text) <= _SHOWN else f"...{text[-_SHOWN:]!r}"


def read_text(file: str) -> str:
    """A file's text, which must be UTF-8.

    Raises:
        OSError: It cannot be read.
        ValueError: Other bytes.
    """
    return _decoded(file, Path(file).read_bytes())


def _decoded(file: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"[{file}] Expected UTF-8, got a bad byte at {error.start}.") from None
