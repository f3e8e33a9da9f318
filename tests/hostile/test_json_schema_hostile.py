"""JSON schemas that are made to hang, crash or exhaust: an answer or a clear error, soon."""

import resource
import sys
import time

import pytest

from mlx_sampling.errors import JsonSchemaError
from mlx_sampling.json_schema import json_schema_to_gbnf

SECONDS = 2.0  # of this process's own time


def nested(count, wrap, inner=True):
    for _ in range(count):
        inner = wrap(inner)
    return inner


def cyclic_dict():
    schema = {}
    schema["properties"] = {"a": schema}
    return schema


def cyclic_list():
    values = []
    values.append(values)
    return {"enum": values}


def tagged(i):
    return {"type": "object", "properties": {"k": {"const": f"k{i}"}}, "required": ["k"]}


# schema; what the error says, or None for an answer
SCHEMAS = {
    "deep properties": (
        nested(10_000, lambda s: {"properties": {"a": s}}),
        "nest more than 500 deep",
    ),
    "deep items": (nested(10_000, lambda s: {"items": s}), "nest more than 500 deep"),
    "deep allOf": (nested(400, lambda s: {"allOf": [s]}), "more than 60 schemas nest"),
    "deep anyOf": (
        nested(10_000, lambda s: {"anyOf": [s, {"type": "null"}]}),
        "nest more than 500 deep",
    ),
    "deep not": (nested(10_000, lambda s: {"not": s}), "nest more than 500 deep"),
    "deep items, allowed": (nested(490, lambda s: {"items": s}), None),
    "deep const": ({"const": nested(10_000, lambda s: [s])}, "at most 100 deep"),
    "deep enum": ({"enum": [nested(10_000, lambda s: {"a": s})]}, "at most 100 deep"),
    "deep text": ('{"items":' * 10_000 + "true" + "}" * 10_000, "nest"),
    "deep text, not closed": ("[" * 100_000, "nests too deeply"),
    "dict in itself": (cyclic_dict(), "nest more than 500 deep"),
    "list in itself": (cyclic_list(), "at most 100 deep"),
    "reference to itself": ({"$ref": "#"}, "refers to itself"),
    "two references": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "refers to itself",
    ),
    "reference in anyOf": ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "refers to itself"),
    "reference under not": ({"not": {"$ref": "#"}}, "refers to itself"),
    "dynamic reference to itself": (
        {"$dynamicRef": "#a", "$dynamicAnchor": "a"},
        "refers to itself",
    ),
    "infinite value": (
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        "no value is valid",
    ),
    "chain of references": (
        {"$ref": "#/$defs/0", "$defs": {str(i): {"$ref": f"#/$defs/{i + 1}"} for i in range(5000)}},
        "more than 60 schemas nest",
    ),
    "20,000 strings": ({"enum": [f"value{i}" for i in range(20_000)]}, None),
    "3,000 objects": ({"enum": [{"a": i} for i in range(3000)]}, "more than 2000 cases"),
    "5,000 constants": ({"anyOf": [{"const": i} for i in range(5000)]}, "more than 2000 cases"),
    "1,000 tagged branches": ({"oneOf": [tagged(i) for i in range(1000)]}, None),
    "1,000 branches that overlap": (
        {"oneOf": [{"type": "object", "required": [str(i)]} for i in range(1000)]},
        "steps to combine",
    ),
    "2,000 properties": (
        {"type": "object", "properties": {f"p{i}": {} for i in range(2000)}},
        None,
    ),
    "2,000 counted properties": (
        {"type": "object", "properties": {f"p{i}": {} for i in range(2000)}, "maxProperties": 900},
        "more than 20000 states",
    ),
    "10^10 combinations": (
        {"allOf": [{"anyOf": [{"required": [f"{i}.{j}"]} for j in range(10)]} for i in range(10)]},
        "combine to more than 2000 cases",
    ),
    "2^30 dependencies": (
        {"dependentRequired": {f"a{i}": [f"b{i}"] for i in range(30)}},
        "2000 cases",
    ),
    "exponential automaton": (
        {"type": "string", "pattern": "a.{30}$", "not": {"pattern": "b.{20}$"}},
        "automaton of too many states",
    ),
    "nested repetitions": (
        {"type": "string", "pattern": "((((a{1,100}){1,100}){1,100}){1,100})"},
        None,
    ),
    "5,000 groups": (
        {"type": "string", "pattern": "(" * 5000 + "a" + ")" * 5000},
        "nest more than 60 deep",
    ),
    "(a*)*": ({"type": "string", "pattern": "^((a*)*)*$"}, None),
    "long repetition": ({"type": "string", "pattern": "^.{0,100000}$"}, None),
    "long strings": ({"type": "string", "maxLength": 10**9}, None),
    "long strings of a pattern": (
        {"type": "string", "pattern": "^(ab|c)+$", "maxLength": 100_000},
        "automaton of too many states",
    ),
    "many contained": (
        {"type": "array", "contains": {"const": 1}, "minContains": 5000},
        "3000 states",
    ),
    "40 different items": (
        {"type": "array", "items": {"enum": list(range(40))}, "uniqueItems": True},
        "3000 states",
    ),
    "5,000 places": ({"type": "array", "prefixItems": [{"type": "integer"}] * 5000}, None),
    "many items": ({"type": "array", "minItems": 10**8, "maxItems": 2 * 10**9}, None),
    "large remainders": (
        {"type": "integer", "multipleOf": 9973, "minimum": -(10**30), "maximum": 10**30},
        "automaton of too many states",
    ),
    "large bounds": ({"type": "integer", "minimum": -(10**300), "maximum": 10**300}, None),
    "12 patterns": (
        {"patternProperties": {f"^a{i}": {"type": "null"} for i in range(12)}},
        "more than 5",
    ),
    "5 searched patterns": (
        {"patternProperties": {f"a.{{{i}}}b": {"type": "null"} for i in range(5)}},
        None,
    ),
    "large number": ('{"minimum": 1e999999999}', "a number in a double's range"),
    "long integer": ('{"minimum": ' + "9" * 5000 + "}", ""),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_answer_or_an_error_soon(name):
    schema, message = SCHEMAS[name]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    if message is None:
        assert " ::= " in json_schema_to_gbnf(schema)
    else:
        with pytest.raises(JsonSchemaError) as caught:
            json_schema_to_gbnf(schema)
        assert str(caught.value).startswith("#")
        assert message in str(caught.value)
    assert time.process_time() - start < SECONDS
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200 * (2**20 if sys.platform == "darwin" else 2**10)  # MB
