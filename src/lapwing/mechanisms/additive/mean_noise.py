"""How far the weighted mean of several noisy numbers strays, each with noise of its own.

Weights.    Noise i has variance v_i, known from its price, and all are independent, so the mean with weights w_i in
            proportion to 1 / v_i has the least variance, 1 / sum 1 / v_i. They are whole numbers of 2^-40 that sum to 1
            exactly, functions of prices alone: the mean stays unbiased.
Interval.   The mean is off by sum w_i Z_i, whose tail is bounded in mechanisms/additive/tails.py: of Laplace noise for
            a weight and a scale each; of Gaussian noise for one variance v, the least v_i, with weights
            w_i sqrt(v_i / v), which is the same normal law, and what is allowed for discreteness only grows. Narrow
            Gaussian noise, where that allowance is felt, is summed up instead: each w_i Z_i is moved to the
            nearest multiple of g, a small part of the whole's spread, so n of them move the sum by n g / 2 at most,
            and the moved laws are convolved. The mean is rounded to the finest step, of which the truth is a
            multiple: within x becomes within floor(x + 1/2) steps.
Checked by: tests/answers/test_combine.py
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from lapwing.arrays import Floats
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import gaussian_tail_bound, laplace_tail_bound

WHOLE = 1 << 40
"""A weight of 1."""

_SAFE = 1 + 1e-9  # rounding of float64
_WIDE = 4096**2  # a variance beyond which noise is as good as normal
_FINE = 64  # multiples of g in one standard deviation, for each part
_SPREAD = 13  # standard deviations that are summed over: e^-84 lies beyond
_LEAST, _BLUR = 1e-9, 1e-12  # what sums in float64 can tell from 0, and how far they may be off


@dataclass(frozen=True, slots=True)
class Part:
    """What one number brings to the mean: whole 2^-40ths of weight, steps of the mean to one of its own, noise."""

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
        found = gaussian_tail_bound(weights * wider, min(variances), outside)
        if max(variances) <= _WIDE and outside >= _LEAST:
            found = min(found, _summed_up(weights, [float(variance) for variance in variances], outside))
    else:
        found = laplace_tail_bound(weights, np.array([_scale(part.noise) for part in parts]), outside)
    return math.floor(found * _SAFE + 0.5)


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
    first = int(np.argmax(above[1:] <= outside - _BLUR))
    return (first + parts / 2) * g


def variance_of(noise: Laplace | Gaussian) -> Fraction:
    return noise.variance if isinstance(noise, Gaussian) else Fraction(0.5 / math.sinh(0.5 / _scale(noise)) ** 2)


def _scale(noise: Laplace | Gaussian) -> float:
    """Of Laplace noise; below 1/600 it is 0 for all that floats can tell, and wider noise strays no less."""
    return max(float(noise.scale), 1 / 600)
