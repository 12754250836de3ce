"""Report noisy max.

[DR14] Dwork, Roth: The algorithmic foundations of differential privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from lapwing.arrays import Floats
from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.scores import (
    Selection,
    T,
    Wholes,
    at_least,
    below_best,
    candidate_at,
    read,
    require_one_each,
    wholes,
)
from lapwing.noise.lazy import exp_neg
from lapwing.numbers import Enclosure, Number, count, flag
from lapwing.privacy.loss import Pure
from lapwing.privacy.neighbours import Neighbours
from lapwing.privacy.phrases import short_repr

_BITS = 192
_PROVEN_EXTENT = 90  # noise scales to both sides that `law` sums over: e^-90 is left out
_EXTENT = 45  # and `probabilities`
_MOST_PROVEN = 200_000
_MOST = 50_000_000
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, init=False)
class NoisyMax(Selection):
    """Adds Laplace noise to every score and reports which is largest, and nothing else.

    Use:        as taught, for counts; `PermuteAndFlip` chooses better at the same price.
    Law:        the least i with y_i = max_j y_j, y_j = s_j + Z_j, P[Z = z] proportional to exp(-|z| / scale), scale =
                2 sensitivity / epsilon, or sensitivity / epsilon if the scores are monotone. With reals=True the scores
                are first rounded to a fine grid (grid.py) and the noise lives there.
    Guarantee:  pure DP with epsilon, whatever the number of candidates, for all score vectors s, s' with
                |s_j - s'_j| <= sensitivity for every j. The noisy scores themselves are not covered.
    Error:      max_j |Z_j| <= t makes s(chosen) at least max s - 2 t; `error` takes the exact quantile of max |Z_j|.
    Proof:      Fix all Z_j but Z_i. Candidate i wins exactly if s_i + Z_i >= s_j + Z_j + [j < i] for every j != i, that
                is if Z_i >= r = max_j (s_j + Z_j + [j < i]) - s_i, an integer. Ties are part of r, by place, so they
                move nothing. From s to s' the maximum and s_i move by at most d each, d = floor(sensitivity), so r
                grows by at most 2 d; if monotone by at most d, since both move the same way. And
                P[Z >= r + c] >= e^(-c / scale) P[Z >= r] for integers c >= 0, term by term: |z + c| <= |z| + c. With c
                at most epsilon scale, every outcome keeps a share e^-epsilon. Average over the fixed noise.
                Reals: two rounded scores together move by at most floor(2 sensitivity / step) + 2 steps, four
                roundings of half a step each; if monotone, rounding keeps the order, so d = floor(sensitivity / step)
                + 1. Both are what `noise.on_grid` is made for.
                The decision to round must not depend on the data: it is a parameter. [DR14, Claim 3.9]
    Figure:     `NoisyMax(epsilon=1, monotone=True).error(candidates=100)` = 14.0
    Checked by: tests/mechanisms/choice/test_noisy_max.py
    """

    reals: bool

    __repr__ = short_repr

    def __init__(
        self,
        *,
        epsilon: Number,
        sensitivity: Number = 1,
        monotone: bool = False,
        neighbours: Neighbours = Neighbours.ADD_OR_REMOVE,
        reals: bool = False,
    ) -> None:
        Selection.__init__(self, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone, neighbours=neighbours)
        object.__setattr__(self, "reals", flag(reals, "reals"))

    @property
    def loss(self) -> Pure:
        return Pure(self.epsilon)

    @property
    def noise(self) -> Laplace:
        """The noise added to each score: it hides a move of two scores at once, or of one if monotone."""
        moves = 1 if self.monotone else 2
        return Laplace(epsilon=self.epsilon, sensitivity=moves * self.sensitivity, size=moves)

    @property
    def scale(self) -> Fraction:
        return self.noise.scale

    def choose(self, candidates: Sequence[T] | Any, scores: object) -> T | Any:
        """One candidate; `scores` holds a number for each."""
        exponents = below_best(self._ticks(scores))
        require_one_each(candidates, exponents.size, "scores")
        noise = (self.noise.on_grid if self.reals else self.noise).draw(exponents.size)
        if exponents.dtype == object or int(exponents.max()) >= 1 << 62:  # int64 might not hold the difference
            noise, exponents = noise.astype(object), exponents.astype(object)
        return candidate_at(candidates, int(np.argmax(noise - exponents)))

    def law(self, scores: object) -> tuple[Enclosure, ...]:
        """Proven bounds of every candidate's probability, for whole scores: about (n + 1) e^-90 apart.

        A sum over the largest noisy score z, in integers rounded outward, of
        P[y_i = z] prod_{j < i} P[y_j < z] prod_{j > i} P[y_j <= z].
        """
        exponents = self._whole_gaps(scores)
        extent = math.ceil(_PROVEN_EXTENT * self.scale)
        _require_feasible(exponents.size * (2 * extent + 1), _MOST_PROVEN, "Use probabilities(), which is much faster.")
        sums = _sum_chances(exponents.tolist(), self.scale, extent)
        return tuple((Fraction(low, 1 << _BITS), Fraction(high, 1 << _BITS)) for low, high in sums)

    def probabilities(self, scores: object) -> Floats:
        """Every candidate's probability in float64, for whole scores: the sum of `law`, cut at 45 noise scales.

        Off by at most (n + 1) e^-45, and a share of n 1e-15.
        """
        exponents = self._whole_gaps(scores)
        extent = math.ceil(_EXTENT * self.scale)
        steps = max(1, _CHUNK // exponents.size)
        _require_feasible(exponents.size * (2 * extent + 1), _MOST, "Use a larger epsilon or fewer candidates.")
        offsets = np.minimum(exponents, 4 * extent).astype(np.int64)  # no difference to float64 beyond that
        total = np.zeros(exponents.size)
        for start in range(-extent, extent + 1, steps):
            z = np.arange(start, min(start + steps, extent + 1))[:, None] + offsets
            total += self._at(z).sum(axis=0)
        return total

    def error(self, confidence: Number = 0.95, *, candidates: int) -> float:
        """With this probability the chosen score is at least the largest score minus this; rounded up."""
        if not self.reals:
            return float(2 * self.noise.error(confidence, simultaneous=count(candidates, "candidates")))
        steps = 2 * self.noise.on_grid.error(confidence, simultaneous=count(candidates, "candidates")) + 1
        return at_least(steps * self.noise.grid.step)

    def _ticks(self, scores: object) -> Wholes:
        """The scores as whole numbers: of one, or of grid steps, where halves are rounded up."""
        given = read(scores, "scores")
        if not self.reals:
            if not given.whole:
                raise Misconfigured(
                    "`scores` are not all written as integers; whole scores and real scores get different noise, and "
                    "the data must not decide which. Pass integers, or make the mechanism with reals=True."
                )
            return given.ticks
        factor = given.unit / self.noise.grid.step
        double, twice = 2 * factor.numerator, 2 * factor.denominator
        return wholes([(double * tick + factor.denominator) // twice for tick in given.ticks.tolist()])

    def _whole_gaps(self, scores: object) -> Wholes:
        if self.reals:
            raise Misconfigured(
                "The probabilities are computed for whole scores; `reals` is True. "
                "Make the mechanism without it and pass integers."
            )
        return below_best(self._ticks(scores))

    def _at(self, z: npt.NDArray[np.int64]) -> Floats:
        """For each row, the chance that candidate i wins with a noise of z_i while the others are held to z."""
        rate = float(1 / self.scale)
        tail = np.exp(-rate * np.abs(z)) / (1 + math.exp(-rate))
        held = np.where(z < 0, tail, 1 - tail * math.exp(-rate))  # P[Z <= z]
        below = np.where(z <= 0, tail * math.exp(-rate), 1 - tail)  # P[Z < z]
        before, after = np.ones_like(held), np.ones_like(held)
        np.cumprod(below[:, :-1], axis=1, out=before[:, 1:])
        after[:, :-1] = np.cumprod(held[:, :0:-1], axis=1)[:, ::-1]
        wins: Floats = tail * -math.expm1(-rate) * before * after
        return wins


def _sum_chances(exponents: list[int], scale: Fraction, extent: int) -> list[tuple[int, int]]:
    """Bounds, times 2^192, of the chance that each candidate wins with a noisy score within `extent` of the best."""
    one = 1 << _BITS
    tails = _tails(scale, extent)
    ratio_low, ratio_high = exp_neg(scale.denominator, scale.numerator, _BITS)
    stop = (one - ratio_high, one - ratio_low)

    def tail(k: int) -> tuple[int, int]:
        return tails[k] if k < len(tails) else (0, tails[-1][1])

    def at_most(k: int) -> tuple[int, int]:
        """P[Z <= k]."""
        low, high = tail(-k if k < 0 else k + 1)
        return (low, high) if k < 0 else (one - high, one - low)

    sums = [(0, 0)] * len(exponents)
    for z in range(-extent, extent + 1):
        below = [at_most(z + e - 1) for e in exponents[:-1]]
        held = [at_most(z + e) for e in exponents[:0:-1]]
        before = accumulate(below, _product, initial=(one, one))
        after = reversed(list(accumulate(held, _product, initial=(one, one))))
        here = (_product(tail(abs(z + e)), stop) for e in exponents)
        terms = (_product(_product(a, b), c) for a, b, c in zip(here, before, after, strict=True))
        sums = [(s[0] + t[0], s[1] + t[1]) for s, t in zip(sums, terms, strict=True)]
    beyond = (len(exponents) + 1) * tails[-1][1]  # some noisy score above `extent`, or the best one's below -extent
    return [(low, min(one, high + beyond)) for low, high in sums]


def _tails(scale: Fraction, extent: int) -> list[tuple[int, int]]:
    """Bounds, times 2^192, of P[Z >= k] = r^k / (1 + r), r = e^(-1 / scale), for k from 1 to extent + 1 (and at 0)."""
    one = 1 << _BITS
    powers = [exp_neg(k * scale.denominator, scale.numerator, _BITS) for k in range(extent + 2)]
    ratio_low, ratio_high = powers[1]
    return [((low << _BITS) // (one + ratio_high), -(-(high << _BITS) // (one + ratio_low))) for low, high in powers]


def _product(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Bounds of a product of two numbers in [0, 1], rounded outward."""
    return a[0] * b[0] >> _BITS, -(-a[1] * b[1] >> _BITS)


def _require_feasible(terms: int, most: int, instead: str) -> None:
    if terms > most:
        raise Misconfigured(f"The probabilities would take a sum of {terms} terms; at most {most} are done. {instead}")
