"""Which values a key may take, where that is public.

A column may hold its declared values; the truth values and NULL; or the whole numbers between its bounds and NULL.
A key of such columns is computed for all their values, up to 100,000 combinations, by the operators that the engine
runs: no listed value is impossible, and no possible one is missing. Parts over other columns may be known by
themselves: a condition is true, false or NULL, MONTH(d) is 1 to 12 or NULL. Beyond that a key has the whole numbers of
its interval, the branches of its CASE, or values that are not public.

NULL is listed if the key can be NULL. Declared values hold NULL only if it is declared: what a missing value gives is
listed, as 'none' in COALESCE(sex, 'none'), but NULL itself is not.

Guarantee:  the list is a function of the question and of declared facts.
Proof:      it is computed from the key, the types, bounds and values of the catalog and constants, by a calculator that
            has no rows (engines/public_values.py). Nothing here reads a row; a row whose key is none of these values is
            dropped (query.py), so that no row adds to the list either.
Checked by: tests/plan/test_domain.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product

from lapwing.engines.public_values import calculate
from lapwing.expressions.expression import Call, Column, Expression, Literal
from lapwing.expressions.operators.base import MOST_TEXT
from lapwing.expressions.operators.buckets import WIDTH_BUCKET
from lapwing.expressions.operators.table import bounds_of
from lapwing.expressions.table import Table
from lapwing.expressions.to_sqlglot import whole
from lapwing.expressions.types import Type, Value

MOST_RANGE = 1_000
"""The most whole numbers between bounds, and the most values computed from them, that are listed as keys."""
MOST_TRIED = 100_000
"""The most combinations of values that a key is computed for."""

BRANCHES: dict[str, Callable[[tuple[Expression, ...]], tuple[Expression, ...]]] = {
    "case": lambda arguments: (*arguments[1:-1:2], arguments[-1]),
    "coalesce": lambda arguments: arguments,
}
"""Operators whose result is one of these arguments. CASE has condition, value, condition, value, ..., and else."""

_NEVER_NULL = ("is null", "is distinct from")
_NULL_IF_ANY = ("=", "<>", "<", "<=", ">", ">=", "in", "not", "and", "or", "truth", "truth_text")
_NULL_IF_ALL = ("coalesce", "least", "greatest")
_MOST_WORK = 30_000_000  # combinations times the parts and characters of the key, so that no plan takes long
_MOST_BRANCHES = 100  # that are computed one by one
_SHORT = 30  # characters of a number or a date as text
_EXACT = 1 << 53  # whole numbers up to here are exact in float64


@dataclass(frozen=True, slots=True)
class _Values:
    """What a part of a key may be, without NULL."""

    known: Sequence[Value]
    null: bool
    """Whether it may be NULL."""
    missing: bool
    """Whether it is NULL where a column lacks its value, though the steward did not declare NULL."""
    listed: bool = False
    """Whether they are written somewhere, so that each is meant: declared values, truth values, buckets."""

    @property
    def many(self) -> int:
        return len(self.known) + (self.null or self.missing)

    @property
    def tried(self) -> tuple[Value, ...]:
        return (*self.known, None) if self.null or self.missing else tuple(self.known)


_Parts = Mapping[Expression, _Values]
"""The parts that a key is computed from."""


def domain_of(key: Expression, table: Table) -> tuple[Value, ...] | None:
    """The values of a key in a fixed order, NULL last, or None if they are not public."""
    match key:
        case Literal(value=value):
            return (value,)
        case Column(name=name) if values := table.field(name).values:
            return values
    parts = _parts(key, table)
    if parts is not None and key not in parts:
        return _sort(key, _computed(key, parts), parts)
    if isinstance(key, Call) and key.operator.name in BRANCHES and (found := _branches(key, table)):
        return found
    own = None if parts is None else parts[key]
    if own is None or (len(own.known) > MOST_RANGE and not own.listed):
        return None
    return (*own.known, None) if own.null else tuple(own.known)


def _parts(expression: Expression, table: Table) -> _Parts | None:
    """What an expression is computed from: its columns, or coarser parts where these take too many values."""
    match expression:
        case Literal():
            return {}
        case Column():
            own = _column(expression, table)
            return None if own is None else {expression: own}
        case Call(arguments=arguments):
            fine = [_parts(argument, table) for argument in arguments]
            rough = [_alone(argument, table) or parts for argument, parts in zip(arguments, fine, strict=True)]
            for parts in (_joined(fine), _joined(rough)):
                if parts is not None and _fits(expression, parts):
                    return parts
            return _alone(expression, table)
        case _:
            return None


def _joined(many: Sequence[_Parts | None]) -> _Parts | None:
    known = [parts for parts in many if parts is not None]
    return {part: values for parts in known for part, values in parts.items()} if len(known) == len(many) else None


def _alone(expression: Expression, table: Table) -> _Parts | None:
    """The expression as a part by itself, if it may be one."""
    own = _own(expression, table)
    return None if own is None else {expression: own}


def _fits(key: Call, parts: _Parts) -> bool:
    """Whether the key can be computed for every combination."""
    many = math.prod(values.many for values in parts.values())
    return 0 < many <= MOST_TRIED and many * (key.size + _length(key, parts)) <= _MOST_WORK


def _length(expression: Expression, parts: _Parts) -> int:
    """The most characters of a text."""
    match expression:
        case Literal(value=str() as text):
            return len(text)
        case Column() if expression.type is Type.TEXT:
            return max((len(str(value)) for value in parts[expression].known), default=0)
        case Call(arguments=arguments) if expression.type is Type.TEXT:
            return min(MOST_TEXT, _SHORT + sum(_length(argument, parts) for argument in arguments))
        case _:
            return 0


def _column(column: Column, table: Table) -> _Values | None:
    """The values of a column, where they are public."""
    declared = table.field(column.name).values
    if declared:
        null = None in declared
        return _Values([value for value in declared if value is not None], null, not null, listed=True)
    return _own(column, table)


def _own(expression: Expression, table: Table) -> _Values | None:
    """What is known of an expression by itself: a condition, a bucket, or whole numbers in an interval."""
    if isinstance(expression, Literal) or (isinstance(expression, Column) and table.field(expression.name).values):
        return None
    null = _may_be_null(expression, lambda column: None in (table.field(column.name).values or (None,)))
    missing = _may_be_null(expression, lambda _: True)
    if expression.type is Type.BOOLEAN:
        return _Values((False, True), null, missing, listed=True)
    if isinstance(expression, Call) and expression.operator == WIDTH_BUCKET:
        return _Values(range(len(expression.arguments)), null, missing, listed=True)
    bounds = bounds_of(expression) if expression.type is Type.INTEGER else None
    if bounds is None:
        return None
    low, high = math.ceil(bounds.low), math.floor(bounds.high)
    exact = isinstance(expression, Column) or max(-low, high) <= _EXACT
    return _Values(range(low, high + 1), null, missing) if exact and high - low < MOST_TRIED else None


def _may_be_null(expression: Expression, column: Callable[[Column], bool]) -> bool:
    """Whether an expression can be NULL. Operators that nothing is known of can."""
    match expression:
        case Literal(value=value):
            return value is None
        case Column():
            return column(expression)
        case Call(operator=operator, arguments=arguments):
            if operator.name in _NEVER_NULL:
                return False
            if operator.name == "case":
                return any(_may_be_null(branch, column) for branch in BRANCHES["case"](arguments))
            if operator.name in _NULL_IF_ALL:
                return all(_may_be_null(argument, column) for argument in arguments)
            simple = operator.name in _NULL_IF_ANY and all(a.type is not Type.REAL for a in arguments)
            return not simple or any(_may_be_null(argument, column) for argument in arguments)
        case _:
            return True


def _computed(key: Expression, parts: _Parts) -> tuple[Value, ...]:
    """Every value of the key over the combinations of its parts, in their order; NULL if declared values give it."""
    places = {part: Column(f"v{i}", part.type or Type.TEXT) for i, part in enumerate(parts)}
    return _image(_replaced(key, places), tuple(places.values()), tuple(map(_held, parts.values())))


def _held(values: _Values) -> tuple[tuple[Value, ...], bool]:
    """The values that are tried, and whether the last is NULL though it was not declared."""
    return values.tried, values.missing and not values.null


@lru_cache(maxsize=64)
def _image(
    key: Expression, columns: tuple[Column, ...], held: tuple[tuple[tuple[Value, ...], bool], ...]
) -> tuple[Value, ...]:
    rows = list(product(*(tried for tried, _ in held)))
    tried = zip(*rows, strict=True)
    stored = {column.name: list(map(_stored, values)) for column, values in zip(columns, tried, strict=True)}
    (found,) = calculate([key], stored, {column.name: column.type for column in columns}, len(rows), whole)
    undeclared = [i for i, (_, missing) in enumerate(held) if missing]
    values = found.to_pylist()
    null = any(
        value is None and all(row[i] is not None for i in undeclared) for value, row in zip(values, rows, strict=True)
    )
    kept = tuple(dict.fromkeys(value for value in values if value is not None))
    return (*kept, None) if null else kept


def _replaced(expression: Expression, places: Mapping[Expression, Column]) -> Expression:
    """The expression over columns that stand for its parts."""
    if expression in places:
        return places[expression]
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(_replaced(argument, places) for argument in expression.arguments))
    return expression


def _stored(value: Value) -> Value | float:
    """The value as a column holds it."""
    return float(value) if isinstance(value, Fraction) else value


def _sort(key: Expression, values: tuple[Value, ...], parts: _Parts) -> tuple[Value, ...] | None:
    """As the branches of a CASE are written, else as values were declared, else ascending; None if they are many."""
    if len(values) - (None in values) > MOST_RANGE and not all(part.listed for part in parts.values()):
        return None
    if isinstance(key, Call) and key.operator.name in BRANCHES:
        written = [b.value for b in BRANCHES[key.operator.name](key.arguments) if isinstance(b, Literal)]
        first = [value for value in dict.fromkeys(written) if value is not None and value in values]
        return tuple(dict.fromkeys((*first, *values))) if key.operator.name == "case" else values
    if any(part.listed for part in parts.values()) and key.type is not Type.BOOLEAN:
        return values
    known = sorted(value for value in values if value is not None)
    return (*known, None) if None in values else tuple(known)


def _branches(key: Call, table: Table) -> tuple[Value, ...] | None:
    """All that the branches may be; NULL last."""
    branches = BRANCHES[key.operator.name](key.arguments)
    if sum(not isinstance(branch, Literal) for branch in branches) > _MOST_BRANCHES:
        return None
    found: dict[Value, None] = {}
    for branch in branches:
        values = domain_of(branch, table)
        if values is None:
            return None
        found |= dict.fromkeys(value for value in values if value is not None)
    null = _may_be_null(key, lambda column: None in (table.field(column.name).values or (None,)))
    return (*found, None) if null else tuple(found)
