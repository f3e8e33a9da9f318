"""Texts drawn from random logits through the engine's masks: all of them validate."""

import json
import random
from itertools import islice

import numpy as np
import pytest
from random_schemas import random_document, random_value
from schema_samples import REAL, SAMPLES
from schema_tools import SchemaMatcher

from mlx_sampling import Vocabulary, _ext
from mlx_sampling.errors import JsonSchemaError
from mlx_sampling.gguf import packaged_model_path

pytestmark = pytest.mark.slow

TEXTS = 200
STEPS = 300
SCHEMAS = 250
CLOSING = frozenset(b'"]}@')


def validator_of(schema):
    jsonschema = pytest.importorskip("jsonschema")
    pytest.importorskip("rfc3339_validator")
    kind = jsonschema.Draft202012Validator
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


class Walk:
    """Draws tokens from random logits, masked; closing ones weigh more the longer it takes."""

    def __init__(self, matcher, texts, end, seed):
        self.matcher = matcher
        self.texts = texts
        self.end = end
        self.rng = np.random.default_rng(seed)
        self.words = np.zeros((len(texts) + 31) // 32, np.uint32)
        self.closing = np.array([1.5 * bool(CLOSING & set(text)) for text in texts], np.float32)
        self.closing[end] = 4.0

    def allowed(self):
        self.matcher.fill_bitmask(self.words)
        bits = np.unpackbits(self.words.view(np.uint8), bitorder="little")[: len(self.texts)]
        return np.flatnonzero(bits)

    def text(self, steps=STEPS):
        """A whole text, or None where it did not end in time."""
        self.matcher.reset()
        out = []
        for step in range(steps):
            tokens = self.allowed()
            assert tokens.size, f"no token is allowed after {b''.join(out)!r}"
            logits = self.rng.gumbel(size=tokens.size) + self.closing[tokens] * min(
                1 + step / 20, 3
            )
            token = int(tokens[np.argmax(logits)])
            assert self.matcher.accept_token(token)
            if token == self.end:
                return b"".join(out)
            out.append(self.texts[token])
        return None


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_random_bytes_validate(number):
    validator = validator_of(SAMPLES[number])
    texts = [bytes([b]) for b in range(256)] + [b""]
    vocabulary = _ext.Vocabulary(texts, [], [256])
    matcher = SchemaMatcher(
        SAMPLES[number], vocabulary, whitespace="bounded" if number % 3 == 0 else "compact"
    )
    walk = Walk(matcher.matcher, texts, 256, number)
    whole = list(
        islice((text for _ in range(2 * TEXTS) if (text := walk.text()) is not None), TEXTS)
    )
    assert len(whole) == TEXTS
    wrong = [text for text in whole if not validator.is_valid(json.loads(text))]
    assert wrong == []


@pytest.mark.parametrize("number", range(len(REAL)))
def test_random_tokens_validate(number):
    """The same with the packaged model's tokens, which hold several characters and parts of some."""
    validator = validator_of(REAL[number])
    try:
        vocabulary = Vocabulary.from_gguf(packaged_model_path())
    except FileNotFoundError as error:
        pytest.skip(str(error))
    texts = vocabulary.texts()
    matcher = SchemaMatcher(REAL[number], vocabulary.native)
    walk = Walk(matcher.matcher, texts, vocabulary.eos_token_ids[0], number)
    whole = [text for text in (walk.text() for _ in range(5)) if text is not None]
    assert len(whole) >= 4
    assert [text for text in whole if not validator.is_valid(json.loads(text))] == []


def test_random_schemas_are_never_loosened():
    """Texts of their grammars validate; values are taken only if valid, and nearly all that are valid."""
    jsonschema = pytest.importorskip("jsonschema")
    texts = [bytes([b]) for b in range(256)] + [b""]
    vocabulary = _ext.Vocabulary(texts, [], [256])
    counts = dict.fromkeys(("refused", "enforced", "texts", "valid", "reached"), 0)
    for seed in range(SCHEMAS):
        rng = random.Random(seed)
        schema = random_document(rng)
        validator = jsonschema.Draft202012Validator(schema)
        values = [random_value(rng) for _ in range(20)]
        try:
            matcher = SchemaMatcher(schema, vocabulary)
        except JsonSchemaError as error:
            counts["refused"] += 1
            if "no value is valid" in str(error):
                assert not any(map(validator.is_valid, values)), schema
            continue
        counts["enforced"] += 1
        walk = Walk(matcher.matcher, texts, 256, seed)
        for text in filter(None, (walk.text(100) for _ in range(4))):
            counts["texts"] += 1
            assert validator.is_valid(json.loads(text)), (schema, text)
        for value in values:
            valid, taken = validator.is_valid(value), matcher.reaches(value, 60)
            assert valid or not taken, (schema, value)
            counts["valid"] += valid
            counts["reached"] += taken
    assert counts["texts"] > SCHEMAS / 2
    assert counts["enforced"] > SCHEMAS / 4
    assert counts["reached"] >= 0.99 * counts["valid"], counts


def test_there_are_fifty_schemas():
    assert len(SAMPLES) >= 50
