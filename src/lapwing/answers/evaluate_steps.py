"""Runs the steps above the release over the tables of the parts.

Values come from the calculator. Beside them every noisy number carries the box it lies in, and each step maps boxes to
boxes that hold all that the step gives while its inputs lie in theirs (interval_arithmetic.py, step_functions.py). So
an interval holds whenever the boxes of the released numbers it is computed from do; `StepColumn.used` says which
confidence those need (computed.py).
Private: the only inputs are released tables and the tree.
Checked by: tests/answers/test_postprocess.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from lapwing.answers.columns import is_true, open_reason, ranks
from lapwing.answers.interval_arithmetic import box_of, exactly
from lapwing.answers.step_functions import fold, over
from lapwing.answers.step_rows import Missing, StepColumn, StepRows, certain, split, unboxed
from lapwing.answers.table import AnswerTable, Box, numbers
from lapwing.arrays import Array
from lapwing.engines.public_values import Calculation
from lapwing.expressions.expression import Column, Expression, walk
from lapwing.expressions.types import Type
from lapwing.plan import postprocessed as steps
from lapwing.plan.question import Output

Leaves = Callable[[int], AnswerTable]
"""The released table of each part."""


def evaluate(root: steps.TableStep, leaves: Leaves, calculation: Calculation) -> StepRows:
    """The rows of the last step; raises OverrunError if that takes too long."""
    done: dict[int, StepRows] = {}

    def rows_of(step: steps.TableStep) -> StepRows:
        if id(step) not in done:
            done[id(step)] = _run(step, rows_of, leaves, calculation)
            calculation.check(done[id(step)].size)
        return done[id(step)]

    return rows_of(root)


def _run(
    step: steps.TableStep, rows_of: Callable[[steps.TableStep], StepRows], leaves: Leaves, calculation: Calculation
) -> StepRows:
    match step:
        case steps.ReleasedPart():
            return _released(step, leaves(step.place))
        case steps.Compute(source=source):
            return _computed(rows_of(source), step.outputs, calculation)
        case steps.KeepRows(source=source):
            return _kept(rows_of(source), step.condition)
        case steps.SortRows(source=source):
            return _sorted(rows_of(source), step.by)
        case steps.SliceRows(source=source):
            return _sliced(rows_of(source), step.offset, step.limit)
        case steps.Fold(source=source):
            return fold(rows_of(source), step, calculation)
        case steps.Over(source=source):
            return over(rows_of(source), step.calls, calculation)
        case steps.JoinTables(left=left, right=right):
            return _joined(rows_of(left), rows_of(right), step, calculation)
        case steps.Stack(sources=sources):
            return _stacked([rows_of(source) for source in sources])
        case steps.Attach(source=source, scalar=scalar):
            return _attached(rows_of(source), rows_of(scalar), step)


def _released(step: steps.ReleasedPart, table: AnswerTable) -> StepRows:
    named = {column.name: column for column in table.columns}
    columns = {}
    for name, output, kind in step.columns:
        column = named[output]
        values = numbers(column.values.tolist()) if kind is Type.REAL else column.values.astype(object)
        if column.is_key:
            columns[name] = StepColumn(kind, values)
        else:
            low, high = (None if side is None else side.astype(float) for side in (column.low, column.high))
            columns[name] = StepColumn(kind, values, low, high, 1, column.reason, column.bare, column.remark)
    return certain(columns, len(table))


def _computed(rows: StepRows, outputs: tuple[Output, ...], calculation: Calculation) -> StepRows:
    """Row by row. What is only renamed keeps its values as they are."""
    values = iter(_values(rows, [o.expression for o in outputs if not isinstance(o.expression, Column)], calculation))
    columns = {}
    for output in outputs:
        if isinstance(output.expression, Column):
            columns[output.name] = rows.columns[output.expression.name]
        else:
            columns[output.name] = _cells(rows, output.expression, next(values), calculation)
    return replace(rows, columns=columns)


def _values(rows: StepRows, expressions: list[Expression], calculation: Calculation) -> list[Array]:
    if not expressions:
        return []
    used = {part.name for expression in expressions for part in walk(expression) if isinstance(part, Column)}
    return calculation.compute(expressions, *split({name: rows.columns[name] for name in used}), rows.size)


def _cells(rows: StepRows, expression: Expression, values: Array, calculation: Calculation) -> StepColumn:
    names = {part.name for part in walk(expression) if isinstance(part, Column)}
    used = [rows.columns[name] for name in names if rows.columns[name].noisy]
    kind = expression.type or Type.TEXT
    if not used:
        return StepColumn(kind, values)
    counts = [cells.used for cells in used]
    total = None if None in counts else sum(count or 0 for count in counts)
    if any(cells.bare for cells in used):
        return StepColumn(kind, values, used=total, bare=True)
    box = None
    if kind.is_number or kind is Type.BOOLEAN:
        box = box_of(
            expression,
            lambda part: _leaf(rows, part, calculation),
            is_noisy=lambda part: isinstance(part, Column) and rows.columns[part.name].noisy,
        )
    if box is None:
        reason = next((cells.reason for cells in used if cells.reason is not None), Missing.NO_RULE)
        return StepColumn(kind, values, used=total, reason=reason)
    open_ = np.isnan(box[0].astype(float)).any()
    return StepColumn(kind, values, *box, total, open_reason(expression) if open_ else None)


def _leaf(rows: StepRows, part: Expression, calculation: Calculation) -> Box | None:
    """The box of a noisy column; what holds none is its own."""
    if isinstance(part, Column):
        return rows.columns[part.name].box()
    if part.type in (Type.TEXT, Type.DATE, Type.TIMESTAMP):
        return None
    if part.type is None:
        return exactly(np.full(rows.size, np.nan))
    (values,) = _values(rows, [part], calculation)
    return exactly(numbers(values.tolist()))


def _kept(rows: StepRows, name: str) -> StepRows:
    cells = rows.columns[name]
    held = is_true(cells.values)
    shown = rows.shown & held
    if not cells.noisy:
        return replace(rows, shown=shown, sure=rows.sure & held, possible=rows.possible & held)
    low, high = cells.box() or (np.zeros(rows.size), np.ones(rows.size))
    sure, possible = low == 1, high != 0
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


def _joined(left: StepRows, right: StepRows, step: steps.JoinTables, calculation: Calculation) -> StepRows:
    """Rows that may be there besides are forgotten: which partners they would find is not known. Where noisy numbers
    decide which rows of an outer join have a partner, they decide what is NULL."""
    first, second = left.visible(), right.visible()
    columns = {**first.columns, **second.columns}
    used = {part.name for part in walk(step.condition) if isinstance(part, Column)} if step.condition else set()
    sides = [{name: cells for name, cells in rows.columns.items() if name in used} for rows in (first, second)]
    a, b = calculation.pairs(step.condition, (*split(sides[0]), first.size), (*split(sides[1]), second.size), step.how)
    noisy = any(columns[name].noisy for name in used)
    taken: dict[str, StepColumn] = {}
    for rows, at, outer in ((first, a, ("RIGHT", "FULL")), (second, b, ("LEFT", "FULL"))):
        doubted = step.how in outer and (noisy or not rows.exact)
        for name, cells in rows.columns.items():
            taken[name] = _doubted(cells.take(at)) if doubted else cells.take(at)
    chosen, by_noise = noisy or left.chosen or right.chosen, left.by_noise or right.by_noise
    return replace(
        certain(taken, len(a)), closed=first.closed and second.closed and not noisy, chosen=chosen, by_noise=by_noise
    )


def _stacked(tables: list[StepRows]) -> StepRows:
    stacks = zip(*(rows.columns.values() for rows in tables), strict=True)
    columns = dict(zip(tables[0].columns, map(_below, stacks), strict=True))
    marks = zip(*((rows.shown, rows.sure, rows.possible) for rows in tables), strict=True)
    shown, sure, possible = map(np.concatenate, marks)
    closed, chosen = all(rows.closed for rows in tables), any(rows.chosen for rows in tables)
    return StepRows(columns, shown, sure, possible, closed, chosen, any(rows.by_noise for rows in tables))


def _below(parts: Sequence[StepColumn]) -> StepColumn:
    """Columns one below the other. A public number has its own box, so that it may stand beside noisy ones."""
    kind = Type.REAL if any(part.type is Type.REAL for part in parts) else parts[0].type
    values = np.concatenate([numbers(part.values.tolist()) if kind is Type.REAL else part.values for part in parts])
    if not any(part.noisy for part in parts):
        return StepColumn(kind, values)
    counts = [part.used for part in parts]
    used = None if None in counts else max(count or 0 for count in counts)
    reason = next((part.reason for part in parts if part.reason is not None), None)
    bare = any(part.bare for part in parts)
    remark = next((part.remark for part in parts if part.remark is not None), None)
    boxes = [part.box() for part in parts]
    if all(box is None for box in boxes):
        return StepColumn(kind, values, None, None, used, reason or Missing.NO_RULE, bare, remark)
    ends = [box or (np.full(len(part.values), np.nan),) * 2 for box, part in zip(boxes, parts, strict=True)]
    low, high = map(np.concatenate, zip(*ends, strict=True))
    return StepColumn(kind, values, low, high, used, reason, bare, remark)


def _attached(rows: StepRows, scalar: StepRows, step: steps.Attach) -> StepRows:
    row = scalar.visible()
    cells = row.columns[step.column].take(np.full(rows.size, 0 if row.size else -1))
    if not scalar.exact:
        cells = _doubted(cells)
    elif cells.noisy and scalar.chosen:
        cells = replace(cells, used=None)
    return replace(rows, columns={**rows.columns, step.name: cells})


def _doubted(cells: StepColumn) -> StepColumn:
    """Which row they are of, if any, follows from noisy numbers, and so does a value that is public by itself."""
    return unboxed(cells.type, cells.values, Missing.CHOSEN_ROWS)
