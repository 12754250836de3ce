"""Cache of engine queries and rehearsals. Plans that differ only in WHERE share the rest of their text.

Guarantee:  the text is, letter by letter, the one written for the plan by itself; and a rehearsal is skipped only if an
            indistinguishable one succeeded.
Proof:      text and rehearsal are made from a plan with a mark in place of its WHERE, so nothing else can reach them,
            and are kept under the structural key of that whole plan: selection, prices, limits, bounds and all.
            The mark takes the place of the WHERE, in brackets of its own, and the text of an expression does not depend
            on what surrounds it, so the WHERE is written in its place. If the mark does not occur exactly once, as when
            an analyst wrote it too, and for plans without a structural key, everything is written in full. Salt and
            dialect are those of the one engine.
Key:        `==` will not do: it leaves out fields that are declared with compare=False, such as the bounds of a column,
            and to it 1, 1.0 and TRUE are one number. The structural key lists, from the outside in, the class of every
            part, then all fields that a frozen dataclass is made from in their order, all members of a tuple after
            their number, or the constant itself. So it can be read back into values of the same classes, fields and
            constants: two values of one key cannot be told apart by a function that reads those. Declared tables and
            operators equal only themselves; the key keeps them alive. A value with a part of any other kind has no key.
Rehearsal:  an answer from no rows, made before the charge: what can fail without data fails here, and costs nothing.
            Everything that follows the engine's query runs once on cells of zero in a few groups: the samplers, the
            selection of keys, the encoding for the ledger, and what is computed above the aggregation. It is a function
            of the plan, so nothing about the data follows from it; what it draws is thrown away.
Checked by: tests/curator/test_query_cache.py, tests/engines/test_again.py, tests/expressions/test_structural_key.py,
            tests/answers/test_rehearsal.py
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from enum import Enum
from fractions import Fraction
from operator import attrgetter
from typing import Any

import numpy as np
from sqlglot import exp

from lapwing.answers.columns import present
from lapwing.answers.stored import encode
from lapwing.arrays import objects
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.engine import Engine
from lapwing.errors import Bug
from lapwing.expressions.expression import Literal, Operator
from lapwing.expressions.operators.base import call
from lapwing.expressions.operators.logic import IS_NULL
from lapwing.expressions.table import Table
from lapwing.expressions.to_sqlglot import emit
from lapwing.expressions.types import Type, Value
from lapwing.plan.add_noise import Arranged, release
from lapwing.plan.plan import Plan
from lapwing.plan.query import Queries, queries
from lapwing.plan.question import Question
from lapwing.plan.row_values import source

_CONSTANTS = (type(None), bool, int, str, date)
_READERS: dict[Any, Callable[[Any], tuple[Any, ...]]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class _Itself:
    """An object that equals nothing but itself."""

    value: object

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value


class _Unlisted(Exception):
    """A value of a kind that has no key."""


def likeness(value: object) -> Hashable | None:
    """The structural key of a value; None if it has none."""
    try:
        return _whole(value)
    except _Unlisted:
        return None


def _whole(value: object) -> Hashable:
    """Every part, outermost first, each before the parts inside it."""
    parts: list[Any] = []
    todo: list[Any] = [value]
    while todo:
        part = todo.pop()
        kind = type(part)
        parts.append(kind)
        if kind in _CONSTANTS or (kind is datetime and part.tzinfo is None):
            parts.append(part)
        elif kind is Fraction:
            parts += part.numerator, part.denominator
        elif kind is tuple:
            parts.append(len(part))
            todo.extend(part[::-1])
        elif kind is frozenset:
            parts.append(frozenset(map(_whole, part)))
        elif kind is Operator or (kind is Table and part.source is None):
            parts.append(_Itself(part))
        elif issubclass(kind, Enum):
            parts.append(part.name)
        else:
            todo.extend((_READERS.get(kind) or _reader(kind))(part)[::-1])
    return tuple(parts)


def _reader(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Reads all fields of a frozen dataclass."""
    terms = vars(kind).get("__dataclass_params__")  # its own, since a class below it may hold more than fields
    if terms is None or not terms.frozen:
        raise _Unlisted
    names = tuple(field.name for field in fields(kind) if field.init)
    _READERS[kind] = attrgetter(*names) if len(names) > 1 else lambda value: tuple([getattr(value, n) for n in names])
    return _READERS[kind]


_PRESENT = 1 << 20  # units of the one group among keys that are not public: enough to be shown as a rule
_VALUES: dict[Type, Value] = {
    Type.INTEGER: 0,
    Type.TEXT: "",
    Type.BOOLEAN: False,
    Type.DATE: date(2000, 1, 1),
    Type.TIMESTAMP: datetime(2000, 1, 1),  # noqa: DTZ001 (times here have no zone)
}


def rehearse(plan: Plan, confidence: Fraction, questions: Sequence[Question]) -> None:
    """Answers the questions without rows; raises whatever would go wrong after the charge."""
    short = _shortened(plan)
    released = release(short, _zeros(short))
    encode(short, released)
    for question in questions:
        own = question is plan.question
        answered = short if own else replace(short, outline=replace(short.outline, question=question))
        present(answered, released, confidence)


def _shortened(plan: Plan) -> Plan:
    """The plan with as few of its public groups as it can be answered for: one, or as many as it chooses."""
    if not plan.domain:
        return plan
    least = max([1, *[kind.chosen_groups for kind in plan.outline.kinds]])
    if plan.outline.groups is not None:
        return replace(plan, outline=replace(plan.outline, groups=plan.outline.groups[:least]))
    return replace(plan, outline=replace(plan.outline, domain=_leading(plan.domain, least)))


def _leading(domain: Sequence[tuple[Value, ...]], least: int) -> tuple[tuple[Value, ...], ...]:
    """The first values of each key, so few that they just make `least` groups."""
    kept = []
    for values in domain:
        kept.append(values[:least])
        least = -(-least // max(1, len(kept[-1])))
    return tuple(kept)


def _zeros(plan: Plan) -> Arranged:
    size = plan.group_count or 1
    cells = tuple([measure.kind.empty(measure, size) for measure in plan.measures])
    if plan.outline.domain is not None:
        return Arranged((), None, cells)
    keys = tuple(objects([_VALUES[key.type or Type.TEXT]] * size) for key in plan.question.keys)
    return Arranged(keys, np.full(size, _PRESENT, np.int64), cells)


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

        A plan without a question, such as a check, is stored once and hardly ever asked again: it is not kept."""
        if questions == ():
            rehearse(plan, confidence, ())
            return queries(plan).prepared(self._engine.prepare)
        bare = _bare_plan(plan)
        key, others = _key(bare), None if questions is None else tuple(map(_bare_question, questions))
        prepared = self._queries(plan, bare, key)
        rehearsal = key, confidence if others is None else likeness((confidence, others))
        if None in rehearsal or rehearsal not in self._rehearsed:
            rehearse(bare, confidence, (bare.question,) if others is None else others)
            if len(self._rehearsed) >= REMEMBERED:
                self._rehearsed.clear()
            self._rehearsed.add(rehearsal)
        return prepared

    def _queries(self, plan: Plan, bare: Plan, key: Hashable | None) -> Queries:
        if key is None:
            return queries(plan).prepared(self._engine.prepare)
        if key in (known := self._templates):  # another thread may replace the table between the two lines
            template: Queries | None = known[key]
        else:
            if len(self._templates) >= REMEMBERED:
                self._templates = {}
            template = queries(bare).prepared(self._engine.prepare)
            if bare.question.where is not None and not self._is_marked_once(template):
                template = None
            self._templates[key] = template
        where = plan.question.where
        if where is None and template is not None:
            return template
        written = None if where is None else self._engine.dialect.write(emit(where, source), copy=False)
        if template is None or written is None or written.tables:
            return queries(plan).prepared(self._engine.prepare)

        def filled(query: exp.Select | EngineQuery) -> EngineQuery:
            if isinstance(query, exp.Select):
                raise Bug("the query of a template was not written")
            return self._engine.prepare(replace(query, text=query.text.replace(self._mark, written.text)))

        return template.prepared(filled)

    def _is_marked_once(self, template: Queries) -> bool:
        return all(query.text.count(self._mark) == 1 for query in template.all if isinstance(query, EngineQuery))


def _key(bare: Plan) -> Hashable | None:
    size = sum(map(len, bare.domain)) + len(bare.outline.groups or ())
    return likeness(bare) if size <= _MOST_VALUES else None


def _bare_plan(plan: Plan) -> Plan:
    """The plan with a mark in place of its WHERE."""
    if plan.question.where is None:
        return plan
    return replace(plan, outline=replace(plan.outline, question=_bare_question(plan.question)))


def _bare_question(question: Question) -> Question:
    return question if question.where is None else replace(question, where=_MARK)
