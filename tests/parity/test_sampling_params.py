"""`SamplingParams` against what llama.cpp's common_sampler_init makes of the same parameters, live.

The upstream chain has every stage, off ones too; ours leaves those out. The vocabulary is real, with
string breakers; the rows are wider than it by a padded head that only we are shown.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llama
import numpy as np
import pytest
from chain_cases import Draw
from drive import Outcome, Upstream, compare

from mlx_sampling.params import SamplingParams
from mlx_sampling.sampler import Sampler
from mlx_sampling.sampler_names import DEFAULT_ORDER

SEED = 21
PADDING = 128
STEPS = 10


def some(draw: Draw, percent: int, **fields: Any) -> dict[str, Any]:
    return fields if draw.chance(percent) else {}


def drawn_params(case: int, dry: bool) -> SamplingParams:
    """Random parameters of a request that draws; what is not drawn is at its default."""
    draw = Draw(SEED, case)
    fields: dict[str, Any] = {
        "seed": draw.below(2**32 - 1),
        "reference": "libstdc++",
        **some(draw, 50, temperature=draw.real(0.2, 2)),
        **some(draw, 40, top_k=draw.of((-1, 0, 1, 7, 200, 49_152, 2**31 - 1))),
        **some(draw, 40, top_p=draw.of((0.0, 0.5, 0.99, 1.0))),
        **some(draw, 40, min_p=draw.of((0.0, 0.01, 0.3))),
        **some(draw, 30, typical_p=draw.of((0.2, 0.9))),
        **some(draw, 30, top_n_sigma=draw.of((0.0, 1.0, 2.5))),
        **some(draw, 40, xtc_probability=0.6, xtc_threshold=draw.of((0.0, 0.05, 0.51))),
        **some(draw, 40, repeat_penalty=draw.of((0.8, 1.3)), repeat_last_n=draw.of((-1, 4, 64))),
        **some(draw, 30, frequency_penalty=0.3, presence_penalty=-0.2),
        **some(draw, 30, dynatemp_range=0.4, dynatemp_exponent=draw.of((0.5, 1.0, 2.0))),
        **some(draw, 30, min_keep=draw.of((1, 3))),
        **some(draw, 40, logit_bias={5: 2.0, 11: -np.inf, 49_000: 7.5}),
    }
    if dry:
        fields |= {"dry_multiplier": 0.8, "dry_allowed_length": 1}
    kind = draw.of(("chain", "chain", "chain", "order", "adaptive", "mirostat"))
    if kind == "order":
        fields["samplers"] = draw.shuffled(DEFAULT_ORDER)[: draw.between(0, 9)]
    elif kind == "adaptive":
        fields["samplers"] = ["adaptive_p", *draw.shuffled(DEFAULT_ORDER)]
        fields["adaptive_target"] = draw.of((-1.0, 0.2, 0.9))
    elif kind == "mirostat":
        fields |= {"mirostat": draw.of((1, 2)), "mirostat_tau": 3.0}
    return SamplingParams(**fields)


class CommonSampler(Upstream):
    """The stages that common_sampler_init adds, in its order."""

    def __init__(self, p: SamplingParams, library: llama.Llama, vocabulary: llama.Vocabulary):
        size = vocabulary.size
        bias = (llama.LogitBias * len(p.logit_bias))(*p.logit_bias.items())
        breakers = [text.encode() for text in p.dry_sequence_breakers]
        texts = (ctypes.c_char_p * len(breakers))(*breakers)
        dry = (p.dry_multiplier, p.dry_base, p.dry_allowed_length, p.dry_penalty_last_n)
        penalties = (p.repeat_last_n, p.repeat_penalty, p.frequency_penalty, p.presence_penalty)
        arguments = {
            "penalties": ("penalties", size, *penalties),
            "dry": ("dry", vocabulary.handle, *dry, texts, len(breakers)),
            "top_n_sigma": ("top_n_sigma", p.top_n_sigma),
            "top_k": ("top_k", p.top_k),
            "typical_p": ("typical", p.typical_p, p.min_keep),
            "top_p": ("top_p", p.top_p, p.min_keep),
            "min_p": ("min_p", p.min_p, p.min_keep),
            "xtc": ("xtc", p.xtc_probability, p.xtc_threshold, p.min_keep, p.seed),
            "temperature": ("temp_ext", p.temperature, p.dynatemp_range, p.dynatemp_exponent),
        }
        stages: list[tuple] = [("logit_bias", size, len(bias), bias)] if len(bias) else []
        mirostat = (p.seed, p.mirostat_tau, p.mirostat_eta)
        if p.mirostat == 1:
            stages += [("temp", p.temperature), ("mirostat", size, *mirostat, 100)]
        elif p.mirostat == 2:
            stages += [("temp", p.temperature), ("mirostat_v2", *mirostat)]
        elif p.temperature == 0:  # not upstream's: what a greedy request is here
            names = [name for name in p.samplers if name in ("penalties", "dry")]
            stages += [*(arguments[name] for name in names), ("greedy",)]
        else:
            stages += [arguments[name] for name in p.samplers if name != "adaptive_p"]
            adaptive = ("adaptive_p", p.adaptive_target, p.adaptive_decay, p.seed)
            stages += [adaptive if "adaptive_p" in p.samplers else ("dist", p.seed)]
        self.chain = library.chain(library.make(*stage) for stage in stages)


def row_of(case: int, step: int, size: int) -> np.ndarray:
    """Half of the rows have ties, as heads in bfloat16 do."""
    rng = np.random.default_rng([SEED, case, step])
    row = (rng.standard_normal(size + PADDING) * 3).astype(np.float32)
    return np.round(row, 1) if step % 2 else row


def compare_runs(params: SamplingParams, case: int, library, vocabulary) -> int:
    """Steps that were compared; asserts that each is the same on both sides."""
    theirs = CommonSampler(params, library, vocabulary)
    ours = Sampler(
        params,
        vocab_size=vocabulary.size,
        token_texts=vocabulary.texts,
        tokenize=vocabulary.tokenize,
    )
    prompt = [int(t) for t in np.random.default_rng(case).integers(20, size=30)] * 2
    ours.accept_prompt(prompt)
    for token in prompt:
        theirs.accept(token)
    for step in range(STEPS):
        row = row_of(case, step, vocabulary.size)
        expected = theirs.sample(row[: vocabulary.size])
        try:
            token = ours.sample(row)
        except ValueError:
            assert not expected.usable(), params
            return step
        if params.temperature == 0:
            assert token == expected.token, params
        else:
            fault = compare(Outcome(token, *ours._state.candidates()), expected)
            assert not fault, f"{params}, step {step}: {fault}"
        ours.accept(token)
        theirs.accept(token)
    return STEPS


@pytest.mark.parametrize("dry", [False, True])
def test_the_same_parameters_give_the_same_bits(library, upstream_vocabulary, dry):
    cases = range(100, 120) if dry else range(90)
    done = [
        compare_runs(drawn_params(case, dry), case, library, upstream_vocabulary) for case in cases
    ]
    assert done.count(STEPS) > 0.9 * len(done)


def test_the_defaults(library, upstream_vocabulary):
    for seed in range(5):
        params = SamplingParams(seed=seed, reference="libstdc++")
        assert compare_runs(params, seed, library, upstream_vocabulary) == STEPS


def test_greedy_requests(library, upstream_vocabulary):
    for case in range(4):
        params = SamplingParams(
            temperature=0,
            seed=1,
            reference="libstdc++",
            repeat_penalty=1.3,
            dry_multiplier=0.8 * (case % 2),
            logit_bias={3: 4.0},
            top_k=1,
        )
        assert compare_runs(params, case, library, upstream_vocabulary) == STEPS


def test_a_parameter_that_is_off_by_a_little_is_a_difference(
    library, upstream_vocabulary, monkeypatch
):
    params = SamplingParams(seed=3, reference="libstdc++", temperature=1.5, min_p=0.02, top_p=1)
    theirs = SamplingParams(seed=3, reference="libstdc++", temperature=1.5, min_p=0.021, top_p=1)
    original = CommonSampler.__init__
    monkeypatch.setattr(
        CommonSampler, "__init__", lambda self, _, *rest: original(self, theirs, *rest)
    )
    with pytest.raises(AssertionError, match="candidates against"):
        compare_runs(params, 3, library, upstream_vocabulary)
