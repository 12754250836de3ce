"""How much work one unit can cause in a question: known before a row is read, from the question and declared facts.

Rule:       an operator on one row counts 1, and 1 more for every ten arguments; UPPER, LOWER and ILIKE count 3, and a
            regular expression 8 for each part of its pattern. A question has `operators` of them, sub-queries written
            out, and one step more for every 1,000 on all rows that one unit is declared to have.
Bound:      text functions see 1,000 characters (expressions/operators/text.py), so what counts 1 takes less than 10
            microseconds: 1,000 of them take less than 1 % of the second that a step stands for at the least. Measured
            on DuckDB and PostgreSQL (benchmarks/timing.py --only cpu), not proven.
Guarantee:  `operators` and `steps` have no arguments but the question.
Checked by: tests/plan/test_operator_count.py
"""

from __future__ import annotations

from collections.abc import Iterator

from lapwing.expressions.derived import Joined, PerUnit, United
from lapwing.expressions.expression import Call, Expression, walk
from lapwing.expressions.operators.patterns import REGEXP_MATCHES, parts_of
from lapwing.expressions.operators.text import ILIKE, LOWER, UPPER
from lapwing.expressions.table import Table
from lapwing.plan.question import Question

_SLOW = (UPPER, LOWER, ILIKE)
A_STEP = 1_000
"""Operators on the rows of one unit that one step allows for."""


def operators(question: Question) -> int:
    """How many operators a row passes at most."""
    below = (*question.below, *_within(question.table))
    return sum(_weight(part) for expression in below for part in walk(expression) if isinstance(part, Call))


def steps(question: Question) -> int:
    """By how much its work may exceed that of a question without operators."""
    many = operators(question)
    if not many:
        return 1
    rows = max(table.row_limit or 1 for table in (question.table, *question.table.bases) if not table.public)
    return 1 + many * rows // A_STEP


def _weight(call: Call) -> int:
    if call.operator == REGEXP_MATCHES:
        return 1 + 8 * parts_of(str(getattr(call.arguments[1], "value", "")))
    return 3 if call.operator in _SLOW else 1 + len(call.arguments) // 10


def _within(table: Table) -> Iterator[Expression]:
    """The expressions that a derived table is made by."""
    found: tuple[Expression | None, ...] = ()
    match table.source:
        case None:
            return
        case Joined(on=on, right_where=where):
            found = (*(side for pair in on for side in pair), where)
        case United(sides=sides):
            found = tuple(part for side in sides for part in (*side.columns, side.where))
        case PerUnit(where=where, keys=keys, aggregates=aggregates):
            found = (where, *keys, *(argument for one in aggregates for argument in one.arguments))
    yield from (part for part in found if part is not None)
    for inner in table.source.tables:
        yield from _within(inner)
