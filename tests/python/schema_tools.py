"""What the tests of JSON schemas share: a schema's grammar in the engine, and JSON texts as it has them."""

import json
from itertools import islice, permutations, product

from mlx_sampling import _ext
from mlx_sampling.json_schema import json_schema_to_gbnf


class SchemaMatcher:
    """Says which texts the grammar of a schema takes."""

    def __init__(self, schema, vocabulary=None, **options):
        options.setdefault("whitespace", "compact")
        self.gbnf = json_schema_to_gbnf(schema, **options)
        self.grammar = _ext.Grammar(_ext.parse_grammar(self.gbnf), vocabulary)
        self.matcher = _ext.GrammarMatcher(self.grammar)

    def accepts(self, text):
        self.matcher.reset()
        return self.matcher.accept_text(text.encode()) and self.matcher.is_completed()

    def reaches(self, value, tries=500):
        """Whether some spelling of a value is taken: its keys in some order."""
        return any(self.accepts(compact(v)) for v in islice(_orders(value), tries))


def compact(value):
    """The JSON text of a value as the grammars spell it: whole numbers without a fraction."""
    return json.dumps(_whole(value), ensure_ascii=False, separators=(",", ":"))


def _whole(value):
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(v) for v in value]
    return {k: _whole(v) for k, v in value.items()} if isinstance(value, dict) else value


def _orders(value):
    """The value with the keys of its objects in every order, the given one first."""
    if isinstance(value, list):
        for items in product(*([*islice(_orders(v), 24)] for v in value)):
            yield list(items)
    elif isinstance(value, dict):
        for names in permutations(value):
            for items in product(*([*islice(_orders(value[n]), 24)] for n in names)):
                yield dict(zip(names, items, strict=True))
    else:
        yield value
