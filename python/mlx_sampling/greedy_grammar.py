"""Route B under a grammar: the winner is checked on the host, and only a refused one is picked again.

The logits stay on the device: a refusal costs a bitmask up and 4 more bytes down.
"""

from __future__ import annotations

from collections.abc import Generator

import mlx.core as mx
import numpy as np

from mlx_sampling.decode import DecodeRun, check_winner
from mlx_sampling.errors import GrammarRefusalError
from mlx_sampling.grammar import GrammarMatcher
from mlx_sampling.ops import NO_TOKEN, greedy_argmax

__all__ = ["constrained_stream"]


def constrained_stream(
    run: DecodeRun,
    prompt: list[int],
    limit: int,
    stop: frozenset[int],
    excluded: tuple[int, ...],
    matcher: GrammarMatcher,
    step_size: int,
) -> Generator[int, None, None]:
    """The tokens of `greedy_stream(grammar=...)`."""
    logits = run.prefill(prompt, step_size)
    handed_out = 0
    try:
        _check_width(matcher, run)
        while handed_out < limit:
            token = _winner(logits, excluded, matcher, run, handed_out)
            matcher.accept_token(token)
            last = token in stop or matcher.is_terminated or handed_out + 1 == limit
            try:
                logits = run.feed_picked(token, last)
            except BaseException:
                matcher.rollback(1)
                raise
            handed_out += 1
            yield from run.hand_out(token, last)
            if last:
                return
    except BaseException as error:
        run.fail(error)
        raise


def _check_width(matcher: GrammarMatcher, run: DecodeRun) -> None:
    size = _size(matcher)
    if size > run.width:
        raise ValueError(
            f"[grammar] Expected a vocabulary of at most {run.width} tokens, as many as the model has "
            f"logits, got {size}."
        )


def _size(matcher: GrammarMatcher) -> int:
    vocabulary = matcher.grammar.vocabulary
    assert vocabulary is not None
    return vocabulary.native.size


def _winner(
    logits: mx.array,
    excluded: tuple[int, ...],
    matcher: GrammarMatcher,
    run: DecodeRun,
    step: int,
) -> int:
    """The greatest eligible logit's token; the grammar has not accepted it yet.

    Raises:
        NonfiniteLogitsError: The row has NaN or an infinity, or nothing that is not excluded.
        GrammarRefusalError: The grammar allows nothing that is not excluded.
    """
    token = int(greedy_argmax(logits, excluded=excluded).item())  # type: ignore[arg-type]
    check_winner(token, run, step)
    size = _size(matcher)
    if token < size and matcher.can_accept(token):
        return token
    # A head may be wider than the vocabulary: what is beyond it is not allowed.
    bitmask = np.zeros((logits.shape[-1] + 31) // 32, np.uint32)
    matcher.fill_bitmask(bitmask[: (size + 31) // 32])
    allowed = mx.array(bitmask)
    token = int(greedy_argmax(logits, excluded=excluded, allowed=allowed).item())  # type: ignore[arg-type]
    if token == NO_TOKEN:
        raise GrammarRefusalError(
            f"[grammar] Expected a token that goes on with the text at step {step}, but the grammar "
            f"allows none that is not excluded: {step} tokens before it are good."
        )
    check_winner(token, run, step)
    return token
