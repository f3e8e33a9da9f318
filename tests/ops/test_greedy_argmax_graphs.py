"""greedy_argmax in MLX's graphs: lazy, compiled, vmapped, asynchronous, on streams and threads."""

import itertools

import cases
import mlx.core as mx
import numpy as np
import pytest
from graphs import FORMATS, bitmask, nodes, rows_of, run_in_threads

from mlx_sampling import NO_TOKEN, greedy_argmax, reference


def test_lazy():
    logits, values = rows_of(cases.FLOAT32, 3, 50)
    tokens = greedy_argmax(logits * 2 - 1)
    assert nodes("greedy_argmax", tokens) == 1
    np.testing.assert_array_equal(np.array(tokens), cases.first_maximum(values))


def test_compile():
    calls = []
    rules = cases.Rules([1, 7], bitmask((50,)), "masked")

    @mx.compile
    def pick(logits, allowed):
        calls.append(logits.shape)
        return greedy_argmax(logits, excluded=[1, 7], allowed=allowed, neg_inf="masked")

    for seed in range(4):
        logits, values = rows_of(cases.BFLOAT16, 3, 50, seed=seed)
        rules.allowed = bitmask((50,), seed=seed)
        tokens = pick(logits, mx.array(rules.allowed))
        np.testing.assert_array_equal(np.array(tokens), cases.first_eligible(values, rules))
    assert len(calls) == 1


def test_compile_merges_equal_picks_only():
    logits, values = rows_of(cases.FLOAT32, 3, 50)
    words = bitmask((50,))
    every = [
        cases.Rules([5, 7]),
        cases.Rules([7, 5, 5]),
        cases.Rules([5]),
        cases.Rules(),
        cases.Rules(neg_inf="masked"),
        cases.Rules([5], neg_inf="masked"),
        cases.Rules([], words),
        cases.Rules([5, 7], words),
        cases.Rules([], words),
    ]

    @mx.compile
    def picks(logits, allowed):
        arguments = [rules.arguments() for rules in every]
        for keywords in arguments:
            keywords["allowed"] = None if keywords["allowed"] is None else allowed
        return mx.stack([greedy_argmax(logits, **keywords) for keywords in arguments])

    stack = picks(logits, mx.array(words))
    assert nodes("greedy_argmax", stack) == 7
    expected = [cases.first_eligible(values, rules) for rules in every]
    np.testing.assert_array_equal(np.array(stack), expected)


def test_shapeless_compile():
    calls = []

    def pick(logits, allowed):
        calls.append(logits.shape)
        return greedy_argmax(logits, excluded=[0], allowed=allowed) + 0

    compiled = mx.compile(pick, shapeless=True)
    for shape in [(3, 50), (2, 1500), (7, 1), (0, 9)]:
        logits, values = rows_of(cases.FLOAT32, *shape)
        rules = cases.Rules([0], bitmask(shape))
        tokens = compiled(logits, mx.array(rules.allowed))
        np.testing.assert_array_equal(np.array(tokens), cases.first_eligible(values, rules))
    assert len(calls) == 1


def test_dependent_chain():
    width = 1100
    table, _ = rows_of(cases.FLOAT16, width, width)
    masks = mx.array(bitmask((width, width)))

    def step(token):
        logits = mx.take(table, token, axis=0) + mx.arange(width) * token % 3
        return greedy_argmax(logits, excluded=[3, 5], allowed=mx.take(masks, token, axis=0))

    @mx.compile
    def steps(token):
        tokens = [token := step(token) for _ in range(30)]
        return mx.stack(tokens)

    token = mx.array(1, mx.uint32)
    tokens = [(token := step(token)).item() for _ in range(30)]
    assert steps(mx.array(1, mx.uint32)).tolist() == tokens
    assert len(set(tokens)) > 5
    assert max(tokens) < width


@FORMATS
@pytest.mark.parametrize("axis", range(-3, 3))
def test_vmap(format, axis):
    logits, values = rows_of(format, 3, 4, 50)
    moved = np.moveaxis(values, axis, 0)
    rules = cases.Rules([1, 2], bitmask(moved.shape[-1:]))
    tokens = mx.vmap(lambda x: greedy_argmax(x, **rules.arguments()) + 0, in_axes=axis)(logits)
    # An id or bitmask is for the width that a vmapped function sees.
    np.testing.assert_array_equal(np.array(tokens), cases.first_eligible(moved, rules))


# Shapes of one vmapped entry: logits [70] or [4, 70], with their bitmask for all rows or per row.
@pytest.mark.parametrize(
    ("logits_axis", "allowed_axis"), list(itertools.product([None, 0, 1, -1], repeat=2))[1:]
)
@pytest.mark.parametrize(
    ("rows", "masks"), [((), ()), ((4,), ()), ((4,), (4,)), ((2, 4), ()), ((2, 4), (2, 4))]
)
def test_vmap_with_bitmask(logits_axis, allowed_axis, rows, masks):
    size = 5
    lifted = (size, *rows, 70) if logits_axis is not None else (*rows, 70)
    logits, values = rows_of(cases.FLOAT32, *lifted)
    words = bitmask(((size,) if allowed_axis is not None else ()) + (*masks, 70))
    allowed = mx.array(words)
    if logits_axis is not None:
        logits = mx.moveaxis(logits, 0, logits_axis)
    if allowed_axis is not None:
        allowed = mx.moveaxis(allowed, 0, allowed_axis)
    tokens = mx.vmap(
        lambda x, m: greedy_argmax(x, excluded=[3], allowed=m), in_axes=(logits_axis, allowed_axis)
    )(logits, allowed)
    of = [
        reference.greedy_argmax(
            values[i] if logits_axis is not None else values,
            [3],
            words[i] if allowed_axis is not None else words,
        )
        for i in range(size)
    ]
    np.testing.assert_array_equal(np.array(tokens), np.stack(of))


def test_vmap_nested():
    logits, values = rows_of(cases.FLOAT32, 3, 4, 2, 70)
    words = bitmask((4, 70))
    # Outer over axis 0 of the logits alone, inner over axis 0 of both.
    inner = mx.vmap(lambda x, m: greedy_argmax(x, excluded=[3], allowed=m))
    tokens = mx.vmap(inner, in_axes=(0, None))(logits, mx.array(words))
    expected = cases.first_eligible(values, cases.Rules([3], words[None, :, None]))
    np.testing.assert_array_equal(np.array(tokens), expected)
    # Outer over the bitmasks alone, inner over the logits alone.
    crossed = mx.vmap(
        mx.vmap(lambda x, m: greedy_argmax(x, allowed=m), in_axes=(0, None)), in_axes=(None, 0)
    )(logits, mx.array(words))
    expected = cases.first_eligible(values[None], cases.Rules([], words[:, None, None, None]))
    np.testing.assert_array_equal(np.array(crossed), expected)


def test_async_eval():
    logits, values = rows_of(cases.FLOAT32, 8, 5000)
    picked = [greedy_argmax(logits[i], excluded=[i]) for i in range(8)]
    mx.async_eval(*picked)
    expected = [cases.first_eligible(values[i], cases.Rules([i])).item() for i in range(8)]
    assert [token.item() for token in picked] == expected


def test_streams():
    logits, values = rows_of(cases.FLOAT32, 8, 5000)
    rules = cases.Rules([1], bitmask((8, 5000)))
    expected = cases.first_eligible(values, rules)
    streams = [mx.new_stream(mx.cpu) for _ in range(3)]
    for i, stream in enumerate(streams):
        tokens = greedy_argmax(logits * (i + 1), **rules.arguments(), stream=stream)
        following = greedy_argmax(
            logits + mx.sum(tokens) * 0, **rules.arguments(), stream=streams[i - 1]
        )
        np.testing.assert_array_equal(np.array(following), expected)
        np.testing.assert_array_equal(np.array(tokens), expected)


def test_two_threads_with_own_streams():
    def work(i):
        stream = mx.new_stream(mx.cpu)
        with mx.stream(stream):
            for step in range(50):
                logits, values = rows_of(cases.FLOAT32, 3, 2000, seed=100 * i + step)
                rules = cases.Rules([step], bitmask((3, 2000), seed=step))
                tokens = greedy_argmax(logits, **rules.arguments(), stream=stream)
                expected = cases.first_eligible(values, rules)
                np.testing.assert_array_equal(np.array(tokens), expected)

    run_in_threads(work)


def test_shapeless_replays_are_checked():
    """The bitmask and the ids of the trace are held against every new shape."""
    mask = mx.zeros((2,), mx.uint32)
    masked = mx.compile(lambda logits: greedy_argmax(logits, allowed=mask), shapeless=True)
    assert masked(mx.zeros((64,))).item() == NO_TOKEN
    with pytest.raises(ValueError, match=r"Expected allowed of shape \(128\), got \(2\)"):
        mx.eval(masked(mx.zeros((4096,))))
    per_row = mx.compile(lambda logits, bits: greedy_argmax(logits, allowed=bits), shapeless=True)
    mx.eval(per_row(mx.zeros((2, 64)), mx.zeros((2, 2), mx.uint32)))
    with pytest.raises(ValueError, match=r"or \(4,2\), got \(2,2\)"):
        mx.eval(per_row(mx.zeros((4, 64)), mx.zeros((2, 2), mx.uint32)))
    excluding = mx.compile(lambda logits: greedy_argmax(logits, excluded=[50]), shapeless=True)
    mx.eval(excluding(mx.zeros((64,))))
    with pytest.raises(ValueError, match=r"Expected excluded ids in \[0, 10\), got 50"):
        mx.eval(excluding(mx.zeros((10,))))
    with pytest.raises(ValueError, match="V > 0"):
        mx.eval(excluding(mx.zeros((3, 0))))
