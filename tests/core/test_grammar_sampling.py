"""A sampler under a grammar: what it picks, what a failing call leaves, and its snapshots."""

from __future__ import annotations

import subprocess
import sys
import zlib
from itertools import product
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from mlx_sampling import _ext
from mlx_sampling.batch import sample_batch
from mlx_sampling.errors import BatchError, GrammarRefusalError
from mlx_sampling.grammar import Grammar, GrammarTriggers
from mlx_sampling.sampler import Sampler
from mlx_sampling.vocabulary import Vocabulary

# Every ASCII character, all pairs of some, pieces of an e with an acute accent, and an end.
TEXTS = [chr(i).encode() for i in range(32, 127)]
TEXTS += [bytes(pair) for pair in product(b"ab01", repeat=2)]
TEXTS += [b"\xc3", b"\xa9", b"\xa8", b"<end>"]
END = len(TEXTS) - 1
WORDS = (len(TEXTS) + 31) // 32
VOCABULARY = Vocabulary(token_texts=TEXTS, eos_token_ids=[END])
NUMBERS = Grammar('root ::= [0-9]{3,5} ("." [0-9]+)?', VOCABULARY)
ACCENT = Grammar('root ::= ("a" [é-ë]){5,}', VOCABULARY)


def token_of(text: bytes) -> int:
    return TEXTS.index(text)


def row_of(seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(len(TEXTS)) * 3).astype(np.float32)


def streams_of(sampler: Sampler) -> list[bytes]:
    state = sampler._state
    return [s.snapshot() for s in (state.distribution, state.xtc, state.mirostat, state.adaptive)]


def generate(sampler: Sampler, steps: int, first_seed: int = 0) -> list[int]:
    tokens = []
    for step in range(steps):
        token = sampler.sample(row_of(first_seed + step))
        sampler.accept(token)
        tokens.append(token)
        if sampler.grammar_is_terminated:
            break
    return tokens


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0},
        {"mirostat": 2},
        {"mirostat": 1},
        {"samplers": ("adaptive_p",), "adaptive_target": 0.3},
        {"xtc_probability": 0.5, "repeat_penalty": 1.2, "temperature": 1.5},
    ],
)
def test_what_comes_out_matches_the_grammar(fields, first):
    ended = 0
    for seed in range(20):
        fields = fields if fields.get("temperature") == 0 else {**fields, "seed": seed}
        sampler = Sampler(grammar=NUMBERS, grammar_first=first, **fields)
        tokens = generate(sampler, 12, 100 * seed)
        matcher = NUMBERS.matcher()
        assert all(matcher.accept_token(token) for token in tokens)
        ended += tokens[-1] == END
        assert sampler.grammar_is_terminated == (tokens[-1] == END)
    assert ended > 5


def test_a_kept_token_costs_one_draw_and_a_refused_one_two():
    row = row_of(1)
    free = Sampler(seed=3, top_k=0, top_p=1, min_p=0)
    constrained = Sampler(seed=3, top_k=0, top_p=1, min_p=0, grammar=NUMBERS)
    token = free.sample(row)
    assert not NUMBERS.matcher().can_accept(token)
    free.sample(row)
    constrained.sample(row)
    assert streams_of(constrained) == streams_of(free)

    row[token_of(b"7")] = 40
    free, constrained = Sampler(seed=3), Sampler(seed=3, grammar=NUMBERS)
    assert free.sample(row) == constrained.sample(row) == token_of(b"7")
    assert streams_of(constrained) == streams_of(free)


def test_a_masked_pick_is_that_of_the_masked_row():
    matcher = NUMBERS.matcher()
    allowed = np.unpackbits(matcher.fill_bitmask().view(np.uint8), bitorder="little")
    for seed in range(30):
        row = row_of(seed)
        masked = np.where(allowed[: len(row)], row, -np.inf).astype(np.float32)
        sampler = Sampler(seed=seed, grammar=NUMBERS, grammar_first=True)
        other = Sampler(seed=seed, neg_inf="masked")
        assert sampler.sample(row) == other.sample(masked)
        assert sampler.logprobs(5, "processed") == other.logprobs(5, "processed")
        assert sampler.logprobs(5) == Sampler.logprobs(_sampled(row), 5)


def _sampled(row: np.ndarray) -> Sampler:
    sampler = Sampler(seed=1)
    sampler.sample(row)
    return sampler


def test_a_refused_accept_changes_nothing():
    sampler = Sampler(seed=1, grammar=NUMBERS)
    generate(sampler, 2)
    before = sampler.snapshot()
    message = r'\[grammar\] Expected a token that the grammar allows here, got \d+ \("a"\)\.'
    with pytest.raises(GrammarRefusalError, match=message):
        sampler.accept(token_of(b"a"))
    with pytest.raises(GrammarRefusalError, match=r'got \d+ \("\\xc3"\)'):
        sampler.accept(token_of(b"\xc3"))
    with pytest.raises(ValueError, match=rf"Expected a token id in \[0, {len(TEXTS)}\), got 900"):
        sampler.accept(900)
    assert sampler.snapshot() == before
    sampler.accept(token_of(b"1"))


@pytest.mark.parametrize("first", [False, True])
def test_a_step_without_an_allowed_token_changes_nothing(first):
    lonely = Grammar('root ::= "a" "\u00fc"', VOCABULARY)  # the vocabulary cannot spell the second
    sampler = Sampler(seed=1, mirostat=2, grammar=lonely, grammar_first=first)
    assert generate(sampler, 1) == [token_of(b"a")]
    before, mu = streams_of(sampler), sampler._state.mirostat_mu
    sampler.accept(token_of(b"\xc3"))
    with pytest.raises(GrammarRefusalError, match="the grammar allows none here"):
        sampler.sample(row_of(2))
    assert streams_of(sampler) == before
    assert sampler._state.mirostat_mu == mu


def test_nothing_comes_after_the_end():
    sampler = Sampler(seed=1, grammar=NUMBERS)
    generate(sampler, 3)
    sampler.accept(END) if sampler.grammar_is_completed else generate(sampler, 20)
    assert sampler.grammar_is_terminated
    before = sampler.snapshot()
    with pytest.raises(GrammarRefusalError, match="the text has ended"):
        sampler.sample(row_of(1))
    with pytest.raises(GrammarRefusalError, match="Expected a token that the grammar allows here"):
        sampler.accept(END)
    assert sampler.snapshot() == before
    assert Sampler.restore(before, grammar=NUMBERS).grammar_is_terminated


def test_allowed_tokens_at_minus_infinity_are_no_tokens():
    sampler = Sampler(temperature=0, grammar=NUMBERS, neg_inf="masked")
    row = row_of(1)
    row[[i for i, text in enumerate(TEXTS) if text[:1].isdigit()]] = -np.inf
    with pytest.raises(GrammarRefusalError, match="the logits and the stages leave none"):
        sampler.sample(row)
    assert generate(sampler, 1)


def test_prompt_tokens_are_no_text_of_the_grammar():
    sampler = Sampler(seed=1, grammar=NUMBERS)
    sampler.accept_prompt([token_of(b"a"), token_of(b"b")])
    assert TEXTS[generate(sampler, 1)[0]][:1].isdigit()


def test_ids_beyond_the_vocabulary_never_come():
    wide = np.concatenate([row_of(1), np.full(64, 50, np.float32)])
    sampler = Sampler(seed=1, grammar=NUMBERS)
    assert sampler.sample(wide) < len(TEXTS)


@pytest.mark.parametrize("cut", range(8))
def test_a_snapshot_goes_on_within_a_character(cut):
    for seed in range(8):
        first = Sampler(seed=seed, grammar=ACCENT, top_k=0)
        generate(first, cut)
        second = Sampler.restore(first.snapshot(), grammar=ACCENT, top_k=0)
        assert second.grammar_is_completed == first.grammar_is_completed
        assert second.snapshot() == first.snapshot()
        assert generate(second, 12, 50) == generate(first, 12, 50)


def test_a_snapshot_of_another_grammar_is_refused():
    with_grammar = Sampler(seed=1, grammar=NUMBERS)
    generate(with_grammar, 3)
    without, other = Sampler(seed=1), Sampler(seed=1, grammar=ACCENT)
    for sampler, message in (
        (without, "without a grammar, as the sampler has, got one with"),
        (other, "the sampler's grammar and vocabulary, got another's"),
    ):
        before = sampler.snapshot()
        with pytest.raises(ValueError, match=message):
            sampler.restore_state(with_grammar.snapshot())
        assert sampler.snapshot() == before
    with pytest.raises(ValueError, match="with a grammar, as the sampler has, got one without"):
        with_grammar.restore_state(Sampler(seed=1, vocab_size=len(TEXTS)).snapshot())


def test_the_snapshot_goes_on_in_another_process():
    sampler = Sampler(seed=5, grammar=ACCENT, top_k=0)
    generate(sampler, 3)
    program = (
        "import sys, test_grammar_sampling as t\n"
        "sampler = t.Sampler.restore(bytes.fromhex(sys.argv[1]), grammar=t.ACCENT, top_k=0)\n"
        "print(t.generate(sampler, 200, 50))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, sampler.snapshot().hex()],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    assert done.stdout.strip() == str(generate(sampler, 200, 50))


def test_reset_and_clone():
    sampler = Sampler(seed=2, grammar=NUMBERS)
    fresh = sampler.snapshot()
    tokens = generate(sampler, 3)
    clone = sampler.clone()
    assert generate(clone, 5, 9) == generate(sampler, 5, 9)
    sampler.reset()
    assert sampler.snapshot() == fresh
    assert generate(sampler, 3) == tokens


def test_a_batch_has_a_grammar_per_request():
    rows = np.stack([row_of(seed) for seed in range(64)])
    kinds = [NUMBERS, ACCENT, None]

    def samplers() -> list[Sampler]:
        return [Sampler(seed=i, grammar=kinds[i % 3]) for i in range(64)]

    alone = [sampler.sample(row) for sampler, row in zip(samplers(), rows, strict=True)]
    for threads in (1, 4):
        assert sample_batch(rows, samplers(), threads=threads) == alone
    stuck = Sampler(seed=1, grammar=Grammar('root ::= "\\x01"', VOCABULARY))
    with pytest.raises(BatchError) as caught:
        sample_batch(rows[:2], [Sampler(seed=1), stuck])
    assert isinstance(caught.value.results[1], GrammarRefusalError)


@pytest.mark.parametrize(
    ("triggers", "begins"),
    [
        (GrammarTriggers(tokens=[token_of(b"1")]), [b"1"]),
        (GrammarTriggers(words=["1"]), [b"1"]),
        (GrammarTriggers(patterns=["x(1)"]), [b"x", b"1"]),
        (GrammarTriggers(patterns=["^.*b(1)$"]), [b"ab", b"1"]),
        (GrammarTriggers(words=["a1"], patterns=["b(1)"]), [b"ab", b"1"]),
        (GrammarTriggers(patterns=["é(1)"]), [b"\xc3", b"\xa9", b"1"]),
        (GrammarTriggers(patterns=["b(1)"]), [b"b1"]),
    ],
)
def test_a_lazy_grammar(triggers, begins):
    sampler = Sampler(seed=1, grammar=NUMBERS, grammar_triggers=triggers)
    for text in (b"z", b"}", b"\xa9"):
        sampler.accept(token_of(text))
        assert sampler.grammar_is_waiting
        assert sampler.grammar_is_completed is False
    restored = Sampler.restore(
        sampler.snapshot(), grammar=NUMBERS, grammar_triggers=triggers, seed=1
    )
    for going in (sampler, restored):
        for text in begins:
            assert going.grammar_is_waiting
            if text != begins[-1]:
                going.accept(token_of(text))
        going.accept(token_of(begins[-1]))
        assert not going.grammar_is_waiting
    again = Sampler.restore(restored.snapshot(), grammar=NUMBERS, grammar_triggers=triggers, seed=1)
    tokens = generate(sampler, 12)
    assert generate(restored, 12) == generate(again, 12) == tokens
    matcher = NUMBERS.matcher()
    assert matcher.accept_text(b"1")
    assert all(matcher.accept_token(token) for token in tokens)


def test_a_trigger_that_the_grammar_refuses():
    with pytest.raises(ValueError, match="tokens that the grammar can begin with, got 65"):
        Sampler(grammar=NUMBERS, grammar_triggers=GrammarTriggers(tokens=[65]))
    with pytest.raises(ValueError, match=rf"ids in \[0, {len(TEXTS)}\), got 4000"):
        Sampler(grammar=NUMBERS, grammar_triggers=GrammarTriggers(tokens=[4000]))
    sampler = Sampler(seed=1, grammar=NUMBERS, grammar_triggers=GrammarTriggers(words=["x"]))
    before = sampler.snapshot()
    with pytest.raises(GrammarRefusalError, match="triggers the grammar to fit it"):
        sampler.accept(token_of(b"x"))
    assert sampler.snapshot() == before
    sampler.accept(token_of(b"y"))


def test_a_refused_trigger_within_a_character():
    """What was seen may be no UTF-8; the message shows it all the same."""
    triggers = GrammarTriggers(patterns=["."])
    sampler = Sampler(seed=1, grammar=NUMBERS, grammar_triggers=triggers)
    before = sampler.snapshot()
    with pytest.raises(GrammarRefusalError, match=r'but it refuses: "\\xa9"\.$'):
        sampler.accept(token_of(b"\xa9"))
    assert sampler.snapshot() == before


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: GrammarTriggers(), ValueError, "Expected a token, word or pattern, got none"),
        (lambda: GrammarTriggers(words=[""]), ValueError, r"\[words\] .* got an empty string"),
        (lambda: GrammarTriggers(words="ab"), TypeError, r"\[words\] Expected strings"),
        (lambda: GrammarTriggers(words=None), TypeError, r"\[words\] Expected strings, got None"),
        (lambda: GrammarTriggers(patterns=["("]), ValueError, r"\[patterns\] Expected a regular"),
        (lambda: GrammarTriggers(tokens=[-1]), ValueError, r"\[grammar_triggers\]"),
        (lambda: Sampler(grammar_first=True), ValueError, r"\[grammar_first\] Expected a grammar"),
        (lambda: Sampler(grammar=NUMBERS, grammar_first=1), TypeError, "Expected a bool, got int"),
        (lambda: Sampler(grammar="root"), TypeError, r"\[grammar\] Expected a Grammar, got str"),
        (lambda: Sampler(grammar=NUMBERS, vocab_size=5), ValueError, "the grammar's vocabulary"),
        (
            lambda: Sampler(grammar=Grammar('root ::= "a"')),
            ValueError,
            "with a vocabulary, got none",
        ),
        (
            lambda: Sampler(grammar_triggers=GrammarTriggers(words=["a"])),
            ValueError,
            r"\[grammar_triggers\] Expected a grammar",
        ),
        (
            lambda: Sampler(grammar=NUMBERS, grammar_triggers=["a"]),
            TypeError,
            "Expected GrammarTriggers, got list",
        ),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    "out",
    [
        np.zeros(WORDS + 1, np.uint32),
        np.zeros(WORDS, np.int32),
        np.zeros(WORDS, np.dtype(np.uint32).newbyteorder()),
        np.zeros(2 * WORDS, np.uint32)[::2],
        np.zeros((1, WORDS), np.uint32),
        np.broadcast_to(np.uint32(0), WORDS),
        mx.zeros(WORDS, mx.uint32),  # MLX's arrays are not to be written to
        [0] * WORDS,
    ],
    ids=str,
)
def test_no_place_for_a_bitmask(out):
    with pytest.raises(ValueError, match=r"^\[(fill_bitmask|words)\] Expected "):
        NUMBERS.matcher().fill_bitmask(out)
    assert np.all(np.array(out) == 0)


def test_a_damaged_grammar_section_is_refused():
    sampler = Sampler(seed=1, grammar=NUMBERS)
    generate(sampler, 3)
    snapshot = sampler.snapshot()
    for at in range(len(snapshot) - 40, len(snapshot)):
        damaged = bytearray(snapshot)
        damaged[at] ^= 0x11
        with pytest.raises(ValueError, match=r"\[restore\]"):
            sampler.restore_state(bytes(damaged))
    # A right checksum over tokens that the grammar cannot have accepted.
    body = snapshot[:-8] + token_of(b"z").to_bytes(4, "little")
    with pytest.raises(ValueError, match="Expected tokens that fit the grammar"):
        sampler.restore_state(body + zlib.crc32(body).to_bytes(4, "little"))
    assert sampler.snapshot() == snapshot


def test_timings_name_the_grammar():
    sampler = Sampler(seed=1, grammar=NUMBERS)
    sampler.sample(row_of(1))
    assert sampler.timings.grammar > 0
    assert _sampled(row_of(1)).timings.grammar == 0


def test_masking_a_row_is_exact_at_every_width():
    for width in (1, 31, 32, 33, 255, 256, 257, 1000):
        vocabulary = Vocabulary(
            token_texts=[b"%d," % i for i in range(width - 1)] + [b"<end>"],
            eos_token_ids=[width - 1],
        )
        grammar = Grammar('root ::= ([0-9]* [02468] ",")*', vocabulary)
        row = np.random.default_rng(width).standard_normal(width).astype(np.float32)
        picks = {
            Sampler(seed=seed, grammar=grammar, top_k=0, top_p=1, min_p=0, temperature=2.0).sample(
                row
            )
            for seed in range(50)
        }
        assert all(token == width - 1 or token % 2 == 0 for token in picks)
        best = Sampler(temperature=0, grammar=grammar).sample(row)
        legal = [*range(0, width - 1, 2), width - 1]
        assert best == legal[int(np.argmax(row[legal]))]
    assert _ext.RequestState(1).grammar_is_waiting is None
