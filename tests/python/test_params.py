"""`SamplingParams`: defaults, checks, and plain-data form."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from mlx_sampling.params import SamplingParams


def test_defaults():
    assert SamplingParams() == SamplingParams(temperature=0.8, seed=None)


def test_frozen_and_keyword_only():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SamplingParams().seed = 1
    with pytest.raises(TypeError):
        SamplingParams(0.5)


@pytest.mark.parametrize(
    "value", [0, 0.0, 1, 0.8, 1e-30, 3e38, np.float32(0.5), np.int64(2), Fraction(1, 3)]
)
def test_temperatures(value):
    params = SamplingParams(temperature=value)
    assert params.temperature == float(value)
    assert type(params.temperature) is float


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, r"\[temperature\] Expected a finite value >= 0, got -1\."),
        (-1e-9, r"\[temperature\] Expected a finite value >= 0, got -1e-09\."),
        (float("nan"), r"\[temperature\] Expected a finite value >= 0, got nan\."),
        (float("inf"), r"\[temperature\] Expected a finite value >= 0, got inf\."),
        (float("-inf"), r"\[temperature\] Expected a finite value >= 0, got -inf\."),
        (10**400, r"\[temperature\] Expected a finite value >= 0, got 1000"),
        (1e39, r"\[temperature\] Expected 0 or a value in float32's range, got 1e\+39\."),
        (1e-60, r"\[temperature\] Expected 0 or a value in float32's range, got 1e-60\."),
    ],
)
def test_temperature_out_of_range(value, message):
    with pytest.raises(ValueError, match=message):
        SamplingParams(temperature=value)


@pytest.mark.parametrize("value", [True, False, "0.8", None, 1j, [0.8]])
def test_temperature_of_the_wrong_type(value):
    with pytest.raises(TypeError, match=r"\[temperature\] Expected a number, got "):
        SamplingParams(temperature=value)


@pytest.mark.parametrize("value", [0, 1, 2**32 - 2, np.uint32(7), None])
def test_seeds(value):
    seed = SamplingParams(seed=value).seed
    assert seed == value
    assert seed is None or type(seed) is int


@pytest.mark.parametrize("value", [-1, 2**32 - 1, 2**32, 2**70])
def test_seed_out_of_range(value):
    message = rf"\[seed\] Expected an int in \[0, 4294967294\], got {value}\."
    with pytest.raises(ValueError, match=message):
        SamplingParams(seed=value)


@pytest.mark.parametrize("value", [True, 1.0, "1", np.float32(1), np.zeros(2, int), float("nan")])
def test_seed_of_the_wrong_type(value):
    with pytest.raises(TypeError, match=r"\[seed\] Expected an int in \[0, 4294967294\], got "):
        SamplingParams(seed=value)


def test_dict_round_trip():
    params = SamplingParams(temperature=0.3, seed=9)
    assert params.to_dict() == {"temperature": 0.3, "seed": 9}
    assert SamplingParams.from_dict(params.to_dict()) == params
    assert SamplingParams.from_dict({}) == SamplingParams()


def test_dict_errors():
    message = r"\[SamplingParams\] Expected names of temperature, seed, got temprature, 3\."
    with pytest.raises(ValueError, match=message):
        SamplingParams.from_dict({"temprature": 0.5, "seed": 1, 3: 4})
    with pytest.raises(TypeError, match=r"\[SamplingParams\] Expected a mapping, got list\."):
        SamplingParams.from_dict([("seed", 1)])
    with pytest.raises(ValueError, match=r"\[temperature\]"):
        SamplingParams.from_dict({"temperature": -1})
