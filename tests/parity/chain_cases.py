"""Seeded cases for parity: rows, chains, and what happens from step to step.

Everything comes from the raw words of PCG64 by exact arithmetic, so that a case is the same on
every platform and with every NumPy. Not here: how a case is run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")
LARGE = (32_000, 49_152, 128_256, 202_048)
SELECTORS = ("dist", "greedy", "mirostat", "mirostat_v2", "adaptive_p")
DEFAULT_ORDER = (
    "logit_bias",
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typical",
    "top_p",
    "min_p",
    "xtc",
    "temp_ext",
    "dist",
)
BREAKERS: tuple[tuple[bytes, ...], ...] = (
    (),
    (b"\n", b":", b'"', b"*"),
    (b"the", b":"),
    (b"th end", b"an", b'"', b"\n"),
    (b"\n\n", b"*", b"0123456789 abcdefghijklmnopqrstuvwxyz and more than forty bytes"),
)


class Draw:
    """Integers and floats from one seed."""

    def __init__(self, *seed: int) -> None:
        self._words = np.random.PCG64(list(seed))

    def words(self, count: int) -> np.ndarray:
        return self._words.random_raw(count)

    def below(self, bound: int) -> int:
        return int(self._words.random_raw() % bound)

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def of(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def real(self, low: float, high: float) -> float:
        """A value that float32 holds exactly."""
        return float(np.float32(low + (high - low) * (self.below(2**20) / 2**20)))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        keyed = [(int(key), i) for i, key in enumerate(self.words(len(items)))]
        return [items[i] for _, i in sorted(keyed)]


def f32(value: float) -> float:
    return float(np.float32(value))


# What a sampler is called with: (draw, width) -> parameters, in the order of our constructor.
# Values are exact in float32. `min_keep` is mostly 1, as upstream's default is 0.
def _keep(draw: Draw) -> int:
    return draw.of((0, 1, 1, 1, 2, 5))


def _temperature(draw: Draw, _: int) -> float:
    return f32(draw.of((0.0, 0.1, 0.5, 0.7, 0.8, 0.8, 1.0, 1.3, 2.0, draw.real(0.05, 3))))


def _logit_bias(draw: Draw, width: int) -> tuple:
    count = draw.between(1, 12)
    ids = [draw.below(min(width, draw.of((8, width)))) for _ in range(count)]
    return (tuple((token, draw.of((-np.inf, draw.real(-9, 9)))) for token in ids),)


def _penalties(draw: Draw, _: int) -> tuple:
    last_n = draw.of((1, 3, 16, 64, 64, 64, 64, 256, draw.of((-1, 0, 100))))
    repeat = f32(draw.of((1.0, 1.1, 1.3, 0.9, draw.real(0.5, 2))))
    return (last_n, repeat, draw.of((0.0, draw.real(-1, 2))), draw.of((0.0, draw.real(-1, 2))))


@functools.cache
def _dry_pool() -> list[tuple]:
    # A pool, since upstream searches the whole vocabulary for breakers each time.
    draw = Draw(7)
    pool = []
    for i in range(100):
        multiplier = f32(draw.of((0.8, 0.8, 2.5, draw.real(0.1, 4), 1e30)))
        base = f32(draw.of((1.75, 1.75, 1.0, 1.0000005, 3.0, draw.real(1, 4), 40.0)))
        allowed = draw.of((2, 2, 2, 1, 0, 3))
        last_n = draw.of((64, 64, 64, 256, 20, 40))
        pool.append((multiplier, base, allowed, last_n, BREAKERS[i % len(BREAKERS)]))
    pool += [(0.0, 1.75, 2, 64, ()), (0.8, 0.5, 2, 64, ())]
    pool += [(0.8, 1.75, 2, 0, ()), (0.8, 1.75, 2, -1, ()), (0.8, 1.75, 6, 1, ())]
    return pool


PARAMETERS: dict[str, Callable[[Draw, int], tuple]] = {
    "temperature": lambda d, w: (_temperature(d, w),),
    "temp_ext": lambda d, w: (
        _temperature(d, w),
        d.of((0.0, 0.5, d.real(0, 2))),
        d.of((1.0, d.real(0.2, 2))),
    ),
    "logit_bias": _logit_bias,
    "penalties": _penalties,
    "dry": lambda d, w: d.of(_dry_pool()),
    "top_n_sigma": lambda d, w: (d.of((1.0, 1.0, 2.0, 0.5, d.real(0.05, 3))),),
    "top_k": lambda d, w: (d.of((40, 40, 1, 2, 3, 128, 129, 500, d.between(1, 60), 0, w + 7)),),
    "typical": lambda d, w: (f32(d.of((0.95, 0.5, d.real(0.05, 0.999)))), _keep(d)),
    "top_p": lambda d, w: (f32(d.of((0.95, 0.9, 0.5, d.real(0.01, 0.999)))), _keep(d)),
    "min_p": lambda d, w: (f32(d.of((0.05, 0.1, 0.02, d.real(0.001, 0.9)))), _keep(d)),
    "xtc": lambda d, w: (
        f32(d.of((1.0, 1.0, 0.5, d.real(0.1, 1)))),
        f32(d.of((0.1, 0.05, 0.01, 0.0, d.real(0, 0.4)))),
        _keep(d),
    ),
    "infill": lambda d, w: (),
    "dist": lambda d, w: (),
    "greedy": lambda d, w: (),
    "mirostat": lambda d, w: (
        d.of((5.0, d.real(0.5, 9))),
        f32(d.of((0.1, d.real(0.01, 1)))),
        d.of((100, d.between(1, 200))),
    ),
    "mirostat_v2": lambda d, w: (d.of((5.0, d.real(0.5, 9))), f32(d.of((0.1, d.real(0.01, 1))))),
    "adaptive_p": lambda d, w: (d.of((0.5, d.real(0, 1))), f32(d.of((0.9, d.real(0, 0.99))))),
}
FILTERS = tuple(name for name in PARAMETERS if name not in SELECTORS)


class Step(NamedTuple):
    row: tuple[str, int]  # kind, seed
    before: str  # "", "reset", "clone": what happens to the sampler first
    accept: int  # -2: nothing, -1: the token that was picked, else this token


class Case(NamedTuple):
    key: tuple[str, int]  # group, index
    width: int
    seed: int
    stages: tuple[tuple[str, tuple[Any, ...]], ...]
    prompt: tuple[int, ...]
    steps: tuple[Step, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.stages)


ROW_KINDS = (
    *("plain", "plain", "peaked", "peaked", "peaked", "ties", "ties", "ties", "coarse"),
    *("masked", "masked", "extreme", "denormal", "constant"),
)


def _bell(draw: Draw, width: int) -> np.ndarray:
    """About normal, with a spread of 1: four 16-bit numbers of one word, summed."""
    words = draw.words(width)
    total = np.zeros(width, dtype=np.int32)
    for shift in (0, 16, 32, 48):
        total += ((words >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int32)
    return (total - 131_070).astype(np.float32) * np.float32(1 / 37_837)


def _bfloat16(row: np.ndarray) -> np.ndarray:
    bits = row.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32)


def make_row(width: int, kind: str, seed: int) -> np.ndarray:
    draw = Draw(width, seed, ROW_KINDS.index(kind))
    if kind == "constant":
        return np.full(width, draw.real(-9, 9), dtype=np.float32)
    scale = np.float32(draw.of((0.5, 2.0, 3.0, 5.0)))
    row = _bell(draw, width) * scale
    if kind == "peaked" or (kind in ("ties", "masked") and draw.chance(60)):
        for _ in range(draw.between(1, 30)):
            row[draw.below(width)] += np.float32(draw.real(2, 12))
    if kind in ("ties", "masked"):
        row = _bfloat16(row)
    if kind == "coarse":
        row = np.rint(row)
    if kind == "masked":
        hidden = draw.words(width) % np.uint64(100) < np.uint64(draw.of((5, 50, 95)))
        hidden[draw.below(width)] = False
        row[hidden] = -np.inf
    if kind == "extreme":
        row = row * np.float32(2.0 ** draw.of((8, 20, 60, 120)))
    if kind == "denormal":
        row = row * np.float32(2.0 ** draw.of((-130, -120, -40)))
    return row


# Rows of large vocabularies are made once and used by many cases.
shared_row = functools.lru_cache(maxsize=128)(make_row)


def row_of(case: Case, step: Step) -> np.ndarray:
    return (shared_row if case.width >= 4_096 else make_row)(case.width, *step.row)


def _small_width(draw: Draw) -> int:
    bounds = draw.of(((1, 8), (9, 64), (33, 130), (100, 300), (250, 700), (1_000, 1_100)))
    return draw.between(*bounds)


def _prompt(draw: Draw, width: int) -> tuple[int, ...]:
    """Tokens of a small alphabet, with runs that come again."""
    alphabet = [draw.below(min(width, 300)) for _ in range(draw.of((2, 5, 12)))]
    if width > 200:
        alphabet += draw.of(([], [198], [42, 18, 66, 81]))
    tokens: list[int] = []
    for _ in range(draw.of((0, 3, 6, 14))):
        if tokens and draw.chance(60):
            start = draw.below(len(tokens))
            tokens += tokens[start : start + draw.between(1, 9)]
        else:
            tokens += [draw.of(alphabet) for _ in range(draw.between(1, 5))]
    return tuple(tokens)


def _steps(draw: Draw, width: int, count: int) -> tuple[Step, ...]:
    large = width >= 4_096
    steps = []
    for i in range(count):
        row = (draw.of(ROW_KINDS), draw.below(2 if large else 2**20))
        event = draw.below(100) if i else 99
        before = "reset" if event < 7 else "clone" if event < 17 else ""
        accept = draw.of((-1, -1, -1, -1, -2, draw.below(width)))
        steps.append(Step(row, before, accept))
    return tuple(steps)


def _case(draw: Draw, key: tuple[str, int], names: Sequence[str], width: int, steps: int) -> Case:
    stages = []
    for name in names:
        if name == "infill":
            # Upstream's infill compares every pair of candidates.
            stages.append(("top_k", (draw.between(2, 50),)))
        stages.append((name, PARAMETERS[name](draw, width)))
    prompt = _prompt(draw, width)
    if "dry" in names or ("penalties" in names and draw.chance(70)):
        period = [draw.below(min(width, 18)) for _ in range(draw.between(1, 9))]
        if draw.chance(25):
            # '"', '*', ':' and a line break of the vocabulary in use: breakers of dry.
            broken = draw.of([t for t in (18, 26, 42, 198) if t < width] or [0])
            period.insert(draw.below(1 + len(period) // 2), broken)
        prompt += tuple(period * draw.between(5, 12))
    seed = draw.of((draw.below(2**32 - 1), draw.below(100)))
    return Case(key, width, seed, tuple(stages), prompt, _steps(draw, width, steps))


def alone(names: Sequence[str], width: int | None, count: int, salt: int = 0) -> Iterator[Case]:
    """Each sampler with nothing but a stage that selects behind it."""
    for name in names:
        for i in range(count):
            key = (f"alone/{name}/{width or 'small'}", i)
            draw = Draw(1, sorted(PARAMETERS).index(name), width or 0, i, salt)
            chain = [name] if name in SELECTORS else [name, draw.of(("greedy", "greedy", "dist"))]
            steps = draw.between(1, 2 if width else 4)
            yield _case(draw, key, chain, width or _small_width(draw), steps)


def default_chain(width: int | None, count: int) -> Iterator[Case]:
    for i in range(count):
        draw = Draw(2, width or 0, i)
        steps = draw.between(1, 2 if width else 8)
        key = (f"default/{width or 'small'}", i)
        yield _case(draw, key, DEFAULT_ORDER, width or _small_width(draw), steps)


def random_chains(
    names: Sequence[str], width: int | None, count: int, most: int = 8
) -> Iterator[Case]:
    """Filters in any order, up to `most` of them and none twice, then one stage that selects."""
    filters = [name for name in FILTERS if name in names]
    selectors = [name for name in SELECTORS if name in names]
    for i in range(count):
        draw = Draw(3, width or 0, i)
        chosen = draw.shuffled(filters)[: draw.between(1, min(most, len(filters)))]
        if "infill" in chosen and "top_k" in chosen:
            chosen.remove("top_k")  # infill brings its own
        chain = [*chosen, draw.of(selectors)]
        steps = draw.between(1, 2 if width else 8)
        key = (f"random/{width or 'small'}", i)
        yield _case(draw, key, chain, width or _small_width(draw), steps)
