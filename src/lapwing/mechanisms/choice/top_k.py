"""The k best candidates, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from lapwing.errors import Misconfigured
from lapwing.mechanisms.choice.exponential import Exponential
from lapwing.mechanisms.choice.permute_and_flip import PermuteAndFlip
from lapwing.mechanisms.scores import Selection, T, Wholes, candidate_at, gaps, read, require_one_each
from lapwing.noise import sample_heads
from lapwing.noise.exponential_race import sample_race
from lapwing.numbers import Enclosure, Number, count, flag, inside_unit
from lapwing.privacy.loss import Loss
from lapwing.privacy.neighbours import Neighbours

_MOST_LISTS = 20_000


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TopK(Selection):
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
        Selection.__init__(self, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone, neighbours=neighbours)
        self._set(k=count(k, "k"), peeling=flag(peeling, "peeling"))

    @property
    def once(self) -> Exponential | PermuteAndFlip:
        made = PermuteAndFlip if self.peeling else Exponential
        return made(
            epsilon=self.epsilon / self.k,
            sensitivity=self.sensitivity,
            monotone=self.monotone,
            neighbours=self.neighbours,
        )

    @property
    def rate(self) -> Fraction:
        """How much the log-weight of a candidate grows per unit of score, in one choice."""
        return self.once.rate

    @property
    def loss(self) -> Loss:
        return self.once.loss * self.k

    def choose(self, candidates: Sequence[T] | Any, utilities: object) -> list[T | Any]:
        """k candidates in the order of their choice; `utilities` holds a number for each candidate."""
        exponents, unit = gaps(utilities)
        require_one_each(candidates, exponents.size, "utilities")
        self._require_enough(exponents.size)
        rate = self.rate * unit
        chosen = _peel(exponents, rate, self.k) if self.peeling else sample_race(exponents, rate, count=self.k)
        return [candidate_at(candidates, index) for index in chosen]

    def law(self, utilities: object) -> dict[tuple[int, ...], Enclosure]:
        """Proven bounds of the probability of every ordered list of k places, for at most 20,000 lists."""
        scores = read(utilities, "utilities")
        exact = [tick * scores.unit for tick in scores.ticks.tolist()]
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


def _peel(exponents: Wholes, rate: Fraction, times: int) -> list[int]:
    """Repeats permute-and-flip on the candidates that are left."""
    left, chosen = np.arange(exponents.size), []
    for _ in range(times):
        rest = exponents[left]
        place = sample_heads(rest - rest.min(), rate)
        chosen.append(int(left[place]))
        left = np.delete(left, place)
    return chosen
