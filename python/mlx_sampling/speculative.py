"""Exact speculative acceptance of distributions that the caller has.

What comes out has the target's own law, whatever the drafts are drawn from (Leviathan et al., 2023, "Fast
Inference from Transformers via Speculative Decoding"; Chen et al., 2023, "Accelerating Large Language Model
Decoding with Speculative Sampling"). The loop over models is in `speculative_decoding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_sampling import _ext
from mlx_sampling._ext import Mt19937
from mlx_sampling._fields import checked_int, token_ids

__all__ = [
    "BatchDecisions",
    "SparseProbs",
    "SpeculativeDecision",
    "draft_seed",
    "verify_draft",
    "verify_draft_batch",
]

Array = mx.array | np.ndarray[Any, Any]
_Row = tuple[NDArray[np.uint32] | None, NDArray[np.float32]]


class SparseProbs(NamedTuple):
    """A distribution of which only the kept candidates are written down, in their order.

    Attributes:
        ids: Unique token ids `[n]`, n >= 1; every other token has probability 0.
        probs: float32 `[n]`.
    """

    ids: Any
    probs: Any


Probs = Array | Sequence[SparseProbs | Array]


class SpeculativeDecision(NamedTuple):
    """What became of a draft.

    Attributes:
        accepted: Draft tokens kept, from the first on.
        next_token: The token after them.
        outcome: "recovered": a draft was rejected, and `next_token` stands in its place. "bonus": all
            were kept, and `next_token` comes after them.
    """

    accepted: int
    next_token: int
    outcome: Literal["recovered", "bonus"]


class BatchDecisions(NamedTuple):
    """What became of many requests' drafts, each of K tokens.

    Attributes:
        accepted: int64 `[B]`; K where the outcome is "bonus", and "recovered" below it.
        next_tokens: uint32 `[B]`.
    """

    accepted: NDArray[np.int64]
    next_tokens: NDArray[np.uint32]


def verify_draft(
    draft_tokens: Iterable[int] | Array,
    draft_probs: Probs,
    target_probs: Probs,
    rng: Mt19937,
    *,
    target_orders: Sequence[Any] | None = None,
) -> SpeculativeDecision:
    """Keeps as many draft tokens as the target's law allows, and draws the token after them.

    Draft `t` at position i is kept when a uniform u <= min(p_i[t] / q_i[t], 1), in float32; where q_i[t]
    is 0 the ratio is 1, and where p_i[t] is 0 it is never kept. In place of the first one rejected comes a
    token of the residual max(p_i - q_i, 0), summed by id in float32 and normalised (p_i itself where that
    is 0); after K kept ones a token of p_K. One word of `rng` per draft looked at, two for the last token.

    The law holds if draft i was drawn from q_i, given those before it, with words that `rng` does not share:
    see `draft_seed`.

    Args:
        draft_tokens: K token ids, K >= 0.
        draft_probs: q, what each was drawn from: float32 `[K, V]`, or K rows, each `[V]` or a `SparseProbs`.
        target_probs: p at the same positions and the one after them: float32 `[K + 1, V]`, or K + 1 rows.
            Rows add up to 1 within 1e-3.
        rng: The request's stream.
        target_orders: For dense `target_probs`, K + 1 lists of unique ids that have every token of positive
            probability: the order in which a draw runs through them. Default: by id. A `SparseProbs` has
            its own.

    Returns:
        The decision.

    Raises:
        TypeError: An argument of the wrong type.
        ValueError: Shapes that do not fit, a dtype other than float32, ids out of range or not unique,
            negative, nonfinite or unnormalised probabilities, a token of positive probability that is
            missing from an order. Nothing is drawn then.

    Example:
        >>> import numpy as np
        >>> from mlx_sampling import Mt19937, verify_draft
        >>> q = np.array([[0.5, 0.5, 0.0]], dtype=np.float32)
        >>> p = np.array([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0]], dtype=np.float32)
        >>> verify_draft([1], q, p, Mt19937(1))
        SpeculativeDecision(accepted=1, next_token=1, outcome='bonus')
        >>> verify_draft([0], q, p, Mt19937(1))
        SpeculativeDecision(accepted=0, next_token=2, outcome='recovered')
    """
    _check_stream(rng)
    tokens = _id_array("draft_tokens", draft_tokens)
    drafts, targets = _rows("draft_probs", draft_probs), _rows("target_probs", target_probs)
    _check_width(draft_probs, target_probs)
    orders = None
    if target_orders is not None:
        if not isinstance(target_orders, Iterable):
            raise TypeError(
                "[target_orders] Expected a sequence of orders, got "
                f"{type(target_orders).__name__}."
            )
        orders = [_id_array(f"target_orders[{i}]", order) for i, order in enumerate(target_orders)]
    accepted, token = _ext.verify_draft(tokens, drafts, targets, orders, rng)
    return SpeculativeDecision(accepted, token, "bonus" if accepted == len(tokens) else "recovered")


def verify_draft_batch(
    draft_tokens: Array,
    draft_probs: Array,
    target_probs: Array,
    rngs: Mt19937 | Sequence[Mt19937],
) -> BatchDecisions:
    """`verify_draft` for many requests in one call.

    Args:
        draft_tokens: Ints `[B, K]`.
        draft_probs: float32 `[B, K, V]`; or `[K, V]`, the same for every request.
        target_probs: float32 `[B, K + 1, V]`; or `[K + 1, V]`.
        rngs: A stream for each request, no two the same; or one, from which they draw in order.

    Returns:
        The decisions, in order.

    Raises:
        TypeError, ValueError: As `verify_draft`. No request has drawn then.

    Example:
        >>> import numpy as np
        >>> from mlx_sampling import Mt19937, verify_draft_batch
        >>> rows = np.full((2, 4), 0.25, dtype=np.float32)
        >>> verify_draft_batch(np.array([[0], [3]]), rows[:1], rows, Mt19937(1)).accepted.tolist()
        [1, 1]
    """
    tokens = np.asarray(draft_tokens)
    if tokens.ndim != 2 or tokens.dtype.kind not in "iu":
        raise ValueError(
            f"[draft_tokens] Expected ints [B, K], got {tokens.dtype} of shape {tokens.shape}."
        )
    count, drafted = tokens.shape
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < 2**31:
        raise ValueError("[draft_tokens] Expected token ids in [0, 2**31), got others.")
    streams = [rngs] if isinstance(rngs, Mt19937) else list(rngs)
    for stream in streams:
        _check_stream(stream)
    if not isinstance(rngs, Mt19937) and len({id(stream) for stream in streams}) != count:
        raise ValueError(f"[rngs] Expected a stream for each of {count} requests, or a single one.")
    targets = _batch("target_probs", target_probs, count, drafted + 1)
    drafts = _batch("draft_probs", draft_probs, count, drafted)
    if drafts.shape[-1] != targets.shape[-1]:
        _refuse_width(drafts.shape[-1], targets.shape[-1])
    found = _ext.verify_drafts(
        np.ascontiguousarray(tokens, dtype=np.uint32), drafts, targets, streams
    )
    accepted, tokens_after = zip(*found, strict=True) if found else ((), ())
    return BatchDecisions(np.array(accepted, np.int64), np.array(tokens_after, np.uint32))


def draft_seed(seed: int, position: int = 0) -> int:
    """The seed of the stream that a request's drafts are drawn from.

    Two streams of equal words would break the law: the word that chose a draft would also judge it. So the
    drafter's seed is a hash of the request's, never the same, and of where the request's stream is, so that
    a request that goes on does not meet its first drafts again. MurmurHash3's 32-bit finaliser h gives
    h(seed ^ h(position + 0x9E3779B9)), the position reduced mod 2**32, plus 1 where that is the seed itself.

    Args:
        seed: In [0, 2**32 - 1].
        position: Words that the request's distribution stream has drawn. Default: 0.

    Returns:
        int in [0, 2**32 - 1], never `seed`.

    Example:
        >>> from mlx_sampling.speculative import draft_seed
        >>> draft_seed(42) != 42
        True
    """
    given = checked_int("seed", seed, 0, 2**32 - 1)
    found = _mixed(given ^ _mixed((checked_int("position", position, 0) + 0x9E3779B9) % 2**32))
    return (found + 1) % 2**32 if found == given else found


def _mixed(word: int) -> int:
    word ^= word >> 16
    word = word * 0x85EBCA6B % 2**32
    word ^= word >> 13
    word = word * 0xC2B2AE35 % 2**32
    return word ^ word >> 16


def probs_row(name: str, row: Any) -> _Row:
    """One distribution as the compiled half takes it: ids or None, and float32 probabilities.

    Raises:
        TypeError: No array, and no `SparseProbs`.
        ValueError: Another dtype or shape.
    """
    if isinstance(row, tuple):
        if len(row) != 2:
            raise ValueError(f"[{name}] Expected ids and probs, got {len(row)} items.")
        return _id_array(name, row[0]), _floats(name, row[1], 1)
    return None, _floats(name, row, 1)


def _check_stream(rng: Any) -> None:
    if not isinstance(rng, Mt19937):
        raise TypeError(f"[rng] Expected an Mt19937, got {type(rng).__name__}.")


def _ids(name: str, ids: Any) -> Sequence[int] | NDArray[np.integer[Any]]:
    """Ids as a sequence; an array of ints is checked as a whole."""
    if isinstance(ids, mx.array):
        ids = np.asarray(ids)
    if not isinstance(ids, np.ndarray):
        return token_ids(name, ids)
    if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
        raise ValueError(f"[{name}] Expected ints [K], got {ids.dtype.name} of shape {ids.shape}.")
    if ids.dtype == np.uint32:
        return ids  # the compiled half looks at each of them
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < 2**31:
        raise ValueError(
            f"[{name}] Expected token ids in [0, 2**31), got {ids.min()}..{ids.max()}."
        )
    return ids


def _id_array(name: str, ids: Any) -> NDArray[np.uint32]:
    return np.ascontiguousarray(_ids(name, ids), dtype=np.uint32)


def _floats(name: str, probs: Any, ndim: int) -> NDArray[np.float32]:
    if not isinstance(probs, mx.array | np.ndarray) or isinstance(probs, np.ma.MaskedArray):
        raise TypeError(
            f"[{name}] Expected an mx.array or a NumPy array, got {type(probs).__name__}."
        )
    if probs.dtype not in (np.float32, mx.float32) or probs.ndim != ndim:
        dtype = str(probs.dtype).rsplit(".", 1)[-1]
        shape = "[V]" if ndim == 1 else "[K, V]" if ndim == 2 else "[B, K, V]"
        raise ValueError(f"[{name}] Expected float32 {shape}, got {dtype} of shape {probs.shape}.")
    return np.ascontiguousarray(np.asarray(probs))


def _rows(name: str, probs: Any) -> list[_Row]:
    if isinstance(probs, mx.array | np.ndarray):
        return [(None, row) for row in _floats(name, probs, 2)]
    if isinstance(probs, SparseProbs) or not isinstance(probs, Sequence):
        raise TypeError(
            f"[{name}] Expected an array or a sequence of rows, got {type(probs).__name__}."
        )
    return [probs_row(f"{name}[{i}]", row) for i, row in enumerate(probs)]


def _check_width(draft_probs: Any, target_probs: Any) -> None:
    """What the rows do not tell where there are none."""
    shapes = [getattr(probs, "shape", None) for probs in (draft_probs, target_probs)]
    if shapes[0] is not None and shapes[1] is not None and shapes[0][1] != shapes[1][1]:
        _refuse_width(shapes[0][1], shapes[1][1])


def _refuse_width(drafts: int, targets: int) -> None:
    raise ValueError(
        f"[draft_probs] Expected {targets} probabilities a row, as in target_probs, got {drafts}."
    )


def _batch(name: str, probs: Any, count: int, rows: int) -> NDArray[np.float32]:
    found = _floats(name, probs, 2 if getattr(probs, "ndim", 3) == 2 else 3)
    if found.shape[-2] != rows or (found.ndim == 3 and len(found) != count):
        raise ValueError(
            f"[{name}] Expected shape [{count}, {rows}, V] or [{rows}, V], got {found.shape}."
        )
    return np.broadcast_to(found, (count, *found.shape[-2:]))
