"""llama.cpp's samplers, called through the C interface of a shared library of release 0.5.0.

Here: the library in a folder, its chains. Not here: where a library comes from, what is in a vocabulary.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from ctypes import POINTER, Structure, c_bool, c_char_p, c_float, c_int32, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

TOKEN_DATA = np.dtype([("id", "<u4"), ("logit", "<f4"), ("p", "<f4")])


class LlamaUnavailable(Exception):
    """Why there is no llama.cpp to compare with, and how to get one."""


class TokenDataArray(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("size", c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", c_bool),
    )


class LogitBias(Structure):
    _fields_ = (("token", c_int32), ("bias", c_float))


class ChainParams(Structure):
    _fields_ = (("no_perf", c_bool),)


# Arguments of every function that makes a sampler.
_f, _i, _n, _p = c_float, c_int32, c_size_t, c_void_p
INITS: dict[str, tuple[Any, ...]] = {
    "greedy": (),
    "dist": (ctypes.c_uint32,),
    "top_k": (_i,),
    "top_p": (_f, _n),
    "min_p": (_f, _n),
    "typical": (_f, _n),
    "temp": (_f,),
    "temp_ext": (_f, _f, _f),
    "xtc": (_f, _f, _n, ctypes.c_uint32),
    "top_n_sigma": (_f,),
    "mirostat": (_i, ctypes.c_uint32, _f, _f, _i),
    "mirostat_v2": (ctypes.c_uint32, _f, _f),
    "penalties": (_i, _i, _f, _f, _f),
    "dry": (_p, _f, _f, _i, _i, POINTER(c_char_p), _n),
    "adaptive_p": (_f, _f, ctypes.c_uint32),
    "logit_bias": (_i, _i, POINTER(LogitBias)),
    "infill": (_p,),
}
# result, then arguments
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "llama_sampler_chain_init": (_p, ChainParams),
    "llama_sampler_chain_add": (None, _p, _p),
    "llama_sampler_chain_get": (_p, _p, _i),
    "llama_sampler_chain_n": (_i, _p),
    "llama_sampler_apply": (None, _p, POINTER(TokenDataArray)),
    "llama_sampler_accept": (None, _p, _i),
    "llama_sampler_reset": (None, _p),
    "llama_sampler_clone": (_p, _p),
    "llama_sampler_free": (None, _p),
    "llama_sampler_get_seed": (ctypes.c_uint32, _p),
}


class ModelParams(Structure):
    """Only what is set here by name, at its place; the rest stays as the library filled it in."""

    _fields_ = (
        ("devices", c_void_p),
        ("buffer_overrides", c_void_p),
        ("counts_and_modes", c_int32 * 4),
        ("main_gpu", c_int32),
        ("tensor_split", c_void_p),
        ("progress_callback", c_void_p),
        ("progress_data", c_void_p),
        ("kv_overrides", c_void_p),
        ("vocab_only", c_bool),
        ("other_flags", c_bool * 5),
    )


VOCABULARY_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "llama_model_default_params": (ModelParams,),
    "llama_model_load_from_file": (_p, c_char_p, ModelParams),
    "llama_model_get_vocab": (_p, _p),
    "llama_sampler_init_grammar": (_p, _p, c_char_p, c_char_p),
}


class Llama:
    """The library in a folder, or one library file."""

    def __init__(self, path: Path) -> None:
        folder = path if path.is_dir() else path.parent
        self._libraries = [
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL | os.RTLD_LAZY)
            for library in _in_load_order(folder)
        ]
        own = [path] if path.is_file() else _named(folder, "libllama")
        if not own:
            raise LlamaUnavailable(f"{folder} holds no libllama.")
        # Local: two builds in one process must not call each other. Lazy: a library that lacks parts
        # which sampling does not need will do.
        self._lib = ctypes.CDLL(str(own[0]), mode=ctypes.RTLD_LOCAL | os.RTLD_LAZY)
        self.declare(FUNCTIONS)
        for name, arguments in INITS.items():
            self.declare({f"llama_sampler_init_{name}": (c_void_p, *arguments)})
        # Else every model load and odd parameter is reported on stderr.
        self._quiet = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)(lambda *_: None)
        if hasattr(self._lib, "llama_log_set"):
            self._lib.llama_log_set(self._quiet, None)

    def declare(self, functions: dict[str, tuple[Any, ...]]) -> None:
        """Sets result and argument types, by name of the function."""
        for name, (result, *arguments) in functions.items():
            function = getattr(self._lib, name)
            function.restype, function.argtypes = result, arguments

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_lib"], name)

    def make(self, name: str, *arguments: object) -> int:
        """Makes one sampler; whoever adds it to a chain no longer owns it."""
        handle: int = getattr(self._lib, f"llama_sampler_init_{name}")(*arguments)
        return handle

    def load_vocabulary(self, model: Path) -> int:
        """Handle of the vocabulary in a GGUF file, which stays loaded.

        Raises:
            LlamaUnavailable: The library does not load it.
        """
        self.declare(VOCABULARY_FUNCTIONS)
        params = self.llama_model_default_params()
        params.vocab_only = True
        handle = self.llama_model_load_from_file(str(model).encode(), params)
        if not handle:
            raise LlamaUnavailable(f"llama.cpp could not load {model}.")
        vocabulary: int = self.llama_model_get_vocab(handle)
        return vocabulary

    def chain(self, samplers: Iterable[int]) -> Chain:
        handle = self._lib.llama_sampler_chain_init(ChainParams(True))
        for sampler in samplers:
            self._lib.llama_sampler_chain_add(handle, sampler)
        return Chain(self, handle)


class Chain:
    """A sampler chain and the candidates of its last step."""

    def __init__(self, llama: Llama, handle: int) -> None:
        self._llama, self._handle = llama, handle
        self._buffer = np.empty(0, TOKEN_DATA)
        self.candidates = self._buffer

    def __del__(self) -> None:
        self._llama.llama_sampler_free(self._handle)

    def sample(self, row: np.ndarray) -> int:
        """Index of the pick among `candidates`, -1 where nothing was picked."""
        if len(self._buffer) != len(row):
            self._buffer = np.empty(len(row), TOKEN_DATA)
        self._buffer["id"] = np.arange(len(row), dtype=np.uint32)
        self._buffer["logit"] = row
        self._buffer["p"] = 0
        array, self.candidates = apply(self._llama, self._handle, self._buffer)
        return array.selected

    def apply(self, array: TokenDataArray) -> None:
        """Applies the chain to candidates in place."""
        self._llama.llama_sampler_apply(self._handle, ctypes.byref(array))

    def probe(self, width: int) -> int:
        """What the chain's last sampler picks of `width` equal logits: moves its stream on."""
        last = self._llama.llama_sampler_chain_n(self._handle) - 1
        flat = np.zeros(width, TOKEN_DATA)
        sampler = self._llama.llama_sampler_chain_get(self._handle, last)
        return apply(self._llama, sampler, flat)[0].selected

    def accept(self, token: int) -> None:
        self._llama.llama_sampler_accept(self._handle, token)

    def reset(self) -> None:
        self._llama.llama_sampler_reset(self._handle)

    def clone(self) -> Chain:
        return Chain(self._llama, self._llama.llama_sampler_clone(self._handle))


def apply(llama: Llama, sampler: int, data: np.ndarray) -> tuple[TokenDataArray, np.ndarray]:
    """Applies a sampler in place; the second result views the candidates that it left."""
    array = TokenDataArray(data.ctypes.data, len(data), -1, False)
    llama.llama_sampler_apply(sampler, ctypes.byref(array))
    if array.data == data.ctypes.data:
        return array, data[: array.size]
    size = array.size * TOKEN_DATA.itemsize
    return array, np.frombuffer(ctypes.string_at(array.data, size), TOKEN_DATA)


def _named(folder: Path, stem: str) -> list[Path]:
    return sorted(p for p in folder.glob(f"{stem}.*") if ".so" in p.name or p.suffix == ".dylib")


def _in_load_order(folder: Path) -> list[Path]:
    return [
        path for stem in ("libggml-base", "libggml-cpu", "libggml") for path in _named(folder, stem)
    ]
