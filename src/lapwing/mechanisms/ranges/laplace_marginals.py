"""Tables of counts over several attributes under pure DP; see marginals.py."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from lapwing.arrays import Floats
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import laplace_tail_bound
from lapwing.mechanisms.ranges.components import (
    MOST_TABLE,
    Counts,
    MarginalRelease,
    Set,
    Sizes,
    assemble,
    cells,
    centre,
    closure,
    coverings,
    freeze,
    gains,
    outside,
    read_counts,
    read_part,
    set_tables,
    subsets,
    sum_over,
)
from lapwing.numbers import Number, positive
from lapwing.privacy.loss import Pure
from lapwing.privacy.phrases import short_repr


@dataclass(frozen=True, slots=True, init=False)
class LaplaceMarginals:
    """All asked tables of counts over sets of attributes under pure DP.

    Use:        many tables over pairs or triples of attributes under pure DP; under zCDP `Marginals`; a single table,
                its counts.
    Law:        the counts over each of L sets of attributes get discrete Laplace noise of scale
                L cells_per_unit / epsilon; then least squares over all of them. The sets are the asked ones, or larger
                ones that hold them, down to the one of all attributes: whichever has the least mean variance.
    Guarantee:  pure DP with epsilon for one unit that adds at most `cells_per_unit` to the counts, in one cell or in
                several.
    Error:      that of a weighted sum of the noise, the same for every cell of a table: `error(set)`.
    Proof:      the cells of one table are disjoint, so the unit moves its counts by at most cells_per_unit in l1: the
                table is epsilon/L-DP, and L tables compose to epsilon. Cutting a count moves it no further. Which sets
                are measured depends on sizes and sets only. Least squares is post-processing: the parts of a table
                with equal independent noise are uncorrelated, and the part of B from the counts over S has a variance
                in proportion to n_S / n_B, so the parts are averaged with weights n_B / n_S.
    Figure:     `round(LaplaceMarginals(sizes=(2,) * 15, ways=3, epsilon=0.1).standard_error((0, 1, 2)))` = 645
    Checked by: tests/mechanisms/ranges/test_marginals.py
    """

    sizes: Sizes
    sets: tuple[Set, ...]
    epsilon: Fraction
    cells_per_unit: int

    __repr__ = short_repr

    def __init__(
        self,
        *,
        sizes: Iterable[int],
        sets: Iterable[Iterable[int]] | None = None,
        ways: int = 2,
        epsilon: Number,
        cells_per_unit: int = 1,
    ) -> None:
        set_tables(self, sizes, sets, ways, cells_per_unit)
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))

    @property
    def loss(self) -> Pure:
        """Epsilon, and the smaller rho of several tables at epsilon/L each."""
        return Pure(self.epsilon, self.epsilon**2 / (2 * len(self.measured)))

    @property
    def measured(self) -> tuple[Set, ...]:
        """The sets whose counts get noise."""
        return _best_sets(self.sizes, self.sets)

    @property
    def noise(self) -> Laplace:
        """The noise added to every cell of every measured table."""
        return Laplace(epsilon=self.epsilon / len(self.measured), sensitivity=self.cells_per_unit)

    def release(self, counts: Mapping[Set, Any]) -> MarginalRelease:
        """Noisy tables from the exact counts of the `measured` sets."""
        held = read_counts(counts, self.sizes, self.measured)
        noisy = {one: (exact + _draw_noise(self.noise, exact)).astype(np.float64) for one, exact in held.items()}
        return MarginalRelease(_average(self.sizes, self.sets, noisy), self)

    def check(self) -> None:
        """Raises Misconfigured if the noise is too large to be drawn."""
        self.noise.draw(0)

    def error(self, one: Iterable[int], confidence: Number = 0.95, *, simultaneous: int = 1) -> float:
        """With this probability a cell of this table is off by at most this; known in advance."""
        kinds = _weights(self.sizes, self.sets, read_part(one, self.sets))
        weights, times = (np.array(side) for side in zip(*kinds, strict=True))
        scale, beyond = float(self.noise.scale), outside(confidence, simultaneous)
        return laplace_tail_bound(weights.astype(np.float64), scale, beyond, times.astype(np.int64))

    def standard_error(self, one: Iterable[int]) -> float:
        """The standard deviation of a cell of this table."""
        kinds = _weights(self.sizes, self.sets, read_part(one, self.sets))
        return math.sqrt(math.fsum(times * weight**2 for weight, times in kinds) * self.noise.variance)


@lru_cache(maxsize=64)
def _best_sets(sizes: Sizes, sets: tuple[Set, ...]) -> tuple[Set, ...]:
    """Of all ways to hold the asked sets in larger ones, up to the table of all attributes, the best."""
    found = {held: _mean_variance(sizes, sets, held) for held in coverings(sizes, sets, MOST_TABLE)}
    return min(found, key=lambda held: (found[held], len(held)))


def _mean_variance(sizes: Sizes, sets: tuple[Set, ...], measured: tuple[Set, ...]) -> float:
    """The sum over the tables of the variance of a cell, in units that depend on neither price nor data."""
    masks = np.array([sum(1 << i for i in one) for one in measured], np.int64)
    sharp = 1 / np.array([cells(sizes, one) for one in measured], np.float64)
    total = 0.0
    for part, gain in gains(sizes, sets).items():
        mask = sum(1 << i for i in part)
        total += gain / (cells(sizes, part) * float(sharp[(masks & mask) == mask].sum()))
    return total * len(measured) ** 2


@lru_cache(maxsize=1024)
def _weights_of_part(sizes: Sizes, sets: tuple[Set, ...], part: Set) -> tuple[tuple[Set, float], ...]:
    """The measured sets that hold a part, and the weight of each in its estimate."""
    holding = [one for one in _best_sets(sizes, sets) if set(part) <= set(one)]
    total = math.fsum(1 / cells(sizes, one) for one in holding)
    return tuple((one, 1 / (cells(sizes, one) * total)) for one in holding)


def _draw_noise(noise: Laplace, counts: Counts) -> Counts:
    """Noise for every cell of a table. Counts are cut at 2^40 and noise at 2^62, so that their sum fits."""
    return noise.draw(counts.size).reshape(counts.shape)


def _average(sizes: Sizes, sets: tuple[Set, ...], noisy: Mapping[Set, Floats]) -> dict[Set, Floats]:
    """The tables from the noisy counts of the measured sets, by least squares."""
    if len(noisy) == 1:
        ((whole, table),) = noisy.items()
        return {one: freeze(sum_over(table, whole, one)) for one in sets}
    parts = {}
    for part in closure(sets):
        mixed = _weights_of_part(sizes, sets, part)
        parts[part] = centre(sum((weight * sum_over(noisy[one], one, part) for one, weight in mixed), np.zeros(())))
    return {one: freeze(assemble(parts, one, sizes)) for one in sets}


@lru_cache(maxsize=1024)
def _weights(sizes: Sizes, sets: tuple[Set, ...], asked: Set) -> tuple[tuple[float, int], ...]:
    """The weights of the noisy counts in a cell of a table, and how many counts have each.

    It depends on which attributes a count shares with the cell, among those that its table shares with the asked one.
    """
    kinds = []
    for one in _best_sets(sizes, sets):
        common = tuple(i for i in asked if i in one)
        rest = cells(sizes, tuple(i for i in one if i not in asked))
        weights = {part: dict(_weights_of_part(sizes, sets, part))[one] for part in subsets(common)}
        for alike in product((True, False), repeat=len(common)):
            same = dict(zip(common, alike, strict=True))
            weight = sum(
                weights[part] * math.prod((same[i] - 1 / sizes[i]) * sizes[i] for i in part) for part in subsets(common)
            )
            times = rest * math.prod(1 if same[i] else sizes[i] - 1 for i in common)
            kinds.append((weight / cells(sizes, asked), times))
    return tuple((weight, times) for weight, times in kinds if times)
