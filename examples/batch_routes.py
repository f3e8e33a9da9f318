"""Which route requests take and why, and one kernel call for a batch with per-row bitmasks."""

import mlx.core as mx

from mlx_sampling import NO_TOKEN, choose_route, greedy_argmax

for request in (
    {"temperature": 0},
    {"temperature": 0, "ignore_eos": True},
    {"temperature": 0, "logprobs": True},
    {"temperature": 0.8},
):
    decision = choose_route(**request)
    size = decision.readback_bytes(202_048)
    print(f"route {decision.route}, {size} bytes per token: {decision.reason}")

logits = mx.random.normal((4, 70), key=mx.random.key(0))
logits[2, 5] = float("nan")
# One bit per token: rows 0 to 2 may pick any of the 70, row 3 only token 40.
every = [0xFFFFFFFF, 0xFFFFFFFF, 0x3F]
allowed = mx.array([every, every, every, [0, 1 << 8, 0]], mx.uint32)
tokens = greedy_argmax(logits, excluded=[7], allowed=allowed).tolist()
assert tokens[2] == NO_TOKEN
assert tokens[3] == 40
print(tokens)
