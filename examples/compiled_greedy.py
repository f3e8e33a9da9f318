"""A greedy decode step inside mx.compile: the token stays on the device, one id is read per step."""

import mlx.core as mx

from mlx_sampling import NO_TOKEN, greedy_argmax

VOCAB, WIDTH = 1000, 64
embedding = mx.random.normal((VOCAB, WIDTH), key=mx.random.key(1))
head = mx.random.normal((WIDTH, VOCAB), key=mx.random.key(2))


@mx.compile
def step(token: mx.array, state: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    state = mx.tanh(0.5 * state + embedding[token])
    winner = greedy_argmax(state @ head)
    # NO_TOKEN as an index would read outside the table: what is embedded next is clamped, what is
    # checked on the host is not.
    return winner, mx.minimum(winner, VOCAB - 1), state


token, state = mx.array([1], mx.uint32), mx.zeros((1, WIDTH))
winners = []
for _ in range(16):
    winner, token, state = step(token, state)
    mx.async_eval(winner)
    winners.append(winner)

tokens = [int(winner.item()) for winner in winners]
assert NO_TOKEN not in tokens
print(tokens)
