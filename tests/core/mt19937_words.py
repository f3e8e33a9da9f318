"""Builds Mt19937 snapshots byte by byte, so that tests can choose an engine's next words."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

from mlx_sampling._ext import Mt19937

STATE_WORDS = 624


def snapshot_bytes(
    state: list[int], position: int, *, magic: bytes = b"mlxsMT19", version: int = 1
) -> bytes:
    """Lays out a snapshot: magic, version, position, state words, CRC-32, all little-endian."""
    body = magic + struct.pack("<IQ", version, position) + struct.pack("<624I", *state)
    return body + struct.pack("<I", zlib.crc32(body))


def untemper(word: int) -> int:
    """The state word that mt19937's output function turns into `word`."""
    word ^= word >> 18
    word ^= (word << 15) & 0xEFC60000
    undone = word
    for _ in range(4):
        undone = word ^ ((undone << 7) & 0x9D2C5680)
    word = undone
    for _ in range(2):
        undone = word ^ (undone >> 11)
    return undone


def snapshot_giving(words: Iterable[int]) -> bytes:
    """A snapshot, at position 1, of an engine whose next words are `words` (at most 623)."""
    state = [1] + [untemper(word) for word in words]
    return snapshot_bytes(state + [1] * (STATE_WORDS - len(state)), 1)


def engine_giving(*words: int) -> Mt19937:
    """An engine whose next words are `words`."""
    engine = Mt19937(0)
    engine.restore(snapshot_giving(words))
    return engine
