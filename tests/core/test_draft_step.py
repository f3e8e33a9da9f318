"""A request's step with a draft: its law, its draws, what it changes; and rolling back."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from history_oracle import penalties
from request_kinds import KINDS, WIDTH, row, sampler_of, streams

from mlx_sampling import NonfiniteLogitsError, _ext
from mlx_sampling._ext import Chain, Dist, Penalties, RequestState, Temperature, Xtc, draft_step

LAWFUL = [kind for kind in KINDS if kind != "xtc"]
f32 = np.float32


def rows(*steps):
    return mx.array(np.stack([row(step) for step in steps]))


def step(sampler, number, token=None, probs=None):
    return draft_step(sampler._chain, sampler._state, rows(number), 0, token, probs)


def one_hot(token):
    return np.array([token], np.uint32), np.ones(1, f32)


@pytest.mark.parametrize("kind", LAWFUL)
@pytest.mark.parametrize("reference", ["libc++", "libstdc++"])
def test_the_law_is_what_sample_draws_from(kind, reference):
    """Candidates, order and bits; and what mirostat and adaptive_p make of the token."""
    ours, plain = sampler_of(kind, 5, reference), sampler_of(kind, 5, reference)
    for number in range(12):
        token = plain.sample(row(number))
        expected = plain._state.candidates()
        ours = keeping(ours, number, token)
        ids, probs = ours._state.law()
        if kind == "greedy":
            assert (ids.tolist(), probs.tolist()) == ([token], [1])
        else:
            assert ids.tolist() == expected[0].tolist()
            assert probs.tobytes() == expected[2].tobytes()
        assert ours._state.mirostat_mu == plain._state.mirostat_mu
        assert ours._state.adaptive_average == plain._state.adaptive_average
        assert ours.logprobs(3, "processed") == plain.logprobs(3, "processed")
        ours.accept(token)
        plain.accept(token)


def keeping(sampler, number, token):
    """The sampler after a step that kept `token` as its draft, with whatever seed does so."""
    for seed in range(100_000):
        trial = sampler.clone()
        trial._state.reseed(seed)
        if step(trial, number, token, one_hot(token))[1]:
            return trial
    raise AssertionError("never kept")


@pytest.mark.parametrize("kind", LAWFUL)
def test_all_draws_are_the_distribution_stream_s(kind):
    sampler = sampler_of(kind, 3)
    before = streams(sampler)
    words = []
    for number in range(8):
        at = sampler._state.distribution.position
        token, kept, _ = step(sampler, number, *((2, one_hot(2)) if number % 2 else ()))
        words.append(sampler._state.distribution.position - at)
        drafted = number % 2
        expected = 0 if kind == "greedy" else 1 if kept else drafted + 2
        assert words[-1] == expected
        assert not kept or token == 2
    assert streams(sampler)[1:] == before[1:]


def test_equals_verify_draft():
    """The same decision from the same words, over the chain's law as a sparse distribution."""
    from mlx_sampling import Mt19937, SparseProbs, verify_draft

    outcomes = set()
    for seed in range(60):
        sampler, draft = sampler_of("default", seed), sampler_of("dist", seed + 1000)
        token, _, _ = step(draft, 2)
        probs = draft._state.law()
        found, kept, _ = step(sampler, 1, token, probs)
        law = SparseProbs(*sampler._state.law())
        decision = verify_draft([token], [SparseProbs(*probs)], [law, law], Mt19937(seed))
        assert kept == (decision.accepted == 1)
        if not kept:
            assert found == decision.next_token
        outcomes.add(kept)
    assert outcomes == {True, False}


def test_greedy_keeps_its_own_pick_alone():
    sampler = sampler_of("greedy", 1)
    token = sampler_of("greedy", 1).sample(row(4))
    assert step(sampler, 4, token, one_hot(token))[:2] == (token, True)
    assert step(sampler, 4, token + 1, one_hot(token + 1))[:2] == (token, False)
    assert step(sampler, 4)[:2] == (token, False)
    assert sampler._state.distribution.position == 0


def state_of(sampler):
    state = sampler._state
    return (sampler.snapshot(), state.mirostat_mu, state.adaptive_average)


@pytest.mark.parametrize("kind", LAWFUL)
def test_a_failing_step_changes_nothing(kind):
    sampler = sampler_of(kind, 9)
    step(sampler, 0)
    before = state_of(sampler)
    bad = row(1).copy()
    bad[7] = np.nan
    with pytest.raises(NonfiniteLogitsError, match="got nan at index 7"):
        draft_step(sampler._chain, sampler._state, mx.array(bad[None]), 0, 3, one_hot(3))
    assert not sampler._state.has_row
    for token, probs, message in [
        (WIDTH, one_hot(0), rf"\[draft_token\] Expected a token id in \[0, {WIDTH}\)"),
        (3, one_hot(WIDTH), r"\[draft_probs\] Expected token ids in"),
        (3, (None, np.full(WIDTH - 1, 1 / (WIDTH - 1), f32)), rf"Expected {WIDTH} probabilities"),
        (3, (None, np.zeros(WIDTH, f32)), "add up to 1"),
        (3, (np.array([3, 3], np.uint32), np.full(2, 0.5, f32)), "unique"),
    ]:
        with pytest.raises(ValueError, match=message):
            step(sampler, 1, token, probs)
    assert state_of(sampler) == before


def test_half_a_draft():
    for half in ({"token": 3}, {"probs": one_hot(3)}):
        with pytest.raises(ValueError, match="Expected a draft token and its probs, got one"):
            step(sampler_of("dist", 1), 0, **half)


def test_rows_of_another_shape():
    sampler = sampler_of("dist", 1)
    with pytest.raises(ValueError, match=r"\[draft_step\] Expected logits \[B, V\] with a row 2"):
        draft_step(sampler._chain, sampler._state, rows(0, 1), 2)
    with pytest.raises(ValueError, match=r"\[draft_step\]"):
        draft_step(sampler._chain, sampler._state, mx.array(row(0)), 0)


def test_a_chain_that_draws_before_its_pick_is_refused():
    chain, state = Chain([Xtc(0.5, 0.1), Dist()]), RequestState(1)
    with pytest.raises(
        ValueError, match=r"Expected a chain whose only draw is the token's, got .* xtc"
    ):
        draft_step(chain, state, rows(0), 0)
    assert state.distribution.position == state.xtc.position == 0


def test_a_law_that_overflows_is_refused():
    chain, state = Chain([Temperature(1e-38), Dist()]), RequestState(1)
    with pytest.raises(ValueError, match="finite"):
        draft_step(chain, state, mx.array(row(0)[None] * 1e6), 0)
    assert state.distribution.position == 0


def test_a_row_of_masks_is_refused():
    chain, state = (
        Chain([_ext.LogitBias([(i, -np.inf) for i in range(4)]), Dist()]),
        RequestState(1),
    )
    with pytest.raises(NonfiniteLogitsError, match="left none"):
        draft_step(chain, state, mx.zeros((1, 4)), 0)
    assert state.distribution.position == 0


@pytest.mark.parametrize("kind", LAWFUL)
def test_rollback(kind):
    """Everything but the streams, to any place; going on from there is as if nothing had been."""
    sampler, twin = sampler_of(kind, 2), sampler_of(kind, 2)
    marks, states = [], []
    for number in range(9):
        marks.append(sampler._state.mark())
        states.append((*state_of(sampler)[1:], sampler.history))
        sampler.accept(step(sampler, number)[0])
    for at in (6, 3, 3, 0):
        sampler._state.rollback(marks[at])
        assert (*state_of(sampler)[1:], sampler.history) == states[at]
        assert marks[at].accepted == at
    for _ in range(9):
        twin._state.distribution.uniform_f64()
    if kind == "greedy":
        twin.reset()
    for number in range(20, 26):
        token = step(sampler, number)[0]
        assert token == step(twin, number)[0]
        sampler.accept(token)
        twin.accept(token)
    with pytest.raises(ValueError, match=r"\[rollback\] Expected a mark of at most 0 accepted"):
        sampler.reset()
        sampler._state.rollback(marks[3])


def test_windows_of_penalties_after_a_rollback():
    """Counts of a sliding window, rolled back by less and by more than its width."""
    rng = np.random.default_rng(1)
    chain = Chain([_ext.LogitBias([]), Penalties(5, present=0.5, freq=0.25), _ext.Greedy()])
    state, tokens = RequestState(1), []
    values = rng.standard_normal(8).astype(f32)
    for _ in range(300):
        if tokens and rng.random() < 0.3:
            count = int(rng.integers(0, len(tokens) + 1)) if rng.random() < 0.1 else len(tokens) - 1
            state.rollback(marks_of(count))
            tokens = tokens[:count]
        tokens.append(int(rng.integers(8)))
        chain.accept(state, tokens[-1])
        state.set_row(values)
        state.finish_row()
        chain.sample(state)
        expected = penalties(values, tokens, last_n=5, freq=0.25, present=0.5)
        assert state.candidates()[1].tolist() == expected.tolist()


def marks_of(count):
    """A mark of `count` accepted tokens."""
    state = RequestState(1)
    Chain([Dist()]).accept_prompt(state, [0] * count)
    return state.mark()


def test_reseed():
    state, other = RequestState(1), RequestState(9)
    state.distribution.next()
    state.reseed(9)
    assert state.seed == 9
    assert state.snapshot() == other.snapshot()
