"""Slow, obvious version of the chain: one float operation per line, expf from the platform's libm.

NumPy's own exp differs from libm's by an ulp now and then, so it is no oracle for bits.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys

import numpy as np

_NAMES = ("msvcrt",) if sys.platform == "win32" else (ctypes.util.find_library("m"), "libm.so.6")
_libm = ctypes.CDLL(next(name for name in _NAMES if name))
_libm.expf.restype = ctypes.c_float
_libm.expf.argtypes = [ctypes.c_float]


def expf(x: np.float32) -> np.float32:
    return np.float32(_libm.expf(float(x)))


def words_of(seed: int, count: int) -> list[int]:
    """The first words of the stream, from NumPy's engine of the same family."""
    return np.frombuffer(np.random.RandomState(seed).bytes(4 * count), dtype="<u4").tolist()


def uniform_f64(low: int, high: int, reference: str = "libc++") -> float:
    u = (float(low) + float(high) * 2.0**32) / 2.0**64
    return float(np.nextafter(1.0, 0.0)) if reference == "libstdc++" and u >= 1.0 else u


def temperature(logits: np.ndarray, value: float) -> np.ndarray:
    return np.array([x / np.float32(value) for x in logits], dtype=np.float32)


def dist(logits: np.ndarray, u: float) -> tuple[int, np.ndarray]:
    """The index picked and the probabilities."""
    if len(logits) == 1:
        return 0, np.ones(1, dtype=np.float32)
    greatest = max(logits)
    weights = [expf(np.float32(x - greatest)) for x in logits]
    total = 0.0
    for weight in weights:
        total += float(weight)
    running = 0.0
    picked = None
    for i, weight in enumerate(weights):
        running += float(weight)
        if running >= total * u and not np.isneginf(logits[i]):
            picked = i
            break
    assert picked is not None
    return picked, np.array([np.float32(float(w) / total) for w in weights], dtype=np.float32)


def greedy(logits: np.ndarray) -> int:
    best = 0
    for i in range(1, len(logits)):
        if logits[i] > logits[best]:
            best = i
    return best
