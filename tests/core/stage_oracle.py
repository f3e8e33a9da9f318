"""Slow, obvious versions of the stages: one float32 operation per line, functions from libm.

Candidates of equal logits are put in order by id, which no reference does: use rows without ties.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

import numpy as np
from chain_oracle import _libm, expf

F = np.float32
INF = F(np.inf)
for _name, _count in (("logf", 1), ("log2f", 1), ("powf", 2)):
    getattr(_libm, _name).restype = ctypes.c_float
    getattr(_libm, _name).argtypes = [ctypes.c_float] * _count


def logf(x) -> np.float32:
    return F(_libm.logf(float(x)))


def log2f(x) -> np.float32:
    return F(_libm.log2f(float(x)))


def powf(x, y) -> np.float32:
    return F(_libm.powf(float(x), float(y)))


class Tied(Exception):
    """The order is a matter of the reference."""


@dataclass
class Candidate:
    id: int
    logit: np.float32
    p: np.float32


def candidates(row) -> list[Candidate]:
    return [Candidate(i, F(x), F(0)) for i, x in enumerate(row)]


def in_order(data: list[Candidate]) -> list[Candidate]:
    return sorted(data, key=lambda c: -c.logit)


def softmax(data: list[Candidate]) -> None:
    greatest = max(c.logit for c in data)
    total = F(0)
    for c in data:
        c.p = expf(c.logit - greatest)
        total += c.p
    for c in data:
        c.p /= total


def top_k(data, k):
    return in_order(data)[:k] if k > 0 else data


def top_p(data, p, min_keep):
    if F(p) >= 1:
        return data
    softmax(data)
    data = in_order(data)
    total = F(0)
    for i, c in enumerate(data):
        total += c.p
        if total >= F(p) and i + 1 >= min_keep:
            return data[: i + 1]
    return data


def min_p(data, p, min_keep):
    if F(p) <= 0:
        return data
    least = max(c.logit for c in data) + logf(F(p))
    kept = [c for c in data if c.logit >= least]
    if kept and len(kept) >= min_keep:
        return kept
    return in_order(data)[: max(1, len(kept), min_keep)]


def typical_p(data, p, min_keep):
    if F(p) >= 1:
        return data
    data = in_order(data)
    softmax(data)
    entropy = F(0)
    for c in data:
        entropy += -c.p * logf(c.p)
    scores = [abs(-logf(c.p) - entropy) for c in data]
    if len(set(scores)) < len(scores):
        raise Tied
    kept, total = [], F(0)
    for i in np.argsort(scores, kind="stable"):
        kept.append(data[i])
        total += data[i].p
        if total > F(p) and len(kept) >= min_keep:
            break
    return kept


def deviation(logits):
    count = F(len(logits))
    total = F(0)
    for x in logits:
        total += x
    mean = total / count
    squares = F(0)
    for x in logits:
        squares = F(float(squares) + float(x - mean) ** 2)
    return np.sqrt(squares / count)


def top_n_sigma(data, n):
    if F(n) <= 0 or len(data) < 2:
        return data
    logits = [c.logit for c in data if c.logit != -INF]
    floor = max(logits) - F(n) * deviation(logits)
    for c in data:
        if c.logit < floor:
            c.logit = -INF
    return data


def xtc(data, probability, threshold, min_keep, u):
    """`u`: the uniform of the xtc stream, drawn where the stage is on."""
    if u > F(probability):
        return data
    data = in_order(data)
    softmax(data)
    above = sum(c.p >= F(threshold) for c in data)
    if above >= 2 and len(data) - above + 1 >= min_keep:
        return data[above - 1 :]
    return data


def divide(data, temperature):
    if temperature <= 0:
        best = max(data, key=lambda c: c.logit)
        for c in data:
            c.logit = c.logit if c is best else -INF
    else:
        for c in data:
            c.logit /= temperature
    return data


def dynamic_temperature(data, temperature, spread, exponent):
    temperature, spread = F(temperature), F(spread)
    if spread <= 0:
        return divide(data, temperature)
    if len(data) < 2:
        return data
    data = in_order(data)
    softmax(data)
    entropy = F(0)
    for c in data:
        if c.p > 0:
            entropy -= c.p * logf(c.p)
    share = entropy / -logf(F(1) / F(len(data)))
    least = max(F(0), temperature - spread)
    greatest = temperature + spread
    divide(data, least + (greatest - least) * powf(share, F(exponent)))
    weights = [math.exp(float(c.logit) - float(data[0].logit)) for c in data]
    total = 0.0
    for weight in weights:
        total += weight
    for c, weight in zip(data, weights, strict=True):
        c.p = F(float(F(weight)) / total)
    return data


def discrete(weights, u: float, reference: str) -> int:
    total = 0.0
    for weight in weights:
        total += float(weight)
    running = 0.0
    for i, weight in enumerate(weights[:-1]):
        running += float(weight) / total
        if running > u or (reference == "libstdc++" and running == u):
            return i
    return len(weights) - 1


def mirostat_pick(data, mu, tau, eta, u, reference):
    """The end of both versions: candidates, index picked, mu after it."""
    softmax(data)
    picked = discrete([c.p for c in data], u, reference)
    error = -log2f(data[picked].p) - F(tau)
    return data, picked, mu - F(eta) * error


def mirostat(data, mu, tau, eta, vocab_size, m, u, reference):
    data = in_order(data)
    softmax(data)
    products, squares = F(0), F(0)
    for i in range(min(m, len(data)) - 1):
        t = logf(F(i + 2) / F(i + 1))
        products += t * logf(data[i].p / data[i + 1].p)
        squares += t * t
    s = products / squares
    excess = s - F(1)
    base = excess * powf(2, mu) / (F(1) - powf(vocab_size, -excess))
    k = powf(base, F(1) / s)
    count = int(k) if abs(k) < 2**31 else 1
    return mirostat_pick(data[: max(1, count)], mu, tau, eta, u, reference)


def mirostat_v2(data, mu, tau, eta, u, reference):
    data = in_order(data)
    softmax(data)
    count = next((i for i, c in enumerate(data) if -log2f(c.p) > mu), len(data))
    return mirostat_pick(data[: max(1, count)], mu, tau, eta, u, reference)


def adaptive_p(data, target, weighted_sum, total_weight, u, reference):
    """Candidates, index picked, and its p before the change."""
    softmax(data)
    before = [c.p for c in data]
    if target >= 0:
        target = min(F(target), F(1))
        aim = min(max(F(2) * target - weighted_sum / total_weight, F(0)), F(1))
        per_width = F(1) / F(0.3)
        for c in data:
            if c.logit != -INF:
                far = abs((c.p - aim) * per_width)
                c.logit = F(5) - F(10) * far * far / (F(1) + far)
        softmax(data)
    picked = discrete([c.p for c in data], u, reference)
    return data, picked, before[picked]
