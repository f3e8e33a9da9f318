"""The compiled matcher against the oracle: random grammars and texts, every split, whole masks."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from grammar_derive import derive, mutate, recurs_on_the_left
from grammar_oracle import Grammar, trace
from grammar_texts import ALPHABET, random_grammar

from mlx_sampling import _ext

pytestmark = pytest.mark.slow

PAIRS = 20_000
# Bytes that are no UTF-8, or only where they stand right.
ODD_BYTES = (b"\x80", b"\xbf", b"\xc0\x80", b"\xc3", b"\xe0\x80\x80", b"\xe2\x82", b"\xed\xa0\x80")
ODD_BYTES += (b"\xf0\x9f", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf5", b"\xff", b"\0")


def ours(text: str, vocabulary: _ext.Vocabulary | None = None) -> _ext.Grammar:
    return _ext.Grammar(_ext.parse_grammar(text, vocabulary=vocabulary), vocabulary)


ORACLE_KNOWS = {
    # grammar: whole texts, beginnings that are none, dead ones
    'root ::= "ab"*': (["", "ab", "abab"], ["a", "aba"], ["b", "aa"]),
    'root ::= root "a" | "b"': (["b", "ba", "baa"], [""], ["a", "bb"]),
    'root ::= n root "b" | "a"\nn ::= "n"?': (["a", "ab", "nab", "nnabbb"], ["n"], ["b", "aa"]),
    'root ::= ("a"?){3}': (["", "a", "aaa"], [], ["aaaa", "b"]),
    'root ::= ("a" | "aa"){2,3} "b"': (["aab", "aaaaaab"], ["a", "aaaaaa"], ["ab", "aaaaaaa"]),
    'root ::= "a" [b-a] | "c"': (["c"], [""], ["a", "b"]),
    "root ::= [^é]": (["à", "a", "😀"], [""], ["é", "aa"]),
    'root ::= (("" "x"?)* "y")?': (["", "xxy"], ["x"], ["z"]),
}  # fmt: skip


@pytest.mark.parametrize("text", ORACLE_KNOWS)
def test_oracle_knows(text):
    grammar = Grammar(text)
    wholes, beginnings, dead = ORACLE_KNOWS[text]
    for word in wholes + beginnings + dead:
        result = trace(grammar, [word.encode()])
        assert result.complete[-1] == (word in wholes), word
        assert result.alive[-1] == (word not in dead), word


def test_oracle_knows_beginnings_of_characters():
    grammar = Grammar('root ::= [^é] | "é" "x"')
    assert trace(grammar, [b"\xc3"]).alive == [True, True]
    assert trace(Grammar("root ::= [é-ë]"), [b"\xc4"]).alive == [True, False]
    assert trace(Grammar("root ::= [^\\u0080-\\U0010FFFF]"), [b"\xc3"]).alive == [True, False]
    assert trace(Grammar("root ::= ."), [b"\xed\xa0"]).alive == [True, True, False]
    assert trace(Grammar("root ::= [\\U00010000-\\U0010FFFF]"), [b"\xf4\x90"]).alive[1:] == [
        True,
        False,
    ]


def texts_of(grammar: Grammar, draw: random.Random) -> list[bytes]:
    """Texts of the grammar, nearly so, at random, and with bytes that are no UTF-8."""
    texts = []
    for _ in range(2):
        pieces = derive(grammar, draw)
        if pieces is not None:
            texts.append("".join(map(str, pieces)).encode())
            texts.append("".join(map(str, mutate(pieces, draw))).encode())
    texts.append("".join(draw.choices(ALPHABET, k=draw.randint(0, 6))).encode())
    text = draw.choice(texts)
    at = draw.randrange(len(text) + 1)
    texts.append(text[:at] + draw.choice(ODD_BYTES) + text[at:])
    return [text[:100] for text in texts]


def splits_of(length: int, draw: random.Random) -> list[list[int]]:
    """Where to cut: every way where there are few, else bytes, and some ways at random."""
    if length <= 5:
        return [
            [0, *(i for i in range(1, length) if chosen >> i & 1), length]
            for chosen in range(0, 1 << max(length, 1), 2)
        ]
    some = [sorted(draw.sample(range(1, length), draw.randrange(length))) for _ in range(3)]
    return [list(range(length + 1)), [0, length], *([0, *cuts, length] for cuts in some)]


def check_text(
    grammar: _ext.Grammar, text: bytes, alive: list[bool], complete: list[bool], draw
) -> None:
    """Compares every answer about one text, fragment by fragment, for several ways to cut it."""
    viable = alive.index(False) - 1 if False in alive else len(text)
    assert not any(alive[viable + 1 :])
    matcher = _ext.GrammarMatcher(grammar)
    assert matcher.viable_prefix(text) == viable
    for cuts in splits_of(len(text), draw):
        matcher.reset()
        for begin, end in pairwise(cuts):
            assert matcher.is_completed() == complete[begin]
            assert matcher.accept_text(text[begin:end]) == alive[end]
            if not alive[end]:
                # Nothing has changed: what can be taken still is.
                assert matcher.is_completed() == complete[begin]
                assert matcher.accept_text(text[begin:viable])
                assert matcher.is_completed() == complete[viable]
                break
        else:
            assert matcher.is_completed() == complete[len(text)]


@pytest.mark.parametrize("part", range(4))
def test_random_grammars_and_texts(part):
    draw = random.Random(part)
    pairs = accepted = unproductive = recursive = 0
    while pairs < PAIRS / 4:
        text = random_grammar(draw).text
        grammar = Grammar(text)
        if not grammar.is_productive(grammar.rules["root"]):
            unproductive += 1
            with pytest.raises(ValueError, match="grammar"):
                ours(text)
            continue
        compiled = ours(text)
        recursive += recurs_on_the_left(grammar)
        for word in texts_of(grammar, draw):
            result = trace(grammar, [word])
            try:
                check_text(compiled, word, result.alive, result.complete, draw)
            except AssertionError as error:
                raise AssertionError(f"{text!r}\n{word!r}") from error
            pairs += 1
            accepted += result.complete[-1]
    assert 0.25 < accepted / pairs < 0.75
    assert unproductive > 0
    assert recursive > 50


# Texts that tokens share beginnings with, of whole characters and of parts of them.
TOKENS = (
    "a",
    "b",
    "ab",
    "aab",
    "0",
    "1",
    "10",
    " a",
    "é",
    "à",
    "éa",
    "€",
    "😀",
    "\\",
    '"',
    "[]",
    "\n",
)
PARTS = (b"\xc3", b"\xa9", b"\xe2", b"\x82\xac", b"\xf0\x9f", b"\x98\x80", b"a\xc3")
TOKEN_TEXTS = [*(text.encode() for text in TOKENS), *PARTS]
CONTROL = [b"<s>", b"<x>"]
FIRST_CONTROL = len(TOKEN_TEXTS)
END, EMPTY = FIRST_CONTROL + 2, FIRST_CONTROL + 3
SMALL = _ext.Vocabulary(
    [*TOKEN_TEXTS, *CONTROL, b"</s>", b""], control=[FIRST_CONTROL, FIRST_CONTROL + 1], ends=[END]
)
NAMES = {"<s>": FIRST_CONTROL, "<x>": FIRST_CONTROL + 1}
WRITTEN = [(FIRST_CONTROL, "<s>"), (FIRST_CONTROL + 1, "<x>"), (0, None), (2, None), (18, None)]


def fragment(token: int) -> tuple[int, bytes | None]:
    return token, TOKEN_TEXTS[token] if token < FIRST_CONTROL else None


def bits(matcher: _ext.GrammarMatcher, size: int) -> list[int]:
    words = np.full((size + 31) // 32, 0xA5A5A5A5, np.uint32)
    matcher.fill_bitmask(words)
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()


def allowed(grammar: Grammar, before: list[int]) -> list[int]:
    """The tokens that can come next, by asking the oracle about each."""
    prefix = [fragment(token) for token in before]
    can_end = trace(grammar, prefix).complete[-1]
    texts = [t for t in range(END) if trace(grammar, [*prefix, fragment(t)]).alive[-1]]
    return texts + ([END] if can_end else [])


def test_random_grammars_of_tokens():
    draw = random.Random(5)
    steps = literals = 0
    while steps < 700:
        text = random_grammar(draw, tokens=WRITTEN, size=2).text
        grammar = Grammar(text, NAMES)
        if not grammar.is_productive(grammar.rules["root"]):
            continue
        matcher = _ext.GrammarMatcher(ours(text, SMALL))
        before: list[int] = []
        for _ in range(4):
            expected = allowed(grammar, before)
            assert bits(matcher, EMPTY + 1) == expected, f"{text!r} after {before}"
            for token in range(EMPTY + 1):
                assert matcher.can_accept(token) == (token in expected)
            steps += 1
            going_on = [token for token in expected if token != END]
            if not going_on:
                break
            before.append(draw.choice(going_on))
            literals += before[-1] >= FIRST_CONTROL
            assert matcher.accept_token(before[-1])
    assert literals > 30


def counts_far(grammar: Grammar) -> bool:
    """Whether something is repeated at least five times, by count."""
    repeats = [node for node in grammar.nodes() if node.kind == "repeat"]
    return any(node.minimum >= 5 or (node.maximum or 0) >= 5 for node in repeats)


def test_long_walks_through_counts():
    draw = random.Random(6)
    walks = steps = 0
    while walks < 90:
        text = random_grammar(draw, tokens=WRITTEN[:2], size=1).text
        grammar = Grammar(text, NAMES)
        if not grammar.is_productive(grammar.rules["root"]) or not counts_far(grammar):
            continue
        compiled = ours(text, SMALL)
        matcher = _ext.GrammarMatcher(compiled)
        before: list[int] = []
        for _ in range(40):
            going_on = [token for token in bits(matcher, EMPTY + 1) if token != END]
            if not going_on:
                break
            before.append(draw.choice(going_on))
            assert matcher.accept_token(before[-1])
        # Back from the end: what is allowed is what the oracle says, and what a fresh matcher says.
        while before:
            fresh = _ext.GrammarMatcher(compiled)
            assert all(fresh.accept_token(token) for token in before)
            expected = allowed(grammar, before)
            assert bits(matcher, EMPTY + 1) == expected, f"{text!r} after {before}"
            assert bits(fresh, EMPTY + 1) == expected
            steps += 1
            back = min(draw.randint(1, 9), len(before))
            matcher.rollback(back)
            del before[-back:]
        walks += 1
    assert steps > 250
