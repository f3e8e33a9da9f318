"""The README's table of parameters is the code's."""

import dataclasses
import re
from pathlib import Path

from mlx_sampling import SamplingParams

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_every_parameter_stands_in_the_table_with_its_default():
    rows = {}
    for line in README.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = re.match(r"`(\w+)`", cells[1]) if len(cells) == 5 else None
        if name:
            rows[name[1]] = cells
    fields = {
        field.name: getattr(SamplingParams(), field.name)
        for field in dataclasses.fields(SamplingParams)
    }
    assert set(fields) - {"reference"} == set(rows)
    for name, cells in rows.items():
        value = fields[name]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            assert float(cells[4].split()[0]) == value, name
            assert float(cells[3].split()[0]) == value, name
    assert rows["samplers"][3] == ", ".join(fields["samplers"])


def blocks():
    return re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_code_that_needs_no_model_runs():
    names = {}
    needing_none = [code for code in blocks() if "tokenizer" not in code]
    assert len(needing_none) == 2
    for code in needing_none:
        exec(code, names)
    assert names["tokens"]


def test_code_with_a_model_runs(packaged, monkeypatch):
    """With short answers, so that it takes seconds."""
    import mlx_lm
    import mlx_lm.generate

    import mlx_sampling
    import mlx_sampling.mlx_lm

    def short(stream):
        return lambda *args, **options: stream(*args, **{"max_tokens": 6, **options})

    monkeypatch.setattr(mlx_lm, "stream_generate", short(mlx_lm.stream_generate))
    monkeypatch.setattr(mlx_sampling, "greedy_stream", short(mlx_sampling.greedy_stream))
    monkeypatch.setattr(mlx_sampling, "sample_stream", short(mlx_sampling.sample_stream))
    monkeypatch.setattr(mlx_sampling.mlx_lm, "load", lambda: packaged)
    names = {}
    needing_one = [code for code in blocks() if "tokenizer" in code]
    assert len(needing_one) == 4
    for code in needing_one:
        exec(code, names)
