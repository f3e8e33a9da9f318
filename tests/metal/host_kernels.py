"""Runs both phases of a selection kernel on the CPU, on rows laid out like any NumPy view."""

from dataclasses import dataclass

import cases
import numpy as np

ROWS = np.dtype([("width", "<u4"), ("axes", "<u4"), ("start", "<i8"), ("stride", "<i8")])
GREEDY_ARGS = np.dtype([("excluded_count", "<u4"), ("has_allowed", "<u4"), ("least_legal", "<i4")])


@dataclass
class Layout:
    """The memory that a view spans, to the byte, and the three buffers that say where its rows lie."""

    memory: np.ndarray
    rows: np.ndarray
    shape: np.ndarray
    strides: np.ndarray

    @classmethod
    def of(cls, view: np.ndarray) -> "Layout":
        strides = cases.element_strides(view)
        spans = [(size - 1) * stride for size, stride in zip(view.shape, strides, strict=True)]
        low, high = (sum(pick(0, span) for span in spans) for pick in (min, max))
        least = view[tuple(slice(-1, None) if step < 0 else slice(0, 1) for step in strides)]
        memory = np.lib.stride_tricks.as_strided(least, (high - low + 1,), (view.itemsize,))
        rows = np.array([(view.shape[-1], view.ndim - 1, -low, strides[-1])], ROWS)
        return cls(
            memory,
            rows,
            np.array(view.shape[:-1] or (1,), np.int32),
            np.array(strides[:-1] or (0,), np.int64),
        )


def run(program, stem, batch, threads=256, seeds=(0, 1, 2), ftz=False):
    """Runs one `cases.Batch`, whose `words` may be any view.

    Returns the tokens by seed, and everything that the tool reports.
    """
    words, rules = batch.words, batch.rules
    logits = Layout.of(words)
    chunks = (words.shape[-1] - 1) // cases.CHUNK + 1
    rows = int(np.prod(words.shape[:-1], dtype=int))
    buffers = {
        "logits": logits.memory,
        "keys": ("empty", (rows, chunks), "i4"),
        "indices": ("empty", (rows, chunks), "u4"),
        "tokens": ("empty", words.shape[:-1], "u4"),
    }
    phase1 = {0: "logits", 1: "keys", 2: "indices"}
    phase1 |= {3: logits.rows, 4: logits.shape, 5: logits.strides}
    if stem == "greedy_argmax":
        ids = sorted(set(rules.excluded))
        allowed = np.zeros(1, np.uint32) if rules.allowed is None else rules.allowed
        mask = Layout.of(allowed)
        if allowed.ndim == 1:  # one for all rows
            mask.rows["axes"] = 0
        least_legal = -batch.format.inf + (rules.neg_inf == "error")
        buffers |= {"excluded": np.array(ids or [0], np.uint32), "allowed": mask.memory}
        phase1[6] = np.array([(len(ids), rules.allowed is not None, least_legal)], GREEDY_ARGS)
        phase1 |= {7: "excluded", 8: "allowed", 9: mask.rows, 10: mask.shape, 11: mask.strides}
    result = program.run(
        [
            {
                "kernel": f"{stem}_phase1_{batch.format.name}",
                "grid": (chunks, rows),
                "tg": (threads,),
                "args": phase1,
            },
            {
                "kernel": "selection_phase2",
                "grid": (rows,),
                "tg": (threads,),
                "args": {0: "keys", 1: "indices", 2: "tokens", 3: np.uint32(chunks)},
            },
        ],
        buffers,
        seeds=seeds,
        ftz=ftz,
    )
    return {seed: out["tokens"] for seed, out in result["out"].items() if "tokens" in out}, result


def expected(stem, batch):
    values = batch.format.values(np.ascontiguousarray(batch.words))
    if stem == "argmax":
        return cases.first_maximum(values)
    return cases.first_eligible(values, batch.rules)


def faults(program, stem, batch, seeds=(0, 1, 2), **how):
    """Everything wrong with a run: what the tool reports, and tokens that are not the expected."""
    tokens, result = run(program, stem, batch, seeds=seeds, **how)
    found = [f"{p['kind']}: {p['text']} at {p.get('at')}" for p in result["problems"]]
    if result["crash"]:
        found.append(f"crash: {result['crash']}")
    right = expected(stem, batch)
    for seed in seeds:
        if seed not in tokens or (tokens[seed] != right).any():
            found.append(f"wrong tokens: {batch}, seed {seed}")
    return found
