"""Under a grammar too a drafted token has the law of the plain request, by rejection and grammar first.

The exact law is made here of softmaxes: of a draw from the chain's law, and of a second one from the masked
row where the grammar refuses the first. Seeds, runs and significance are fixed.
"""

from __future__ import annotations

import chi_square
import numpy as np
import pytest
from memo_models import markov

from mlx_sampling import Grammar, ModelDrafter, Sampler, Vocabulary, speculative_stream

SIGNIFICANCE = 1e-4
RUNS = 2500
TEXTS = [b"a", b"b", b"c", b"ab", b"<end>"]
WIDTH = len(TEXTS)
VOCABULARY = Vocabulary(token_texts=TEXTS, eos_token_ids=[WIDTH - 1])
GRAMMARS = {
    "some": 'root ::= ("a" | "ab" "c"*) ("b" | "c")*',
    "one": 'root ::= "ab" [abc]+',
    "all": "root ::= [abc]*",
}
OPEN = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}
CUT = {"top_k": 2, "top_p": 1.0, "min_p": 0.0, "temperature": 1.3}
TOKENS = 2


def softmax(logits, chain):
    logits = np.asarray(logits, np.float64) / chain["temperature"]
    if chain["top_k"]:
        kept = np.argsort(-logits, kind="stable")[: chain["top_k"]]
        logits = np.where(np.isin(np.arange(len(logits)), kept), logits, -np.inf)
    e = np.exp(logits - logits.max())
    return e / e.sum()


def law_of_token(row, allowed, chain, first):
    masked = softmax(np.where(allowed, row, -np.inf), chain)
    if first:
        return masked
    free = softmax(row, chain)
    return np.where(allowed, free, 0) + free[~allowed].sum() * masked


def joint_law(model, grammar, prompt, chain, first):
    law = np.zeros((WIDTH + 1,) * TOKENS)  # one more: the text had ended

    def follow(text, chance):
        if len(text) == TOKENS or (text and text[-1] == WIDTH - 1):
            law[tuple(text + [WIDTH] * (TOKENS - len(text)))] += chance
            return
        matcher = grammar.matcher()
        assert all(matcher.accept_token(token) for token in text)
        allowed = np.array([matcher.can_accept(token) for token in range(WIDTH)])
        row = model.row(prompt + text)
        for token, p in enumerate(law_of_token(row, allowed, chain, first)):
            if p > 0:
                follow([*text, token], chance * p)

    follow([], 1.0)
    return law


def counts_of(stream_of):
    counts = np.zeros((WIDTH + 1,) * TOKENS, np.int64)
    for seed in range(RUNS):
        tokens = list(stream_of(seed))
        counts[tuple(tokens + [WIDTH] * (TOKENS - len(tokens)))] += 1
    return counts


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("chain", [OPEN, CUT], ids=["open", "cut"])
@pytest.mark.parametrize("name", GRAMMARS)
def test_joint_law_of_drafts_under_a_grammar(name, chain, first):
    target, drafter, prompt = markov(1, WIDTH), ModelDrafter(markov(2, WIDTH)), [0, 1]
    grammar = Grammar(GRAMMARS[name], VOCABULARY)

    def stream(seed):
        sampler = Sampler(seed=seed, grammar=grammar, grammar_first=first, **chain)
        return speculative_stream(
            target, drafter, prompt, sampler, draft_tokens=2, max_tokens=TOKENS
        )

    law = joint_law(target, grammar, prompt, chain, first)
    counts = counts_of(stream)
    assert chi_square.p_value(counts, law) > SIGNIFICANCE
    if name == "some" and chain is CUT:  # there the two ways differ, and the test can tell
        other = joint_law(target, grammar, prompt, chain, not first)
        assert chi_square.p_value(counts, other) < SIGNIFICANCE


def test_mirostat_needs_the_grammar_first():
    target, prompt = markov(1, WIDTH), [0, 1]
    grammar = Grammar(GRAMMARS["one"], VOCABULARY)
    sampler = Sampler(seed=1, mirostat=2, grammar=grammar)
    stream = speculative_stream(target, ModelDrafter(markov(2, WIDTH)), prompt, sampler)
    before = sampler.snapshot()
    with pytest.raises(ValueError, match="Expected grammar_first=True for a chain that ends with"):
        next(stream)
    assert len(before) <= len(sampler.snapshot())
    sampler = Sampler(seed=1, mirostat=2, grammar=grammar, grammar_first=True)
    stream = speculative_stream(
        target, ModelDrafter(markov(2, WIDTH)), prompt, sampler, max_tokens=4
    )
    matcher = grammar.matcher()
    assert all(matcher.accept_token(token) for token in stream)
