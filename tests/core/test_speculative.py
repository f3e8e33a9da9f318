"""verify_draft against its slow oracle; draws; what is refused before any draw."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlx_sampling import (
    Mt19937,
    SparseProbs,
    SpeculativeDecision,
    _ext,
    reference,
    verify_draft,
    verify_draft_batch,
)
from mlx_sampling.speculative import draft_seed

f32 = np.float32


def probs(rng, rows, width, kept=None):
    """Random distributions; with `kept`, of that many tokens."""
    weights = rng.exponential(size=(rows, width)) ** 3
    if kept is not None:
        for row in weights:
            row[rng.permutation(width)[kept:]] = 0
    return (weights / weights.sum(axis=1, keepdims=True)).astype(f32)


def case(seed):
    rng = np.random.default_rng(seed)
    width = int(rng.choice([2, 3, 17, 64, 129, 1023, 1024, 1025, 3000, 5000]))
    count = int(rng.integers(0, 5))
    kept = None if seed % 3 else max(1, width // 3)
    p, q = probs(rng, count + 1, width, kept), probs(rng, count, width, kept)
    if seed % 5 == 0:
        q = p[:-1].copy()
    tokens = [int(rng.choice(width, p=row / row.sum(dtype=float))) for row in q.astype(float)]
    if seed % 7 == 0:
        tokens = rng.integers(width, size=count).tolist()
    orders = [rng.permutation(width) for _ in range(count + 1)]
    return tokens, q, p, orders


def sparse(rows, orders):
    """The rows as their positive entries in the given orders."""
    found = []
    for row, order in zip(rows, orders, strict=True):
        ids = order[row[order] > 0]
        found.append(SparseProbs(ids, row[ids]))
    return found


@pytest.mark.parametrize("seed", range(150))
def test_equals_the_oracle(seed):
    tokens, q, p, orders = case(seed)
    for given in (None, orders):
        ours, theirs = Mt19937(seed), Mt19937(seed)
        found = verify_draft(tokens, q, p, ours, target_orders=given)
        assert tuple(found) == reference.verify_draft(tokens, q, p, theirs, given)
        assert ours.position == theirs.position


@pytest.mark.parametrize("seed", range(60))
def test_sparse_rows_are_dense_ones_in_an_order(seed):
    tokens, q, p, orders = case(seed)
    expected = verify_draft(tokens, q, p, Mt19937(seed), target_orders=orders)
    shuffled = [np.random.default_rng(i).permutation(q.shape[1]) for i in range(len(q))]
    for drafts in (q, sparse(q, shuffled), sparse(q, [np.arange(q.shape[1])] * len(q))):
        assert verify_draft(tokens, drafts, sparse(p, orders), Mt19937(seed)) == expected
    plain = verify_draft(tokens, q, p, Mt19937(seed))
    by_id = sparse(p, [np.arange(p.shape[1])] * len(p))
    assert verify_draft(tokens, sparse(q, shuffled), by_id, Mt19937(seed)) == plain


def test_sums_are_those_of_one_addition_after_the_other():
    """A vocabulary's tail, where sums round most: with and without the short cut."""
    rng = np.random.default_rng(5)
    for scale in (1, 4, 12):
        weights = np.exp(scale * rng.standard_normal((3, 50_000)))
        p = (weights / weights.sum(axis=1, keepdims=True)).astype(f32)
        for seed in range(20):
            tokens = rng.integers(50_000, size=2).tolist()
            expected = reference.verify_draft(tokens, p[:2][::-1].copy(), p, Mt19937(seed))
            for fast in (True, False):
                _ext.set_fast_paths(fast)
                try:
                    found = verify_draft(tokens, p[:2][::-1].copy(), p, Mt19937(seed))
                finally:
                    _ext.set_fast_paths(True)
                assert tuple(found) == expected


@pytest.mark.parametrize("seed", range(40))
def test_words_drawn(seed):
    tokens, q, p, _ = case(seed)
    stream = Mt19937(seed)
    accepted, _, outcome = verify_draft(tokens, q, p, stream)
    assert stream.position == (accepted if outcome == "bonus" else accepted + 1) + 2
    assert (outcome == "bonus") == (accepted == len(tokens))


def test_no_drafts():
    p = np.array([[0, 0.5, 0.5]], f32)
    stream = Mt19937(3)
    found = verify_draft([], np.zeros((0, 3), f32), p, stream)
    assert found == SpeculativeDecision(0, found.next_token, "bonus")
    assert found.next_token in (1, 2)
    assert stream.position == 2


def test_a_token_without_probability_never_comes():
    """Not even where q is 0, which makes the ratio 1."""
    p = np.array([[0, 1, 0], [1, 0, 0]], f32)
    for q in ([0, 1, 0], [1, 0, 0]):
        for seed in range(200):
            stream = Mt19937(seed)
            assert verify_draft([0], np.array([q], f32), p, stream) == (0, 1, "recovered")
            assert stream.position == 3


def test_a_draft_that_q_does_not_have_is_kept_where_p_has_it():
    p = np.array([[0.01, 0.99], [1, 0]], f32)
    q = np.array([[0, 1]], f32)
    assert all(verify_draft([0], q, p, Mt19937(s)).accepted == 1 for s in range(200))


def test_an_empty_residual_gives_p_itself():
    """Rounding can leave p <= q everywhere, and a draft rejected."""
    p = np.array([[0.4995, 0.5], [0, 1]], f32)
    q = np.array([[0.5, 0.5]], f32)
    found = {verify_draft([0], q, p, Mt19937(s)) for s in range(20_000)}
    assert {d.next_token for d in found if d.outcome == "recovered"} <= {0, 1}
    assert any(d.outcome == "recovered" for d in found)


def test_arrays_of_mlx():
    tokens, q, p, orders = case(11)
    expected = verify_draft(tokens, q, p, Mt19937(1), target_orders=orders)
    found = verify_draft(
        mx.array(tokens, mx.uint32),
        mx.array(q),
        mx.array(p),
        Mt19937(1),
        target_orders=[mx.array(order.astype(np.uint32)) for order in orders],
    )
    assert found == expected
    strided = mx.array(np.repeat(p, 2, axis=1))[:, ::2]
    assert verify_draft(tokens, q, strided, Mt19937(1), target_orders=orders) == expected


P = np.array([[0.5, 0.5, 0], [0, 0.25, 0.75]], f32)
Q = np.array([[0.5, 0.25, 0.25]], f32)


def changed(rows, at, value):
    found = rows.copy()
    found[at] = value
    return found


BAD = [
    ({"draft_tokens": [3]}, r"\[draft_tokens\] Expected token ids in \[0, 3\), got 3"),
    ({"draft_tokens": [-1]}, r"\[draft_tokens\] Expected an int in"),
    ({"draft_tokens": [0, 1]}, r"\[draft_probs\] Expected a row for each of 2 draft tokens, got 1"),
    ({"draft_tokens": [], "draft_probs": Q[:0]}, r"\[target_probs\] Expected 1 rows, .* got 2"),
    ({"draft_tokens": np.array([[1]])}, r"\[draft_tokens\] Expected ints \[K\]"),
    ({"draft_tokens": np.array([1.0])}, r"\[draft_tokens\] Expected ints \[K\], got float64"),
    ({"draft_tokens": np.array([2**40])}, r"\[draft_tokens\] Expected token ids in"),
    ({"draft_probs": changed(Q, (0, 1), -0.25)}, r"\[draft_probs\[0\]\] .* >= 0, got -0.25 for token 1"),
    ({"draft_probs": changed(Q, (0, 2), np.nan)}, r"\[draft_probs\[0\]\] Expected finite .* got -?nan"),
    ({"target_probs": changed(P, (1, 0), np.inf)}, r"\[target_probs\[1\]\] Expected finite .* got inf"),
    ({"target_probs": changed(P, (1, 2), 0.7)}, r"\[target_probs\[1\]\] .* within 0.001, got 0.95"),
    ({"target_probs": P[:, :2].copy()}, r"\[draft_probs\] Expected 2 probabilities a row"),
    ({"draft_probs": Q.astype(np.float64)}, r"\[draft_probs\] Expected float32 \[K, V\], got float64"),
    ({"target_probs": mx.array(P).astype(mx.float16)}, r"\[target_probs\] .* got float16"),
    ({"target_probs": P[0]}, r"\[target_probs\] Expected float32 \[K, V\], got float32 of shape"),
    ({"target_orders": [[0, 1]]}, r"\[target_orders\] Expected an order for each of 2 target rows, got 1"),
    ({"target_orders": [[0, 1], [2, 2]]}, r"\[target_orders\[1\]\] Expected unique token ids, got 2 twice"),
    ({"target_orders": [[0, 1], [0, 2]]}, r"\[target_orders\[1\]\] .* token 1 is missing"),
    ({"target_orders": [[0, 1], [3, 2]]}, r"\[target_orders\[1\]\] Expected token ids in \[0, 3\), got 3"),
    ({"target_orders": [[0, 1], []]}, r"\[target_orders\[1\]\] Expected at least one token id"),
    ({"draft_probs": [SparseProbs([0, 0], np.array([0.5, 0.5], f32))]}, "Expected unique"),
    ({"draft_probs": [SparseProbs([7], np.ones(1, f32))]}, r"\[draft_probs\[0\]\] .* \[0, 3\), got 7"),
    ({"draft_probs": [SparseProbs([1, 2], np.ones(1, f32))]}, r"each of 2 ids, got 1"),
    ({"draft_probs": [SparseProbs([], np.ones(0, f32))]}, "Expected at least one token id"),
    ({"draft_probs": [Q[0, :2].copy()]}, r"\[draft_probs\[0\]\] Expected 3 probabilities"),
    ({"target_probs": [SparseProbs([1], np.ones(1, f32))] * 2, "target_orders": [[1], [1]],
      "draft_probs": [SparseProbs([0], np.ones(1, f32))]}, r"\[target_orders\] Expected dense"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), BAD, ids=lambda x: str(x)[:40])
def test_errors_draw_nothing(given, message):
    stream = Mt19937(1)
    arguments = {"draft_tokens": [0], "draft_probs": Q, "target_probs": P, **given}
    with pytest.raises(ValueError, match=message):
        verify_draft(rng=stream, **arguments)
    assert stream.position == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"draft_probs": 3}, r"\[draft_probs\] Expected an array or a sequence of rows, got int"),
        ({"draft_probs": [[1.0, 0, 0]]}, r"\[draft_probs\[0\]\] Expected an mx.array or a NumPy"),
        ({"draft_tokens": ["a"]}, r"\[draft_tokens\] Expected an int"),
        ({"rng": np.random.default_rng()}, r"\[rng\] Expected an Mt19937, got Generator"),
        # A mask that nothing looks at would be lost in silence.
        ({"draft_probs": np.ma.masked_array(Q, mask=Q > 0.3)}, r"\[draft_probs\] .* MaskedArray"),
        ({"target_probs": np.ma.masked_array(P)}, r"\[target_probs\] .* got MaskedArray"),
        ({"draft_tokens": 0}, r"\[draft_tokens\] Expected token ids, got int"),
        ({"target_orders": [0, 1]}, r"\[target_orders\[0\]\] Expected token ids, got int"),
        ({"target_orders": 5}, r"\[target_orders\] Expected a sequence of orders, got int"),
    ],
)
def test_types(given, message):
    arguments = {"draft_tokens": [0], "draft_probs": Q, "target_probs": P, "rng": Mt19937(1)}
    with pytest.raises(TypeError, match=message):
        verify_draft(**{**arguments, **given})


def test_a_batch_is_its_requests():
    rng = np.random.default_rng(4)
    q, p = probs(rng, 30, 50).reshape(10, 3, 50), probs(rng, 40, 50).reshape(10, 4, 50)
    tokens = rng.integers(50, size=(10, 3))
    own = [Mt19937(s) for s in range(10)]
    found = verify_draft_batch(tokens, q, p, own)
    shared = Mt19937(77)
    in_turn = verify_draft_batch(tokens, q, p, shared)
    again, turn = [Mt19937(s) for s in range(10)], Mt19937(77)
    for i in range(10):
        one = verify_draft(tokens[i], q[i], p[i], again[i])
        assert (found.accepted[i], found.next_tokens[i]) == one[:2]
        one = verify_draft(tokens[i], q[i], p[i], turn)
        assert (in_turn.accepted[i], in_turn.next_tokens[i]) == one[:2]
    assert [s.position for s in own] == [s.position for s in again]
    assert shared.position == turn.position
    same = verify_draft_batch(tokens, q[0], p[0], Mt19937(3))
    spread = verify_draft_batch(tokens, np.stack([q[0]] * 10), np.stack([p[0]] * 10), Mt19937(3))
    assert same.accepted.tolist() == spread.accepted.tolist()
    assert same.next_tokens.tolist() == spread.next_tokens.tolist()


def test_an_invalid_request_of_a_batch_draws_for_none():
    stream = Mt19937(1)
    rows = np.stack([P, changed(P, (0, 0), np.nan)])
    for tokens, q, p, message in [
        (np.array([[0], [0]]), Q, rows, "Expected finite"),
        (np.array([[0], [3]]), Q, P, r"Expected token ids in \[0, 3\), got 3"),
        (np.array([[0], [-1]]), Q, P, "Expected token ids in"),
        (np.array([0]), Q, P, r"Expected ints \[B, K\]"),
        (np.array([[0]]), Q, P[:1], r"\[target_probs\] Expected shape"),
        (np.array([[0], [1]]), Q, rows[:1], r"\[target_probs\] Expected shape"),
        (np.array([[0]]), Q[:, :2].copy(), P, r"\[draft_probs\] Expected 3 probabilities"),
    ]:
        with pytest.raises(ValueError, match=message):
            verify_draft_batch(tokens, q, p, stream)
    assert stream.position == 0
    with pytest.raises(ValueError, match=r"\[rngs\] Expected a stream for each of 2 requests"):
        verify_draft_batch(np.array([[0], [0]]), Q, P, [stream, stream])
    with pytest.raises(TypeError, match=r"\[rng\] Expected an Mt19937"):
        verify_draft_batch(np.array([[0]]), Q, P, [3])


def test_the_seed_of_the_drafts():
    """A hash; known values made with the formula in its docstring."""
    assert draft_seed(0) == draft_seed(0, 2**32)
    seeds = [draft_seed(s, position) for s in range(300) for position in range(300)]
    assert len(set(seeds)) > 0.9999 * len(seeds)
    assert all(draft_seed(s) != s for s in range(20_000))
    words = [Mt19937(s).next() for s in range(2000)]
    drafts = [Mt19937(draft_seed(s)).next() for s in range(2000)]
    correlation = np.corrcoef(words, drafts)[0, 1]
    assert abs(correlation) < 0.1


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_bad_seed_of_the_drafts(seed):
    with pytest.raises(ValueError, match=r"^\[seed\] Expected an int in"):
        draft_seed(seed)
