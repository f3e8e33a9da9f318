"""Texts that a grammar has, and nearly has; and whether llama.cpp can be trusted with a grammar."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from grammar_oracle import Grammar, Node
from grammar_texts import ALPHABET

__all__ = ["derive", "mutate", "nullable_nodes", "recurs_on_the_left"]

Pieces = list[str | int]  # characters, and ids of tokens
_LONGEST = 80


def derive(
    grammar: Grammar, draw: random.Random, other_tokens: Sequence[int] = ()
) -> Pieces | None:
    """A random text of a grammar, as characters and tokens; None where it got too long.

    Args:
        grammar: Whose root is productive.
        draw: Where randomness comes from.
        other_tokens: Tokens to choose from where any but some may come.
    """
    pieces: Pieces = []
    budget = 400

    def write(node: Node, depth: int) -> bool:
        nonlocal budget
        budget -= 1
        if budget < 0 or len(pieces) > _LONGEST:
            return False
        if node.kind == "chars":
            pieces.append(_character(node, draw))
            return True
        if node.kind == "tokens":
            among = [t for t in other_tokens if t not in node.ids] if node.negated else node.ids
            pieces.append(draw.choice(sorted(among)))
            return True
        if node.kind == "rule":
            return write(grammar.rules[node.name], depth + 1)
        if node.kind == "sequence":
            return all(write(part, depth + 1) for part in node.parts)
        parts = [part for part in node.parts if grammar.is_productive(part)]
        if node.kind == "choice":
            flattest = min(parts, key=grammar.heights.__getitem__)
            return write(flattest if depth > 12 else draw.choice(parts), depth + 1)
        more = 0 if depth > 12 or not parts else draw.choice((0, 0, 1, 1, 2, 3))
        count = node.minimum + more
        if node.maximum is not None:
            count = min(count, node.maximum)
        return all(write(node.parts[0], depth + 1) for _ in range(count))

    return pieces if write(grammar.rules["root"], 0) else None


def _character(node: Node, draw: random.Random) -> str:
    fitting = [c for c in ALPHABET if node.has(ord(c))]
    if fitting and draw.random() < 0.8:
        return draw.choice(fitting)
    if not node.negated:
        first, last = draw.choice([r for r in node.ranges if r[0] <= r[1]])
        c = draw.choice((first, last, draw.randint(first, last)))
        return chr(first if 0xD800 <= c <= 0xDFFF else c)
    while True:  # nearly all characters are in a negated class
        c = draw.choice((draw.randint(1, 0x17F), draw.randint(0x800, 0xD7FF), 0x1F600, 0x10FFFF))
        if node.has(c):
            return chr(c)


def mutate(pieces: Pieces, draw: random.Random, alphabet: Sequence[str | int] = ALPHABET) -> Pieces:
    """The same with one piece put in, taken out, replaced or moved."""
    changed = list(pieces)
    at = draw.randrange(len(changed) + 1)
    kind = draw.choice(("insert", "delete", "replace", "swap"))
    if kind == "insert" or not changed or at == len(changed):
        changed.insert(at, draw.choice(alphabet))
    elif kind == "delete":
        del changed[at]
    elif kind == "replace":
        changed[at] = draw.choice(alphabet)
    else:
        changed[at], changed[at - 1] = changed[at - 1], changed[at]
    return changed


def nullable_nodes(grammar: Grammar) -> set[Node]:
    """The nodes that match the empty text."""
    found: set[Node] = set()
    while True:
        more = {node for node in grammar.nodes() if _is_nullable(node, grammar, found)} - found
        if not more:
            return found
        found |= more


def _is_nullable(node: Node, grammar: Grammar, known: set[Node]) -> bool:
    if node.kind == "rule":
        return grammar.rules[node.name] in known
    if node.kind == "sequence":
        return all(part in known for part in node.parts)
    if node.kind == "choice":
        return any(part in known for part in node.parts)
    return node.kind == "repeat" and (node.minimum == 0 or node.parts[0] in known)


def recurs_on_the_left(grammar: Grammar) -> bool:
    """Whether a rule can begin with itself, or something that may be empty is repeated without end."""
    nullable = nullable_nodes(grammar)

    def begins_with(node: Node) -> Iterable[str]:
        if node.kind == "rule":
            yield node.name
        for part in node.parts:
            yield from begins_with(part)
            if node.kind == "sequence" and part not in nullable:
                break

    begins = {name: set(begins_with(body)) for name, body in grammar.rules.items()}
    for _ in begins:
        begins = {
            name: others.union(*(begins[o] for o in others)) for name, others in begins.items()
        }
    endless = (n for n in grammar.nodes() if n.kind == "repeat" and n.maximum is None)
    return any(n in begins[n] for n in begins) or any(n.parts[0] in nullable for n in endless)
