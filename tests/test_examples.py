"""Every example runs as it stands."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, request):
    if "mlx_lm" in path.read_text():
        request.getfixturevalue("packaged")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_docstring_examples():
    """The examples in docstrings that need no model give what they say."""
    import doctest

    import mlx_sampling
    from mlx_sampling import json_schema, routes

    tried = 0
    for item in (
        mlx_sampling.argmax,
        mlx_sampling.greedy_argmax,
        mlx_sampling.Grammar,
        mlx_sampling.LookupDrafter,
        mlx_sampling.Vocabulary,
        json_schema.json_schema_to_gbnf,
        mlx_sampling.Mt19937,
        mlx_sampling.Sampler,
        mlx_sampling.Sampler.restore,
        mlx_sampling.SamplingParams,
        mlx_sampling.sample_batch,
        mlx_sampling.verify_draft,
        mlx_sampling.verify_draft_batch,
        mlx_sampling.speculative.draft_seed,
        routes.choose_route,
        routes.route_for,
    ):
        parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
        names = {name: getattr(mlx_sampling, name) for name in mlx_sampling.__all__}
        names["json_schema_to_gbnf"] = json_schema.json_schema_to_gbnf
        test = parser.get_doctest(item.__doc__ or "", names, str(item), None, None)
        assert test.examples, item
        failed, count = runner.run(test)
        assert not failed
        tried += count
    assert tried > 12
