"""A valid lower bound on epsilon from two samples, one per neighbour: the small black-box auditor.

The event is chosen on the first 30 % of each sample and counted on the other 70 %, so the Clopper-Pearson bounds
hold whatever the choice. A rejection proves a violation up to alpha; an acceptance proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from support.features import Floats, cell_of, counts_of, edges_of, features

TRAINING_SHARE = 0.3

Sample = NDArray[np.generic] | Sequence[Hashable]


@dataclass(frozen=True, slots=True)
class Audit:
    """With confidence 1 - alpha, no (e, delta)-DP mechanism with e < `epsilon_lower` made the two samples."""

    epsilon_lower: float
    event: str
    n: int
    alpha: float
    epsilon: float
    delta: float

    @property
    def rejected(self) -> bool:
        return self.epsilon_lower > self.epsilon


@dataclass(frozen=True, slots=True)
class Event:
    """A union of cells of one feature, fixed on training data."""

    feature: int
    edges: Floats
    cells: NDArray[np.bool_]
    merit: float

    def count(self, values: Floats) -> int:
        return int(self.cells[cell_of(values, self.edges)].sum())

    def describe(self, name: str) -> str:
        ends = np.concatenate([[-np.inf], self.edges, [np.inf]])
        cuts = np.flatnonzero(np.diff(self.cells[:-1].astype(np.int8), prepend=0, append=0))
        pieces = [f"({ends[a]:.6g}, {ends[b]:.6g}]" for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
        shown = pieces[:4] + ["..."] * (len(pieces) > 4) + ["NaN"] * bool(self.cells[-1])
        return f"{name} in {' or '.join(shown)}"


def audit(
    sample0: Sample, sample1: Sample, epsilon: float, delta: float = 0.0, *, alpha: float = 1e-3, tests: int = 1
) -> Audit:
    """The better of both directions, each at alpha / 2; `tests` is how many audits share this alpha.

    A sample is an array of numbers, an array with one row of numbers per run, or a sequence of hashable outcomes
    (an exception stands for its class). Runs must be independent.
    """
    training = int(len(sample0) * TRAINING_SHARE), int(len(sample1) * TRAINING_SHARE)
    names, columns0, columns1 = features(sample0, sample1, training)
    level = alpha / (4 * tests)
    found = []
    for sign, likely, rare, sizes in (
        ("P0 over P1", columns0, columns1, training),
        ("P1 over P0", columns1, columns0, training[::-1]),
    ):
        event = _fixed_event(likely, rare, sizes, epsilon, delta)
        bound = _bound(event, likely[event.feature][sizes[0] :], rare[event.feature][sizes[1] :], delta, level)
        found.append((bound, f"{sign}: {event.describe(names[event.feature])}"))
    bound, event_text = max(found)
    return Audit(bound, event_text, min(len(sample0), len(sample1)), alpha, epsilon, delta)


def audit_profile(
    sample0: Sample, sample1: Sample, profile: Iterable[tuple[float, float]], *, alpha: float = 1e-3
) -> tuple[Audit, ...]:
    """One audit per claimed (epsilon, delta), which together err with probability at most alpha."""
    points = list(profile)
    return tuple(audit(sample0, sample1, e, d, alpha=alpha, tests=len(points)) for e, d in points)


def is_rejected(sample0: Sample, sample1: Sample, epsilon: float, delta: float = 0.0, *, alpha: float = 1e-3) -> bool:
    """Whether the samples refute (epsilon, delta)-DP."""
    return audit(sample0, sample1, epsilon, delta, alpha=alpha).rejected


def assert_private(sample0: Sample, sample1: Sample, epsilon: float, delta: float = 0.0) -> None:
    """The samples do not refute (epsilon, delta)-DP."""
    found = audit(sample0, sample1, epsilon, delta)
    assert not found.rejected, f"not ({epsilon}, {delta})-private: {found}"


def assert_caught(sample0: Sample, sample1: Sample, epsilon: float, delta: float = 0.0) -> None:
    """The negative control: the samples refute (epsilon, delta)-DP."""
    found = audit(sample0, sample1, epsilon, delta)
    assert found.rejected, f"the auditor missed it: {found}"


def lower(hits: int, n: int, level: float) -> float:
    """Clopper-Pearson: above the true probability with chance at most `level`."""
    return 0.0 if hits == 0 else float(beta.ppf(level, hits, n - hits + 1))


def upper(hits: int, n: int, level: float) -> float:
    """Clopper-Pearson: below the true probability with chance at most `level`."""
    return 1.0 if hits == n else float(beta.ppf(1 - level, hits + 1, n - hits))


def _fixed_event(
    likely: list[Floats], rare: list[Floats], training: tuple[int, int], epsilon: float, delta: float
) -> Event:
    """The most promising event over all features, by the training runs alone."""
    pairs = enumerate(zip(likely, rare, strict=True))
    events = (_best_event(i, a[: training[0]], b[: training[1]], epsilon, delta) for i, (a, b) in pairs)
    return max(events, key=lambda event: event.merit)


def _bound(event: Event, likely: Floats, rare: Floats, delta: float, level: float) -> float:
    """Below ln((P_likely[event] - delta) / P_rare[event]), except with probability 2 * level."""
    low = lower(event.count(likely), len(likely), level) - delta
    high = upper(event.count(rare), len(rare), level)
    return math.log(low / high) if low > 0 else -math.inf


def _best_event(feature: int, likely: Floats, rare: Floats, epsilon: float, delta: float) -> Event:
    """Of the cells by likelihood ratio, the prefix that most clearly breaks P_likely <= e^epsilon P_rare + delta."""
    edges = edges_of(np.concatenate([likely, rare]))
    counts0, counts1 = counts_of(likely, edges), counts_of(rare, edges)
    m0, m1 = max(len(likely), 1), max(len(rare), 1)
    order = np.argsort(-(counts0 + 0.5) / (counts1 + 0.5), kind="stable")
    p0, p1 = np.cumsum(counts0[order]) / m0, np.cumsum(counts1[order]) / m1
    factor = math.exp(epsilon)
    spread = np.sqrt(p0 * (1 - p0) / m0 + factor**2 * np.maximum(p1 * (1 - p1), 1 / m1) / m1)
    merit = (p0 - delta - factor * p1) / spread
    last = int(np.argmax(merit))
    cells = np.zeros(len(edges) + 2, dtype=np.bool_)
    cells[order[: last + 1]] = True
    return Event(feature, edges, cells, float(merit[last]))
