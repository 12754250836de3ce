"""Queries that share the plan of one general query give what each gives by itself."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lapwing.curator.query_cache import Prepared
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.source import Frame
from lapwing.expressions.table import Catalog, Table
from lapwing.plan.plan import make_plan
from lapwing.privacy.loss import ZCDP
from lapwing.sql import read_sql
from support.questions import arrow_table, make_row, make_table

REALS = ("0.0", "-0.0", "1.5", "9.99", "1e308", "-1e308", "5e-324", "0.1", "0.30000000000000004", "9007199254740993.0")
WHOLE = ("0", "1", "-7", "40", "200", "4611686018427387904", "9007199254740993", "9223372036854775807")
WHOLE += ("-9223372036854775807",)
TEXTS = ("", "F", "M", "rome", "Rome ", "\N{SNOWMAN}", "o''slo", "$1", "\\", "a\nb")
DAYS = ("2020-02-29", "0001-01-01", "9999-12-31", "2021-07-04")
CONDITIONS = (
    ("cost {c} {}", REALS),
    ("cost {c} {}", WHOLE),
    ("{} {c} age", WHOLE),
    ("age {c} {}", REALS),
    ("age * 2 - 1 {c} {}", WHOLE),
    ("cost / age {c} {}", REALS),
    ("LENGTH(town) {c} {}", WHOLE),
    ("YEAR(day) {c} {}", WHOLE),
    ("town {c} '{}'", TEXTS),
    ("COALESCE(town, 'x') || sex {c} '{}'", TEXTS),
    ("day {c} DATE '{}'", DAYS),
    ("CAST(day AS TIMESTAMP) {c} TIMESTAMP '{} 10:00:00'", DAYS),
    ("CASE WHEN cost {c} {} THEN age > 1 ELSE sick END", REALS),
    ("(LN(ABS(cost / age + 1)) + SQRT(ABS(cost)) * EXP(cost / 100) {c} {}) OR sick", REALS),
    ("NOT (cost {c} {}) AND age IN (0, 1, 40)", REALS),
    ("NULLIF(CASE WHEN cost {c} {} THEN age ELSE site END, 2) > 0", REALS),
    ("sick AND cost {c} {} OR site {c} 2", REALS),
)


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[Table, DuckDBEngine, DuckDBEngine]]:
    """A table, an engine that plans once for all constants, and one that plans every query by itself."""
    random = Random(5)
    table = make_table(random, by_row=False)
    frame = arrow_table([make_row(random) for _ in range(300)])
    general, alone = (DuckDBEngine([(table, Frame(frame))], salt=7) for _ in range(2))
    alone._small = False
    yield table, general, alone
    general.close()
    alone.close()


def rows(found: pa.Table) -> list[Any]:
    return sorted(map(str, found.to_pylist()))


@pytest.mark.parametrize("number", range(len(CONDITIONS)))
def test_the_rows_are_those_of_the_query_itself(number: int, world: tuple[Table, DuckDBEngine, DuckDBEngine]) -> None:
    """threat:A12 NULL, NaN, infinities, both zeros, the largest numbers, texts with quotes and dates at both ends."""
    table, general, alone = world
    form, constants = CONDITIONS[number]
    ready, asked = Prepared(general), set()
    for compared in ("=", "<>", "<", "<=", ">", ">="):
        for constant in constants:
            where = form.format(constant, c=compared)
            text = f"SELECT sex, COUNT(*) AS n, SUM(cost) AS s FROM visits WHERE {where} GROUP BY sex"
            plan = make_plan(read_sql(text, Catalog((table,))), ZCDP(Fraction(1, 2)))
            query = ready.queries(plan).cells
            assert isinstance(query, EngineQuery)
            asked.add(query.pattern)
            assert rows(general.fetch(query)) == rows(alone.fetch(EngineQuery(query.text, {}))), where
    assert len(asked) <= 40  # negative numbers and dates stay as they are
    assert any(asked) or constants is DAYS


def test_one_plan_serves_all_constants(world: tuple[Table, DuckDBEngine, DuckDBEngine]) -> None:
    table, general, _ = world
    ready, statements = Prepared(general), general._statements
    assert statements is not None
    statements._forget()
    for limit in range(20):
        text = f"SELECT COUNT(*) AS n FROM visits WHERE cost < {limit}.5 AND age >= {limit}"
        plan = make_plan(read_sql(text, Catalog((table,))), ZCDP(Fraction(1, 2)))
        query = ready.queries(plan).cells
        assert isinstance(query, EngineQuery)
        general.fetch(query)
    assert list(statements._names.values()) == ["lw_0"]


def test_a_query_without_a_pattern_is_planned_by_itself(world: tuple[Table, DuckDBEngine, DuckDBEngine]) -> None:
    _, general, _ = world
    for _ in range(3):
        assert general.fetch(EngineQuery("SELECT COUNT(*) AS n FROM visits", {})).to_pylist() == [{"n": 300}]
