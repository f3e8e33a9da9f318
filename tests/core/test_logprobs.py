"""Log probabilities: against float64 NumPy, what each kind means, and that asking changes nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from request_kinds import KINDS, WIDTH, row, run, sampler_of, streams

from mlx_sampling.errors import NonfiniteLogitsError
from mlx_sampling.sampler import Sampler

INF = float("inf")


def log_softmax(logits) -> np.ndarray:
    values = np.asarray(logits, dtype=np.float64)
    shifted = values - values.max()
    return shifted - np.log(np.exp(shifted).sum())


def top(ids, logprobs, n) -> list[tuple[int, float]]:
    pairs = sorted(zip(ids, logprobs, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return [pair for pair in pairs if pair[1] > -INF][:n]


def same(found, expected) -> bool:
    return [t for t, _ in found] == [t for t, _ in expected] and np.allclose(
        [p for _, p in found], [p for _, p in expected], rtol=1e-13, atol=1e-13
    )


@pytest.mark.parametrize("kind", KINDS)
def test_raw_is_of_the_row_as_it_came(kind):
    sampler = sampler_of(kind, 3, logit_bias={5: 9.0})
    for step in range(10):
        sampler.sample(row(step))
        expected = log_softmax(row(step))
        for n in (1, 2, 20, WIDTH, WIDTH + 1):
            assert same(sampler.logprobs(n), top(range(WIDTH), expected, n))
        assert sampler.logprob(5) == pytest.approx(expected[5], rel=1e-13)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "greedy"])
def test_processed_is_the_law_of_the_draw(kind):
    sampler = sampler_of(kind, 3)
    for step in range(10):
        token = sampler.sample(row(step))
        ids, logits, p = sampler._state.candidates()
        expected = top(ids.tolist(), log_softmax(logits), WIDTH)
        found = sampler.logprobs(WIDTH, kind="processed")
        assert same(found, expected)
        assert sum(math.exp(logprob) for _, logprob in found) == pytest.approx(1, abs=1e-12)
        by_id = dict(zip(ids.tolist(), p.tolist(), strict=True))
        assert all(math.exp(v) == pytest.approx(by_id[t], rel=1e-4) for t, v in found)
        assert sampler.logprob(token, "processed") == dict(found)[token]
        gone = set(range(WIDTH)) - set(by_id)
        assert all(sampler.logprob(t, "processed") == -INF for t in list(gone)[:3])


def test_a_greedy_request_has_one_token():
    for options in ({}, {"presence_penalty": 0.5}):
        sampler = Sampler(temperature=0, **options)
        token = sampler.sample(row(1))
        assert sampler.logprobs(9, "processed") == [(token, 0.0)]
        assert sampler.logprob(token, "processed") == 0
        assert sampler.logprob((token + 1) % WIDTH, "processed") == -INF
        assert len(sampler.logprobs(9)) == 9


def test_known_values():
    sampler = Sampler(seed=1, top_k=2, top_p=1, min_p=0, temperature=0.5, logit_bias={0: -1.0})
    sampler.sample(np.log(np.array([4, 2, 1, 1], np.float32)))
    raw = [(0, 1 / 2), (1, 1 / 4), (2, 1 / 8), (3, 1 / 8)]
    found = sampler.logprobs(4)
    assert [t for t, _ in found] == [t for t, _ in raw]
    assert [math.exp(v) for _, v in found] == pytest.approx([p for _, p in raw], rel=1e-6)
    # Squared weights of 4 / e and 2.
    share = (4 / math.e) ** 2 / ((4 / math.e) ** 2 + 4)
    found = sampler.logprobs(4, "processed")
    assert [t for t, _ in found] == [1, 0]
    assert [math.exp(v) for _, v in found] == pytest.approx([1 - share, share], rel=1e-6)


def test_ties_come_lowest_id_first_and_masks_not_at_all():
    sampler = Sampler(seed=1, neg_inf="masked")
    logits = np.array([1, -INF, 2, 2, 1, -INF, 2], np.float32)
    sampler.sample(logits)
    assert [t for t, _ in sampler.logprobs(10)] == [2, 3, 6, 0, 4]
    assert sampler.logprob(1) == -INF


def test_a_wide_spread_does_not_overflow():
    sampler = Sampler(seed=1, temperature=1, min_p=0, top_p=1, top_k=0)
    sampler.sample(np.array([3e38, -3e38, 0], np.float32))
    assert sampler.logprobs(1) == [(0, 0.0)]
    assert sampler.logprobs(3)[2] == (1, pytest.approx(-6e38, rel=1e-6))


def test_padding_is_no_token():
    sampler = Sampler(seed=1, vocab_size=3)
    sampler.sample(np.array([0, 0, 0, 90], np.float32))
    assert sampler.logprobs(9) == [(t, pytest.approx(-math.log(3), rel=1e-13)) for t in range(3)]
    with pytest.raises(ValueError, match=r"\[logprob\] Expected a token id in \[0, 3\), got 3\."):
        sampler.logprob(3)


@pytest.mark.parametrize("kind", KINDS)
def test_asking_changes_nothing(kind):
    asked, silent = sampler_of(kind, 8), sampler_of(kind, 8)
    tokens = []
    for step in range(60):
        tokens.append(asked.sample(row(step)))
        before = asked.row.tolist()
        asked.logprobs(5)
        asked.logprobs(500, "processed")
        asked.logprob(3, "processed")
        assert asked.row.tolist() == before
        asked.accept(tokens[-1])
    assert tokens == run(silent, 0, 60)
    assert streams(asked) == streams(silent)


def test_what_is_refused():
    sampler = Sampler(seed=1)
    for kind in ("raw", "processed"):
        with pytest.raises(ValueError, match=r"\[logprobs\] Expected a row of logits, got none"):
            sampler.logprobs(1, kind)
    sampler.sample(row(0))
    with pytest.raises(ValueError, match=r"\[logprobs\] Expected an int in \[1, .*\], got 0\."):
        sampler.logprobs(0)
    with pytest.raises(TypeError, match=r"\[logprobs\] Expected an int in .*, got 1\.5\."):
        sampler.logprobs(1.5)
    with pytest.raises(ValueError, match=r'\[kind\] Expected "raw" or "processed", got "cooked"\.'):
        sampler.logprobs(1, "cooked")
    with pytest.raises(TypeError, match=r'\[kind\] Expected "raw" or "processed", got None\.'):
        sampler.logprob(1, None)
    with pytest.raises(ValueError, match=r"\[logprob\] Expected a token id in \[0, 97\), got 97\."):
        sampler.logprob(97)


def test_a_failed_step_leaves_no_processed_ones():
    sampler = Sampler(seed=1, temperature=1e-3, top_p=1, min_p=0)
    sampler.sample(np.array([0, 0.001, 0.002], np.float32))
    with pytest.raises(ValueError, match="finite softmax"):
        sampler.sample(np.array([3e38, 1, 2], np.float32))
    assert sampler.logprobs(1) == [(0, 0.0)]
    with pytest.raises(ValueError, match=r"\[logprobs\] Expected a step that gave a token"):
        sampler.logprobs(1, "processed")
    with pytest.raises(NonfiniteLogitsError):
        sampler.sample(np.array([0, np.nan, 1], np.float32))
    with pytest.raises(ValueError, match=r"\[logprobs\] Expected a row of logits, got none"):
        sampler.logprobs(1)
