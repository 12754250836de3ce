"""Above the aggregation: from noisy cells to the columns of the answer. Everything here is post-processing, and free.

Intervals. A released number has the interval value +- error. A column computed from m released numbers takes each of
them at confidence 1 - (1 - c) / m, so that all m hold together with probability c at least, and carries the box of
intervals through the arithmetic. Where that gives no bound (division by an interval that holds 0, comparisons) the
interval is missing and `reason` says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lapwing.errors import Bug
from lapwing.query.expression import Call, Column, Expression, Literal, Slot, walk
from lapwing.query.operators import ADD, DIVIDE, MULTIPLY, SUBTRACT
from lapwing.query.plan import Plan
from lapwing.query.types import Type

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """One column of the answer, with its interval where there is one."""

    name: str
    type: Type
    values: Array
    low: Array | None = None
    high: Array | None = None
    reason: str | None = None

    @property
    def is_key(self) -> bool:
        return self.low is None and self.reason is None

    def take(self, rows: Array) -> Answered:
        """The same column with these rows only."""
        low, high = (None if side is None else side[rows] for side in (self.low, self.high))
        return Answered(self.name, self.type, self.values[rows], low, high, self.reason)


def present(plan: Plan, noisy: list[Array], confidence: Fraction, *, simultaneous: bool = False) -> list[Answered]:
    """The columns of the answer, sorted and limited as the question says."""
    above = _Above(plan, noisy, confidence, simultaneous)
    columns = [above.column(output.name, output.expression) for output in plan.question.outputs]
    rows = above.order()
    if plan.question.limit is not None:
        rows = rows[: plan.question.limit]
    return [column.take(rows) for column in columns]


class _Above:
    """Evaluates expressions over keys and released numbers."""

    def __init__(self, plan: Plan, noisy: list[Array], confidence: Fraction, simultaneous: bool) -> None:
        self.plan = plan
        self.confidence = confidence
        self.cells = plan.cells if simultaneous else 1
        self.values = [_scaled(cells, m.step) for cells, m in zip(noisy, plan.measures, strict=True)]
        self.keys = _key_columns(plan)

    def column(self, name: str, expression: Expression) -> Answered:
        values = self.value(expression)
        used = {part.index for part in walk(expression) if isinstance(part, Slot)}
        kind = expression.type or Type.TEXT
        if not used:
            return Answered(name, kind, values)
        box = self.box(expression, 1 - (1 - self.confidence) / len(used))
        if box is None:
            return Answered(name, kind, values, reason="no interval follows for this expression")
        open_ = bool(np.isnan(np.asarray(box[0], float)).any())
        return Answered(name, kind, values, *box, "the interval of a divisor holds 0" if open_ else None)

    def order(self) -> Array:
        """Row numbers in the order asked for; ties stay in the order of the declared keys."""
        rows = np.arange(self.plan.cells)
        for by in reversed(self.plan.question.order):
            values = self.value(by.expression)[rows]
            rows = rows[np.argsort(_ranks(values, by.descending), kind="stable")]
        return rows

    def value(self, expression: Expression) -> Array:
        match expression:
            case Slot(index=index):
                return self.values[index]
            case Column(name=name):
                return self.keys[name]
            case Literal(value=value):
                return np.full(self.plan.cells, float(value) if isinstance(value, Fraction) else value)
            case Call(operator=operator, arguments=arguments):
                if operator.compute is None:
                    raise Bug(f"`{operator.name}` has no meaning above the aggregation")
                return np.asarray(operator.compute(*(self.value(argument) for argument in arguments)))

    def box(self, expression: Expression, level: Fraction) -> tuple[Array, Array] | None:
        """The interval of an expression while every released number lies in its own."""
        match expression:
            case Slot(index=index):
                error = float(self.plan.measures[index].error(level, simultaneous=self.cells))
                return self.values[index] - error, self.values[index] + error
            case Call(operator=operator, arguments=(left, right)) if operator in (ADD, SUBTRACT, MULTIPLY, DIVIDE):
                a, b = self.box(left, level), self.box(right, level)
                return None if a is None or b is None else _combined(operator.name, a, b)
            case Literal() | Column() if expression.type is not None and expression.type.is_number:
                values = self.value(expression).astype(float)
                return values, values
            case _:
                return None


def _ranks(values: Array, descending: bool) -> Array:
    """The place of each value among the different values; NULL and what is not a number come last either way."""
    plain = values.tolist()
    missing = [value is None or value != value for value in plain]
    known = sorted({value for value, gone in zip(plain, missing, strict=True) if not gone}, reverse=descending)
    place = {value: rank for rank, value in enumerate(known)}
    return np.array([len(known) if gone else place[value] for value, gone in zip(plain, missing, strict=True)], int)


def _combined(name: str, a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """Bounds of a binary operation over two boxes; NaN where the divisor may be 0."""
    with np.errstate(all="ignore"):
        if name == "+":
            return a[0] + b[0], a[1] + b[1]
        if name == "-":
            return a[0] - b[1], a[1] - b[0]
        corners = np.stack([x * y if name == "*" else x / y for x in a for y in b])
        low, high = corners.min(axis=0), corners.max(axis=0)
        if name == "/":
            open_ = (b[0] <= 0) & (b[1] >= 0)
            low, high = np.where(open_, np.nan, low), np.where(open_, np.nan, high)
        return low, high


def _scaled(cells: Array, step: Fraction) -> Array:
    """Cells in steps as numbers: integers stay integers, reals become float64."""
    if step == 1:
        return cells
    return np.array([float(value * step) for value in cells.tolist()]) if cells.dtype == object else cells * float(step)


def _key_columns(plan: Plan) -> dict[str, Array]:
    """Each key's value in every cell, in the order of `plan.domain`."""
    columns: dict[str, Array] = {}
    after = plan.cells
    for key, values in zip(plan.question.keys, plan.domain, strict=True):
        after //= len(values)
        once = np.empty(len(values), object)
        once[:] = values
        columns[key.name] = np.tile(np.repeat(once, after), plan.cells // (len(values) * after))
    return columns
