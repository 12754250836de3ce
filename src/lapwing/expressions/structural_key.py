"""What a value is made of, in full: a key under which the result of a function of that value may be kept.

`==` will not do. It leaves out fields that are declared with compare=False, such as the bounds of a column, and to it
1, 1.0 and TRUE are one number.

Guarantee:  two values of equal likeness cannot be told apart by a function that reads their fields and constants. What
            is made of a kind that is not listed here has no likeness, so nothing is kept for it.
Proof:      a likeness lists, from the outside in, the class of every part, then all fields that a dataclass is made
            from in their order, all members of a tuple after their number, or the constant itself. So it can be read
            back, part by part, into values of the same classes, fields and constants. Declared tables and operators
            stand for themselves: equal only if they are one object, which the likeness keeps alive.
Checked by: tests/expressions/test_structural_key.py, tests/curator/test_query_cache.py
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields
from datetime import date, datetime
from enum import Enum
from fractions import Fraction
from operator import attrgetter
from typing import Any

from lapwing.expressions.expression import Operator
from lapwing.expressions.table import Table

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


def likeness(value: object) -> Hashable | None:
    """The key of a value; None if it has none."""
    try:
        return _whole(value)
    except _Unlisted:
        return None


class _Unlisted(Exception):
    """A value of a kind that has no likeness."""


def _whole(value: object) -> Hashable:
    """Every part, outermost first, each before the parts inside it."""
    found: list[Any] = []
    todo: list[Any] = [value]
    while todo:
        part = todo.pop()
        kind = type(part)
        found.append(kind)
        if kind in _CONSTANTS or (kind is datetime and part.tzinfo is None):
            found.append(part)
        elif kind is Fraction:
            found += part.numerator, part.denominator
        elif kind is tuple:
            found.append(len(part))
            todo.extend(part[::-1])
        elif kind is frozenset:
            found.append(frozenset(map(_whole, part)))
        elif kind is Operator or (kind is Table and part.source is None):
            found.append(_Itself(part))
        elif issubclass(kind, Enum):
            found.append(part.name)
        else:
            todo.extend((_READERS.get(kind) or _reader(kind))(part)[::-1])
    return tuple(found)


def _reader(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Reads all fields of a frozen dataclass."""
    terms = vars(kind).get("__dataclass_params__")  # its own, since a class below it may hold more than fields
    if terms is None or not terms.frozen:
        raise _Unlisted
    names = tuple(field.name for field in fields(kind) if field.init)
    _READERS[kind] = attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, n) for n in names)
    return _READERS[kind]
