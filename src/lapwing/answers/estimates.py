"""From noisy cells to the numbers that were asked for, and their intervals. Post-processing, and free."""

from __future__ import annotations

from fractions import Fraction

from lapwing.mechanisms.cells import Cells
from lapwing.plan.key_selection import shown_intervals
from lapwing.plan.kind import CellBand, Measure, Reading
from lapwing.plan.noise import Released
from lapwing.plan.plan import Plan


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
    """Half the width of the interval before asking; of a mean, if there are at least so many rows in the group.

    None where nothing can be said beforehand.
    """
    return None if measure.mechanism is None else measure.kind.half_width(measure, statistic, confidence, rows)
