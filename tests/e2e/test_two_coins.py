"""examples/two_coins.py and docs/collect.md tell the truth."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import lapwing as lw

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "collect.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / "two_coins.py"))


@pytest.mark.usefixtures("seeded")
def test_the_survey_finds_the_share_of_the_ill(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """lecture:L10 two coins on the answers of 5,638 real people: p = 2 E[yes] - 1/2."""
    truth = [rating in ("fair", "poor") for rating in example["ratings"]()]
    assert (len(truth), sum(truth)) == (5638, 548)
    coins = lw.RandomizedResponse.two_coins()
    answers = coins.respond(truth)
    found = coins.estimate(answers)[True]
    assert found.share == pytest.approx(2 * sum(answers) / len(answers) - 0.5)
    assert found.low <= sum(truth) / len(truth) <= found.high
    assert found.high - found.low < 0.06
    example["main"]()
    assert "The truth, which nobody saw: 9.7%." in capsys.readouterr().out


def test_local_errs_more_than_shuffled_and_shuffled_more_than_central() -> None:
    """lecture:L21 the picture of the three models, and what the page says of it."""
    models = runpy.run_path(str(ROOT / "docs" / "gallery" / "models.py"))
    for people in (1_000, 100_000, 1_000_000):
        local, shuffled, central = (models[f"{name}_error"](people) for name in ("local", "shuffled", "central"))
        assert local > shuffled > central
    assert 550 < local / central < 650
    assert "about 600 times as wide" in PAGE
    assert lw.collect.central_epsilon(1, 10_000, delta=1e-6) == pytest.approx(0.053, abs=0.0005)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_code_of_the_page_runs(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "docs/collect.md", "exec"), {})
    assert capsys.readouterr().out.strip()
