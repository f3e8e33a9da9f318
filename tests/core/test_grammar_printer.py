"""Syntax to GBNF: the canonical text, and that reading it gives the same syntax."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from grammar_texts import FEATURES, random_grammar

from mlx_sampling._ext import Vocabulary, parse_grammar, print_grammar

VOCABULARY = Vocabulary([b"a", b"<b>", b"<|end|>"])

PRINTED = {
    '("a" "b")*|[a]': '"ab"* | "a"',
    r'[\x5e\-a-c\]\[\\]': r"[\-\[-\x5Ea-c]",
    r'"^-[]\"\\"': r'"^-[]\"\\"',
    '"\n\x7f\u200b\u00ad\ue000é한"': r'"\n\x7F\u200B\xAD\uE000é한"',
    "[\U0001f600-\U0010ffff]": r"[\U0001F600-\U0010FFFF]",
    "[^a-z]": "[^a-z]",
    "[^z-a]": ".",
    "[z-a]": "[b-a]",
    "[ab]": "[ab]",
    '"a"{2,2}{3,}?{0,5}+': '"a"{2}{3,}?{0,5}+',
    '("a" | "b") "c" ( | "d"*)': '("a" | "b") "c" ("" | "d"*)',
    "()* | ()": '()* | ""',
    '("a" | ("b" | "c"))+': '("a" | ("b" | "c"))+',
    '("a"* "b")?': '("a"* "b")?',
}  # fmt: skip


@pytest.mark.parametrize("text", PRINTED)
def test_what_is_printed(text):
    syntax = parse_grammar(f"root ::= {text}")
    assert print_grammar(syntax) == f"root ::= {PRINTED[text]}\n"
    assert parse_grammar(print_grammar(syntax)).trees() == syntax.trees()


def test_tokens_are_printed_by_id():
    syntax = parse_grammar('root ::= !<b>* <[0]> "x"', vocabulary=VOCABULARY)
    assert print_grammar(syntax) == 'root ::= !<[1]>* <[0]> "x"\n'


def test_random_grammars_come_back_from_print():
    features = Counter()
    for seed in range(3000):
        grammar = random_grammar(random.Random(seed), tokens=[(1, "<b>"), (2, None)])
        features.update(grammar.features)
        syntax = parse_grammar(grammar.text, vocabulary=VOCABULARY)
        printed = print_grammar(syntax)
        again = parse_grammar(printed, vocabulary=VOCABULARY)
        assert again.trees() == syntax.trees(), grammar.text
        assert print_grammar(again) == printed
    assert min(features[feature] for feature in FEATURES) > 20
