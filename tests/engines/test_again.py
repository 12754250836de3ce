"""Questions of one shape with other constants, asked one after the other on one engine, beside the same text alone.

The first way reads a shape once, shares texts and plans, and gives constants to the engine as parameters; the second
reads, writes and plans each text by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any

import pytest
from reading.sql.test_shapes import TODAY, varied

from engines.test_suite import rows_of, seen
from lapwing.curator.query_cache import Prepared
from lapwing.engines import duckdb
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.engine import Engine
from lapwing.errors import Refused
from lapwing.expressions.table import Catalog, Table
from lapwing.plan.noise import fetched
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.query import queries
from lapwing.plan.question import Question
from lapwing.privacy.loss import ZCDP, Loss
from lapwing.sql import read_sql
from lapwing.sql.shapes import ShapeReader
from support.hosts import HOSTS, DuckDBHost, Host, Rows
from support.questions import arrow_table, make_question, make_row, make_table
from support.refusals import attempt
from support.relations import SHAPES, make_world
from support.relations import make_question as make_related

PRICES: tuple[Loss, ...] = (ZCDP(1, 0), ZCDP(1, 1e-6))
VARIANTS = 6


def alone(engine: Engine) -> Engine:
    """It plans every query by itself."""
    if isinstance(engine, DuckDBEngine):
        engine._statements = None
    return engine


CONSTANTS: dict[str, tuple[str, ...]] = {
    "age": ("0", "1", "40", "200", "39", "4611686018427387904", "0.5"),
    "cost": ("0", "1.5", "9.99", "0.1", "2", "1e308"),
    "age + site": ("1", "2", "41", "3.5"),
    "cost / age": ("0.5", "0.1", "10"),
    "LENGTH(town)": ("0", "4", "5"),
    "YEAR(day)": ("1", "2020", "2021"),
    "sex": ("'F'", "'M'", "'X'", "''"),
    "town": ("'oslo'", "'rome'", "'Rome '", "'p'"),
}


def conditions(random: Random) -> Iterator[str]:
    """One condition with many constants, each of which rows meet in other numbers."""
    used = random.sample(sorted(CONSTANTS), random.choice([1, 2, 3]))
    signs = [random.choice(("<", "<=", ">", ">=", "=", "<>")) for _ in used]
    joined, negated = random.choice((" AND ", " OR ")), random.random() < 0.2
    while True:
        parts = [f"{one} {sign} {random.choice(CONSTANTS[one])}" for one, sign in zip(used, signs, strict=True)]
        yield f"NOT ({joined.join(parts)})" if negated else f"({joined.join(parts)})"


def asked(random: Random, table: Table) -> list[str]:
    """One question with other constants in its WHERE; the first comes back at the end."""
    text = make_question(random, table)
    while " WHERE " in text:
        text = make_question(random, table)
    head, group, tail = text.partition(" GROUP BY ")
    found = [f"{head} WHERE {where}{group}{tail}" for where in islice(conditions(random), VARIANTS)]
    return [*found, found[0]]


def texts(seed: int) -> tuple[Rows, Catalog, list[str]]:
    """Rows, and questions about them."""
    random = Random(seed)
    if seed % 4 == 3:
        world = make_world(random)
        related = [make_related(random, random.choice(SHAPES)) for _ in range(3)]
        found = [one for text in related for one in (text, *(varied(text, random) for _ in range(VARIANTS)), text)]
        return rows_of(world), world.catalog, found
    table = replace(make_table(random, by_row=seed % 2 == 0), rows_per_unit=3)
    data = arrow_table([make_row(random) for _ in range(60)])
    return [(table, data)], Catalog((table,)), [one for _ in range(3) for one in asked(random, table)]


def plan_of(question: Question | Refused) -> Plan | Refused:
    found: Plan | Refused = question if isinstance(question, Refused) else attempt(make_plan, question, PRICES[0])
    if isinstance(found, Refused) and isinstance(question, Question):
        found = attempt(make_plan, question, PRICES[1])
    return found


def compare(host: Host, seed: int) -> int:
    """How many answers were compared."""
    many = 0
    data, catalog, found = texts(seed)
    engine, other = host.engine(data), alone(host.engine(data))
    reader, ready = ShapeReader(catalog), Prepared(engine)
    for text in found:
        plan, full = plan_of(attempt(reader.read, text, TODAY)), plan_of(attempt(read_sql, text, catalog, TODAY))
        assert type(plan) is type(full), text
        if isinstance(plan, Plan) and isinstance(full, Plan):
            again = fetched(plan, ready.queries(plan), engine.fetch)
            fresh = fetched(full, queries(full).prepared(other.prepare), other.fetch)
            assert seen(plan, again) == seen(full, fresh), text
            many += 1
    engine.close()
    other.close()
    return many


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Host]:
    made = HOSTS[request.param](request)
    yield made
    made.close()


def test_constants_that_follow_others_give_what_they_give_alone(place: Host) -> None:
    """threat:A12"""
    assert sum(compare(place, seed) for seed in range(4)) > 50


@pytest.mark.slow
def test_a_thousand_questions_give_what_they_give_alone(place: Host) -> None:
    assert sum(compare(place, seed) for seed in range(100, 180)) > 1000


def test_an_engine_that_keeps_an_old_constant_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fault in the parameters of an engine would look like."""
    kept: dict[str, str] = {}
    general = duckdb._general

    def stale(query: EngineQuery) -> tuple[str, Any]:
        text, arguments = general(query)
        return text, kept.setdefault(text, arguments)

    monkeypatch.setattr(duckdb, "_general", stale)
    with pytest.raises(AssertionError):
        sum(compare(DuckDBHost(), seed) for seed in range(4))
