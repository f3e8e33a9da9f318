"""Samplers for mlx-lm's own loops: greedy ones that stay on the device, and seeded ones."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

import mlx.core as mx

from mlx_sampling._ext import is_available
from mlx_sampling.errors import NonfiniteLogitsError
from mlx_sampling.grammar import Grammar, GrammarTriggers
from mlx_sampling.ops import NO_TOKEN, greedy_argmax
from mlx_sampling.params import SamplingParams, token_ids
from mlx_sampling.sampler import Sampler

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["GrammarSampler", "GreedySampler", "LmSampler", "SeededSampler", "make_sampler"]


class LmSampler:
    """What `make_sampler` gives: mlx-lm's sampler callable, and a context manager that ends the run.

    Entering a `with` block ends what was not closed before it, so a bad token of that run raises there.
    """

    def __call__(self, logprobs: mx.array) -> mx.array:
        """Picks from logprobs `[B, V]`; returns uint32 `[B]`."""
        raise TypeError("[sampler] Expected a sampler that make_sampler gave.")

    def close(self) -> None:
        """Ends the run: raises for a token that no call has checked."""

    def discard(self) -> None:
        """Ends a run that has failed already: raises nothing."""

    def __enter__(self) -> Self:
        self.close()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


# The order in which mlx-lm applies its filters.
_MLX_LM_ORDER = ("top_p", "min_p", "xtc", "top_k", "temperature")


def make_sampler(
    temp: float = 0.0,
    top_p: float = 0.0,
    min_p: float = 0.0,
    min_tokens_to_keep: int = 1,
    top_k: int = 0,
    xtc_probability: float = 0.0,
    xtc_threshold: float = 0.1,
    *,
    seed: int | None = None,
    excluded: Iterable[int] = (),
    strict: bool = False,
    grammar: Grammar | None = None,
    grammar_first: bool = False,
    grammar_triggers: GrammarTriggers | None = None,
) -> LmSampler:
    """Makes a sampler for `mlx_lm.stream_generate(..., sampler=...)` and per request of `BatchGenerator`.

    With `temp=0` the pick is the fail-closed greedy kernel, lazy: nothing is evaluated inside the call.
    mlx-lm feeds a token to the model before anyone has looked at it, so the call returns an id that is
    safe to embed and keeps the kernel's own for the check. A bad row raises `NonfiniteLogitsError` by the
    second next call, so at most one made-up token (the last of the vocabulary) is handed out before the
    error; `strict=True` waits for each token and hands out none. The last tokens of a run are checked by
    `close()` or at the end of a `with` block: use one of them. -inf counts as a mask (mlx-lm's logits
    processors put it), NaN and +inf do not.

    One sampler serves one run at a time (a request, or for greedy ones a batch). A run ends with `close()`,
    the end of the `with` block or a `NonfiniteLogitsError`; the next call begins another, at step 0.

    Exactness holds for what mlx-lm hands over: `logits - logsumexp(logits)` in the model's dtype. That is
    the order of the logits for float32 models; half precision merges neighbours.

    With `temp > 0` each call brings the row to the host and draws from this sampler's own seeded stream:
    never late, and for one request only. It takes one row per call, so it cannot serve mlx-lm's speculative
    decoding, which verifies several rows at once; a greedy one can, and its steps then count calls.

    Args:
        temp: Finite, >= 0; 0 is greedy, and then the filters below have nothing to do. Default: 0 (mlx-lm's).
        top_p: In [0, 1]; 0 and 1 are off, as in mlx-lm. Default: 0.
        min_p: In [0, 1]; 0 is off. Default: 0.
        min_tokens_to_keep: >= 0. Tokens that top_p, min_p and xtc keep at least. Default: 1.
        top_k: >= 0; 0 is off, more than V keeps all. Default: 0.
        xtc_probability: In [0, 1]; 0 is off. Default: 0.
        xtc_threshold: In [0, 1]. Default: 0.1.
        seed: Seed of the draw, in [0, 2**32 - 2]; a greedy sampler draws nothing. Default: fresh entropy,
            see `SeededSampler.seed`.
        excluded: Token ids never picked (end-of-generation ids, to ignore them).
        strict: Evaluate and check each greedy token at once; a drawn one always is. Default: False.
        grammar: What the tokens must match, from the first on; see `Sampler`. Each call then brings the row
            to the host, at `temp=0` too, and takes its token as accepted; after the token that ends the text
            it is given again. Default: none.
        grammar_first: See `Sampler`. Default: False.
        grammar_triggers: See `Sampler`. Default: none.

    Returns:
        A callable: logprobs `[B, V]` float32, float16 or bfloat16 to uint32 `[B]` (B = 1 if `temp > 0`).
        It raises `TypeError` for what is no array and `ValueError` for another shape or dtype, or an
        excluded id outside [0, V). Where nothing may be picked (each finite logit is excluded), a greedy
        one raises `NonfiniteLogitsError` as above, a drawing one in the same call, without naming the step.

    Raises:
        TypeError: A temperature, seed or excluded id of the wrong type.
        ValueError: One out of range.

    Example:
        >>> with make_sampler() as sampler:
        ...     for response in mlx_lm.stream_generate(model, tokenizer, "Hello", sampler=sampler):
        ...         print(response.text, end="")
    """
    params = SamplingParams(
        temperature=temp,
        top_p=1.0 if top_p == 0 else top_p,
        min_p=min_p,
        min_keep=min_tokens_to_keep,
        top_k=top_k,
        xtc_probability=xtc_probability,
        xtc_threshold=xtc_threshold,
        samplers=_MLX_LM_ORDER,
        seed=seed,
    )
    if params.temperature == 0 and grammar is None and not grammar_first and not grammar_triggers:
        return GreedySampler(excluded, strict)
    sampler = Sampler(
        params,
        neg_inf="masked",
        excluded=excluded,
        grammar=grammar,
        grammar_first=grammar_first,
        grammar_triggers=grammar_triggers,
    )
    return SeededSampler(sampler) if grammar is None else GrammarSampler(sampler)


def _check_matrix(logprobs: mx.array) -> None:
    if not isinstance(logprobs, mx.array):
        raise TypeError(
            f"[sampler] Expected logprobs as an mx.array, got {type(logprobs).__name__}."
        )
    if logprobs.ndim != 2:
        raise ValueError(f"[sampler] Expected logprobs [B, V], got shape {logprobs.shape}.")


class GreedySampler(LmSampler):
    """The greedy sampler of `make_sampler`: lazy, and checked a call or two later.

    One object serves one run at a time, a request or a whole batch; an error then ends the batch. A call
    after `close()`, `discard()` or an error begins a new run: its steps count from 0.
    """

    def __init__(self, excluded: Iterable[int] = (), strict: bool = False):
        self._excluded = token_ids("excluded", excluded)
        self._strict = strict
        self._calls = 0
        self._unchecked: deque[tuple[int, mx.array]] = deque()

    def __call__(self, logprobs: mx.array) -> mx.array:
        """Picks from logprobs `[B, V]`; returns uint32 `[B]`, each below V.

        Raises:
            NonfiniteLogitsError: A row of an earlier call of this run (of this one if strict) was bad.
            TypeError, ValueError: `logprobs` is no such array; nothing is counted.
        """
        _check_matrix(logprobs)
        winners = greedy_argmax(logprobs, excluded=self._excluded, neg_inf="masked")
        self._check(wait_beyond=1)
        self._unchecked.append((self._calls, winners))
        self._calls += 1
        if self._strict:
            self._check(wait_beyond=0)
        return mx.minimum(winners, logprobs.shape[-1] - 1)

    def _check(self, wait_beyond: int) -> None:
        # The token of the call before last was read by the loop already; waiting for it costs nothing.
        while self._unchecked:
            step, winners = self._unchecked[0]
            if len(self._unchecked) <= wait_beyond and not is_available(winners):
                return
            self._unchecked.popleft()
            if NO_TOKEN in winners.tolist():  # type: ignore[operator]
                self.discard()
                raise NonfiniteLogitsError(
                    f"[sampler] Expected finite logits with an eligible token at step {step}, got "
                    f"NaN, +inf or none: {step} tokens before it are good."
                )

    def close(self) -> None:
        """Ends the run: checks the tokens that no later call has checked, and raises for a bad one."""
        self._check(wait_beyond=0)
        self.discard()

    def discard(self) -> None:
        self._unchecked.clear()
        self._calls = 0

    def __del__(self) -> None:
        for _, winners in getattr(self, "_unchecked", ()):
            if is_available(winners) and NO_TOKEN in winners.tolist():  # type: ignore[operator]
                warnings.warn(
                    "[sampler] A run ended on a row with nonfinite logits: use the sampler as a "
                    "context manager, or call close(), to get the error.",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return


class SeededSampler(LmSampler):
    """The drawing sampler of `make_sampler`: one request, its own stream, never late."""

    def __init__(self, sampler: Sampler):
        self._sampler = sampler

    @property
    def seed(self) -> int:
        """The seed in use, also where none was given."""
        return self._sampler.seed

    def __call__(self, logprobs: mx.array) -> mx.array:
        """Draws from logprobs `[1, V]`; returns uint32 `[1]`."""
        _check_matrix(logprobs)
        if logprobs.shape[0] != 1:
            raise ValueError(
                f"[sampler] Expected logprobs [1, V] of one request, got shape {logprobs.shape}: "
                "give each request of a batch a sampler of its own."
            )
        return mx.array([self._sampler.sample(logprobs)], dtype=mx.uint32)


class GrammarSampler(SeededSampler):
    """The sampler of `make_sampler(grammar=...)`: one request, whose tokens match the grammar.

    `close()`, and the end of a `with` block, begin the text anew: a sampler serves one run after another.
    """

    def __init__(self, sampler: Sampler):
        super().__init__(sampler)
        self._last: mx.array | None = None

    @property
    def is_completed(self) -> bool:
        """Whether the grammar lets the text end where it is."""
        return bool(self._sampler.grammar_is_completed or self._sampler.grammar_is_terminated)

    def __call__(self, logprobs: mx.array) -> mx.array:
        """Draws from logprobs `[1, V]` under the grammar; returns uint32 `[1]`.

        Raises:
            GrammarRefusalError: The grammar leaves no token.
        """
        if self._last is not None and self._sampler.grammar_is_terminated:
            _check_matrix(logprobs)
            return self._last  # mlx-lm asks for one more token before it looks at the last
        token = super().__call__(logprobs)
        self._sampler.accept(int(token.item()))  # type: ignore[arg-type]
        self._last = token
        return token

    def close(self) -> None:
        self.discard()

    def discard(self) -> None:
        self._sampler.reset()
        self._last = None
