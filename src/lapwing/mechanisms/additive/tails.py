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

Intervals from noisy cells: `tail_bounds` bounds the sums of many groups at once, which share one noise; arrays hold one
entry per group. `share_bands` gives the means that they allow. Floats are rounded to the safe side.
Discrete Laplace is floor(E1) - floor(E2) with exponential E of the same scale, so it is within 1 of continuous Laplace
noise L; discrete Gaussian is within 1/2 of a normal number, except with probability 1 / (16 variance) (see above). So a
weighted sum is within sum |w_i| of the same sum of continuous noises.
Lemma (more weight, more spread). P[|sum w_i L_i| <= x] falls in every |w_i|. Proof: the sum of the others is symmetric
and unimodal (log-concave), so P[|it + c| <= x] falls in |c|; average over c = w_i L_i.

The mean of several noisy numbers, each with noise of its own: `weigh_variances` and `mean_error`.
Weights.    Noise i has variance v_i, known from its price, and all are independent, so the mean with weights w_i in
            proportion to 1 / v_i has the least variance, 1 / sum 1 / v_i. They are whole numbers of 2^-40 that sum to 1
            exactly, functions of prices alone: the mean stays unbiased.
Interval.   The mean is off by sum w_i Z_i, whose tail is bounded above: of Laplace noise for
            a weight and a scale each; of Gaussian noise for one variance v, the least v_i, with weights
            w_i sqrt(v_i / v), which is the same normal law, and what is allowed for discreteness only grows. Narrow
            Gaussian noise, where that allowance is felt, is summed up instead: each w_i Z_i is moved to the
            nearest multiple of g, a small part of the whole's spread, so n of them move the sum by n g / 2 at most,
            and the moved laws are convolved. The mean is rounded to the finest step, of which the truth is a
            multiple: within x becomes within floor(x + 1/2) steps.
Checked by: tests/mechanisms/additive/test_tails.py, tests/mechanisms/moments/test_moment_intervals.py,
            tests/answers/test_combine.py
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from lapwing.arrays import Floats, Integers
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace

Ends = tuple[float, float]
Band = tuple[Floats, Floats]
"""The low and the high ends of the intervals of all groups."""
Tail = Callable[[Any, Any, Any], Any]
"""(w1, w2, x): a bound of P[|w1 Z1 + w2 Z2| >= x], for numbers and, with Laplace noise, for arrays of them."""

_SMOOTH = 400.0
_KEPT = 0.99993  # P[|N| <= 4] = 0.999937
_LEAST = 1e-9  # below this, float64 sums to 1 keep too few digits
_WRAPPED = 1e-13  # the probability that a sum wraps around the period
_COARSE = 500.0  # noise that is nearly always 0: the series would be long, and Chernoff's bound is good
_BLOCK = 512
WHOLE = 1 << 40
"""A weight of 1."""

_SAFE = 1 + 1e-9  # rounding of float64
_WIDE = 4096**2  # a variance beyond which noise is as good as normal
_FINE = 64  # multiples of g in one standard deviation, for each part
_SPREAD = 13  # standard deviations that are summed over: e^-84 lies beyond
_SUM_BLUR = 1e-12  # how far sums of a law in float64 may be off
_TILTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.997, 0.9995)
_STRETCHES = {2: 256}
_FEWER_STRETCHES = 64  # each costs a Fourier series where there are three cells and more
_GROUPS_AT_ONCE = 1 << 12
_BLUR = 2.0**-47  # float64 sums of a few cells, as a share of their sizes


def laplace_tail_bound(weights: Floats, scales: Floats | float, outside: float, times: Integers | None = None) -> float:
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


def _chernoff(kinds: Floats, times: Integers, outside: float) -> float:
    """The best x over a few t with 2 e^(-t x) E[e^(t W)] = outside."""
    weight, half = kinds[0], 0.5 / kinds[1]
    bounds = []
    for part in (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98):
        t = part / float((weight * kinds[1]).max())
        tilt = weight * t / 2
        ratio = np.exp(tilt - half) * np.expm1(-2 * tilt) / np.expm1(-2 * half)  # sinh(tilt) / sinh(half)
        bounds.append((math.log(2 / outside) - float((times * np.log1p(-ratio * ratio)).sum())) / t)
    return min(bounds)


def _by_fourier(kinds: Floats, times: Integers, outside: float, most: float) -> float:
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


def _series(weight: Floats, narrow: Floats, times: Integers, smooth: float, period: float) -> tuple[Floats, Floats]:
    """The arguments and the values of the characteristic function of the smoothed sum, until they vanish."""
    angles, heights = [], []
    for start in range(1, math.ceil(8.5 / smooth * period / (2 * math.pi)) + 1, _BLOCK):
        t = 2 * math.pi / period * np.arange(start, start + _BLOCK)
        logarithm = -((smooth * t) ** 2) / 2
        for w, b, k in zip(weight, narrow, times, strict=True):
            logarithm -= k * np.log1p((np.sin(w * t / 2) / b) ** 2)
        angles.append(t)
        heights.append(np.exp(logarithm))
    return np.concatenate(angles), np.concatenate(heights)


@lru_cache(maxsize=4096)
def tail_bound(noise: Laplace | Gaussian, weights: tuple[float, ...], outside: float) -> float:
    """An x with P[|sum w_i Z_i| > x] <= outside, and close to the least; the order of the weights does not matter."""
    if isinstance(noise, Gaussian):
        return gaussian_tail_bound(np.array(weights), noise.variance, outside)
    used = [abs(weight) for weight in weights if weight]
    if len(used) > 2:
        return laplace_tail_bound(np.array(used), float(noise.scale), outside)
    w1, w2 = (*used, 0.0, 0.0)[:2]
    return float(_bisect(tail_of(noise), np.array([w1]), np.array([w2]), outside)[0]) if used else 0.0


def tail_bounds(noise: Laplace | Gaussian, weights: Floats, outside: float) -> Floats:
    """The same for the weights of many groups: one row per cell, one column per group.

    It is less than 30 % above the least for outside <= 0.1.

    Gaussian: sum |w_i| <= sqrt(k) |w|_2, so what holds for k equal weights holds for all of the same l2 norm.
    Laplace: let f be the density of W = sum w_i L_i, and f_t(x) = f(x) e^(t x) / m(t) with m(t) = E[e^(t W)] =
    prod 1 / (1 - w_i^2 t^2). Then P[W >= x] = m(t) e^(-t x) E_t[e^(-t (W - x)); W >= x], and the last factor is at most
    1 and at most sup f_t / t. f_t is log-concave, so sup f_t <= 1 / sigma_t [BC15, Prop. 2.1], where sigma_t^2 =
    (log m)'' = sum 2 w_i^2 (1 + w_i^2 t^2) / (1 - w_i^2 t^2)^2. Each t gives a valid x; the least is taken. It is
    sharp where one weight leads: for a single one t -> 1 / w gives e^(-x / w) / 2.
    """
    cells = len(weights)
    if isinstance(noise, Gaussian):
        equal = np.full(cells, 1 / math.sqrt(cells))
        return np.asarray(np.sqrt((weights**2).sum(axis=0)) * gaussian_tail_bound(equal, noise.variance, outside))
    largest = np.maximum(np.abs(weights).max(axis=0), 1e-300)
    squares, best = (weights / largest) ** 2, np.full(weights.shape[1], np.inf)
    for t in _TILTS:
        tilted = squares * (t * t)
        variance = 2 * (tilted * (1 + tilted) / (1 - tilted) ** 2).sum(axis=0)  # of t W
        logarithm = -np.log1p(-tilted).sum(axis=0) - np.log(np.maximum(variance, 1.0)) / 2
        np.minimum(best, (math.log(2 / outside) + logarithm) / t, out=best)
    return np.asarray(largest * best * float(noise.scale) * (1 + 1e-9) + np.abs(weights).sum(axis=0))


def share_bands(noise: Laplace | Gaussian, places: tuple[float, ...], cells: Floats, outside: float) -> Band:
    """The least and the greatest mean place that an exact test does not reject at this confidence (Fieller).

    The true mean place m of the cells, which stand at `places` in [0, 1] (symmetric about 1/2), makes V(m) = sum
    (place_i - m) Y_i a sum of noises alone, so m is rejected if |V(m)| exceeds their tail bound. V is linear in m; the
    tail bound is bounded on stretches of m by the largest weights there (more weight, more spread). Where the noisy
    total is not above 0 nothing is rejected.
    Two cells, (1 - m) Y1 - m Y2: negative cells may be taken as 0. V > x >= 0 then implies Y1 > 0, and cutting Y2
    only lowers V, so P[V > x] is no larger than before, and likewise below -x. The estimate is then never rejected.
    """
    if len(places) == 2:
        cells = np.maximum(cells, 0.0)
    ends, bounds = _stretches(noise, places, outside)
    total, above = cells.sum(axis=0), np.array(places) @ cells
    blur = _BLUR * np.abs(cells).sum(axis=0)
    low = _least_shares(above, total, blur, ends, bounds)
    high = 1 - _least_shares(total - above, total, blur, ends, bounds[::-1])
    return low, high


def _least_shares(above: Floats, total: Floats, blur: Floats, ends: Floats, bounds: Floats) -> Floats:
    """The first share m with above - m total within the tail bound; below it all are rejected."""
    shares = np.zeros(len(total))
    for start in range(0, len(total), _GROUPS_AT_ONCE):
        part = slice(start, start + _GROUPS_AT_ONCE)
        most, size = (above[part] - blur[part])[:, None], total[part][:, None]
        passes = most - size * ends[1:] <= bounds
        first = np.argmax(passes, axis=1)
        end = (most[:, 0] - bounds[first]) / np.where(size > 0, size, 1.0)[:, 0]
        end = np.clip(end, ends[first], ends[first + 1])
        shares[part] = np.where(size[:, 0] > 0, np.where(passes.any(axis=1), end, 1.0), 0.0)
    return shares


@lru_cache(maxsize=256)
def _stretches(noise: Laplace | Gaussian, places: tuple[float, ...], outside: float) -> tuple[Floats, Floats]:
    """The ends of the stretches of m, and how far V strays at most within each."""
    stretches = _STRETCHES.get(len(places), _FEWER_STRETCHES)
    ends = np.arange(stretches + 1) / stretches
    weights = np.abs(np.array(places)[:, None] - ends)
    widest = np.sort(np.maximum(weights[:, 1:], weights[:, :-1]), axis=0)
    if len(places) == 2 and isinstance(noise, Laplace):
        return ends, _bisect(tail_of(noise), widest[0], widest[1], outside)
    return ends, np.array([tail_bound(noise, tuple(column), outside) for column in widest.T.tolist()])


def _bisect(tail: Tail, w1: Floats, w2: Floats, outside: float) -> Floats:
    low, high = np.zeros(len(w1)), np.ones(len(w1))
    while (more := tail(w1, w2, high) > outside).any():
        low, high = np.where(more, high, low), np.where(more, 2 * high, high)
    while (wide := high - low > 1e-6 * high).any():
        middle = (low + high) / 2
        more = tail(w1, w2, middle) > outside
        low, high = np.where(wide & more, middle, low), np.where(wide & ~more, middle, high)
    return high


def tail_of(noise: Laplace | Gaussian) -> Tail:
    """At least P[|w1 Z1 + w2 Z2| >= x], and barely more while the noise scale is large; weights are not negative.

    Closed forms for continuous noise. Equal weights are handled by making one slightly larger.
    """
    scale = float(noise.scale)

    def laplace(w1: Any, w2: Any, x: Any) -> Any:
        less, more = np.minimum(w1, w2), np.maximum(w1, w2)
        far = (x - less - more) / scale
        more = np.maximum(more, less * (1 + 1e-6))
        reach = np.maximum(far, 0.0)
        small = less * less * np.exp(-reach / np.where(less > 0, less, 1.0))
        share = (more * more * np.exp(-reach / more) - small) / (more * more - less * less) * (1 + 1e-9)
        return np.minimum(1.0, np.where(far > 0, share, 1.0))

    def normal(w1: float, w2: float, x: float) -> float:
        far = (x - w1 - w2) / (scale * math.hypot(w1, w2))
        return min(1.0, math.erfc(far / math.sqrt(2)) + 1 / (8 * scale**2)) if far > 0 else 1.0

    return normal if isinstance(noise, Gaussian) else laplace


@dataclass(frozen=True, slots=True)
class Part:
    """The part of one number in the mean: whole 2^-40ths of weight, steps of the mean to one of its own, noise."""

    weight: int
    steps: int
    noise: Laplace | Gaussian


def weigh_variances(variances: Sequence[Fraction]) -> list[int]:
    """In proportion to 1 / variance, in whole 2^-40ths that sum to 1; the first of the largest takes what is left."""
    least = min(variances)
    exact = [least / variance for variance in variances]
    weights = [math.floor(part * WHOLE / sum(exact)) for part in exact]
    weights[weights.index(max(weights))] += WHOLE - sum(weights)
    return weights


@lru_cache(maxsize=1024)
def mean_error(parts: tuple[Part, ...], confidence: Fraction, simultaneous: int) -> int:
    """How many steps one mean, or any of `simultaneous` means, is off at most with this probability."""
    if len(parts) == 1:
        return parts[0].noise.error(confidence, simultaneous=simultaneous)
    outside = float((1 - confidence) / simultaneous)
    weights = np.array([part.weight / WHOLE * part.steps for part in parts])
    if isinstance(parts[0].noise, Gaussian):
        variances = [variance_of(part.noise) for part in parts]
        wider = np.array([math.sqrt(variance / min(variances)) for variance in variances])
        reach = gaussian_tail_bound(weights * wider, min(variances), outside)
        if max(variances) <= _WIDE and outside >= _LEAST:
            reach = min(reach, _summed_up(weights, [float(variance) for variance in variances], outside))
    else:
        reach = laplace_tail_bound(weights, np.array([_scale(part.noise) for part in parts]), outside)
    return math.floor(reach * _SAFE + 0.5)


def _summed_up(weights: Floats, variances: Sequence[float], outside: float) -> float:
    """An x with P[|sum w_i Z_i| > x] <= outside for discrete Gaussian Z_i, by convolution on multiples of g."""
    kinds = Counter((weight, v) for weight, v in zip(weights.tolist(), variances, strict=True) if weight)
    std, parts = math.sqrt(sum(k * w * w * v for (w, v), k in kinds.items())), kinds.total()
    fine = _FINE * min(parts, _FINE)
    g, size = std / fine, 1 << (2 * _SPREAD * fine).bit_length()
    waves = np.ones(size // 2 + 1, np.complex128)
    for (weight, v), times in kinds.items():
        z = np.arange(-(top := math.ceil(_SPREAD * math.sqrt(v)) + 1), top + 1)
        mass = np.exp(-(z * z) / (2 * v))
        law = np.bincount(np.rint(z * (weight / g)).astype(np.int64) % size, mass / mass.sum(), minlength=size)
        waves *= np.fft.rfft(law) ** times
    law = np.maximum(np.fft.irfft(waves, size), 0.0)[: size // 2]
    above = 2 * np.cumsum(law[::-1])[::-1]  # P[|sum| >= i g] for i >= 1; the law is symmetric
    first = int(np.argmax(above[1:] <= outside - _SUM_BLUR))
    return (first + parts / 2) * g


def variance_of(noise: Laplace | Gaussian) -> Fraction:
    return noise.variance if isinstance(noise, Gaussian) else Fraction(0.5 / math.sinh(0.5 / _scale(noise)) ** 2)


def _scale(noise: Laplace | Gaussian) -> float:
    """Of Laplace noise; below 1/600 it is 0 in floats, and wider noise has wider tails."""
    return max(float(noise.scale), 1 / 600)
