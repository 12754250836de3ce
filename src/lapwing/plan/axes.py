"""Which cells the values of a column fall into, where that is public: an axis of a table of counts.

    declared values             each is a cell, in the declared order
    truth values                false, true
    whole numbers with bounds   each is a cell, up to 1,000 of them; or so many cells of whole numbers
    reals with bounds           so many cells of one width, each with its lower end

Numbers beyond their bounds count in the outermost cell. Rows without a value, or with one that was not declared, are
in no cell. Nothing here reads a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from lapwing.expressions.expression import Column, Literal, Operator
from lapwing.expressions.forms import Minus, Pick, Times
from lapwing.expressions.operators.base import call, cast, let, null_if_nan, number, where, zero
from lapwing.expressions.operators.buckets import MOST_BUCKETS
from lapwing.expressions.operators.numbers import CLIP
from lapwing.expressions.phrases import name_text
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Field, Table
from lapwing.expressions.to_sqlglot import cut
from lapwing.expressions.types import Interval, Type
from lapwing.numbers import count
from lapwing.plan.domain import MOST_RANGE
from lapwing.plan.workload import Axis

_EXACT = 1 << 53  # whole numbers up to here are exact in float64, by which cells are found
_WIDEST = Fraction(10) ** 300  # so that edges and their distances are ordinary float64 numbers


def make_axis(table: Table, name: str, *, cells: int | None, default: int) -> Axis:
    """The axis of a column; raises Refused if its cells are not public."""
    field = table.field(name)
    column = Column(field.name, field.type, field.bounds)
    if field.name == table.unit:
        refuse(
            "unit-grouping",
            f"`{field.name}`",
            "it is the protected unit: every cell would be one person.",
            "Name another column.",
        )
    if field.values and field.type is not Type.REAL:
        return Axis(field.name, field.type, column, field.values)
    if field.type is Type.BOOLEAN:
        return Axis(field.name, field.type, column, (False, True))
    if field.bounds is None:
        refuse(
            "keys-not-public",
            f"`{field.name}`",
            "its values are not public, and a cell that exists only if somebody is in it would expose them.",
            f"Have the steward declare {_missing(field)} for `{field.name}`.",
        )
    if field.type is Type.INTEGER:
        return _of_integers(field, column, field.bounds, cells, default)
    return _of_reals(field, column, field.bounds, _read_cells(default if cells is None else cells))


def require_cut(axis: Axis) -> None:
    """Raises Refused if the values of a column are its cells, so that no number of cells can be asked for."""
    if not axis.clipped:
        kind = "truth" if axis.type is Type.BOOLEAN else "declared"
        refuse(
            "wrong-argument",
            "`cells`",
            f"the {kind} values of `{axis.name}` are its cells.",
            f"Pass none for `{axis.name}`.",
        )


def _missing(field: Field) -> str:
    return "bounds = [0, 100]" if field.type.is_number else 'values = ["...", "..."]'


def _of_integers(field: Field, column: Column, bounds: Interval, cells: int | None, default: int) -> Axis:
    low, high = math.ceil(bounds.low), math.floor(bounds.high)
    many = high - low + 1
    _require_many(field, many)
    if max(abs(low), abs(high)) > _EXACT:
        refuse(
            "bounds-too-wide",
            f"`{field.name}`",
            "its bounds lie beyond 2^53, where float64 merges numbers.",
            f"Count ranges of it: GROUP BY BUCKET({name_text(field.name)}, [0, 1000]).",
        )
    wanted = None if cells is None else _read_cells(cells)
    if many <= (MOST_RANGE if wanted is None else wanted):
        ends = Literal(low, Type.INTEGER), Literal(high, Type.INTEGER)
        key = call(CLIP, column, *ends, part=lambda: f"`{field.name}`")
        return Axis(field.name, field.type, key, tuple(range(low, high + 1)))
    parts = wanted or default
    return _cut(field, column, tuple(Fraction(low + many * i // parts) for i in range(parts + 1)))


def _of_reals(field: Field, column: Column, bounds: Interval, cells: int) -> Axis:
    width = bounds.high - bounds.low
    _require_many(field, 2 if width else 1)
    if not 1 / _WIDEST <= width <= _WIDEST or bounds.magnitude > _WIDEST:
        refuse(
            "bounds-too-wide",
            f"`{field.name}`",
            "its bounds are too wide or too near to be cut.",
            "Have the steward change them.",
        )
    return _cut(field, column, tuple(bounds.low + width * i / cells for i in range(cells + 1)))


def _cut(field: Field, column: Column, edges: tuple[Fraction, ...]) -> Axis:
    many, width = len(edges) - 1, edges[-1] - edges[0]
    facts = [Literal(edges[0], Type.REAL), Literal(many / width, Type.REAL)]
    ends = [Literal(edge, Type.REAL) for edge in edges]
    key = call(CELL, column, *facts, *ends, part=lambda: f"`{field.name}`")
    return Axis(field.name, field.type, key, tuple(range(many)), edges)


def _cell(value: exp.Expression, low: exp.Expression, rate: exp.Expression, *edges: exp.Expression) -> exp.Expression:
    """The cell between edges: a guess by arithmetic, moved by one where float64 put a value on the wrong side."""
    last = exp.Literal.number(len(edges) - 2)

    def placed(current: Callable[[], exp.Expression]) -> exp.Expression:
        def guess() -> exp.Expression:
            moved = exp.Paren(this=Minus(this=number(current()), expression=low.copy()))
            steps = exp.Floor(this=Times(this=moved, expression=rate.copy()))
            return cast(cut(steps, zero(), last.copy()), exp.DType.BIGINT)

        def shifted(by: int) -> exp.Expression:
            return exp.Paren(this=exp.Add(this=guess(), expression=exp.Literal.number(by)))

        def edge(place: int) -> exp.Expression:
            return Pick(this=shifted(place), expressions=[one.copy() for one in edges])

        below = exp.If(this=exp.LT(this=number(current()), expression=edge(1)), true=shifted(-1))
        above = exp.If(this=exp.GTE(this=number(current()), expression=edge(2)), true=shifted(1))
        cell = cut(exp.Case(ifs=[below, above], default=guess()), zero(), last.copy())
        return where(exp.Not(this=exp.Is(this=current(), expression=exp.Null())), cell)

    return let(null_if_nan(value), placed)


CELL = Operator("cell", lambda _: Type.INTEGER, _cell)
"""Its arguments: the value, the lowest edge, cells for each unit of the value, and all edges."""


def _read_cells(cells: object) -> int:
    many = count(cells, "cells", least=2)
    if many > MOST_BUCKETS:
        refuse(
            "too-many-groups",
            "`cells`",
            f"at most {MOST_BUCKETS:,} are counted.",
            f"Pass cells={MOST_BUCKETS} or fewer.",
        )
    return many


def _require_many(field: Field, many: int) -> None:
    if many < 2:
        refuse(
            "constant-answer",
            f"`{field.name}`",
            "its bounds hold one value only.",
            "Leave it out, or have the steward widen them.",
        )
