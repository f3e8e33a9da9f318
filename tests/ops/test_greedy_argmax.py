"""greedy_argmax: the first eligible maximum of every row, or NO_TOKEN."""

import itertools

import cases
import mlx.core as mx
import numpy as np
import pytest
from graphs import FORMATS, bitmask, rows_of

from mlx_sampling import NO_TOKEN, greedy_argmax, reference

# Values


def test_no_token():
    assert NO_TOKEN == reference.NO_TOKEN == cases.NO_TOKEN == 0xFFFFFFFF
    assert type(NO_TOKEN) is int


@pytest.mark.parametrize(
    ("row", "rules", "token"),
    [
        ([1.0, 3.0, 3.0], {}, 1),
        ([1.0, 3.0, 3.0], {"excluded": [1]}, 2),
        ([1.0, 3.0, 3.0], {"excluded": [2, 1, 1]}, 0),
        ([1.0, 3.0, 3.0], {"excluded": [2, 1, 0]}, NO_TOKEN),
        ([1.0, 3.0, 3.0], {"allowed": [0b101]}, 2),
        ([1.0, 3.0, 3.0], {"allowed": [0b101], "excluded": [2]}, 0),
        ([1.0, 3.0, 3.0], {"allowed": [0b001], "excluded": [0]}, NO_TOKEN),
        ([1.0, 3.0, 3.0], {"allowed": [0]}, NO_TOKEN),
        ([1.0, 3.0, 3.0], {"allowed": [0xFFFFFFF8]}, NO_TOKEN),
        ([-0.0, 0.0], {}, 0),
        ([0.0, -0.0], {}, 0),
        ([-1.0, -2.0], {}, 0),
        ([1.0, np.nan], {}, NO_TOKEN),
        ([1.0, np.nan], {"excluded": [1]}, NO_TOKEN),
        ([1.0, np.nan], {"allowed": [0b01]}, NO_TOKEN),
        ([1.0, np.nan], {"neg_inf": "masked"}, NO_TOKEN),
        ([1.0, np.inf], {}, NO_TOKEN),
        ([1.0, np.inf], {"excluded": [1], "neg_inf": "masked"}, NO_TOKEN),
        ([-np.inf, 1.0], {}, NO_TOKEN),
        ([-np.inf, 1.0], {"excluded": [0]}, NO_TOKEN),
        ([-np.inf, 1.0], {"neg_inf": "masked"}, 1),
        ([-np.inf, 1.0], {"neg_inf": "masked", "excluded": [1]}, NO_TOKEN),
        ([-np.inf, -np.inf], {"neg_inf": "masked"}, NO_TOKEN),
        ([-1e-45, 1e-45, 2e-45], {"excluded": [2]}, 1),
    ],
)
def test_known_rows(row, rules, token):
    assert reference.greedy_argmax(row, **rules).item() == token
    packed = rules.get("allowed")
    packed = packed if packed is None else np.array(packed, np.uint32)
    as_rules = cases.Rules(rules.get("excluded", []), packed, rules.get("neg_inf", "error"))
    assert cases.first_eligible(np.array(row, np.float32), as_rules).item() == token
    assert greedy_argmax(mx.array(row), **as_rules.arguments()).item() == token


def test_pack_bitmask():
    rng = np.random.default_rng(0)
    for shape in [(1,), (31,), (32,), (33,), (2, 3, 100), (0, 5), (2, 64)]:
        bits = rng.random(shape) < 0.5
        words = reference.pack_bitmask(bits)
        assert words.dtype == np.uint32
        assert words.shape == (*shape[:-1], -(-shape[-1] // 32))
        np.testing.assert_array_equal(cases.unpack_bitmask(words, shape[-1]), bits)
        assert not cases.unpack_bitmask(words, 32 * words.shape[-1])[..., shape[-1] :].any()


@FORMATS
def test_oracle_equals_the_scalar_scan(format):
    count = picked = 0
    for batch in cases.small_batches(format, seed=11, count=400):
        rules = batch.rules
        expected = reference.greedy_argmax(
            batch.values, rules.excluded, rules.allowed, rules.neg_inf
        )
        np.testing.assert_array_equal(cases.first_eligible(batch.values, rules), expected)
        tokens = np.array(greedy_argmax(batch.logits(), **rules.arguments()))
        np.testing.assert_array_equal(tokens, expected)
        count += len(expected)
        picked += int((expected != NO_TOKEN).sum())
    assert count >= 2000
    assert 0.3 < picked / count < 0.8


@FORMATS
def test_random_rows(format):
    count = large = picked = moved = 0
    wrong, widths, seen = [], set(), set()
    for batch in cases.batches(format, seed=12):
        values, rules = batch.values, batch.rules
        expected = cases.first_eligible(values, rules)
        tokens = np.array(greedy_argmax(batch.logits(), **rules.arguments()))
        if (tokens != expected).any():
            wrong.append(str(batch))
        count += len(tokens)
        large += len(tokens) * (values.shape[-1] >= cases.LARGE)
        picked += int((expected != NO_TOKEN).sum())
        moved += int(((expected != NO_TOKEN) & (expected != cases.first_maximum(values))).sum())
        widths.add(values.shape[-1])
        everything = len(rules.excluded) == values.shape[-1] > 5
        seen.add(("excluded", "all" if everything else len(rules.excluded)))
        seen.add(("allowed", None if rules.allowed is None else rules.allowed.ndim))
        seen.add(("neg_inf", rules.neg_inf))
    assert wrong == []
    assert count >= 2000
    assert large >= 200
    assert 0.3 < picked / count < 0.8
    assert moved >= 300
    assert widths >= {*cases.WIDTHS, *cases.LARGE_WIDTHS}
    assert seen >= {("excluded", n) for n in (0, 1, 5, "all")}
    assert seen >= {("allowed", n) for n in (None, 1, 2)}
    assert seen >= {("neg_inf", "error"), ("neg_inf", "masked")}


@FORMATS
def test_ties_at_every_chunk_boundary(format):
    width, top = 202_048, format.words(np.array([2.5], np.float32))[0]
    row = np.random.default_rng(3).choice(format.words(np.array([-1, -0.0, 0, 2])), width)
    for edge in range(cases.CHUNK, width, cases.CHUNK):
        tied = row.copy()
        tied[[edge - 1, edge, width - 1]] = top
        logits = format.array(tied)
        assert greedy_argmax(logits).item() == edge - 1
        assert greedy_argmax(logits, excluded=[edge - 1]).item() == edge
        assert greedy_argmax(logits, excluded=[edge, edge - 1]).item() == width - 1


@FORMATS
@pytest.mark.parametrize("neg_inf", ["error", "masked"])
@pytest.mark.parametrize("width", [1, 2, 33, 1025, 2049, 202_048])
def test_nonfinite_logits_latch_from_the_edges(format, neg_inf, width):
    row = format.words(np.random.default_rng(4).standard_normal(width).astype(np.float32))
    patterns = []
    for place, bits in itertools.product(cases.edges(width), format.nonfinite.values()):
        patterns.append(row.copy())
        patterns[-1][place] = bits
    words = np.stack(patterns)
    logits, values = format.array(words), format.values(words)
    harmless = np.array(list(format.nonfinite)) == "-inf"
    harmless = np.tile(harmless, len(cases.edges(width))) & (neg_inf == "masked") & (width > 1)
    for excluded, allowed in [
        ([], None),
        (cases.edges(width), None),
        ([], np.zeros((width - 1) // 32 + 1, np.uint32)),
        ([], bitmask((len(words), width))),
    ]:
        rules = cases.Rules(excluded, allowed, neg_inf)
        tokens = np.array(greedy_argmax(logits, **rules.arguments()))
        assert (tokens[~harmless] == NO_TOKEN).all()
        np.testing.assert_array_equal(tokens, cases.first_eligible(values, rules))


@FORMATS
def test_greatest_and_least_finite_logits_do_not_latch(format):
    words = np.array([format.sign | format.inf - 1, format.inf - 1, 0, 1], format.word)
    assert greedy_argmax(format.array(words)).item() == 1
    assert greedy_argmax(format.array(words), excluded=[1]).item() == 3
    assert greedy_argmax(format.array(words), excluded=[1, 2, 3]).item() == 0


@FORMATS
def test_excluded_takes_any_iterable_of_ints(format):
    logits, values = rows_of(format, 3, 50)
    best = sorted({int(token) for token in cases.first_maximum(values)})
    expected = cases.first_eligible(values, cases.Rules(best))
    for excluded in (
        best,
        tuple(best),
        set(best),
        iter(best),
        dict.fromkeys(best),
        best[::-1] + best,
        np.array(best),
        np.array(best, np.uint8),
        mx.array(best),
    ):
        tokens = greedy_argmax(logits, excluded=excluded)
        np.testing.assert_array_equal(np.array(tokens), expected)
    assert greedy_argmax(logits, excluded=None).tolist() == greedy_argmax(logits).tolist()


# Layout


@FORMATS
@pytest.mark.parametrize("index", range(len(cases.views(cases.FLOAT32, 0))))
def test_views(format, index):
    view = cases.views(format, seed=15)[index]
    shape = view.values.shape
    winners = np.unique(cases.first_maximum(view.values)).tolist()
    for excluded, allowed in [
        ([], None),
        (winners, None),
        ([], bitmask(shape[-1:])),
        (winners, bitmask(shape)),
    ]:
        rules = cases.Rules(excluded, allowed)
        tokens = greedy_argmax(view.array, **rules.arguments())
        assert tokens.dtype == mx.uint32
        assert tokens.shape == shape[:-1]
        np.testing.assert_array_equal(np.array(tokens), cases.first_eligible(view.values, rules))


@pytest.mark.parametrize(
    "cut",
    [
        lambda x: x[::-1],
        lambda x: x[:, :, ::-1],
        lambda x: x[:, ::2].transpose(1, 0, 2),
        lambda x: x.transpose(1, 2, 0)[:, :4],
        lambda x: x[:, :, 5:9],
    ],
)
def test_bitmask_views(cut):
    words = bitmask((8, 12, 400), seed=21)
    masks, packed = cut(mx.array(words)), cut(words)
    shape = (*packed.shape[:-1], 32 * packed.shape[-1] - 3)
    logits, values = rows_of(cases.FLOAT32, *shape)
    expected = cases.first_eligible(values, cases.Rules([], packed))
    np.testing.assert_array_equal(np.array(greedy_argmax(logits, allowed=masks)), expected)
    shared = cases.first_eligible(values, cases.Rules([], packed[1, 1]))
    tokens = greedy_argmax(logits, allowed=masks[1, 1])
    np.testing.assert_array_equal(np.array(tokens), shared)


def test_broadcast_bitmasks():
    logits, values = rows_of(cases.FLOAT32, 5, 6, 70)
    words = bitmask((5, 1, 70))
    masks = mx.broadcast_to(mx.array(words), (5, 6, 3))
    expected = cases.first_eligible(values, cases.Rules([], words))
    np.testing.assert_array_equal(np.array(greedy_argmax(logits, allowed=masks)), expected)


@FORMATS
@pytest.mark.parametrize("shape", [(0, 7), (3, 0, 7), (0, 202_048)])
def test_empty_batches(format, shape):
    masks = mx.zeros((*shape[:-1], (shape[-1] - 1) // 32 + 1), mx.uint32)
    for allowed in (None, masks, mx.zeros(masks.shape[-1:], mx.uint32)):
        tokens = greedy_argmax(mx.zeros(shape, format.dtype), excluded=[3], allowed=allowed)
        mx.eval(tokens)
        assert tokens.shape == shape[:-1]
        assert tokens.dtype == mx.uint32


@FORMATS
def test_logits_and_bitmask_stay_as_they_are(format):
    for batch in itertools.islice(cases.batches(format, seed=16, large=False), 30):
        logits, masks = batch.logits(), bitmask(batch.words.shape)
        allowed = mx.array(masks)
        mx.eval(greedy_argmax(logits, excluded=[0], allowed=allowed))
        kept = logits.view(mx.array(batch.words).dtype)
        assert np.array(kept).tobytes() == batch.words.tobytes()
        assert np.array(allowed).tobytes() == masks.tobytes()


# Errors


def test_no_gradient():
    logits, _ = rows_of(cases.FLOAT32, 3, 50)
    allowed = mx.array(bitmask((50,)))
    message = r"^\[greedy_argmax\] A token id has no gradient: wrap it in mx\.stop_gradient\.$"
    with pytest.raises(ValueError, match=message):
        mx.grad(lambda x: greedy_argmax(x, allowed=allowed).astype(mx.float32).sum())(logits)
    with pytest.raises(ValueError, match=message):
        mx.jvp(lambda x: greedy_argmax(x, excluded=[1]), [logits], [logits])


@pytest.mark.parametrize("dtype", [mx.int32, mx.uint8, mx.bool_, mx.complex64])
def test_wrong_dtype(dtype):
    with pytest.raises(
        ValueError,
        match=r"^\[greedy_argmax\] Expected logits of dtype float32, float16 or bfloat16, got "
        + str(dtype).removeprefix("mlx.core.").rstrip("_"),
    ):
        greedy_argmax(mx.zeros((2, 3), dtype))


def test_scalar():
    with pytest.raises(
        ValueError,
        match=r"^\[greedy_argmax\] Expected logits of shape \[\.\.\., V\], got a scalar\.$",
    ):
        greedy_argmax(mx.array(1.0))


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_no_vocabulary(shape):
    with pytest.raises(
        ValueError,
        match=r"^\[greedy_argmax\] Expected logits of shape \[\.\.\., V\] with V > 0, got shape \("
        + ",".join(map(str, shape)),
    ):
        greedy_argmax(mx.zeros(shape))


@pytest.mark.parametrize(("token", "limit"), [(5, "5"), (-1, "5"), (2**31, "5"), (2**63 - 1, "5")])
def test_excluded_out_of_range(token, limit):
    with pytest.raises(
        ValueError,
        match=rf"^\[greedy_argmax\] Expected excluded ids in \[0, {limit}\), got {token}\.$",
    ):
        greedy_argmax(mx.zeros((3, 5)), excluded=[0, token])
    with pytest.raises(ValueError, match=rf"excluded ids in \[0, 5\), got {token}\.$"):
        reference.greedy_argmax(np.zeros((3, 5)), excluded=[0, token])


@pytest.mark.parametrize("token", [2**63, 2**80, -(2**80)])
def test_excluded_beyond_64_bits(token):
    with pytest.raises(
        ValueError,
        match=rf"^\[greedy_argmax\] Expected excluded ids in \[0, (V|5)\), got {token}\.$",
    ):
        greedy_argmax(mx.zeros((3, 5)), excluded=[0, token])


@pytest.mark.parametrize("token", [1.0, True, "1", None, np.float32(1), [1]])
def test_excluded_must_hold_ints(token):
    with pytest.raises(TypeError, match=r"^\[greedy_argmax\] Expected excluded to hold ints"):
        greedy_argmax(mx.zeros((3, 5)), excluded=[0, token])


def test_excluded_must_hold_integer_arrays():
    with pytest.raises(TypeError, match="integer arrays can be converted to an index"):
        greedy_argmax(mx.zeros((3, 5)), excluded=mx.array([0.0, 1.0]))


def test_an_error_of_the_iterable_comes_through():
    def ids():
        yield 0
        raise KeyError("from the iterable")

    with pytest.raises(KeyError, match="from the iterable"):
        greedy_argmax(mx.zeros((3, 5)), excluded=ids())


@pytest.mark.parametrize("excluded", [1, 1.5, object()])
def test_excluded_must_be_iterable(excluded):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        greedy_argmax(mx.zeros((3, 5)), excluded=excluded)


@pytest.mark.parametrize("dtype", [mx.int32, mx.bool_, mx.uint8, mx.uint64, mx.float32])
def test_bitmask_of_the_wrong_dtype(dtype):
    name = str(dtype).removeprefix("mlx.core.").rstrip("_")
    with pytest.raises(
        ValueError, match=rf"^\[greedy_argmax\] Expected allowed of dtype uint32, got {name}"
    ):
        greedy_argmax(mx.zeros((3, 70)), allowed=mx.zeros((3,), dtype))


@pytest.mark.parametrize(
    "shape", [(), (2,), (4,), (70,), (2, 3), (3, 2), (1, 3), (3, 70), (1, 3, 3), (3, 1, 3), (0,)]
)
def test_bitmask_of_the_wrong_shape(shape):
    got = r"\(" + ",".join(map(str, shape))
    with pytest.raises(
        ValueError,
        match=rf"^\[greedy_argmax\] Expected allowed of shape \(3\) or \(3,3\), got {got}",
    ):
        greedy_argmax(mx.zeros((3, 70)), allowed=mx.zeros(shape, mx.uint32))


def test_bitmask_of_the_wrong_shape_for_one_row():
    with pytest.raises(
        ValueError, match=r"^\[greedy_argmax\] Expected allowed of shape \(3\), got \(1,3\)\.$"
    ):
        greedy_argmax(mx.zeros((70,)), allowed=mx.zeros((1, 3), mx.uint32))


@pytest.mark.parametrize("neg_inf", ["mask", "", "Error", "masked "])
def test_unknown_neg_inf(neg_inf):
    message = rf'^\[greedy_argmax\] Expected neg_inf "error" or "masked", got "{neg_inf}"\.$'
    with pytest.raises(ValueError, match=message):
        greedy_argmax(mx.zeros((3, 5)), neg_inf=neg_inf)
    with pytest.raises(ValueError, match=message):
        reference.greedy_argmax(np.zeros((3, 5)), neg_inf=neg_inf)


def test_rules_are_keyword_only():
    with pytest.raises(TypeError, match="incompatible function arguments"):
        greedy_argmax(mx.zeros((2, 3)), [1])


def test_reference_checks_its_shapes():
    with pytest.raises(ValueError, match=r"^\[argmax\] Expected logits of shape \[\.\.\., V\]"):
        reference.argmax(1.0)
    with pytest.raises(ValueError, match="Expected logits of shape"):
        reference.greedy_argmax(np.zeros((2, 0)))
    with pytest.raises(ValueError, match=r"Expected allowed of 3 words a row, got 2\.$"):
        reference.greedy_argmax(np.zeros((2, 70)), allowed=np.zeros((2,), np.uint32))
