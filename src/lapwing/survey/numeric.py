"""Questions for a number in a range: its mean, and its distribution over a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lapwing.arrays import Floats, Integers
from lapwing.collect.encodings import DirectEncoding
from lapwing.collect.local import ReportRows, Reports, as_numbers
from lapwing.collect.probabilities import WORD, SymbolCoin, spread
from lapwing.errors import Misconfigured
from lapwing.survey.program import Program, rounded
from lapwing.survey.survey_question import NO_ANSWER, Estimated, MeanOfAnswers, SurveyQuestion, odds_of, shares_of

MOST_STEPS = 1_000_000
MOST_POINTS = 100
_TRIED = range(2, 12)


def worst_variance(coin: SymbolCoin, points: int) -> float:
    """n Var of the mean of numbers in [-1, 1], for the number at which it is largest, if everyone answers.

    A report adds g / (p - q), g its point or 0: unbiased for the number, since the points add up to 0. E[g^2] is
    (p - q) E[t^2] + q S, t being the point the number was rounded to and S the sum of squares of all points, and
    E[t^2] = x^2 + r (h - r) for a number r above the next point below and points h apart.
    """
    p, q = float(coin.p), float(coin.q)
    grid = np.linspace(-1, 1, points)
    apart = 2 / (points - 1)
    fine = np.linspace(-1, 1, 40 * (points - 1) + 1)
    above = np.mod(fine + 1, apart)
    square = fine**2 + above * (apart - above)
    return float((((p - q) * square + q * float((grid**2).sum())) / (p - q) ** 2 - fine**2).max())


def best_points(epsilon: Fraction) -> int:
    """How many points give the mean with the least variance in the worst case: two for a small epsilon."""
    return min(_TRIED, key=lambda points: worst_variance(spread(epsilon, points + 1), points))


@dataclass(frozen=True)
class Numeric(SurveyQuestion):
    """A number from `low` to `high` in whole steps.

    Law:        the number is rounded at random to one of the two nearest of `points` equally spaced points, so that it
                is right on average; the point, or "no answer", is sent by direct encoding over points + 1 values.
    Guarantee:  pure DP with epsilon for any change of the number, also from or to no answer.
    Error:      points are chosen for the least variance of the mean in the worst case, unless more are declared. With
                two points and no "no answer" it is the one-bit mean.
    Proof:      given its point a report is that of `DirectEncoding`, with every probability between q and e^epsilon q;
                mixing over points keeps both bounds. Rounding up has probability ceil(2^64 r) / 2^64 for the exact
                share r of the way, so the mean is right to 2^-64 of the distance of two points.
    Mean:       of those who answered: the m at which the debiased sum of (point - m) over all answers is 0.
    Interval:   Fieller's: every m at which that sum is within Student's quantile of 0. Two reports, the lowest and
                the highest point, are added to its variance: few reports show too little of it.
    Checked by: tests/survey/test_programs.py, tests/survey/test_numeric.py
    """

    kind: ClassVar[str] = "number"
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(1)
    step: Fraction = Fraction(1)
    unit: str = ""
    declared_points: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise Misconfigured("`range` must be two numbers, the lower first. Write for example range = [0, 80].")
        if self.step <= 0 or (self.high - self.low) % self.step:
            raise Misconfigured("`step` must divide the range into whole steps. Write for example step = 1.")
        if self.steps > MOST_STEPS:
            raise Misconfigured(f"`step` makes more than {MOST_STEPS:,} steps. Write a larger one.")
        most = min(MOST_POINTS, self.steps + 1)
        if self.declared_points is not None and not 2 <= self.declared_points <= most:
            raise Misconfigured(f"`points` must lie between 2 and {most} here. Leave it out for the best mean.")

    @property
    def steps(self) -> int:
        return int((self.high - self.low) / self.step)

    @cached_property
    def points(self) -> int:
        return self.declared_points or min(best_points(self.epsilon), self.steps + 1)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The points of the grid in words."""
        values = [self.low + (self.high - self.low) * i / (self.points - 1) for i in range(self.points)]
        return tuple(f"{float(value):.12g}" for value in values)

    @cached_property
    def protocol(self) -> DirectEncoding:
        return DirectEncoding((*self.labels, NO_ANSWER), epsilon=self.epsilon)

    def program(self, width: int = WORD) -> Program:
        coin = spread(self.epsilon, self.points + 1, width=width)
        return rounded(coin, points=self.points, steps=self.steps)

    def estimate(self, rows: ReportRows, confidence: Fraction) -> Estimated:
        shares = self.protocol.estimate(Reports(self.protocol.name, rows), confidence=confidence)
        mean = self._mean(as_numbers(rows), confidence)
        note = f"Each number was rounded at random to one of the {self.points} points next to it."
        return Estimated(shares_of(shares), shares.moved_by(1), mean, note)

    def _mean(self, places: Integers, confidence: Fraction) -> MeanOfAnswers:
        from scipy.special import stdtrit  # slow import

        n, q, points = len(places), float(self.protocol.q), self.points
        grid = np.append(np.linspace(-1, 1, points), 0.0)  # "no answer" adds nothing
        answered = np.append(np.ones(points), 0.0)
        sums, counts = grid[places], answered[places]
        top, below = float(sums.mean()), float(counts.mean()) - q * points  # the points add up to 0
        wider = [np.append(part, [-end, end]) for part, end in ((sums, 1.0), (counts, 0.0))]
        wider[1][-2:] = 1.0
        spread_of = np.cov(np.stack(wider), ddof=1) / n
        quantile = float(stdtrit(max(1, n - 1), 1 - float(1 - confidence) / 2))
        low, high = fieller(top, below, spread_of, quantile)
        middle, half = float(self.low + self.high) / 2, float(self.high - self.low) / 2
        mean = top / below if below > 0 else 0.0
        return MeanOfAnswers(middle + half * mean, middle + half * low, middle + half * high, self.unit)

    @property
    def odds(self) -> dict[str, Any]:
        odds = odds_of(self.protocol)
        shown = self.labels if len(self.labels) <= 6 else (*self.labels[:2], "...", self.labels[-1])
        points = ", ".join(shown) + (f" {self.unit}" if self.unit else "")
        near = f"Your number is rounded at random to one of {self.points} points: {points}. "
        return odds | {"sentence": near + str(odds["sentence"])}

    @property
    def number(self) -> dict[str, Any] | None:
        ends = {"low": plain(self.low), "high": plain(self.high), "step": plain(self.step)}
        return {**ends, "steps": self.steps, "unit": self.unit}


def fieller(top: float, below: float, covariance: Floats, quantile: float) -> tuple[float, float]:
    """The ends of every ratio m in [-1, 1] with |top - m below| <= quantile times its standard error."""
    z = quantile**2
    a = below**2 - z * float(covariance[1, 1])
    b = top * below - z * float(covariance[0, 1])
    c = top**2 - z * float(covariance[0, 0])
    inside = b * b - a * c
    if a <= 0 or below <= 0 or inside < 0:  # whether anyone answered is not certain: no mean can be excluded
        return -1.0, 1.0
    root = math.sqrt(inside)
    low, high = (min(max(end, -1.0), 1.0) for end in ((b - root) / a, (b + root) / a))
    return low, high


def plain(number: Fraction) -> str:
    """A decimal number as text, exact if it has few digits."""
    return str(number.numerator) if number.denominator == 1 else f"{float(number):.12g}"
