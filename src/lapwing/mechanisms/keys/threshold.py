"""Showing keys whose noisy count passes a threshold, with the count, or whose noisy sum of weights does.

A CountThreshold is promised: `counts` holds, for each key that occurs, how many *distinct units* hold it, and no unit
holds more than `keys_per_unit` of them. Keys are returned in the order given, which must not depend on the data: sort
them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np

from lapwing.arrays import Flags, Floats, Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.keys import key_loss
from lapwing.mechanisms.mechanism import FrozenValue, read_delta, read_epsilon
from lapwing.mechanisms.values import saturating_sum
from lapwing.noise import sample_bernoulli, sample_gaussian, sample_laplace
from lapwing.numbers import Number, count, inside_unit, shown
from lapwing.privacy.loss import ZCDP, Approximate

MOST_CONFIDENCE = 1 - Fraction(1, 10**15)
"""The largest confidence of an interval: what lies beyond the search is far less likely than 1 minus this."""

_EXTENT = 40  # noise scales beyond which nothing is searched: e^-40 is below 10^-17


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shown(FrozenValue):
    """A release: `keep` says for each key whether it is shown, `counts` holds the noisy counts of those."""

    keep: Flags
    counts: Integers


@dataclass(frozen=True, slots=True, init=False, repr=False)
class CountThreshold(FrozenValue, ABC):
    """A key with n > 0 units is shown, with n + Z, if n + Z > threshold, and with probability `edge` if they are equal.

    Subclasses define Z. A whole threshold rarely uses delta up exactly; `edge` uses the rest of it.

    Lemma (interval).  `interval` holds the true count of a *shown* key with the stated probability, given that it is
    shown. The plain n + Z +- t does not: a key of one unit is shown only when its noise is far out.
    Proof.  Y is n + Z given that it is shown; T is the threshold. For each n >= 1 the interval leaves n out only if
    P[Y >= y] < b, for n <= T + 1; or if P[Y >= y] < b/2 or P[Y <= y] < b/2, for n > T + 1; b is below 1 - confidence by
    more than the error of the float64 tails. An event {y: P[Y >= y] < b} has probability below b. Z is log-concave, and
    how often y is shown does not depend on n, so the law of Y rises with n in the order of likelihood ratios and
    bisection finds the ends of the interval. P[Y >= y] = P[n + Z >= y] / P[shown] for y > T.
    """

    loss: Approximate | ZCDP
    keys_per_unit: int
    threshold: int
    edge: Fraction

    @property
    @abstractmethod
    def width(self) -> float:
        """The scale or sigma of the noise."""

    @abstractmethod
    def draw(self, count: int) -> Integers:
        """Draws noise."""

    @abstractmethod
    def tails(self, m: Integers) -> Floats:
        """P[Z >= m] in float64."""

    def release(self, counts: object) -> Shown:
        held = key_loss.read_counts(counts)
        noisy = saturating_sum(held, self.draw(held.size))
        keep = (held > 0) & (noisy > self.threshold)
        at = np.flatnonzero((held > 0) & (noisy == self.threshold))
        keep[at] = sample_bernoulli(self.edge, at.size)
        return Shown(keep, noisy[keep])

    def keep(self, counts: object) -> Flags:
        return self.release(counts).keep

    def probability(self, units: int) -> float:
        """The chance that a key held by this many units is shown."""
        n = count(units, "units", least=0)
        return float(self._shown_probability(np.array([n]))[0]) if n else 0.0

    def half(self) -> int:
        """The number of units at which a key is shown at least half of the time, as Z is symmetric."""
        return self.threshold + (self.edge < Fraction(1, 2))

    def error(self, confidence: Number = 0.95) -> int:
        """A key held by at least this many units is shown with this probability."""
        hidden = _outside(confidence)
        most = self.threshold + 2 + math.ceil(_EXTENT * self.width)
        return 1 + bisect_left(range(1, most), True, key=lambda n: self._hidden_probability(n) <= hidden)

    def interval(self, noisy: object, confidence: Number = 0.95) -> tuple[Integers, Integers]:
        """For each noisy count that was released, the least and the largest true count; lemma (interval)."""
        outside = _outside(confidence)
        seen, of_noisy = np.unique(key_loss.read_counts(noisy, "noisy"), return_inverse=True)
        if seen.size and seen[0] < self.threshold + (not self.edge):
            raise Misconfigured("`noisy` holds a count that is too small to have been released here.")
        t, far = self.threshold, seen + math.ceil(_EXTENT * self.width) + 1

        def not_too_small(n: Integers) -> Flags:
            return self.tails(seen - n) >= np.where(n <= t + 1, outside, outside / 2) * self._shown_probability(n)

        def too_large(n: Integers) -> Flags:
            return (n > t + 1) & (self.tails(seen + 1 - n) > (1 - outside / 2) * self._shown_probability(n) + 1e-14)

        low = _first(not_too_small, np.ones_like(seen), far)
        high = np.maximum(_first(too_large, np.ones_like(seen), far) - 1, low)
        return low[of_noisy], high[of_noisy]

    def _shown_probability(self, n: Integers) -> Floats:
        edge = float(self.edge)
        return (1 - edge) * self.tails(self.threshold + 1 - n) + edge * self.tails(self.threshold - n)

    def _hidden_probability(self, n: int) -> float:
        """The chance that it is not, which 1 - _shown_probability knows less exactly: Z is symmetric."""
        edge, beyond = float(self.edge), self.tails(np.array([n - self.threshold, n + 1 - self.threshold]))
        return float((1 - edge) * beyond[0] + edge * beyond[1])


@dataclass(frozen=True, slots=True, init=False, repr=False)
class LaplaceThreshold(CountThreshold):
    """Adds discrete Laplace noise to the count of each key and shows what passes a threshold.

    Use:        a unit holds one or two keys and you need the counts too; GaussianThreshold for more keys per unit,
                TruncatedGeometric or WeightedGaussian if you need only the keys.
    Law:        n units: shown with n + Z if n > 0 and n + Z > threshold, and with probability `edge` if n + Z is the
                threshold, P[Z = z] proportional to exp(-|z| / scale), scale = keys_per_unit / epsilon.
    Guarantee:  (epsilon, delta)-DP for adding or removing one unit with at most keys_per_unit keys.
    Error:      `probability` of being shown; `interval` for shown counts.
    Proof:      the unit moves each of its w - t shared keys by 1, which costs (w - t) / scale <= epsilon, pure. The
                threshold is the least whole number with P[1 + Z > threshold] = r^threshold / (1 + r) <=
                1 - (1 - delta)^(1/keys_per_unit), r = exp(-1 / scale); lemma (edge) uses what is left of that, and
                key_loss.py gives the rest.
    Figure:     `LaplaceThreshold(epsilon=1, delta=1e-5).half()` = 12
    Checked by: tests/mechanisms/keys/test_threshold.py
    """

    scale: Fraction

    def __init__(self, *, epsilon: Number, delta: Number, keys_per_unit: int = 1) -> None:
        price, exact_delta = read_epsilon(epsilon), read_delta(delta, key_loss.NO_DELTA)
        kappa = key_loss.read_keys(keys_per_unit)
        scale, share = kappa / price, key_loss.share_of_key(exact_delta, kappa)
        self._set(loss=Approximate(price, exact_delta), keys_per_unit=kappa, scale=scale)
        self._set(threshold=key_loss.laplace_margin(scale, share))
        self._set(edge=key_loss.edge_of(partial(key_loss.laplace_tail_up, scale), self.threshold, share))

    @property
    def width(self) -> float:
        return float(self.scale)

    def draw(self, count: int) -> Integers:
        return sample_laplace(self.scale, count)

    def tails(self, m: Integers) -> Floats:
        return key_loss.laplace_tails(self.scale, m)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class GaussianThreshold(CountThreshold):
    """Adds discrete Gaussian noise to the count of each key and shows what passes a threshold.

    Use:        a unit holds three or more keys and you need the counts too; without the counts WeightedGaussian
                finds more keys.
    Law:        n units: shown with n + Z if n > 0 and n + Z > threshold, and with probability `edge` if n + Z is the
                threshold, P[Z = z] proportional to exp(-z^2 / (2 variance)).
    Guarantee:  for adding or removing one unit with at most keys_per_unit keys: (epsilon, delta)-DP if made with
                `epsilon`; delta-approximate rho-zCDP if made with `rho`, variance = keys_per_unit / (2 rho).
    Error:      `probability` of being shown; `interval` for shown counts.
    Proof:      a key of one unit is shown with probability 1 - (1 - delta)^(1/keys_per_unit) at most, by the threshold
                and lemma (edge). Then key_loss.py asks what w - t shared keys cost, moved by 1 each, for all
                t <= w <= keys_per_unit. Under rho that is at most (w - t) / (2 variance) <= rho. Under epsilon the
                squared distance is at most 1 - t/keys_per_unit of the whole, and so is its delta by lemma (convex).
                `delta` is spent once: it is not split between noise and threshold.
    Figure:     `GaussianThreshold(epsilon=1, delta=1e-5, keys_per_unit=16).half()` = 74
    Checked by: tests/mechanisms/keys/test_threshold.py
    """

    variance: Fraction

    def __init__(
        self, *, epsilon: Number | None = None, delta: Number, rho: Number | None = None, keys_per_unit: int = 1
    ) -> None:
        kappa = key_loss.read_keys(keys_per_unit)
        distance = Fraction(math.isqrt((kappa << 80) - 1) + 1, 1 << 40)  # sqrt(kappa), rounded up
        loss, variance = key_loss.gaussian_loss(epsilon, delta, rho, distance, Fraction(kappa), kappa)
        self._set(loss=loss, keys_per_unit=kappa, variance=variance)
        share = key_loss.share_of_key(loss.delta, kappa)
        self._set(threshold=key_loss.gaussian_margin(variance, share))
        self._set(edge=key_loss.edge_of(partial(key_loss.gaussian_tail, variance), self.threshold, share))

    @property
    def width(self) -> float:
        return math.sqrt(self.variance)

    def draw(self, count: int) -> Integers:
        return sample_gaussian(self.variance, count)

    def tails(self, m: Integers) -> Floats:
        return key_loss.gaussian_tails(self.variance, m)


def _outside(confidence: Number) -> float:
    """1 - confidence, less than the tails' error allows for."""
    exact_confidence = inside_unit(confidence, "confidence")
    if exact_confidence > MOST_CONFIDENCE:
        raise Misconfigured(f"`confidence` is {shown(confidence)}; it must be at most 1 - 1e-15. Pass less.")
    return float(1 - exact_confidence) * (1 - 3 * key_loss.TAIL_SHARE)


def _first(holds: Callable[[Integers], Flags], low: Integers, high: Integers) -> Integers:
    """In each place the least n of low..high that holds; `high` does, or nothing below it."""
    while (low < high).any():
        middle = (low + high) // 2
        enough = holds(middle)
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return low


_EACH = 64  # up to this many keys the threshold is proved for each number, beyond for ranges of a sixteenth


@dataclass(frozen=True, slots=True, init=False, repr=False)
class WeightedGaussian(FrozenValue):
    """Shows keys by a noisy sum of weights; the more keys a unit holds, the less it adds to each of them.

    The caller promises: a unit holds at most keys_per_unit keys (more are sampled down first); if it holds w, it adds
    weight(w), a whole number, to each of them; `totals` has the sum for each key that occurs, 0 for one that does not.

    Use:        units hold several keys and you need only the keys. A unit with few keys counts for more, so
                keys_per_unit can be generous. TruncatedGeometric if a unit holds one or two keys.
    Law:        a key of weight x is shown if x > 0 and x + Z > threshold, P[Z = z] proportional to
                exp(-z^2 / (2 variance)), all in units of 2^-20; weight(w) = floor(2^20 / sqrt w).
    Guarantee:  for adding or removing one unit with at most keys_per_unit keys: (epsilon, delta)-DP if made with
                `epsilon`; delta-approximate rho-zCDP if made with `rho`, variance = 2^40 / (2 rho).
    Error:      `probability` of being shown, given the weight; `error` in units that hold the same number of keys.
    Proof:      a unit with w keys moves them by weight(w) each: an l2 norm of sqrt(w) weight(w) <= 2^20, since weights
                are rounded down. Of its square the w - t shared keys have at most the share 1 - t/w, so they cost rho,
                or by lemma (convex) of key_loss.py (epsilon, (1 - t/w) delta). New keys: the threshold has
                P[weight(w) + Z > threshold] <= 1 - (1 - delta)^(1/w) for *every* w up to keys_per_unit; a unit with
                few keys has large weights, one with many has many chances. The theorem there does the rest.
                Weights that depend on what other units hold, and rounds that drop found keys and give their weight to
                others (DP-SIPS), are not covered: no proof is given here.
    Figure:     `WeightedGaussian(epsilon=1, delta=1e-5, keys_per_unit=50).half()` = 20
    Checked by: tests/mechanisms/keys/test_weighted.py
    """

    one: ClassVar[int] = 1 << 20
    """The weight of a unit that holds a single key."""

    loss: Approximate | ZCDP
    keys_per_unit: int
    variance: Fraction
    threshold: int

    def __init__(
        self, *, epsilon: Number | None = None, delta: Number, rho: Number | None = None, keys_per_unit: int
    ) -> None:
        most = key_loss.read_keys(keys_per_unit)
        loss, variance = key_loss.gaussian_loss(epsilon, delta, rho, Fraction(self.one), Fraction(self.one**2), most)
        self._set(loss=loss, keys_per_unit=most, variance=variance, threshold=_threshold(variance, loss.delta, most))

    @property
    def scale(self) -> float:
        """sigma, as a multiple of the weight of a unit with one key."""
        return math.sqrt(self.variance) / self.one

    def weight(self, keys: int) -> int:
        """The weight of each key of a unit that holds this many: 2^20 / sqrt(keys), rounded down."""
        held = count(keys, "keys")
        if held > self.keys_per_unit:
            raise Misconfigured(f"`keys` is {keys}; units hold at most {self.keys_per_unit} here. Sample them down.")
        return _weight(held)

    def keep(self, totals: object) -> Flags:
        weights = key_loss.read_counts(totals, "totals")
        noisy = saturating_sum(weights, sample_gaussian(self.variance, weights.size))
        return (weights > 0) & (noisy > self.threshold)

    def probability(self, total: int) -> float:
        weight = count(total, "total", least=0)
        tail = key_loss.gaussian_tails(self.variance, np.array([self.threshold + 1 - weight]))
        return float(tail[0]) if weight else 0.0

    def half(self, *, keys: int = 1) -> int:
        """How many units, each with `keys` keys in all, show a key at least half of the time, as Z is symmetric."""
        return math.ceil(Fraction(self.threshold + 1, self.weight(keys)))

    def error(self, confidence: Number = 0.95, *, keys: int = 1) -> int:
        """A key is shown with this probability if this many units hold it, each of which holds `keys` keys in all.

        Hidden is a key of weight threshold + 1 + q with probability P[Z > q], at most P[N > q] (1 + TAIL_SHARE).
        """
        from scipy.special import ndtri  # slow import

        hidden = float(1 - inside_unit(confidence, "confidence")) * (1 - key_loss.TAIL_SHARE)
        q = math.ceil(-math.sqrt(self.variance) * float(ndtri(hidden)))
        return max(1, math.ceil(Fraction(self.threshold + 1 + q, self.weight(keys))))


def _weight(keys: int) -> int:
    return math.isqrt(WeightedGaussian.one**2 // keys)


@lru_cache(maxsize=256)
def _threshold(variance: Fraction, delta: Fraction, most: int) -> int:
    """The least number found with P[weight(w) + Z > it] <= 1 - (1 - delta)^(1/w) for every w up to `most`.

    In a range first..last of w, weight(first) is the largest weight and the last share the smallest.
    """
    shares = ((first, key_loss.share_of_key(delta, last)) for first, last in _ranges(most))
    return max(_weight(first) + key_loss.gaussian_margin(variance, share) - 1 for first, share in shares)


def _ranges(most: int) -> Iterator[tuple[int, int]]:
    first = 1
    while first <= most:
        last = first if first <= _EACH else min(most, first + first // 16)
        yield first, last
        first = last + 1
