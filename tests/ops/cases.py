"""Rows of logits that are hard to pick from, and fast oracles for them.

Rows are made as bit patterns, so that signed zeros, denormals and NaN payloads reach the kernels as they
are. An oracle here is NumPy over whole batches; the tests prove it equal to the scalar scan of
`mlx_sampling.reference` on small rows before they use it on large ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

NO_TOKEN = 0xFFFFFFFF
CHUNK = 1024
LARGE = 128_256


@dataclass(frozen=True)
class Format:
    """A logit format as bits."""

    name: str
    dtype: mx.Dtype
    word: type
    inf: int  # bits of +inf

    @property
    def sign(self) -> int:
        return 1 << (8 * np.dtype(self.word).itemsize - 1)

    @property
    def denormals(self) -> int:
        """Magnitudes below this one are denormal or zero."""
        return self.inf & -self.inf

    @property
    def nonfinite(self) -> dict[str, int]:
        return {
            "nan": self.inf | self.denormals >> 1,
            "-nan": self.sign | self.inf | self.denormals >> 1,
            "nan, payload 1": self.inf | 1,
            "-nan, payload 1": self.sign | self.inf | 1,
            "nan, all bits": self.sign - 1,
            "-nan, all bits": self.sign | (self.sign - 1),
            "inf": self.inf,
            "-inf": self.sign | self.inf,
        }

    def words(self, values: np.ndarray) -> np.ndarray:
        """Bits of float32 values, truncated where the format is bfloat16."""
        values = np.asarray(values, np.float32)
        if self.name == "float32":
            return values.view(np.uint32)
        if self.name == "float16":
            return values.astype(np.float16).view(np.uint16)
        return (values.view(np.uint32) >> 16).astype(np.uint16)

    def values(self, words: np.ndarray) -> np.ndarray:
        """The float32 values of bits: exact in each format."""
        if self.name == "float32":
            return words.view(np.float32)
        if self.name == "float16":
            return words.view(np.float16).astype(np.float32)
        return (words.astype(np.uint32) << 16).view(np.float32)

    def array(self, words: np.ndarray) -> mx.array:
        return mx.array(words).view(self.dtype)

    def next_up(self, word: int) -> int:
        """Bits of the least value above a finite one; the greatest finite value stays."""
        magnitude = word & (self.sign - 1)
        if magnitude == 0:
            return 1
        return word - 1 if word & self.sign else min(word + 1, self.inf - 1)


FLOAT32 = Format("float32", mx.float32, np.uint32, 0x7F800000)
FLOAT16 = Format("float16", mx.float16, np.uint16, 0x7C00)
BFLOAT16 = Format("bfloat16", mx.bfloat16, np.uint16, 0x7F80)
FORMATS = (FLOAT32, FLOAT16, BFLOAT16)


@dataclass
class Rules:
    """What greedy_argmax may not pick."""

    excluded: list[int] = field(default_factory=list)
    allowed: np.ndarray | None = None  # packed
    neg_inf: str = "error"

    def arguments(self) -> dict:
        allowed = self.allowed if self.allowed is None else np.ascontiguousarray(self.allowed)
        allowed = allowed if allowed is None else mx.array(allowed)
        return {"excluded": self.excluded, "allowed": allowed, "neg_inf": self.neg_inf}

    def __str__(self) -> str:
        shape = None if self.allowed is None else self.allowed.shape
        return f"{len(self.excluded)} excluded, allowed {shape}, neg_inf {self.neg_inf}"


@dataclass
class Batch:
    """Rows of one width, with rules for greedy_argmax."""

    format: Format
    words: np.ndarray  # [B, V]
    rules: Rules

    @property
    def values(self) -> np.ndarray:
        return self.format.values(self.words)

    def logits(self) -> mx.array:
        return self.format.array(self.words)

    def __str__(self) -> str:
        return f"{self.format.name} {self.words.shape}, {self.rules}"


def first_maximum(values: np.ndarray) -> np.ndarray:
    """argmax over float32 [..., V]: NaN counts as -inf, then the first of the greatest."""
    ranked = np.where(np.isnan(values), np.float32(-np.inf), values)
    return (ranked == ranked.max(-1, keepdims=True)).argmax(-1).astype(np.uint32)


def first_eligible(values: np.ndarray, rules: Rules) -> np.ndarray:
    """greedy_argmax over float32 [..., V]."""
    width = values.shape[-1]
    latched = np.isnan(values) | (values == np.inf)
    if rules.neg_inf == "error":
        latched |= values == -np.inf
    eligible = values > -np.inf
    eligible[..., rules.excluded] = False
    if rules.allowed is not None:
        eligible = eligible & unpack_bitmask(rules.allowed, width)
    ranked = np.where(eligible, values, np.float32(-np.inf))
    first = (eligible & (ranked == ranked.max(-1, keepdims=True))).argmax(-1)
    none = latched.any(-1) | ~eligible.any(-1)
    return np.where(none, NO_TOKEN, first).astype(np.uint32)


def unpack_bitmask(words: np.ndarray, width: int) -> np.ndarray:
    octets = np.ascontiguousarray(words).astype("<u4").view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little", count=width).astype(bool)


def random_bitmask(rng: np.random.Generator, shape: tuple[int, ...], share: float) -> np.ndarray:
    """Packed bitmask of shape [..., ceil(V / 32)] for bools [..., V], padding bits set at random."""
    words = (*shape[:-1], (shape[-1] - 1) // 32 + 1)
    bits = rng.random((*words, 32), np.float32) < share
    return np.packbits(bits, axis=-1, bitorder="little").view("<u4")[..., 0].astype(np.uint32)


class Rows:
    """Draws rows of any width out of a few large pools, one per kind of content."""

    def __init__(self, format: Format, rng: np.random.Generator, size: int = 300_000):
        self.format, self.rng = format, rng
        normal = rng.standard_normal(size, np.float32) * 4
        signs = rng.integers(0, 2, size).astype(format.word) * format.word(format.sign)
        magnitudes = rng.integers(0, format.inf, size).astype(format.word)
        self.pools = {
            "normal": format.words(normal),
            "coarse": format.words(np.round(normal) / 2),
            "negative": format.words(-np.abs(normal)),
            "zeros": signs,
            "denormals": signs | magnitudes % format.word(format.denormals),
            "negative denormals": format.word(format.sign) | magnitudes % format.denormals,
            "any finite bits": signs | magnitudes,
        }

    def draw(self, width: int) -> np.ndarray:
        rng = self.rng
        kind = rng.integers(0, len(self.pools) + 1)
        if kind == len(self.pools):  # all equal
            words = np.full(width, self.pools["any finite bits"][rng.integers(0, 1000)])
        else:
            pool = list(self.pools.values())[kind]
            start = rng.integers(0, len(pool) - width)
            words = pool[start : start + width].copy()
        if rng.random() < 0.6:
            self.plant_ties(words)
        if rng.random() < 0.3:
            self.plant_nonfinite(words)
        return words

    def plant_ties(self, words: np.ndarray) -> None:
        """Puts one same maximum at several places that a reduction treats differently."""
        rng, width = self.rng, len(words)
        top = int(self.format.words(self.format.values(words).max()))
        if rng.random() < 0.7:
            top = self.format.next_up(top)
        count = min(width, int(rng.choice([1, 2, 2, 3, 3, max(4, width // 7)])))
        inside = [width, CHUNK, 32][rng.integers(0, 3)]  # the row, a chunk, a simdgroup
        first = rng.integers(0, (width - 1) // inside + 1) * inside
        inside = min(inside, width - first)
        places = first + rng.choice(inside, min(count, inside), replace=False)
        pattern = rng.integers(0, 4)
        if pattern == 0 and width > CHUNK:  # both sides of a chunk boundary
            edge = rng.integers(1, (width - 1) // CHUNK + 1) * CHUNK
            places = np.array([edge - 1, edge])
        if pattern == 1 and width > 512:  # where a stride-halving tree goes wrong
            start = rng.integers(0, (width - 513) // CHUNK + 1) * CHUNK
            places = start + np.array([256, 512])
        words[places] = top

    def plant_nonfinite(self, words: np.ndarray) -> None:
        rng, width = self.rng, len(words)
        bits = list(self.format.nonfinite.values())
        neg_inf = self.format.nonfinite["-inf"]
        draw = rng.random()
        if draw < 0.1:
            words[:] = neg_inf
        elif draw < 0.2:
            words[:] = rng.choice(bits[:6])
        elif draw < 0.3:
            words[:] = rng.choice(bits, width)
        elif draw < 0.6:
            words[rng.random(width) < rng.choice([0.01, 0.5, 0.99])] = neg_inf
        else:
            places = edges(width)
            for place in rng.choice(places, min(len(places), int(rng.integers(1, 4)))):
                words[place] = rng.choice(bits)


def edges(width: int) -> list[int]:
    """First, middle and last place, and both sides of the first and last chunk boundaries."""
    last = (width - 1) // CHUNK * CHUNK
    places = {0, 31, 32, width // 2, width - 1, CHUNK - 1, CHUNK, last - 1, last}
    return sorted(place for place in places if 0 <= place < width)


def random_rules(rng: np.random.Generator, format: Format, words: np.ndarray) -> Rules:
    """Rules that mostly bite: winners are often among the excluded and the disallowed."""
    rows, width = words.shape
    winners = first_maximum(format.values(words)).tolist()
    kind = rng.integers(0, 9)
    if kind < 3:
        excluded = []
    elif kind < 5:
        excluded = winners[:1]
    elif kind < 8:
        excluded = winners[:3] + rng.integers(0, width, 2).tolist()
    elif width <= 4096 or rng.random() < 0.2:
        excluded = list(range(width))
    else:
        excluded = (winners * 5)[:5]
    kind = rng.integers(0, 8)
    allowed = None
    if kind >= 3:
        shape = (width,) if kind % 2 else (rows, width)
        allowed = random_bitmask(rng, shape, float(rng.choice([1.1, 0.9, 0.5, 0.02])))
        if kind == 3:
            allowed = np.zeros_like(allowed)
            if width % 32 and rng.random() < 0.5:  # nothing but padding
                allowed[..., -1] = (0xFFFFFFFF << width % 32) & 0xFFFFFFFF
        for row, token in enumerate(winners if kind > 5 else []):
            of_row = allowed if allowed.ndim == 1 else allowed[row]
            of_row[token // 32] &= np.uint32(~(1 << token % 32) & 0xFFFFFFFF)
    return Rules(excluded, allowed, str(rng.choice(["error", "masked"])))


WIDTHS = (
    *(1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 512, 513, 769),
    *(1023, 1024, 1025, 2047, 2048, 2049, 3071, 3073, 4095, 4096, 5121, 8193),
)
LARGE_WIDTHS = (LARGE, 151_936, 202_048, 262_144)


def batches(format: Format, seed: int, large: bool = True) -> Iterator[Batch]:
    """At least 2,000 random rows, 200 of them at least 128,256 wide."""
    rng = np.random.default_rng(seed)
    rows = Rows(format, rng)
    plan = [(width, 8) for width in WIDTHS for _ in range(6)]
    plan += [(int(width), 8) for width in rng.integers(1, 8192, 80)]
    plan += [(32_000, 4), (50_257, 4), (65_536, 4), (131_071, 1)]
    if large:
        plan += [(width, 4) for width in LARGE_WIDTHS for _ in range(13)]
    for width, count in plan:
        words = np.stack([rows.draw(width) for _ in range(count)])
        yield Batch(format, words, random_rules(rng, format, words))


def small_batches(format: Format, seed: int, count: int, widest: int = 70) -> Iterator[Batch]:
    """`count` batches of 8 short rows, for oracles that go one logit at a time."""
    rng = np.random.default_rng(seed)
    rows = Rows(format, rng, 5000)
    for _ in range(count):
        width = int(rng.integers(1, widest))
        words = np.stack([rows.draw(width) for _ in range(8)])
        yield Batch(format, words, random_rules(rng, format, words))


@dataclass
class View:
    """The same rows as an MLX view and as NumPy values; `strides` in elements."""

    name: str
    array: mx.array
    values: np.ndarray
    strides: tuple[int, ...]


def views(format: Format, seed: int) -> list[View]:
    """Rows that do not lie one after another in memory. Each one must be read without a copy."""
    rng = np.random.default_rng(seed)
    words = rng.choice(format.words(np.round(rng.standard_normal(500) * 8) / 2), (2, 3, 4, 2, 1100))
    five = format.array(words)
    flat = five.reshape(-1)
    three = five.reshape(6, 8, 1100)
    mx.eval(five, flat, three)
    n5, n1, n3 = words, words.reshape(-1), words.reshape(6, 8, 1100)

    def both(cut):
        return cut(three), cut(n3)

    def spread(a, n, shape):
        return mx.broadcast_to(a, shape), np.broadcast_to(n, shape)

    pairs = {
        "last position": both(lambda x: x[:, -1]),
        "reversed rows": both(lambda x: x[::-1]),
        "reversed logits": both(lambda x: x[..., ::-1]),
        "all reversed": both(lambda x: x[::-1, ::-1, ::-1]),
        "steps": both(lambda x: x[::3, ::-2, ::3]),
        "offset": both(lambda x: x[1:, 2:, 7:1040]),
        "one wide": both(lambda x: x[:, :, 3:4]),
        "transposed": both(lambda x: x.transpose(1, 2, 0)),
        "transposed, long": both(lambda x: x[..., 50:].transpose(0, 2, 1)[:, ::500, ::-1]),
        "last axis is the slowest": both(lambda x: x[:, 2].transpose(1, 0)),
        "rows swapped": both(lambda x: x.transpose(1, 0, 2)),
        "1-d": (flat, n1),
        "1-d with steps": (flat[5::7], n1[5::7]),
        "1-d reversed": (flat[3000:5:-2], n1[3000:5:-2]),
        "5-d": (five[:, ::2, ::-1, 1:, 5:], n5[:, ::2, ::-1, 1:, 5:]),
        "5-d permuted": (five.transpose(3, 0, 2, 1, 4), n5.transpose(3, 0, 2, 1, 4)),
        "broadcast rows": spread(three[:1, 3:5], n3[:1, 3:5], (5, 2, 1100)),
        "broadcast middle": spread(three[:, :1], n3[:, :1], (6, 7, 1100)),
        "broadcast logits": spread(three[:, :, 4:5], n3[:, :, 4:5], (6, 8, 1500)),
    }
    return [
        View(name, array, format.values(np.ascontiguousarray(view)), element_strides(view))
        for name, (array, view) in pairs.items()
    ]


def element_strides(view: np.ndarray) -> tuple[int, ...]:
    return tuple(stride // view.itemsize for stride in view.strides)
