"""One request's sampler: a row of logits in, a token out.

Here: the request's state and its policy, over the compiled chain. Not here: batches, generation
loops, and which route a request takes.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
from collections.abc import Iterable
from time import perf_counter_ns
from typing import Any, Literal, NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_sampling._ext import Chain, Dist, Greedy, LogitBias, RequestState, Stage, Temperature
from mlx_sampling.params import SamplingParams, token_ids

__all__ = ["Sampler", "StepTimings"]

_DTYPES = ("float32", "float16", "bfloat16")


class StepTimings(NamedTuple):
    """Where the time of one step went, in nanoseconds.

    Attributes:
        forward: Waiting for the value of the logits; near 0 where they were evaluated before.
        readback: Copying the row to the host and widening it to float32.
        finite_scan: Checking the row.
        chain: From the retained row to the token.
    """

    forward: int
    readback: int
    finite_scan: int
    chain: int


class Sampler:
    """Samples the tokens of one request.

    The row is copied once per step into memory that the request retains, and checked; the chain
    then runs on it without Python or MLX. A step that fails draws nothing: its streams are as they
    were. Temperature 0 is greedy and draws nothing either.

    One request belongs to one thread at a time: a `Sampler` has no lock, and the GIL is released
    while it works. Different samplers may run in different threads.

    Args:
        params: The request's parameters. Default: `SamplingParams()`.
        neg_inf: "error": a -inf logit is refused. "masked": a -inf is a mask, never picked, and
            only NaN and +inf are refused. Default: "error".
        excluded: Token ids that are never picked: end-of-generation ids, to ignore them. One outside
            [0, V) is an error of the first step. Default: none.
        **fields: Parameters by name, in place of those of `params`.

    Raises:
        TypeError: A parameter of the wrong type, or one that does not exist.
        ValueError: A value out of range.

    Example:
        >>> import mlx.core as mx
        >>> from mlx_sampling import Sampler
        >>> logits = mx.array([0.0, 2.0, 2.0, 1.0])
        >>> Sampler(temperature=0).sample(logits)
        1
        >>> first, second = Sampler(seed=7), Sampler(seed=7)
        >>> [first.sample(logits) for _ in range(9)] == [second.sample(logits) for _ in range(9)]
        True
    """

    def __init__(
        self,
        params: SamplingParams | None = None,
        *,
        neg_inf: Literal["error", "masked"] = "error",
        excluded: Iterable[int] = (),
        **fields: Any,
    ) -> None:
        if params is None:
            params = SamplingParams(**fields)
        elif isinstance(params, SamplingParams):
            params = dataclasses.replace(params, **fields)
        else:
            raise TypeError(
                f"[Sampler] Expected params to be SamplingParams, got {type(params).__name__}."
            )
        if not isinstance(neg_inf, str):
            raise TypeError(f'[neg_inf] Expected "error" or "masked", got {neg_inf!r}.')
        seed = secrets.randbelow(2**32 - 1) if params.seed is None else params.seed
        self._params = params
        self._state = RequestState(seed, neg_inf=neg_inf)
        forbidden = [(token, -math.inf) for token in token_ids("excluded", excluded)]
        stages: list[Stage] = [LogitBias(forbidden)] if forbidden else []
        if params.temperature == 0:
            stages += [Greedy()]
        else:
            stages += [Temperature(params.temperature), Dist()]
        self._chain = Chain(stages)
        self._timings: StepTimings | None = None

    def sample(self, logits: mx.array | np.ndarray[Any, Any]) -> int:
        """Takes one row of logits and returns a token id.

        Args:
            logits: float32, float16 or bfloat16 `[V]` or `[1, V]`, any strides. V stays the same
                until `reset`. Never written.

        Returns:
            int in [0, V).

        Raises:
            NonfiniteLogitsError: A NaN, a +inf, a -inf that is no mask, or a row that is all -inf.
                The sampler is without a row then.
            TypeError: `logits` is no array.
            ValueError: Wrong dtype or shape, or another V than before: the row of the step before
                is kept. Or logits that overflow when divided by the temperature.
        """
        started = perf_counter_ns()
        if isinstance(logits, mx.array):
            mx.eval(logits)
            ready = perf_counter_ns()
            self._state.refill_row(logits)
        else:
            ready = started
            self._state.set_row(self._host_row(logits))
        copied = perf_counter_ns()
        self._state.finish_row()
        checked = perf_counter_ns()
        token: int = self._chain.sample(self._state)
        ended = perf_counter_ns()
        self._timings = StepTimings(
            ready - started, copied - ready, checked - copied, ended - checked
        )
        return token

    def reset(self) -> None:
        """Starts again: the streams at the seed, no row, no timings, any width."""
        self._state.reset()
        self._timings = None

    @property
    def params(self) -> SamplingParams:
        """The parameters, as they were given."""
        return self._params

    @property
    def seed(self) -> int:
        """The seed in use: the one given, or the fresh one."""
        return self._state.seed

    @property
    def row(self) -> NDArray[np.float32] | None:
        """A copy of the retained row, float32 `[V]`; None before the first and after a bad one."""
        return self._state.row() if self._state.has_row else None

    @property
    def timings(self) -> StepTimings | None:
        """Timings of the last step that gave a token; None before the first."""
        return self._timings

    def _host_row(self, logits: Any) -> NDArray[np.float32]:
        """Returns a NumPy row as contiguous float32, itself where it is that already."""
        if not isinstance(logits, np.ndarray) or isinstance(logits, np.ma.MaskedArray):
            raise TypeError(
                f"[sample] Expected an mx.array or a NumPy array, got {type(logits).__name__}."
            )
        # By name: NumPy has no bfloat16 of its own, packages add it.
        if logits.dtype.name not in _DTYPES:
            raise ValueError(
                "[sample] Expected logits of dtype float32, float16 or bfloat16, "
                f"got {logits.dtype.name}."
            )
        if logits.ndim == 2 and logits.shape[0] == 1:
            logits = logits[0]
        if logits.ndim != 1:
            raise ValueError(
                f"[sample] Expected logits of shape [V] or [1, V], got shape {logits.shape}."
            )
        return np.require(logits, np.float32, ["C", "A"])
