"""Sparse vector with geometric noise and a public shift: the same guarantee with less error.

[Durfee23] Durfee: Unbounded DP quantile and maximum estimation: one-sided exponential noise for AboveThreshold.
[LSL17] Lyu, Su, Li: Understanding the sparse vector technique: the split of epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from lapwing.mechanisms.mechanism import read_monotone
from lapwing.mechanisms.sparse.crossing import Crossing, Ticks, margin
from lapwing.mechanisms.sparse.sparse_run import SparseVector
from lapwing.numbers import Number, count, exact, ordinary, positive
from lapwing.privacy.neighbours import Neighbours, read_neighbours

_LOG_BETA = math.log(0.05)  # shift and ratio are best for a confidence of 95 %
_STEPS = 8  # towards the ratio, which barely moves after two


@dataclass(frozen=True, slots=True, init=False, repr=False)
class GeometricSparse(SparseVector):
    """Reports which of many values are above a threshold, with less noise than the textbook.

    Use:        for questions that come one after another, most of them below; the best sparse vector here. If all
                questions are known at once, choose with PermuteAndFlip. From some hundred answers on, under a budget
                with delta, many runs with one answer each are better than one run with many.
    Law:        "above" exactly if q + N >= threshold + shift + R, R and N geometric, 0, 1, 2, ..., with scales
                s1 = sensitivity / epsilon1 and s2 = k answers sensitivity / epsilon2; k = 1 if the values are monotone,
                else 2. R is drawn once. epsilon2 / epsilon1 is `ratio`.
    Guarantee:  pure DP with epsilon = epsilon1 + epsilon2 for all answers together, whatever the number of belows, for
                all values that move by at most sensitivity each (monotone: all the same way), even if questions depend
                on earlier answers. No smaller epsilon holds for whole values and whole sensitivity.
    Error:      `error` gives the exact margin. To first order it is
                (s1 ln(a / beta) + s2 ln(queries / beta)) / 2, beta = 1 - confidence; a = 1 for one answer, see Shift.
    Proof:      lemma (crossing): d / s1 + k answers d / s2 <= epsilon1 + epsilon2, d <= sensitivity; one-sided noise is
                enough since the bar is only ever raised. Shift and ratio depend on parameters alone: the shift is part
                of the threshold. Reals as for Sparse; rounding keeps the order, so monotone values stay so. [Durfee23]
    Shift:      with u = margin + shift and v = margin - shift, and noise that is wide against 1, a wrong "above" among
                m belows has probability at most m s2 / (s1 + s2) e^(-u / s2), a wrong "below" among c aboves
                c s1 / (c s1 + s2) e^(-v / s1), since c questions share a bar. For a sum of beta, u + v is least at
                u = s2 ln(m / beta), v = s1 ln(a / beta), a = c (s1 + s2) / (c s1 + s2). The default shift is
                (u - v) / 2 for m = `queries` and beta = 0.05.
    Ratio:      A / x + B / (1 - x) is least at (1 - x) / x = sqrt(B / A), so u + v, with a held fixed, is least at
                sqrt(k answers ln(queries / beta) / ln(a / beta)): the default. [LSL17] takes (k answers)^(2/3), which
                makes s1^2 + s2^2 least.
    Figure:     `GeometricSparse(threshold=100, epsilon=1, queries=99).error()` = 16
    Checked by: tests/mechanisms/sparse/test_geometric.py
    """

    queries: int
    """How many you expect. It sets the shift only; the guarantee holds for any number."""
    monotone: bool
    neighbours: Neighbours
    ratio: Fraction
    shift: Fraction

    def __init__(
        self,
        *,
        threshold: Number,
        epsilon: Number,
        answers: int = 1,
        queries: int,
        sensitivity: Number = 1,
        monotone: bool = False,
        neighbours: Neighbours = Neighbours.ADD_OR_REMOVE,
        reals: bool = False,
        ratio: Number | None = None,
        shift: Number | None = None,
    ) -> None:
        self._read(threshold, epsilon, answers, sensitivity, reals)
        self._set(queries=count(queries, "queries"), neighbours=read_neighbours(neighbours))
        self._set(monotone=read_monotone(monotone, neighbours))
        self._set(ratio=self._best_ratio() if ratio is None else positive(ratio, "ratio"))
        self._set(shift=self._best_shift() if shift is None else exact(shift, "shift"))
        ordinary(1 + abs(self.shift), "shift")
        self._set(crossing=self._crossing())

    @property
    def split(self) -> tuple[Fraction, Fraction]:
        """What the threshold and what the questions get of epsilon."""
        first = self.epsilon / (1 + self.ratio)
        return first, self.epsilon - first

    @property
    def scales(self) -> tuple[Fraction, Fraction]:
        """The noise scales of the threshold and of the questions."""
        return self._scales(self.sensitivity)

    def error(self, confidence: Number = 0.95, *, queries: int | None = None) -> int | float:
        """The least a for which, with this probability, all answers are right if no value is within a of the threshold.

        That is, up to `queries` values of at most threshold - a and, anywhere between them, up to `answers` values of
        at least threshold + a. `queries` is the mechanism's own unless given.
        """
        return margin(self.crossing, confidence, self.queries if queries is None else queries)

    def _crossing(self) -> Crossing:
        ticks = Ticks.of(self.sensitivity, min(self.scales), reals=self.reals)
        bar_scale, query_scale = self._scales(ticks.sensitivity)
        return Crossing(
            ticks=ticks,
            threshold=ticks.round(self.threshold),
            shift=round(self.shift / (ticks.step or 1)),
            bar_scale=bar_scale,
            query_scale=query_scale,
            answers=self.answers,
            two_sided=False,
            refreshed=False,
        )

    @property
    def _moves(self) -> int:
        return 1 if self.monotone else 2

    def _scales(self, sensitivity: Fraction) -> tuple[Fraction, Fraction]:
        first, second = self.split
        return sensitivity / first, self._moves * self.answers * sensitivity / second

    def _best_ratio(self) -> Fraction:
        """In 64ths. Rounding is harmless here and below: every ratio and every shift is private."""
        moved = int(ordinary(Fraction(self._moves * self.answers), "answers"))
        ratio = math.sqrt(moved)
        for _ in range(_STEPS):
            aboves = (ratio + moved) / (ratio + self._moves)
            ratio = math.sqrt(moved * (math.log(self.queries) - _LOG_BETA) / (math.log(aboves) - _LOG_BETA))
        return Fraction(round(64 * ratio), 64)

    def _best_shift(self) -> Fraction:
        """In whole numbers, or in 64ths of a noise scale."""
        s1, s2 = self.scales
        aboves = self.answers * (s1 + s2) / (self.answers * s1 + s2)
        u = s2 * Fraction(math.log(self.queries) - _LOG_BETA)
        v = s1 * Fraction(math.log(aboves) - _LOG_BETA)
        unit = min(s1, s2) / 64 if self.reals else Fraction(1)
        return round((u - v) / (2 * unit)) * unit
