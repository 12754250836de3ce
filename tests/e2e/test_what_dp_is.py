"""examples/what_dp_is.py tells the truth."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from lapwing.classroom.database import databases

EXAMPLE = Path(__file__).parents[2] / "examples" / "what_dp_is.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def test_perfect_privacy_is_one_law_for_every_database(example: dict[str, Any]) -> None:
    """lecture:L8 eps = 0 and delta = 0: perfect, and useless."""
    blind, leaning = example["perfect_privacy"]()
    assert blind is None
    assert leaning is not None
    laws = [example["coin"](list(x.records)) for x in databases(example["ANSWERS"], up_to=4)]
    assert all(law == laws[0] for law in laws)
    assert laws[0]["yes"] == laws[0]["no"]  # right half of the time


def test_algorithms_for_one_task_differ_in_accuracy(example: dict[str, Any]) -> None:
    """lecture:L8 a definition, not an algorithm."""
    alone, parts, local = example["accuracies"]().values()
    assert (alone, parts) == (3, 9)
    assert local == pytest.approx(59.4, abs=0.1)
    assert example["error_of_sum"](1) == alone


@pytest.mark.parametrize("people", [2, 3, 7])
def test_one_record_at_random_is_zero_one_over_n_private(example: dict[str, Any], people: int) -> None:
    """lecture:L8 it does not sacrifice the few for the many, if delta is far below 1/n."""
    allowed, refuted = example["sacrifice"](people)
    assert allowed is None
    assert refuted is not None
    assert refuted.likely - refuted.rare == pytest.approx(1 / people)


def test_example_prints_its_story(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    example["main"]()
    story = capsys.readouterr().out
    for figure in ("right half of the time", "Database(['yes'])", "everybody lies a little", "(0, 1/10)-DP: True"):
        assert figure in story
