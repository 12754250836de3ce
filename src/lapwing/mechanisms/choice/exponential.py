"""Choosing candidates, better ones exponentially more often: one of many, or the k best in order.

[MT07] McSherry, Talwar: Mechanism design via differential privacy. [DR14] Dwork, Roth: The algorithmic foundations.
[MS20] McKenna, Sheldon: Permute-and-flip, a new mechanism for differentially private selection. [DKS21] Ding et al.:
The permute-and-flip mechanism is identical to report-noisy-max with exponential noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from lapwing.arrays import Floats
from lapwing.errors import Misconfigured
from lapwing.mechanisms import scores
from lapwing.mechanisms.mechanism import PureMechanism
from lapwing.noise import sample_choice, sample_heads
from lapwing.noise.exponential_race import sample_race
from lapwing.numbers import Enclosure, Number, count, flag, inside_unit
from lapwing.privacy.loss import BoundedRange, Loss
from lapwing.privacy.neighbours import Neighbours

_MOST_PROVEN = 32
_NODES = 32
_MOST_LISTS = 20_000


@dataclass(frozen=True, slots=True, init=False, repr=False)
class _Choice(scores.Selection, ABC):
    """A choice of one candidate by how far each is from the best."""

    _sample: ClassVar[Callable[..., int]]

    @abstractmethod
    def _odds(self, candidates: int, best: int) -> Fraction:
        """P[u(chosen) <= opt - t] <= odds e^(-rate t)."""

    def choose(self, candidates: Sequence[scores.T] | Any, utilities: object) -> scores.T | Any:
        """One candidate; `utilities` holds a number for each."""
        exponents, unit = scores.gaps(utilities)
        scores.require_one_each(candidates, exponents.size, "utilities")
        return scores.candidate_at(candidates, self._sample(exponents, self.rate * unit))

    def error(self, confidence: Number = 0.95, *, candidates: int, best: int = 1) -> float:
        """With this probability the chosen utility is at least opt minus this; rounded up.

        `best` is how many candidates are known to reach the optimum; 1 is always true.
        """
        miss = 1 - inside_unit(confidence, "confidence")
        odds = self._odds(*scores.read_candidates(candidates, best)) / miss
        return scores.at_least(scores.loss_within(odds, self.rate))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Exponential(_Choice):
    """Chooses a candidate, better ones exponentially more often.

    Use:        choosing one of many under zCDP, where it costs epsilon^2/8; under pure DP `PermuteAndFlip` errs less.
    Law:        P[r] proportional to exp(rate u(x, r)), rate = epsilon / (2 sensitivity), or epsilon / sensitivity if
                the utilities are monotone.
    Guarantee:  pure DP with epsilon, and the log-ratio L(r) = ln P[r | x] / P[r | x'] lies in an interval of length
                epsilon (bounded range), so epsilon^2/8-zCDP; for all x, x' with |u(x, r) - u(x', r)| <= sensitivity
                for every r.
    Error:      P[u(chosen) <= opt - (ln(n / best) + t) / rate] <= e^-t, n candidates of which `best` reach opt.
    Proof:      L(r) = rate (u(x, r) - u(x', r)) + c, where c = ln Z' / Z does not depend on r. The differences
                u(x, r) - u(x', r) lie in an interval of length 2 sensitivity; if monotone, in [0, sensitivity] or in
                [-sensitivity, 0]. Times the rate both are epsilon long. The interval holds 0, since both laws sum to 1,
                so |L| <= epsilon.
                Error: a candidate that far below opt has weight at most exp(rate opt) best e^-t / n, there are at most
                n of them, and the best alone have weight best exp(rate opt). [MT07] [DR14, Thm 3.11]
    Figure:     `round(Exponential(epsilon=1).error(candidates=100), 1)` = 15.2
    Checked by: tests/mechanisms/choice/test_exponential.py
    """

    _sample = staticmethod(sample_choice)

    @property
    def loss(self) -> BoundedRange:
        return BoundedRange(self.epsilon)

    def law(self, utilities: object) -> tuple[Enclosure, ...]:
        """Proven bounds of every candidate's probability."""
        exponents, unit = scores.gaps(utilities)
        return scores.shares(exponents, self.rate * unit)

    def probabilities(self, utilities: object) -> Floats:
        """Every candidate's probability in float64; those above 1e-300 have a relative error of at most 1e-12."""
        exponents, unit = scores.gaps(utilities)
        relative = np.exp(-scores.times(exponents, self.rate * unit))
        return np.asarray(relative / relative.sum())

    def weights(self, utilities: object) -> Floats:
        """exp(rate u): the weights as the textbook prints them. A utility of 0 has weight 1; large ones overflow."""
        exact = scores.read(utilities, "utilities")
        with np.errstate(over="ignore"):
            weights: Floats = np.exp(scores.times(exact.ticks, self.rate * exact.unit))
        return weights

    def _odds(self, candidates: int, best: int) -> Fraction:
        return Fraction(candidates, best)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PermuteAndFlip(_Choice, PureMechanism):
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

    _sample = staticmethod(sample_heads)

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

    def _odds(self, candidates: int, best: int) -> Fraction:
        return Fraction(candidates - best, best + 1)


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


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TopK(scores.Selection):
    """Chooses k different candidates, one after another, better ones exponentially more often.

    Use:        the names of the k best; their scores need another release. Under a pure budget `peeling=True` errs
                less; under a budget with a delta, or for a large k, the one-shot form costs a quarter of the rho.
    Law:        one-shot: the first k of an exponential race, which is k times the exponential mechanism (Exponential)
                on the candidates that are left, each with epsilon / k. peeling: k times permute-and-flip
                (PermuteAndFlip) on the candidates that are left, each with epsilon / k.
    Guarantee:  pure DP with epsilon for the whole list in its order, for all x, x' with
                |u(x, r) - u(x', r)| <= sensitivity for every r; and epsilon^2 / (8 k)-zCDP one-shot,
                epsilon^2 / (2 k)-zCDP with peeling.
    Error:      with probability 1 - beta, for every i the i-th of the list has a utility of at least the i-th largest
                minus t, t the error of one choice at beta / k.
    Proof:      the race has the law of successive choices (noise/exponential_race.py). Leaving candidates out
                changes no utility of the others, so every choice is a mechanism of the same sensitivity,
                monotone if the whole was, chosen after seeing the earlier ones: losses add (privacy/loss.py).
                One-shot: k choices of bounded range epsilon / k, so k (epsilon / k)^2 / 8. Permute-and-flip is not of
                bounded range: k (epsilon / k)^2 / 2.
                Error: at the i-th choice at most i - 1 are gone, so the best that is left is at least the i-th largest;
                a choice fails with probability beta / k at most, also given the earlier ones. [DR19] [MS20]
    Figure:     `round(TopK(k=10, epsilon=1, monotone=True).error(0.95, candidates=1000), 1)` = 122.1
    Checked by: tests/mechanisms/choice/test_top_k.py
    """

    k: int
    peeling: bool

    def __init__(
        self,
        *,
        k: int,
        epsilon: Number,
        sensitivity: Number = 1,
        monotone: bool = False,
        neighbours: Neighbours = Neighbours.ADD_OR_REMOVE,
        peeling: bool = False,
    ) -> None:
        scores.Selection.__init__(
            self, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone, neighbours=neighbours
        )
        self._set(k=count(k, "k"), peeling=flag(peeling, "peeling"))

    @property
    def once(self) -> Exponential | PermuteAndFlip:
        kind = PermuteAndFlip if self.peeling else Exponential
        terms = {name: getattr(self, name) for name in ("sensitivity", "monotone", "neighbours")}
        return kind(epsilon=self.epsilon / self.k, **terms)

    @property
    def rate(self) -> Fraction:
        """How much the log-weight of a candidate grows per unit of score, in one choice."""
        return self.once.rate

    @property
    def loss(self) -> Loss:
        return self.once.loss * self.k

    def choose(self, candidates: Sequence[scores.T] | Any, utilities: object) -> list[scores.T | Any]:
        """k candidates in the order of their choice; `utilities` holds a number for each candidate."""
        exponents, unit = scores.gaps(utilities)
        scores.require_one_each(candidates, exponents.size, "utilities")
        self._require_enough(exponents.size)
        rate = self.rate * unit
        chosen = _peel(exponents, rate, self.k) if self.peeling else sample_race(exponents, rate, count=self.k)
        return [scores.candidate_at(candidates, index) for index in chosen]

    def law(self, utilities: object) -> dict[tuple[int, ...], Enclosure]:
        """Proven bounds of the probability of every ordered list of k places, for at most 20,000 lists."""
        given = scores.read(utilities, "utilities")
        exact = [tick * given.unit for tick in given.ticks.tolist()]
        self._require_enough(len(exact))
        if math.perm(len(exact), self.k) > _MOST_LISTS:
            raise Misconfigured(
                f"There are more than {_MOST_LISTS} ordered lists of {self.k} candidates. Ask with fewer candidates."
            )
        lists: dict[tuple[int, ...], Enclosure] = {(): (Fraction(1), Fraction(1))}
        for _ in range(self.k):
            lists = {key: bounds for before in lists.items() for key, bounds in self._longer(*before, exact)}
        return lists

    def error(self, confidence: Number = 0.95, *, candidates: int) -> float:
        """With this probability, every i-th chosen utility is at least the i-th largest minus this; rounded up."""
        self._require_enough(count(candidates, "candidates"))
        miss = 1 - inside_unit(confidence, "confidence")
        return self.once.error(1 - miss / self.k, candidates=candidates)

    def _longer(
        self, chosen: tuple[int, ...], so_far: Enclosure, utilities: list[Fraction]
    ) -> list[tuple[tuple[int, ...], Enclosure]]:
        left = [i for i in range(len(utilities)) if i not in chosen]
        law = self.once.law([utilities[i] for i in left])
        return [((*chosen, i), (so_far[0] * low, so_far[1] * high)) for i, (low, high) in zip(left, law, strict=True)]

    def _require_enough(self, candidates: int) -> None:
        if candidates < self.k:
            raise Misconfigured(f"`k` is {self.k}; there are only {candidates} candidates. Pass at most that many.")


def _peel(exponents: scores.Wholes, rate: Fraction, times: int) -> list[int]:
    """Repeats permute-and-flip on the candidates that are left."""
    left, chosen = np.arange(exponents.size), []
    for _ in range(times):
        rest = exponents[left]
        index = sample_heads(rest - rest.min(), rate)
        chosen.append(int(left[index]))
        left = np.delete(left, index)
    return chosen
