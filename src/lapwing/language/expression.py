"""Expressions over the columns of one row: small, typed, frozen.

The same values stand above the aggregation (post-processing), where `Key` is a key of GROUP BY and `Slot` the result of
an aggregate. An operator is an entry of the table in operators/table.py; nothing here knows which operators exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from lapwing.language.bounds import Extent
from lapwing.language.types import Interval, Type, Value


@dataclass(frozen=True, slots=True)
class Operator:
    """A total function of a row's values: it never fails, whatever the row holds; NULL in gives NULL or a value."""

    name: str
    result: Callable[[tuple[Type | None, ...]], Type | None] = field(compare=False, repr=False)
    """The type of the result, or None if these types do not fit."""
    emit: Callable[..., exp.Expression] = field(compare=False, repr=False)
    """The engine's expression for emitted arguments."""
    takes: str = field(compare=False, repr=False, default="")
    """What to pass, for the message when the types do not fit."""
    interval: Callable[..., Extent] | None = field(compare=False, repr=False, default=None)
    """Where the result lies, given where the arguments lie; None says nothing."""
    admit: Callable[..., str | None] | None = field(compare=False, repr=False, default=None)
    """What to write instead, if an argument that must be a constant is none or is too large."""
    height: int = field(compare=False, repr=False, default=3)
    """How deep the engine's form is, in the depth of a sum: the whole must not run out of stack when it is printed."""
    sql: str = field(compare=False, repr=False, default="")
    """How it is written in SQL, of numbers x and y, text s, dates d, times t and conditions c."""
    meaning: str = field(compare=False, repr=False, default="")
    """What it gives, in one sentence."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the private table."""

    name: str
    type: Type
    bounds: Interval | None = field(compare=False, default=None)
    edges: tuple[Value, ...] = field(compare=False, default=(), repr=False)
    """What BUCKET takes where it names no edges."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant that the analyst wrote."""

    value: Value
    type: Type | None


@dataclass(frozen=True, slots=True)
class Key:
    """The key of GROUP BY with this index, above the aggregation."""

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
    """How many calls stand inside each other."""


Expression = Column | Literal | Key | Slot | Call


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all its parts, iteratively: an analyst chooses the depth."""
    todo = [expression]
    while todo:
        part = todo.pop()
        yield part
        if isinstance(part, Call):
            todo.extend(part.arguments)
