"""What the tests of both ops use to make rows, look at graphs and run in threads."""

import io
import threading

import cases
import mlx.core as mx
import numpy as np
import pytest

FORMATS = pytest.mark.parametrize("format", cases.FORMATS, ids=lambda f: f.name)


def rows_of(format, *shape, seed=0):
    """Finite logits with ties."""
    values = np.round(np.random.default_rng(seed).standard_normal(shape) * 8) / 2
    words = format.words(values.astype(np.float32))
    return format.array(words), format.values(words)


def bitmask(shape, share=0.5, seed=0):
    return cases.random_bitmask(np.random.default_rng(seed), shape, share)


def nodes(name, *outputs):
    """Number of nodes of that name in the graph of unevaluated outputs."""
    text = io.StringIO()
    mx.export_to_dot(text, *outputs)
    return text.getvalue().count(f'[label ="{name}", shape=rectangle]')


def run_in_threads(work, count=2):
    """Runs `work(i)` in `count` threads at once; the first exception is raised here."""
    failures = []
    together = threading.Barrier(count)

    def body(i):
        try:
            together.wait()
            work(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
