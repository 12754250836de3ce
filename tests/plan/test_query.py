"""The one query of a plan: right cells, a stable choice of groups, and no wrapping of wide integers."""

from __future__ import annotations

import math
from datetime import date
from fractions import Fraction
from random import Random

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.engines.source import Frame
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.to_sqlglot import literal
from lapwing.expressions.types import Type, Value
from lapwing.plan import query
from lapwing.plan.add_noise import arrange
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.query import cells_query
from lapwing.plan.question import Question
from lapwing.privacy import ZCDP, Approximate, Loss, Pure
from lapwing.sql import read_sql
from support.cells import exact_cells, run
from support.questions import TYPES, arrow_table, catalog, make_plain_question, make_rows, make_table
from support.reference import groups_of_units, reference_cells
from support.sweeps import sweep
from support.visits import interval


def planned(text: str, table: Table, epsilon: float = 1) -> Plan:
    question = read_sql(text, Catalog((table,)))
    assert isinstance(question, Question), f"{text}: {question}"
    plan = make_plan(question, Pure(epsilon))
    assert isinstance(plan, Plan), f"{text}: {plan}"
    return plan


def cells(plan: Plan, data: pa.Table, *, salt: int = 1) -> list[list[int]]:
    engine = DuckDBEngine([(plan.table, Frame(data))], salt=salt)
    arranged = arrange(plan, run(engine, cells_query(plan)))
    return [column.tolist() for columns in arranged.cells for column in columns]


@pytest.mark.parametrize("seed", sweep(range(25), 8))
def test_cells_equal_a_reference_in_plain_python(seed: int) -> None:
    """threat:A4 threat:A5 over hostile rows, wherever no unit is in more groups than it may be."""
    random = Random(1000 + seed)
    by_row = random.random() < 0.4
    table, rows = make_table(random, by_row=by_row), make_rows(random)
    engine = DuckDBEngine([(table, Frame(arrow_table(rows)))], salt=5)
    named = [dict(zip(TYPES, row, strict=True)) for row in rows]
    compared = 0
    for _ in range(12):
        text = make_plain_question(random, by_row=by_row)
        plan = planned(text, table)
        if by_row or groups_of_units(plan, named) <= plan.groups_per_unit:
            found = arrange(plan, run(engine, cells_query(plan)))
            assert [column.tolist() for (column,) in found.cells] == reference_cells(plan, named), text
            compared += 1
    assert compared


def test_empty_groups_appear_and_other_keys_do_not() -> None:
    """threat:A15 threat:A20 the list of groups is the declared one, whatever the rows hold."""
    table = Table("t", (Field("k", Type.TEXT, values=("b", "a", "é")), Field("p", Type.INTEGER)), "p", 1)
    plan = planned("SELECT k, COUNT(*) AS n FROM t GROUP BY k", table)
    assert cells(plan, pa.table({"k": ["a", "secret", None, "a"], "p": [1, 2, 3, 4]})) == [[0, 2, 0]]
    assert cells(plan, pa.table({"k": pa.array([], pa.string()), "p": pa.array([], pa.int64())})) == [[0, 0, 0]]


def test_null_can_be_a_declared_group() -> None:
    table = Table("t", (Field("k", Type.TEXT, values=("a", None)), Field("p", Type.INTEGER)), "p", 1)
    plan = planned("SELECT k, COUNT(*) AS n FROM t GROUP BY k", table)
    assert cells(plan, pa.table({"k": ["a", "x", None, None], "p": [1, 2, 3, 4]})) == [[1, 2]]


def test_rows_of_no_unit_are_dropped() -> None:
    table = Table("t", (Field("p", Type.INTEGER),), "p", 3)
    assert cells(planned("SELECT COUNT(*) AS n FROM t", table), pa.table({"p": [1, None, None]})) == [[1]]


def test_missing_values_are_left_out_before_clipping() -> None:
    """threat:A5 gate:G13 a bound that is not 0 shows whether a missing value was clipped to it."""
    table = Table("t", (Field("p", Type.INTEGER), Field("x", Type.REAL, interval(3, 10))), "p", 4)
    plan = planned("SELECT COUNT(x) AS n, SUM(x) AS s, SUM(x * 2 - 1) AS e FROM t", table)
    data = pa.table({"p": [1, 2, 3, 4, 5], "x": [math.nan, None, math.inf, -math.inf, -0.0]})
    names = [aggregate.words() for aggregate in plan.question.aggregates]
    found = {n: c[0] * m.step for n, m, c in zip(names, plan.measures, cells(plan, data), strict=True)}
    assert found == {"COUNT(x)": 3, "SUM(x)": 10 + 3 + 3, "SUM(x * 2 - 1)": 19 + 5 + 5}


@pytest.mark.parametrize("unit", [None, "p"])
def test_wide_integers_do_not_wrap(unit: str | None) -> None:
    """threat:A4 gate:G11 a thousand numbers near 2^63 add up exactly."""
    field = Field("x", Type.INTEGER, interval(-(2**63), 2**63 - 1))
    plan = planned("SELECT SUM(x) AS s FROM t", Table("t", (Field("p", Type.INTEGER), field), unit, 1), 2**20)
    assert plan.measures[0].step == 1
    data = pa.table({"p": range(1000), "x": [2**63 - 1 - i for i in range(1000)]})
    assert cells(plan, data) == [[sum(2**63 - 1 - i for i in range(1000))]]
    data = pa.table({"p": range(1000), "x": [-(2**63)] * 1000})
    assert cells(plan, data) == [[-1000 * 2**63]]


def test_wide_bounds_with_narrow_unit_bounds_never_fail() -> None:
    """threat:A12 a cast that only a large value could break would tell that the value is there."""
    fields = (Field("p", Type.INTEGER), Field("x", Type.REAL, interval(-1e12, 1e12), interval(0, 1e-3)))
    for unit in ("p", None):
        plan = planned("SELECT SUM(x) AS s FROM t", Table("t", fields, unit, 2))
        assert cells(plan, pa.table({"p": [1, 2], "x": [1e12, -1e12]})) == [[plan.measures[0].sensitivity]]


def test_hostile_column_names_are_columns() -> None:
    """Names that the query uses itself are taken for the columns they are."""
    names = ("k0", "k1", "c0", "lw_unit", "lw_place", "t", "u", "lw_rows")
    fields = (
        *(Field(name, Type.INTEGER, interval(0, 9), values=(0, 1)) for name in names),
        Field('we"ird', Type.INTEGER, interval(0, 9), values=(1,)),
    )
    data = pa.table(
        {**{name: [i % 2, 1, 0] for i, name in enumerate(names)}, "lw_unit": [1, 2, 3], 'we"ird': [1, 1, 1]}
    )
    table = Table("lw_rows", fields, "lw_unit", 2, 1)
    plan = planned('SELECT k1, k0, COUNT(*) n, SUM(c0) s FROM lw_rows WHERE "we""ird" = 1 GROUP BY k1, k0', table)
    by_hand = [dict(zip(data.column_names, row, strict=True)) for row in zip(*data.to_pydict().values(), strict=True)]
    assert cells(plan, data) == reference_cells(plan, by_hand)


def explained(table: Table, text: str) -> str:
    engine = DuckDBEngine([(table, Frame(arrow_table([(1, "F", 1, 1.0, 1, True, "oslo", None)] * 50)))], salt=1)
    query = engine.prepare(cells_query(planned(text, table))).text
    return str(engine._connection.execute(f"EXPLAIN {query}").fetchall()[0][1])


def test_the_choice_of_groups_stays_a_window() -> None:
    """DuckDB turns a window with one order key into arg_min, whose ties are not stable; two keys keep it away."""
    table = next(t for seed in range(99) if (t := make_table(Random(seed), by_row=False)).groups_per_unit == 1)
    plan = explained(table, "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex").lower()
    assert "window" in plan
    assert "arg_min" not in plan
    text = DUCKDB.write(cells_query(planned("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", table))).text
    by_hash = """CAST(HASH("lw_unit", "k0", '') >> 32 AS UINTEGER)"""
    assert f'PARTITION BY "lw_unit" ORDER BY {by_hash}, "k0"' in text


def test_no_window_is_made_where_no_choice_is_needed() -> None:
    table = next(t for seed in range(99) if (t := make_table(Random(seed), by_row=False)).groups_per_unit is None)
    assert "WINDOW" not in explained(table, "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex")
    assert "WINDOW" not in explained(
        make_table(Random(2), by_row=True), "SELECT sex, COUNT(*) FROM visits GROUP BY sex"
    )


def test_the_choice_depends_on_the_salt_and_on_the_unit_alone() -> None:
    """threat:A34 other units do not change which groups of a unit count; another salt does."""
    fields = (Field("p", Type.INTEGER), Field("k", Type.INTEGER, values=tuple(range(20))))
    table = Table("t", fields, "p", 1, 1)
    plan = planned("SELECT k, COUNT(*) AS n FROM t GROUP BY k", table)
    victim = {"p": [7] * 20, "k": list(range(20))}
    crowd = {"p": [*([7] * 20), *range(100, 160)], "k": [*range(20), *([3] * 60)]}
    [alone], [among] = cells(plan, pa.table(victim)), cells(plan, pa.table(crowd))
    assert sum(alone) == 1
    assert [a - (60 if k == 3 else 0) for k, a in enumerate(among)] == alone
    chosen = {tuple(cells(plan, pa.table(victim), salt=salt)[0]) for salt in range(12)}
    assert len(chosen) > 3


def test_groups_beyond_the_limit_are_dropped_per_unit() -> None:
    fields = (Field("p", Type.INTEGER), Field("k", Type.INTEGER, values=tuple(range(6))))
    data = pa.table({"p": [p for p in range(30) for _ in range(6)], "k": list(range(6)) * 30})
    for limit in (1, 2, 5, 6, 9):
        plan = planned("SELECT k, COUNT(*) AS n FROM t GROUP BY k", Table("t", fields, "p", 1, limit))
        assert sum(cells(plan, data)[0]) == 30 * min(limit, 6)


def test_small_integers_and_floats_are_read_like_large_ones() -> None:
    """A key that is stored in one byte may be declared beyond it, and compared beyond it."""
    field = Field("k", Type.INTEGER, interval(0, 5000), values=(1, 1000))
    plan = planned("SELECT k, SUM(k) AS n FROM t WHERE k < 100000 AND k <> 4000 GROUP BY k", Table("t", (field,), None))
    assert cells(plan, pa.table({"k": pa.array([1, 1, 2], pa.int8())})) == [[2, 0]]
    assert isinstance(catalog(plan.table), Catalog)


def test_constants_reach_the_engine_unchanged() -> None:
    """Every float64 is read back as itself; text and dates cannot leave their quotes."""
    random = Random(5)
    numbers = [float(n) for n in (0, 0.1, 5e-324, 1.7976931348623157e308, 2**62, 1e16)]
    numbers += [random.choice((-1, 1)) * random.random() * 10.0 ** random.randint(-300, 300) for _ in range(300)]
    others: list[Value] = ["it's", 'a"b', "'; DROP TABLE t; --", "\\", "🦆", date(1, 1, 1), 10**18 - 1, True]
    values: list[Value] = [*map(Fraction, numbers), *others]
    query = DUCKDB.write(exp.Select(expressions=[literal(value) for value in values])).text
    assert list(duckdb.execute(query).fetchall()[0]) == [*numbers, *others]


EVERYTHING = (
    "COUNT(*) AS a, SUM(x) AS c, AVG(x) AS d, STDDEV(x) AS e, MEDIAN(x) AS f, COUNT(DISTINCT x) AS g, "
    "CORR(x, x * 2) AS h"
)


@pytest.mark.parametrize("loss", [ZCDP(1, 1e-6), Approximate(1, 1e-6)], ids=["zcdp", "approximate"])
@pytest.mark.parametrize(("keys", "units"), [("k", ""), ("k, j", ", COUNT(DISTINCT p) AS b")])
def test_groups_chosen_among_rows_are_those_chosen_among_totals(
    loss: Loss, keys: str, units: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """threat:A34 which way the engine takes cannot be seen: every cell of every shape is the same."""
    random = Random(11)
    fields = (
        Field("p", Type.INTEGER),
        Field("k", Type.TEXT),
        Field("j", Type.INTEGER),
        Field("x", Type.REAL, interval(0, 9)),
    )
    rows = [
        (random.randrange(30), random.choice("abcdé"), random.choice([1, 2, None]), 9 * random.random())
        for _ in range(400)
    ]
    data = pa.table({field.name: column for field, column in zip(fields, zip(*rows, strict=True), strict=True)})
    table = Table("t", fields, "p", query.FEW, 3)
    question = read_sql(f"SELECT {keys}, {EVERYTHING}{units} FROM t WHERE x > 1 GROUP BY {keys}", Catalog((table,)))
    assert isinstance(question, Question)
    plan = make_plan(question, loss)
    assert isinstance(plan, Plan)
    assert plan.selection is not None
    engine = DuckDBEngine([(table, Frame(data))], salt=3)
    among_rows = exact_cells(engine, plan)
    monkeypatch.setattr(query, "FEW", 0)
    among_totals = exact_cells(engine, plan)
    assert [key.tolist() for key in among_rows.keys] == [key.tolist() for key in among_totals.keys]
    assert among_rows.units is not None
    assert among_totals.units is not None
    assert among_rows.units.tolist() == among_totals.units.tolist()
    pairs = zip(among_rows.cells, among_totals.cells, strict=True)
    assert all([c.tolist() for c in one] == [c.tolist() for c in other] for one, other in pairs)


def test_the_way_is_chosen_by_the_declared_limit() -> None:
    """Few rows in a group: the window comes first. Many: the totals."""
    fields = (Field("p", Type.INTEGER), Field("k", Type.INTEGER, values=tuple(range(9))))
    found = []
    for rows in (query.FEW, query.FEW + 1):
        plan = planned("SELECT k, COUNT(*) AS n FROM t GROUP BY k", Table("t", fields, "p", rows, 2))
        found.append(DUCKDB.write(cells_query(plan)).text)
    assert ["DENSE_RANK" in text for text in found] == [True, False]
    assert ["ROW_NUMBER" in text for text in found] == [False, True]
