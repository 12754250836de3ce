"""Cache of engine queries and rehearsals. Plans that differ only in WHERE share the rest of their text.

Guarantee:  the text is, letter by letter, the one written for the plan by itself; and a rehearsal is skipped only if an
            indistinguishable one succeeded.
Proof:      text and rehearsal are made from a plan with a mark in place of its WHERE, so nothing else can reach them,
            and are kept under the structural key of that whole plan: selection, prices, limits, bounds and all
            (structural_key.py). The mark stands where the WHERE would, in brackets of its own, and the text of an
            expression does not depend on what surrounds it, so the WHERE is written in its place. If the mark does not
            occur exactly once, as when an analyst wrote it too, and for plans without a structural key, everything is
            written in full. Salt and dialect are those of the one engine.
Checked by: tests/curator/test_query_cache.py, tests/engines/test_again.py
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from lapwing.answers.rehearsal import rehearse
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.engine import Engine
from lapwing.errors import Bug
from lapwing.expressions.expression import Literal
from lapwing.expressions.operators.base import call
from lapwing.expressions.operators.logic import IS_NULL
from lapwing.expressions.structural_key import likeness
from lapwing.expressions.to_sqlglot import emit
from lapwing.expressions.types import Type
from lapwing.plan.plan import Plan
from lapwing.plan.query import Queries, queries
from lapwing.plan.question import Question
from lapwing.plan.row_values import source

REMEMBERED = 256
"""Plans without their WHERE."""
_MOST_VALUES = 1000  # of public keys: with more, the structural key of a plan takes longer than it saves
_MARK = call(IS_NULL, Literal("lw_where", Type.TEXT), part=lambda: "")
"""A condition that every engine reads, so that it checks a text with the mark as any other."""


class QueryCache:
    """The queries of plans as one engine runs them, rehearsed on an empty table."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mark = engine.dialect.write(emit(_MARK, source), copy=False).text
        self._templates: dict[Hashable, Queries | None] = {}
        """By structural key the queries with the mark; None where the mark is not unique."""
        self._rehearsed: set[Hashable] = set()

    def queries(self, plan: Plan) -> Queries:
        """The queries of a plan as the engine runs them."""
        bare = _bare_plan(plan)
        return self._queries(plan, bare, _key(bare))

    def rehearse(self, plan: Plan, confidence: Fraction, questions: Sequence[Question] | None = None) -> Queries:
        """The same, after answering the plan's own question, or these, without rows; raises what would go wrong.

        What has no question, such as a check, is stored once and asked for hardly ever again: it is not kept."""
        if questions == ():
            rehearse(plan, confidence, ())
            return self._in_full(plan)
        bare = _bare_plan(plan)
        key, others = _key(bare), None if questions is None else tuple(map(_bare_question, questions))
        made, seen = self._queries(plan, bare, key), confidence if others is None else likeness((confidence, others))
        if key is None or seen is None or (key, seen) not in self._rehearsed:
            rehearse(bare, confidence, (bare.question,) if others is None else others)
            if len(self._rehearsed) >= REMEMBERED:
                self._rehearsed.clear()
            self._rehearsed.add((key, seen))
        return made

    def _queries(self, plan: Plan, bare: Plan, key: Hashable | None) -> Queries:
        if key is None:
            return self._in_full(plan)
        if key in (known := self._templates):  # another thread may replace the table between the two lines
            template = known[key]
        else:
            if len(self._templates) >= REMEMBERED:
                self._templates = {}
            template = self._templates[key] = self._template(bare)
        where = plan.question.where
        if template is None or where is None:
            return self._in_full(plan) if template is None else template
        written = self._engine.dialect.write(emit(where, source), copy=False)
        if written.tables:
            return self._in_full(plan)

        def filled(query: exp.Select | EngineQuery) -> EngineQuery:
            if isinstance(query, exp.Select):
                raise Bug("the query of a template was not written")
            return self._engine.prepare(replace(query, text=query.text.replace(self._mark, written.text)))

        return template.prepared(filled)

    def _template(self, bare: Plan) -> Queries | None:
        """The queries of plans with this structural key; None if the mark does not occur exactly once."""
        made = self._in_full(bare)
        texts = [query.text for query in made.all if isinstance(query, EngineQuery)]
        marked = bare.question.where is None or all(text.count(self._mark) == 1 for text in texts)
        return made if marked else None

    def _in_full(self, plan: Plan) -> Queries:
        return queries(plan).prepared(self._engine.prepare)


def _key(bare: Plan) -> Hashable | None:
    many = sum(map(len, bare.domain)) + len(bare.outline.groups or ())
    return likeness(bare) if many <= _MOST_VALUES else None


def _bare_plan(plan: Plan) -> Plan:
    """The plan with a mark in place of its WHERE."""
    if plan.question.where is None:
        return plan
    return replace(plan, outline=replace(plan.outline, question=_bare_question(plan.question)))


def _bare_question(question: Question) -> Question:
    return question if question.where is None else replace(question, where=_MARK)
