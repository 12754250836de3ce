"""Showing keys by the sum of weights of the units that hold them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from lapwing.arrays import Flags
from lapwing.errors import Misconfigured
from lapwing.mechanisms.keys import key_loss
from lapwing.mechanisms.mechanism import FrozenValue
from lapwing.mechanisms.values import saturating_sum
from lapwing.noise import sample_gaussian
from lapwing.numbers import Number, count, inside_unit
from lapwing.privacy.loss import ZCDP, Approximate

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
        """What a unit that holds this many keys adds to each of them: 2^20 / sqrt(keys), rounded down."""
        held = count(keys, "keys")
        if held > self.keys_per_unit:
            raise Misconfigured(
                f"`keys` is {keys}; no unit may hold more than keys_per_unit = {self.keys_per_unit}. Sample them down."
            )
        return _weight(held)

    def keep(self, totals: object) -> Flags:
        weights = key_loss.read_counts(totals, "totals")
        noisy = saturating_sum(weights, sample_gaussian(self.variance, weights.size))
        return (weights > 0) & (noisy > self.threshold)

    def probability(self, total: int) -> float:
        weight = count(total, "total", least=0)
        return (
            float(key_loss.gaussian_tails(self.variance, np.array([self.threshold + 1 - weight]))[0]) if weight else 0.0
        )

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
    margins = {
        first: key_loss.gaussian_margin(variance, key_loss.share_of_key(delta, last)) for first, last in _ranges(most)
    }
    return max(_weight(first) + margin - 1 for first, margin in margins.items())


def _ranges(most: int) -> Iterator[tuple[int, int]]:
    first = 1
    while first <= most:
        last = first if first <= _EACH else min(most, first + first // 16)
        yield first, last
        first = last + 1
