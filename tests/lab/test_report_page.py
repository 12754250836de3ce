"""docs/lab.md: its code runs, prints what it shows, and its table is the zoo."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from lapwing.lab.zoo import BROKEN

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "lab.md").read_text(encoding="utf-8")
wrapped = runpy.run_path(str(DOCS / "make_outputs.py"))["wrapped"]  # at 88 columns


@pytest.mark.usefixtures("seeded")
def test_code_of_the_page_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """The first lines and the rules; bounds differ from draw to draw."""
    shown = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(shown) == 2
    for code, output in shown:
        exec(compile(code, "docs/lab.md", "exec"), {})
        printed = wrapped(capsys.readouterr().out)
        assert re.sub(r"[\d.]+", "", printed).split(":")[0] == re.sub(r"[\d.]+", "", output).split(":")[0]
    assert printed == output


def test_the_table_of_the_page_lists_the_zoo() -> None:
    rows = re.findall(r"(?m)^\| (.+?) \| (.+?) \| ([\d,]+) \| ([\d,]+) \|$", PAGE)
    assert [(name, why, int(runs.replace(",", ""))) for name, why, runs, _ in rows] == [
        (specimen.name, specimen.wrong, specimen.runs) for specimen in BROKEN
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
def test_the_zoo_is_rejected_at_the_runs_that_the_page_reports() -> None:
    """Of ten audits at most two miss it: at 95 % that many are missed once in a hundred times."""
    rows = dict(re.findall(r"(?m)^\| (.+?) \| .+? \| [\d,]+ \| ([\d,]+) \|$", PAGE))
    for specimen in BROKEN:
        runs = int(rows[specimen.name].replace(",", ""))
        assert sum(specimen.audit(runs).rejected for _ in range(10)) >= 8, specimen.name
