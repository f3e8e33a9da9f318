"""Names, spellings and letters of samplers, as llama.cpp's command line takes them."""

from __future__ import annotations

import pytest

from mlx_sampling.params import SamplingParams
from mlx_sampling.sampler_names import DEFAULT_ORDER, LETTERS, sampler_order

# Written down from llama.cpp 0.5.0's common_sampler_types_from_names; its "typ_p" is our typical_p.
SPELLINGS = {
    "dry": ["dry", "DRY"],
    "top_k": ["top_k", "top-k", "topk", "Top-K"],
    "top_p": ["top_p", "top-p", "topp", "nucleus"],
    "top_n_sigma": ["top_n_sigma", "top-n-sigma", "topnsigma"],
    "typical_p": ["typ_p", "typ-p", "typp", "typ", "typical_p", "typical-p", "typicalp"],
    "min_p": ["min_p", "min-p", "minp"],
    "temperature": ["temperature", "temp"],
    "xtc": ["xtc"],
    "infill": ["infill"],
    "penalties": ["penalties"],
    "adaptive_p": ["adaptive_p", "adaptive-p", "adaptivep"],
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings(name):
    for spelling in SPELLINGS[name]:
        assert sampler_order("samplers", [spelling]) == (name,)
        assert sampler_order("samplers", f"{spelling};top_k") == (name, "top_k")


def test_letters():
    assert "".join(LETTERS.values()) == "dkypsmtxiea"
    assert sampler_order("samplers", "edskypmxt") == DEFAULT_ORDER
    assert sampler_order("samplers", "kk") == ("top_k", "top_k")
    assert sampler_order("samplers", "") == ()
    assert SamplingParams(samplers="ai").samplers == ("adaptive_p", "infill")


def test_names_in_a_string():
    assert sampler_order("samplers", "temperature") == ("temperature",)
    assert sampler_order("samplers", "top-k") == ("top_k",)
    assert sampler_order("samplers", iter(["xtc", "dry"])) == ("xtc", "dry")


@pytest.mark.parametrize("text", ["temp", "typ"])
def test_a_name_that_is_letters_too_is_refused(text):
    with pytest.raises(ValueError, match=rf'\[samplers\] .* got "{text}", which is both: write '):
        SamplingParams(samplers=text)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (["top_q"], ValueError, r'Expected names of dry, top_k, .*, got "top_q"\.'),
        ("top_k;", ValueError, r'Expected names of .*, got ""\.'),
        ("top_k;;dry", ValueError, r'got ""\.'),
        ("kz", ValueError, r'Expected letters of "dkypsmtxiea", or names of .*, got "z" in "kz"\.'),
        ("K", ValueError, r'got "K" in "K"\.'),
        ([1], TypeError, r"Expected names of samplers, got 1\."),
        (7, TypeError, r"Expected names of samplers, got 7\."),
        (b"k", TypeError, r"Expected names of samplers, got b'k'\."),
    ],
)
def test_what_is_refused(value, error, message):
    with pytest.raises(error, match=r"\[samplers\] .*" + message):
        SamplingParams(samplers=value)
