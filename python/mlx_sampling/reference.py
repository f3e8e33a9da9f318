"""Slow, obvious NumPy versions of the selection kernels, to read and to test against.

They take any array that NumPy can read as floats and return `uint32` arrays. float32 and float16 are
read as they are; NumPy has no bfloat16, so give its values as float32, which holds each of them exactly.
Nothing here uses the compiled extension.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

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
