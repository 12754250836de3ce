"""A choice of several entrants, in order: the exponential race.

Entrant i arrives at time E_i / w_i, where the E_i are independent with P[E > t] = e^-t and w_i = m_i exp(-rate e_i):
its multiplicity times a weight that falls with its exponent. The first to arrive are the choice.

Law:        the `count` first entrants are successive choices without replacement, each with probability proportional
            to w_i among those that are left.
Proof:      P[i is first, after time t] is the integral of w_i e^(-w_i s) prod_{j != i} e^(-w_j s) over s > t, which is
            w_i / W e^(-W t), W the sum of all weights: who is first says nothing about when. Given both, the others'
            remaining times are exponential with the same weights again (no memory); repeat.
            Sampling: with U uniform and E = -ln(1 - U), the logarithm of the time, K(U) = rate e - ln m + ln E, grows
            with U. So the first digits of U give bounds of K; two entrants are ordered only when their bounds are
            apart, and more digits are drawn otherwise. Equal times have probability 0.
            float64 gives the first bounds (`_Field`, with the proof of its slack), balls of growing precision the rest.
Checked by: tests/noise/test_exponential_race.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, cmp_to_key

import numpy as np
import numpy.typing as npt
from flint import arb

from lapwing.arrays import Floats, Integers
from lapwing.errors import Misconfigured
from lapwing.noise.bernoulli import LazyUniform
from lapwing.noise.bits import SYSTEM, BitSource, Words
from lapwing.noise.choice import FAR, Exponents, scale_exponents
from lapwing.numbers import ball, enclose

Indices = npt.NDArray[np.intp]
Multiplicities = Integers

SLACK, SHARE = 2.0**-22, 2.0**-40
"""float64 is off by less than SLACK + SHARE rate e."""

_GUARD = 64  # the balls are this many bits finer than the digits


def sample_race(
    exponents: Exponents,
    rate: Fraction,
    multiplicities: Multiplicities | None = None,
    count: int = 1,
    *,
    bits: BitSource = SYSTEM,
    width: int = 53,
) -> tuple[int, ...]:
    """The `count` first indices of the race, in order of arrival. Exponents are integers e_i >= 0 of any size."""
    _require_race(exponents, multiplicities, count, width)
    field = _Field(exponents, rate, multiplicities, bits.words(exponents.size, width).astype(np.uint64), width)
    lows = field.lows()
    early = np.argpartition(lows, count - 1)[:count]  # `count` arrive before `limit`: later ones do not win
    limit = field.highs(early).max()
    inside = np.flatnonzero(lows <= limit)
    order = inside[np.argsort(lows[inside], kind="stable")]
    winners: list[int] = []
    for run in _runs(order, lows[order], field.highs(order)):
        runners = (
            run if run.size == 1 else sorted((field.runner(i, bits) for i in run.tolist()), key=cmp_to_key(_compare))
        )
        winners += run.tolist() if run.size == 1 else [runner.index for runner in runners]
        if len(winners) >= count:
            break
    return tuple(winners[:count])


class _Field:
    """Float64 bounds of K for every entrant, from the first `width` <= 53 digits of its U.

    Slack: with u the digits, 1 - u / 2^width is an exact float64. numpy's log is off by a share of 2^-30 at most
    (checked at first use). Then E is off by a share 2^-30, ln E by 2^-29 and a share 2^-30 of |ln E| <= 37; ln m by
    2^-52 and a share 2^-30 of ln m <= 44; rate e, a product of three rounded factors, by a share 2^-51; each of four
    sums by a share 2^-53 of at most rate e + 82. Together less than 2^-23 + 2^-48 rate e.
    """

    def __init__(
        self, exponents: Exponents, rate: Fraction, multiplicities: Multiplicities | None, prefix: Words, width: int
    ) -> None:
        self.exponents, self.rate, self.multiplicities = exponents, rate, multiplicities
        self.prefix, self.width = prefix, width
        self._cost = scale_exponents(exponents, rate)
        self._start = self._cost if multiplicities is None else self._cost - np.log(multiplicities.astype(np.float64))

    def lows(self) -> Floats:
        """Below K, for all."""
        if not log_is_sound():
            return np.full(self._cost.size, -np.inf)
        lows: Floats = self._log_time(self.prefix)
        lows += self._start
        lows -= SLACK + SHARE * self._cost
        return lows

    def highs(self, some: Indices) -> Floats:
        """Above K, for some."""
        cost = self._cost[some]
        highs = self._log_time(self.prefix[some] + np.uint64(1)) + self._start[some] + (SLACK + SHARE * cost)
        return np.where((cost < FAR) & log_is_sound(), highs, np.inf)  # a cost that was cut has no upper bound

    def runner(self, index: int, bits: BitSource) -> _Runner:
        """The same entrant, to any precision."""
        multiplicity = 1 if self.multiplicities is None else int(self.multiplicities[index])
        uniform = LazyUniform(bits, int(self.prefix[index]), self.width)
        return _Runner(index, self.rate * int(self.exponents[index]), multiplicity, uniform)

    def _log_time(self, digits: Words) -> Floats:
        """ln(-ln(1 - digits / 2^width)); the ends are infinite."""
        whole = 1 << self.width
        with np.errstate(divide="ignore"):
            log_time: Floats = np.log(-np.log((np.uint64(whole) - digits).astype(np.float64) / whole))
        return log_time


class _Runner:
    """One entrant with proven bounds of K, as narrow as the digits of its U allow."""

    __slots__ = ("_cost", "_multiplicity", "_uniform", "high", "index", "low")

    def __init__(self, index: int, cost: Fraction, multiplicity: int, uniform: LazyUniform) -> None:
        self.index = index
        self._cost, self._multiplicity, self._uniform = cost, multiplicity, uniform
        self._measure()

    def narrow(self) -> None:
        self._uniform.extend()
        self._measure()

    def _measure(self) -> None:
        uniform = self._uniform
        while not 0 < uniform.value < (1 << uniform.length) - 1:  # at an end K may be infinite
            uniform.extend()
        precision = uniform.length + _GUARD + int(self._cost).bit_length()
        self.low, _ = enclose(lambda: self._key(uniform.value, uniform.length), bits=precision)
        _, self.high = enclose(lambda: self._key(uniform.value + 1, uniform.length), bits=precision)

    def _key(self, digits: int, length: int) -> arb:
        spent = -ball(Fraction((1 << length) - digits, 1 << length)).log()
        return ball(self._cost) - ball(self._multiplicity).log() + spent.log()


def _runs(order: Indices, lows: Floats, highs: Floats) -> Iterator[Indices]:
    """Cuts the order wherever all before is certainly earlier than all after."""
    reached = np.maximum.accumulate(highs)
    starts = np.flatnonzero(lows[1:] > reached[:-1]) + 1
    yield from np.split(order, starts)


def _compare(first: _Runner, second: _Runner) -> int:
    while True:
        if first.high < second.low:
            return -1
        if second.high < first.low:
            return 1
        first.narrow()
        second.narrow()


@cache
def log_is_sound() -> bool:
    """Whether numpy's log keeps a share of 2^-30 on 300 points, many of them near 1; if not, balls decide all."""
    small = 2.0 ** -np.arange(1, 53)
    points = np.concatenate([2.0 ** np.linspace(-54, 64, 192), 1 - small, 1 + small, [1.0]])
    return all(map(_log_is_near, points.tolist(), np.log(points).tolist()))


def _log_is_near(point: float, estimate: float) -> bool:
    if not math.isfinite(estimate):
        return False
    low, high = enclose(lambda: ball(Fraction(point)).log(), bits=128)
    most = Fraction(min(abs(low), abs(high))) / (1 << 30)
    return max(abs(Fraction(estimate) - low), abs(Fraction(estimate) - high)) <= most


def _require_race(exponents: Exponents, multiplicities: Multiplicities | None, count: int, width: int) -> None:
    if not 1 <= count <= exponents.size:
        raise Misconfigured(f"`count` is {count}; it must be at least 1 and at most the number of entrants.")
    if not 1 <= width <= 53:  # longer prefixes are not exact floats
        raise Misconfigured(f"`width` is {width}; it must lie between 1 and 53.")
    if exponents.dtype.kind not in "iuO" or exponents.min() < 0:
        raise Misconfigured("an exponent is negative or not whole; it is a distance from the best. Pass whole numbers.")
    if multiplicities is None:
        return
    if multiplicities.shape != exponents.shape or multiplicities.dtype.kind != "i" or multiplicities.min() < 1:
        raise Misconfigured("`multiplicities` must hold a whole number of at least 1 for each entrant.")
