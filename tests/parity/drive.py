"""Runs a case through our chain and through llama.cpp's, and names the first difference."""

from __future__ import annotations

import collections
import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from chain_cases import Case, Step, row_of
from llama import Chain as LlamaChain
from llama import Llama, LogitBias, Vocabulary

from mlx_sampling import _ext

PROBE_WIDTH = 1_000


class Context(NamedTuple):
    """What a stage is made from besides its parameters."""

    width: int
    seed: int
    llama: Llama
    vocabulary: Vocabulary | None


class Pair(NamedTuple):
    """One sampler on both sides. The two functions turn parameters into arguments."""

    ours: str
    upstream: str
    our_arguments: Callable[[tuple, Context], tuple] = lambda p, c: p
    upstream_arguments: Callable[[tuple, Context], tuple] = lambda p, c: p


def _bias_array(p: tuple, c: Context) -> tuple:
    return c.width, len(p[0]), (LogitBias * len(p[0]))(*p[0])


def _seed(p: tuple, c: Context) -> tuple:
    return (c.seed,)


# A sampler that _ext does not have is left out of the cases until it does.
SAMPLERS = {
    "temperature": Pair("Temperature", "temp"),
    "temp_ext": Pair("DynamicTemperature", "temp_ext"),
    "logit_bias": Pair("LogitBias", "logit_bias", lambda p, c: p, _bias_array),
    "penalties": Pair("Penalties", "penalties", lambda p, c: p, lambda p, c: (c.width, *p)),
    "dry": Pair("Dry", "dry", lambda p, c: (*p[:4], _breakers(c.vocabulary, p[4]))),
    "top_n_sigma": Pair("TopNSigma", "top_n_sigma"),
    "top_k": Pair("TopK", "top_k"),
    "typical": Pair("TypicalP", "typical"),
    "top_p": Pair("TopP", "top_p"),
    "min_p": Pair("MinP", "min_p"),
    "xtc": Pair("Xtc", "xtc", lambda p, c: p, lambda p, c: (*p, c.seed)),
    "infill": Pair("Infill", "infill", lambda p, c: p, lambda p, c: (c.vocabulary.handle,)),
    "dist": Pair("Dist", "dist", lambda p, c: (), _seed),
    "greedy": Pair("Greedy", "greedy"),
    "mirostat": Pair(
        "Mirostat",
        "mirostat",
        lambda p, c: (*p[:2], c.width, p[2]),
        lambda p, c: (c.width, c.seed, *p),
    ),
    "mirostat_v2": Pair("MirostatV2", "mirostat_v2", lambda p, c: p, lambda p, c: (c.seed, *p)),
    "adaptive_p": Pair("AdaptiveP", "adaptive_p", lambda p, c: p, lambda p, c: (*p, c.seed)),
}
NEED_VOCABULARY = ("infill",)


def available(vocabulary: Vocabulary | None) -> list[str]:
    names = [name for name, pair in SAMPLERS.items() if hasattr(_ext, pair.ours)]
    if vocabulary is None or "top_k" not in names:
        names = [name for name in names if name not in NEED_VOCABULARY]
    return names


@functools.cache
def _infill_stage(vocabulary: Vocabulary) -> Any:
    return _ext.Infill(vocabulary.pieces, vocabulary.end_of_generation, vocabulary.end)


@functools.cache
def _breakers(vocabulary: Vocabulary | None, breakers: tuple[bytes, ...]) -> list[list[int]]:
    if vocabulary is None:
        return []
    return [
        sequence
        for breaker in breakers
        for sequence in _ext.dry_breakers(vocabulary.texts, breaker, vocabulary.tokenize)
    ]


@functools.cache
def _dry_prototype(llama: Llama, vocabulary: Vocabulary | None, parameters: tuple) -> int:
    """Never freed: clones of it go into chains, since making one takes tens of milliseconds."""
    breakers = parameters[4] if vocabulary is not None else ()
    texts = (ctypes.c_char_p * len(breakers))(*breakers)
    handle = vocabulary.handle if vocabulary is not None else None
    return llama.make("dry", handle, *parameters[:4], texts, len(breakers))


class Outcome(NamedTuple):
    """What a step left: `token` is -1 where nothing could be picked."""

    token: int
    ids: np.ndarray
    logits: np.ndarray
    p: np.ndarray

    def usable(self) -> bool:
        return bool(self.token >= 0 and np.isfinite(self.p).all())


class Ours:
    def __init__(self, case: Case, context: Context, reference: str) -> None:
        self.chain = _ext.Chain([self._stage(*stage, context) for stage in case.stages])
        self.state = _ext.RequestState(case.seed, reference=reference, neg_inf="masked")
        self._adaptive = "adaptive_p" in case.names

    @staticmethod
    def _stage(name: str, parameters: tuple, context: Context) -> Any:
        pair = SAMPLERS[name]
        if name == "infill":
            return _infill_stage(context.vocabulary)
        return getattr(_ext, pair.ours)(*pair.our_arguments(parameters, context))

    def before(self, event: str) -> None:
        if event == "reset":
            self.state.reset()
        elif event == "clone":
            self.state = self.state.fork()
            if self._adaptive:  # upstream's clone starts its stream again
                fresh = _ext.Mt19937(self.state.seed)
                self.state.adaptive.restore(fresh.snapshot())

    def sample(self, row: np.ndarray) -> Outcome:
        self.state.set_row(row)
        self.state.finish_row()
        token = self.chain.sample(self.state)
        return Outcome(token, *self.state.candidates())

    def accept(self, token: int) -> None:
        self.chain.accept(self.state, token)

    def probe(self) -> int:
        u = self.state.distribution.uniform_f64(reference=self.state.reference)
        return max(int(np.ceil(PROBE_WIDTH * u)) - 1, 0)


class Upstream:
    def __init__(self, case: Case, context: Context) -> None:
        samplers = []
        for name, parameters in case.stages:
            if name == "dry":
                prototype = _dry_prototype(context.llama, context.vocabulary, parameters)
                samplers.append(context.llama.llama_sampler_clone(prototype))
                continue
            pair = SAMPLERS[name]
            arguments = pair.upstream_arguments(parameters, context)
            samplers.append(context.llama.make(pair.upstream, *arguments))
        self.chain: LlamaChain = context.llama.chain(samplers)

    def before(self, event: str) -> None:
        if event == "reset":
            self.chain.reset()
        elif event == "clone":
            self.chain = self.chain.clone()

    def sample(self, row: np.ndarray) -> Outcome:
        at = self.chain.sample(row)
        left = self.chain.candidates
        valid = 0 <= at < len(left) and left["logit"][at] > -np.inf
        token = int(left["id"][at]) if valid else -1
        return Outcome(token, left["id"], left["logit"], left["p"])

    def accept(self, token: int) -> None:
        self.chain.accept(token)

    def probe(self) -> int:
        return self.chain.probe(PROBE_WIDTH)


class Difference(AssertionError):
    pass


def bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint32)


def compare(ours: Outcome, theirs: Outcome) -> str:
    """The first thing that differs, in words; empty where nothing does."""
    if len(ours.ids) != len(theirs.ids):
        return f"{len(ours.ids)} candidates against {len(theirs.ids)}"
    for name in ("ids", "logits", "p"):
        a, b = getattr(ours, name), getattr(theirs, name)
        unequal = bits(a) != bits(b)
        if unequal.any():
            at = int(np.argmax(unequal))
            return f"{name}[{at}] {a[at]!r} against {b[at]!r}, {int(unequal.sum())} differ"
    if ours.token != theirs.token:
        return f"token {ours.token} against {theirs.token}"
    return ""


class Counts:
    """How many cases each sampler was in, and how many it changed something of."""

    def __init__(self) -> None:
        self.total = 0
        self.refused = 0
        self.cases: collections.Counter[tuple[str, str]] = collections.Counter()

    def add(self, case: Case, changed: bool) -> None:
        self.total += 1
        for name in set(case.names):
            self.cases[name, "all"] += 1
            self.cases[name, "large"] += case.width >= 32_000
            self.cases[name, "largest"] += case.width >= 202_048
        if case.key[0].startswith("alone/"):
            name = case.key[0].split("/")[1]
            if case.names[-1] in (name, "greedy"):
                self.cases[name, "alone"] += 1
                self.cases[name, "changed"] += changed

    def update(self, other: Counts) -> None:
        self.total += other.total
        self.refused += other.refused
        self.cases.update(other.cases)

    def __str__(self) -> str:
        columns = ("all", "large", "largest", "alone", "changed")
        lines = [f"{self.total} cases, {self.refused} ended by a refusal"]
        lines += [f"{'sampler':<13}" + "".join(f"{column:>9}" for column in columns)]
        for name in sorted({name for name, _ in self.cases}):
            lines += [f"{name:<13}" + "".join(f"{self.cases[name, c]:>9}" for c in columns)]
        return "\n".join(lines)


def _row(case: Case, step: Step, vocabulary: Vocabulary | None) -> np.ndarray:
    row = row_of(case, step)
    if "infill" in case.names and vocabulary is not None and len(row) > vocabulary.size:
        row = row.copy()
        row[vocabulary.size :] = -np.inf  # upstream ends the process at an id that has no text
        if not (row > -np.inf).any():
            row[0] = 0
    return row


def _changed(row: np.ndarray, outcome: Outcome) -> bool:
    return (
        len(outcome.ids) != len(row)
        or bool((outcome.ids != np.arange(len(row), dtype=np.uint32)).any())
        or bool((bits(outcome.logits) != bits(row)).any())
        or bool(outcome.p.any())
    )


def run_case(
    case: Case, llama: Llama, vocabulary: Vocabulary | None, reference: str, counts: Counts
) -> None:
    """Raises Difference at the first thing that is not the same on both sides."""
    context = Context(case.width, case.seed, llama, vocabulary)
    ours, theirs = Ours(case, context, reference), Upstream(case, context)
    for token in case.prompt:
        ours.accept(token)
        theirs.accept(token)
    # Two more steps on rows that hide nothing: a stream or a state that has come apart shows.
    tail = [Step(("plain", seed), "", -1) for seed in (1, 2)] if case.width < 4_096 else []
    changed = case.names[0] == "greedy"
    for i, step in enumerate((*case.steps, *tail)):
        ours.before(step.before)
        theirs.before(step.before)
        row = _row(case, step, vocabulary)
        expected = theirs.sample(row)
        try:
            got = ours.sample(row)
        except ValueError as error:
            if expected.usable():
                raise Difference(f"{case}, step {i}: refused ({error})") from error
            counts.refused += 1
            break
        fault = compare(got, expected) if case.names[0] != "greedy" else ""
        if fault or got.token != expected.token:
            fault = fault or f"token {got.token} against {expected.token}"
            raise Difference(f"{case}, step {i}: {fault}")
        changed = changed or _changed(row, expected)
        if step.accept != -2:
            accepted = got.token if step.accept == -1 else step.accept
            ours.accept(accepted)
            theirs.accept(accepted)
    else:
        if case.names[-1] == "dist":
            drawn = ours.probe(), theirs.probe()
            if drawn[0] != drawn[1]:
                raise Difference(f"{case}: the stream is elsewhere: {drawn}")
    counts.add(case, changed)
