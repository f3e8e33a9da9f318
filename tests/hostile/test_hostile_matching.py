"""Grammars and texts that are huge, deep or ambiguous: an answer or an error, soon and in bounds."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHAIN = "root ::= r0\n" + "".join(f"r{i} ::= r{i + 1} r{i + 1}\n" for i in range(60))
WORDS = " | ".join(f'"w{i:07}"' for i in range(80_000))
RULES = "root ::= r0\n" + "".join(
    f'r{i} ::= "a" r{i * 7919 % 39_999} | "b" r{i + 1}\n' for i in range(39_999)
)
LITERAL = 'root ::= "' + "a" * 1_000_000 + '"'
DEEP = 'root ::= "(" root ")" | "x"'
OPTIONALS = "root ::= r0\n" + "".join(f'r{i} ::= r{i + 1} "x"?\n' for i in range(40_000))

# Grammar, text, bytes that can be taken; or what the error says.
CASES = {
    "star of stars": ('root ::= ("a"*)*', "a" * 50_000, 50_000),
    "long count": ("root ::= [a-z]{0,100000}", "a" * 100_001, 100_000),
    "huge count": ('root ::= "ab"{2147483647}', "ab" * 50_000, 100_000),
    "nested counts": ('root ::= (("a"{0,100000}){0,100000}){0,100000}', "a" * 50_000, 50_000),
    "many paths": (CHAIN + 'r60 ::= "a"?', "a" * 1000, 1000),
    "exactly 2^60": (CHAIN + 'r60 ::= "a"', "a" * 50_000, 50_000),
    "ambiguous": ('root ::= root root | "a" | ""', "a" * 50_000, 50_000),
    "twice ambiguous": ('root ::= root root root | root root | "a"', "a" * 2000, 2000),
    "palindromes": ('root ::= "a" root "a" | "b" root "b" | "a"?', "ab" * 1000, 2000),
    "deep": (DEEP, "(" * 60_000 + "x" + ")" * 60_001, 120_001),
    "too deep": (DEEP, "(" * 1_000_000, "Expected a text whose parses take at most 64 MiB"),
    "1 MB of words": ("root ::= (" + WORDS + ")*", "w0012345w0079999w1", 17),
    "1 MB of rules": (RULES + 'r39999 ::= "c"', "ab" * 500, 396),
    "1 MB literal": (LITERAL, "a" * 50_000, 50_000),
    "chain of optionals": (OPTIONALS + 'r40000 ::= "c"', "cxx", "Expected a text whose parses"),
    "stars in a row": ("root ::= " + '"a"* ' * 200_000, "a", "Expected a grammar of at most"),
}

# Seconds of processor time, and kilobytes more than before; address space is not limited, so that
# what is measured is what is used.
SCRIPT = """
import resource, sys, time
from mlx_sampling._ext import Grammar, GrammarMatcher, parse_grammar
text, data = open(sys.argv[1]).read(), open(sys.argv[2], "rb").read()
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
memory, begun = used(), time.process_time()
try:
    print(GrammarMatcher(Grammar(parse_grammar(text))).viable_prefix(data))
except (ValueError, RuntimeError) as error:
    print(error)
unit = 1024 if sys.platform == "darwin" else 1
print(time.process_time() - begun, (used() - memory) // unit)
"""


@pytest.mark.parametrize("name", CASES)
def test_an_answer_within_two_seconds_and_200_megabytes(name, tmp_path):
    grammar, text, expected = CASES[name]
    (tmp_path / "grammar").write_text(grammar)
    (tmp_path / "text").write_text(text)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "grammar", tmp_path / "text"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    answer, measured = run.stdout.splitlines()
    seconds, kilobytes = measured.split()
    if isinstance(expected, int):
        assert answer == str(expected)
    else:
        assert answer.startswith(f"[grammar] {expected}")
    assert float(seconds) < 2
    assert int(kilobytes) < 200_000
