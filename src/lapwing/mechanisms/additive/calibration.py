"""How much Gaussian noise a guarantee needs: certified upper bounds of delta, and the search for the least variance.

All bounds speak of discrete Gaussian noise of parameter `variance` = sigma^2 on integer vectors that differ by at most
`sensitivity` D in the l2 norm, and are rounded up. None uses the continuous formula on the integers without a proof.

`discrete_delta`: one integer, shifted by d. The hockey-stick divergence is exactly
    P[Y > eps sigma^2 / d - d/2] - e^eps P[Y > eps sigma^2 / d + d/2]                                  [CKS20, Thm 7].
`smoothed_delta`: vectors of any length k. Draw x from the continuous N(c, sigma^2 - s^2), then y from the discrete
    Gaussian of variance s^2 centred at x: that is post-processing of the continuous mechanism. By Poisson summation
    every sum of exp(-(z - x)^2 / (2 s^2)) over integers z is s sqrt(2 pi) (1 +- eta), with
    eta = 2 sum_j exp(-2 pi^2 s^2 j^2), so P[y] = phi_sigma(y - c) / (1 +- eta), while the discrete Gaussian has
    phi_sigma(y - c) / (1 + [0, eta]). The two laws differ by a factor of at most (1 + eta) / (1 - eta) <= e^(3 eta)
    a coordinate. Hence delta(eps) <= e^(3 k eta) times the continuous delta of variance sigma^2 - s^2 at
    eps - 6 k eta.                                                                                     [Peikert10]
zCDP: any vector; D^2 / (2 sigma^2)-zCDP [CKS20], then `delta_of_rho` of privacy/convert.py.
Checked by: tests/mechanisms/additive/test_calibration.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb

from lapwing.errors import Bug
from lapwing.numbers import ball, enclose
from lapwing.privacy.convert import delta_of_rho, rho_of_epsilon

_WIDEST_SUM = 64  # the exact sum is used up to this sigma; beyond, smoothing costs less than 0.03 %
_MOST_SHIFTS = 8
SMOOTHING = tuple(Fraction(n, 4) for n in (4, 6, 8, 9, 12, 16, 24, 36, 64))  # values of s^2


def continuous_delta(variance: Fraction, epsilon: Fraction, sensitivity: Fraction) -> Fraction:
    """The exact delta of continuous Gaussian noise, rounded up. [BW18]"""

    def formula() -> arb:
        sigma = ball(variance).sqrt()
        half, slope = ball(sensitivity) / (2 * sigma), ball(epsilon / sensitivity) * sigma
        return _phi(half - slope) - ball(epsilon).exp() * _phi(-half - slope)

    return max(enclose(formula, bits=256)[1], Fraction(0))


def discrete_delta(variance: Fraction, epsilon: Fraction, shift: int) -> Fraction:
    """The exact delta of discrete Gaussian noise on one integer that moves by `shift`, rounded up."""
    centre = epsilon * variance / shift
    first = math.floor(centre - Fraction(shift, 2)) + 1
    second = math.floor(centre + Fraction(shift, 2)) + 1
    last = max(second, math.isqrt(math.ceil(variance * 2 * 256)) + 1)  # the rest is below e^-256

    def formula() -> arb:
        weights = [(-ball(Fraction(z * z) / (2 * variance))).exp() for z in range(last + 1)]
        rest = weights[last] / (1 - (-ball(Fraction(last) / variance)).exp())
        rest = rest.union(arb(0))
        total = weights[0] + 2 * (sum(weights[1:], arb(0)) + rest)

        def above(least: int) -> arb:
            """Mass at or above `least`."""
            if least > 0:
                return sum(weights[least:], arb(0)) + rest
            return total - sum(weights[1 - least :], arb(0)) - rest

        return (above(first) - ball(epsilon).exp() * above(second)) / total

    return max(enclose(formula, bits=512)[1], Fraction(0))


def smoothed_delta(
    variance: Fraction, epsilon: Fraction, sensitivity: Fraction, size: int, smoothing: Fraction
) -> Fraction:
    """An upper bound of delta for integer vectors of `size` coordinates, with s^2 = `smoothing` >= 1/4."""
    eta = enclose(lambda: 3 * (-2 * arb.pi() ** 2 * ball(smoothing)).exp())[1]  # 2 sum_j <= 3 times its first term
    kept = epsilon - 6 * size * eta
    if variance <= smoothing or kept <= 0:
        return Fraction(1)
    inflation = enclose(lambda: ball(3 * size * eta).exp())[1]
    return min(Fraction(1), inflation * continuous_delta(variance - smoothing, kept, sensitivity))


@lru_cache(maxsize=1024)
def calibrate(epsilon: Fraction, delta: Fraction, sensitivity: Fraction, size: int) -> Fraction:
    """The least variance, among those found, whose certificate proves (epsilon, delta)-DP."""
    for guess, certificate in sorted(_candidates(epsilon, delta, sensitivity, size), key=lambda pair: pair[0]):
        for slack in (1e-12, 1e-9, 1e-6):
            variance = _round_up(guess * (1 + slack))
            if certificate(variance) <= delta:
                return variance
    raise Bug("no Gaussian noise was certified for this guarantee")


Certificate = Callable[[Fraction], Fraction]


def _candidates(
    epsilon: Fraction, delta: Fraction, sensitivity: Fraction, size: int
) -> Iterator[tuple[float, Certificate]]:
    """Float guesses of the least variance, each with the proof that may confirm it."""
    continuous = _continuous_guess(float(epsilon), float(delta), float(sensitivity))
    for smoothing in SMOOTHING:
        yield (
            continuous + float(smoothing),
            lambda v, s=smoothing: smoothed_delta(v, epsilon, sensitivity, size, s),  # type: ignore[misc]
        )
    rho = rho_of_epsilon(epsilon, delta)
    yield float(sensitivity**2 / (2 * rho)), lambda v: delta_of_rho(sensitivity**2 / (2 * v), epsilon)
    shifts = range(1, math.floor(sensitivity) + 1)
    if size == 1 and 1 <= len(shifts) <= _MOST_SHIFTS and continuous <= _WIDEST_SUM**2:
        yield (
            _discrete_guess(float(epsilon), float(delta), len(shifts), continuous),
            lambda v: max(discrete_delta(v, epsilon, shift) for shift in shifts),
        )


def _continuous_guess(epsilon: float, delta: float, sensitivity: float) -> float:
    from scipy.optimize import brentq  # slow import
    from scipy.special import log_ndtr

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        first = float(log_ndtr(0.5 / sigma - epsilon * sigma))
        second = float(log_ndtr(-0.5 / sigma - epsilon * sigma)) + epsilon
        return first + math.log1p(-math.exp(min(0.0, second - first))) - math.log(delta) if second < first else -1.0

    return float(math.exp(2 * brentq(excess, -12.0, 40.0, xtol=1e-14)) * sensitivity**2)


def _discrete_guess(epsilon: float, delta: float, shifts: int, start: float) -> float:
    """Bisects the float version of `discrete_delta` between half and four times the continuous answer."""
    z = np.arange(0.0, 40 * math.sqrt(4 * start + 4) + shifts)

    def worst(variance: float) -> float:
        weights = np.exp(-z * z / (2 * variance))
        tail = np.cumsum(weights[::-1])[::-1]
        total = 2 * tail[0] - weights[0]

        def above(least: int) -> float:
            inside = tail[min(abs(least) + (least <= 0), z.size - 1)]
            return float(inside if least > 0 else total - inside) / float(total)

        return max(
            above(math.floor(epsilon * variance / d - d / 2) + 1)
            - math.exp(epsilon) * above(math.floor(epsilon * variance / d + d / 2) + 1)
            for d in range(1, shifts + 1)
        )

    low, high = start / 2, 4 * start + 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if worst(middle) > delta else (low, middle)
    return high


def _round_up(variance: float) -> Fraction:
    """A fraction of about 40 significant bits at or above."""
    _, exponent = math.frexp(variance)
    unit = Fraction(2) ** (exponent - 40)
    return math.ceil(Fraction(variance) / unit) * unit


def _phi(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2
