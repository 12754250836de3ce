"""Report noisy max.

[DR14] Dwork, Roth: The algorithmic foundations of differential privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np
from flint import arb

from lapwing.arrays import Array, Floats, Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace, laplace_mass, laplace_tail
from lapwing.mechanisms.mechanism import PureMechanism
from lapwing.mechanisms.scores import Selection, T, at_least, below_best, candidate_at, read, require_one_each, wholes
from lapwing.numbers import Enclosure, Number, count, enclose, flag
from lapwing.privacy.neighbours import Neighbours

_BITS = 192
_PROVEN_EXTENT = 90  # noise scales to both sides that `law` sums over: e^-90 is left out
_EXTENT = 45  # and `probabilities`
_MOST_PROVEN = 200_000
_MOST = 50_000_000
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, init=False, repr=False)
class NoisyMax(Selection, PureMechanism):
    """Adds Laplace noise to every score and reports which is largest.

    Use:        Report which of many counts is largest, and nothing else. `PermuteAndFlip` chooses better at the same
                price.
    Law:        the least i with y_i = max_j y_j, y_j = s_j + Z_j, P[Z = z] proportional to exp(-|z| / scale), scale =
                2 sensitivity / epsilon, or sensitivity / epsilon if the scores are monotone. With reals=True the scores
                are first rounded to a fine grid (values.py) and the noise lives there.
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
        self._set(reals=flag(reals, "reals"))

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

        A sum over the largest noisy score z of
        P[y_i = z] prod_{j < i} P[y_j < z] prod_{j > i} P[y_j <= z].
        """
        exponents = self._whole_gaps(scores)
        extent = math.ceil(_PROVEN_EXTENT * self.scale)
        _require_feasible(exponents.size * (2 * extent + 1), _MOST_PROVEN, "Use probabilities(), which is much faster.")
        chances: list[arb] = []

        def chance(index: int) -> arb:
            if not chances:  # all at once, at the precision of the first
                chances.extend(_sum_chances(exponents.tolist(), self.scale, extent))
            return chances[index]

        bounds = [enclose(partial(chance, index), bits=_BITS) for index in range(exponents.size)]
        return tuple((max(low, Fraction(0)), min(high, Fraction(1))) for low, high in bounds)

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

    def _ticks(self, scores: object) -> Array:
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

    def _whole_gaps(self, scores: object) -> Array:
        if self.reals:
            raise Misconfigured(
                "The probabilities are computed for whole scores; `reals` is True. "
                "Make the mechanism without it and pass integers."
            )
        return below_best(self._ticks(scores))

    def _at(self, z: Integers) -> Floats:
        """For each row, the chance that candidate i wins with a noise of z_i while the others are held to z."""
        rate = float(1 / self.scale)
        tail = np.exp(-rate * np.abs(z)) / (1 + math.exp(-rate))
        held = np.where(z < 0, tail, 1 - tail * math.exp(-rate))  # P[Z <= z]
        below = np.where(z <= 0, tail * math.exp(-rate), 1 - tail)  # P[Z < z]
        before, after = np.ones_like(held), np.ones_like(held)
        np.cumprod(below[:, :-1], axis=1, out=before[:, 1:])
        after[:, :-1] = np.cumprod(held[:, :0:-1], axis=1)[:, ::-1]
        return tail * -math.expm1(-rate) * before * after


def _sum_chances(exponents: list[int], scale: Fraction, extent: int) -> list[arb]:
    """The chance that each candidate wins, summed over noisy scores within `extent` of the best score."""
    at_least = cache(partial(laplace_tail, scale))  # P[Z >= k], which is P[Z <= -k]
    sums = [arb(0)] * len(exponents)
    for z in range(-extent, extent + 1):
        before = accumulate((at_least(1 - z - e) for e in exponents[:-1]), mul, initial=arb(1))
        after = reversed(list(accumulate((at_least(-z - e) for e in exponents[:0:-1]), mul, initial=arb(1))))
        wins = (laplace_mass(scale, z + e) for e in exponents)
        sums = [total + a * b * c for total, a, b, c in zip(sums, wins, before, after, strict=True)]
    beyond = (len(exponents) + 1) * at_least(extent + 1)  # some noisy score above `extent`, or the best one's below it
    return [total + beyond.union(arb(0)) for total in sums]


def _require_feasible(terms: int, most: int, instead: str) -> None:
    if terms > most:
        raise Misconfigured(f"The probabilities would take a sum of {terms} terms; at most {most} are done. {instead}")
