"""Bitmasks: with what is kept between fills and without, token by token, and from many threads."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from grammar_texts import random_grammar

from mlx_sampling import _ext
from mlx_sampling._ext import Grammar, GrammarMatcher, Vocabulary, parse_grammar
from mlx_sampling.errors import GrammarError
from mlx_sampling.gguf import packaged_model_path
from mlx_sampling.vocabulary import Vocabulary as ModelVocabulary


@pytest.fixture(scope="module")
def packaged() -> Vocabulary:
    try:
        path = packaged_model_path()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return ModelVocabulary.from_gguf(path).native


def bitmask(state: GrammarMatcher, size: int, fast: bool = True) -> np.ndarray:
    words = np.full((size + 31) // 32, 0xFFFFFFFF, np.uint32)
    _ext.set_fast_paths(fast)
    try:
        state.fill_bitmask(words)
    finally:
        _ext.set_fast_paths(True)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)
    assert not bits[size:].any()
    return bits[:size]


def split(vocabulary: Vocabulary, text: str) -> list[int]:
    """Longest token first."""
    tokens, rest = [], text.encode()
    while rest:
        found = (vocabulary.find(rest[:n]) for n in range(min(len(rest), 20), 0, -1))
        tokens.append(next(t for t in found if t is not None and vocabulary.is_text(t)))
        rest = rest[len(vocabulary.bytes_of(tokens[-1])) :]
    return tokens


JSON = r"""
root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""
BOUNDED = r"""
root ::= "{\"name\": " short ", \"words\": [" word (", " word){3,7} "]}"
short ::= "\"" char{1,12} "\""
char ::= [^"\\\x00-\x1F] | "\\" ["\\nt]
word ::= [a-z]{2,9} ("-" [a-z]{2,9}){0,2} | [A-Z]{3}
"""
PROSE = r"""
root ::= "<think>" ([^<] | "<" [^/])* "</think>\n" (step)+ "So: " sentence
step ::= "Step " [0-9]+ ": " line "\n"
line ::= [^\n]+
sentence ::= [A-Z] [a-zé ,']{5,60} "." <|im_end|>?
"""
WALKS = {
    "json": (JSON, '{"a b": [1, -2.5e3, true, null], "é": {"deep": [[[{}]], "\\\\\\""]}}'),
    "bounded": (BOUNDED, '{"name": "Ada L\\"éa", "words": [weaves, algebra-ical-patterns, ABC, looms]}'),
    "prose": (PROSE, "<think>It is < 3, or 天.</think>\nStep 1: look up\nStep 22: é\nSo: The loom weaves."),
}  # fmt: skip


@pytest.mark.parametrize("name", WALKS)
def test_masks_on_the_packaged_vocabulary(name, packaged):
    text, data = WALKS[name]
    grammar = Grammar(parse_grammar(text, vocabulary=packaged), packaged)
    for walk in range(2):  # the second finds what the first has kept
        state = GrammarMatcher(grammar)
        for step, token in enumerate([*split(packaged, data), None]):
            got = bitmask(state, packaged.size)
            assert np.array_equal(got, bitmask(state, packaged.size, fast=False))
            if step % 4 == walk:
                each = [state.can_accept(t) for t in range(packaged.size)]
                assert np.array_equal(got, each)
            if token is not None:
                assert got[token]
                assert state.accept_token(token)
        assert state.is_completed()
        assert all(got[t] for t in packaged.ends)


PIECES = [
    *'ab01é à€😀\\"[]-^\n\r\t',
    "aa",
    "ab",
    "ba",
    "a" * 30,
    "aé",
    "é€",
    " a",
    "b\n",
    "]]",
    "a-",
]
TEXTS = [piece.encode() for piece in PIECES]
TEXTS += [
    b"\xc3",
    b"\xa9",
    b"\xe2",
    b"\x82\xac",
    b"\xf0\x9f",
    b"\x98\x80a",
    b"b\xc3",
    b"\xff",
    b"",
    b"\0",
]
SMALL = Vocabulary([*TEXTS, b"<c>", b"<e>", b"<f>"], [len(TEXTS)], [len(TEXTS) + 1, len(TEXTS) + 2])


def compiled_both_ways(text: str, vocabulary: Vocabulary) -> list[Grammar]:
    """With the short cuts of compilation, and without."""
    syntax = parse_grammar(text, vocabulary=vocabulary)
    _ext.set_fast_paths(False)
    try:
        plain = Grammar(syntax, vocabulary)
    finally:
        _ext.set_fast_paths(True)
    return [Grammar(syntax, vocabulary), plain]


def random_compiled(draw: random.Random) -> list[Grammar]:
    while True:
        try:
            return compiled_both_ways(random_grammar(draw).text, SMALL)
        except (GrammarError, ValueError):  # matches nothing
            continue


@pytest.mark.parametrize("seed", range(8))
def test_masks_of_random_grammars(seed):
    draw = random.Random(seed)
    several = 0
    for _ in range(60):
        states = [GrammarMatcher(grammar) for grammar in random_compiled(draw)]
        for _ in range(8):
            got = bitmask(states[0], SMALL.size)
            for state in states:
                assert np.array_equal(got, bitmask(state, SMALL.size))
                assert np.array_equal(got, bitmask(state, SMALL.size, fast=False))
                assert np.array_equal(got, [state.can_accept(t) for t in range(SMALL.size)])
            choices = [int(t) for t in np.flatnonzero(got) if not SMALL.is_end(int(t))]
            several += len(choices) > 1
            if not choices:
                break
            token = draw.choice(choices)
            assert all(state.accept_token(token) for state in states)
    assert several > 100


AMBIGUOUS = [
    'root ::= root root | "a"',
    'root ::= root root root | root root | "a"',
    'root ::= a a a a a\na ::= b b | b\nb ::= c c | c\nc ::= "a" | "aa" | a? "b"',
    'root ::= ("a" | "aa" | "aaa"){3,9} ("a" | "aa"){2,40} "b"?',
    'root ::= x y | y x\nx ::= ("a" y?)* \ny ::= ("a"? x)? "a"',
]


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_masks_of_ambiguous_grammars(text):
    runs = Vocabulary([b"a" * n for n in range(1, 60)] + [b"a" * n + b"b" for n in range(20)])
    states = [GrammarMatcher(grammar) for grammar in compiled_both_ways(text, runs)]
    for token in (0, 2, 0, 1):
        got = bitmask(states[0], runs.size)
        for state in states:
            assert np.array_equal(got, bitmask(state, runs.size, fast=False))
            assert np.array_equal(got, [state.can_accept(t) for t in range(runs.size)])
            assert state.accept_token(token)


def test_threads_fill_at_once(packaged):
    grammar = Grammar(parse_grammar(JSON, vocabulary=packaged), packaged)
    tokens = split(packaged, WALKS["json"][1])

    def walk(_):
        state, bits = GrammarMatcher(grammar), []
        for token in tokens:
            bits.append(bitmask(state, packaged.size))
            assert state.accept_token(token)
        return bits

    with ThreadPoolExecutor(4) as threads:
        first, *others = threads.map(walk, range(8))
    for bits in others:
        assert all(np.array_equal(a, b) for a, b in zip(first, bits, strict=True))


def test_words_of_the_wrong_kind_are_refused():
    state = GrammarMatcher(Grammar(parse_grammar('root ::= "a"'), SMALL))
    good = np.zeros(2, np.uint32)
    state.fill_bitmask(good)
    for width in (0, 1, 3):
        expected = rf"^\[words\] Expected a bitmask of 2 words, got {width}\.$"
        with pytest.raises(ValueError, match=expected):
            state.fill_bitmask(np.zeros(width, np.uint32))
    frozen = np.zeros(2, np.uint32)
    frozen.flags.writeable = False
    for words in (
        np.zeros(2, np.int32),
        np.zeros((2, 1), np.uint32),
        frozen,
        np.zeros(4, np.uint32)[::2],
        [0, 0],
    ):
        with pytest.raises(TypeError):
            state.fill_bitmask(words)
    with pytest.raises(ValueError, match=r"^\[grammar\] Expected a grammar with a vocabulary"):
        GrammarMatcher(Grammar(parse_grammar('root ::= "a"'))).fill_bitmask(good)
