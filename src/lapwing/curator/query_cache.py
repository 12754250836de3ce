"""What was prepared before: plans that differ only in WHERE share the rest of their text, and their rehearsal.

Guarantee:  the text is, letter by letter, the one that is written for the plan by itself; and a rehearsal is left out
            only where one that cannot be told from it went well.
Proof:      text and rehearsal are made of a plan that has a mark in place of its WHERE, so nothing else can reach them,
            and are kept under the likeness of that whole plan: selection, prices, limits, bounds and all
            (structural_key.py). The mark stands where the WHERE would, in brackets of its own, and the text of an
            expression does not depend on what is around it, so the WHERE is written in its place (where_cache.py), and
            in the pattern of the query its pattern. Where the mark is not
            found exactly once, as where an analyst wrote it too, and for plans without a likeness, everything is
            written in full. Salt and dialect are those of the one engine.
Parts:      a plan whose parts, but for the WHERE, are the same objects as those of an earlier one has its likeness, as
            plans are frozen; plan_cache.py makes such plans. These objects are kept, so that none takes the place of
            one, and nothing is compared by value there.
Checked by: tests/curator/test_query_cache.py
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from operator import attrgetter, is_
from typing import Any

from lapwing.answers.rehearsal import rehearse
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.engine import Engine
from lapwing.expressions.expression import Literal
from lapwing.expressions.operators.base import call
from lapwing.expressions.operators.logic import IS_NULL
from lapwing.expressions.structural_key import likeness
from lapwing.expressions.to_sqlglot import emit
from lapwing.expressions.types import Type
from lapwing.plan.plan import Outline, Plan
from lapwing.plan.query import Queries, queries
from lapwing.plan.question import Question
from lapwing.plan.row_values import source

REMEMBERED = 256
"""Plans without their WHERE."""
_MOST_VALUES = 1000  # of public keys: with more, the likeness of a plan takes longer than it saves
_MARK = call(IS_NULL, Literal("lw_where", Type.TEXT), part=lambda: "")
"""A condition that every engine reads, so that it checks a text with the mark as any other."""


class _Unknown:
    """Nothing is known of a plan yet."""


_UNKNOWN = _Unknown()


class _Key:
    """A likeness that is hashed once."""

    __slots__ = ("_hash", "_likeness")

    def __init__(self, found: Hashable) -> None:
        self._likeness, self._hash = found, hash(found)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Key) and self._likeness == other._likeness)


class _Parts:
    """The parts of a plan but its WHERE: the same if each is the same object."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, plan: Plan) -> None:
        outline, question = plan.outline, plan.outline.question
        self._parts = (*_RATES(plan), *_OUTLINE(outline), *_QUESTION(question), question.where is None)
        self._hash = hash(tuple(map(id, self._parts)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Parts) and all(map(is_, self._parts, other._parts))


def _fields_but(kind: type, left_out: str) -> Callable[[Any], tuple[Any, ...]]:
    """Reads every field of a dataclass but one."""
    return attrgetter(*(field.name for field in fields(kind) if field.name != left_out))


_RATES, _OUTLINE, _QUESTION = (
    _fields_but(Plan, "outline"),
    _fields_but(Outline, "question"),
    _fields_but(Question, "where"),
)


class Prepared:
    """The queries of plans as the engine runs them, after an answer from no rows."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mark = engine.dialect.write(emit(_MARK, source), copy=False).text
        self._shared: dict[Hashable, Queries | None] = {}
        """What plans of one likeness share; None where nothing is shared."""
        self._rehearsed: set[Hashable] = set()
        self._known: dict[_Parts, tuple[Plan, _Key]] = {}
        """For the parts of a plan the plan without its WHERE, and its likeness."""

    def queries(self, plan: Plan) -> Queries:
        """The queries of a plan as the engine runs them."""
        return self._queries(plan, *self._bare(plan))

    def rehearse(self, plan: Plan, confidence: Fraction, questions: Sequence[Question] | None = None) -> Queries:
        """The same, after its own question, or these, were answered without rows; raises what would go wrong."""
        bare, key = self._bare(plan)
        others = None if questions is None else tuple(map(_bare_question, questions))
        made, seen = self._queries(plan, bare, key), confidence if others is None else likeness((confidence, others))
        if key is None or seen is None or (key, seen) not in self._rehearsed:
            rehearse(bare, confidence, (bare.question,) if others is None else others)
            if len(self._rehearsed) >= REMEMBERED:
                self._rehearsed.clear()
            self._rehearsed.add((key, seen))
        return made

    def _bare(self, plan: Plan) -> tuple[Plan, _Key | None]:
        """The plan with a mark in place of its WHERE, and its likeness; None if it has none."""
        if sum(map(len, plan.domain)) + len(plan.outline.groups or ()) > _MOST_VALUES:
            return _bare_plan(plan), None
        parts = _Parts(plan)
        known = self._known.get(parts)
        if known is not None:
            return known
        bare = _bare_plan(plan)
        found = likeness(bare)
        if found is None:
            return bare, None
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        made = self._known[parts] = bare, _Key(found)
        return made

    def _queries(self, plan: Plan, bare: Plan, key: _Key | None) -> Queries:
        where = plan.question.where
        if key is None:
            return self._in_full(plan)
        shared = self._shared.get(key, _UNKNOWN)
        if isinstance(shared, _Unknown):  # not looked up again: another thread may have forgotten everything
            if len(self._shared) >= REMEMBERED:
                self._shared.clear()
            shared = self._shared[key] = self._template(bare)
        if shared is None or where is None:
            return self._in_full(plan) if shared is None else shared
        written = self._engine.dialect.write(emit(where, source), copy=False)
        if written.tables:
            return self._in_full(plan)
        fill = lambda query: replace(query, text=query.text.replace(self._mark, written.text))
        return shared.prepared(lambda query: self._engine.prepare(fill(query)))

    def _template(self, bare: Plan) -> Queries | None:
        """What plans of this likeness share; None if there is more than one mark, or none."""
        made = self._in_full(bare)
        texts = [query.text for query in made.all if isinstance(query, EngineQuery)]
        marked = bare.question.where is None or all(text.count(self._mark) == 1 for text in texts)
        return made if marked else None

    def _in_full(self, plan: Plan) -> Queries:
        return queries(plan).prepared(self._engine.prepare)


def _bare_plan(plan: Plan) -> Plan:
    """The plan with a mark in place of its WHERE."""
    if plan.question.where is None:
        return plan
    return replace(plan, outline=replace(plan.outline, question=_bare_question(plan.question)))


def _bare_question(question: Question) -> Question:
    return question if question.where is None else replace(question, where=_MARK)
