"""examples/first_answers.py tells the truth."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import lapwing as lw
from lapwing.classroom.database import global_sensitivity

EXAMPLE = Path(__file__).parents[2] / "examples" / "first_answers.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


@pytest.mark.usefixtures("seeded")
def test_a_hospital_publishes_about_50(example: dict[str, Any]) -> None:
    """lecture:L44 within 30 with 95 % confidence, and rarely exactly 50."""
    assert lw.Laplace(epsilon=0.1).error(0.95) == 30
    drawn = [example["hospital"]() for _ in range(400)]
    assert sum(abs(n - 50) <= 30 for n in drawn) > 360
    assert drawn.count(50) < 60


@pytest.mark.usefixtures("seeded")
def test_scores_above_80_have_one_noise_by_hand_and_by_sql(example: dict[str, Any]) -> None:
    """lecture:L44 the same count, the same price, the same half-width."""
    truth = int((example["SCORES"]["scores"] > 80).sum())
    by_hand, release = example["above_80"]()
    row = release.intervals().to_pylist()[0]
    assert truth == 40
    assert abs(by_hand - truth) <= 60
    assert abs(row["n"] - truth) <= 60
    assert row["n_high"] - row["n"] == lw.Laplace(epsilon=0.1).error(0.95)
    assert release.cost.amount == lw.Laplace(epsilon=0.1).epsilon


@pytest.mark.usefixtures("seeded")
def test_a_sum_over_an_array_has_the_sensitivity_of_one_entry(example: dict[str, Any]) -> None:
    """lecture:L44 entries from 0 to 6."""
    assert global_sensitivity(sum, range(7), size=3).value == 6
    assert (int(example["AMOUNTS"].min()), int(example["AMOUNTS"].max())) == (0, 6)
    assert abs(example["total"]() - int(example["AMOUNTS"].sum())) <= 2 * lw.Laplace(epsilon=0.1, sensitivity=6).error()


def test_five_rows_without_one_are_neighbours(example: dict[str, Any]) -> None:
    """lecture:L44 smokers and lung cancer in a five-row table."""
    distance, answer = example["smokers"]()
    assert (len(example["FIVE"]), distance) == (5, 1)
    row = answer.intervals().to_pylist()[0]
    assert row["n_high"] - row["n_low"] == 2 * lw.Laplace(epsilon=1).error()
    assert row["n_high"] - row["n_low"] > len(example["FIVE"])


def test_example_prints_its_answers(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    example["main"]()
    story = capsys.readouterr().out
    for words in ("50 patients", "Scores above 80", "2,997", "distance 1", "e^1 = 2.72"):
        assert words in story
