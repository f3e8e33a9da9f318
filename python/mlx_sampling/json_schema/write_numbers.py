"""Numbers as grammar."""

from __future__ import annotations

from mlx_sampling.json_schema.gbnf import Expr, Grammar, alt, chars, lit, repeat, seq
from mlx_sampling.json_schema.numbers import NumberShape
from mlx_sampling.json_schema.values import number_text
from mlx_sampling.json_schema.write_automaton import automaton_expr

__all__ = ["number_expr"]

_DIGIT: Expr = chars(((48, 57),))
_WHOLE = seq(
    repeat(lit("-"), 0, 1),
    alt(lit("0"), seq(chars(((49, 57),)), repeat(_DIGIT, 0, None))),
)


def number_expr(grammar: Grammar, shape: NumberShape) -> Expr:
    """A number of a shape.

    Raises:
        TooLarge: It takes an automaton of too many states.
    """
    if shape.values is not None:
        return alt(*(lit(number_text(value)) for value in shape.values))
    if shape == NumberShape():
        fraction = seq(lit("."), repeat(_DIGIT, 1, None))
        # two digits of exponent: what has more is not held by every reader
        sign = repeat(chars(((43, 43), (45, 45))), 0, 1)
        exponent = seq(chars(((69, 69), (101, 101))), sign, repeat(_DIGIT, 1, 2))
        return seq(_WHOLE, repeat(fraction, 0, 1), repeat(exponent, 0, 1))
    if shape == NumberShape(whole=True):
        return grammar.shared("integer", "integer", lambda: _WHOLE)
    return automaton_expr(grammar, shape.automaton(), chars, lit(""), "digits")
