"""Price and error before anything is spent, in the analyst's words."""

from __future__ import annotations

import html
import json
from fractions import Fraction
from typing import Any

import pytest

from lapwing.errors import BudgetExceeded, Misconfigured, Refused
from lapwing.plan.key_selection import units_needed
from lapwing.privacy import Budget
from support.visits import Spy, frame, open_visits

TEXT = "SELECT sex, COUNT(*) AS n, SUM(cost) AS c, COUNT(DISTINCT pid) AS u FROM visits GROUP BY sex"


def test_a_preview_speaks_the_analysts_words() -> None:
    seen = open_visits().preview(TEXT, epsilon=0.1)
    assert set(seen.errors) == {"COUNT(*)", "SUM(cost)", "COUNT(DISTINCT unit)"}
    shown = str(seen)
    assert "COUNT(*): within" in shown
    assert "count_rows" not in shown
    assert "10% of the budget; 10 such questions fit in what is left" in shown
    assert seen.explain().endswith("Nothing was charged and no data were read.")


def test_every_preview_has_the_same_formats() -> None:
    """Of a question, a batch, a distribution and marginals."""
    curator = open_visits(groups_per_unit=1)
    for seen in (
        curator.preview("SELECT COUNT(*) AS \"<b>\" FROM visits WHERE sex = '<b>'", epsilon=5),
        curator.preview_batch({"<b>": "SELECT COUNT(*) AS n FROM visits"}, epsilon=5),
        curator.preview_distribution("age", epsilon=5),
        curator.preview_marginals(["sex", "site"], epsilon=5),
    ):
        assert json.loads(seen.to_json()) == json.loads(json.dumps(seen.to_dict()))
        assert list(seen.to_dict())[:3] == ["price", "stored", "fits"]
        assert (seen.to_dict()["price"], seen.stored, seen.fits) == ({"epsilon": 5.0, "delta": 0.0}, False, False)
        assert repr(seen).startswith("Price")
        lines = seen.explain().splitlines()
        assert lines[-2:] == ["It does not fit: epsilon = 1 is left.", "Nothing was charged and no data were read."]
        assert html.unescape(seen._repr_html_()) == f"<pre>{seen}</pre>"
        assert "<b>" not in seen._repr_html_()


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


def test_a_preview_says_which_delta_is_left_when_that_does_not_fit() -> None:
    curator = open_visits(budget=Budget(1, 1e-6), groups_per_unit=1)
    seen = curator.preview("SELECT name, COUNT(*) AS n FROM visits GROUP BY name", epsilon=0.1, delta=1e-6)
    assert not seen.fits
    assert "It does not fit: rho = 0.02293, delta = 5e-7 is left." in seen.explain()


def test_a_preview_says_when_it_does_not_fit() -> None:
    curator = open_visits()
    curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.75)
    seen = curator.preview(TEXT, epsilon=0.5)
    assert not seen.fits
    assert seen.more == 0
    assert "It does not fit: epsilon = 0.25 is left." in seen.explain()
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


BY_NAME = "SELECT name, COUNT(DISTINCT pid) AS n FROM visits GROUP BY name"


def test_a_preview_says_which_delta_selects_keys_and_which_groups_that_shows() -> None:
    budget = Budget(epsilon=2, delta=Fraction(1, 10**4))
    curator = open_visits(budget=budget, groups_per_unit=2)
    first = curator.preview(BY_NAME, epsilon=0.1)
    assert first.keys["delta"] == float(budget.question_delta()) == 5e-7
    half, most = units_needed(first.plan.selection)
    words = f"for delta = 5e-7, a hundredth of what is left: one of {half:,} units is shown every second time"
    assert f"Groups are selected privately {words}, one of {most:,} units 95 times in 100" in first.explain()
    assert first.to_dict()["keys"] == first.keys
    assert first.more == int(first.remaining.amount / first.cost.amount) > 100  # the delta does not end before
    curator.sql(BY_NAME, epsilon=0.1)
    later = curator.preview(BY_NAME, epsilon=0.1, refresh=True)
    assert later.keys["delta"] == 4.95e-7
    named = curator.preview(BY_NAME, epsilon=0.1, refresh=True, delta=Fraction(1, 10**5))
    assert "for delta = 1e-5:" in named.explain()
    assert named.more == 4
    assert curator.preview("SELECT COUNT(*) AS n FROM visits", epsilon=0.1).keys == {}


def test_private_keys_do_not_end_before_the_budget_does() -> None:
    """They once ended after 100 questions with nine tenths of rho left."""
    curator = open_visits(budget=Budget(epsilon=2, delta=Fraction(1, 10**6)), groups_per_unit=2)
    whole = curator.budget.total.delta
    for _ in range(120):
        assert curator.sql(BY_NAME, epsilon=0.02, refresh=True).cost
    spent = curator.budget.spent
    assert spent.delta < whole
    assert spent.amount < curator.budget.total.amount / 10
    assert whole - spent.delta > whole * Fraction(99, 100) ** 120


def test_a_key_serves_a_retry_although_less_delta_is_left() -> None:
    curator = open_visits(budget=Budget(epsilon=2, delta=Fraction(1, 10**6)), groups_per_unit=2)
    terms = {"epsilon": 0.1, "refresh": True, "key": "one"}
    first = curator.sql(BY_NAME, **terms)
    spent = curator.budget.spent
    again = curator.sql(BY_NAME, **terms)
    assert (again.entry, again.cost, curator.budget.spent) == (first.entry, spent - spent, spent)
    batch = {"epsilon": 0.2, "refresh": True, "key": "two"}
    first_of_two = curator.batch([BY_NAME, "SELECT COUNT(*) AS n FROM visits"], **batch)
    spent = curator.budget.spent
    retried = curator.batch([BY_NAME, "SELECT COUNT(*) AS n FROM visits"], **batch)
    assert [answer.entry for answer in retried] == [answer.entry for answer in first_of_two]
    assert curator.budget.spent == spent
    with pytest.raises(Misconfigured, match="used for another question"):
        curator.sql(BY_NAME, **terms, delta=Fraction(1, 10**9))


def test_keys_are_refused_with_advice_when_no_delta_is_left() -> None:
    curator = open_visits(budget=Budget(epsilon=2, delta=Fraction(1, 10**6)), groups_per_unit=2)
    curator.sql(BY_NAME, epsilon=0.1, delta=Fraction(1, 2 * 10**6))
    spent = curator.budget.spent
    assert spent.delta == curator.budget.total.delta
    other = "SELECT name, COUNT(*) AS n FROM visits GROUP BY name"
    for ask in (
        lambda: curator.sql(other, epsilon=0.1),
        lambda: curator.batch([other, BY_NAME], epsilon=0.1, refresh=True),
    ):
        with pytest.raises(Refused, match=r"nothing is left of the delta .* declare the values .* Nothing was charged"):
            ask()
    with pytest.raises(BudgetExceeded, match="whose values are declared"):
        curator.sql(other, epsilon=0.1, delta=Fraction(1, 10**9))
    assert curator.budget.spent == spent
    assert curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.1).cost
