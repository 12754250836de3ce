"""Bounds for clipping, found privately to a power of two, when none are known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from flint import arb

from lapwing.arrays import Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.mechanism import FrozenValue, Given
from lapwing.mechanisms.quantiles.axis import read_counted
from lapwing.mechanisms.scores import at_least
from lapwing.mechanisms.sparse.vector import GeometricSparse
from lapwing.numbers import Number, ball, count, enclose, exact, inside_unit, positive, root_down
from lapwing.privacy.loss import Pure

MOST_EXPONENT = 1000
"""2^1000 and 2^-1000 are ordinary float64."""

_SPARED = 12  # units that may lie beyond the bound, times epsilon: a stop after the last value fails with e^-8 / 3
_RATIO = Fraction(1, 2)  # the noise of a question is twice that of the bar: a scan that goes too far soon stops


@dataclass(frozen=True, slots=True, init=False, repr=False)
class AutoBounds(FrozenValue):
    """Finds a power of two that few values reach, to clip them there.

    Use:        the clip of a sum or a mean whose values have no known bounds; where a bound is known, declare it. One
                value per unit (its total) is best, since that is what the bound will clip.
    Law:        GeometricSparse is asked for i = first, first + 1, ..., last - 1 whether -#{x >= 2^i} is above
                -spared, without a shift and with noise twice as wide on a question as on the bar; the first i that is,
                or else `last`, gives the bound 2^i. spared = ceil(12 values_per_unit / epsilon). `signed` does so for
                the positive values and for the negative ones.
    Guarantee:  pure DP with epsilon, so epsilon^2/2-zCDP, for adding or removing one unit of at most `values_per_unit`
                values; also for both sides of `signed` together, and without any rows.
    Error:      `error(confidence)`: at most this many values lie at or beyond the bound, unless it is 2^last. The
                scan goes one power beyond all values with probability at most `overshoot`, j powers with about
                6 / ((j + 1) (j + 2)) times that. Choose `last` so that even 2^last is an acceptable clip.
    Proof:      one more unit raises every #{x >= 2^i} by 0 to values_per_unit, so all values asked move the same way:
                the guarantee of GeometricSparse, monotone, for the whole scan. Signed: a unit with a positive and b
                negative values, a + b <= k, moves one scan by a and the other by b; by lemma (crossing) a scan that is
                moved by a costs a epsilon / k, so both cost epsilon (a + b) / k at most. Which powers are asked, and
                `spared`, are fixed. Each value is put to its power by itself.
                Error: the scan stops at a count c only if N >= c - spared, and m questions have noise of scale
                s2 = 3 k / epsilon: P[some N >= t] <= m e^(-t / s2). Overshoot: at a count of 0 it continues only if
                R > spared + N, of probability a^(spared + 1) (1 - b) / (1 - a b), a = e^(-1 / s1), b = e^(-1 / s2),
                s1 = s2 / 2. To go on j times R must exceed spared + the largest of j such N: given R > spared,
                R - spared is as R was (no memory), and the mean of a^N over the largest of j is, ties aside, the
                product of i / (i + 2) over i = 1, ..., j, which is 2 / ((j + 1) (j + 2)).
    Figure:     `round(AutoBounds(epsilon=1, first=0, last=40).error(0.95), 1)` = 32.1
    Checked by: tests/mechanisms/quantiles/test_auto_bounds.py
    """

    epsilon: Fraction
    first: int
    last: int
    values_per_unit: int
    scan: GeometricSparse = field(repr=False, compare=False)

    def __init__(
        self, *, epsilon: Given = None, rho: Given = None, first: int, last: int, values_per_unit: int = 1
    ) -> None:
        if (epsilon is None) == (rho is None):
            raise Misconfigured("no price is given. Pass either epsilon or rho, for example epsilon=0.1.")
        price = positive(epsilon, "epsilon") if rho is None else root_down(2 * positive(rho, "rho"))
        values = count(values_per_unit, "values_per_unit")
        low, high = _read_exponent(first, "first"), _read_exponent(last, "last")
        if low >= high:
            raise Misconfigured(f"`first` is {first} and `last` is {last}; `first` must be below `last`.")
        least = -math.ceil(_SPARED * values / price)
        scan = GeometricSparse(
            threshold=least, epsilon=price, queries=high - low, sensitivity=values, monotone=True, ratio=_RATIO, shift=0
        )
        self._set(epsilon=price, first=low, last=high, values_per_unit=values, scan=scan)

    @property
    def loss(self) -> Pure:
        return self.scan.loss

    @property
    def spared(self) -> int:
        """How many values the scan is willing to leave beyond the bound."""
        return -int(self.scan.threshold)

    @property
    def overshoot(self) -> float:
        """The probability of going on where no value is left."""
        bar, query = self.scan.scales

        def chance() -> arb:
            a, b = (-ball(1 / bar)).exp(), (-ball(1 / query)).exp()
            return (-ball((self.spared + 1) / bar)).exp() * (1 - b) / (1 - a * b)

        return at_least(enclose(chance)[1])

    def __call__(self, exponents: object, counts: object) -> int:
        """The exponent of the bound: clip at 2 to this power.

        `exponents` holds floor(log2 x) of the positive values, each as often as you like, and `counts` how many
        values have it. Zeros and values below 2^first may be left out.
        """
        return self._scan(self.counts_from(exponents, counts))

    def signed(self, negative: tuple[object, object], positive: tuple[object, object]) -> tuple[int, int]:
        """The exponents for the negative and for the positive values, from (exponents, counts) of |x| of each."""
        low, high = (self.counts_from(*side) for side in (negative, positive))
        return self._scan(low), self._scan(high)

    def counts_from(self, exponents: object, counts: object) -> Integers:
        """How many values are at least 2^i, for i = first .. last - 1."""
        powers, numbers = read_counted(exponents, counts, ("exponents", "counts"))
        held = np.zeros(self.last - self.first, np.int64)
        inside = powers >= self.first
        np.add.at(held, np.minimum(powers[inside], self.last - 1) - self.first, numbers[inside])
        return np.cumsum(held[::-1])[::-1]

    def error(self, confidence: Number = 0.95) -> float:
        """With this probability at most this many values lie at or beyond a bound below 2^last; rounded up."""
        miss, scale = 1 - inside_unit(confidence, "confidence"), self.scan.scales[1]
        _, high = enclose(lambda: ball((self.last - self.first) / miss).log() * ball(scale))
        return at_least(self.spared + max(high, Fraction(0)))

    def _scan(self, tails: Integers) -> int:
        run = self.scan.start()
        for power, tail in enumerate(tails.tolist(), start=self.first):
            if run.above(-tail):
                return power
        return self.last


def _read_exponent(value: object, name: str) -> int:
    number = exact(value, name)
    if number.denominator != 1 or abs(number) > MOST_EXPONENT:
        raise Misconfigured(f"`{name}` is {value}; it must be a whole power of two from -1000 to 1000.")
    return int(number)
