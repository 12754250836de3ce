"""Protocols for shares: values in, randomized reports of constant size out, unbiased shares with intervals back.

A report supports some of the values. P[it supports v] is p if the respondent holds v and q if not, so y supporting
reports of n give (y / n - q) / (p - q), which is unbiased for the share of v. [WBLJ17] Wang, Blocki, Li, Jha: Locally
differentially private protocols for frequency estimation. Each protocol proves p, q and its guarantee beside its code.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np

from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.answers.tabular import Tabular
from lapwing.arrays import Flags, Floats, Integers
from lapwing.collect.intervals import Support, share_of_population, share_of_respondents
from lapwing.collect.local import LocalProtocol, ReportRows, Reports, as_list
from lapwing.collect.probabilities import WORD, read_epsilon
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type
from lapwing.mechanisms.choice.response import read_distinct
from lapwing.noise.bits import BitSource
from lapwing.numbers import Number, count, inside_unit
from lapwing.privacy.loss import set_fields

Of = Literal["respondents", "population"]
"""Whose share an interval is about: those who answered, or those they were drawn from at random."""


class Oracle(Protocol):
    """The parts of a protocol that an estimate needs."""

    @property
    def values(self) -> tuple[Hashable, ...]: ...

    @property
    def p(self) -> Fraction: ...

    @property
    def q(self) -> Fraction: ...

    @property
    def epsilon(self) -> Fraction: ...

    @property
    def kind(self) -> str: ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Frequencies(Tabular):
    """The estimated share of each value. Unbiased, so a share may lie outside [0, 1]; intervals do not."""

    protocol: Oracle
    counts: Integers = field(repr=False)
    """How many reports support each value."""
    n: int
    confidence: Fraction
    of: Of = "respondents"

    def __post_init__(self) -> None:
        if self.of not in ("respondents", "population"):
            raise Misconfigured(f'`of` is {self.of!r}; it must be "respondents" or "population".')

    @property
    def shares(self) -> Floats:
        """The unbiased estimates, in the order of the values."""
        return (self.counts / self.n - float(self.protocol.q)) / float(self.protocol.p - self.protocol.q)

    def share(self, value: Hashable) -> float:
        return float(self.shares[place_of(self.protocol, value)])

    def interval(
        self, value: Hashable, confidence: Number | None = None, *, simultaneous: bool = False
    ) -> tuple[float, float]:
        """The interval of one value, by itself or together with those of all others."""
        low, high = self._ends(self._level(confidence), simultaneous)
        index = place_of(self.protocol, value)
        return float(low[index]), float(high[index])

    def distribution(self) -> dict[Hashable, float]:
        """Shares that are a distribution, by norm-sub: subtract a constant, set what is below 0 to 0, sum to 1.

        The best estimate of single shares, above all where many are near 0. Sums over many rare values come out too
        small: use `normalized` for them. Intervals are about the unbiased estimates. [WLLSB20]
        [WLLSB20] Wang, Lopuhaa-Zwakenberg, Li, Skoric, Li: Locally differentially private frequency estimation with
        consistency.
        """
        return dict(zip(self.protocol.values, to_distribution(self.shares).tolist(), strict=True))

    def normalized(self) -> dict[Hashable, float]:
        """Shares that add up to 1, by adding the same to each. Sums of them stay unbiased; some may be below 0."""
        shares = self.shares
        return dict(zip(self.protocol.values, (shares + (1 - shares.sum()) / len(shares)).tolist(), strict=True))

    def moved_by(self, hostile: int) -> float:
        """The most that this many respondents who send what they like can move one of these shares.

        k / (n (p - q)): a report adds either 0 or 1 to the count of a value, and (y / n - q) / (p - q) follows it.
        """
        return count(hostile, "hostile", least=0) / (self.n * float(self.protocol.p - self.protocol.q))

    def table(self, confidence: Number | None = None, *, simultaneous: bool = False) -> AnswerTable:
        level = self._level(confidence)
        low, high = self._ends(level, simultaneous)
        shares = AnswerColumn("share", Type.REAL, self.shares, low, high)
        reports = "1 report" if self.n == 1 else f"{self.n:,} reports"
        paid = f"{reports} by {self.protocol.kind}, epsilon = {float(self.protocol.epsilon):.6g} each"
        remarks = (hostile_remark(self.moved_by(1)),)
        return AnswerTable((key_column("value", self.protocol.values), shares), level, paid, remarks, facts=self._facts)

    def _ends(self, level: Fraction, simultaneous: bool) -> tuple[Floats, Floats]:
        outside = float((1 - level) / (len(self.counts) if simultaneous else 1))
        ends = share_of_respondents if self.of == "respondents" else share_of_population
        return ends(self.counts, self.n, Support(float(self.protocol.p), float(self.protocol.q)), outside)

    def _facts(self) -> dict[str, Any]:
        epsilon = f"{float(self.protocol.epsilon):.6g}"
        facts = {"protocol": self.protocol.kind, "epsilon": epsilon, "reports": self.n, "of": self.of}
        return {**facts, "moved_by_one": self.moved_by(1)}


def place_of(protocol: Oracle, value: Hashable) -> int:
    if value not in protocol.values:
        raise Misconfigured(f"{value!r} is not among the values that were collected.")
    return protocol.values.index(value)


def hostile_remark(step: float) -> str:
    """How far one respondent, and 100, can move a share on purpose."""
    return f"One respondent who sends what they like can move a share by {step:.2g}; 100 by {min(1.0, 100 * step):.2g}."


def to_distribution(shares: Floats) -> Floats:
    """The nearest distribution in the Euclidean norm: max(0, share - t) with the t at which they add up to 1."""
    falling = np.sort(shares)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
    kept = int(np.flatnonzero(falling > excess)[-1])
    return np.asarray(np.maximum(shares - excess[kept], 0.0))


def key_column(name: str, values: Sequence[Hashable]) -> AnswerColumn:
    """Values as a column of keys; as text if their types differ."""
    if all(isinstance(value, bool) for value in values):
        return AnswerColumn(name, Type.BOOLEAN, np.array(values))
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return AnswerColumn(name, Type.INTEGER, np.array(values))
    return AnswerColumn(name, Type.TEXT, np.array([str(value) for value in values], object))


MOST_VALUES = 1 << 16
_CHUNK = 1 << 22  # bits of reports unpacked at a time


@dataclass(frozen=True, init=False)
class FrequencyProtocol(LocalProtocol):
    """Collects which of some values each respondent holds, and estimates the share of each."""

    epsilon: Fraction
    values: tuple[Hashable, ...]
    width: int = field(default=WORD, repr=False)
    why: str = field(default="", repr=False, compare=False)
    """Why it was chosen, if `choose` chose it."""

    def __init__(self, values: Sequence[Hashable], *, epsilon: Number, width: int = WORD) -> None:
        listed = read_distinct(values, "values", MOST_VALUES)
        set_fields(self, epsilon=read_epsilon(epsilon), values=listed, width=width, why="")

    @property
    @abstractmethod
    def p(self) -> Fraction:
        """P[a report supports the value that the respondent holds]."""

    @property
    @abstractmethod
    def q(self) -> Fraction:
        """P[a report supports a given other value]."""

    @abstractmethod
    def randomize(self, places: Integers, bits: BitSource) -> ReportRows:
        """Reports of respondents who hold the values in these places."""

    @abstractmethod
    def supported(self, rows: ReportRows, places: Sequence[int]) -> Flags:
        """Which reports support which of the values in these places: one row a report, one column a value."""

    @property
    def facts(self) -> dict[str, Any]:
        values = [v if isinstance(v, str | int) else [type(v).__name__, repr(v)] for v in self.values]
        return {"protocol": self.kind, "epsilon": str(self.epsilon), "values": values, "width": self.width}

    def variance(self, share: float = 0.0) -> float:
        """The variance of an estimated share times the number of reports."""
        p, q = float(self.p), float(self.q)
        return (q * (1 - q) + share * (p * (1 - p) - q * (1 - q))) / float(self.p - self.q) ** 2

    def randomize_all(self, values: Any, bits: BitSource) -> ReportRows:
        return self.randomize(self.places(values), bits)

    def estimate(
        self, reports: Reports | Iterable[bytes], *, confidence: Number = 0.95, of: Of = "respondents"
    ) -> Frequencies:
        """The share of each value, with intervals: among those who answered, or where they were drawn from."""
        level, rows = inside_unit(confidence, "confidence"), self.check(reports).rows
        return Frequencies(self, self.count(rows), len(rows), level, of)

    def count(self, rows: ReportRows) -> Integers:
        k, step = len(self.values), max(1, _CHUNK // len(self.values))
        counts = np.zeros(k, np.int64)
        for start in range(0, len(rows), step):
            counts += np.count_nonzero(self.supported(rows[start : start + step], range(k)), axis=0)
        return counts

    def places(self, values: Any) -> Integers:
        k = len(self.values)
        try:
            if isinstance(values, np.ndarray) and values.dtype.kind in "iub" and self.values == tuple(range(k)):
                if values.size and (values.min() < 0 or values.max() >= k):
                    raise KeyError
                return values.astype(np.int64, copy=False)
            index = {value: i for i, value in enumerate(self.values)}
            return np.array([index[value] for value in as_list(values)], np.int64)
        except (KeyError, TypeError):
            raise Misconfigured(
                "a value is not among the declared ones. Declare it in `values`, or give respondents one that stands "
                "for the rest."
            ) from None


_PAIRS_AT_ONCE = 1 << 16  # reports at a time
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
    if (size := shape[0] * shape[1]) > _MOST_CELLS:
        raise Misconfigured(f"The joint table would have {size:,} cells; at most {_MOST_CELLS:,} are estimated.")
    both = np.zeros(shape, np.int64)
    for start in range(0, len(rows), _PAIRS_AT_ONCE):
        at = slice(start, start + _PAIRS_AT_ONCE)
        x = a.supported(rows[at], range(shape[0])).astype(np.float32)
        y = b.supported(columns[at], range(shape[1])).astype(np.float32)
        both += np.rint(x.T @ y).astype(np.int64)  # sums below 2^24 are exact in float32
    return JointTable((a, b), both, (a.count(rows), b.count(columns)), len(rows), level)
