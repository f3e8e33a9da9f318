"""Speculative decoding over mlx-lm models: several tokens per forward pass, with the target's own law.

The drafts of `drafters` are fed to the target in one pass, and judged one by one as the caller asks for
tokens: the request's state never runs ahead of what was handed out, so there is nothing of it to roll back.
The caches are cut back after each pass. Distributions that the caller has are `speculative`'s matter.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from mlx_sampling._fields import boolean
from mlx_sampling.acceptance import AdaptiveLength, SpeculativeFigures
from mlx_sampling.decode import (
    PREFILL_STEP,
    DecodeRun,
    cache_for,
    check_ids,
    checked_prompt,
    vocab_size_of,
)
from mlx_sampling.drafters import Draft, Drafter, ModelDrafter, check_cuttable, check_lawful
from mlx_sampling.errors import CacheNotRestoredError
from mlx_sampling.judges import Judge, LawJudge, WinnerJudge, word
from mlx_sampling.params import checked_int, token_ids
from mlx_sampling.sampler import Sampler

__all__ = ["SpeculativeStream", "speculative_stream"]


def speculative_stream(
    model: Any,
    drafter: Any,
    prompt: Sequence[int] | mx.array,
    sampler: Sampler | None = None,
    *,
    draft_tokens: int = 4,
    adaptive: bool = False,
    max_tokens: int = 256,
    stop_tokens: Iterable[int] = (),
    excluded: Iterable[int] = (),
    prompt_cache: list[Any] | None = None,
    prefill_step_size: int = PREFILL_STEP,
) -> SpeculativeStream:
    """Tokens of an mlx-lm model, with the law of the model alone, several per forward pass.

    Without a sampler the request is greedy: a draft is kept where it is the kernel's winner, which is found
    out on the device; K + 1 numbers of 4 bytes come back per pass. The tokens are those of `greedy_stream`,
    as far as the model's rows over K + 1 tokens at once round as its rows one by one do.

    With one, each token has the law that `sample_stream` would draw it from, by acceptance and residual (see
    `verify_draft`); it is not the same token for the same seed. Everything is drawn from the request's
    distribution stream, mirostat's and adaptive_p's picks too; the drafter has a stream of its own
    (`draft_seed`). A sampler at temperature 0 keeps the drafts that are its picks, and draws nothing.

    A row with a nonfinite logit raises before its token is handed out. However a run ends (its last token,
    `close()`, an error), sampler and cache are then as the tokens handed out leave them; for the last of
    those that can take one more forward pass.

    Args:
        model: An mlx-lm model: `model(tokens [1, T], cache=...)` gives logits `[1, T, V]`.
        drafter: A `LookupDrafter`, a `ModelDrafter` or a `Drafter` of your own; or a model of the same
            vocabulary, which stands for a `ModelDrafter` of it.
        prompt: Token ids `[T]`, T >= 1.
        sampler: The request's sampler, as in `sample_stream`, its grammar too; one with mirostat or
            adaptive_p has to have `grammar_first` with it. Default: None, greedy.
        draft_tokens: Most tokens to draft per pass, >= 1. Default: 4.
        adaptive: Draft fewer of them while few are accepted; see `AdaptiveLength`. Default: False.
        max_tokens: Most tokens to hand out, >= 1. Default: 256.
        stop_tokens: Ids that end the run; the one met is handed out as the last token.
        excluded: Ids that a greedy run never picks; a sampler has its own.
        prompt_cache: Cache to go on from, updated in place. Default: a new one.
        prefill_step_size: Prompt tokens per forward pass. Default: 2048.

    Returns:
        An iterator over the token ids, with the run's `figures`.

    Raises:
        RuntimeError: The drafter drafts for another stream.
        NonfiniteLogitsError: At the step whose row has NaN or an infinity, before its token is drawn; or the
            draft model has such a row.
        CacheNotRestoredError: A forward pass failed and a cache cannot be cut back.
        TypeError, ValueError: A bad argument, a chain with xtc, a cache that cannot be cut back, a draft
            model of another vocabulary; raised by the call itself, before anything runs.

    Example:
        >>> stream = speculative_stream(model, LookupDrafter(), tokenizer.encode("Hello"), Sampler(seed=1))
        >>> for token in stream:
        ...     print(token)
        >>> print(stream.figures)
    """
    if sampler is not None:
        if not isinstance(sampler, Sampler):
            raise TypeError(f"[sampler] Expected a Sampler or None, got {type(sampler).__name__}.")
        check_lawful(sampler)
    never = token_ids("excluded", excluded)
    if sampler is not None and never:
        raise ValueError("[excluded] Expected none beside a sampler, which excludes by itself.")
    check_ids("excluded", never, model)
    ids = checked_prompt(prompt, model)
    options = _Options(
        prompt=ids,
        limit=checked_int("max_tokens", max_tokens, 1),
        stop=frozenset(token_ids("stop_tokens", stop_tokens)),
        excluded=never,
        step_size=checked_int("prefill_step_size", prefill_step_size, 1),
        length=AdaptiveLength(
            checked_int("draft_tokens", draft_tokens, 1), boolean("adaptive", adaptive)
        ),
    )
    who = drafter if isinstance(drafter, Drafter) else ModelDrafter(drafter)
    if isinstance(who, ModelDrafter):
        _check_vocabularies(who.vocab_size, vocab_size_of(model))
    run = DecodeRun(model, cache_for(model, prompt_cache))
    check_cuttable("prompt_cache", run, len(ids) + options.limit + draft_tokens)
    figures = SpeculativeFigures()
    judge = WinnerJudge(run, never) if sampler is None else LawJudge(run, sampler)
    return SpeculativeStream(_stream(run, who, judge, options, figures), figures)


def _check_vocabularies(draft: int | None, target: int | None) -> None:
    if draft and target and draft != target:
        raise ValueError(
            f"[draft_model] Expected a vocabulary of {target} ids, as the model's, got one of {draft}."
        )


class SpeculativeStream(Iterator[int]):
    """The tokens of a run, and its figures so far.

    Attributes:
        figures: Counts, complete after each token.
    """

    def __init__(self, tokens: Generator[int, None, None], figures: SpeculativeFigures):
        self._tokens = tokens
        self.figures = figures

    def __iter__(self) -> SpeculativeStream:
        return self

    def __next__(self) -> int:
        return next(self._tokens)

    def close(self) -> None:
        """Ends the run; the cache then holds exactly what was handed out."""
        self._tokens.close()


@dataclass
class _Options:
    prompt: list[int]
    limit: int
    stop: frozenset[int]
    excluded: tuple[int, ...]
    step_size: int
    length: AdaptiveLength


def _checked(draft: Draft, greatest: int, run: DecodeRun, sampled: bool) -> Draft:
    """The draft, on the host where the request is sampled.

    Raises:
        TypeError: The tokens are no ints.
        ValueError: More tokens than asked for, or one that the target cannot embed.
    """
    tokens = draft.tokens
    if isinstance(tokens, mx.array):
        if tokens.ndim != 1 or tokens.dtype != mx.uint32:
            raise ValueError(
                f"[draft] Expected uint32 [k], got {tokens.dtype} of shape {tokens.shape}."
            )
        if sampled:
            tokens = tokens.tolist()  # type: ignore[assignment]
    if not isinstance(tokens, mx.array):
        tokens = token_ids("draft", tokens)
        for token in tokens:
            if token >= run.limit:
                raise ValueError(f"[draft] Expected token ids in [0, {run.limit}), got {token}.")
    if len(tokens) > greatest:
        raise ValueError(f"[draft] Expected at most {greatest} tokens, got {len(tokens)}.")
    return draft._replace(tokens=tokens)


def _stream(
    run: DecodeRun,
    drafter: Drafter,
    judge: Judge,
    options: _Options,
    figures: SpeculativeFigures,
) -> Generator[int, None, None]:
    rows = run.prefill(options.prompt, options.step_size)
    begun = False
    new: list[int] = []  # handed out since the drafter was told
    try:
        judge.begin(options.prompt)
        _claim(drafter)
        begun = True
        drafter.begin(options.prompt, judge.sampler, options.excluded)
        draft = Draft([])
        while True:
            size = len(draft.tokens)
            judge.look(rows, draft, size)
            figures.add_pass(size)
            new = []
            kept = True
            while kept:
                at = len(new)
                token, kept = judge.token(at, figures.tokens)
                ended = token in options.stop or judge.has_ended
                last = ended or figures.tokens + 1 == options.limit
                _hold(run, token, kept)
                if last:
                    _finish(run, judge)
                    begun = False
                    _finish_drafter(drafter, run, judge, [*new, token])
                figures.add_token(at, size, kept)
                new.append(token)
                yield token
                if last:
                    return
                run.check_owned()
            options.length.add_pass(len(new) - 1, rejected=len(new) <= size)
            run.cut()
            left = options.limit - figures.tokens - 1
            count = min(options.length.length, left)
            told, new = new, []
            draft = _propose(drafter, run, told, count, judge.sampler is not None)
            rows = run.feed_rows(mx.concatenate([word(token)[None], judge.fed(draft)])[None])
            run.held += 1
            run.owed = []
            if figures.target_passes % 256 == 0:
                mx.clear_cache()
    except BaseException as error:
        _end_all(run, drafter if begun else None, new, error)
        raise


def _claim(drafter: Drafter) -> None:
    """Takes a drafter for a run; it serves one at a time.

    Raises:
        RuntimeError: It drafts for another one.
    """
    if drafter.busy:
        raise RuntimeError(
            "[drafter] Expected a drafter that is free, got one that drafts for another stream: close it."
        )
    drafter.busy = True


def _release(drafter: Drafter, new: list[int]) -> None:
    try:
        drafter.end(new)
    finally:
        drafter.busy = False


def _hold(run: DecodeRun, token: int, kept: bool) -> None:
    """Says of a token that is about to be handed out whether the cache has it: it has the drafts."""
    if kept:
        run.held += 1
    else:
        run.owed = [token]


def _finish(run: DecodeRun, judge: Judge) -> None:
    """Ends the run with its last token, which has not been handed out yet.

    What fails here takes the token back.
    """
    try:
        run.finish()
    except BaseException:
        judge.take_back()
        raise


def _finish_drafter(drafter: Drafter, run: DecodeRun, judge: Judge, new: list[int]) -> None:
    """Tells the drafter of the last token; what fails here takes it back, out of the cache too."""
    try:
        _release(drafter, new)
    except BaseException:
        judge.take_back()
        run.held -= 1
        run.cut()
        raise


def _propose(drafter: Drafter, run: DecodeRun, new: list[int], count: int, sampled: bool) -> Draft:
    draft = drafter.propose(new, count)
    if not isinstance(draft, Draft):
        raise TypeError(f"[draft] Expected a Draft, got {type(draft).__name__}.")
    if isinstance(drafter, ModelDrafter):
        _check_vocabularies(drafter.width, run.width)
    return _checked(draft, count, run, sampled)


def _end_all(run: DecodeRun, drafter: Drafter | None, new: list[int], error: BaseException) -> None:
    try:
        run.fail(error)
    except BaseException:
        if drafter is not None:
            with suppress(Exception):
                _release(drafter, new)
        raise
    if drafter is None:
        return
    try:
        _release(drafter, new)
    except Exception as second:
        if not isinstance(error, Exception):
            raise
        raise CacheNotRestoredError(
            f"[draft_cache] Expected a cache that can be cut back, got one that cannot ({second}) after a "
            f"failed step: make a new cache. The failure: {error}"
        ) from error
