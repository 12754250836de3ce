"""The Laplace mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from flint import arb

from lapwing.arrays import Integers
from lapwing.mechanisms.mechanism import PureMechanism
from lapwing.mechanisms.values import Additive, Grid, whole_shift
from lapwing.noise import sample_laplace
from lapwing.numbers import Number, ball, confidence_of, count, decide, enclose, nonnegative, ordinary, positive
from lapwing.privacy.analysis.loss_distribution import PrivacyLoss


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Laplace(PureMechanism, Additive):
    """Adds discrete Laplace noise to integers, and to reals on a fine grid.

    Use:        counts, sums and histograms under pure DP; for long vectors see `laplace_or_gaussian`.
    Law:        y_i = x_i + Z_i, P[Z = z] proportional to exp(-|z| / scale), independent, scale = sensitivity / epsilon.
    Guarantee:  pure DP with epsilon, for all integer vectors x, x' with ||x - x'||_1 <= sensitivity; for all real
                vectors of at most `size` coordinates the same.
    Error:      P[max_i |Z_i| >= t] is known exactly (`beyond`); `error` inverts it. `textbook_error` is Theorem 3.8 of
                Dwork and Roth, scale ln(k / beta), which holds for continuous noise only.
    Proof:      P[y | x] / P[y | x'] = prod exp((|y_i - x'_i| - |y_i - x_i|) / scale) <= exp(||x - x'||_1 / scale)
                <= e^epsilon; the sampler is exact (noise/block.py). Reals: values.py gives the sensitivity on the grid,
                the rest is post-processing. [GRS12] [CKS20]
    Figure:     `Laplace(epsilon=1).error(0.95)` = 3
    Checked by: tests/mechanisms/additive/test_laplace.py
    """

    epsilon: Fraction
    sensitivity: Fraction
    size: int
    scale: Fraction = field(init=False, compare=False, repr=False)

    def __init__(self, *, epsilon: Number, sensitivity: Number = 1, size: int = 1) -> None:
        self._set(epsilon=positive(epsilon, "epsilon"), sensitivity=positive(sensitivity, "sensitivity"))
        self._set(size=count(size, "size"))
        self._set(scale=self.sensitivity / self.epsilon)

    def draw(self, count: int) -> Integers:
        return sample_laplace(self.scale, count)

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """How likely each loss is, of one whole number that moves by at most the sensitivity (values.py)."""
        return PrivacyLoss.laplace(scale=self.scale, shift=whole_shift(self.sensitivity))

    @property
    def most_integers(self) -> None:
        """The guarantee for integers covers vectors of any length."""

    @property
    def grid(self) -> Grid:
        return Grid.fine(self.scale, self.sensitivity, self.size)

    @property
    def on_grid(self) -> Laplace:
        return Laplace(epsilon=self.epsilon, sensitivity=self.grid.l1_sensitivity(self.sensitivity, self.size))

    def pmf(self, z: int) -> float:
        low, high = self.law(z)
        return float((low + high) / 2)

    def law(self, z: int) -> tuple[Fraction, Fraction]:
        """Proven bounds of P[Z = z]."""
        return enclose(lambda: laplace_mass(self.scale, z))

    def error(self, confidence: Number = 0.95, *, simultaneous: int = 1) -> int:
        """The smallest t with P[max of `simultaneous` independent |Z_i| <= t] >= confidence, for integer values."""
        inside, k = confidence_of(confidence), ordinary(Fraction(count(simultaneous, "simultaneous")), "simultaneous")
        return _least_error(ordinary(self.scale, "scale"), inside, int(k))

    def textbook_error(self, confidence: Number = 0.95, *, simultaneous: int = 1) -> float:
        """Theorem 3.8: P[max error >= scale ln(k / beta)] <= beta, beta = 1 - confidence, for *continuous* noise.

        The integers drawn here break it: P[|Z| >= t] = 2 r^ceil(t) / (1 + r) with r = exp(-1 / scale) is up to a factor
        2 / (1 + r) above exp(-t / scale). At epsilon = 1 and 95 % it is 0.073 instead of 0.05: see `error`, `beyond`.
        """
        beta = 1 - confidence_of(confidence)
        k = ordinary(Fraction(count(simultaneous, "simultaneous")), "simultaneous")
        return float(ordinary(self.scale, "scale")) * math.log(k / beta)

    def beyond(self, t: Number, *, simultaneous: int = 1) -> tuple[Fraction, Fraction]:
        """Proven bounds of P[max of `simultaneous` independent |Z_i| >= t], for integer values."""
        least, k = math.ceil(nonnegative(t, "t")), count(simultaneous, "simultaneous")
        if not least:
            return Fraction(1), Fraction(1)
        near = min(least, math.ceil(1000 * self.scale))
        low, high = enclose(lambda: 1 - (1 - 2 * laplace_tail(self.scale, near)) ** k)
        return max(low, Fraction(0)) if near == least else Fraction(0), min(high, Fraction(1))

    @property
    def variance(self) -> float:
        """2 r / (1 - r)^2 with r = exp(-1 / scale); close to 2 scale^2."""
        if self.scale < Fraction(1, 1000):  # below 10^-433
            return 0.0
        return 0.5 / math.sinh(0.5 / float(ordinary(self.scale, "scale"))) ** 2


def laplace_mass(scale: Fraction, z: int) -> arb:
    """P[Z = z] = tanh(1 / (2 scale)) exp(-|z| / scale)."""
    return (ball(1 / scale) / 2).tanh() * (-ball(abs(z) / scale)).exp()


def laplace_tail(scale: Fraction, z: int) -> arb:
    """P[Z >= z] = r^z / (1 + r) for z >= 0, r = exp(-1 / scale)."""
    outside = (-ball((z if z >= 0 else 1 - z) / scale)).exp() / (1 + (-ball(1 / scale)).exp())
    return outside if z >= 0 else 1 - outside


@lru_cache(maxsize=256)
def _least_error(scale: Fraction, confidence: Fraction, k: int) -> int:
    """The smallest t with (1 - 2 r^(t+1) / (1 + r))^k >= confidence, decided by balls of growing precision."""

    def covers(t: int) -> bool:
        return decide(lambda: (1 - 2 * laplace_tail(scale, t + 1)) ** k - ball(confidence))

    inside = math.log1p(-float(1 - confidence)) if confidence > Fraction(1, 2) else math.log(confidence)
    width, outside = float(scale), -math.expm1(inside / k)
    t = max(0, math.ceil(width * math.log(2 / (outside * (1 + math.exp(-1 / width))))) - 1)
    while not covers(t):
        t += 1
    while t and covers(t - 1):
        t -= 1
    return t
