"""A question after reading, from SQL or from Ibis alike: what to count, where, by which keys, and what to do above.

Everything below the aggregation is row-wise on one private table. Everything above works on released numbers only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial

from lapwing.expressions.aggregate import Aggregate, canonical_text
from lapwing.expressions.expression import Call, Column, Expression, Key, Slot, walk
from lapwing.expressions.identity import Facts, aggregate_facts, expression_facts, rows_facts
from lapwing.expressions.operators.dates import is_local
from lapwing.expressions.table import Table
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


@dataclass(frozen=True, slots=True)
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

    @property
    def above(self) -> tuple[Expression, ...]:
        """Every expression above the aggregation."""
        having = () if self.having is None else (self.having,)
        return (*(o.expression for o in self.outputs), *having, *(o.expression for o in self.order))

    @property
    def shown(self) -> tuple[Aggregate, ...]:
        """The aggregates that the answer is made of; all of them if nothing says which."""
        used = sorted({part.index for e in self.above for part in walk(e) if isinstance(part, Slot)})
        return tuple(self.aggregates[slot] for slot in used) or self.aggregates

    @property
    def below(self) -> tuple[Expression, ...]:
        """Every expression below the aggregation."""
        where = () if self.where is None else (self.where,)
        return (*where, *self.keys, *(argument for aggregate in self.aggregates for argument in aggregate.arguments))

    @property
    def facts(self) -> Facts:
        """The part that is paid for, exactly, whatever its words and the names of its outputs."""
        return (
            rows_facts(self.table),
            expression_facts(self.where, self.table),
            tuple(expression_facts(key, self.table) for key in self.keys),
            tuple(aggregate_facts(aggregate, self.table) for aggregate in self.aggregates),
        )

    def canonical(self) -> str:
        """The part that is paid for, as text: two questions that read the same cells have the same text.

        Output names, their order, HAVING, sorting and arithmetic above are post-processing and do not count.
        """
        where = "" if self.where is None else canonical_text(self.where)
        keys = ",".join(sorted(canonical_text(key) for key in self.keys))
        aggregates = ",".join(sorted(aggregate.canonical() for aggregate in self.aggregates))
        return f"{self.table.canonical}|{where}|{keys}|{aggregates}"


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
    key_place = {old: new for new, old in enumerate(keys)}
    slot_place = {old: new for new, old in enumerate(aggregates)}
    there = partial(moved, keys=key_place, slots=slot_place)
    return replace(
        question,
        keys=tuple(question.keys[i] for i in keys),
        aggregates=tuple(question.aggregates[i] for i in aggregates),
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
