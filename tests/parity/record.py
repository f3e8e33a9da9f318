"""Writes the corpus with a llama.cpp that was built against libc++.

    python tests/parity/record.py --llama /path/to/libllama.so --made-with "libc++ 22"

The library must be release 0.5.0, built for x86-64 without -march, so that it fuses nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from corpus import PATH, case_digest, corpus_cases, trace
from drive import Context, Upstream
from llama import Llama


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llama", type=Path, required=True, help="libllama, or its folder")
    parser.add_argument("--made-with", required=True, help="what to note down about the build")
    parser.add_argument("--out", type=Path, default=PATH)
    arguments = parser.parse_args()

    library = Llama(arguments.llama)
    digests, lengths, cases = [], [], []
    for case in corpus_cases():
        context = Context(case.width, case.seed, library, None)
        steps = trace(Upstream(case, context), case)
        digests += steps
        lengths.append(len(steps))
        cases.append(case_digest(case))
    np.savez_compressed(
        arguments.out,
        made_with=np.array(arguments.made_with),
        cases=np.array(cases, dtype=np.uint32),
        lengths=np.array(lengths, dtype=np.uint8),
        steps=np.array(digests, dtype=np.uint32),
    )
    size = arguments.out.stat().st_size
    print(f"{len(cases)} cases, {len(digests)} steps, {size:,} bytes in {arguments.out}")


if __name__ == "__main__":
    main()
