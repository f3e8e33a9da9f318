"""Who drafts: another model, or the text itself.

A drafter proposes tokens and says what they were drawn from. Whether they are kept is the target's matter
(`speculative_decoding`), so a bad drafter costs time and never changes the law of the tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import mlx.core as mx

from mlx_sampling._ext import draft_step
from mlx_sampling._fields import checked_int
from mlx_sampling.decode import PREFILL_STEP, DecodeRun, cache_for, check_pick, vocab_size_of
from mlx_sampling.errors import GrammarRefusalError, NonfiniteLogitsError
from mlx_sampling.ops import greedy_argmax
from mlx_sampling.sampler import Sampler
from mlx_sampling.speculative import SparseProbs, draft_seed

__all__ = ["Draft", "Drafter", "LookupDrafter", "ModelDrafter"]


class Draft(NamedTuple):
    """Proposed tokens.

    Attributes:
        tokens: Ids; of a request without draws also a uint32 array `[k]` that nobody has evaluated yet.
        probs: What each was drawn from, given those before it: per token a `SparseProbs` or a float32 row
            `[V]`. None: the tokens were certain, whatever the drafter's reasons.
    """

    tokens: Sequence[int] | mx.array
    probs: Sequence[Any] | None = None


class Drafter(ABC):
    """What `speculative_stream` asks of a drafter; the base of those here, and of your own.

    A drafter serves one run at a time. For the law to hold, draft i must have been drawn from `probs[i]`, and
    by words that the request does not use: see `draft_seed`. One of your own has to have `propose`; `begin`
    and `end` do nothing where it does not say otherwise.

    Attributes:
        busy: Whether a run goes on; `speculative_stream` keeps it.
    """

    busy = False

    def begin(self, prompt: list[int], sampler: Sampler | None, excluded: tuple[int, ...]) -> None:
        """Starts a run.

        Args:
            prompt: Token ids that the target has just been fed.
            sampler: The request's, which has accepted the prompt and is not to be changed; None for a
                greedy request.
            excluded: Ids that a greedy request never picks.
        """
        return None

    @abstractmethod
    def propose(self, tokens: list[int], count: int) -> Draft:
        """Drafts what comes next.

        Args:
            tokens: What was handed out since the call before: its drafts as far as they were kept, and
                one token more. The first call gets the first token.
            count: Most tokens to draft, >= 0; 0 before the last token of a run.
        """

    def end(self, tokens: list[int]) -> None:
        """Ends the run; `tokens` as in `propose`. Called however the run ends, once it has begun."""
        return None


class LookupDrafter(Drafter):
    """Drafts what followed the last time that the text's last few tokens stood in it.

    Needs no second model. Good for answers that repeat their prompt: code edits, summaries, extraction.

    Args:
        longest: Most tokens to look for, >= 1. Default: 3.
        shortest: Fewest, in [1, longest]. Default: 1.

    Raises:
        TypeError, ValueError: A length that is no int, or out of range.

    Example:
        >>> drafter = LookupDrafter()
        >>> drafter.begin([5, 6, 7, 8, 5], None, ())
        >>> drafter.propose([6], 3).tokens
        [7, 8, 5]
    """

    def __init__(self, longest: int = 3, shortest: int = 1):
        self._longest = checked_int("longest", longest, 1)
        self._shortest = checked_int("shortest", shortest, 1, self._longest)
        self._text: list[int] = []
        self._following: dict[tuple[int, ...], int] = {}

    def begin(self, prompt: list[int], sampler: Sampler | None, excluded: tuple[int, ...]) -> None:
        self._text = []
        self._following = {}
        for token in prompt if sampler is None else sampler.history:
            self._add(token)

    def _add(self, token: int) -> None:
        # What ends before this token is followed by it: the place to draft from, if it comes again.
        for size in range(self._shortest, min(self._longest, len(self._text)) + 1):
            self._following[tuple(self._text[-size:])] = len(self._text)
        self._text.append(token)

    def propose(self, tokens: list[int], count: int) -> Draft:
        for token in tokens:
            self._add(token)
        for size in range(min(self._longest, len(self._text)), self._shortest - 1, -1):
            at = self._following.get(tuple(self._text[-size:]))
            if at is not None:
                return Draft(self._text[at : at + count])
        return Draft([])


class ModelDrafter(Drafter):
    """Drafts with another model of the same vocabulary, token by token.

    A sampled request's drafts are drawn by its own chain, or by that of `sampler`, from a stream of their
    own; their penalties look back on the text as it is, drafts included. A greedy request's are the model's
    winners, which stay on the device.

    Args:
        model: An mlx-lm model, as in `speculative_stream`.
        sampler: Whose chain draws the drafts; it is not changed, its seed and history do not count. Not for
            greedy requests. Default: the request's own.
        prompt_cache: The model's cache to go on from, updated in place: when a run ends, it holds what the
            target's does. Default: a new one.
        prefill_step_size: Prompt tokens per forward pass. Default: 2048.

    Raises:
        TypeError, ValueError: A bad argument, or a sampler whose chain draws before its pick (xtc).
    """

    def __init__(
        self,
        model: Any,
        sampler: Sampler | None = None,
        *,
        prompt_cache: list[Any] | None = None,
        prefill_step_size: int = PREFILL_STEP,
    ):
        if not callable(model) or isinstance(model, type):
            raise TypeError(f"[drafter] Expected a Drafter or a model, got {model!r:.60}.")
        if sampler is not None:
            check_lawful(sampler)
        self.model = model
        self._chain_of = sampler
        self._cache = prompt_cache
        self._step_size = checked_int("prefill_step_size", prefill_step_size, 1)
        self._run: DecodeRun | None = None
        self._request: Sampler | None = None
        self._excluded: tuple[int, ...] = ()
        self._leader: Sampler | None = None  # the request's, where its chain draws the drafts
        self._marks: list[Any] = []
        self._fed = 0  # drafts of the last proposal that the cache has

    @property
    def vocab_size(self) -> int | None:
        """How many ids the model can embed; None where it does not tell."""
        return vocab_size_of(self.model)

    @property
    def width(self) -> int:
        """V of the model's rows; 0 before the first."""
        return 0 if self._run is None else self._run.width

    def begin(self, prompt: list[int], sampler: Sampler | None, excluded: tuple[int, ...]) -> None:
        if sampler is None and self._chain_of is not None:
            raise ValueError("[sampler] Expected a drafter without a sampler for a greedy request.")
        run = DecodeRun(self.model, cache_for(self.model, self._cache))
        check_cuttable("draft_cache", run, len(prompt) + 1)
        run.prefill(prompt, self._step_size)
        self._run, self._excluded, self._fed = run, excluded, 0
        self._request, self._marks = None, []
        if sampler is not None:
            request = (sampler if self._chain_of is None else self._chain_of).clone()
            request.reset()
            request._state.reseed(draft_seed(sampler.seed, sampler._state.distribution.position))
            request.accept_prompt(sampler.history)
            self._request, self._marks = request, [request._state.mark()]
            self._leader = sampler if self._chain_of is None else None

    def propose(self, tokens: list[int], count: int) -> Draft:
        run = self._run
        assert run is not None
        kept = len(tokens) - 1
        row = self._catch_up(run, tokens)
        if not run.can_take_back(count):
            raise ValueError(
                "[draft_cache] Expected room for drafts that can be cut off, got a full cache."
            )
        if self._request is None:
            return Draft(self._winners(run, row, count))
        state = self._request._state
        state.rollback(self._marks[kept])
        self._request.accept_prompt(tokens[kept:])
        if (
            self._leader is not None
        ):  # of the same history now: mirostat's and adaptive_p's sums too
            state.rollback(self._leader._state.mark())
        return self._drawn(run, self._request, row, count)

    def _catch_up(self, run: DecodeRun, tokens: list[int]) -> mx.array:
        """Cuts the drafts off that were not kept, and feeds what the cache does not have."""
        run.check_owned()
        known = min(len(tokens) - 1, self._fed)
        run.held += known
        self._fed = 0
        run.owed = tokens[known:]
        run.cut()
        row = run.feed(mx.array([run.owed], dtype=mx.uint32))
        run.held += len(run.owed)
        run.owed = []
        return row

    def _winners(self, run: DecodeRun, row: mx.array, count: int) -> mx.array:
        winners: list[mx.array] = []
        while len(winners) < count:
            if winners:
                row = run.feed(mx.minimum(winners[-1], run.limit - 1)[:, None])
                self._fed += 1
            winners.append(greedy_argmax(row, excluded=self._excluded))
        return mx.concatenate(winners) if winners else mx.zeros(0, mx.uint32)

    def _drawn(self, run: DecodeRun, request: Sampler, row: mx.array, count: int) -> Draft:
        drafted: list[int] = []
        probs: list[SparseProbs] = []
        self._marks = [request._state.mark()]
        goes_on = True
        while goes_on and len(drafted) < count and not request.grammar_is_terminated:
            if drafted:
                row = run.feed(mx.array([drafted[-1:]], dtype=mx.uint32))
                self._fed += 1
            try:
                token, _, _ = draft_step(request._chain, request._state, row, 0)
            except NonfiniteLogitsError as error:
                raise NonfiniteLogitsError(f"[draft_model] {error}") from error
            except GrammarRefusalError:
                break  # the grammar has nothing more to draft: whether that is an error, the target says
            check_pick(token, run)
            probs.append(SparseProbs(*request._state.law()))
            try:
                request.accept(token)
            except GrammarRefusalError:
                # It triggers a lazy grammar that it does not fit. Drawn is drawn: the law needs it judged.
                request.accept_prompt([token])
                goes_on = False
            drafted.append(token)
            self._marks.append(request._state.mark())
        return Draft(drafted, probs)

    def end(self, tokens: list[int]) -> None:
        run, self._run = self._run, None
        if run is None or run.finished:
            return
        known = min(max(len(tokens) - 1, 0), self._fed)
        run.held += known
        run.owed = [] if self._cache is None else [*run.owed, *tokens[known:]]
        run.finish()


def check_lawful(sampler: Sampler) -> None:
    """Refuses a chain whose pick has no law of its own.

    Raises:
        ValueError: It has xtc, which draws before the pick, and from a stream with the same words.
    """
    if "xtc" in sampler.stages:
        raise ValueError(
            "[xtc] Expected a chain without xtc for speculative sampling, got one with it: it draws "
            "before the token, from words that acceptance would meet again."
        )


def check_cuttable(name: str, run: DecodeRun, count: int) -> None:
    """Refuses a cache from which rejected drafts could not be cut off again.

    Raises:
        ValueError: Such a cache, now or once it holds `count` more tokens.
    """
    if not run.can_take_back(count):
        raise ValueError(
            f"[{name}] Expected a cache from which rejected drafts can be cut off for {count} more tokens, "
            f"got {run.cache_kinds}."
        )
