"""Requests of every kind that draws, and the rows that they sample from."""

from __future__ import annotations

import numpy as np

from mlx_sampling.sampler import Sampler

WIDTH = 97
PENALISED = {
    "repeat_penalty": 1.1,
    "presence_penalty": 0.2,
    "dry_multiplier": 0.4,
    "dry_sequence_breakers": (),
}
# Parameters of `Sampler`, one entry per way to draw.
KINDS = {
    "dist": {"top_k": 0, "top_p": 1, "min_p": 0},
    "default": {},
    "xtc": {"xtc_probability": 0.5, "xtc_threshold": 0.05, **PENALISED},
    "mirostat": {"mirostat": 1, "mirostat_tau": 3.0},
    "mirostat_v2": {"mirostat": 2, "mirostat_tau": 3.0},
    "adaptive_p": {"samplers": "eksa", "adaptive_target": 0.3, **PENALISED},
    "dynamic": {"dynatemp_range": 0.5, "typical_p": 0.9, "top_n_sigma": 2.0, **PENALISED},
    "greedy": {"temperature": 0, **PENALISED},
}
STREAMS = ("distribution", "xtc", "mirostat", "adaptive")


def sampler_of(kind: str, seed: int, reference: str = "libc++", **options) -> Sampler:
    return Sampler(seed=seed, reference=reference, vocab_size=WIDTH, **{**KINDS[kind], **options})


def row(step: int, width: int = WIDTH) -> np.ndarray:
    """A row with ties, the same on every platform."""
    words = np.random.PCG64([7, step]).random_raw(width)
    return ((words % 61).astype(np.float32) - 30) / 5


def run(sampler: Sampler, first: int, steps: int) -> list[int]:
    tokens = []
    for step in range(first, first + steps):
        tokens.append(sampler.sample(row(step)))
        sampler.accept(tokens[-1])
    return tokens


def streams(sampler: Sampler) -> list[bytes]:
    return [getattr(sampler._state, name).snapshot() for name in STREAMS]
