"""infill against a slow version that compares every pair of candidates."""

from __future__ import annotations

import numpy as np
import pytest

from mlx_sampling._ext import Chain, Greedy, Infill, LogitBias, RequestState

f32 = np.float32
INF = float("inf")
TEXTS = [b"", b"a", b"ab", b"abc", b"b", b"abd", b"ab", b"\xff", b"\xffz", b"", b"c"]


def oracle(row, texts, ends, end):
    """(ids, logits, p) of candidates without ties."""
    ids = [int(i) for i in np.argsort(-row)]
    logits = [row[i] for i in ids]
    p = [np.exp(logit - logits[0], dtype=f32) for logit in logits]
    total = f32(0)
    for value in p:
        total += value
    p = [value / total for value in p]
    sums = {True: f32(0), False: f32(0)}
    for i, value in zip(ids, p, strict=True):
        sums[i in ends] += value

    def keep(test):
        nonlocal ids, logits, p
        kept = [k for k in range(len(ids)) if test(k)]
        ids, logits, p = ([values[k] for k in kept] for values in (ids, logits, p))
        total = f32(0)
        for value in p:
            total += value
        p = [value / total for value in p]

    if f32(3) * sums[True] * f32(len(ids)) > sums[False]:
        keep(lambda k: ids[k] in ends)
        return ids, logits, p
    for a in range(len(ids)):
        for b in range(len(ids)):
            if logits[a] == -INF:
                break
            if a == b or logits[b] == -INF:
                continue
            if texts[ids[a]] and texts[ids[b]].startswith(texts[ids[a]]):
                winner, loser = (b, a) if p[b] > p[a] else (a, b)
                p[winner] += p[loser]
                p[loser], logits[loser] = f32(0), f32(-INF)
    first = ids[0], logits[0], p[0]
    left = sum(1 for i, value in zip(ids, p, strict=True) if i not in ends and value >= f32(0.2))
    if left == 0:
        kept = [value for i, value in zip(ids, p, strict=True) if i in ends]
        return [end], [f32(1)], [kept[0] if kept else first[2]]
    keep(lambda k: ids[k] in ends or p[k] >= f32(0.2))
    keep(lambda k: ids[k] in ends or p[k] >= f32(1 / (left + 1)))
    return ids, logits, p


def run(row, texts, ends, end):
    chain = Chain([LogitBias([]), Infill(texts, ends, end), Greedy()])
    state = RequestState(1)
    state.set_row(np.ascontiguousarray(row, dtype=np.float32))
    state.finish_row()
    chain.sample(state)
    return state.candidates()


def test_known_merge():
    # "ab" takes in "abc" and "abd"; "b" stays; 0.9 of the mass is text, so nothing ends.
    texts = [b"", b"ab", b"abc", b"abd", b"b"]
    row = np.log(np.array([1e-4, 0.4, 0.2, 0.1, 0.3]))
    ids, _, p = run(row, texts, [0], 0)
    assert ids.tolist() == [1, 0]
    assert p[0] == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("ends", [[0, 9], [0], [9, 10]])
def test_it_is_the_slow_version_s(ends):
    rng = np.random.default_rng(11)
    shapes = set()
    for trial in range(400):
        row = (rng.permutation(len(TEXTS)) * rng.choice([0.1, 0.3, 1, 2])).astype(np.float32)
        row[ends] -= f32(rng.choice([0, 4, 12, 30]))
        row += rng.random(len(TEXTS)).astype(np.float32) / 64
        expected = oracle(row, TEXTS, ends, 9)
        ids, logits, p = run(row, TEXTS, ends, 9)
        assert ids.tolist() == expected[0], trial
        assert logits.tolist() == [float(value) for value in expected[1]]
        assert p == pytest.approx(np.array(expected[2]), rel=1e-6)
        shapes.add((len(ids), ids[0] in ends))
    assert len(shapes) > 3


def test_ids_without_a_text_merge_with_none():
    ids, _, _ = run(np.zeros(4), [b"a", b"ab"], [], 0)
    assert sorted(ids.tolist()) == [0, 2, 3]


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"\[infill\] Expected the texts of the vocabulary"):
        Infill([], [0], 0)
