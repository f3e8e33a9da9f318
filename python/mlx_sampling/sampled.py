"""Route A: decoding in which every step's full row comes to the host and a sampler picks from it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

import mlx.core as mx

from mlx_sampling.decode import (
    PREFILL_STEP,
    DecodeRun,
    cache_for,
    check_pick,
    checked_prompt,
    nonfinite_at,
)
from mlx_sampling.errors import NonfiniteLogitsError
from mlx_sampling.params import checked_int, token_ids
from mlx_sampling.sampler import Sampler


def sample_stream(
    model: Any,
    prompt: Sequence[int] | mx.array,
    sampler: Sampler,
    *,
    max_tokens: int = 256,
    stop_tokens: Iterable[int] = (),
    prompt_cache: list[Any] | None = None,
    prefill_step_size: int = PREFILL_STEP,
) -> Generator[int, None, None]:
    """Tokens that `sampler` picks from an mlx-lm model's full rows.

    The next forward pass is queued before a token is handed out, so that it runs while the caller works. A
    step that fails gives its draw back: the sampler is as it was before it. However a run ends, the cache
    then holds what it held before, the prompt and the tokens handed out.

    Args:
        model: An mlx-lm model: `model(tokens [1, T], cache=...)` gives logits `[1, T, V]`.
        prompt: Token ids `[T]`, T >= 1.
        sampler: The request's sampler; its streams go on from where they are. The prompt and each token
            are accepted into its history here. Its grammar ends the run too.
        max_tokens: Most tokens to hand out, >= 1. Default: 256.
        stop_tokens: Ids that end the run; the one met is handed out as the last token.
        prompt_cache: Cache to go on from, updated in place. Default: a new one.
        prefill_step_size: Prompt tokens per forward pass. Default: 2048.

    Yields:
        Token ids.

    Raises:
        NonfiniteLogitsError: At the step whose row has NaN or an infinity, before its token is drawn.
        GrammarRefusalError: At a step where the grammar leaves no token.
        TypeError, ValueError: A bad argument; raised by the call itself, before anything runs.
    """
    if not isinstance(sampler, Sampler):
        raise TypeError(f"[sampler] Expected a Sampler, got {type(sampler).__name__}.")
    ids = checked_prompt(prompt, model)
    limit = checked_int("max_tokens", max_tokens, 1)
    step_size = checked_int("prefill_step_size", prefill_step_size, 1)
    stop = frozenset(token_ids("stop_tokens", stop_tokens))
    cache = cache_for(model, prompt_cache)
    return _stream(DecodeRun(model, cache), ids, sampler, limit, stop, step_size)


def _stream(
    run: DecodeRun,
    prompt: list[int],
    sampler: Sampler,
    limit: int,
    stop: frozenset[int],
    step_size: int,
) -> Generator[int, None, None]:
    logits = run.prefill(prompt, step_size)
    handed_out = 0
    try:
        sampler.accept_prompt(prompt)
        while handed_out < limit:
            before = sampler.snapshot()
            try:
                token = sampler.sample(logits)
            except NonfiniteLogitsError as error:
                raise nonfinite_at(handed_out) from error
            try:
                check_pick(token, run)
                sampler.accept(token)
                ended = token in stop or bool(sampler.grammar_is_terminated)
                last = ended or handed_out + 1 == limit
                logits = run.feed_picked(token, last)
            except BaseException:
                # The token was not handed out: its draw and its place in the history are given back.
                sampler.restore_state(before)
                raise
            handed_out += 1
            yield from run.hand_out(token, last)
            if last:
                return
    except BaseException as error:
        run.fail(error)
        raise
