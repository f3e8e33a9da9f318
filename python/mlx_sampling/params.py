"""What a request asks of the sampler, checked once.

Here: the parameters and their plain-data forms. Not here: what they do (see `chain` and `sampler`),
and the checks of single values (see `_fields`).
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mlx_sampling import _fields
from mlx_sampling._fields import Bias, checked_int, token_ids
from mlx_sampling.sampler_names import DEFAULT_ORDER, sampler_order

__all__ = ["SamplingParams", "checked_int", "token_ids"]

_INT32 = (-(2**31), 2**31 - 1)
_NO_TEXT = "-inf"  # what JSON has no number for


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """A request's sampling parameters, with llama.cpp's defaults (`common_params_sampling`).

    Numbers are rounded to float32 where they are used. A sampler that its parameter switches off, or
    that `samplers` leaves out, does nothing, as in llama.cpp. Instances compare, hash and cannot be
    changed; `dataclasses.replace` makes a variant.

    Args:
        temperature: >= 0. Upstream: `temp`. 0 means greedy: the lowest id among the maxima after
            bias, penalties and dry; nothing is drawn, and truncation and xtc are skipped.
            Default: 0.8.
        top_k: Keeps the k greatest logits; <= 0 is off, more than there are keeps all. Default: 40.
        top_p: In [0, 1]. Keeps the most probable tokens that reach it; 1 is off, 0 keeps one.
            Default: 0.95.
        min_p: In [0, 1]. Keeps tokens of at least this share of the greatest probability; 0 is off.
            Default: 0.05.
        typical_p: In [0, 1]. Upstream: `typ_p`. 1 is off. Default: 1.0.
        top_n_sigma: Masks logits more than n deviations below the greatest; <= 0 is off.
            Default: -1.0.
        xtc_probability: In [0, 1]. Chance of dropping the top choices; 0 is off. Default: 0.0.
        xtc_threshold: In [0, 1]. What a top choice has at least; above 0.5 is off. Default: 0.1.
        repeat_penalty: > 0. Upstream: `penalty_repeat`. 1 is off. Default: 1.0.
        frequency_penalty: Upstream: `penalty_freq`. Default: 0.0.
        presence_penalty: Upstream: `penalty_present`. Default: 0.0.
        repeat_last_n: Tokens that the three penalties look back on. Upstream: `penalty_last_n`.
            <= 0 is off. Default: 64.
        dry_multiplier: >= 0; 0 is off. Default: 0.0.
        dry_base: >= 0; below 1 is off. Default: 1.75.
        dry_allowed_length: >= 0. Longest repetition that costs nothing. Default: 2.
        dry_penalty_last_n: Tokens that dry looks back on; <= 0 is off. Default: 64.
        dry_sequence_breakers: Texts that a repetition does not reach across; () for none. Others
            need the vocabulary's texts. Default: "\\n", ":", "\\"", "*".
        dynatemp_range: >= 0. How far the temperature follows the entropy; 0 is off. Default: 0.0.
        dynatemp_exponent: Default: 1.0.
        mirostat: 1 or 2 replaces the chain after `logit_bias` by temperature and mirostat, as
            upstream: penalties and all of `samplers` are skipped. 0 is off. Default: 0.
        mirostat_tau: >= 0. The surprise aimed at, in bits. Default: 5.0.
        mirostat_eta: >= 0. Learning rate. Default: 0.1.
        adaptive_target: <= 1. The probability aimed at by "adaptive_p", which `samplers` must
            name; below 0 it only draws. Default: -1.0.
        adaptive_decay: In [0, 0.99]. Default: 0.9.
        min_keep: >= 0. Tokens that typical_p, top_p, min_p and xtc keep at least. Default: 0.
        logit_bias: Token id -> what is added to its logit; -inf forbids it. Default: none.
        seed: int in [0, 2**32 - 2], or None for a fresh one, which `Sampler.seed` reports.
            Upstream: 2**32 - 1 stands for a fresh one. Default: None.
        ignore_eos: Whether end-of-generation tokens are never picked. Default: False.
        samplers: Samplers in order: names in llama.cpp's spellings ("top_k", "top-k", "topk",
            "nucleus"), the same joined by ";", or a string of its letters. "adaptive_p" picks in
            place of the final draw, wherever it stands. Default: penalties, dry, top_n_sigma,
            top_k, typical_p, top_p, min_p, xtc, temperature ("edskypmxt").
        reference: "libc++" or "libstdc++": whose llama.cpp build gives the same tokens, ties and
            draws. Default: "libc++".

    Raises:
        TypeError: A parameter of the wrong type (a bool or a str is no number).
        ValueError: A value out of range; mirostat, adaptive_p or infill at temperature 0;
            adaptive_target >= 0 without "adaptive_p" in `samplers`.

    Example:
        >>> from mlx_sampling import SamplingParams
        >>> params = SamplingParams(temperature=0.5, samplers="kt", seed=7)
        >>> params.samplers, params.top_k
        (('top_k', 'temperature'), 40)
        >>> SamplingParams.from_json(params.to_json()) == params
        True
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repeat_last_n: int = 64
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: Sequence[str] = ("\n", ":", '"', "*")
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    min_keep: int = 0
    logit_bias: Mapping[int, float] = field(default_factory=lambda: Bias({}))
    seed: int | None = None
    ignore_eos: bool = False
    samplers: Sequence[str] | str = DEFAULT_ORDER
    reference: Literal["libc++", "libstdc++"] = "libc++"

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        self._check_together()

    def _check_together(self) -> None:
        adaptive = "adaptive_p" in self.samplers
        if self.temperature == 0:
            drawing = {
                "mirostat": self.mirostat != 0,
                "adaptive_p": adaptive or self.adaptive_target >= 0,
            }
            for name, on in drawing.items():
                if on:
                    raise ValueError(
                        f"[{name}] Expected a temperature > 0, got 0: a greedy request draws nothing."
                    )
            if "infill" in self.samplers:
                raise ValueError(
                    "[infill] Expected a temperature > 0, got 0: a greedy request skips it."
                )
        if self.adaptive_target >= 0 and not adaptive:
            raise ValueError(
                '[adaptive_target] Expected "adaptive_p" among samplers, got a target of '
                f"{self.adaptive_target:g} without it: it would change nothing."
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns the parameters as plain data that `from_dict` takes back."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        plain = {"logit_bias": dict, "samplers": list, "dry_sequence_breakers": list}
        return {name: plain.get(name, lambda v: v)(value) for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SamplingParams:
        """Builds parameters from `to_dict`'s form; missing ones take their defaults.

        Args:
            values: Parameter name -> value.

        Raises:
            TypeError: `values` is no mapping, or a parameter has the wrong type.
            ValueError: An unknown name, or a value out of range.
        """
        if not isinstance(values, Mapping):
            raise TypeError(f"[SamplingParams] Expected a mapping, got {type(values).__name__}.")
        known = [f.name for f in dataclasses.fields(cls)]
        unknown = [str(name) for name in values if name not in known]
        if unknown:
            raise ValueError(
                f"[SamplingParams] Expected names of {', '.join(known)}, got {', '.join(unknown)}."
            )
        return cls(**values)

    def to_json(self) -> str:
        """Returns the parameters as one JSON object; a bias of -inf is the string "-inf"."""
        values = self.to_dict()
        values["logit_bias"] = {
            str(token): _NO_TEXT if bias == -math.inf else bias
            for token, bias in values["logit_bias"].items()
        }
        return json.dumps(values, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> SamplingParams:
        """Builds parameters from `to_json`'s form; missing ones take their defaults.

        Args:
            text: A JSON object.

        Raises:
            TypeError: The text is no object, or a parameter has the wrong type.
            ValueError: The text is no JSON or names something twice, an unknown name, or a value
                out of range.
        """
        values = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
        if isinstance(values, dict) and isinstance(values.get("logit_bias"), dict):
            values["logit_bias"] = {
                _id_of(token): -math.inf if bias == _NO_TEXT else bias
                for token, bias in values["logit_bias"].items()
            }
        return cls.from_dict(values)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"[SamplingParams] Expected each name once, got {twice} twice.")
    return values


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"[SamplingParams] Expected JSON, got {constant}, which it does not have.")


def _id_of(token: str) -> int:
    if not (token.isascii() and token.isdigit() and len(token) < 20 and str(int(token)) == token):
        raise ValueError(f'[logit_bias] Expected token ids, got "{token}".')
    return int(token)


def _optional_seed(name: str, value: Any) -> int | None:
    return None if value is None else checked_int(name, value, 0, 2**32 - 2)


_CHECKS: dict[str, _fields.Check] = {
    "temperature": _fields.number(0, tiny=False),
    "top_k": _fields.integer(*_INT32),
    "top_p": _fields.number(0, 1),
    "min_p": _fields.number(0, 1),
    "typical_p": _fields.number(0, 1),
    "top_n_sigma": _fields.number(),
    "xtc_probability": _fields.number(0, 1),
    "xtc_threshold": _fields.number(0, 1),
    "repeat_penalty": _fields.repeat_penalty,
    "frequency_penalty": _fields.number(),
    "presence_penalty": _fields.number(),
    "repeat_last_n": _fields.integer(*_INT32),
    "dry_multiplier": _fields.number(0),
    "dry_base": _fields.number(0),
    "dry_allowed_length": _fields.integer(0, _INT32[1]),
    "dry_penalty_last_n": _fields.integer(*_INT32),
    "dry_sequence_breakers": _fields.texts,
    "dynatemp_range": _fields.number(0),
    "dynatemp_exponent": _fields.number(),
    "mirostat": _fields.integer(0, 2),
    "mirostat_tau": _fields.number(0),
    "mirostat_eta": _fields.number(0),
    "adaptive_target": _fields.number(greatest=1),
    "adaptive_decay": _fields.number(0, 0.99),
    "min_keep": _fields.integer(0, _INT32[1]),
    "logit_bias": _fields.bias,
    "seed": _optional_seed,
    "ignore_eos": _fields.boolean,
    "samplers": sampler_order,
    "reference": _fields.choice("libc++", "libstdc++"),
}
