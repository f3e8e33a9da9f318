"""The command line's options that have an answer drafted."""

from __future__ import annotations

import argparse
from typing import Any

from mlx_sampling.chain import xtc_is_on
from mlx_sampling.cli.models import load, prefill_step
from mlx_sampling.drafters import Drafter, LookupDrafter, ModelDrafter
from mlx_sampling.params import SamplingParams

_DRAFT_TOKENS = 4


def add(group: Any) -> None:
    """Who drafts, how much, and how much of it must be accepted."""
    group.add_argument(
        "--draft",
        choices=("lookup",),
        help="draft what followed the answer's last tokens earlier in the text",
    )
    group.add_argument(
        "--draft-model", metavar="MODEL", help="draft with this model, named as --model is"
    )
    group.add_argument(
        "--draft-tokens",
        type=int,
        metavar="K",
        help=f"most tokens to draft per pass (default: {_DRAFT_TOKENS})",
    )
    group.add_argument(
        "--adaptive-drafts", action="store_true", help="draft fewer while few are accepted"
    )
    group.add_argument(
        "--acceptance-floor",
        type=float,
        metavar="SHARE",
        help="an error after the answer unless that share of the drafts was accepted",
    )


def is_given(args: argparse.Namespace) -> bool:
    """Whether drafts are asked for."""
    return args.draft is not None or args.draft_model is not None


def check(args: argparse.Namespace, params: SamplingParams) -> None:
    """Refuses options that would have no effect, and requests that cannot be drafted for.

    Raises:
        ValueError: Two drafters, an option of drafts without a drafter, one out of range, or xtc.
    """
    speculative = is_given(args)
    if args.draft is not None and args.draft_model is not None:
        raise ValueError("[draft] Expected --draft or --draft-model, got both.")
    given = {
        "draft_tokens": args.draft_tokens is not None,
        "adaptive_drafts": args.adaptive_drafts,
        "acceptance_floor": args.acceptance_floor is not None,
    }
    for name, there in given.items():
        if there and not speculative:
            raise ValueError(f"[{name}] Expected --draft or --draft-model beside it, got neither.")
    if speculative and xtc_is_on(params):
        raise ValueError(
            "[xtc] Expected xtc off for speculative sampling, got it on: it draws before the token."
        )
    if args.draft_tokens is not None and args.draft_tokens < 1:
        raise ValueError(f"[draft_tokens] Expected an int >= 1, got {args.draft_tokens}.")
    if args.acceptance_floor is not None and not 0 <= args.acceptance_floor <= 1:
        raise ValueError(
            f"[acceptance_floor] Expected a value in [0, 1], got {args.acceptance_floor}."
        )


def length_of(args: argparse.Namespace) -> int:
    """Most tokens to draft per pass."""
    return _DRAFT_TOKENS if args.draft_tokens is None else args.draft_tokens


def drafter_of(args: argparse.Namespace, tokenizer: Any) -> Drafter | None:
    """Who drafts, if anybody.

    Raises:
        ValueError: The draft model does not load, or has other tokens than the model.
    """
    if args.draft == "lookup":
        return LookupDrafter()
    if args.draft_model is None:
        return None
    model, own = load(args.draft_model)
    if own.get_vocab() != tokenizer.get_vocab():
        raise ValueError(
            f"[draft_model] Expected the model's own tokens, got others from {args.draft_model}."
        )
    return ModelDrafter(model, prefill_step_size=prefill_step())
