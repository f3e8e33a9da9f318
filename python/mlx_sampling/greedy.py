"""Route B: greedy decoding in which the token never leaves the device on its way to the next step."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import Any

import mlx.core as mx

from mlx_sampling.decode import (
    PREFILL_STEP,
    DecodeRun,
    cache_for,
    check_ids,
    check_winner,
    checked_prompt,
)
from mlx_sampling.grammar import Grammar, GrammarMatcher
from mlx_sampling.greedy_grammar import constrained_stream
from mlx_sampling.ops import greedy_argmax
from mlx_sampling.params import checked_int, token_ids


def greedy_stream(
    model: Any,
    prompt: Sequence[int] | mx.array,
    *,
    max_tokens: int = 256,
    stop_tokens: Iterable[int] = (),
    excluded: Iterable[int] = (),
    prompt_cache: list[Any] | None = None,
    in_flight: int = 2,
    prefill_step_size: int = PREFILL_STEP,
    grammar: Grammar | GrammarMatcher | None = None,
) -> Generator[int, None, None]:
    """Greedy tokens of an mlx-lm model, one 4-byte read-back per token.

    Each step embeds the previous step's winner straight from the device, and `in_flight` further steps
    are queued while one token is read. A row with a nonfinite logit raises before its token is handed
    out. However a run ends (its last token, `close()`, an error), the cache then holds exactly what
    it held before, the prompt and the tokens handed out. A cache that cannot be cut back (a full
    rotating one, a recurrent state) is run without queueing tokens that were not checked yet. A new stream
    on a cache ends the one before, as `close()` does.

    Args:
        model: An mlx-lm model: `model(tokens [1, T], cache=...)` gives logits `[1, T, V]` in float32,
            float16 or bfloat16.
        prompt: Token ids `[T]`, T >= 1.
        max_tokens: Most tokens to hand out, >= 1. Default: 256.
        stop_tokens: Ids that end the run; the one met is handed out as the last token.
        excluded: Ids that are never picked (the end-of-generation ids, to ignore them).
        prompt_cache: Cache to go on from, updated in place. Default: a new one.
        in_flight: Steps queued ahead of the one being read, >= 0. Default: 2.
        prefill_step_size: Prompt tokens per forward pass. Default: 2048.
        grammar: What the tokens must match, from its beginning; or a matcher to go on from, which then
            has accepted the tokens handed out. Each winner is checked on the host, and one that is
            refused is picked again on the device under the bitmask; `in_flight` is 0 then. The token
            that ends the grammar ends the run. Default: none.

    Yields:
        Token ids.

    Raises:
        NonfiniteLogitsError: At the step whose row has NaN or an infinity, or no eligible token.
        GrammarRefusalError: At a step where the grammar allows no token that is not excluded.
        CacheNotRestoredError: A forward pass failed and the cache cannot be cut back.
        TypeError, ValueError: A bad argument; raised by the call itself, before anything runs.

    Example:
        >>> for token in greedy_stream(model, tokenizer.encode("Hello"), max_tokens=8):
        ...     print(token)
    """
    ids = checked_prompt(prompt, model)
    limit = checked_int("max_tokens", max_tokens, 1)
    step_size = checked_int("prefill_step_size", prefill_step_size, 1)
    ahead = checked_int("in_flight", in_flight, 0)
    stop = frozenset(token_ids("stop_tokens", stop_tokens))
    never = token_ids("excluded", excluded)
    check_ids("excluded", never, model)
    matcher = _matcher_of(grammar)
    cache = cache_for(model, prompt_cache)
    run = DecodeRun(model, cache)
    if matcher is None:
        return _stream(run, ids, limit, stop, never, ahead, step_size)
    return constrained_stream(run, ids, limit, stop, never, matcher, step_size)


def _matcher_of(grammar: Grammar | GrammarMatcher | None) -> GrammarMatcher | None:
    if grammar is None:
        return None
    if not isinstance(grammar, Grammar | GrammarMatcher):
        raise TypeError(
            f"[grammar] Expected a Grammar or a GrammarMatcher, got {type(grammar).__name__}."
        )
    matcher = grammar.matcher() if isinstance(grammar, Grammar) else grammar
    if matcher.grammar.vocabulary is None:
        raise ValueError("[grammar] Expected a grammar with a vocabulary, got none.")
    return matcher


class _Winners:
    """Queue of steps on the device: each feeds the previous one's winner."""

    def __init__(self, run: DecodeRun, excluded: tuple[int, ...]):
        self._run = run
        self._excluded = excluded
        self._pending: deque[mx.array] = deque()
        self._next_input: mx.array | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def push(self, logits: mx.array) -> None:
        winner = greedy_argmax(logits, excluded=self._excluded)
        # What is embedded before the host has checked it must lie inside the table.
        self._next_input = mx.minimum(winner, self._run.limit - 1)[:, None]
        mx.async_eval(winner, self._next_input)
        self._pending.append(winner)

    def feed_last(self) -> mx.array:
        assert self._next_input is not None
        return self._run.feed(self._next_input)

    def pop(self) -> int:
        return int(self._pending.popleft().item())  # type: ignore[arg-type]


def _stream(
    run: DecodeRun,
    prompt: list[int],
    limit: int,
    stop: frozenset[int],
    excluded: tuple[int, ...],
    ahead: int,
    step_size: int,
) -> Generator[int, None, None]:
    handed_out = 0
    winners = _Winners(run, excluded)
    first = run.prefill(prompt, step_size)
    try:
        winners.push(first)
        launched = 1
        while handed_out < limit:
            while launched < limit and len(winners) <= ahead and run.can_take_back():
                winners.push(winners.feed_last())
                launched += 1
            token = winners.pop()
            check_winner(token, run, handed_out)
            last = token in stop or handed_out + 1 == limit
            if len(winners) == 0:
                # Nothing queued has fed this token yet, and the cache must hold it once it is out.
                logits = winners.feed_last()
                if last:
                    run.evaluate_cache(wait=False)
                else:
                    winners.push(logits)
                    launched += 1
            handed_out += 1
            yield from run.hand_out(token, last)
            if last:
                return
    except BaseException as error:
        run.fail(error)
        raise
