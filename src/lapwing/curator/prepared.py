"""What was prepared before: questions that differ only in WHERE share their rehearsal, and their text but for WHERE.

Guarantee:  the text is, letter by letter, the one that the engine writes for the plan; and a rehearsal is left out only
            where an equal one went well.
Proof:      a text and a rehearsal are found again by the identity of the outline with a mark in place of WHERE, by the
            steps of its measures and by an equal table: that is all they follow from but WHERE, which no rehearsal
            reads, and which stands in every query once, in brackets of its own. Where the mark is not found once, as
            where an analyst wrote it, and for tables that are made here, whose columns an identity knows by their place
            and a text by their name, everything is written in full. The salt is that of the one engine.
Checked by: tests/curator/test_prepared.py
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from lapwing.answers.prices import terms_of
from lapwing.answers.rehearsal import rehearse
from lapwing.catalog.identity import Facts, expression_facts
from lapwing.catalog.table import Table
from lapwing.cells.bounding import Queries, queries
from lapwing.curator.planner import REMEMBERED
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.engine import Engine
from lapwing.language.emission import emit
from lapwing.language.expression import Column, Expression
from lapwing.language.types import Type
from lapwing.measures.columns import source
from lapwing.planning.plan import Plan
from lapwing.planning.question import Question

_MARK = Column("lw_where", Type.BOOLEAN)
_FEW = 1000  # groups: the identity of more takes longer than it saves


@dataclass(frozen=True, slots=True)
class _Shape:
    """What was prepared for plans of one identity."""

    table: Table
    made: Queries
    rehearsed: set[Hashable] = field(default_factory=set)


class Prepared:
    """The queries of plans as the engine runs them, after an answer from no rows."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._mark = engine, _written(engine, _MARK).text
        self._shapes: dict[Hashable, _Shape] = {}

    def queries(self, plan: Plan) -> Queries:
        """The queries of a plan as the engine runs them."""
        return self._queries(plan, self._shape(plan))

    def rehearsed(self, plan: Plan, confidence: Fraction, questions: Sequence[Question]) -> Queries:
        """The same, after the questions were answered without rows; raises what would go wrong after a charge."""
        shape = self._shape(plan)
        made = self._queries(plan, shape)
        seen = None if shape is None else (terms_of(plan.prices), confidence, tuple(map(_above, questions)))
        if shape is None or seen not in shape.rehearsed:
            rehearse(plan, confidence, questions)
        if shape is not None and len(shape.rehearsed) < REMEMBERED:
            shape.rehearsed.add(seen)
        return made

    def _queries(self, plan: Plan, shape: _Shape | None) -> Queries:
        where = plan.question.where
        if shape is None or where is None:
            return self._in_full(plan) if shape is None else shape.made
        return self._remembered(plan, lambda: self._filled(plan, where, shape.made)).made

    def _filled(self, plan: Plan, where: Expression, shape: Queries) -> Queries:
        """The queries of a shape with this WHERE."""
        written = _written(self._engine, where)
        made = [query for query in (shape.cells, *(query for _, query in shape.others)) if query is not None]
        if written.tables or not all(self._is_marked(query) for query in made):
            return self._in_full(plan)
        return shape.prepared(
            lambda query: self._engine.prepare(replace(query, text=query.text.replace(self._mark, written.text)))
        )

    def _is_marked(self, query: exp.Select | EngineQuery) -> bool:
        return isinstance(query, EngineQuery) and query.text.count(self._mark) == 1

    def _in_full(self, plan: Plan) -> Queries:
        return queries(plan).prepared(self._engine.prepare)

    def _shape(self, plan: Plan) -> _Shape | None:
        """The plan with a mark in place of WHERE; None if everything about it is made anew."""
        question = plan.question
        if question.table.source is not None or (plan.group_count or 0) > _FEW:
            return None
        marked = None if question.where is None else _MARK
        bare = replace(plan, outline=replace(plan.outline, question=replace(question, where=marked)))
        return self._remembered(bare, lambda: self._in_full(bare))

    def _remembered(self, plan: Plan, make: Callable[[], Queries]) -> _Shape:
        name = plan.outline.identity.text, tuple(str(measure.step) for measure in plan.measures)
        kept = self._shapes.get(name)
        if kept is not None and kept.table == plan.table:
            return kept
        if len(self._shapes) >= REMEMBERED:
            self._shapes.clear()
        made = self._shapes[name] = _Shape(plan.table, make())
        return made


def _written(engine: Engine, where: Expression) -> EngineQuery:
    """WHERE as it stands in a query, in brackets."""
    return engine.dialect.write(exp.Paren(this=emit(where, source)))


def _above(question: Question) -> Facts:
    """All that stands above the aggregation."""
    table = question.table
    outputs = tuple((output.name, expression_facts(output.expression, table)) for output in question.outputs)
    order = tuple((expression_facts(by.expression, table), by.descending) for by in question.order)
    return outputs, expression_facts(question.having, table), order, question.limit
