"""Pearson's chi-square test, with the survival function that NumPy lacks."""

from __future__ import annotations

import math

import numpy as np

LEAST_EXPECTED = 10.0


def survival(statistic: float, freedom: int) -> float:
    """P(X >= statistic) of the chi-square law: the regularised upper incomplete gamma function.

    A series below the mean and a continued fraction above it (Abramowitz and Stegun, 6.5.29 and 6.5.31).
    """
    a, x = freedom / 2, statistic / 2
    if x <= 0:
        return 1.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        n = a
        while term > 1e-16 * total:
            n += 1
            term *= x / n
            total += term
        return max(0.0, 1 - front * total)
    tiny = 1e-300
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    fraction = d
    for i in range(1, 10_000):
        numerator = -i * (i - a)
        b += 2
        d = 1 / (numerator * d + b or tiny)
        c = b + numerator / c or tiny
        fraction *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return front * fraction


def p_value(counts, law) -> float:
    """How likely counts this far from a law or farther are, bins of few expected ones put together.

    A count where the law has none is impossible: 0.
    """
    counts, law = np.asarray(counts, float).ravel(), np.asarray(law, float).ravel()
    if counts[law <= 0].any():
        return 0.0
    law = law / law.sum()
    expected = counts.sum() * law
    order = np.argsort(-expected, kind="stable")
    counts, expected = counts[order], expected[order]
    few = expected < LEAST_EXPECTED
    if few.any():
        rest = np.flatnonzero(few)[0]
        if expected[rest:].sum() < LEAST_EXPECTED and rest > 0:
            rest -= 1
        counts = np.append(counts[:rest], counts[rest:].sum())
        expected = np.append(expected[:rest], expected[rest:].sum())
    if len(counts) < 2:
        return 1.0
    return survival(float(((counts - expected) ** 2 / expected).sum()), len(counts) - 1)
