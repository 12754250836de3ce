"""What questions that differ only in WHERE have in common is what each of them would get by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lapwing.asking.pricing import Terms, outline_on_terms, price_on_terms
from lapwing.catalog.likeness import likeness
from lapwing.catalog.table import Catalog
from lapwing.cells.checking import check_target
from lapwing.curator import drafts as drafts_module
from lapwing.curator.drafts import Draft, Drafts
from lapwing.errors import Misconfigured, Refused
from lapwing.language.expression import Column
from lapwing.language.holes import Looked, Unseen
from lapwing.language.types import Type
from lapwing.planning.question import Question
from lapwing.privacy.budget import Budget
from lapwing.reading.sql import read_sql
from lapwing.reading.sql.shapes import ShapeReader
from support.questions import CONDITIONS, make_question, make_table

PACKAGE = Path(drafts_module.__file__).parent.parent
LEVELS = (Fraction(19, 20), Fraction(1, 2))
BUDGETS = (Budget(epsilon=3), Budget(epsilon=3, delta=1e-6), Budget(epsilon=3, delta=1e-6, accounting="basic"))
TERMS = (
    Terms(epsilon=0.1),
    Terms(epsilon=1),
    Terms(epsilon=1.0),
    Terms(epsilon=Fraction(1, 3)),
    Terms(epsilon=Decimal("0.25")),
    Terms(share=0.1),
    Terms(epsilon=0.1, delta=1e-9),
    Terms(epsilon=0.1, taken=Fraction(1, 10**6)),
    Terms(epsilon=True),
    Terms(epsilon=0.0),
    Terms(),
    Terms(within=50),
    Terms(epsilon=0.1, intervals=False),
)


def told(work: Callable[[], Any]) -> Any:
    """All that a value is made of, or all that an error says."""
    try:
        made = work()
    except (Refused, Misconfigured) as error:
        return type(error), str(error)
    return None if made is None else (likeness(made), repr(made))


def by_itself(question: Question, budget: Budget, terms: Terms, level: Fraction, left: Fraction) -> list[Any]:
    outline = told(lambda: outline_on_terms(question, terms, level))
    if isinstance(outline[0], type):
        return [outline]
    made = outline_on_terms(question, terms, level)
    plan = told(lambda: price_on_terms(made, budget, terms, level, lambda: left))
    return [outline, told(lambda: check_target(made)), plan]


def from_draft(
    found: Drafts, question: Question, budget: Budget, terms: Terms, level: Fraction, left: Fraction
) -> list[Any]:
    try:
        draft = found.find(question, terms, level)
    except (Refused, Misconfigured) as error:
        return [(type(error), str(error))]
    if draft is None:
        return by_itself(question, budget, terms, level, left)
    outline = draft.outline_of(question)
    plan = told(lambda: draft.plan(outline, budget, terms, level, lambda: left))
    return [told(lambda: outline), told(lambda: draft.target), plan]


def questions(seed: int) -> Iterator[Question]:
    """Questions that share their parts, and others that are only equal in them or differ in one."""
    random = Random(seed)
    table = make_table(random, by_row=seed % 2 == 0)
    catalog = Catalog((table,))
    text = make_question(random, table)
    try:
        first = read_sql(text, catalog)
    except Refused:
        return
    for condition in random.sample(CONDITIONS, 3):
        where = read_sql(f"SELECT COUNT(*) FROM visits WHERE {condition}", catalog).where
        yield replace(first, where=where)
    yield read_sql(text, catalog)
    yield replace(first, table=replace(first.table, rows_per_unit=3))
    yield replace(first, limit=2)
    yield replace(first, notes=("a note",))
    yield replace(first, where=None)


def assert_drafts_are_what_is_made_alone(seeds: range) -> int:
    shared, random = 0, Random(1)
    for budget in BUDGETS:
        found, seen = Drafts(), {}
        for seed in seeds:
            for question in questions(seed):
                for terms in random.sample(TERMS, 4):
                    level, left = random.choice(LEVELS), Fraction(random.choice([1, 2, 3]), 10**7)
                    alone = by_itself(question, budget, terms, level, left)
                    assert from_draft(found, question, budget, terms, level, left) == alone
                    seen.update(found._known)  # also those that it forgets
        shared += sum(isinstance(draft, Draft) for draft in seen.values())
    return shared


def test_drafts_are_what_is_made_for_the_question_alone() -> None:
    """threat:A12 random questions with many conditions, budgets of three kinds, prices of every type, and refusals."""
    assert assert_drafts_are_what_is_made_alone(range(8)) > 40


@pytest.mark.slow
def test_many_more_drafts_are_what_is_made_for_the_question_alone() -> None:
    assert assert_drafts_are_what_is_made_alone(range(100, 220)) > 300


def test_questions_of_one_shape_share_a_draft_and_its_plans() -> None:
    reader, found = ShapeReader(Catalog((make_table(Random(1), by_row=False),))), Drafts()
    asked = [reader.read(f"SELECT sex, SUM(cost) AS s FROM visits WHERE age < {i} GROUP BY sex") for i in range(5)]
    made = [found.find(question, TERMS[0], LEVELS[0]) for question in asked[1:]]
    assert made[0] is not None
    assert all(draft is made[0] for draft in made)
    for draft, question in zip(made, asked[1:], strict=True):
        assert draft is not None
        plan = draft.plan(draft.outline_of(question), BUDGETS[0], TERMS[0], LEVELS[0], lambda: Fraction(0))
        assert plan.question is question
        assert len(draft._plans) == 1


def test_a_question_without_where_has_a_draft_of_its_own() -> None:
    table = make_table(Random(1), by_row=False)
    question, found = read_sql("SELECT sex, SUM(cost) AS s FROM visits GROUP BY sex", Catalog((table,))), Drafts()
    draft = found.find(question, TERMS[0], LEVELS[0])
    assert draft is not None
    assert found.find(question, TERMS[0], LEVELS[0]) is draft
    assert draft.outline_of(question) is draft.outline_of(question)
    assert draft.outline_of(question).question is question
    where = read_sql("SELECT COUNT(*) AS n FROM visits WHERE age > 1", Catalog((table,))).where
    other = found.find(replace(question, where=where), TERMS[0], LEVELS[0])
    assert other is not None
    assert other is not draft
    assert found.find(question, TERMS[0], LEVELS[0]) is draft


def test_what_follows_from_the_delta_that_is_left_is_not_kept() -> None:
    table = replace(make_table(Random(1), by_row=False), groups_per_unit=3)
    question = read_sql("SELECT town, COUNT(*) AS n FROM visits WHERE age > 1 GROUP BY town", Catalog((table,)))
    draft = Drafts().find(question, TERMS[0], LEVELS[0])
    assert draft is not None
    plans = [
        draft.plan(draft.outline_of(question), BUDGETS[1], TERMS[0], LEVELS[0], lambda left=left: Fraction(left, 10**7))
        for left in (1, 4)
    ]
    assert plans[0].loss.delta < plans[1].loss.delta
    assert draft._plans == {}


def test_a_plan_that_looks_at_where_is_made_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a rule of plans ever look at the condition, nothing is shared from then on."""

    def looking(question: Question, *more: Any) -> Any:
        assert isinstance(question.where, Column) or question.where is not None
        return outline_on_terms(question, *more)

    monkeypatch.setattr(drafts_module, "outline_on_terms", looking)
    question = read_sql(
        "SELECT COUNT(*) AS n FROM visits WHERE age > 1", Catalog((make_table(Random(1), by_row=False),))
    )
    assert Drafts().find(question, TERMS[0], LEVELS[0]) is None


@pytest.mark.parametrize(
    "look",
    [
        lambda unseen: isinstance(unseen, Column),
        lambda unseen: unseen == Column("a", Type.TEXT),
        lambda unseen: Column("a", Type.TEXT) == unseen,
        lambda unseen: unseen.type,
        lambda unseen: unseen.__class__,
        lambda unseen: bool(unseen),
        hash,
        repr,
        str,
        lambda unseen: {unseen},
    ],
)
def test_whoever_looks_at_what_is_unseen_is_stopped(look: Callable[[Any], object]) -> None:
    with pytest.raises(Looked):
        look(Unseen())
    assert Unseen() is not None


def test_no_rule_of_plans_asks_for_the_type_of_an_expression() -> None:
    """What `type` says of a value cannot be stopped: it may be asked of mechanisms and prices alone."""
    rooms = [path for room in ("planning", "measures", "asking") for path in (PACKAGE / room).glob("*.py")]
    asked = [ask for path in rooms for ask in re.findall(r"(?<![\w.])type\(([^()]*)", path.read_text())]
    assert set(asked) == {"selection", "measure.noise", "_noisy"}


def test_no_more_is_remembered_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts_module, "REMEMBERED", 3)
    catalog, found = Catalog((make_table(Random(1), by_row=False),)), Drafts()
    for number in range(10):
        question = read_sql(f"SELECT COUNT(*) AS n{number} FROM visits WHERE age > 1", catalog)
        draft = found.find(question, TERMS[0], LEVELS[0])
        assert draft is not None
        for price in range(1, 6):
            draft.plan(draft.outline_of(question), BUDGETS[0], Terms(epsilon=price), LEVELS[0], lambda: Fraction(0))
        assert max(len(found._known), len(draft._plans)) <= 3
