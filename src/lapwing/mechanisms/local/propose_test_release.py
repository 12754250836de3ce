"""Propose-test-release: propose a bound on the local sensitivity, test privately whether it holds here, then answer.

The *distance* d(x) counts the steps from x to the nearest database that must not be answered with the proposed noise.
What the proofs need of it: |d(x) - d(x')| <= 1 for neighbours, and d(x) = d(x') = 0 wherever the proposal fails between
x and x'. The distance to the nearest database with a local sensitivity above the proposal has both properties: if
d(x) >= 1, then x itself has a local sensitivity within the proposal, which covers the step to x'.
The test adds Laplace noise and passes if d(x) + Z > threshold, where P[Z > threshold] <= delta. Refusing (None) is an
answer like any other: it is charged.

[DL09] Dwork, Lei: Differential privacy and robust statistics. [ST13] Smith, Thakurta: Differentially private feature
selection via stability arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, assert_never

import numpy as np

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace, laplace_tail
from lapwing.mechanisms.local.ordered import BoundedGrid
from lapwing.mechanisms.mechanism import FrozenValue
from lapwing.mechanisms.scores import T, at_least, candidate_at, least_whole, read, require_one_each
from lapwing.numbers import Number, ball, count, decide, exact, inside_unit, positive
from lapwing.privacy.loss import Approximate
from lapwing.privacy.neighbours import Neighbours, read_neighbours


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DistanceTest(FrozenValue):
    """Reports whether a distance is safely above zero, and nothing else.

    Law:        passes if d + Z > threshold, P[Z = z] proportional to exp(-epsilon |z|); the threshold is the least
                integer t with P[Z > t] = r^(t+1) / (1 + r) <= delta, r = e^-epsilon.
    Guarantee:  pure DP with epsilon for distances that differ by at most 1. At distance 0 it passes with probability
                at most delta.
    Proof:      Laplace mechanism with sensitivity 1, and the choice of the threshold.
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, *, epsilon: Number, delta: Number) -> None:
        self._set(epsilon=positive(epsilon, "epsilon"), delta=inside_unit(delta, "delta"))

    def __call__(self, distance: int) -> bool:
        return bool(Laplace(epsilon=self.epsilon)(_whole(distance)) > self.threshold)

    @property
    def threshold(self) -> int:
        return _threshold(self.epsilon, self.delta)

    def needed_distance(self, confidence: Number = 0.95) -> int:
        """From this distance on the test passes with at least this probability."""
        outside = 1 - inside_unit(confidence, "confidence")
        return self.threshold + 1 + _threshold(self.epsilon, outside)  # Z and -Z have the same law


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ProposeTestRelease(FrozenValue):
    """Answers with noise for the proposed sensitivity, or refuses if the data may not allow it.

    Use:        when you have a good guess of the local sensitivity and accept refusals; the noise is that of the guess.
    Law:        passes the test at distance d with half of epsilon: then the value plus Laplace noise of scale
                2 proposed / epsilon; otherwise None.
    Guarantee:  (epsilon, delta)-DP for all neighbours with |d(x) - d(x')| <= 1, and d(x) = d(x') = 0 or
                |f(x) - f(x')| <= proposed. The textbook calls half of this epsilon "epsilon", so that it says
                (2 epsilon, delta).
    Error:      that of the Laplace mechanism once it answers; `needed_distance` is the distance at which it does.
    Proof:      If |f(x) - f(x')| <= proposed: test and answer are epsilon/2-DP each, and losses add. Otherwise
                d(x) = d(x') = 0: the test has the same law on both, so a set S of outcomes has
                P[S | x] <= P[S and refused | x] + P[passed | x] <= P[S | x'] + delta.
                Noise for the value is drawn whether it is used or not. [DL09] [DR14, section 7.3]
    Figure:     `ProposeTestRelease(proposed=10, epsilon=1, delta=1e-6).error(0.95)` = 60
    Checked by: tests/mechanisms/local/test_propose_test_release.py
    """

    test: DistanceTest
    noise: Laplace

    def __init__(self, *, proposed: Number, epsilon: Number, delta: Number) -> None:
        half = positive(epsilon, "epsilon") / 2
        self._set(test=DistanceTest(epsilon=half, delta=delta))
        self._set(noise=Laplace(epsilon=half, sensitivity=positive(proposed, "proposed")))

    def __call__(self, value: Any, distance: int) -> Any:
        """The value with noise (int in, int out; float in, float out), or None."""
        answer = self.noise(value)
        return answer if self.test(distance) else None

    @property
    def loss(self) -> Approximate:
        return Approximate(2 * self.test.epsilon, self.test.delta)

    def error(self, confidence: Number = 0.95) -> int:
        """With this probability an answer to an integer question is within this, if there is one."""
        return self.noise.error(confidence)

    def needed_distance(self, confidence: Number = 0.95) -> int:
        return self.test.needed_distance(confidence)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ProposedMedian(FrozenValue):
    """The median with noise for a proposed gap, or None if the middle of the data may be thinner than that.

    Use:        when the spacing of the records around the median is roughly known; `Quantile` needs no proposal and is
                better unless the proposal is very good.
    Law:        records are cut to the bounds and rounded to a public grid; propose-test-release with the distance to
                the nearest database whose median could move by more than `proposed` in one step.
    Guarantee:  (epsilon, delta)-DP for all neighbouring sets of records, none and one included.
    Error:      `error` once it answers; `needed_distance` is the distance at which it does.
    Proof:      the distance is the least k with A_k > proposed (ordered.py), on the grid, in whole steps; then as
                ProposeTestRelease. Cutting the answer to the bounds is post-processing. [DL09]
    Figure:     `ProposedMedian(proposed=2, epsilon=1, delta=1e-6, bounds=(0, 1000), step=1).error(0.95)` = 13.0
    Checked by: tests/mechanisms/local/test_propose_test_release.py
    """

    released: ProposeTestRelease
    cells: BoundedGrid
    neighbours: Neighbours

    def __init__(
        self,
        *,
        proposed: Number,
        epsilon: Number,
        delta: Number,
        bounds: tuple[Number, Number],
        step: Number | None = None,
        neighbours: Neighbours = Neighbours.ADD_OR_REMOVE,
    ) -> None:
        cells = BoundedGrid(bounds, step)
        steps = math.floor(positive(proposed, "proposed") / cells.step)
        if not 1 <= steps < cells.last:
            raise Misconfigured(
                f"`proposed` is {proposed}; it must be at least a step of the grid and less than the bounds are apart. "
                "Propose how far apart neighbouring records lie in the middle of the data."
            )
        self._set(released=ProposeTestRelease(proposed=steps, epsilon=epsilon, delta=delta), cells=cells)
        self._set(neighbours=read_neighbours(neighbours))

    def __call__(self, values: Any) -> float | None:
        """The noisy median of a list or an array of numbers, or None."""
        records = self.cells.order(values, self.neighbours)
        answer = self.released(records.median, records.steps_to_exceed(int(self.released.noise.sensitivity)))
        return None if answer is None else self.cells.value(answer)

    @property
    def loss(self) -> Approximate:
        return self.released.loss

    def distance(self, values: Any) -> int:
        """How many steps lead from these records to some whose median is too sensitive. Secret for real data."""
        return self.cells.order(values, self.neighbours).steps_to_exceed(int(self.released.noise.sensitivity))

    def error(self, confidence: Number = 0.95) -> float:
        """With this probability an answer is within this of the median, if there is one."""
        return at_least((self.released.error(confidence) + 1) * self.cells.step)  # one more for the grid

    def needed_distance(self, confidence: Number = 0.95) -> int:
        return self.released.needed_distance(confidence)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class StableMode(FrozenValue):
    """The most frequent candidate without any noise, or None if a few records could change which it is.

    Use:        when one candidate is far ahead; `NoisyMax` and `PermuteAndFlip` need no delta and always answer.
    Law:        the first of the largest counts, if the test passes at the number of steps that keep it; otherwise None.
    Guarantee:  (epsilon, delta)-DP for counts over disjoint candidates, for neighbours under either relation.
    Error:      none once it answers; `needed_distance` is the lead, in steps, at which it does.
    Proof:      D(x) = the least number of steps to a database with another winner; d = D - 1. If neighbours have the
                same winner, D differs by at most 1 and the test is epsilon-DP. If not, D = 1 and d = 0 on both: the
                test has the same law on both and passes with probability at most delta, as in ProposeTestRelease.
                Adding or removing closes a lead by one a step, a change by two; a tie goes to the first. [ST13]
    Figure:     `StableMode(epsilon=1, delta=1e-6).needed_distance(0.95)` = 16
    Checked by: tests/mechanisms/local/test_propose_test_release.py
    """

    test: DistanceTest
    neighbours: Neighbours

    def __init__(self, *, epsilon: Number, delta: Number, neighbours: Neighbours = Neighbours.ADD_OR_REMOVE) -> None:
        self._set(test=DistanceTest(epsilon=epsilon, delta=delta), neighbours=read_neighbours(neighbours))

    def choose(self, candidates: Sequence[T] | Any, counts: object) -> T | Any | None:
        """The candidate with the largest count, or None; `counts` holds a whole number for each of at least two."""
        winner, distance = self._stability(counts, candidates)
        return candidate_at(candidates, winner) if self.test(distance) else None

    @property
    def loss(self) -> Approximate:
        return Approximate(self.test.epsilon, self.test.delta)

    def needed_distance(self, confidence: Number = 0.95) -> int:
        return self.test.needed_distance(confidence)

    def distance(self, counts: object) -> int:
        """How many steps leave the winner as it is, whatever they are. Secret for real data."""
        return self._stability(counts, range(len(counts)))[1]  # type: ignore[arg-type]

    def _stability(self, counts: object, candidates: Any) -> tuple[int, int]:
        given = read(counts, "counts")
        require_one_each(candidates, given.ticks.size, "counts")
        if not given.whole or given.ticks.size < 2:
            raise Misconfigured("`counts` must be at least two whole numbers, one for each candidate.")
        ticks = [int(tick) for tick in given.ticks.tolist()]
        winner = int(np.argmax(given.ticks))
        leads = (ticks[winner] - tick + (winner < i) for i, tick in enumerate(ticks) if i != winner)
        match self.neighbours:
            case Neighbours.ADD_OR_REMOVE:
                return winner, min(leads) - 1
            case Neighbours.CHANGE_ONE:
                return winner, (min(leads) + 1) // 2 - 1
            case _:
                assert_never(self.neighbours)


@lru_cache(maxsize=256)
def _threshold(epsilon: Fraction, delta: Fraction) -> int:
    """The least integer t >= 0 with P[Z > t] = r^(t+1) / (1 + r) <= delta, r = e^-epsilon."""

    return least_whole(lambda t: decide(lambda: ball(delta) - laplace_tail(1 / epsilon, t))) - 1


def _whole(distance: int) -> int:
    """Reads a distance, which is data: no message shows it."""
    try:
        return count(exact(distance, "distance"), "distance", least=0)
    except Misconfigured:
        raise Misconfigured("the distance is not a whole number of at least 0. Pass an int.") from None
