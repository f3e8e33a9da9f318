"""`SamplingParams`: defaults, checks, and plain-data form."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from mlx_sampling.params import SamplingParams

# llama.cpp 0.5.0, common_params_sampling; its spellings where ours differ are in the docstring.
UPSTREAM = {
    "temperature": 0.8,
    "top_k": 40,
    "top_p": 0.95,
    "min_p": 0.05,
    "typical_p": 1.0,
    "top_n_sigma": -1.0,
    "xtc_probability": 0.0,
    "xtc_threshold": 0.1,
    "repeat_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repeat_last_n": 64,
    "dry_multiplier": 0.0,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "dry_penalty_last_n": 64,
    "dry_sequence_breakers": ["\n", ":", '"', "*"],
    "dynatemp_range": 0.0,
    "dynatemp_exponent": 1.0,
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
    "adaptive_target": -1.0,
    "adaptive_decay": 0.9,
    "min_keep": 0,
    "logit_bias": {},
    "seed": None,
    "ignore_eos": False,
    "samplers": [
        "penalties",
        "dry",
        "top_n_sigma",
        "top_k",
        "typical_p",
        "top_p",
        "min_p",
        "xtc",
        "temperature",
    ],
    "reference": "libc++",
}
OTHERS = {
    "temperature": 1.5,
    "top_k": -1,
    "top_p": 0.0,
    "min_p": 1.0,
    "typical_p": 0.25,
    "top_n_sigma": 1.5,
    "xtc_probability": 1.0,
    "xtc_threshold": 0.6,
    "repeat_penalty": 1.1,
    "frequency_penalty": -0.5,
    "presence_penalty": 0.1,
    "repeat_last_n": -1,
    "dry_multiplier": 0.7,
    "dry_base": 0.0,
    "dry_allowed_length": 0,
    "dry_penalty_last_n": 2**31 - 1,
    "dry_sequence_breakers": ["\u3002", "a;b"],
    "dynatemp_range": 0.5,
    "dynatemp_exponent": -1.0,
    "mirostat": 2,
    "mirostat_tau": 0.0,
    "mirostat_eta": 1.0,
    "adaptive_target": 1.0,
    "adaptive_decay": 0.99,
    "min_keep": 3,
    "logit_bias": {0: -math.inf, 7: 0.1, 2**31 - 1: -3e38},
    "seed": 2**32 - 2,
    "ignore_eos": True,
    "samplers": ["adaptive_p", "infill", "top_k", "top_k"],
    "reference": "libstdc++",
}


def test_defaults():
    assert SamplingParams().to_dict() == UPSTREAM
    assert list(SamplingParams().to_dict()) == [f.name for f in dataclasses.fields(SamplingParams)]
    assert OTHERS.keys() == UPSTREAM.keys()
    assert all(OTHERS[name] != UPSTREAM[name] for name in UPSTREAM)


def test_every_default_is_in_the_docstring():
    # Python 3.13 takes a docstring's indentation off itself; before, inspect does.
    args = inspect.getdoc(SamplingParams).split("\n\nRaises:")[0]
    for name, value in UPSTREAM.items():
        text = args.split(f"\n    {name}: ")[1].split("\n    ")
        rows = [
            text[0].split("\n\n")[0],
            *itertools.takewhile(lambda row: row.startswith("    "), text[1:]),
        ]
        default = " ".join(row.strip() for row in rows).split("Default: ")[1]
        if name == "samplers":
            shown = ", ".join(value) + ' ("edskypmxt").'
        elif name == "dry_sequence_breakers":
            shown = '"\\n", ":", "\\"", "*".'
        else:
            shown = {"logit_bias": "none.", "reference": '"libc++".'}.get(name, f"{value}.")
        assert default == shown, name


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


@pytest.mark.parametrize("values", [{}, OTHERS, *({n: v} for n, v in OTHERS.items())], ids=str)
def test_round_trips(values):
    if "adaptive_target" in values:
        values = {**values, "samplers": ["adaptive_p", "top_k"]}
    params = SamplingParams(**values)
    assert params.to_dict() == {**UPSTREAM, **values}
    assert SamplingParams.from_dict(params.to_dict()) == params
    assert SamplingParams.from_json(params.to_json()) == params
    assert json.loads(params.to_json(), parse_constant=lambda c: pytest.fail(c))
    assert dataclasses.replace(params) == params
    assert pickle.loads(pickle.dumps(params)) == params
    assert copy.deepcopy(params) == params
    assert len({params, SamplingParams(**values)}) == 1
    assert (params == SamplingParams()) == (values == {})


def test_bias_is_frozen():
    given = {np.int32(3): np.float32(0.5)}
    params = SamplingParams(logit_bias=given)
    given[4] = 1.0
    assert params.logit_bias == {3: 0.5}
    assert [type(v) for pair in params.logit_bias.items() for v in pair] == [int, float]
    with pytest.raises(TypeError):
        params.logit_bias[5] = 1.0
    assert dataclasses.replace(params, seed=1).logit_bias == {3: 0.5}
    assert repr(params.logit_bias) == "{3: 0.5}"


def test_json_errors():
    for text, message in {
        "[1]": r"\[SamplingParams\] Expected a mapping, got list\.",
        '{"top_q": 1}': r"\[SamplingParams\] Expected names of temperature, .*, got top_q\.",
        '{"seed": 1, "seed": 2}': r"\[SamplingParams\] Expected each name once, got seed twice\.",
        '{"logit_bias": {"1": 0, "1": 2}}': r"Expected each name once, got 1 twice\.",
        '{"logit_bias": {"1": -Infinity}}': r"Expected JSON, got -Infinity",
        '{"logit_bias": {"01": 1}}': r'\[logit_bias\] Expected token ids, got "01"\.',
        '{"logit_bias": {"-1": 1}}': r'\[logit_bias\] Expected token ids, got "-1"\.',
        '{"logit_bias": {"1": "inf"}}': r"\[logit_bias\] Expected a number, got 'inf'\.",
        '{"temperature": NaN}': r"Expected JSON, got NaN",
        "{": r"Expecting property name",
    }.items():
        with pytest.raises((ValueError, TypeError), match=message):
            SamplingParams.from_json(text)


def test_dict_errors():
    message = r"\[SamplingParams\] Expected names of temperature, .*, got temprature, 3\."
    with pytest.raises(ValueError, match=message):
        SamplingParams.from_dict({"temprature": 0.5, "seed": 1, 3: 4})
    with pytest.raises(TypeError, match=r"\[SamplingParams\] Expected a mapping, got list\."):
        SamplingParams.from_dict([("seed", 1)])
    with pytest.raises(ValueError, match=r"\[temperature\]"):
        SamplingParams.from_dict({"temperature": -1})


SHARES = ("top_p", "min_p", "typical_p", "xtc_probability", "xtc_threshold")
NUMBERS = (
    *SHARES,
    "top_n_sigma",
    "repeat_penalty",
    "frequency_penalty",
    "presence_penalty",
    "dry_multiplier",
    "dry_base",
    "dynatemp_range",
    "dynatemp_exponent",
    "mirostat_tau",
    "mirostat_eta",
    "adaptive_target",
    "adaptive_decay",
)
INTS = (
    "top_k",
    "repeat_last_n",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "min_keep",
    "mirostat",
)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_the_wrong_kind(name):
    for value in (True, "1", None, 1j, [1.0]):
        with pytest.raises(TypeError, match=rf"\[{name}\] Expected a number, got "):
            SamplingParams(**{name: value})
    for value in (math.nan, math.inf, -math.inf, 10**400):
        with pytest.raises(ValueError, match=rf"\[{name}\] Expected a finite value"):
            SamplingParams(**{name: value})


@pytest.mark.parametrize("name", INTS)
def test_ints_of_the_wrong_kind(name):
    for value in (True, 1.0, "1", None, np.float32(1)):
        with pytest.raises(TypeError, match=rf"\[{name}\] Expected an int in \[.*\], got "):
            SamplingParams(**{name: value})
    for value in (2**31, -(2**31) - 1):
        with pytest.raises(ValueError, match=rf"\[{name}\] Expected an int in .*, got {value}\."):
            SamplingParams(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "span"),
    [
        *((name, value, r"in \[0, 1\]") for name in SHARES for value in (-0.1, 1.5)),
        ("dry_multiplier", -1, ">= 0"),
        ("dry_base", -1, ">= 0"),
        ("dynatemp_range", -1, ">= 0"),
        ("mirostat_tau", -1, ">= 0"),
        ("mirostat_eta", -1, ">= 0"),
        ("adaptive_target", 1.5, "<= 1"),
        ("adaptive_decay", 0.995, r"in \[0, 0\.99\]"),
        ("mirostat", 3, r"in \[0, 2\]"),
        ("mirostat", -1, r"in \[0, 2\]"),
        ("min_keep", -1, r"in \[0, 2147483647\]"),
        ("dry_allowed_length", -1, r"in \[0, 2147483647\]"),
        ("repeat_penalty", 0, "> 0 with a finite reciprocal in float32"),
        ("repeat_penalty", -1.5, "> 0 with a finite reciprocal in float32"),
        ("repeat_penalty", 1e-40, "> 0 with a finite reciprocal in float32"),
    ],
)
def test_out_of_range(name, value, span):
    with pytest.raises(ValueError, match=rf"^\[{name}\] Expected .* {span}, got {value}\.$"):
        SamplingParams(**{name: value})
    with pytest.raises(ValueError, match=rf"^\[{name}\] "):
        SamplingParams.from_dict({name: value})


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"top_n_sigma": 1e39}, ValueError, r"\[top_n_sigma\] Expected a value in float32's range"),
        ({"ignore_eos": 1}, TypeError, r"\[ignore_eos\] Expected True or False, got 1\."),
        ({"reference": "msvc"}, ValueError, r'"libc\+\+" or "libstdc\+\+", got "msvc"\.'),
        ({"reference": None}, TypeError, r'"libc\+\+" or "libstdc\+\+", got None\.'),
        ({"dry_sequence_breakers": "abc"}, TypeError, r"Expected a sequence of strings, got 'abc'"),
        ({"dry_sequence_breakers": [b"a"]}, TypeError, r"Expected strings, got b'a'\."),
        ({"dry_sequence_breakers": ["a", ""]}, ValueError, r"strings that are not empty, got ''\."),
        ({"dry_sequence_breakers": None}, TypeError, r"Expected a sequence of strings, got None"),
        ({"logit_bias": [(1, 2)]}, TypeError, r"\[logit_bias\] Expected a mapping .*, got list\."),
        (
            {"logit_bias": {1: math.inf}},
            ValueError,
            r"Expected -inf or a finite .* got inf for token 1",
        ),
        ({"logit_bias": {1: math.nan}}, ValueError, r"got nan for token 1\."),
        ({"logit_bias": {1: -1e39}}, ValueError, r"got -1e\+39 for token 1\."),
        (
            {"logit_bias": {-1: 1}},
            ValueError,
            r"\[logit_bias\] Expected an int in \[0, .*, got -1\.",
        ),
        ({"logit_bias": {2**31: 1}}, ValueError, r"\[logit_bias\] Expected an int in \[0, "),
        ({"logit_bias": {1.0: 1}}, TypeError, r"\[logit_bias\] Expected an int in .*, got 1\.0\."),
        ({"logit_bias": {1: True}}, TypeError, r"\[logit_bias\] Expected a number, got True\."),
        ({"temperature": 0, "mirostat": 1}, ValueError, r"\[mirostat\] .* > 0, got 0: a greedy"),
        ({"temperature": 0, "adaptive_target": 0.5}, ValueError, r"\[adaptive_p\] .* > 0, got 0:"),
        ({"temperature": 0, "samplers": ["adaptive_p"]}, ValueError, r"\[adaptive_p\] .* got 0:"),
        ({"temperature": 0, "samplers": "ki"}, ValueError, r"\[infill\] .* > 0, got 0: a greedy"),
        ({"adaptive_target": 0}, ValueError, r'\[adaptive_target\] Expected "adaptive_p" among'),
    ],
    ids=str,
)
def test_what_is_refused(fields, error, message):
    with pytest.raises(error, match=message):
        SamplingParams(**fields)
