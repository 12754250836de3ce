"""The most common outputs stay short: the rows, one line with the price, and one more only if something is cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lapwing as lw
from lapwing.answers.distribution import Estimate
from lapwing.data import health
from lapwing.errors import LapwingError

COUNT = "SELECT COUNT(*) AS n FROM health"
BY_PLAN = "SELECT plan, COUNT(DISTINCT person) AS n FROM health GROUP BY plan"
PLANS = ["free", "25%", "50%", "95%", "deductible"]
NAMED = "n, RANK() OVER (ORDER BY n DESC) AS place"


def opened(rows_per_unit: int = 5, **budget: Any) -> lw.Curator:
    return lw.open(
        health(),
        name="health",
        unit="person",
        rows_per_unit=rows_per_unit,
        groups_per_unit=1,
        values={"plan": PLANS, "sex": ["F", "M"]},
        bounds={"visits": (0, 20)},
        budget=lw.Budget(**(budget or {"epsilon": 20})),
        ledger=":memory:",
    )


@pytest.fixture(scope="module")
def curator() -> lw.Curator:
    return opened()


def refusal(ask: Callable[[], Any]) -> str:
    with pytest.raises(LapwingError) as raised:
        ask()
    return str(raised.value)


# Rows, the header, the price and at most one note; noise may decide whether a cut is seen.
OUTPUTS: dict[str, tuple[int, Callable[[lw.Curator], Any]]] = {
    "count": (4, lambda c: c.sql(COUNT, within=50)),
    "group by": (8, lambda c: c.sql(BY_PLAN, share=0.01)),
    "mean": (8, lambda c: c.sql("SELECT plan, AVG(visits) AS v FROM health GROUP BY plan", epsilon=0.2)),
    "quantile": (4, lambda c: c.sql("SELECT MEDIAN(visits) AS v FROM health", epsilon=0.2)),
    "sum": (4, lambda c: c.sql("SELECT SUM(visits) AS v FROM health WHERE sex = 'F'", epsilon=0.2)),
    "rollup": (10, lambda c: c.sql("SELECT plan, COUNT(*) AS n FROM health GROUP BY ROLLUP(plan)", epsilon=0.2)),
    "computed": (8, lambda c: c.sql(f"SELECT plan, {NAMED} FROM ({BY_PLAN}) AS t", epsilon=0.2)),
    "batch": (17, lambda c: c.batch([COUNT, BY_PLAN], epsilon=0.2)),
    "distribution": (24, lambda c: c.distribution("visits", epsilon=0.2)),
    "range": (2, lambda c: c.distribution("visits", epsilon=0.2).range(0, 3)),
    "marginals": (5, lambda c: c.marginals(["plan", "sex"], epsilon=0.2)),
    "preview": (2, lambda c: c.preview("SELECT COUNT(*) AS m FROM health", epsilon=0.3, refresh=True)),
    "preview of several": (3, lambda c: c.preview_batch([COUNT, BY_PLAN], epsilon=0.3)),
    "preview of keys": (4, lambda _: opened(epsilon=2, delta=1e-6).preview(BY_PLAN.replace("plan", "site"), share=0.1)),
    "preview with delta": (3, lambda _: opened(epsilon=2, delta=1e-6).preview(COUNT, epsilon=0.3)),
    "refusal": (1, lambda c: refusal(lambda: c.sql("SELECT visits FROM health", epsilon=0.1))),
    "over budget": (1, lambda _: refusal(lambda: opened(epsilon=1, delta=1e-6).sql(COUNT, within=1))),
    "budget": (3, lambda c: c.budget),
    "describe": (27, lambda c: c.describe()),
    "found bounds": (4, lambda c: c.sql("SELECT AVG(income) AS v FROM health", bounds="auto", epsilon=2)),
    "useless": (4, lambda _: opened(epsilon=1).sql("SELECT AVG(income) AS v FROM health", bounds="auto", epsilon=0.01)),
    "clipped": (4, lambda _: opened(rows_per_unit=1).sql(COUNT, epsilon=1)),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_common_output_is_short(name: str, curator: lw.Curator) -> None:
    most, ask = OUTPUTS[name]
    shown = str(ask(curator))
    assert 0 < len(shown.splitlines()) <= most, shown
    assert "rho" not in shown


def test_a_stored_answer_is_as_short(curator: lw.Curator) -> None:
    curator.sql(COUNT, within=50)
    assert str(curator.sql(COUNT, within=50)).splitlines()[-1] == "95% intervals; stored answer, no price"


def test_a_price_is_said_in_the_callers_words() -> None:
    prices = (
        ({"within": 50}, "within 50, for "),
        ({"share": 0.05}, "price 5%"),
        ({"epsilon": 0.5}, "price epsilon = 0.5"),
    )
    for terms, words in prices:
        line = str(opened(epsilon=2, delta=1e-6).sql(COUNT, **terms)).splitlines()[2]  # type: ignore[arg-type]
        assert line.startswith(f"95% intervals; {words}")
        assert line.endswith("% of the budget")


def test_a_refusal_says_what_is_still_affordable_and_that_is_true() -> None:
    curator = opened(epsilon=1, delta=1e-6)
    said = refusal(lambda: curator.sql(COUNT, within=1))
    half = int(said.partition("still buys is within ")[2].rstrip(".").replace(",", ""))
    assert curator.sql(COUNT, within=half).cost
    assert "share=" in refusal(lambda: curator.sql(BY_PLAN, share=1))


def test_a_cut_is_said_in_one_line_also_below_a_chart() -> None:
    answer = opened(rows_per_unit=1).sql(COUNT, epsilon=2)
    *_, said = str(answer).splitlines()
    assert said.startswith("True counts are higher: about ")
    caption = " ".join(part.get_text() for part in answer.plot().texts)
    assert all(word in caption for word in said.split())
    assert Estimate(1, 0, 2, answer.confidence, answer.notes).notes == answer.notes


def test_everything_else_is_in_explain() -> None:
    answer = opened(epsilon=2, delta=1e-6).sql(BY_PLAN, share=0.1)
    for words in ("price rho = ", "ledger entry", "Rows whose `plan` is not a declared value", "Gaussian noise"):
        assert words in answer.explain()
    assert repr(answer.explain()) == str(answer.explain())
