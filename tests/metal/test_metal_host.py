"""The Metal kernels, compiled for the CPU and run with shuffled threads, every load and store traced."""

import subprocess
import sys

import cases
import host_kernels
import numpy as np
import pytest

STEMS = ("argmax", "greedy_argmax")
FORMATS = pytest.mark.parametrize("format", cases.FORMATS, ids=lambda f: f.name)


@pytest.fixture(scope="module")
def programs(metal_host, sources):
    return {stem: metal_host.Program(None, text=sources[stem]) for stem in STEMS}


@pytest.mark.parametrize("stem", STEMS)
def test_nothing_that_apples_compiler_would_refuse(stem, mac_tools, metal_host, sources, tmp_path):
    path = tmp_path / f"{stem}.metal"
    path.write_text(sources[stem], encoding="ascii")
    checked = subprocess.run(
        [sys.executable, mac_tools / "metal_host" / "metal_host.py", "check", path],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "ERROR" not in checked.stdout


@pytest.mark.parametrize("stem", STEMS)
def test_kernels_by_name(stem, programs):
    phase1 = {f"{stem}_phase1_{format.name}" for format in cases.FORMATS}
    assert set(programs[stem].kernels()) == {*phase1, "selection_phase2"}


@pytest.mark.parametrize("stem", STEMS)
@FORMATS
def test_random_rows(stem, format, programs):
    rng = np.random.default_rng(31)
    batches = [*cases.small_batches(format, 31, 12), *cases.batches(format, 32, large=False)]
    narrow = [batch for batch in batches if batch.words.shape[-1] <= 4096]
    chosen = [narrow[i] for i in rng.choice(len(narrow), 45, replace=False)]
    found, count = [], 0
    for i, batch in enumerate(chosen):
        width = batch.words.shape[-1]
        threads = int(rng.choice([32, 64, 256, 256] if width > 64 else [32, 64]))
        seeds = (0, 1, int(rng.integers(2, 1000)))
        found += host_kernels.faults(
            programs[stem], stem, batch, threads=threads, seeds=seeds, ftz=bool(i % 2)
        )
        count += len(batch.words)
    assert found == []
    assert count >= 350


@pytest.mark.parametrize("stem", STEMS)
@FORMATS
def test_one_wide_row(stem, format, programs):
    words = np.random.default_rng(33).integers(0, format.inf, (1, 202_048)).astype(format.word)
    words[0, [99 * 1024 - 1, 99 * 1024, 202_047]] = format.inf - 1
    excluded = [] if stem == "argmax" else [99 * 1024 - 1]
    batch = cases.Batch(format, words, cases.Rules(excluded))
    tokens, _ = host_kernels.run(programs[stem], stem, batch, seeds=(0,))
    first = cases.first_maximum(format.values(words))
    assert host_kernels.faults(programs[stem], stem, batch, seeds=(0, 3)) == []
    assert (tokens[0] == first).all() or excluded


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("threads", [32, 64, 96, 128, 256, 512, 992, 1024])
def test_any_whole_number_of_simdgroups(stem, threads, programs):
    for format in cases.FORMATS:
        rows = cases.Rows(format, np.random.default_rng(threads), 5000)
        words = np.stack([rows.draw(2100) for _ in range(2)])
        rules = cases.random_rules(rows.rng, format, words)
        batch = cases.Batch(format, words, rules)
        assert host_kernels.faults(programs[stem], stem, batch, threads=threads) == []


VIEWS = {
    "last position": lambda x: x[:, :, -1],
    "reversed rows": lambda x: x[0, ::-1],
    "reversed logits": lambda x: x[0, :, :, ::-1],
    "all reversed": lambda x: x[::-1, ::-1, ::-1, ::-1],
    "steps": lambda x: x[:, ::2, ::-2, ::3],
    "transposed": lambda x: x[0, :, 0, :8].T,
    "last axis is the slowest": lambda x: x[:, :, :, ::300].transpose(1, 2, 3, 0),
    "rows permuted": lambda x: x.transpose(2, 0, 1, 3),
    "1-d": lambda x: x[0, 1, 2, 5:],
    "broadcast rows": lambda x: np.broadcast_to(x[:1, :2, 1:2], (3, 2, 2, 1100)),
    "broadcast logits": lambda x: np.broadcast_to(x[0, :2, 1, 4:5], (2, 1500)),
}


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("view", VIEWS)
def test_views(stem, view, programs):
    rng = np.random.default_rng(34)
    for format in (cases.FLOAT32, cases.BFLOAT16):
        values = np.round(rng.standard_normal((2, 3, 4, 1100), np.float32) * 8) / 2
        words = VIEWS[view](format.words(values))
        # Bitmasks of other strides than the logits': reversed, with a gap between rows.
        wide = cases.random_bitmask(rng, (*words.shape[:-1], words.shape[-1] + 96), 0.5)
        masks = wide[..., -4::-1]
        for allowed in (None, masks, masks.reshape(-1, masks.shape[-1])[0]):
            batch = cases.Batch(format, words, cases.Rules([1, 5], allowed))
            if words.shape[-1] <= 5:
                batch.rules.excluded = [1]
            assert host_kernels.faults(programs[stem], stem, batch, threads=64) == []
            if stem == "argmax":
                break


# Faults planted by hand: each must be seen, by the tool or by a wrong token.
FAULTS = {
    "a tie goes to the highest index": (
        "argmax",
        "simd_min(mine.key == key ? (mine.index & index_mask) : index_mask)",
        "simd_max(mine.key == key ? (mine.index & index_mask) : 0)",
    ),
    "a thread moves on at an equal key": ("argmax", "key > best.key &&", "key >= best.key &&"),
    "no barrier": ("argmax", "threadgroup_barrier(mem_flags::mem_threadgroup);", ""),
    "a barrier for the wrong memory": (
        "argmax",
        "mem_flags::mem_threadgroup",
        "mem_flags::mem_none",
    ),
    "one simdgroup too many": ("argmax", "lane < simdgroups", "lane <= simdgroups"),
    "only the first simdgroup counts": ("argmax", "return simd_better(theirs);", "return mine;"),
    "NaN wins": ("argmax", " && key <= inf_key", ""),
    "the chunk ends early": (
        "argmax",
        "min(begin + chunk_width, rows.width)",
        "min(begin + chunk_width - 1, rows.width)",
    ),
    "the row ends late": (
        "argmax",
        "min(begin + chunk_width, rows.width)",
        "min(begin + chunk_width, rows.width + 1)",
    ),
    "the last chunk is whole": (
        "argmax",
        "min(begin + chunk_width, rows.width)",
        "begin + chunk_width",
    ),
    "floats are compared": (
        "argmax",
        "key > best.key &&",
        "as_type<float>(uint(key)) > as_type<float>(uint(best.key)) &&",
    ),
    "-0.0 is less than 0.0": ("argmax", "? -magnitude :", "? ~magnitude :"),
    "rows are taken for contiguous": ("argmax", "long(i) * rows.stride", "long(i)"),
    "the row's start is left out": ("argmax", "long at = rows.start;", "long at = 0;"),
    "axes in the wrong order": ("argmax", "row /= size;", "row -= row % size;"),
    "every row reads the first row's partials": (
        "argmax",
        "const ulong row = ulong(group.x) * chunks;",
        "const ulong row = 0;",
    ),
    "partials of rows overlap": (
        "argmax",
        "ulong(group.y) * groups.x + group.x",
        "ulong(group.y) + group.x",
    ),
    "a partial is skipped": ("argmax", "chunk < chunks;", "chunk + 1 < chunks;"),
    "every thread writes the result": ("argmax", "if (lid == 0) {\n    result", "{\n    result"),
    "the flag is lost between lanes": (
        "greedy_argmax",
        "simd_or(mine.index & nonfinite_flag)",
        "0",
    ),
    "the flag is lost between partials": (
        "greedy_argmax",
        "(a.index | b.index) & nonfinite_flag",
        "a.index & 0",
    ),
    "the flag is never set": ("greedy_argmax", "best.index |= flag;", ""),
    "+inf is legal": ("greedy_argmax", "key >= inf_key", "key > inf_key"),
    "-inf is legal": ("greedy_argmax", " || key < args.least_legal", ""),
    "an illegal token does not latch": (
        "greedy_argmax",
        "if (key >= inf_key || key < args.least_legal)",
        "if (key > best.key && (key >= inf_key || key < args.least_legal) && "
        "!is_excluded(excluded, args.excluded_count, i))",
    ),
    "the wrong bit of the bitmask": ("greedy_argmax", ">> (i % 32)", ">> (i % 31)"),
    "the wrong word of the bitmask": ("greedy_argmax", "long(i / 32)", "long(i / 31)"),
    "one bitmask for all rows": (
        "greedy_argmax",
        "row_begin(allowed_rows, allowed_shape, allowed_strides, group.y)",
        "allowed_rows.start",
    ),
    "an id past the list is read": (
        "greedy_argmax",
        "return low < count && excluded",
        "return excluded",
    ),
    "the last excluded id is forgotten": (
        "greedy_argmax",
        "uint high = count;",
        "uint high = count - 1;",
    ),
    "no token is token 2147483647": (
        "greedy_argmax",
        "best.index >= index_mask",
        "best.index > index_mask",
    ),
}


def telling_batches(stem):
    """A few small batches, each of which shows some of the faults."""
    fmt, rng = cases.FLOAT32, np.random.default_rng(35)
    width = 1600
    floor = fmt.words(-np.abs(rng.standard_normal((4, width), np.float32)) - 1)
    ties = floor.copy()
    for row, places in enumerate([(3, 7), (256, 512), (1023, 1024), (100, 1599)]):
        ties[row, list(places)] = fmt.words(np.array([2], np.float32))
    zeros = floor.copy()
    zeros[:, [5, 40]] = [fmt.sign, 0]
    zeros[1, [1023]] = 1
    denormals = np.tile(np.arange(1, width + 1, dtype=fmt.word), (2, 1))
    batches = [ties, zeros, denormals, ties[::-1, ::-1], denormals[:, :1024], ties[:, :1023]]
    nan = floor.copy()
    nan[:, [0, 31, 1024, 1599]] = list(fmt.nonfinite.values())[:4]
    batches.append(nan)
    cube = np.stack([ties, zeros, ties[::-1]])
    batches += [cube[:, ::2, ::2], ties[0]]
    plain = [cases.Batch(fmt, words, cases.Rules()) for words in batches]
    if stem == "argmax":
        return plain
    latching = np.repeat(ties[:1], 12, 0)
    for row, place in enumerate([0, 17, 1500] * 4):
        latching[row, place] = list(fmt.nonfinite.values())[row // 3 * 2 + row % 2]
    for rules in (cases.Rules(), cases.Rules([0, 17, 1500], None, "masked")):
        plain.append(cases.Batch(fmt, latching, rules))
    masks = cases.random_bitmask(rng, (4, width), 0.5)
    for allowed in (masks, masks[0], masks * 0, masks[::-1, :]):
        plain.append(cases.Batch(fmt, ties, cases.Rules([], allowed)))
        plain.append(cases.Batch(fmt, zeros, cases.Rules([5, 1023], allowed)))
    ids = [3, 256, 1023, 1599]
    for n in (1, 2, 3, 4):
        plain.append(cases.Batch(fmt, ties, cases.Rules(ids[-n:])))
    plain.append(cases.Batch(fmt, ties, cases.Rules(list(range(width)))))
    return plain


@pytest.mark.parametrize("ftz", [False, True])
@pytest.mark.parametrize("stem", STEMS)
def test_telling_batches_are_right_without_a_fault(stem, ftz, programs):
    found = []
    for batch in telling_batches(stem):
        found += host_kernels.faults(programs[stem], stem, batch, threads=64, seeds=(0, 1), ftz=ftz)
    assert found == []


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault, metal_host, sources):
    stem, right, wrong = FAULTS[fault]
    assert sources[stem].count(right) >= 1, "the source has changed: mend the planted fault"
    program = metal_host.Program(None, text=sources[stem].replace(right, wrong))
    assert any(
        host_kernels.faults(program, stem, batch, threads=64, seeds=(0, 1), ftz=True)
        for batch in telling_batches(stem)
    )
