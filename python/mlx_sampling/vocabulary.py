"""What a request may need to know of a model's tokens: texts, control tokens, ends, their number.

Not here: how texts are read off a tokenizer (`_token_bytes`), and the trie over them (`csrc/core`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mlx_sampling import _ext
from mlx_sampling._fields import checked_int, token_ids
from mlx_sampling._token_bytes import backend_of, table_of_gguf, table_of_tokenizer

__all__ = ["Tokenize", "Vocabulary"]

Tokenize = Callable[[bytes], Sequence[int]]


@dataclass(frozen=True)
class Vocabulary:
    """A model's tokens, or what is known of them; checked when made.

    Args:
        size: Number of tokens, >= 1; ids from there on are padding of the model's head. None where
            it is not known: then every id of a row is a token.
        eos_token_ids: End-of-generation ids.
        token_texts: Text of every token by id, special ones too: bytes, or str for UTF-8. Empty where
            an id has no token.
        tokenize: bytes -> ids, without special tokens. Only breakers of several bytes need it.
        control_token_ids: Tokens that never stand for their text, such as `<|im_start|>`.

    Raises:
        TypeError: An argument of the wrong type.
        ValueError: An id outside the vocabulary.

    Example:
        >>> from mlx_sampling import Vocabulary
        >>> vocabulary = Vocabulary(3, eos_token_ids=[2], token_texts=["a", "b", "</s>"])
        >>> vocabulary.native.is_text(1), vocabulary.native.is_text(2)
        (True, False)
    """

    size: int | None = None
    eos_token_ids: Iterable[int] = ()
    token_texts: Sequence[bytes | str] | None = field(default=None, repr=False)
    tokenize: Tokenize | None = None
    control_token_ids: Iterable[int] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.size is not None:
            object.__setattr__(self, "size", checked_int("vocab_size", self.size, 1, 2**31 - 1))
        for name in ("eos_token_ids", "control_token_ids"):
            object.__setattr__(self, name, self.checked(name, getattr(self, name)))

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, eos_token_ids: Iterable[int] = ()) -> Vocabulary:
        """The vocabulary of an mlx-lm or Hugging Face tokenizer.

        Byte-level BPE, and SentencePiece's models (BPE or unigram, with or without byte fallback).
        Every text is checked against what the tokenizer itself decodes the token to.

        Args:
            tokenizer: mlx-lm's `TokenizerWrapper`, a fast tokenizer of transformers, or a
                `tokenizers.Tokenizer`.
            eos_token_ids: End-of-generation ids besides the tokenizer's own `eos_token_ids` (mlx-lm's
                holds those of the model's configuration) and `eos_token_id`.

        Returns:
            Every token that was added as a special one is a control token; others that were added are
            texts.

        Raises:
            TypeError: There is no `tokenizers.Tokenizer` in it.
            ValueError: A tokenizer of another kind, a token that it decodes to another text than its
                parts say, or an end-of-generation id that it does not have.
        """
        backend = backend_of(tokenizer)
        table = table_of_tokenizer(backend)
        ends = [*eos_token_ids]
        for name in ("eos_token_ids", "eos_token_id"):
            own = getattr(tokenizer, name, None)
            if own is not None:
                ends += [own] if isinstance(own, int) else sorted(own)

        def tokenize(text: bytes) -> Sequence[int]:
            ids: list[int] = backend.encode(text.decode(), add_special_tokens=False).ids
            return ids

        return cls(len(table.texts), ends, table.texts, tokenize, table.control)

    @classmethod
    def from_gguf(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """The vocabulary in a GGUF file's metadata, whatever its model; without `tokenize`.

        Args:
            path: The file.

        Raises:
            OSError: There is no such file.
            ValueError: No GGUF file, or one whose tokens are of no known kind.
        """
        from mlx_sampling._gguf_layout import read_metadata
        from mlx_sampling.gguf_tokenizer import end_token_ids

        metadata = read_metadata(Path(path))
        table = table_of_gguf(metadata)
        return cls(
            len(table.texts),
            end_token_ids(metadata),
            table.texts,
            control_token_ids=table.control,
        )

    @property
    def is_given(self) -> bool:
        """Whether anything is known at all."""
        parts = (self.size, self.token_texts, self.tokenize)
        ids = (self.eos_token_ids, self.control_token_ids)
        return any(part is not None for part in parts) or ids != ((), ())

    @cached_property
    def native(self) -> _ext.Vocabulary:
        """The compiled vocabulary with its trie, made at the first use.

        Raises:
            TypeError, ValueError: As `texts`; there are no texts; an id outside of them.
        """
        texts = self.texts()
        if texts is None:
            raise ValueError("[vocabulary] Expected token_texts, which a grammar needs, got none.")
        return _ext.Vocabulary(texts, list(self.control_token_ids), list(self.eos_token_ids))

    def checked(self, name: str, ids: Iterable[int]) -> tuple[int, ...]:
        """Checks ids against the size where it is known; each is kept once.

        Raises:
            TypeError: Something else than ints.
            ValueError: An id out of range.
        """
        found = tuple(dict.fromkeys(token_ids(name, ids)))
        for token in found:
            if self.size is not None and token >= self.size:
                raise ValueError(f"[{name}] Expected token ids in [0, {self.size}), got {token}.")
        return found

    def texts(self) -> list[bytes] | None:
        """The texts as bytes; None where there are none.

        Raises:
            TypeError: Something else than bytes and str.
            ValueError: Not one for each token.
        """
        if self.token_texts is None:
            return None
        if isinstance(self.token_texts, str | bytes):
            raise TypeError("[token_texts] Expected a text for each token, got a single one.")
        texts = []
        for token, text in enumerate(self.token_texts):
            if not isinstance(text, str | bytes):
                raise TypeError(f"[token_texts] Expected bytes or str, got {text!r}.")
            try:
                texts.append(text.encode() if isinstance(text, str) else text)
            except UnicodeEncodeError:
                raise ValueError(
                    f"[token_texts] Expected text in Unicode, got a lone surrogate in token {token}: "
                    "bytes hold what is no UTF-8."
                ) from None
        if self.size is not None and len(texts) != self.size:
            raise ValueError(
                f"[token_texts] Expected {self.size} texts, one for each token, got {len(texts)}."
            )
        return texts
