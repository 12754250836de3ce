"""Sparse vector: AboveThreshold, Sparse and NumericSparse as they are taught; GeometricSparse, with less error.

[DR14] Dwork, Roth: The algorithmic foundations of differential privacy, section 3.6.
[Durfee23] Durfee: Unbounded DP quantile and maximum estimation: one-sided exponential noise for AboveThreshold.
[LSL17] Lyu, Su, Li: Understanding the sparse vector technique. It refutes four published variants (lab/zoo.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.mechanism import PureMechanism, read_monotone
from lapwing.mechanisms.scores import nearest
from lapwing.mechanisms.sparse.crossing import Crossing, NumericRun, SparseVector, Ticks, margin
from lapwing.numbers import Number, count, exact, inside_unit, ordinary, positive
from lapwing.privacy.neighbours import Neighbours, read_neighbours


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Sparse(SparseVector):
    """Reports which of many values are above a threshold, until `answers` of them were.

    Use:        for questions that come one after another, most of them below: belows are free, only aboves are paid.
                GeometricSparse needs less than half the margin. If all are known at once, PermuteAndFlip.
    Law:        "above" exactly if q + N >= threshold + R, N of discrete Laplace law with scale 4 answers sensitivity /
                epsilon, fresh for every question; R with half that scale, fresh at the start and after every "above".
                With reals=True all values are first rounded to a fine grid (values.py) and the noise lives there.
    Guarantee:  pure DP with epsilon for all answers together, whatever the number of belows, for all values that move
                by at most sensitivity each, even if questions depend on earlier answers.
    Error:      `error` gives the margin that makes all answers right, exactly. `textbook_error` is Theorem 3.26 of
                [DR14], 8 answers (ln k + ln(2 answers / beta)) sensitivity / epsilon for k questions.
    Proof:      until its "above", each bar serves one run with one above: by lemma (crossing) it costs d / bar scale +
                2 d / query scale <= epsilon / (2 answers) + epsilon / (2 answers), with d <= sensitivity. There are at
                most `answers` bars, and losses add. Reals: d = floor(sensitivity / step) + 1 steps, halves rounded
                up, is what the noise on the grid is made for. Whether to round is a parameter. [DR14, Thm 3.25]
    Figure:     `Sparse(threshold=100, epsilon=1, answers=3).error(queries=97)` = 87
    Checked by: tests/mechanisms/sparse/test_vector.py
    """

    def __init__(
        self, *, threshold: Number, epsilon: Number, answers: int, sensitivity: Number = 1, reals: bool = False
    ) -> None:
        self._read(threshold, epsilon, answers, sensitivity, reals)
        self._set(crossing=self._crossing())

    def error(self, confidence: Number = 0.95, *, queries: int) -> int | float:
        """The least a for which, with this probability, all answers are right if no value is within a of the threshold.

        That is, up to `queries` values of at most threshold - a and, anywhere between them, up to `answers` values of
        at least threshold + a.
        """
        return margin(self.crossing, confidence, queries)

    def textbook_error(self, confidence: Number = 0.95, *, queries: int) -> float:
        """Theorem 3.26 of Dwork and Roth for the same questions: 8 c (ln k + ln(2 c / beta)) sensitivity / epsilon."""
        beta = 1 - inside_unit(confidence, "confidence")
        k = count(queries, "queries", least=0) + self.answers
        factor = nearest(8 * self.answers * self.sensitivity / self.epsilon)
        return factor * (math.log(k) + math.log(2 * self.answers / beta))

    def _crossing(self) -> Crossing:
        ticks = Ticks.of(self.sensitivity, 2 * self.answers * self.sensitivity / self.epsilon, reals=self.reals)
        scale = 2 * self.answers * ticks.sensitivity / self.epsilon
        threshold = ticks.round(self.threshold)
        return Crossing(ticks, threshold, 0, scale, 2 * scale, self.answers, two_sided=True, refreshed=True)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class AboveThreshold(Sparse):
    """Finds the first of many values that is above a threshold.

    Use:        to wait for the first "above": a count that passes 100. GeometricSparse needs about half the margin.
    Law:        "above" exactly if q + N >= threshold + R, R of discrete Laplace law with scale 2 sensitivity / epsilon,
                drawn once, N with 4 sensitivity / epsilon, fresh for every question. It halts at the first "above".
    Guarantee:  pure DP with epsilon, whatever the number of questions, as for Sparse.
    Error:      `error` is the exact margin; `textbook_error` Theorem 3.24 of [DR14], that of Sparse with one answer.
    Proof:      it is Sparse with one answer. [DR14, Thm 3.23]
    Figure:     `AboveThreshold(threshold=100, epsilon=1).error(queries=99)` = 29
    Checked by: tests/mechanisms/sparse/test_vector.py
    """

    def __init__(self, *, threshold: Number, epsilon: Number, sensitivity: Number = 1, reals: bool = False) -> None:
        Sparse.__init__(self, threshold=threshold, epsilon=epsilon, answers=1, sensitivity=sensitivity, reals=reals)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class NumericSparse(PureMechanism):
    """Reports which of many values are above a threshold, and releases those values with noise.

    Use:        as Sparse, when you also need the values above the threshold. If you need them later, or only some,
                run Sparse (or GeometricSparse, with less error) and pay Laplace for each value.
    Law:        the test of Sparse at epsilon (1 - share); after each "above", q + Z, Z of discrete Laplace law with
                scale answers sensitivity / (share epsilon), fresh: never the noise of the comparison.
    Guarantee:  pure DP with epsilon for answers and values together, as for Sparse.
    Error:      `error` is the test's margin, `value_error` the exact error of all values at once; `textbook_error` is
                Theorem 3.28 of [DR14], 9 answers (ln k + ln(4 answers / beta)) sensitivity / epsilon, of both.
    Proof:      Sparse costs (1 - share) epsilon. Each of at most `answers` values is a Laplace mechanism at share
                epsilon / answers (laplace.py), chosen by earlier answers; losses add. The share 1/9 gives both parts of
                Theorem 3.28 the constant 9. The noise must be fresh: the compared q + N is at least threshold + R, so
                it would bound R, and with R all belows before it. [DR14, Thm 3.27] [LSL17]
    Figure:     `NumericSparse(threshold=100, epsilon=1, answers=1).value_error(0.95)` = 27
    Checked by: tests/mechanisms/sparse/test_vector.py
    """

    threshold: Fraction
    epsilon: Fraction
    answers: int
    sensitivity: Fraction
    reals: bool
    share: Fraction
    test: Sparse = field(repr=False, compare=False)
    """Decides whether a value is above."""
    noise: Laplace = field(repr=False, compare=False)
    """The noise of each released value, in ticks of the test: whole numbers, or grid steps for reals."""

    def __init__(
        self,
        *,
        threshold: Number,
        epsilon: Number,
        answers: int,
        sensitivity: Number = 1,
        reals: bool = False,
        share: Number = Fraction(1, 9),
    ) -> None:
        whole = Sparse(threshold=threshold, epsilon=epsilon, answers=answers, sensitivity=sensitivity, reals=reals)
        terms = {name: getattr(whole, name) for name in ("threshold", "epsilon", "answers", "sensitivity", "reals")}
        part = inside_unit(share, "share")
        test = Sparse(**terms | {"epsilon": (1 - part) * whole.epsilon})
        each = Laplace(epsilon=part * whole.epsilon / whole.answers, sensitivity=test.crossing.ticks.sensitivity)
        self._set(**terms, share=part, test=test, noise=each)

    def start(self) -> NumericRun:
        """A run: ask it `answer(value)` for one value after another. Every start costs `loss`."""
        return NumericRun(self.test.crossing, self.noise, self.loss)

    def error(self, confidence: Number = 0.95, *, queries: int) -> int | float:
        """The margin of the test: see Sparse.error."""
        return self.test.error(confidence, queries=queries)

    def value_error(self, confidence: Number = 0.95) -> int | float:
        """With this probability no released value is off by more than this."""
        ticks = self.test.crossing.ticks
        off = self.noise.error(confidence, simultaneous=self.answers)
        return ticks.length(off + (ticks.step is not None))  # rounding to the grid moves a real by at most half a step

    def textbook_error(self, confidence: Number = 0.95, *, queries: int) -> float:
        """Theorem 3.28 of Dwork and Roth: half of beta for the test, half for the values."""
        beta = (1 - inside_unit(confidence, "confidence")) / 2
        scale = nearest(self.answers * self.sensitivity / (self.share * self.epsilon))
        return max(self.test.textbook_error(1 - beta, queries=queries), scale * math.log(self.answers / beta))


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
        """The epsilons of the threshold and of the questions."""
        first = self.epsilon / (1 + self.ratio)
        return first, self.epsilon - first

    @property
    def scales(self) -> tuple[Fraction, Fraction]:
        """The noise scales of the threshold and of the questions."""
        return self._scales(self.sensitivity)

    def error(self, confidence: Number = 0.95, *, queries: int | None = None) -> int | float:
        """The margin of Sparse.error; `queries` is the mechanism's own unless given."""
        return margin(self.crossing, confidence, self.queries if queries is None else queries)

    def _crossing(self) -> Crossing:
        ticks = Ticks.of(self.sensitivity, min(self.scales), reals=self.reals)
        threshold, shift = ticks.round(self.threshold), round(self.shift / (ticks.step or 1))
        bar, query = self._scales(ticks.sensitivity)
        return Crossing(ticks, threshold, shift, bar, query, self.answers, two_sided=False, refreshed=False)

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
