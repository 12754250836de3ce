"""Intervals from noisy cells: tail bounds for weighted sums of their noise, and the means they allow.

Everything here is post-processing of noisy numbers, so floats are enough; rounding goes to the safe side. Arrays
hold one entry per group, and all groups share one noise.

Discrete Laplace is floor(E1) - floor(E2) with exponential E of the same scale, so it is within 1 of continuous Laplace
noise L; discrete Gaussian is within 1/2 of a normal number, except with probability 1 / (16 variance) (tails.py). So a
weighted sum is within sum |w_i| of the same sum of continuous noises.
Lemma (more weight, more spread). P[|sum w_i L_i| <= x] falls in every |w_i|. Proof: the sum of the others is symmetric
and unimodal (log-concave), so P[|it + c| <= x] falls in |c|; average over c = w_i L_i.
Checked by: tests/mechanisms/moments/test_moment_intervals.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from lapwing.arrays import Floats
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import gaussian_tail_bound, laplace_tail_bound

Ends = tuple[float, float]
Band = tuple[Floats, Floats]
"""The low and the high ends of the intervals of all groups."""
Tail = Callable[[Any, Any, Any], Any]
"""(w1, w2, x): a bound of P[|w1 Z1 + w2 Z2| >= x], for numbers and, with Laplace noise, for arrays of them."""

_TILTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.997, 0.9995)
_STRETCHES = {2: 256}
_FEWER_STRETCHES = 64  # each costs a Fourier series where there are three cells and more
_GROUPS_AT_ONCE = 1 << 12
_BLUR = 2.0**-47  # float64 sums of a few cells, as a share of their sizes


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
        spread: Floats = np.sqrt((weights * weights).sum(axis=0)) * gaussian_tail_bound(equal, noise.variance, outside)
        return spread
    largest = np.maximum(np.abs(weights).max(axis=0), 1e-300)
    squares, best = (weights / largest) ** 2, np.full(weights.shape[1], np.inf)
    for t in _TILTS:
        tilted = squares * (t * t)
        variance = 2 * (tilted * (1 + tilted) / (1 - tilted) ** 2).sum(axis=0)  # of t W
        logarithm = -np.log1p(-tilted).sum(axis=0) - np.log(np.maximum(variance, 1.0)) / 2
        np.minimum(best, (math.log(2 / outside) + logarithm) / t, out=best)
    found: Floats = largest * best * float(noise.scale) * (1 + 1e-9) + np.abs(weights).sum(axis=0)
    return found


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
    found = np.zeros(len(total))
    for start in range(0, len(total), _GROUPS_AT_ONCE):
        part = slice(start, start + _GROUPS_AT_ONCE)
        most, size = (above[part] - blur[part])[:, None], total[part][:, None]
        passes = most - size * ends[1:] <= bounds
        first = np.argmax(passes, axis=1)
        place = (most[:, 0] - bounds[first]) / np.where(size > 0, size, 1.0)[:, 0]
        place = np.clip(place, ends[first], ends[first + 1])
        found[part] = np.where(size[:, 0] > 0, np.where(passes.any(axis=1), place, 1.0), 0.0)
    return found


@lru_cache(maxsize=256)
def _stretches(noise: Laplace | Gaussian, places: tuple[float, ...], outside: float) -> tuple[Floats, Floats]:
    """The ends of the stretches of m, and how far V strays at most within each."""
    many = _STRETCHES.get(len(places), _FEWER_STRETCHES)
    ends = np.arange(many + 1) / many
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
