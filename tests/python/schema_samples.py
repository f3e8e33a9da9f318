"""Schemas as users write them, and those of the keyword table, for texts drawn at random."""

from schema_cases import CASES

NAME = {"type": "string", "minLength": 1, "maxLength": 12, "pattern": "^[A-Za-z ]+$"}
PERSON = {
    "type": "object",
    "properties": {
        "name": NAME,
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "email": {"type": "string", "format": "email"},
        "born": {"type": "string", "format": "date"},
        "tags": {
            "type": "array",
            "items": {"enum": ["a", "b", "c"]},
            "uniqueItems": True,
            "maxItems": 2,
        },
        "height": {"type": "number", "exclusiveMinimum": 0, "maximum": 2.5},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2},
            },
            "required": ["value"],
            "additionalProperties": False,
        }
    },
}


def call(name, arguments):
    return {
        "type": "object",
        "properties": {"tool": {"const": name}, "arguments": arguments},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


CALLS = {
    "oneOf": [
        call(
            "search", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
        ),
        call("add", {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 3}),
        call("now", {"type": "null"}),
    ]
}
POINT = {"type": "array", "prefixItems": [{"type": "number"}] * 2, "items": False, "minItems": 2}
GEOMETRY = {
    "type": "object",
    "properties": {"type": {"enum": ["Point", "Line"]}, "coordinates": True},
    "required": ["type", "coordinates"],
    "if": {"properties": {"type": {"const": "Point"}}},
    "then": {"properties": {"coordinates": POINT}},
    "else": {
        "properties": {
            "coordinates": {"type": "array", "items": POINT, "minItems": 1, "maxItems": 3}
        }
    },
}
HEADERS = {
    "type": "object",
    "patternProperties": {"^X-[A-Z]{1,4}$": {"type": "string"}, "^n": {"type": "integer"}},
    "additionalProperties": False,
    "maxProperties": 4,
}
PAYMENT = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer", "minimum": 5, "maximum": 100_000, "multipleOf": 5},
        "card": {"type": "string", "pattern": "^\\d{4}(-\\d{4}){3}$"},
        "address": {"type": "string"},
    },
    "required": ["amount"],
    "dependentRequired": {"card": ["address"]},
    "unevaluatedProperties": False,
}
NULLABLE = {"anyOf": [{"type": "null"}, PERSON]}
EXTENDED = {
    "allOf": [
        PERSON | {"additionalProperties": True},
        {"properties": {"role": {"enum": ["x", "y"]}}},
    ]
}
EXTENDED = EXTENDED | {"required": ["role"], "unevaluatedProperties": False}
NOT_RESERVED = {
    "type": "string",
    "maxLength": 6,
    "not": {"enum": ["if", "else", "for"]},
    "pattern": "^[a-z]+$",
}
EVENTS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            "id": {"type": "string", "format": "uuid"},
            "from": {"anyOf": [{"type": "string", "format": f} for f in ("ipv4", "ipv6")]},
        },
        "required": ["at", "id"],
        "additionalProperties": {"type": "boolean"},
    },
    "contains": {"required": ["from"]},
    "maxItems": 3,
}
PASSWORD = {"type": "string", "pattern": "^(?=.*[0-9])(?=.*[A-Z])[ -~]{4,10}$"}
SIGNED = {"type": "number", "minimum": -0.75, "exclusiveMaximum": 1e3, "not": {"type": "integer"}}
INTERVAL = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}

# those of the table that read as a validator without further packages reads them
TABLE = [schema for keyword, schema, *_ in CASES if keyword != "dependencies"]
REAL = [
    PERSON, TREE, CALLS, GEOMETRY, HEADERS, PAYMENT, NULLABLE, EXTENDED, NOT_RESERVED, EVENTS, PASSWORD,
    SIGNED, INTERVAL, True, {"type": "object"}, {"type": ["string", "null"]},
]  # fmt: skip
SAMPLES = REAL + TABLE
