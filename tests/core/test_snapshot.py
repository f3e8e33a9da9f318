"""Snapshots: what they bring back, elsewhere too, and what is refused."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from request_kinds import KINDS, STREAMS, WIDTH, row, run, sampler_of, streams

from mlx_sampling.params import SamplingParams
from mlx_sampling.sampler import Sampler

TESTS = Path(__file__).parents[1]
STREAM_SIZE = 2520
FLAGS_AT, SUMS_AT, WIDTH_AT, STREAMS_AT = 18, 19, 39, 43
COUNT_AT = STREAMS_AT + 4 * STREAM_SIZE
TOKENS_AT = COUNT_AT + 8

REPLAY = """
import json, sys
from request_kinds import run, sampler_of
from mlx_sampling.sampler import Sampler
tokens = {}
for kind, (reference, snapshot, step) in json.load(sys.stdin).items():
    sampler = sampler_of(kind, 5, reference)
    sampler.restore_state(bytes.fromhex(snapshot))
    tokens[kind] = run(sampler, step, 1_000)
print(json.dumps(tokens))
"""


def sealed(snapshot: bytes) -> bytes:
    """With the checksum that fits its bytes."""
    return snapshot[:-4] + struct.pack("<I", zlib.crc32(snapshot[:-4]))


def used(kind: str = "adaptive_p", steps: int = 30) -> Sampler:
    sampler = sampler_of(kind, 5)
    sampler.accept_prompt([1, 2, 3, 1, 2])
    run(sampler, 0, steps)
    sampler.sample(row(steps))  # leaves a pending token
    return sampler


def everything(sampler: Sampler) -> tuple:
    state = sampler._state
    return (
        *streams(sampler),
        state.mirostat_mu,
        state.adaptive_average,
        sampler.history,
        sampler.seed,
        state.width,
        None if sampler.row is None else sampler.row.tolist(),
    )


@pytest.mark.parametrize("reference", ["libc++", "libstdc++"])
def test_a_thousand_draws_more_in_a_new_process(reference):
    asked, expected = {}, {}
    for number, kind in enumerate(KINDS):
        steps = 20 + 37 * number
        sampler = sampler_of(kind, 5, reference)
        sampler.accept_prompt([4, 5, 6, 4, 5])
        run(sampler, 0, steps)
        asked[kind] = [reference, sampler.snapshot().hex(), steps]
        expected[kind] = run(sampler, steps, 1_000)
    ran = subprocess.run(
        [sys.executable, "-c", REPLAY],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        cwd=TESTS,
        check=True,
    )
    assert json.loads(ran.stdout) == expected
    assert all(len(set(tokens)) > 3 for tokens in expected.values())


@pytest.mark.parametrize("kind", KINDS)
def test_all_but_the_row_comes_back(kind):
    sampler = used(kind)
    snapshot = sampler.snapshot()
    assert sampler.snapshot() == snapshot
    other = Sampler.restore(snapshot, sampler.params, vocab_size=WIDTH)
    assert everything(other) == (*everything(sampler)[:-1], None)
    assert other.snapshot() == snapshot
    assert run(other, 0, 50) == run(sampler, 0, 50)


def test_the_layout():
    sampler = used("adaptive_p")
    data = sampler.snapshot()
    assert data[:8] == b"mlxsREQS"
    assert struct.unpack("<IIBBB", data[8:19]) == (2, 5, 0, 0, 6)
    mu, total, weight, token, p, width = struct.unpack("<fffIfI", data[SUMS_AT:STREAMS_AT])
    assert (mu, total, weight, token, p) == (0, *sampler._state.adaptive_average)
    assert width == WIDTH
    for i, name in enumerate(STREAMS):
        at = STREAMS_AT + i * STREAM_SIZE
        assert data[at : at + STREAM_SIZE] == getattr(sampler._state, name).snapshot()
    assert struct.unpack("<Q", data[COUNT_AT:TOKENS_AT]) == (len(sampler.history),)
    assert np.frombuffer(data[TOKENS_AT:-5], "<u4").tolist() == sampler.history
    assert data[-5:-4] == b"\0"  # no grammar
    assert data == sealed(data)


def test_known_bytes():
    sampler = Sampler(seed=7)
    sampler.accept_prompt([1, 2, 258])
    data = sampler.snapshot()
    assert len(data) == TOKENS_AT + 17
    assert data[:STREAMS_AT].hex() == "6d6c7873524551530200000007000000" + "00" * 27
    assert data[COUNT_AT:-4].hex() == "0300000000000000" + "010000000200000002010000" + "00"
    assert hashlib.sha256(data).hexdigest() == KNOWN


KNOWN = "2ed648e7d49619bd038373bbef2a482e389c05926c53f1e06583154fa2d7ba2e"


def test_a_fresh_seed_comes_along():
    first = Sampler()
    run(first, 0, 3)
    second = Sampler.restore(first.snapshot())
    assert second.seed == first.seed
    assert run(second, 3, 40) == run(first, 3, 40)
    second.reset()
    first.reset()
    assert run(second, 0, 40) == run(first, 0, 40)


def test_explicit_chains_too():
    from mlx_sampling.stages import Dist, TopK

    first, second = (Sampler.from_stages([TopK(9), Dist()], seed=seed) for seed in (1, 2))
    run(first, 0, 5)
    second.restore_state(first.snapshot())
    assert run(second, 5, 30) == run(first, 5, 30)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 6}, r"seed 6, as the sampler has, got 5\."),
        (
            {"reference": "libstdc++"},
            r"reference libstdc\+\+, as the sampler has, got libc\+\+",
        ),
        ({"neg_inf": "masked"}, r"neg_inf masked, as the sampler has, got error\."),
        ({"vocab_size": 96}, r"a vocabulary of 96, as the sampler has, got 97\."),
    ],
)
def test_another_sampler_s_snapshot_is_refused(options, message):
    sampler = Sampler(**{"seed": 5, "vocab_size": WIDTH, **options})
    before = everything(sampler)
    with pytest.raises(ValueError, match=r"^\[restore\] Expected a snapshot with " + message):
        sampler.restore_state(used("dist").snapshot())
    assert everything(sampler) == before


def test_the_width_comes_along():
    first = Sampler(seed=1)
    run(first, 0, 1)
    second = Sampler.restore(first.snapshot())
    with pytest.raises(ValueError, match=r"Expected a row of 97 logits, as in the steps before"):
        second.sample(row(0, 98))
    with pytest.raises(ValueError, match=r"\[accept\] Expected a token id in \[0, 97\), got 97\."):
        second.accept(97)


def test_what_is_no_snapshot():
    sampler = used()
    before = everything(sampler)
    for value in ("mlxsREQS", None, 3, [1]):
        with pytest.raises(TypeError, match=r"\[restore\] Expected bytes, got "):
            sampler.restore_state(value)
    data = sampler.snapshot()
    for damaged, message in {
        b"": r"Expected a snapshot of a sampler, got other bytes",
        b"mlxsMT19" + data[8:]: r"got other bytes",
        data[:5]: r"Expected at least \d+ bytes, got 5: the snapshot is truncated",
        data[:-1]: r"the snapshot is truncated or damaged",
        data + b"\0\0\0\0": r"a grammar after the history: the snapshot is truncated or damaged",
        data[:COUNT_AT] + b"\xff" * 8 + data[TOKENS_AT:]: r"tokens of history, got \d+ bytes of it",
        data[:8]
        + struct.pack("<I", 3)
        + data[12:]: r"got version 3, made by a newer mlx-sampling\.",
        data[:8] + struct.pack("<I", 0) + data[12:]: r"of version 2, got version 0\.$",
        data[:-8] + b"\1\0\0\0" + data[-4:]: r"The checksum does not match",
    }.items():
        with pytest.raises(ValueError, match=r"^\[restore\] .*" + message):
            sampler.restore_state(damaged)
        assert everything(sampler) == before
    sampler.restore_state(bytearray(data))
    sampler.restore_state(memoryview(data))


def test_a_right_checksum_is_not_enough():
    """Somebody who computes it can still not make fields contradict each other."""
    sampler = used("adaptive_p")
    before = everything(sampler)
    data = sampler.snapshot()

    def changed(at: int, value: bytes) -> bytes:
        return sealed(data[:at] + value + data[at + len(value) :])

    contradiction = "The fields contradict each other"
    for damaged, message in {
        changed(16, b"\2"): contradiction,
        changed(17, b"\2"): contradiction,
        changed(FLAGS_AT, b"\x08"): contradiction,
        changed(FLAGS_AT, b"\x02"): contradiction,  # a pending token that is not there
        changed(FLAGS_AT, b"\x04"): contradiction,
        changed(SUMS_AT, b"\1"): contradiction,  # a mu that is not there
        changed(SUMS_AT + 12, struct.pack("<I", 97)): r"Expected a token id in \[0, 97\), got 97",
        changed(WIDTH_AT, struct.pack("<I", 2**32 - 1)): "a vocabulary of 97",
        changed(STREAMS_AT, b"M"): r"\[Mt19937.restore\] Expected a snapshot of an Mt19937",
        changed(STREAMS_AT + 30, b"\xee\xee"): r"\[Mt19937.restore\] The checksum does not match",
        changed(COUNT_AT, struct.pack("<Q", 2**64 - 1)): "Expected 18446744073709551615 tokens",
        changed(COUNT_AT, struct.pack("<Q", 2**62 + len(sampler.history))): "tokens of history",
        changed(TOKENS_AT, struct.pack("<I", 97)): r"Expected a token id in \[0, 97\), got 97\.",
    }.items():
        with pytest.raises(ValueError, match=message):
            sampler.restore_state(damaged)
        assert everything(sampler) == before
    free = Sampler(seed=5, **KINDS["adaptive_p"])
    with pytest.raises(ValueError, match=r"\[logits\] Expected rows of at most 2147483647 logits"):
        free.restore_state(changed(WIDTH_AT, struct.pack("<I", 2**31)))


def test_a_thousand_damaged_snapshots():
    sampler = used("mirostat_v2", 300)
    before = everything(sampler)
    data = sampler.snapshot()
    rng = np.random.default_rng(8)
    refused = 0
    for kind in ("truncated", "bit", "version", "bytes"):
        for _ in range(260):
            damaged = bytearray(data)
            at = int(rng.integers(len(data)))
            if kind == "truncated":
                del damaged[at:]
            elif kind == "bit":
                damaged[at] ^= 1 << int(rng.integers(8))
            elif kind == "version":
                struct.pack_into("<I", damaged, 8, int(rng.integers(2, 2**32)))
                damaged = bytearray(sealed(bytes(damaged)))
            else:
                count = int(rng.integers(1, 40))
                damaged[at : at + count] = rng.bytes(count)
                if damaged == data:
                    continue
            with pytest.raises(ValueError, match=r"^\[(restore|Mt19937.restore)\] "):
                sampler.restore_state(bytes(damaged))
            refused += 1
    assert refused >= 1_000
    assert everything(sampler) == before


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_streams_in_use_move(kind):
    used_by = {
        "xtc": {"distribution", "xtc"},
        "mirostat": {"mirostat"},
        "mirostat_v2": {"mirostat"},
        "adaptive_p": {"adaptive"},
        "greedy": set(),
    }.get(kind, {"distribution"})
    sampler, fresh = sampler_of(kind, 5), sampler_of(kind, 5)
    run(sampler, 0, 40)
    for name in STREAMS:
        moved = getattr(sampler._state, name).position
        assert (moved > 0) == (name in used_by), name
        if name not in used_by:
            assert (
                getattr(sampler._state, name).snapshot() == getattr(fresh._state, name).snapshot()
            )


def test_a_feature_leaves_the_others_words_alone():
    """xtc on, dist draws the same words; its own stream is the one that it would have alone."""
    plain, both = Sampler(seed=4), Sampler(seed=4, xtc_probability=0.5, xtc_threshold=0.01)
    run(plain, 0, 200)
    run(both, 0, 200)
    assert both._state.distribution.snapshot() == plain._state.distribution.snapshot()
    assert plain._state.xtc.position == 0
    assert both._state.xtc.position == 200
    params = SamplingParams.from_json(both.params.to_json())
    again = Sampler(params)
    run(again, 0, 200)
    assert streams(again) == streams(both)
