"""Expressions over the columns of one row: small, typed, frozen.

They also serve above the aggregation (post-processing), where `Key` is a GROUP BY key and `Slot` the result of
an aggregate. An operator is an entry in operators/table.py; nothing here knows which operators exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from lapwing.expressions.bounds import Extent
from lapwing.expressions.types import Interval, Type, Value


@dataclass(frozen=True, slots=True)
class Operator:
    """A total function of a row's values: it never fails, whatever the row contains; NULL in gives NULL or a value."""

    name: str
    result: Callable[[tuple[Type | None, ...]], Type | None] = field(compare=False, repr=False)
    """The type of the result, or None if it does not accept these types."""
    emit: Callable[..., exp.Expression] = field(compare=False, repr=False)
    """The engine's expression for emitted arguments."""
    takes: str = field(compare=False, repr=False, default="")
    """What to pass instead, for the message about wrong types."""
    interval: Callable[..., Extent] | None = field(compare=False, repr=False, default=None)
    """The bounds of the result, given those of the arguments; None if unknown."""
    admit: Callable[..., str | None] | None = field(compare=False, repr=False, default=None)
    """What to write instead, if an argument is not the constant it must be, or is too large."""
    compares: bool = field(compare=False, repr=False, default=False)
    """True if constants are read as the type of what they are compared with: '8' beside a number is 8."""
    height: int = field(compare=False, repr=False, default=3)
    """The depth of the engine's form, in units of one sum: printing the whole must not exhaust the stack."""
    sql: str = field(compare=False, repr=False, default="")
    """An example in SQL, with numbers x and y, text s, dates d, timestamps t and conditions c."""
    meaning: str = field(compare=False, repr=False, default="")
    """What it returns, in one sentence."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the private table."""

    name: str
    type: Type
    bounds: Interval | None = field(compare=False, default=None)
    edges: tuple[Value, ...] = field(compare=False, default=(), repr=False)
    """The default edges of BUCKET."""
    zone: str | None = field(compare=False, default=None, repr=False)
    """The time zone of its timestamps, if it is known."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant the analyst wrote."""

    value: Value
    type: Type | None


@dataclass(frozen=True, slots=True)
class Key:
    """The GROUP BY key with this index, above the aggregation."""

    index: int
    type: Type


@dataclass(frozen=True, slots=True)
class Slot:
    """The result of the aggregate with this index, above the aggregation."""

    index: int
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """An operator applied to arguments."""

    operator: Operator
    arguments: tuple[Expression, ...]
    type: Type
    size: int = field(compare=False, repr=False, default=1)
    """How many parts it has, written out in full."""
    depth: int = field(compare=False, repr=False, default=1)
    """How deeply calls are nested."""


Expression = Column | Literal | Key | Slot | Call


def walk(expression: Expression) -> list[Expression]:
    """The expression and all its parts, without recursion: the analyst controls the depth."""
    todo, parts = [expression], []
    while todo:
        part = todo.pop()
        parts.append(part)
        if isinstance(part, Call):
            todo.extend(part.arguments)
    return parts
