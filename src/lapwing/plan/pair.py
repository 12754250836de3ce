"""Covariance, correlation and regression: nine cells for two columns (mechanisms/moments/pair_moments.py).

Whole numbers of at least 0 that sum to at most rows * M, which is the sensitivity. A row takes part if it has both
values.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from sqlglot import exp

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Expression
from lapwing.expressions.identity import Facts, interval_facts
from lapwing.expressions.table import Table
from lapwing.expressions.types import Interval, Type, text_of
from lapwing.mechanisms.cells import CellColumns, Cells
from lapwing.mechanisms.moments import pair_moments
from lapwing.mechanisms.moments.moment_values import GRID
from lapwing.plan.kind import CellBand, Function, Measure, Reading, row_limit, wide_bounds
from lapwing.plan.moments import RowShares, StatisticReader, scaled_product, three_cells, weigh
from lapwing.plan.row_values import Read, RowColumn


@dataclass(frozen=True, slots=True)
class PairKind(RowShares):
    """Nine cells for two columns; a row takes part if it has both values."""

    x: Expression
    y: Expression
    x_bounds: Interval
    y_bounds: Interval
    rows: int

    @property
    def facts(self) -> Facts:
        return ("pair", interval_facts(self.x_bounds), interval_facts(self.y_bounds), self.rows)

    def __str__(self) -> str:
        limits = f"{self.x_bounds} and {self.y_bounds}"
        return f"values are clipped to {limits} and each unit weighs at most {text_of(self.rows)} rows in a group"

    @property
    def cells(self) -> int:
        return 9

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
        return _READERS[reading.statistic][0](self._columns(measure), cells)

    def intervals(
        self, measure: Measure, cells: CellColumns, reading: Reading, confidence: Fraction, *, simultaneous: int
    ) -> CellBand | None:
        read = _READERS[reading.statistic][1]
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


FAMILY = "pair"
COVARIANCE = Function("covar_pop", "COVAR_POP(y, x)", Type.REAL, "the covariance", _pair, FAMILY)
SAMPLE_COVARIANCE = Function("covar_samp", "COVAR_SAMP(y, x)", Type.REAL, "the sample covariance", _pair, FAMILY)
CORRELATION = Function("corr", "CORR(y, x)", Type.REAL, "the correlation", _pair, FAMILY)
SLOPE = Function("regr_slope", "REGR_SLOPE(y, x)", Type.REAL, "the slope of y over x", _pair, FAMILY)
INTERCEPT = Function("regr_intercept", "REGR_INTERCEPT(y, x)", Type.REAL, "the intercept of y over x", _pair, FAMILY)
PAIRS = COVARIANCE, SAMPLE_COVARIANCE, CORRELATION, SLOPE, INTERCEPT

_READERS: dict[str, StatisticReader] = {
    COVARIANCE.name: (pair_moments.covariances, pair_moments.covariance_intervals),
    SAMPLE_COVARIANCE.name: (
        partial(pair_moments.covariances, sample=True),
        partial(pair_moments.covariance_intervals, sample=True),
    ),
    CORRELATION.name: (pair_moments.correlations, pair_moments.correlation_intervals),
    SLOPE.name: (pair_moments.slopes, pair_moments.slope_intervals),
    INTERCEPT.name: (pair_moments.intercepts, pair_moments.intercept_intervals),
}
