"""Mt19937 against known vectors of the real libc++ and libstdc++, and its snapshots.

tests/data/mt19937_*.json are printed by tools/mt19937_vectors.cpp; each file's "regenerate" entry
has the command.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from mt19937_words import STATE_WORDS, engine_giving, snapshot_bytes, untemper

from mlx_sampling._ext import Mt19937

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
FILES = {"libc++": "mt19937_libcxx.json", "libstdc++": "mt19937_libstdcxx.json"}
VECTORS = {name: json.loads((DATA / file).read_text()) for name, file in FILES.items()}
COMPILERS = {
    "libc++": [["clang++", "-stdlib=libc++"], ["clang++-19", "-stdlib=libc++"]],
    # GCC 16 changes generate_canonical; the macro keeps the formula that is pinned here.
    "libstdc++": [["g++", "-D_GLIBCXX_USE_OLD_GENERATE_CANONICAL"]],
}

both = pytest.mark.parametrize("reference", FILES)


@both
def test_engine_words(reference):
    for case in VECTORS[reference]["seeds"]:
        rng = Mt19937(case["seed"])
        words = [rng.next() for _ in range(10000)]
        assert words[:4] == case["first"]
        assert words[621:626] == case["words_622_to_626"]
        assert words[9999] == case["word_10000"]
        assert rng.position == 10000


def test_the_standard_s_10000th_word():
    rng = Mt19937(5489)
    assert [rng.next() for _ in range(10000)][-1] == 4123659995


def test_engine_agrees_with_numpy_over_several_blocks():
    for seed in (0, 3, 2**31, 2**32 - 1):
        expected = np.frombuffer(np.random.RandomState(seed).bytes(4 * 3000), dtype="<u4").tolist()
        rng = Mt19937(seed)
        assert [rng.next() for _ in range(3000)] == expected


@both
def test_seeded_uniforms(reference):
    for case in VECTORS[reference]["seeds"]:
        floats, doubles = Mt19937(case["seed"]), Mt19937(case["seed"])
        assert [floats.uniform_f32(reference) for _ in range(6)] == case["uniform_f32"]
        assert [doubles.uniform_f64(reference) for _ in range(6)] == case["uniform_f64"]
        assert (floats.position, doubles.position) == (6, 12)


@both
def test_uniforms_of_chosen_words(reference):
    for case in VECTORS[reference]["uniform_f32"]:
        assert engine_giving(case["word"]).uniform_f32(reference) == case["value"], case
    for case in VECTORS[reference]["uniform_f64"]:
        assert engine_giving(*case["words"]).uniform_f64(reference) == case["value"], case


def test_only_libcxx_reaches_one():
    ones = 2**32 - 1
    assert engine_giving(ones).uniform_f32() == 1.0
    assert engine_giving(ones).uniform_f32("libstdc++") == float(np.nextafter(np.float32(1), 0))
    assert engine_giving(ones, ones).uniform_f64() == 1.0
    assert engine_giving(ones, ones).uniform_f64("libstdc++") == float(np.nextafter(1.0, 0.0))


@both
def test_discrete(reference):
    pairs = [case["words"] for case in VECTORS[reference]["uniform_f64"]]
    for case in VECTORS[reference]["discrete"]:
        rng = Mt19937(1234)
        picks = [rng.discrete(case["weights"], reference) for _ in range(24)]
        assert picks == case["seed_1234"], case["weights"]
        assert rng.next() == case["next_word"], case["weights"]
        edges = [engine_giving(*pair).discrete(case["weights"], reference) for pair in pairs]
        assert edges == case["pairs"], case["weights"]


def test_discrete_draws_two_words_for_one_weight_in_libcxx_only():
    rng = Mt19937(0)
    assert rng.discrete([3.0], "libc++") == 0
    assert rng.position == 2
    assert rng.discrete([3.0], "libstdc++") == 0
    assert rng.position == 2


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], r"\[discrete\] Expected at least one weight, got none\."),
        ([1.0, -1.0], r"\[discrete\] Expected finite weights >= 0, got -1 at index 1\."),
        ([float("nan")], r"\[discrete\] Expected finite weights >= 0, got nan at index 0\."),
        ([1.0, float("inf")], r"\[discrete\] Expected finite weights >= 0, got inf at index 1\."),
        ([0.0, 0.0], r"\[discrete\] Expected weights with a positive finite sum, got 0\."),
        ([1e308, 1e308], r"\[discrete\] Expected weights with a positive finite sum, got inf\."),
    ],
)
@both
def test_bad_weights_draw_nothing(weights, message, reference):
    rng = Mt19937(1)
    before = rng.snapshot()
    with pytest.raises(ValueError, match=message):
        rng.discrete(weights, reference)
    assert rng.snapshot() == before


def test_unknown_reference():
    rng = Mt19937(1)
    message = r'\[reference\] Expected "libc\+\+" or "libstdc\+\+", got "msvc"\.'
    for draw in (rng.uniform_f32, rng.uniform_f64, lambda name: rng.discrete([1.0], name)):
        with pytest.raises(ValueError, match=message):
            draw("msvc")
    assert rng.position == 0


@pytest.mark.parametrize("seed", [-1, 2**32, 2**80, -(2**80)])
def test_seed_out_of_range(seed):
    message = rf"\[seed\] Expected an int in \[0, 2\*\*32 - 1\], got {seed}\."
    with pytest.raises(ValueError, match=message):
        Mt19937(seed)


@pytest.mark.parametrize("drawn", [0, 1, 623, 624, 625, 1247, 1248, 1249, 5000])
def test_snapshot_continues_mid_stream(drawn):
    rng = Mt19937(99)
    for _ in range(drawn):
        rng.next()
    copy = Mt19937(0)
    copy.restore(rng.snapshot())
    assert copy.position == drawn
    assert copy.snapshot() == rng.snapshot()
    assert [copy.next() for _ in range(1300)] == [rng.next() for _ in range(1300)]


def test_snapshot_layout_is_the_documented_one():
    rng = Mt19937(5489)
    rng.next()
    saved = rng.snapshot()
    assert saved[:20] == b"mlxsMT19" + struct.pack("<IQ", 1, 1)
    state = list(struct.unpack_from("<624I", saved, 20))
    assert state[0] == untemper(3499211612)
    assert saved == snapshot_bytes(state, 1)


def test_snapshot_bytes_are_the_same_everywhere():
    rng = Mt19937(5489)
    for _ in range(700):
        rng.next()
    digest = hashlib.sha256(rng.snapshot()).hexdigest()
    assert digest == "582c1b7f870d74c2813c806907a72b4d28788a4da76334728dedd3d35599d926"


def refused(data: bytes, message: str) -> None:
    """Asserts that restore refuses `data` and leaves the engine as it was."""
    rng = Mt19937(7)
    rng.next()
    before = rng.snapshot()
    with pytest.raises(ValueError, match=message):
        rng.restore(data)
    assert rng.snapshot() == before


def test_every_truncation_is_refused():
    saved = Mt19937(3).snapshot()
    for size in range(len(saved)):
        refused(saved[:size], r"\[Mt19937.restore\] Expected a snapshot of ")
    refused(saved + b"\0", r"Expected a snapshot of 2520 bytes, got 2521: it is truncated or has")


def test_every_flipped_bit_is_refused():
    saved = Mt19937(3).snapshot()
    rng = Mt19937(7)
    before = rng.snapshot()
    for at in range(len(saved)):
        for bit in range(8):
            damaged = bytearray(saved)
            damaged[at] ^= 1 << bit
            with pytest.raises(ValueError, match=r"^\[Mt19937.restore\] "):
                rng.restore(bytes(damaged))
    assert rng.snapshot() == before


def test_reasons_for_refusal():
    state = list(range(1, STATE_WORDS + 1))
    refused(b"", r"Expected a snapshot of an Mt19937, got other bytes\.")
    refused(b"\x93NUMPY" * 420, r"Expected a snapshot of an Mt19937, got other bytes\.")
    refused(
        snapshot_bytes(state, 5, magic=b"mlxsCHAI"),
        r"Expected a snapshot of an Mt19937, got other bytes\.",
    )
    refused(
        snapshot_bytes(state, 5, version=2),
        r"Expected a snapshot of version 1, got version 2, made by a newer mlx-sampling\.",
    )
    refused(
        snapshot_bytes(state, 5, version=0), r"Expected a snapshot of version 1, got version 0\."
    )
    refused(
        snapshot_bytes([0x7FFFFFFF] + [0] * (STATE_WORDS - 1), 5),
        r"The state is all zeros: the snapshot is no Mt19937's\.",
    )
    damaged = bytearray(snapshot_bytes(state, 5))
    damaged[1000] ^= 1
    refused(bytes(damaged), r"The checksum does not match: the snapshot is damaged\.")


def program(library: str, folder: Path) -> Path:
    """Compiles the program that prints the vectors against a real standard library."""
    source = ROOT / "tools" / "mt19937_vectors.cpp"
    for command in COMPILERS[library]:
        if shutil.which(command[0]) is None:
            continue
        binary = folder / "vectors"
        built = subprocess.run(
            [*command, "-std=c++20", str(source), "-o", str(binary)], capture_output=True
        )
        # On a Mac, g++ is clang with libc++.
        if built.returncode == 0 and printed(binary)["library"] == library:
            return binary
    pytest.skip(f"no compiler with {library} here")


def printed(binary: Path) -> dict:
    return json.loads(subprocess.run([binary], capture_output=True, check=True).stdout)


@both
def test_the_real_library_still_prints_the_committed_vectors(reference, tmp_path):
    if not (ROOT / "tools").is_dir():
        pytest.skip("no source tree here")
    assert printed(program(reference, tmp_path)) == VECTORS[reference]
