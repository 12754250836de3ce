"""Which values a key may take, where that is public: declared values, truth values, short ranges of whole numbers, the
branches of a CASE, the buckets of a histogram, and functions of such columns.

Nothing here reads a row. A row whose key is none of these values is dropped (bounding.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

from lapwing.catalog.table import Table
from lapwing.engines.calculator import calculate
from lapwing.language.emission import whole
from lapwing.language.expression import Call, Column, Expression, Literal, walk
from lapwing.language.operators.buckets import WIDTH_BUCKET
from lapwing.language.operators.table import bounds_of
from lapwing.language.types import Type, Value

MOST_RANGE = 1_000
"""Whole numbers between bounds are listed up to so many."""
BRANCHES: dict[str, Callable[[tuple[Expression, ...]], tuple[Expression, ...]]] = {
    "case": lambda arguments: (*arguments[1:-1:2], arguments[-1]),
    "coalesce": lambda arguments: arguments,
}
"""Operators whose result is one of these arguments. CASE has condition, value, condition, value, ..., and else."""

_MOST_TRIED = 10_000  # combinations of declared values that a function is computed for


def domain_of(key: Expression, table: Table) -> tuple[Value, ...] | None:
    """The values of a key in a fixed order, or None if they are not public."""
    match key:
        case Literal(value=value):
            return (value,)
        case Column(name=name) if values := table.field(name).values:
            return values
        case Call(operator=operator, arguments=arguments) if operator.name in BRANCHES:
            branches = [domain_of(branch, table) for branch in BRANCHES[operator.name](arguments)]
            if None not in branches:
                return tuple(dict.fromkeys(value for branch in branches for value in branch or ()))
        case Call(operator=operator, arguments=(_, *edges)) if operator == WIDTH_BUCKET:
            return (*range(len(edges) + 1), None)
    if key.type is Type.BOOLEAN:
        return False, True
    return _computed(key, table) or _range(key)


def _computed(key: Expression, table: Table) -> tuple[Value, ...] | None:
    """The values of a function of columns with declared values: it is computed for all of them."""
    names = list(dict.fromkeys(part.name for part in walk(key) if isinstance(part, Column)))
    lists = [table.field(name).values for name in names]
    if not names or not all(lists):
        return None
    lists = [values if None in values else (*values, None) for values in lists]  # rows may lack a value anywhere
    if math.prod(map(len, lists)) > _MOST_TRIED:
        return None
    rows = list(product(*lists))
    columns = {name: [_stored(row[i]) for row in rows] for i, name in enumerate(names)}
    (values,) = calculate([key], columns, {name: table.field(name).type for name in names}, len(rows), whole)
    declared = all(None in table.field(name).values for name in names)
    return tuple(dict.fromkeys(value for value in values.to_pylist() if value is not None or declared))


def _stored(value: Value) -> Value | float:
    """The value as a column holds it."""
    return float(value) if isinstance(value, Fraction) else value


def _range(key: Expression) -> tuple[Value, ...] | None:
    bounds = bounds_of(key) if key.type is Type.INTEGER else None
    if bounds is None:
        return None
    low, high = math.ceil(bounds.low), math.floor(bounds.high)
    return tuple(range(low, high + 1)) if high - low < MOST_RANGE else None
