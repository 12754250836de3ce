"""The identity by which a stored answer is found: a value of plain facts, exact and typed.

Two requests are the same if and only if their identities are equal. Facts are texts, integers, booleans and
lists of facts; a real number is the text of its fraction. No sentence, class name or rounded number is
among them: rewording a message or renaming a field never makes anyone pay twice, and a bound that changes in its last
digit never returns the answer to another question.
`FORMAT` is the version of the encoding; CONTRIBUTING.md says how it changes.
Checked by: tests/expressions/test_identity.py
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import assert_never

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.derived import Joined, PerUnit, Selected, United
from lapwing.expressions.expression import Call, Column, Expression, Key, Literal, Slot
from lapwing.expressions.operators.base import MOST_TEXT
from lapwing.expressions.operators.table import is_long, sees_start
from lapwing.expressions.table import Table
from lapwing.expressions.types import Interval, Value, type_of

FORMAT = 1

compact_json = json.JSONEncoder(separators=(",", ":")).encode
"""The text of facts, without blanks."""

Facts = str | int | None | tuple["Facts", ...]
"""Booleans are integers in Python, but are written as booleans."""


@dataclass(frozen=True)
class Identity:
    """One request: its kind, and every fact that affects its numbers."""

    kind: str
    facts: Facts

    @cached_property
    def text(self) -> str:
        return compact_json((FORMAT, self.kind, self.facts))


@lru_cache(maxsize=4096, typed=True)
def value_facts(value: Value) -> Facts:
    """A constant or a key, with its type: 1, 1.0, '1' and TRUE are four values."""
    kind = type_of(value)
    return None if kind is None else (kind.value, value.isoformat() if isinstance(value, date) else str(value))


def interval_facts(interval: Interval | None) -> Facts:
    return None if interval is None else (str(interval.low), str(interval.high))


def number_facts(number: Fraction | int | None) -> Facts:
    return None if number is None else str(number)


def expression_facts(expression: Expression | None, table: Table, *, clipped: bool = False) -> Facts:
    """An expression over a table. A column that is clipped before use is identified with its bounds."""
    match expression:
        case None:
            return None
        case Column(type=kind, bounds=bounds):
            return ("column", _place(expression, table), kind.value, *((interval_facts(bounds),) if clipped else ()))
        case Literal(value=value):
            return ("value", value_facts(value))
        case Key(index=index):
            return ("key", index)
        case Slot(index=index):
            return ("slot", index)
        case Call(operator=operator, arguments=arguments):
            inner = (expression_facts(argument, table, clipped=clipped) for argument in arguments)
            cut = sees_start(operator) and any(map(is_long, arguments))
            return ("call", (operator.name, MOST_TEXT) if cut else operator.name, *inner)
        case _:
            assert_never(expression)


def aggregate_facts(aggregate: Aggregate, table: Table) -> Facts:
    """An aggregate over a table. A column that is only counted is not clipped."""
    clipped = not aggregate.name.startswith("count")
    arguments = tuple(expression_facts(argument, table, clipped=clipped) for argument in aggregate.arguments)
    return (aggregate.name, arguments, tuple(map(str, aggregate.parameters)))


def rows_facts(table: Table) -> Facts:
    """The rows of a table: its data, or how they are derived from other tables."""
    match table.source:
        case None:
            others = [(field.name, *map(value_facts, field.values)) for field in table.fields if field.other]
            return (*("table", table.name, table.version, table.unit), *others)
        case Joined(left=left, right=right, on=on, by_unit=by_unit, outer=outer, right_where=where):
            pairs = tuple((_inner(a, left), _inner(b, right)) for a, b in on)
            return ("joined", rows_facts(left), rows_facts(right), pairs, by_unit, outer, _inner(where, right))
        case United(sides=sides):
            return ("united", *map(_side_facts, sides))
        case PerUnit(table=inner, where=where, keys=keys, aggregates=aggregates):
            gathered = tuple(aggregate_facts(aggregate, inner) for aggregate in aggregates)
            grouped = tuple(_inner(key, inner) for key in keys)
            return ("per unit", rows_facts(inner), _inner(where, inner), grouped, gathered)
        case _:
            assert_never(table.source)


def domain_facts(domain: tuple[tuple[Value, ...], ...] | None, groups: tuple[int, ...] | None = None) -> Facts:
    """The public values of each key, in order, and which combinations are groups; None if keys are selected."""
    if domain is None:
        return None
    values = tuple([tuple(map(value_facts, listed)) for listed in domain])
    return values if groups is None else ("groups", values, sha256(repr(groups).encode()).hexdigest())


def _side_facts(side: Selected) -> Facts:
    columns = tuple(_inner(column, side.table) for column in side.columns)
    return (rows_facts(side.table), columns, _inner(side.where, side.table))


def _inner(expression: Expression | None, table: Table) -> Facts:
    """An expression in a derived table; its columns may be clipped, so their bounds count."""
    return expression_facts(expression, table, clipped=True)


def _place(column: Column, table: Table) -> str | int:
    """A stored column by its name; a computed one by its position, since its name does not matter."""
    if table.source is None:
        return column.name
    return next(place for place, field in enumerate(table.fields) if field.name == column.name)
