"""What is said of JSON schemas that cannot be enforced, and what may be lost instead."""

import pickle

import pytest
from schema_tools import SchemaMatcher

from mlx_sampling.errors import JsonSchemaError
from mlx_sampling.json_schema import json_schema_to_gbnf

# schema, how its message begins
ERRORS = [
    (3, "#: Expected a schema (an object or a boolean), got a number."),
    ({"properties": {"id": {"minLenght": 3}}},
     "#/properties/id: 'minLenght' is no keyword of Draft 2020-12; did you mean \"minLength\"?"),
    ({"items": [True]},
     '#: Expected "items" to be a schema (an object or a boolean), got an array. "prefixItems" holds'),
    ({"maxItems": 10**5000}, '#: Expected "maxItems" to be an integer from 0 to 2147483647, got a number.'),
    ({"nullable": True}, "#: 'nullable' is no keyword of Draft 2020-12; use \"type\": [\"...\", \"null\"]"),
    ({"items": [{}]}, '#: Expected "items" to be a schema (an object or a boolean), got an array.'),
    ({"properties": {"a/b~": {"minimum": "3"}}}, "#/properties/a~1b~0: Expected \"minimum\" to be a number"),
    ({"type": "int"}, '#: Expected "type" to be one or more of null, boolean'),
    ({"exclusiveMinimum": True}, '#: Expected "exclusiveMinimum" to be a number'),
    ({"minLength": -1}, '#: Expected "minLength" to be an integer from 0'),
    ({"minimum": float("nan")}, '#: Expected "minimum" to be a number'),
    ({"multipleOf": 0}, '#: Expected "multipleOf" to be a number above 0, got 0.'),
    ({"anyOf": []}, '#: Expected "anyOf" to be an array of schemas that is not empty'),
    ({"$ref": "#/$defs/x"}, "#: $ref to '#/$defs/x': there is no such schema"),
    ({"$ref": "#x"}, '#: $ref to "#x": there is no such anchor'),
    ({"$ref": "https://example.org/s"}, "#: $ref to 'https://example.org/s': only what is inside"),
    ({"$schema": "http://example.org/mine"}, '#: Expected "$schema" to be Draft 2020-12'),
    ({"items": {"type": "string", "pattern": "(a"}}, "#/items: pattern: a group is not closed at char"),
    ({"type": "string", "pattern": "\\bx"}, "#: pattern: word boundaries are not supported"),
    ({"type": "string", "pattern": "(a)\\1"}, "#: pattern: back references are not supported"),
    ({"type": "string", "pattern": "a(?=b)"}, "#: pattern: look-ahead is supported only right after"),
    ({"type": "string", "pattern": "(?<=a)b"}, "#: pattern: look-behind is not supported"),
    ({"type": "string", "pattern": "\\p{L}"}, "#: pattern: the escape \\p is not supported"),
    ({"type": "string", "pattern": "a{2,1}"}, "#: pattern: bounds are out of order"),
    ({"type": "string", "pattern": "[b-a]"}, "#: pattern: a range is out of order"),
    ({"type": "string", "format": "regex"}, '#: format "regex"; it cannot be enforced'),
    ({"type": "string", "not": {"format": "date"}}, '#/not: format "date" where it must not hold'),
    ({"type": "array", "uniqueItems": True}, "#: uniqueItems of more than 200 possible values"),
    ({"minProperties": 2}, "#: minProperties takes two or more properties of any name"),
    ({"properties": {"a": {"not": {"patternProperties": {"a": {"type": "null"}}}}}},
     "#/properties/a/not: patternProperties where it must not hold"),
    ({"oneOf": [{"propertyNames": {"maxLength": 3}}, {"propertyNames": {"minLength": 2}}]},
     "#: oneOf: branches 0 and 1 may both match (#/oneOf/1: propertyNames where it must not hold"),
    ({"multipleOf": 123456789}, "#: multipleOf of more than 10000 remainders"),
    ({"enum": ["\ud800"]}, "#: enum: a surrogate cannot be written in UTF-8"),
    ({"enum": [{1}]}, "#: enum: Expected a JSON value"),
    ({"type": "string", "enum": [1]}, "#: no value is valid"),
    (False, "#: no value is valid"),
    ({"required": ["a"], "properties": {"a": {"$ref": "#"}}, "type": "object"}, "#: no value is valid"),
    ("{", "#: Expected a JSON text"),
    ('{"minimum": NaN}', "#: Expected a JSON text, got NaN in it."),
    ('{"type": "null", "type": "string"}', "#: the key 'type' stands twice in one object"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors(schema, message):
    with pytest.raises(JsonSchemaError) as caught:
        json_schema_to_gbnf(schema)
    assert str(caught.value).startswith(message)
    assert caught.value.pointer == str(caught.value).split(": ")[0]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.pointer, again.keyword) == (
        str(caught.value), caught.value.pointer, caught.value.keyword,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "lost", "text"),
    [
        ({"type": "array", "uniqueItems": True}, "uniqueItems", "[1,1]"),
        ({"minProperties": 2, "type": "object"}, "minProperties", "{}"),
        ({"items": {"type": "string", "pattern": "a\\b"}}, "pattern", '["b"]'),
        ({"strict": True, "type": "null"}, "strict", "null"),
        ({"type": "integer", "multipleOf": 123456789}, "multipleOf", "1"),
        ({"type": "string", "format": "regex"}, "format", '"("'),
        ({"$ref": "https://example.org/s"}, "$ref", "1"),
        (
            {"oneOf": [{"propertyNames": {"maxLength": 3}}, {"propertyNames": {"minLength": 2}}]},
            "oneOf",
            '{"aa":1}',
        ),
    ],
)
def test_allow_unsupported(schema, lost, text):
    with pytest.raises(JsonSchemaError) as caught:
        json_schema_to_gbnf(schema)
    assert caught.value.keyword == lost or lost == "oneOf"
    with pytest.raises(JsonSchemaError):
        json_schema_to_gbnf(schema, allow_unsupported=["another"])
    assert SchemaMatcher(schema, allow_unsupported=[lost]).accepts(text)


def test_allowed_keywords_are_enforced_where_they_can_be():
    schema = {
        "type": "array",
        "prefixItems": [
            {"type": "array", "uniqueItems": True},
            {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True},
        ],
    }
    matcher = SchemaMatcher(schema, allow_unsupported=["uniqueItems"])
    assert matcher.accepts("[[7,7],[1,2]]")
    assert not matcher.accepts("[[7,7],[1,1]]")
