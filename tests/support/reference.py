"""The cells of a question, computed by hand in Python from the same rows: slow, exact, and written without SQL.

It follows the words of the design and not the code: rows of no unit are dropped, other keys are dropped, missing values
are left out, each row is clipped, then each unit's total in a group. No unit may exceed `groups_per_unit`; which of its
groups count is the engine's choice, so the caller compares only where no choice is needed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

from lapwing.expressions.expression import Call, Column, Expression, Literal
from lapwing.expressions.operators.table import bounds_of
from lapwing.expressions.types import Interval
from lapwing.plan.kind import Measure
from lapwing.plan.plan import Plan
from lapwing.plan.total import TotalKind

Row = dict[str, Any]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def reference_cells(plan: Plan, rows: list[Row]) -> list[list[int]]:
    """For each measure the integer of every declared group, in declared order."""
    kept = [row for row in rows if _kept(plan, row)]
    by_row = plan.table.by_row
    units: dict[Any, list[Row]] = defaultdict(list)
    for number, row in enumerate(kept):
        units[number if by_row else row[plan.table.unit or ""], _key(plan, row)].append(row)
    return [_sums(plan, measure, units) for measure in plan.measures]


def groups_of_units(plan: Plan, rows: list[Row]) -> int:
    """The most groups that one unit is in."""
    seen: dict[Any, set[Any]] = defaultdict(set)
    for row in rows:
        if _kept(plan, row):
            seen[row[plan.table.unit or ""]].add(_key(plan, row))
    return max(map(len, seen.values()), default=0)


def _kept(plan: Plan, row: Row) -> bool:
    keys = [key for key in plan.question.keys if isinstance(key, Column)]
    known = all(row[key.name] in values for key, values in zip(keys, plan.domain, strict=True))
    has_unit = plan.table.unit is None or row[plan.table.unit] is not None
    return known and has_unit and (plan.question.where is None or _value(plan.question.where, row) is True)


def _key(plan: Plan, row: Row) -> tuple[Any, ...]:
    return tuple(row[key.name] for key in plan.question.keys if isinstance(key, Column))


def _sums(plan: Plan, measure: Measure, units: dict[Any, list[Row]]) -> list[int]:
    kind = measure.kind
    assert isinstance(kind, TotalKind)
    low, high = kind.steps(measure.step)
    cells = dict.fromkeys(product(*plan.domain), 0)
    for (_, key), rows in units.items():
        held = [row for row in rows if kind.argument is None or not _missing(kind, row)]
        if held or not kind.summed:
            cells[key] += max(low, min(high, sum(_part(measure, kind, row) for row in held)))
    return list(cells.values())


def _missing(kind: TotalKind, row: Row) -> bool:
    value = None if kind.argument is None else _value(kind.argument, row, clipped=kind.summed)
    return value is None or value != value


def _part(measure: Measure, kind: TotalKind, row: Row) -> int:
    argument = kind.argument
    if argument is None or not kind.summed:
        return 1
    bounds = bounds_of(argument)
    value = _value(argument, row, clipped=True)
    assert bounds is not None
    if measure.step == 1 and isinstance(argument, Column):
        return int(max(math.floor(bounds.low), min(math.ceil(bounds.high), row[argument.name])))
    return _half_away(max(float(bounds.low), min(float(bounds.high), float(value))) / float(measure.step))


def _half_away(value: float) -> int:
    """To the nearest integer, halves away from zero, as SQL rounds."""
    return int(math.copysign(math.floor(abs(Fraction(value)) + Fraction(1, 2)), value))


def _value(expression: Expression, row: Row, *, clipped: bool = False) -> Any:
    match expression:
        case Column(name=name, bounds=bounds):
            value = row[name]
            return _clip(value, bounds) if clipped else value
        case Literal(value=value):
            return float(value) if isinstance(value, Fraction) else value
        case Call(operator=operator, arguments=arguments):
            return _called(operator.name, [_value(argument, row, clipped=clipped) for argument in arguments])
        case _:
            raise AssertionError(expression)


def _clip(value: Any, bounds: Interval | None) -> Any:
    if value is None or bounds is None or value != value:
        return None if value != value else value
    return max(float(bounds.low), min(float(bounds.high), float(value)))


def _called(name: str, values: list[Any]) -> Any:
    """SQL's three-valued logic; what is not a number is NULL."""
    values = [None if value != value else value for value in values]
    if name == "is null":
        return values[0] is None
    if name == "and":
        return False if False in values else None if None in values else True
    if name == "or":
        return True if True in values else None if None in values else False
    if name == "in":
        found = [_called("=", [values[0], value]) for value in values[1:]]
        return True if True in found else None if None in found else False
    if None in values:
        return None
    if name == "not":
        return not values[0]
    if name in _COMPARE:
        return _COMPARE[name](*values)
    return _arithmetic(name, *map(float, values))


def _arithmetic(name: str, a: float, b: float) -> float | None:
    if name == "/":
        return None if b == 0 else a / b
    return a + b if name == "+" else a - b if name == "-" else a * b
