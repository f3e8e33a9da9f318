"""Slow, obvious versions of penalties and dry, with float32 where llama.cpp has floats."""

from __future__ import annotations

import math

import numpy as np

f32 = np.float32


def penalties(row, tokens, last_n=64, repeat=1.0, freq=0.0, present=0.0):
    """`row` after the penalties for `tokens`, the accepted ones, oldest first."""
    row = np.array(row, dtype=f32)
    if last_n <= 0 or (repeat == 1 and freq == 0 and present == 0):
        return row
    recent = list(tokens)[-last_n:]
    for token in {t for t in recent if t < len(row)}:
        if row[token] <= 0:
            row[token] = row[token] * f32(repeat)
        else:
            row[token] = row[token] / f32(repeat)
        row[token] -= f32(recent.count(token)) * f32(freq) + f32(present)
    return row


def _limit(recent, breakers):
    """Tokens since the latest breaker; `recent` has the latest token first."""
    for head in range(len(recent)):
        lengths = [
            len(breaker) - 1
            for breaker in breakers
            if len(breaker) - 1 <= head
            and [recent[head - i] for i in range(len(breaker))] == list(breaker)
        ]
        if lengths:
            return head - max(lengths)
    return len(recent)


def dry(row, tokens, multiplier, base=1.75, allowed_length=2, penalty_last_n=64, breakers=()):
    row = np.array(row, dtype=f32)
    if multiplier == 0 or base < 1 or penalty_last_n <= 0:
        return row
    recent = list(tokens)[-penalty_last_n:][::-1]
    limit = _limit(recent, breakers)
    if len(recent) <= allowed_length or limit < allowed_length:
        return row
    longest: dict[int, int] = {}
    for k in range(1, len(recent)):
        length = 0
        while k + length < len(recent) and recent[length] == recent[k + length]:
            length += 1
        length = min(length, limit)
        if length >= allowed_length:
            longest[recent[k - 1]] = max(longest.get(recent[k - 1], 0), length)
    greatest = 0
    if f32(base) > f32(1.000001):
        greatest = int(f32(88.7228391) / np.log(f32(base)))
    for token, length in longest.items():
        if token >= len(row) or [token] in [list(breaker) for breaker in breakers]:
            continue
        exponent = length - allowed_length
        if greatest > 0:
            exponent = min(exponent, greatest)
        with np.errstate(over="ignore"):
            row[token] -= f32(float(f32(multiplier)) * math.pow(float(f32(base)), exponent))
    return row
