"""Where our grammars differ from llama.cpp's on purpose: each difference shown on both sides.

Else they are the same: test_grammar_parity.py.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest
from grammar_upstream import Answer, ask

from mlx_sampling import Vocabulary, _ext

PROBE = "ab"  # a token, asked about at the end of each path


@dataclass(frozen=True)
class Difference:
    """One case: what each side makes of a path of tokens, given as their texts or ids.

    `upstream` and `ours`: tokens accepted and whether the text may end there, or the error of the
    grammar; None where llama.cpp is not asked, since it would crash or hang.
    """

    why: str
    grammar: str
    path: tuple[str | bytes | int, ...]
    upstream: tuple[int, bool] | str | None
    ours: tuple[int, bool] | str
    times: int = field(default=1)  # how often the path comes


REFUSED = "refused"
ROWS = [
    # The language.
    Difference(
        "a rule defined twice: the last one wins, silently",
        'root ::= "a"\nroot ::= "b"', ("b",), (1, True), '2:1: rule "root" is defined already, at 1:1',
    ),
    Difference(
        "a maximum above 2000 becomes none", 'root ::= "a"{0,2001}', ("a",), (2002, True),
        (2001, True), 2002,
    ),
    Difference("a minimum above 2000", 'root ::= "a"{2001}', ("a",), REFUSED, (2001, True), 2002),
    Difference(
        "counts whose product is above 2000", 'root ::= "a"{50}{50}', ("a",), REFUSED,
        (2500, True), 2501,
    ),
    Difference(
        "a maximum below the minimum makes it allocate without end", 'root ::= "a"{3,1}', (), None,
        "1:16: expected a maximum of at least 3, got 1",
    ),
    Difference("left recursion", 'root ::= root "a" | "b"', ("b", "a", "a"), REFUSED, (3, True)),
    Difference(
        "hidden left recursion makes it hang", 'root ::= n root "b" | "a"\nn ::= "n"?',
        ("n", "a", "b", "b", "b"), None, (5, True),
    ),
    Difference(
        "what may be empty, repeated", 'root ::= ("a" | "")+ "b"', ("a", "a", "b"), REFUSED, (3, True)
    ),
    Difference(
        "2^60 ways to match", 'root ::= "a"* ("a"? "a"?){60} "b"', ("a",), None, (200, False), 200
    ),
    Difference(
        "a token that is not in the vocabulary", "root ::= <[49152]>", (), (0, False),
        '1:12: expected a token id below 49152, got "49152]>"',
    ),
    Difference(
        "nesting crashes it", "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000, (), None,
        f'1:1010: nested more than 1000 deep: "{"(" * 24}..."',
    ),
    Difference(
        "half a surrogate pair", r'root ::= "\uD83D"', (), (0, False),
        r'1:11: expected a character, got half a surrogate pair (as one: \UHHHHHHHH): "\uD83D""',
    ),
    Difference(
        "a code point above U+10FFFF", r'root ::= "\U00110000"', (), (0, False),
        r'1:11: expected a code point up to U+10FFFF, got "\U00110000""',
    ),
    # Matching.
    Difference("surrogates as UTF-8", "root ::= .", (b"\xed", b"\xa0", b"\x80"), (3, True), (1, False)),
    Difference("overlong UTF-8", "root ::= .", (b"\xe0", b"\x9f", b"\xbf"), (3, True), (1, False)),
    Difference(
        "UTF-8 above U+10FFFF", "root ::= .", (b"\xf4", b"\x90", b"\x80", b"\x80"), (4, True), (1, False)
    ),
    Difference(
        "a first byte that other characters have", "root ::= [^é]", (b"\xc3", b"\xa0"), (0, False),
        (2, True),
    ),
    Difference("a control token as text", 'root ::= "<|im_start|>"', (1,), (1, True), (0, False)),
    Difference("half a character as a token", "root ::= !<[5]>", (b"\xc3",), (0, False), (1, True)),
    Difference("what nothing can follow", 'root ::= "a" [b-a] | "c"', ("a",), (1, False), (0, False)),
    Difference("a grammar without a text", "root ::= [b-a]", (), (0, False), "which matches none."),
    Difference("an end token that is named", "root ::= <|im_end|>", (), (0, False), "which matches none."),
]  # fmt: skip
# The last token of a path that llama.cpp says is allowed, and then throws on.
FORGETS = 'root ::= "a" !<[5]>'


@pytest.fixture(scope="module")
def vocabulary(library, model_path) -> Vocabulary:
    return Vocabulary.from_gguf(model_path)


def ids(row: Difference, vocabulary: Vocabulary) -> list[int]:
    texts = vocabulary.texts()
    in_bytes = (piece.encode() if isinstance(piece, str) else piece for piece in row.path)
    path = [piece if isinstance(piece, int) else texts.index(piece) for piece in in_bytes]
    return path * row.times


@pytest.fixture(scope="module")
def answers(vocabulary) -> dict[str, Answer | None]:
    """What llama.cpp says of each row, and of FORGETS."""
    rows = [row for row in ROWS if row.upstream is not None]
    cases = [(row.grammar, [ids(row, vocabulary)]) for row in rows] + [(FORGETS, [[]])]
    probe = vocabulary.texts().index(PROBE.encode())
    found = ask(cases, [probe])
    names = [*(row.why for row in rows), FORGETS]
    return {name: None if one is None else one[0] for name, one in zip(names, found, strict=True)}


def compiled(text: str, vocabulary: Vocabulary) -> _ext.Grammar:
    native = vocabulary.native
    return _ext.Grammar(_ext.parse_grammar(text, vocabulary=native), native)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.why)
def test_difference(row, vocabulary, answers):
    if row.upstream is not None:
        answer = answers[row.why]
        got = REFUSED if answer is None else (answer.accepted, answer.can_end[-1])
        assert got == row.upstream
    assert row.upstream != row.ours
    start = time.perf_counter()
    if isinstance(row.ours, str):
        with pytest.raises(ValueError) as raised:
            compiled(row.grammar, vocabulary)
        assert row.ours in str(raised.value)
    else:
        matcher = _ext.GrammarMatcher(compiled(row.grammar, vocabulary))
        for token in ids(row, vocabulary):
            before = matcher.steps(), matcher.is_completed()
            if not matcher.accept_token(token):
                assert (matcher.steps(), matcher.is_completed()) == before
                break
        assert (matcher.steps(), matcher.is_completed()) == row.ours
    assert time.perf_counter() - start < 2


def test_a_token_that_is_partly_matched(vocabulary, answers):
    """llama.cpp allows a token whose first characters match, and throws when it is accepted."""
    probe = vocabulary.texts().index(PROBE.encode())
    assert answers[FORGETS].allowed == [probe]
    matcher = _ext.GrammarMatcher(compiled(FORGETS, vocabulary))
    assert not matcher.can_accept(probe)
    assert not matcher.accept_token(probe)
    assert matcher.accept_text(b"a")
    assert matcher.can_accept(probe)


def test_the_answer_never_depends_on_the_split(vocabulary):
    """One token or its bytes: the same, where llama.cpp checks bytes between tokens alone."""
    texts = [b"\xe2\x82\xac", b"\xc3", b"\xa9", b"\xe2\x82", b"\xac", b"\xc3(", b"\xed\xa0\x80"]
    own = Vocabulary(len(texts), token_texts=texts)
    for path, alive in [((0,), True), ((3, 4), True), ((1, 2), True), ((5,), False), ((6,), False)]:
        matcher = _ext.GrammarMatcher(compiled("root ::= .", own))
        assert all(matcher.accept_token(token) for token in path) == alive


def test_tokens_without_text_or_with_nul():
    own = Vocabulary(4, eos_token_ids=[3], token_texts=[b"", b"\0", b"a\0", b"</s>"])
    matcher = _ext.GrammarMatcher(compiled(r"root ::= [\x00a]+", own))
    assert [matcher.can_accept(token) for token in range(4)] == [False, True, True, False]
    assert matcher.accept_token(2)
    assert [matcher.can_accept(token) for token in range(4)] == [False, True, True, True]


def test_no_end_within_a_character():
    matcher = _ext.GrammarMatcher(compiled('root ::= "x" | "xé"', Vocabulary(1, token_texts=["x"])))
    assert matcher.accept_token(0)
    assert matcher.is_completed()
    assert matcher.accept_text(b"\xc3")
    assert not matcher.is_completed()
    assert matcher.accept_text(b"\xa9")
    assert matcher.is_completed()


def test_all_end_tokens_are_gated_alike():
    own = Vocabulary(4, eos_token_ids=[1, 3], token_texts=["a", "b", "ab", "</s>"])
    matcher = _ext.GrammarMatcher(compiled('root ::= "ab" "b"?', own))
    assert [matcher.can_accept(token) for token in range(4)] == [True, False, True, False]
    assert matcher.accept_token(2)
    # Even one that has a text ends, and matches none.
    assert [matcher.can_accept(token) for token in range(4)] == [False, True, False, True]
    assert matcher.accept_token(1)
    assert matcher.is_terminated()
