"""Histograms of a number: declared bins, and a protocol for shares over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from lapwing.arrays import Flags
from lapwing.collect.choose import choose
from lapwing.collect.estimate import Frequencies, Of
from lapwing.collect.local import LocalProtocol, ReportRows, Reports, as_floats
from lapwing.collect.protocol import FrequencyProtocol
from lapwing.errors import Misconfigured
from lapwing.noise.bits import BitSource
from lapwing.numbers import Number, exact


@dataclass(frozen=True)
class Histogram(LocalProtocol):
    """Collects in which bin a number lies: edge <= number < next edge; the last bin holds its upper edge too.

    Numbers outside the edges count in the first or last bin, so that every respondent sends one report. The guarantee
    and the error are those of the protocol over the bins: which bin a number is in is all that is randomized.
    Checked by: tests/collect/test_histogram.py
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
        raise Misconfigured(
            "`edges` must list at least three numbers, the ends of two bins. Pass for example [0, 18, 65]."
        )
    exact_edges = tuple(exact(edge, "edges") for edge in edges)
    if any(a >= b for a, b in pairwise(exact_edges)):
        raise Misconfigured("`edges` must be strictly increasing. Sort them and remove duplicates.")
    labels = [f"{float(low):.15g} to {float(high):.15g}" for low, high in pairwise(exact_edges)]
    return Histogram(exact_edges, choose(labels, epsilon=epsilon, most_bytes=most_bytes))
