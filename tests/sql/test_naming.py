"""Columns without a name get one, tables may have a schema before them, and TOP is LIMIT."""

from __future__ import annotations

import pytest

from lapwing.errors import Refused
from lapwing.plan.question import Question
from lapwing.sql import read_sql
from support.refusals import attempt
from support.visits import visits_catalog

CATALOG = visits_catalog(schema="clinic")


def asked(text: str) -> Question:
    found = attempt(read_sql, text, CATALOG)
    assert isinstance(found, Question), found
    return found


def names(columns: str, *, rest: str = "") -> list[str]:
    return [output.name for output in asked(f"SELECT {columns} FROM visits {rest}").outputs]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("AVG(cost), AVG(age)", ["avg_cost", "avg_age"]),
        ("COUNT(*), COUNT(age), COUNT(DISTINCT pid)", ["count", "count_age", "count_distinct_pid"]),
        ("MIN(age), MAX(age), MEDIAN(cost)", ["approx_min_age", "approx_max_age", "median_cost"]),
        ("QUANTILE_CONT(cost, 0.9), STDDEV_POP(cost)", ["quantile_cost", "stddev_pop_cost"]),
        ("AVG(cost + 1), AVG(cost + 2)", ["avg", "avg_2"]),
        ("AVG(cost), AVG(cost)", ["avg_cost", "avg_cost_2"]),
        ("AVG(cost), AVG(age) AS avg_cost", ["avg_cost_2", "avg_cost"]),
        ("AVG(cost), SUM(cost) AS AVG_COST, SUM(age) AS avg_cost_2", ["avg_cost_3", "AVG_COST", "avg_cost_2"]),
        ("COUNT(*) FILTER (WHERE sick), COUNT(*)", ["count", "count_2"]),
        ("SUM(cost) / COUNT(*)", ["sum(cost) / count(*)"]),
    ],
)
def test_aggregates_without_a_name_get_one(columns: str, expected: list[str]) -> None:
    assert names(columns) == expected


def test_a_name_does_not_depend_on_columns_after_it() -> None:
    one, two = names("AVG(cost), COUNT(*)"), names("AVG(cost), COUNT(*), AVG(age), COUNT(*), AVG(cost)")
    assert two[:2] == one


def test_names_that_were_written_twice_are_refused() -> None:
    assert isinstance(attempt(read_sql, "SELECT AVG(age) AS a, AVG(cost) AS A FROM visits", CATALOG), Refused)


def test_having_and_order_find_a_column_by_its_given_name() -> None:
    by_name = asked("SELECT sex, AVG(cost) FROM visits GROUP BY sex HAVING avg_cost > 5 ORDER BY avg_cost DESC")
    assert by_name == asked("SELECT sex, AVG(cost) FROM visits GROUP BY sex HAVING AVG(cost) > 5 ORDER BY 2 DESC")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM clinic.visits",
        "SELECT COUNT(*) FROM Clinic.Visits AS v",
        "SELECT COUNT(*) FROM main.visits",
        "SELECT COUNT(*) FROM public.visits",
        'SELECT COUNT(*) FROM "clinic"."VISITS"',
        "SELECT COUNT(*) FROM (SELECT clinic.visits.age FROM clinic.visits) AS v",
    ],
)
def test_a_declared_schema_may_stand_before_the_table(text: str) -> None:
    assert asked(text).canonical() == asked("SELECT COUNT(*) FROM visits").canonical()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("dbo.visits", "table `visits` is declared with `clinic`. Write clinic.visits."),
        ("other.clinic.visits", "Write schema.table, or the table alone."),
        ("clinic.nothing", "there is no such table"),
    ],
)
def test_another_schema_is_refused_and_names_the_declared_one(source: str, said: str) -> None:
    found = attempt(read_sql, f"SELECT COUNT(*) FROM {source}", CATALOG)
    assert isinstance(found, Refused)
    assert said in str(found)


def test_any_schema_may_stand_before_a_table_that_declares_none() -> None:
    plain = read_sql("SELECT COUNT(*) AS n FROM visits WHERE visits.age > 3", visits_catalog())
    schema = read_sql("SELECT COUNT(*) AS n FROM dbo.visits WHERE dbo.visits.age > 3", visits_catalog())
    assert schema.canonical() == plain.canonical()


def test_a_schema_stands_before_tables_alone() -> None:
    """A name from WITH has none, and an alias neither."""
    inner = "WITH visits AS (SELECT age FROM visits WHERE age > 50)"
    assert asked(f"{inner} SELECT COUNT(*) FROM visits").where is not None
    assert asked(f"{inner} SELECT COUNT(*) FROM clinic.visits").where is None
    for text in ("SELECT AVG(clinic.v.age) FROM visits AS v", "SELECT AVG(dbo.visits.age) FROM visits"):
        assert isinstance(attempt(read_sql, text, CATALOG), Refused)


def test_top_is_limit() -> None:
    top = asked("SELECT TOP 2 site, COUNT(*) AS n FROM visits GROUP BY site ORDER BY n DESC")
    assert top == asked("SELECT site, COUNT(*) AS n FROM visits GROUP BY site ORDER BY n DESC LIMIT 2")
    assert asked("SELECT DISTINCT TOP 1 sex FROM visits").limit == 1
    for text in (
        "SELECT TOP 10 PERCENT sex, COUNT(*) FROM visits GROUP BY sex",
        "SELECT TOP 1 sex, COUNT(*) FROM visits GROUP BY sex LIMIT 2",
        "SELECT TOP 1.5 sex, COUNT(*) FROM visits GROUP BY sex",
        "SELECT TOP 5 age FROM visits",
    ):
        assert isinstance(attempt(read_sql, text, CATALOG), Refused), text


def test_names_ignore_case_with_quotes_or_without() -> None:
    one = asked('SELECT "SEX" AS s, AVG(V."Cost") AS m FROM "VISITS" AS v GROUP BY v."Sex"')
    assert one == asked("SELECT sex AS s, AVG(cost) AS m FROM visits GROUP BY sex")
