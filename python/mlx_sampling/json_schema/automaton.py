"""Regular languages over code points as deterministic automata.

A state is a list of (first, last, target), ascending and disjoint; what no range holds leads nowhere.
Everything is built within a number of states, beyond which `TooLarge` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from mlx_sampling.json_schema.codepoints import ANY, LAST, CodePoints
from mlx_sampling.json_schema.regex import Tree

__all__ = [
    "Automaton",
    "TooLarge",
    "explore",
    "from_lengths",
    "from_regex",
    "from_words",
    "product",
]

STATES = 8000
_NFA_STATES = 60000


class TooLarge(Exception):
    """An automaton of more states than are allowed."""


class Automaton(NamedTuple):
    """State 0 starts. `accepting[s]`: a text may end in s."""

    edges: list[list[tuple[int, int, int]]]
    accepting: list[bool]

    def accepts(self, text: str) -> bool:
        state = 0
        for char in map(ord, text):
            for first, last, target in self.edges[state]:
                if first <= char <= last:
                    state = target
                    break
            else:
                return False
        return self.accepting[state]

    def is_empty(self) -> bool:
        return not any(self.accepting)

    def complement(self) -> Automaton:
        sink = len(self.edges)
        edges = [_filled(row, sink) for row in self.edges] + [[(0, LAST, sink)]]
        return trim(Automaton(edges, [not a for a in self.accepting] + [True]))


def _filled(row: list[tuple[int, int, int]], sink: int) -> list[tuple[int, int, int]]:
    result = []
    start = 0
    for first, last, target in row:
        if start < first:
            result.append((start, first - 1, sink))
        result.append((first, last, target))
        start = last + 1
    if start <= LAST:
        result.append((start, LAST, sink))
    return result


def explore(
    start: Hashable,
    moves: Callable[[Any], Iterable[tuple[int, int, Hashable]]],
    accepts: Callable[[Any], bool],
    limit: int = STATES,
) -> Automaton:
    """The automaton of everything reached from `start`; states may be any hashable values."""
    numbers = {start: 0}
    order = [start]
    edges: list[list[tuple[int, int, int]]] = []
    for state in order:
        row = []
        for first, last, target in moves(state):
            if target not in numbers:
                if len(order) >= limit:
                    raise TooLarge
                numbers[target] = len(order)
                order.append(target)
            row.append((first, last, numbers[target]))
        edges.append(row)
    return trim(Automaton(edges, [accepts(state) for state in order]))


def trim(automaton: Automaton) -> Automaton:
    """Without the states from which no text ends, or which none reaches; states that behave alike merged."""
    sources: list[list[int]] = [[] for _ in automaton.edges]
    for state, row in enumerate(automaton.edges):
        for _, _, target in row:
            sources[target].append(state)
    alive = [s for s, a in enumerate(automaton.accepting) if a]
    seen = set(alive)
    for state in alive:
        new = [s for s in sources[state] if s not in seen]
        seen.update(new)
        alive.extend(dict.fromkeys(new))
    if 0 not in seen:
        return Automaton([[]], [False])
    edges = [_merged(e for e in row if e[2] in seen) for row in automaton.edges]
    return _minimised(Automaton(edges, automaton.accepting))


def _merged(row: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    result: list[tuple[int, int, int]] = []
    for first, last, target in row:
        if result and result[-1][1] + 1 == first and result[-1][2] == target:
            result[-1] = (result[-1][0], last, target)
        else:
            result.append((first, last, target))
    return result


def _minimised(automaton: Automaton) -> Automaton:
    block = [int(a) for a in automaton.accepting]
    count = len(set(block))
    for _ in range(40):  # enough for short chains; a larger automaton is still a right one
        keys: dict[Hashable, int] = {}
        block = [
            keys.setdefault(
                (block[s], tuple(_merged((f, x, block[t]) for f, x, t in row))), len(keys)
            )
            for s, row in enumerate(automaton.edges)
        ]
        if len(keys) == count:
            break
        count = len(keys)
    else:
        block = list(range(len(block)))
    numbers = {block[0]: 0}
    order = [0]
    edges = []
    for state in order:
        row = []
        for first, last, target in automaton.edges[state]:
            if block[target] not in numbers:
                numbers[block[target]] = len(order)
                order.append(target)
            row.append((first, last, numbers[block[target]]))
        edges.append(_merged(row))
    return Automaton(edges, [automaton.accepting[s] for s in order])


def product(parts: Sequence[tuple[Automaton, bool]], limit: int = STATES) -> Automaton:
    """Texts that each automaton takes (True) or refuses (False)."""
    machines = [a if positive else a.complement() for a, positive in parts]
    result = machines[0]
    for other in machines[1:]:
        result = _intersection(result, other, limit)
    return result


def _intersection(a: Automaton, b: Automaton, limit: int) -> Automaton:
    def moves(state: tuple[int, int]) -> list[tuple[int, int, Hashable]]:
        left, right = a.edges[state[0]], b.edges[state[1]]
        found: list[tuple[int, int, Hashable]] = []
        i = j = 0
        while i < len(left) and j < len(right):
            first, last = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
            if first <= last:
                found.append((first, last, (left[i][2], right[j][2])))
            if left[i][1] < right[j][1]:
                i += 1
            else:
                j += 1
        return found

    return explore((0, 0), moves, lambda s: a.accepting[s[0]] and b.accepting[s[1]], limit)


def from_words(words: Iterable[str]) -> Automaton:
    """Exactly these texts."""
    nodes: list[dict[int, int]] = [{}]
    accepting = [False]
    for word in words:
        state = 0
        for char in map(ord, word):
            if char not in nodes[state]:
                nodes[state][char] = len(nodes)
                nodes.append({})
                accepting.append(False)
            state = nodes[state][char]
        accepting[state] = True
    edges = [[(c, c, t) for c, t in sorted(node.items())] for node in nodes]
    return Automaton(edges, accepting)


class _Nfa:
    """Thompson's construction; an empty edge may be bound to the text's beginning or end."""

    def __init__(self) -> None:
        self.moves: list[list[tuple[CodePoints, int]]] = []
        self.empty: list[list[tuple[str, int]]] = []

    def state(self) -> int:
        if len(self.moves) >= _NFA_STATES:
            raise TooLarge
        self.moves.append([])
        self.empty.append([])
        return len(self.moves) - 1

    def add(self, tree: Tree, start: int) -> int:
        """Appends what `tree` matches after `start`; the state that it ends in."""
        kind = tree[0]
        if kind == "cat":
            for part in tree[1]:
                start = self.add(part, start)
            return start
        if kind == "repeat":
            return self._repeat(tree, start)
        end = self.state()
        if kind == "chars":
            self.moves[start].append((tree[1], end))
        elif kind == "alt":
            for part in tree[1]:
                first = self.state()
                self.empty[start].append(("", first))
                self.empty[self.add(part, first)].append(("", end))
        else:
            self.empty[start].append((kind, end))
        return end

    def _repeat(self, tree: Tree, start: int) -> int:
        _, part, low, high = tree
        for _ in range(low):
            start = self.add(part, start)
        end = self.state()
        if high is None:
            loop = self.state()
            self.empty[start].append(("", loop))
            self.empty[self.add(part, loop)].append(("", loop))
            self.empty[loop].append(("", end))
            return end
        self.empty[start].append(("", end))
        for _ in range(high - low):
            start = self.add(part, start)
            self.empty[start].append(("", end))
        return end

    def closure(
        self, items: Iterable[tuple[int, bool]], started: bool
    ) -> frozenset[tuple[int, bool]]:
        """Items are (state, whether the end of the text was asserted)."""
        seen = set(items)
        stack = list(seen)
        while stack:
            state, ended = stack.pop()
            for bound, target in self.empty[state]:
                if bound == "begin" and started:
                    continue
                item = (target, ended or bound == "end")
                if item not in seen:
                    seen.add(item)
                    stack.append(item)
        return frozenset(seen)


def from_regex(tree: Tree, limit: int = STATES) -> Automaton:
    """The texts in which the expression is found, anywhere unless it is anchored."""
    nfa = _Nfa()
    start, first = nfa.state(), nfa.state()
    nfa.moves[start].append((ANY, start))
    nfa.empty[start].append(("", first))
    final = nfa.add(tree, first)
    nfa.moves[final].append((ANY, final))

    def moves(items: frozenset[tuple[int, bool]]) -> list[tuple[int, int, Hashable]]:
        found = [
            (a, b, target)
            for s, ended in items
            if not ended
            for r, target in nfa.moves[s]
            for a, b in r
        ]
        row: list[tuple[int, int, Hashable]] = []
        closures: dict[frozenset[int], frozenset[tuple[int, bool]]] = {}
        for low, high, targets in _split(found):
            if targets not in closures:
                closures[targets] = nfa.closure(((t, False) for t in targets), True)
            row.append((low, high, _settled(closures[targets])))
        return row

    def _settled(items: frozenset[tuple[int, bool]]) -> frozenset[tuple[int, bool]]:
        # found, whatever follows: nothing else matters
        return frozenset({(final, False)}) if (final, False) in items else items

    begin = _settled(nfa.closure([(start, False)], False))
    return explore(begin, moves, lambda items: any(s == final for s, _ in items), limit)


def _split(ranges: list[tuple[int, int, int]]) -> list[tuple[int, int, frozenset[int]]]:
    """Overlapping ranges cut into disjoint ones, each with all its targets."""
    starts: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for first, last, target in ranges:
        starts.setdefault(first, []).append(target)
        ends.setdefault(last + 1, []).append(target)
    counts: dict[int, int] = {}
    result = []
    points = sorted(starts.keys() | ends.keys())
    for here, following in pairwise(points):
        for target in ends.get(here, ()):
            counts[target] -= 1
            if not counts[target]:
                del counts[target]
        for target in starts.get(here, ()):
            counts[target] = counts.get(target, 0) + 1
        if counts:
            result.append((here, following - 1, frozenset(counts)))
    return result


def from_lengths(low: int, high: int | None, limit: int = STATES) -> Automaton:
    """Every text of `low` to `high` code points."""
    last = low if high is None else high
    if last >= limit:
        raise TooLarge
    edges = [[(0, LAST, n + 1)] for n in range(last)]
    edges.append([] if high is not None else [(0, LAST, last)])
    return Automaton(edges, [n >= low for n in range(last + 1)])
