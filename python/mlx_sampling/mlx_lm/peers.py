"""mlx-lm's own samplers, for benchmarks to measure beside."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
from mlx_lm.sample_utils import make_sampler


def peer_sampler(**settings: float) -> Callable[[mx.array], int]:
    """From a row of logits `[1, V]` to a token, as mlx-lm's generation does it."""
    sampler = make_sampler(**settings)

    def pick(logits: mx.array) -> int:
        return int(sampler(logits - mx.logsumexp(logits, keepdims=True)).item())

    return pick
