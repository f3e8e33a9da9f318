"""Two requests in one batch, and one of them carried on from its bytes."""

import numpy as np

from mlx_sampling import Sampler, SamplingParams, sample_batch


def logits(step: int) -> np.ndarray:
    """What a model would give for two requests: [2, V]."""
    return (3 * np.random.default_rng(step).standard_normal((2, 1_000))).astype(np.float32)


params = SamplingParams(temperature=1.0, repeat_penalty=1.1, xtc_probability=0.5, seed=7)
requests = [Sampler(params), Sampler(params, seed=8)]
for request in requests:
    request.accept_prompt([11, 12, 13])
for step in range(4):
    tokens = sample_batch(logits(step), requests)
    for request, token in zip(requests, tokens, strict=True):
        request.accept(token)
print("tokens:", [request.history[3:] for request in requests])
print("likeliest of the last step:", requests[0].logprobs(2), requests[0].logprobs(2, "processed"))

saved = params.to_json(), requests[0].snapshot()
carried_on = Sampler.restore(saved[1], SamplingParams.from_json(saved[0]))
assert carried_on.sample(logits(4)[0]) == requests[0].sample(logits(4)[0])
print(f"carried on from {len(saved[1])} bytes")
