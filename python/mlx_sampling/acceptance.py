"""What became of a run's drafts, in figures; and how many to draft next.

Nothing here samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mlx_sampling._fields import number
from mlx_sampling.errors import AcceptanceError

__all__ = ["AdaptiveLength", "PositionFigures", "SpeculativeFigures"]

# The floor for a pair of models that is to count as qualified.
QUALIFIED = 0.95


@dataclass
class PositionFigures:
    """The drafts at one position of a pass.

    Attributes:
        proposed: Drafts that the target saw at it.
        judged: Those of them whose turn came: every draft before them was accepted, and the run went on.
        accepted: Those that were handed out.
    """

    proposed: int = 0
    judged: int = 0
    accepted: int = 0


@dataclass
class SpeculativeFigures:
    """Counts of a run, complete after each token.

    Attributes:
        tokens: Handed out.
        target_passes: Forward passes of the target that tokens came from; the prompt's is one.
        positions: Per position of a draft, from the first.
    """

    tokens: int = 0
    target_passes: int = 0
    positions: list[PositionFigures] = field(default_factory=list)

    def add_pass(self, drafted: int) -> None:
        """Counts a pass of the target over a draft of so many tokens."""
        self.target_passes += 1
        while len(self.positions) < drafted:
            self.positions.append(PositionFigures())
        for position in self.positions[:drafted]:
            position.proposed += 1

    def add_token(self, at: int, drafted: int, kept: bool) -> None:
        """Counts a token handed out at place `at` of a pass over a draft of `drafted` tokens."""
        self.tokens += 1
        if at < drafted:
            self.positions[at].judged += 1
            self.positions[at].accepted += int(kept)

    @property
    def proposed(self) -> int:
        """Draft tokens that the target saw."""
        return sum(position.proposed for position in self.positions)

    @property
    def accepted(self) -> int:
        """Draft tokens that were handed out."""
        return sum(position.accepted for position in self.positions)

    @property
    def acceptance(self) -> float:
        """Accepted of proposed; 0 where none was proposed."""
        return self.accepted / self.proposed if self.proposed else 0.0

    @property
    def tokens_per_pass(self) -> float:
        """Tokens per forward pass of the target; 0 before the first."""
        return self.tokens / self.target_passes if self.target_passes else 0.0

    def check_acceptance(self, floor: float = QUALIFIED) -> None:
        """Checks that enough of the proposed drafts were accepted.

        Args:
            floor: Least share accepted, in [0, 1]. Default: 0.95.

        Raises:
            AcceptanceError: A smaller share, or nothing was proposed.
            TypeError, ValueError: `floor` is no number in [0, 1].
        """
        least = number(0, 1)("floor", floor)
        if not self.proposed:
            raise AcceptanceError(
                f"[acceptance] Expected at least {least:g} of the drafts accepted, got no drafts."
            )
        if self.acceptance < least:
            raise AcceptanceError(
                f"[acceptance] Expected at least {least:g} of the drafts accepted, got "
                f"{self.acceptance:.3f} ({self.accepted} of {self.proposed})."
            )

    def as_dict(self) -> dict[str, object]:
        """The figures as JSON has them."""
        return {
            "tokens": self.tokens,
            "target_passes": self.target_passes,
            "tokens_per_pass": self.tokens_per_pass,
            "proposed": self.proposed,
            "accepted": self.accepted,
            "acceptance": self.acceptance,
            "positions": [vars(position) for position in self.positions],
        }

    def __str__(self) -> str:
        if not self.proposed:
            return f"no drafts, {self.tokens_per_pass:.2f} tokens per target pass"
        shares = "/".join(
            f"{100 * p.accepted / p.proposed:.0f}" for p in self.positions if p.proposed
        )
        return (
            f"{self.accepted} of {self.proposed} drafts accepted ({100 * self.acceptance:.1f} %; "
            f"by position {shares} %), {self.tokens_per_pass:.2f} tokens per target pass"
        )


class AdaptiveLength:
    """How many tokens to draft: as far as the last one is worth its cost at the running acceptance rate.

    The rate is that of judged drafts, each pass counting 0.9 of the one after it, from one kept and one
    rejected before the first. The length is the greatest whose last draft still has a chance of at least
    `worth` of being reached and kept: rate ** length >= worth.

    It looks back on what was accepted and never on the drafts to come, so the law of the tokens stays.

    Args:
        greatest: Most tokens to draft, >= 1.
        on: Whether to adapt at all; else the length is always `greatest`.
        worth: See above, in (0, 1). Default: 0.3.
    """

    _DECAY = 0.9

    def __init__(self, greatest: int, on: bool, worth: float = 0.3):
        self._greatest = greatest
        self._on = on
        self._log_worth = math.log(worth)
        self._kept = 1.0
        self._rejected = 1.0

    def add_pass(self, kept: int, rejected: bool) -> None:
        """Takes in a pass: how many drafts were kept, and whether one was rejected after them."""
        self._kept = self._DECAY * self._kept + kept
        self._rejected = self._DECAY * self._rejected + rejected

    @property
    def length(self) -> int:
        """In [1, greatest]."""
        if not self._on:
            return self._greatest
        rate = self._kept / (self._kept + self._rejected)
        if rate >= 1:
            return self._greatest
        if rate <= 0:
            return 1
        return min(self._greatest, max(1, math.floor(self._log_worth / math.log(rate))))
