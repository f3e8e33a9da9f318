"""`mlx-sampling bench speculative`: exact acceptance, its cost and its yield.

Cost: microseconds per verified token, medians over rounds, of verify_draft and of the NumPy reference on
the same distributions and words; their decisions must be equal. "sparse" has what top-k 40 leaves; the
reference has no sparse form and takes the rows.
Yield: drafts of the model itself, with fewer layers or coarser weights, at each position of a text that
the model sampled. Predicted: the mean of sum(min(p, q)), +- 3 standard deviations of the count; beside it
what was accepted, and how many drafts equal a token that the target drew by itself. The run fails where a
count is outside.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

from mlx_sampling import reference
from mlx_sampling._ext import Mt19937, draft_step
from mlx_sampling.bench.chain import make_rows
from mlx_sampling.bench.environment import environment, header
from mlx_sampling.sampled import sample_stream
from mlx_sampling.sampler import Sampler
from mlx_sampling.speculative import SparseProbs, verify_draft, verify_draft_batch

VOCAB = 202_048
KEPT = 40
PROMPT = "Write a short story about a lighthouse keeper and the sea."
SEED = 42

Floats = np.ndarray[Any, np.dtype[np.float32]]


def add_parser(benches: Any) -> None:
    parser = benches.add_parser(
        "speculative", help="exact acceptance of drafts", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--vocab", type=int, default=VOCAB, metavar="V", help=f"default: {VOCAB}")
    parser.add_argument("--draft-tokens", type=int, default=4, metavar="K", help="default: 4")
    parser.add_argument("--rounds", type=int, default=25, help="default: 25")
    parser.add_argument("--model", help="of the yield, as in generate (default: the packaged one)")
    parser.add_argument("--temp", type=float, default=0.8, help="of the yield (default: 0.8)")
    parser.add_argument("--tokens", type=int, default=64, help="of the yield's text (default: 64)")
    parser.add_argument(
        "--drafts", type=int, default=100, help="per position of the yield (default: 100)"
    )
    parser.add_argument(
        "--layers", type=int, nargs="*", default=[1, 2], help="left out at the end (default: 1 2)"
    )
    parser.add_argument(
        "--bits", type=int, nargs="*", default=[8, 4, 3], help="of the weights (default: 8 4 3)"
    )
    parser.add_argument("--cost-only", action="store_true", help="no yield, and so no model")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    for name in ("vocab", "draft_tokens", "rounds", "tokens", "drafts"):
        if getattr(args, name) < 1:
            raise ValueError(f"[{name}] Expected an int >= 1, got {getattr(args, name)}.")
    if not args.json:
        print(header())
        print(f"# us per verified token, {args.draft_tokens} drafts a call\n{_COST_HEAD}")
    cost = []
    for form in ("dense", "sparse"):
        cost.append(measure(form, args.vocab, args.draft_tokens, args.rounds))
        if not args.json:
            print(_cost_row(cost[-1]), flush=True)
    found = []
    if not args.cost_only:
        if not args.json:
            print(f"# temperature {args.temp:g}\n{_YIELD_HEAD}")
        for row in yields(args):
            found.append(row)
            if not args.json:
                print(_yield_row(row), flush=True)
    if args.json:
        print(json.dumps({"environment": environment(), "cost": cost, "yield": found}, indent=2))
    return 0 if all(row["within"] for row in found) else 1


def measure(form: str, vocab: int, drafted: int, rounds: int) -> dict[str, Any]:
    """Microseconds per token of both sides. Raises where their decisions differ."""
    rng = np.random.default_rng(vocab)
    logits = [make_rows(vocab, "plain")[i % 4] for i in range(drafted + 1)]
    p = _softmax(np.stack(logits), form)
    noise = rng.normal(scale=0.7, size=(drafted, vocab))
    q = _softmax(np.stack(logits[:drafted]) + noise.astype(np.float32), form)
    drafts: Any = q if form == "dense" else [_sparse(row) for row in q]
    targets: Any = p if form == "dense" else [_sparse(row) for row in p]
    times: dict[str, list[float]] = {"ours": [], "numpy": []}
    for seed in range(rounds + 1):
        tokens = [int(rng.choice(vocab, p=row / row.sum())) for row in q.astype(np.float64)]
        started = perf_counter()
        ours = verify_draft(tokens, drafts, targets, Mt19937(seed))
        middle = perf_counter()
        theirs = reference.verify_draft(tokens, q, p, Mt19937(seed))
        ended = perf_counter()
        if tuple(ours) != theirs:
            raise ValueError(f"[{form}] Expected one decision, got {ours} and {theirs}.")
        if seed:  # the first call is not counted
            times["ours"].append(1e6 * (middle - started) / (ours.accepted + 1))
            times["numpy"].append(1e6 * (ended - middle) / (ours.accepted + 1))
    return {
        "form": form,
        "vocab": vocab,
        "draft_tokens": drafted,
        "us": {side: median(us) for side, us in times.items()},
    }


def _softmax(logits: Floats, form: str) -> Floats:
    rows = logits.astype(np.float64)
    if form == "sparse":
        least = np.sort(rows, axis=1)[:, -min(KEPT, rows.shape[1])]
        rows = np.where(rows >= least[:, None], rows, -np.inf)
    rows = np.exp(rows - rows.max(axis=1, keepdims=True))
    return (rows / rows.sum(axis=1, keepdims=True)).astype(np.float32)


def _sparse(row: Floats) -> SparseProbs:
    """By id, as the reference draws."""
    ids = np.flatnonzero(row).astype(np.uint32)
    return SparseProbs(ids, row[ids])


def yields(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row of figures per draft of the model."""
    try:
        from mlx_sampling.mlx_lm import load
    except ImportError as error:
        raise ImportError(
            f"the yield runs mlx-lm models, and {error}; mend it with: pip install mlx-lm"
        ) from error
    model, tokenizer = load(args.model)
    prompt = list(tokenizer.encode(PROMPT))
    chain: dict[str, Any] = {"temperature": args.temp, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    text = list(sample_stream(model, prompt, Sampler(seed=SEED, **chain), max_tokens=args.tokens))
    ids = prompt + text[:-1]
    target = laws(model, ids, len(text), chain)
    variants: list[tuple[str, Callable[[], Any]]] = []
    for left_out in args.layers:
        variants.append((f"{left_out} layers fewer", partial(fewer_layers, model, left_out)))
    for bits in args.bits:
        variants.append((f"{bits} bits", partial(coarser, model, bits)))
    for name, changed in variants:
        with changed():
            draft = laws(model, ids, len(text), chain)
        yield {"draft": name, **acceptance(target, draft, args.drafts)}


def laws(model: Any, ids: list[int], count: int, chain: dict[str, Any]) -> Floats:
    """The chain's distributions at the last `count` positions of a text, float32 `[count, V]`."""
    rows = model(mx.array([ids]))[0, -count:]
    sampler = Sampler(seed=SEED, **chain)
    found = np.zeros(rows.shape, np.float32)
    for i in range(count):
        draft_step(sampler._chain, sampler._state, rows, i)
        tokens, probs = sampler._state.law()
        found[i, tokens] = probs
    return found


@contextmanager
def fewer_layers(model: Any, left_out: int) -> Iterator[None]:
    """The model without its last layers."""
    holder = model.model if hasattr(model, "model") else model
    layers = holder.layers
    if not 0 < left_out < len(layers):
        raise ValueError(f"[layers] Expected an int in [1, {len(layers) - 1}], got {left_out}.")
    holder.layers = layers[:-left_out]
    try:
        yield
    finally:
        holder.layers = layers


@contextmanager
def coarser(model: Any, bits: int) -> Iterator[None]:
    """The model with its float matrices rounded to so many bits, in groups of 64."""
    weights = model.parameters()

    def rounded(weight: mx.array) -> mx.array:
        if (
            weight.ndim != 2
            or weight.shape[-1] % 64
            or not mx.issubdtype(weight.dtype, mx.floating)
        ):
            return weight
        packed, scales, biases = mx.quantize(weight, group_size=64, bits=bits)
        return mx.dequantize(packed, scales, biases, group_size=64, bits=bits)

    model.update(tree_map(rounded, weights))
    try:
        yield
    finally:
        model.update(weights)


def acceptance(target: Floats, draft: Floats, drafts: int) -> dict[str, Any]:
    """What is predicted and what is counted, over `drafts` drafts at each position."""
    predicted = np.minimum(target, draft).sum(axis=1, dtype=np.float64)
    equal = (target.astype(np.float64) * draft).sum(axis=1)
    stream, rng = Mt19937(SEED), np.random.default_rng(SEED)
    accepted = matched = 0
    for p, q in zip(target, draft, strict=True):
        tokens = _drawn(q, drafts, rng)
        decisions = verify_draft_batch(tokens[:, None], q[None], np.stack([p, p]), stream)
        accepted += int(decisions.accepted.sum())
        matched += int((_drawn(p, drafts, rng) == tokens).sum())
    count = drafts * len(target)
    deviation = float(np.sqrt((predicted * (1 - predicted)).clip(0).sum() * drafts)) / count
    mean = float(predicted.mean())
    return {
        "drafts": count,
        "predicted": mean,
        "deviation": deviation,
        "accepted": accepted / count,
        "within": abs(accepted / count - mean) <= 3 * deviation + 1e-6,
        "exact_match_predicted": float(equal.mean()),
        "exact_match": matched / count,
    }


def _drawn(law: Floats, count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    ends = np.cumsum(law, dtype=np.float64)
    return np.searchsorted(ends, rng.random(count) * ends[-1], side="right")


_COST_HEAD = f"{'form':8}{'V':>8}{'K':>4} | {'ours':>9} | {'numpy':>10}{'ratio':>8}"
_YIELD_HEAD = (
    f"{'draft':17}{'drafts':>7} | {'predicted':>18}{'accepted':>10}{'':>5} | {'exact match':>12}"
    f"{'ratio':>7}"
)


def _cost_row(r: dict[str, Any]) -> str:
    ours, theirs = r["us"]["ours"], r["us"]["numpy"]
    return (
        f"{r['form']:8}{r['vocab']:8}{r['draft_tokens']:4} | {ours:9.1f} | {theirs:10.1f}"
        f"{theirs / ours:8.1f}"
    )


def _yield_row(r: dict[str, Any]) -> str:
    span = f"{r['predicted']:.4f} +- {3 * r['deviation']:.4f}"
    within = "in" if r["within"] else "OUT"
    ratio = r["accepted"] / r["exact_match"] if r["exact_match"] else float("inf")
    return (
        f"{r['draft']:17}{r['drafts']:7} | {span:>18}{r['accepted']:10.4f}{within:>5} | "
        f"{r['exact_match']:12.4f}{ratio:7.2f}"
    )
