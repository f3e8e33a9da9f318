"""Small random models of mlx-lm's own classes, whole and poisoned."""

import mlx.core as mx
import pytest
from mlx.utils import tree_map

VOCAB = 211


class Poisoned:
    """A model whose last row becomes `value` at one logit once the cache holds `at` tokens."""

    def __init__(self, model, at: int, value: float, index: int = 5):
        self.model, self.at, self.value, self.index = model, at, value, index
        self.fed: list[mx.array] = []

    def make_cache(self):
        return self.model.make_cache()

    def __call__(self, tokens, cache=None):
        self.fed.append(tokens)
        logits = self.model(tokens, cache=cache)
        if cache[0].offset >= self.at:
            logits[..., self.index] = self.value
        return logits


def tiny_llama(seed: int = 0, layers: int = 2):
    llama = pytest.importorskip("mlx_lm.models.llama")
    args = llama.ModelArgs(
        model_type="llama",
        hidden_size=32,
        num_hidden_layers=layers,
        intermediate_size=48,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        vocab_size=VOCAB,
        tie_word_embeddings=False,
    )
    mx.random.seed(seed)
    model = llama.Model(args)
    # Weights as made give nearly flat logits and one token for ever: spread them.
    model.update(tree_map(lambda w: 6 * w if w.ndim == 2 else w, model.parameters()))
    mx.eval(model.parameters())
    return model
