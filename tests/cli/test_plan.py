"""`lapwing plan`: what it promises is what a curator with that budget previews."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOML = """
[budget]
epsilon = 1
[tables.v]
source = "not-there.csv"
unit = "who"
rows_per_unit = 2
groups_per_unit = 1
[tables.v.columns]
who = { type = "text" }
sex = { type = "text", values = ["F", "M"] }
age = { type = "integer", bounds = [0, 120] }
"""
QUESTIONS = "SELECT sex, COUNT(*) AS n FROM v GROUP BY sex;\nSELECT AVG(age) AS a FROM v; -- ';' in a comment\n"


def lapwing(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lapwing", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lapwing.toml").write_text(TOML, encoding="utf-8")
    (tmp_path / "q.sql").write_text(QUESTIONS, encoding="utf-8")
    return tmp_path


def test_it_needs_no_data_and_makes_no_ledger(folder: Path) -> None:
    found = lapwing(folder, "plan", "q.sql", "--budget", "1", "--budget", "2", "--json")
    assert found.returncode == 0, found.stderr
    said = json.loads(found.stdout)
    assert len(said["questions"]) == 2
    assert list(said["errors"]) == ["1", "2"]
    assert sorted(path.name for path in folder.iterdir()) == ["lapwing.toml", "q.sql"]


def test_its_errors_are_those_of_a_curator_with_that_budget(folder: Path) -> None:
    said = json.loads(lapwing(folder, "plan", "q.sql", "--budget", "2", "--json").stdout)["errors"]["2"][0]
    (folder / "not-there.csv").write_text("who,sex,age\na,F,1\n", encoding="utf-8")
    (folder / "lapwing.toml").write_text(TOML.replace("epsilon = 1", "epsilon = 2"), encoding="utf-8")
    question = "SELECT sex, COUNT(*) AS n FROM v GROUP BY sex"
    seen = json.loads(lapwing(folder, "preview", question, "--share", "0.5", "--json").stdout)
    ((name, error),) = seen["errors"].items()
    assert said == f"{name} within {error:.2g}"


def test_a_question_that_is_refused_says_so_beside_the_others(folder: Path) -> None:
    (folder / "q.sql").write_text("SELECT COUNT(*) FROM v; SELECT * FROM v", encoding="utf-8")
    found = lapwing(folder, "plan", "q.sql", "--budget", "1", "--budget", "2")
    assert found.stdout.count("COUNT(*) within") == 2
    assert found.stdout.count("refused:") == 1


def test_one_question_takes_the_whole_budget(folder: Path) -> None:
    (folder / "q.sql").write_text("SELECT COUNT(*) FROM v", encoding="utf-8")
    assert lapwing(folder, "plan", "q.sql").stdout.startswith("The question takes the whole budget.\n")


@pytest.mark.parametrize("text", ["", " ;; ", "-- nothing"])
def test_a_file_without_questions_is_refused(folder: Path, text: str) -> None:
    (folder / "q.sql").write_text(text, encoding="utf-8")
    found = lapwing(folder, "plan", "q.sql")
    assert found.returncode == 2
    assert "has no question" in found.stderr
