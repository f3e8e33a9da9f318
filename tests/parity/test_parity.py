"""Our chain against llama.cpp's, live: the same candidates, bits, tokens and draws.

llama.cpp's prebuilt library is linked with libstdc++, so this is the "libstdc++" reference; what
llama.cpp gives with libc++ is recorded in the corpus beside this file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import chain_cases as cases
import drive
import llama
import numpy as np
import pytest
from chain_cases import Case
from drive import SAMPLERS, Counts, Difference, Outcome, available, compare, run_case

REFERENCE = "libstdc++"
LARGEST = 202_048


def alone(width: int | None, count: int) -> Callable[[list[str]], Iterable[Case]]:
    return lambda names: cases.alone(names, width, count)


def random(width: int | None, count: int) -> Callable[[list[str]], Iterable[Case]]:
    return lambda names: cases.random_chains(names, width, count)


def default(width: int | None, count: int) -> Callable[[list[str]], Iterable[Case]]:
    def chains(names: list[str]) -> Iterable[Case]:
        complete = set(cases.DEFAULT_ORDER) <= set(names)
        return cases.default_chain(width, count) if complete else ()

    return chains


GROUPS = {
    "alone": alone(None, 300),
    "alone, 32,000": alone(32_000, 320),
    "alone, 49,152": alone(49_152, 40),
    "alone, 128,256": alone(128_256, 20),
    "alone, 202,048": alone(LARGEST, 90),
    "default chain": default(None, 3_000),
    "default chain, 32,000": default(32_000, 100),
    "default chain, 202,048": default(LARGEST, 60),
    "random chains": random(None, 7_000),
    "random chains, 32,000": random(32_000, 500),
    "random chains, 128,256": random(128_256, 60),
    "random chains, 202,048": random(LARGEST, 100),
}


@pytest.fixture(scope="module")
def vocabulary(library):
    try:
        return library.open_vocabulary(llama.find_model())
    except llama.LlamaUnavailable as error:
        print(f"infill and dry's breakers are left out: {error}")
        return None


@functools.cache
def results(group: str, library, vocabulary) -> tuple[Counts, list[str]]:
    counts, faults = Counts(), []
    for case in GROUPS[group](available(vocabulary)):
        try:
            run_case(case, library, vocabulary, REFERENCE, counts)
        except Difference as difference:
            faults.append(str(difference))
    return counts, faults


@pytest.mark.parametrize("group", GROUPS)
def test_every_bit_is_the_same(group, library, vocabulary):
    counts, faults = results(group, library, vocabulary)
    assert not faults, f"{len(faults)} of {counts.total + len(faults)} differ; first: {faults[0]}"


def test_there_are_enough_cases(library, vocabulary, capsys):
    counts = Counts()
    for group in GROUPS:
        counts.update(results(group, library, vocabulary)[0])
    names = available(vocabulary)
    with capsys.disabled():
        print(f"\n{counts}")
        print("not in _ext or not testable here:", sorted(SAMPLERS.keys() - set(names)) or "none")
    assert counts.refused < counts.total / 20
    for name in names:
        assert counts.cases[name, "large"] >= 500, name
        assert counts.cases[name, "largest"] >= 100, name
        assert counts.cases[name, "changed"] >= 0.8 * counts.cases[name, "alone"] > 0, name
    if len(names) == len(SAMPLERS):
        assert counts.total >= 20_000


def test_the_other_reference_is_told_apart(library, vocabulary):
    names = available(vocabulary)
    if "top_k" not in names:
        pytest.skip("no sampler here sorts")
    counts, differing = Counts(), 0
    for case in cases.random_chains(names, None, 300):
        try:
            run_case(case, library, vocabulary, "libc++", counts)
        except Difference:
            differing += 1
    assert differing > 20


@pytest.mark.parametrize("field", ["ids", "logits", "p", "token"])
def test_one_bit_is_a_difference(field):
    outcome = Outcome(
        3,
        np.arange(5, dtype=np.uint32),
        np.linspace(-1, 1, 5, dtype=np.float32),
        np.full(5, 0.2, dtype=np.float32),
    )
    assert compare(outcome, outcome) == ""
    if field == "token":
        other = outcome._replace(token=4)
    else:
        values = getattr(outcome, field).copy()
        values.view(np.uint32)[2] ^= 1
        other = outcome._replace(**{field: values})
    assert compare(outcome, other).startswith(field)
    fewer = Outcome(3, outcome.ids[:4], outcome.logits[:4], outcome.p[:4])
    assert compare(outcome, fewer) == "5 candidates against 4"


def test_zero_has_a_sign_here():
    zero = Outcome(0, *(np.zeros(1, dtype=t) for t in (np.uint32, np.float32, np.float32)))
    assert compare(zero, zero._replace(p=-zero.p)) != ""


def test_seeds_are_taken_as_they_are(library):
    for seed in (0, 1, 2**31, 2**32 - 2):
        for sampler in (("dist", seed), ("mirostat_v2", seed, 5.0, 0.1)):
            handle = library.make(*sampler)
            assert library.llama_sampler_get_seed(handle) == seed
            library.llama_sampler_free(handle)


def test_a_shifted_stream_is_a_difference(library, vocabulary, monkeypatch):
    class Ahead(drive.Ours):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.state.distribution.uniform_f64(reference=REFERENCE)

    monkeypatch.setattr(drive, "Ours", Ahead)
    # One candidate: only the probe of the stream's position can tell.
    draw = cases.Draw(5)
    steps = (cases.Step(("plain", 1), "", -1),)
    for stages in ((("dist", ()),), (("temperature", (0.0,)), ("dist", ()))):
        case = Case(("shifted", 0), 1, draw.below(2**31), stages, (), steps)
        with pytest.raises(Difference, match="stream is elsewhere"):
            run_case(case, library, vocabulary, REFERENCE, Counts())
