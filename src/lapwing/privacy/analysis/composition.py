"""The loss of a fixed list of releases together.

Domination. Let f be the hockey-stick divergence (profile.py) of a pair of measures (P, Q), and f' that of (P', Q'). If
f <= f' for every x, then for every (R, S) the divergence of (P x R, Q x S) is at most that of (P' x R, Q' x S).
Proof. It is the sum over y with R(y) > 0 of R(y) f(x S(y) / R(y)).
So releases may be replaced one by one by pairs with larger f, and the composition only grows; by pairs with smaller f,
and it only shrinks. convolution.py makes such pairs on a grid and composes them in exact integers: no error of a
Fourier transform in floats has to be bounded, and the truth lies between the two results.

Adaptive choice breaks it. In the proof the first release does not depend on y. If it may, the analyst takes for each y
the mechanism whose f is largest at x S(y) / R(y), and the sum can exceed that of every fixed list: the test has two
releases with delta 0.371 for either fixed list and 0.474 for the adaptive choice. Hence the name `compose_fixed`.
Checked by: tests/privacy/analysis/test_composition.py
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from lapwing.noise.bernoulli import exp_neg
from lapwing.numbers import Number, ball, below_one, enclose, nonnegative, ordinary, positive
from lapwing.privacy.analysis.convolution import BITS, NUDGE, LossGrid, LossMeasure, from_above, from_below, product
from lapwing.privacy.analysis.loss_distribution import PrivacyLoss
from lapwing.privacy.analysis.profile import Amount, OutcomePair, highest, lowest, short
from lapwing.privacy.phrases import short_repr

Repeats = list[tuple[PrivacyLoss, int]]
"""Different losses, each with how often it occurs."""

_GUARD = 32  # more bits for sums over the grid
_SCALE = 1 << (BITS + _GUARD)
_CELLS = 1 << 14
_EXTENT = 20  # standard deviations that the cells of a grid are meant to span


@dataclass(frozen=True, slots=True)
class Composition:
    """The cost of a fixed list of releases together, between two bounds; made by `compose_fixed`.

    `delta` and `epsilon` are guarantees, for both orders of the neighbours. No accountant goes below `least_delta` and
    `least_epsilon`; the gap between is the error of the grid.
    """

    releases: int
    step: Fraction
    pure: Amount
    """The largest loss of all of them together; infinite if nothing bounds it."""
    above: tuple[Curve, ...] = field(repr=False)
    below: tuple[Curve, ...] = field(repr=False)

    __repr__ = short_repr

    def delta(self, epsilon: Number) -> Fraction:
        """A delta with which the releases together are (epsilon, delta)-DP."""
        size = nonnegative(epsilon, "epsilon")
        if size >= self.pure:
            return Fraction(0)
        return Fraction(short(max(curve.delta(size) for curve in self.above), up=True))

    def epsilon(self, delta: Number) -> Amount:
        """An epsilon with which the releases together are (epsilon, delta)-DP; it may be infinite."""
        exact_delta = below_one(delta, "delta")
        return short(min(max(curve.epsilon(exact_delta) for curve in self.above), self.pure), up=True)

    def least_delta(self, epsilon: Number) -> Fraction:
        """No smaller delta holds at this epsilon."""
        size = nonnegative(epsilon, "epsilon") + self.releases * NUDGE
        return Fraction(short(max(curve.delta(size) for curve in self.below), up=False))

    def least_epsilon(self, delta: Number) -> Amount:
        """No smaller epsilon holds at this delta."""
        exact_delta = below_one(delta, "delta")
        least = max(curve.epsilon(exact_delta) for curve in self.below) - self.releases * NUDGE
        return short(max(least, Fraction(0)), up=False)

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """(loss, probability) on the grid, rounded up, by rising loss, in float64: for pictures."""
        return self.above[0].points


def compose_fixed(losses: Iterable[object], *, step: Number | None = None) -> Composition:
    """The loss of all these releases together, if every one of them is fixed before the first answer is seen.

    Do not use it for questions chosen one after the other, or to stop when a result crosses a limit: the bounds do not
    hold there. Add the prices with a budget's filter instead.

    A release is a PrivacyLoss, a mechanism, or a loss such as `laplace.loss`, which counts as the worst release that
    has it: `compose_fixed([laplace] * 50)` is at least as tight as `compose_fixed([laplace.loss] * 50)`.
    Losses are rounded to multiples of `step`. If it divides all of them, only the last digits err; that is the default
    where such a number is known and the grid stays small. Otherwise it is a power of two with about 16,384 cells.
    Error: with n releases each bound of epsilon is off by at most n step, and each delta by n 2^-68 more: no loss moves
    by more than a step, and that much is rounded or cut. Few releases at a small delta come near n step.

    Guarantee:  x, x' any two neighbours whose output laws have these losses, release by release: (epsilon, delta)-DP
                with `delta(epsilon)`, and with `epsilon(delta)`.
    Proof:      domination, above; and no loss of all releases together exceeds the sum of their largest losses.
    Figure:     `round(float(compose_fixed([PrivacyLoss.laplace(scale=500, shift=50)] * 100).epsilon(1e-6)), 2)` = 4.69
    """
    times = _count_each(losses)
    width = _choose_step(times) if step is None else ordinary(positive(step, "step"), "step")
    ways = [times]
    if not all(_is_symmetric(loss) for loss, _ in times):
        ways.append([(loss.reversed, n) for loss, n in times])
    above, below = (tuple(_curve(way, width, up=up) for way in ways) for up in (True, False))
    return Composition(sum(n for _, n in times), width, max(map(_pure, ways)), above, below)


@dataclass(frozen=True, slots=True)
class Curve:
    """delta at every epsilon, of one measure on a grid.

    For epsilon in ((j - 1) step, j step] it is infinite + A_j - e^(epsilon - j step) B_j, where A_j is the sum of m_i
    over i >= j (`tails`), and B_j the sum of m_i e^((j - i) step) (`discounted`), all in units of 2^-128. B_j =
    m_j + e^-step B_(j+1) is rounded down if delta is rounded `up`, and up otherwise.
    """

    step: Fraction
    first: int
    tails: tuple[int, ...]
    discounted: tuple[int, ...]
    infinite: int
    up: bool

    @classmethod
    def of(cls, measure: LossMeasure, step: Fraction) -> Curve:
        low, high = exp_neg(step.numerator, step.denominator, BITS + _GUARD)
        tail, sum_, tails, sums = 0, 0, [], []
        for mass in reversed(measure.finite):
            tail += mass << _GUARD
            rest = sum_ * low // _SCALE if measure.up else -(-sum_ * high // _SCALE)
            sum_ = rest + (mass << _GUARD)
            tails.append(tail)
            sums.append(sum_)
        return cls(step, measure.first, tuple(tails[::-1]), tuple(sums[::-1]), measure.infinite << _GUARD, measure.up)

    def delta(self, epsilon: Fraction) -> Fraction:
        j = max(math.ceil(epsilon / self.step), self.first)
        i = j - self.first
        if i >= len(self.tails):
            return min(Fraction(self.infinite, _SCALE), Fraction(1))
        low, high = enclose(lambda: ball(epsilon - j * self.step).exp())
        mass = self.infinite + self.tails[i] - (low if self.up else high) * self.discounted[i]
        return min(max(mass / _SCALE, Fraction(0)), Fraction(1))

    def epsilon(self, delta: Fraction) -> Amount:
        """Where the curve falls to delta: in the first cell at whose end it has."""
        finite_delta = delta * _SCALE - self.infinite
        if finite_delta < 0:
            return math.inf
        places = range(len(self.tails))
        i = bisect_left(places, True, key=lambda i: self.tails[i] - self.discounted[i] <= finite_delta)
        end = (self.first + i) * self.step
        least = max(Fraction(0), end - self.step) if i else Fraction(0)
        if self.tails[i] <= finite_delta:
            return least
        share = (self.tails[i] - finite_delta) / self.discounted[i]
        low, high = enclose(lambda: ball(share).log())
        return max(least, end + (high if self.up else low))

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        ends = [*self.tails[1:], 0]
        pairs = zip(self.tails, ends, strict=True)
        finite = ((float(i * self.step), (a - b) / _SCALE) for i, (a, b) in enumerate(pairs, self.first))
        return (*finite, *([(math.inf, self.infinite / _SCALE)] if self.infinite else []))


def _curve(times: Repeats, step: Fraction, *, up: bool) -> Curve:
    grid, masses, measure = LossGrid(step), highest if up else lowest, from_above if up else from_below
    measures = [measure(masses(loss.pairs), grid) ** n for loss, n in times]
    return Curve.of(product(measures, up=up), step)


def _count_each(losses: Iterable[object]) -> Repeats:
    """How often each loss occurs. A long list of the same object is hashed once."""
    listed = list(losses)
    objects, times = {id(loss): loss for loss in listed}, Counter[PrivacyLoss]()
    for key, n in Counter(map(id, listed)).items():
        times[PrivacyLoss.of(objects[key])] += n
    return list(times.items())


def _is_symmetric(loss: PrivacyLoss) -> bool:
    """Whether both orders of the neighbours have the same losses with the same probabilities."""
    return Counter(map(_digits, loss.pairs)) == Counter(map(_digits, loss.reversed.pairs))


def _digits(pair: OutcomePair) -> tuple[int, ...]:
    """The same as integers, which hash and compare ten times faster."""
    return tuple(number for bounds in pair for end in bounds for number in end.as_integer_ratio())


def _pure(times: Repeats) -> Amount:
    """A bound of the losses of all releases together: the sum of their largest, where it is finite.

    Where a number is known that divides all losses of a release, its largest loss is a multiple of it: the one next to
    a bound that is off by far less.
    """
    total: Amount = Fraction(0)
    for loss, n in times:
        most = loss.epsilon(0)
        if loss.lattice and isinstance(most, Fraction):
            most = round(most / loss.lattice) * loss.lattice
        total += n * most
    return total


def _choose_step(times: Repeats) -> Fraction:
    """A number that divides all losses, or a power of two near the span of the composed loss over 16,384 cells.

    Any step is valid; this one is chosen in floats.
    """
    widest = sum_of_ranges = variance = 0.0
    for loss, n in times:
        finite = [(value, chance) for value, chance in loss.points if value < math.inf] or [(0.0, 1.0)]
        mean = sum(value * chance for value, chance in finite)
        variance += n * sum((value - mean) ** 2 * chance for value, chance in finite)
        width = finite[-1][0] - finite[0][0]
        widest, sum_of_ranges = max(widest, width), sum_of_ranges + n * width
    span = min(sum_of_ranges, max(widest, _EXTENT * math.sqrt(variance)))
    common = _common(loss.lattice for loss, _ in times)
    if common and span <= 2 * _CELLS * common:
        return common
    return Fraction(2) ** math.floor(math.log2(span / _CELLS)) if span > 0 else Fraction(1)


def _common(lattices: Iterable[Fraction | None]) -> Fraction | None:
    """The largest number that divides all of them."""
    common = Fraction(0)
    for lattice in lattices:
        if lattice is None:
            return None
        a, b = common.as_integer_ratio(), lattice.as_integer_ratio()
        common = Fraction(math.gcd(a[0] * b[1], b[0] * a[1]), a[1] * b[1])
    return common or None
