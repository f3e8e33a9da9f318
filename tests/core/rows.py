"""Rows of logits for the tests of stages, and states that hold them."""

from __future__ import annotations

import numpy as np

from mlx_sampling._ext import RequestState


def untied(rng: np.random.Generator, width: int, scale: float = 3.0, masked: float = 0.0):
    """float32 normals, no two alike but for a share of -inf."""
    row = np.zeros(0, dtype=np.float32)
    while len(row) < width:
        row = np.unique((rng.standard_normal(2 * width + 8) * scale).astype(np.float32))
    row = rng.permutation(row)[:width]
    row[rng.random(width) < masked] = -np.inf
    if np.isneginf(row).all():
        row[0] = 1
    return row


def bits(values) -> list[int]:
    return np.asarray(values, dtype=np.float32).view(np.uint32).tolist()


def refill(state: RequestState, row) -> RequestState:
    state.set_row(np.ascontiguousarray(row, dtype=np.float32))
    state.finish_row()
    return state


def state_with(row, seed: int = 1, **options) -> RequestState:
    return refill(RequestState(seed, neg_inf="masked", **options), row)


def expect_candidates(state: RequestState, expected) -> None:
    """Ids, logits and p, bit for bit."""
    ids, logits, p = state.candidates()
    assert ids.tolist() == [c.id for c in expected]
    assert bits(logits) == bits([c.logit for c in expected])
    assert bits(p) == bits([c.p for c in expected])
