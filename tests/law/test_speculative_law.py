"""Speculative acceptance gives the target's law: chi-square over many runs, and planted errors it must see.

Each run drafts K tokens from q, verifies them, and is completed with tokens of p up to K + 1: their joint law
must be the product of the rows of p. Per pair of distributions the single tokens and the first two together
are tested. Seeds, bins and significance are fixed here; Bonferroni over all pairs.
"""

from __future__ import annotations

import chi_square
import numpy as np
import pytest

from mlx_sampling import Mt19937, verify_draft_batch

f32 = np.float32
RUNS = 200_000
PAIRS = 208
SIGNIFICANCE = 1e-3  # of all pairs together
TESTS = PAIRS * 6  # at most: five tokens and the first two together
BINS = 100  # of the joint law, at most


def normalised(weights):
    return (weights / weights.sum(axis=1, keepdims=True)).astype(f32)


def filtered(rows, kept):
    """Each row's greatest `kept` entries, normalised, as top-k leaves them."""
    found = rows.copy()
    for row in found:
        row[np.argsort(-row, kind="stable")[kept:]] = 0
    return normalised(found.astype(float))


def pair(index):
    """The rows of p [K + 1, V] and q [K, V] of one pair; eight kinds in turn."""
    rng = np.random.default_rng(1000 + index)
    width, drafted = int(rng.integers(2, 65)), int(rng.integers(1, 5))
    p = normalised(rng.exponential(size=(drafted + 1, width)) ** 2 + 1e-3)
    q = normalised(rng.exponential(size=(drafted, width)) ** 2 + 1e-3)
    kind = ("any", "near", "equal", "hole", "disjoint", "filtered", "target", "onehot")[index % 8]
    if kind == "near":
        q = normalised(p[:-1] * np.exp(0.3 * rng.standard_normal(q.shape)))
    elif kind == "equal":
        q = p[:-1].copy()
    elif kind == "hole":  # q = 0 where p > 0
        q[:, :: max(2, width // 3)] = 0
        q = normalised(q.astype(float))
    elif kind == "disjoint":
        p[:, : width // 2], q[:, width // 2 :] = 0, 0
        p, q = normalised(p.astype(float)), normalised(q.astype(float))
    elif kind == "filtered":
        p, q = filtered(p, max(1, width // 3)), filtered(q, max(1, width // 4))
    elif kind == "target":
        p = filtered(p, max(1, width // 3))
    elif kind == "onehot":
        q = filtered(q, 1)
    return p, q


def drawn(rows, runs, rng):
    """Tokens [runs, K] of the laws in `rows` [K, V], independent of each other."""
    tokens = np.empty((runs, len(rows)), np.int64)
    for i, row in enumerate(rows.astype(float)):
        ends = np.cumsum(row / row.sum())
        last = np.flatnonzero(row)[-1]
        tokens[:, i] = np.minimum(np.searchsorted(ends, rng.random(runs), side="right"), last)
    return tokens


def emitted(tokens, accepted, next_tokens, p, rng):
    """The K + 1 tokens of each run: kept drafts, the next token, and tokens of p after it."""
    found = drawn(p, len(tokens), rng)
    positions = np.arange(tokens.shape[1] + 1)
    kept = positions[:-1] < accepted[:, None]
    found[:, :-1][kept] = tokens[kept]
    found[np.arange(len(tokens)), accepted] = next_tokens
    return found


def p_values(found, p):
    """Of each position alone, and of the first two together in at most BINS bins."""
    width = p.shape[1]
    values = [
        chi_square.p_value(np.bincount(found[:, i], minlength=width), row)
        for i, row in enumerate(p.astype(float))
    ]
    joint = np.outer(p[0].astype(float), p[1].astype(float)).ravel()
    bins = np.arange(width * width) % max(BINS - 1, 1) if width * width > BINS else None
    cells = found[:, 0] * width + found[:, 1]
    if (joint[np.unique(cells)] <= 0).any():
        return [*values, 0.0]
    if bins is not None:
        joint, cells = np.bincount(bins, weights=joint), bins[cells]
    return [*values, chi_square.p_value(np.bincount(cells, minlength=len(joint)), joint)]


def verified(tokens, q, p, seed):
    return verify_draft_batch(tokens, q, p, Mt19937(seed))


def faulty(fault):
    """A slow twin of the library's acceptance, right but for the fault named."""

    def verify(tokens, q, p, seed):
        rng = np.random.default_rng(seed)
        runs, drafted = tokens.shape
        p, q = p.astype(float), q.astype(float)
        accepted = np.full(runs, drafted)
        next_tokens = drawn(p[-1:], runs, rng)[:, 0]
        alive = np.ones(runs, bool)
        for i in range(drafted):
            t = tokens[:, i]
            above, below = (q, p) if fault == "wrong direction" else (p, q)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(below[i][t] > 0, above[i][t] / below[i][t], 1)
            keep = (rng.random(runs) <= np.minimum(ratio, 1)) & (p[i][t] > 0)
            rejected = alive & ~keep
            residual = np.maximum(p[i] - q[i], 0)
            weights = residual if residual.sum() > 0 else p[i]
            total = 1.0 if fault == "residual not renormalised" else weights.sum()
            ends = np.cumsum(weights)
            at = np.searchsorted(ends, total * rng.random(runs))
            at = np.minimum(at, np.flatnonzero(weights > 0)[-1])
            next_tokens[rejected], accepted[rejected] = at[rejected], i
            alive &= keep
        return accepted, next_tokens

    return verify


def values_of(index, verify, drafting=None):
    """p-values of one pair. `drafting` is the law drafts come from, where it is not q."""
    p, q = pair(index)
    rng = np.random.default_rng(index)
    tokens = drawn(q if drafting is None else drafting, RUNS, rng)
    accepted, next_tokens = verify(tokens, q, p, 5000 + index)
    return p_values(emitted(tokens, np.asarray(accepted), np.asarray(next_tokens), p, rng), p)


@pytest.mark.parametrize("index", range(PAIRS))
def test_the_law_is_the_target_s(index):
    assert min(values_of(index, verified)) > SIGNIFICANCE / TESTS


def test_the_pairs_are_what_they_are_said_to_be():
    pairs = [pair(index) for index in range(PAIRS)]
    assert {len(q) for _, q in pairs} == {1, 2, 3, 4}
    assert min(p.shape[1] for p, _ in pairs) <= 3
    assert max(p.shape[1] for p, _ in pairs) >= 62
    assert sum(bool(((q == 0) & (p[:-1] > 0)).any()) for p, q in pairs) > 50
    assert sum(bool((q == p[:-1]).all()) for p, q in pairs) >= 26
    assert sum(not ((q > 0) & (p[:-1] > 0)).any() for p, q in pairs) >= 20


@pytest.mark.parametrize("fault", [None, "residual not renormalised", "wrong direction"])
def test_planted_errors_are_seen(fault):
    """The twin without a fault passes; each fault is seen in most pairs that can show it."""
    rejected = [
        min(values_of(index, faulty(fault))) < SIGNIFICANCE / TESTS for index in range(0, 24)
    ]
    if fault is None:
        assert sum(rejected) == 0
    else:
        assert sum(rejected) >= 12


def test_q_before_filtering_is_seen():
    """Drafts of a filtered q, verified against the q that was not: the library is asked wrongly."""
    rejected = []
    for index in range(0, 24, 8):
        _, q = pair(index)
        kept = max(1, q.shape[1] // 4)
        values = values_of(index, verified, drafting=filtered(q, kept))
        rejected.append(min(values) < SIGNIFICANCE / TESTS)
    assert all(rejected)


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_depend_on_the_drafts(seed):
    """As in a model: each row follows from the token before it, and so does the joint law."""
    rng = np.random.default_rng(seed)
    width, drafted = 4, 2 + seed % 2
    p, q = (normalised(rng.exponential(size=(width, width)) ** 2 + 0.01) for _ in range(2))
    tokens = np.empty((RUNS, drafted), np.int64)
    before = np.zeros(RUNS, np.int64)
    for i in range(drafted):
        tokens[:, i] = before = following(q, before, rng)
    contexts = np.concatenate([np.zeros((RUNS, 1), np.int64), tokens], axis=1)
    found = verify_draft_batch(tokens, q[contexts[:, :-1]], p[contexts], Mt19937(seed))
    out = np.empty((RUNS, drafted + 1), np.int64)
    before = np.zeros(RUNS, np.int64)
    for i in range(drafted + 1):
        fresh = following(p, before, rng)
        out[:, i] = np.where(found.accepted == i, found.next_tokens, fresh)
        if i < drafted:
            out[:, i] = np.where(found.accepted > i, tokens[:, i], out[:, i])
        before = out[:, i]
    joint = np.ones(1)
    for _ in range(drafted + 1):
        last = np.arange(len(joint)) % width if len(joint) > 1 else np.zeros(1, np.int64)
        joint = (joint[:, None] * p.astype(float)[last]).ravel()
    cells = np.zeros(RUNS, np.int64)
    for i in range(drafted + 1):
        cells = cells * width + out[:, i]
    counts = np.bincount(cells, minlength=len(joint))
    assert chi_square.p_value(counts, joint) > SIGNIFICANCE / 4


def following(chain, before, rng):
    ends = np.cumsum(chain.astype(float), axis=1)
    u = rng.random(len(before))[:, None] * ends[before][:, -1:]
    return (u >= ends[before]).sum(axis=1).clip(max=chain.shape[1] - 1)


def test_the_chi_square_law():
    """Known quantiles: of 1, 8 and 100 degrees of freedom."""
    for statistic, freedom, expected in [
        (3.841459, 1, 0.05),
        (10.82757, 1, 0.001),
        (15.50731, 8, 0.05),
        (26.12448, 8, 0.001),
        (124.3421, 100, 0.05),
    ]:
        assert chi_square.survival(statistic, freedom) == pytest.approx(expected, rel=1e-5)
    assert chi_square.survival(5563, 8) < 1e-300
    assert chi_square.p_value([5, 0], [1.0, 0.0]) == 1.0
    assert chi_square.p_value([5, 1], [1.0, 0.0]) == 0.0
