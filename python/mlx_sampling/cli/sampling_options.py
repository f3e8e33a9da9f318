"""The command line's options for SamplingParams, one per field."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from typing import Any, get_type_hints

from mlx_sampling.params import SamplingParams

# Fields that are options of their own, or that one word of the command line does not hold.
_OWN_OPTIONS = {
    "temperature",
    "seed",
    "ignore_eos",
    "samplers",
    "reference",
    "logit_bias",
    "dry_sequence_breakers",
}


def add(group: Any) -> None:
    """One option per field of SamplingParams, with its name and default."""
    kinds = get_type_hints(SamplingParams)
    for item in fields(SamplingParams):
        if item.name in _OWN_OPTIONS:
            continue
        kind = kinds[item.name] if kinds[item.name] in (int, float) else str
        group.add_argument(
            "--" + item.name.replace("_", "-"),
            dest=item.name,
            type=kind,
            help=f"default: {item.default}",
        )
    group.add_argument(
        "--samplers", help="samplers in order, by name joined by ';' or by llama.cpp's letters"
    )
    group.add_argument("--reference", help="libc++ (default) or libstdc++: whose ties and draws")
    group.add_argument(
        "--logit-bias", action="append", default=[], metavar="ID+BIAS", help="for example 15043-1.5"
    )
    group.add_argument(
        "--dry-sequence-breaker", action="append", metavar="TEXT", help="replaces the default ones"
    )


def params_of(args: argparse.Namespace) -> SamplingParams:
    """The parameters that a command line asks for.

    Raises:
        ValueError: One out of range, or an entry of --logit-bias that is none.
    """
    given = {
        item.name: getattr(args, item.name)
        for item in fields(SamplingParams)
        if item.name not in _OWN_OPTIONS and getattr(args, item.name) is not None
    }
    for name in ("samplers", "reference"):
        if getattr(args, name) is not None:
            given[name] = getattr(args, name)
    if args.dry_sequence_breaker is not None:
        given["dry_sequence_breakers"] = tuple(b for b in args.dry_sequence_breaker if b != "none")
    return SamplingParams(
        temperature=args.temp,
        seed=args.seed,
        ignore_eos=args.ignore_eos,
        logit_bias=dict(_bias(text) for text in args.logit_bias),
        **given,
    )


def _bias(text: str) -> tuple[int, float]:
    match = re.fullmatch(r"(\d+)([+-](?:\d+\.?\d*(?:e[+-]?\d+)?|inf))", text)
    if match is None:
        raise ValueError(f"[logit_bias] Expected ID+BIAS or ID-BIAS, got {text!r}.")
    return int(match[1]), float(match[2])
