"""A question after reading, from SQL or from Ibis alike: what to count, where, by which keys, and what to do above.

Everything below the aggregation is row-wise on one private table. Everything above works on released numbers only.

Work:       how much one unit can cause is known before a row is read. An operator on one row counts 1, and 1 more for
            every ten arguments; UPPER, LOWER and ILIKE count 3, and a regular expression 8 for each part of its
            pattern. A question has `operators` of them, sub-queries written out, and one step more for every 1,000 on
            all rows that one unit is declared to have.
Bound:      text functions see 1,000 characters (expressions/operators/text.py), so what counts 1 takes less than 10
            microseconds: 1,000 of them take less than 1 % of the second that a step allows at least. Measured on
            DuckDB and PostgreSQL (benchmarks/timing.py --only cpu), not proven.
Guarantee:  `operators` and `steps` have no arguments but the question.
Checked by: tests/plan/test_operator_count.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property, partial

from lapwing.expressions.aggregate import Aggregate, canonical_text
from lapwing.expressions.derived import Joined, PerUnit, United
from lapwing.expressions.expression import Call, Column, Expression, Key, Slot, walk
from lapwing.expressions.identity import Facts, aggregate_facts, expression_facts, rows_facts
from lapwing.expressions.operators.dates import is_local
from lapwing.expressions.operators.text import ILIKE, LOWER, REGEXP_MATCHES, UPPER, parts_of
from lapwing.expressions.table import Limit, Table
from lapwing.expressions.types import Type
from lapwing.expressions.zones import VERSION


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the answer: an expression over keys (`Key`) and aggregates (`Slot`)."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Order:
    """Sort by this output expression."""

    expression: Expression
    descending: bool = False


@dataclass(frozen=True)
class Question:
    """What an analyst asked, in one form whatever the language was."""

    table: Table
    where: Expression | None
    keys: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[Output, ...]
    having: Expression | None = None
    """Which groups of the answer are shown; a condition over keys and aggregates."""
    order: tuple[Order, ...] = ()
    limit: int | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)
    """Sentences to be said with the answer, in every format; what reads the question adds them."""

    @cached_property
    def above(self) -> tuple[Expression, ...]:
        """Every expression above the aggregation."""
        shown = [output.expression for output in self.outputs]
        if self.having is not None:
            shown.append(self.having)
        return (*shown, *[order.expression for order in self.order])

    @cached_property
    def shown(self) -> tuple[Aggregate, ...]:
        """The aggregates that the answer is made of; all of them if nothing says which."""
        used = {part.index for e in self.above for part in walk(e) if isinstance(part, Slot)}
        return tuple([self.aggregates[slot] for slot in sorted(used)]) or self.aggregates

    @cached_property
    def below(self) -> tuple[Expression, ...]:
        """Every expression below the aggregation."""
        where = () if self.where is None else (self.where,)
        return (*where, *self.keys, *[argument for aggregate in self.aggregates for argument in aggregate.arguments])

    @cached_property
    def facts(self) -> tuple[Facts, Facts, Facts, Facts]:
        """The part that is paid for, exactly, whatever its words and the names of its outputs."""
        return (
            rows_facts(self.table),
            expression_facts(self.where, self.table),
            tuple([expression_facts(key, self.table) for key in self.keys]),
            tuple([aggregate_facts(aggregate, self.table) for aggregate in self.aggregates]),
        )

    def canonical(self) -> str:
        """The part that is paid for, as text: two questions that read the same cells have the same text.

        Output names, their order, HAVING, sorting and arithmetic above are post-processing and do not count.
        """
        where = "" if self.where is None else canonical_text(self.where)
        keys = ",".join(sorted(map(canonical_text, self.keys)))
        aggregates = ",".join(sorted([aggregate.canonical() for aggregate in self.aggregates]))
        return f"{self.table.canonical}|{where}|{keys}|{aggregates}"


def with_limits(question: Question, limits: Mapping[Limit, int]) -> Question:
    """The question with these limits declared for the rows that it aggregates."""
    table = question.table
    rows, groups = limits.get(Limit.ROWS, table.rows_per_unit), limits.get(Limit.GROUPS, table.groups_per_unit)
    return replace(question, table=replace(table, rows_per_unit=rows, groups_per_unit=groups, auto=frozenset()))


def note_of(today: date) -> str:
    """What is said with an answer that depends on the date of its request."""
    return f"CURRENT_DATE is {today.isoformat()}, the date in UTC of this request; another day is another question."


def zone_notes(question: Question) -> tuple[str, ...]:
    """In which time zone the columns are that are used as stored, and by which database others are local times."""
    parts = [part for expression in question.below for part in walk(expression)]
    local = [part for part in parts if is_local(part)]
    moved = Counter(part for call in local for part in walk(call) if isinstance(part, Column))
    zones = {part.name: part.zone for part in parts if isinstance(part, Column) and part.zone is not None}
    stored = Counter(part for part in parts if isinstance(part, Column)) - moved
    used = sorted(column.name for column in stored if column.name in zones)
    database = (f"Local times are by version {VERSION} of the tz database.",) if local else ()
    return (*(f"Times of `{name}` are in {zones[name]}." for name in used), *database)


def normalised(question: Question) -> Question:
    """The same question with its keys and aggregates in alphabetical order."""
    if len(question.keys) <= 1 and len(question.aggregates) <= 1:
        return question
    keys = sorted(range(len(question.keys)), key=lambda i: canonical_text(question.keys[i]))
    aggregates = sorted(range(len(question.aggregates)), key=lambda i: question.aggregates[i].canonical())
    ordered = replace(
        question,
        keys=tuple(question.keys[i] for i in keys),
        aggregates=tuple(question.aggregates[i] for i in aggregates),
    )
    key_place = {old: new for new, old in enumerate(keys)}
    return with_places(ordered, key_place, {old: new for new, old in enumerate(aggregates)})


def with_places(question: Question, keys: Mapping[int, int], slots: Mapping[int, int]) -> Question:
    """The question with keys and aggregates read at other places above the aggregation."""
    there = partial(moved, keys=keys, slots=slots)
    return replace(
        question,
        outputs=tuple(Output(o.name, there(o.expression)) for o in question.outputs),
        having=None if question.having is None else there(question.having),
        order=tuple(Order(there(o.expression), o.descending) for o in question.order),
    )


def lifted(expression: Expression, keys: Mapping[Expression, int]) -> Expression:
    """The expression above the aggregation: each part that is written as in GROUP BY becomes the key at that place."""
    if expression in keys:
        return Key(keys[expression], expression.type or Type.TEXT)
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(lifted(argument, keys) for argument in expression.arguments))
    return expression


def moved(expression: Expression, keys: Mapping[int, int], slots: Mapping[int, int]) -> Expression:
    """The expression above the aggregation, with keys and aggregates at other places."""
    match expression:
        case Key(index=index, type=kind):
            return Key(keys[index], kind)
        case Slot(index=index, type=kind):
            return Slot(slots[index], kind)
        case Call(arguments=arguments):
            return replace(expression, arguments=tuple(moved(argument, keys, slots) for argument in arguments))
        case _:
            return expression


_SLOW = (UPPER, LOWER, ILIKE)
A_STEP = 1_000
"""Operators on the rows of one unit that one step allows for."""


def operators(question: Question) -> int:
    """How many operators a row passes at most."""
    below = question.below if question.table.source is None else (*question.below, *_within(question.table))
    return sum([_weight(part) for expression in below for part in walk(expression) if isinstance(part, Call)])


def steps(question: Question) -> int:
    """By how much its work may exceed that of a question without operators."""
    count = operators(question)
    if not count:
        return 1
    rows = max(table.row_limit or 1 for table in (question.table, *question.table.bases) if not table.public)
    return 1 + count * rows // A_STEP


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
