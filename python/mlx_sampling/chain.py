"""From a request's parameters to the compiled stages of its chain, as llama.cpp's `common_sampler_init`.

Here: which stages, in which order, with which arguments. Not here: what a stage does (`csrc/core/samplers`),
and the request's state (`sampler`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from mlx_sampling import _ext
from mlx_sampling._ext import Stage
from mlx_sampling.params import SamplingParams
from mlx_sampling.vocabulary import Tokenize, Vocabulary

__all__ = ["stages_of"]

_GREEDY_STAGES = ("penalties", "dry")
_MIROSTAT_M = 100


def stages_of(
    params: SamplingParams, vocabulary: Vocabulary, excluded: Iterable[int] = ()
) -> list[Stage]:
    """The stages of a request's chain, the last of which picks the token.

    As upstream: bias first, then `params.samplers` in order, then the draw (or adaptive_p's). Stages
    that are off are left out. Mirostat takes the place of all between bias and draw. Temperature 0 is
    bias, penalties and dry, then the first maximum: upstream has no such chain.

    Args:
        params: The request's parameters.
        vocabulary: What is known of the model's tokens.
        excluded: Ids that are never picked. Default: none.

    Raises:
        TypeError: Ids or texts of the wrong type.
        ValueError: An id out of range; what the parameters need of the vocabulary is not known.
    """
    biases = _biases(params, vocabulary, excluded)
    stages: list[Stage] = [_ext.LogitBias(biases)] if biases else []
    if params.mirostat:
        return [*stages, _ext.Temperature(params.temperature), _mirostat(params, vocabulary)]
    greedy = params.temperature == 0
    for name in params.samplers:
        if not greedy or name in _GREEDY_STAGES:
            stages += _STAGES[name](params, vocabulary)
    if greedy:
        return [*stages, _ext.Greedy()]
    if "adaptive_p" in params.samplers:
        return [*stages, _ext.AdaptiveP(params.adaptive_target, params.adaptive_decay)]
    return [*stages, _ext.Dist()]


def _biases(
    params: SamplingParams, vocabulary: Vocabulary, excluded: Iterable[int]
) -> list[tuple[int, float]]:
    vocabulary.checked("logit_bias", params.logit_bias)
    never = vocabulary.checked("excluded", excluded)
    if params.ignore_eos:
        ends = vocabulary.checked("eos_token_ids", vocabulary.eos_token_ids)
        if not ends:
            raise ValueError("[ignore_eos] Expected eos_token_ids to ignore, got none.")
        never = tuple(dict.fromkeys(ends + never))
    return [*params.logit_bias.items(), *((token, -math.inf) for token in never)]


def _mirostat(params: SamplingParams, vocabulary: Vocabulary) -> Stage:
    if params.mirostat == 2:
        return _ext.MirostatV2(params.mirostat_tau, params.mirostat_eta)
    if vocabulary.size is None:
        raise ValueError("[vocab_size] Expected the number of tokens for mirostat 1, got None.")
    return _ext.Mirostat(params.mirostat_tau, params.mirostat_eta, vocabulary.size, _MIROSTAT_M)


def penalties_are_on(params: SamplingParams) -> bool:
    """Whether penalties can change a logit."""
    amounts = (params.repeat_penalty, params.frequency_penalty, params.presence_penalty)
    return _runs(params, "penalties") and params.repeat_last_n > 0 and amounts != (1, 0, 0)


def dry_is_on(params: SamplingParams) -> bool:
    """Whether dry can change a logit."""
    on = params.dry_multiplier != 0 and params.dry_base >= 1 and params.dry_penalty_last_n > 0
    return _runs(params, "dry") and on


def xtc_is_on(params: SamplingParams) -> bool:
    """Whether xtc can drop a candidate."""
    on = params.xtc_probability > 0 and params.xtc_threshold <= 0.5
    return _runs(params, "xtc") and on and params.temperature > 0


def _runs(params: SamplingParams, name: str) -> bool:
    return name in params.samplers and not params.mirostat


def _penalties(p: SamplingParams, _: Vocabulary) -> list[Stage]:
    if not penalties_are_on(p):
        return []
    return [
        _ext.Penalties(p.repeat_last_n, p.repeat_penalty, p.frequency_penalty, p.presence_penalty)
    ]


def _dry(p: SamplingParams, vocabulary: Vocabulary) -> list[Stage]:
    if not dry_is_on(p):
        return []
    breakers = _breakers(p.dry_sequence_breakers, vocabulary)
    return [
        _ext.Dry(p.dry_multiplier, p.dry_base, p.dry_allowed_length, p.dry_penalty_last_n, breakers)
    ]


def _breakers(breakers: Sequence[str], vocabulary: Vocabulary) -> list[Sequence[int]]:
    if not breakers:
        return []
    texts = vocabulary.texts()
    if texts is None:
        raise ValueError(
            f"[dry_sequence_breakers] Expected token_texts to find {list(breakers)} among the tokens, "
            "got none: give them, or dry_sequence_breakers=() for dry without breakers."
        )
    sequences: list[Sequence[int]] = []
    for breaker in breakers:
        sequences += _ext.dry_breakers(texts, breaker.encode(), _rest_of(breaker, vocabulary))
    return sequences


def _rest_of(breaker: str, vocabulary: Vocabulary) -> Tokenize:
    if vocabulary.tokenize is not None:
        return vocabulary.tokenize

    def refuse(rest: bytes) -> Sequence[int]:
        raise ValueError(
            f"[dry_sequence_breakers] Expected tokenize for the rest {rest!r} of {breaker!r}, which a "
            "token ends in the middle of, got None."
        )

    return refuse


def _infill(_: SamplingParams, vocabulary: Vocabulary) -> list[Stage]:
    texts = vocabulary.texts()
    ends = list(vocabulary.eos_token_ids)
    if texts is None or not ends:
        raise ValueError(
            "[infill] Expected token_texts and eos_token_ids, got one or none of them."
        )
    for token in ends:
        if token < len(texts):
            texts[token] = b""  # a text of an end is no text that others could begin with
    return [_ext.Infill(texts, ends, ends[0])]


def _if(on: bool, stage: Callable[[], Stage]) -> list[Stage]:
    return [stage()] if on else []


_STAGES: dict[str, Callable[[SamplingParams, Vocabulary], list[Stage]]] = {
    "penalties": _penalties,
    "dry": _dry,
    "infill": _infill,
    "top_n_sigma": lambda p, _: _if(p.top_n_sigma > 0, lambda: _ext.TopNSigma(p.top_n_sigma)),
    "top_k": lambda p, _: _if(p.top_k > 0, lambda: _ext.TopK(p.top_k)),
    "typical_p": lambda p, _: _if(p.typical_p < 1, lambda: _ext.TypicalP(p.typical_p, p.min_keep)),
    "top_p": lambda p, _: _if(p.top_p < 1, lambda: _ext.TopP(p.top_p, p.min_keep)),
    "min_p": lambda p, _: _if(p.min_p > 0, lambda: _ext.MinP(p.min_p, p.min_keep)),
    "xtc": lambda p, _: _if(
        xtc_is_on(p),
        lambda: _ext.Xtc(p.xtc_probability, p.xtc_threshold, p.min_keep),
    ),
    "temperature": lambda p, _: [
        _ext.DynamicTemperature(p.temperature, p.dynatemp_range, p.dynatemp_exponent)
    ],
    "adaptive_p": lambda p, _: [],  # picks, so it comes last: see stages_of
}
