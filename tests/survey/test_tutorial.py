"""The tutorial: its numbers are those of the draft, and its pictures are made by one command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lapwing.cli.survey import DRAFT
from lapwing.survey import parse_survey, public_description

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
PAGE = " ".join((ROOT / "docs" / "tutorials" / "survey.md").read_text(encoding="utf-8").replace("> ", "").split())


def test_the_numbers_of_the_tutorial_are_those_of_the_draft() -> None:
    described = public_description(parse_survey(DRAFT))
    first = described["questions"][0]
    assert (first["kind"], first["epsilon"], described["epsilon"]) == ("yes-no", "1", "4.5")
    truth, other = first["odds"]["truth"], first["odds"]["other"]
    assert f"{truth} of 100 people who would say yes report yes, and so do {other} of 100 who would say no" in PAGE
    assert f"who would say yes to the first question, {truth} report yes" in PAGE
    assert f"of 100 who would say no, {other} report yes" in PAGE
    assert "privacy loss of epsilon = 4.5" in PAGE
    large = parse_survey(DRAFT.replace("epsilon = 1\n", "epsilon = 5\n", 1).replace("epsilon = 4.5", "epsilon = 8.5"))
    assert f"{large.questions[0].odds['truth']} of 100 reports are true" in PAGE


def test_every_picture_is_there_and_small() -> None:
    shown = re.findall(r"\.\./pictures/(\w+\.png)", PAGE)
    assert shown == ["survey_phones.png", "survey_few.png", "survey_results.png", "survey_class.png"]
    assert [name for name in shown if not 5_000 < (PICTURES / name).stat().st_size < 100_000] == []


@pytest.mark.slow
def test_one_command_makes_the_pictures_anew(tmp_path: Path) -> None:
    """Of the same size as those in docs/: fonts of another machine may draw other letters."""
    command = [sys.executable, str(ROOT / "docs" / "make_survey_pictures.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = sorted(tmp_path.glob("*.png"))
    assert [path.name for path in made] == sorted(path.name for path in PICTURES.glob("survey_*.png"))
    for path in made:
        width = [int.from_bytes(one.read_bytes()[16:20], "big") for one in (path, PICTURES / path.name)]
        assert width[0] == width[1], path.name
