"""Prices, shares, sensitivities and noise: all from the question and from declared facts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from lapwing.errors import Refused
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Interval, Type
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.plan.kind import MOST_SENSITIVITY
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.question import Question
from lapwing.plan.total import TotalKind
from lapwing.privacy import Approximate, Budget, Loss, Pure
from lapwing.sql import read_sql
from support.refusals import attempt
from support.visits import interval, visits_catalog


def read(text: str, **changes: Any) -> Question:
    question = read_sql(text, visits_catalog(**changes))
    assert isinstance(question, Question), question
    return question


def plan(text: str, loss: Loss | None = None, **changes: Any) -> Plan:
    made = make_plan(read(text, **changes), loss or Pure(1))
    assert isinstance(made, Plan), made
    return made


def refused(text: str, loss: Loss | None = None, **changes: Any) -> str:
    made = attempt(make_plan, read(text, **changes), loss or Pure(1))
    assert isinstance(made, Refused), made
    return str(made)


ROWS, GROUPS = 5, 2
CASES = [
    ("SELECT COUNT(*) FROM visits", {}, ROWS),
    ("SELECT COUNT(age) FROM visits", {}, ROWS),
    ("SELECT COUNT(DISTINCT pid) FROM visits", {}, 1),
    ("SELECT COUNT(DISTINCT pid) FROM visits", {"rows_per_unit": None}, 1),
    ("SELECT sex, COUNT(*) FROM visits GROUP BY sex", {}, ROWS * 2),
    ("SELECT site, COUNT(*) FROM visits GROUP BY site", {}, ROWS * GROUPS),
    ("SELECT site, COUNT(*) FROM visits GROUP BY site", {"groups_per_unit": None}, ROWS * 3),
    ("SELECT site, COUNT(*) FROM visits GROUP BY site", {"groups_per_unit": 99}, ROWS * 3),
    ("SELECT site, sex, COUNT(*) FROM visits GROUP BY site, sex", {"groups_per_unit": None}, ROWS * 6),
    ("SELECT site, COUNT(DISTINCT pid) FROM visits GROUP BY site", {"groups_per_unit": 1}, 1),
    ("SELECT SUM(age) FROM visits", {}, ROWS * 120),
    ("SELECT site, SUM(age) FROM visits GROUP BY site", {}, ROWS * 120 * GROUPS),
    ("SELECT SUM(age * 2 - 200) FROM visits", {}, ROWS * 200),
    ("SELECT COUNT(*) FROM visits", {"unit": None}, 1),
    ("SELECT site, COUNT(*) FROM visits GROUP BY site", {"unit": None}, 1),
    ("SELECT site, SUM(age) FROM visits GROUP BY site", {"unit": None}, 120),
    ("SELECT COUNT(*) FROM visits", {"unit": None, "rows_per_unit": None, "groups_per_unit": None}, 1),
]


@pytest.mark.parametrize(("text", "changes", "sensitivity"), CASES)
def test_pure_budgets_use_laplace_for_the_l1_sensitivity(text: str, changes: dict[str, Any], sensitivity: int) -> None:
    """lecture:L13 each unit counts in at most `groups_per_unit` groups with at most the sensitivity each."""
    [measure] = plan(text, **changes).measures
    assert isinstance(measure.noise, Laplace)
    assert (measure.noise.sensitivity, measure.noise.epsilon, measure.step) == (sensitivity, 1, 1)


@pytest.mark.parametrize(("text", "changes", "sensitivity"), CASES)
def test_zcdp_budgets_use_gauss_for_the_l2_sensitivity(text: str, changes: dict[str, Any], sensitivity: int) -> None:
    loss = Budget(epsilon=2, delta=1e-6).price(epsilon=1)
    made = plan(text, loss, **changes)
    [measure] = made.measures
    assert isinstance(measure.noise, Gaussian)
    assert measure.noise.loss.to_zcdp().rho <= loss.to_zcdp().rho
    exact = Fraction(sensitivity, made.groups_per_unit) ** 2 * made.groups_per_unit
    assert exact <= measure.noise.sensitivity**2 <= exact * Fraction(1_000_001, 1_000_000)


def test_real_sums_go_in_steps_that_drown_in_the_noise() -> None:
    """Rounding outward: the sensitivity in steps is never below the sensitivity."""
    [measure] = plan("SELECT SUM(cost) FROM visits").measures
    assert measure.step.numerator == 1
    assert measure.step <= Fraction(ROWS * 100, 2**19)
    assert measure.sensitivity * measure.step >= ROWS * 100
    assert measure.noise.sensitivity == measure.sensitivity


@pytest.mark.parametrize("bounds", [(-5, 3), (3, 10), (-7, -2), (0.1, 0.3), (-1 / 3, 1 / 7)])
@pytest.mark.parametrize("by_row", [True, False])
def test_a_unit_never_adds_more_than_the_sensitivity(bounds: tuple[float, float], by_row: bool) -> None:
    table = Table("t", (Field("p", Type.INTEGER), Field("x", Type.REAL, interval(*bounds))), None if by_row else "p", 4)
    question = read_sql("SELECT SUM(x) FROM t", Catalog((table,)))
    assert isinstance(question, Question)
    made = make_plan(question, Pure(1))
    assert isinstance(made, Plan)
    [measure] = made.measures
    rows = 1 if by_row else 4
    totals = [Fraction(bound) * n for bound in bounds for n in ({1} if by_row else {0, 1, rows})]
    assert isinstance(measure.kind, TotalKind)
    low, high = measure.kind.steps(measure.step)
    assert low * measure.step <= min(totals)
    assert max(totals) <= high * measure.step
    assert measure.sensitivity * measure.step >= max(map(abs, totals))


def test_unit_bounds_replace_rows_times_bounds() -> None:
    def sensitivity(unit_bounds: Interval | None, rows: int | None, unit: str | None = "p") -> Fraction | str:
        field = Field("x", Type.INTEGER, interval(0, 100), unit_bounds)
        question = read_sql(
            "SELECT SUM(x) FROM t", Catalog((Table("t", (Field("p", Type.INTEGER), field), unit, rows),))
        )
        assert isinstance(question, Question)
        made = attempt(make_plan, question, Pure(1))
        return made.measures[0].noise.sensitivity if isinstance(made, Plan) else str(made)

    assert sensitivity(None, 4) == 400
    assert sensitivity(interval(-20, 150), 4) == 150
    assert sensitivity(interval(0, 30), None) == 30
    assert sensitivity(interval(0, 30), None, None) == 30
    assert "rows_per_unit" in str(sensitivity(None, None))


def test_the_price_is_shared_and_never_exceeded() -> None:
    """threat:A30 gate:G07 lecture:L30"""
    text = "SELECT COUNT(*) a, COUNT(age) b, SUM(age) c, SUM(cost) d, SUM(cost + age) e FROM visits"
    pure = plan(text, Pure(Fraction(1, 3)))
    assert sum(m.noise.loss.epsilon for m in pure.measures) == Fraction(1, 3)  # type: ignore[union-attr]
    loss = Budget(epsilon=2, delta=1e-6).price(epsilon=0.3)
    shared = plan(text, loss)
    assert sum(m.noise.loss.to_zcdp().rho for m in shared.measures) <= loss.to_zcdp().rho


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        ("SELECT COUNT(*) FROM visits", {"rows_per_unit": None}, ["COUNT(DISTINCT pid)", "rows_per_unit"]),
        ("SELECT SUM(age) FROM visits", {"rows_per_unit": None}, ["rows_per_unit", "`visits`"]),
        ("SELECT SUM(loose) FROM visits", {}, ["bounds", "`loose`"]),
        ("SELECT SUM(age + loose) FROM visits", {}, ["bounds", "`loose`"]),
        ("SELECT SUM(age / cost) FROM visits", {}, ["bounds"]),
        ("SELECT name, COUNT(*) FROM visits GROUP BY name", {}, ["values", "`name`"]),
        ("SELECT cost, COUNT(*) FROM visits GROUP BY cost", {}, ["`cost`", "integer"]),
        ("SELECT SUM(age * 0) FROM visits", {}, ["0 whatever"]),
        ("SELECT COUNT(*) FROM visits", {"rows_per_unit": 10**30}, ["rows_per_unit"]),
    ],
)
def test_missing_declarations_are_refused_with_the_fix(text: str, changes: dict[str, Any], words: list[str]) -> None:
    """gate:G16 threat:A7 never zero noise, never a guess."""
    message = refused(text, **changes)
    assert all(word in message for word in [*words, "Nothing was charged."]), message


def test_too_many_groups_are_refused() -> None:
    fields = tuple(Field(name, Type.INTEGER, values=tuple(range(101))) for name in "abc")
    question = read_sql("SELECT a, b, c, COUNT(*) FROM t GROUP BY a, b, c", Catalog((Table("t", fields, None),)))
    assert isinstance(question, Question)
    assert "1,030,301 groups" in str(attempt(make_plan, question, Pure(1)))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**40), Fraction(10**6)])
def test_noise_that_cannot_be_drawn_is_refused_before_the_charge(epsilon: Fraction) -> None:
    assert "`epsilon`" in refused("SELECT COUNT(*) FROM visits", Pure(epsilon))


@pytest.mark.parametrize("bounds", [(0, 1e300), (0, 1e-300), (-1e290, 1)])
def test_bounds_of_no_ordinary_size_are_refused(bounds: tuple[float, float]) -> None:
    """gate:G11"""
    table = Table("t", (Field("x", Type.REAL, interval(*bounds)),), None)
    question = read_sql("SELECT SUM(x) FROM t", Catalog((table,)))
    assert isinstance(question, Question)
    assert "ordinary size" in str(attempt(make_plan, question, Pure(1)))
    assert 10**13 * MOST_SENSITIVITY < 10**38


def test_wide_integers_go_in_larger_steps_rather_than_without_noise() -> None:
    table = Table("t", (Field("x", Type.INTEGER, interval(0, 2**62)),), None)
    question = read_sql("SELECT SUM(x) FROM t", Catalog((table,)))
    assert isinstance(question, Question)
    made = make_plan(question, Pure(1))
    assert isinstance(made, Plan)
    assert made.measures[0].step > 1
    assert made.measures[0].sensitivity * made.measures[0].step >= 2**62


def test_other_losses_are_refused() -> None:
    assert "Leave `delta` out" in refused("SELECT COUNT(*) FROM visits", Approximate(1, Fraction(1, 10)))
    assert plan("SELECT COUNT(*) FROM visits", Approximate(1, 0)).measures[0].noise.loss == Pure(1)
    assert Budget(epsilon=2, delta=1e-6, accounting="basic").price(epsilon=1) == Pure(1)


def test_the_identity_knows_everything_that_the_cells_depend_on() -> None:
    """threat:A29 equal identities mean the same paid cells; the words, output names and sorting do not matter."""
    text = "SELECT site, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY site"
    base = plan(text).outline.identity
    same = "SELECT SUM(age) AS other, COUNT(*) * 2 AS m FROM VISITS v GROUP BY v.site ORDER BY m LIMIT 1"
    assert plan(same).outline.identity == base
    for change in ({"rows_per_unit": 4}, {"groups_per_unit": 1}, {"version": "2"}, {"unit": None}):
        assert plan(text, **change).outline.identity != base
    assert plan(text + " ").outline.identity == base
    assert (
        plan("SELECT site, COUNT(*) AS n, SUM(age) AS s FROM visits WHERE sick GROUP BY site").outline.identity != base
    )
