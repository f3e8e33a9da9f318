"""JSON Schema to GBNF: what each keyword takes and refuses, what is said of what cannot be done."""

import json

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


def test_many_different_items_keep_their_order():
    """Up to eleven or so come in any order."""
    few, many = ([f"t{i}" for i in range(n)] for n in (6, 30))
    matcher = SchemaMatcher(
        {"type": "array", "items": {"enum": few}, "uniqueItems": True, "minItems": 2}
    )
    assert matcher.accepts(compact(few[::-1]))
    assert not any(map(matcher.accepts, ("[]", '["t1"]', '["t1","t2","t1"]')))
    matcher = SchemaMatcher(
        {"type": "array", "items": {"enum": many}, "uniqueItems": True, "minItems": 2}
    )
    assert matcher.accepts(compact(many))
    assert matcher.accepts('["t3","t29"]')
    for text in ("[]", '["t29"]', '["t3","t3"]', '["t29","t3"]', '["t3","t4","t3"]'):
        assert not matcher.accepts(text), text


def test_a_length_that_an_expression_cannot_count_narrows_it():
    matcher = SchemaMatcher({"type": "string", "pattern": "^(ab|c)+$", "maxLength": 100_000})
    assert matcher.accepts('"' + "ab" * 50_000 + '"')
    assert not matcher.accepts('"' + "ab" * 50_000 + 'c"')
    matcher = SchemaMatcher({"type": "string", "pattern": "^[A-Z]", "maxLength": 20_000})
    assert matcher.accepts('"' + "Q" + "é" * 19_999 + '"')
    assert not matcher.accepts('"' + "Q" + "é" * 20_000 + '"')
    matcher = SchemaMatcher({"type": "string", "format": "email", "maxLength": 254})
    assert matcher.accepts('"first.middle.last@mail.example.org"')
    with pytest.raises(JsonSchemaError, match="#: it takes an automaton of too many states"):
        json_schema_to_gbnf({"type": "string", "pattern": "^(ab|c)+$", "minLength": 9000})


def test_what_validators_read_differently_is_not_written():
    """Python's digits, words and blanks are Unicode's, its dot takes a carriage return."""
    taken = {
        "^\\d$": "7",
        "^\\w$": "a_Z",
        "^\\s$": " \u00a0",
        "^\\D$": "x",
        "^\\W$": "-",
        "^\\S$": "x",
    }
    others = {
        "^\\d$": "٣",
        "^\\w$": "é",
        "^\\s$": "\ufeff\x1c",
        "^\\D$": "٣7",
        "^\\W$": "éa",
        "^\\S$": "\ufeff\x1c ",
    }
    for pattern in taken:
        matcher = SchemaMatcher({"type": "string", "pattern": pattern})
        failing = SchemaMatcher({"type": "string", "not": {"pattern": pattern}})
        for char in taken[pattern]:
            assert matcher.accepts(compact(char)), (pattern, char)
            assert not failing.accepts(compact(char)), (pattern, char)
        for char in others[pattern]:
            assert not matcher.accepts(compact(char)), (pattern, char)
    schema = {
        "type": "object",
        "properties": {"é": True},
        "patternProperties": {"^\\w$": {"type": "integer"}},
    }
    named = SchemaMatcher(schema | {"additionalProperties": {"maximum": 5}})
    assert named.accepts('{"é":7}')
    assert named.accepts('{"a":7}')
    assert not any(map(named.accepts, ('{"é":"x"}', '{"ê":7}', '{"ê":4}', '{"--":7}')))
    failing = SchemaMatcher({"type": "string", "not": {"pattern": "^.$"}})
    assert failing.accepts('"ab"')
    assert not any(map(failing.accepts, ('"a"', '"\\r"', '"a\\n"')))


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
    for name in ("value", "ws", "char", "string"):
        assert json_schema_to_gbnf({"items": {"$ref": "#"}}, root=name).startswith(f"{name} ::= ")


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


@pytest.mark.parametrize(
    "schema",
    [
        {"const": {"a": 1}},
        {"not": {"not": {"properties": {"a": True}}}},
        {"not": {"allOf": [{"not": {"properties": {"a": True}}}]}},
        {"if": {"not": {"properties": {"a": True}, "required": ["b"]}}, "then": True},
        {"anyOf": [{"required": ["a"]}, {"propertyNames": {"const": "a"}}]},
        {"dependentRequired": {"b": ["a"]}},
    ],
)
def test_what_does_not_count_as_evaluated(schema):
    matcher = SchemaMatcher(
        {
            "type": "object",
            "maxProperties": 1,
            "anyOf": [schema, {"const": {}}],
            "unevaluatedProperties": False,
        }
    )
    assert matcher.accepts("{}")
    assert not matcher.accepts('{"a":1}')


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
