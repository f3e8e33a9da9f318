"""The bytes that each token writes, from a tokenizer's parts or a GGUF file's metadata.

Only attributes are used, so that neither tokenizers nor transformers is needed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["TokenTable", "backend_of", "table_of_gguf", "table_of_tokenizer"]

_BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")
_SPACE = "▁"  # SentencePiece's
_CHUNK = 16_384
# tokenizer.ggml.token_type
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)


@dataclass(frozen=True)
class TokenTable:
    """Texts by id, empty where an id has no token, and the ids of tokens that are no text."""

    texts: list[bytes]
    control: list[int]


def _byte_level_alphabet() -> dict[str, int]:
    """Character -> byte, as GPT-2 has it: printable bytes stand for themselves."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in own)
    return {chr(b): b for b in own} | {chr(256 + i): byte for i, byte in enumerate(others)}


_ALPHABET = _byte_level_alphabet()


def _byte_level(text: str) -> bytes | None:
    """The bytes that a text spells in the alphabet; None where it has other characters."""
    try:
        return bytes(map(_ALPHABET.__getitem__, text))
    except KeyError:
        return None


def backend_of(tokenizer: Any) -> Any:
    """The `tokenizers.Tokenizer` that a tokenizer is or holds.

    Raises:
        TypeError: There is none.
    """
    for candidate in (tokenizer, getattr(tokenizer, "backend_tokenizer", None)):
        if hasattr(candidate, "get_added_tokens_decoder") and hasattr(candidate, "decoder"):
            return candidate
    raise TypeError(
        "[from_tokenizer] Expected a tokenizers.Tokenizer, or a transformers or mlx-lm tokenizer that "
        f"holds one, got {type(tokenizer).__name__}."
    )


def table_of_tokenizer(backend: Any) -> TokenTable:
    """The tokens of a `tokenizers.Tokenizer`, each checked against what it decodes to.

    Raises:
        ValueError: A decoder of an unknown kind, or a token that it writes otherwise.
    """
    to_bytes = _decoder_of(backend)
    added = backend.get_added_tokens_decoder()
    vocabulary = backend.get_vocab(with_added_tokens=True)
    names: list[str | None] = [None] * (max([*vocabulary.values(), *added], default=-1) + 1)
    for name, token in vocabulary.items():
        names[token] = name
    for token, entry in added.items():
        names[token] = entry.content
    control = sorted(token for token, entry in added.items() if entry.special)
    special = set(control)
    texts = []
    for token, name in enumerate(names):
        if name is None:
            texts.append(b"")
        elif token in special:
            texts.append(name.encode())
        else:
            text = to_bytes(name)
            # One that was added may be no UTF-8 to a decoder that takes its letters for bytes.
            texts.append(name.encode() if token in added and not _is_utf8(text) else text)
    _check_texts(backend, texts, special, set(added), names)
    return TokenTable(texts, control)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decoder_of(backend: Any) -> Callable[[str], bytes]:
    """What a decoder makes of a token that is not the first one."""
    if backend.decoder is None:
        raise ValueError("[from_tokenizer] Expected a tokenizer with a decoder, got none.")
    steps: list[Mapping[str, Any]] = []
    pending = [json.loads(backend.decoder.__getstate__())]
    while pending:
        step = pending.pop()
        if step["type"] == "Sequence":
            pending += reversed(step["decoders"])
        else:
            steps.append(step)
    for step in steps:
        _check_step(step)

    def to_bytes(name: str) -> bytes:
        for step in steps:
            kind = step["type"]
            if kind == "ByteLevel":
                return _byte_level(name) or name.encode()
            if kind == "ByteFallback" and (match := _BYTE_TOKEN.fullmatch(name)):
                return bytes([int(match[1], 16)])
            if kind == "Replace":
                name = name.replace(step["pattern"]["String"], step["content"])
            elif kind == "Metaspace":
                name = name.replace(step["replacement"], " ")
        return name.encode()

    return to_bytes


def _check_step(step: Mapping[str, Any]) -> None:
    # Fuse and Strip change nothing within a text; what else they do is found by the check of texts.
    known = ("ByteLevel", "ByteFallback", "Metaspace", "Replace", "Fuse", "Strip")
    if step["type"] not in known:
        raise ValueError(
            f"[from_tokenizer] Expected a decoder of {', '.join(known)}, got {step['type']}."
        )
    if step["type"] == "Replace" and "String" not in step["pattern"]:
        raise ValueError(
            "[from_tokenizer] Expected a Replace decoder of a string, got one of a pattern."
        )


def _check_texts(
    backend: Any,
    texts: Sequence[bytes],
    special: set[int],
    added: set[int],
    names: Sequence[str | None],
) -> None:
    """Compares every text with what the tokenizer decodes the token to, after a letter.

    The letter is there because decoders drop spaces of the first token.
    """
    # No byte token, which would be joined with one that follows.
    letters = (i for i, text in enumerate(texts) if text.isalpha() and text.decode() == names[i])
    letter = next((i for i in letters if i not in added), None)
    prefix = [] if letter is None else [letter]
    ids = [i for i, name in enumerate(names) if name is not None and i not in special]
    before = b"" if letter is None else texts[letter]
    for first in range(0, len(ids), _CHUNK):
        chunk = ids[first : first + _CHUNK]
        decoded = backend.decode_batch([[*prefix, i] for i in chunk], skip_special_tokens=False)
        for token, got in zip(chunk, decoded, strict=True):
            expected = (before + texts[token]).decode(errors="replace")
            if letter is None:
                expected, got = expected.replace(" ", ""), got.replace(" ", "")
            # A replacement character says that the tokenizer cannot tell.
            if got != expected and not (token in added and "\ufffd" in got):
                raise ValueError(
                    f"[from_tokenizer] Expected token {token} to write {texts[token]!r} as "
                    f"{names[token]!r} has it, but the tokenizer decodes it to "
                    f"{got[len(before) :]!r}."
                )


def table_of_gguf(metadata: Mapping[str, Any]) -> TokenTable:
    """The tokens of a GGUF file.

    Raises:
        ValueError: No tokens, no types, an unknown kind of tokenizer, or a token that is none of it.
    """
    model = metadata.get("tokenizer.ggml.model")
    if model not in ("gpt2", "llama", "t5"):
        raise ValueError(
            f'[from_gguf] Expected "tokenizer.ggml.model" gpt2, llama or t5, got {model!r}.'
        )
    names = metadata.get("tokenizer.ggml.tokens")
    types = metadata.get("tokenizer.ggml.token_type")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise ValueError('[from_gguf] Expected a list of str "tokenizer.ggml.tokens".')
    if not isinstance(types, list) or len(types) != len(names):
        raise ValueError(f'[from_gguf] Expected {len(names)} "tokenizer.ggml.token_type".')
    texts = [
        _gguf_text(model, token, name, kind)
        for token, (name, kind) in enumerate(zip(names, types, strict=True))
    ]
    control = [i for i, kind in enumerate(types) if kind in (_UNKNOWN, _CONTROL, _UNUSED)]
    return TokenTable(texts, control)


def _gguf_text(model: str, token: int, name: str, kind: int) -> bytes:
    if kind in (_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED):
        return name.encode()
    if kind == _BYTE and (match := _BYTE_TOKEN.fullmatch(name)):
        return bytes([int(match[1], 16)])
    if kind == _NORMAL and model != "gpt2":
        return name.replace(_SPACE, " ").encode()
    text = _byte_level(name) if kind == _NORMAL else None
    if text is None:
        what = "of the byte-level alphabet" if kind == _NORMAL else f"of type {kind}"
        raise ValueError(f"[from_gguf] Expected a token {what}, got {name!r} for token {token}.")
    return text
