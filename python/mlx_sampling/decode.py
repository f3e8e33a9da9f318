"""The forward passes of one run over an mlx-lm model, and its promise about the key-value cache.

What both routes share: the prompt's prefill, feeding tokens, and cutting the cache back to exactly the
tokens that were handed out. How a token is picked is not here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import mlx.core as mx

from mlx_sampling.errors import CacheNotRestoredError, NonfiniteLogitsError
from mlx_sampling.ops import NO_TOKEN
from mlx_sampling.params import token_ids

PREFILL_STEP = 2048

# MLX keeps the buffers of every length that the key-value cache has had.
_TOKENS_PER_CLEARING = 256

_EMBEDDINGS = ("embed_tokens", "tok_embeddings", "wte", "word_embeddings")


def vocab_size_of(model: Any) -> int | None:
    """How many ids the model can embed; None where neither its `args` nor its modules tell."""
    args = getattr(model, "args", None)
    for holder in (args, getattr(args, "text_config", None)):
        size = holder.get("vocab_size") if isinstance(holder, dict) else None
        size = getattr(holder, "vocab_size", size)
        if isinstance(size, int):
            return size
    if hasattr(model, "named_modules"):
        for name, module in model.named_modules():
            if name.rsplit(".", 1)[-1] in _EMBEDDINGS and hasattr(module, "weight"):
                return int(module.weight.shape[0])
    return None


def check_ids(name: str, ids: Sequence[int], model: Any) -> None:
    """Checks ids against the model's vocabulary, where it is known before the first forward pass.

    Raises:
        ValueError: An id beyond it.
    """
    size = vocab_size_of(model)
    for token in ids:
        if size is not None and token >= size:
            raise ValueError(f"[{name}] Expected token ids in [0, {size}), got {token}.")


def checked_prompt(prompt: Sequence[int] | mx.array, model: Any) -> list[int]:
    """The prompt as a list of ids that the model can embed.

    Where the model does not tell how many that are, ids after the first are checked against its logits'
    width once that is known.

    Raises:
        TypeError: Something else than ints.
        ValueError: An empty or not one-dimensional prompt, or an id out of range.
    """
    if isinstance(prompt, str):
        raise TypeError(
            "[prompt] Expected token ids [T], got str: the tokenizer's encode gives them."
        )
    if isinstance(prompt, mx.array):
        if prompt.ndim != 1:
            raise ValueError(f"[prompt] Expected token ids [T], got shape {prompt.shape}.")
        prompt = prompt.tolist()  # type: ignore[assignment]
    ids = list(token_ids("prompt", prompt))  # type: ignore[arg-type]
    if not ids:
        raise ValueError("[prompt] Expected at least one token id, got none.")
    check_ids("prompt", ids, model)
    return ids


def make_cache(model: Any) -> list[Any]:
    """A new key-value cache, the model's own kind where it names one."""
    if hasattr(model, "make_cache"):
        return list(model.make_cache())
    from mlx_sampling.mlx_lm import make_prompt_cache

    return list(make_prompt_cache(model))


def cache_for(model: Any, cache: list[Any] | None) -> list[Any]:
    """The cache to run on: a new one, or the given one if it has the model's number of layers.

    Raises:
        ValueError: More or fewer layers.
    """
    if cache is None:
        return make_cache(model)
    own = model.make_cache() if hasattr(model, "make_cache") else getattr(model, "layers", cache)
    layers = len(own)
    if len(cache) != layers or not cache:
        raise ValueError(f"[prompt_cache] Expected {layers} layers, got {len(cache)}.")
    return cache


def _leaves(caches: Iterable[Any]) -> list[Any]:
    leaves = []
    for cache in caches:
        leaves.extend(_leaves(cache.caches) if hasattr(cache, "caches") else [cache])
    return leaves


# Caches whose `trim` gives back the state before the last tokens, whatever was fed in between.
_CUTTABLE = {"KVCache", "QuantizedKVCache", "RotatingKVCache", "BatchKVCache"}

# The run that feeds a cache layer: a new one ends the one before.
_runs: WeakKeyDictionary[Any, ReferenceType[DecodeRun]] = WeakKeyDictionary()


class DecodeRun:
    """Feeds one request's tokens and cuts its cache back to what was handed out.

    Args:
        model: An mlx-lm model: `model(tokens [1, T], cache=...)` gives logits `[1, T, V]`.
        cache: Its key-value cache. Tokens in it beforehand stay.

    Attributes:
        width: V of the rows; 0 before the first.
        held: Tokens that this run fed and that are to stay.
        owed: Tokens that were handed out and not fed yet: the cache gets them when the run ends.
        finished: Whether the run has ended. Its cache is then somebody else's.
    """

    def __init__(self, model: Any, cache: list[Any]):
        self._model = model
        self._cache = cache
        self._leaves = _leaves(cache)
        self._vocab_size = vocab_size_of(model)
        self._fed = 0
        self._base: list[Any] = []
        self._left: list[Any] = []
        self.width = 0
        self.held = 0
        self.owed: list[int] = []
        self.finished = False

    @property
    def limit(self) -> int:
        """Ids below it can be picked and embedded."""
        return self.width if self._vocab_size is None else min(self.width, self._vocab_size)

    def _offsets(self) -> list[Any]:
        return [getattr(leaf, "offset", None) for leaf in self._leaves]

    def _take_over(self) -> None:
        for leaf in self._leaves:
            before = _runs.get(leaf)
            run = before() if before is not None else None
            if run is not None:
                run.finish()
            _runs[leaf] = ref(self)
        self._base = self._left = self._offsets()

    def feed(self, tokens: mx.array) -> mx.array:
        """Feeds `tokens` [1, T]; returns the last position's logits [1, V], unevaluated."""
        return self._forward(tokens)[:, -1]

    def feed_rows(self, tokens: mx.array) -> mx.array:
        """Feeds `tokens` [1, T]; returns every position's logits [T, V], unevaluated."""
        return self._forward(tokens)[0]

    def feed_picked(self, token: int, last: bool) -> mx.array:
        """Feeds a token that is about to be handed out, and starts the pass; returns logits as `feed`.

        After the `last` token nobody reads them, and the cache alone is evaluated.
        """
        logits = self.feed(mx.array([[token]], dtype=mx.uint32))
        if last:
            self.evaluate_cache(wait=False)
        else:
            mx.async_eval(logits)
        return logits

    def hand_out(self, token: int, last: bool) -> Generator[int, None, None]:
        """Yields a token that was fed; with the `last` one the run has ended before.

        Raises:
            RuntimeError: As `check_owned`, after a token that is not the last.
        """
        self.held += 1
        if last:
            self.finish()
        yield token
        if last:
            return
        self.check_owned()
        if self.held % _TOKENS_PER_CLEARING == 0:
            mx.clear_cache()

    def _forward(self, tokens: mx.array) -> mx.array:
        self._fed += tokens.shape[-1]
        try:
            logits: mx.array = self._model(tokens, cache=self._cache)
        finally:
            self._left = self._offsets()
        if logits.ndim != 3 or logits.shape[0] != 1:
            raise ValueError(
                f"[model] Expected logits [1, {tokens.shape[-1]}, V], got shape {logits.shape}."
            )
        self.width = logits.shape[-1]
        return logits

    def prefill(self, prompt: list[int], step: int) -> mx.array:
        """Feeds a prompt in pieces of at most `step` tokens; returns the last position's logits.

        If a forward pass fails, the cache is cut back to what it held before.
        """
        self._take_over()
        try:
            at = 0
            while len(prompt) - at > 1:
                size = step if self._vocab_size is not None or self.width else 1
                piece = prompt[at : min(at + size, len(prompt) - 1)]
                self.feed(mx.array([piece]))
                self.evaluate_cache()
                self._check_rest(prompt, at)
                at += len(piece)
                mx.clear_cache()
            logits = self.feed(mx.array([prompt[-1:]]))
        except BaseException as error:
            self.fail(error)
            raise
        self.held = len(prompt)
        return logits

    def _check_rest(self, prompt: list[int], fed: int) -> None:
        if self._vocab_size is None:
            for token in prompt[fed:]:
                if token >= self.width:
                    raise ValueError(
                        f"[prompt] Expected token ids in [0, {self.width}), got {token}."
                    )

    def evaluate_cache(self, wait: bool = True) -> None:
        """Evaluates the cache, so that no later reader pays for (or fails in) its graph."""
        (mx.eval if wait else mx.async_eval)([cache.state for cache in self._cache])

    def can_take_back(self, count: int = 1) -> bool:
        """Whether `count` more tokens could be fed and still be cut off again."""
        for leaf in self._leaves:
            if type(leaf).__name__ not in _CUTTABLE or not leaf.is_trimmable():
                return False
            size = getattr(leaf, "max_size", None)
            if size is not None and leaf.offset + count >= size:
                return False
        return True

    @property
    def cache_kinds(self) -> str:
        """The cache's layers in words: their kinds, with a size where that is limited."""
        sizes = {(type(leaf).__name__, getattr(leaf, "max_size", None)) for leaf in self._leaves}
        return ", ".join(
            kind if size is None else f"{kind} of {size} tokens"
            for kind, size in sorted(sizes, key=str)
        )

    def check_owned(self) -> None:
        """Raises RuntimeError where another run has taken the cache over."""
        if self.finished:
            raise RuntimeError(
                "[stream] Expected the cache that this stream fed, got one that another has taken over."
            )

    def finish(self) -> bool:
        """Ends the run: cuts every layer's cache back to the tokens held, and feeds those owed.

        A layer that somebody else has fed or cut since is left alone. Returns False where a layer holds
        more and cannot be cut.
        """
        if self.finished:
            return True
        self.finished = True
        own = all(
            not isinstance(base, int) or leaf.offset == left
            for leaf, base, left in zip(self._leaves, self._base, self._left, strict=True)
        )
        whole = self.cut()
        if self.owed and own and whole:
            try:
                self.feed(mx.array([self.owed]))
                self.evaluate_cache(wait=False)
            except BaseException:
                self.cut()
                raise
            self.held += len(self.owed)
        self.owed = []
        return whole

    def cut(self) -> bool:
        """Cuts every layer's cache back to the tokens held; the run may go on.

        As in `finish`, a layer that somebody else has changed is left alone, and False means that a layer
        holds more and cannot be cut.
        """
        whole = True
        for leaf, base, left in zip(self._leaves, self._base, self._left, strict=True):
            counted = isinstance(base, int)
            if counted and leaf.offset != left:
                continue
            excess = (leaf.offset - base if counted else self._fed) - self.held
            if excess <= 0:
                continue
            if hasattr(leaf, "is_trimmable") and leaf.is_trimmable():
                leaf.trim(excess)
            else:
                whole = False
        if whole:
            self._fed = min(self._fed, self.held)
            self._left = self._offsets()
        return whole

    def fail(self, error: BaseException) -> None:
        """Ends a run that has failed.

        Raises:
            CacheNotRestoredError: From `error`, where the cache could not be cut back, or not be given
                the tokens owed.
        """
        try:
            whole = self.finish()
        except Exception:
            if not isinstance(error, Exception):
                raise
            whole = False
        if not whole and isinstance(error, Exception):
            raise CacheNotRestoredError(
                "[prompt_cache] Expected a cache that can be cut back, got one that cannot after a "
                f"failed step: make a new cache. The failure: {error}"
            ) from error


def nonfinite_at(step: int) -> NonfiniteLogitsError:
    """The error of a run whose row of step `step` (from 0) cannot be picked from."""
    return NonfiniteLogitsError(
        f"[logits] Expected finite logits with an eligible token at step {step}, got NaN, an "
        f"infinity or none: {step} tokens before it are good."
    )


def check_pick(token: int, run: DecodeRun) -> None:
    """Refuses a pick that the model could not embed: a head may be wider than the embedding.

    Raises:
        ValueError: Such a pick.
    """
    if token >= run.limit:
        raise ValueError(
            f"[logits] Expected a pick below the {run.limit} ids that the model embeds, got {token}."
        )


def check_winner(token: int, run: DecodeRun, step: int) -> None:
    """Refuses what the kernel gave where it is no token that can go on."""
    if token == NO_TOKEN or token >= run.width:
        raise nonfinite_at(step)
    check_pick(token, run)
