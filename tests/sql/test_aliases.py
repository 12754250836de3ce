"""Other names of aggregates ask the same question; conditions have means; units have a first and a last value."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from lapwing.curator import Curator, open_data
from lapwing.errors import Refused
from lapwing.expressions.types import Type
from lapwing.plan.domain import domain_of
from lapwing.plan.question import Question
from lapwing.privacy import Budget
from lapwing.sql import read_sql
from lapwing.sql.ibis import read_ibis, unbound_table
from support.refusals import attempt
from support.visits import visits_catalog, visits_table

CATALOG = visits_catalog()
T = unbound_table(visits_table())


def asked(columns: str, source: str = "visits") -> Question:
    found = attempt(read_sql, f"SELECT {columns} FROM {source}", CATALOG)
    assert isinstance(found, Question), found
    return found


@pytest.mark.parametrize(
    ("alias", "usual"),
    [
        ("MEAN(cost)", "AVG(cost)"),
        ("FAVG(cost)", "AVG(cost)"),
        ("FSUM(cost)", "SUM(cost)"),
        ("KAHAN_SUM(cost)", "SUM(cost)"),
        ("SUMKAHAN(cost)", "SUM(cost)"),
        ("SUM_NO_OVERFLOW(age)", "SUM(age)"),
        ("VAR(cost)", "VARIANCE(cost)"),
        ("VAR_SAMP(cost)", "VARIANCE(cost)"),
        ("VARP(cost)", "VAR_POP(cost)"),
        ("STD(cost)", "STDDEV(cost)"),
        ("STDEV(cost)", "STDDEV(cost)"),
        ("STDDEV_SAMP(cost)", "STDDEV(cost)"),
        ("STDEVP(cost)", "STDDEV_POP(cost)"),
        ("COUNT_STAR()", "COUNT(*)"),
        ("COUNT()", "COUNT(*)"),
        ("COUNT_BIG(*)", "COUNT(*)"),
        ("COUNTIF(sick)", "COUNT_IF(sick)"),
        ("APPROX_COUNT_DISTINCT(age)", "COUNT(DISTINCT age)"),
        ("APPROX_COUNT_DISTINCT(pid)", "COUNT(DISTINCT pid)"),
        ("QUANTILE(cost, 0.9)", "QUANTILE_CONT(cost, 0.9)"),
        ("QUANTILE_DISC(cost, 0.9)", "QUANTILE_CONT(cost, 0.9)"),
        ("APPROX_QUANTILE(cost, 0.9)", "QUANTILE_CONT(cost, 0.9)"),
        ("PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY cost)", "MEDIAN(cost)"),
        ("var(cost) FILTER (WHERE sick)", "VARIANCE(cost) FILTER (WHERE sick)"),
        ("AVG(sick)", "AVG(CAST(sick AS INTEGER))"),
        ("AVG(age > 40)", "AVG(CAST(age > 40 AS INTEGER))"),
        ("SUM(sick)", "SUM(CAST(sick AS INTEGER))"),
    ],
)
def test_another_name_asks_the_same_question(alias: str, usual: str) -> None:
    """One price and one stored answer."""
    assert asked(f"{alias} AS a") == asked(f"{usual} AS a")


@pytest.mark.parametrize(
    "column",
    [
        "VAR(DISTINCT cost)",
        "MEAN(cost, age)",
        "COUNT_STAR(age)",
        "APPROX_QUANTILE(cost, [0.1, 0.9])",
        "STD(sick)",
        "MEDIAN(sick)",
        "QUANTILE(cost)",
    ],
)
def test_what_an_alias_does_not_take_is_refused(column: str) -> None:
    assert isinstance(attempt(read_sql, f"SELECT {column} AS a FROM visits", CATALOG), Refused)


def test_ibis_averages_conditions_too() -> None:
    for expression, text in ((T.sick.mean(), "AVG(sick)"), ((T.age > 40).sum(), "SUM(age > 40)")):
        assert read_ibis(T.aggregate(a=expression), CATALOG) == asked(f"{text} AS a")


PER_UNIT = "(SELECT pid, MIN(age) AS first, MAX(day) AS last, MIN(site) AS place FROM visits GROUP BY pid) AS u"


@pytest.mark.parametrize(
    ("key", "kind", "values"),
    [
        ("first", Type.INTEGER, (*range(121), None)),
        ("place", Type.INTEGER, (9, 10, 1000)),
        ("first // 50", Type.INTEGER, (0, 1, 2, None)),
        ("QUARTER(last)", Type.INTEGER, (1, 2, 3, 4, None)),
        ("DATE_TRUNC('month', last)", Type.DATE, None),
    ],
)
def test_the_first_and_last_value_of_a_unit_are_keys(key: str, kind: Type, values: Any) -> None:
    """Whole numbers stay whole, and dates are dates: cohorts by the first year or month of each unit."""
    question = asked(f"{key} AS k, COUNT(*) AS n", f"{PER_UNIT} GROUP BY k")
    assert question.keys[0].type is kind
    assert domain_of(question.keys[0], question.table) == values
    assert (question.table.rows_per_unit, question.table.groups_per_unit) == (1, 1)


def test_dates_of_a_unit_are_computed_with_inside() -> None:
    inner = "(SELECT pid, YEAR(MIN(day)) AS y FROM visits GROUP BY pid HAVING MAX(day) > DATE '2020-01-01') AS u"
    question = asked("y, COUNT(*) AS n", f"{inner} GROUP BY y")
    assert question.where is not None
    unit = T.group_by("pid").agg(y=T.day.min().year())
    made = read_ibis(unit.group_by("y").agg(n=unit.count()), CATALOG)
    assert made.keys == question.keys


@pytest.mark.parametrize("column", ["MIN(day)", "MAX(at)", "MEDIAN(day)"])
def test_dates_over_many_units_have_no_bounds(column: str) -> None:
    """The rewrite in the refusal is answered."""
    found = attempt(read_sql, f"SELECT {column} FROM visits", CATALOG)
    assert isinstance(found, Refused)
    written = found.instead.removeprefix("Use a number of days: ").removesuffix(".").replace(", d)", ", day)")
    assert asked(f"{written} AS n").aggregates[0].name == "quantile"


def clinic() -> Curator:
    rows = range(6000)
    data = {
        "pid": [i // 3 for i in rows],
        "year": [2000 + i // 3 % 2 * 5 + i % 3 for i in rows],
        "day": [date(2020, 1 + i // 3 % 4, 1 + i % 3) for i in rows],
        "sick": [i % 4 == 0 for i in rows],
    }
    facts: dict[str, Any] = {"rows_per_unit": 3, "groups_per_unit": 3, "bounds": {"year": (2000, 2007)}}
    return open_data(
        pa.table(data), name="t", unit="pid", ledger=":memory:", budget=Budget(epsilon=50, delta=1e-6), **facts
    )


def test_cohorts_and_shares_are_what_the_rows_say() -> None:
    """At a price at which noise hardly shows."""
    curator = clinic()
    first = "SELECT y, COUNT(*) AS n FROM (SELECT pid, MIN(year) AS y FROM t GROUP BY pid) GROUP BY y"
    found = {row["y"]: round(row["n"] / 100) for row in curator.sql(first, epsilon=10).to_dict()["rows"]}
    assert {year: n for year, n in found.items() if n} == {2000: 10, 2005: 10}
    month = (
        "SELECT m, COUNT(*) AS n FROM (SELECT pid, DATE_TRUNC('month', MAX(day)) AS m FROM t GROUP BY pid) GROUP BY m"
    )
    rows = curator.sql(month, epsilon=10).to_dict()["rows"]
    assert [(row["m"], round(row["n"] / 100)) for row in rows] == [(date(2020, m, 1), 5) for m in range(1, 5)]
    assert abs(curator.sql("SELECT AVG(sick) AS a FROM t", epsilon=10).to_dict()["rows"][0]["a"] - 0.25) < 0.01
