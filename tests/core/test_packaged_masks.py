"""Whole masks over the packaged vocabulary, token by token, against the oracle."""

from __future__ import annotations

import random

import numpy as np
import pytest
from grammar_oracle import Grammar, trace

from mlx_sampling import Vocabulary, _ext
from mlx_sampling.gguf import packaged_model_path

JSON = r"""
root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [1-9] [0-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""
ARITHMETIC = r"""
root ::= sum
sum ::= sum [-+] product | product
product ::= product [*/] atom | atom
atom ::= [0-9]+ | "(" sum ")" | "x" [a-c]?
"""
KANA = "root ::= [ぁ-ゟ]{2,3} ([^ぁ-ゟa-z] | <|im_start|>)+ | ' '".replace("' '", '" "+')
CLOSED = 'root ::= ("The " | "An ") ("answer" | "apple"){1,3} " is " [0-9]{1,4} "."?'
FREE = r'root ::= "<think>" [^<]{0,12} "</think>" .{1,40}'
UNTIL = r'root ::= (!<[17]> | "!!")* <repo_name>'

# grammar, texts after which the mask is asked for
STATES = [
    (JSON, [b"", b"{", b'{"a', b'{"a\\', b'{"a":', b'{"a": [1', b'{"a": tr', b'{"\xe6\x97']),
    (ARITHMETIC, [b"", b"1", b"((x", b"((xa)"]),
    (KANA, [b"", b"\xe3", b"\xe3\x81", "ああ".encode(), "ああ".encode() + b"\xe3", "ああ!".encode()]),
    (CLOSED, [b"", b"A", b"The ", b"An ap", b"The answer is 12", b"The answer is 1234."]),
    (FREE, [b"<thi", b"<think>" + b"a" * 11, b"<think>x</think>"]),
    (UNTIL, [b""]),
]  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary():
    try:
        return Vocabulary.from_gguf(packaged_model_path())
    except FileNotFoundError as error:
        pytest.skip(str(error))


def expected_tokens(grammar: Grammar, before: bytes, vocabulary: Vocabulary) -> list[int]:
    """What the oracle says of every token; one that begins as a dead one does is dead as well."""
    native, found, dead = vocabulary.native, [], b"no token"
    texts = sorted((t, i) for i, t in enumerate(vocabulary.texts()) if native.is_text(i))
    literals = [node for node in grammar.nodes() if node.kind == "tokens"]
    named = {i for node in literals for i in node.ids}
    any_may_be_named = any(node.negated for node in literals)
    can_end = trace(grammar, [before]).complete[-1]
    for text, token in texts:
        if text.startswith(dead) and token not in named and not any_may_be_named:
            continue
        alive = trace(grammar, [before, (token, text)]).alive
        if alive[-1]:
            found.append(token)
        else:
            dead = text[: alive.index(False, len(before)) - len(before)]
    controls = [i for i in vocabulary.control_token_ids if not native.is_end(i)]
    found += [i for i in controls if trace(grammar, [before, (i, None)]).alive[-1]]
    return sorted(found + (native.ends if can_end else []))


@pytest.mark.parametrize("case", range(len(STATES)))
def test_masks_are_the_oracles(vocabulary, case):
    text, befores = STATES[case]
    native = vocabulary.native
    names = {name: native.find(name.encode()) for name in ("<|im_start|>", "<repo_name>")}
    grammar = Grammar(text, names)
    compiled = _ext.Grammar(_ext.parse_grammar(text, vocabulary=native), native)
    draw = random.Random(case)
    for before in befores:
        matcher = _ext.GrammarMatcher(compiled)
        assert matcher.accept_text(before)
        words = np.zeros(vocabulary.size // 32, np.uint32)
        matcher.fill_bitmask(words)
        got = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()
        expected = expected_tokens(grammar, before, vocabulary)
        assert got == expected, f"after {before!r}: {sorted(set(got) ^ set(expected))[:20]}"
        for token in draw.sample(range(vocabulary.size), 500) + draw.sample(got, min(len(got), 50)):
            assert matcher.can_accept(token) == (token in got)
