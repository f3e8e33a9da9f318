"""Grammars: GBNF text or a JSON Schema, compiled for a vocabulary, and matchers of token streams.

Here: what a user holds. Not here: the language and the recognizer (`csrc/core/grammar*`), the translation
of schemas (`json_schema`), and sampling under a grammar (`Sampler(grammar=...)`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlx_sampling import _ext
from mlx_sampling._fields import checked_int, token_ids
from mlx_sampling.json_schema import json_object_gbnf, json_schema_to_gbnf
from mlx_sampling.vocabulary import Vocabulary

__all__ = ["Grammar", "GrammarMatcher", "GrammarTriggers"]


class Grammar:
    """A grammar compiled for a vocabulary.

    Immutable: any number of requests and threads use one at once, and share what it remembers of masks.
    Grammars of equal text and vocabulary are compiled once.

    Args:
        text: GBNF, as llama.cpp has it; str, or bytes in UTF-8.
        vocabulary: The model's, with its tokens' texts; see `Vocabulary.from_tokenizer`. Default: none,
            for matching text alone.
        root: The rule that a text must match. Default: "root".

    Raises:
        GrammarError: The text is no grammar; the message begins with line and column.
        TypeError: An argument of the wrong type.
        ValueError: A vocabulary without texts, or a grammar beyond the stated limits.

    Example:
        >>> from mlx_sampling import Grammar, Vocabulary
        >>> vocabulary = Vocabulary(token_texts=["yes", "no", "", "y"], eos_token_ids=[2])
        >>> matcher = Grammar('root ::= "yes" | "no"', vocabulary).matcher()
        >>> [matcher.can_accept(token) for token in range(4)]
        [True, True, False, True]
    """

    def __init__(
        self, text: str | bytes, vocabulary: Vocabulary | None = None, *, root: str = "root"
    ) -> None:
        if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                f"[vocabulary] Expected a Vocabulary, got {type(vocabulary).__name__}: "
                "Vocabulary.from_tokenizer makes one of a tokenizer."
            )
        if not isinstance(root, str):
            raise TypeError(f"[root] Expected str, got {type(root).__name__}.")
        self._text = _utf8("grammar", text)
        self._vocabulary = vocabulary
        native = None if vocabulary is None else vocabulary.native
        self._native = _compiled(self._text, root, native)

    @classmethod
    def from_json_schema(
        cls, schema: dict[str, Any] | bool | str, vocabulary: Vocabulary, **options: Any
    ) -> Grammar:
        """The grammar of the JSON texts that a schema (Draft 2020-12) allows.

        Args:
            schema: The schema, or its JSON text.
            vocabulary: As in `Grammar`.
            **options: As in `mlx_sampling.json_schema.json_schema_to_gbnf`.

        Raises:
            JsonSchemaError: A keyword that cannot be enforced, named by its JSON pointer.
            TypeError, ValueError: As `Grammar`.
        """
        return cls(json_schema_to_gbnf(schema, **options), vocabulary)

    @classmethod
    def json_object(cls, vocabulary: Vocabulary, **options: Any) -> Grammar:
        """The grammar of any JSON object. Options: as in `json_schema.json_object_gbnf`."""
        return cls(json_object_gbnf(**options), vocabulary)

    @property
    def text(self) -> str:
        """The GBNF text."""
        return self._text.decode()

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary that it is compiled for."""
        return self._vocabulary

    def matcher(self) -> GrammarMatcher:
        """A matcher at the beginning of a text."""
        return GrammarMatcher(self)


def _utf8(name: str, text: Any) -> bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"[{name}] Expected str or bytes, got {type(text).__name__}.")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"[{name}] Expected text in Unicode, got a lone surrogate at index {error.start}."
        ) from None


@lru_cache(maxsize=64)
def _compiled(text: bytes, root: str, vocabulary: _ext.Vocabulary | None) -> _ext.Grammar:
    return _ext.Grammar(_ext.parse_grammar(text, root, vocabulary), vocabulary)


def _is_bitmask(out: Any) -> bool:
    if not isinstance(out, np.ndarray) or out.dtype != np.uint32 or out.ndim != 1:
        return False
    return bool(out.flags.c_contiguous and out.flags.writeable and out.dtype.isnative)


class GrammarMatcher:
    """How far one text has come in a grammar. `Sampler(grammar=...)` has one inside.

    A refused token changes nothing. One thread at a time uses a matcher; different matchers, of one
    grammar too, work in parallel: the GIL is released.

    Args:
        grammar: The grammar.

    Raises:
        TypeError: No Grammar.
    """

    def __init__(self, grammar: Grammar) -> None:
        if not isinstance(grammar, Grammar):
            raise TypeError(f"[grammar] Expected a Grammar, got {type(grammar).__name__}.")
        self._grammar = grammar
        self._native = _ext.GrammarMatcher(grammar._native)

    @property
    def grammar(self) -> Grammar:
        """The grammar."""
        return self._grammar

    def accept_token(self, token: int) -> bool:
        """Goes on by a token; False, and nothing changes, where the grammar refuses it.

        Raises:
            TypeError: No int.
            ValueError: An id outside the vocabulary, or a grammar without one.
        """
        return self._native.accept_token(checked_int("token", token, 0, 2**31 - 1))

    def can_accept(self, token: int) -> bool:
        """Whether `accept_token` would accept; raises what it does."""
        return self._native.can_accept(checked_int("token", token, 0, 2**31 - 1))

    def accept_text(self, text: str | bytes) -> bool:
        """Goes on by text, all of it or nothing; bytes may begin and end within a character.

        Raises:
            TypeError: Something else than str and bytes.
            ValueError: A str that is no Unicode text.
        """
        return self._native.accept_text(_utf8("text", text))

    def fill_bitmask(self, out: NDArray[np.uint32] | None = None) -> NDArray[np.uint32]:
        """The tokens that can come next, packed: bit `i % 32` of word `i // 32` is token `i`'s.

        Args:
            out: uint32 `[ceil(V / 32)]`, contiguous, to write to. Default: a new array.

        Returns:
            `out`: what `greedy_argmax(allowed=...)` takes.

        Raises:
            ValueError: `out` is something else; the grammar has no vocabulary.
        """
        if out is None:
            vocabulary = self._grammar.vocabulary
            if vocabulary is None:
                raise ValueError("[fill_bitmask] Expected a grammar with a vocabulary, got none.")
            out = np.zeros((vocabulary.native.size + 31) // 32, np.uint32)
        elif not _is_bitmask(out):
            raise ValueError(
                "[fill_bitmask] Expected out to be a writable, contiguous NumPy array uint32 "
                f"[ceil(V / 32)], got {type(out).__name__}"
                f"{f' of {out.dtype} {out.shape}' if isinstance(out, np.ndarray) else ''}."
            )
        self._native.fill_bitmask(out)
        return out

    @property
    def is_completed(self) -> bool:
        """Whether the text may end here: end-of-generation tokens are allowed."""
        return self._native.is_completed()

    @property
    def is_terminated(self) -> bool:
        """Whether an end-of-generation token was accepted; nothing is from then on."""
        return self._native.is_terminated()

    def forced_tokens(self) -> list[int]:
        """The tokens that must come next: as long as exactly one is allowed at each step."""
        return list(self._native.forced_tokens())

    def rollback(self, count: int = 1) -> None:
        """Takes back the last tokens and texts.

        Raises:
            ValueError: More than were accepted.
        """
        self._native.rollback(checked_int("rollback", count, 0, 2**31 - 1))

    def fork(self) -> GrammarMatcher:
        """A matcher that goes on from here by itself."""
        other = GrammarMatcher.__new__(GrammarMatcher)
        other._grammar = self._grammar
        other._native = self._native.fork()
        return other

    def reset(self) -> None:
        """Starts again."""
        self._native.reset()


@dataclass(frozen=True)
class GrammarTriggers:
    """What makes a lazy grammar begin; before, any text goes and the grammar masks nothing.

    Each token that joins the text is looked at. A trigger token is itself the grammar's first. Words and
    patterns are looked for in the generated text, in this order: the grammar's text then begins where the
    word stands, or with the first group of the pattern that is not empty, or with the whole match.

    Args:
        tokens: Token ids. Default: none.
        words: Texts to look for. Default: none.
        patterns: Regular expressions of Python's `re`, searched for; one that begins with `^` and ends
            with `$` must match all of the text. Default: none.

    Raises:
        TypeError: Something else than ints and strings.
        ValueError: No trigger at all, an empty word, or a pattern that is none.
    """

    tokens: Iterable[int] = ()
    words: Sequence[str] = ()
    patterns: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", token_ids("grammar_triggers", self.tokens))
        for name in ("words", "patterns"):
            values = getattr(self, name)
            is_many = isinstance(values, Iterable) and not isinstance(values, str)
            if not is_many or not all(isinstance(value, str) for value in values):
                raise TypeError(f"[{name}] Expected strings, got {values!r}.")
            if not all(values):
                raise ValueError(f"[{name}] Expected text to look for, got an empty string.")
            object.__setattr__(self, name, tuple(values))
        if not (self.tokens or self.words or self.patterns):
            raise ValueError("[grammar_triggers] Expected a token, word or pattern, got none.")
        _searches(self.words, self.patterns)

    def finder(self) -> Callable[[bytes], int | None] | None:
        """Where in a text the grammar begins, in bytes; None where no words or patterns are."""
        searches = _searches(self.words, self.patterns)
        if not searches:
            return None

        def find(seen: bytes) -> int | None:
            # A token may end within a character, which then stays apart from every pattern.
            text = seen.decode("utf-8", "surrogateescape")
            for search in searches:
                found = search(text)
                if found is not None:
                    groups = range(1, (found.re.groups or 0) + 1)
                    group = next((g for g in groups if found[g]), 0)
                    return len(text[: found.start(group)].encode("utf-8", "surrogateescape"))
            return None

        return find


def _searches(
    words: Sequence[str], patterns: Sequence[str]
) -> list[Callable[[str], re.Match[str] | None]]:
    searches: list[Callable[[str], re.Match[str] | None]] = [
        re.compile(re.escape(word)).search for word in words
    ]
    for pattern in patterns:
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ValueError(
                f"[patterns] Expected a regular expression, got {pattern!r}: {error}."
            ) from None
        whole = pattern.startswith("^") and pattern.endswith("$")
        searches.append(compiled.fullmatch if whole else compiled.search)
    return searches
