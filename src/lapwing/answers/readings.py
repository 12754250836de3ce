"""From noisy cells to the numbers that were asked for, and their intervals. Post-processing, and free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lapwing.cells.release import Cells, Released
from lapwing.errors import Bug
from lapwing.measures.aggregates import (
    CORRELATION,
    COUNT_VALUES,
    COVARIANCE,
    INTERCEPT,
    MEAN,
    SAMPLE_COVARIANCE,
    SAMPLE_STDDEV,
    SAMPLE_VARIANCE,
    SLOPE,
    STDDEV,
    SUM,
    VARIANCE,
    Reading,
)
from lapwing.measures.measure import Measure
from lapwing.measures.shapes import Distinct, Grid, Pair, Soft, Total
from lapwing.mechanisms.choice.top_k import TopK
from lapwing.mechanisms.fitting import Noise
from lapwing.mechanisms.keys.threshold import MOST_CONFIDENCE, CountThreshold
from lapwing.mechanisms.moments import regression as soft_regression
from lapwing.mechanisms.moments import spread as soft_spread
from lapwing.mechanisms.moments import values as soft_values
from lapwing.mechanisms.moments.intervals import tail_bound
from lapwing.mechanisms.moments.mean import (
    Mean,
    Variance,
    mean_error,
    mean_error_of_three,
    stddev_error,
    variance_error,
)
from lapwing.mechanisms.moments.values import GRID, ColumnCells
from lapwing.mechanisms.quantiles.grid_quantiles import GridQuantiles
from lapwing.planning.plan import Plan

Array = npt.NDArray[Any]


PLAIN = frozenset({"total", COUNT_VALUES.name, SUM.name})
"""Statistics whose error does not depend on the data."""


def values_of(plan: Plan, released: Released, reading: Reading) -> Array:
    """The number that was asked for, in each group."""
    measure, cells = plan.measures[reading.measure], released.cells[reading.measure]
    match measure.shape:
        case Total() | Distinct():
            return _scaled(cells[0], measure.step)
        case Grid():
            return cells[3 * reading.place]
        case Soft():
            return _SOFT[reading.statistic][0](_soft(measure), cells)
        case Pair():
            return _PAIR[reading.statistic][0](_pair(measure), cells)


def intervals_of(
    plan: Plan, released: Released, reading: Reading, level: Fraction, *, simultaneous: int
) -> tuple[Array, Array] | None:
    """The interval of that number in each group, of all `simultaneous` groups together; None if there is none."""
    measure, cells = plan.measures[reading.measure], released.cells[reading.measure]
    match measure.shape:
        case Soft():
            return _SOFT[reading.statistic][1](_soft(measure), cells, level, simultaneous=simultaneous)
        case Pair():
            return _PAIR[reading.statistic][1](_pair(measure), cells, level, simultaneous=simultaneous)
        case Grid(confidence=confidence):
            fits = confidence is not None and 1 - (1 - level) / simultaneous <= confidence
            return (cells[3 * reading.place + 1], cells[3 * reading.place + 2]) if fits else None
        case _:
            return _of_total(plan, measure, cells[0], level, simultaneous)


def half_width(measure: Measure, statistic: str, confidence: Fraction, *, rows: int | None = None) -> Fraction | None:
    """Half the width of the interval before asking; of a mean, if there are at least so many rows in the group.

    None where nothing can be said beforehand.
    """
    noise = measure.noise
    if noise is None or isinstance(noise, GridQuantiles | TopK):
        return None
    match measure.shape:
        case Total() | Distinct():
            return measure.error(confidence)
        case Soft() as shape:
            return _soft_half_width(shape, noise, statistic, confidence, rows)
        case _:
            return None


def _soft_half_width(
    shape: Soft, noise: Noise, statistic: str, confidence: Fraction, rows: int | None
) -> Fraction | None:
    outside, low, high = float(1 - confidence), float(shape.bounds.low), float(shape.bounds.high)
    places = Variance.places if shape.squares else Mean.places
    weights = tuple((low + (high - low) * place) / GRID for place in places)
    width = high - low
    match statistic:
        case COUNT_VALUES.name:
            return Fraction(tail_bound(noise, (1.0,) * len(places), outside) / GRID)
        case SUM.name:
            return Fraction(tail_bound(noise, weights, outside))
        case MEAN.name if rows is not None:
            error = mean_error_of_three if shape.squares else mean_error
            return Fraction(error(noise, width, confidence, rows=rows))
        case VARIANCE.name | SAMPLE_VARIANCE.name if rows is not None:
            return Fraction(variance_error(noise, width, confidence, rows=rows))
        case STDDEV.name | SAMPLE_STDDEV.name if rows is not None:
            return Fraction(stddev_error(noise, width, confidence, rows=rows))
        case _:
            return None


def _of_total(
    plan: Plan, measure: Measure, cells: Cells, level: Fraction, simultaneous: int
) -> tuple[Array, Array] | None:
    if measure.noise is None:
        return _of_shown(plan, cells, 1 - (1 - level) / simultaneous)
    error = float(measure.error(level, simultaneous=simultaneous))
    values = _scaled(cells, measure.step)
    return values - error, values + error


def _counts(_: ColumnCells, cells: Sequence[Cells]) -> Array:
    return np.rint(soft_values.counts(cells)).astype(np.int64)


_SOFT: dict[str, tuple[Callable[..., Array], Callable[..., tuple[Array, Array]]]] = {
    MEAN.name: (soft_values.means, soft_values.mean_intervals),
    SUM.name: (soft_values.sums, soft_values.sum_intervals),
    COUNT_VALUES.name: (_counts, soft_values.count_intervals),
    VARIANCE.name: (soft_spread.variances, soft_spread.variance_intervals),
    STDDEV.name: (soft_spread.stddevs, soft_spread.stddev_intervals),
    SAMPLE_VARIANCE.name: (
        partial(soft_spread.variances, sample=True),
        partial(soft_spread.variance_intervals, sample=True),
    ),
    SAMPLE_STDDEV.name: (
        partial(soft_spread.stddevs, sample=True),
        partial(soft_spread.stddev_intervals, sample=True),
    ),
}

_PAIR: dict[str, tuple[Callable[..., Array], Callable[..., tuple[Array, Array]]]] = {
    COVARIANCE.name: (soft_regression.covariances, soft_regression.covariance_intervals),
    SAMPLE_COVARIANCE.name: (
        partial(soft_regression.covariances, sample=True),
        partial(soft_regression.covariance_intervals, sample=True),
    ),
    CORRELATION.name: (soft_regression.correlations, soft_regression.correlation_intervals),
    SLOPE.name: (soft_regression.slopes, soft_regression.slope_intervals),
    INTERCEPT.name: (soft_regression.intercepts, soft_regression.intercept_intervals),
}


def _soft(measure: Measure) -> ColumnCells:
    shape, noise = measure.shape, measure.additive
    if not isinstance(shape, Soft):
        raise Bug("these are not soft cells")
    bounds = shape.bounds.low, shape.bounds.high
    if shape.squares:
        return ColumnCells(noise, bounds, Variance.places, Variance.squares)
    return ColumnCells(noise, bounds, Mean.places)


def _pair(measure: Measure) -> soft_regression.PairCells:
    shape = measure.shape
    if not isinstance(shape, Pair):
        raise Bug("these are not cells of a pair")
    x, y = ((bounds.low, bounds.high) for bounds in (shape.x_bounds, shape.y_bounds))
    return soft_regression.PairCells(measure.additive, x, y)


def _of_shown(plan: Plan, counts: Cells, level: Fraction) -> tuple[Array, Array] | None:
    """Counts that were shown because they were large: the interval allows for that. None above what it can say."""
    if not isinstance(plan.selection, CountThreshold):
        raise Bug("the selection released no counts")
    if level > MOST_CONFIDENCE:
        return None
    low, high = plan.selection.interval(counts, level)
    return low.astype(float), high.astype(float)


def _scaled(cells: Cells, step: Fraction) -> Array:
    """Cells in steps as numbers: integers stay integers, reals become float64."""
    if step == 1:
        return cells
    return np.array([float(value * step) for value in cells.tolist()]) if cells.dtype == object else cells * float(step)
