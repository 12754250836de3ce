"""The pictures of odds and of local sensitivity are made by running code, and show what their pages say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lapwing.mechanisms.quantile import Quantile

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
    assert "at least 26.9% and at most 73.1%" in capsys.readouterr().out


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
