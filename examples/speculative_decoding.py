"""Exact speculative decoding on the packaged model: several tokens per forward pass, with the same law."""

import numpy as np

from mlx_sampling import (
    LookupDrafter,
    Mt19937,
    Sampler,
    greedy_stream,
    speculative_stream,
    verify_draft,
)
from mlx_sampling.mlx_lm import load

# Acceptance by itself: what a draft was drawn from, and what the target would draw from.
q = np.array([[0.7, 0.2, 0.1]], np.float32)
p = np.array([[0.4, 0.5, 0.1], [0.1, 0.1, 0.8]], np.float32)
print(verify_draft([0], q, p, Mt19937(1)))

model, tokenizer = load()
prompt = tokenizer.encode("red green blue yellow, red green blue yellow, red green blue")

# Greedy: the drafts are what followed earlier in the text, and the tokens those of the plain route.
plain = list(greedy_stream(model, prompt, max_tokens=24))
stream = speculative_stream(model, LookupDrafter(), prompt, max_tokens=24)
assert list(stream) == plain
print(stream.figures)

# Sampled: exact acceptance, so the law is that of sample_stream; the request's history and its
# penalties go along. A draft model is given in place of the LookupDrafter.
sampler = Sampler(temperature=0.8, seed=7, repeat_penalty=1.05)
stream = speculative_stream(model, LookupDrafter(), prompt, sampler, draft_tokens=3, max_tokens=24)
print(repr(tokenizer.decode(list(stream))))
print(stream.figures)
