"""Semi-joins: a condition on a unit's own rows or on public values, which adds no rows and moves no limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import duckdb
import pytest

from lapwing.engines.engine import Engine
from lapwing.errors import Refused
from lapwing.expressions.table import Catalog
from lapwing.plan.add_noise import arrange
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.query import cells_query
from lapwing.privacy import Pure
from lapwing.sql import read_sql
from lapwing.sql.ibis import read_ibis, unbound_table
from support.cells import run
from support.questions import arrow_table
from support.refusals import attempt
from support.relations import SITES, World, make_world, stays_frame

CONDITIONS = (
    "v.pid IN (SELECT pid FROM stays WHERE nights > 0)",
    "v.pid NOT IN (SELECT pid FROM stays WHERE pid IS NOT NULL)",
    "pid IN (SELECT pid FROM stays WHERE ward = 'a') AND sick",
    "NOT (pid IN (SELECT DISTINCT pid FROM stays WHERE ward = 'a' AND pid IS NOT NULL)) OR sex = 'F'",
    "EXISTS (SELECT 1 FROM stays s WHERE s.pid = v.pid)",
    "NOT EXISTS (SELECT * FROM stays s WHERE v.pid = s.pid AND s.site = 2)",
    "EXISTS (SELECT 1 FROM visits w WHERE w.pid = v.pid AND w.sex = 'M' LIMIT 1)",
    "EXISTS (SELECT 1 FROM stays s WHERE s.pid = v.pid AND s.pid IN (SELECT pid FROM visits WHERE sick))",
    "pid IN (SELECT pid FROM stays GROUP BY pid HAVING COUNT(*) > 1)",
    "pid IN (SELECT s.pid FROM stays s JOIN sites p ON s.site = p.code WHERE p.size > 5)",
    "pid IN (SELECT pid FROM stays WHERE site IN (SELECT code FROM sites WHERE size > 5))",
    "site IN (SELECT code FROM sites WHERE size > 5)",
    "site NOT IN (SELECT code FROM sites WHERE size > 5 AND code IS NOT NULL)",
    "CASE WHEN site IN (SELECT code FROM sites) THEN 1 ELSE 0 END = 0",
    "pid IN (SELECT pid FROM stays) AND site IN (SELECT code FROM sites WHERE name = 'north')",
)


def wide(seed: int) -> World:
    """Hostile rows under limits that cut nothing."""
    world = make_world(Random(seed))
    limits: dict[str, Any] = {"rows_per_unit": 100, "groups_per_unit": None}
    return replace(world, visits=replace(world.visits, **limits), stays=replace(world.stays, **limits))


def planned(text: str, catalog: Catalog) -> Plan:
    plan = make_plan(read_sql(text, catalog), Pure(1))
    assert isinstance(plan, Plan)
    return plan


def counted(world: World, text: str, engine: Engine | None = None) -> int:
    plan = planned(text, world.catalog)
    (columns,) = arrange(plan, run(engine or world.engine(), cells_query(plan))).cells
    return int(columns[0][0])


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[tuple[World, Engine, duckdb.DuckDBPyConnection]]]:
    """Four, each with our engine and with plain DuckDB."""
    made = []
    for seed in (2, 5, 8, 11):
        world, plain = wide(seed), duckdb.connect()
        plain.register("visits", arrow_table(world.visit_rows))
        plain.register("stays", stays_frame(world.stay_rows))
        plain.register("sites", SITES)
        made.append((world, world.engine(), plain))
    yield made
    for _, engine, plain in made:
        engine.close()
        plain.close()


@pytest.mark.parametrize("condition", CONDITIONS)
def test_semi_join_means_what_duckdb_says(condition: str, worlds: Any) -> None:
    """The sub-query's NULLs are dropped first: here they are in DuckDB's text, and not needed in ours."""
    assert len(worlds) == 4
    for world, engine, plain in worlds:
        text = f"SELECT COUNT(*) FROM visits AS v WHERE ({condition})"
        ((truth,),) = plain.execute(f"{text} AND v.pid IS NOT NULL").fetchall()
        ours = text.replace(" AND pid IS NOT NULL", "").replace(" WHERE pid IS NOT NULL", "")
        assert counted(world, ours.replace(" AND code IS NOT NULL", ""), engine) == truth


JOINS = (
    "SEMI JOIN stays AS s ON v.pid = s.pid",
    "ANTI JOIN stays AS s ON s.pid = v.pid",
    "SEMI JOIN stays AS s USING (pid)",
    "ANTI JOIN stays AS s ON v.pid = s.pid AND s.nights > 1",
    "SEMI JOIN sites AS p ON v.site = p.code",
    "ANTI JOIN sites AS p ON v.site = p.code AND p.size > 5",
    "SEMI JOIN (SELECT pid FROM stays WHERE ward = 'a') AS s ON v.pid = s.pid",
)


@pytest.mark.parametrize("join", JOINS)
def test_semi_and_anti_joins_mean_what_duckdb_says(join: str) -> None:
    """A row without a value has no partner, so an anti-join keeps it."""
    for seed in (2, 5, 8, 11):
        world = wide(seed)
        with duckdb.connect() as plain:
            plain.register("visits", arrow_table(world.visit_rows))
            plain.register("stays", stays_frame(world.stay_rows))
            plain.register("sites", SITES)
            text = f"SELECT COUNT(*) FROM visits AS v {join}"
            ((truth,),) = plain.execute(f"{text} WHERE v.pid IS NOT NULL").fetchall()
        assert counted(world, text) == truth


def test_nulls_of_the_sub_query_are_dropped_first() -> None:
    """In SQL one NULL in a NOT IN leaves nothing; `sites` has two."""
    world = replace(wide(0), visit_rows=[(1, "F", 8, 1.0, 1, True, "oslo", None)] * 3)
    assert counted(world, "SELECT COUNT(*) FROM visits WHERE site NOT IN (SELECT code FROM sites)") == 3


def test_semi_join_keeps_limits_bounds_and_unit_bounds() -> None:
    world = make_world(Random(1))
    plain = planned("SELECT sex, SUM(cost), COUNT(*) FROM visits GROUP BY sex", world.catalog)
    for condition in CONDITIONS:
        asked = f"SELECT sex, SUM(cost), COUNT(*) FROM visits v WHERE {condition} GROUP BY sex"
        plan = planned(asked, world.catalog)
        assert plan.table.rows_per_unit == plain.table.rows_per_unit
        assert plan.table.groups_per_unit == plain.table.groups_per_unit
        assert [m.mechanism for m in plan.measures] == [m.mechanism for m in plain.measures]


def test_identity_holds_the_versions_of_all_tables_read() -> None:
    world = make_world(Random(1))
    text = "SELECT COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM stays) AND site IN (SELECT code FROM sites)"
    known = {read_sql(text, world.catalog).facts}
    for table in ("visits", "stays", "sites"):
        changed = replace(world, **{table: replace(getattr(world, table), version="2")})
        known.add(read_sql(text, changed.catalog).facts)
    assert len(known) == 4


def test_sub_query_written_twice_is_one_key() -> None:
    world = make_world(Random(1))
    key = "pid IN (SELECT pid FROM stays)"
    assert len(read_sql(f"SELECT {key} AS k, COUNT(*) FROM visits GROUP BY {key}", world.catalog).keys) == 1


@pytest.mark.parametrize(
    "key",
    [
        "pid IN (SELECT pid FROM stays)",
        "v.pid NOT IN (SELECT pid FROM stays GROUP BY pid HAVING COUNT(*) > 1)",
        "EXISTS (SELECT 1 FROM stays s WHERE s.pid = v.pid)",
    ],
)
def test_a_unit_has_rows_or_not_and_group_by_all_groups_by_it(key: str) -> None:
    """NULL is no group: every row that counts has a unit."""
    world = make_world(Random(1))
    plan = planned(f"SELECT {key} AS k, COUNT(*) AS n FROM visits v GROUP BY ALL", world.catalog)
    assert plan.domain == ((False, True),)


REFUSED = (
    ("sex IN (SELECT ward FROM stays)", "join-not-on-unit"),
    ("pid IN (SELECT site FROM stays)", "join-not-on-unit"),
    ("site IN (SELECT pid FROM stays)", "join-not-on-unit"),
    ("pid + 0 IN (SELECT pid FROM stays)", "join-not-on-unit"),
    ("sex IN (SELECT sex FROM visits GROUP BY sex HAVING COUNT(*) > 5)", "released-numbers"),
    ("pid IN (SELECT pid, site FROM stays)", "wrong-argument"),
    ("pid IN (SELECT pid FROM stays ORDER BY nights LIMIT 3)", "row-choice"),
    ("EXISTS (SELECT 1 FROM stays)", "join-not-on-unit"),
    ("EXISTS (SELECT 1 FROM stays s WHERE s.site = v.site)", "join-not-on-unit"),
    ("EXISTS (SELECT 1 FROM stays s WHERE s.pid <> v.pid)", "join-not-on-unit"),
    ("EXISTS (SELECT 1 FROM stays s WHERE s.pid = v.pid AND s.site = v.site)", "join-not-on-unit"),
    ("EXISTS (SELECT 1 FROM stays s WHERE s.pid = v.pid OR s.site = 1)", "join-not-on-unit"),
    ("EXISTS (SELECT 1 FROM stays s WHERE s.nights = v.pid)", "join-not-on-unit"),
    ("EXISTS (SELECT COUNT(*) FROM stays s WHERE s.pid = v.pid)", "wrong-argument"),
    ("EXISTS (SELECT 1 FROM stays WHERE pid = pid)", "join-not-on-unit"),
    (
        "EXISTS (SELECT 1 FROM stays s WHERE s.pid = v.pid AND s.site IN (SELECT code FROM sites WHERE size > v.site))",
        "unknown-table",
    ),
    (
        "EXISTS (SELECT 1 FROM stays s WHERE s.pid = v.pid AND s.site IN (SELECT code FROM sites WHERE sick))",
        "unknown-column",
    ),
    ("EXISTS (SELECT 1 FROM sites p WHERE p.code = v.site)", "unsupported-join"),
    ("pid = ANY (SELECT pid FROM stays)", "unsupported-function"),
    ("cost > (SELECT AVG(cost) FROM visits)", "unsupported-function"),
)


@pytest.mark.parametrize(("condition", "code"), REFUSED)
def test_every_other_correlation_is_refused(condition: str, code: str) -> None:
    refused = attempt(read_sql, f"SELECT COUNT(*) FROM visits v WHERE {condition}", make_world(Random(1)).catalog)
    assert isinstance(refused, Refused)
    assert refused.code == code
    assert str(refused).endswith("Nothing was charged.")


@pytest.mark.parametrize(
    "condition", ["pid IN (SELECT pid FROM stays)", "EXISTS (SELECT 1 FROM stays s WHERE s.pid = v.pid)"]
)
def test_rows_that_are_units_have_no_semi_join_with_private_tables(condition: str) -> None:
    catalog = make_world(Random(1), by_row=True).catalog
    refused = attempt(read_sql, f"SELECT COUNT(*) FROM visits v WHERE {condition}", catalog)
    assert isinstance(refused, Refused)
    assert refused.code == "join-not-on-unit"


@pytest.mark.parametrize(
    "clause", ["HAVING sex IN (SELECT name FROM sites)", "ORDER BY sex IN (SELECT name FROM sites)"]
)
def test_semi_join_above_the_aggregation_is_refused(clause: str) -> None:
    text = f"SELECT sex, COUNT(*) FROM visits GROUP BY sex {clause}"
    assert isinstance(attempt(read_sql, text, make_world(Random(1)).catalog), Refused)


def test_ibis_asks_the_same_questions() -> None:
    catalog = make_world(Random(1)).catalog
    visits, stays, sites = (unbound_table(catalog.table(name)) for name in ("visits", "stays", "sites"))
    in_stays = visits.filter(visits.pid.isin(stays.filter(stays.nights > 0).pid)).count()
    not_in = visits.filter(visits.site.notin(sites.filter(sites["size"] > 5).code)).count()
    assert (
        read_ibis(in_stays, catalog).facts
        == read_sql(f"SELECT COUNT(*) FROM visits v WHERE {CONDITIONS[0]}", catalog).facts
    )
    text = "SELECT COUNT(*) FROM visits WHERE site NOT IN (SELECT code FROM sites WHERE size > 5)"
    assert read_ibis(not_in, catalog).facts == read_sql(text, catalog).facts
    semi = visits.semi_join(stays, "pid").count()
    anti = visits.anti_join(stays, visits.pid == stays.pid).count()
    assert read_ibis(semi, catalog).table.rows_per_unit == catalog.table("visits").rows_per_unit
    assert read_ibis(anti, catalog).facts != read_ibis(semi, catalog).facts
    for refused in (visits.semi_join(stays, "site").count(), visits.filter(visits.sex.isin(stays.ward)).count()):
        found = attempt(read_ibis, refused, catalog)
        assert isinstance(found, Refused)
        assert found.code == "join-not-on-unit"
