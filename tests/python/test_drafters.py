"""Drafters by themselves, and the figures of acceptance."""

import pytest

from mlx_sampling import LookupDrafter
from mlx_sampling.acceptance import AdaptiveLength, SpeculativeFigures
from mlx_sampling.drafters import Drafter
from mlx_sampling.errors import AcceptanceError


def looked_up(text, count, longest=3, shortest=1):
    """The slow way: the last place where the text's longest possible end stood before."""
    for size in range(min(longest, len(text)), shortest - 1, -1):
        for at in range(len(text) - 1, size - 1, -1):
            if text[at - size : at] == text[-size:]:
                return text[at : at + count]
    return []


@pytest.mark.parametrize(("longest", "shortest"), [(3, 1), (1, 1), (5, 2), (8, 8)])
@pytest.mark.parametrize("kinds", [2, 4, 30])
def test_lookup_is_the_slow_one(longest, shortest, kinds):
    import random

    rng = random.Random(kinds)
    text = [rng.randrange(kinds) for _ in range(20)]
    drafter = LookupDrafter(longest, shortest)
    drafter.begin(list(text), None, ())
    for _ in range(150):
        new = [rng.randrange(kinds) for _ in range(rng.randrange(1, 5))]
        text += new
        count = rng.randrange(0, 6)
        assert drafter.propose(new, count).tokens == looked_up(text, count, longest, shortest)


def test_a_drafter_starts_again():
    drafter = LookupDrafter()
    drafter.begin([1, 2, 3], None, ())
    drafter.begin([7, 1], None, ())
    assert drafter.propose([2], 3).tokens == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"longest": 0}, r"^\[longest\] Expected an int >= 1, got 0"),
        ({"shortest": 4}, r"^\[shortest\] Expected an int in \[1, 3\], got 4"),
    ],
)
def test_bad_lengths(options, message):
    with pytest.raises(ValueError, match=message):
        LookupDrafter(**options)


def test_the_base_says_what_is_missing():
    class Silent(Drafter):
        """Proposes nothing, since it does not say how."""

    for kind in (Drafter, Silent):
        with pytest.raises(TypeError, match="propose"):
            kind()


def test_figures():
    figures = SpeculativeFigures()
    assert (figures.acceptance, figures.tokens_per_pass) == (0, 0)
    assert str(figures) == "no drafts, 0.00 tokens per target pass"
    with pytest.raises(AcceptanceError, match="got no drafts"):
        figures.check_acceptance(0)
    figures.add_pass(0)
    figures.add_token(0, 0, False)
    figures.add_pass(3)
    for at, kept in enumerate((True, True, False)):
        figures.add_token(at, 3, kept)
    assert (figures.tokens, figures.target_passes, figures.tokens_per_pass) == (4, 2, 2)
    assert (figures.proposed, figures.accepted) == (3, 2)
    assert str(figures) == (
        "2 of 3 drafts accepted (66.7 %; by position 100/100/0 %), 2.00 tokens per target pass"
    )
    assert figures.as_dict()["positions"][2] == {"proposed": 1, "judged": 1, "accepted": 0}
    figures.check_acceptance(0.66)
    with pytest.raises(AcceptanceError, match=r"got 0\.667 \(2 of 3\)"):
        figures.check_acceptance(0.67)
    with pytest.raises(ValueError, match=r"^\[floor\]"):
        figures.check_acceptance(1.5)


def test_adaptive_length():
    assert AdaptiveLength(8, on=False).length == 8
    length = AdaptiveLength(8, on=True)
    assert length.length == 1  # a half to begin with: 0.5 ** 2 < 0.3
    for _ in range(40):
        length.add_pass(length.length, rejected=False)
    assert length.length == 8
    for _ in range(40):
        length.add_pass(0, rejected=True)
    assert length.length == 1
    for _ in range(60):
        length.add_pass(3, rejected=True)
    assert length.length == 4  # 0.75 ** 4 = 0.316
