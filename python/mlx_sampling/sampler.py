"""One request's sampler: a row of logits in, a token out.

Here: the request's state and its policy, over the compiled chain. Not here: which stages the parameters
make (`chain`), batches (`batch`), generation loops, and which route a request takes.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_sampling._ext import Chain, RequestState, Stage
from mlx_sampling._fields import choice
from mlx_sampling.chain import stages_of
from mlx_sampling.grammar import Grammar, GrammarTriggers
from mlx_sampling.params import SamplingParams, checked_int, token_ids
from mlx_sampling.vocabulary import Tokenize, Vocabulary

__all__ = ["Sampler", "StepTimings", "host_rows"]

_DTYPES = ("float32", "float16", "bfloat16")
_KINDS = choice("raw", "processed")


class StepTimings(NamedTuple):
    """Where the time of one step went, in nanoseconds.

    Attributes:
        forward: Waiting for the value of the logits; near 0 where they were evaluated before, and
            in a batch, which waits once for all its rows.
        readback: Copying the row to the host and widening it to float32.
        finite_scan: Checking the row.
        chain: From the retained row to the token, without the grammar's part.
        grammar: Checking tokens against the request's grammar, and making masks; 0 without one.
    """

    forward: int
    readback: int
    finite_scan: int
    chain: int
    grammar: int


class Sampler:
    """Samples the tokens of one request.

    The row is copied once per step into memory that the request retains, and checked; the chain then
    runs on it without Python or MLX. A step that fails draws nothing: its streams are as they were.

    `sample` picks, `accept` says that a token has joined the text: penalties, dry and adaptive_p look
    back on accepted tokens alone. Call `accept_prompt` before the first step and `accept` after each.

    A sampler works for one thread at a time; a second thread gets a RuntimeError. The GIL is released
    while it works, so different samplers may run in different threads.

    Args:
        params: The request's parameters. Default: `SamplingParams()`.
        vocab_size: Number of tokens. Logits from there on are padding of the model's head: nothing
            looks at them and they never come out. Default: every logit is a token's.
        eos_token_ids: End-of-generation ids, which `ignore_eos` needs.
        token_texts: Text of every token by id (bytes or str), which dry's breakers and infill need.
        tokenize: bytes -> ids, without special tokens. Only dry's breakers of several bytes need it.
        vocabulary: All four at once, in their place. Default: none.
        neg_inf: "error": a -inf logit is refused. "masked": a -inf is a mask, never picked, and
            only NaN and +inf are refused. Default: "error".
        excluded: Token ids that are never picked. Without `vocab_size`, one outside [0, V) is an error
            of the first step. Default: none.
        grammar: What the generated tokens must match; its vocabulary is the request's where no other is
            given, and must be of one size with it. The chain runs on the whole row, and only where the
            grammar refuses its token again on the row with all that it refuses at -inf, as llama.cpp
            does: streams, mirostat and adaptive_p then move on by two draws. Call `accept` for each
            token. Default: none.
        grammar_first: Apply the grammar to the row before the chain, which then runs once: what
            `logprobs` calls processed are probabilities under the grammar. Default: False.
        grammar_triggers: Makes the grammar a lazy one, that begins when triggered. Default: none, it
            begins at once.
        **fields: Parameters by name, in place of those of `params`.

    Raises:
        TypeError: A parameter of the wrong type, or one that does not exist.
        ValueError: A value out of range, or parameters that need something which was not given.

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

    _params: SamplingParams | None
    _chain: Chain
    _state: RequestState
    _timings: StepTimings | None

    def __init__(
        self,
        params: SamplingParams | None = None,
        *,
        vocab_size: int | None = None,
        eos_token_ids: Iterable[int] = (),
        token_texts: Sequence[bytes | str] | None = None,
        tokenize: Tokenize | None = None,
        vocabulary: Vocabulary | None = None,
        neg_inf: Literal["error", "masked"] = "error",
        excluded: Iterable[int] = (),
        grammar: Grammar | None = None,
        grammar_first: bool = False,
        grammar_triggers: GrammarTriggers | None = None,
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
        parts = Vocabulary(vocab_size, eos_token_ids, token_texts, tokenize)
        vocabulary = _vocabulary_of(vocabulary, parts, grammar)
        chain = Chain(stages_of(params, vocabulary, excluded))
        self._make(params, chain, params.seed, params.reference, neg_inf, vocabulary.size)
        self._constrain(grammar, grammar_first, grammar_triggers)

    def _make(
        self,
        params: SamplingParams | None,
        chain: Chain,
        seed: int | None,
        reference: str,
        neg_inf: str,
        vocab_size: int | None,
    ) -> None:
        choice("error", "masked")("neg_inf", neg_inf)
        self._params = params
        self._chain = chain
        self._state = RequestState(
            secrets.randbelow(2**32 - 1) if seed is None else seed,
            reference=reference,
            neg_inf=neg_inf,
            vocab_size=vocab_size or 0,
        )
        self._timings = None

    def _constrain(
        self, grammar: Grammar | None, first: bool, triggers: GrammarTriggers | None
    ) -> None:
        if not isinstance(first, bool):
            raise TypeError(f"[grammar_first] Expected a bool, got {type(first).__name__}.")
        if triggers is not None and not isinstance(triggers, GrammarTriggers):
            raise TypeError(
                f"[grammar_triggers] Expected GrammarTriggers, got {type(triggers).__name__}."
            )
        if grammar is None:
            if first or triggers is not None:
                name = "grammar_first" if first else "grammar_triggers"
                raise ValueError(f"[{name}] Expected a grammar that it is for, got none.")
            return
        tokens = None if triggers is None else list(triggers.tokens)
        find = None if triggers is None else triggers.finder()
        self._state.constrain(grammar._native, first, tokens, find)

    @classmethod
    def from_stages(
        cls,
        stages: Iterable[Stage],
        *,
        seed: int | None = None,
        reference: Literal["libc++", "libstdc++"] = "libc++",
        neg_inf: Literal["error", "masked"] = "error",
        vocab_size: int | None = None,
        grammar: Grammar | None = None,
        grammar_first: bool = False,
        grammar_triggers: GrammarTriggers | None = None,
    ) -> Sampler:
        """A sampler over an explicit list of stages: llama.cpp's chain to the letter.

        Nothing is added, left out or put in order; a temperature of 0 is a stage like any other. `params`
        is None.

        Args:
            stages: Stages of `mlx_sampling.stages`, the last of which, and no other, picks a token.
            seed: As in `SamplingParams`.
            reference: As in `SamplingParams`.
            neg_inf: As in `Sampler`.
            vocab_size: As in `Sampler`.
            grammar: As in `Sampler`; so are the arguments for it.
            grammar_first: See `Sampler`.
            grammar_triggers: See `Sampler`.

        Raises:
            TypeError: Something else than stages, or an argument of the wrong type.
            ValueError: A list that is no chain, or an argument out of range.
        """
        given = list(stages)
        for stage in given:
            if not isinstance(stage, Stage):
                raise TypeError(f"[stages] Expected stages, got {type(stage).__name__}.")
        checked = SamplingParams(seed=seed, reference=reference)
        vocabulary = _vocabulary_of(None, Vocabulary(vocab_size), grammar)
        sampler = cls.__new__(cls)
        sampler._make(None, Chain(given), checked.seed, checked.reference, neg_inf, vocabulary.size)
        sampler._constrain(grammar, grammar_first, grammar_triggers)
        return sampler

    def sample(self, logits: mx.array | np.ndarray[Any, Any]) -> int:
        """Takes one row of logits and returns a token id, which is not accepted yet.

        Args:
            logits: float32, float16 or bfloat16 `[V]` or `[1, V]`, any strides. V stays the same
                until `reset`, or is at least `vocab_size` where that was given. Never written.

        Returns:
            int in [0, V), below `vocab_size` where that was given.

        Raises:
            NonfiniteLogitsError: A NaN, a +inf, a -inf that is no mask, a row that is all -inf: the
                sampler is without a row then. Or the chain leaves no token to pick.
            GrammarRefusalError: No token that the grammar allows can be picked.
            TypeError: `logits` is no array.
            ValueError: Wrong dtype or shape, or another V than before: the row of the step before
                is kept. Or logits that overflow when divided by the temperature.
            RuntimeError: Another thread is using the sampler.
        """
        if isinstance(logits, mx.array):
            token, timings = self._chain.step(self._state, logits)
        else:
            rows = host_rows("sample", logits)
            if rows.ndim == 2 and rows.shape[0] == 1:
                rows = rows[0]
            if rows.ndim != 1:
                raise ValueError(
                    f"[sample] Expected logits of shape [V] or [1, V], got shape {logits.shape}."
                )
            token, timings = self._chain.step(self._state, rows)
        self._timings = StepTimings(*timings)
        return token

    def accept(self, token: int) -> None:
        """Adds a token to the request's history: the one sampled, or one put in its place.

        The request's grammar goes on by it.

        Raises:
            GrammarRefusalError: The grammar does not allow it here; nothing is accepted.
            TypeError: No int.
            ValueError: An id outside the vocabulary; nothing is accepted.
            RuntimeError: Another thread is using the sampler.
        """
        self._chain.accept(self._state, checked_int("accept", token, 0, 2**31 - 1))

    def accept_prompt(self, tokens: Iterable[int]) -> None:
        """Adds the prompt's tokens to the history, all of them or, where one is refused, none.

        They are no part of the grammar's text.

        Raises:
            TypeError: Something else than ints.
            ValueError: An id outside the vocabulary.
            RuntimeError: Another thread is using the sampler.
        """
        self._chain.accept_prompt(self._state, list(token_ids("accept_prompt", tokens)))

    def reset(self) -> None:
        """Starts again: streams at the seed, grammar at its start, no history, row or timings, any width."""
        self._state.reset()
        self._timings = None

    def clone(self) -> Sampler:
        """A sampler that goes on from here by itself: streams, history, sums, grammar, row are copied."""
        other = type(self).__new__(type(self))
        other._params = self._params
        other._chain = self._chain
        other._state = self._state.fork()
        other._timings = self._timings
        return other

    def snapshot(self) -> bytes:
        """The request's state as bytes that any machine can go on from.

        All four streams, the history, mirostat's and adaptive_p's sums, how far the grammar's text has
        come, seed and reference; not the row, and not the parameters and the grammar, which the one
        that goes on is made with: `SamplingParams.to_json` keeps the former.
        """
        return self._state.snapshot()

    def restore_state(self, snapshot: bytes) -> None:
        """Goes on where a snapshot was taken, without a row.

        Args:
            snapshot: What `snapshot` gave, on whatever machine.

        Raises:
            TypeError: No bytes.
            ValueError: Damaged, foreign or newer bytes, or a snapshot of another reference,
                `neg_inf`, vocabulary, grammar or seed than this sampler was given. Nothing changes then.
            RuntimeError: Another thread is using the sampler.
        """
        if not isinstance(snapshot, bytes | bytearray | memoryview):
            raise TypeError(f"[restore] Expected bytes, got {type(snapshot).__name__}.")
        given = None if self._params is None else self._params.seed
        self._state.restore(bytes(snapshot), given)
        self._timings = None

    @classmethod
    def restore(
        cls, snapshot: bytes, params: SamplingParams | None = None, **options: Any
    ) -> Sampler:
        """A sampler that goes on where a snapshot was taken.

        Args:
            snapshot: What `snapshot` gave, on whatever machine.
            params: The parameters of the sampler that it is of, which the snapshot does not hold (other
                ones are not noticed, save the reference and the seed); the seed may be left out.
            **options: As in `Sampler`: the other arguments, the same `grammar` among them, and parameters
                by name.

        Raises:
            TypeError, ValueError: As `Sampler` and `restore_state`.

        Example:
            >>> import numpy as np
            >>> from mlx_sampling import Sampler
            >>> logits = np.zeros(50, np.float32)
            >>> first = Sampler(top_k=0)
            >>> _ = first.sample(logits)
            >>> second = Sampler.restore(first.snapshot(), top_k=0)
            >>> first.sample(logits) == second.sample(logits)
            True
        """
        sampler = cls(params, **options)
        sampler.restore_state(snapshot)
        return sampler

    def logprobs(
        self, n: int, kind: Literal["raw", "processed"] = "raw"
    ) -> list[tuple[int, float]]:
        """The likeliest tokens of the last step, with natural logarithms of their probabilities.

        Computed in float64 from what the step left; no draw changes for being asked.

        Args:
            n: How many at most, >= 1.
            kind: "raw": the log-softmax of the retained row, as the model gave it: before bias,
                penalties and temperature, over every token. "processed": the law that the token was
                drawn from: the log-softmax of the candidates that the chain left, after bias,
                penalties, truncation and temperature (mirostat's cut and adaptive_p's reshaping too).
                A greedy request has one token there, at 0.0. Default: "raw".

        Returns:
            (token, logprob) pairs, likeliest first, of equal ones the lowest id first; fewer than
            `n` where fewer tokens can come at all.

        Raises:
            TypeError: An argument of the wrong type.
            ValueError: n < 1, an unknown kind, no row yet, or processed ones after a failed step.
        """
        count = checked_int("logprobs", n, 1, 2**31 - 1)
        pairs: list[tuple[int, float]] = self._chain.top_logprobs(
            self._state, _KINDS("kind", kind), count
        )
        return pairs

    def logprob(self, token: int, kind: Literal["raw", "processed"] = "raw") -> float:
        """The log probability of one token, as in `logprobs`; -inf where it cannot come.

        Raises:
            TypeError, ValueError: As `logprobs`; an id outside the row.
        """
        found = checked_int("logprob", token, 0, 2**31 - 1)
        return self._chain.logprob(self._state, _KINDS("kind", kind), found)

    @property
    def params(self) -> SamplingParams | None:
        """The parameters, as they were given; None for a chain of explicit stages."""
        return self._params

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the chain's stages in order; those that are off are not there."""
        return tuple(self._chain.names)

    @property
    def seed(self) -> int:
        """The seed in use: the one given, or the fresh one."""
        return self._state.seed

    @property
    def history(self) -> list[int]:
        """The accepted tokens, oldest first."""
        return self._state.history().tolist()

    @property
    def row(self) -> NDArray[np.float32] | None:
        """A copy of the retained row, float32 `[V]`; None before the first and after a bad one."""
        return self._state.row() if self._state.has_row else None

    @property
    def grammar_is_waiting(self) -> bool | None:
        """Whether a lazy grammar has not begun; None without a grammar."""
        return self._state.grammar_is_waiting

    @property
    def grammar_is_completed(self) -> bool | None:
        """Whether the grammar lets the text end here; None without a grammar."""
        return self._state.grammar_is_completed

    @property
    def grammar_is_terminated(self) -> bool | None:
        """Whether the text has ended, by an end-of-generation token; None without a grammar."""
        return self._state.grammar_is_terminated

    @property
    def timings(self) -> StepTimings | None:
        """Timings of the last step that gave a token; None before the first."""
        return self._timings


def _vocabulary_of(
    given: Vocabulary | None, parts: Vocabulary, grammar: Grammar | None
) -> Vocabulary:
    """What is known of the tokens: given as one or in parts, and else what the grammar's says."""
    if given is not None and not isinstance(given, Vocabulary):
        raise TypeError(
            f"[vocabulary] Expected a Vocabulary, got {type(given).__name__}: "
            "Vocabulary.from_tokenizer makes one of a tokenizer."
        )
    if given is not None and parts.is_given:
        raise ValueError(
            "[vocabulary] Expected either vocabulary, or vocab_size, eos_token_ids, token_texts and "
            "tokenize, got both."
        )
    known = parts if given is None else given
    if grammar is None:
        return known
    if not isinstance(grammar, Grammar):
        raise TypeError(f"[grammar] Expected a Grammar, got {type(grammar).__name__}.")
    own = grammar.vocabulary
    if own is None:
        raise ValueError("[grammar] Expected a grammar with a vocabulary, got none.")
    if not known.is_given:
        known = own
    size = own.native.size
    if known.size not in (None, size):
        raise ValueError(
            f"[vocab_size] Expected {size}, the size of the grammar's vocabulary, got {known.size}."
        )
    return dataclasses.replace(known, size=size)


def host_rows(who: str, logits: Any) -> NDArray[np.float32]:
    """Returns a NumPy array of logits as contiguous float32, itself where it is that already.

    Raises:
        TypeError: No array.
        ValueError: Wrong dtype.
    """
    if not isinstance(logits, np.ndarray) or isinstance(logits, np.ma.MaskedArray):
        raise TypeError(
            f"[{who}] Expected an mx.array or a NumPy array, got {type(logits).__name__}."
        )
    # By name: NumPy has no bfloat16 of its own, packages add it.
    if logits.dtype.name not in _DTYPES:
        raise ValueError(
            f"[{who}] Expected logits of dtype float32, float16 or bfloat16, got {logits.dtype.name}."
        )
    return np.require(logits, np.float32, ["C", "A"])
