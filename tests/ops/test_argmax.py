"""argmax: the first maximum of every row, however the row is made, laid out and run."""

import ctypes
import itertools
import shutil
import subprocess
from pathlib import Path

import cases
import mlx.core as mx
import numpy as np
import pytest
from graphs import FORMATS, nodes, rows_of, run_in_threads

from mlx_sampling import argmax, reference

CORE = Path(__file__).parents[2] / "csrc"


# Values


@pytest.mark.parametrize(
    ("row", "token"),
    [
        ([1.0, 3.0, 2.0], 1),
        ([3.0, 1.0, 3.0], 0),
        ([-0.0, 0.0], 0),
        ([0.0, -0.0], 0),
        ([-1.0, -0.0, 0.0], 1),
        ([np.nan, -5.0], 1),
        ([-np.inf, -5.0, np.nan], 1),
        ([np.nan, np.nan], 0),
        ([-np.inf, np.nan, -np.inf], 0),
        ([-np.inf, -np.inf], 0),
        ([np.nan, np.inf, np.inf], 1),
        ([1e-45, 3e-45, -1e-45], 1),
    ],
)
def test_known_rows(row, token):
    assert reference.argmax(row).item() == token
    assert cases.first_maximum(np.array(row, np.float32)).item() == token
    assert argmax(mx.array(row)).item() == token


@FORMATS
def test_oracle_equals_the_scalar_scan(format):
    count = 0
    for batch in cases.small_batches(format, seed=1, count=300):
        expected = reference.argmax(batch.values)
        np.testing.assert_array_equal(cases.first_maximum(batch.values), expected)
        np.testing.assert_array_equal(np.array(argmax(batch.logits())), expected)
        count += len(expected)
    assert count >= 2000


@FORMATS
def test_random_rows(format):
    count = large = nonfinite = 0
    wrong = []
    widths = set()
    for batch in cases.batches(format, seed=2):
        values = batch.values
        tokens = np.array(argmax(batch.logits()))
        if (tokens != cases.first_maximum(values)).any():
            wrong.append(str(batch))
        count += len(tokens)
        large += len(tokens) * (values.shape[-1] >= cases.LARGE)
        nonfinite += int((~np.isfinite(values)).any(-1).sum())
        widths.add(values.shape[-1])
    assert wrong == []
    assert count >= 2000
    assert large >= 200
    assert 0.2 < nonfinite / count < 0.5
    assert widths >= {*cases.WIDTHS, *cases.LARGE_WIDTHS}


@FORMATS
def test_ties_at_every_chunk_boundary(format):
    width, top = 202_048, format.words(np.array([2.5], np.float32))[0]
    row = np.random.default_rng(3).choice(format.words(np.array([-1, -0.0, 0, 2])), width)
    boundaries = range(cases.CHUNK, width, cases.CHUNK)
    assert len(boundaries) == 197
    for edge in boundaries:
        tied = row.copy()
        tied[[edge - 1, edge]] = top
        assert argmax(format.array(tied)).item() == edge - 1
        tied[edge - 1] = row[0]
        tied[-1] = top
        assert argmax(format.array(tied)).item() == edge


@FORMATS
def test_ties_at_256_and_512_of_every_chunk(format):
    width, top = 8 * cases.CHUNK, format.words(np.array([1], np.float32))[0]
    for start in range(0, width, cases.CHUNK):
        row = np.zeros(width, format.word)
        row[[start + 256, start + 512]] = top
        assert argmax(format.array(row)).item() == start + 256


@FORMATS
@pytest.mark.parametrize("width", [1, 2, 33, 1025, 2049, 202_048])
def test_nonfinite_logits_at_the_edges(format, width):
    row = format.words(np.random.default_rng(4).standard_normal(width).astype(np.float32))
    patterns = []
    for place, bits in itertools.product(cases.edges(width), format.nonfinite.values()):
        patterns.append(row.copy())
        patterns[-1][place] = bits
    words = np.stack(patterns)
    tokens = np.array(argmax(format.array(words)))
    np.testing.assert_array_equal(tokens, cases.first_maximum(format.values(words)))


@FORMATS
def test_neighbouring_denormals(format):
    row = np.arange(100, dtype=format.word) % 50
    assert argmax(format.array(row)).item() == 49
    assert argmax(format.array(row | format.word(format.sign))).item() == 0
    assert argmax(format.array((row + 1) | format.word(format.sign))).item() == 0


# Layout


@FORMATS
@pytest.mark.parametrize("index", range(len(cases.views(cases.FLOAT32, 0))))
def test_views(format, index):
    view = cases.views(format, seed=5)[index]
    mx.eval(view.array)
    if format is not cases.BFLOAT16:  # which NumPy cannot look at
        seen = cases.element_strides(np.array(view.array, copy=False))
        wide = [axis for axis, size in enumerate(view.array.shape) if size > 1]
        assert [seen[axis] for axis in wide] == [view.strides[axis] for axis in wide]
    tokens = argmax(view.array)
    assert tokens.dtype == mx.uint32
    assert tokens.shape == view.values.shape[:-1]
    np.testing.assert_array_equal(np.array(tokens), cases.first_maximum(view.values))


@FORMATS
@pytest.mark.parametrize("shape", [(0, 7), (3, 0, 7), (0, 202_048)])
def test_empty_batches(format, shape):
    tokens = argmax(mx.zeros(shape, format.dtype))
    mx.eval(tokens)
    assert tokens.shape == shape[:-1]
    assert tokens.dtype == mx.uint32


@FORMATS
def test_logits_stay_as_they_are(format):
    batch = next(cases.batches(format, seed=6, large=False))
    logits = batch.logits()
    mx.eval(argmax(logits), argmax(logits[:, ::-1]), argmax(logits[::-1]))
    assert np.array(logits.view(mx.array(batch.words).dtype)).tobytes() == batch.words.tobytes()


# Graphs


def test_lazy():
    logits, values = rows_of(cases.FLOAT32, 3, 50)
    tokens = argmax(logits * 2 - 1)
    assert nodes("argmax", tokens) == 1
    np.testing.assert_array_equal(np.array(tokens), cases.first_maximum(values))


def test_compile():
    calls = []

    @mx.compile
    def pick(logits):
        calls.append(logits.shape)
        return argmax(logits)

    for seed in range(4):
        logits, values = rows_of(cases.FLOAT32, 3, 50, seed=seed)
        np.testing.assert_array_equal(np.array(pick(logits)), cases.first_maximum(values))
    assert len(calls) == 1
    logits, values = rows_of(cases.FLOAT32, 2, 60)
    np.testing.assert_array_equal(np.array(pick(logits)), cases.first_maximum(values))
    assert len(calls) == 2


def test_compile_merges_equal_picks():
    logits, values = rows_of(cases.FLOAT32, 3, 50)
    stack = mx.compile(lambda x: mx.stack([argmax(x), argmax(x), argmax(-x)]))(logits)
    assert nodes("argmax", stack) == 2
    expected = [cases.first_maximum(values)] * 2 + [cases.first_maximum(-values)]
    np.testing.assert_array_equal(np.array(stack), expected)


def test_shapeless_compile():
    calls = []

    def pick(logits):
        calls.append(logits.shape)
        return argmax(logits) + 1

    compiled = mx.compile(pick, shapeless=True)
    for shape in [(3, 50), (2, 1500), (7, 1), (0, 9)]:
        logits, values = rows_of(cases.FLOAT32, *shape)
        np.testing.assert_array_equal(np.array(compiled(logits)), cases.first_maximum(values) + 1)
    assert len(calls) == 1


def test_dependent_chain():
    width = 1100
    table, _ = rows_of(cases.FLOAT16, width, width)

    @mx.compile
    def steps(token):
        tokens = []
        for _ in range(30):
            token = argmax(mx.take(table, token, axis=0) + mx.arange(width) * token % 3)
            tokens.append(token)
        return mx.stack(tokens)

    token = mx.array(1, mx.uint32)
    tokens = [token := argmax(table[token] + mx.arange(width) * token % 3) for _ in range(30)]
    assert steps(mx.array(1, mx.uint32)).tolist() == [token.item() for token in tokens]
    assert len({token.item() for token in tokens}) > 5


@FORMATS
@pytest.mark.parametrize("axis", range(-3, 3))
def test_vmap(format, axis):
    logits, values = rows_of(format, 3, 4, 50)
    tokens = mx.vmap(argmax, in_axes=axis)(logits)
    expected = cases.first_maximum(np.moveaxis(values, axis, 0))
    np.testing.assert_array_equal(np.array(tokens), expected)


def test_vmap_nested_and_out_axes():
    logits, values = rows_of(cases.FLOAT32, 3, 4, 50)
    expected = cases.first_maximum(values)
    np.testing.assert_array_equal(np.array(mx.vmap(mx.vmap(argmax))(logits)), expected)
    crossed = mx.vmap(mx.vmap(argmax, in_axes=1), in_axes=2, out_axes=1)(logits)
    np.testing.assert_array_equal(
        np.array(crossed), np.moveaxis(cases.first_maximum(values.transpose(2, 1, 0)), 0, 1)
    )
    inside = mx.compile(mx.vmap(argmax, in_axes=1))(logits)
    np.testing.assert_array_equal(np.array(inside), expected.T)


def test_async_eval():
    logits, values = rows_of(cases.FLOAT32, 8, 5000)
    picked = [argmax(logits[i]) for i in range(8)]
    mx.async_eval(*picked)
    assert [token.item() for token in picked] == cases.first_maximum(values).tolist()


def test_streams():
    logits, values = rows_of(cases.FLOAT32, 8, 5000)
    streams = [mx.new_stream(mx.cpu) for _ in range(3)]
    picked = [argmax(logits * (i + 1), stream=stream) for i, stream in enumerate(streams)]
    chained = argmax(logits + mx.sum(picked[0]) * 0, stream=streams[1])
    for tokens in (*picked, chained):
        np.testing.assert_array_equal(np.array(tokens), cases.first_maximum(values))
    with mx.stream(streams[2]):
        np.testing.assert_array_equal(np.array(argmax(logits)), cases.first_maximum(values))
    assert argmax(logits[0], stream=mx.cpu).item() == cases.first_maximum(values[0])


def test_two_threads_with_own_streams():
    def work(i):
        stream = mx.new_stream(mx.cpu)
        with mx.stream(stream):
            pick = mx.compile(lambda x: argmax(x, stream=stream))
            for step in range(50):
                logits, values = rows_of(cases.FLOAT32, 3, 2000, seed=100 * i + step)
                expected = cases.first_maximum(values)
                np.testing.assert_array_equal(np.array(argmax(logits, stream=stream)), expected)
                np.testing.assert_array_equal(np.array(pick(logits)), expected)

    run_in_threads(work)


# Errors


def test_no_gradient():
    logits, _ = rows_of(cases.FLOAT32, 3, 50)
    message = r"^\[argmax\] A token id has no gradient: wrap it in mx\.stop_gradient\.$"
    with pytest.raises(ValueError, match=message):
        mx.grad(lambda x: argmax(x).astype(mx.float32).sum())(logits)
    with pytest.raises(ValueError, match=message):
        mx.jvp(argmax, [logits], [logits])
    stopped = mx.grad(lambda x: (x[0, 0] * mx.stop_gradient(argmax(x))).sum())(logits)
    assert mx.isfinite(stopped).all().item()


@pytest.mark.parametrize("dtype", [mx.int32, mx.uint32, mx.uint8, mx.int64, mx.bool_, mx.complex64])
def test_wrong_dtype(dtype):
    with pytest.raises(
        ValueError,
        match=r"^\[argmax\] Expected logits of dtype float32, float16 or bfloat16, got "
        + str(dtype).removeprefix("mlx.core.").rstrip("_"),
    ):
        argmax(mx.zeros((2, 3), dtype))


@pytest.mark.parametrize("format", cases.FORMATS, ids=lambda f: f.name)
def test_scalar(format):
    with pytest.raises(
        ValueError, match=r"^\[argmax\] Expected logits of shape \[\.\.\., V\], got a scalar\.$"
    ):
        argmax(mx.array(1.0, format.dtype))


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_no_vocabulary(shape):
    with pytest.raises(
        ValueError,
        match=r"^\[argmax\] Expected logits of shape \[\.\.\., V\] with V > 0, got shape \("
        + ",".join(map(str, shape)),
    ):
        argmax(mx.zeros(shape))


def test_mlx_makes_no_row_of_2_to_the_31():
    with pytest.raises((OverflowError, ValueError), match="2147483648"):
        mx.broadcast_to(mx.zeros((1,)), (2**31,))
    assert argmax(mx.broadcast_to(mx.zeros((1,)), (1, 2**31 - 1))).shape == (1,)


@pytest.mark.parametrize("logits", [None, 1.0, [1.0], np.zeros(3, np.float32)])
def test_logits_must_be_an_mlx_array(logits):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        argmax(logits)


def test_stream_is_keyword_only():
    with pytest.raises(TypeError, match="incompatible function arguments"):
        argmax(mx.zeros((2, 3)), mx.cpu)


# The copies of the scan for other CPUs

ROWS_BY_C = """
#include "core/key_range.cpp"
#include "core/argmax.cpp"
#include "core/greedy_argmax.cpp"
using namespace mlx_sampling;
extern "C" unsigned pick_argmax(const void* row, size_t width, int format) {
  if (format == 0) return argmax_row<Float32Bits>({static_cast<const uint32_t*>(row), 1, width});
  const auto* words = static_cast<const uint16_t*>(row);
  return format == 1 ? argmax_row<Float16Bits>({words, 1, width})
                     : argmax_row<BFloat16Bits>({words, 1, width});
}
extern "C" unsigned pick_greedy(const void* row, size_t width, int format) {
  const GreedyRules rules{{0, 7}, NegInf::masked};
  if (format == 0) {
    return greedy_argmax_row<Float32Bits>({static_cast<const uint32_t*>(row), 1, width}, rules, {});
  }
  const auto* words = static_cast<const uint16_t*>(row);
  return format == 1 ? greedy_argmax_row<Float16Bits>({words, 1, width}, rules, {})
                     : greedy_argmax_row<BFloat16Bits>({words, 1, width}, rules, {});
}
"""
CLONES = {
    "default": ([], set()),
    "avx2": (["-mavx2"], {"avx2"}),
    "x86-64-v4": (["-march=x86-64-v4"], {"avx512f", "avx512bw", "avx512vl", "avx512dq"}),
}


@pytest.mark.parametrize("clone", CLONES)
def test_each_copy_of_the_scan(clone, tmp_path):
    """key_range is compiled once per instruction set and the loader picks one, by what the CPU says
    of itself. Each set is compiled here by itself, without that choice, so that all are run."""
    flags, needs = CLONES[clone]
    info = Path("/proc/cpuinfo")
    if not info.exists() or "x86_64" not in subprocess.getoutput("uname -m"):
        pytest.skip("copies are made on x86-64 Linux only")
    if not needs <= set(info.read_text().split()):
        pytest.skip(f"this CPU does not run {clone}")
    compiler = shutil.which("c++")
    if compiler is None or not CORE.exists():
        pytest.skip("needs a C++ compiler and the sources")
    (tmp_path / "rows.cpp").write_text(ROWS_BY_C)
    library = tmp_path / "rows.so"
    off = ["-DMLX_SAMPLING_NO_CLONES"]
    options = ["-std=c++20", "-O3", "-shared", "-fPIC", *off, *flags, "-I", str(CORE)]
    subprocess.run([compiler, *options, tmp_path / "rows.cpp", "-o", library], check=True)
    picks = ctypes.CDLL(str(library))
    picks.pick_argmax.restype = picks.pick_greedy.restype = ctypes.c_uint32
    rules = cases.Rules([0, 7], None, "masked")
    for number, format in enumerate(cases.FORMATS):
        count = 0
        for batch in cases.batches(format, seed=7, large=False):
            width = batch.words.shape[-1]
            if width < 8:
                continue
            expected = cases.first_maximum(batch.values), cases.first_eligible(batch.values, rules)
            for row, best, greedy in zip(batch.words, *expected, strict=True):
                address = row.ctypes.data_as(ctypes.c_void_p)
                arguments = address, ctypes.c_size_t(width), number
                assert picks.pick_argmax(*arguments) == best
                assert picks.pick_greedy(*arguments) == greedy
                count += 1
        assert count >= 1500


def test_shapeless_replays_are_checked():
    compiled = mx.compile(argmax, shapeless=True)
    assert compiled(mx.zeros((2, 5))).tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"V > 0, got shape \(2,0\)"):
        mx.eval(compiled(mx.zeros((2, 0))))
