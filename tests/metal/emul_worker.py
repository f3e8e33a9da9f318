"""Runs eval_gpu of both kernels through the emulated encoder; prints one JSON line per case.

Started by test_mac_emul.py in a process of its own, where `_ext` is the emulated build.
"""

import json
import sys

import _ext
import cases
import mh_emul
import mlx.core as mx
import numpy as np

VOCAB = 202_048


def emulated(op, x, **keywords):
    """Tokens, and what the encoder found wrong."""
    results = mh_emul.eval_gpu(getattr(_ext, op)(x, stream=mx.cpu, **keywords))
    return np.array(results[0]), list(mh_emul.problems()), list(mh_emul.trace())


def wide(format, *shape, seed=0):
    """Rows with ties, some of them at the greatest logit."""
    words = np.random.default_rng(seed).choice(format.words(np.arange(-50, 50) / 4), shape)
    return words, format.array(words)


def views(format):
    words, array = wide(format, 3, 4, 2100, seed=1)
    yield "last position", words[:, -1], array[:, -1]
    yield "reversed rows", words[::-1], array[::-1]
    yield "reversed logits", words[:, 1, ::-1], array[:, 1, ::-1]
    yield "all reversed", words[::-1, ::-1, ::-1], array[::-1, ::-1, ::-1]
    yield "steps", words[::2, ::-2, 3::3], array[::2, ::-2, 3::3]
    yield "transposed", words[:, 0, :9].T, array[:, 0, :9].T
    yield "last axis is the slowest", words[:, ::3, 7].T, array[:, ::3, 7].T
    yield "rows permuted", words.transpose(1, 0, 2), array.transpose(1, 0, 2)
    yield "offset", words[1:, 2:, 5:], array[1:, 2:, 5:]
    shape = (3, 5, 2100)
    yield (
        "broadcast rows",
        np.broadcast_to(words[:, :1], shape),
        mx.broadcast_to(array[:, :1], shape),
    )
    shape = (4, 1300)
    yield (
        "broadcast logits",
        np.broadcast_to(words[0, :, 6:7], shape),
        mx.broadcast_to(array[0, :, 6:7], shape),
    )


def masks(shape, seed=2):
    return cases.random_bitmask(np.random.default_rng(seed), shape, 0.4)


def runs():
    """(name, op, words, array, rules, bitmask view or None) of every case."""
    none = cases.Rules()
    for format in cases.FORMATS:
        for op in ("argmax", "greedy_argmax"):
            yield f"{op} one row {format.name}", op, *wide(format, VOCAB), none, None
        yield f"argmax batch {format.name}", "argmax", *wide(format, 2, VOCAB), none, None
    for i, width in enumerate((1, 2, 31, 33, 1024, 1025)):
        words, array = wide(cases.FORMATS[i % 3], 3, width, seed=width)
        yield f"argmax width {width}", "argmax", words, array, none, None
        rules = cases.Rules([0], masks((3, width)))
        yield f"greedy_argmax width {width}", "greedy_argmax", words, array, rules, None
    for name, words, array in views(cases.FLOAT32):
        yield f"argmax {name}", "argmax", words, array, none, None
    for name, words, array in views(cases.FLOAT16):
        rules = cases.Rules([1], masks(words.shape))
        yield f"greedy_argmax {name}", "greedy_argmax", words, array, rules, None
        rules = cases.Rules([1], masks(words.shape[-1:]))
        yield f"greedy_argmax {name}, shared", "greedy_argmax", words, array, rules, None
    words, array = wide(cases.BFLOAT16, 2, VOCAB, seed=3)
    words[1, 150_000] = cases.BFLOAT16.nonfinite["-nan, payload 1"]
    array = cases.BFLOAT16.array(words)
    winners = np.flatnonzero(words[0] == words[0].max())
    for count in (0, 5, 2000):
        for kind, allowed in [
            ("no", None),
            ("shared", masks((VOCAB,))),
            ("per-row", masks((2, VOCAB))),
        ]:
            rules = cases.Rules(np.resize(winners, count).tolist(), allowed)
            if count == 2000:
                rules.excluded = sorted({*winners.tolist(), *range(0, 4000, 2)})[:2000]
                assert len(rules.excluded) == 2000
            name = f"greedy_argmax {count} excluded, {kind} bitmask"
            yield name, "greedy_argmax", words, array, rules, None
    words, array = wide(cases.FLOAT32, 3, 4, 2100, seed=4)
    words[0, 0, 0] = words[2, 1, 2099] = cases.FLOAT32.nonfinite["-inf"]
    array = cases.FLOAT32.array(words)
    for neg_inf in ("error", "masked"):
        rules = cases.Rules([], None, neg_inf)
        yield f"greedy_argmax neg_inf {neg_inf}", "greedy_argmax", words, array, rules, None
    packed = masks((4, 3, 2100 + 64))
    view = mx.array(packed).transpose(1, 0, 2)[::-1, :, -3::-1]
    rules = cases.Rules([], packed.transpose(1, 0, 2)[::-1, :, -3::-1], "masked")
    yield "greedy_argmax view of bitmasks", "greedy_argmax", words, array, rules, view
    view = mx.broadcast_to(mx.array(packed)[:3, :1, :-2], (3, 4, 66))
    rules = cases.Rules([], np.broadcast_to(packed[:3, :1, :-2], (3, 4, 66)), "masked")
    yield "greedy_argmax broadcast bitmasks", "greedy_argmax", words, array, rules, view


def main():
    everything = list(runs())
    limited = [case for case in everything if case[0].split(" ", 1)[1] in LIMITED]
    plan = [(1024, case) for case in everything]
    plan += [(limit, case) for limit in (128, 64, 32) for case in limited]
    for limit, (name, op, words, array, rules, mask) in plan:
        mh_emul.set_limit(limit)
        format = next(format for format in cases.FORMATS if format.dtype == array.dtype)
        values = format.values(np.ascontiguousarray(words))
        keywords = {}
        right = cases.first_maximum(values)
        if op == "greedy_argmax":
            keywords = rules.arguments()
            keywords["allowed"] = keywords["allowed"] if mask is None else mask
            right = cases.first_eligible(values, rules)
        tokens, problems, trace = emulated(op, array, **keywords)
        line = {"name": name, "limit": limit, "problems": problems, "trace": trace}
        line |= {"right": bool(np.array_equal(tokens, right)), "dtype": str(tokens.dtype)}
        line["picked"] = int((right != cases.NO_TOKEN).sum())
        print(json.dumps(line), flush=True)
    mh_emul.set_limit(1024)
    for op in ("argmax", "greedy_argmax"):
        tokens, problems, trace = emulated(op, mx.zeros((0, 7)))
        line = {"name": f"{op} empty", "limit": 1024, "problems": problems, "trace": trace}
        line |= {"right": tokens.shape == (0,), "dtype": str(tokens.dtype), "picked": 0}
        print(json.dumps(line), flush=True)


LIMITED = {"one row float32", "width 1025", "5 excluded, per-row bitmask", "all reversed"}

if __name__ == "__main__":
    sys.exit(main())
