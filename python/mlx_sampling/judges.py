"""Judges of drafts: which of a pass's tokens are kept, one token at a time.

A greedy request's drafts are compared with the winners on the device; those of a request with a sampler are
accepted or replaced on the host, by its own chain's law. The loop is in `speculative_decoding`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import mlx.core as mx
import numpy as np

from mlx_sampling._ext import draft_step
from mlx_sampling.decode import DecodeRun, check_pick, check_winner, nonfinite_at
from mlx_sampling.drafters import Draft
from mlx_sampling.errors import NonfiniteLogitsError
from mlx_sampling.ops import NO_TOKEN, greedy_argmax
from mlx_sampling.sampler import Sampler, StepTimings
from mlx_sampling.speculative import probs_row

__all__ = ["Judge", "LawJudge", "WinnerJudge", "word"]

# In place of winners after the first draft that is none; no token is as great.
_NOT_REACHED = NO_TOKEN - 1
_BAD_DRAFT = NO_TOKEN - 2


class Judge(ABC):
    """Judges the drafts of one pass after another, a token at a time."""

    sampler: Sampler | None = None

    @abstractmethod
    def begin(self, prompt: list[int]) -> None:
        """Takes in the prompt."""

    @abstractmethod
    def fed(self, draft: Draft) -> mx.array:
        """The draft's tokens as the target is fed them, uint32 `[k]`, safe to embed."""

    @abstractmethod
    def look(self, rows: mx.array, draft: Draft, size: int) -> None:
        """Takes in the rows of a pass, `[size + 1, V]`: those before and after each draft token."""

    @abstractmethod
    def token(self, at: int, step: int) -> tuple[int, bool]:
        """The token at place `at` of the pass, and whether it is the draft; the step is for errors.

        It is judged, accepted and handed out before the next one is looked at: so the sampler's grammar
        never takes a token back.
        """

    @property
    def has_ended(self) -> bool:
        """Whether the last token ends the text by itself: a grammar's."""
        return False

    @abstractmethod
    def take_back(self) -> None:
        """Makes the last token not have been, where it could not be handed out."""


class WinnerJudge(Judge):
    """Of a greedy request without a sampler: drafts and winners are compared on the device."""

    def __init__(self, run: DecodeRun, excluded: tuple[int, ...]):
        self._run = run
        self._excluded = excluded
        self._winners: list[int] = []

    def begin(self, prompt: list[int]) -> None:
        """No state of a request: the prompt is the cache's."""

    def take_back(self) -> None:
        """No state of a request: what was not handed out is nowhere."""

    def fed(self, draft: Draft) -> mx.array:
        return mx.minimum(on_device(draft), self._run.limit - 1)

    def look(self, rows: mx.array, draft: Draft, size: int) -> None:
        winners = greedy_argmax(rows, excluded=self._excluded)
        if size:
            drafted = on_device(draft)
            kept = mx.cumprod((winners[:size] == drafted).astype(mx.int32)).sum()
            after = mx.where((drafted == NO_TOKEN).any(), word(_BAD_DRAFT), word(_NOT_REACHED))
            winners = mx.where(mx.arange(size + 1) <= kept, winners, after)
        found: list[int] = winners.tolist()  # type: ignore[assignment]
        if _BAD_DRAFT in found:
            raise NonfiniteLogitsError(
                "[draft_model] Expected finite logits with an eligible token, got NaN, an infinity or none."
            )
        self._winners = found

    def token(self, at: int, step: int) -> tuple[int, bool]:
        token = self._winners[at]
        check_winner(token, self._run, step)
        return token, at + 1 < len(self._winners) and self._winners[at + 1] != _NOT_REACHED


class LawJudge(Judge):
    """Of a request with a sampler: acceptance and residual, on the host."""

    def __init__(self, run: DecodeRun, sampler: Sampler):
        self._run = run
        self.sampler = self._sampler = sampler
        self._rows = mx.zeros((0, 0))
        self._tokens: list[int] = []
        self._probs: list[Any] = []
        self._before = b""

    def begin(self, prompt: list[int]) -> None:
        self._sampler.accept_prompt(prompt)

    def fed(self, draft: Draft) -> mx.array:
        return on_device(draft)

    def look(self, rows: mx.array, draft: Draft, size: int) -> None:
        self._rows = rows
        self._tokens = list(draft.tokens)  # type: ignore[arg-type]
        if draft.probs is None:
            certain = np.ones(1, np.float32)
            self._probs = [(np.array([token], np.uint32), certain) for token in self._tokens]
        else:
            self._probs = [probs_row(f"draft_probs[{i}]", p) for i, p in enumerate(draft.probs)]
        if len(self._probs) != size:
            raise ValueError(
                f"[draft] Expected probs for each of {size} tokens, got {len(self._probs)}."
            )

    def token(self, at: int, step: int) -> tuple[int, bool]:
        sampler = self._sampler
        drafted = at < len(self._tokens)
        self._before = sampler.snapshot()
        try:
            token, kept, timings = draft_step(
                sampler._chain,
                sampler._state,
                self._rows,
                at,
                self._tokens[at] if drafted else None,
                self._probs[at] if drafted else None,
            )
        except NonfiniteLogitsError as error:
            raise nonfinite_at(step) from error
        try:
            check_pick(token, self._run)
            sampler.accept(token)
        except BaseException:
            self.take_back()
            raise
        sampler._timings = StepTimings(*timings)
        return token, kept

    @property
    def has_ended(self) -> bool:
        return bool(self._sampler.grammar_is_terminated)

    def take_back(self) -> None:
        self._sampler.restore_state(self._before)


def word(value: int) -> mx.array:
    return mx.array(value, mx.uint32)


def on_device(draft: Draft) -> mx.array:
    if isinstance(draft.tokens, mx.array):
        return draft.tokens
    return mx.array(list(draft.tokens), dtype=mx.uint32)
