"""llama.cpp's grammar sampler, asked in a process of its own: it throws across C, aborts and hangs.

As a program: cases on stdin, one JSON line for each on stdout. What is allowed is learnt from `apply`,
and only what is allowed is accepted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama
import numpy as np
from llama import find, find_model

from mlx_sampling.bench.llama_cpp import TOKEN_DATA, apply

__all__ = ["Answer", "Hung", "ask"]

_SECONDS = 5  # for one grammar


@dataclass(frozen=True)
class Answer:
    """How far one path of tokens got: tokens accepted, and where the generation might have ended."""

    accepted: int
    can_end: list[bool]  # before each token that was asked about, and after the last accepted one
    allowed: list[int]  # of the tokens that were asked about, those allowed at the end of the path


@dataclass(frozen=True)
class Hung:
    """llama.cpp did not come back."""


def ask(
    cases: list[tuple[str, list[list[int]]]], probes: Iterable[int] = ()
) -> list[list[Answer] | Hung | None]:
    """Runs paths of tokens through llama.cpp's grammars.

    Args:
        cases: (grammar, paths of token ids) pairs.
        probes: Tokens to ask about at the end of each path.

    Returns:
        For each grammar an `Answer` for each path; None where it was refused, `Hung` where it took
        longer than a few seconds.
    """
    path = [str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path]
    results: list[list[Answer] | Hung | None] = []
    while len(results) < len(cases):
        ran = subprocess.run(
            [sys.executable, __file__],
            input=json.dumps([cases[len(results) :], list(probes)]),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "GGML_NO_BACKTRACE": "1"},
            check=False,
        )
        for line in map(json.loads, ran.stdout.splitlines()):
            results.append(None if line is None else [Answer(*path) for path in line])
        if ran.returncode == -signal.SIGALRM:
            results.append(Hung())
        elif len(results) < len(cases):
            raise RuntimeError(f"llama.cpp died of {cases[len(results)]}: {ran.stderr[-500:]}")
    return results


class Sampler:
    """One grammar sampler of llama.cpp."""

    def __init__(self, library: llama.Llama, vocabulary: llama.Vocabulary, handle: int) -> None:
        self._library, self._vocabulary, self._handle = library, vocabulary, handle

    def allowed(self, tokens: list[int]) -> list[bool]:
        data = np.zeros(len(tokens), TOKEN_DATA)
        data["id"] = tokens
        _, data = apply(self._library, self._handle, data)
        assert data["id"].tolist() == tokens
        return np.isfinite(data["logit"]).tolist()

    def run(self, path: list[int], probes: list[int]) -> Answer:
        """Takes the tokens of a path until one is refused; then asks about the probes."""
        self._library.llama_sampler_reset(self._handle)
        ends = self._vocabulary.end_of_generation
        can_end = []
        accepted = 0
        for token in path:
            allowed, *end_allowed = self.allowed([token, *ends])
            assert len(set(end_allowed)) == 1, "llama.cpp gates its end tokens alike"
            can_end.append(end_allowed[0])
            if not allowed:
                break
            self._library.llama_sampler_accept(self._handle, token)
            accepted += 1
        else:
            can_end.append(self.allowed(ends)[0])
        at_end = self.allowed(probes) if probes else []
        return Answer(accepted, can_end, [t for t, on in zip(probes, at_end, strict=True) if on])


def main() -> None:
    cases, probes = json.load(sys.stdin)
    library = find()
    vocabulary = library.open_vocabulary(find_model())
    p, c = llama.c_void_p, llama.c_char_p
    library.declare({"llama_sampler_init_grammar": (p, p, c, c)})
    for grammar, paths in cases:
        signal.alarm(_SECONDS)  # which nobody handles, so that it ends the process
        handle = library.make("grammar", vocabulary.handle, grammar.encode(), b"root")
        answers: Any = None
        if handle:
            sampler = Sampler(library, vocabulary, handle)
            answers = [vars(sampler.run(path, probes)).values() for path in paths]
            answers = [list(answer) for answer in answers]
            library.llama_sampler_free(handle)
        print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main()
