"""Mechanisms over the cells of many groups: integers in, noisy cells out, one method for all of them.

Each wraps one textbook mechanism, made before the rows are read. A column of cells has one entry a group: int64, or
Python integers where those do not fit. Noise is added to Python integers, so that how the *exact* cells are held can
never be seen in the answer.

`mechanisms_for` is the one place where the kind of loss decides the noise.
Guarantee:  the loss of whatever is made here is at most the price, for what one unit may change.
Proof:      each mechanism is made for the epsilon, or for the rho, and the delta of the price; its own file proves that
            it loses no more. A pure price with a smaller rho than epsilon^2/2 is a bug: no mechanism here keeps it.
Checked by: tests/mechanisms/test_fitting.py, tests/mechanisms/test_cells.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from lapwing.arrays import Array
from lapwing.errors import Bug
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.choice.exponential import TopK
from lapwing.mechanisms.keys.selection import TruncatedGeometric, best_selection
from lapwing.mechanisms.keys.threshold import CountThreshold, GaussianThreshold, LaplaceThreshold, WeightedGaussian
from lapwing.mechanisms.quantiles.auto_bounds import AutoBounds
from lapwing.mechanisms.quantiles.grid_quantiles import GridQuantiles
from lapwing.mechanisms.ranges.components import Set
from lapwing.mechanisms.ranges.noisy_marginals import LaplaceMarginals, Marginals
from lapwing.mechanisms.ranges.ranges import PrefixSums, Ranges
from lapwing.numbers import root_down, root_up
from lapwing.privacy.loss import ZCDP, Approximate, Loss, Pure

Noise = Laplace | Gaussian
KeySelection = CountThreshold | WeightedGaussian | TruncatedGeometric

_MOST_PEELED = 100  # beyond, one race chooses all: permute-and-flip draws again for each


@dataclass(frozen=True, slots=True)
class PureFamily:
    """For a price in epsilon: Laplace noise and pure choices."""

    loss: Pure | Approximate

    @property
    def strength(self) -> Fraction:
        """About the sensitivity over the scale of the noise."""
        return self.loss.epsilon

    def additive(self, *, sensitivity: int, groups: int) -> Laplace:
        """Noise for a unit that changes `groups` groups, each by at most `sensitivity` in either norm."""
        return Laplace(epsilon=self.loss.epsilon, sensitivity=groups * sensitivity)

    def top_k(self, k: int, *, sensitivity: int, monotone: bool) -> TopK:
        peeling = k <= _MOST_PEELED
        return TopK(k=k, epsilon=self.loss.epsilon, sensitivity=sensitivity, monotone=monotone, peeling=peeling)

    def quantiles(self, **terms: Any) -> GridQuantiles:
        return GridQuantiles(epsilon=self.loss.epsilon, **terms)

    def ranges(self, **terms: Any) -> Ranges:
        return Ranges(epsilon=self.loss.epsilon, **terms)

    def marginals(self, **terms: Any) -> LaplaceMarginals:
        return LaplaceMarginals(epsilon=self.loss.epsilon, **terms)

    def keys(self, keys_per_unit: int, *, counted: bool) -> KeySelection:
        """The rule that shows keys of the fewest units; `counted` if the number of units is released too."""
        terms: dict[str, Any] = {"epsilon": self.loss.epsilon, "delta": self.loss.delta, "keys_per_unit": keys_per_unit}
        if not counted:
            return best_selection(**terms).best
        return min((LaplaceThreshold(**terms), GaussianThreshold(**terms)), key=lambda choice: choice.half())


@dataclass(frozen=True, slots=True)
class ZCDPFamily:
    """For a price in rho: Gaussian noise and choices of bounded range."""

    loss: ZCDP

    @property
    def strength(self) -> Fraction:
        return Fraction(math.sqrt(2 * self.loss.rho))

    def additive(self, *, sensitivity: int, groups: int) -> Gaussian:
        return Gaussian(rho=self.loss.rho, sensitivity=root_up(groups) * sensitivity)

    def top_k(self, k: int, *, sensitivity: int, monotone: bool) -> TopK:
        epsilon = root_down(8 * k * self.loss.rho)
        return TopK(k=k, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone)

    def quantiles(self, **terms: Any) -> GridQuantiles:
        return GridQuantiles(rho=self.loss.rho, **terms)

    def ranges(self, **terms: Any) -> PrefixSums:
        return PrefixSums(rho=self.loss.rho, **terms)

    def marginals(self, **terms: Any) -> Marginals:
        return Marginals(rho=self.loss.rho, **terms)

    def keys(self, keys_per_unit: int, *, counted: bool) -> KeySelection:
        selection = GaussianThreshold if counted else WeightedGaussian
        return selection(rho=self.loss.rho, delta=self.loss.delta, keys_per_unit=keys_per_unit)


Family = PureFamily | ZCDPFamily
"""The mechanisms for one price."""

_FAMILIES: dict[type[Loss], Callable[[Any], Family]] = {Pure: PureFamily, Approximate: PureFamily, ZCDP: ZCDPFamily}


def mechanisms_for(price: Loss) -> Family:
    if type(price) not in _FAMILIES or (isinstance(price, Pure) and 2 * price.rho != price.epsilon**2):
        raise Bug(f"no mechanism is made for a price of {price!r}")
    return _FAMILIES[type(price)](price)


Cells = Array
CellColumns = tuple[Cells, ...]

_NARROW = 1 << 62
_COUNTED = Fraction(1, 10)  # the share of a search's epsilon that counts its units


class CellMechanism(Protocol):
    """Releases the cells of one measure."""

    def release(self, columns: CellColumns, groups: int) -> CellColumns:
        """Noisy columns from exact ones, in `groups` groups."""


@dataclass(frozen=True, slots=True)
class NoisyCells:
    """Adds independent noise to every cell."""

    noise: Noise

    def release(self, columns: CellColumns, groups: int) -> CellColumns:
        return tuple(narrowed(c.astype(object) + self.noise.draw(c.size).astype(object)) for c in columns)

    def check(self) -> None:
        """Draws nothing; raises Misconfigured if noise of this scale cannot be drawn."""
        self.noise.draw(0)


@dataclass(frozen=True, slots=True)
class UnitPowers:
    """Finds a power of two that few units reach, on one side or on both, and counts all units.

    Two columns a side: the powers that occur, and how many units have each; last the number of all units. Out comes the
    power of each side, and the noisy number of units. One unit more adds one to one count a side, which the scan is
    made for, and one to the number of units. Both parts together lose the sum of their epsilons.
    """

    scan: AutoBounds
    count: NoisyCells

    def release(self, columns: CellColumns, groups: int) -> CellColumns:
        *sides, units = columns
        pairs = [(p.tolist(), n.tolist()) for p, n in zip(sides[::2], sides[1::2], strict=True)]
        powers = (self.scan(*pairs[0]),) if len(pairs) == 1 else self.scan.signed(*pairs)
        return (*(np.array([power], np.int64) for power in powers), *self.count.release((units,), groups))

    def check(self) -> None:
        """Throws away what it draws; raises Misconfigured if its noise cannot be drawn."""
        self.scan.scan.start()
        self.scan.scan.crossing.draw_noise()
        self.count.check()


def unit_powers(price: Loss, powers: tuple[int, int], *, values_per_unit: int) -> UnitPowers:
    """The search between two powers at this price: nine tenths of its epsilon for the scan, the rest for the count."""
    if not isinstance(price, Pure):
        raise Bug("a search is paid in pure epsilon")
    (first, last), counted = powers, price.epsilon * _COUNTED
    scan = AutoBounds(epsilon=price.epsilon - counted, first=first, last=last, values_per_unit=values_per_unit)
    return UnitPowers(scan, NoisyCells(mechanisms_for(Pure(counted)).additive(sensitivity=1, groups=1)))


@dataclass(frozen=True, slots=True)
class BestGroups:
    """Gives each group its rank instead of its cell: k for the best, then k - 1, ..., 1, and 0 for all others.

    Ranks of the smallest are negative, so that sorting as the question says shows the chosen ones in their order.
    """

    choice: TopK
    largest: bool

    def release(self, columns: CellColumns, groups: int) -> CellColumns:
        (cells,) = columns
        sign = 1 if self.largest else -1
        chosen = self.choice.choose(range(cells.size), sign * cells.astype(object))
        ranks = np.zeros(cells.size, np.int64)
        ranks[chosen] = sign * np.arange(self.choice.k, 0, -1)
        return (ranks,)


@dataclass(frozen=True, slots=True)
class CellQuantiles:
    """Quantiles of the histogram of each group; its columns are group, cell and weight."""

    quantiles: GridQuantiles

    def release(self, columns: CellColumns, groups: int) -> CellColumns:
        places, cells, weights = columns
        order = np.argsort(places, kind="stable")
        ends = np.searchsorted(places[order], np.arange(groups + 1)).tolist()
        parts = (order[first:last] for first, last in pairwise(ends))
        table = self.quantiles.release((cells[part], weights[part]) for part in parts)
        sides = (table.values, table.lows, table.highs)
        return tuple(side[:, i] for i in range(len(self.quantiles.at)) for side in sides)


@dataclass(frozen=True, slots=True)
class NoisyRanges:
    """All ranges along one axis. One column in, the counts of its cells; one out, the sums of the first k of them."""

    mechanism: PrefixSums | Ranges

    @property
    def measured(self) -> tuple[Set, ...]:
        return ((0,),)

    def release(self, columns: CellColumns, groups: int) -> CellColumns:
        return (self.mechanism.release(columns[0]).sums,)


@dataclass(frozen=True, slots=True)
class NoisyMarginals:
    """Tables over sets of axes. A column is one table, flat: the measured ones in, those that are asked for out."""

    mechanism: Marginals | LaplaceMarginals

    @property
    def measured(self) -> tuple[Set, ...]:
        return self.mechanism.measured

    def release(self, columns: CellColumns, groups: int) -> CellColumns:
        sizes, pairs = self.mechanism.sizes, zip(self.measured, columns, strict=True)
        released = self.mechanism.release({axes: flat.reshape([sizes[i] for i in axes]) for axes, flat in pairs})
        return tuple(released.tables[axes].ravel() for axes in self.mechanism.sets)


@dataclass(frozen=True, slots=True)
class SelectedKeys:
    """Which keys are shown, and with it their noisy counts where the selection releases them."""

    selection: KeySelection

    def release(self, units: Cells) -> tuple[Cells, CellColumns | None]:
        """A truth value for each key, and the counts of those that are shown."""
        if not isinstance(self.selection, CountThreshold):
            return self.selection.keep(units), None
        shown = self.selection.release(units)
        return shown.keep, (narrowed(shown.counts.astype(object)),)


def narrowed(noisy: Cells) -> Cells:
    """int64 where every noisy number fits, Python integers otherwise: a function of released numbers only."""
    values = noisy.tolist()
    fits = not values or (min(values) > -_NARROW and max(values) < _NARROW)
    return noisy.astype(np.int64 if fits else object)
