"""Grammars that are damaged, huge or made to hurt: an answer or an error, soon."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest
from grammar_texts import random_grammar

from mlx_sampling._ext import parse_grammar, print_grammar
from mlx_sampling.errors import GrammarError


def outcome(text: str | bytes):
    """The syntax, or the error."""
    try:
        return parse_grammar(text)
    except GrammarError as error:
        return error


@pytest.mark.parametrize("seed", range(4))
def test_damaged_grammars_are_read_or_refused(seed):
    draw = random.Random(seed)
    refusals = 0
    for _ in range(1500):
        text = bytearray(random_grammar(draw).text.encode())
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(text))
            text[at : at + draw.randint(0, 2)] = draw.choice(
                (b"", b'"', b"[", b"(", b"{3,", b"\\", b"\xc3", b"\0", b"|", b"\n", b"::=", b"-")
            )
        result = outcome(bytes(text))
        if isinstance(result, GrammarError):
            refusals += 1
            lines = bytes(text).decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
            line = lines.split("\n")[result.line - 1]
            assert 1 <= result.column <= len(line) + 1
        else:
            assert parse_grammar(print_grammar(result)).trees() == result.trees()
    assert 300 < refusals < 1400


NESTED = "nested more than 1000 deep: "
HOSTILE = {
    "parentheses": ("root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000, f"1:1010: {NESTED}"),
    "stacked": ('root ::= "a"' + "?" * 60_000, f"1:1013: {NESTED}"),
    "nested and stacked": (
        "root ::= " + "(" * 900 + '"a"' + ")*" * 900 + "+" * 900,
        f"1:2813: {NESTED}",
    ),
    "unclosed": ("root ::= " + '("a" ' * 1000, '1:5010: expected a symbol, "|" or the ")"'),
    "undefined": ("root ::= " + " ".join(f"r{i}" for i in range(100_000)), '1:10: rule "r0"'),
    "far": ("\n" * 1_000_000 + "root ::= _", "1000001:10: expected a symbol"),
    "too long": ("#" * (2**21 + 1), "1:1: expected a grammar of at most 2097152 bytes, got 2097153"),
    "literal": ('root ::= "' + "a" * 1_000_000 + '"', None),
    "longest": ('root ::= "' + "a" * (2**21 - 12) + '"', None),
    "class": ("root ::= [" + "az" * 500_000 + "]", None),
    "classes": ("root ::= " + "[^a]" * 250_000, None),
    "alternatives": ("root ::= " + "|" * 400_000, None),
    "comment": ("#" * 1_000_000 + '\nroot ::= "a"', None),
    "references": ("root ::= " + "root " * 200_000, None),
    "rules": (
        "".join(f"r{i} ::= r{i + 1}\n" for i in range(60_000)) + "r60000 ::= root\nroot ::= r0",
        None,
    ),
    "counts": ('root ::= (("a"{2000000000}){2000000000})*' + '{2000000000}' * 900, None),
    "deepest": ("root ::= " + "(" * 998 + '"a" | ()*' + ")*" * 998, None),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_answered_quickly(name):
    text, error = HOSTILE[name]
    start = time.perf_counter()
    result = outcome(text)
    if error is None:
        printed = print_grammar(result)
        assert print_grammar(parse_grammar(printed)) == printed
    else:
        assert str(result).startswith(error)
    assert time.perf_counter() - start < 2


MEASURE = """
import json, resource, sys
from mlx_sampling._ext import parse_grammar, print_grammar
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
text = sys.stdin.read()
before = peak()
try:
    print_grammar(parse_grammar(text))
except ValueError:
    pass
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux")
@pytest.mark.parametrize("name", ["literal", "classes", "alternatives", "rules", "stacked"])
def test_hostile_texts_take_little_memory(name):
    text = HOSTILE[name][0]
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE], input=text, capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) < 200_000
