"""xtc: against the oracle, when it draws, and at its boundaries."""

from __future__ import annotations

import chain_oracle
import numpy as np
import pytest
import stage_oracle as oracle
from mt19937_words import snapshot_giving
from rows import expect_candidates, refill, state_with, untied

from mlx_sampling._ext import Chain, Dist, Greedy, Temperature, TopK, Xtc

# p = 1/2, 1/4, 1/8, 1/8 at ids 1, 3, 0, 2.
HALVES = np.log(np.array([1, 4, 1, 2], dtype=np.float64)).astype(np.float32)
HALVES[2] = np.nextafter(HALVES[2], -1, dtype=np.float32)


def left(row, *stages, **options):
    state = state_with(row, **options)
    Chain([*stages, Greedy()]).sample(state)
    return state


@pytest.mark.parametrize("reference", ["libc++", "libstdc++"])
@pytest.mark.parametrize("probability", [0.3, 0.5, 1.0])
@pytest.mark.parametrize(("threshold", "min_keep"), [(0.01, 1), (0.1, 0), (0.1, 30), (0, 1)])
def test_xtc_is_the_oracle_s(reference, probability, threshold, min_keep):
    rng = np.random.default_rng(3)
    seed = 11
    words = chain_oracle.words_of(seed, 40)
    chain = Chain([Xtc(probability, threshold, min_keep), Greedy()])
    for width in (2, 40, 200):
        state = state_with(untied(rng, width), seed=seed, reference=reference)
        for word in words:
            row = untied(rng, width)
            refill(state, row)
            chain.sample(state)
            u = np.float32(word) / np.float32(2**32)
            expected = oracle.xtc(oracle.candidates(row), probability, threshold, min_keep, u)
            expect_candidates(state, expected)
        assert state.xtc.position == 40
        assert state.distribution.position == 0


@pytest.mark.parametrize(
    ("row", "stage", "position"),
    [
        (HALVES, Xtc(0.5, 0.1), 1),
        (HALVES, Xtc(0, 0.1), 0),
        (HALVES, Xtc(-1, 0.1), 0),
        (HALVES, Xtc(1, 0.5), 1),
        (HALVES, Xtc(1, 0.51), 0),
        (HALVES, Xtc(2, -1), 1),
        ([1.0], Xtc(1, 0.1), 0),
    ],
)
def test_when_it_draws(row, stage, position):
    assert left(row, stage).xtc.position == position


BOUNDARIES = [
    (0.2, 1, [3, 0, 2]),
    (0.2, 3, [3, 0, 2]),
    (0.2, 4, [1, 3, 0, 2]),
    (0.2, 0, [3, 0, 2]),
    (0.3, 1, [1, 3, 0, 2]),  # one above the threshold: nothing to drop
    (0.5, 1, [1, 3, 0, 2]),
    (0.01, 1, [2]),
    (0, 1, [2]),
    (-1, 1, [2]),
    (0.01, 2, [1, 3, 0, 2]),
]


@pytest.mark.parametrize(("threshold", "min_keep", "kept"), BOUNDARIES)
def test_boundaries(threshold, min_keep, kept):
    state = left(HALVES, Xtc(1, threshold, min_keep))
    assert state.candidates()[0].tolist() == kept


@pytest.mark.parametrize(("word", "hits"), [(0, True), (2**31, True), (2**31 + 2**8, False)])
def test_it_acts_up_to_and_with_its_probability(word, hits):
    state = state_with(HALVES)
    state.xtc.restore(snapshot_giving([word]))
    Chain([Xtc(0.5, 0.2), Greedy()]).sample(state)
    assert len(state.candidates()[0]) == (3 if hits else 4)


def test_where_it_misses_it_leaves_the_candidates_alone():
    state = state_with(HALVES)
    state.xtc.restore(snapshot_giving([2**32 - 1]))
    Chain([Xtc(0.5, 0.2), Greedy()]).sample(state)
    ids, _, p = state.candidates()
    assert ids.tolist() == [0, 1, 2, 3]
    assert p.tolist() == [0, 0, 0, 0]


def test_one_candidate_left_by_another_stage_draws_nothing():
    assert left(HALVES, TopK(1), Xtc(1, 0.1)).xtc.position == 0


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e39])
def test_out_of_range(value):
    text = f"{value:g}".replace("+", r"\+")
    message = rf"\[xtc\] Expected a finite probability in float32's range, got {text}\."
    with pytest.raises(ValueError, match=message):
        Xtc(value, 0.1)
    message = rf"\[xtc\] Expected a finite threshold in float32's range, got {text}\."
    with pytest.raises(ValueError, match=message):
        Xtc(0.5, value)
    with pytest.raises(ValueError, match=r"\[xtc\] Expected min_keep >= 0, got -2\."):
        Xtc(0.5, 0.1, -2)


def test_at_most_one_in_a_chain():
    message = r'\[chain\] Expected "xtc" at most once: a request keeps one state for it\.'
    with pytest.raises(ValueError, match=message):
        Chain([Xtc(0.5, 0.1), TopK(5), Xtc(0.5, 0.2), Greedy()])
    Chain([TopK(5), TopK(5), Xtc(0.5, 0.2), Greedy()])


def test_a_step_that_fails_puts_the_stream_back():
    state = state_with([3e38, 1.0])
    before = state.xtc.snapshot()
    with pytest.raises(ValueError, match=r"\[dist\] Expected logits with a finite softmax"):
        Chain([Xtc(0.1, 0.1), Temperature(1e-3), Dist()]).sample(state)
    assert state.xtc.snapshot() == before
