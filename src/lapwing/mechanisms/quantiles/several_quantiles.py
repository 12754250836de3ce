"""Several quantiles of the same rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lapwing.errors import Misconfigured
from lapwing.mechanisms.quantiles.axis import MOST_ROWS, PointAxis
from lapwing.mechanisms.quantiles.ranks import FINEST, Pieces, rank_losses, read_quantiles
from lapwing.mechanisms.quantiles.single_quantile import read_share
from lapwing.mechanisms.quantiles.ties import Spread
from lapwing.mechanisms.scores import at_least
from lapwing.noise import SYSTEM
from lapwing.noise.bernoulli import flip_exp
from lapwing.numbers import Number, ball, count, enclose, inside_unit, positive
from lapwing.privacy.loss import BoundedRange, Pure
from lapwing.privacy.phrases import short_repr

_BITS = 20  # a point is divided into 2^20 places
_MOST_POINTS = 1 << 42  # all places of an axis fit into int64


@dataclass(frozen=True, slots=True)
class PartQuantile:
    """The quantile number `index`, asked about the part between two others, `low` and `high` (-1 and m: the ends).

    `at` is the quantile of the part: where index lies between low and high.
    """

    index: int
    low: int
    high: int
    at: Fraction


@dataclass(frozen=True, slots=True, init=False)
class Quantiles:
    """Releases values near several quantiles, ascending like the quantiles.

    Use:        quartiles, deciles or percentiles at once; for a single one use Quantile, which errs less on ties.
    Law:        the middle quantile first; its value cuts the rows in two, and the quantiles below and above it are
                asked of their own part alone, and so on: ceil(log2(m + 1)) levels for m quantiles. Each answer has the
                law of Quantile on its part, with epsilon / levels, on the axis divided into finer places (ties.py).
                Rows at or below the chosen place belong to the lower part, all others to the upper one; a quantile
                whose part has no place left is the value before it.
    Guarantee:  pure DP with epsilon, and epsilon^2 / (8 levels)-zCDP, for adding or removing one unit of at most
                `rows_per_unit` rows, for any number of rows, none included.
    Error:      with the stated probability every value is off the rank q n of its quantile by at most `error` rows.
    Proof:      Let one unit be one row. The spread makes it one row on the places, with all others unmoved (ties.py,
                lemma). Fix the places released in earlier levels: they cut the axis into parts, and every row lies in
                exactly one of them, also a row that equals a released value, because a cut passes between places.
                One level answers one question in each part, independently, and reads only that part's rows. One more
                row changes the rows of one part, so the log-ratio of the level's answers is that of one Quantile:
                within an interval of length epsilon' = epsilon / levels / rows_per_unit (Quantile). The levels add,
                each chosen after the ones before: epsilon' levels and rho = levels epsilon'^2 / 8 for a row
                (privacy/loss.py, bounded range). A unit of m rows is a group of m: m epsilon' levels and m^2 rho.
                The values are a function of the places. Sampling: places are proposed with the weight of the smallest
                loss of their piece, exp(-rate least), and kept with probability exp(-rate (loss - least)); the first
                one kept has weight exp(-rate loss).
                Error: 2^b pieces of a value, 2^b >= rows or 2^b = S, hold h = ceil(rows / 2^b) rows each at most. In a
                part that reaches over three pieces or more, a whole piece lies beside the place of loss 0 or around
                it, with losses of 2 h at most; so P[loss >= t + 2 h] <= points 2^b e^(-rate t). A smaller part has 2 h
                rows at most. The rows at the chosen place add h to the rank of the cut, and the rank that a question
                aims at is as wrong as its two cuts, weighted by how near they are. Union over the m questions.
                [KSS22]
    Figure:     `round(Quantiles(epsilon=1, at=[0.25, 0.5, 0.75], bounds=(0, 120)).error(0.95, rows=1000), 1)` = 51.0
    Checked by: tests/mechanisms/quantiles/test_several_quantiles.py
    """

    epsilon: Fraction
    at: tuple[Fraction, ...]
    axis: PointAxis
    rows_per_unit: int

    __repr__ = short_repr

    def __init__(
        self,
        *,
        epsilon: Number,
        at: Sequence[Number],
        bounds: tuple[Number, Number],
        step: Number | None = None,
        rows_per_unit: int = 1,
    ) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))
        object.__setattr__(self, "at", _read_shares(at))
        object.__setattr__(self, "axis", PointAxis(bounds, step))
        object.__setattr__(self, "rows_per_unit", count(rows_per_unit, "rows_per_unit"))
        if self.axis.size > _MOST_POINTS:
            raise Misconfigured("`bounds` hold more than 2^42 points. Declare tighter bounds or a larger `step`.")

    @property
    def levels(self) -> int:
        """How many answers a row has a part in."""
        return len(self.at).bit_length()

    @property
    def loss(self) -> Pure:
        level = BoundedRange(self.epsilon / (self.levels * self.rows_per_unit))
        return (level.to_pure() * self.levels).to_pure().group(self.rows_per_unit)

    def __call__(self, values: object, counts: object | None = None) -> list[int] | list[float]:
        """A value near every quantile, in order: ints, or with `step` floats.

        `values` holds one entry per row; or, with `counts`, values and how many rows have each.
        """
        spread = Spread(self.axis.tally(values, counts), _BITS)
        cuts = {-1: 0, len(self.at): self.axis.size << _BITS}  # each quantile's part ends before its cut
        for question in self.questions():
            start, stop = cuts[question.low], cuts[question.high]
            place = self._choose(spread, start, stop, question.at) if start < stop else start - 1
            cuts[question.index] = place + 1
        return [self.axis.point((cuts[i] - 1) >> _BITS) for i in range(len(self.at))]

    def questions(self) -> Iterator[PartQuantile]:
        """All questions, each after those that cut out its part."""
        ends = [Fraction(0), *self.at, Fraction(1)]
        parts = [(-1, len(self.at))]
        for low, high in parts:  # grows while it is read: the upper levels come first
            if high - low > 1:
                middle = (low + high) // 2
                here, below, above = (ends[i + 1] for i in (middle, low, high))
                yield PartQuantile(middle, low, high, (here - below) / (above - below))
                parts += [(low, middle), (middle, high)]

    def rate(self, at: Fraction) -> Fraction:
        """How much the log-weight of a place falls per row of rank error, for this quantile of a part."""
        return self.epsilon / (self.levels * self.rows_per_unit * 2 * max(at, 1 - at))

    def error(self, confidence: Number = 0.95, *, rows: int) -> float:
        """With this probability every value is off its rank by at most this, with at most `rows` rows; rounded up."""
        miss = 1 - inside_unit(confidence, "confidence")
        most = count(rows, "rows")
        pieces = 1 << min(_BITS, (most - 1).bit_length())
        held = math.ceil(Fraction(most, pieces))
        _, odds = enclose(lambda: ball(len(self.at) * self.axis.size * pieces / miss).log())
        cut, worst = {-1: Fraction(0), len(self.at): Fraction(0)}, Fraction(0)
        for question in self.questions():
            aim = (1 - question.at) * cut[question.low] + question.at * cut[question.high]
            off = aim + odds / self.rate(question.at) + 2 * held
            cut[question.index], worst = off + held, max(worst, off)
        return at_least(worst)

    def _choose(self, spread: Spread, start: int, stop: int, at: Fraction) -> int:
        """A place from start to stop - 1, with the law of Quantile for the rows that lie there."""
        before, after = spread.ranks(np.array([start, stop])).tolist()
        rows, rate = after - before, self.rate(at)
        edges, ranks = spread.edges(start, stop, before + float(at) * rows, _step(rate))
        lengths, ranks = np.diff(edges), ranks - before
        some = lengths > 0
        cut = Pieces(edges[:-1][some], lengths[some], ranks[:-1][some], ranks[1:][some])
        rank, scale, unit = at.numerator * rows, at.denominator, rate / at.denominator
        least = cut.losses(rank, scale)
        while True:
            piece, place = cut.draw(least, unit)
            here = (spread.ranks(np.array([place, place + 1])) - before) * scale
            more = int(rank_losses(here[:1], here[1:], rank)[0] - least[piece])
            if flip_exp(more * unit.numerator, unit.denominator, SYSTEM):
                return place


def _step(rate: Fraction) -> float:
    """The distance in rows, at least one, over which a weight falls by a factor of e."""
    return float(min(max(1 / rate, Fraction(1)), Fraction(MOST_ROWS)))


def _read_shares(at: object) -> tuple[Fraction, ...]:
    shares = read_quantiles(at, read_share)
    if math.lcm(*(share.denominator for share in shares)) > FINEST:
        raise Misconfigured(f"the quantiles in `at` have no common denominator up to {FINEST}. Round them.")
    return shares
