"""From parameters to stages: which, in what order, and with what arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlx_sampling import _ext
from mlx_sampling.chain import stages_of
from mlx_sampling.params import SamplingParams
from mlx_sampling.sampler import Sampler
from mlx_sampling.vocabulary import Vocabulary

ALL_ON = {
    "temperature": 0.7,
    "top_k": 25,
    "top_p": 0.9,
    "min_p": 0.02,
    "typical_p": 0.95,
    "top_n_sigma": 2.5,
    "xtc_probability": 0.5,
    "xtc_threshold": 0.05,
    "repeat_penalty": 1.2,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.2,
    "repeat_last_n": 12,
    "dry_multiplier": 0.5,
    "dry_base": 1.5,
    "dry_allowed_length": 1,
    "dry_penalty_last_n": 30,
    "dry_sequence_breakers": (),
    "dynatemp_range": 0.3,
    "dynatemp_exponent": 1.5,
    "min_keep": 2,
    "logit_bias": {3: 1.5, 7: -math.inf},
}
NO_VOCABULARY = Vocabulary()
NAMES = {
    "penalties": "penalties",
    "dry": "dry",
    "top_n_sigma": "top_n_sigma",
    "top_k": "top_k",
    "typical_p": "typical_p",
    "top_p": "top_p",
    "min_p": "min_p",
    "xtc": "xtc",
    "temperature": "dynamic_temperature",
}


def names(vocabulary=NO_VOCABULARY, excluded=(), **fields) -> list[str]:
    return [stage.name for stage in stages_of(SamplingParams(**fields), vocabulary, excluded)]


def literal_stages(on=NAMES):
    """What upstream's common_sampler_init makes of ALL_ON, written out."""
    stages = {
        "penalties": _ext.Penalties(12, 1.2, 0.1, 0.2),
        "dry": _ext.Dry(0.5, 1.5, 1, 30, []),
        "top_n_sigma": _ext.TopNSigma(2.5),
        "top_k": _ext.TopK(25),
        "typical_p": _ext.TypicalP(0.95, 2),
        "top_p": _ext.TopP(0.9, 2),
        "min_p": _ext.MinP(0.02, 2),
        "xtc": _ext.Xtc(0.5, 0.05, 2),
        "temperature": _ext.DynamicTemperature(0.7, 0.3, 1.5),
    }
    return [_ext.LogitBias([(3, 1.5), (7, -math.inf)]), *(stages[name] for name in on)]


def run(sampler: Sampler, steps: int = 60, width: int = 80) -> tuple[list[int], list]:
    rng = np.random.default_rng(4)
    tokens, left = [], []
    sampler.accept_prompt(rng.integers(width, size=20).tolist())
    for _ in range(steps):
        row = np.round(rng.standard_normal(width) * 3, 1).astype(np.float32)
        tokens.append(sampler.sample(row))
        left.append([column.tobytes() for column in sampler._state.candidates()])
        sampler.accept(tokens[-1])
    return tokens, left


@pytest.mark.parametrize("reference", ["libc++", "libstdc++"])
@pytest.mark.parametrize("seed", [1, 2])
def test_everything_on_is_the_literal_chain(seed, reference):
    params = SamplingParams(**ALL_ON, seed=seed, reference=reference)
    assert Sampler(params).stages == ("logit_bias", *NAMES.values(), "dist")
    literal = Sampler.from_stages([*literal_stages(), _ext.Dist()], seed=seed, reference=reference)
    assert run(Sampler(params)) == run(literal)


def test_the_order_is_the_one_asked_for():
    order = ["temperature", "xtc", "min_p", "top_p", "penalties", "top_k", "top_k", "dry"]
    params = SamplingParams(**ALL_ON, seed=5, samplers=order)
    literal = Sampler.from_stages([*literal_stages(order), _ext.Dist()], seed=5)
    assert run(Sampler(params)) == run(literal)


def test_the_defaults_are_upstream_s():
    assert names() == ["top_k", "top_p", "min_p", "dynamic_temperature", "dist"]
    # Stages that upstream has too, and that are off.
    literal = [
        _ext.Penalties(64, 1, 0, 0),
        _ext.Dry(0.0, 1.75, 2, 64, []),
        _ext.TopNSigma(-1),
        _ext.TopK(40),
        _ext.TypicalP(1, 0),
        _ext.TopP(0.95, 0),
        _ext.MinP(0.05, 0),
        _ext.Xtc(0, 0.1, 0),
        _ext.DynamicTemperature(0.8, 0, 1),
        _ext.Dist(),
    ]
    assert run(Sampler(seed=9)) == run(Sampler.from_stages(literal, seed=9))


@pytest.mark.parametrize("version", [1, 2])
def test_mirostat_takes_the_place_of_the_chain(version):
    fields = {**ALL_ON, "mirostat": version, "mirostat_tau": 3.0, "mirostat_eta": 0.2}
    sampler = Sampler(SamplingParams(**fields, seed=3), vocab_size=80)
    pick = _ext.Mirostat(3, 0.2, 80, 100) if version == 1 else _ext.MirostatV2(3, 0.2)
    literal = Sampler.from_stages(
        [*literal_stages(()), _ext.Temperature(0.7), pick], seed=3, vocab_size=80
    )
    assert sampler.stages == literal.stages
    assert run(sampler) == run(literal)


def test_mirostat_1_needs_the_number_of_tokens():
    with pytest.raises(
        ValueError, match=r"\[vocab_size\] Expected the number of tokens for mirostat"
    ):
        Sampler(mirostat=1)
    assert names(mirostat=2) == ["temperature", "mirostat_v2"]


def test_adaptive_p_picks_wherever_it_is_named():
    on = {**ALL_ON, "adaptive_target": 0.4, "adaptive_decay": 0.8}
    params = SamplingParams(**on, seed=3, samplers=["adaptive_p", "top_k", "temperature"])
    literal = [*literal_stages(("top_k", "temperature")), _ext.AdaptiveP(0.4, 0.8)]
    assert run(Sampler(params)) == run(Sampler.from_stages(literal, seed=3))
    assert names(samplers="a") == ["adaptive_p"]


OFF = {
    "top_k": [0, -1],
    "top_p": [1],
    "min_p": [0],
    "typical_p": [1],
    "top_n_sigma": [0, -1],
    "xtc": [{"xtc_probability": 0}, {"xtc_threshold": 0.51}],
    "dry": [{"dry_multiplier": 0}, {"dry_base": 0.9}, {"dry_penalty_last_n": -1}],
    "penalties": [
        {"repeat_last_n": 0},
        {"repeat_penalty": 1, "frequency_penalty": 0, "presence_penalty": 0},
    ],
}


@pytest.mark.parametrize("name", OFF)
def test_what_is_off_is_left_out(name):
    for value in OFF[name]:
        fields = value if isinstance(value, dict) else {name: value}
        left = names(**{**ALL_ON, **fields})
        assert left == ["logit_bias", *(v for k, v in NAMES.items() if k != name), "dist"]
    without = [other for other in NAMES if other != name]
    assert names(**ALL_ON, samplers=without) == left


def test_temperature_0_is_bias_penalties_dry_and_the_first_maximum():
    greedy = {**ALL_ON, "temperature": 0}
    assert names(**greedy) == ["logit_bias", "penalties", "dry", "greedy"]
    assert names(**greedy, samplers="xdkt") == ["logit_bias", "dry", "greedy"]
    assert names(temperature=0) == ["greedy"]
    sampler = Sampler(temperature=0, presence_penalty=1.0, xtc_probability=1.0, xtc_threshold=0.0)
    row = np.array([1, 3, 3, 2.5], np.float32)
    tokens = []
    for _ in range(4):
        tokens.append(sampler.sample(row))
        sampler.accept(tokens[-1])
    assert tokens == [1, 2, 3, 1]  # lowest of equals, 2 to 2.5 as well
    assert sampler._state.distribution.position == sampler._state.xtc.position == 0


def test_odd_values_work_as_upstream():
    row = np.array([0.1, 3, 2.9, 2.8], np.float32)
    for fields in ({"top_p": 0}, {"top_k": 1}, {"min_p": 1}, {"typical_p": 1, "top_p": 1e-30}):
        assert {Sampler(seed=s, **fields).sample(row) for s in range(40)} == {1}
    wide = {"top_p": 1, "min_p": 0, "temperature": 5}
    for k in (4, 5, 2**31 - 1, 0, -1):
        assert {Sampler(seed=s, top_k=k, **wide).sample(row) for s in range(90)} == {0, 1, 2, 3}
    kept = Sampler(seed=1, top_p=0, min_p=1, min_keep=3)
    kept.sample(row)
    assert len(kept._state.candidates()[0]) == 3


def test_ends_are_ignored_as_bias():
    vocabulary = Vocabulary(5, eos_token_ids=[2, 4, 2])
    assert names(vocabulary) == ["top_k", "top_p", "min_p", "dynamic_temperature", "dist"]
    assert names(vocabulary, ignore_eos=True)[0] == "logit_bias"
    row = np.zeros(5, np.float32)
    options = {"eos_token_ids": [2, 4], "ignore_eos": True, "excluded": [0, 2]}
    assert {Sampler(seed=s, **options).sample(row) for s in range(40)} == {1, 3}
    forced = Sampler(temperature=0, logit_bias={2: 100.0, 3: 1.0}, **options)
    assert forced.sample(row) == 3
    assert Sampler(temperature=0, logit_bias={2: 100.0}, eos_token_ids=[2]).sample(row) == 2


TEXTS = ["a", "b", "\n", "x:y", "*", "ab", "c"]


def test_breakers_are_found_among_the_texts():
    on = {"dry_multiplier": 1.0, "dry_base": 2.0, "dry_allowed_length": 1, "temperature": 0}

    def left(prompt, **options):
        sampler = Sampler(**on, **options)
        sampler.accept_prompt(prompt)
        sampler.sample(np.zeros(7, np.float32))
        return sampler._state.candidates()[1].tolist()

    again = [0, 1, 6, 0, 1]  # 6 would repeat two tokens
    assert left(again, token_texts=TEXTS) == [0, 0, 0, 0, 0, 0, -2]
    assert left(again, dry_sequence_breakers=()) == [0, 0, 0, 0, 0, 0, -2]
    for breaker in (2, 3, 4):
        prompt = [breaker, 6, breaker]
        assert left(prompt, token_texts=TEXTS) == [0] * 7
        assert left(prompt, token_texts=[t.encode() for t in TEXTS])[6] == 0
        assert left(prompt, dry_sequence_breakers=())[6] == -1


def test_breakers_of_several_bytes_need_a_tokenizer():
    on = {"dry_multiplier": 1.0, "token_texts": TEXTS}
    with pytest.raises(
        ValueError, match=r"\[dry_sequence_breakers\] Expected tokenize for .* b'c' of"
    ):
        Sampler(**on, dry_sequence_breakers=["bc"])
    seen = []
    Sampler(**on, dry_sequence_breakers=["bc"], tokenize=lambda rest: seen.append(rest) or [6])
    assert seen == [b"c"]
    Sampler(**on, dry_sequence_breakers=["zq"])  # no token ends in its middle


def test_infill_needs_a_vocabulary():
    assert names(Vocabulary(7, [6], TEXTS), samplers="ki") == ["top_k", "infill", "dist"]
    for options in ({}, {"token_texts": TEXTS}, {"eos_token_ids": [6]}):
        with pytest.raises(ValueError, match=r"\[infill\] Expected token_texts and eos_token_ids"):
            Sampler(samplers="ki", **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"dry_multiplier": 1},
            ValueError,
            r"\[dry_sequence_breakers\] Expected token_texts to find",
        ),
        (
            {"ignore_eos": True},
            ValueError,
            r"\[ignore_eos\] Expected eos_token_ids to ignore, got none",
        ),
        (
            {"vocab_size": 0},
            ValueError,
            r"\[vocab_size\] Expected an int in \[1, 2147483647\], got 0",
        ),
        ({"vocab_size": 1.0}, TypeError, r"\[vocab_size\] Expected an int in .*, got 1\.0\."),
        ({"vocab_size": 4, "excluded": [4]}, ValueError, r"\[excluded\] .* in \[0, 4\), got 4\."),
        (
            {"vocab_size": 4, "eos_token_ids": [9]},
            ValueError,
            r"\[eos_token_ids\] .* in \[0, 4\), got 9",
        ),
        (
            {"vocab_size": 4, "logit_bias": {5: 1}},
            ValueError,
            r"\[logit_bias\] .* in \[0, 4\), got 5\.",
        ),
        ({"excluded": [-1]}, ValueError, r"\[excluded\] Expected an int in .*, got -1\."),
        ({"excluded": ["a"]}, TypeError, r"\[excluded\] Expected an int in .*, got 'a'\."),
        (
            {"dry_multiplier": 1, "token_texts": ["a"], "vocab_size": 2},
            ValueError,
            r"\[token_texts\] Expected 2 texts, one for each token, got 1\.",
        ),
        (
            {"dry_multiplier": 1, "token_texts": "ab"},
            TypeError,
            r"\[token_texts\] Expected a text for each token, got a single one\.",
        ),
        (
            {"dry_multiplier": 1, "token_texts": [1]},
            TypeError,
            r"\[token_texts\] Expected bytes or str, got 1\.",
        ),
        (
            {"dry_multiplier": 1, "token_texts": ["a", "\ud800"]},
            ValueError,
            r"\[token_texts\] Expected text in Unicode, got a lone surrogate in token 1:",
        ),
    ],
    ids=str,
)
def test_what_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        Sampler(**options)
