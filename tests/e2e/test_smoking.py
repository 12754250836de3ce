"""examples/smoking.py: the parable in figures."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "smoking.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


@pytest.mark.usefixtures("seeded")
def test_study_teaches_the_same_with_and_without_bob(example: dict[str, Any]) -> None:
    """lecture:L7 whatever is learned about you, would have been learned without you."""
    for table in (example["WITH_BOB"], example["WITHOUT_BOB"]):
        assert example["risks"](table)[True] == pytest.approx(0.15, abs=0.001)
        assert example["risks"](example["released"](table))[True] == pytest.approx(0.15, abs=0.03)
        assert example["conclusions"](table) > 0.95


def test_record_of_bob_is_protected(example: dict[str, Any]) -> None:
    """lecture:L7 prior and posterior belief about one person differ by at most a factor e^eps in odds."""
    belief = example["took_part"]()
    assert float(belief.high) == pytest.approx(0.525, abs=0.0001)
    ill = example["is_ill"](0.15)
    assert float(ill.high / (1 - ill.high)) == pytest.approx(0.15 / 0.85 * 2.718281828**0.2, rel=1e-6)


def test_example_prints_its_story(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    example["main"]()
    story = capsys.readouterr().out
    for figure in ("a risk of 4.5%", "Study without Bob", "gives him 15%", "between 47.5 % and 52.5 %"):
        assert figure in story
