"""Random JSON schemas over few names, types and values, so that their parts meet and contradict."""

NAMES = ["a", "b", "ab", "c"]
VALUES = [
    None,
    True,
    False,
    0,
    1,
    2,
    -1,
    1.5,
    "",
    "a",
    "ab",
    "b",
    [],
    [1],
    ["a", 1],
    {},
    {"a": 1},
    {"b": "a"},
]
PATTERNS = ["a", "^a", "b$", "^[ab]*$", "^.{2}$", "^(?!a)", "c|^$"]


def random_schema(rng, depth=3):
    """A schema of a few keywords, of schemas below it at most `depth` levels."""
    if depth == 0 or rng.random() < 0.1:
        return rng.choice(
            [True, {}, {"type": "integer"}, {"type": "string"}, {"const": 1}, {"enum": ["a", 1]}]
        )
    schema = {}
    if rng.random() < 0.7:
        kinds = [
            "null",
            "boolean",
            "integer",
            "number",
            "string",
            "array",
            "object",
            "object",
            "array",
        ]
        schema["type"] = (
            rng.choice(kinds) if rng.random() < 0.8 else sorted(set(rng.sample(kinds, 3)))
        )
    kinds = schema.get("type", rng.sample(list(_KEYWORDS), 2))
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        for keyword in rng.sample(
            _KEYWORDS.get(kind, [_enum]), min(2, len(_KEYWORDS.get(kind, [_enum])))
        ):
            keyword(schema, rng, depth - 1)
    if rng.random() < 0.5:
        rng.choice(_APPLICATORS)(schema, rng, depth - 1)
    if schema and rng.random() < 0.1:
        schema[rng.choice(["unevaluatedProperties", "unevaluatedItems"])] = rng.choice(
            [False, {"type": "integer"}]
        )
    return schema


def _enum(schema, rng, depth):
    schema["enum"] = rng.sample(VALUES, rng.randint(1, 5))


def _const(schema, rng, depth):
    schema["const"] = rng.choice(VALUES)


def _bounds(schema, rng, depth):
    for keyword in rng.sample(
        ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], rng.randint(1, 2)
    ):
        schema[keyword] = rng.choice([-1, 0, 1, 2.5, 3, 12, 0.5])


def _multiple(schema, rng, depth):
    schema["multipleOf"] = rng.choice([1, 2, 3, 0.5, 5])


def _length(schema, rng, depth):
    low = rng.randint(0, 2)
    schema |= rng.choice(
        [{"minLength": low}, {"maxLength": low}, {"minLength": low, "maxLength": low + 1}]
    )


def _pattern(schema, rng, depth):
    schema["pattern"] = rng.choice(PATTERNS)


def _items(schema, rng, depth):
    if rng.random() < 0.5:
        schema["prefixItems"] = [random_schema(rng, depth) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.7:
        schema["items"] = random_schema(rng, depth)


def _size(schema, rng, depth):
    low = rng.randint(0, 2)
    schema |= rng.choice(
        [{"minItems": low}, {"maxItems": low}, {"minItems": low, "maxItems": low + 1}]
    )


def _contains(schema, rng, depth):
    schema["contains"] = random_schema(rng, depth)
    schema |= rng.choice(
        [
            {},
            {"minContains": 0},
            {"minContains": 2},
            {"maxContains": 1},
            {"minContains": 0, "maxContains": 1},
        ]
    )


def _unique(schema, rng, depth):
    schema |= {"items": {"enum": rng.sample(VALUES[:10], 3)}, "uniqueItems": True}


def _properties(schema, rng, depth):
    schema["properties"] = {
        n: random_schema(rng, depth) for n in rng.sample(NAMES, rng.randint(1, 3))
    }


def _patterns(schema, rng, depth):
    schema["patternProperties"] = {
        p: random_schema(rng, depth) for p in rng.sample(PATTERNS, rng.randint(1, 2))
    }


def _additional(schema, rng, depth):
    schema["additionalProperties"] = rng.choice([False, random_schema(rng, depth)])


def _required(schema, rng, depth):
    schema["required"] = rng.sample(NAMES, rng.randint(1, 2))


def _count(schema, rng, depth):
    low = rng.randint(0, 2)
    schema |= rng.choice(
        [
            {"minProperties": 1},
            {"maxProperties": low},
            {"minProperties": low, "maxProperties": low + 1},
        ]
    )


def _names(schema, rng, depth):
    schema["propertyNames"] = rng.choice(
        [{"enum": ["a", "b"]}, {"pattern": rng.choice(PATTERNS)}, {"maxLength": 1}]
    )


def _dependents(schema, rng, depth):
    a, b = rng.sample(NAMES, 2)
    schema |= rng.choice(
        [{"dependentRequired": {a: [b]}}, {"dependentSchemas": {a: random_schema(rng, depth)}}]
    )


def _several(keyword):
    def apply(schema, rng, depth):
        schema[keyword] = [random_schema(rng, depth) for _ in range(rng.randint(1, 3))]

    return apply


def _not(schema, rng, depth):
    schema["not"] = random_schema(rng, depth)


def _if(schema, rng, depth):
    schema["if"] = random_schema(rng, depth)
    for keyword in rng.sample(["then", "else"], rng.randint(1, 2)):
        schema[keyword] = random_schema(rng, depth)


def _ref(schema, rng, depth):
    schema["$ref"] = rng.choice(["#/$defs/x", "#/$defs/y"])


_KEYWORDS = {
    "integer": [_bounds, _multiple, _enum],
    "number": [_bounds, _multiple, _const],
    "string": [_length, _pattern, _enum],
    "array": [_items, _size, _contains, _unique, _enum],
    "object": [
        _properties,
        _patterns,
        _additional,
        _required,
        _count,
        _names,
        _dependents,
        _properties,
        _const,
    ],
}
_APPLICATORS = [_several("allOf"), _several("anyOf"), _several("oneOf"), _not, _if, _ref]


def random_document(rng):
    """A schema with two named ones, which may name each other and themselves."""
    schema = random_schema(rng)
    if isinstance(schema, bool):
        schema = {"not": {}} if not schema else {}
    return schema | {"$defs": {"x": random_schema(rng, 2), "y": random_schema(rng, 1)}}


def random_value(rng, depth=3):
    """A value that such schemas speak of."""
    kind = rng.random()
    if depth == 0 or kind < 0.5:
        return rng.choice(
            [v for v in VALUES if not isinstance(v, (list, dict))]
            + [3, 5, 12, 0.5, "aa", "ba", "c"]
        )
    if kind < 0.7:
        return [random_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {
        n: random_value(rng, depth - 1) for n in rng.sample([*NAMES, "d", ""], rng.randint(0, 3))
    }
