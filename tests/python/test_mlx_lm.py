"""make_sampler inside mlx-lm's own loops: same tokens, laziness, and how late an error is."""

import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import mlx.core as mx
import pytest
from tiny_models import Poisoned

from mlx_sampling import Grammar, NonfiniteLogitsError, Vocabulary, greedy_stream
from mlx_sampling._ext import is_available

mlx_lm_generate = pytest.importorskip("mlx_lm.generate")

from mlx_sampling.mlx_lm import make_sampler  # noqa: E402

PROMPT = [3, 1, 4, 1, 5]
NAN, INF = float("nan"), float("inf")


def tokens_of(model, sampler=None, count=20, **options):
    steps = mlx_lm_generate.generate_step(
        mx.array(PROMPT), model, max_tokens=count, sampler=sampler, **options
    )
    return [int(token) for token, _ in steps]


@pytest.mark.parametrize("strict", [False, True])
def test_greedy_gives_mlx_lm_tokens(tiny_model, strict):
    with make_sampler(strict=strict) as sampler:
        assert tokens_of(tiny_model, sampler) == tokens_of(tiny_model)


def test_greedy_is_lazy_and_strict_is_not(tiny_model):
    logprobs = mx.array([[0.0, 1.0, 0.5]]) * 2
    token = make_sampler()(logprobs)
    assert token.dtype == mx.uint32
    assert not is_available(token)
    assert not is_available(logprobs)
    make_sampler(strict=True)(logprobs)
    assert is_available(logprobs)


def test_excluded(tiny_model):
    first = tokens_of(tiny_model)[0]
    with make_sampler(excluded={first}) as sampler:
        assert first not in tokens_of(tiny_model, sampler)


@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("step", [0, 1, 2, 6])
def test_a_bad_row_is_at_most_one_token_late(tiny_model, step, value):
    good = tokens_of(tiny_model)
    model = Poisoned(tiny_model, len(PROMPT) + step, value)
    tokens = []
    sampler = make_sampler()
    with pytest.raises(NonfiniteLogitsError, match=rf"at step {step}, got .*: {step} tokens"):
        for token, _ in mlx_lm_generate.generate_step(mx.array(PROMPT), model, sampler=sampler):
            tokens.append(token)
    assert tokens[:step] == good[:step]
    assert len(tokens) <= step + 1


@pytest.mark.parametrize("step", [0, 1, 2, 6])
def test_strict_is_never_late(tiny_model, step):
    model = Poisoned(tiny_model, len(PROMPT) + step, NAN)
    sampler = make_sampler(strict=True)
    tokens = []
    with pytest.raises(NonfiniteLogitsError, match=f"at step {step}"):
        for token, _ in mlx_lm_generate.generate_step(mx.array(PROMPT), model, sampler=sampler):
            tokens.append(token)
    # mlx-lm makes the next row before it hands a token out, so one good token is not handed out.
    assert tokens == tokens_of(tiny_model)[: max(step - 1, 0)]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_end_of_a_run_is_checked(tiny_model, count):
    model = Poisoned(tiny_model, len(PROMPT) + count - 1, NAN)
    tokens = []
    with (
        pytest.raises(NonfiniteLogitsError, match=f"at step {count - 1}"),
        make_sampler() as sampler,
    ):
        for token, _ in mlx_lm_generate.generate_step(
            mx.array(PROMPT), model, max_tokens=count, sampler=sampler
        ):
            tokens.append(token)
    assert len(tokens) <= count


def feed(sampler, good, bad=0):
    """Calls the sampler with `good` good rows, then `bad` bad ones."""
    for value in [0.0] * good + [NAN] * bad:
        mx.eval(sampler(mx.array([[value, 1.0]])))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("end", ["close", "discard", "with", "error in with", "bad row"])
def test_each_run_counts_its_own_steps(end, strict):
    sampler = make_sampler(strict=strict)
    if end == "with":
        with sampler:
            feed(sampler, 10)
    elif end == "error in with":
        with pytest.raises(KeyError), sampler:
            feed(sampler, 10)
            raise KeyError("mine")
    elif end == "bad row":
        with pytest.raises(NonfiniteLogitsError, match="at step 10"):
            feed(sampler, 10, bad=3)
    else:
        feed(sampler, 10)
        getattr(sampler, end)()
    with pytest.raises(NonfiniteLogitsError, match=r"at step 3, got .*: 3 tokens"), sampler:
        feed(sampler, 3, bad=1)
    with sampler:
        feed(sampler, 2)


def test_a_run_that_was_not_closed_raises_before_the_next_one():
    sampler = make_sampler()
    feed(sampler, 2, bad=1)
    entered = False
    with pytest.raises(NonfiniteLogitsError, match="at step 2"), sampler:
        entered = True
    assert not entered
    with sampler:
        feed(sampler, 2)


@pytest.mark.parametrize("temp", [0, 1])
@pytest.mark.parametrize("shape", [(), (5,), (1, 1, 5)])
def test_other_shapes(temp, shape):
    sampler = make_sampler(temp=temp)
    with pytest.raises(ValueError) as caught:
        sampler(mx.zeros(shape))
    assert str(caught.value) == f"[sampler] Expected logprobs [B, V], got shape {shape}."
    with pytest.raises(
        TypeError, match=r"^\[sampler\] Expected logprobs as an mx.array, got list\.$"
    ):
        sampler([[0.0, 1.0]])
    assert sampler(mx.zeros((1, 1))).tolist() == [0]
    sampler.close()


def test_nothing_eligible_is_an_error_of_the_call():
    # What make_sampler's docstring says is raised, by a drawing sampler too.
    for row in ([0.0, 1.0], [0.0, -INF]):
        with pytest.raises(NonfiniteLogitsError, match="at step 0"):
            make_sampler(excluded=[0, 1], strict=True)(mx.array([row]))
        with pytest.raises(NonfiniteLogitsError, match=r"^\[chain\] Expected a candidate"):
            make_sampler(temp=1, excluded=[0, 1])(mx.array([row]))
    with pytest.raises(NonfiniteLogitsError):
        make_sampler(temp=1)(mx.array([[-INF, -INF]]))


def test_an_error_inside_the_block_is_not_hidden():
    with pytest.raises(KeyError), make_sampler() as sampler:
        sampler(mx.array([[NAN, 1.0]]))
        raise KeyError("mine")


def test_a_forgotten_close_warns():
    sampler = make_sampler()
    mx.eval(sampler(mx.array([[NAN, 1.0]])))
    with pytest.warns(RuntimeWarning, match="call close"):
        del sampler
    sampler = make_sampler()
    mx.eval(sampler(mx.array([[0.0, 1.0]])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del sampler


def test_minus_infinity_is_a_mask(tiny_model):
    def mask(tokens, logits):
        logits[..., ::2] = -INF
        return logits

    with make_sampler() as sampler:
        tokens = tokens_of(tiny_model, sampler, logits_processors=[mask])
    assert all(token % 2 for token in tokens)
    with pytest.raises(NonfiniteLogitsError), make_sampler(strict=True) as sampler:
        sampler(mx.full((1, 7), -INF))


def test_returned_ids_are_safe_to_embed():
    token = make_sampler()(mx.array([[NAN] * 7, [0.0, 3.0, 1.0, 2.0, 0.0, 0.0, 0.0]]))
    assert token.tolist() == [6, 1]


def run_batch(model, prompts, samplers, count=12):
    batch = mlx_lm_generate.BatchGenerator(model, max_tokens=count)
    uids = batch.insert(prompts, samplers=samplers)
    tokens = {uid: [] for uid in uids}
    while responses := batch.next_generated():
        for response in responses:
            tokens[response.uid].append(response.token)
    return [tokens[uid] for uid in uids]


def test_batch_generator_per_request(tiny_model):
    prompts = [PROMPT, [7, 7, 2], [9, 8, 7, 6]]
    plain = run_batch(tiny_model, prompts, None)
    assert len({tuple(tokens) for tokens in plain}) == 3
    assert run_batch(tiny_model, prompts, [make_sampler() for _ in prompts]) == plain
    assert run_batch(tiny_model, prompts, [make_sampler()] * 3) == plain
    seeded = [make_sampler(temp=1.0, seed=seed) for seed in (1, 2, 1)]
    again = [make_sampler(temp=1.0, seed=seed) for seed in (1, 2, 1)]
    drawn = run_batch(tiny_model, prompts, seeded)
    assert drawn == run_batch(tiny_model, prompts, again)
    assert drawn[0] != plain[0]


def test_seeds(tiny_model):
    texts = [tokens_of(tiny_model, make_sampler(temp=1.0, seed=s)) for s in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    fresh = make_sampler(temp=1.0)
    text = tokens_of(tiny_model, fresh)
    assert tokens_of(tiny_model, make_sampler(temp=1.0, seed=fresh.seed)) == text


def test_a_drawing_sampler_serves_one_request():
    with pytest.raises(ValueError, match=r"Expected logprobs \[1, V\] of one request, got shape"):
        make_sampler(temp=1.0, seed=1)(mx.zeros((2, 5)))
    with pytest.raises(NonfiniteLogitsError):
        make_sampler(temp=1.0, seed=1)(mx.array([[0.0, NAN]]))
    assert make_sampler(temp=1.0, seed=1)(mx.array([[-INF, 0.0]])).tolist() == [1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temp": -1}, r"^\[temperature\] Expected a finite value >= 0, got -1"),
        ({"temp": NAN}, r"^\[temperature\] Expected a finite value >= 0, got nan"),
        (
            {"temp": 1, "seed": -1},
            r"^\[seed\] Expected an int in \[0, 4294967294\], got -1",
        ),
        ({"excluded": [-1]}, r"^\[excluded\] Expected an int in \[0, 2147483647\], got -1"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        make_sampler(**options)


def test_nan_in_mlx_lms_own_loop_is_an_error_not_a_signal():
    """NO_TOKEN used as a gather index would crash the process: run it in one of its own."""
    script = """
        import mlx.core as mx
        from tiny_models import Poisoned, tiny_llama
        from mlx_lm.generate import generate_step
        from mlx_sampling import Grammar, NonfiniteLogitsError, Vocabulary, greedy_stream
        from mlx_sampling.mlx_lm import make_sampler

        model = Poisoned(tiny_llama(), 5 + 3, float("nan"))
        tokens = []
        try:
            with make_sampler() as sampler:
                for token, _ in generate_step(mx.array([3, 1, 4, 1, 5]), model, sampler=sampler):
                    tokens.append(token)
        except NonfiniteLogitsError as error:
            print(len(tokens), type(error).__name__, error)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    count, name, *message = run.stdout.split(maxsplit=2)
    assert int(count) in (3, 4)
    assert name == "NonfiniteLogitsError"
    assert "at step 3" in message[0]


def test_mlx_lms_parameters_and_their_off_values(tiny_model):
    logprobs = mx.array([[0.0, -1.0, -1.5, -9.0]])

    def drawn(**options):
        return {make_sampler(temp=5.0, seed=s, **options)(logprobs).item() for s in range(80)}

    assert drawn() == drawn(top_p=0, top_k=0, min_p=0, xtc_probability=0) == {0, 1, 2, 3}
    assert drawn(top_p=1.0) == {0, 1, 2, 3}
    assert drawn(top_k=2) == {0, 1}
    assert drawn(top_k=100) == {0, 1, 2, 3}
    assert drawn(min_p=0.3) == {0, 1}
    assert drawn(min_p=0.3, min_tokens_to_keep=3) == {0, 1, 2}
    assert drawn(top_p=0.7) == {0, 1}
    assert drawn(xtc_probability=1.0, xtc_threshold=0.1) == {2, 3}
    with pytest.raises(ValueError, match=r"^\[top_p\] Expected"):
        make_sampler(temp=1.0, top_p=1.5)


LETTERS = Vocabulary(
    token_texts=[b"%c" % (65 + i % 26) * (1 + i // 26) for i in range(210)] + [b"<end>"],
    eos_token_ids=[210],
)


@pytest.mark.parametrize("temp", [0.0, 1.5])
def test_a_grammar_in_mlx_lms_own_loop(tiny_model, temp):
    grammar = Grammar('root ::= ("A" | "E"){3,8} "Z"', LETTERS)
    with make_sampler(temp=temp, seed=None if temp == 0 else 3, grammar=grammar) as sampler:
        for _ in range(2):  # one run after another
            tokens = tokens_of(tiny_model, sampler, count=40)
            text = tokens[: tokens.index(210)] if 210 in tokens else tokens
            matcher = grammar.matcher()
            assert all(matcher.accept_token(token) for token in text)
            assert matcher.is_completed == sampler.is_completed == (210 in tokens)
            # After the end mlx-lm may ask on: the end is what it gets.
            assert set(tokens[len(text) :]) <= {210}
            sampler.close()
    if temp == 0:
        assert text == list(greedy_stream(tiny_model, PROMPT, max_tokens=40, grammar=grammar))[:-1]
