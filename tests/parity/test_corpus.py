"""Our chain with reference "libc++" against what llama.cpp gave with libc++, as recorded."""

from __future__ import annotations

import platform
import sys

import corpus
import numpy as np
import pytest
from drive import Context, Ours, available

# Elsewhere expf and its like may round otherwise, and arm64 fuses.
SAME_ARITHMETIC = sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")


def replay(reference: str) -> tuple[int, list[str]]:
    """How many recorded cases were run, and what differs in which."""
    names = set(available(None))
    with np.load(corpus.PATH) as recorded:
        digests, lengths, steps = (recorded[k] for k in ("cases", "lengths", "steps"))
    ends = np.cumsum(lengths, dtype=np.int64)
    run, faults = 0, []
    columns = slice(0, 3 if SAME_ARITHMETIC else 2)
    for i, case in enumerate(corpus.corpus_cases()):
        if not set(case.names) <= names:
            continue
        assert corpus.case_digest(case) == digests[i], f"{case.key} is no longer what was recorded"
        run += 1
        context = Context(case.width, case.seed, None, None)
        expected = steps[ends[i] - lengths[i] : ends[i]].tolist()
        got = [list(step) for step in corpus.trace(Ours(case, context, reference), case)]
        if [s[columns] for s in got] != [s[columns] for s in expected]:
            faults.append(f"{case}: {got} against {expected}")
    return run, faults


def test_every_recorded_bit_is_the_same(capsys):
    run, faults = replay("libc++")
    with capsys.disabled():
        print(f"\n{run} recorded cases, {len(faults)} differ")
    if SAME_ARITHMETIC:
        assert not faults, faults[0]
    else:
        assert len(faults) <= run / 100, faults[0]


def test_the_other_reference_is_told_apart():
    if "top_k" not in available(None):
        pytest.skip("no sampler here sorts")
    run, faults = replay("libstdc++")
    assert len(faults) > run / 50


def test_the_corpus_is_small_and_large_enough():
    assert corpus.PATH.stat().st_size < 1_500_000
    with np.load(corpus.PATH) as recorded:
        assert len(recorded["cases"]) >= 2_000
        assert str(recorded["made_with"])
