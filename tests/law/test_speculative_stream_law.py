"""speculative_stream gives the law of the target's chain, over its own seeding, in joint tokens.

Many requests of consecutive seeds run a few tokens each; their joint counts are compared with the exact law,
or with sample_stream's counts. Seeds, runs, bins and significance are fixed here.
"""

from __future__ import annotations

import chi_square
import numpy as np
import pytest
from memo_models import markov, remembered

from mlx_sampling import (
    LookupDrafter,
    ModelDrafter,
    Sampler,
    drafters,
    sample_stream,
    speculative_stream,
)

SIGNIFICANCE = 1e-4
RUNS = 6000
WIDTH = 3
TOKENS = 4  # the prompt's pass gives one, a pass over two drafts up to three more
OPEN = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}


def joint_law(model, prompt, **options):
    """The exact law of the first TOKENS tokens: the chain's own, token by token, over every history."""
    law = np.zeros((WIDTH,) * TOKENS)

    def follow(text, chance):
        if len(text) == TOKENS:
            law[tuple(text)] += chance
            return
        sampler = Sampler(seed=0, vocab_size=WIDTH, **options)
        sampler.accept_prompt(prompt + text)
        sampler.sample(model.row(prompt + text))
        for token in range(WIDTH):
            p = np.exp(sampler.logprob(token, "processed"))
            if p > 0:
                follow([*text, token], chance * p)

    follow([], 1.0)
    return law


def counts_of(stream_of, runs=RUNS):
    counts = np.zeros((WIDTH,) * TOKENS, np.int64)
    for seed in range(runs):
        counts[tuple(stream_of(seed))] += 1
    return counts


CHAINS = {
    "temperature": OPEN,
    "truncated": {**OPEN, "top_k": 2},
    "penalties": {**OPEN, "repeat_penalty": 1.5, "presence_penalty": 0.3, "repeat_last_n": 3},
}


@pytest.mark.parametrize("chain", CHAINS)
def test_joint_law_of_a_model_that_drafts(chain):
    target, draft, prompt = markov(1, WIDTH), markov(2, WIDTH), [0, 1]
    drafter = ModelDrafter(draft)

    def stream(seed):
        sampler = Sampler(seed=seed, vocab_size=WIDTH, **CHAINS[chain])
        return speculative_stream(
            target, drafter, prompt, sampler, draft_tokens=2, max_tokens=TOKENS
        )

    law = joint_law(target, prompt, **CHAINS[chain])
    assert chi_square.p_value(counts_of(stream), law) > SIGNIFICANCE


def test_joint_law_of_lookup():
    target, prompt = markov(3, WIDTH), [0, 1, 2, 2, 0, 1, 0, 2, 1, 1]

    def stream(seed):
        sampler = Sampler(seed=seed, **OPEN)
        return speculative_stream(
            target, LookupDrafter(), prompt, sampler, draft_tokens=2, max_tokens=TOKENS
        )

    assert chi_square.p_value(counts_of(stream), joint_law(target, prompt, **OPEN)) > SIGNIFICANCE


def test_a_drafter_that_shares_the_request_s_words_is_seen(monkeypatch):
    """The fourth planted error: a word that chose a draft judges it too."""
    monkeypatch.setattr(drafters, "draft_seed", lambda seed, position: seed)
    target, draft, prompt = markov(1, WIDTH), markov(2, WIDTH), [0, 1]
    drafter = ModelDrafter(draft)

    def stream(seed):
        sampler = Sampler(seed=seed, **OPEN)
        return speculative_stream(
            target, drafter, prompt, sampler, draft_tokens=2, max_tokens=TOKENS
        )

    assert chi_square.p_value(counts_of(stream, 3000), joint_law(target, prompt, **OPEN)) < 1e-12


def test_joint_law_of_mirostat():
    """Its bound moves with every token; the plain route's counts stand for its law."""
    target, prompt = markov(4, WIDTH), [0, 1]
    drafter = ModelDrafter(markov(5, WIDTH))
    chain = {"mirostat": 2, "mirostat_tau": 0.9, "mirostat_eta": 0.5}
    counts: list[dict[tuple[int, ...], int]] = [{}, {}]
    for seed in range(RUNS // 2):
        ours = speculative_stream(
            target, drafter, prompt, Sampler(seed=seed, **chain), draft_tokens=2, max_tokens=TOKENS
        )
        plain = sample_stream(target, prompt, Sampler(seed=seed, **chain), max_tokens=TOKENS)
        for found, stream in zip(counts, (ours, plain), strict=True):
            text = tuple(stream)
            found[text] = found.get(text, 0) + 1
    assert homogeneity(*counts) > SIGNIFICANCE


PACKAGED = [
    ("The capital of France is", {"temperature": 0.8, "top_k": 6}),
    ("Once upon a time there was a", {"temperature": 1.2, "top_k": 4, "repeat_penalty": 1.3}),
]
PACKAGED_RUNS = 3000
BINS = 24  # the likeliest texts of three tokens, and one for the rest


@pytest.mark.parametrize(("text", "chain"), PACKAGED, ids=["plain", "penalties"])
def test_sampled_tokens_of_the_packaged_model(packaged, text, chain):
    """Three tokens, against the law that the plain route's own steps have; q is another chain's."""
    model, tokenizer = packaged
    prompt = tokenizer.encode(text)
    target = remembered(model, 49_152, prompt)
    drafter = ModelDrafter(target, Sampler(top_k=3, temperature=1.5))
    counts: dict[tuple[int, ...], int] = {}
    accepted = 0
    for seed in range(PACKAGED_RUNS):
        stream = speculative_stream(
            target, drafter, prompt, Sampler(seed=seed, **chain), draft_tokens=2, max_tokens=3
        )
        found = tuple(stream)
        counts[found] = counts.get(found, 0) + 1
        accepted += stream.figures.accepted
    assert 0.3 * PACKAGED_RUNS < accepted < 2 * PACKAGED_RUNS
    law = law_of_three(target, prompt, chain)
    assert set(counts) <= set(law)
    bins = sorted(law, key=lambda text: (-law[text], text))[:BINS]
    chances = [law[text] for text in bins]
    observed = [counts.get(text, 0) for text in bins]
    chances.append(1 - sum(chances))
    observed.append(PACKAGED_RUNS - sum(observed))
    assert chi_square.p_value(observed, chances) > SIGNIFICANCE


def law_of_three(model, prompt, chain):
    """Texts of three tokens and their chances, as sample_stream would draw them."""
    law = {(): 1.0}
    for _ in range(3):
        longer = {}
        for text, chance in law.items():
            sampler = Sampler(seed=0, **chain)
            sampler.accept_prompt([*prompt, *text])
            sampler.sample(model.row([*prompt, *text]))
            for token, logprob in sampler.logprobs(100, "processed"):
                longer[(*text, token)] = chance * np.exp(logprob)
        law = longer
    return law


def homogeneity(first, second):
    """How likely two counts this different or more are under one law."""
    both = {key: first.get(key, 0) + second.get(key, 0) for key in {*first, *second}}
    keys = sorted(both, key=lambda key: (-both[key], key))[:BINS]
    table = np.array([[c.get(key, 0) for key in keys] for c in (first, second)], float)
    rest = [sum(c.values()) - row.sum() for c, row in zip((first, second), table, strict=True)]
    table = np.concatenate([table, np.array(rest)[:, None]], axis=1)
    table = table[:, table.sum(axis=0) >= 20]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic = ((table - expected) ** 2 / expected).sum()
    return chi_square.survival(float(statistic), table.shape[1] - 1)


def test_homogeneity_sees_another_law():
    rng = np.random.default_rng(1)
    same = [dict(enumerate(rng.multinomial(4000, [0.5, 0.3, 0.2]))) for _ in range(2)]
    other = dict(enumerate(rng.multinomial(4000, [0.45, 0.33, 0.22])))
    assert homogeneity(*same) > SIGNIFICANCE > homogeneity(same[0], other)
