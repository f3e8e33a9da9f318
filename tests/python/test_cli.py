"""The command line, on the packaged model."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from mlx_sampling._build import MLX_VERSION

pytest.importorskip("mlx_lm")

QUESTION = "Why is the sky blue?"


def command(*arguments):
    return [sys.executable, "-m", "mlx_sampling", *arguments]


def run(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300)


def answer(*arguments):
    done = run("generate", QUESTION, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_greedy_streams_a_sensible_answer(packaged):
    done = run("generate", QUESTION, "--max-tokens", "48")
    assert done.returncode == 0, done.stderr
    text, figures = done.stdout.rstrip().rsplit("\n", 1)
    assert "blue" in text
    assert "light" in text
    assert figures.startswith("[48 tokens, ")
    assert "route B: pure greedy" in figures
    assert "4 bytes read back per token" in figures


def test_json(packaged):
    first = answer("--max-tokens", "12")
    assert first["route"] == "B"
    assert first["readback_bytes_per_token"] == 4
    assert first["seed"] is None
    assert len(first["tokens"]) == 12
    assert packaged[1].decode(first["tokens"]) == first["text"]
    assert set(first["timings"]) >= {"load_seconds", "prompt_seconds", "decode_seconds"}


def test_seeded_text_repeats(packaged):
    options = ("--temp", "0.8", "--max-tokens", "24")
    first = answer(*options, "--seed", "42")
    assert first["route"] == "A"
    assert first["readback_bytes_per_token"] == 4 * 49_152
    assert first["text"] == answer(*options, "--seed", "42")["text"]
    assert first["text"] != answer(*options, "--seed", "43")["text"]
    fresh = answer(*options)
    assert answer(*options, "--seed", str(fresh["seed"]))["text"] == fresh["text"]


@pytest.mark.parametrize("temperature", ["0", "0.8"])
def test_ignore_eos(packaged, temperature):
    prompt = ("generate", "Say hi.", "--json", "--temp", temperature, "--seed", "1")
    short = json.loads(run(*prompt, "--max-tokens", "90").stdout)
    assert short["finish_reason"] == "stop"
    eos = set(packaged[1].eos_token_ids)
    assert short["tokens"][-1] in eos
    long = json.loads(run(*prompt, "--max-tokens", "90", "--ignore-eos").stdout)
    assert long["finish_reason"] == "length"
    assert len(long["tokens"]) == 90
    assert not eos & set(long["tokens"])


def test_ctrl_c_ends_with_what_was_produced(packaged):
    process = subprocess.Popen(
        command("generate", QUESTION, "--max-tokens", "4000", "--ignore-eos"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    produced = process.stdout.read(40)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert len(produced) == 40
    assert ", interrupted; route B" in rest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--temp", "-1"), "[temperature] Expected a finite value >= 0, got -1.0."),
        (("--seed", "-1"), "[seed] Expected an int in [0, 4294967294], got -1."),
        (("--max-tokens", "0"), "[max_tokens] Expected an int >= 1, got 0."),
        (("--model", "no/such/file.gguf"), "no/such/file.gguf"),
    ],
)
def test_bad_arguments(arguments, message):
    done = run("generate", QUESTION, *arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_bench_chain_without_llama(monkeypatch):
    monkeypatch.delenv("MLX_SAMPLING_LLAMA", raising=False)
    done = run("bench", "chain", "--vocab", "1500", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["environment"]["llama_cpp"].startswith("not measured")
    assert len(report["results"]) == 16
    assert all(result["us"]["ours"] > 0 for result in report["results"])
    table = run("bench", "chain", "--vocab", "100", "--chain", "greedy", "--rows", "ties")
    assert table.stdout.startswith("# processor: ")
    assert run("bench", "chain", "--vocab", "0").returncode == 1
    assert "holds no libllama" in run("bench", "chain", "--llama", "/dev/null/none").stderr


def test_bench_kernels():
    done = run("bench", "kernels", "--vocab", "1000", "--rows", "1", "2", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["environment"]["mlx"] == MLX_VERSION
    assert len(report["results"]) == 6
    for result in report["results"]:
        assert set(result["per_op_us"]) == {"argmax", "greedy_argmax", "mx.argmax", "composed"}
        assert all(us > 0 for us in result["latency_us"].values())
    table = run("bench", "kernels", "--vocab", "100", "--rows", "1", "--dtype", "float32")
    assert table.stdout.startswith("# processor: ")
    assert run("bench", "kernels", "--vocab", "0").returncode == 1
