"""The engines of `bench grammar` behind one set of verbs. Not here: what is measured."""

from __future__ import annotations

import json
import struct
import tempfile
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mlx_sampling import _ext

if TYPE_CHECKING:
    from mlx_sampling.bench.grammar_workloads import Workload

__all__ = ["PEERS", "Engine", "LlGuidance", "LlamaCpp", "Ours", "Tokens", "XGrammar"]


class Tokens:
    """A vocabulary as every engine is given it."""

    def __init__(self, texts: list[bytes], control: list[int], ends: list[int]):
        self.texts, self.control, self.ends = texts, control, ends

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        silent = {*self.control, *self.ends}
        return {text: i for i, text in enumerate(self.texts) if text and i not in silent}

    def split(self, text: bytes) -> list[int]:
        """Tokens that spell `text`, the longest first."""
        longest = max(map(len, self._ids))
        tokens, at = [], 0
        while at < len(text):
            end = next(e for e in range(at + longest, at, -1) if text[at:e] in self._ids)
            tokens.append(self._ids[text[at : min(end, len(text))]])
            at = min(end, len(text))
        return tokens


class Engine(ABC):
    """One engine with one vocabulary."""

    name: ClassVar[str]
    slow: ClassVar[bool] = False

    @classmethod
    def load(cls, llama: Any) -> None:
        """Imports what it needs, so that set-up does not count it. Raises ImportError where it is missing."""
        return None

    def __init__(self, tokens: Tokens):
        self._bitmask = np.zeros((len(tokens.texts) + 31) // 32, np.uint32)

    @abstractmethod
    def compile(self, workload: Workload) -> None:
        """Makes a matcher at the beginning. Raises ValueError where the engine refuses the grammar."""

    @abstractmethod
    def reset(self) -> None:
        """Begins the text anew."""

    @abstractmethod
    def fill(self) -> None:
        """Makes the full mask of the step."""

    def allows(self, token: int) -> bool:
        """What the last mask says."""
        return bool(self._bitmask[token // 32] >> np.uint32(token % 32) & 1)

    def check(self, token: int) -> bool | None:
        """Whether a token is allowed, asked by itself; None where the engine has no such question."""
        return None

    @abstractmethod
    def accept(self, token: int) -> None:
        """Goes on by a token. Raises ValueError where the engine refuses it."""


def _gbnf_of(workload: Workload) -> str:
    from mlx_sampling.json_schema import json_schema_to_gbnf

    if workload.gbnf is not None:
        return workload.gbnf
    assert workload.schema is not None
    return json_schema_to_gbnf(workload.schema)


class Ours(Engine):
    name = "ours"

    def __init__(self, tokens: Tokens):
        super().__init__(tokens)
        self._vocabulary = _ext.Vocabulary(tokens.texts, tokens.control, tokens.ends)

    def compile(self, workload: Workload) -> None:
        syntax = _ext.parse_grammar(_gbnf_of(workload).encode(), "root", self._vocabulary)
        self._matcher = _ext.GrammarMatcher(_ext.Grammar(syntax, self._vocabulary))

    def reset(self) -> None:
        self._matcher.reset()

    def fill(self) -> None:
        self._matcher.fill_bitmask(self._bitmask)

    def check(self, token: int) -> bool | None:
        return self._matcher.can_accept(token)

    def accept(self, token: int) -> None:
        self._matcher.accept_token(token)


class _Tokenizer:
    """What llguidance asks of a tokenizer."""

    bos_token_id = None

    def __init__(self, tokens: Tokens):
        self._split = tokens.split
        self.tokens = tokens.texts
        self.eos_token_id = tokens.ends[0]
        self.special_token_ids = [*tokens.control, *tokens.ends]

    def __call__(self, text: bytes | str) -> list[int]:
        return self._split(text.encode() if isinstance(text, str) else text)


class LlGuidance(Engine):
    name = "llguidance"

    @classmethod
    def load(cls, llama: Any) -> None:
        import llguidance.gbnf_to_lark
        import llguidance.numpy  # noqa: F401

    def __init__(self, tokens: Tokens):
        import llguidance

        super().__init__(tokens)

        wrapper = llguidance.TokenizerWrapper(_Tokenizer(tokens))
        self._tokenizer = llguidance.LLTokenizer(wrapper, n_vocab=len(tokens.texts))

    def compile(self, workload: Workload) -> None:
        import llguidance
        from llguidance.gbnf_to_lark import gbnf_to_lark

        if workload.gbnf is None:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(
                json.dumps(workload.schema), overrides={"whitespace_pattern": ""}
            )
        else:
            grammar = llguidance.LLMatcher.grammar_from_lark(gbnf_to_lark(workload.gbnf))
        self._matcher = llguidance.LLMatcher(self._tokenizer, grammar)
        if self._matcher.is_error():
            raise ValueError(self._matcher.get_error())

    def reset(self) -> None:
        self._matcher.reset()

    def fill(self) -> None:
        self._matcher.unsafe_compute_mask_ptr(self._bitmask.ctypes.data, self._bitmask.nbytes)

    def accept(self, token: int) -> None:
        if not self._matcher.consume_token(token):
            raise ValueError(f"[llguidance] {self._matcher.get_error()}")


class XGrammar(Engine):
    name = "xgrammar"

    @classmethod
    def load(cls, llama: Any) -> None:
        import xgrammar  # noqa: F401

    def __init__(self, tokens: Tokens):
        import torch
        import xgrammar

        super().__init__(tokens)
        self._tokens = torch.from_numpy(self._bitmask.view(np.int32))[None]
        info = xgrammar.TokenizerInfo(
            tokens.texts, vocab_size=len(tokens.texts), stop_token_ids=tokens.ends
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile(self, workload: Workload) -> None:
        import xgrammar

        try:
            if workload.gbnf is None:
                compiled = self._compiler.compile_json_schema(
                    json.dumps(workload.schema), any_whitespace=False, separators=(",", ":")
                )
            else:
                compiled = self._compiler.compile_grammar(workload.gbnf)
        except RuntimeError as error:
            raise ValueError(str(error)) from error
        self._matcher = xgrammar.GrammarMatcher(compiled)

    def reset(self) -> None:
        self._matcher.reset()

    def fill(self) -> None:
        # It leaves the mask alone where every token is allowed.
        if not self._matcher.fill_next_token_bitmask(self._tokens):
            self._bitmask.fill(0xFFFFFFFF)

    def accept(self, token: int) -> None:
        if not self._matcher.accept_token(token):
            raise ValueError(f"[xgrammar] Expected token {token} to be accepted.")


class LlamaCpp(Engine):
    name = "llama.cpp"
    slow = True
    _library: Any = None

    @classmethod
    def load(cls, llama: Any) -> None:
        if llama is None:
            raise ImportError("name a folder with --llama or MLX_SAMPLING_LLAMA")
        from mlx_sampling.bench.llama_cpp import Llama, LlamaUnavailable

        try:
            cls._library = cls._library or Llama(Path(llama))
        except LlamaUnavailable as error:
            raise ImportError(str(error)) from error

    def __init__(self, tokens: Tokens):
        from mlx_sampling.bench.llama_cpp import TOKEN_DATA

        super().__init__(tokens)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "vocabulary.gguf"
            file.write_bytes(gguf_of(tokens))
            self._vocabulary = self._library.load_vocabulary(file)
        self._data = np.zeros(len(tokens.texts), TOKEN_DATA)
        self._single = np.zeros(1, TOKEN_DATA)
        self._sampler: int | None = None

    def compile(self, workload: Workload) -> None:
        if self._sampler is not None:
            self._library.llama_sampler_free(self._sampler)
        self._sampler = self._library.make(
            "grammar", self._vocabulary, _gbnf_of(workload).encode(), b"root"
        )
        if not self._sampler:
            raise ValueError("llama.cpp does not parse it")

    def reset(self) -> None:
        self._library.llama_sampler_reset(self._sampler)

    def _apply(self, data: np.ndarray[Any, Any]) -> None:
        from mlx_sampling.bench.llama_cpp import apply

        assert self._sampler is not None
        apply(self._library, self._sampler, data)

    def fill(self) -> None:
        self._data["id"] = np.arange(len(self._data), dtype=np.uint32)
        self._data["logit"] = 1
        self._apply(self._data)

    def allows(self, token: int) -> bool:
        return bool(self._data["logit"][token] > -np.inf)

    def check(self, token: int) -> bool | None:
        self._single["id"], self._single["logit"] = token, 1
        self._apply(self._single)
        return bool(self._single["logit"][0] > -np.inf)

    def accept(self, token: int) -> None:
        self._library.llama_sampler_accept(self._sampler, token)


PEERS: tuple[type[Engine], ...] = (LlGuidance, XGrammar, LlamaCpp)


def gguf_of(tokens: Tokens) -> bytes:
    """A GGUF file with a vocabulary and nothing else, for llama.cpp; byte-level, without merges."""
    alphabet = _byte_alphabet()
    kinds = np.ones(len(tokens.texts), np.int32)
    kinds[[*tokens.control, *tokens.ends]] = 3

    def string(text: str | bytes) -> bytes:
        data = text.encode() if isinstance(text, str) else text
        return struct.pack("<Q", len(data)) + data

    def spelled(token: int) -> str:
        text = tokens.texts[token]
        return text.decode() if kinds[token] == 3 else "".join(alphabet[byte] for byte in text)

    def entry(key: str, kind: int, value: bytes) -> bytes:
        return string(key) + struct.pack("<I", kind) + value

    def strings(values: list[str]) -> bytes:
        return struct.pack("<IQ", 8, len(values)) + b"".join(map(string, values))

    entries = [
        entry("general.architecture", 8, string("llama")),
        entry("tokenizer.ggml.model", 8, string("gpt2")),
        entry("tokenizer.ggml.pre", 8, string("default")),
        entry("tokenizer.ggml.tokens", 9, strings([spelled(t) for t in range(len(kinds))])),
        entry("tokenizer.ggml.token_type", 9, struct.pack("<IQ", 5, len(kinds)) + kinds.tobytes()),
        entry("tokenizer.ggml.merges", 9, strings(["a b"])),
        entry("tokenizer.ggml.bos_token_id", 4, struct.pack("<I", tokens.ends[0])),
        entry("tokenizer.ggml.eos_token_id", 4, struct.pack("<I", tokens.ends[0])),
    ]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)


def _byte_alphabet() -> list[str]:
    """The characters that stand for bytes in byte-level vocabularies: printable ones for themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    shifted = {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [shifted.get(byte, chr(byte)) for byte in range(256)]
