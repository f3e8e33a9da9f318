"""What llama.cpp gave with libc++, case by case: the corpus's cases, and how a step is condensed.

`record.py` writes the corpus with a llama.cpp at hand; `test_corpus.py` replays it without one.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import chain_cases as cases
import numpy as np
from chain_cases import Case, Step
from drive import Ours, Outcome, Upstream

PATH = Path(__file__).with_name("corpus_libcxx.npz")
# Infill needs a vocabulary; dry is here without breakers for the same reason.
NAMES = tuple(name for name in cases.PARAMETERS if name != "infill")
UNUSABLE = 0xFFFFFFFF  # no token could be picked, or a probability is not finite; ends the case


def corpus_cases() -> Iterator[Case]:
    return itertools.chain(
        cases.alone(NAMES, None, 100, salt=1),
        cases.alone(NAMES, 32_000, 6, salt=1),
        cases.default_chain(None, 500),
        cases.random_chains(NAMES, None, 1_600),
    )


def case_digest(case: Case) -> int:
    """Tells whether a case is still the one that was recorded, its rows included."""
    rows = b"".join(cases.row_of(case, step).tobytes() for step in case.steps)
    return zlib.crc32(rows, zlib.crc32(repr(case).encode()))


class StepDigest(NamedTuple):
    token: int
    order: int  # of the candidates' ids
    values: int  # of the bits of their logits and probabilities


def digest(outcome: Outcome, whole: bool) -> StepDigest:
    """`whole`: the candidates too, which a chain that begins with greedy does not list."""
    token = outcome.token if outcome.usable() else UNUSABLE
    if not whole:
        return StepDigest(token, 0, 0)
    order = zlib.crc32(np.ascontiguousarray(outcome.ids, dtype="<u4"))
    values = zlib.crc32(np.ascontiguousarray(outcome.logits, dtype="<f4"))
    return StepDigest(token, order, zlib.crc32(np.ascontiguousarray(outcome.p, "<f4"), values))


def steps_of(case: Case) -> tuple[Step, ...]:
    """The case's own, then one on a row that hides nothing: what has come apart shows."""
    return (*case.steps, Step(("plain", 1), "", -1))


def trace(side: Ours | Upstream, case: Case) -> list[StepDigest]:
    """One digest per step; the last is UNUSABLE where the case ended early."""
    for token in case.prompt:
        side.accept(token)
    digests = []
    for step in steps_of(case):
        side.before(step.before)
        try:
            outcome = side.sample(cases.row_of(case, step))
        except ValueError:
            digests.append(StepDigest(UNUSABLE, 0, 0))
            break
        digests.append(digest(outcome, case.names[0] != "greedy"))
        if digests[-1].token == UNUSABLE:
            digests[-1] = StepDigest(UNUSABLE, 0, 0)
            break
        if step.accept != -2:
            side.accept(outcome.token if step.accept == -1 else step.accept)
    return digests
