"""examples/local_or_global.py tells the truth."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lapwing as lw

EXAMPLE = Path(__file__).parents[2] / "examples" / "local_or_global.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def test_local_error_grows_with_the_root_of_n_and_global_error_does_not(example: dict[str, Any]) -> None:
    """lecture:L21 side by side at the same epsilon: local is the less accurate of the two."""
    assert example["global_error"]() == 3
    assert [round(example["local_error"](people)) for people in example["PEOPLE"]] == [19, 59, 188, 595]
    assert example["local_error"](10) > 3
    assert lw.RandomizedResponse(epsilon=1).loss == lw.Laplace(epsilon=1).loss


@pytest.mark.usefixtures("seeded")
def test_stated_errors_are_those_of_the_mechanisms(example: dict[str, Any]) -> None:
    """lecture:L21 400 runs of both: about 95 % within, and far fewer within half of it."""
    runs = np.array([example["asked"](1_000) for _ in range(400)])
    for column, stated in ((0, example["global_error"]()), (1, example["local_error"](1_000))):
        assert np.mean(runs[:, column] <= stated) > 0.92
        assert np.mean(runs[:, column] <= stated / 2) < 0.85


def test_example_prints_both(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    example["main"]()
    story = capsys.readouterr().out
    assert "100,000        3      595" in story
    assert "Global is the more accurate one." in story
