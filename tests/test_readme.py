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
