"""Which protocol when: the least error for this many values, this epsilon and this many bytes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.answers.tabular import Tabular
from lapwing.collect.encodings import DirectEncoding, SubsetSelection, UnaryEncoding
from lapwing.collect.hashing import LocalHashing
from lapwing.collect.protocol import FrequencyProtocol
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type
from lapwing.numbers import Number, count

PROTOCOLS: tuple[type[FrequencyProtocol], ...] = (DirectEncoding, SubsetSelection, UnaryEncoding, LocalHashing)
_MOST_FLAGS = 1 << 12  # values up to which a report may have a bit for each
_ALIKE = 1.02  # a variance within 2 % of the least is as good


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProtocolComparison(Tabular):
    """The protocols side by side: standard error of a rare share with 10,000 reports, and bytes of a report."""

    protocols: tuple[FrequencyProtocol, ...]
    confidence: Fraction = field(default=Fraction(95, 100))

    def table(self, confidence: Number | None = None, *, simultaneous: bool = False) -> AnswerTable:  # noqa: ARG002
        names = np.array([protocol.kind for protocol in self.protocols], object)
        errors = np.array([np.sqrt(protocol.variance() / 10_000) for protocol in self.protocols])
        sizes = np.array([protocol.size for protocol in self.protocols])
        columns = (
            AnswerColumn("protocol", Type.TEXT, names),
            AnswerColumn("error_at_10000", Type.REAL, errors, bare=True),
            AnswerColumn("bytes", Type.INTEGER, sizes, bare=True),
        )
        return AnswerTable(columns, self.confidence, "standard error of the share of a rare value")

    def best(self, most_bytes: int | None = None) -> FrequencyProtocol:
        """The protocol with the least error and reports of at most `most_bytes`; ties go to the shortest."""
        fits = [protocol for protocol in self.protocols if most_bytes is None or protocol.size <= most_bytes]
        if not fits:
            least = min(protocol.size for protocol in self.protocols)
            raise Misconfigured(f"`most_bytes` is {most_bytes}; no report fits. The shortest has {least} bytes.")
        good = min(protocol.variance() for protocol in fits) * _ALIKE
        return min((protocol for protocol in fits if protocol.variance() <= good), key=lambda best: best.size)


def compare(values: Sequence[Hashable], *, epsilon: Number) -> ProtocolComparison:
    """All protocols for these values at this epsilon."""
    protocols = (kind(values, epsilon=epsilon) for kind in PROTOCOLS)
    return ProtocolComparison(tuple(p for p in protocols if p.size <= _MOST_FLAGS // 8 or isinstance(p, LocalHashing)))


def choose(values: Sequence[Hashable], *, epsilon: Number, most_bytes: int | None = None) -> FrequencyProtocol:
    """The best protocol for these values; its `why` says how it compares with the others."""
    limit = None if most_bytes is None else count(most_bytes, "most_bytes")
    comparison = compare(values, epsilon=epsilon)
    best = comparison.best(limit)
    within = "" if limit is None else f" that fits {limit} bytes"
    why = [f"{best.kind.capitalize()} has the least error{within}, in {_bytes(best)} a report."]
    for other in comparison.protocols:
        if other is not best:
            ratio = float(np.sqrt(other.variance() / best.variance()))
            errs = "as much" if abs(ratio - 1) < 0.01 else f"{ratio:.2f} times as much"
            why.append(f"{other.kind.capitalize()} errs {errs}, in {_bytes(other)}.")
    object.__setattr__(best, "why", " ".join(why))
    return best


def _bytes(protocol: FrequencyProtocol) -> str:
    return f"{protocol.size:,} byte{'' if protocol.size == 1 else 's'}"
