"""Questions of one shape with other constants, asked one after the other on one engine, beside the same text alone.

The first way shares the text around a WHERE and keeps one engine; the second writes each text by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from itertools import islice
from random import Random

import pytest

from engines.test_suite import rows_of, seen
from lapwing.curator.query_cache import QueryCache
from lapwing.errors import Refused
from lapwing.expressions.table import Catalog, Table
from lapwing.plan.add_noise import fetched
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.query import Queries, queries
from lapwing.plan.question import Question
from lapwing.privacy.loss import ZCDP, Loss
from lapwing.sql import read_sql
from support.hosts import HOSTS, DuckDBHost, Host, Rows
from support.questions import arrow_table, make_question, make_row, make_table
from support.refusals import attempt
from support.relations import SHAPES, make_world
from support.relations import make_question as make_related

PRICES: tuple[Loss, ...] = (ZCDP(1, 0), ZCDP(1, 1e-6))
VARIANTS = 6


TODAY = date(2024, 2, 29)
WHOLE = ("0", "1", "2", "3", "40", "007", "9223372036854775807", "7310582946012077")
REAL = ("0.5", "1.50", "2.0", "1.25", "9223372036854775808.0", "0.000")
PLAIN = ("", "F", "M", "5", "true", "2020-01-01", "a%", "\N{SNOWMAN}", "lw7310582946012077", 'a"b', "1 day", "--", ";")
CONSTANT = re.compile(r"'[^']*'|(?<![\w.'\"])[0-9]+(?:\.[0-9]+)?(?![\w.'\"])")


def varied(text: str, random: Random) -> str:
    """The same text with other constants, mostly of the same type."""

    def other(found: re.Match[str]) -> str:
        if random.random() < 0.05:
            return random.choice([*WHOLE, *REAL, *(f"'{text}'" for text in PLAIN)])
        if found[0].startswith("'"):
            return f"'{random.choice(PLAIN)}'" if random.random() < 0.7 else found[0]
        return random.choice(REAL if "." in found[0] else WHOLE) if random.random() < 0.7 else found[0]

    return CONSTANT.sub(other, text)


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
    engine, other = host.engine(data), host.engine(data)
    ready = QueryCache(engine)
    for text in found:
        plan = plan_of(attempt(read_sql, text, catalog, TODAY))
        if isinstance(plan, Plan):
            again = fetched(plan, ready.queries(plan), engine.fetch)
            fresh = fetched(plan, queries(plan).prepared(other.prepare), other.fetch)
            assert seen(plan, again) == seen(plan, fresh), text
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
    assert sum(compare(place, seed) for seed in range(2)) > 25


@pytest.mark.slow
def test_a_thousand_questions_give_what_they_give_alone(place: Host) -> None:
    assert sum(compare(place, seed) for seed in range(4)) > 50
    assert sum(compare(place, seed) for seed in range(100, 180)) > 1000


def test_a_cache_that_keeps_an_old_constant_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the WHERE of the first question stays in the text."""
    kept: dict[int, Queries] = {}
    fill = QueryCache._queries
    monkeypatch.setattr(
        QueryCache,
        "_queries",
        lambda self, plan, bare, key: kept.setdefault(hash((id(self), key)), fill(self, plan, bare, key)),
    )
    with pytest.raises(AssertionError):
        sum(compare(DuckDBHost(), seed) for seed in range(4))
