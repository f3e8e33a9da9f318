"""JSON Schema to GBNF: what each keyword takes and refuses, what is said of what cannot be done."""

import json
import pickle

import pytest
from schema_cases import CASES
from schema_tools import SchemaMatcher, compact

from mlx_sampling.errors import JsonSchemaError
from mlx_sampling.json_schema import json_gbnf, json_object_gbnf, json_schema_to_gbnf
from mlx_sampling.json_schema.keywords import ANNOTATIONS, CHECKS
from mlx_sampling.json_schema.normal import FAMILIES

IDS = [f"{keyword}-{i}" for i, (keyword, *_) in enumerate(CASES)]


@pytest.mark.parametrize(("keyword", "schema", "valid", "invalid"), CASES, ids=IDS)
def test_keyword(keyword, schema, valid, invalid):
    matcher = SchemaMatcher(schema)
    assert [text for text in valid if not matcher.accepts(text)] == []
    assert [text for text in invalid if matcher.accepts(text)] == []


@pytest.mark.parametrize(("keyword", "schema", "valid", "invalid"), CASES, ids=IDS)
def test_validator_agrees_with_the_table(keyword, schema, valid, invalid):
    jsonschema = pytest.importorskip("jsonschema")
    if keyword == "dependencies" or schema.get("format") in (
        "duration",
        "uri",
        "json-pointer",
        "hostname",
        "email",
    ):
        pytest.skip("needs another draft, or a package for the format")
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    assert [text for text in valid if not validator.is_valid(json.loads(text))] == []
    assert [text for text in invalid if validator.is_valid(json.loads(text))] == []


@pytest.mark.parametrize(("keyword", "schema", "valid", "invalid"), CASES, ids=IDS)
def test_loosened_keyword_is_seen(monkeypatch, keyword, schema, valid, invalid):
    """With the keyword's handler taken away, every text that only it kept out comes in."""
    take_away(monkeypatch, keyword)
    matcher = SchemaMatcher(schema)
    assert [text for text in invalid if not matcher.accepts(text)] == []


def take_away(monkeypatch, keyword):
    from mlx_sampling.json_schema import document, normal

    if keyword == "$ref":  # also taken up where a type is only a reference
        anything = document.Document(True, frozenset()).root
        monkeypatch.setattr(document.Document, "resolve", lambda *args: anything)
    kept = [f for f in FAMILIES if f.keywords != (keyword,)]
    monkeypatch.setattr(normal, "FAMILIES", kept)
    if len(kept) == len(FAMILIES):  # it is read together with others, or at the end
        get, has = document.Node.get, document.Node.has
        monkeypatch.setattr(document.Node, "get", lambda n, k: None if k == keyword else get(n, k))
        monkeypatch.setattr(document.Node, "has", lambda n, k: k != keyword and has(n, k))


def test_every_enforced_keyword_has_a_case():
    assert set(CHECKS) - {keyword for keyword, *_ in CASES} == {"if"}  # which alone demands nothing


def test_annotations_change_nothing():
    plain = {"type": "object", "properties": {"a": {"type": "integer"}}}
    values = dict.fromkeys(
        ANNOTATIONS - {"$defs", "definitions", "contentSchema", "$vocabulary"}, "x"
    )
    values |= {"$schema": "https://json-schema.org/draft/2020-12/schema", "x-order": 3, "$defs": {}}
    values |= {"definitions": {}, "contentSchema": False, "default": None, "examples": [1]}
    assert json_schema_to_gbnf(plain | values) == json_schema_to_gbnf(plain)
    assert json_schema_to_gbnf({"format": "int32", "type": "integer"}) == json_schema_to_gbnf(
        {"type": "integer"}
    )


# schema, how its message begins
ERRORS = [
    (3, "#: Expected a schema (an object or a boolean), got a number."),
    ({"properties": {"id": {"minLenght": 3}}},
     "#/properties/id: 'minLenght' is no keyword of Draft 2020-12; did you mean \"minLength\"?"),
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
    ({"type": "array", "uniqueItems": True}, "#: uniqueItems of more than 64 possible values"),
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


def test_declared_names_are_not_written_otherwise():
    schema = {"type": "object", "properties": {"ab": {"type": "integer"}, 'q"\\': {"type": "null"}}}
    matcher = SchemaMatcher(schema)
    assert matcher.accepts('{"ab":1,"q\\"\\\\":null,"a":"x","abc":[],"":0}')
    for name in ("ab", "\\u0061b", "a\\u0062", "\\u0061\\u0062", 'q\\"\\\\', "q\\u0022\\\\"):
        assert not matcher.accepts(f'{{"{name}":"x"}}'), name
        assert not matcher.accepts(f'{{"ab":1,"{name}":2}}'), name


def test_keys_come_in_declared_order():
    schema = {
        "type": "object",
        "properties": {"b": True, "a": True},
        "required": ["a"],
        "allOf": [{"properties": {"c": True, "b": True}}],
    }
    matcher = SchemaMatcher(schema)
    assert matcher.accepts('{"b":1,"a":2,"c":3,"z":4,"d":5}')
    for text in ('{"a":2,"b":1}', '{"a":1,"c":2,"b":3}', '{"z":1,"a":2}'):
        assert not matcher.accepts(text)


def test_white_space():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array"}},
        "additionalProperties": False,
    }
    compacted, spaced = '{"a":[1,{}]}', '{"a": [1, {}]}'
    wide = '{\n  "a": [\n    1,\n    {}\n  ]\n}'
    taken = {
        "compact": [compacted],
        "spaced": [spaced],
        "bounded": [compacted, spaced, wide],
    }
    for whitespace, texts in taken.items():
        matcher = SchemaMatcher(schema, whitespace=whitespace)
        assert [t for t in (compacted, spaced, wide) if matcher.accepts(t)] == texts
        for text in (
            '{  "a":[]}',
            ' {"a":[]}',
            '{"a":[]} ',
            '{"a" :[]}',
            "{\n" + " " * 33 + '"a":[]}',
            "{\n\n}",
        ):
            assert not matcher.accepts(text)
    assert SchemaMatcher(schema, whitespace="bounded").accepts("{\n" + " " * 32 + '"a":[]}')


def test_arguments():
    with pytest.raises(
        ValueError, match=r"\[whitespace\] Expected one of bounded, compact, spaced, got 'x'"
    ):
        json_schema_to_gbnf({}, whitespace="x")
    with pytest.raises(ValueError, match=r"\[root\] Expected letters"):
        json_schema_to_gbnf({}, root="a_b")
    with pytest.raises(
        TypeError, match=r"\[allow_unsupported\] Expected a list of keywords, got 'not'"
    ):
        json_schema_to_gbnf({}, allow_unsupported="not")
    assert json_schema_to_gbnf({"type": "null"}, root="answer-1") == 'answer-1 ::= "null"\n'
    recursive = json_schema_to_gbnf({"items": {"$ref": "#"}}, root="value")
    assert recursive.startswith("value ::= ")


def test_any_value_and_any_object():
    texts = ["{}", '{"a":{"b":[1,2.5e-3,"\\u0000é",true,null]}}']
    others = ["[1]", '"x"', "-0.5"]
    for make, taken in ((json_gbnf, texts + others), (json_object_gbnf, texts)):
        assert make(whitespace="compact") != make()
        matcher = SchemaMatcher({"type": "object"} if make is json_object_gbnf else {})
        assert matcher.gbnf == make(whitespace="compact")
        assert [t for t in texts + others if matcher.accepts(t)] == taken
    for text in (
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "'a'",
        '"\n"',
        '"\\x"',
        "[1,]",
        '{"a"}',
        "nul",
        "NaN",
        "",
    ):
        assert not SchemaMatcher({}).accepts(text), text


def test_same_schema_same_text():
    schema = {
        "properties": {name: {"enum": [name, 1]} for name in "zyxab"},
        "not": {"required": ["z", "a"]},
    }
    assert json_schema_to_gbnf(schema) == json_schema_to_gbnf(json.dumps(schema))


def test_numbers_are_exact():
    text = '{"type": "number", "minimum": 0.1000000000000000055, "maximum": 12345678901234567890}'
    matcher = SchemaMatcher(text)
    assert not matcher.accepts("0.1")
    assert matcher.accepts("0.10000000000001")
    assert matcher.accepts("12345678901234567890")
    assert not matcher.accepts("12345678901234567891")
    # more digits than doubles tell apart are not written beside a fraction
    assert not matcher.accepts("0.1000000000000000056")


def test_anchors_and_ids():
    schema = {
        "$id": "https://example.org/root",
        "properties": {"a": {"$ref": "item"}, "b": {"$ref": "#here"}, "c": {"$ref": "item#deep"}},
        "additionalProperties": False,
        "type": "object",
        "$defs": {
            "x": {"$id": "item", "type": "null", "$defs": {"y": {"$anchor": "deep", "const": 1}}},
            "z": {"$anchor": "here", "const": 2},
        },
    }
    matcher = SchemaMatcher(schema)
    assert matcher.accepts('{"a":null,"b":2,"c":1}')
    assert not any(map(matcher.accepts, ('{"a":1}', '{"b":1}', '{"c":2}')))


@pytest.mark.parametrize("value", [1.5, 0.1, -2.25, 1e-7, 123456.789, 1e300, -1e-300, 7.0, 10**30])
def test_numbers_of_an_enumeration(value):
    matcher = SchemaMatcher({"const": value})
    text = matcher.gbnf.split('"')[1]
    assert json.loads(text) == value
    assert matcher.accepts(text)
    assert SchemaMatcher({"type": "number"}).accepts(compact(value)) or "e" in compact(value)
