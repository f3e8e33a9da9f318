"""adaptive_p: against the oracle step by step, its average, and what it refuses."""

from __future__ import annotations

import chain_oracle
import numpy as np
import pytest
import stage_oracle as oracle
from mt19937_words import snapshot_giving
from rows import bits, expect_candidates, refill, state_with, untied

from mlx_sampling._ext import AdaptiveP, Chain, Greedy, RequestState, Temperature, TopK

INF = float("inf")
F = np.float32
REFERENCES = ["libc++", "libstdc++"]


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("target", [-1.0, 0.0, 0.1, 0.55, 1.0, 3.0])
@pytest.mark.parametrize("decay", [-1.0, 0.0, 0.9, 2.0])
def test_steps_are_the_oracle_s(target, decay, reference):
    rng = np.random.default_rng(9)
    seed, steps = 33, 12
    words = chain_oracle.words_of(seed, 2 * steps)
    clamped = min(max(F(decay), F(0)), F(0.99))
    weighted_sum, total_weight = F(target) / (F(1) - clamped), F(1) / (F(1) - clamped)
    chain = Chain([AdaptiveP(target, decay)])
    state = RequestState(seed, reference=reference, neg_inf="masked")
    for step in range(steps):
        row = untied(rng, 30, 2, masked=0.2)
        refill(state, row)
        token = chain.sample(state)
        u = chain_oracle.uniform_f64(words[2 * step], words[2 * step + 1])
        data, picked, p = oracle.adaptive_p(
            oracle.candidates(row), target, weighted_sum, total_weight, u, reference
        )
        expect_candidates(state, data)
        assert token == picked
        assert state.adaptive.position == 2 * (step + 1)
        if target < 0:
            chain.accept(state, token)
            assert state.adaptive_average is None
            continue
        assert state.adaptive_average[2:] == (token, p)
        if step % 4 == 3:
            chain.accept(state, (token + 1) % 30)  # another token: the average stays
        else:
            chain.accept(state, token)
            weighted_sum = p + clamped * weighted_sum
            total_weight = F(1) + clamped * total_weight
        assert bits(state.adaptive_average[:2]) == bits([weighted_sum, total_weight])
        assert state.adaptive_average[2:] == (None, 0)


def test_the_average_moves_on_accept_only():
    chain = Chain([AdaptiveP(0.5, 0.5)])
    state = state_with([1.0, 2.0, 3.0])
    chain.accept(state, 1)  # a token of the prompt
    assert state.adaptive_average is None
    token = chain.sample(state)
    assert state.adaptive_average[:3] == (1, 2, token)
    again = chain.sample(state)
    assert state.adaptive_average[:3] == (1, 2, again)
    chain.accept(state, again)
    moved = state.adaptive_average
    assert moved[1] == 2
    chain.accept(state, again)  # nothing is pending any more
    assert state.adaptive_average == moved
    state.reset()
    assert state.adaptive_average is None
    assert state.adaptive.position == 0


def test_a_token_on_target_gets_the_peak():
    # p = 1/2 each, target 1/2, as if all tokens so far had been there.
    state = state_with([7.0, 7.0, -INF])
    Chain([AdaptiveP(0.5, 0.9)]).sample(state)
    assert state.candidates()[1].tolist() == [5, 5, -INF]
    assert state.candidates()[2].tolist() == [0.5, 0.5, 0]


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_uniform_at_the_edge_never_picks_a_mask(reference):
    chain = Chain([AdaptiveP(0.5, 0.9)])
    for words, token in (([0, 0], 2), ([2**32 - 1] * 2, 3)):
        state = state_with([-INF, -INF, 1.0, 2.0, -INF], reference=reference)
        state.adaptive.restore(snapshot_giving(words))
        assert chain.sample(state) == token
        assert state.adaptive_average[2] == token


def test_a_single_candidate():
    for reference, drawn in (("libc++", 2), ("libstdc++", 0)):
        state = state_with([3.0, 1.0], reference=reference)
        assert Chain([TopK(1), AdaptiveP(0.5, 0.9)]).sample(state) == 0
        assert state.adaptive.position == drawn


def test_a_failing_step_puts_stream_and_average_back():
    chain = Chain([Temperature(1e-3), AdaptiveP(0.3, 0.9)])
    state = state_with([0.001, 0.002, 0.003])
    chain.sample(state)
    average, before = state.adaptive_average, state.adaptive.snapshot()
    refill(state, [3e38, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"\[adaptive_p\] Expected logits with a finite softmax"):
        chain.sample(state)
    assert state.adaptive_average == average
    assert state.adaptive.snapshot() == before
    fresh = state_with([3e38, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"\[adaptive_p\] Expected logits with a finite softmax"):
        chain.sample(fresh)
    assert fresh.adaptive_average is None


def test_accept_refuses_a_token_outside_the_rows():
    chain = Chain([AdaptiveP(0.3, 0.9)])
    state = state_with([1.0, 2.0, 3.0])
    chain.sample(state)
    average = state.adaptive_average
    with pytest.raises(ValueError, match=r"\[accept\] Expected a token id in \[0, 3\), got 3\."):
        chain.accept(state, 3)
    assert state.adaptive_average == average
    Chain([Greedy()]).accept(state, 2)  # whose stages keep nothing
    assert state.adaptive_average == average


@pytest.mark.parametrize("value", [INF, float("nan"), 1e39])
def test_out_of_range(value):
    text = f"{value:g}".replace("+", r"\+")
    message = rf"\[adaptive_p\] Expected a finite {{}} in float32's range, got {text}\."
    with pytest.raises(ValueError, match=message.format("target")):
        AdaptiveP(value, 0.5)
    with pytest.raises(ValueError, match=message.format("decay")):
        AdaptiveP(0.5, value)
