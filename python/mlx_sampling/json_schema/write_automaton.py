"""Automata as grammar rules, one per state; the rules that are used once are put in place later."""

from __future__ import annotations

from collections.abc import Callable

from mlx_sampling.json_schema.automaton import Automaton
from mlx_sampling.json_schema.codepoints import CodePoints, unite
from mlx_sampling.json_schema.gbnf import NEVER, Expr, Grammar, alt, ref, repeat, seq

__all__ = ["automaton_expr"]


def automaton_expr(
    grammar: Grammar,
    automaton: Automaton,
    spell: Callable[[CodePoints], Expr],
    end: Expr,
    hint: str,
) -> Expr:
    """What an automaton accepts, each code point as `spell` writes it, with `end` after it."""
    if automaton.is_empty():
        return NEVER
    names = [grammar.fresh(hint) for _ in automaton.edges]
    for state, row in enumerate(automaton.edges):
        targets: dict[int, list[tuple[int, int]]] = {}
        for first, last, target in row:
            targets.setdefault(target, []).append((first, last))
        loop = spell(unite(targets.pop(state, [])))
        parts = [seq(spell(unite(ranges)), ref(names[t])) for t, ranges in targets.items()]
        if automaton.accepting[state]:
            parts.append(end)
        grammar.define(names[state], seq(repeat(loop, 0, None), alt(*parts)))
    return ref(names[0])
