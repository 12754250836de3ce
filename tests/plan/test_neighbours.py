"""The grey-box test: the same question on a table and on the table without one unit.

Plan, price, noise, keys, order and types come from the plan alone; the cells of the two tables may differ by no more
than the plan's sensitivity, in the norm that its noise was made for. Exact integers throughout.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lapwing.curator.pricing import Terms, plan_on_terms
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.source import Frame
from lapwing.expressions.table import Table
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.keys.threshold import WeightedGaussian
from lapwing.mechanisms.quantiles.grid_quantiles import UNIT
from lapwing.plan.add_noise import Arranged, Cells, fetched
from lapwing.plan.kind import Measure
from lapwing.plan.plan import Plan
from lapwing.plan.quantiles import QuantilesKind
from lapwing.plan.query import queries
from lapwing.plan.question import Question
from lapwing.privacy import Budget
from lapwing.sql import read_sql
from support.cells import exact_cells
from support.questions import Row, arrow_table, catalog, make_question, make_rows, make_table, without
from support.sweeps import sweep

PURE, ZCDP, BASIC = Budget(epsilon=2), Budget(epsilon=2, delta=1e-6), Budget(2, 1e-6, accounting="basic")
TABLES, QUESTIONS = 100, 20


def cells(engine: DuckDBEngine, plan: Plan) -> Arranged:
    return exact_cells(engine, plan)


def arranged(plan: Plan, engines: list[DuckDBEngine]) -> list[Arranged]:
    """The cells on each engine. All have the same salt, so the queries are made and printed once."""
    prepared = queries(plan).prepared(engines[0].prepare)
    return [fetched(plan, prepared, engine.fetch) for engine in engines]


def engine_on(table: Table, rows: list[Row]) -> DuckDBEngine:
    return DuckDBEngine([(table, Frame(arrow_table(rows)))], salt=2015)


def planned(text: str, table: Table, random: Random) -> Plan:
    """The plan; keys that are not public are selected, so such a question needs a budget with a delta."""
    question = read_sql(text, catalog(table))
    assert isinstance(question, Question), f"{text}: {question}"
    budgets = [ZCDP, BASIC] if "town" in text or "day" in text else [PURE, ZCDP, BASIC]
    terms = Terms(epsilon=random.choice([0.1, 1, 2]))
    budget = random.choice(budgets)
    plan = plan_on_terms(question, budget, terms, table.confidence, lambda: budget.capacity.delta)
    assert isinstance(plan, Plan), f"{text}: {plan}"
    return plan


def moves(left: Arranged, right: Arranged, a: Cells, b: Cells) -> dict[Any, int]:
    """By how much each group moved; a group that does not occur is 0."""
    one, two = _named(left, a), _named(right, b)
    return {key: abs(one.get(key, 0) - two.get(key, 0)) for key in one | two if one.get(key, 0) != two.get(key, 0)}


def _named(arranged: Arranged, column: Cells) -> dict[Any, int]:
    keys = zip(*arranged.keys, strict=True) if arranged.keys else range(len(column))
    return dict(zip(keys, map(int, column.tolist()), strict=True))


def assert_within_sensitivity(plan: Plan, left: Arranged, right: Arranged, text: str) -> None:
    touched = set()
    for index, measure in enumerate(plan.measures):
        if isinstance(measure.kind, QuantilesKind):
            touched |= assert_histograms(measure, weights(left, index), weights(right, index), text)
            continue
        pairs = zip(left.cells[index], right.cells[index], strict=True)
        moved = [moves(left, right, a, b) for a, b in pairs]
        touched |= {key for column in moved for key in column}
        assert_within_norm(measure, [m for column in moved for m in column.values()], text)
    assert len(touched) <= plan.groups_per_unit, text
    if left.units is not None and right.units is not None:
        assert_units(plan, moves(left, right, left.units, right.units), text)


def weights(arranged: Arranged, index: int) -> dict[Any, dict[int, int]]:
    """The histogram of each group, by its key."""
    names = list(zip(*arranged.keys, strict=True)) if arranged.keys else None
    found: dict[Any, dict[int, int]] = {}
    for place, cell, weight in zip(*(column.tolist() for column in arranged.cells[index]), strict=True):
        found.setdefault(place if names is None else names[place], {})[cell] = weight
    return found


def assert_histograms(measure: Measure, left: dict[Any, Any], right: dict[Any, Any], text: str) -> set[Any]:
    """One unit adds weights of at most rows * 2^20 to a group, all in one direction; which groups it touches."""
    touched = set()
    for key in left | right:
        one, two = left.get(key, {}), right.get(key, {})
        moved = [one.get(cell, 0) - two.get(cell, 0) for cell in one | two]
        assert sum(map(abs, moved)) <= measure.sensitivity * UNIT, text
        assert all(m >= 0 for m in moved) or all(m <= 0 for m in moved), text
        touched |= {key} if any(moved) else set()
    return touched


def assert_within_norm(measure: Measure, moved: list[int], text: str) -> None:
    if measure.mechanism is None:
        assert max(moved, default=0) <= 1, text
    elif isinstance(measure.noise, Gaussian):
        assert sum(m * m for m in moved) <= measure.noise.sensitivity**2, text
    else:
        assert sum(moved) <= measure.noise.sensitivity, text


def assert_units(plan: Plan, moved: dict[Any, int], text: str) -> None:
    """What the selection of keys reads: one more unit in at most `groups` groups, or a weight for each."""
    assert len(moved) <= plan.groups_per_unit, text
    if isinstance(plan.selection, WeightedGaussian):
        assert set(moved.values()) <= {plan.selection.weight(max(1, len(moved)))}, text
    else:
        assert set(moved.values()) <= {1}, text


def check_neighbours(seed: int) -> int:
    """Twenty questions on one table and on two of its neighbours."""
    random = Random(seed)
    by_row = random.random() < 0.3
    table, rows = make_table(random, by_row=by_row), make_rows(random)
    neighbours = (
        [rows[:i] + rows[i + 1 :] for i in range(len(rows))] if by_row else [without(rows, u) for u in (1, 2, None)]
    )
    others = random.sample(neighbours, min(2, len(neighbours)))
    engines = [engine_on(table, some) for some in (rows, *others)]
    for _ in range(QUESTIONS):
        text = make_question(random, table)
        plan = planned(text, table, random)
        left, *smaller = arranged(plan, engines)
        for right in smaller:
            assert_within_sensitivity(plan, left, right, text)
    return QUESTIONS


@pytest.mark.parametrize("seed", sweep(range(TABLES), 4))
def test_neighbours_differ_by_no_more_than_the_sensitivity(seed: int) -> None:
    """threat:A4 threat:A5 threat:A34 80 questions, 2,000 with the slow ones, over hostile rows."""
    assert check_neighbours(seed) == QUESTIONS


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 25))
def test_many_more_neighbours_differ_by_no_more_than_the_sensitivity(hundred: int) -> None:
    """With the test above 50,000 questions."""
    assert sum(map(check_neighbours, range(TABLES * hundred, TABLES * (hundred + 1)))) == TABLES * QUESTIONS


def test_the_order_of_rows_changes_nothing() -> None:
    """threat:A14 gate:G10 shuffled rows give the same cells."""
    random = Random(7)
    table = make_table(random, by_row=False)
    rows = [row for _ in range(20) for row in make_rows(random)]
    plans = [planned(make_question(random, table), table, random) for _ in range(20)]
    expected = [cells(engine_on(table, rows), plan) for plan in plans]
    for _ in range(3):
        random.shuffle(rows)
        shuffled = engine_on(table, rows)
        for plan, before in zip(plans, expected, strict=True):
            after = cells(shuffled, plan)
            assert [key.tolist() for key in after.keys] == [key.tolist() for key in before.keys]
            assert [c.tolist() for m in after.cells for c in m] == [c.tolist() for m in before.cells for c in m]


def test_a_unit_with_a_thousand_rows_everywhere_stays_within_its_limits() -> None:
    """threat:A34 the victim floods every group with extreme values."""
    random = Random(3)
    table = make_table(random, by_row=False)
    crowd = [(unit, "F", 1, 1.0, 1, True, "oslo", None) for unit in range(2, 30)]
    victim = [
        (1, sex, site, 1e300, 40, True, f"t{site}", None) for sex in "FM" for site in (1, 2, 3) for _ in range(200)
    ]
    with_victim, without_victim = engine_on(table, crowd + victim), engine_on(table, crowd)
    for text in (
        "SELECT sex, site, COUNT(*) n, SUM(cost) c, AVG(cost) m FROM visits GROUP BY sex, site",
        "SELECT SUM(cost) FROM visits",
        "SELECT town, AVG(cost) FROM visits GROUP BY town",
    ):
        plan = planned(text, table, random)
        assert_within_sensitivity(plan, cells(with_victim, plan), cells(without_victim, plan), text)


def test_empty_tables_have_the_same_shape() -> None:
    random = Random(1)
    table = make_table(random, by_row=False)
    plan = planned("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", table, random)
    [[empty]] = cells(engine_on(table, []), plan).cells
    assert empty.tolist() == [0, 0]
    assert isinstance(arrow_table([]), pa.Table)
