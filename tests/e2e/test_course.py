"""The course: five lectures whose code prints what their pages say, as pages, notebooks and commands."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lapwing.cli.main import app
from lapwing.lab.course import LECTURES, read_lecture

ROOT = Path(__file__).parents[2]
COURSE = ROOT / "docs" / "course"
wrapped = runpy.run_path(str(ROOT / "docs" / "make_outputs.py"))["wrapped"]  # at 88 columns
SECTION = re.compile(r"^## (\d\.\d+) ", flags=re.MULTILINE)


@pytest.mark.filterwarnings("error::lapwing.errors.TemporaryBudget")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", LECTURES)
def test_a_lecture_prints_what_its_page_says(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """lecture:L1 lecture:L3 lecture:L4 lecture:L5 lecture:L6 lecture:L7 lecture:L10 lecture:L12 lecture:L14 lecture:L15
    lecture:L16 lecture:L17 lecture:L18 lecture:L19 lecture:L20 lecture:L21 lecture:L30 lecture:L31 lecture:L32
    lecture:L33 lecture:L34 lecture:L35 lecture:L43 lecture:L44"""
    monkeypatch.chdir(tmp_path)
    cells = read_lecture(name).cells
    names: dict[str, Any] = {"__name__": name}
    noisy = []
    for cell, after in zip(cells, [*cells[1:], None], strict=True):
        if cell.kind == "code":
            exec(compile(cell.text, f"lecture {name}", "exec"), names)
            printed = capsys.readouterr().out
            if after is not None and after.kind == "output":
                assert wrapped(printed) == after.text
            else:
                noisy.append(cell.text)
    assert all("lw.lab.attack(" in code for code in noisy)


@pytest.mark.parametrize("name", LECTURES)
def test_every_item_has_code_an_exercise_and_a_solution(name: str) -> None:
    items, solutions = read_lecture(name).page.split("\n## Solutions\n")
    number = list(LECTURES).index(name) + 1
    _, *parts = SECTION.split(items)
    found = parts[::2]
    assert found == [f"{number}.{k}" for k in range(1, len(found) + 1)]
    for item in parts[1::2]:
        assert "```python\n" in item
        assert item.count("**Exercise.**") == 1
    assert re.findall(r"^### (.*)$", solutions, flags=re.MULTILINE) == found


def test_pages_and_notebooks_are_those_of_the_lectures() -> None:
    """`python docs/make_course.py` writes them."""
    made = runpy.run_path(str(ROOT / "docs" / "make_course.py"))["course"]()
    assert {path.name: path.read_text(encoding="utf-8") for path in COURSE.iterdir()} == made


@pytest.mark.parametrize("name", LECTURES)
def test_a_notebook_holds_the_code_of_its_page(name: str) -> None:
    page = COURSE / LECTURES[name]
    notebook = json.loads(page.with_suffix(".ipynb").read_text(encoding="utf-8"))
    code = ["".join(cell["source"]) + "\n" for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert code == re.findall(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)


def test_lectures_are_listed_and_one_runs_from_the_command_line() -> None:
    listed = CliRunner().invoke(app, ["lecture"]).output.splitlines()
    assert [line.split()[0] for line in listed] == list(LECTURES)
    shown = CliRunner().invoke(app, ["lecture", "3"]).output
    assert "    noise = lw.Laplace(epsilon=1)\n" in shown
    assert "within 3 of the count" in shown
    assert "Solutions" not in shown
    assert "35,369" in CliRunner().invoke(app, ["lecture", "local-or-global", "--solutions"]).output


def test_an_unknown_lecture_is_told_by_name() -> None:
    error = CliRunner().invoke(app, ["lecture", "magic"]).exception
    assert "There are definition, budget, local-or-global, choosing, attacks." in str(error)
