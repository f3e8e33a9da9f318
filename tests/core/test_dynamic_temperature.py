"""Plain and dynamic temperature: against the oracle, and at their boundaries."""

from __future__ import annotations

import numpy as np
import pytest
import stage_oracle as oracle
from rows import bits, expect_candidates, state_with, untied

from mlx_sampling._ext import Chain, DynamicTemperature, Greedy, Temperature, TopK

INF = float("inf")


def left(row, *stages, **options):
    state = state_with(row, **options)
    Chain([*stages, Greedy()]).sample(state)
    return state


@pytest.mark.parametrize("temperature", [-1.0, 0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("spread", [-1.0, 0.0, 0.2, 0.5, 3.0])
@pytest.mark.parametrize("exponent", [-0.5, 0.0, 0.7, 1.0, 2.0])
def test_it_is_the_oracle_s(temperature, spread, exponent):
    rng = np.random.default_rng(8)
    for width in (1, 2, 3, 129, 300):
        for scale in (0.2, 3.0):
            row = untied(rng, width, scale)
            slow = oracle.candidates(row)
            expected = oracle.dynamic_temperature(slow, temperature, spread, exponent)
            stage = DynamicTemperature(temperature, spread, exponent)
            for reference in ("libc++", "libstdc++"):
                expect_candidates(left(row, stage, reference=reference), expected)


def test_equal_logits_get_the_greatest_temperature():
    state = left([4.0, 4.0], DynamicTemperature(1.0, 1.0, 1.0))
    assert state.candidates()[1].tolist() == [2, 2]
    assert state.candidates()[2].tolist() == [0.5, 0.5]


def test_one_certain_candidate_gets_the_least_temperature():
    state = left([500.0, 0.0], DynamicTemperature(1.0, 0.5, 1.0))
    assert state.candidates()[1].tolist() == [1000, 0]


def test_at_a_least_temperature_of_0_the_others_become_masks():
    state = left([500.0, 0.0], DynamicTemperature(0.5, 1.0, 1.0))
    assert state.candidates()[1].tolist() == [500, -INF]
    assert state.candidates()[2].tolist() == [1, 0]


def test_one_candidate_is_left_alone_unless_the_temperature_is_plain():
    assert left([3.0], DynamicTemperature(0.5, 1.0, 1.0)).candidates()[1].tolist() == [3]
    assert left([3.0], DynamicTemperature(0.5, 0.0, 1.0)).candidates()[1].tolist() == [6]


@pytest.mark.parametrize("temperature", [-5.0, -1e-30, 0.0])
def test_temperatures_up_to_0_keep_the_first_maximum(temperature):
    row = [1.0, 5.0, 2.0, 5.0]
    for stage in (Temperature(temperature), DynamicTemperature(temperature, 0, 1)):
        assert left(row, stage).candidates()[1].tolist() == [-INF, 5, -INF, -INF]


def test_plain_temperature_does_not_touch_the_order():
    row = [1.0, 2.0, -INF, 3.0]
    state = left(row, TopK(2), Temperature(0.5))
    assert state.candidates()[0].tolist() == [3, 1]
    assert bits(state.candidates()[1]) == bits([6, 4])


@pytest.mark.parametrize("value", [INF, float("nan")])
def test_out_of_range(value):
    name = r"\[dynamic_temperature\] Expected a finite "
    with pytest.raises(ValueError, match=rf"{name}value, got {value:g}\."):
        DynamicTemperature(value, 0, 1)
    with pytest.raises(ValueError, match=rf"{name}range in float32's range, got {value:g}\."):
        DynamicTemperature(1, value, 1)
    with pytest.raises(ValueError, match=rf"{name}exponent in float32's range, got {value:g}\."):
        DynamicTemperature(1, 0, value)
    with pytest.raises(ValueError, match=r"\[dynamic_temperature\] Expected 0 or a value in"):
        DynamicTemperature(1e-60, 0, 1)
