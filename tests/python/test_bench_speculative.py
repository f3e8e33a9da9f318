"""`bench speculative`: its figures on small cases, and that it fails where they are wrong."""

import json

import numpy as np
import pytest

from mlx_sampling.bench import speculative
from mlx_sampling.cli import main


def rows(seed, count=40, width=30):
    weights = np.random.default_rng(seed).exponential(size=(count, width)) ** 2
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def test_cost(capsys):
    options = ["--vocab", "500", "--rounds", "2", "--draft-tokens", "3", "--cost-only", "--json"]
    assert main(["bench", "speculative", *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [case["form"] for case in report["cost"]] == ["dense", "sparse"]
    assert all(us > 0 for case in report["cost"] for us in case["us"].values())
    assert report["yield"] == []


def test_table(capsys):
    assert main(["bench", "speculative", "--vocab", "64", "--rounds", "1", "--cost-only"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].split()[:3] == ["dense", "64", "4"]


def test_decisions_that_differ_are_an_error(monkeypatch):
    monkeypatch.setattr(speculative.reference, "verify_draft", lambda *_: (9, 9, "bonus"))
    with pytest.raises(ValueError, match=r"^\[dense\] Expected one decision"):
        speculative.measure("dense", 64, 2, 1)


def test_yield_is_what_the_overlap_predicts():
    target, draft = rows(1), rows(2)
    found = speculative.acceptance(target, draft, 500)
    assert found["within"]
    assert found["predicted"] == pytest.approx(np.minimum(target, draft).sum(axis=1).mean())
    assert found["exact_match"] == pytest.approx((target * draft).sum(axis=1).mean(), abs=0.01)
    assert found["accepted"] > 2 * found["exact_match"]
    same = speculative.acceptance(target, target, 50)
    assert same["accepted"] == 1
    assert same["within"]


def test_drafts_of_another_law_are_out(monkeypatch):
    """The planted error: drafts from a law that is not the one they are verified against."""
    target, draft = rows(1), rows(2)
    monkeypatch.setattr(speculative, "_drawn", lambda law, count, rng: np.full(count, law.argmax()))
    assert not speculative.acceptance(target, draft, 500)["within"]


def test_variants_leave_the_model_as_it_was(tiny_model):
    ids, chain = [1, 2, 3, 4], {"temperature": 0.8, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    before = speculative.laws(tiny_model, ids, 3, chain)
    assert before.sum(axis=1) == pytest.approx(1, abs=1e-5)
    with speculative.fewer_layers(tiny_model, 1):
        assert np.abs(speculative.laws(tiny_model, ids, 3, chain) - before).max() > 1e-3
    assert (speculative.laws(tiny_model, ids, 3, chain) == before).all()
    message = r"^\[layers\] Expected an int in \[1, 1\], got 2"
    with pytest.raises(ValueError, match=message), speculative.fewer_layers(tiny_model, 2):
        pass


def test_coarser_weights():
    import mlx.nn as nn

    layer = nn.Linear(128, 8)
    before = np.array(layer.weight)
    with speculative.coarser(layer, 3):
        groups = np.array(layer.weight).reshape(8, 2, 64)
        assert max(len(np.unique(group)) for rows in groups for group in rows) <= 8
    assert (np.array(layer.weight) == before).all()


@pytest.mark.parametrize("name", ["vocab", "draft-tokens", "rounds", "tokens", "drafts"])
def test_bad_options(capsys, name):
    assert main(["bench", "speculative", f"--{name}", "0"]) == 1
    assert f"[{name.replace('-', '_')}] Expected an int >= 1, got 0" in capsys.readouterr().err
