"""Permute-and-flip.

[MS20] McKenna, Sheldon: Permute-and-flip, a new mechanism for differentially private selection. [DKS21] Ding, Kifer,
Saghaian, Steinke, Wang, Xiao, Zhang: The permute-and-flip mechanism is identical to report-noisy-max with exponential
noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from lapwing.arrays import Floats
from lapwing.errors import Misconfigured
from lapwing.mechanisms import scores
from lapwing.mechanisms.mechanism import PureMechanism
from lapwing.noise import sample_heads
from lapwing.numbers import Enclosure, Number, inside_unit

_MOST_PROVEN = 32
_NODES = 32


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PermuteAndFlip(scores.Selection, PureMechanism):
    """Chooses a candidate: never worse than the exponential mechanism at the same epsilon, and up to twice as good.

    Use:        choosing under pure DP: never worse than `Exponential` there; under zCDP that one is better.
    Law:        go through the candidates in random order; take candidate r with probability
                p_r = exp(-rate (opt - u(x, r))), otherwise go on. The rate is epsilon / (2 sensitivity), or
                epsilon / sensitivity if the utilities are monotone. A best candidate has p = 1, so the walk ends.
                P[r] = p_r * integral over v from 0 to 1 of prod_{j != r} (1 - p_j v) dv.
    Guarantee:  pure DP with epsilon, for all x, x' with |u(x, r) - u(x', r)| <= sensitivity for every r. Its log-ratio
                is *not* confined to an interval of length epsilon: it is epsilon^2/2-zCDP, not epsilon^2/8.
    Error:      P[u(chosen) <= opt - t] <= (n - best) / (best + 1) e^(-rate t), n candidates, `best` of them optimal.
    Proof:      1. It is the noisy maximum with exponential noise: let Y_j = u_j + E_j, P[E_j > e] = e^(-rate e). Y_j
                   exceeds opt with probability p_j, independently, and those that do exceed it by independent
                   exponentials again (no memory). One of them is the largest, each with the same chance: the first of
                   the heads in a random order.
                2. Fix all E_j but E_r. Then r wins if E_r > m - u_r, m = max_{j != r} Y_j. From x to x' the bound
                   m - u_r grows by at most 2 sensitivity; if monotone, by at most one, since m and u_r move the same
                   way by 0 to sensitivity each. And P[E > e + c] >= e^(-rate c) P[E > e] for c >= 0.
                3. Law: the number K of other heads is a sum of coins, and E[1 / (K + 1)] is the integral of E[s^K] over
                   s = 1 - v from 0 to 1. Error: for r below the best, p_r <= e^(-rate t) and the integral is at most
                   that of (1 - v)^best. [MS20] [DKS21]
    Figure:     `round(PermuteAndFlip(epsilon=1).error(candidates=100), 1)` = 13.8
    Checked by: tests/mechanisms/choice/test_permute_and_flip.py
    """

    def choose(self, candidates: Sequence[scores.T] | Any, utilities: object) -> scores.T | Any:
        """One candidate; `utilities` holds a number for each."""
        exponents, unit = scores.gaps(utilities)
        scores.require_one_each(candidates, exponents.size, "utilities")
        return scores.candidate_at(candidates, sample_heads(exponents, self.rate * unit))

    def law(self, utilities: object) -> tuple[Enclosure, ...]:
        """Proven bounds of every candidate's probability, for at most 32 candidates.

        P[r] grows with p_r and falls with every other p_j; bounds of the p give bounds of P[r]. The integral is exact.
        """
        exponents, unit = scores.gaps(utilities)
        if exponents.size > _MOST_PROVEN:
            raise Misconfigured(
                f"`utilities` has {exponents.size} entries; proven bounds are computed for at most {_MOST_PROVEN}. "
                "Use probabilities(), which is accurate to a relative error of 1e-12."
            )
        lows, highs, bits = scores.weights(exponents, self.rate * unit)
        return tuple(
            (lows[i] * _integral(_without(highs, i), bits), highs[i] * _integral(_without(lows, i), bits))
            for i in range(exponents.size)
        )

    def probabilities(self, utilities: object) -> Floats:
        """Every candidate's probability in float64; those above 1e-300 have a relative error of at most 1e-12.

        Gauss-Legendre on panels [a, a sqrt 2] and a first one [0, h], h <= 1 / S, S the sum of the p. With m = 32
        nodes the error on a panel is its length^(2m+1) (m!)^4 / ((2m + 1) (2m)!^3) times the 2m-th derivative, which
        is at most S^(2m) e^(-a (S - 2m)): below 1e-20 of the integral, which is 1 / (S + 1) or more.
        """
        exponents, unit = scores.gaps(utilities)
        heads = np.exp(-scores.times(exponents, self.rate * unit))
        total = np.zeros_like(heads)
        for node, weight in zip(*_quadrature(float(heads.sum())), strict=True):
            tails = np.log1p(-heads * node)
            total += weight * np.exp(tails.sum() - tails)
        return heads * total

    def error(self, confidence: Number = 0.95, *, candidates: int, best: int = 1) -> float:
        """With this probability the chosen utility is at least opt minus this; rounded up.

        `best` is how many candidates are known to reach the optimum; 1 is always true.
        """
        miss = 1 - inside_unit(confidence, "confidence")
        total, optimal = scores.read_candidates(candidates, best)
        odds = Fraction(total - optimal, optimal + 1) / miss
        return scores.at_least(scores.loss_within(odds, self.rate))


def _without(values: list[int], index: int) -> list[int]:
    return values[:index] + values[index + 1 :]


def _integral(heads: list[int], bits: int) -> Fraction:
    """2^-bits times the integral over s from 0 to 1 of prod (1 - p + p s), p = heads / 2^bits: exact."""
    one = 1 << bits
    product = [1]
    for head in heads:
        stay, step = [(one - head) * c for c in product], [head * c for c in product]
        product = [a + b for a, b in zip([*stay, 0], [0, *step], strict=True)]
    common = math.lcm(*range(1, len(product) + 1))
    return Fraction(sum(c * (common // k) for k, c in enumerate(product, 1)), common << (bits * (len(heads) + 1)))


def _quadrature(heads: float) -> tuple[list[float], list[float]]:
    """Nodes and weights on [0, 1] for products of coins whose expected number of heads is this."""
    x, w = np.polynomial.legendre.leggauss(_NODES)
    edges = [0.0, *(2.0 ** (-k / 2) for k in range(math.ceil(2 * math.log2(heads)), -1, -1))]
    nodes = [low + (high - low) * (x + 1) / 2 for low, high in pairwise(edges)]
    sizes = [(high - low) * w / 2 for low, high in pairwise(edges)]
    return np.concatenate(nodes).tolist(), np.concatenate(sizes).tolist()
