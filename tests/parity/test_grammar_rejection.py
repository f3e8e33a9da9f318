"""Rejection sampling under a grammar against llama.cpp's, live: tokens, candidates' bits and streams.

Upstream's `common_sampler_sample` is not in the library's C interface, so its steps are made here of
its own chain and grammar samplers: chain, check of the winner, and where it is refused the grammar over all
tokens and the chain again. Tokens that upstream treats carelessly (control tokens, pieces of characters) are
at -inf on both sides.
"""

from __future__ import annotations

import collections
import ctypes

import numpy as np
import pytest
from drive import Outcome, compare
from test_sampling_params import CommonSampler, drawn_params

from mlx_sampling.bench.llama_cpp import TOKEN_DATA, apply
from mlx_sampling.grammar import Grammar, GrammarTriggers
from mlx_sampling.params import SamplingParams
from mlx_sampling.sampler import Sampler
from mlx_sampling.vocabulary import Vocabulary

STEPS = 14
JSON = r"""
root   ::= object
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array  ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x00-\x1F] | "\\" ["\\/bfnrt])* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ws
ws     ::= | " " | "\n" [ \t]{0,20}
"""
GRAMMARS = {
    "json": JSON,
    "names": 'root ::= name (", " name)* "."\nname ::= [A-Z] [a-z]{1,12}',
    "choice": 'root ::= ("yes" | "no" | "maybe" | "yesterday") " because " [^\\n]+',
    "numbers": 'root ::= [0-9]+ ("-" [0-9]{2,4}){0,3} "\\n"',
}


class GrammarSampler(CommonSampler):
    """Upstream's chain with a grammar beside it."""

    def __init__(self, params, library, vocabulary, grammar, triggers=(), first=False):
        super().__init__(params, library, vocabulary)
        self._library, self._first = library, first
        named = (vocabulary.handle, grammar.encode(), b"root")
        if triggers:
            tokens = (ctypes.c_int32 * len(triggers))(*triggers)
            self._grammar = library.make(
                "grammar_lazy_patterns", *named, None, 0, tokens, len(triggers)
            )
        else:
            self._grammar = library.make("grammar", *named)
        assert self._grammar
        self.refused = False

    def masked(self, row):
        data = np.zeros(len(row), TOKEN_DATA)
        data["id"] = np.arange(len(row), dtype=np.uint32)
        data["logit"] = row
        return apply(self._library, self._grammar, data)[1]["logit"].copy()

    def sample(self, row) -> Outcome:
        self.refused = False
        if self._first:
            return super().sample(self.masked(row))
        outcome = super().sample(row)
        if outcome.token < 0:
            return outcome
        single = np.zeros(1, TOKEN_DATA)
        single["id"], single["logit"] = outcome.token, 1
        if apply(self._library, self._grammar, single)[1]["logit"][0] > -np.inf:
            return outcome
        self.refused = True
        return super().sample(self.masked(row))

    def accept(self, token: int) -> None:
        super().accept(token)
        self._library.llama_sampler_accept(self._grammar, token)

    def accept_prompt(self, token: int) -> None:
        super().accept(token)


@pytest.fixture(scope="module")
def vocabulary(model_path):
    return Vocabulary.from_gguf(model_path)


def is_plain(vocabulary: Vocabulary) -> np.ndarray:
    def plain(token: int) -> bool:
        text = vocabulary.native.bytes_of(token)
        try:
            return bool(text.decode()) and vocabulary.native.is_text(token) and text[0] != 0
        except UnicodeDecodeError:
            return False

    ends = list(vocabulary.eos_token_ids)
    keep = np.array([plain(token) for token in range(vocabulary.native.size)])
    keep[ends] = True
    return keep


def row_of(case: int, step: int, plain: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Half of the rows have ties; in two thirds of them the grammar's tokens are likelier."""
    rng = np.random.default_rng([case, step])
    row = (rng.standard_normal(len(plain)) * 3).astype(np.float32)
    row = np.round(row, 1) if step % 2 else row
    if rng.random() < 0.66:
        row[allowed] += np.float32(8)
    row[~plain] = -np.inf
    return row


def allowed_of(sampler: Sampler, grammar: Grammar, tokens: list[int], size: int) -> np.ndarray:
    matcher = grammar.matcher()
    if not sampler.grammar_is_waiting:
        for token in tokens:
            assert matcher.accept_token(token)
    bits = np.unpackbits(matcher.fill_bitmask().view(np.uint8), bitorder="little")
    return bits[:size].astype(bool)


def run(params, case, name, library, upstream_vocabulary, vocabulary, plain, first=False):
    """Compares a run; counts what happened."""
    grammar = Grammar(GRAMMARS[name], vocabulary)
    theirs = GrammarSampler(params, library, upstream_vocabulary, GRAMMARS[name], first=first)
    ours = Sampler(
        params,
        neg_inf="masked",
        grammar=grammar,
        grammar_first=first,
        token_texts=upstream_vocabulary.texts,
        tokenize=upstream_vocabulary.tokenize,
    )
    prompt = [int(t) for t in np.random.default_rng(case).integers(20, 60, size=20)]
    ours.accept_prompt(prompt)
    for token in prompt:
        theirs.accept_prompt(token)
    tokens: list[int] = []
    counts: collections.Counter[str] = collections.Counter()
    for step in range(STEPS):
        row = row_of(case, step, plain, allowed_of(ours, grammar, tokens, len(plain)))
        expected = theirs.sample(row)
        try:
            token = ours.sample(row)
        except ValueError:
            assert not expected.usable(), (params, name, step)
            counts["no token"] += 1
            return counts
        if params.temperature == 0:
            assert token == expected.token, (params, name, step)
        else:
            fault = compare(Outcome(token, *ours._state.candidates()), expected)
            assert not fault, f"{params}, {name}, step {step}: {fault}"
        counts["refused" if theirs.refused else "kept"] += 1
        ours.accept(token)
        theirs.accept(token)
        tokens.append(token)
        if ours.grammar_is_terminated:
            counts["ended"] += 1
            break
    if params.temperature > 0 and not params.mirostat and "adaptive_p" not in params.samplers:
        u = ours._state.distribution.uniform_f64(reference="libstdc++")
        assert max(int(np.ceil(1000 * u)) - 1, 0) == theirs.chain.probe(1000), (params, name)
        counts["streams compared"] += 1
    return counts


@pytest.mark.parametrize("first", [False, True])
def test_the_same_tokens_bits_and_streams(library, upstream_vocabulary, vocabulary, first):
    plain = is_plain(vocabulary)
    counts: collections.Counter[str] = collections.Counter()
    for case in range(60 if not first else 20):
        name = list(GRAMMARS)[case % len(GRAMMARS)]
        params = drawn_params(1000 + case, dry=case % 10 == 9)
        counts += run(
            params, case, name, library, upstream_vocabulary, vocabulary, plain, first=first
        )
    print(dict(counts))
    steps = counts["refused"] + counts["kept"]
    assert steps > (400 if not first else 120)
    if not first:
        assert min(counts["refused"], counts["kept"]) > 0.2 * steps
    assert counts["streams compared"] > 10


def test_greedy_requests(library, upstream_vocabulary, vocabulary):
    plain = is_plain(vocabulary)
    for case, name in enumerate(GRAMMARS):
        params = SamplingParams(temperature=0, repeat_penalty=1.2, reference="libstdc++")
        counts = run(params, case, name, library, upstream_vocabulary, vocabulary, plain)
        assert counts["kept"] + counts["refused"] > 2


def test_a_lazy_grammar_begins_with_its_trigger_token(library, upstream_vocabulary, vocabulary):
    plain = is_plain(vocabulary)
    (trigger,) = upstream_vocabulary.tokenize(b"{")
    params = SamplingParams(seed=4, temperature=1.0, top_k=200, reference="libstdc++")
    theirs = GrammarSampler(params, library, upstream_vocabulary, JSON, triggers=[trigger])
    grammar = Grammar(JSON, vocabulary)
    ours = Sampler(
        params,
        neg_inf="masked",
        grammar=grammar,
        grammar_triggers=GrammarTriggers(tokens=[trigger]),
    )
    refused = 0
    for step in range(24):
        row = row_of(77, step, plain, np.zeros(len(plain), bool))
        if step == 6:
            row[trigger] = 90
        elif step < 6:
            row[trigger] = -np.inf
        expected = theirs.sample(row)
        token = ours.sample(row)
        assert not compare(Outcome(token, *ours._state.candidates()), expected), step
        assert step >= 6 or not theirs.refused
        refused += theirs.refused
        ours.accept(token)
        theirs.accept(token)
        assert ours.grammar_is_waiting == (step < 6)
    assert refused
