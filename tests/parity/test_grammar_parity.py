"""Grammars beside llama.cpp's: same accept, same reject position, same end legality, token by token.

Only pairs that llama.cpp can be trusted with; what is different on purpose is in
test_grammar_differences.py.
"""

from __future__ import annotations

import codecs
import random
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from grammar_derive import derive, mutate, recurs_on_the_left
from grammar_oracle import Grammar, trace
from grammar_texts import ALPHABET, FEATURES, TOKEN_FEATURES, random_grammar
from grammar_upstream import Answer, Hung, ask

from mlx_sampling import GrammarError, Vocabulary, _ext

PAIRS = 3_600
TOKEN_PAIRS = 700
TEXTS_EACH = 3
MASKS = 120


@pytest.fixture(scope="module")
def vocabulary(upstream_vocabulary, model_path) -> Vocabulary:
    """The packaged model's, with the end tokens that llama.cpp counts as such."""
    ours = Vocabulary.from_gguf(model_path)
    return replace(ours, eos_token_ids=upstream_vocabulary.end_of_generation)


def test_texts_of_tokens_are_those_of_llama_cpp(upstream_vocabulary, vocabulary):
    texts = vocabulary.texts()
    assert upstream_vocabulary.size == vocabulary.size
    for token, piece in enumerate(upstream_vocabulary.pieces):
        control = token in vocabulary.control_token_ids
        assert piece == (b"" if control else texts[token]), token
    for token in vocabulary.control_token_ids:
        assert upstream_vocabulary.texts[token] == texts[token]


class Cutter:
    """Cuts texts into tokens of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        native = vocabulary.native
        self.texts = vocabulary.texts()
        self._ids = {t: i for i, t in enumerate(self.texts) if native.is_text(i)}
        self._longest = max(map(len, self._ids))

    def path(
        self, text: bytes, draw: random.Random | None, at_characters: bool
    ) -> list[int] | None:
        """Tokens that spell a text: the longest that fits, or any; None where there are none.

        Args:
            text: UTF-8.
            draw: None for the longest tokens.
            at_characters: Whether no token may end within a character.
        """
        tokens, at = [], 0
        while at < len(text):
            stops = range(at + 1, min(at + self._longest, len(text)) + 1)
            stops = [
                stop
                for stop in stops
                if text[at:stop] in self._ids and (not at_characters or is_cut(text, stop))
            ]
            if not stops:
                return None
            stop = draw.choice(stops) if draw else stops[-1]
            tokens.append(self._ids[text[at:stop]])
            at = stop
        return tokens

    def token_of(self, piece: str | int) -> int | None:
        return piece if isinstance(piece, int) else self._ids.get(piece.encode())


def is_cut(text: bytes, at: int) -> bool:
    """Whether a place lies between two characters."""
    return at == len(text) or text[at] & 0xC0 != 0x80


def splits_lead_bytes_badly(grammar: Grammar) -> bool:
    """Whether llama.cpp may refuse the first byte of a character that a negated class matches."""
    return any(
        node.kind == "chars" and node.negated and any(last >= 0x80 for _, last in node.ranges)
        for node in grammar.nodes()
    )


def ours(grammar: _ext.Grammar, path: list[int], texts: list[bytes]) -> Answer:
    matcher = _ext.GrammarMatcher(grammar)
    can_end = []
    for accepted, token in enumerate(path):
        can_end.append(matcher.is_completed())
        assert (
            matcher.can_accept(token) == matcher.accept_token(token) or matcher.steps() == accepted
        )
        if matcher.steps() == accepted:
            return Answer(accepted, can_end, [])
    return Answer(len(path), [*can_end, matcher.is_completed()], [])


@dataclass
class Case:
    grammar: str
    compiled: _ext.Grammar
    paths: list[list[int]]


def same(case: Case, path: list[int], answer: Answer, texts: list[bytes]) -> bool:
    """Compares one path; within a character llama.cpp may let the generation end."""
    mine = ours(case.compiled, path, texts)
    if mine.accepted != answer.accepted:
        return False
    text = b"".join(texts[token] for token in path)
    at = 0
    for i, (one, other) in enumerate(zip(mine.can_end, answer.can_end, strict=True)):
        if one != other and is_cut(text, at):
            return False
        at += len(texts[path[i]]) if i < len(path) else 0
    return True


def sound_grammar(draw: random.Random, **options) -> tuple[str, set[str], Grammar] | None:
    made = random_grammar(draw, large_counts=False, **options)
    grammar = Grammar(made.text, {"<repo_name>": 3, "<|im_start|>": 1})
    if recurs_on_the_left(grammar) or not grammar.is_productive(grammar.rules["root"]):
        return None
    return made.text, made.features, grammar


def same_if_pruned(grammar: Grammar, fragments: list) -> bool:
    """Whether it makes no difference that llama.cpp goes on where nothing can follow."""
    return trace(grammar, fragments) == trace(grammar, fragments, prune=False)


def could_be_text(grammar: Grammar, fragments: list) -> bool:
    """Whether llama.cpp might match the text of a control token."""
    controls = (i for i, fragment in enumerate(fragments) if fragment[1] is None)
    return any(trace(grammar, [*fragments[:i], b"<"]).alive[-1] for i in controls)


def compare(
    cases: list[Case], features: Counter, vocabulary: Vocabulary, capsys, label: str
) -> None:
    answers = ask([(case.grammar, case.paths) for case in cases])
    texts = vocabulary.texts()
    pairs = accepted = hung = 0
    for case, found in zip(cases, answers, strict=True):
        if isinstance(found, Hung):
            hung += 1
            print(f"llama.cpp does not come back from {case.grammar!r}")
            continue
        assert found is not None, f"llama.cpp refuses {case.grammar!r}"
        for path, answer in zip(case.paths, found, strict=True):
            assert same(case, path, answer, texts), (
                f"{case.grammar!r}\n{[texts[t] for t in path]}\n"
                f"llama.cpp: {answer}\nours: {ours(case.compiled, path, texts)}"
            )
            pairs += 1
            accepted += answer.accepted == len(path) and answer.can_end[-1]
    share = accepted / pairs
    with capsys.disabled():
        print(
            f"\n{label}: {len(cases)} grammars, {pairs} paths, {share:.0%} accepted; grammars with"
        )
        print("  " + ", ".join(f"{name} {count}" for name, count in features.most_common()))
    assert 0.2 <= share <= 0.8
    assert hung <= len(cases) / 100


def test_texts(vocabulary, capsys):
    draw = random.Random(1)
    cutter = Cutter(vocabulary)
    cases: list[Case] = []
    features: Counter[str] = Counter()
    pairs = 0
    while pairs < PAIRS:
        made = sound_grammar(draw)
        if made is None:
            continue
        text, used, grammar = made
        compiled = _ext.Grammar(
            _ext.parse_grammar(text, vocabulary=vocabulary.native), vocabulary.native
        )
        case = Case(text, compiled, [])
        whole_characters = splits_lead_bytes_badly(grammar)
        for _ in range(TEXTS_EACH):
            pieces = derive(grammar, draw)
            if pieces is None:
                continue
            if draw.random() < 0.5:
                pieces = mutate(pieces, draw)
            word = "".join(map(str, pieces)).encode()
            paths = [
                cutter.path(word, None, whole_characters),
                cutter.path(word, draw, True),
                cutter.path(word, draw, whole_characters),
            ]
            if None in paths or not same_if_pruned(grammar, [word]):
                continue
            case.paths += paths
            pairs += 1
        if case.paths:
            cases.append(case)
            features.update(used)
    compare(cases, features, vocabulary, capsys, f"{pairs} pairs of text")
    assert min(features[name] for name in FEATURES) >= 10


def decodes(text: bytes) -> bool:
    """Whether a text is UTF-8, its last character whole or not: within tokens llama.cpp does not look.

    And without NUL, where it stops looking.
    """
    try:
        codecs.getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        return False
    return b"\0" not in text


def test_whole_masks(vocabulary, capsys):
    """Every token of the vocabulary at some place of a text, which may lie within a character."""
    draw = random.Random(4)
    cutter = Cutter(vocabulary)
    native, texts = vocabulary.native, vocabulary.texts()
    tokens = [token for token in range(vocabulary.size) if native.is_text(token)]
    cases: list[Case] = []
    while len(cases) < MASKS:
        made = sound_grammar(draw)
        if made is None or splits_lead_bytes_badly(made[2]):
            continue
        text, _, grammar = made
        unpruned = [node for node in grammar.nodes() if not grammar.is_productive(node)]
        pieces = None if unpruned else derive(grammar, draw)
        path = pieces and cutter.path("".join(map(str, pieces)).encode(), draw, False)
        if not path:
            continue
        compiled = _ext.Grammar(_ext.parse_grammar(text, vocabulary=native), native)
        cases.append(Case(text, compiled, [path[: draw.randrange(len(path) + 1)]]))
    answers = ask([(case.grammar, case.paths) for case in cases], tokens)
    compared = set_bits = 0
    for case, found in zip(cases, answers, strict=True):
        if isinstance(found, Hung):
            continue
        (path,), (answer,) = case.paths, found
        matcher = _ext.GrammarMatcher(case.compiled)
        assert all(matcher.accept_token(token) for token in path)
        words = np.zeros(vocabulary.size // 32, np.uint32)
        matcher.fill_bitmask(words)
        mine = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()
        before = b"".join(texts[token] for token in path)
        differ = {*mine}.difference(native.ends).symmetric_difference(answer.allowed)
        differ = {token for token in differ if decodes(before + texts[token])}
        assert not differ, f"{case.grammar!r} after {before!r}: {[texts[t] for t in differ][:9]}"
        compared += 1
        set_bits += len(answer.allowed)
    with capsys.disabled():
        print(f"\n{compared} masks, {set_bits / compared:.0f} tokens allowed on average")
    assert compared > 0.95 * MASKS
    assert 100 < set_bits / compared < 25_000


DAMAGE = (*'[](){},*|-_#.a1 "', *["", " ", "a"] * 4, "\\", "\\x4", "\n", "::=")


def test_damaged_texts_are_refused_alike(vocabulary, capsys):
    draw = random.Random(3)
    texts: list[str] = []
    refused: list[bool] = []
    while len(texts) < 2_000:
        text = random_grammar(draw, large_counts=False).text
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice(DAMAGE) + text[at + draw.randint(0, 2) :]
        try:
            _ext.parse_grammar(text)
        except GrammarError as error:
            # Ours alone, and what llama.cpp would not come back from.
            own = ("defined already", "a maximum of at least", "code point up to", "surrogate")
            if any(reason in str(error) for reason in own):
                continue
            refused.append(True)
        else:
            if recurs_on_the_left(Grammar(text)):
                continue
            refused.append(False)
        texts.append(text)
    answers = ask([(text, []) for text in texts])
    for text, mine, answer in zip(texts, refused, answers, strict=True):
        if not isinstance(answer, Hung):
            assert (answer is None) == mine, f"{text!r}"
    share = sum(refused) / len(texts)
    with capsys.disabled():
        print(f"\n{len(texts)} damaged grammars, {share:.0%} refused")
    assert 0.2 <= share <= 0.8


def test_token_literals(vocabulary, capsys):
    draw = random.Random(2)
    cutter = Cutter(vocabulary)
    letter = cutter.token_of("a")
    written = [(3, "<repo_name>"), (1, "<|im_start|>"), (5, None), (letter, None)]
    others = [1, 3, 5, letter, cutter.token_of("b")]
    cases: list[Case] = []
    features: Counter[str] = Counter()
    pairs = 0
    while pairs < TOKEN_PAIRS:
        made = sound_grammar(draw, tokens=written, size=2)
        if made is None or not made[1] & set(TOKEN_FEATURES):
            continue
        text, used, grammar = made
        compiled = _ext.Grammar(
            _ext.parse_grammar(text, vocabulary=vocabulary.native), vocabulary.native
        )
        case = Case(text, compiled, [])
        for _ in range(TEXTS_EACH):
            pieces = derive(grammar, draw, others)
            if pieces is None:
                continue
            if draw.random() < 0.5:
                pieces = mutate(pieces, draw, [*ALPHABET, *others])
            # One character or literal a token: llama.cpp forgets that a token was partly matched.
            path = [cutter.token_of(piece) for piece in pieces]
            if None in path:
                continue
            controls = vocabulary.control_token_ids
            fragments = [(t, None if t in controls else cutter.texts[t]) for t in path]
            if same_if_pruned(grammar, fragments) and not could_be_text(grammar, fragments):
                case.paths.append(path)
                pairs += 1
        if case.paths:
            cases.append(case)
            features.update(used)
    compare(cases, features, vocabulary, capsys, f"{pairs} pairs of tokens")
    assert min(features[name] for name in TOKEN_FEATURES) >= 50
