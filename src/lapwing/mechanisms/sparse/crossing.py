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

`margin` finds the least a for which, with a confidence, all answers of a run are right: up to m values of at most
threshold - a are answered "below", and up to `answers` values of at least threshold + a, anywhere between, "above".
Worst case: moving a value away from the threshold, or leaving one out, makes it no harder, so all lie at distance a.
    One bar:        E_t[P[N < t + a + shift]^m P[N >= t - a + shift]^answers], whatever their order.
    Refreshed bar:  a product of E_t[P[N < t + a]^b P[N >= t - a]], one for each "above" and the b belows before it.
                    Each is log-convex in b (Cauchy-Schwarz), so the product is least if the belows are spread evenly.
Arithmetic: the chance of failure is a sum of positive terms, in float64 off by far less than the share 1e-9 that is
added. Wide noise is cut into cells, each of which counts with its worst end: the margin can only come out larger, by
less than a cell, a hundredth of the bar's noise scale at confidences up to 1 - 1e-18.

Runs are mechanisms with a state. A sparse vector run holds the noisy threshold and the number of "above" answers left,
a counter its noisy sums. A copy could give again answers that were paid for once, so a run cannot be copied, pickled or
continued in a child process.
Guarantee:  a run answers as often as was paid for in all its threads together; then every call raises Halted. Of a
            sparse vector run with a fresh bar for each above, no bar serves two.
Proof:      the state changes in `_next` only, under a lock, before the answer is returned. A signal handler that asks
            in the middle of an answer is refused; an exception in the middle of one ends the run.
Checked by: tests/mechanisms/sparse/test_crossing.py, tests/mechanisms/sparse/test_margin.py,
            tests/mechanisms/sparse/test_sparse_run.py
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from numbers import Integral
from threading import RLock
from typing import Generic, NoReturn, TypeVar

import numpy as np
from flint import arb

from lapwing.arrays import Floats
from lapwing.errors import Halted, Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace, laplace_mass, laplace_tail
from lapwing.mechanisms.mechanism import PureMechanism, read_secret
from lapwing.mechanisms.scores import at_least, least_whole, nearest
from lapwing.mechanisms.values import Grid
from lapwing.noise import sample_geometric, sample_laplace
from lapwing.noise.bits import Forks
from lapwing.numbers import Enclosure, Number, ball, count, enclose, exact, flag, inside_unit, ordinary, positive
from lapwing.privacy.loss import Loss, Pure

AboveAnswers = tuple[bool, ...]
"""One truth value a question: whether it was answered "above"."""

_PROVEN_EXTENT = 90  # bar scales that `law` sums over: e^-90 is left to the upper bound
_MOST_TERMS = 500_000
_NOT_FINITE = "`value` is not a finite number. Pass an int, float, Fraction or Decimal."
_EXTENT = 40  # bar scales that are summed over, beyond those that the confidence asks for
_CELLS = 1 << 14
_SLACK = 1 + 1e-9
_MOST = 10**15  # questions
_LEAST = 1e-200  # failures rarer than this are not computed


@dataclass(frozen=True, slots=True)
class Ticks:
    """How values become whole numbers: as they are, or rounded to multiples of `step`, halves up.

    `sensitivity` is how far a value moves at most, in ticks: rounding to a grid adds one (values.py).
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
            return self.round(read_secret(value, _NOT_FINITE))
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
        if self.two_sided:
            return laplace_mass(scale, t)
        return (-ball(Fraction(t) / scale)).exp() * -(-ball(1 / scale)).expm1()

    def _tail(self, z: int, scale: Fraction) -> arb:
        """P[N >= z]."""
        return laplace_tail(scale, z) if self.two_sided else (-ball(max(z, 0) / scale)).exp()


def _outcomes(questions: int, answers: int) -> Iterator[AboveAnswers]:
    """All lists of answers to this many questions; one ends early with its last "above"."""
    for above in range(min(questions, answers) + 1):
        for places in combinations(range(questions), above):
            length = questions if above < answers else places[-1] + 1
            yield tuple(i in places for i in range(length))


def margin(crossing: Crossing, confidence: Number, queries: int) -> int | float:
    """The least distance at which all answers are right with this probability, for this many values below."""
    exact_confidence, below = inside_unit(confidence, "confidence"), count(queries, "queries", least=0)
    most = nearest(1 - exact_confidence)
    if most < _LEAST:
        raise Misconfigured(f"`confidence` is closer to 1 than {_LEAST}; no margin is computed there. Pass less.")
    if below + crossing.answers > _MOST:
        raise Misconfigured(f"`queries` and `answers` are more than {_MOST} together; no margin is computed there.")
    for name, scale in (("bar scale", crossing.bar_scale), ("query scale", crossing.query_scale)):
        ordinary(scale, name)
    worst = _Worst(crossing, most)
    return crossing.ticks.length(least_whole(lambda distance: worst.failure(distance, below) * _SLACK <= most))


class _Worst:
    """Upper bounds of the chance that some answer is wrong when all values lie at one distance."""

    def __init__(self, crossing: Crossing, most: float) -> None:
        extent = math.ceil(crossing.bar_scale * math.ceil(_EXTENT - math.log(most)))
        first = -extent if crossing.two_sided else 0
        width = -(-(extent + 1 - first) // _CELLS)
        self._crossing = crossing
        self._left = np.arange(first, extent + 1, width, dtype=np.float64)
        self._right = self._left + (width - 1)
        edges = np.append(self._left, self._right[-1] + 1)
        below = np.exp(_log_below(edges, crossing.bar_scale, crossing.two_sided))
        above = np.exp(_log_above(edges, crossing.bar_scale, crossing.two_sided))
        self._mass = np.where(edges[:-1] < 0, np.diff(below), -np.diff(above))
        self._beyond = float(below[0] + above[-1])

    def failure(self, distance: int, below: int) -> float:
        """For this many values at threshold - distance and `answers` values at threshold + distance."""
        c = self._crossing.answers
        if not self._crossing.refreshed:
            return self._of_one_bar(distance, below, c)
        few, longer = divmod(below, c)
        first, last = self._of_one_bar(distance, few, 1), self._of_one_bar(distance, few + 1, 1)
        if last >= 1:
            return 1.0
        return -math.expm1((c - longer) * math.log1p(-first) + longer * math.log1p(-last))

    def _of_one_bar(self, distance: int, below: int, above: int) -> float:
        """One minus the expectation above. Over t, the chance of a below rises and that of an above falls."""
        scale, shift, two_sided = self._crossing.query_scale, self._crossing.shift, self._crossing.two_sided
        logs = above * _log_above(self._right - distance + shift, scale, two_sided)
        if below:
            logs = logs + below * _log_below(self._left + distance + shift, scale, two_sided)
        return float((self._mass * -np.expm1(logs)).sum()) + self._beyond


def _log_below(z: Floats, scale: Fraction, two_sided: bool) -> Floats:
    """ln P[N < z] for whole z."""
    rate = nearest(1 / scale)
    if not two_sided:
        with np.errstate(divide="ignore"):  # nothing lies below 0
            return np.log(-np.expm1(-rate * np.maximum(z, 0.0)))
    both = math.log1p(math.exp(-rate))
    near = np.log1p(-np.exp(-rate * np.maximum(z, 0.0) - both))
    return np.where(z < 0, -rate * (1 - z) - both, near)


def _log_above(z: Floats, scale: Fraction, two_sided: bool) -> Floats:
    """ln P[N >= z] for whole z."""
    if two_sided:
        return _log_below(1 - z, scale, two_sided)
    return -nearest(1 / scale) * np.maximum(z, 0.0)


T = TypeVar("T")


class PaidRun(ABC, Generic[T]):
    """A state that is used by one process, one call at a time, as often as was paid for."""

    __slots__ = ("_born", "_lock", "_loss", "_sound")

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self._lock = RLock()  # a signal handler that asks is refused, not deadlocked
        self._sound = True
        self._born = Forks.count

    @abstractmethod
    def _next(self, number: int) -> T | None:
        """Changes the state and answers; None if the run has halted."""

    @property
    @abstractmethod
    def _halt(self) -> str:
        """The answers of a halted run, for its message."""

    def _answer(self, number: int) -> T:
        if self._born != Forks.count:  # before the lock, which a thread of the parent may have held
            raise self._over("This run belongs to the process that started it; here it would give its answers twice.")
        with self._lock:
            if not self._sound:
                raise self._over("This run was interrupted in the middle of an answer, or is giving one; it is over.")
            self._sound = False
            answer = self._next(number)
            self._sound = True
        if answer is None:
            raise self._over(f"This run has halted{self._halt}, as was paid for.")
        return answer

    def _over(self, reason: str) -> Halted:
        return Halted(f"{reason} Start another with start(); it costs {self._loss} again.")

    def __reduce__(self) -> NoReturn:
        raise Misconfigured(
            "A run cannot be copied or pickled: a copy would give again answers that were paid for once. "
            "Start another with start(), and pay for it."
        )


class Run(PaidRun[bool]):
    """Says for one value after another whether it is above the threshold, until all paid answers are given."""

    __slots__ = ("_bar", "_crossing", "_left")

    def __init__(self, crossing: Crossing, loss: Pure) -> None:
        super().__init__(loss)
        self._crossing = crossing
        self._left = crossing.answers
        self._bar = crossing.draw_bar()

    @property
    def left(self) -> int:
        """How many times it can still say "above"."""
        return self._left

    @property
    def halted(self) -> bool:
        """Whether it has said "above" as often as was paid for."""
        return self._left == 0

    def above(self, value: Number) -> bool:
        """Whether the value, with noise, reaches the threshold, with noise."""
        return self._answer(self._crossing.ticks.read(value))

    def _next(self, number: int) -> bool | None:
        if not self._left:
            return None
        if number + self._crossing.draw_noise() < self._bar:
            return False
        self._left -= 1
        if self._crossing.refreshed:
            self._bar = self._crossing.draw_bar()
        return True

    @property
    def _halt(self) -> str:
        answers = self._crossing.answers
        return f': it has said "above" {"once" if answers == 1 else f"{answers} times"}'


class NumericRun(Run):
    """Gives a noisy value where the value is above the threshold, and None where it is below."""

    __slots__ = ("_noise",)

    def __init__(self, crossing: Crossing, noise: Laplace, loss: Pure) -> None:
        super().__init__(crossing, loss)
        self._noise = noise

    def answer(self, value: Number) -> int | float | None:
        """The value with fresh noise if it is above the threshold, None if it is below."""
        ticks = self._crossing.ticks
        number = ticks.read(value)
        return ticks.number(number + int(self._noise.draw(1)[0])) if self._answer(number) else None


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SparseVector(PureMechanism, ABC):
    """Base of sparse vector mechanisms: the parameters of a comparison, and its runs."""

    threshold: Fraction
    epsilon: Fraction
    answers: int
    sensitivity: Fraction
    reals: bool
    crossing: Crossing = field(repr=False, compare=False)
    """The comparison in whole numbers, with its noise."""

    def start(self) -> Run:
        """A run: ask it `above(value)` for one value after another. Every start costs `loss`."""
        return Run(self.crossing, self.loss)

    def law(self, values: Sequence[Number]) -> dict[AboveAnswers, Enclosure]:
        """Proven bounds of the probability of every list of answers to these values."""
        return self.crossing.law(values)

    @abstractmethod
    def _crossing(self) -> Crossing: ...

    def _read(self, threshold: Number, epsilon: Number, answers: int, sensitivity: Number, reals: bool) -> None:
        self._set(threshold=exact(threshold, "threshold"), epsilon=positive(epsilon, "epsilon"))
        self._set(answers=count(answers, "answers"), sensitivity=positive(sensitivity, "sensitivity"))
        self._set(reals=flag(reals, "reals"))
