"""One quantile of a weighted histogram: a cell near it, then two cells that enclose it.

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
Checked by: tests/mechanisms/quantiles/test_grid_quantile.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from lapwing.arrays import Integers
from lapwing.mechanisms.choice.permute_and_flip import PermuteAndFlip
from lapwing.mechanisms.mechanism import Value
from lapwing.mechanisms.quantiles.axis import MOST_WEIGHT, Pieces, Tally, add_weights, pieces, read_counted
from lapwing.mechanisms.scores import loss_within, shares
from lapwing.noise import sample_heads
from lapwing.noise.exponential_race import sample_race
from lapwing.numbers import Enclosure

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
class Aim(Value):
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
        found: dict[Choice, Enclosure] = {}
        cut, off = self._losses(tally)
        for estimate, (least, most) in enumerate(self._chances(cut.each(off), self.estimate_rate)):
            for choice, (low, high) in self._ends_law(tally, estimate).items():
                found[choice] = (least * low, most * high)
        return found

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

    def _ends_law(self, tally: Tally, estimate: int) -> dict[Choice, Enclosure]:
        if self.margin is None or self.interval_rate is None:
            return {Choice(estimate, 0, self.cells - 1): (Fraction(1), Fraction(1))}
        lows, highs, losses = self._pairs(tally, estimate)
        ends = product(lows.tolist(), highs.tolist())
        chances = self._chances(losses, self.interval_rate)
        return {Choice(estimate, low, high): chance for (low, high), chance in zip(ends, chances, strict=True)}

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
    powers = [
        math.isqrt(1 << i) if i % 2 == 0 else round(math.sqrt(1 << i)) for i in range(2 * MOST_CELLS.bit_length())
    ]
    steps = np.array(sorted({0, 3, *powers, cells - 1}), np.int64)
    steps = steps[steps < cells]
    steps.flags.writeable = False
    return steps


def weight_within(rate: Fraction, odds: Fraction) -> int:
    """The least whole t, or one more, with odds e^(-rate t) <= 1."""
    return math.ceil(loss_within(odds, rate))


def read_histogram(cells: object, weights: object, size: int) -> Tally:
    """What an engine counted, with cells in order. Cells may repeat: their weights add."""
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
