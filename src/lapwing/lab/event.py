"""Choosing an event by the training runs alone: the outputs that most clearly break the claim."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from lapwing.arrays import Flags, Floats
from lapwing.lab.outputs import cell_of, counts_of, edges_of

_CLEAR = 3.0  # standard errors beyond which an event is taken for a violation
_CAUTION = 2.5
_LEAST = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """A union of cells of one feature."""

    feature: int
    edges: Floats
    cells: Flags
    merit: float

    def holds(self, columns: list[Floats]) -> Flags:
        return np.asarray(self.cells[cell_of(columns[self.feature], self.edges)])

    def describe(self, name: str, categories: tuple[str, ...] = ()) -> str:
        if categories and len(categories) <= len(self.edges):
            codes = [int(edge) for edge, held in zip(self.edges, self.cells[:-2], strict=True) if held]
            listed = [categories[code] for code in codes if code < len(categories)]
            words = listed[:4] + ["..."] * (len(listed) > 4) + ["anything else"] * bool(self.cells[-2])
            return f"{name} is {' or '.join(words + ['missing'] * bool(self.cells[-1]))}"
        ends = np.concatenate([[-np.inf], self.edges, [np.inf]])
        cuts = np.flatnonzero(np.diff(self.cells[:-1].astype(np.int8), prepend=0, append=0))
        pieces = [f"({ends[a]:.6g}, {ends[b]:.6g}]" for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
        shown = pieces[:4] + ["..."] * (len(pieces) > 4) + ["NaN or missing"] * bool(self.cells[-1])
        return f"{name} in {' or '.join(shown)}"


def choose_event(
    likely: list[Floats], rare: list[Floats], training: tuple[int, int], point: tuple[float, float]
) -> Event:
    """The most promising event over all features: one that clearly breaks the claim, else the one that shows most."""
    pairs = enumerate(zip(likely, rare, strict=True))
    clear, high = zip(
        *(_best_events(i, a[: training[0]], b[: training[1]], *point) for i, (a, b) in pairs), strict=True
    )
    clearest = max(clear, key=attrgetter("merit"))
    return clearest if clearest.merit > _CLEAR else max(high, key=attrgetter("merit"))


def _best_events(feature: int, likely: Floats, rare: Floats, epsilon: float, delta: float) -> tuple[Event, Event]:
    """Of the cells by likelihood ratio, two prefixes.

    The first most clearly breaks P_likely <= e^epsilon P_rare + delta, in standard errors; it finds violations. The
    second promises the highest bound on epsilon, foreseen a few standard errors off; it is for claims that hold.
    """
    edges = edges_of(np.concatenate([likely, rare]))
    often, seldom = counts_of(likely, edges), counts_of(rare, edges)
    m0, m1 = max(len(likely), 1), max(len(rare), 1)
    order = np.argsort(-(often + 0.5) / (seldom + 0.5), kind="stable")
    p0, p1 = np.cumsum(often[order]) / m0, np.cumsum(seldom[order]) / m1
    off0, off1 = np.sqrt(p0 * (1 - p0) / m0), np.sqrt(np.maximum(p1 * (1 - p1), 1 / m1) / m1)
    factor = math.exp(epsilon)
    clear = (p0 - delta - factor * p1) / np.sqrt(off0**2 + factor**2 * off1**2)
    low = np.maximum(p0 - _CAUTION * np.maximum(off0, 1 / m0) - delta, _LEAST)
    high = np.log(low / np.minimum(p1 + _CAUTION * off1, 1)) - epsilon

    def prefix(merit: Floats) -> Event:
        last = int(np.argmax(merit))
        cells = np.zeros(len(edges) + 2, dtype=np.bool_)
        cells[order[: last + 1]] = True
        return Event(feature, edges, cells, float(merit[last]))

    return prefix(clear), prefix(high)
