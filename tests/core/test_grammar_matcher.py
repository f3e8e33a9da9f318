"""What a matcher takes and refuses, what taking back gives, and what is an error."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

from mlx_sampling._ext import Grammar, GrammarMatcher, Vocabulary, parse_grammar


def matcher(text: str, vocabulary: Vocabulary | None = None) -> GrammarMatcher:
    return GrammarMatcher(Grammar(parse_grammar(text, vocabulary=vocabulary), vocabulary))


def outcome(text: str, data: bytes) -> tuple[int, bool]:
    """Bytes that can be taken, and whether the text may end after them."""
    state = matcher(text)
    taken = state.viable_prefix(data)
    assert state.accept_text(data) is (taken == len(data))
    if taken < len(data):
        assert state.steps() == 0
        assert state.accept_text(data[:taken])
    return taken, state.is_completed()


E_ACUTE, A_GRAVE, EURO, FACE = (c.encode() for c in "éà€😀")
ALL = "root ::= r0\n" + "".join(f"r{i} ::= r{i + 1} r{i + 1}\n" for i in range(60))

# Grammar, text, bytes that can be taken, whether the text may end there.
TABLE = [
    ('root ::= "ab"', b"", 0, False),
    ('root ::= "ab"', b"ab", 2, True),
    ('root ::= "ab"', b"abc", 2, True),
    ('root ::= ""', b"", 0, True),
    ("root ::= ", b"a", 0, True),
    ('root ::= "a"* "b"', b"aaab", 4, True),
    ('root ::= ("a" | "ab") ("c" | "bd")', b"abd", 3, True),
    ('root ::= "\\x00" .', b"\0\0", 2, True),
    # Recursion on the left, hidden and plain; on the right; in the middle; without content.
    ('root ::= root "a" | "b"', b"baaa", 4, True),
    ('root ::= n root "b" | "a"\nn ::= "n"?', b"nnabb", 5, True),
    ('root ::= n root "b" | "a"\nn ::= "n"?', b"nnb", 2, False),
    ('root ::= "a" root | "b"', b"aaab", 4, True),
    ('root ::= "(" root ")" | "x"', b"((x)))", 5, True),
    ('root ::= root | "a"', b"aa", 1, True),
    ('root ::= x | "a"\nx ::= y\ny ::= x', b"a", 1, True),
    ('root ::= root root | "a" | ""', b"aaaa", 4, True),
    ('root ::= a "x" | b "y"\na ::= b | "1"\nb ::= a "+" | "2"', b"1++y", 4, True),
    ('root ::= a "x" | b "y"\na ::= b | "1"\nb ::= a "+" | "2"', b"1y", 1, False),
    ('root ::= e\ne ::= e "+" t | t\nt ::= t "*" f | f\nf ::= "(" e ")" | "1"', b"(1+1)*1+1", 9, True),
    ('root ::= e\ne ::= e "+" t | t\nt ::= t "*" f | f\nf ::= "(" e ")" | "1"', b"(1+1))", 5, True),
    # What can never end is no way to go on.
    ('root ::= "a" x | "ab"\nx ::= "c" x', b"ac", 1, False),
    # Counts.
    ('root ::= "a"{3}', b"aaaa", 3, True),
    ('root ::= "a"{2,4} "a"', b"aa", 2, False),
    ('root ::= "a"{2,4} "a"', b"aaaaaa", 5, True),
    ('root ::= ("a"{2}){2,3} "b"', b"aaaaab", 5, False),
    ('root ::= ("a"?){60}', b"a" * 61, 60, True),
    ('root ::= ("a" "b"?){100,} "c"', b"ab" * 99 + b"c", 198, False),
    ('root ::= ("a" "b"?){100,} "c"', b"ab" * 100 + b"c", 201, True),
    ('root ::= ("a" | "aa"){2001,2500}', b"a" * 5001, 5000, True),
    ('root ::= ("a" | "aa"){2001,2500}', b"a" * 2000, 2000, False),
    ('root ::= "a"{100000}', b"a" * 100_001, 100_000, True),
    ('root ::= ("a"*)*', b"a" * 100, 100, True),
    (ALL + 'r60 ::= "a"?', b"a" * 100, 100, True),
    (ALL + 'r60 ::= "a"', b"a" * 100, 100, False),
    # Strict UTF-8, wherever it is cut.
    ("root ::= .", E_ACUTE, 2, True),
    ("root ::= .", FACE[:3], 3, False),
    ("root ::= .", b"\n", 1, True),
    ("root ::= .", b"\x80", 0, False),
    ("root ::= .", b"\xc1\xbf", 0, False),
    ("root ::= .", b"\xe0\x9f\xbf", 1, False),
    ("root ::= .", b"\xed\xa0\x80", 1, False),
    ("root ::= .", b"\xed\x9f\xbf", 3, True),
    ("root ::= .", b"\xf0\x8f\xbf\xbf", 1, False),
    ("root ::= .", b"\xf4\x90\x80\x80", 1, False),
    ("root ::= .", b"\xf4\x8f\xbf\xbf", 4, True),
    ("root ::= .", b"\xf5", 0, False),
    ("root ::= .", E_ACUTE[:1] + b"a", 1, False),
    ("root ::= [^é]", E_ACUTE[:1], 1, False),
    ("root ::= [^é]", E_ACUTE, 1, False),
    ("root ::= [^é]", A_GRAVE, 2, True),
    ("root ::= [à-é]", "ç".encode(), 2, True),
    ("root ::= [à-é]", "ê".encode(), 1, False),
    ("root ::= [ÿ-\U0001f600]+", EURO + FACE + b"a", 7, True),
    ("root ::= [\U0001f600-\U0001f64f]", EURO, 0, False),
    ('root ::= "x" | "xé"', b"x" + E_ACUTE[:1], 2, False),
    ("root ::= [z-a] | \"b\"", b"a", 0, False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "data", "taken", "completed"), TABLE)
def test_table(text, data, taken, completed):
    assert outcome(text, data) == (taken, completed)


def test_answers_do_not_depend_on_the_split():
    data = "aé€😀".encode()
    text = 'root ::= "a" [é-€]+ [😀-😂]'
    for cuts in range(1 << (len(data) - 1)):
        state = matcher(text)
        begin = 0
        for at in range(1, len(data) + 1):
            if at < len(data) and not cuts >> (at - 1) & 1:
                continue
            assert not state.is_completed()
            assert state.accept_text(data[begin:at])
            assert not state.accept_text(b"\xff")
            begin = at
        assert state.is_completed()


TOKENS = [b"a", b"b", b"ab", b"\xc3", b"\xa9", b"\xc3\xa9", b"", b"<ctl>", b"a\0", b"<e1>", b"<e2>"]
A, B, AB, C3, A9, E, EMPTY, CONTROL, NUL, END1, END2 = range(len(TOKENS))
VOCABULARY = Vocabulary(TOKENS, [CONTROL], [END1, END2])


def allowed(state: GrammarMatcher) -> list[int]:
    words = np.full(1, 0xFFFFFFFF, np.uint32)
    state.fill_bitmask(words)
    tokens = [token for token in range(32) if words[0] >> token & 1]
    assert tokens == [t for t in range(len(TOKENS)) if state.can_accept(t)]
    return tokens


# Grammar, tokens accepted, tokens allowed then.
TOKEN_TABLE = [
    ('root ::= "ab"', [], [A, AB]),
    ('root ::= "ab"', [A], [B]),
    ('root ::= "ab"', [AB], [END1, END2]),
    ('root ::= "ab"', [AB, END2], []),
    ('root ::= "a"*', [], [A, END1, END2]),
    ('root ::= "é" | "a\\x00"', [], [A, C3, E, NUL]),
    ('root ::= "é"', [C3], [A9]),
    ('root ::= "é"?', [C3], [A9]),
    ("root ::= .", [], [A, B, C3, E]),
    ("root ::= .*", [], [A, B, AB, C3, E, NUL, END1, END2]),
    # Control and end tokens are no text, and empty ones nothing at all.
    ('root ::= "<ctl>" | "<e1>"', [], []),
    # Token literals: by id, whatever is not listed, never an end or an empty token.
    ("root ::= <[0]> <[7]>", [], [A]),
    ("root ::= <[0]> <[7]>", [A], [CONTROL]),
    ("root ::= <ctl>", [], [CONTROL]),
    ("root ::= <[6]> | <[9]> | <[1]>", [], [B]),
    ("root ::= !<[0]>", [], [B, AB, C3, A9, E, CONTROL, NUL]),
    ("root ::= !<[0]> \"b\"", [A9], [B]),
    # At a token's bounds only: "ab" and then a literal, or "a" and then one.
    ('root ::= "a" <[1]>', [], [A]),
    ('root ::= "a" "b"? <[7]>', [], [A, AB]),
    # A token that is both text and a literal leaves both ways open.
    ('root ::= "a" "b" | <[0]> <[7]>', [], [A, AB]),
    ('root ::= "a" "b" | <[0]> <[7]>', [A], [B, CONTROL]),
    ("root ::= .* | <[4]>", [], [A, B, AB, C3, A9, E, NUL, END1, END2]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "accepted", "expected"), TOKEN_TABLE)
def test_token_table(text, accepted, expected):
    state = matcher(text, VOCABULARY)
    for token in accepted:
        assert state.accept_token(token)
    assert allowed(state) == expected
    assert state.is_terminated() is (bool(accepted) and accepted[-1] in (END1, END2))


def test_a_literal_is_not_text():
    state = matcher('root ::= <[0]> "b"', VOCABULARY)
    assert not state.accept_text(b"a")
    assert state.accept_token(A)
    assert state.accept_text(b"b")
    assert state.is_completed()


def test_refusals_change_nothing():
    state = matcher('root ::= "ab" ("é" | "è") <[7]>', VOCABULARY)
    assert state.accept_token(A)
    assert state.accept_text(b"b\xc3")
    before = (allowed(state), state.steps(), state.history(), state.is_completed())
    for token in set(range(len(TOKENS))) - {A9}:
        assert not state.accept_token(token)
    for data in (b"\xa9x", b"x", b"\xaa"):
        assert not state.accept_text(data)
    with pytest.raises(ValueError):
        state.accept_token(len(TOKENS))
    with pytest.raises(ValueError):
        state.rollback(3)
    assert before == (allowed(state), state.steps(), state.history(), state.is_completed())
    assert before == ([A9], 2, [A, b"b\xc3"], False)


def test_after_the_end_nothing_is_accepted_until_it_is_taken_back():
    state = matcher('root ::= "a"*', VOCABULARY)
    assert state.accept_token(A)
    assert state.accept_token(END1)
    assert state.is_terminated()
    assert allowed(state) == []
    assert state.forced_tokens() == []
    assert not state.accept_token(A)
    assert not state.accept_token(END1)
    assert not state.accept_text(b"a")
    assert not state.accept_text(b"")
    assert state.viable_prefix(b"a") == 0
    state.rollback(1)
    assert not state.is_terminated()
    assert state.accept_token(A)
    assert state.steps() == 2


@pytest.mark.parametrize("seed", range(10))
def test_rollback_fork_and_reset_are_the_same_as_a_fresh_start(seed):
    draw = random.Random(seed)
    grammar = Grammar(
        parse_grammar('root ::= root "b" | x{1,5} root?\nx ::= "a" | "é" x | <[7]>', vocabulary=VOCABULARY),
        VOCABULARY,
    )  # fmt: skip
    state, kept = GrammarMatcher(grammar), []
    for _ in range(200):
        if kept and draw.random() < 0.3:
            count = draw.randint(0, len(kept))
            state.rollback(count)
            kept = kept[: len(kept) - count]
        elif draw.random() < 0.03:
            state.reset()
            kept = []
        else:
            choices = [t for t in allowed(state) if t not in (END1, END2)]
            kept.append(draw.choice(choices))
            other = state.fork()
            assert other.accept_token(kept[-1])
            assert allowed(state) == [t for t in range(len(TOKENS)) if state.can_accept(t)]
            state = draw.choice((state, other))
            if state is not other:
                assert state.accept_token(kept[-1])
        fresh = GrammarMatcher(grammar)
        for token in kept:
            assert fresh.accept_token(token)
        assert state.history() == kept
        assert (allowed(state), state.is_completed()) == (allowed(fresh), fresh.is_completed())


def test_forks_go_their_own_ways():
    state = matcher('root ::= "a" ("b" | "a")', VOCABULARY)
    state.accept_token(A)
    other = state.fork()
    assert other.accept_token(B)
    assert (state.history(), other.history()) == ([A], [A, B])
    assert allowed(state) == [A, B]


def test_forced_tokens():
    assert matcher('root ::= "é"', VOCABULARY).forced_tokens() == []
    state = matcher('root ::= "bb" "é" "b"*', VOCABULARY)
    assert state.forced_tokens() == [B, B]
    assert state.forced_tokens(limit=1) == [B]
    assert state.steps() == 0
    one_end = Vocabulary([b"a", b"<e>"], [], [1])
    assert matcher('root ::= "aaa"', one_end).forced_tokens() == [0, 0, 0, 1]
    assert matcher("root ::= <[7]> <[0]>", VOCABULARY).forced_tokens() == [CONTROL, A]


def test_long_texts_go_on_in_new_sets():
    # More sets than are kept, so that the request moves on, and back past what it took along.
    state = matcher("root ::= [a-z]{300000}")
    for _ in range(300):
        assert state.accept_text(b"x" * 1000)
    assert state.is_completed()
    assert not state.accept_text(b"x")
    for back in (1, 50, 200):
        state.rollback(back)
        assert not state.is_completed()
        for _ in range(back):
            assert state.accept_text(b"y" * 1000)
        assert state.is_completed()
        assert not state.accept_text(b"x")
    assert state.viable_prefix(b"x") == 0
    assert state.steps() == 300


def test_fingerprints():
    def of(text, vocabulary=None):
        return Grammar(parse_grammar(text, vocabulary=vocabulary), vocabulary).fingerprint

    assert of('root ::= "a" | "b"') == of('root ::=\n "a"  | "b"')
    assert len({of(t) for t in ('root ::= "a"', 'root ::= "b"', 'root ::= "a"?')}) == 3
    assert of('root ::= "a"') != of('root ::= "a"', VOCABULARY)
    # Written down, so that a change of them is seen: they stand in snapshots.
    assert of('root ::= "a"') == FINGERPRINT


FINGERPRINT = 18164107538549704830


def test_errors():
    nothing = parse_grammar('root ::= "a" root')
    with pytest.raises(ValueError, match=r'^\[grammar\] Expected a root .* got rule "root", which'):
        Grammar(nothing)
    literal = parse_grammar("root ::= <[3]>", vocabulary=VOCABULARY)
    with pytest.raises(ValueError, match=r"^\[grammar\] Expected a vocabulary .* got none\.$"):
        Grammar(literal)
    small = Vocabulary([b"a"])
    with pytest.raises(ValueError, match=r"^\[grammar\] Expected token ids in \[0, 1\), got 3\.$"):
        Grammar(literal, small)
    stars = parse_grammar("root ::= " + '"a"* ' * 3000)
    with pytest.raises(
        ValueError, match=r"^\[grammar\] Expected a grammar of at most 2000000 edges"
    ):
        Grammar(stars)
    left = "root ::= r0 | r300\n" + "".join(f'r{i} ::= r{i + 1} "a"\n' for i in range(300))
    with pytest.raises(ValueError, match=r"^\[grammar\] Expected left recursion among at most 256"):
        Grammar(parse_grammar(left + 'r300 ::= r0 | "b"'))
    for call in ("can_accept", "accept_token"):
        with pytest.raises(ValueError, match=r"^\[grammar\] Expected a grammar with a vocabulary"):
            getattr(matcher('root ::= "a"'), call)(0)
        with pytest.raises(
            ValueError, match=r"^\[token\] Expected a token id in \[0, 11\), got 11"
        ):
            getattr(matcher('root ::= "a"', VOCABULARY), call)(11)
    with pytest.raises(
        ValueError, match=r"^\[count\] Expected at most 0 steps to take back, got 1"
    ):
        matcher('root ::= "a"').rollback(1)


@pytest.mark.parametrize("question", ["is_completed", "is_terminated", "steps", "history"])
def test_questions_while_another_thread_works(question):
    state = matcher('root ::= "a"*')
    text = b"a" * 5_000_000

    def is_refused() -> bool:
        thread = threading.Thread(target=lambda: state.accept_text(text))
        thread.start()
        try:
            while thread.is_alive():
                getattr(state, question)()
        except RuntimeError as error:
            return "[matcher] Expected one thread at a time" in str(error)
        finally:
            thread.join()
            state.reset()
        return False

    assert any(is_refused() for _ in range(100))
