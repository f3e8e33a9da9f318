"""What the command line asks of models: loading them, and a prompt in their tokens."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from mlx_sampling.decode import PREFILL_STEP

# Ctrl-C waits for the forward pass that runs: on a CPU, one of the usual size takes up to a minute, and the
# prefill as a whole is no slower in small ones.
_CPU_PREFILL_STEP = 128


class _Progress:
    """One line on stderr while weights load, cleared when done."""

    def __init__(self, on: bool):
        self._on = on

    def __call__(self, done: int, total: int) -> None:
        if self._on:
            end = "\r\033[K" if done >= total else ""
            sys.stderr.write(f"\rloading {100 * done // max(total, 1)} %{end}")
            sys.stderr.flush()


def load(name: str | None) -> tuple[Any, Any]:
    """The model and its tokenizer.

    Raises:
        ImportError: mlx-lm is missing.
        ValueError: The model does not load; the message names it and the cause, in one line.
    """
    try:
        from mlx_sampling import mlx_lm
    except ImportError as error:
        raise ImportError(
            f"generate runs mlx-lm models, and {error}; mend it with: pip install mlx-lm"
        ) from error
    try:
        return mlx_lm.load(name, progress=_Progress(sys.stderr is not None and sys.stderr.isatty()))
    except Exception as error:  # A damaged file makes the loaders raise errors of any kind.
        model = "the packaged model" if name is None else name
        raise ValueError(f"[model] Expected {model} to load, got {_cause(error)}") from error


def _cause(error: Exception) -> str:
    """An error in one line, with its type where the message has no tag."""
    message = " ".join(str(error).split())
    return message if message.startswith("[") else f"{type(error).__name__}: {message}"


def prefill_step() -> int:
    """Prompt tokens per forward pass, on this device."""
    return _CPU_PREFILL_STEP if mx.default_device().type == mx.DeviceType.cpu else PREFILL_STEP


def text_of(prompt: str) -> str:
    """The prompt as text, whatever the locale made of its bytes.

    Raises:
        ValueError: They are not UTF-8.
    """
    try:
        prompt.encode("utf-8")
        return prompt
    except UnicodeEncodeError:
        pass
    try:
        return os.fsencode(prompt).decode("utf-8")
    except UnicodeError:
        raise ValueError("[prompt] Expected text in UTF-8, got bytes that are not.") from None


def prompt_ids(tokenizer: Any, prompt: str) -> list[int]:
    """The prompt's token ids, through the model's chat template where it has one.

    Raises:
        ValueError: The template fails.
    """
    if getattr(tokenizer, "chat_template", None) is None:
        return list(tokenizer.encode(prompt))
    messages = [{"role": "user", "content": prompt}]
    try:
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    except Exception as error:  # A template is a program of the model's: it may fail in any way.
        raise ValueError(
            f"[chat_template] Expected the model's template to take a prompt, got {_cause(error)}"
        ) from error
    return list(ids)


def token_texts(tokenizer: Any) -> list[str]:
    """What the tokenizer shows for each token, by id."""
    return [tokenizer.decode([token]) for token in range(len(tokenizer.get_vocab()))]


def tokenizer_of_bytes(tokenizer: Any) -> Callable[[bytes], list[int]]:
    """bytes -> ids, without special tokens."""
    return lambda text: list(
        tokenizer.encode(text.decode("utf-8", "replace"), add_special_tokens=False)
    )
