"""The Gaussian mechanism, and the choice between Laplace and Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from lapwing.arrays import Floats, Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.calibration import calibrate
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.mechanism import FrozenValue, Given, read_delta, read_epsilon
from lapwing.mechanisms.values import Additive, Grid, whole_shift
from lapwing.noise import sample_gaussian
from lapwing.numbers import Number, ball, confidence_of, count, enclose, ordinary, positive, root_up, round_up, shown
from lapwing.privacy.analysis.loss_distribution import PrivacyLoss
from lapwing.privacy.loss import ZCDP, Approximate

_NO_DELTA = "Gaussian noise needs a delta above 0. Pass delta, or use Laplace."
_SUMMED = 4096  # up to this sigma quantiles are summed; beyond, the normal law bounds them within one unit


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Gaussian(FrozenValue, Additive):
    """Adds discrete Gaussian noise to integers, and to reals on a fine grid.

    Use:        many values that one unit changes together, and every answer under zCDP; for few values, `Laplace`.
    Law:        y_i = x_i + Z_i, P[Z = z] proportional to exp(-z^2 / (2 variance)), independent.
    Guarantee:  made with `rho`: rho-zCDP for all integer vectors with ||x - x'||_2 <= sensitivity, variance =
                sensitivity^2 / (2 rho). Made with `epsilon` and `delta`: (epsilon, delta)-DP for all such vectors of
                at most `size` coordinates, for every epsilon. Real vectors of at most `size` coordinates likewise.
    Error:      `error` is the quantile of |Z|, of the largest of several on request.
    Proof:      zCDP: [CKS20, Thm 14]. (epsilon, delta): the delta of the *discrete* law is bounded in calibration.py,
                with outward rounding. Reals: values.py gives the sensitivity on the grid.
    Figure:     `round(Gaussian(epsilon=1, delta=1e-6).scale, 2)` = 4.23
    Checked by: tests/mechanisms/additive/test_gaussian.py
    """

    sensitivity: Fraction
    variance: Fraction
    loss: ZCDP | Approximate
    size: int
    textbook: bool
    """Whether the variance comes from the classic formula."""

    def __init__(
        self, *, epsilon: Given = None, delta: Given = None, rho: Given = None, sensitivity: Number = 1, size: int = 1
    ) -> None:
        distance, coordinates = ordinary(positive(sensitivity, "sensitivity"), "sensitivity"), count(size, "size")
        loss: ZCDP | Approximate
        if rho is not None and epsilon is None and delta is None:
            price = ordinary(positive(rho, "rho"), "rho")
            variance, loss = distance**2 / (2 * price), ZCDP(price)
        elif rho is None and epsilon is not None and delta is not None:
            loss = Approximate(read_epsilon(epsilon), read_delta(delta, _NO_DELTA))
            variance = calibrate(loss.epsilon, loss.delta, distance, coordinates)
        else:
            raise Misconfigured("pass either `rho`, or both `epsilon` and `delta`; Gaussian noise is never pure DP.")
        self._set(sensitivity=distance, variance=variance, loss=loss, size=coordinates, textbook=False)

    @classmethod
    def classic(cls, *, epsilon: Number, delta: Number, sensitivity: Number = 1, size: int = 1) -> Gaussian:
        """The textbook calibration sigma = sensitivity sqrt(2 ln(1.25 / delta)) / epsilon, for teaching.

        `sensitivity` is the l2 sensitivity of all `size` values together, so the noise does not grow with `size`.
        Proved only for epsilon < 1, where it adds more noise than needed; `Gaussian(...)` is exact for every epsilon.
        The guarantee is checked on the discrete law (calibration.py); where it would fail, it is refused.
        """
        eps = ordinary(positive(epsilon, "epsilon"), "epsilon")
        if eps >= 1:
            raise Misconfigured(
                f"`epsilon` is {shown(epsilon)}; the classic formula is proved only below 1. "
                "Use Gaussian(epsilon=..., delta=...), which is exact for every epsilon."
            )
        mechanism = cls(epsilon=eps, delta=delta, sensitivity=sensitivity, size=size)
        logarithm = enclose(lambda: 2 * (ball(Fraction(5, 4) / mechanism.loss.delta)).log())[1]
        variance = round_up(logarithm * (mechanism.sensitivity / eps) ** 2)
        if variance < mechanism.variance:
            raise Misconfigured("the classic formula gives too little noise on integers here. Use Gaussian(...).")
        mechanism._set(variance=variance, textbook=True)
        return mechanism

    def draw(self, count: int) -> Integers:
        return sample_gaussian(self.variance, count)

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """How likely each loss is, of one whole number that moves by at most the sensitivity (values.py)."""
        if self.size > 1:
            raise Misconfigured("the privacy loss is that of one number. Make the mechanism with size=1.")
        return PrivacyLoss.gaussian(variance=self.variance, shift=whole_shift(self.sensitivity))

    @property
    def scale(self) -> float:
        """sigma, the square root of the variance parameter."""
        return math.sqrt(self.variance)

    @property
    def zcdp(self) -> ZCDP:
        """The loss of the same noise under zCDP, however it was calibrated."""
        return ZCDP(self.sensitivity**2 / (2 * self.variance))

    @property
    def most_integers(self) -> int | None:
        """A zCDP guarantee covers vectors of any length; an (epsilon, delta) guarantee was proved for `size`."""
        return None if isinstance(self.loss, ZCDP) else self.size

    @property
    def grid(self) -> Grid:
        sigma = Fraction(math.isqrt(math.floor(self.variance * (1 << 60))), 1 << 30)
        return Grid.fine(sigma, self.sensitivity, self.size)

    @property
    def on_grid(self) -> Gaussian:
        sensitivity = self.grid.l2_sensitivity(self.sensitivity, self.size)
        if isinstance(self.loss, ZCDP):
            return Gaussian(rho=self.loss.rho, sensitivity=sensitivity, size=self.size)
        make = Gaussian.classic if self.textbook else Gaussian
        return make(epsilon=self.loss.epsilon, delta=self.loss.delta, sensitivity=sensitivity, size=self.size)

    def pmf(self, z: int) -> float:
        sigma = self.scale
        if sigma > _SUMMED:  # the sum of the weights is sigma sqrt(2 pi) up to a share e^(-2 pi^2 sigma^2)
            return math.exp(-((z / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
        return math.exp(-((z / sigma) ** 2) / 2) / _weights(sigma)[1]

    def error(self, confidence: Number = 0.95, *, simultaneous: int = 1) -> int:
        """A t with P[max of `simultaneous` independent |Z_i| <= t] >= confidence, for integer values.

        Up to sigma = 4,096 it is the smallest such t (sums in float64, rounded to the safe side by a share 1e-9);
        beyond, P[Z >= m] <= P[N >= m - 1] with N normal makes it at most one too large. [CKS20, Prop. 25]
        """
        level = confidence_of(confidence)
        k = int(ordinary(Fraction(count(simultaneous, "simultaneous")), "simultaneous"))
        inside = math.log1p(-float(1 - level)) if level > Fraction(1, 2) else math.log(level)
        outside = -math.expm1(inside / k) * (1 - 1e-9)  # what one value may leave out
        if self.scale > _SUMMED:
            from scipy.special import ndtri  # slow import

            return math.ceil(-self.scale * float(ndtri(outside / 2)))
        return _summed_error(self.scale, outside)


@lru_cache(maxsize=16)
def _weights(sigma: float) -> tuple[Floats, float]:
    """exp(-z^2 / (2 sigma^2)) for z = 0, 1, 2, ... until it vanishes in float64, and the sum over all integers."""
    z = np.arange(math.ceil(39 * sigma) + 2, dtype=np.float64)
    weights = np.exp(-((z / sigma) ** 2) / 2)
    return weights, float(2 * weights.sum() - weights[0])


@lru_cache(maxsize=256)
def _summed_error(sigma: float, outside: float) -> int:
    """The smallest t with P[|Z| > t] <= outside, by summing the law."""
    weights, total = _weights(sigma)
    above = 2 * np.cumsum(weights[::-1])[::-1] / total  # P[|Z| >= t], t >= 1
    return max(0, int(np.argmax(np.append(above[1:], 0.0) <= outside)))


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(FrozenValue):
    """Both mechanisms for the same values, their errors, and the better one."""

    laplace: Laplace
    gaussian: Gaussian
    laplace_error: int
    gaussian_error: int
    explanation: str

    @property
    def best(self) -> Laplace | Gaussian:
        return self.laplace if self.laplace_error <= self.gaussian_error else self.gaussian

    def __str__(self) -> str:
        return self.explanation


def laplace_or_gaussian(
    *,
    values: int,
    epsilon: Number,
    delta: Number,
    changed: int | None = None,
    by: Number = 1,
    confidence: Number = 0.95,
) -> Comparison:
    """Compares the two for `values` integers of which one unit changes at most `changed`, each by at most `by`.

    The l1 sensitivity is changed * by, the l2 sensitivity only sqrt(changed) * by: for long vectors the Gaussian's
    noise grows like sqrt(changed) and the Laplace noise like changed. For few values the Gaussian pays for its delta.
    """
    k, most = count(values, "values"), positive(by, "by")
    touched = min(k, count(changed, "changed")) if changed is not None else k
    laplace = Laplace(epsilon=epsilon, sensitivity=touched * most)
    gaussian = Gaussian(epsilon=epsilon, delta=delta, sensitivity=root_up(touched) * most, size=k)
    errors = laplace.error(confidence), gaussian.error(confidence)
    better, worse = ("Laplace", "Gaussian") if errors[0] <= errors[1] else ("Gaussian", "Laplace")
    explanation = (
        f"{better} noise is better here: each of {k:,} values is off by at most {min(errors):,} "
        f"with {float(confidence):.0%} confidence, against {max(errors):,} for {worse}. One unit changes up to "
        f"{touched:,} values, so the l1 sensitivity that Laplace pays is {touched:,} times one change, "
        f"the l2 sensitivity that Gaussian pays {math.sqrt(touched):,.4g} times."
    )
    return Comparison(laplace, gaussian, *errors, explanation)
