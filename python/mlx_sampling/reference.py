"""Slow, obvious NumPy versions of the selection kernels and of speculative acceptance, to read and to test
against.

They take any array that NumPy can read as floats and return `uint32` arrays. float32 and float16 are
read as they are; NumPy has no bfloat16, so give its values as float32, which holds each of them exactly.
Nothing here uses the compiled extension.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

NO_TOKEN = 0xFFFFFFFF


def argmax(logits: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """First maximum of each row: a scan from (-inf, index 0) that moves on strictly greater.

    Args:
        logits: Floats `[..., V]`, V > 0.

    Returns:
        uint32 `[...]`. NaN never wins; a row with nothing greater than -inf gives 0.

    Example:
        >>> argmax([[1.0, 3.0, 3.0], [float("nan"), -1.0, -2.0]]).tolist()
        [1, 1]
    """
    rows = _rows("argmax", logits)
    tokens = np.zeros(rows.shape[:-1], np.uint32)
    for at in np.ndindex(tokens.shape):
        best = -math.inf
        for index, logit in enumerate(rows[at].tolist()):
            if logit > best:
                best = logit
                tokens[at] = index
    return tokens


def greedy_argmax(
    logits: npt.ArrayLike,
    excluded: Iterable[int] = (),
    allowed: npt.ArrayLike | None = None,
    neg_inf: str = "error",
) -> npt.NDArray[np.uint32]:
    """Fail-closed greedy pick of each row.

    Args:
        logits: Floats `[..., V]`, V > 0.
        excluded: Token ids in [0, V) that no row may pick.
        allowed: Packed uint32 bitmask `[ceil(V / 32)]`, or one row per row of logits; see
            `pack_bitmask`. Default: every token.
        neg_inf: "error": a -inf is nonfinite. "masked": a -inf is never picked, and no more than that.

    Returns:
        uint32 `[...]`: the lowest index among the greatest eligible logits. `NO_TOKEN` where a logit,
        eligible or not, is nonfinite, and where no token is eligible.

    Raises:
        ValueError: V = 0, an id outside [0, V), a bitmask of another width, an unknown `neg_inf`.

    Example:
        >>> greedy_argmax([[1.0, 3.0, 2.0], [0.0, float("nan"), 5.0]], excluded=[1]).tolist()
        [2, 4294967295]
    """
    rows = _rows("greedy_argmax", logits)
    width = rows.shape[-1]
    banned = set(excluded)
    for token in sorted(banned):
        if not 0 <= token < width:
            raise ValueError(f"[greedy_argmax] Expected excluded ids in [0, {width}), got {token}.")
    if neg_inf not in ("error", "masked"):
        raise ValueError(f'[greedy_argmax] Expected neg_inf "error" or "masked", got "{neg_inf}".')
    words: npt.NDArray[np.uint32] | None = None
    if allowed is not None:
        words = np.asarray(allowed, np.uint32)
        if words.shape[-1] != (width - 1) // 32 + 1:
            raise ValueError(
                f"[greedy_argmax] Expected allowed of {(width - 1) // 32 + 1} words a row, "
                f"got {words.shape[-1]}."
            )
        words = np.broadcast_to(words, (*rows.shape[:-1], words.shape[-1]))
    tokens = np.full(rows.shape[:-1], NO_TOKEN, np.uint32)
    for at in np.ndindex(tokens.shape):
        tokens[at] = _greedy_row(
            rows[at].tolist(), banned, None if words is None else words[at].tolist(), neg_inf
        )
    return tokens


def pack_bitmask(allowed: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """Packs bools `[..., V]` into uint32 `[..., ceil(V / 32)]`: bit `i % 32` of word `i // 32`.

    Padding bits are 0.

    Example:
        >>> pack_bitmask([True] + [False] * 31 + [True, True]).tolist()
        [1, 3]
    """
    bits = np.asarray(allowed, np.bool_)
    words = np.zeros((*bits.shape[:-1], -(-bits.shape[-1] // 32)), np.uint32)
    for token in range(bits.shape[-1]):
        words[..., token // 32] |= bits[..., token].astype(np.uint32) << np.uint32(token % 32)
    return words


def verify_draft(
    draft_tokens: Sequence[int],
    draft_probs: npt.NDArray[np.float32],
    target_probs: npt.NDArray[np.float32],
    rng: Any,
    target_orders: Sequence[Sequence[int]] | None = None,
) -> tuple[int, int, str]:
    """Exact speculative acceptance of K drafts, in float32 where the contract says so.

    Args:
        draft_tokens: K ids.
        draft_probs: q, float32 `[K, V]`.
        target_probs: p, float32 `[K + 1, V]`.
        rng: Anything with `uniform_f32()` and `uniform_f64()`.
        target_orders: K + 1 lists of ids that a draw runs through. Default: by id.

    Returns:
        Drafts kept, the next token, and "recovered" or "bonus".

    Raises:
        ValueError: Shapes, ids or probabilities that are none, or an order without a token of positive
            probability; nothing is drawn then.

    Example:
        >>> from mlx_sampling import Mt19937
        >>> p = np.eye(3, dtype=np.float32)
        >>> verify_draft([0, 1], p[:2], p, Mt19937(1))
        (2, 2, 'bonus')
    """
    drafted, width = len(draft_tokens), target_probs.shape[-1]
    if draft_probs.shape != (drafted, width) or target_probs.shape != (drafted + 1, width):
        raise ValueError(
            f"[verify_draft] Expected shapes [{drafted}, V] and [{drafted + 1}, V], got "
            f"{draft_probs.shape} and {target_probs.shape}."
        )
    if any(not 0 <= token < width for token in draft_tokens):
        raise ValueError(f"[draft_tokens] Expected token ids in [0, {width}), got others.")
    for row in (*draft_probs, *target_probs):
        if not np.isfinite(row).all() or (row < 0).any() or abs(row.sum(dtype=float) - 1) > 1e-3:
            raise ValueError("[probs] Expected finite probabilities >= 0 that add up to 1.")
    orders = [np.arange(width)] * (drafted + 1)
    if target_orders is not None:
        orders = [np.asarray(order, np.int64) for order in target_orders]
        for order, row in zip(orders, target_probs, strict=True):
            if len(np.unique(order)) != len(order) or not np.isin(np.flatnonzero(row), order).all():
                raise ValueError("[target_orders] Expected unique ids, all that have probability.")

    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        u = np.float32(rng.uniform_f32())
        ratio = min(p[token] / q[token], np.float32(1)) if q[token] > 0 else np.float32(1)
        if p[token] > 0 and u <= ratio:
            continue
        residual = np.maximum(p - q, np.float32(0))
        total = np.add.accumulate(residual)[-1]  # one addition after the other, in float32
        weights = residual / total if total > 0 else p
        return i, _draw(weights[orders[i]], orders[i], rng.uniform_f64()), "recovered"
    p, order = target_probs[drafted], orders[drafted]
    return drafted, _draw(p[order], order, rng.uniform_f64()), "bonus"


def _draw(weights: npt.NDArray[np.float32], ids: npt.NDArray[np.int64], u: float) -> int:
    running = np.add.accumulate(weights.astype(np.float64))
    reached = np.flatnonzero((running >= running[-1] * u) & (weights > 0))
    at = reached[0] if len(reached) else np.flatnonzero(weights > 0)[-1]
    return int(ids[at])


def _rows(name: str, logits: npt.ArrayLike) -> npt.NDArray[np.floating]:
    rows = np.asarray(logits)
    if rows.ndim == 0 or rows.shape[-1] == 0:
        raise ValueError(
            f"[{name}] Expected logits of shape [..., V] with V > 0, got shape {rows.shape}."
        )
    return rows


def _greedy_row(
    logits: Sequence[float], banned: set[int], allowed: Sequence[int] | None, neg_inf: str
) -> int:
    best = -math.inf
    token = NO_TOKEN
    for index, logit in enumerate(logits):
        if math.isnan(logit) or logit == math.inf:
            return NO_TOKEN
        if logit == -math.inf and neg_inf == "error":
            return NO_TOKEN
        if index in banned:
            continue
        if allowed is not None and not allowed[index // 32] >> (index % 32) & 1:
            continue
        if logit > best:
            best = logit
            token = index
    return token
