"""Whether a noisy value reaches a noisy threshold: the comparison under every sparse vector mechanism.

A value q is answered "above" exactly if q + N >= threshold + shift + R. All are whole numbers (reals are counted in
steps of a grid). N is fresh for every question, R is the noise of the bar; after `answers` aboves the run is over.

Lemma (crossing). Let P[R = t] <= e^(x k) P[R = t + k] and P[N >= z] <= e^(y k) P[N >= z + k] for all integers t, z and
k >= 0. Let d be a whole number, and let each value move by at most d between neighbours. Then the answers of a run
with one bar R and at most c aboves are (x d + 2 c y d)-DP, whatever the number of belows; (x d + c y d)-DP if all
values move the same way. Questions may depend on earlier answers.
Proof. Fix a finite list of answers, A of them above, |A| <= c. It fixes the questions. With B = threshold + shift,
    P[answers] = sum_t P[R = t] prod_(i not in A) P[N < B + t - q_i] prod_(i in A) P[N >= B + t - q_i].
Replace t by t + d on the neighbour, whose values are q'. The first factor costs e^(x d). B + t + d - q'_i is at least
B + t - q_i, so each below is at least as likely as before, and at most 2 d more, so each above costs at most e^(2 y d).
If all values rise, it is at most d more. If all fall, keep t: belows grow, and each above costs at most e^(y d).
A tie q + N = B + R is "above", an event like any other here: nothing is said about densities. A run that never halts
is the limit of its beginnings, which fix its law. The bound holds for every fixed list of questions, so ratios multiply
when runs are interleaved with other pure mechanisms: epsilons add there too.
Both laws used here meet the conditions with x = y = 1 / scale: for Laplace noise |t + k| <= |t| + k term by term; for
geometric noise, 0, 1, 2, ..., P[R = t + k] = r^k P[R = t] for t >= 0, and P[N >= z + k] >= r^k P[N >= z].

Checked by: tests/mechanisms/sparse/test_crossing.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from numbers import Integral

from flint import arb

from lapwing.errors import Misconfigured
from lapwing.mechanisms.grid import Grid
from lapwing.mechanisms.scores import at_least, nearest
from lapwing.noise import sample_geometric, sample_laplace
from lapwing.numbers import Enclosure, ball, enclose, exact

AboveAnswers = tuple[bool, ...]
"""One truth value a question: whether it was answered "above"."""

_PROVEN_EXTENT = 90  # bar scales that `law` sums over: e^-90 is left to the upper bound
_MOST_TERMS = 500_000


@dataclass(frozen=True, slots=True)
class Ticks:
    """How values become whole numbers: as they are, or rounded to multiples of `step`, halves up.

    `sensitivity` is how far a value moves at most, in ticks: rounding to a grid adds one (grid.py).
    """

    step: Fraction | None
    sensitivity: Fraction

    @classmethod
    def of(cls, sensitivity: Fraction, scale: Fraction, *, reals: bool) -> Ticks:
        """Whole numbers, or for reals a grid that is fine against this noise scale."""
        if not reals:
            return cls(None, sensitivity)
        grid = Grid.fine(scale, sensitivity, 1)
        return cls(grid.step, grid.l1_sensitivity(sensitivity, 1))

    def read(self, value: object) -> int:
        """A value in ticks. It is data, so no message shows it."""
        if self.step is not None:
            return self.round(_finite(value))
        match value:
            case bool():
                pass
            case Integral():
                return int(value)
        raise Misconfigured(
            "`value` is not an int; integers and reals get different noise, and the data must not decide which. "
            "Pass an int, or make the mechanism with reals=True."
        )

    def round(self, number: Fraction) -> int:
        """The tick of an exact number; a public threshold between two whole numbers counts as the next one."""
        if self.step is None:
            return math.ceil(number)
        return math.floor(number / self.step + Fraction(1, 2))

    def number(self, ticks: int) -> int | float:
        """Ticks back to what was passed: an int, or a float that is a multiple of the step."""
        return ticks if self.step is None else nearest(ticks * self.step)

    def length(self, ticks: int) -> int | float:
        """The same for a distance, rounded up."""
        return ticks if self.step is None else at_least(ticks * self.step)


@dataclass(frozen=True, slots=True)
class Crossing:
    """The comparison with all its numbers, in ticks. `refreshed` means a new bar after every "above"."""

    ticks: Ticks
    threshold: int
    shift: int
    bar_scale: Fraction
    query_scale: Fraction
    answers: int
    two_sided: bool
    refreshed: bool

    def draw_bar(self) -> int:
        """The threshold with its shift and noise."""
        return self.threshold + self.shift + self._draw(self.bar_scale)

    def draw_noise(self) -> int:
        """The noise of one question."""
        return self._draw(self.query_scale)

    def law(self, values: Sequence[object]) -> dict[AboveAnswers, Enclosure]:
        """Proven bounds of the probability of every list of answers to these questions, about e^-90 apart."""
        ticks = [self.ticks.read(value) for value in values]
        outcomes = list(_outcomes(len(ticks), self.answers))
        terms = len(outcomes) * (len(ticks) + 1) * math.ceil(2 * _PROVEN_EXTENT * self.bar_scale)
        if terms > _MOST_TERMS:
            raise Misconfigured(
                f"The probabilities would take a sum of {terms} terms; at most {_MOST_TERMS} are supported. "
                "Ask for fewer questions, or use a larger epsilon and whole values."
            )
        return {outcome: enclose(lambda o=outcome: self._chance(ticks, o), bits=256) for outcome in outcomes}  # type: ignore[misc]

    def _draw(self, scale: Fraction) -> int:
        return int((sample_laplace if self.two_sided else sample_geometric)(scale, 1)[0])

    def _chance(self, ticks: list[int], outcome: AboveAnswers) -> arb:
        """The probability of these answers: the sum of the lemma, one for each bar that was drawn."""
        total, start = arb(1), 0
        while start < len(outcome):
            end = len(outcome)
            if self.refreshed and True in outcome[start:]:
                end = outcome.index(True, start) + 1
            total *= self._chance_of_one_bar(ticks[start:end], outcome[start:end])
            start = end
        return total

    def _chance_of_one_bar(self, ticks: list[int], outcome: AboveAnswers) -> arb:
        extent = math.ceil(_PROVEN_EXTENT * self.bar_scale)
        base = self.threshold + self.shift
        total = arb(0)
        for t in range(-extent if self.two_sided else 0, extent + 1):
            term = self._mass(t, self.bar_scale)
            for tick, above in zip(ticks, outcome, strict=False):
                reached = self._tail(base + t - tick, self.query_scale)
                term *= reached if above else 1 - reached
            total += term
        beyond = self._tail(extent + 1, self.bar_scale) * (2 if self.two_sided else 1)
        return total + beyond.union(arb(0))

    def _mass(self, t: int, scale: Fraction) -> arb:
        weight = (-ball(abs(t) / scale)).exp()
        return weight * ((ball(1 / scale) / 2).tanh() if self.two_sided else -(-ball(1 / scale)).expm1())

    def _tail(self, z: int, scale: Fraction) -> arb:
        """P[N >= z]."""
        if not self.two_sided:
            return (-ball(max(z, 0) / scale)).exp()
        outside = (-ball((z if z >= 0 else 1 - z) / scale)).exp() / (1 + (-ball(1 / scale)).exp())
        return outside if z >= 0 else 1 - outside


def _outcomes(questions: int, answers: int) -> Iterator[AboveAnswers]:
    """All lists of answers to this many questions; one ends early with its last "above"."""
    for above in range(min(questions, answers) + 1):
        for places in combinations(range(questions), above):
            length = questions if above < answers else places[-1] + 1
            yield tuple(i in places for i in range(length))


def _finite(value: object) -> Fraction:
    try:
        return exact(value, "value")
    except Misconfigured:  # its message shows the value
        raise Misconfigured("`value` is not a finite number. Pass an int, float, Fraction or Decimal.") from None
