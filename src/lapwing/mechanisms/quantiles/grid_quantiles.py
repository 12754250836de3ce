"""Quantiles of weighted histograms: for each a cell near it, then two cells that enclose it; for many groups at once.

A histogram is what an engine counted: so much weight in each of `cells` cells. A row weighs UNIT, or less where a unit
has more rows than it may; a unit adds at most k UNIT to the whole histogram, and it takes nothing away. n is the sum of
all weights, F(v) the weight of the cells up to v, and d <= k UNIT what one more unit adds. All are whole numbers.

Choosing.   Candidates have losses, the least of which is 0. For a price in epsilon permute-and-flip chooses: each
            flips a coin with P[heads] = exp(-rate loss), and one of those that show heads is taken. For a price in rho
            the exponential law does: P proportional to exp(-rate loss). At one rate, which is one epsilon, the first
            errs less; but it is epsilon^2 / 2-zCDP and the second epsilon^2 / 8.
Estimate.   Cell v has the loss max(F(v - 1) - T, T - F(v), 0): how far v is off the rank T = floor(q n).
            Extreme quantiles, q > 9/10, aim at T = max(min(floor(q n), n - K), floor(n / 2)) instead: the next rank
            that has K behind it, so that the many empty cells behind the last row do not win. K is the error of the
            estimate at 95 %. q < 1/10 likewise, with min(max(floor(q n), K), floor(n / 2)).
            0 <= T <= n, so the least v with F(v) >= T has loss 0.
Ends.       Given the estimate e, the lower end is one of the cells e - w, the upper end one of e + w, cut to the grid,
            w = 0, 1, 2, 3, 4, 6, 8, 11, 16, ..., cells - 1: few candidates, each about sqrt(2) farther out. With
            l_0 = e > l_1 > ... > l_a = 0 and the rank R = floor(q n) - UNIT - margin, candidate l_i has the loss
                max(F(l_i - 1) - R unless i = a, R - F(l_(i-1) - 1) unless i = 0, 0),
            which is 0 for the first candidate with at most R below it. The upper ends h_j mirror this with the rank
            R' = ceil(q n) + UNIT + margin. A pair has the larger of its two losses.

Lemma (ranks). Each loss moves by at most S = max(ceil(q k UNIT), k UNIT - floor(q k UNIT)) when a unit comes or goes;
that of an extreme estimate by at most k UNIT.
Proof. One more unit adds a to F(v), 0 <= a <= d, and to floor(q n) between floor(q d) and ceil(q d); to ceil(q n) as
well. So F(v) - T moves by no less than -ceil(q d) and by no more than d - floor(q d); both bounds grow with d. The
constants do not move. An extreme T is made of min and max of ranks that each move by 0 to d, so F(v) - T moves by -d to
d. A maximum moves no farther than the one of its parts that moves most; which parts there are depends on i and e alone.

Lemma (cover). Let x be the least cell with F(x) > q n - UNIT, and y the greatest with F(y - 1) < q n + UNIT. With
c candidates on each side at most and B = (c^2 - 1) e^(-rate margin), P[low <= x and y <= high] is at least 1 - B / 2 by
permute-and-flip and 1 / (1 + B) by the exponential law, whatever the histogram and e are. Every usual quantile of the
rows lies in the cells x to y; with n < 1 row these are all cells.
Proof. A lower end l > x is not the last candidate, 0, and F(l - 1) >= F(x) > q n - UNIT: its loss exceeds the margin.
An upper end below y likewise. So a pair that does not hold x to y weighs less than e^(-rate margin); there are c^2 - 1
of them at most, since the pair of the two candidates with loss 0, which always exists and weighs 1, is none of them.
Permute-and-flip takes one with coin p with probability p E[1 / (1 + H)], H the heads among the others: p / 2 at most.
Quantiles: the definitions in use interpolate between rows number floor(z) and floor(z) + 1 in order, counted from 1,
q n <= z <= q n + 1. Up to the first lie floor(z) > q n - 1 rows. Before the second lie at most floor(z), which is below
q n + 1 unless z = q n + 1, and then the second does not count. QUANTILE_CONT has z = q n + 1 - q. Where floor(z) is 0
or n there is only the first row, or the last, and the same holds. [HF96]

[HF96] Hyndman, Fan: Sample quantiles in statistical packages.
Checked by: tests/mechanisms/quantiles/test_grid_quantile.py, tests/mechanisms/quantiles/test_grid_quantiles.py
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from lapwing.arrays import Floats, Integers, frozen
from lapwing.errors import Misconfigured
from lapwing.mechanisms.choice.exponential import PermuteAndFlip
from lapwing.mechanisms.mechanism import FrozenValue, read_pair
from lapwing.mechanisms.quantiles.axis import (
    FINEST,
    LARGEST,
    MOST_WEIGHT,
    Pieces,
    Tally,
    add_weights,
    pieces,
    read_counted,
    read_quantiles,
)
from lapwing.mechanisms.scores import at_least, loss_within, shares
from lapwing.noise import sample_heads
from lapwing.noise.exponential_race import sample_race
from lapwing.numbers import Enclosure, Number, count, exact, flag, inside_unit, positive, root_down
from lapwing.privacy.loss import ZCDP, Pure

UNIT = 1 << 20
"""The weight of a whole row."""
MOST_CELLS = 1 << 16

_EXTREME = Fraction(1, 10)
_KEPT = Fraction(19, 20)  # how sure an extreme estimate is not to land behind the last row


class Choice(NamedTuple):
    """Three cells: of the estimate, and of the two ends."""

    estimate: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Aim(FrozenValue):
    """One quantile with its price: `estimate` and `interval` are the epsilons of the two steps; None is no interval."""

    at: Fraction
    cells: int
    flips: bool
    """Whether permute-and-flip chooses, rather than the exponential law."""
    estimate_rate: Fraction
    """How much a log-weight falls per unit of weight that an estimate is off; likewise for pairs."""
    interval_rate: Fraction | None
    kept: int
    """K of an extreme quantile."""
    margin: int | None
    """None if no interval was asked for, or if only the whole grid would be wide enough."""

    def __init__(
        self,
        at: Fraction,
        cells: int,
        rows_per_unit: int,
        *,
        flips: bool,
        estimate: Fraction,
        interval: Fraction | None = None,
        confidence: Fraction = _KEPT,
    ) -> None:
        most = rows_per_unit * UNIT
        moves = max(math.ceil(at * most), most - math.floor(at * most))
        first = estimate / (2 * (most if is_extreme(at) else moves))
        second = None if interval is None else interval / (2 * moves)
        pairs = _odds(len(offsets(cells)) ** 2 - 1, confidence, flips)
        margin = None if second is None else weight_within(second, pairs)
        self._set(at=at, cells=cells, flips=flips, estimate_rate=first, interval_rate=second)
        self._set(kept=min(self.off(_KEPT), MOST_WEIGHT) if is_extreme(at) else 0)
        self._set(margin=margin if margin is not None and margin < MOST_WEIGHT else None)

    def off(self, confidence: Fraction) -> int:
        """With this probability the estimate is off the rank T by at most this much weight."""
        return weight_within(self.estimate_rate, _odds(self.cells - 1, confidence, self.flips))

    def choose(self, tally: Tally) -> Choice:
        cut, off = self._losses(tally)
        rate = self.estimate_rate
        estimate = sample_heads(cut.each(off), rate) if self.flips else cut.draw(off, rate)[1]
        if self.margin is None or self.interval_rate is None:
            return Choice(estimate, 0, self.cells - 1)
        lows, highs, losses = self._pairs(tally, estimate)
        rate = self.interval_rate
        low, high = divmod(sample_heads(losses, rate) if self.flips else sample_race(losses, rate)[0], highs.size)
        return Choice(estimate, int(lows[low]), int(highs[high]))

    def law(self, tally: Tally) -> dict[Choice, Enclosure]:
        """Proven bounds of the probability of every choice, for small grids: cell by cell and pair by pair."""
        law: dict[Choice, Enclosure] = {}
        cut, off = self._losses(tally)
        for estimate, (least, most) in enumerate(self._chances(cut.each(off), self.estimate_rate)):
            if self.margin is None or self.interval_rate is None:
                law[Choice(estimate, 0, self.cells - 1)] = least, most
                continue
            lows, highs, losses = self._pairs(tally, estimate)
            pairs = product(lows.tolist(), highs.tolist())
            for pair, (low, high) in zip(pairs, self._chances(losses, self.interval_rate), strict=True):
                law[Choice(estimate, *pair)] = least * low, most * high
        return law

    def rank(self, rows: int) -> int:
        """T: the rank that the estimate aims at."""
        plain, half = math.floor(self.at * rows), rows // 2
        if not is_extreme(self.at):
            return plain
        return min(max(plain, self.kept), half) if self.at < _EXTREME else max(min(plain, rows - self.kept), half)

    def _losses(self, tally: Tally) -> tuple[Pieces, Integers]:
        cut = pieces(tally, self.cells)
        return cut, cut.losses(self.rank(tally.rows))

    def _chances(self, losses: Integers, rate: Fraction) -> tuple[Enclosure, ...]:
        return PermuteAndFlip(epsilon=2 * rate).law(-losses) if self.flips else shares(losses, rate)

    def _pairs(self, tally: Tally, estimate: int) -> tuple[Integers, Integers, Integers]:
        """The lower and the upper candidates, nearest first, and the loss of every pair."""
        steps, total, margin = offsets(self.cells), tally.rows, self.margin or 0
        lows = np.unique(np.maximum(estimate - steps, 0))[::-1]
        highs = np.unique(np.minimum(estimate + steps, self.cells - 1))
        ranks = np.concatenate([np.zeros(1, np.int64), np.cumsum(tally.counts)])
        below = ranks[np.searchsorted(tally.cells, lows)]
        above = total - ranks[np.searchsorted(tally.cells, highs, side="right")]
        down, up = (math.floor(q * total) - UNIT - margin for q in (self.at, 1 - self.at))
        return lows, highs, np.maximum.outer(_end_losses(below, down), _end_losses(above, up)).ravel()


def is_extreme(at: Fraction) -> bool:
    """Whether the quantile lies so far out that the estimate keeps its distance from the last row."""
    return not _EXTREME <= at <= 1 - _EXTREME


@lru_cache(maxsize=64)
def offsets(cells: int) -> Integers:
    """0, 1, 2, 3, 4, 6, 8, 11, 16, ..., cells - 1: whole powers of sqrt(2), rounded."""
    powers = [round(math.sqrt(1 << i)) if i % 2 else math.isqrt(1 << i) for i in range(2 * MOST_CELLS.bit_length())]
    steps = np.array(sorted({0, 3, *powers, cells - 1}), np.int64)
    return frozen(steps[steps < cells])


def weight_within(rate: Fraction, odds: Fraction) -> int:
    """The least whole t, or one more, with odds e^(-rate t) <= 1."""
    return math.ceil(loss_within(odds, rate))


def read_histogram(cells: object, weights: object, size: int) -> Tally:
    """The counts of an engine, with cells in order. Cells may repeat: their weights add."""
    return add_weights(*read_counted(cells, weights, ("cells", "weights"), size))


def _end_losses(ranks: Integers, rank: int) -> Integers:
    """Of the candidates for one end, nearest first; `ranks` is the weight beyond each, seen from the estimate."""
    losses = np.zeros(ranks.size, np.int64)
    losses[:-1] = ranks[:-1] - rank
    losses[1:] = np.maximum(losses[1:], rank - ranks[:-1])
    return np.maximum(losses, 0)


def _odds(others: int, confidence: Fraction, flips: bool) -> Fraction:
    """If odds e^(-rate t) <= 1, none of the `others` with a loss above t is chosen, with this confidence."""
    return Fraction(others, 2) / (1 - confidence) if flips else others * confidence / (1 - confidence)


_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QuantileTable(FrozenValue):
    """Released quantiles: one row per group, one column per quantile; `lows` and `highs` are the interval ends.

    The confidence was fixed before the release, since it sets the ranks that the ends aim at.
    """

    values: Floats
    lows: Floats
    highs: Floats
    confidence: Fraction | None

    def intervals(self, confidence: Number = 0.95) -> tuple[Floats, Floats] | None:
        """The intervals if they hold at this confidence; None if they were released for less, or not at all."""
        asked = inside_unit(confidence, "confidence")
        return None if self.confidence is None or asked > self.confidence else (self.lows, self.highs)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class GridQuantiles(FrozenValue):
    """Releases quantiles of bounded values and an interval around each, from weights counted on a grid.

    Use:        medians, percentiles and approximate extremes (at 0 and 1) of a column, for one group or many, where an
                engine counts and the rows stay in place; for rows in memory without an interval, use Quantile. Good
                for up to about four quantiles; for more, without intervals, Quantiles errs less.
    Law:        each of the m quantiles by itself: a cell chosen by its rank at the price epsilon share / m, then a pair
                of ends around it at epsilon (1 - share) / m, both by permute-and-flip (see above). With rho by
                the exponential law at rho share / m, that of Quantile, and rho (1 - share) / m. Then the estimates are
                put in ascending order, and an interval that does not hold its own is widened to do so.
    Guarantee:  pure DP with epsilon and epsilon^2 (share^2 + (1 - share)^2) / (2 m)-zCDP, or rho-zCDP, for adding or
                removing one unit that adds weights of at least 0 and at most rows_per_unit 2^20 to the histogram of one
                group; the caller enforces that. A unit in g groups costs g times as much. For any number of
                rows, none included. Under zCDP pass rho: epsilon buys a quarter of what it costs there.
    Error:      `error(confidence)`: the most rows that each estimate is off its rank. The interval holds every usual
                quantile of the clipped values (QUANTILE_CONT too) with the stated confidence, each quantile by itself,
                for every number of rows; without rows, all values. Its ends aim at `margins` rows off the quantile,
                and lie up to a factor of about sqrt(2) farther from the estimate than that.
    Proof:      lemma (ranks): every loss moves by at most S, the log-weights by at most rate S = half the price. So a
                step by permute-and-flip is pure DP at its price (PermuteAndFlip, utilities that move by S), price^2 / 2
                for zCDP; one by the exponential law has a log-ratio within an interval of the length of its price
                (as in Quantile), price^2 / 8 for zCDP, and with rho the prices are sqrt(8 rho share / m), rounded down.
                The second step reads the first one's cell, an output. The prices add. Order, widening and values are
                functions of the cells.
                Interval: lemma (cover); a value in cells x to y lies between the lower edge of x and the upper edge of
                y. Widening keeps what is held.
                Share: the estimate's error falls like 1 / share, the interval's like 1 / (1 - share). At one half the
                estimate errs twice as much as without interval, sqrt(2) times with rho.
    Figure:     `round(GridQuantiles(epsilon=1, at=[0.5], bounds=(0, 120), cells=120).margins[0], 1)` = 16.4
    Checked by: tests/mechanisms/quantiles/test_grid_quantiles.py
    """

    bounds: tuple[Fraction, Fraction]
    cells: int
    at: tuple[Fraction, ...]
    rows_per_unit: int
    epsilon: Fraction | None
    rho: Fraction | None
    confidence: Fraction | None
    share: Fraction
    points: bool
    aims: tuple[Aim, ...]
    """The mechanism of each quantile."""

    def __init__(
        self,
        *,
        bounds: tuple[Number, Number],
        cells: int,
        at: Sequence[Number],
        epsilon: Number | None = None,
        rho: Number | None = None,
        rows_per_unit: int = 1,
        confidence: Number | None = 0.95,
        share: Number = _HALF,
        points: bool = False,
    ) -> None:
        """`cells` cells of equal width; with `points`, equidistant points from the lower to the upper bound.

        `confidence=None` spends the whole price on the estimates and gives no intervals.
        """
        if (epsilon is None) == (rho is None):
            raise Misconfigured("no price is given. Pass either epsilon or rho, for example epsilon=0.1.")
        self._set(points=flag(points, "points"), cells=count(cells, "cells"))
        if self.cells > MOST_CELLS:
            raise Misconfigured(f"`cells` is {cells}; at most {MOST_CELLS} are counted. Pass fewer.")
        self._set(bounds=_read_bounds(bounds, self.cells, self.points), at=read_quantiles(at, _read_quantile))
        self._set(rows_per_unit=count(rows_per_unit, "rows_per_unit"))
        self._set(epsilon=None if epsilon is None else positive(epsilon, "epsilon"))
        self._set(rho=None if rho is None else positive(rho, "rho"))
        self._set(confidence=None if confidence is None else inside_unit(confidence, "confidence"))
        self._set(share=Fraction(1) if confidence is None else inside_unit(share, "share"))
        estimate, interval = self.prices
        terms: dict[str, Any] = {"flips": self.flips, "estimate": estimate}
        if self.confidence is not None:
            terms |= {"interval": interval, "confidence": self.confidence}
        self._set(aims=tuple(Aim(at, self.cells, self.rows_per_unit, **terms) for at in self.at))

    @property
    def loss(self) -> Pure | ZCDP:
        if self.rho is not None:
            return ZCDP(self.rho)
        count = len(self.at)
        return Pure(sum(self.prices) * count, sum(price**2 for price in self.prices) * count / 2)

    @property
    def flips(self) -> bool:
        """Whether permute-and-flip chooses, for a price in epsilon; otherwise the exponential law does."""
        return self.rho is None

    @property
    def prices(self) -> tuple[Fraction, Fraction]:
        """The epsilons of the estimate and of the interval of one quantile."""
        quantiles = len(self.at)
        if self.epsilon is not None:
            return self.epsilon * self.share / quantiles, self.epsilon * (1 - self.share) / quantiles
        rho = Fraction(self.rho or 0)
        return root_down(8 * rho * self.share / quantiles), root_down(8 * rho * (1 - self.share) / quantiles)

    @property
    def margins(self) -> tuple[float, ...] | None:
        """How many rows off its quantile the ends of each interval aim; infinite if they are the bounds always."""
        if self.confidence is None:
            return None
        return tuple(math.inf if aim.margin is None else aim.margin / UNIT + 1 for aim in self.aims)

    def error(self, confidence: Number = 0.95) -> tuple[float, ...]:
        """With this probability each estimate, by itself, is off the rank q n by at most this many rows."""
        exact_confidence = inside_unit(confidence, "confidence")
        return tuple(at_least(Fraction(aim.off(exact_confidence) + aim.kept + 1, UNIT)) for aim in self.aims)

    def __call__(self, cells: object, weights: object) -> QuantileTable:
        """The quantiles of one histogram: which cells hold something, and how much weight in units of 2^-20 rows."""
        return self.release([(cells, weights)])

    def release(self, groups: Iterable[tuple[object, object]]) -> QuantileTable:
        """The quantiles of each group; a group is its cells and their weights, both empty for an empty group."""
        histograms = [read_histogram(cells, weights, self.cells) for cells, weights in groups]
        chosen = np.array([[aim.choose(histogram) for aim in self.aims] for histogram in histograms], np.int64)
        estimates, lows, highs = chosen.reshape(-1, len(self.at), 3).transpose(2, 0, 1)
        estimates = np.sort(estimates, axis=1)
        lows, highs = np.minimum(lows, estimates), np.maximum(highs, estimates)
        middle = Fraction(0) if self.points else _HALF
        values = self._values(estimates, middle)
        if self.confidence is None:
            nothing = np.full_like(values, np.nan)
            return QuantileTable(values, nothing, nothing, None)
        return QuantileTable(values, self._values(lows, Fraction(0)), self._values(highs, 2 * middle), self.confidence)

    def _values(self, cells: Integers, inside: Fraction) -> Floats:
        """Where in its cell each value lies: 0 at the lower edge, 1 at the upper one."""
        low, high = self.bounds
        width = (high - low) / max(self.cells - self.points, 1)
        numbers, index = np.unique(cells, return_inverse=True)
        values = np.array([float(low + (number + inside) * width) for number in numbers.tolist()], np.float64)
        return values[index].reshape(cells.shape)


def is_approximate(at: Number) -> bool:
    """Whether a quantile is an extreme one, whose estimate keeps a distance from the last rows: name it `approx`."""
    return is_extreme(_read_quantile(at))


def _read_bounds(bounds: object, cells: int, points: bool) -> tuple[Fraction, Fraction]:
    low, high = read_pair(bounds)
    if low > high or (low == high) != (points and cells == 1):
        raise Misconfigured("the lower of `bounds` must be below the upper one, unless there is a single point.")
    if max(abs(low), abs(high)) > LARGEST:
        raise Misconfigured("`bounds` are too large for a float. Use another unit.")
    return low, high


def _read_quantile(value: object) -> Fraction:
    quantile = exact(value, "at")
    if not 0 <= quantile <= 1 or quantile.denominator > FINEST:
        raise Misconfigured(f"`at` is {value}; it must be between 0 and 1 with at most six decimals. Round it.")
    return quantile
