"""Two questions of one survey together: how many hold this answer to the one and that answer to the other."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.answers.tabular import Tabular
from lapwing.arrays import Floats, Integers
from lapwing.collect.local import Reports
from lapwing.collect.protocol import FrequencyProtocol, hostile_remark, key_column, place_of
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type
from lapwing.numbers import Number, count, inside_unit

_CHUNK = 1 << 16  # reports at a time
_MOST_CELLS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JointTable(Tabular):
    """The estimated share of each pair of values.

    Law:        a pair of reports supports (v, w) with indicators x and y. (x - q)(y - q') / ((p - q)(p' - q')) is in
                expectation 1 for respondents who hold both and 0 for all others, since the two reports are randomized
                independently; its mean over respondents is unbiased.
    Interval:   by Student's law, with one pair of reports of each kind added to the variance: it varies more than the
                sample shows while few reports of a kind came in.
    Checked by: tests/collect/test_joint.py
    """

    protocols: tuple[FrequencyProtocol, FrequencyProtocol]
    both: Integers = field(repr=False)
    """How many pairs of reports support each pair of values."""
    counts: tuple[Integers, Integers] = field(repr=False)
    n: int
    confidence: Fraction

    @property
    def shares(self) -> Floats:
        """The unbiased estimates: a row for each value of the first question."""
        added, often = self._contributions(0)
        return np.asarray((added[:, np.newaxis, np.newaxis] * often).sum(axis=0) / self.n)

    def moved_by(self, hostile: int) -> float:
        """The most that this many respondents who send what they like can move one of these shares."""
        added, _ = self._contributions(0)
        return count(hostile, "hostile", least=0) * float(added.max() - added.min()) / self.n

    def table(self, confidence: Number | None = None, *, simultaneous: bool = False) -> AnswerTable:
        from scipy.special import stdtrit  # slow import

        level = self._level(confidence)
        shares = self.shares.ravel()
        outside = float((1 - level) / (shares.size if simultaneous else 1))
        reach = float(stdtrit(max(1, self.n - 1), 1 - outside / 2)) * self._standard_errors.ravel()
        first, second = (protocol.values for protocol in self.protocols)
        columns = (
            key_column("first", [value for value in first for _ in second]),
            key_column("second", [value for _ in first for value in second]),
            AnswerColumn("share", Type.REAL, shares, np.clip(shares - reach, 0, 1), np.clip(shares + reach, 0, 1)),
        )
        spent = sum(protocol.epsilon for protocol in self.protocols)
        paid = f"{self.n:,} pairs of reports, epsilon = {float(spent):.6g} together"
        return AnswerTable(columns, level, paid, (hostile_remark(self.moved_by(1)),))

    def share(self, first: Hashable, second: Hashable) -> float:
        """The estimate for one pair of values."""
        row, column = (place_of(*pair) for pair in zip(self.protocols, (first, second), strict=True))
        return float(self.shares[row, column])

    @property
    def _standard_errors(self) -> Floats:
        added, often = self._contributions(1)
        weights = often / (self.n + 4)
        mean = (added[:, np.newaxis, np.newaxis] * weights).sum(axis=0)
        square = (added[:, np.newaxis, np.newaxis] ** 2 * weights).sum(axis=0)
        return np.asarray(np.sqrt(np.maximum(square - mean * mean, 0.0) / self.n))

    def _contributions(self, more: int) -> tuple[Floats, Floats]:
        """What a pair of reports adds to a share if both support it, the first, the second, none; and how many did."""
        q, s = (float(protocol.q) for protocol in self.protocols)
        scale = float(self.protocols[0].p - self.protocols[0].q) * float(self.protocols[1].p - self.protocols[1].q)
        added = np.array([(1 - q) * (1 - s), (1 - q) * -s, -q * (1 - s), q * s]) / scale
        rows, columns = self.counts[0][:, np.newaxis], self.counts[1][np.newaxis, :]
        often = np.stack([self.both, rows - self.both, columns - self.both, self.n - rows - columns + self.both])
        return added, (often + more).astype(np.float64)


def estimate_joint(
    first: tuple[FrequencyProtocol, Reports], second: tuple[FrequencyProtocol, Reports], *, confidence: Number = 0.95
) -> JointTable:
    """The joint table of two questions from (protocol, reports) of each, in the same order of respondents."""
    level = inside_unit(confidence, "confidence")
    (a, left), (b, right) = first, second
    rows, columns = a.check(left).rows, b.check(right).rows
    if len(rows) != len(columns):
        raise Misconfigured(
            f"There are {len(rows)} reports to the first question and {len(columns)} to the second. "
            "Pass those of the same respondents, in the same order."
        )
    shape = len(a.values), len(b.values)
    if shape[0] * shape[1] > _MOST_CELLS:
        raise Misconfigured(
            f"The joint table would have {shape[0] * shape[1]:,} cells; at most {_MOST_CELLS:,} are estimated."
        )
    both = np.zeros(shape, np.int64)
    for start in range(0, len(rows), _CHUNK):
        at = slice(start, start + _CHUNK)
        x = a.supported(rows[at], range(shape[0])).astype(np.float32)
        y = b.supported(columns[at], range(shape[1])).astype(np.float32)
        both += np.rint(x.T @ y).astype(np.int64)  # sums below 2^24 are exact in float32
    return JointTable((a, b), both, (a.count(rows), b.count(columns)), len(rows), level)
