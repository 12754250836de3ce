"""A summary: every declared column is told, each number is DuckDB's own, and it has one price."""

from __future__ import annotations

import duckdb
import pytest

import lapwing as lw
from lapwing.curator.summary import first_questions
from lapwing.data import health

FACTS = {"unit": "person", "rows_per_unit": 5, "groups_per_unit": 1, "bounds": {"visits": (0, 20)}}
PLANS = ["free", "25%", "50%", "95%", "deductible"]


def test_at_a_large_price_it_is_what_the_engine_counts() -> None:
    rows = health()
    with lw.open(rows, name="h", budget=lw.Budget(1000), ledger=":memory:", values={"plan": PLANS}, **FACTS) as curator:
        told = curator.summary(share=0.9)
    assert list(told.names) == ["rows", "missing", "plan", "visits"]
    query = "SELECT COUNT(*), COUNT(*) FILTER (WHERE plan IS NULL), AVG(LEAST(visits, 20)) FROM rows"
    (exact,) = duckdb.sql(query).fetchall()
    assert told["rows"]["n"] == [exact[0]]
    assert told["missing"]["plan"] == [exact[1]]
    assert told["visits"]["mean"][0] == pytest.approx(exact[2], abs=0.01)
    counts = dict(duckdb.sql("SELECT plan, COUNT(*) FROM rows GROUP BY plan").fetchall())
    assert dict(zip(told["plan"]["plan"], told["plan"]["n"], strict=True)) == {plan: counts[plan] for plan in PLANS}
    (quartiles,) = duckdb.sql("SELECT QUANTILE_CONT(LEAST(visits, 20), [0.25, 0.5, 0.75]) FROM rows").fetchall()
    assert [told["visits"][name][0] for name in ("q1", "q2", "q3")] == pytest.approx(quartiles[0], abs=0.5)


def test_it_has_one_price_and_is_free_again() -> None:
    budget = lw.Budget(epsilon=2)
    with lw.open(health(), name="h", budget=budget, ledger=":memory:", values={"plan": PLANS}, **FACTS) as curator:
        curator.summary(share=0.5)
        spent = curator.ledger.spent
        assert float(spent.amount) == pytest.approx(1, abs=0.01)
        curator.summary(share=0.5)
        assert curator.ledger.spent == spent


def test_without_limits_it_counts_units() -> None:
    with lw.open(
        health(), name="h", unit="person", budget=lw.Budget(2), ledger=":memory:", values={"plan": PLANS}
    ) as c:
        assert list(c.summary(share=0.5).names) == ["units", "plan"]
        assert len(first_questions(c.catalog.tables[0])) == 2
