"""Runs the steps above the release over the tables of the parts.

Values come from the calculator. Beside them every noisy number carries the box it lies in, and each step maps boxes to
boxes that hold all that the step gives while its inputs lie in theirs (interval_arithmetic.py, folding.py, windows.py).
So an interval holds whenever the boxes of the released numbers it is computed from do. Which confidence those need
follows from `StepColumn.many`: a number computed row by row from m released numbers takes each at 1 - (1 - c) / m; one
that is computed from whole groups, or that stands in rows chosen by noisy numbers, takes the box in which all numbers
of all parts hold together (computed.py).
Private: the only inputs are released tables and the tree.
Checked by: tests/answers/test_postprocess.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lapwing.answers.columns import open_reason
from lapwing.answers.interval_arithmetic import Box, box_of, exactly
from lapwing.answers.postprocess.folding import fold
from lapwing.answers.postprocess.rows import CHOSEN_ROWS, NO_RULE, StepColumn, StepRows, certain, numbers, ranks
from lapwing.answers.postprocess.windows import over
from lapwing.answers.table import AnswerTable
from lapwing.arrays import Array
from lapwing.engines.public_values import Calculation
from lapwing.expressions.expression import Column, Expression, walk
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import (
    Attach,
    Compute,
    Fold,
    JoinTables,
    KeepRows,
    Over,
    ReleasedPart,
    SliceRows,
    SortRows,
    Stack,
    TableStep,
)
from lapwing.plan.question import Output

Leaves = Callable[[int], AnswerTable]
"""The released table of each part."""


def evaluate(root: TableStep, leaves: Leaves, calculation: Calculation) -> StepRows:
    """The rows of the last step; raises OverrunError if that takes too long."""
    done: dict[int, StepRows] = {}

    def rows_of(step: TableStep) -> StepRows:
        if id(step) not in done:
            done[id(step)] = _run(step, rows_of, leaves, calculation)
            calculation.check(done[id(step)].size)
        return done[id(step)]

    return rows_of(root)


def _run(
    step: TableStep, rows_of: Callable[[TableStep], StepRows], leaves: Leaves, calculation: Calculation
) -> StepRows:
    match step:
        case ReleasedPart():
            return _released(step, leaves(step.place))
        case Compute(source=source, outputs=outputs):
            rows = rows_of(source)
            return replace(rows, columns=_computed(rows, outputs, calculation))
        case KeepRows(source=source, condition=name):
            return _kept(rows_of(source), name)
        case SortRows(source=source, by=by):
            return _sorted(rows_of(source), by)
        case SliceRows(source=source):
            return _sliced(rows_of(source), step.offset, step.limit)
        case Fold(source=source):
            return fold(rows_of(source), step, calculation)
        case Over(source=source):
            return over(rows_of(source), step.calls, calculation)
        case JoinTables(left=left, right=right):
            return _joined(rows_of(left), rows_of(right), step, calculation)
        case Stack(sources=sources):
            return _stacked([rows_of(source) for source in sources])
        case Attach(source=source, scalar=scalar):
            return _attached(rows_of(source), rows_of(scalar), step)


def _released(step: ReleasedPart, table: AnswerTable) -> StepRows:
    named = {column.name: column for column in table.columns}
    columns = {}
    for name, output, kind in step.columns:
        column = named[output]
        values = numbers(column.values) if kind is Type.REAL else column.values.astype(object)
        if column.is_key:
            columns[name] = StepColumn(kind, values)
        else:
            low, high = (None if side is None else side.astype(float) for side in (column.low, column.high))
            columns[name] = StepColumn(kind, values, low, high, 1, column.reason, column.bare, column.remark)
    return certain(columns, len(table))


def _computed(rows: StepRows, outputs: tuple[Output, ...], calculation: Calculation) -> dict[str, StepColumn]:
    """Row by row. What is only renamed keeps its values as they are."""
    made = [output for output in outputs if not isinstance(output.expression, Column)]
    values = dict(zip((output.name for output in made), _values(rows, made, calculation), strict=True))
    columns = {}
    for output in outputs:
        expression = output.expression
        if isinstance(expression, Column):
            columns[output.name] = rows.columns[expression.name]
        else:
            columns[output.name] = _cells(rows, expression, values[output.name], calculation)
    return columns


def _values(rows: StepRows, outputs: list[Output], calculation: Calculation) -> list[Array]:
    if not outputs:
        return []
    used = {part.name for o in outputs for part in walk(o.expression) if isinstance(part, Column)}
    columns = {name: rows.columns[name].values for name in used}
    types = {name: rows.columns[name].type for name in used}
    return calculation.compute([output.expression for output in outputs], columns, types, rows.size)


def _cells(rows: StepRows, expression: Expression, values: Array, calculation: Calculation) -> StepColumn:
    names = {part.name for part in walk(expression) if isinstance(part, Column)}
    used = [rows.columns[name] for name in names if rows.columns[name].noisy]
    kind = expression.type or Type.TEXT
    if not used:
        return StepColumn(kind, values)
    known = [cells.many for cells in used if cells.many is not None]
    many = sum(known) if len(known) == len(used) else None
    if any(cells.bare for cells in used):
        return StepColumn(kind, values, many=many, bare=True)
    box = None
    if kind.is_number or kind is Type.BOOLEAN:
        box = box_of(expression, lambda part: _leaf(rows, part, calculation), is_noisy=lambda p: _is_noisy(rows, p))
    if box is None:
        reason = next((cells.reason for cells in used if cells.reason is not None), NO_RULE)
        return StepColumn(kind, values, many=many, reason=reason)
    ended = ~np.isnan(box[0].astype(float))
    return StepColumn(kind, values, *box, many, None if ended.all() else open_reason(expression))


def _is_noisy(rows: StepRows, part: Expression) -> bool:
    return isinstance(part, Column) and rows.columns[part.name].noisy


def _leaf(rows: StepRows, part: Expression, calculation: Calculation) -> Box | None:
    """The box of a noisy column; what holds none is its own."""
    if isinstance(part, Column):
        return rows.columns[part.name].box()
    if part.type in (Type.TEXT, Type.DATE, Type.TIMESTAMP):
        return None
    if part.type is None:
        return exactly(np.full(rows.size, np.nan))
    (values,) = _values(rows, [Output("", part)], calculation)
    return exactly(numbers(values))


def _kept(rows: StepRows, name: str) -> StepRows:
    cells = rows.columns[name]
    held = np.array([value is True for value in cells.values.tolist()], bool).reshape(rows.size)
    shown = rows.shown & held
    if not cells.noisy:
        return replace(rows, shown=shown, sure=rows.sure & held, possible=rows.possible & held)
    box = cells.box()
    sure, possible = (
        (np.zeros(rows.size, bool), np.ones(rows.size, bool)) if box is None else (box[0] == 1, box[1] != 0)
    )
    return replace(rows, shown=shown, sure=rows.sure & sure, possible=rows.possible & possible, chosen=True)


def _sorted(rows: StepRows, by: tuple[tuple[str, bool], ...]) -> StepRows:
    place = ranks([(rows.columns[name].values, descending) for name, descending in by], rows.size)
    noisy = any(rows.columns[name].noisy for name, _ in by)
    return replace(rows.take(np.argsort(place, kind="stable")), by_noise=rows.by_noise or noisy)


def _sliced(rows: StepRows, offset: int, limit: int | None) -> StepRows:
    places = np.cumsum(rows.shown) - 1
    inside = (places >= offset) & (places < (offset + limit if limit is not None else rows.size))
    shown = rows.shown & inside
    if rows.exact and not rows.by_noise:
        return replace(rows, shown=shown, sure=rows.sure & inside, possible=rows.possible & inside)
    if (shown == rows.shown).all() and rows.exact:
        return rows
    return replace(rows, shown=shown, sure=np.zeros(rows.size, bool), chosen=True)


def _joined(left: StepRows, right: StepRows, step: JoinTables, calculation: Calculation) -> StepRows:
    """Rows that may be there besides are forgotten: nobody knows which partners they would find.

    Where an outer join finds no partner it gives NULL; where noisy numbers decide who has one, so do they over NULL.
    """
    first, second = left.visible(), right.visible()
    columns = {**first.columns, **second.columns}
    used = {part.name for part in walk(step.condition) if isinstance(part, Column)} if step.condition else set()
    sides = [
        (
            {name: cells.values for name, cells in rows.columns.items() if name in used},
            {name: cells.type for name, cells in rows.columns.items() if name in used},
            rows.size,
        )
        for rows in (first, second)
    ]
    a, b = calculation.pairs(step.condition, sides[0], sides[1], step.how)
    noisy = any(columns[name].noisy for name in used)
    taken: dict[str, StepColumn] = {}
    for rows, at, outer in ((first, a, ("RIGHT", "FULL")), (second, b, ("LEFT", "FULL"))):
        doubted = step.how in outer and (noisy or not rows.exact)
        taken |= {name: _doubted(cells.take(at)) if doubted else cells.take(at) for name, cells in rows.columns.items()}
    chosen, by_noise = noisy or left.chosen or right.chosen, left.by_noise or right.by_noise
    return replace(
        certain(taken, len(a)), closed=first.closed and second.closed and not noisy, chosen=chosen, by_noise=by_noise
    )


def _stacked(tables: list[StepRows]) -> StepRows:
    first = tables[0]
    columns = {}
    for place, name in enumerate(first.columns):
        columns[name] = _below([list(rows.columns.values())[place] for rows in tables])
    return StepRows(
        columns,
        np.concatenate([rows.shown for rows in tables]),
        np.concatenate([rows.sure for rows in tables]),
        np.concatenate([rows.possible for rows in tables]),
        closed=all(rows.closed for rows in tables),
        chosen=any(rows.chosen for rows in tables),
        by_noise=any(rows.by_noise for rows in tables),
    )


def _below(cells: list[StepColumn]) -> StepColumn:
    """Columns one below the other. A public number has its own box, so that it may stand beside noisy ones."""
    kind = Type.REAL if any(one.type is Type.REAL for one in cells) else cells[0].type
    parts = [numbers(one.values) if kind is Type.REAL else one.values for one in cells]
    values = np.concatenate(parts)
    if not any(one.noisy for one in cells):
        return StepColumn(kind, values)
    counted = [one.many for one in cells]
    many = None if None in counted else max(many or 0 for many in counted)
    reason = next((one.reason for one in cells if one.reason is not None), None)
    bare, remark = any(one.bare for one in cells), next((one.remark for one in cells if one.remark is not None), None)
    boxes = [one.box() for one in cells]
    missing = [(np.full(len(one.values), np.nan),) * 2 for one in cells]
    if all(box is None for box in boxes):
        return StepColumn(kind, values, None, None, many, reason or NO_RULE, bare, remark)
    ends = [box or none for box, none in zip(boxes, missing, strict=True)]
    low, high = (np.concatenate([end[side] for end in ends]) for side in (0, 1))
    return StepColumn(kind, values, low, high, many, reason, bare, remark)


def _attached(rows: StepRows, scalar: StepRows, step: Attach) -> StepRows:
    row = scalar.visible()
    cells = row.columns[step.column].take(np.full(rows.size, 0 if row.size else -1))
    if not scalar.exact:
        cells = _doubted(cells)
    elif cells.noisy and scalar.chosen:
        cells = replace(cells, many=None)
    return replace(rows, columns={**rows.columns, step.name: cells})


def _doubted(cells: StepColumn) -> StepColumn:
    """Which row they are of, if any, follows from noisy numbers, and so does a value that is public by itself."""
    return StepColumn(cells.type, cells.values, many=None, reason=CHOSEN_ROWS)
