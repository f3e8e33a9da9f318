"""The command line, on the packaged model."""

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time

import mlx.core as mx
import pytest
from tiny_models import VOCAB

from mlx_sampling._build import MLX_VERSION
from mlx_sampling.cli import main

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


def test_drafts_of_the_text(packaged):
    prompt = "Say this three times: red green blue, red green blue"
    options = ("--max-tokens", "24")
    done = run("generate", prompt, *options)
    drafted = run("generate", prompt, *options, "--draft", "lookup", "--draft-tokens", "3")
    assert drafted.returncode == 0, drafted.stderr
    text, figures, drafts = drafted.stdout.rstrip().rsplit("\n", 2)
    assert text == done.stdout.rstrip().rsplit("\n", 1)[0]
    assert "route B: pure greedy over drafts" in figures
    assert "4 bytes read back per row of a pass" in figures
    assert drafts.startswith("[speculative: ")
    assert "tokens per target pass" in drafts


def test_drafts_of_a_model(packaged):
    from mlx_sampling.gguf import packaged_model_path

    options = ("--temp", "0.8", "--seed", "3", "--max-tokens", "12")
    model = ("--draft-model", str(packaged_model_path()), "--acceptance-floor", "0.9")
    found = answer(*options, *model)
    assert found["route"] == "A"
    assert found["seed"] == 3
    figures = found["speculative"]
    assert figures["tokens"] == len(found["tokens"]) == 12
    assert figures["acceptance"] > 0.9  # the model itself: p is q
    assert figures["target_passes"] <= 4
    done = run("generate", QUESTION, *options, "--draft", "lookup", "--acceptance-floor", "1")
    assert done.returncode == 1
    assert "[acceptance] Expected at least 1 of the drafts" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--draft-tokens", "3"), "[draft_tokens] Expected --draft or --draft-model beside it"),
        (("--adaptive-drafts",), "[adaptive_drafts] Expected --draft or --draft-model beside"),
        (("--draft", "lookup", "--draft-tokens", "0"), "[draft_tokens] Expected an int >= 1"),
        (("--draft", "lookup", "--draft-model", "x"), "[draft] Expected --draft or --draft-model"),
        (("--draft", "lookup", "--acceptance-floor", "2"), "[acceptance_floor] Expected a value"),
        (
            ("--draft", "lookup", "--temp", "1", "--xtc-probability", "0.5"),
            "[xtc] Expected xtc off for speculative sampling",
        ),
    ],
)
def test_bad_options_of_drafts(capsys, options, message):
    assert main(["generate", QUESTION, *options]) == 1
    assert message in capsys.readouterr().err


def test_sampling_options(packaged):
    options = ("--temp", "0.9", "--seed", "7", "--max-tokens", "16")
    plain = answer(*options)
    every = shlex.split(
        "--top-k 30 --top-p 0.9 --min-p 0.02 --typical-p 0.9 --top-n-sigma 2 --xtc-probability 0.1 "
        "--repeat-penalty 1.2 --frequency-penalty 0.1 --presence-penalty 0.1 --repeat-last-n 32 "
        "--dry-multiplier 0.5 --dynatemp-range 0.2 --min-keep 2 --logit-bias 504-inf "
        "--samplers edskypmxt --reference libstdc++"
    )
    changed = answer(*options, *every)
    assert changed["text"] == answer(*options, *every)["text"] != plain["text"]
    assert answer(*options, "--mirostat", "2")["text"] != plain["text"]
    penalised = answer("--max-tokens", "8", "--repeat-penalty", "1.5")
    assert penalised["route"] == "A"
    assert penalised["route_reason"].endswith("for penalties")


@pytest.mark.parametrize("temperature", ["0", "0.8"])
def test_ignore_eos(packaged, temperature):
    prompt = ["generate", "Say hi.", "--json", "--temp", temperature]
    prompt += ["--seed", "1"] if temperature != "0" else []
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
        (("--temp", "1", "--top-p", "1.5"), "[top_p] Expected a finite value in [0, 1], got 1.5."),
        (("--logit-bias", "x"), "[logit_bias] Expected ID+BIAS or ID-BIAS, got 'x'."),
        (("--max-tokens", "0"), "[max_tokens] Expected an int >= 1, got 0."),
        (
            ("--seed", "42"),
            "[seed] Expected no seed at temperature 0, got 42: a greedy answer draws nothing.",
        ),
        (
            ("--model", "no/such/file.gguf"),
            "[model] Expected no/such/file.gguf to load, got [gguf] There is no file "
            "no/such/file.gguf.",
        ),
    ],
)
def test_bad_arguments(arguments, message, capsys):
    assert main(["generate", QUESTION, *arguments]) == 1
    assert capsys.readouterr() == ("", f"mlx-sampling: {message}\n")


CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCAB,
}


@pytest.mark.parametrize(
    ("config", "weights", "cause"),
    [
        ([], None, "AttributeError: "),
        ({}, None, "KeyError: 'model_type'"),
        (CONFIG, None, "ValueError: Missing "),
        (CONFIG, b"", "[read] "),
        (CONFIG, b"\xff" * 64, "[load_safetensors] "),
        (CONFIG, (1000).to_bytes(8, "little") + b"{", "[load_safetensors] "),
    ],
)
def test_damaged_models(tmp_path, capsys, config, weights, cause):
    (tmp_path / "config.json").write_text(json.dumps(config))
    if weights is None:
        mx.save_safetensors(str(tmp_path / "model.safetensors"), {"lm_head.weight": mx.zeros(1)})
    else:
        (tmp_path / "model.safetensors").write_bytes(weights)
    assert main(["generate", QUESTION, "--model", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"mlx-sampling: [model] Expected {tmp_path} to load, got {cause}")
    assert err.count("\n") == 1


class Text:
    """A tokenizer and detokenizer whose every token is `piece`, and whose prompts have `size` ids."""

    def __init__(self, size=5, piece="é", template=None):
        self.size, self.piece, self.chat_template = size, piece, template
        self.eos_token_ids = set()
        self.detokenizer = self
        self.last_segment = ""

    def encode(self, prompt):
        return [1] * self.size

    def apply_chat_template(self, messages, **_):
        return self.chat_template(messages)

    def add_token(self, token):
        self.last_segment = self.piece

    def finalize(self):
        self.last_segment = ""


class Spy:
    """A model that notes how many tokens it was fed at a time, and is interrupted in the `stop`th pass."""

    def __init__(self, model, stop=0, told=True):
        self.model, self.stop, self.fed = model, stop, []
        if told:
            self.args = model.args

    def make_cache(self):
        return self.model.make_cache()

    def __call__(self, tokens, cache=None):
        self.fed.append(tokens.shape[1])
        if len(self.fed) == self.stop:
            raise KeyboardInterrupt
        return self.model(tokens, cache=cache)


@pytest.fixture
def loads(monkeypatch):
    """Makes `generate` load what is given."""

    def use(model, tokenizer):
        monkeypatch.setattr("mlx_sampling.mlx_lm.load", lambda *_, **__: (model, tokenizer))

    return use


@pytest.mark.parametrize(("temperature", "told"), [("0", True), ("1", True), ("1", False)])
def test_interrupted_in_prefill(tiny_model, loads, capsys, temperature, told):
    readback = {"0": 4, "1": 4 * VOCAB if told else None}[temperature]
    for stop in (1, 2):
        loads(Spy(tiny_model, stop, told), Text())
        arguments = ["generate", "?", "--temp", temperature]
        assert main([*arguments, "--json"]) == 130
        report = json.loads(capsys.readouterr().out)
        assert report["finish_reason"] == "interrupted"
        assert report["tokens"] == []
        assert report["readback_bytes_per_token"] == readback
        timings = report["timings"]
        assert timings["prompt_seconds"] > 0
        assert timings["decode_seconds"] == timings["tokens_per_second"] == 0
    loads(Spy(tiny_model, 1, told), Text())
    assert main(arguments) == 130
    out = capsys.readouterr().out
    assert out.startswith("\n[0 tokens, 0.0 tokens/s, interrupted; route ")
    assert f"; {readback or 'unknown'} bytes read back per token" in out


@pytest.mark.parametrize("temperature", ["0", "1"])
def test_a_prompt_is_fed_in_pieces_that_ctrl_c_need_not_wait_for(tiny_model, loads, temperature):
    model = Spy(tiny_model)
    loads(model, Text(size=600))
    assert main(["generate", "?", "--temp", temperature, "--max-tokens", "1"]) == 0
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    pieces = [*[128] * 4, 87, 1] if on_cpu else [599, 1]
    assert model.fed[: len(pieces)] == pieces


def test_a_template_that_fails(tiny_model, loads, capsys):
    def template(messages):
        raise LookupError("no such\nrole")

    loads(tiny_model, Text(template=template))
    assert main(["generate", "?"]) == 1
    assert capsys.readouterr().err == (
        "mlx-sampling: [chat_template] Expected the model's template to take a prompt, got "
        "LookupError: no such role\n"
    )


def test_a_prompt_that_is_not_utf8():
    done = run("generate", b"\xff\xfe")
    assert done.returncode == 1
    assert done.stderr == "mlx-sampling: [prompt] Expected text in UTF-8, got bytes that are not.\n"


# A model that answers at once: what is tried is the program around it.
FAKE = """
    import os, sys
    from tiny_models import tiny_llama
    from python.test_cli import Text
    import mlx_sampling.mlx_lm
    from mlx_sampling.cli import main

    mlx_sampling.mlx_lm.load = lambda *_, **__: (tiny_llama(), Text(piece="\u00e9\U0001f600"))
    sys.exit(main(sys.argv[1:]))
"""


def run_fake(*arguments, shell='exec "$@"', **environment):
    """Runs `FAKE` in a shell, which may redirect it."""
    tests = os.path.dirname(os.path.dirname(__file__))
    path = os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        ["sh", "-c", shell, "sh", sys.executable, "-c", textwrap.dedent(FAKE), *arguments],
        capture_output=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "", **environment},
    )


GENERATE = ("generate", "?", "--max-tokens", "3")


@pytest.mark.parametrize("arguments", [GENERATE, (*GENERATE, "--json")])
@pytest.mark.parametrize(
    ("shell", "status", "message"),
    [
        (
            'exec "$@" >&-',
            1,
            b"mlx-sampling: [stdout] Expected an open standard output, got a closed one.\n",
        ),
        ('exec "$@" >/dev/full', 1, b"mlx-sampling: [Errno 28] No space left on device\n"),
        ('{ "$@"; echo $? >&2; } | true', 0, b"141\n"),
        ('exec "$@" 2>&-', 0, b""),
    ],
)
def test_output_that_nobody_can_read(arguments, shell, status, message):
    if "/dev/full" in shell and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    done = run_fake(*arguments, shell=shell)
    assert (done.returncode, done.stderr) == (status, message)


def test_help_that_nobody_reads():
    done = run_fake("--help", shell='{ "$@"; echo $? >&2; } | true')
    assert done.stderr == b"141\n"


def test_characters_that_stdout_lacks():
    done = run_fake(*GENERATE, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(rb"\xe9\U0001f600" * 3 + b"\n[3 tokens, ")
    done = run_fake(*GENERATE, "--json", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout.decode("ascii"))["text"] == "\u00e9\U0001f600" * 3
    done = run_fake(*GENERATE, "--json", PYTHONIOENCODING="utf-8")
    assert "\u00e9\U0001f600" * 3 in done.stdout.decode("utf-8")


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
