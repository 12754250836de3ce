"""Random questions on Spark, over joins, unions and sub-queries per unit: neighbours, and the same cells as DuckDB.

Spark interprets here instead of compiling each query, which takes longer than a dozen rows; the law of every form is
tested compiled (test_dialect.py).
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from cells.test_neighbours import arranged, assert_within_sensitivity, weights
from cells.test_relations_neighbours import asked
from lapwing.measures.quantiles import QuantilesKind
from support.cells import exact_cells
from support.hosts import SparkHost
from support.questions import arrow_table
from support.relations import SHAPES, SITES, World, make_world, stays_frame

SEEDS, QUESTIONS = 10, 5
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
ROUNDED = ("LN(",)
"""Whose last bit may differ between libraries."""


@pytest.fixture
def host(spark: Any) -> SparkHost:
    session = spark.newSession()
    for name, value in INTERPRETED.items():
        session.conf.set(name, value)
    return SparkHost(session)


def engine_on(host: SparkHost, world: World) -> Any:
    frames = [(world.visits, arrow_table(world.visit_rows)), (world.stays, stays_frame(world.stay_rows))]
    return host.engine([*frames, (world.sites, SITES)])


def check_neighbours(host: SparkHost, seed: int) -> int:
    random = Random(seed)
    by_row = random.random() < 0.2
    world = make_world(random, by_row=by_row)
    smaller = world.without_row(0) if by_row and world.visit_rows else world.without(1)
    shapes = [shape for shape in SHAPES if not (by_row and shape.private)]
    engines = [engine_on(host, one) for one in (world, smaller)]
    for _ in range(QUESTIONS):
        text, plan = asked(random, random.choice(shapes), world)
        left, right = arranged(plan, engines)
        assert_within_sensitivity(plan, left, right, text)
    return QUESTIONS


@pytest.mark.parametrize("seed", range(SEEDS))
def test_neighbours_differ_by_no_more_than_the_sensitivity(host: SparkHost, seed: int) -> None:
    """threat:A34 gate:G10 50 questions over hostile rows."""
    assert check_neighbours(host, seed) == QUESTIONS


@pytest.mark.slow
@pytest.mark.parametrize("ten", range(1, 11))
def test_many_more_neighbours_differ_by_no_more_than_the_sensitivity(host: SparkHost, ten: int) -> None:
    """threat:A34 500 questions."""
    assert sum(check_neighbours(host, seed) for seed in range(10 * ten, 10 * (ten + 1))) == 10 * QUESTIONS


def unlimited(world: World) -> World:
    """Limits that no unit exceeds: then the choice of groups and rows, which engines make differently, is none."""
    visits, stays = (replace(table, rows_per_unit=500, groups_per_unit=500) for table in (world.visits, world.stays))
    return replace(world, visits=visits, stays=stays)


def shown(plan: Any, engine: Any) -> list[Any]:
    found = exact_cells(engine, plan)
    keys = list(zip(*found.keys, strict=True)) if found.keys else None
    parts: list[Any] = [keys, None if found.units is None else found.units.tolist()]
    for place, measure in enumerate(plan.measures):
        if isinstance(measure.kind, QuantilesKind):
            parts.append(weights(found, place))
        else:
            parts.append([column.tolist() for column in found.cells[place]])
    return parts


@pytest.mark.parametrize("seed", range(4))
def test_cells_are_those_of_duckdb_where_no_unit_exceeds_a_limit(host: SparkHost, seed: int) -> None:
    random = Random(1000 + seed)
    world = unlimited(make_world(random))
    mine, other = engine_on(host, world), world.engine()
    for _ in range(QUESTIONS):
        text, plan = asked(random, random.choice(SHAPES), world)
        if not any(name in text for name in ROUNDED):
            assert shown(plan, mine) == shown(plan, other), text
