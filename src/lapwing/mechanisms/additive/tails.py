"""Tail bounds for weighted sums of independent noise: the error of answers that add up many noisy numbers.

`laplace_tail_bound` and `gaussian_tail_bound` return an x with P[|sum_i w_i Z_i| > x] <= outside, close to the least.
They state accuracy; no privacy guarantee depends on them, so floats are enough.

Laplace. Z has the characteristic function 1 / (1 + (sin(t/2) / sinh(1 / (2 scale)))^2), and their sum W the product.
With N standard normal and h = std / 400,
    P[|W| > x] <= P[|W + h N| > x - 4 h] / P[|N| <= 4],
and the smoothed law is summed as a Fourier series, over a period so long that only a chance of 1e-13 wraps around.
Where `outside` is too small for sums in float64, Chernoff's bound answers instead, from
E[e^(tZ)] = 1 / (1 - (sinh(t/2) / sinh(1 / (2 scale)))^2).

Gaussian. Z is within 1/2 of a normal number of the same variance v >= 1, except with probability 1 / (16 v).
Proof. Let R be that normal number, rounded, and f its density. |P[R = z] - f(z)| <= max |f''| / 24 over the unit around
z; these maxima sum to at most int |f''| + int |f'''| <= 2.5 / v; and sum_z f(z) is 1 within 3 e^(-2 pi^2 v), by Poisson
summation. So the laws of R and Z are less than 1 / (16 v) apart in total variation, and laws that close can be coupled.
Checked by: tests/mechanisms/additive/test_tails.py
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from lapwing.arrays import Floats

Repetitions = npt.NDArray[np.int64]

_SMOOTH = 400.0
_KEPT = 0.99993  # P[|N| <= 4] = 0.999937
_LEAST = 1e-9  # below this, float64 sums to 1 keep too few digits
_WRAPPED = 1e-13  # the probability that a sum wraps around the period
_COARSE = 500.0  # noise that is nearly always 0: the series would be long, and Chernoff's bound is good
_BLOCK = 512


def laplace_tail_bound(
    weights: Floats, scales: Floats | float, outside: float, times: Repetitions | None = None
) -> float:
    """For discrete Laplace noise of these scales, one for each weight or one for all; `times` repeats each weight."""
    pairs = np.stack(np.broadcast_arrays(np.abs(weights), np.asarray(scales, np.float64)))
    used = pairs[0] > 0
    kinds, kind_of = np.unique(_round_up(pairs[:, used]), axis=1, return_inverse=True)
    counted = np.ones(weights.size, np.int64) if times is None else times
    times = np.bincount(kind_of.ravel(), counted[used], minlength=kinds.shape[1]).astype(np.int64)
    if not kinds.size:
        return 0.0
    most = _chernoff(kinds, times, outside)
    return min(most, _by_fourier(kinds, times, outside, most)) if outside >= _LEAST else most


def gaussian_tail_bound(weights: Floats, variance: Fraction, outside: float) -> float:
    """For discrete Gaussian noise of this variance; a little more than the normal quantile."""
    from scipy.special import ndtri  # slow import

    used = np.abs(weights[weights != 0])
    distance = used.size / (16 * float(variance))
    std = math.sqrt(float((used * used).sum()) * float(variance))
    if variance < 1 or distance > outside / 2:  # E[e^(tZ)] <= e^(t^2 variance / 2) [CKS20]
        return std * math.sqrt(2 * math.log(2 / outside))
    return -std * float(ndtri((outside - distance) / 2)) + float(used.sum()) / 2


def _round_up(pairs: Floats) -> Floats:
    """Rounded up to 40 bits, so that equal weights are seen to be equal; wider noise strays no less."""
    mantissa, exponent = np.frexp(pairs)
    return np.ldexp(np.ceil(mantissa * 2.0**40) / 2.0**40, exponent)


def _chernoff(kinds: Floats, times: Repetitions, outside: float) -> float:
    """The best x over a few t with 2 e^(-t x) E[e^(t W)] = outside."""
    weight, half = kinds[0], 0.5 / kinds[1]
    bounds = []
    for part in (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98):
        t = part / float((weight * kinds[1]).max())
        tilt = weight * t / 2
        ratio = np.exp(tilt - half) * np.expm1(-2 * tilt) / np.expm1(-2 * half)  # sinh(tilt) / sinh(half)
        bounds.append((math.log(2 / outside) - float((times * np.log1p(-ratio * ratio)).sum())) / t)
    return min(bounds)


def _by_fourier(kinds: Floats, times: Repetitions, outside: float, most: float) -> float:
    """Bisects P[|W + h N| > y] between 0 and a bound; see above."""
    weight, narrow = kinds[0], np.sinh(0.5 / kinds[1])
    std = math.sqrt(float((times * (weight / narrow) ** 2).sum() / 2))
    smooth, period = std / _SMOOTH, most + _chernoff(kinds, times, _WRAPPED)
    if period > _COARSE * std:
        return most
    angles, heights = _series(weight, narrow, times, smooth, period)
    allowed = outside * _KEPT - _WRAPPED - 1e-13

    def beyond(y: float) -> float:
        return 1 - 2 * y / period - 4 / period * float((heights * np.sin(angles * y) / angles).sum())

    low, high = 0.0, most
    if beyond(high) > allowed:
        return math.inf
    while high - low > 1e-6 * std:
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) > allowed else (low, middle)
    return high + 4 * smooth


def _series(weight: Floats, narrow: Floats, times: Repetitions, smooth: float, period: float) -> tuple[Floats, Floats]:
    """Where the characteristic function of the smoothed sum is taken, and its values, until they vanish."""
    angles, heights = [], []
    for start in range(1, math.ceil(8.5 / smooth * period / (2 * math.pi)) + 1, _BLOCK):
        t = 2 * math.pi / period * np.arange(start, start + _BLOCK)
        logarithm = -((smooth * t) ** 2) / 2
        for w, b, k in zip(weight, narrow, times, strict=True):
            logarithm -= k * np.log1p((np.sin(w * t / 2) / b) ** 2)
        angles.append(t)
        heights.append(np.exp(logarithm))
    return np.concatenate(angles), np.concatenate(heights)
