"""Grammars and texts from libFuzzer, under the address and undefined-behaviour sanitizers.

grammar_fuzz.cpp and the grammar half of the core are compiled here; without a clang++ that has
libFuzzer the test is skipped and says so. MLX_SAMPLING_FUZZ_SECONDS: how long it runs.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from grammar_derive import derive
from grammar_oracle import Grammar
from grammar_texts import random_grammar

ROOT = Path(__file__).parents[2]
CORE = ROOT / "csrc" / "core"
PARTS = ("char_set*", "earley_*", "grammar*", "token_trie*", "trie_*", "utf8*", "vocabulary*")
COMPILERS = ["clang++", *(f"clang++-{version}" for version in range(30, 13, -1))]
FLAGS = ["-std=c++20", "-O1", "-g1", "-fno-sanitize-recover=all", f"-I{ROOT / 'csrc'}"]
SANITIZERS = "address,undefined,float-cast-overflow"
SECONDS = int(os.environ.get("MLX_SAMPLING_FUZZ_SECONDS", "60"))
WORDS = (
    "root ::= ", "\n", "\na ::= ", "root", "|", "(", ")", "*", "+", "?", "{2}", "{0,3}", "{2,}",
    "{1000,70000}", '"a"', "[a-b]", "[^a]", ".", "[]", "()", "<s>", "!<[2]>", "<[2]>", "é", "\\u00e9", "#",
)  # fmt: skip


def compiler_with_fuzzer(folder: Path) -> str | None:
    probe = folder / "probe.cpp"
    probe.write_text('extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }')
    for name in COMPILERS:
        command = [name, *FLAGS, f"-fsanitize=fuzzer,{SANITIZERS}", probe, "-o", folder / "probe"]
        if shutil.which(name) and subprocess.run(command, capture_output=True).returncode == 0:
            return name
    return None


def write_inputs(folder: Path) -> None:
    """Grammars that use everything, each with one of its texts; and words to make more of."""
    draw = random.Random(0)
    (folder / "corpus").mkdir()
    for i in range(300):
        text = random_grammar(draw, tokens=[(0, "<s>"), (2, None)], size=2).text
        grammar = Grammar(text, {"<s>": 0})
        pieces = (
            derive(grammar, draw, [0, 2, 3])
            if grammar.is_productive(grammar.rules["root"])
            else None
        )
        word = "".join(piece for piece in pieces or [] if isinstance(piece, str))
        (folder / "corpus" / str(i)).write_bytes(text.encode() + b"\0" + word.encode())
    in_hexadecimal = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in WORDS)
    (folder / "words").write_text("".join(f'"{word}"\n' for word in in_hexadecimal))


def build(folder: Path, compiler: str) -> Path:
    sources = [Path(__file__).with_name("grammar_fuzz.cpp")]
    sources += sorted(path for part in PARTS for path in CORE.glob(f"{part}.cpp"))
    flags = [*FLAGS, f"-fsanitize=fuzzer-no-link,{SANITIZERS}"]
    at_once = os.cpu_count() or 1
    objects = [folder / f"{source.stem}.o" for source in sources]
    for first in range(0, len(sources), at_once):
        jobs = [
            subprocess.Popen([compiler, *flags, "-c", s, "-o", o], stderr=subprocess.PIPE)
            for s, o in zip(sources[first:], objects[first : first + at_once], strict=False)
        ]
        for job in jobs:
            _, errors = job.communicate()
            assert job.returncode == 0, errors.decode()
    program = folder / "fuzz"
    link = [compiler, f"-fsanitize=fuzzer,{SANITIZERS}", *objects, "-o", program, "-pthread"]
    subprocess.run(link, check=True)
    return program


def test_fuzzed_grammars(tmp_path, capsys):
    if not CORE.is_dir():
        pytest.skip("no source tree here")
    compiler = compiler_with_fuzzer(tmp_path)
    if compiler is None:
        pytest.skip("no clang++ with libFuzzer here")
    write_inputs(tmp_path)
    program = build(tmp_path, compiler)
    options = [f"-max_total_time={SECONDS}", "-max_len=400", "-timeout=60", "-rss_limit_mb=3000"]
    options += ["-dict=words", "-print_final_stats=1", "-seed=1", "-artifact_prefix=fault-"]
    ran = subprocess.run(
        [program, *options, "corpus"],
        cwd=tmp_path,
        # What is freed is to be free: kept back, the sets of a few large grammars look like a leak.
        env={**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=16"},
        capture_output=True,
        text=True,
        errors="replace",
    )
    faults = [path.read_bytes() for path in tmp_path.glob("fault-*")]
    assert ran.returncode == 0, f"{faults}\n{ran.stderr[-3000:]}"
    runs = int(re.findall(r"number_of_executed_units:\s*(\d+)", ran.stderr)[0])
    covered = int(re.findall(r"cov: (\d+)", ran.stderr)[-1])
    with capsys.disabled():
        print(f"\n{runs} inputs in {SECONDS} s, {covered} edges covered")
    assert runs > 20 * SECONDS
