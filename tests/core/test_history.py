"""Penalties and dry against their oracle, bit for bit; the history; what is refused."""

from __future__ import annotations

import history_oracle as oracle
import numpy as np
import pytest

from mlx_sampling import _ext
from mlx_sampling._ext import Chain, Dry, Greedy, LogitBias, Penalties, RequestState, dry_breakers

INF = float("inf")
NAN = float("nan")
NOTHING = LogitBias([])  # first in a chain, so that all candidates are there at its end


def left_by(stage, row, tokens, steps=()):
    """Logits after `stage`, once `tokens` are accepted."""
    chain = Chain([NOTHING, stage, Greedy()])
    state = RequestState(1, neg_inf="masked")
    for token in tokens:
        chain.accept(state, token)
    state.set_row(np.ascontiguousarray(row, dtype=np.float32))
    state.finish_row()
    chain.sample(state)
    return state.candidates()[1]


def bits(values):
    return np.asarray(values, dtype=np.float32).view(np.uint32).tolist()


PENALTIES = [
    {"last_n": n, "repeat": r, "freq": f, "present": p}
    for n in (-1, 0, 1, 2, 7, 64, 1_000)
    for r, f, p in [(1, 0, 0), (1.3, 0, 0), (0.7, 0.5, 0), (1, 0, -0.3), (1.1, 0.1, 0.2)]
]


@pytest.mark.parametrize("options", PENALTIES, ids=str)
def test_penalties_are_the_oracle_s(options):
    rng = np.random.default_rng(3)
    for length in (0, 1, 2, 8, 9, 70, 200):
        row = rng.standard_normal(23).astype(np.float32) * 3
        row[rng.integers(23, size=3)] = [0.0, -0.0, -np.inf]
        tokens = rng.integers(30, size=length).tolist()
        expected = oracle.penalties(row, tokens, **options)
        assert bits(left_by(Penalties(**options), row, tokens)) == bits(expected)


def test_known_penalties():
    # Token 0 twice and token 1 once; worked by hand: 4 / 2 - 2 * 0.5 - 0.25; -4 * 2 - 0.5 - 0.25.
    got = left_by(Penalties(64, 2.0, 0.5, 0.25), [4, -4, 1], [0, 0, 1])
    assert got.tolist() == [0.75, -8.75, 1]


def test_the_window_slides_from_step_to_step():
    stage = Penalties(last_n=3, present=1.0)
    chain = Chain([NOTHING, stage, Greedy()])
    state = RequestState(1)
    tokens = []
    for token in [0, 1, 1, 2, 3, 3, 3, 3, 0, 1]:
        chain.accept(state, token)
        tokens.append(token)
        state.set_row(np.zeros(5, dtype=np.float32))
        state.finish_row()
        chain.sample(state)
        assert state.candidates()[1].tolist() == [-(t in tokens[-3:]) for t in range(5)]
        assert state.history().tolist() == tokens


def test_two_windows_in_one_chain():
    chain = Chain([Penalties(1, present=1.0), Penalties(9, present=1.0), NOTHING, Greedy()])
    state = RequestState(1)
    for token in (0, 1):
        chain.accept(state, token)
    state.set_row(np.zeros(3, dtype=np.float32))
    state.finish_row()
    chain.sample(state)
    assert state.candidates()[1].tolist() == [-1, -2, 0]


DRY = [
    {"multiplier": m, "base": b, "allowed_length": a, "penalty_last_n": n}
    for m, b in [(0.8, 1.75), (0, 1.75), (0.8, 0.99), (1e30, 40.0), (0.3, 1.0), (2, 1.0000005)]
    for a, n in [(2, 64), (0, 64), (1, 5), (3, 300), (2, 0), (2, -1), (9, 9)]
]
BREAKERS = [[], [[0]], [[1, 2]], [[1], [1, 2], [1, 2, 0]], [[2, 1, 0], [2, 1], [2]], [[0, 0], [4]]]


@pytest.mark.parametrize("options", DRY, ids=str)
@pytest.mark.parametrize("breakers", BREAKERS, ids=str)
def test_dry_is_the_oracle_s(options, breakers):
    rng = np.random.default_rng(5)
    changed = 0
    for length in (0, 1, 2, 3, 6, 20, 65, 130):
        row = rng.standard_normal(6).astype(np.float32)
        period = rng.integers(5, size=rng.integers(1, 7)).tolist()
        tokens = (period * length)[:length] if length % 2 else rng.integers(3, size=length).tolist()
        expected = oracle.dry(row, tokens, **options, breakers=breakers)
        got = left_by(Dry(**options, breakers=breakers), row, tokens)
        assert bits(got) == bits(expected)
        changed += bits(got) != bits(row)
    off = options["multiplier"] == 0 or options["base"] < 1 or options["penalty_last_n"] <= 0
    assert changed == 0 if off else (changed > 0 or breakers or options["penalty_last_n"] == 9)


def test_known_repetition():
    # "0 1 2 2 1 2 3 0 1 2": after it 2 would repeat three tokens, 1 one and 3 two.
    tokens = [0, 1, 2, 2, 1, 2, 3, 0, 1, 2]
    got = left_by(Dry(multiplier=1, base=2, allowed_length=1), np.zeros(5), tokens)
    assert got.tolist() == [0, -1, -4, -2, 0]
    got = left_by(Dry(1, 2, 1, breakers=[[1]]), np.zeros(5), tokens)
    assert got.tolist() == [0, 0, -1, -1, 0]


def test_candidates_that_have_moved_are_found():
    if not hasattr(_ext, "TopK"):
        pytest.skip("no stage here moves candidates")
    row = np.arange(8, dtype=np.float32)
    chain = Chain([_ext.TopK(4), Penalties(present=10.0), Greedy()])
    state = RequestState(1)
    for token in (0, 5, 7):
        chain.accept(state, token)
    state.set_row(row)
    state.finish_row()
    assert chain.sample(state) == 6
    ids, logits, _ = state.candidates()
    assert dict(zip(ids.tolist(), logits.tolist(), strict=True)) == {7: -3, 6: 6, 5: -5, 4: 4}


def test_breakers_that_overlap_tokens():
    texts = [b"", b"a", b"ab", b"xab", b"xabc", b"b", b"c", b"aba", b"abcab"]

    def tokenize(text: bytes) -> list[int]:
        return [texts.index(bytes([byte])) for byte in text]

    assert dry_breakers(texts, b"abc", tokenize) == [
        *([1, 5, 6], [2, 6], [3, 6], [4], [7, 5, 6], [8])
    ]
    assert dry_breakers(texts, b"aba", tokenize)[-2:] == [[7], [8, 1]]
    assert dry_breakers([b"aa", b"a"], b"aaa", lambda text: [1] * len(text)) == [
        *([0, 1], [0, 1, 1], [1, 1, 1])
    ]


def test_long_breakers_are_cut():
    rest = dry_breakers([b"a"], b"a" + b"b" * 80, lambda text: list(range(len(text))))
    assert rest == [[0, *range(20)]]
    seen = []
    dry_breakers([b"a"], b"a" + b"b" * 80, lambda text: seen.append(text) or [])
    assert seen == [b"b" * 39]


def test_accept_refuses_and_keeps_the_history():
    chain = Chain([Penalties(present=1.0), Greedy()])
    state = RequestState(1)
    chain.accept(state, 9)  # of a prompt: the width is not known yet
    for token in (2**31 - 1, 2**32 - 1):
        with pytest.raises(
            ValueError, match=r"\[accept\] Expected a token id in \[0, 2147483647\)"
        ):
            chain.accept(state, token)
    state.set_row(np.zeros(4, dtype=np.float32))
    state.finish_row()
    assert chain.sample(state) == 0
    with pytest.raises(ValueError, match=r"\[accept\] Expected a token id in \[0, 4\), got 4"):
        chain.accept(state, 4)
    assert state.history().tolist() == [9]


def test_reset_and_fork():
    chain = Chain([Penalties(present=1.0), Greedy()])
    state = RequestState(1)
    chain.accept(state, 0)
    other = state.fork()
    chain.accept(other, 1)
    assert (state.history().tolist(), other.history().tolist()) == ([0], [0, 1])
    for each, expected in ((state, 1), (other, 2)):
        each.set_row(np.zeros(3, dtype=np.float32))
        each.finish_row()
        assert chain.sample(each) == expected
    state.reset()
    assert state.history().tolist() == []
    state.set_row(np.zeros(3, dtype=np.float32))
    state.finish_row()
    assert chain.sample(state) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Penalties(repeat=0), r"\[penalties\] Expected a repeat > 0, got 0"),
        (lambda: Penalties(repeat=NAN), r"\[penalties\] Expected a finite repeat .* got nan"),
        (lambda: Penalties(freq=INF), r"\[penalties\] Expected a finite freq .* got inf"),
        (lambda: Penalties(present=-1e39), r"\[penalties\] Expected a finite present "),
        (lambda: Dry(-1), r"\[dry\] Expected a multiplier >= 0, got -1"),
        (lambda: Dry(NAN), r"\[dry\] Expected a finite multiplier"),
        (lambda: Dry(1, INF), r"\[dry\] Expected a finite base"),
        (lambda: Dry(1, 2, -1), r"\[dry\] Expected an allowed length >= 0, got -1"),
        (lambda: Dry(1, breakers=[[1], []]), r"\[dry\] Expected breakers of at least one token"),
        (lambda: dry_breakers([b"a"], b"", list), r"\[dry\] Expected breakers of text"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
