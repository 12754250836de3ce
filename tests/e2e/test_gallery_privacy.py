"""The pictures of odds and of local sensitivity are made by running code, and show what their pages say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lapwing.classroom.database import local_sensitivity
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.local.ordered import BoundedGrid
from lapwing.mechanisms.local.propose_test_release import ProposedMedian
from lapwing.mechanisms.local.smooth import SmoothMedian
from lapwing.mechanisms.quantiles.several_quantiles import Quantile
from lapwing.privacy.neighbours import Neighbours

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"


def painted(name: str, folder: Path) -> tuple[dict[str, Any], Path]:
    """Runs a script of the gallery with its picture in another folder."""
    script = runpy.run_path(str(GALLERY / f"{name}.py"))
    script["main"].__globals__["PICTURE"] = folder / f"{name}.png"
    return script, script["main"]()


def test_odds_are_painted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """lecture:L7 posterior odds for a prior and an eps, with a picture."""
    _, picture = painted("odds", tmp_path)
    assert picture.stat().st_size > 20_000
    assert "becomes 26.89% to 73.11%" in capsys.readouterr().out


def test_local_sensitivity_is_painted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """lecture:L20 which is best when, and how naive local sensitivity leaks."""
    script, picture = painted("local_sensitivity", tmp_path)
    assert picture.stat().st_size > 20_000
    assert "within 63 dollars, smooth sensitivity 194 (pure) or 954 (delta = 1e-6)" in capsys.readouterr().out
    found = script["errors"]()
    assert all(a < b < c for a, b, c in zip(found["exponential"], found["pure"], found["light"], strict=True))


def test_error_of_the_exponential_mechanism_is_that_of_quantile() -> None:
    """The curve of the picture against the exact law of the mechanism, on a coarse grid."""
    script = runpy.run_path(str(GALLERY / "local_sensitivity.py"))
    mechanism = Quantile(epsilon=1, bounds=(0, 1_000_000), step=250)
    for n in (31, 101):
        values = script["incomes"](n)
        chances = np.array([float(low) for low, _ in mechanism.law(values)])
        off = np.abs(np.arange(chances.size) * 250 - values[(n - 1) // 2])
        order = np.argsort(off)
        half = off[order][np.searchsorted(np.cumsum(chances[order]), 0.5)]
        assert half == pytest.approx(script["exponential_error"](values), abs=400)


def test_the_table_of_medians_holds_the_figures_of_the_mechanisms() -> None:
    """lecture:L20 docs/local-sensitivity.md, row by row: what 50, 95 and 99 of 100 runs keep with 1,000 incomes."""
    script = runpy.run_path(str(GALLERY / "local_sensitivity.py"))
    incomes, bounds = script["incomes"], script["BOUNDS"]
    pure, light = SmoothMedian(epsilon=1, bounds=bounds), SmoothMedian(epsilon=1, delta=1e-6, bounds=bounds)
    proposed = ProposedMedian(proposed=1000, epsilon=1, delta=1e-6, bounds=bounds)
    computed = [
        [script["exponential_error"](incomes(1_000), share) for share in (0.5, 0.95, 0.99)],
        [pure.error(incomes(1_000), share) for share in (0.5, 0.95, 0.99)],
        [light.error(incomes(1_000), share) for share in (0.5, 0.95, 0.99)],
        [proposed.error(share) for share in (0.5, 0.95, 0.99)],
        [Laplace(epsilon=1, sensitivity=bounds[1]).error(0.5)],
    ]
    page = (
        (GALLERY.parent / "local-sensitivity.md").read_text().split("| 50% | 95% | 99% |\n|---|---|---|---|---|\n")[1]
    )
    for line, figures in zip(page.splitlines(), computed, strict=False):
        shown = " | ".join(line.split(" | ")[2:]).replace("below 2,200 people", "")
        assert [int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", shown)] == [round(n) for n in figures]
    assert proposed.distance(incomes(2_000)) < proposed.needed_distance(0.5) <= proposed.distance(incomes(2_200))


def test_the_page_of_local_sensitivity_states_what_its_median_has(capsys: pytest.CaptureFixture[str]) -> None:
    """Its block, and its sentence on other medians and neighbours, by enumeration."""
    page = (GALLERY.parent / "local-sensitivity.md").read_text(encoding="utf-8")
    (code, printed), *_ = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert capsys.readouterr().out == printed
    upper, changed = (lambda incomes: sorted(incomes)[len(incomes) // 2]), Neighbours.CHANGE_ONE
    for median, relation in ((upper, Neighbours.ADD_OR_REMOVE), (names["lower_median"], changed)):
        found = [
            local_sensitivity(median, [*names["gap"], *[30_000] * more], [30_000, 60_000], neighbours=relation).value
            for more in (1, 2)
        ]
        assert found == [30_000, 0]
    words = "or if one person may change instead, the local sensitivity is 30,000 for 101 people and 0 for 102"
    assert words in " ".join(page.split())
    for more, gap in ((0, 30_000), (1, 0)):  # Lapwing's own median, on every income
        grid = BoundedGrid((0, 1_000_000), step=1_000)
        assert grid.order([*names["gap"], *[30_000] * more], Neighbours.ADD_OR_REMOVE).gap(0) * 1_000 == gap
