"""A slow, obvious reader of GBNF for the tests: parses a text, recognizes strings, derives random ones.

Here: what the printed grammars of JSON schemas use. Recognition is Earley's, over code points.
"""

import random
import re

_TOKEN = re.compile(
    r"""\s+|(?P<name>[A-Za-z0-9-]+)(?P<define>\s*::=)?|(?P<string>"(?:[^"\\]|\\.)*")"""
    r"""|(?P<chars>\[(?:[^\]\\]|\\.)*\])|(?P<bounds>\{\d+(?:,\d*)?\})|(?P<mark>[()|*+?.])"""
)
_ESCAPE = re.compile(
    r'\\x([0-9A-F]{2})|\\u([0-9A-F]{4})|\\U([0-9A-F]{8})|\\([tnr\\"\[\]\-])|\\|(.)', re.DOTALL
)
LAST = 0x10FFFF


def _decode(body):
    """Code points, and whether each was escaped."""
    found, at = [], 0
    while at < len(body):
        match = _ESCAPE.match(body, at)
        *codes, letter, plain = match.groups()
        assert letter or plain or any(codes), f"a bad escape in {body!r}"
        code = next((int(c, 16) for c in codes if c), None)
        if code is None:
            code = (
                ord(plain) if plain else ord({"t": "\t", "n": "\n", "r": "\r"}.get(letter, letter))
            )
        found.append((code, not plain))
        at = match.end()
    return found


def _chars(text):
    body = text[1:-1]
    negated = body.startswith("^")
    codes = _decode(body[negated:])
    ranges, i = [], 0
    while i < len(codes):
        if i + 2 < len(codes) and codes[i + 1] == (ord("-"), False):
            ranges.append((codes[i][0], codes[i + 2][0]))
            i += 3
        else:
            ranges.append((codes[i][0], codes[i][0]))
            i += 1
    return ("chars", ranges, negated)


class Grammar:
    """Rules of a GBNF text as trees."""

    def __init__(self, text):
        self.rules = {}
        for line in text.splitlines():
            tokens = self._tokens(line)
            assert "define" in tokens[0], line
            name = tokens.pop(0)["name"]
            assert name not in self.rules, f"{name} is defined twice"
            self.rules[name] = self._alternatives(tokens)
            assert not tokens, line
        self.costs = self._costs()
        self._nets = {}

    @staticmethod
    def _tokens(line):
        tokens, at = [], 0
        while at < len(line):
            match = _TOKEN.match(line, at)
            assert match, line[at : at + 40]
            at = match.end()
            if match.lastgroup:
                tokens.append({k: v for k, v in match.groupdict().items() if v is not None})
        return tokens

    def _alternatives(self, tokens):
        parts = [self._sequence(tokens)]
        while tokens and tokens[0].get("mark") == "|":
            tokens.pop(0)
            parts.append(self._sequence(tokens))
        return ("alt", parts)

    def _sequence(self, tokens):
        parts = []
        while tokens and tokens[0].get("mark") not in ("|", ")"):
            token = tokens.pop(0)
            if "string" in token:
                part = ("lit", [c for c, _ in _decode(token["string"][1:-1])])
            elif "chars" in token:
                part = _chars(token["chars"])
            elif "name" in token:
                part = ("ref", token["name"])
            elif token.get("mark") == ".":
                part = ("chars", [(0, LAST)], False)
            else:
                assert token.get("mark") == "(", token
                part = self._alternatives(tokens)
                assert tokens.pop(0).get("mark") == ")"
            while tokens and ("bounds" in tokens[0] or tokens[0].get("mark") in tuple("*+?")):
                part = ("repeat", part, *self._bounds(tokens.pop(0)))
            parts.append(part)
        assert parts, "an empty sequence is not written"
        return ("seq", parts)

    @staticmethod
    def _bounds(token):
        if "mark" in token:
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[token["mark"]]
        low, comma, high = token["bounds"][1:-1].partition(",")
        return int(low), int(high) if high else None if comma else int(low)

    # -- recognition ---------------------------------------------------------------------------------

    def _net(self, name, cap):
        """A rule as states: edges (label, target); label None is empty. States are numbered from 0."""
        edges = []

        def state():
            edges.append([])
            return len(edges) - 1

        def add(tree, start):
            kind = tree[0]
            if kind == "seq":
                for part in tree[1]:
                    start = add(part, start)
                return start
            if kind == "lit":
                for code in tree[1]:
                    end = state()
                    edges[start].append((("chars", [(code, code)], False), end))
                    start = end
                return start
            if kind == "repeat":
                _, part, low, high = tree
                for _ in range(min(low, cap)):
                    start = add(part, start)
                if high is None or high - low >= cap:
                    loop, end = state(), state()
                    edges[start].append((None, loop))
                    edges[add(part, loop)].append((None, loop))
                    edges[loop].append((None, end))
                    return end
                end = state()
                for _ in range(high - low):
                    edges[start].append((None, end))
                    start = add(part, start)
                edges[start].append((None, end))
                return end
            end = state()
            if kind == "alt":
                for part in tree[1]:
                    edges[add(part, start)].append((None, end))
            else:
                edges[start].append((tree, end))
            return end

        start = state()
        return edges, add(self.rules[name], start)

    def accepts(self, text, root="root"):
        """Whether the text is of the grammar."""
        # a repetition of more times than there are characters is one without end: parts are not empty
        cap = len(text) + 1
        nets = {}

        def net(name):
            if name not in nets:
                key = name, cap if cap < 40 else 10**9
                if key not in self._nets:
                    self._nets[key] = self._net(name, cap)
                nets[name] = self._nets[key]
            return nets[name]

        sets = [{} for _ in range(len(text) + 1)]  # item -> None
        waiting = [{} for _ in range(len(text) + 1)]  # rule -> items after it

        def add(i, item):
            if item not in sets[i]:
                sets[i][item] = None
                stack.append(item)

        stack = []
        add(0, (root, 0, 0))
        for i in range(len(text) + 1):
            code = ord(text[i]) if i < len(text) else None
            stack = list(sets[i])
            following = []
            done = set()
            while stack:
                name, at, origin = stack.pop()
                edges, final = net(name)
                if at == final:
                    if origin == i:
                        done.add(name)
                    for item in list(waiting[origin].get(name, ())):
                        add(i, item)
                for label, target in edges[at]:
                    if label is None:
                        add(i, (name, target, origin))
                    elif label[0] == "ref":
                        waiting[i].setdefault(label[1], []).append((name, target, origin))
                        add(i, (label[1], 0, i))
                        if label[1] in done:
                            add(i, (name, target, origin))
                    elif code is not None and any(a <= code <= b for a, b in label[1]) != label[2]:
                        following.append((name, target, origin))
            if i < len(text):
                if not following:
                    return False
                sets[i + 1] = dict.fromkeys(following)
        return (root, net(root)[1], 0) in sets[len(text)]

    # -- derivation ----------------------------------------------------------------------------------

    def _costs(self):
        """Least depth of derivation per rule."""
        costs = {}
        while True:
            new = {n: c for n, t in self.rules.items() if (c := self._cost(t, costs)) is not None}
            if new == costs:
                assert len(costs) == len(self.rules), f"never ends: {set(self.rules) - set(costs)}"
                return costs
            costs = new

    def _cost(self, tree, costs):
        kind = tree[0]
        if kind == "ref":
            return costs[tree[1]] + 1 if tree[1] in costs else None
        if kind == "repeat":
            return self._cost(tree[1], costs) if tree[2] else 0
        if kind not in ("seq", "alt"):
            return 0
        found = [self._cost(part, costs) for part in tree[1]]
        if kind == "seq":
            return None if None in found else max(found, default=0)
        return min((c for c in found if c is not None), default=None)

    def derive(self, rng: random.Random, depth=12, root="root"):
        """A random text of the grammar; beyond `depth` the shortest way to its end is taken."""
        out = []
        budget = [400]

        def walk(tree, depth):
            kind = tree[0]
            hurry = depth <= 0 or budget[0] <= 0
            if kind == "lit":
                out.extend(map(chr, tree[1]))
                budget[0] -= 1
            elif kind == "chars":
                out.append(_random_char(rng, tree))
                budget[0] -= 1
            elif kind == "ref":
                walk(self.rules[tree[1]], depth - 1)
            elif kind == "seq":
                for part in tree[1]:
                    walk(part, depth)
            elif kind == "repeat":
                _, part, low, high = tree
                count = low
                while (
                    not hurry
                    and budget[0] > 0
                    and (high is None or count < high)
                    and rng.random() < 0.6
                ):
                    count += 1
                for _ in range(count):
                    walk(part, depth)
            else:
                choices = [(self._cost(p, self.costs), i) for i, p in enumerate(tree[1])]
                pick = min(choices)[1] if hurry else rng.choice(choices)[1]
                walk(tree[1][pick], depth)

        walk(self.rules[root], depth)
        return "".join(out)


_OTHERS = [
    (0x20, 0x7E),
    (0x20, 0x7E),
    (0x20, 0x7E),
    (0xA0, 0x24F),
    (0x4E00, 0x4E20),
    (0x1F600, 0x1F640),
]


def _random_char(rng, tree):
    _, ranges, negated = tree
    if not negated and len(ranges) and ranges != [(0, LAST)]:
        first, last = rng.choice(ranges)
        code = rng.randint(first, min(last, first + 200))
        return chr(code) if not 0xD800 <= code < 0xE000 else chr(first)
    while True:
        code = rng.randint(*rng.choice(_OTHERS))
        if any(a <= code <= b for a, b in ranges) != negated:
            return chr(code)
