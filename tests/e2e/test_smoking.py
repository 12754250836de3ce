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


def odds(share: float) -> float:
    return share / (1 - share)


def test_study_changes_the_odds_of_a_smoker_by_more_than_any_epsilon_says(example: dict[str, Any]) -> None:
    """lecture:L7 what the world teaches about people like him is not bounded: 3.75 here, at epsilon = 0.1."""
    table = example["WITHOUT_BOB"]
    everybody = sum(n for (_, ill), n in table.items() if ill) / sum(table.values())
    changed = odds(example["risks"](table)[True]) / odds(everybody)
    assert changed == pytest.approx(3.75, abs=0.01)
    assert changed > 2.718281828 ** (2 * float(example["STUDY"].epsilon))


def test_record_of_bob_is_protected(example: dict[str, Any]) -> None:
    """lecture:L7 the odds that he is in change by at most e^eps, those of what his record says by e^(2 eps)."""
    belief = example["took_part"]()
    assert float(belief.high) == pytest.approx(0.525, abs=0.0001)
    ill = example["is_ill"](0.15)
    assert float(ill.high / (1 - ill.high)) == pytest.approx(0.15 / 0.85 * 2.718281828**0.2, rel=1e-6)


def test_example_prints_its_story(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    example["main"]()
    story = capsys.readouterr().out
    for figure in ("a risk of 4.5%", "Study without Bob", "gives him 15%", "becomes 47.5% to 52.5%"):
        assert figure in story
