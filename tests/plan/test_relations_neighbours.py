"""The grey-box test over joins, unions and sub-queries per unit: every aggregate, every budget, known and unknown keys.

The same question on tables and on the same tables without one unit; cells, keys and the units behind a selection may
differ by no more than the plan says. Exact integers throughout.
"""

from __future__ import annotations

from random import Random

import pytest

from lapwing.curator.pricing import Terms, plan_on_terms
from lapwing.mechanisms.cells import NoisyCells
from lapwing.plan.aggregates import FUNCTIONS
from lapwing.plan.moments import MomentsKind, PairKind
from lapwing.plan.plan import Plan
from lapwing.plan.quantiles import QuantilesKind
from lapwing.plan.question import Question
from lapwing.plan.total import DistinctKind, TotalKind
from lapwing.sql import read_sql
from plan.test_neighbours import BASIC, PURE, ZCDP, arranged, assert_within_sensitivity
from support.relations import SHAPES, Shape, World, make_question, make_world
from support.sweeps import sweep

SEEDS, QUESTIONS = 30, 10


def asked(random: Random, shape: Shape, world: World) -> tuple[str, Plan]:
    """A question and its plan. Keys that are not public are selected where the tables limit the groups of a unit."""
    hidden = random.random() < 0.3
    text = make_question(random, shape, hidden=hidden)
    question = read(text, world)
    if hidden and not question.table.by_row and question.table.groups_per_unit is None:
        hidden, text = False, make_question(random, shape)
        question = read(text, world)
    budget = random.choice([ZCDP, BASIC] if hidden else [PURE, ZCDP, BASIC])
    terms = Terms(epsilon=random.choice([0.1, 1, 2]))
    plan = plan_on_terms(question, budget, terms, question.table.confidence, lambda: budget.capacity.delta)
    assert isinstance(plan, Plan), f"{text}: {plan}"
    return text, plan


def read(text: str, world: World) -> Question:
    question = read_sql(text, world.catalog)
    assert isinstance(question, Question), f"{text}: {question}"
    return question


def check_neighbours(seed: int) -> list[Plan]:
    """Ten questions, on tables and on the same tables without one unit."""
    random = Random(seed)
    by_row = random.random() < 0.2
    world = make_world(random, by_row=by_row)
    rows = len(world.visit_rows)
    smaller = [world.without_row(i) for i in range(min(rows, 2))] if by_row else [world.without(u) for u in (1, 2)]
    shapes = [shape for shape in SHAPES if not (by_row and shape.private)]
    engines = [one.engine() for one in (world, *smaller)]
    plans = []
    for _ in range(QUESTIONS):
        text, plan = asked(random, random.choice(shapes), world)
        left, *others = arranged(plan, engines)
        for right in others:
            assert_within_sensitivity(plan, left, right, text)
        plans.append(plan)
    return plans


@pytest.mark.parametrize("seed", sweep(range(SEEDS), 4))
def test_neighbours_differ_by_no_more_than_the_sensitivity(seed: int) -> None:
    """threat:A34 gate:G10 40 questions (300 with the slow ones) over joins, unions and sub-queries per unit."""
    assert len(check_neighbours(seed)) == QUESTIONS


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 11))
def test_many_more_neighbours_differ_by_no_more_than_the_sensitivity(hundred: int) -> None:
    """threat:A34 10,000 questions."""
    assert sum(len(check_neighbours(seed)) for seed in range(100 * hundred, 100 * (hundred + 1))) == 100 * QUESTIONS


def test_the_questions_hold_every_aggregate_and_every_noise() -> None:
    """So that the tests above have power: planned only, nothing is read."""
    plans = []
    for seed in range(12):
        random = Random(seed)
        world = make_world(random)
        plans += [asked(random, shape, world)[1] for shape in SHAPES]
    assert {a.name for plan in plans for a in plan.question.aggregates} == set(FUNCTIONS)
    measures = [measure for plan in plans for measure in plan.measures]
    assert {type(m.kind) for m in measures} == {TotalKind, MomentsKind, PairKind, DistinctKind, QuantilesKind}
    made = [m.mechanism.noise if isinstance(m.mechanism, NoisyCells) else m.mechanism for m in measures]
    assert {type(one).__name__ for one in made} == {"Laplace", "Gaussian", "CellQuantiles", "NoneType"}
    assert {plan.outline.domain is None for plan in plans} == {False, True}


def flooded(*, victim: bool) -> World:
    random = Random(4)
    world = make_world(random)
    visits = [(unit, "F", 1, 1.0, 1, True, "oslo", None) for unit in range(2, 20)]
    stays = [(unit, 1, 1, 1.0, "a") for unit in range(2, 20)]
    if victim:
        visits += [(1, "FM"[i % 2], i % 3 + 1, 1e300, 40, True, f"t{i}", None) for i in range(1000)]
        stays += [(1, i % 3 + 1, 99, -1e300, "ab"[i % 2]) for i in range(1000)]
    return World(world.visits, world.stays, world.sites, visits, stays)


@pytest.mark.parametrize("number", [i for i in range(len(SHAPES)) if i != 9])
def test_a_victim_with_a_thousand_rows_on_both_sides_stays_within_its_limits(number: int) -> None:
    """threat:A34 a million joined rows of one unit count as one unit's."""
    full, rest = flooded(victim=True), flooded(victim=False)
    text, plan = asked(Random(number), SHAPES[number], full)
    left, right = arranged(plan, [full.engine(), rest.engine()])
    assert_within_sensitivity(plan, left, right, text)
