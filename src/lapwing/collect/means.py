"""Means of numbers between declared bounds, from one small report of each respondent.

[DJW18] Duchi, Jordan, Wainwright: Minimax optimal procedures for locally private estimation.
[WXY19] Wang, Xiao, Yang, et al.: Collecting and analyzing multidimensional data with local differential privacy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lapwing.arrays import Flags, Floats, Integers
from lapwing.collect.local import LocalProtocol, ReportRows, Reports, as_bytes, as_floats, as_numbers
from lapwing.collect.probabilities import WORD, ceil_share, flip, read_epsilon, require_bits
from lapwing.mechanisms.mechanism import read_interval
from lapwing.noise.bits import BitSource, sample_uniform
from lapwing.numbers import Number, ball, count, enclose, inside_unit
from lapwing.privacy.loss import set_fields
from lapwing.privacy.phrases import percent

_CELLS = (1 << 16) - 2  # of the piecewise mechanism: with the two answers of one bit they fill two bytes
_FINE = 53  # bits to which a number is placed between two cells


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """The estimated mean of what respondents hold, clipped to the bounds. Unbiased, so it may lie outside of them."""

    mean: float
    low: float
    high: float
    standard_error: float
    n: int
    confidence: float
    contribution: float
    """The most by which two reports differ in what they add to the sum."""

    def moved_by(self, hostile: int) -> float:
        """The most that this many respondents who send what they like can move the mean."""
        return count(hostile, "hostile", least=0) * self.contribution / self.n

    def __str__(self) -> str:
        level = percent(Fraction(str(self.confidence)))
        return (
            f"{self.mean:.4g} ({level}: {self.low:.4g} to {self.high:.4g}), {self.n:,} reports; "
            f"one hostile respondent moves it by at most {self.moved_by(1):.2g}"
        )


@dataclass(frozen=True, init=False)
class MeanProtocol(LocalProtocol):
    """Collects a number between two bounds. Numbers outside are moved to the nearer bound."""

    epsilon: Fraction
    bounds: tuple[Fraction, Fraction]
    width: int = field(default=WORD, repr=False)

    def __init__(self, bounds: Sequence[Number], *, epsilon: Number, width: int = WORD) -> None:
        set_fields(self, epsilon=read_epsilon(epsilon), bounds=read_interval(bounds), width=width)

    @property
    @abstractmethod
    def reach(self) -> float:
        """The largest size of what a report adds, for numbers in [-1, 1]."""

    @abstractmethod
    def randomize(self, numbers: Floats, bits: BitSource) -> ReportRows:
        """Reports of respondents who hold these numbers in [-1, 1]."""

    @abstractmethod
    def contributions(self, rows: ReportRows) -> Floats:
        """The contribution of each report to the sum: in expectation the number itself."""

    @abstractmethod
    def worst_variance(self) -> float:
        """The variance of one report's contribution, for the number in [-1, 1] at which it is largest."""

    @property
    def facts(self) -> dict[str, Any]:
        own = {"bounds": list(map(str, self.bounds)), "width": self.width}
        return {"protocol": self.kind, "epsilon": str(self.epsilon), **own}

    def randomize_all(self, values: Any, bits: BitSource) -> ReportRows:
        middle, half = self._scale
        return self.randomize(np.clip((as_floats(values) - middle) / half, -1.0, 1.0), bits)

    def estimate(self, reports: Reports | Iterable[bytes], *, confidence: Number = 0.95) -> MeanEstimate:
        """The mean of the numbers that respondents hold, with an interval."""
        level = float(inside_unit(confidence, "confidence"))
        rows = self.check(reports).rows
        added = self.contributions(rows)
        *ends, error = self._ends(added, 1 - level)
        middle, half = self._scale
        least, most = map(float, self.bounds)
        low, high = (min(max(middle + half * end, least), most) for end in ends)
        mean = middle + half * float(added.mean())
        return MeanEstimate(mean, low, high, error * half, len(rows), level, 2 * self.reach * half)

    @property
    def _scale(self) -> tuple[float, float]:
        """The middle of the bounds and half of their distance."""
        low, high = self.bounds
        return float((low + high) / 2), float((high - low) / 2)

    def _ends(self, added: Floats, outside: float) -> tuple[float, float, float]:
        return student_ends(added, self.reach, outside)


def student_ends(added: Floats, reach: float, outside: float) -> tuple[float, float, float]:
    """Both ends for the mean of what reports add, none farther than `reach` from 0, and its standard error: Student's.

    With the two farthest reports added to the variance: where they are rare, few reports show too little of it.
    """
    from scipy.special import stdtrit  # slow import

    n = len(added)
    if n < 2:
        return -reach, reach, reach
    error = float(added.std(ddof=1)) / np.sqrt(n)
    wider = float(np.append(added, [-reach, reach]).std(ddof=1)) / np.sqrt(n)
    margin = float(stdtrit(n - 1, 1 - outside / 2)) * wider
    mean = float(added.mean())
    return mean - margin, mean + margin, error


@dataclass(frozen=True, init=False)
class OneBitMean(MeanProtocol):
    """Each respondent sends one bit.

    Law:        the number is rounded to i / m on a grid of 2^31 steps each way; the bit is 1 with probability
                1/2 + i s / 2^64, s the largest whole number with 1/2 + m s / 2^64 <= e^epsilon / (1 + e^epsilon).
    Guarantee:  pure DP with epsilon for any change of the respondent's number, before anyone sees it.
    Error:      a report adds +-C, C = 2^63 / (m s), about (e^epsilon + 1) / (e^epsilon - 1); variance at most C^2.
    Proof:      P[1] lies between 1 - t and t = e^epsilon / (1 + e^epsilon), and so does P[0], so no ratio exceeds
                t / (1 - t) = e^epsilon. E[+-C] = C 2 i s / 2^64 = i / m. [DJW18]
    Interval:   Clopper and Pearson's: the number of 1s varies no more than the binomial of its mean. [H56, Thm 4]
    Checked by: tests/collect/test_means.py
    """

    kind: ClassVar[str] = "one bit"
    size: ClassVar[int] = 1

    @property
    def steps(self) -> int:
        """Steps of the grid from 0 to 1: m."""
        return 1 << (self.width // 2 - 1)

    @cached_property
    def slope(self) -> int:
        """Words by which the threshold rises from one step to the next: s."""
        most = (1 << self.width) - flip(self.epsilon, width=self.width)
        return (most - (1 << self.width - 1)) // self.steps

    @property
    def reach(self) -> float:
        return float(Fraction(1 << self.width - 1, self.steps * self.slope))

    def randomize(self, numbers: Floats, bits: BitSource) -> ReportRows:
        places = np.rint(numbers * self.steps).astype(np.int64)
        ones: Flags = bits.words(numbers.size, self.width) < self.threshold(places)
        return ones.astype(np.uint8).reshape(-1, 1)

    def threshold(self, places: Integers) -> Any:
        """Of 2^width words, those that give a 1 at each place of the grid."""
        return ((1 << self.width - 1) + (places * self.slope).astype(object)).astype(np.uint64)

    def contributions(self, rows: ReportRows) -> Floats:
        return self.reach * (2.0 * rows[:, 0].astype(np.float64) - 1)

    def valid(self, reports: Reports) -> Flags:
        return reports.rows[:, 0] <= 1

    def worst_variance(self) -> float:
        return self.reach**2

    def _ends(self, added: Floats, outside: float) -> tuple[float, float, float]:
        from scipy.special import betaincinv  # slow import

        n, y = len(added), int(np.count_nonzero(added > 0))
        low = float(betaincinv(y, n - y + 1, outside / 2)) if y else 0.0
        high = float(betaincinv(y + 1, n - y, 1 - outside / 2)) if y < n else 1.0
        error = 2 * self.reach * np.sqrt(y / n * (1 - y / n) / n)
        return (2 * low - 1) * self.reach, (2 * high - 1) * self.reach, float(error)


@dataclass(frozen=True, init=False)
class HybridMean(MeanProtocol):
    """Each respondent sends one bit, or a number near their own, by a coin that does not look at it.

    Law:        with probability e^(-epsilon / 2) as `OneBitMean`. Else one of M cells: a window of W cells starts where
                the number lies on [-1, 1], rounded at random to the next cell without bias; the report is a uniform
                cell of the window with probability p and a uniform cell outside otherwise.
    Guarantee:  pure DP with epsilon for any change of the respondent's number, before anyone sees it.
    Error:      unbiased; the worst variance is about that of [WXY19] (4.29 at epsilon = 1, 1.04 at 2).
    Proof:      a cell has probability p / W inside the window and (1 - p) / (M - W) outside, a ratio of at most
                e^epsilon since 1 - p is rounded up from (M - W) / (W e^epsilon + M - W), and at least 1; mixing over
                windows and by the coin, whose law is the same for all numbers, keeps both bounds. The mean of the
                reported cell is a + b s for a window that starts at s, so (cell - a) / b is unbiased for s. [WXY19]
    Checked by: tests/collect/test_means.py
    """

    kind: ClassVar[str] = "hybrid"
    size: ClassVar[int] = 2

    @cached_property
    def bit(self) -> OneBitMean:
        return OneBitMean(self.bounds, epsilon=self.epsilon, width=self.width)

    @cached_property
    def window(self) -> int:
        """Cells of the window: W, about M / (1 + e^(epsilon / 2))."""
        low, high = enclose(lambda: ball(_CELLS) / (1 + (ball(self.epsilon) / 2).exp()))
        return max(1, round((low + high) / 2))

    @cached_property
    def outside(self) -> int:
        """Of 2^width words, those that report a cell outside the window."""
        rest = _CELLS - self.window
        outside = ceil_share(self.epsilon, rest, per=rest, times=self.window, width=self.width)
        require_bits(outside * _CELLS <= rest << self.width, self.width)
        return outside

    @cached_property
    def one_bit(self) -> int:
        """Of 2^width words, those that send one bit."""
        _, high = enclose(lambda: (ball(-self.epsilon) / 2).exp() * (1 << self.width))
        return min((1 << self.width) - 1, int(high))

    @cached_property
    def reach(self) -> float:
        return float(max(self.bit.reach, np.abs(self._starts(np.array([0, _CELLS - 1]))).max()))

    def randomize(self, numbers: Floats, bits: BitSource) -> ReportRows:
        """Every draw is made for everyone."""
        n, rest = numbers.size, _CELLS - self.window
        answers = self.bit.randomize(numbers, bits)[:, 0].astype(np.int64)
        exact_start = (numbers + 1) / 2 * rest
        start = np.floor(exact_start)
        up = bits.words(n, _FINE).astype(np.float64) < (exact_start - start) * 2.0**_FINE
        start = (start + up).astype(np.int64)
        inside = start + sample_uniform(self.window, n, bits=bits)
        drawn = sample_uniform(rest, n, bits=bits)
        beyond = drawn + np.where(drawn >= start, self.window, 0)
        cells = np.where(bits.words(n, self.width) < self.outside, beyond, inside)
        chosen = np.where(bits.words(n, self.width) < self.one_bit, answers, cells + 2)
        return as_bytes(chosen, self.size)

    def contributions(self, rows: ReportRows) -> Floats:
        numbers = as_numbers(rows)
        return np.where(numbers < 2, self.bit.reach * (2.0 * numbers - 1), self._starts(numbers - 2))

    def valid(self, reports: Reports) -> Flags:
        return as_numbers(reports.rows) < _CELLS + 2

    def worst_variance(self) -> float:
        """At the ends of [-1, 1] or in the middle, whichever is larger."""
        cells = np.arange(_CELLS)
        p, share = 1 - self.outside / 2.0**self.width, self.one_bit / 2.0**self.width
        variances = []
        for t in (0.0, 1.0):
            start = round((t + 1) / 2 * (_CELLS - self.window))
            inside = (cells >= start) & (cells < start + self.window)
            law = np.where(inside, p / self.window, (1 - p) / (_CELLS - self.window))
            square = float((law * self._starts(cells) ** 2).sum())
            variances.append(share * self.bit.reach**2 + (1 - share) * square - t * t)
        return max(variances)

    @cached_property
    def _line(self) -> tuple[float, float]:
        """a and b: the mean of the reported cell is a + b s."""
        window, rest = self.window, _CELLS - self.window
        p = 1 - Fraction(self.outside, 1 << self.width)
        beyond = Fraction(_CELLS * (_CELLS - 1) - window * (window - 1), 2 * rest)
        return float(p * Fraction(window - 1, 2) + (1 - p) * beyond), float(p - (1 - p) * Fraction(window, rest))

    def _starts(self, cells: Integers) -> Floats:
        """Unbiased for the number in [-1, 1] whose window a cell was drawn from."""
        at_zero, slope = self._line
        return 2 * (cells - at_zero) / slope / (_CELLS - self.window) - 1


def choose_mean(bounds: Sequence[Number], *, epsilon: Number) -> MeanProtocol:
    """The protocol with the least variance in the worst case: one bit up to about epsilon = 0.61, hybrid above."""
    protocols: list[MeanProtocol] = [OneBitMean(bounds, epsilon=epsilon), HybridMean(bounds, epsilon=epsilon)]
    return min(protocols, key=lambda protocol: protocol.worst_variance())
