"""Candidates of equal logits: the orders that llama.cpp 0.5.0 leaves, built with each library.

The answers were read from `llama_sampler_apply` of builds with libc++ 22 and libstdc++ 11, seed 7
(orders) and 42 (tokens).
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from rows import refill, state_with

from mlx_sampling._ext import (
    AdaptiveP,
    Chain,
    DynamicTemperature,
    Greedy,
    MinP,
    Mirostat,
    MirostatV2,
    RequestState,
    TopK,
    TopP,
    TypicalP,
    Xtc,
)


def steps_of(width: int, levels: int, step: int = 0) -> np.ndarray:
    return np.array([((i * 37 + step * 11) % levels) / 4 for i in range(width)], dtype=np.float32)


def masked_row() -> np.ndarray:
    row = steps_of(40, 7)
    row[::5] = -np.inf
    return row


ROWS = {
    "short": steps_of(20, 5),
    "wide": steps_of(1500, 23),
    "masked": masked_row(),
    "tall": steps_of(300, 211) * np.float32(2) - np.float32(60),
    "huge": steps_of(150, 3) * np.float32(1e9),
    "flat1024": np.zeros(1024, dtype=np.float32),
    "flat1025": np.zeros(1025, dtype=np.float32),
}

# Stage, row, and of the ids that are left, with libc++ and with libstdc++: how many, the first three,
# and the CRC-32 of all.
KNOWN = [
    (TopK(3), "short", (3, [2, 12, 7], "5d967506"), (3, [12, 7, 2], "de134a7c")),
    (TopK(3), "wide", (3, [41, 64, 18], "2dc07aff"), (3, [64, 18, 41], "a812a77d")),
    (TopK(3), "masked", (3, [17, 24, 3], "5183e28c"), (3, [24, 3, 17], "17eb6a74")),
    (TopK(3), "huge", (3, [2, 8, 5], "73d5b377"), (3, [8, 5, 2], "9f30767e")),
    (TopK(20), "wide", (20, [133, 110, 363], "d5f5ba8e"), (20, [18, 87, 340], "c14f30d3")),
    (TopK(20), "tall", (20, [268, 57, 114], "3c0f0556"), (20, [57, 268, 114], "5bdf6001")),
    (TopK(128), "wide", (128, [1214, 616, 915], "681cc9c8"), (128, [18, 1306, 984], "dbc885e6")),
    (TopK(130), "wide", (130, [18, 41, 64], "28121a4f"), (130, [938, 1122, 1099], "68f8d27d")),
    (TopK(130), "tall", (130, [268, 57, 114], "2f21eeb9"), (130, [268, 57, 114], "ace808e9")),
    (TopK(130), "huge", (130, [1, 4, 7], "fd82534e"), (130, [115, 79, 82], "11cb0249")),
    (
        TopP(0.1, 1),
        "flat1024",
        (103, [767, 639, 383], "c53d57f8"),
        (103, [638, 766, 382], "9b7cdd22"),
    ),
    (
        TopP(0.1, 1),
        "flat1025",
        (103, [191, 159, 95], "748bb202"),
        (103, [158, 190, 94], "1358659d"),
    ),
    (TopK(2000), "wide", (1500, [18, 41, 64], "abc5088c"), (1500, [938, 1122, 1099], "16dd5c6c")),
    (TopP(0.5, 1), "short", (8, [2, 12, 17], "f92b8cf7"), (8, [17, 7, 2], "59cbb48e")),
    (TopP(0.5, 1), "wide", (182, [18, 41, 64], "3b47da68"), (182, [938, 1122, 1099], "0ebce53d")),
    (TopP(0.5, 1), "huge", (125, [1, 4, 7], "45d632a7"), (125, [115, 79, 82], "c0e7a7ac")),
    (
        TopP(0.999, 1),
        "wide",
        (1430, [18, 41, 64], "5dfa79e2"),
        (1430, [938, 1122, 1099], "a5335862"),
    ),
    (TopP(0.999, 1), "masked", (32, [17, 31, 24], "090fb15f"), (32, [24, 17, 31], "25c37e4d")),
    (MinP(0.3, 1), "wide", (326, [3, 8, 13], "9d05d803"), (326, [3, 8, 13], "9d05d803")),
    (MinP(0.9, 50), "wide", (65, [18, 41, 64], "5145836b"), (65, [18, 41, 64], "5145836b")),
    (MinP(0.9, 50), "masked", (40, [17, 31, 24], "45a7c031"), (40, [24, 17, 31], "52cd7edb")),
    (MinP(0.9, 50), "tall", (50, [268, 57, 114], "677d87c1"), (50, [268, 57, 114], "1535633b")),
    (MinP(0.9, 50), "huge", (50, [2, 5, 8], "2ed707ac"), (50, [2, 5, 8], "2ed707ac")),
    (TypicalP(0.5, 1), "short", (10, [6, 11, 1], "27fa9487"), (10, [1, 11, 16], "4fdf7153")),
    (TypicalP(0.5, 1), "wide", (305, [808, 49, 785], "10470c49"), (305, [210, 26, 49], "4575d7dc")),
    (TypicalP(0.5, 1), "masked", (10, [17, 31, 24], "a2a1d662"), (26, [28, 22, 29], "7d78ce8d")),
    (TypicalP(0.5, 1), "tall", (4, [191, 57, 114], "322b8004"), (207, [116, 247, 36], "4430033f")),
    (TypicalP(0.5, 1), "huge", (150, [75, 4, 7], "1b13d3aa"), (150, [80, 60, 63], "e3d33ace")),
    (Xtc(1.0, 0.01, 1), "short", (1, [15], "7927cf4a"), (1, [5], "169a2f2e")),
    (Xtc(1.0, 0.01, 1), "masked", (9, [7, 30, 5], "e0bc5437"), (9, [14, 15, 35], "b6df4aa1")),
    (
        Xtc(1.0, 0.01, 1),
        "tall",
        (291, [188, 245, 34], "0ccc2adc"),
        (291, [188, 34, 245], "dd7aaffe"),
    ),
    (
        DynamicTemperature(1.0, 0.5, 1.0),
        "wide",
        (1500, [18, 41, 64], "abc5088c"),
        (1500, [938, 1122, 1099], "16dd5c6c"),
    ),
    (
        DynamicTemperature(1.0, 0.5, 1.0),
        "masked",
        (40, [17, 31, 24], "45a7c031"),
        (40, [24, 17, 31], "52cd7edb"),
    ),
]


@pytest.mark.parametrize(
    ("stage", "row", "libcxx", "libstdcxx"), KNOWN, ids=[f"{k[0].name}-{k[1]}" for k in KNOWN]
)
def test_order(stage, row, libcxx, libstdcxx):
    for reference, (count, first, crc) in (("libc++", libcxx), ("libstdc++", libstdcxx)):
        state = state_with(ROWS[row], seed=7, reference=reference)
        Chain([stage, Greedy()]).sample(state)
        ids = state.candidates()[0]
        assert len(ids) == count
        assert ids[:3].tolist() == first
        assert f"{zlib.crc32(ids.astype('<u4').tobytes()):08x}" == crc


TOKENS = [
    (
        Mirostat(5.0, 0.1, 64, 100),
        [57, 32, 62, 45, 18, 19, 46, 42, 61, 55, 43, 55, 62, 16, 55, 52],
        [11, 55, 62, 45, 18, 19, 23, 42, 15, 32, 43, 32, 16, 62, 32, 6],
    ),
    (
        MirostatV2(3.0, 0.1),
        [21, 9, 49, 27, 23, 42, 28, 24, 61, 42, 43, 47, 51, 16, 61, 11],
        [21, 32, 49, 50, 0, 42, 28, 1, 15, 42, 43, 47, 51, 62, 15, 34],
    ),
    (
        AdaptiveP(0.3, 0.9),
        [50, 9, 46, 37, 28, 9, 28, 20, 10, 41, 5, 47, 59, 0, 63, 40],
        [50, 9, 46, 37, 28, 9, 28, 20, 10, 41, 5, 47, 59, 0, 63, 40],
    ),
    (
        AdaptiveP(-1.0, 0.9),
        [49, 9, 46, 37, 26, 9, 28, 19, 10, 42, 5, 47, 59, 0, 61, 39],
        [49, 9, 46, 37, 26, 9, 28, 19, 10, 42, 5, 47, 59, 0, 61, 39],
    ),
]


@pytest.mark.parametrize(("stage", "libcxx", "libstdcxx"), TOKENS, ids=[t[0].name for t in TOKENS])
def test_tokens(stage, libcxx, libstdcxx):
    chain = Chain([stage])
    for reference, expected in (("libc++", libcxx), ("libstdc++", libstdcxx)):
        state = RequestState(42, reference=reference)
        tokens = []
        for step in range(16):
            refill(state, steps_of(64, 23, step))
            tokens.append(chain.sample(state))
            chain.accept(state, tokens[-1])
        assert tokens == expected


def test_three_of_three_equal_logits():
    for reference, order in (("libc++", [2, 0, 1]), ("libstdc++", [0, 1, 2])):
        state = state_with([1.0, 1.0, 1.0], reference=reference)
        assert Chain([TopK(3), Greedy()]).sample(state) == order[0]
        assert state.candidates()[0].tolist() == order
    for reference, order in (("libc++", [4, 0, 2]), ("libstdc++", [0, 4, 1])):
        state = state_with([1.0, 0.0, 0.0, 0.0, 1.0], reference=reference)
        Chain([TopK(3), Greedy()]).sample(state)
        assert state.candidates()[0].tolist() == order


def test_logits_too_great_for_a_bucket_s_int_stand_last():
    # As x86-64's conversion has it: the greatest logit lands in the lowest bucket.
    row = np.zeros(200, dtype=np.float32)
    row[50], row[60], row[70] = 1e9, 3.0, -1e9
    for reference in ("libc++", "libstdc++"):
        state = state_with(row, reference=reference)
        Chain([TopK(200), Greedy()]).sample(state)
        ids = state.candidates()[0].tolist()
        assert (ids[0], ids[-2:]) == (60, [50, 70])
