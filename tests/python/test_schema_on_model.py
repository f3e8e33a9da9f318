"""The packaged model, hot, under schemas: every prefix is legal, and nearly every answer complete and valid.

`MLX_SAMPLING_SEEDS` says how many seeds per schema (default: 6), from `MLX_SAMPLING_FIRST_SEED` on.
"""

import json
import os

import mlx.core as mx
import pytest

from mlx_sampling import Grammar, Sampler, Vocabulary, sample_batch

jsonschema = pytest.importorskip("jsonschema")

SEEDS = int(os.environ.get("MLX_SAMPLING_SEEDS", "6"))
FIRST_SEED = int(os.environ.get("MLX_SAMPLING_FIRST_SEED", "0"))
LIMIT = 120
TEMPERATURE = 1.5
SCHEMAS = {
    "person": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 24},
            "age": {"type": "integer", "minimum": 0, "maximum": 130},
            "kind": {"enum": ["friend", "colleague", None]},
        },
        "required": ["name", "age", "kind"],
        "additionalProperties": False,
    },
    "list": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "color": {"enum": ["red", "green", "blue"]},
                "share": {"type": "number", "minimum": 0, "maximum": 1},
            },
            "required": ["color"],
            "additionalProperties": False,
        },
        "minItems": 1,
        "maxItems": 4,
    },
    "tree": {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "label": {"type": "string", "pattern": "^[a-z]{1,8}$"},
                    "left": {"anyOf": [{"$ref": "#/$defs/leaf"}, {"type": "null"}]},
                    "right": {"anyOf": [{"$ref": "#/$defs/leaf"}, {"type": "null"}]},
                },
                "required": ["label", "left", "right"],
                "additionalProperties": False,
            },
            "leaf": {"type": "string", "maxLength": 12},
        },
        "$ref": "#/$defs/node",
    },
}


def answers(model, tokenizer, grammar, prompt, seeds):
    """Per seed the tokens of an answer, all in one batch, and whether it ended by itself."""
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=False
    )
    from mlx_sampling.mlx_lm import make_prompt_cache

    samplers = [Sampler(seed=s, temperature=TEMPERATURE, grammar=grammar) for s in seeds]
    tokens = [[] for _ in seeds]
    cache = make_prompt_cache(model)
    rows = model(mx.array([ids] * len(seeds)), cache=cache)[:, -1]
    for _ in range(LIMIT):
        going = [i for i, s in enumerate(samplers) if not s.grammar_is_terminated]
        if not going:
            break
        picked = sample_batch(rows[mx.array(going)], [samplers[i] for i in going])
        fed = [0] * len(seeds)
        for i, token in zip(going, picked, strict=True):
            samplers[i].accept(token)
            tokens[i].append(token)
            fed[i] = token
        rows = model(mx.array(fed)[:, None], cache=cache)[:, -1]
    return tokens, [bool(s.grammar_is_terminated) for s in samplers]


@pytest.mark.parametrize("name", SCHEMAS)
def test_hot_answers_are_valid(packaged, name):
    model, tokenizer = packaged
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    grammar = Grammar.from_json_schema(SCHEMAS[name], vocabulary)
    prompt = f"Answer with JSON only: a {name}."
    tokens, ended = answers(
        model, tokenizer, grammar, prompt, range(FIRST_SEED, FIRST_SEED + SEEDS)
    )
    valid = 0
    for answer, complete in zip(tokens, ended, strict=True):
        matcher = grammar.matcher()
        assert all(matcher.accept_token(token) for token in answer)
        if complete:
            text = b"".join(vocabulary.native.bytes_of(token) for token in answer[:-1])
            jsonschema.validate(json.loads(text), SCHEMAS[name])
            valid += 1
        else:
            assert len(answer) == LIMIT
    print(f"{name}: {valid} of {SEEDS} complete and valid, the others cut at {LIMIT} tokens")
    assert valid >= 0.95 * SEEDS
