"""Above the aggregation: from released numbers to the columns of the answer. All of it is post-processing, and free.

A released number has its own interval (`intervals_of`). A column computed from m released numbers takes each of them
at confidence 1 - (1 - c) / m, so that all m hold together with probability c at least, and carries the box of intervals
through the arithmetic (interval_arithmetic.py). Where that gives no bound, `reason` says why. HAVING, LIMIT and
conditions choose by noisy numbers, and prefer lucky noise: a number that was chosen by gets intervals that hold for all
groups together, whatever is asked. Other numbers have independent noise, and keep their intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import attrgetter
from typing import Any

import numpy as np

from lapwing.answers.interval_arithmetic import box_of, exactly
from lapwing.answers.table import AnswerColumn, numbers, shown_box
from lapwing.arrays import Array, objects
from lapwing.engines.public_values import calculate, name_of
from lapwing.errors import Bug
from lapwing.expressions.expression import Call, Column, Expression, Key, Literal, Slot, walk
from lapwing.expressions.types import Type
from lapwing.mechanisms.cells import Cells
from lapwing.mechanisms.quantiles.grid_quantiles import is_approximate
from lapwing.plan.add_noise import Released
from lapwing.plan.key_selection import shown_intervals
from lapwing.plan.kind import CellBand, Kind, Measure, Reading
from lapwing.plan.plan import Plan

_UNBOUNDED = (
    "an interval for all groups together must be planned for their number, which is not known before keys are selected"
)
_LACKS_INTERVALS = attrgetter("lacks_intervals")
UNFOUND = "NULL: a search found nothing to rely on"
_INSIDE = "approximate: an extreme quantile, inside the outermost value; far inside where there are few rows"


def values_of(plan: Plan, released: Released, reading: Reading) -> Cells:
    """The number that was asked for, in each group."""
    measure = plan.measures[reading.measure]
    return measure.kind.values(measure, released.cells[reading.measure], reading)


def intervals_of(
    plan: Plan, released: Released, reading: Reading, confidence: Fraction, *, simultaneous: int
) -> CellBand | None:
    """The interval of that number in each group, of all `simultaneous` groups together; None if there is none."""
    measure, cells = plan.measures[reading.measure], released.cells[reading.measure]
    if measure.mechanism is None:
        return shown_intervals(plan.selection, cells[0], 1 - (1 - confidence) / simultaneous)
    return measure.kind.intervals(measure, cells, reading, confidence, simultaneous=simultaneous)


def half_width(measure: Measure, statistic: str, confidence: Fraction, *, rows: int | None = None) -> Fraction | None:
    """Half the width of the interval before asking, of a mean in groups of at least `rows` rows; None if unknown."""
    return None if measure.mechanism is None else measure.kind.half_width(measure, statistic, confidence, rows)


def present(plan: Plan, released: Released, confidence: Fraction, *, simultaneous: bool = False) -> list[AnswerColumn]:
    """The columns of the answer, filtered, sorted and limited as the question says."""
    above = _Above(plan, released, confidence, simultaneous)
    columns = [above.column(output.name, output.expression) for output in above.question.outputs]
    rows = above.rows()[: above.question.limit]
    return [column.take(rows) for column in columns]


def unanswered(plan: Plan) -> list[AnswerColumn]:
    """The columns of a question without an answer: NULL for every number, beside the public keys, whatever HAVING says.

    Keys that are not public are one row of NULLs.
    """
    none = tuple(np.full(1, None, object) for _ in plan.question.keys) if plan.outline.domain is None else ()
    above = _Above(plan, Released(none, ()), Fraction(1, 2), False)
    columns = []
    for output in plan.question.outputs:
        if any(isinstance(part, Slot) for part in walk(output.expression)):
            kind, nulls = output.expression.type or Type.TEXT, np.full(above.size, None, object)
            columns.append(AnswerColumn(output.name, kind, nulls, reason=UNFOUND))
        else:
            columns.append(above.column(output.name, output.expression))
    return [column.take(np.arange(above.size)[: plan.question.limit]) for column in columns]


def key_columns(plan: Plan, released: Released) -> tuple[Array, ...]:
    """Each key's value in every group: of public keys the public groups in their order, otherwise the shown ones."""
    if plan.outline.domain is None:
        return released.keys
    # Codes may be wider than any type of numpy's, which would round them.
    listed, columns = plan.outline.groups, []
    codes = np.arange(plan.group_count or 1) if listed is None else objects(listed)
    for values in reversed(plan.domain):
        columns.append(objects(values)[(codes % len(values)).astype(np.int64)])
        codes = codes // len(values)
    return tuple(reversed(columns))


class _Above:
    """Evaluates expressions over keys and released numbers."""

    def __init__(self, plan: Plan, released: Released, confidence: Fraction, simultaneous: bool) -> None:
        self.plan, self.released, self.confidence = plan, released, confidence
        self.outline, self.question = plan.outline, plan.question
        self.keys = key_columns(plan, released)
        self.values: dict[int, Array] = {}
        self.size = self.keys[0].size if self.keys else 1
        self.simultaneous = simultaneous

    def column(self, name: str, expression: Expression) -> AnswerColumn:
        outline, kind, values = self.outline, expression.type or Type.TEXT, self.value(expression)
        used = {part.index for part in walk(expression) if isinstance(part, Slot)}
        if not used:
            return AnswerColumn(name, kind, values)
        parameters = [first for slot in used for first in self.question.aggregates[slot].parameters[:1]]
        remark = _INSIDE if any(map(is_approximate, parameters)) else None
        measures = {outline.readings[slot].measure for slot in used}
        kinds, choosing = [outline.kinds[measure] for measure in measures], measures & outline.choosing
        if outline.group_count is None and outline.intervals and any(map(outline.is_quantile, choosing)):
            return AnswerColumn(name, kind, values, reason=_UNBOUNDED, remark=remark)
        if any(map(_LACKS_INTERVALS, kinds)):
            return AnswerColumn(name, kind, values, bare=True, remark=remark)
        level, chosen = 1 - (1 - self.confidence) / len(used), bool(choosing)
        together = max(1, self.size) if self.simultaneous or chosen else 1
        box = None
        if isinstance(expression, Slot) and kind.is_number:
            box = self.leaf(expression, level, together)
        elif kind.is_number:
            box = box_of(expression, lambda leaf: self.leaf(leaf, level, together))
        if box is None:
            return AnswerColumn(name, kind, values, reason=_missing(kinds, together), chosen=chosen, remark=remark)
        open_, ends = bool(np.isnan(box[0].astype(float)).any()), shown_box(box)
        reason = open_reason(expression) if open_ else None
        return AnswerColumn(name, kind, values, *ends, reason, chosen=chosen, remark=remark)

    def rows(self) -> Array:
        """Row numbers that HAVING keeps, in the order asked for; ties stay in the order of the keys."""
        rows = np.arange(self.size)
        if self.question.having is not None:
            rows = rows[is_true(self.value(self.question.having))]
        if self.question.order:
            by = [(self.value(key.expression)[rows], key.descending) for key in self.question.order]
            rows = rows[np.argsort(ranks(by, rows.size), kind="stable")]
        return rows

    def value(self, expression: Expression) -> Array:
        match expression:
            case Slot(index=index):
                if index not in self.values:  # a question of a batch reads few of many
                    self.values[index] = values_of(self.plan, self.released, self.outline.readings[index])
                return self.values[index]
            case Key(index=index):
                return self.keys[index]
            case Literal(value=value):
                return np.full(self.size, float(value) if isinstance(value, Fraction) else value)
            case Call():
                return self.calculated(expression)
            case Column():
                raise Bug("a column of the private table stands above the aggregation")

    def calculated(self, expression: Call) -> Array:
        leaves = {part for part in walk(expression) if isinstance(part, Key | Slot)}
        columns = {name_of(leaf): _storable(self.value(leaf), leaf.type) for leaf in leaves}
        types = {name_of(leaf): Type.REAL if columns[name_of(leaf)].dtype.kind == "f" else leaf.type for leaf in leaves}
        (values,) = calculate([expression], columns, types, self.size)
        if expression.type.is_number:
            return np.asarray(values.to_numpy(zero_copy_only=False))
        return objects(values.to_pylist())

    def leaf(self, expression: Expression, level: Fraction, together: int) -> tuple[Array, Array] | None:
        """The interval of a released number; a key or a constant is its own."""
        if isinstance(expression, Slot):
            reading = self.outline.readings[expression.index]
            return intervals_of(self.plan, self.released, reading, level, simultaneous=together)
        if expression.type in (Type.TEXT, Type.DATE, Type.TIMESTAMP):
            return None
        return exactly(numbers(self.value(expression).tolist()))


def _missing(kinds: Sequence[Kind], together: int) -> str:
    if together > 1 and any(kind.releases_intervals for kind in kinds):
        return "the interval of a quantile was released for one group, and does not hold for all together"
    return "no interval follows for this expression"


def open_reason(expression: Expression) -> str:
    """Why an interval has no ends in some group."""
    if any(isinstance(part, Call) and part.operator.name == "/" for part in walk(expression)):
        return "the interval of a divisor holds 0"
    return "the interval reaches where the expression has no value"


def _storable(values: Array, kind: Type) -> Array:
    """Reals as float64, and so integers beyond 64 bits."""
    wide = values.dtype == object and any(isinstance(value, int) and abs(value) >= 1 << 63 for value in values)
    return values.astype(float) if wide or kind is Type.REAL else values


def is_true(values: Array) -> Array:
    """In which rows a condition holds; NULL does not."""
    return np.array([value is True for value in values.tolist()], bool)


def comparable(values: Array) -> list[Any]:
    """Values for comparing: None for NULL and for what is not a number."""
    return [None if value is None or value != value else value for value in values.tolist()]


def ranks(columns: Sequence[tuple[Array, bool]], size: int) -> Array:
    """The rank of each row by these columns, descending or not; equal rows share it, and None comes last either way."""
    rank = np.zeros(size, np.int64)
    for column, descending in columns:
        values = comparable(column)
        distinct = sorted({value for value in values if value is not None}, reverse=descending)
        index = {value: i for i, value in enumerate(distinct)}
        digits = np.array([index.get(value, len(distinct)) for value in values], np.int64)
        _, rank = np.unique(rank * (len(distinct) + 1) + digits, return_inverse=True)
    return rank
