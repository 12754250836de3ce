"""One quantile, such as the median."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from lapwing.arrays import Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.mechanism import FrozenValue
from lapwing.mechanisms.quantiles.axis import FINEST, Pieces, PointAxis, pieces
from lapwing.mechanisms.scores import at_least, loss_within, read_candidates, shares
from lapwing.numbers import Enclosure, Number, count, inside_unit, positive
from lapwing.privacy.loss import BoundedRange

_MOST_PROVEN = 4096


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Quantile(FrozenValue):
    """Releases a value near a quantile of integers, or of reals on a declared grid.

    Use:        one median or percentile of values with known bounds; for several at once use Quantiles, for the whole
                distribution a histogram. The exact minimum and maximum cannot be private: ask for 0.01 or 0.99.
    Law:        P[v] proportional to exp(-rate loss(v)) over all points v of the axis,
                loss(v) = max(#{x < v} - q n, q n - #{x <= v}, 0): how many rows v is off the rank q n.
                rate = epsilon / (2 max(q, 1 - q) rows_per_unit); the median gets the whole epsilon.
    Guarantee:  pure DP with epsilon, and a log-ratio within an interval of length epsilon (bounded range), so
                epsilon^2/8-zCDP; for adding or removing one unit of at most `rows_per_unit` rows, for any number of
                rows, none included. Values are clipped to the bounds. Changing a row is two steps: loss.group(2).
    Error:      P[loss(v) >= t] <= B / (1 + B), B = (points / best - 1) e^(-rate t), `best` points of loss 0 (there is
                one always). The rank is that among the clipped values.
    Proof:      One more row y. f(v) = #{x < v} - q n moves by 1 - q if y < v, else by -q; g(v) = q n - #{x <= v} moves
                by q - 1 if y <= v, else by q. All four lie in [-M, M], M = max(q, 1 - q), and the maximum of f, g and
                0 moves no farther than the one that moves most. So for m rows every loss moves by at most m M, the
                log-weights by at most rate m M = epsilon / 2; the log-ratio, which differs from that move by the same
                constant for all v, lies in an interval of length epsilon. It holds 0, since both laws sum to 1.
                Clipping and rounding happen row by row (axis.py). n = 0 makes all losses 0: the uniform law.
                Ties: between two neighbouring values all points have the same loss, so the race chooses a value or a
                gap with its number of points (noise/exponential_race.py), and then a point of the gap uniformly.
                Error: the least v with #{x <= v} >= q n has loss 0. Points of loss t or more weigh e^(-rate t) at most,
                those of loss 0 weigh 1. [Smith11] [AD20]
    Figure:     `round(Quantile(epsilon=1, bounds=(0, 120)).error(0.95), 1)` = 7.7
    Checked by: tests/mechanisms/quantiles/test_single_quantile.py
    """

    epsilon: Fraction
    at: Fraction
    axis: PointAxis
    rows_per_unit: int

    def __init__(
        self,
        *,
        epsilon: Number,
        at: Number = 0.5,
        bounds: tuple[Number, Number],
        step: Number | None = None,
        rows_per_unit: int = 1,
    ) -> None:
        self._set(epsilon=positive(epsilon, "epsilon"), at=read_share(at), axis=PointAxis(bounds, step))
        self._set(rows_per_unit=count(rows_per_unit, "rows_per_unit"))

    @property
    def rate(self) -> Fraction:
        """How much the log-weight of a point falls per row of rank error."""
        return self.epsilon / (2 * max(self.at, 1 - self.at) * self.rows_per_unit)

    @property
    def loss(self) -> BoundedRange:
        return BoundedRange(self.epsilon)

    def __call__(self, values: object, counts: object | None = None) -> int | float:
        """A value near the quantile: an int, or with `step` a float.

        `values` holds one entry per row; or, with `counts`, values and how many rows have each.
        """
        cut, losses, rate = self._losses(values, counts)
        return self.axis.point(cut.draw(losses, rate)[1])

    def law(self, values: object, counts: object | None = None) -> tuple[Enclosure, ...]:
        """Proven bounds of the probability of every point, in order, for an axis of at most 4,096 points."""
        if self.axis.size > _MOST_PROVEN:
            raise Misconfigured(f"The law is computed for at most {_MOST_PROVEN} points. Use a larger `step`.")
        cut, losses, rate = self._losses(values, counts)
        return shares(cut.each(losses), rate)

    def error(self, confidence: Number = 0.95, *, best: int = 1) -> float:
        """With this probability the value is off the rank by less than this many rows; rounded up.

        `best` is how many points are known to have the right rank, such as the points of a gap; 1 is always true.
        """
        exact_confidence = inside_unit(confidence, "confidence")
        points, right = read_candidates(self.axis.size, best)
        odds = Fraction(points - right, right) * exact_confidence / (1 - exact_confidence)
        return at_least(loss_within(odds, self.rate))

    def _losses(self, values: object, counts: object | None) -> tuple[Pieces, Integers, Fraction]:
        """The pieces, their losses times the denominator of q, and the rate of these losses."""
        tally, q = self.axis.tally(values, counts), self.at
        cut = pieces(tally, self.axis.size)
        return cut, cut.losses(q.numerator * tally.rows, q.denominator), self.rate / q.denominator


def read_share(value: object) -> Fraction:
    """Reads which quantile: a number strictly between 0 and 1 with a denominator of at most a million."""
    share = inside_unit(value, "at")
    if share.denominator > FINEST:
        raise Misconfigured(f"`at` is {value}; its denominator exceeds {FINEST}. Pass Fraction(1, 3) for a third.")
    return share
