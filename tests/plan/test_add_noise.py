"""The one place where noise is added: every number has the noise of its plan, at the price that was asked."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.cells import CellQuantiles
from lapwing.plan.add_noise import Arranged, release
from lapwing.plan.plan import Plan
from support.cells import exact_cells
from support.visits import frame, open_visits

BUDGETS = {
    "pure": lw.Budget(epsilon=10),
    "zcdp": lw.Budget(epsilon=10, delta=1e-6),
    "basic": lw.Budget(epsilon=10, delta=1e-6, accounting="basic"),
}
TEXT = "SELECT sex, COUNT(*) AS n, SUM(cost) AS s, AVG(age) AS m, COUNT(DISTINCT age) AS d FROM visits GROUP BY sex"


def exact(asked: lw.Curator, text: str, epsilon: Any = 1) -> tuple[Plan, Arranged]:
    plan = asked.preview(text, epsilon=epsilon).plan
    return plan, exact_cells(asked._engine, plan)


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_cell_has_its_own_noise_of_the_planned_size(budget: str, seeded: Any) -> None:
    """threat:A30 gate:G56 the variance of every cell, and no two cells alike, over 600 releases."""
    assert seeded is not None
    plan, cells = exact(open_visits(budget=BUDGETS[budget]), TEXT)
    drawn = [release(plan, cells) for _ in range(600)]
    for index, measure in enumerate(plan.measures):
        assert isinstance(measure.noise, Laplace | Gaussian)
        spread = float(measure.noise.scale) * (np.sqrt(2) if isinstance(measure.noise, Laplace) else 1)
        for column, true in enumerate(cells.cells[index]):
            noise = np.array([[int(v) for v in one.cells[index][column].tolist()] for one in drawn], float)
            noise -= np.array([int(v) for v in true.tolist()], float)
            assert np.all(np.abs(noise.std(axis=0) / spread - 1) < 0.25)
            assert np.all(np.abs(noise.mean(axis=0)) < 5 * spread / np.sqrt(600))
            assert abs(np.corrcoef(noise.T)[0, 1]) < 0.2


@pytest.mark.parametrize("budget", ["zcdp", "basic"])
@pytest.mark.parametrize("aggregates", ["COUNT(*) AS n", "COUNT(DISTINCT pid) AS n", "AVG(cost) AS m, SUM(age) AS s"])
def test_selected_keys_cost_what_was_asked(budget: str, aggregates: str) -> None:
    """The keys are paid for out of the same price."""
    asked = open_visits(frame(200), budget=BUDGETS[budget], groups_per_unit=2)
    seen = asked.preview(f"SELECT name, {aggregates} FROM visits GROUP BY name", epsilon=1)
    price = BUDGETS[budget].price(epsilon=1, delta=BUDGETS[budget].question_delta())
    assert seen.plan.selection is not None
    assert BUDGETS[budget].cost(seen.plan.loss) == BUDGETS[budget].cost(price)
    parts = [measure.noise.loss for measure in seen.plan.measures if measure.mechanism is not None]
    total = sum((loss.to_zcdp().rho for loss in parts), seen.plan.selection.loss.to_zcdp().rho)
    assert budget == "basic" or total <= price.to_zcdp().rho


@pytest.mark.parametrize("budget", ["pure", "zcdp"])
def test_a_quantile_pays_for_every_group_that_a_unit_is_in(budget: str) -> None:
    """A unit in three groups moves three histograms: each release has a third of the price."""
    asked = open_visits(budget=BUDGETS[budget], groups_per_unit=3)
    plan = asked.preview("SELECT site, MEDIAN(cost) AS m FROM visits GROUP BY site", epsilon=1).plan
    [measure] = plan.measures
    assert isinstance(measure.mechanism, CellQuantiles)
    quantiles = measure.mechanism.quantiles
    assert plan.groups_per_unit == 3
    if budget == "pure":
        assert quantiles.loss.to_pure().epsilon * 3 <= 1
    assert quantiles.loss.to_zcdp().rho * 3 <= plan.loss.to_zcdp().rho
    assert Fraction(1, 2) in quantiles.at


def test_no_key_is_shown_without_the_selection() -> None:
    """threat:A15 keys of one unit each: none is shown, whatever the number of tries."""
    table = pa.table({"k": [f"only {i}" for i in range(500)], "u": range(500)})
    asked = lw.open(
        table, name="t", unit="u", groups_per_unit=1, rows_per_unit=1, ledger=":memory:", budget=BUDGETS["zcdp"]
    )
    plan, cells = exact(asked, "SELECT k, COUNT(*) AS n FROM t GROUP BY k")
    assert sum(release(plan, cells).keys[0].size for _ in range(20)) == 0


@pytest.mark.parametrize("budget", ["zcdp", "basic"])
def test_counts_of_selected_keys_are_noisy(budget: str, seeded: Any) -> None:
    """threat:A15 gate:G56 the count that comes with the selection has the noise of the selection."""
    assert seeded is not None
    table = pa.table({"k": ["a"] * 4000, "u": range(4000)})
    asked = lw.open(table, name="t", unit="u", groups_per_unit=1, ledger=":memory:", budget=BUDGETS[budget])
    plan, cells = exact(asked, "SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k", Fraction(1, 10))
    assert plan.measures[0].mechanism is None
    noise = np.array([int(release(plan, cells).cells[0][0][0]) - 4000 for _ in range(400)], float)
    assert plan.selection is not None
    width = plan.selection.width * (np.sqrt(2) if isinstance(plan.selection, lw.mechanisms.LaplaceThreshold) else 1)
    assert abs(noise.std() / width - 1) < 0.25


def test_a_failure_tells_its_number_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """gate:G18 threat:A13 not even what kind of failure it was."""
    asked = open_visits()

    def fail(_: Any) -> None:
        raise ValueError("ZZCANARY")

    monkeypatch.setattr(asked._engine, "fetch", fail)
    with pytest.raises(lw.EngineFailed, match=r"\(incident [0-9a-f]{12}\)\. The price stays charged\.$") as caught:
        asked.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)
    assert caught.value.__context__ is None
    assert asked.budget.remaining.amount == 0
