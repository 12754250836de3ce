"""Price and error before anything is spent, in the analyst's words."""

from __future__ import annotations

from typing import Any

import pytest

from lapwing.privacy import Budget
from support.visits import Spy, frame, open_visits

TEXT = "SELECT sex, COUNT(*) AS n, SUM(cost) AS c, COUNT(DISTINCT pid) AS u FROM visits GROUP BY sex"


def test_a_preview_speaks_the_analysts_words() -> None:
    seen = open_visits().preview(TEXT, epsilon=0.1)
    assert set(seen.errors) == {"COUNT(*)", "SUM(cost)", "COUNT(DISTINCT unit)"}
    shown = str(seen)
    assert "COUNT(*): within" in shown
    assert "count_rows" not in shown
    assert "10.00% of the budget; about 10 such questions are left" in shown
    assert shown.endswith("Nothing was charged and no data were read.")


def test_the_error_of_a_preview_is_the_error_of_the_answer() -> None:
    curator = open_visits()
    text = "SELECT COUNT(*) AS n FROM visits"
    half = curator.preview(text, epsilon=0.5).errors["COUNT(*)"]
    found = curator.sql(text, epsilon=0.5).intervals().to_pylist()[0]
    assert (found["n"] - found["n_low"], found["n_high"] - found["n"]) == (half, half)


def test_a_preview_is_the_same_on_neighbours() -> None:
    """threat:A11"""
    one, two = open_visits().preview(TEXT, epsilon=0.1), open_visits(frame().slice(2)).preview(TEXT, epsilon=0.1)
    assert one.to_dict() == two.to_dict()


def test_a_preview_says_when_it_does_not_fit() -> None:
    curator = open_visits()
    curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.75)
    seen = curator.preview(TEXT, epsilon=0.5)
    assert not seen.fits
    assert seen.more == 0
    assert "It does not fit: epsilon = 0.25 is left." in str(seen)
    assert seen.to_dict()["fits"] is False


@pytest.mark.parametrize(("epsilon", "more"), [(0.1, 280), (0.5, 13), (2, 1)])
def test_many_small_questions_fit_into_an_approximate_budget(epsilon: float, more: int) -> None:
    """The figures that the design promises for a budget of (2, 1e-6)."""
    seen = open_visits(budget=Budget(epsilon=2, delta=1e-6)).preview(TEXT, epsilon=epsilon)
    assert seen.more == more
    assert 0 < seen.share <= 1


def test_confidence_widens_the_error() -> None:
    curator = open_visits()
    narrow, wide = (curator.preview(TEXT, epsilon=1, confidence=c).errors["COUNT(*)"] for c in (0.5, 0.99))
    assert narrow < wide


def test_a_preview_shows_that_less_epsilon_or_more_sensitivity_is_more_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """lecture:L34 before anything is spent, and without a look at the rows."""

    def error(epsilon: float, **facts: Any) -> float:
        curator = open_visits(**facts)
        spy = Spy(curator, monkeypatch)
        seen = curator.preview("SELECT SUM(cost) AS c FROM visits", epsilon=epsilon)
        assert (spy.queries, curator.budget.spent.amount) == ([], 0)
        return seen.errors["SUM(cost)"]

    usual = error(0.1)
    assert error(0.05) == pytest.approx(2 * usual, rel=1e-3)
    assert error(0.1, rows_per_unit=4) == pytest.approx(2 * usual, rel=1e-3)
    assert error(0.1, bounds={"cost": (0, 300)}) == pytest.approx(3 * usual, rel=1e-3)
    assert error(0.2) < usual
