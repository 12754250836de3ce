"""The grey-box test: the same question on a table and on the table without one unit.

Plan, price, noise, keys, order and types come from the plan alone; the cells of the two tables may differ by no more
than the plan's sensitivity, in the norm that its noise was made for. Exact integers throughout.
"""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.source import Frame
from lapwing.mechanisms.gaussian import Gaussian
from lapwing.privacy import Budget
from lapwing.query.bounding import cells_query
from lapwing.query.catalog import Table
from lapwing.query.plan import Measure, Plan, make_plan
from lapwing.query.question import Question
from lapwing.query.release import Cells, arrange
from lapwing.query.sql import read_sql
from support.questions import Row, arrow_table, catalog, make_question, make_rows, make_table, without

BUDGETS = (Budget(epsilon=2), Budget(epsilon=2, delta=1e-6))
TABLES, QUESTIONS = 50, 20


def cells(engine: DuckDBEngine, plan: Plan) -> list[Cells]:
    return arrange(plan, engine.cells(cells_query(plan, engine.keyed_hash)))


def engine_on(table: Table, rows: list[Row]) -> DuckDBEngine:
    return DuckDBEngine([(table, Frame(arrow_table(rows)))], salt=2015)


def planned(text: str, table: Table, random: Random) -> Plan:
    question = read_sql(text, catalog(table))
    assert isinstance(question, Question), f"{text}: {question}"
    plan = make_plan(question, random.choice(BUDGETS).price(epsilon=random.choice([0.1, 1, 2])))
    assert isinstance(plan, Plan), f"{text}: {plan}"
    return plan


def assert_within_sensitivity(measure: Measure, plan: Plan, left: Cells, right: Cells, text: str) -> None:
    moved = [abs(int(a) - int(b)) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
    assert sum(1 for m in moved if m) <= plan.groups, text
    assert max(moved, default=0) <= measure.reach, text
    if isinstance(measure.noise, Gaussian):
        assert sum(m * m for m in moved) <= measure.noise.sensitivity**2, text
    else:
        assert sum(moved) <= measure.noise.sensitivity, text


def check_neighbours(seed: int) -> int:
    """Twenty questions on one table and on each of its neighbours."""
    random = Random(seed)
    by_row = random.random() < 0.3
    table, rows = make_table(random, by_row=by_row), make_rows(random)
    neighbours = (
        [rows[:i] + rows[i + 1 :] for i in range(len(rows))] if by_row else [without(rows, u) for u in (1, 2, None)]
    )
    with_all = engine_on(table, rows)
    others = [engine_on(table, other) for other in random.sample(neighbours, min(2, len(neighbours)))]
    for _ in range(QUESTIONS):
        text = make_question(random, by_row=by_row)
        plan = planned(text, table, random)
        left = cells(with_all, plan)
        for other in others:
            for measure, a, b in zip(plan.measures, left, cells(other, plan), strict=True):
                assert_within_sensitivity(measure, plan, a, b, text)
    return QUESTIONS


@pytest.mark.parametrize("seed", range(TABLES))
def test_neighbours_differ_by_no_more_than_the_sensitivity(seed: int) -> None:
    """threat:A4 threat:A5 threat:A34 1,000 questions in all, over hostile rows."""
    assert check_neighbours(seed) == QUESTIONS


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(TABLES, 500))
def test_many_more_neighbours_differ_by_no_more_than_the_sensitivity(seed: int) -> None:
    assert check_neighbours(seed) == QUESTIONS


def test_the_order_of_rows_changes_nothing() -> None:
    """threat:A14 gate:G10 shuffled rows give the same cells."""
    random = Random(7)
    table = make_table(random, by_row=False)
    rows = [row for _ in range(20) for row in make_rows(random)]
    plans = [planned(make_question(random, by_row=False), table, random) for _ in range(20)]
    expected = [cells(engine_on(table, rows), plan) for plan in plans]
    for _ in range(3):
        random.shuffle(rows)
        shuffled = engine_on(table, rows)
        for plan, before in zip(plans, expected, strict=True):
            assert [c.tolist() for c in cells(shuffled, plan)] == [c.tolist() for c in before]


def test_a_unit_with_a_thousand_rows_everywhere_stays_within_its_limits() -> None:
    """threat:A34 the victim floods every group with extreme values."""
    random = Random(3)
    table = make_table(random, by_row=False)
    crowd = [(unit, "F", 1, 1.0, 1, True) for unit in range(2, 30)]
    victim = [(1, sex, site, 1e300, 40, True) for sex in "FM" for site in (1, 2, 3) for _ in range(200)]
    with_victim, without_victim = engine_on(table, crowd + victim), engine_on(table, crowd)
    for text in (
        "SELECT sex, site, COUNT(*) n, SUM(cost) c FROM visits GROUP BY sex, site",
        "SELECT SUM(cost) FROM visits",
    ):
        plan = planned(text, table, random)
        for measure, a, b in zip(plan.measures, cells(with_victim, plan), cells(without_victim, plan), strict=True):
            assert_within_sensitivity(measure, plan, a, b, text)


def test_empty_tables_have_the_same_shape() -> None:
    random = Random(1)
    table = make_table(random, by_row=False)
    plan = planned("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", table, random)
    [empty] = cells(engine_on(table, []), plan)
    assert empty.tolist() == [0, 0]
    assert isinstance(arrow_table([]), pa.Table)
