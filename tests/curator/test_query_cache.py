"""What is prepared once for many plans is what each of them would get by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from sqlglot import exp

from lapwing.curator import query_cache as prepared_module
from lapwing.curator.query_cache import QueryCache
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.errors import Refused
from lapwing.expressions.table import Catalog, Table
from lapwing.expressions.types import Interval
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.query import Queries, queries
from lapwing.plan.question import Question
from lapwing.privacy.loss import ZCDP, Approximate, Loss, Pure
from lapwing.sql import read_sql
from support.questions import CONDITIONS, make_question, make_table
from support.relations import SHAPES, make_world
from support.relations import make_question as make_question_over

LEVEL = Fraction(19, 20)
TINY = Fraction(1, 10**12)
PRICES: tuple[Loss, ...] = (
    Pure(Fraction(1)),
    Approximate(Fraction(1), Fraction(1, 10**6)),
    Approximate(Fraction(1), TINY),
    ZCDP(Fraction(1, 2)),
    ZCDP(Fraction(1, 2), Fraction(1, 10**6)),
    ZCDP(Fraction(1, 2), TINY),
    ZCDP(Fraction(1, 3)),
)


class Writing:
    """An engine that only writes, and counts the trees that it wrote."""

    dialect = DUCKDB

    def __init__(self) -> None:
        self.trees = 0

    def prepare(self, query: exp.Select | EngineQuery) -> EngineQuery:
        if isinstance(query, EngineQuery):
            return query
        self.trees += 1
        return DUCKDB.write(query, salt="7df")


def read(text: str, catalog: Catalog) -> Question:
    question = read_sql(text, catalog)
    assert isinstance(question, Question)
    return question


def plan_of(text: str, catalog: Catalog, price: Loss = PRICES[3]) -> Plan:
    return make_plan(read(text, catalog), price)


def texts(made: Queries) -> list[Any]:
    """The text and the tables of each query."""
    return [(query.text, query.tables) for query in made.all if isinstance(query, EngineQuery)]


def in_full(plan: Plan) -> list[Any]:
    return texts(queries(plan).prepared(Writing().prepare))


def with_where(question: Question, condition: str, catalog: Catalog) -> Question:
    """The same question about other rows."""
    return replace(question, where=read(f"SELECT COUNT(*) FROM visits WHERE {condition}", catalog).where)


def other_tables(table: Table, random: Random) -> Iterator[Table]:
    """The table, and tables that differ from it in one declared fact, as after a search for bounds or a limit."""
    yield table
    yield replace(table, rows_per_unit=1 + (table.rows_per_unit or 0))
    yield replace(table, groups_per_unit=random.choice([1, 2, 3]))
    yield replace(table, version="2")
    narrower = Interval(Fraction(0), Fraction(random.choice([1, 7]), 2))
    changed = tuple(replace(one, bounds=narrower) if one.name == "cost" else one for one in table.fields)
    yield replace(table, fields=changed)
    fewer = tuple(replace(one, values=one.values[:-1]) if one.name == "site" else one for one in table.fields)
    yield replace(table, fields=fewer)


def plans(seed: int) -> Iterator[Plan]:
    """One question on many terms: other prices, other facts, other conditions."""
    random = Random(seed)
    if seed % 3 == 2:
        catalogs = [make_world(random).catalog]
        text = make_question_over(random, random.choice(SHAPES), hidden=random.random() < 0.3)
    else:
        table = make_table(random, by_row=seed % 3 == 0)
        catalogs = [Catalog((other,)) for other in other_tables(table, random)]
        text = make_question(random, table)
    for catalog in catalogs:
        for price in random.sample(PRICES, 4):
            try:
                question = read(text, catalog)
                plan = make_plan(question, price)
                yield plan
                if seed % 3 != 2:
                    for condition in random.sample(CONDITIONS, 2):
                        yield make_plan(with_where(question, condition, catalog), price)
            except Refused:
                continue


def assert_shared_texts_are_those_written_in_full(seeds: range) -> tuple[int, int]:
    """How many plans were compared, and how many trees were written for them."""
    engine, compared = Writing(), 0
    ready = QueryCache(engine)  # type: ignore[arg-type]
    for seed in seeds:
        for plan in plans(seed):
            assert texts(ready.queries(plan)) == in_full(plan)
            compared += 1
    return compared, engine.trees


def test_the_text_is_the_one_that_is_written_in_full() -> None:
    """One memory for random questions about tables of one name that differ in a limit, a bound, a domain or a version,
    at prices that are drawn or selected by different mechanisms."""
    compared, written = assert_shared_texts_are_those_written_in_full(range(6))
    assert compared > 90
    assert written < 0.8 * compared


@pytest.mark.slow
def test_the_text_of_thousands_of_plans_is_the_one_that_is_written_in_full() -> None:
    compared, written = assert_shared_texts_are_those_written_in_full(range(20))
    assert compared > 300
    assert written < 0.8 * compared
    compared, _ = assert_shared_texts_are_those_written_in_full(range(100, 400))
    assert compared > 5000


def test_the_text_follows_the_mechanism_that_selects_the_keys() -> None:
    """threat:A12 one memory; delta decides whether units are counted or weighed."""
    catalog = Catalog((replace(make_table(Random(1), by_row=False), groups_per_unit=3),))
    ready, seen = QueryCache(Writing()), set()  # type: ignore[arg-type]
    for price in (*PRICES[1:3], *PRICES[4:6], *PRICES[1:3]):
        plan = plan_of("SELECT town, SUM(age) AS s FROM visits WHERE age > 1 GROUP BY town", catalog, price)
        made = texts(ready.queries(plan))
        assert made == in_full(plan)
        seen.add(str(made))
    assert len(seen) > 1


def test_only_the_first_plan_of_a_likeness_is_written_in_full() -> None:
    engine, catalog = Writing(), Catalog((make_table(Random(1), by_row=False),))
    ready = QueryCache(engine)  # type: ignore[arg-type]
    for limit in (1, 1.0, 2, 2.5):
        plan = plan_of(f"SELECT sex, SUM(cost) AS s FROM visits WHERE cost < {limit} GROUP BY sex", catalog)
        assert texts(ready.queries(plan)) == in_full(plan)
    assert engine.trees == 1


@pytest.mark.parametrize("mark", ["'lw_where' IS NULL", "sex = '(''lw_where'' IS NULL)'"])
def test_an_analyst_who_writes_the_mark_gets_her_own_text(mark: str) -> None:
    catalog = Catalog((make_table(Random(1), by_row=False),))
    ready = QueryCache(Writing())  # type: ignore[arg-type]
    for where in ("sex = 'F'", mark):
        for total in ("age", f"CASE WHEN {mark} THEN age ELSE 0 END"):
            plan = plan_of(f"SELECT SUM({total}) AS s FROM visits WHERE {where}", catalog)
            assert texts(ready.queries(plan)) == in_full(plan)


def test_plans_of_many_public_values_are_written_in_full() -> None:
    table = make_table(Random(1), by_row=False)
    many = tuple(replace(one, values=tuple(range(2000))) if one.name == "site" else one for one in table.fields)
    engine = Writing()
    ready = QueryCache(engine)  # type: ignore[arg-type]
    plan = plan_of("SELECT site, COUNT(*) AS n FROM visits GROUP BY site", Catalog((replace(table, fields=many),)))
    for _ in range(2):
        ready.queries(plan)
    assert engine.trees == 2


def test_no_more_is_remembered_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared_module, "REMEMBERED", 3)
    catalog = Catalog((make_table(Random(1), by_row=False),))
    ready = QueryCache(Writing())  # type: ignore[arg-type]
    for number in range(10):
        plan = plan_of(f"SELECT SUM(CLIP(cost, 0, {number + 1})) AS s FROM visits", catalog)
        assert texts(ready.rehearse(plan, LEVEL)) == in_full(plan)
        assert max(len(ready._templates), len(ready._rehearsed)) <= 3


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
    ready = QueryCache(Writing())  # type: ignore[arg-type]
    catalog = Catalog((make_table(Random(1), by_row=False),))
    for text in QUESTIONS:
        for where in ("age > 1", "age > 2"):
            before = len(seen)
            ready.rehearse(plan_of(text.replace("age > 1", where), catalog), LEVEL)
            assert len(seen) == before + (where == "age > 1")
    plan, before = plan_of(QUESTIONS[0], catalog), len(seen)
    ready.rehearse(plan, LEVEL + Fraction(1, 1000))
    ready.rehearse(make_plan(plan.question, ZCDP(Fraction(1, 5))), LEVEL)
    ready.rehearse(plan, LEVEL, (plan.question, replace(plan.question, limit=1)))
    assert len(seen) == before + 3
    ready.rehearse(plan, LEVEL)
    assert len(seen) == before + 3


def test_a_rehearsal_sees_no_where(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        prepared_module, "rehearse", lambda plan, _, questions: seen.extend([plan.question, *questions])
    )
    plan = plan_of(QUESTIONS[0], Catalog((make_table(Random(1), by_row=False),)))
    QueryCache(Writing()).rehearse(plan, LEVEL, (plan.question,))  # type: ignore[arg-type]
    assert len(seen) == 2
    assert plan.question.where not in [question.where for question in seen]


def test_a_rehearsal_that_failed_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise TypeError

    monkeypatch.setattr(prepared_module, "rehearse", broken)
    ready = QueryCache(Writing())  # type: ignore[arg-type]
    plan = plan_of(QUESTIONS[0], Catalog((make_table(Random(1), by_row=False),)))
    for _ in range(2):
        with pytest.raises(TypeError):
            ready.rehearse(plan, LEVEL)
