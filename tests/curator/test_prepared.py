"""What is prepared once for many questions is what each of them would get by itself."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from sqlglot import exp

from lapwing.catalog.table import Catalog
from lapwing.cells.bounding import Queries, queries
from lapwing.curator import prepared as prepared_module
from lapwing.curator.prepared import Prepared
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.errors import Refused
from lapwing.planning.plan import Plan, make_plan
from lapwing.planning.question import Question
from lapwing.privacy.loss import ZCDP
from lapwing.reading.sql import read_sql
from support.questions import CONDITIONS, make_question, make_table

PRICES = (ZCDP(Fraction(1, 2)), ZCDP(Fraction(1, 3), Fraction(1, 10**6)))
LEVEL = Fraction(19, 20)


class Writing:
    """An engine that only writes, and counts what it wrote."""

    dialect = DUCKDB

    def __init__(self) -> None:
        self.trees = 0

    def prepare(self, query: exp.Select | EngineQuery) -> EngineQuery:
        if isinstance(query, EngineQuery):
            return query
        self.trees += 1
        return DUCKDB.write(query, salt="7df")


def plan_of(text: str, catalog: Catalog) -> Plan | None:
    for price in PRICES:
        try:
            question = read_sql(text, catalog)
            assert isinstance(question, Question)
            return make_plan(question, price)
        except Refused:
            continue
    return None


def texts(made: Queries) -> list[Any]:
    found = [made.cells, *(query for _, query in made.others)]
    return [(query.text, query.tables) for query in found if isinstance(query, EngineQuery)]


def in_full(plan: Plan) -> list[Any]:
    return texts(queries(plan).prepared(Writing().prepare))


def test_the_text_is_the_one_that_is_written_in_full() -> None:
    """One memory for random questions about tables that share a name and differ in limits, bounds and units."""
    engine, compared = Writing(), 0
    ready = Prepared(engine)  # type: ignore[arg-type]
    for seed in range(120):
        random = Random(seed)
        table = make_table(random, by_row=seed % 3 == 0)
        text = make_question(random, table)
        for condition in (None, *random.sample(CONDITIONS, 3)):
            plan = plan_of(text, Catalog((table,)))
            if plan is None:
                break
            if condition is not None:
                where = read_sql(f"SELECT COUNT(*) FROM visits WHERE {condition}", Catalog((table,))).where  # type: ignore[union-attr]
                plan = replace(plan, outline=replace(plan.outline, question=replace(plan.question, where=where)))
            for _ in range(2):
                assert texts(ready.queries(plan)) == in_full(plan)
            compared += 1
    assert compared > 200
    assert engine.trees < compared


def test_only_the_first_question_of_a_shape_is_written_in_full() -> None:
    engine, catalog = Writing(), Catalog((make_table(Random(1), by_row=False),))
    ready = Prepared(engine)  # type: ignore[arg-type]
    for limit in (1, 1.0, 2, 2.5):
        plan = plan_of(f"SELECT sex, SUM(cost) AS s FROM visits WHERE cost < {limit} GROUP BY sex", catalog)
        assert plan is not None
        assert texts(ready.queries(plan)) == in_full(plan)
    assert engine.trees == 1


@pytest.mark.parametrize("literal", ['"lw_rows"."lw_where"', '("lw_rows"."lw_where")'])
def test_an_analyst_who_writes_the_mark_gets_her_own_text(literal: str) -> None:
    catalog = Catalog((make_table(Random(1), by_row=False),))
    ready = Prepared(Writing())  # type: ignore[arg-type]
    for where in ("sex = 'F'", f"sex = '{literal}'"):
        for total in ("age", f"CASE WHEN town = '{literal}' THEN age ELSE 0 END"):
            plan = plan_of(f"SELECT SUM({total}) AS s FROM visits WHERE {where}", catalog)
            assert plan is not None
            assert texts(ready.queries(plan)) == in_full(plan)


QUESTIONS = (
    "SELECT sex, COUNT(*) AS n FROM visits WHERE age > 1 GROUP BY sex",
    "SELECT sex, COUNT(*) + 1 AS n FROM visits WHERE age > 1 GROUP BY sex",
    "SELECT sex, COUNT(*) + 1.0 AS n FROM visits WHERE age > 1 GROUP BY sex",
    "SELECT sex, COUNT(*) AS m FROM visits WHERE age > 1 GROUP BY sex",
    "SELECT sex, COUNT(*) AS n FROM visits WHERE age > 1 GROUP BY sex HAVING COUNT(*) > 1",
    "SELECT sex, COUNT(*) AS n FROM visits WHERE age > 1 GROUP BY sex ORDER BY n",
    "SELECT sex, COUNT(*) AS n FROM visits WHERE age > 1 GROUP BY sex ORDER BY n DESC",
    "SELECT sex, COUNT(*) AS n FROM visits WHERE age > 1 GROUP BY sex LIMIT 1",
    "SELECT sex, SUM(age) AS n FROM visits WHERE age > 1 GROUP BY sex",
    "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex",
)


def test_whatever_differs_but_where_is_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Plan] = []
    monkeypatch.setattr(prepared_module, "rehearse", lambda plan, *_: seen.append(plan))
    ready = Prepared(Writing())  # type: ignore[arg-type]
    catalog = Catalog((make_table(Random(1), by_row=False),))
    for text in QUESTIONS:
        for where in ("age > 1", "age > 2"):
            plan = plan_of(text.replace("age > 1", where), catalog)
            assert plan is not None
            before = len(seen)
            ready.rehearsed(plan, LEVEL, (plan.question,))
            assert len(seen) == before + (where == "age > 1")
    plan = plan_of(QUESTIONS[0], catalog)
    assert plan is not None
    before = len(seen)
    ready.rehearsed(plan, LEVEL + Fraction(1, 1000), (plan.question,))
    ready.rehearsed(make_plan(plan.question, ZCDP(Fraction(1, 5))), LEVEL, (plan.question,))
    assert len(seen) == before + 2


def test_a_rehearsal_that_failed_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise TypeError

    monkeypatch.setattr(prepared_module, "rehearse", broken)
    ready = Prepared(Writing())  # type: ignore[arg-type]
    plan = plan_of(QUESTIONS[0], Catalog((make_table(Random(1), by_row=False),)))
    assert plan is not None
    for _ in range(2):
        with pytest.raises(TypeError):
            ready.rehearsed(plan, LEVEL, (plan.question,))
