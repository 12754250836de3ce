"""One quantile, such as the median, and several quantiles of the same rows, whose ties are spread out.

Equal rows get places of their own, so that a cut can pass between them. Every point of the axis is divided into
S = 2^bits places. The i-th row with the same value (i = 0, 1, ...) sits at place reversed(i mod S): the number whose
binary digits are those of i backwards. So the rows of one value lie evenly: any S / 2^b places in a row that start at a
multiple of S / 2^b hold ceil(t / 2^b) of its t rows at most, for every b.

Lemma (spread). One more row in the data is one more row on the places, and none of the others moves.
Proof. With t rows of its value before, it takes place reversed(t mod S); the rows 0 .. t - 1 stay where they are.
Checked by: tests/mechanisms/quantiles/test_several_quantiles.py, tests/mechanisms/quantiles/test_spread.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lapwing.arrays import Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.mechanism import Bounds, FrozenValue, Given
from lapwing.mechanisms.quantiles.axis import FINEST, Pieces, PointAxis, Tally, pieces, rank_losses, read_quantiles
from lapwing.mechanisms.scores import at_least, loss_within, read_candidates, shares
from lapwing.noise import SYSTEM
from lapwing.noise.bernoulli import flip_exp
from lapwing.numbers import Enclosure, Number, ball, count, enclose, inside_unit, positive
from lapwing.privacy.loss import BoundedRange, Pure

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
        self, *, epsilon: Number, at: Number = 0.5, bounds: Bounds, step: Given = None, rows_per_unit: int = 1
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


_STEPS = 64  # edges to each side of a rank


class Spread:
    """Rows on the places p = S cell + place, known by how many lie below any p."""

    def __init__(self, tally: Tally, bits: int) -> None:
        self._cells, self._counts, self._bits = tally.cells, tally.counts, bits
        self._up_to = np.cumsum(tally.counts)
        self._below = self._up_to - tally.counts

    def ranks(self, places: Integers) -> Integers:
        """How many rows lie below each place."""
        cells, inner = places >> self._bits, places & ((1 << self._bits) - 1)
        index = np.searchsorted(self._cells, cells)
        ranks: Integers = np.append(self._below, self._up_to[-1:].sum())[index]
        inside = np.flatnonzero((inner > 0) & (np.append(self._cells, -1)[index] == cells))
        ranks[inside] += rows_before(self._counts[index[inside]], inner[inside], self._bits)
        return ranks

    def edges(self, start: int, stop: int, rank: float, step: float) -> tuple[Integers, Integers]:
        """Ascending places from `start` to `stop`, and their ranks.

        The ends of all values lie among them, and both sides of the rows of about rank + i step, |i| <= 64.
        """
        first, last = (int(np.searchsorted(self._cells, end >> self._bits)) for end in (start, stop))
        cells, size = self._cells[first : last + 1], 1 << self._bits
        edges = np.stack([cells * size, (cells + 1) * size], axis=1).ravel()
        ranks = np.stack([self._below[first : last + 1], self._up_to[first : last + 1]], axis=1).ravel()
        inside = (edges > start) & (edges < stop)
        edges, ranks = edges[inside], ranks[inside]
        near = self._places(np.unique(np.floor(rank + step * np.arange(-_STEPS, _STEPS + 1)).astype(np.int64)))
        extra = np.unique(np.concatenate([near, near + 1, [start, stop]]).clip(start, stop))
        where = np.searchsorted(edges, extra)
        return np.insert(edges, where, extra), np.insert(ranks, where, self.ranks(extra))

    def _places(self, ranks: Integers) -> Integers:
        """The places of the rows of these ranks (0, 1, ...); ranks that no row has are left out."""
        ranks = ranks[(ranks >= 0) & (ranks < self._up_to[-1:].sum())]
        index = np.searchsorted(self._up_to, ranks, side="right")
        inner = place_of(self._counts[index], ranks - self._below[index], self._bits)
        return (self._cells[index] << self._bits) + inner


def rows_before(rows: Integers, place: Integers, bits: int) -> Integers:
    """#{i < rows: reversed(i mod S) < place}, for 0 <= place < S = 2^bits.

    reversed(i) < place if for some d they agree in the first d digits, and then `place` has a 1 where it has a 0: that
    is i = c modulo 2^(d+1), c the first d digits of `place` backwards. For each d the i of that kind below rows mod S
    are counted; and every full round of S rows has `place` of them.
    """
    d = np.arange(bits)
    digits = place[:, None] >> (bits - 1 - d) & 1
    first = np.cumsum(digits << d, axis=1) - (digits << d)
    rest = (rows & ((1 << bits) - 1))[:, None]
    return np.asarray((rows >> bits) * place + (digits * ((rest - first + (2 << d) - 1) >> (d + 1))).sum(axis=1))


def place_of(rows: Integers, rank: Integers, bits: int) -> Integers:
    """The place p < S with rows_before(rows, p) <= rank < rows_before(rows, p + 1), for 0 <= rank < rows.

    Digit by digit: the half that starts with a 0 holds a known number of rows; a rank beyond it lies in the other half.
    """
    rest, rounds = rows & ((1 << bits) - 1), rows >> bits
    place, backwards, rank = np.zeros_like(rank), np.zeros_like(rank), rank.copy()
    for d in range(bits):
        lower = ((rest - backwards + (2 << d) - 1) >> (d + 1)) + (rounds << (bits - 1 - d))
        digit = (rank >= lower).astype(np.int64)
        rank -= digit * lower
        backwards += digit << d
        place += digit << (bits - 1 - d)
    return place


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


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Quantiles(FrozenValue):
    """Releases values near several quantiles, ascending like the quantiles.

    Use:        quartiles, deciles or percentiles at once; for a single one use Quantile, which errs less on ties.
    Law:        the middle quantile first; its value cuts the rows in two, and the quantiles below and above it are
                asked of their own part alone, and so on: ceil(log2(m + 1)) levels for m quantiles. Each answer has the
                law of Quantile on its part, with epsilon / levels, on the axis divided into finer places (above).
                Rows at or below the chosen place belong to the lower part, all others to the upper one; a quantile
                whose part has no place left is the value before it.
    Guarantee:  pure DP with epsilon, and epsilon^2 / (8 levels)-zCDP, for adding or removing one unit of at most
                `rows_per_unit` rows, for any number of rows, none included.
    Error:      with the stated probability every value is off the rank q n of its quantile by at most `error` rows.
    Proof:      Let one unit be one row. The spread makes it one row on the places, with all others unmoved (above,
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

    def __init__(
        self, *, epsilon: Number, at: Sequence[Number], bounds: Bounds, step: Given = None, rows_per_unit: int = 1
    ) -> None:
        self._set(epsilon=positive(epsilon, "epsilon"), at=read_quantiles(at, read_share), axis=PointAxis(bounds, step))
        self._set(rows_per_unit=count(rows_per_unit, "rows_per_unit"))
        if math.lcm(*(share.denominator for share in self.at)) > FINEST:
            raise Misconfigured(f"the quantiles in `at` have no common denominator up to {FINEST}. Round them.")
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
        """A value near every quantile, in order, of rows as Quantile takes them."""
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
        step = float(min(max(1 / rate, Fraction(1)), Fraction(_MOST_POINTS)))  # a weight falls by a factor of e over it
        edges, ranks = spread.edges(start, stop, before + float(at) * rows, step)
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
