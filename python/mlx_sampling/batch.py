"""A step of many requests in one call.

Each row has a sampler of its own, with its own parameters, seed and history. Not here: how a batch is
put together or what is done with the tokens.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from mlx_sampling._ext import step_batch
from mlx_sampling.errors import BatchError
from mlx_sampling.params import checked_int
from mlx_sampling.sampler import Sampler, StepTimings, host_rows

__all__ = ["sample_batch"]


def sample_batch(
    logits: mx.array | np.ndarray[Any, Any],
    samplers: Sequence[Sampler],
    *,
    threads: int | None = None,
) -> list[int]:
    """Takes a row of logits for each sampler and returns a token for each.

    The batch is evaluated once; then one compiled call copies, checks and samples all rows on several
    threads, without the GIL. A row's token is the one that `sampler.sample(row)` would give, whatever
    else is in the batch. Nothing is accepted: `Sampler.accept` is due for each token, as after `sample`.

    Args:
        logits: float32, float16 or bfloat16 `[B, V]`, any strides. Never written.
        samplers: B samplers, no two the same.
        threads: Most threads to use, >= 1. Default: one per processor.

    Returns:
        B token ids.

    Raises:
        BatchError: Rows failed. Its `results` have the tokens of the other rows, whose samplers are
            a step further, and the exception of each that failed, whose sampler is as after a failed
            `sample`.
        TypeError: `logits` is no array, or something is no sampler.
        ValueError: Wrong dtype or shape, or a sampler that is there twice; nothing was sampled.

    Example:
        >>> import numpy as np
        >>> from mlx_sampling import Sampler, sample_batch
        >>> logits = np.array([[0.0, 9.0], [9.0, 0.0]], dtype=np.float32)
        >>> sample_batch(logits, [Sampler(temperature=0), Sampler(seed=1, top_k=1)])
        [1, 0]
    """
    requests = list(samplers)
    for sampler in requests:
        if not isinstance(sampler, Sampler):
            raise TypeError(f"[sample_batch] Expected samplers, got {type(sampler).__name__}.")
    count = os.cpu_count() or 1 if threads is None else checked_int("threads", threads, 1)
    rows = logits
    if not isinstance(logits, mx.array):
        rows = host_rows("sample_batch", logits)
        if rows.ndim != 2 or len(rows) != len(requests):
            raise ValueError(
                "[sample_batch] Expected logits of shape [B, V] with a row for each of "
                f"{len(requests)} samplers, got shape {logits.shape}."
            )
    chains = [sampler._chain for sampler in requests]
    states = [sampler._state for sampler in requests]
    results: list[int | Exception] = []
    for sampler, found in zip(
        requests, step_batch(chains, states, rows, min(count, len(states))), strict=True
    ):
        if isinstance(found, Exception):
            results.append(found)
        else:
            results.append(found[0])
            sampler._timings = StepTimings(*found[1])
    tokens = [result for result in results if not isinstance(result, Exception)]
    if len(tokens) < len(results):
        raise BatchError(results)
    return tokens
