"""The table of aggregates over private rows: how each is written, what it means, and which shape answers it.

Aggregates of the same values share one shape where they can: where a mean is asked, its count and its sum come with it;
where a variance is asked, the mean does too; quantiles of one argument are one release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from lapwing.catalog.table import Table
from lapwing.language.aggregate import Aggregate
from lapwing.language.expression import Column, Expression, walk
from lapwing.language.operators.table import bounds_of
from lapwing.language.refusal import refuse
from lapwing.language.types import Interval, Type
from lapwing.measures.shapes import Distinct, Grid, Pair, Shape, Soft, Total

ONE = Interval(Fraction(0), Fraction(1))

FINE, COARSE, FEW = 1 << 16, 1 << 12, 16
"""Quantiles of reals: so many cells for up to so many groups, else fewer."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How an aggregate is read off the noisy cells of a measure."""

    measure: int
    statistic: str
    place: int = 0
    """Which of several quantiles."""


@dataclass(frozen=True, slots=True)
class Function:
    """One aggregate that an analyst may write."""

    name: str
    sql: str
    type: Type
    words: str
    """How the preview and the methods sentence speak of it."""
    shape: Callable[[Table, Aggregate], Shape]
    """What one unit adds; refused if that is not bounded."""
    family: str = ""
    """Aggregates of one family and the same arguments are read off one shape."""


def shapes_of(
    table: Table,
    aggregates: Sequence[Aggregate],
    *,
    groups: int | None = None,
    confidence: Fraction | None = Fraction(19, 20),
) -> tuple[tuple[Shape, ...], tuple[Reading, ...]]:
    """The measures that answer these aggregates, as few as possible, and how each aggregate is read off them.

    Without `confidence` quantiles have no intervals.
    """
    softened = {a.arguments for a in aggregates if FUNCTIONS[a.name].family == SOFT}
    found: dict[tuple[str, object], Shape] = {}
    readings = []
    for aggregate in aggregates:
        function = FUNCTIONS[aggregate.name]
        shared = aggregate.arguments in softened and _comes_along(table, aggregate)
        family = SOFT if shared else function.family
        source = Aggregate(MEAN.name, aggregate.arguments) if shared and not function.family else aggregate
        shape = FUNCTIONS[source.name].shape(table, source)
        key = (family, aggregate.arguments) if family else ("", aggregate)
        found[key] = shape if key not in found else _merged(found[key], shape)
        readings.append(
            Reading(list(found).index(key), aggregate.name if family else "total", _place(aggregate, aggregates))
        )
    return tuple(_settled(shape, groups, confidence) for shape in found.values()), tuple(readings)


def _place(aggregate: Aggregate, aggregates: Sequence[Aggregate]) -> int:
    """Which of the quantiles of its argument this one is."""
    alike = {a.parameters for a in aggregates if a.name == aggregate.name and a.arguments == aggregate.arguments}
    return sorted(alike).index(aggregate.parameters)


def _merged(one: Shape, other: Shape) -> Shape:
    """One shape that answers what both answer."""
    match one, other:
        case Soft(), Soft():
            return replace(one, squares=one.squares or other.squares)
        case Grid(), Grid():
            return replace(one, at=tuple(sorted({*one.at, *other.at})))
        case _:
            return one


def _settled(shape: Shape, groups: int | None, confidence: Fraction | None) -> Shape:
    """The shape with what depends on the whole question."""
    if not isinstance(shape, Grid):
        return shape
    bins = shape.bins or (FINE if groups is not None and groups <= FEW else COARSE)
    return replace(shape, bins=bins, confidence=confidence)


def _comes_along(table: Table, aggregate: Aggregate) -> bool:
    """Whether soft cells of its argument answer it: not where a unit's sum is clipped to bounds of its own."""
    argument = aggregate.arguments[0]
    own = isinstance(argument, Column) and table.field(argument.name).unit_bounds is not None
    soft = FUNCTIONS[aggregate.name].family == SOFT
    return soft or aggregate.name == COUNT_VALUES.name or (aggregate.name == SUM.name and not own)


def _rows(table: Table, asked: str) -> int:
    if table.row_limit is None:
        refuse(
            "unbounded-rows",
            asked,
            "one unit may have any number of rows here, so one unit could change the answer by any amount.",
            f"Ask for COUNT(DISTINCT {table.unit}), or have the steward declare rows_per_unit for `{table.name}`.",
        )
    return table.row_limit


def _argument(aggregate: Aggregate) -> Expression | None:
    return aggregate.arguments[0] if aggregate.arguments else None


def _count(table: Table, aggregate: Aggregate) -> Total:
    return Total(_argument(aggregate), False, ONE.times(_rows(table, aggregate.words())))


def _units(_: Table, aggregate: Aggregate) -> Total:
    return Total(_argument(aggregate), False, ONE)


def _sum(table: Table, aggregate: Aggregate) -> Total:
    (argument,) = aggregate.arguments
    bounds = _bounds(aggregate, argument)
    declared = table.field(argument.name).unit_bounds if isinstance(argument, Column) else None
    if declared is None and not table.by_row:
        bounds = bounds.times(_rows(table, aggregate.words()))
    total = Total(argument, True, bounds if declared is None else declared)
    if not total.interval.magnitude:
        refuse("constant-answer", aggregate.words(), "it is 0 whatever the rows hold.", "Leave it out.")
    return total


def _mean(table: Table, aggregate: Aggregate) -> Soft:
    (argument,) = aggregate.arguments
    return Soft(argument, _wide_bounds(aggregate, argument), _rows(table, aggregate.words()))


def _spread(table: Table, aggregate: Aggregate) -> Soft:
    return replace(_mean(table, aggregate), squares=True)


def _pair(table: Table, aggregate: Aggregate) -> Pair:
    y, x = aggregate.arguments
    bounds = _wide_bounds(aggregate, x), _wide_bounds(aggregate, y)
    return Pair(x, y, *bounds, _rows(table, aggregate.words()))


def _distinct(table: Table, aggregate: Aggregate) -> Distinct:
    (argument,) = aggregate.arguments
    return Distinct(argument, _rows(table, aggregate.words()))


def _quantile(table: Table, aggregate: Aggregate) -> Grid:
    (argument,) = aggregate.arguments
    bounds = _wide_bounds(aggregate, argument)
    low, high = math.ceil(bounds.low), math.floor(bounds.high)
    points = argument.type is Type.INTEGER and 1 < high - low + 1 <= FINE
    if points:
        bounds = Interval(Fraction(low), Fraction(high))
    rows = _rows(table, aggregate.words())
    return Grid(argument, bounds, rows, aggregate.parameters, high - low + 1 if points else 0, points, Fraction(19, 20))


def _wide_bounds(aggregate: Aggregate, argument: Expression) -> Interval:
    bounds = _bounds(aggregate, argument)
    if bounds.high - bounds.low <= bounds.magnitude / (1 << 20):
        refuse(
            "constant-answer",
            aggregate.words(),
            f"its bounds {bounds} are one number, or nearly so: the answer is known without asking.",
            "Leave it out, or have the steward declare wider bounds.",
        )
    if bounds.magnitude > _LARGEST:
        refuse(
            "bounds-too-wide",
            aggregate.words(),
            f"its bounds {bounds} are too wide to reckon with.",
            "Clip it: CLIP(..., 0, 100).",
        )
    return bounds


def _bounds(aggregate: Aggregate, argument: Expression) -> Interval:
    bounds = bounds_of(argument)
    if bounds is None:
        columns = [part for part in walk(argument) if isinstance(part, Column)]
        names = ", ".join(sorted({f"`{part.name}`" for part in columns if part.bounds is None and part.type.is_number}))
        refuse(
            "unbounded-value",
            aggregate.words(),
            "one row could hold a number of any size.",
            f"Clip it: {aggregate.function}(CLIP(..., 0, 100)), or have the steward declare bounds"
            f"{f' for {names}' if names else ''}, for example bounds = [0, 100].",
        )
    return bounds


SOFT, PAIR, GRID_FAMILY = "soft", "pair", "grid"
_LARGEST = Fraction(10) ** 100

COUNT_ROWS = Function("count_rows", "COUNT(*)", Type.INTEGER, "the number of rows", _count)
COUNT_VALUES = Function("count", "COUNT(x)", Type.INTEGER, "the number of values", _count)
COUNT_UNITS = Function("count_units", "COUNT(DISTINCT unit)", Type.INTEGER, "the number of units", _units)
COUNT_DISTINCT = Function(
    "count_distinct", "COUNT(DISTINCT x)", Type.INTEGER, "the number of different values", _distinct
)
SUM = Function("sum", "SUM(x)", Type.REAL, "the total", _sum)
MEAN = Function("mean", "AVG(x)", Type.REAL, "the mean", _mean, SOFT)
VARIANCE = Function("var_pop", "VAR_POP(x)", Type.REAL, "the variance", _spread, SOFT)
SAMPLE_VARIANCE = Function("var_samp", "VARIANCE(x)", Type.REAL, "the sample variance", _spread, SOFT)
STDDEV = Function("stddev_pop", "STDDEV_POP(x)", Type.REAL, "the standard deviation", _spread, SOFT)
SAMPLE_STDDEV = Function("stddev_samp", "STDDEV(x)", Type.REAL, "the sample standard deviation", _spread, SOFT)
COVARIANCE = Function("covar_pop", "COVAR_POP(y, x)", Type.REAL, "the covariance", _pair, PAIR)
SAMPLE_COVARIANCE = Function("covar_samp", "COVAR_SAMP(y, x)", Type.REAL, "the sample covariance", _pair, PAIR)
CORRELATION = Function("corr", "CORR(y, x)", Type.REAL, "the correlation", _pair, PAIR)
SLOPE = Function("regr_slope", "REGR_SLOPE(y, x)", Type.REAL, "the slope of y over x", _pair, PAIR)
INTERCEPT = Function("regr_intercept", "REGR_INTERCEPT(y, x)", Type.REAL, "the intercept of y over x", _pair, PAIR)
QUANTILE = Function(
    "quantile", "QUANTILE_CONT(x, 0.9), MEDIAN(x), MIN(x), MAX(x)", Type.REAL, "the quantile", _quantile, GRID_FAMILY
)

FUNCTIONS = {
    function.name: function
    for function in (
        COUNT_ROWS, COUNT_VALUES, COUNT_UNITS, COUNT_DISTINCT, SUM, MEAN, VARIANCE, SAMPLE_VARIANCE, STDDEV,
        SAMPLE_STDDEV, COVARIANCE, SAMPLE_COVARIANCE, CORRELATION, SLOPE, INTERCEPT, QUANTILE,
    )
}  # fmt: skip
"""Every aggregate there is."""
