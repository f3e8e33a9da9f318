"""top_k, top_p, min_p, typical_p and top_n_sigma: against the oracle, and at their boundaries."""

from __future__ import annotations

import numpy as np
import pytest
import stage_oracle as oracle
from rows import expect_candidates, state_with, untied

from mlx_sampling._ext import Chain, Greedy, MinP, Temperature, TopK, TopNSigma, TopP, TypicalP

INF = float("inf")
REFERENCES = ["libc++", "libstdc++"]


def left(row, *stages, reference="libc++"):
    state = state_with(row, reference=reference)
    Chain([*stages, Greedy()]).sample(state)
    return state


def ids(row, *stages, reference="libc++"):
    return left(row, *stages, reference=reference).candidates()[0].tolist()


CASES = [
    (TopK, oracle.top_k, [(k,) for k in (-3, 0, 1, 2, 40, 128, 129, 500, 2**31 - 1, 2**40)]),
    (TopP, oracle.top_p, [(p, n) for p in (-1, 0, 0.1, 0.5, 0.95, 1, 2) for n in (0, 1, 3, 400)]),
    (MinP, oracle.min_p, [(p, n) for p in (-1, 0, 1e-4, 0.1, 1, 1.5) for n in (0, 1, 3, 400)]),
    (TypicalP, oracle.typical_p, [(p, n) for p in (-1, 0, 0.2, 0.9, 1) for n in (0, 1, 3, 400)]),
    (TopNSigma, oracle.top_n_sigma, [(n,) for n in (-1, 0, 0.01, 1, 2.5, 1e30)]),
]


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize(("stage", "slow", "parameters"), CASES, ids=[c[1].__name__ for c in CASES])
def test_stages_are_the_oracle_s(stage, slow, parameters, reference):
    rng = np.random.default_rng(len(parameters))
    compared = 0
    for width in (1, 2, 3, 60, 129, 700, 1024, 1025, 1300):
        for scale in (0.1, 3.0):
            row = untied(rng, width, scale)
            for values in parameters:
                try:
                    expected = slow(oracle.candidates(row), *values)
                except oracle.Tied:
                    continue
                expect_candidates(left(row, stage(*values), reference=reference), expected)
                compared += 1
    assert compared >= 100


@pytest.mark.parametrize(
    ("stage", "slow", "parameters"), CASES[1:3] + CASES[4:], ids=["top_p", "min_p", "top_n_sigma"]
)
def test_masks(stage, slow, parameters):
    # A row of one mask at most, so that the order of masks does not matter where they are kept.
    rng = np.random.default_rng(4)
    for width in (2, 40, 200):
        row = untied(rng, width)
        row[int(rng.integers(width))] = -INF
        for values in parameters:
            expect_candidates(left(row, stage(*values)), slow(oracle.candidates(row), *values))


def test_top_n_sigma_leaves_masks_out_of_the_mean():
    # Mean 2 and deviation 1 of [1, 3]: the floor is 3 - n.
    row = [1, -INF, 3, -INF]
    assert left(row, TopNSigma(1.9)).candidates()[1].tolist() == [-INF, -INF, 3, -INF]
    assert left(row, TopNSigma(2)).candidates()[1].tolist() == [1, -INF, 3, -INF]


def test_top_n_sigma_at_its_very_floor():
    # n such that a logit stands at the floor, or an ulp beside it: the sum of squares shows in it.
    rng = np.random.default_rng(12)
    for _ in range(60):
        row = untied(rng, 30)
        slow = oracle.candidates(row)
        deviation = oracle.deviation([c.logit for c in slow])
        for x in row:
            n = float((row.max() - x) / deviation)
            state = left(row, TopNSigma(n))
            expect_candidates(state, oracle.top_n_sigma(oracle.candidates(row), n))


@pytest.mark.parametrize("reference", REFERENCES)
def test_top_p_s_first_look_counts_as_sorted(reference):
    row = np.zeros(2000, dtype=np.float32)
    found = ids(row, TopP(0.1), reference=reference)
    assert len(found) == 200
    assert ids(row, TopP(0.1), TopK(5), reference=reference) == found[:5]


@pytest.mark.parametrize("reference", REFERENCES)
def test_sorted_candidates_are_taken_as_they_stand(reference):
    rng = np.random.default_rng(6)
    row = untied(rng, 1500)
    first = TopK(1400)
    for stage, slow, values in [
        (TopK, oracle.top_k, (7,)),
        (TopP, oracle.top_p, (0.9, 1)),
        (MinP, oracle.min_p, (0.05, 1)),
        (MinP, oracle.min_p, (0.05, 1390)),
    ]:
        expected = slow(oracle.top_k(oracle.candidates(row), 1400), *values)
        expect_candidates(left(row, first, stage(*values), reference=reference), expected)


def test_p_is_0_until_a_stage_writes_it():
    row = [1.0, 3.0, 2.0]
    assert left(row, TopK(2)).candidates()[2].tolist() == [0, 0]
    assert left(row, MinP(0.3)).candidates()[2].tolist() == [0, 0]
    assert left(row, TopP(0.999)).candidates()[2].sum() == pytest.approx(1)


# exp of these sums to 4 + 2 + 1 + 1 = 8: p = 1/2, 1/4, 1/8, 1/8.
HALVES = np.log(np.array([1, 4, 1, 2], dtype=np.float64)).astype(np.float32)

TOP_P = [
    (0, 0, [1]),
    (0, 1, [1]),
    (0.49, 1, [1]),
    (0.51, 1, [1, 3]),
    (0.74, 1, [1, 3]),
    (0.49, 2, [1, 3]),
    (0.999, 1, 4),
    (0.1, 4, 4),
    (0.1, 10**6, 4),
    (1, 1, [0, 1, 2, 3]),
    (1.5, 1, [0, 1, 2, 3]),
]


@pytest.mark.parametrize(("p", "min_keep", "kept"), TOP_P)
def test_top_p_boundaries(p, min_keep, kept):
    found = ids(HALVES, TopP(p, min_keep))
    assert found == kept if isinstance(kept, list) else sorted(found) == list(range(kept))


def test_top_p_is_reached_by_equality():
    # p = 1/4 each, exactly.
    for reference in REFERENCES:
        assert len(ids([1, 1, 1, 1], TopP(0.5), reference=reference)) == 2
        assert len(ids([1, 1, 1, 1], TopP(np.nextafter(np.float32(0.5), 1)))) == 3


MIN_P = [
    (0, 1, [0, 1, 2, 3]),
    (0.2, 1, [0, 1, 2, 3]),
    (0.3, 1, [1, 3]),
    (0.6, 1, [1]),
    (1, 1, [1]),
    (1, 2, [1, 3]),
    (2, 1, [1]),
    (2, 0, [1]),
]


@pytest.mark.parametrize(("p", "min_keep", "kept"), MIN_P)
def test_min_p_boundaries(p, min_keep, kept):
    assert ids(HALVES, MinP(p, min_keep)) == kept


def test_min_p_keeps_the_order_and_does_not_count_as_sorted():
    # Were it sorted, top_k would cut without looking.
    row = [1.0, 2.0, 3.0, -50.0]
    assert ids(row, MinP(0.01)) == [0, 1, 2]
    assert ids(row, MinP(0.01), TopK(1)) == [2]


def test_typical_keeps_what_is_near_the_entropy():
    # p = 1/2, 1/4, 1/8, 1/8, entropy 7/4 bits: surprises 1, 2, 3, 3 are 3/4, 1/4, 5/4, 5/4 away.
    assert ids(HALVES, TypicalP(0.2)) == [3]
    assert ids(HALVES, TypicalP(0.26)) == [3, 1]
    assert ids(HALVES, TypicalP(0.1, 2)) == [3, 1]
    assert ids(HALVES, TypicalP(1)) == [0, 1, 2, 3]
    # It exceeds p, where top_p reaches it.
    assert len(ids([1, 1, 1, 1], TypicalP(0.5))) == 3


def test_typical_does_not_count_as_sorted():
    assert ids(HALVES, TypicalP(0.6, 2), TopK(1)) == [1]


def test_a_stale_mark_of_order_decides_the_greatest():
    # After top_k the candidates count as sorted, whatever top_n_sigma or a temperature of 0 makes
    # of their logits; the greatest is the first.
    state = left([1.0, 3.0, 2.0], TopK(3), Temperature(0), TopP(0.5))
    assert state.candidates()[0].tolist() == [1]


OUT_OF_RANGE = [
    (lambda v: TopP(v), "top_p", "p"),
    (lambda v: MinP(v), "min_p", "p"),
    (lambda v: TypicalP(v), "typical_p", "p"),
    (lambda v: TopNSigma(v), "top_n_sigma", "n"),
]


@pytest.mark.parametrize(("make", "name", "parameter"), OUT_OF_RANGE)
@pytest.mark.parametrize("value", [INF, -INF, float("nan"), 1e39, -1e39])
def test_parameters_that_are_no_float32(make, name, parameter, value):
    message = rf"\[{name}\] Expected a finite {parameter} in float32's range, got {value:g}\."
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        make(value)


@pytest.mark.parametrize("stage", [TopP, MinP, TypicalP])
def test_negative_min_keep(stage):
    with pytest.raises(ValueError, match=r"_p\] Expected min_keep >= 0, got -1\."):
        stage(0.5, -1)


def test_names():
    stages = (TopK(1), TopP(1), MinP(0), TypicalP(1), TopNSigma(1))
    assert [s.name for s in stages] == ["top_k", "top_p", "min_p", "typical_p", "top_n_sigma"]


def test_a_softmax_that_overflows():
    # The softmax of an infinite logit is NaN: nothing is dropped, and dist or the chain refuses.
    state = state_with([3e38, 1.0, 2.0])
    Chain([Temperature(1e-3), TopP(0.5), Greedy()]).sample(state)
    assert state.candidates()[0].tolist() == [0, 2, 1]
    assert np.isnan(state.candidates()[2][0])
