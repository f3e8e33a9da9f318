"""Mirostat 1 and 2: against the oracle step by step, and where their numbers degenerate."""

from __future__ import annotations

import chain_oracle
import numpy as np
import pytest
import stage_oracle as oracle
from mt19937_words import snapshot_giving
from rows import bits, expect_candidates, refill, state_with, untied

from mlx_sampling._ext import Chain, Mirostat, MirostatV2, RequestState, Temperature, TopK

INF = float("inf")
REFERENCES = ["libc++", "libstdc++"]
PARAMETERS = [(5.0, 0.1), (2.0, 0.5), (0.0, 1.0), (-1.0, 0.3), (9.0, 0.0)]


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize(("tau", "eta"), PARAMETERS)
@pytest.mark.parametrize("version", [1, 2])
def test_steps_are_the_oracle_s(version, tau, eta, reference):
    rng = np.random.default_rng(version)
    seed, m = 21, 100
    words = chain_oracle.words_of(seed, 24)
    for width in (2, 50, 400):
        stage = MirostatV2(tau, eta) if version == 2 else Mirostat(tau, eta, width, m)
        chain = Chain([stage])
        state = RequestState(seed, reference=reference)
        mu, drawn = oracle.F(2) * oracle.F(tau), 0
        for step in range(12):
            row = untied(rng, width, [1, 3][step % 2])
            refill(state, row)
            token = chain.sample(state)
            chain.accept(state, token)
            data = oracle.candidates(row)
            u = chain_oracle.uniform_f64(words[drawn], words[drawn + 1])
            if version == 2:
                data, picked, mu = oracle.mirostat_v2(data, mu, tau, eta, u, reference)
            else:
                data, picked, mu = oracle.mirostat(data, mu, tau, eta, width, m, u, reference)
            drawn += 0 if len(data) == 1 and reference == "libstdc++" else 2
            expect_candidates(state, data)
            assert token == data[picked].id
            assert bits([state.mirostat_mu]) == bits([mu])
            assert state.mirostat.position == drawn
            assert state.distribution.position == 0


def test_mu_starts_at_the_first_step_and_is_the_request_s():
    row = untied(np.random.default_rng(2), 100)
    state = state_with(row)
    assert state.mirostat_mu is None
    Chain([MirostatV2(4.0, 0.0)]).sample(state)
    assert state.mirostat_mu == 8
    # Another chain of the request goes on from there.
    Chain([MirostatV2(1.0, 0.0)]).sample(state)
    assert state.mirostat_mu == 8
    state.reset()
    assert state.mirostat_mu is None
    assert state.mirostat.position == 0


def test_version_2_keeps_a_surprise_of_mu():
    # Surprises 1, 2, 3 and 3 bits; mu is 2 tau.
    row = [3.0, 2.0, 1.0, 1.0]
    row = (np.array(row) * np.log(2)).astype(np.float32)
    for tau, count in ((0.4, 1), (0.6, 1), (1.01, 2), (1.6, 4), (-5.0, 1)):
        state = state_with(row)
        Chain([MirostatV2(tau, 0.1)]).sample(state)
        assert len(state.candidates()[0]) == count
    # Two of exactly 1 bit.
    for tau, count in ((0.5, 2), (0.49, 1)):
        state = state_with([1.0, 1.0])
        Chain([MirostatV2(tau, 0.1)]).sample(state)
        assert len(state.candidates()[0]) == count


@pytest.mark.parametrize("reference", REFERENCES)
def test_version_1_of_a_single_candidate(reference):
    # Its law has no points: NaN, and k = 1.
    state = state_with([3.0], reference=reference)
    assert Chain([Mirostat(5.0, 0.1, 1)]).sample(state) == 0
    assert state.mirostat.position == (2 if reference == "libc++" else 0)
    assert state.candidates()[2].tolist() == [1]
    assert bits([state.mirostat_mu]) == bits([np.float32(10) - np.float32(0.1) * np.float32(-5)])


def test_version_1_where_k_overflows_keeps_one():
    # Flat logits: s = 0, and k is no number.
    state = state_with(np.zeros(50))
    Chain([Mirostat(5.0, 0.1, 50)]).sample(state)
    assert len(state.candidates()[0]) == 1
    # A tau of 200: 2 to its power alone is beyond a float.
    state = state_with(untied(np.random.default_rng(3), 50))
    Chain([Mirostat(200.0, 0.1, 50)]).sample(state)
    assert len(state.candidates()[0]) == 1


def test_m_of_1_has_no_law():
    state = state_with(untied(np.random.default_rng(3), 50))
    Chain([Mirostat(5.0, 0.1, 50, 1)]).sample(state)
    assert len(state.candidates()[0]) == 1


def test_masks_are_dropped_or_not_picked():
    row = np.full(60, -np.inf, dtype=np.float32)
    row[7], row[9] = 1.0, 1.5
    for stage in (Mirostat(5.0, 0.1, 60), MirostatV2(9.0, 0.1)):
        state = state_with(row)
        tokens = {Chain([stage]).sample(state) for _ in range(50)}
        assert tokens <= {7, 9}


@pytest.mark.parametrize("reference", REFERENCES)
def test_the_edges_of_the_uniform(reference):
    row = [1.0, -INF, 3.0, 2.0]
    for words, token in (([0, 0], 2), ([2**32 - 1] * 2, 0)):
        state = state_with(row, reference=reference)
        state.mirostat.restore(snapshot_giving(words))
        assert Chain([MirostatV2(50.0, 0.1)]).sample(state) == token


def test_a_failing_step_puts_stream_and_mu_back():
    chain = Chain([Temperature(1e-3), TopK(3), MirostatV2(3.0, 0.1)])
    state = state_with([0.001, 0.002, 0.003])
    chain.sample(state)
    mu, before = state.mirostat_mu, state.mirostat.snapshot()
    refill(state, [3e38, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"\[mirostat_v2\] Expected logits with a finite softmax"):
        chain.sample(state)
    assert state.mirostat_mu == mu
    assert state.mirostat.snapshot() == before


def test_a_refused_pick_puts_stream_and_mu_back():
    # The only candidate becomes a mask after mirostat has drawn for it: its softmax is NaN.
    state = state_with([-3e38])
    with pytest.raises(ValueError, match=r"\[chain\] Expected a candidate to pick"):
        Chain([Temperature(1e-3), Mirostat(3.0, 0.1, 1)]).sample(state)
    assert state.mirostat_mu is None
    assert state.mirostat.position == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mirostat(INF, 0.1, 5), r"\[mirostat\] Expected a finite tau in float32's range"),
        (lambda: Mirostat(5, INF, 5), r"\[mirostat\] Expected a finite eta in float32's range"),
        (lambda: MirostatV2(INF, 1), r"\[mirostat_v2\] Expected a finite tau in float32's range"),
        (lambda: MirostatV2(1, 1e39), r"\[mirostat_v2\] Expected a finite eta in float32's range"),
        (lambda: Mirostat(5, 0.1, 0), r"\[mirostat\] Expected vocab_size >= 1, got 0\."),
        (lambda: Mirostat(5, 0.1, 5, 0), r"\[mirostat\] Expected m >= 1, got 0\."),
    ],
)
def test_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_it_selects():
    message = r'\[chain\] Expected "mirostat_v2" as the last stage only: it selects a token\.'
    with pytest.raises(ValueError, match=message):
        Chain([MirostatV2(5, 0.1), Mirostat(5, 0.1, 10)])
