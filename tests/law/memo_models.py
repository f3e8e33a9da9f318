"""Models for many runs of a few tokens: a table of rows, and a model whose rows are remembered."""

from __future__ import annotations

import copy

import mlx.core as mx
import numpy as np

from mlx_sampling.decode import make_cache


class KVCache:
    """A cache of token ids, under the name of the kind that can be cut back anywhere."""

    state = ()

    def __init__(self):
        self.tokens: list[int] = []

    @property
    def offset(self):
        return len(self.tokens)

    def is_trimmable(self):
        return True

    def trim(self, count):
        del self.tokens[len(self.tokens) - count :]
        return count


class RowModel:
    """A model that is a function from the tokens so far to a row of logits, asked once for each.

    Args:
        row_of: From a tuple of ids to float32 `[V]`.
        width: V.
    """

    def __init__(self, row_of, width):
        self.args = type("Args", (), {"vocab_size": width})()
        self._row_of = row_of
        self._rows: dict[tuple[int, ...], np.ndarray] = {}

    def make_cache(self):
        return [KVCache()]

    def row(self, tokens):
        tokens = tuple(tokens)
        if tokens not in self._rows:
            self._rows[tokens] = np.asarray(self._row_of(tokens), np.float32)
        return self._rows[tokens]

    def __call__(self, tokens, cache):
        rows = []
        for token in np.asarray(tokens)[0].tolist():
            cache[0].tokens.append(token)
            rows.append(self.row(cache[0].tokens))
        return mx.array(np.stack(rows)[None])


def markov(seed, width, spread=1.5):
    """A model whose row depends on the last token alone."""
    table = (spread * np.random.default_rng(seed).standard_normal((width, width))).astype(
        np.float32
    )
    return RowModel(lambda tokens: table[tokens[-1]], width)


def remembered(model, width, prompt):
    """Rows of an mlx-lm model after a prompt, which it is fed once."""
    cache = make_cache(model)
    rows = np.array(model(mx.array([prompt]), cache=cache)[0].astype(mx.float32))

    def row_of(tokens):
        assert tokens[: len(prompt)] == tuple(prompt[: len(tokens)])
        if len(tokens) <= len(prompt):
            return rows[len(tokens) - 1]
        rest = mx.array([tokens[len(prompt) :]])
        return np.array(model(rest, cache=copy.deepcopy(cache))[0, -1].astype(mx.float32))

    return RowModel(row_of, width)
