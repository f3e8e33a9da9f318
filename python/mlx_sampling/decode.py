"""The forward passes of one run over an mlx-lm model, and its promise about the key-value cache.

What both routes share: the prompt's prefill, feeding tokens, and cutting the cache back to exactly the
tokens that were handed out. How a token is picked is not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import mlx.core as mx

from mlx_sampling.errors import NonfiniteLogitsError
from mlx_sampling.params import token_ids

PREFILL_STEP = 2048


def vocab_size_of(model: Any) -> int | None:
    """Rows of the model's embedding table as its `args` name them; None where they do not."""
    size = getattr(getattr(model, "args", None), "vocab_size", None)
    return size if isinstance(size, int) else None


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

    A model whose `args` do not name a `vocab_size` embeds whatever it is given: its ids are only checked
    to be in [0, 2**31).

    Raises:
        TypeError: Something else than ints.
        ValueError: An empty or not one-dimensional prompt, or an id out of range.
    """
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


def _leaves(caches: Iterable[Any]) -> list[Any]:
    leaves = []
    for cache in caches:
        leaves.extend(_leaves(cache.caches) if hasattr(cache, "caches") else [cache])
    return leaves


class DecodeRun:
    """Feeds one request's tokens and can cut its cache back.

    Args:
        model: An mlx-lm model: `model(tokens [1, T], cache=...)` gives logits `[1, T, V]`.
        cache: Its key-value cache. Tokens in it beforehand stay.
    """

    def __init__(self, model: Any, cache: list[Any]):
        self._model = model
        self._cache = cache
        self._leaves = _leaves(cache)
        self._base = [getattr(leaf, "offset", None) for leaf in self._leaves]
        self._fed = 0
        self.width = 0  # of the rows; 0 before the first

    def feed(self, tokens: mx.array) -> mx.array:
        """Feeds `tokens` [1, T]; returns the last position's logits [1, V], unevaluated."""
        self._fed += tokens.shape[-1]
        logits: mx.array = self._model(tokens, cache=self._cache)[:, -1]
        self.width = logits.shape[-1]
        return logits

    def prefill(self, prompt: list[int], step: int) -> mx.array:
        """Feeds a prompt in pieces of at most `step` tokens; returns the last position's logits.

        If a forward pass fails, the cache is cut back to what it held before.
        """
        try:
            at = 0
            while len(prompt) - at > 1:
                piece = prompt[at : min(at + step, len(prompt) - 1)]
                self.feed(mx.array([piece]))
                self.evaluate_cache()
                at += len(piece)
                mx.clear_cache()
            return self.feed(mx.array([prompt[-1:]]))
        except BaseException:
            self.keep(0)
            raise

    def evaluate_cache(self, wait: bool = True) -> None:
        """Evaluates the cache, so that no later reader pays for (or fails in) its graph."""
        (mx.eval if wait else mx.async_eval)([cache.state for cache in self._cache])

    def can_take_back(self) -> bool:
        """Whether one more token could be fed and still be cut off again."""
        for leaf in self._leaves:
            if not (hasattr(leaf, "is_trimmable") and leaf.is_trimmable()):
                return False
            size = getattr(leaf, "max_size", None)
            if size is not None and leaf.offset + 1 >= size:
                return False
        return True

    def keep(self, tokens: int) -> None:
        """Cuts every layer's cache back to the first `tokens` tokens that this run fed."""
        for leaf, base in zip(self._leaves, self._base, strict=True):
            fed = leaf.offset - base if isinstance(base, int) else self._fed
            excess = fed - tokens
            if excess > 0 and hasattr(leaf, "is_trimmable") and leaf.is_trimmable():
                leaf.trim(excess)
        self._fed = min(self._fed, tokens)


def nonfinite_at(step: int) -> NonfiniteLogitsError:
    """The error of a run whose row of step `step` (from 0) cannot be picked from."""
    return NonfiniteLogitsError(
        f"[logits] Expected finite logits with an eligible token at step {step}, got NaN, an "
        f"infinity or none: {step} tokens before it are good."
    )
