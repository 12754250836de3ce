"""Protocols for shares: values in, randomized reports of constant size out, unbiased shares back.

A report supports some of the values. P[it supports v] is p if the respondent holds v and q if not, so y supporting
reports of n give (y / n - q) / (p - q), which is unbiased for the share of v. [WBLJ17] Wang, Blocki, Li, Jha: Locally
differentially private protocols for frequency estimation. Each protocol proves p, q and its guarantee beside its code.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from lapwing.arrays import Flags, Integers
from lapwing.collect.estimate import Frequencies, Of
from lapwing.collect.local import LocalProtocol, ReportRows, Reports, as_list
from lapwing.collect.probabilities import WORD, read_epsilon
from lapwing.errors import Misconfigured
from lapwing.noise.bits import BitSource
from lapwing.numbers import Number, inside_unit

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
        object.__setattr__(self, "epsilon", read_epsilon(epsilon))
        object.__setattr__(self, "values", read_values(values))
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "why", "")

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
        values = [
            value if isinstance(value, str | int) else [type(value).__name__, repr(value)] for value in self.values
        ]
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
        """How many reports support each value."""
        k, step = len(self.values), max(1, _CHUNK // len(self.values))
        counts = np.zeros(k, np.int64)
        for start in range(0, len(rows), step):
            counts += np.count_nonzero(self.supported(rows[start : start + step], range(k)), axis=0)
        return counts

    def places(self, values: Any) -> Integers:
        """Where each value stands among the declared ones."""
        k = len(self.values)
        try:
            if isinstance(values, np.ndarray) and values.dtype.kind in "iub" and self.values == tuple(range(k)):
                if values.size and (values.min() < 0 or values.max() >= k):
                    raise KeyError
                return values.astype(np.int64, copy=False)
            place = {value: i for i, value in enumerate(self.values)}
            return np.array([place[value] for value in as_list(values)], np.int64)
        except (KeyError, TypeError):
            raise Misconfigured(
                "a value is not among the declared ones. Declare it in `values`, or give respondents one that stands "
                "for the rest."
            ) from None


def read_values(values: object) -> tuple[Hashable, ...]:
    """The declared values; raises Misconfigured if they are no domain."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise Misconfigured("`values` must list what a respondent may answer. Pass for example ['no', 'yes'].")
    listed = tuple(values.tolist() if isinstance(values, np.ndarray) else values)
    try:
        distinct = len(set(listed)) == len(listed) and all(value == value for value in listed)
    except TypeError:
        raise Misconfigured("`values` holds something that cannot be compared. Pass strings or numbers.") from None
    if not 2 <= len(listed) <= MOST_VALUES or not distinct:
        raise Misconfigured(
            f"`values` must hold two to {MOST_VALUES:,} values, all different. Pass for example ['no', 'yes']."
        )
    return listed
