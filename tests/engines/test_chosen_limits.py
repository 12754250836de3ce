"""Limits that a question chooses, on tables with and without one unit: cells differ by no more than the plan says."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from itertools import combinations_with_replacement
from random import Random

import pyarrow as pa
import pytest

from lapwing.curator.chosen_limits import ChosenLimits
from lapwing.curator.planner import Planner
from lapwing.curator.request import QuestionRequest, make_request
from lapwing.errors import Refused
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Interval, Type
from lapwing.ledger import open_ledger
from lapwing.plan.plan import Plan
from lapwing.privacy import Budget
from plan.test_neighbours import assert_within_sensitivity
from support.cells import exact_cells
from support.hosts import DuckDBHost, Host
from support.questions import arrow_table, bounds, catalog, make_question, make_rows, make_table, without
from support.relations import SHAPES, SITES, make_world, stays_frame
from support.relations import make_question as make_related

PURE, ZCDP = Budget(epsilon=2), Budget(epsilon=2, delta=1e-6)
BASIC = Budget(2, 1e-6, accounting="basic")


def planned(text: str, known: Catalog, budget: Budget, chosen: ChosenLimits) -> Plan:
    """The plan that a curator makes, through the terms of a question."""
    named = {name: (ends.low, ends.high) for name, ends in chosen.bounds}
    terms = {"rows": chosen.rows, "groups": chosen.groups, "bounds": named, "epsilon": 1, "check": 0}
    request = make_request(QuestionRequest(text), terms)
    with open_ledger(None, budget) as ledger:
        return Planner(known, ledger, check=Fraction(0)).plan(QuestionRequest(text), request).plan


def choose(random: Random, *, by_row: bool) -> ChosenLimits:
    """Below, at and above what is declared, and what units really have."""
    intervals = [bounds(0, 1), bounds(-1, 2), bounds(-50, 50), bounds(3, 3)]
    named = [(name, random.choice(intervals)) for name in ("age", "cost") if random.random() < 0.5]
    if by_row:
        return ChosenLimits(bounds=tuple(named))
    rows, groups = random.choice([None, 1, 2, 3, 7]), random.choice([None, 1, 2, 3, 9])
    return ChosenLimits(rows, groups, tuple(named))


def check_neighbours(host: Host, seeds: Iterable[int]) -> int:
    asked = 0
    for seed in seeds:
        random = Random(1_000 + seed)
        by_row = random.random() < 0.2
        table = make_table(random, by_row=by_row)
        rows = [row for _ in range(3) for row in make_rows(random)]
        fewer = rows[1:] if by_row else without(rows, 1)
        engines = [host.engine([(table, arrow_table(some))]) for some in (rows, fewer)]
        for _ in range(10):
            text, chosen = make_question(random, table), choose(random, by_row=by_row)
            budget = random.choice([ZCDP, BASIC] if "town" in text or "day" in text else [PURE, ZCDP, BASIC])
            plan = None
            with suppress(Refused):  # with some of these bounds the answer is known without asking
                plan = planned(text, catalog(table), budget, chosen)
            if plan is None:
                continue
            asked += 1
            assert chosen.groups is None or plan.groups_per_unit <= chosen.groups
            assert chosen.rows is None or plan.table.row_limit == chosen.rows
            first, second = (exact_cells(engine, plan) for engine in engines)
            assert_within_sensitivity(plan, first, second, f"{chosen}: {text}")
        for engine in engines:
            engine.close()
    return asked


def check_related(host: Host, seeds: Iterable[int]) -> int:
    asked = 0
    for seed in seeds:
        random = Random(2_000 + seed)
        world = make_world(random)
        engines = []
        for one in (world, world.without(1)):
            rows = [(world.visits, arrow_table(one.visit_rows)), (world.stays, stays_frame(one.stay_rows))]
            engines.append(host.engine([*rows, (world.sites, SITES)]))
        for _ in range(10):
            chosen = choose(random, by_row=False)
            text = make_related(random, random.choice(SHAPES))
            with suppress(Refused):  # every row of some joined tables is a unit, or no noise of that size can be drawn
                plan = planned(text, world.catalog, random.choice([PURE, ZCDP]), chosen)
                assert chosen.groups is None or plan.groups_per_unit <= chosen.groups
                assert chosen.rows is None or (plan.table.row_limit or 0) <= chosen.rows
                first, second = (exact_cells(engine, plan) for engine in engines)
                assert_within_sensitivity(plan, first, second, f"{chosen}: {text}")
                asked += 1
        for engine in engines:
            engine.close()
    return asked


def test_neighbours_differ_by_no_more_than_the_plan_says_whatever_limits_are_chosen(suite_host: Host) -> None:
    """threat:A4 threat:A34"""
    assert check_neighbours(suite_host, range(max(1, suite_host.quick // 10))) > 5
    assert check_related(suite_host, range(1))


@pytest.mark.slow
def test_many_neighbours_do_too(suite_host: Host) -> None:
    """threat:A4 threat:A34"""
    check_neighbours(suite_host, range(10, 10 + suite_host.questions // 4))
    check_related(suite_host, range(10, 10 + suite_host.questions // 4))


TINY = Table(
    "t",
    (Field("id", Type.INTEGER), Field("g", Type.INTEGER, values=(1, 2)), Field("x", Type.INTEGER, bounds(0, 9))),
    "id",
    rows_per_unit=9,
    groups_per_unit=2,
)
ROWS = [(group, x) for group in (1, 2) for x in (-4, 3)]
CHOSEN = [(1, 1, (0, 2)), (2, 1, (-1, 2)), (2, 2, (-3, 0))]


@pytest.mark.parametrize(("rows", "groups", "ends"), CHOSEN)
def test_the_sensitivity_is_what_every_small_unit_shows(rows: int, groups: int, ends: tuple[int, int]) -> None:
    """Each set of up to four rows is a unit of its own, asked for by itself; most exceed each limit."""
    chosen = ChosenLimits(rows, groups, (("x", Interval(Fraction(ends[0]), Fraction(ends[1]))),))
    units = [held for size in range(1, 5) for held in combinations_with_replacement(ROWS, size)]
    stored = [(unit, *row) for unit, held in enumerate(units) for row in held]
    columns = dict(zip(("id", "g", "x"), map(list, zip(*stored, strict=True)), strict=True))
    engine, most = DuckDBHost().engine([(TINY, pa.table(columns))]), [0, 0]
    for unit in range(len(units)):
        text = f"SELECT g, COUNT(*) AS n, SUM(x) AS s FROM t WHERE id = {unit} GROUP BY g"
        plan = planned(text, Catalog((TINY,)), PURE, chosen)
        cells = exact_cells(engine, plan).cells
        most = [max(a, sum(map(abs, column.tolist()))) for a, (column,) in zip(most, cells, strict=True)]
    engine.close()
    assert sorted(most) == sorted([rows * groups, rows * groups * max(map(abs, ends))])
    assert most == [measure.noise.sensitivity for measure in plan.measures]
