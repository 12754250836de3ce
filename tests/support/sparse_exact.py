"""The law of a sparse vector run in closed form, over any exact numbers: the yardstick of its tests.

The bar's noise has ratio r (P falls by r a step), the questions' noise ratio s; both are two-sided (Laplace) or both
start at 0 (geometric). Where all comparisons lie on one side of 0, a product of tails is a polynomial in s^t, and its
sum over all t is a sum of geometric series: nothing is cut off.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

AboveAnswers = tuple[bool, ...]
Exact = Any
"""A Fraction, or a ball."""


@dataclass(frozen=True, slots=True)
class Model:
    """ "Above" exactly if q + N >= R. Threshold and shift are part of the values."""

    bar: Exact
    query: Exact
    answers: int
    two_sided: bool = False
    refreshed: bool = False

    def law(self, values: Sequence[int]) -> dict[AboveAnswers, Exact]:
        return {outcome: self.chance(values, outcome) for outcome in outcomes(len(values), self.answers)}

    def chance(self, values: Sequence[int], outcome: AboveAnswers) -> Exact:
        if self.refreshed and True in outcome[:-1]:
            end = outcome.index(True) + 1
            return self.chance(values[:end], outcome[:end]) * self.chance(values[end:], outcome[end:])
        offsets = [-value for value in values[: len(outcome)]]
        total = self._rising(offsets, outcome, max(0, *(-a for a in offsets)) if offsets else 0)
        return total + (self._falling(offsets, outcome) if self.two_sided else 0)

    def reach(self, z: int) -> Exact:
        """P[N >= z]."""
        if not self.two_sided:
            return self.query ** max(z, 0)
        tail = self.query ** (z if z >= 0 else 1 - z) / (1 + self.query)
        return tail if z >= 0 else 1 - tail

    def _rising(self, offsets: list[int], outcome: AboveAnswers, start: int) -> Exact:
        """All t >= 0; from `start` on every comparison needs N >= z with z >= 0."""
        factor = 1 / (1 + self.query) if self.two_sided else 1
        ends = [self.query**a * factor for a in (max(a + start, 0) for a in offsets)]
        return self._mass() * (
            sum((self.bar**t * self._product(offsets, outcome, t) for t in range(start)), start=0 * self.bar)
            + self.bar**start * self._series(ends, outcome, [True] * len(ends))
        )

    def _falling(self, offsets: list[int], outcome: AboveAnswers) -> Exact:
        """All t = -s < 0; from some s on every comparison needs N >= z with z < 0."""
        start = max(1, *(a + 1 for a in offsets)) if offsets else 1
        ends = [self.query ** (1 - a + start) / (1 + self.query) for a in offsets]
        return self._mass() * (
            sum((self.bar**s * self._product(offsets, outcome, -s) for s in range(1, start)), start=0 * self.bar)
            + self.bar**start * self._series(ends, outcome, [False] * len(ends))
        )

    def _series(self, ends: list[Exact], outcome: AboveAnswers, tails: list[bool]) -> Exact:
        """sum_k bar^k prod (x_i or 1 - x_i), x_i = end_i query^k: x_i itself where "above" is a tail, or it is not."""
        polynomial = [1 + 0 * self.bar]
        for end, above, tail in zip(ends, outcome, tails, strict=True):
            constant, slope = (0, end) if above == tail else (1, -end)
            longer = [*polynomial, 0 * self.bar]
            polynomial = [constant * a + slope * b for a, b in zip(longer, [0, *polynomial], strict=True)]
        return sum((c / (1 - self.bar * self.query**j) for j, c in enumerate(polynomial)), start=0 * self.bar)

    def _product(self, offsets: list[int], outcome: AboveAnswers, t: int) -> Exact:
        total = 1 + 0 * self.bar
        for a, above in zip(offsets, outcome, strict=True):
            reached = self.reach(a + t)
            total *= reached if above else 1 - reached
        return total

    def _mass(self) -> Exact:
        """P[R = 0]."""
        return (1 - self.bar) / (1 + self.bar) if self.two_sided else 1 - self.bar


def outcomes(questions: int, answers: int) -> Iterator[AboveAnswers]:
    """All lists of answers, cut after the last one that is paid for."""
    if not questions or not answers:
        yield ()
        return
    for answer in (False, True):
        for rest in outcomes(questions - 1, answers - answer):
            yield (answer, *rest)


def worst_ratio(model: Model, here: Sequence[int], there: Sequence[int]) -> Exact:
    """The largest ratio of probabilities of the same answers, both ways; answers that one side cannot give fail."""
    ratio = Fraction(0)
    for (outcome, p), q in zip(model.law(here).items(), model.law(there).values(), strict=True):
        assert (p > 0) == (q > 0), f"only one neighbour can give {outcome}"
        ratio = max(ratio, p / q, q / p) if p else ratio
    return ratio


def worst_of_all(model: Model, values: Sequence[int], moves: Sequence[int], questions: int) -> Fraction:
    """The largest ratio, both ways, over all inputs from `values` and all neighbours that move each by `moves`."""
    known: dict[tuple[int, ...], dict[AboveAnswers, Fraction]] = {}

    def law(point: tuple[int, ...]) -> dict[AboveAnswers, Fraction]:
        if point not in known:
            known[point] = model.law(point)
        return known[point]

    worst = Fraction(0)
    for here in itertools.product(values, repeat=questions):
        for move in itertools.product(moves, repeat=questions):
            there = tuple(a + b for a, b in zip(here, move, strict=True))
            for (outcome, p), q in zip(law(here).items(), law(there).values(), strict=True):
                assert (p > 0) == (q > 0), f"only one neighbour can give {outcome}"
                worst = max(worst, p / q, q / p) if p else worst
    return worst
