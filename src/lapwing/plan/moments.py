"""Means and variances, covariance, correlation and pair_moments.

Their cells are whole numbers of at least 0 that sum to at most rows * M, the sensitivity, and say how a unit's values
spread between their bounds: two or three for one column (mechanisms/moments/mean.py), nine for two columns
(mechanisms/moments/pair_moments.py).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
from sqlglot import exp

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Expression
from lapwing.expressions.forms import ExactSum, Least, WholeQuotient, WideProduct
from lapwing.expressions.identity import Facts, interval_facts
from lapwing.expressions.table import Table
from lapwing.expressions.types import Interval, Type, text_of
from lapwing.mechanisms.additive.tails import tail_bound
from lapwing.mechanisms.cells import CellColumns, Cells
from lapwing.mechanisms.moments import moment_values, pair_moments, variance
from lapwing.mechanisms.moments.mean import (
    Mean,
    Variance,
    mean_error,
    mean_error_of_three,
    stddev_error,
    variance_error,
)
from lapwing.mechanisms.moments.moment_values import GRID, ColumnCells
from lapwing.plan.kind import CellBand, Function, Kind, Measure, Reading, row_limit, wide_bounds
from lapwing.plan.row_values import Read, RowColumn, one_if_present, zero_if_null
from lapwing.plan.total import COUNT_VALUES, SUM

StatisticReader = tuple[Callable[..., Cells], Callable[..., CellBand]]
"""How values and intervals of a statistic are read off noisy cells."""


class RowShares(Kind):
    """Cells among which every row shares M steps; sums over units of whole numbers that are exact for any rows."""

    __slots__ = ()
    step_unit: ClassVar[int] = GRID
    noise_target: ClassVar[str] = "to soft counts of rows"
    rows: int

    def sensitivity(self, step: Fraction) -> int:
        return self.rows * GRID

    @abstractmethod
    def parts(self, read: Read) -> list[exp.Expression]:
        """What one row adds to the totals, NULL where a value is missing; the last, 1, is the row."""

    def unit_totals(self, step: Fraction, read: Read) -> list[exp.Expression]:
        parts = self.parts(read)
        return [*(zero_if_null(ExactSum(this=part, most=GRID)) for part in parts[:-1]), exp.Count(this=parts[0].copy())]

    def row_parts(self, step: Fraction, read: Read) -> list[exp.Expression]:
        parts = self.parts(read)
        return [*map(zero_if_null, parts[:-1]), one_if_present(exp.Paren(this=parts[0].copy()))]


@dataclass(frozen=True, slots=True)
class MomentsKind(RowShares):
    """Two cells for the mean, three for the variance too."""

    argument: Expression
    bounds: Interval
    rows: int
    """A unit with more values counts with this weight, at its own average."""
    squares: bool = False

    @property
    def facts(self) -> Facts:
        return ("soft", interval_facts(self.bounds), self.rows, self.squares)

    def __str__(self) -> str:
        return f"values are clipped to {self.bounds} and each unit weighs at most {text_of(self.rows)} rows in a group"

    @property
    def cells(self) -> int:
        return 3 if self.squares else 2

    def merge(self, others: Sequence[Kind]) -> Kind:
        return replace(self, squares=any(isinstance(one, MomentsKind) and one.squares for one in (self, *others)))

    def columns(self, step: Fraction) -> list[RowColumn]:
        return [RowColumn(self.argument, True, self.bounds, GRID)]

    def parts(self, read: Read) -> list[exp.Expression]:
        return [read(0), *([scaled_product(read(0), read(0))] if self.squares else []), exp.Literal.number(1)]

    def unit_cells(self, step: Fraction, totals: list[exp.Expression]) -> list[exp.Expression]:
        first, *square, held = totals
        cells = list(three_cells(first, square[0], held)) if square else [first, rest_of(held, [first])]
        return weigh(cells, held, self.rows, rest=1)

    def values(self, measure: Measure, cells: CellColumns, reading: Reading) -> Cells:
        return _READERS[reading.statistic][0](self._column(measure), cells)

    def intervals(
        self, measure: Measure, cells: CellColumns, reading: Reading, confidence: Fraction, *, simultaneous: int
    ) -> CellBand | None:
        read = _READERS[reading.statistic][1]
        return read(self._column(measure), cells, confidence, simultaneous=simultaneous)

    def is_known_beforehand(self, statistic: str) -> bool:
        return statistic in (COUNT_VALUES.name, SUM.name)

    def half_width(self, measure: Measure, statistic: str, confidence: Fraction, rows: int | None) -> Fraction | None:
        noise, outside, places = measure.noise, float(1 - confidence), self._places
        low, width = float(self.bounds.low), float(self.bounds.high) - float(self.bounds.low)
        match statistic:
            case COUNT_VALUES.name:
                return Fraction(tail_bound(noise, (1.0,) * len(places), outside) / GRID)
            case SUM.name:
                return Fraction(tail_bound(noise, tuple((low + width * place) / GRID for place in places), outside))
            case MEAN.name if rows is not None:
                error = mean_error_of_three if self.squares else mean_error
                return Fraction(error(noise, width, confidence, rows=rows))
            case VARIANCE.name | SAMPLE_VARIANCE.name if rows is not None:
                return Fraction(variance_error(noise, width, confidence, rows=rows))
            case STDDEV.name | SAMPLE_STDDEV.name if rows is not None:
                return Fraction(stddev_error(noise, width, confidence, rows=rows))
            case _:
                return None

    def range_width(self, statistic: str) -> Fraction | None:
        width = self.bounds.high - self.bounds.low
        match statistic:
            case MEAN.name:
                return width
            case VARIANCE.name | SAMPLE_VARIANCE.name:
                return width**2 / 4
            case STDDEV.name | SAMPLE_STDDEV.name:
                return width / 2
            case _:
                return None

    @property
    def _places(self) -> tuple[float, ...]:
        return Variance.places if self.squares else Mean.places

    def _column(self, measure: Measure) -> ColumnCells:
        bounds = self.bounds.low, self.bounds.high
        return ColumnCells(measure.noise, bounds, self._places, Variance.squares if self.squares else ())


def scaled_product(a: exp.Expression, b: exp.Expression) -> exp.Expression:
    """a * b >> 30 for integers up to 2^30, so within 2^60."""
    product = exp.Paren(this=exp.Mul(this=a, expression=b))
    return exp.Paren(this=exp.BitwiseRightShift(this=product, expression=exp.Literal.number(30)))


def three_cells(first: exp.Expression, square: exp.Expression, held: exp.Expression) -> tuple[exp.Expression, ...]:
    """The three cells of a unit from its totals of a and s: n M - 2 A + S, 2 (A - S), S."""
    two = exp.Literal.number(2)
    lowest = exp.Add(this=rest_of(held, [exp.Mul(this=two, expression=first.copy())]), expression=square.copy())
    middle = exp.Mul(this=two.copy(), expression=exp.Paren(this=exp.Sub(this=first.copy(), expression=square.copy())))
    return exp.Paren(this=lowest), exp.Paren(this=middle), square.copy()


def rest_of(held: exp.Expression, taken: list[exp.Expression]) -> exp.Expression:
    """What is left of M for each of the values."""
    node: exp.Expression = exp.Mul(this=held.copy(), expression=exp.Literal.number(GRID))
    for part in taken:
        node = exp.Sub(this=node, expression=part.copy())
    return exp.Paren(this=node)


def weigh(cells: list[exp.Expression], held: exp.Expression, rows: int, *, rest: int) -> list[exp.Expression]:
    """Whole numbers of at least 0 that sum to min(held, rows) M exactly, whatever the rows hold.

    A unit with more values is scaled down: every cell but one becomes floor(cell rows / held), in exact integers. The
    floors sum to at most rows M, since the cells sum to held M; the last cell takes what is left.
    """
    limit = exp.Literal.number(rows)
    weight = Least(expressions=[held.copy(), limit])
    scaled: list[exp.Expression] = []
    for cell in cells:
        fits = exp.LTE(this=held.copy(), expression=limit.copy())
        much = exp.Paren(this=WideProduct(this=cell.copy(), expression=limit.copy()))
        floor = WholeQuotient(this=much, expression=exp.Nullif(this=held.copy(), expression=exp.Literal.number(0)))
        scaled.append(exp.Case(ifs=[exp.If(this=fits, true=cell.copy())], default=floor))
    scaled[rest] = rest_of(weight, [cell for i, cell in enumerate(scaled) if i != rest])
    return scaled


def _counts(_: ColumnCells, cells: CellColumns) -> Cells:
    return np.rint(moment_values.counts(cells)).astype(np.int64)


def _mean(table: Table, aggregate: Aggregate) -> MomentsKind:
    (argument,) = aggregate.arguments
    return MomentsKind(argument, wide_bounds(aggregate, argument), row_limit(table, aggregate))


def _spread(table: Table, aggregate: Aggregate) -> MomentsKind:
    return replace(_mean(table, aggregate), squares=True)


FAMILY = "moments"
MEAN = Function("mean", "AVG(x)", Type.REAL, "the mean", _mean, FAMILY)
VARIANCE = Function("var_pop", "VAR_POP(x)", Type.REAL, "the variance", _spread, FAMILY)
SAMPLE_VARIANCE = Function("var_samp", "VARIANCE(x)", Type.REAL, "the sample variance", _spread, FAMILY)
STDDEV = Function("stddev_pop", "STDDEV_POP(x)", Type.REAL, "the standard deviation", _spread, FAMILY)
SAMPLE_STDDEV = Function("stddev_samp", "STDDEV(x)", Type.REAL, "the sample standard deviation", _spread, FAMILY)
MOMENTS = MEAN, VARIANCE, SAMPLE_VARIANCE, STDDEV, SAMPLE_STDDEV

_READERS: dict[str, StatisticReader] = {
    MEAN.name: (moment_values.means, moment_values.mean_intervals),
    SUM.name: (moment_values.sums, moment_values.sum_intervals),
    COUNT_VALUES.name: (_counts, moment_values.count_intervals),
    VARIANCE.name: (variance.variances, variance.variance_intervals),
    STDDEV.name: (variance.stddevs, variance.stddev_intervals),
    SAMPLE_VARIANCE.name: (partial(variance.variances, sample=True), partial(variance.variance_intervals, sample=True)),
    SAMPLE_STDDEV.name: (partial(variance.stddevs, sample=True), partial(variance.stddev_intervals, sample=True)),
}


@dataclass(frozen=True, slots=True)
class PairKind(RowShares):
    """Nine cells for two columns; a row takes part if it has both values."""

    x: Expression
    y: Expression
    x_bounds: Interval
    y_bounds: Interval
    rows: int
    cells: ClassVar[int] = 9

    @property
    def facts(self) -> Facts:
        return ("pair", interval_facts(self.x_bounds), interval_facts(self.y_bounds), self.rows)

    def __str__(self) -> str:
        limits = f"{self.x_bounds} and {self.y_bounds}"
        return f"values are clipped to {limits} and each unit weighs at most {text_of(self.rows)} rows in a group"

    def columns(self, step: Fraction) -> list[RowColumn]:
        return [RowColumn(self.x, True, self.x_bounds, GRID), RowColumn(self.y, True, self.y_bounds, GRID)]

    def parts(self, read: Read) -> list[exp.Expression]:
        a, b = read(0), read(1)
        there = exp.Not(this=exp.Is(this=b, expression=exp.Null()))
        first = exp.Case(ifs=[exp.If(this=there, true=a)])
        square = exp.Case(ifs=[exp.If(this=there.copy(), true=scaled_product(a.copy(), a.copy()))])
        (b0, _, b2), sides = _thirds(b), _thirds(a)
        products = [scaled_product(side.copy(), end.copy()) for side in sides for end in (b0, b2)]
        return [first, square, *products, exp.Literal.number(1)]

    def unit_cells(self, step: Fraction, totals: list[exp.Expression]) -> list[exp.Expression]:
        first, square, *products, held = totals
        return weigh(_tensor(three_cells(first, square, held), products), held, self.rows, rest=4)

    def values(self, measure: Measure, cells: CellColumns, reading: Reading) -> Cells:
        return _PAIR_READERS[reading.statistic][0](self._columns(measure), cells)

    def intervals(
        self, measure: Measure, cells: CellColumns, reading: Reading, confidence: Fraction, *, simultaneous: int
    ) -> CellBand | None:
        read = _PAIR_READERS[reading.statistic][1]
        return read(self._columns(measure), cells, confidence, simultaneous=simultaneous)

    def is_known_beforehand(self, statistic: str) -> bool:
        return False

    def half_width(self, measure: Measure, statistic: str, confidence: Fraction, rows: int | None) -> Fraction | None:
        return None

    def _columns(self, measure: Measure) -> pair_moments.PairCells:
        x, y = ((bounds.low, bounds.high) for bounds in (self.x_bounds, self.y_bounds))
        return pair_moments.PairCells(measure.noise, x, y)


def _thirds(a: exp.Expression) -> tuple[exp.Expression, exp.Expression, exp.Expression]:
    """A row's shares of three cells, from its place a in 0..M: M - 2a + s, 2(a - s), s with s = a * a >> 30."""
    square, two = scaled_product(a.copy(), a.copy()), exp.Literal.number(2)
    double = exp.Mul(this=two, expression=a.copy())
    first = exp.Add(this=exp.Sub(this=exp.Literal.number(GRID), expression=double), expression=square)
    middle = exp.Mul(this=two.copy(), expression=exp.Paren(this=exp.Sub(this=a.copy(), expression=square.copy())))
    return exp.Paren(this=first), exp.Paren(this=middle), square.copy()


def _tensor(sides: tuple[exp.Expression, ...], products: list[exp.Expression]) -> list[exp.Expression]:
    """Nine cells: of each side the two products at the ends, and between them what is left of the side."""
    cells = []
    for side, (low, high) in zip(sides, zip(products[::2], products[1::2], strict=True), strict=True):
        middle = exp.Sub(this=exp.Sub(this=side.copy(), expression=low.copy()), expression=high.copy())
        cells += [low.copy(), exp.Paren(this=middle), high.copy()]
    return cells


def _pair(table: Table, aggregate: Aggregate) -> PairKind:
    y, x = aggregate.arguments
    bounds = wide_bounds(aggregate, x), wide_bounds(aggregate, y)
    return PairKind(x, y, *bounds, row_limit(table, aggregate))


COVARIANCE = Function("covar_pop", "COVAR_POP(y, x)", Type.REAL, "the covariance", _pair, "pair")
SAMPLE_COVARIANCE = Function("covar_samp", "COVAR_SAMP(y, x)", Type.REAL, "the sample covariance", _pair, "pair")
CORRELATION = Function("corr", "CORR(y, x)", Type.REAL, "the correlation", _pair, "pair")
SLOPE = Function("regr_slope", "REGR_SLOPE(y, x)", Type.REAL, "the slope of y over x", _pair, "pair")
INTERCEPT = Function("regr_intercept", "REGR_INTERCEPT(y, x)", Type.REAL, "the intercept of y over x", _pair, "pair")
PAIRS = COVARIANCE, SAMPLE_COVARIANCE, CORRELATION, SLOPE, INTERCEPT

_PAIR_READERS: dict[str, StatisticReader] = {
    COVARIANCE.name: (pair_moments.covariances, pair_moments.covariance_intervals),
    SAMPLE_COVARIANCE.name: (
        partial(pair_moments.covariances, sample=True),
        partial(pair_moments.covariance_intervals, sample=True),
    ),
    CORRELATION.name: (pair_moments.correlations, pair_moments.correlation_intervals),
    SLOPE.name: (pair_moments.slopes, pair_moments.slope_intervals),
    INTERCEPT.name: (pair_moments.intercepts, pair_moments.intercept_intervals),
}
