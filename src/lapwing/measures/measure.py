"""One shape at one share of the price: its steps, its noise and its error, before any row is read.

The mechanism is made for exactly what one unit may change (plan.py says why that is right); a share for which noise
cannot be drawn is refused here, so that nothing can fail for it once rows are read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from lapwing.errors import Bug, Misconfigured
from lapwing.language.refusal import refuse
from lapwing.language.types import Interval
from lapwing.measures.shapes import Best, Shape, Total
from lapwing.measures.shapes import Grid as GridShape
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.choice.top_k import TopK
from lapwing.mechanisms.fitting import Noise, mechanisms_for
from lapwing.mechanisms.grid import Grid
from lapwing.mechanisms.quantiles.grid_quantiles import GridQuantiles
from lapwing.privacy.loss import Loss

MOST_REACH = 10**24  # in steps: the parts of 10^13 units add up within the 38 digits of the engine
_MOST_BITS = 48  # of the noise, in steps
_MANY_ROWS = 1 << 18  # every row is rounded to a step: finer by this much, so that 10^9 rows add no bias to speak of
FINEST_STEP = Fraction(1, 2**900)  # so that a step and its inverse are ordinary float64 numbers


@dataclass(frozen=True, slots=True)
class Measure:
    """One shape as it will be released: integer cells in steps, and their noise."""

    shape: Shape
    step: Fraction
    noise: Noise | GridQuantiles | TopK | None
    """What releases the cells; None if the selection of the keys does it as well."""

    @property
    def reach(self) -> int:
        """The most that one unit changes one group by, in steps and in either norm."""
        return self.shape.reach(self.step)

    @property
    def additive(self) -> Noise:
        """The noise that is added to each cell."""
        if not isinstance(self.noise, Laplace | Gaussian):
            raise Bug("these cells have no additive noise")
        return self.noise

    def error(self, confidence: Fraction, *, simultaneous: int = 1) -> Fraction:
        """Half the interval of one cell, or of so many together, in the units of the answer."""
        return self.additive.error(confidence, simultaneous=simultaneous) * self.step


def measured(shape: Shape, groups: int, share: Loss | None) -> Measure:
    """The shape with noise for this share of the price; raises Refused if there is none."""
    if share is None:
        return Measure(shape, Fraction(1), None)
    if isinstance(shape, GridShape):
        return Measure(shape, Fraction(1), _quantiles(shape, groups, share))
    best = shape.best if isinstance(shape, Total) else None
    step = _step(shape, best.many if best else groups, share) if isinstance(shape, Total) else Fraction(1)
    reach = shape.reach(step)
    if reach > MOST_REACH or not FINEST_STEP <= step <= 1 / FINEST_STEP:
        refuse(
            "bounds-too-wide",
            "SUM",
            "one unit's part may be so large or so small that sums are no longer exact.",
            "Have the steward declare bounds and rows_per_unit of ordinary size.",
        )
    if isinstance(shape, Total) and shape.best is not None:
        return Measure(shape, step, _choice(share, shape.best, shape.interval, reach))
    return Measure(shape, step, _noise(share, groups, reach))


def _choice(share: Loss, best: Best, interval: Interval, reach: int) -> TopK:
    """All cells move the same way with a unit if none of its parts may be below 0, or none above."""
    monotone = interval.low >= 0 or interval.high <= 0
    try:
        return mechanisms_for(share).top_k(best.many, sensitivity=reach, monotone=monotone)
    except Misconfigured:
        refuse("price-out-of-range", "`epsilon`", f"nothing can be chosen for {share}.", "Choose a larger one.")


def _quantiles(shape: GridShape, groups: int, share: Loss) -> GridQuantiles:
    """A unit is in so many groups, each of which has its own histogram: a part of the share for each."""
    try:
        return mechanisms_for(share.scaled(Fraction(1, groups))).quantiles(
            bounds=(shape.bounds.low, shape.bounds.high),
            cells=shape.bins,
            at=shape.at,
            rows_per_unit=shape.rows,
            confidence=shape.confidence,
            points=shape.points,
        )
    except Misconfigured:
        refuse("price-out-of-range", "`epsilon`", f"no quantile can be drawn for {share}.", "Choose another one.")


def _step(shape: Total, groups: int, share: Loss) -> Fraction:
    """A power of two, so fine that rounding to it drowns in the noise.

    Whole numbers go in steps of 1; in larger ones only if their noise could not be drawn otherwise.
    """
    if not shape.summed:
        return Fraction(1)
    scale = groups * shape.interval.magnitude / mechanisms_for(share).strength
    if shape.whole:
        return Fraction(1 << max(0, math.floor(scale).bit_length() - _MOST_BITS))
    return Grid.fine(scale, shape.interval.magnitude, _MANY_ROWS).step


def _noise(share: Loss, groups: int, reach: int) -> Noise:
    noise = mechanisms_for(share).additive(sensitivity=reach, groups=groups)
    try:
        noise.draw(0)
    except Misconfigured:
        refuse(
            "price-out-of-range",
            "`epsilon`",
            f"noise for {share} cannot be drawn: it is too large or too small.",
            "Choose another one.",
        )
    return noise
