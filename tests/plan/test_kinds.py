"""What holds for every kind of measure, whatever it counts: a contract that a new kind inherits.

Cells of no rows go through the mechanism, the ledger's encoding and the reading, and keep their form.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sqlglot import exp

from lapwing.answers.columns import half_width, intervals_of, values_of
from lapwing.answers.stored import decode, encode
from lapwing.curator.preview import Preview
from lapwing.curator.pricing import Terms
from lapwing.curator.request import DistributionRequest, MarginalsRequest, Request
from lapwing.errors import Bug
from lapwing.expressions.table import Limit
from lapwing.plan import aggregates
from lapwing.plan.add_noise import Arranged, release
from lapwing.plan.bounds_search import BoundsOf, LimitOf
from lapwing.plan.kind import Function, Kind
from lapwing.plan.plan import Plan
from lapwing.plan.query import queries
from lapwing.plan.total import SUM, TotalKind
from lapwing.plan.units_exceeding import check_target
from lapwing.privacy import Budget
from lapwing.privacy.loss import Pure
from support.members import concrete, lacking, plant, values_in
from support.visits import open_visits

ASKED = {
    "count_rows": "COUNT(*)",
    "count": "COUNT(cost)",
    "count_units": "COUNT(DISTINCT pid)",
    "count_distinct": "COUNT(DISTINCT age)",
    "sum": "SUM(cost)",
    "mean": "AVG(cost)",
    "var_pop": "VAR_POP(cost)",
    "var_samp": "VARIANCE(cost)",
    "stddev_pop": "STDDEV_POP(cost)",
    "stddev_samp": "STDDEV(cost)",
    "covar_pop": "COVAR_POP(cost, age)",
    "covar_samp": "COVAR_SAMP(cost, age)",
    "corr": "CORR(cost, age)",
    "regr_slope": "REGR_SLOPE(cost, age)",
    "regr_intercept": "REGR_INTERCEPT(cost, age)",
    "quantile": "MEDIAN(cost)",
}
BEST = "SELECT site FROM visits GROUP BY site ORDER BY COUNT(*) DESC LIMIT 2"
BUDGETS = {"pure": Budget(epsilon=9), "zcdp": Budget(epsilon=9, delta=Fraction(1, 10**6))}
LEVEL = Fraction(19, 20)
WORKLOADS = {
    "distribution": DistributionRequest("age"),
    "marginals": MarginalsRequest([("sex",), ("age",), ("sex", "site")], cells=4),
}


def texts() -> list[str]:
    return [f"SELECT site, {asked} AS n FROM visits GROUP BY site" for asked in ASKED.values()] + [BEST]


def planned(text: str, budget: str = "pure") -> Plan:
    return open_visits(budget=BUDGETS[budget]).preview(text, epsilon=1).plan


def counted(name: str, budget: str) -> Plan:
    preview = open_visits(budget=BUDGETS[budget], groups_per_unit=2).preview_request
    found = preview(Request(WORKLOADS[name], Terms(epsilon=1)))
    assert isinstance(found, Preview)
    return found.plan


def own_releases() -> dict[str, Plan]:
    """What is released for a question and is no question: a check of its limits, and what it needs found."""
    question = planned("SELECT site, SUM(cost) AS n FROM visits WHERE age > 3 GROUP BY site").outline
    check, field = check_target(question), question.table.field("cost")
    assert check is not None
    bounds, limit = BoundsOf(question.table, field), LimitOf(question.question, question.domain, Limit.ROWS)
    return {"check": check.plan(Pure(1)), "bounds": bounds.plan(Pure(1)), "limit": limit.plan(Pure(1))}


def without_a_case() -> list[str]:
    """The aggregates and the kinds of measures, found by looking, that nothing here asks for."""
    functions = {function.name for function in values_in(Function, "lapwing.plan").values()}
    plans = [*map(planned, texts()), *(counted(name, "pure") for name in WORKLOADS), *own_releases().values()]
    asked = {type(plan.measures[0].kind) for plan in plans}
    return lacking(functions | set(aggregates.FUNCTIONS), ASKED) + lacking(concrete(Kind, "lapwing"), asked)  # type: ignore[type-abstract]


def test_the_contract_holds_every_aggregate_and_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is added without a case here is named: an aggregate and a kind are planted."""
    assert without_a_case() == []
    assert {function.name for function in values_in(Function, "lapwing.plan").values()} == set(aggregates.FUNCTIONS)
    plant(monkeypatch, replace(SUM, name="total_twice"), module="lapwing.plan.total", name="TWICE")
    plant(monkeypatch, type("LoudKind", (TotalKind,), {"__slots__": ()}), module="lapwing.plan.total")
    assert without_a_case() == ["total_twice", "LoudKind"]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("text", texts())
def test_cells_of_no_rows_are_released_stored_and_read(text: str, budget: str) -> None:
    plan = planned(text, budget)
    (measure,), groups = plan.measures, plan.group_count or 0
    released = release(plan, Arranged((), None, (measure.kind.empty(measure, groups),)))
    (columns,) = released.cells
    assert len(columns) == measure.kind.cells
    assert {column.shape for column in columns} == {(groups,)}
    for column in columns:
        again = measure.kind.decode([str(value) for value in column.tolist()])
        assert (again.dtype, again.tolist()) == (column.dtype, column.tolist())
    (reading,) = plan.outline.readings
    assert values_of(plan, released, reading).shape == (groups,)
    if measure.kind.chosen_groups:
        with pytest.raises(Bug, match="no additive noise"):
            intervals_of(plan, released, reading, LEVEL, simultaneous=1)
        return
    band = intervals_of(plan, released, reading, LEVEL, simultaneous=1)
    assert band is not None
    assert bool(np.all(band[0] <= band[1]))


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_of_no_rows_are_released_stored_and_told_beforehand(name: str, budget: str) -> None:
    plan = counted(name, budget)
    (measure,), (kind,) = plan.measures, plan.outline.kinds
    released = release(plan, Arranged((), None, (kind.empty(measure, 1),)))
    assert len(released.cells[0]) == kind.cells
    for column in released.cells[0]:
        again = kind.decode([str(value) for value in column.tolist()])
        assert (again.dtype, again.tolist()) == (column.dtype, column.tolist())
    poor, rich = (kind.price(plan.groups_per_unit, plan.loss.scaled(Fraction(factor))) for factor in (1, 2))
    assert rich.errors(LEVEL, 4) < poor.errors(LEVEL, 4)
    less, more = kind.named_errors(rich, LEVEL), kind.named_errors(poor, LEVEL)
    assert all(0 < less[part] < more[part] for part in more)
    assert kind.left_out
    assert kind.unit_interval is None  # answers cannot be combined


@pytest.mark.parametrize("name", ["check", "bounds", "limit"])
def test_releases_of_their_own_are_released_stored_and_found_as_every_plan_is(name: str) -> None:
    plan = own_releases()[name]
    (measure,), (kind,) = plan.measures, plan.outline.kinds
    assert plan.outline.identity == kind.identity is not None
    released = release(plan, Arranged((), None, (kind.empty(measure, 1),)))
    assert len(released.cells[0]) == kind.cells
    again, cells = decode(plan.outline, encode(plan, released))
    assert again == plan
    assert [[c.tolist() for c in one] for one in cells.cells] == [[c.tolist() for c in one] for one in released.cells]
    assert queries(plan).cells is None
    assert kind.unit_interval is None  # answers cannot be combined


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("text", texts())
def test_more_budget_errs_no_more_and_says_so_before_the_charge(text: str, budget: str) -> None:
    plan = planned(text, budget)
    kind, groups = plan.outline.kinds[0], plan.groups_per_unit
    share = plan.prices.measures[0]
    assert share is not None
    poor, rich = kind.price(groups, share), kind.price(groups, share.scaled(Fraction(2)))
    pairs = list(zip(rich.errors(LEVEL, 4), poor.errors(LEVEL, 4), strict=True))
    assert pairs
    assert all(0 < less <= more for less, more in pairs)
    statistic = plan.outline.readings[0].statistic
    known = half_width(poor, statistic, LEVEL)
    assert known is None or kind.is_known_beforehand(statistic)
    described = kind.describe(poor, share)
    assert {"mechanism", "loss"} <= set(described)
    assert kind.methods(poor).startswith(str(kind))


@pytest.mark.parametrize("text", texts())
def test_a_unit_fills_the_columns_that_its_kind_promises(text: str) -> None:
    """Sums over units have as many cells as they say; the other kinds have a query of their own, and no totals."""
    measure = planned(text).measures[0]
    kind, step = measure.kind, measure.step

    def read(place: int) -> exp.Expression:
        assert place < len(kind.columns(step))
        return exp.column(f"a{place}")

    if kind.apart:
        with pytest.raises(Bug):
            kind.unit_totals(step, read)
        return
    totals = kind.unit_totals(step, read)
    assert len(totals) == len(kind.row_parts(step, read))
    assert len(kind.unit_cells(step, totals)) == kind.cells
    assert kind.sensitivity(step) > 0


def test_kinds_that_differ_have_different_facts() -> None:
    kinds = {planned(text).outline.kinds[0] for text in texts()}
    assert len({kind.facts for kind in kinds}) == len({(type(kind), kind.facts) for kind in kinds})
