"""Which of the two read-back routes a request takes, as a pure function of what it asks for.

Route A brings each step's full row of logits to the host. Route B keeps the token on the device and
reads back 4 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlx_sampling.chain import dry_is_on, penalties_are_on
from mlx_sampling.params import SamplingParams

TOKEN_BYTES = 4
LOGIT_BYTES = 4


@dataclass(frozen=True)
class RouteDecision:
    """The route of a request.

    Attributes:
        route: "A" (the full row comes back) or "B" (the token stays on the device).
        greedy: Whether the pick is the first maximum. Route B always is.
        reason: Why, in words.
    """

    route: Literal["A", "B"]
    greedy: bool
    reason: str

    def readback_bytes(self, width: int) -> int:
        """Bytes read back per token: 4 on route B, a float32 row of `width` logits on route A."""
        return TOKEN_BYTES if self.route == "B" else LOGIT_BYTES * width


def choose_route(
    *,
    temperature: float,
    logit_bias: bool = False,
    penalties: bool = False,
    dry: bool = False,
    logprobs: bool = False,
    snapshot: bool = False,
    mirostat: bool = False,
    adaptive_p: bool = False,
    speculative: bool = False,
    grammar: bool = False,
    ignore_eos: bool = False,
) -> RouteDecision:
    """Chooses the read-back route.

    Args:
        temperature: Finite, >= 0; 0 is greedy.
        logit_bias: Whether the request biases logits.
        penalties: Whether it has repeat, frequency or presence penalties.
        dry: Whether it has a DRY penalty.
        logprobs: Whether it asks for log probabilities.
        snapshot: Whether the session keeps its last row, so that it can be saved and resumed.
        mirostat: Whether mirostat picks the token.
        adaptive_p: Whether adaptive_p picks the token.
        speculative: Whether drafts are verified. Greedy ones compare winners; sampled ones need rows.
        grammar: Whether a grammar constrains the tokens.
        ignore_eos: Whether end-of-generation tokens are excluded, which the kernel does.

    Returns:
        The decision, with its reason.

    Raises:
        TypeError: A temperature that is no number.
        ValueError: A temperature out of range, or mirostat or adaptive_p with temperature 0.

    Example:
        >>> choose_route(temperature=0.0, ignore_eos=True).route
        'B'
        >>> choose_route(temperature=0.8).route
        'A'
    """
    temperature = SamplingParams(temperature=temperature).temperature
    drawing = [name for name, on in (("mirostat", mirostat), ("adaptive_p", adaptive_p)) if on]
    if temperature > 0:
        what = drawing or (["speculative sampling"] if speculative else [])
        why = f"temperature {temperature:g}" + "".join(f" with {name}" for name in what)
        return RouteDecision("A", False, f"{why} draws from the full row")
    if drawing:
        raise ValueError(
            f"[{drawing[0]}] Expected a temperature > 0, got 0: a greedy request draws nothing."
        )
    row_users = [
        name
        for name, on in (
            ("logit_bias", logit_bias),
            ("penalties", penalties),
            ("dry", dry),
            ("logprobs", logprobs),
            ("a session snapshot", snapshot),
            ("drafts under a grammar", speculative and grammar),
        )
        if on
    ]
    if row_users:
        return RouteDecision(
            "A",
            True,
            f"greedy, but the full row is needed on the host for {' and '.join(row_users)}",
        )
    if grammar:
        return RouteDecision(
            "B",
            True,
            "greedy under a grammar: the winner is checked on the host, a refused one is picked "
            "again on the device under the bitmask",
        )
    extra = " over drafts, compared on the device" if speculative else ""
    extra += ", end-of-generation tokens excluded in the kernel" if ignore_eos else ""
    return RouteDecision("B", True, f"pure greedy{extra}: only the winner is needed")


def route_for(
    params: SamplingParams,
    *,
    logprobs: bool = False,
    snapshot: bool = False,
    speculative: bool = False,
    grammar: bool = False,
) -> RouteDecision:
    """Chooses the read-back route of a request: `choose_route` with what its parameters ask for.

    Args:
        params: The request's parameters. What they switch off, or `samplers` leaves out, does not
            count.
        logprobs: As in `choose_route`; so are the other flags.
        snapshot: See `choose_route`.
        speculative: See `choose_route`.
        grammar: See `choose_route`.

    Returns:
        The decision, with its reason.

    Raises:
        TypeError: `params` is no SamplingParams.

    Example:
        >>> from mlx_sampling import SamplingParams
        >>> route_for(SamplingParams(temperature=0)).route
        'B'
        >>> route_for(SamplingParams(temperature=0, repeat_penalty=1.1)).route
        'A'
    """
    if not isinstance(params, SamplingParams):
        raise TypeError(f"[route_for] Expected SamplingParams, got {type(params).__name__}.")
    return choose_route(
        temperature=params.temperature,
        logit_bias=bool(params.logit_bias),
        penalties=penalties_are_on(params),
        dry=dry_is_on(params),
        logprobs=logprobs,
        snapshot=snapshot,
        mirostat=params.mirostat != 0,
        adaptive_p="adaptive_p" in params.samplers and params.mirostat == 0,
        speculative=speculative,
        grammar=grammar,
        ignore_eos=params.ignore_eos,
    )
