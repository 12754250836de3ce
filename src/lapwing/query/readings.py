"""From noisy cells to the numbers that were asked for, and their intervals. Post-processing, and free."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lapwing.errors import Bug
from lapwing.mechanisms import soft_values
from lapwing.mechanisms.keys_threshold import CountThreshold
from lapwing.mechanisms.moment_intervals import reach
from lapwing.mechanisms.moments import SoftMean, mean_error
from lapwing.mechanisms.soft_values import GRID, SoftColumn
from lapwing.query.aggregates import COUNT_VALUES, MEAN, SUM, Reading, Soft
from lapwing.query.plan import Measure, Plan
from lapwing.query.release import Cells, Released

Array = npt.NDArray[Any]


def values_of(plan: Plan, released: Released, reading: Reading) -> Array:
    """The number that was asked for, in each group."""
    measure, cells = plan.measures[reading.measure], released.cells[reading.measure]
    if not isinstance(measure.shape, Soft):
        return _scaled(cells[0], measure.step)
    match reading.statistic:
        case MEAN.name:
            return soft_values.means(_soft(measure), cells)
        case SUM.name:
            return soft_values.sums(_soft(measure), cells)
        case COUNT_VALUES.name:
            return np.rint(soft_values.counts(cells)).astype(np.int64)
        case other:
            raise Bug(f"`{other}` is not read off soft cells")


def intervals_of(
    plan: Plan, released: Released, reading: Reading, level: Fraction, *, simultaneous: int
) -> tuple[Array, Array]:
    """The interval of that number in each group; of all `simultaneous` groups together."""
    measure, cells = plan.measures[reading.measure], released.cells[reading.measure]
    if isinstance(measure.shape, Soft):
        intervals = _SOFT_INTERVALS[reading.statistic]
        return intervals(_soft(measure), cells, level, simultaneous=simultaneous)
    if measure.noise is None:
        return _of_shown(plan, cells[0], 1 - (1 - level) / simultaneous)
    error = float(measure.noise.error(level, simultaneous=simultaneous) * measure.step)
    values = _scaled(cells[0], measure.step)
    return values - error, values + error


def half_width(measure: Measure, statistic: str, confidence: Fraction, *, rows: int | None = None) -> Fraction:
    """Half the width of the interval before asking; of a mean, if there are at least so many rows in the group."""
    if measure.noise is None:
        raise Bug("the width of this interval depends on the data")
    if not isinstance(measure.shape, Soft):
        return measure.noise.error(confidence) * measure.step
    soft, outside = _soft(measure), float(1 - confidence)
    low, high = map(float, soft.bounds)
    match statistic:
        case COUNT_VALUES.name:
            return Fraction(reach(measure.noise, (1.0, 1.0), outside) / GRID)
        case SUM.name:
            return Fraction(reach(measure.noise, (high / GRID, low / GRID), outside))
        case MEAN.name if rows is not None:
            return Fraction(mean_error(measure.noise, high - low, confidence, rows=rows))
        case _:
            raise Bug("the error of a mean is stated for a number of rows")


_SOFT_INTERVALS = {
    MEAN.name: soft_values.mean_intervals,
    SUM.name: soft_values.sum_intervals,
    COUNT_VALUES.name: soft_values.count_intervals,
}


def _soft(measure: Measure) -> SoftColumn:
    if measure.noise is None or not isinstance(measure.shape, Soft):
        raise Bug("these are not soft cells")
    return SoftColumn(measure.noise, (measure.shape.bounds.low, measure.shape.bounds.high), SoftMean.places)


def _of_shown(plan: Plan, counts: Cells, level: Fraction) -> tuple[Array, Array]:
    """Counts that were shown because they were large: the interval allows for that."""
    if not isinstance(plan.selection, CountThreshold):
        raise Bug("the selection released no counts")
    low, high = plan.selection.interval(counts, level)
    return low.astype(float), high.astype(float)


def _scaled(cells: Cells, step: Fraction) -> Array:
    """Cells in steps as numbers: integers stay integers, reals become float64."""
    if step == 1:
        return cells
    return np.array([float(value * step) for value in cells.tolist()]) if cells.dtype == object else cells * float(step)
