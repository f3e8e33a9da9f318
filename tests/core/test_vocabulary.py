"""The compiled vocabulary and its trie, against what their definitions say of each token."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from mlx_sampling._ext import Vocabulary


def random_texts(seed: int, count: int) -> list[bytes]:
    """Short texts over few bytes, so that many share a prefix and some are equal; some empty."""
    draw = random.Random(seed)
    return [bytes(draw.choices(b"\x00ab\xff", k=draw.randrange(7))) for _ in range(count)]


def spelled(vocabulary: Vocabulary) -> list[tuple[bytes, int]]:
    """(bytes, id) pairs in the trie's order, checking its links on the way."""
    end, first, depth, byte, tokens = vocabulary.trie()
    last = np.append(first[1:], len(tokens))
    pairs = []
    path: list[tuple[int, bytes]] = [(0, b"")]
    assert (end[0], depth[0], first[0]) == (len(end), 0, 0)
    for node in range(len(end)):
        while path[-1][0] != 0 and end[path[-1][0]] <= node:
            path.pop()
        if node > 0:
            parent, text = path[-1]
            assert end[node] <= end[parent]
            path.append((node, text + bytes([byte[node]])))
        assert depth[node] == len(path[-1][1])
        pairs += [(path[-1][1], int(token)) for token in tokens[first[node] : last[node]]]
    return pairs


@pytest.mark.parametrize("seed", range(20))
def test_trie_holds_text_tokens_in_order(seed):
    texts = random_texts(seed, 200)
    vocabulary = Vocabulary(texts, control=[3, 9], ends=[9, 7, 7])
    texts_only = [(text, i) for i, text in enumerate(texts) if text and i not in (3, 7, 9)]
    assert spelled(vocabulary) == sorted(texts_only)
    for i, text in enumerate(texts):
        assert vocabulary.bytes_of(i) == text
        assert vocabulary.is_text(i) == (text != b"" and i not in (3, 7, 9))
        assert vocabulary.is_end(i) == (i in (7, 9))
    assert vocabulary.ends == [7, 9]


@pytest.mark.parametrize("seed", range(5))
def test_find_gives_the_lowest_of_equal_tokens(seed):
    texts = random_texts(seed, 60)
    vocabulary = Vocabulary(texts, control=range(0, 60, 7), ends=[5, 59])
    for text in {*texts, *random_texts(seed + 100, 300), b"aaaaaaaaa"}:
        assert vocabulary.find(text) == (texts.index(text) if text in texts else None)


def test_trie_of_no_text_is_a_root():
    assert spelled(Vocabulary([b"", b"</s>"], ends=[1])) == []
    assert spelled(Vocabulary([b"x" * 65_535])) == [(b"x" * 65_535, 0)]


def test_fingerprint_is_of_everything():
    def of(texts, control=(), ends=()):
        return Vocabulary(texts, list(control), list(ends)).fingerprint

    assert of([b"a", b"b"]) == of([b"a", b"b"])
    others = [
        of([b"a", b"b"]),
        of([b"b", b"a"]),
        of([b"ab", b""]),
        of([b"a", b"b", b""]),
        of([b"a", b"b"], control=[0]),
        of([b"a", b"b"], ends=[0]),
        of([b"a", b"b"], ends=[1]),
        of([b"a\x00", b"b"]),
    ]
    assert len(set(others)) == len(others)


def test_fingerprint_is_the_same_on_every_machine():
    # FNV-1a over begins 0, 1, 3, kinds text and end, and the bytes b"abc", 32-bit little-endian:
    #   for word in (0, 1, 3, 0, 2): data += word.to_bytes(4, "little")
    value = 0xCBF29CE484222325
    data = b"".join(word.to_bytes(4, "little") for word in (0, 1, 3, 0, 2)) + b"abc"
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    assert Vocabulary([b"a", b"bc"], ends=[1]).fingerprint == value


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "Expected at least one token, got none."),
        ([b"a"], {"control": [1]}, r"Expected control tokens in \[0, 1\), got 1."),
        ([b"a"], {"ends": [7]}, r"Expected end tokens in \[0, 1\), got 7."),
        (
            [b"", b"a" * 65_536],
            {},
            "Expected tokens of at most 65535 bytes, got 65536 for token 1.",
        ),
    ],
)
def test_bad_vocabulary_is_refused(texts, options, message):
    with pytest.raises(ValueError, match=rf"^\[vocabulary\] {message}$"):
        Vocabulary(texts, **options)


@pytest.mark.parametrize("ask", ["bytes_of", "is_text", "is_end"])
def test_token_outside_is_refused(ask):
    with pytest.raises(ValueError, match=r"^\[vocabulary\] Expected a token id in \[0, 1\), got 1"):
        getattr(Vocabulary([b"a"]), ask)(1)


def test_large_vocabulary_is_made_quickly():
    draw = random.Random(0)
    texts = [draw.randbytes(draw.choice((2, 3, 4, 5, 6, 7, 9, 12, 30))) for _ in range(202_048)]

    def seconds() -> float:
        start = time.perf_counter()
        Vocabulary(texts)
        return time.perf_counter() - start

    # About 0.08 s on the slowest machine tried; a build that is quadratic anywhere takes minutes.
    assert min(seconds() for _ in range(3)) < 1
