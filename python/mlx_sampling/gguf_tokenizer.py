"""A `transformers` tokenizer, and the ids that end a generation, from a GGUF file's metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mlx_sampling._gguf_layout import quote

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from mlx_sampling.gguf import GgufFile

_LISTS = {"tokens": str, "merges": str, "token_type": int}  # tokenizer.ggml.*: element type
_CONTROL, _USER_DEFINED = 3, 4  # tokenizer.ggml.token_type


# Tokens that end a generation whatever the metadata says, and those of them that do not where the
# vocabulary has certain others.
_END_TEXTS = frozenset({
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<｜end▁of▁sentence｜>", "[e~[",
})  # fmt: skip
_NO_ENDS = {
    "<|end|>": [
        {first, second}
        for first in ("<|call|>", "<|calls|>")
        for second in ("<|return|>", "<|flush|>")
    ],
    "</s>": [{"<|tool_response>"}],
}


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
    tokens, merges, types = read_bpe(metadata)
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
    """Returns the ids that end a generation, ascending; see `end_token_ids`.

    Raises:
        ValueError: The metadata names an id outside the vocabulary.
    """
    read_bpe(gguf.metadata)
    return end_token_ids(gguf.metadata)


def end_token_ids(metadata: Mapping[str, Any]) -> list[int]:
    """Returns the ids that end a generation, ascending.

    Those that the metadata names (`eos`, `eot`, `eom`), and the tokens that llama.cpp knows by their text:
    a model tuned for chat still ends plain text with another than its `eos`. llama.cpp counts some of
    fill-in-the-middle too (`<reponame>`); they are not here.

    Args:
        metadata: A GGUF file's, with a list "tokenizer.ggml.tokens".

    Raises:
        ValueError: The metadata names an id outside the vocabulary.
    """
    tokens = metadata["tokenizer.ggml.tokens"]
    keys = (f"tokenizer.ggml.{kind}_token_id" for kind in ("eos", "eot", "eom"))
    named = (_token_id(metadata, key, len(tokens)) for key in keys)
    ids = {token for token in named if token is not None}
    by_text = {text: i for i, text in enumerate(tokens) if text in _END_TEXTS}
    for text, others in _NO_ENDS.items():
        if any(by_text.keys() >= together for together in others):
            by_text.pop(text, None)
    return sorted(ids.union(by_text.values()))


def check_tokenizer_types(metadata: dict[str, Any]) -> None:
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
        raise ValueError(f'[gguf] Expected a str "tokenizer.chat_template", got {quote(template)}.')


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


def read_bpe(
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
                f'[gguf] Expected "tokenizer.ggml.{key}" {quote(expected)}, got {quote(value)}.'
            )
    check_tokenizer_types(metadata)
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


def _token_id(metadata: Mapping[str, Any], key: str, vocab_size: int) -> int | None:
    token_id = metadata.get(key)
    if token_id is not None and not (type(token_id) is int and 0 <= token_id < vocab_size):
        raise ValueError(f'[gguf] Expected "{key}" in [0, {vocab_size}), got {quote(token_id)}.')
    return token_id
