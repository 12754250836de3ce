"""The protocol with the least error for this many values, this epsilon and this many bytes; histograms by it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.answers.tabular import Tabular
from lapwing.arrays import Flags
from lapwing.collect.encodings import DirectEncoding, SubsetSelection, UnaryEncoding
from lapwing.collect.hashing import LocalHashing
from lapwing.collect.local import LocalProtocol, ReportRows, Reports, as_floats
from lapwing.collect.protocol import Frequencies, FrequencyProtocol, Of
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type
from lapwing.noise.bits import BitSource
from lapwing.numbers import Number, count, exact
from lapwing.privacy.loss import set_fields

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
    set_fields(best, why=" ".join(why))
    return best


def _bytes(protocol: FrequencyProtocol) -> str:
    return f"{protocol.size:,} byte{'' if protocol.size == 1 else 's'}"


@dataclass(frozen=True)
class Histogram(LocalProtocol):
    """Collects in which bin a number lies: edge <= number < next edge; the last bin holds its upper edge too.

    Numbers outside the edges count in the first or last bin, so that every respondent sends one report. The guarantee
    and the error are those of the protocol over the bins: which bin a number is in is all that is randomized.
    Checked by: tests/collect/test_choose.py
    """

    kind: ClassVar[str] = "histogram"

    edges: tuple[Fraction, ...]
    protocol: FrequencyProtocol

    @property
    def epsilon(self) -> Fraction:  # type: ignore[override]
        return self.protocol.epsilon

    @property
    def size(self) -> int:
        return self.protocol.size

    @property
    def facts(self) -> dict[str, Any]:
        return {"protocol": self.kind, "edges": list(map(str, self.edges)), "bins": self.protocol.facts}

    def randomize_all(self, values: Any, bits: BitSource) -> ReportRows:
        edges = np.array([float(edge) for edge in self.edges])
        places = np.searchsorted(edges, as_floats(values), side="right") - 1
        return self.protocol.randomize(np.clip(places, 0, len(edges) - 2).astype(np.int64), bits)

    def valid(self, reports: Reports) -> Flags:
        return self.protocol.valid(reports)

    def estimate(
        self, reports: Reports | Iterable[bytes], *, confidence: Number = 0.95, of: Of = "respondents"
    ) -> Frequencies:
        """The share of respondents in each bin, with intervals."""
        rows = self.check(reports).rows
        return self.protocol.estimate(Reports(self.protocol.name, rows), confidence=confidence, of=of)


def histogram(edges: Sequence[Number], *, epsilon: Number, most_bytes: int | None = None) -> Histogram:
    """A histogram with these edges, by the best protocol for its bins."""
    if not hasattr(edges, "__len__") or len(edges) < 3:
        raise Misconfigured("`edges` must list at least three numbers, the ends of bins. Pass for example [0, 18, 65].")
    exact_edges = tuple(exact(edge, "edges") for edge in edges)
    if any(a >= b for a, b in pairwise(exact_edges)):
        raise Misconfigured("`edges` must be strictly increasing. Sort them and remove duplicates.")
    labels = [f"{float(low):.15g} to {float(high):.15g}" for low, high in pairwise(exact_edges)]
    return Histogram(exact_edges, choose(labels, epsilon=epsilon, most_bytes=most_bytes))
