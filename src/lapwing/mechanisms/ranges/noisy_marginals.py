"""Tables of counts over several attributes, all from one release and consistent with each other.

Attributes with declared domains, such as sex, region and age group; a record is one cell of their product, which is
never built. Asked for are the counts over some sets of attributes, for example over every pair. Asking table by table
pays for what the tables share again and again; both mechanisms measure what they share once (components.py).

"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from lapwing.arrays import Floats, frozen
from lapwing.errors import Bug
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import laplace_tail_bound
from lapwing.mechanisms.mechanism import share_outside
from lapwing.mechanisms.ranges.components import (
    MOST_COUNT,
    MOST_TABLE,
    MarginalRelease,
    Set,
    Sets,
    Sizes,
    TableMechanism,
    assemble,
    cells,
    centre,
    centred_norm,
    closure,
    contrasts,
    coverings,
    gains,
    maximal,
    read_counts,
    read_part,
    shape,
    subsets,
    sum_over,
)
from lapwing.noise import sample_gaussian
from lapwing.numbers import Number, positive
from lapwing.privacy.loss import ZCDP, Pure

_FINE = 30  # bits of the noise on a contrast: so fine that it is as good as normal
_PARTS = 1 << 40  # shares of the price are whole multiples of 1 / _PARTS
_SHORT = 1 << 22  # contrasts of counts up to MOST_COUNT fit into 64 bits if rows of T sum to no more


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Marginals(TableMechanism):
    """All asked tables of counts over sets of attributes under zCDP.

    Use:        many tables over pairs or triples of attributes under zCDP; under pure DP `LaplaceMarginals`; a single
                table, its counts.
    Law:        for every subset B of an asked set, y_B = k_B T_B m_B + Z_B. m_B are the counts over B, T_B is the
                product of n I - J over the attributes of B, whole numbers; k_B a power of two, for fineness; Z_B
                discrete Gaussian, independent, of variance v_B. Tables are put together from C_B y_B / (k_B n_B), n_B
                the cells of m_B.
    Guarantee:  rho-zCDP for one unit that adds at most `cells_per_unit` to the counts, in one cell or in several.
    Error:      that of a weighted sum of all Z_B, the same for every cell of a table: `error(set)`.
    Proof:      one record adds e to m_B, and |T_B e|^2 = prod over B of n (n - 1) =: t_B. A unit adds a sum of at most
                r = cells_per_unit such vectors, so |T_B m_B - T_B m'_B| <= r sqrt(t_B) by the triangle inequality,
                also after every count was cut to a range, which shortens what a unit adds to each cell. y_B alone is
                then (k_B r)^2 t_B / (2 v_B)-zCDP [CKS20, Thm 14], and v_B is the least whole number that makes this at
                most rho_B. The rho_B sum to at most rho. All that follows is post-processing.
                Least error: a part has variance s_B = v_B / (k_B n_B)^2 a coordinate, at rho_B = r^2 c_B / (2 s_B),
                c_B = prod (1 - 1/n); a cell of A has variance sum over B in A of s_B c_B (n_B / n_A)^2. The sum of all
                tables' variances is least, for a given sum of rho_B, with s_B proportional to 1 / sqrt(u_B), where u_B
                is the sum of (n_B / n_A)^2 over the asked A that hold B. [XHZK23] This choice decides the error only.
    Figure:     `round(Marginals(sizes=(10,) * 5, ways=2, rho=0.5).standard_error((0, 1)), 2)` = 3.27
    Checked by: tests/mechanisms/ranges/test_noisy_marginals.py

    [XHZK23] Xiao, He, Zhang, Kifer: An optimal and scalable matrix mechanism for noisy marginals under convex loss.
    """

    rho: Fraction

    def __init__(
        self, *, sizes: Iterable[int], sets: Sets | None = None, ways: int = 2, rho: Number, cells_per_unit: int = 1
    ) -> None:
        self._set_tables(sizes, sets, ways, cells_per_unit)
        self._set(rho=positive(rho, "rho"))

    @property
    def loss(self) -> ZCDP:
        return ZCDP(self.rho)

    @property
    def measured(self) -> tuple[Set, ...]:
        """The largest sets whose counts are read; all others are sums of them."""
        return maximal(self.sets)

    @property
    def noise(self) -> Mapping[Set, tuple[int, int]]:
        """For every part (k, v): its contrasts are multiplied by k, and their noise has the variance v."""
        return _noise(self)

    def release(self, counts: Mapping[Set, Any]) -> MarginalRelease:
        """Noisy tables from the exact counts of the `measured` sets."""
        held = read_counts(counts, self.sizes, self.measured)
        parts = {part: np.zeros(shape(self.sizes, part)) for part in closure(self.sets)}
        for part, (k, variance) in self.noise.items():
            axes = next(axes for axes in held if set(part) <= set(axes))
            counted = np.clip(sum_over(held[axes], axes, part), -MOST_COUNT, MOST_COUNT)
            long = cells(self.sizes, part) << len(part) > _SHORT  # sizes decide, not data
            exact = contrasts(counted.astype(object) if long else counted)
            drawn = sample_gaussian(Fraction(variance), exact.size).reshape(exact.shape)
            noisy = exact.astype(object) * k + drawn.astype(object)
            parts[part] = centre(np.asarray(noisy).astype(np.float64)) / (k * cells(self.sizes, part))
        return MarginalRelease(assemble(parts, self.sets, self.sizes), self)

    def check(self) -> None:
        """Raises Misconfigured if the noise is too large to be drawn."""
        for variance in {variance for _, variance in self.noise.values()}:
            sample_gaussian(Fraction(variance), 0)

    def error(self, one: Iterable[int], confidence: Number = 0.95, *, simultaneous: int = 1) -> float:
        """Every Z is within 1/2 of a normal number of its variance v, except with probability 1 / (16 v) (tails.py)."""
        from scipy.special import ndtri  # slow import

        asked, beyond = read_part(one, self.sets), share_outside(confidence, simultaneous)
        used = self._used(asked)
        distance = sum(cells(self.sizes, part) / (16 * v) for part, _, v in used)
        moved = sum(centred_norm(self.sizes, part) * 2.0 ** len(part) / k for part, k, _ in used)
        std = self.standard_error(asked)
        if distance > beyond / 2:  # E[e^(tZ)] <= e^(t^2 v / 2) [CKS20]
            return std * math.sqrt(2 * math.log(2 / beyond))
        return -std * float(ndtri((beyond - distance) / 2)) + moved / cells(self.sizes, asked) / 2

    def standard_error(self, one: Iterable[int]) -> float:
        """The standard deviation of a cell of this table."""
        asked = read_part(one, self.sets)
        size, used = cells(self.sizes, asked), self._used(asked)
        return math.sqrt(math.fsum(centred_norm(self.sizes, part) * v / (k * size) ** 2 for part, k, v in used))

    def _used(self, asked: Set) -> list[tuple[Set, int, int]]:
        noise = self.noise
        return [(part, *noise[part]) for part in subsets(asked) if part in noise]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class LaplaceMarginals(TableMechanism):
    """All asked tables of counts over sets of attributes under pure DP.

    Use:        many tables over pairs or triples of attributes under pure DP; under zCDP `Marginals`; a single table,
                its counts.
    Law:        the counts over each of L sets of attributes get discrete Laplace noise of scale
                L cells_per_unit / epsilon; then least squares over all of them. The sets are the asked ones, or larger
                ones that hold them, down to the one of all attributes: whichever has the least mean variance.
    Guarantee:  pure DP with epsilon for one unit that adds at most `cells_per_unit` to all counts together.
    Error:      that of a weighted sum of the noise, the same for every cell of a table: `error(set)`.
    Proof:      the cells of one table are disjoint, so the unit moves its counts by at most cells_per_unit in l1: the
                table is epsilon/L-DP, and L tables compose to epsilon. Cutting a count moves it no further. Which sets
                are measured depends on sizes and sets only. Least squares is post-processing: the parts of a table
                with equal independent noise are uncorrelated, and the part of B from the counts over S has a variance
                in proportion to n_S / n_B, so the parts are averaged with weights n_B / n_S.
    Figure:     `round(LaplaceMarginals(sizes=(2,) * 15, ways=3, epsilon=0.1).standard_error((0, 1, 2)))` = 645
    Checked by: tests/mechanisms/ranges/test_noisy_marginals.py
    """

    epsilon: Fraction

    def __init__(
        self, *, sizes: Iterable[int], sets: Sets | None = None, ways: int = 2, epsilon: Number, cells_per_unit: int = 1
    ) -> None:
        self._set_tables(sizes, sets, ways, cells_per_unit)
        self._set(epsilon=positive(epsilon, "epsilon"))

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
        held = read_counts(counts, self.sizes, self.measured)
        noisy = {}
        for axes, exact in held.items():  # counts are cut at 2^40 and noise at 2^62, so that their sum fits
            noisy[axes] = (exact + self.noise.draw(exact.size).reshape(exact.shape)).astype(np.float64)
        return MarginalRelease(_average(self.sizes, self.sets, noisy), self)

    def check(self) -> None:
        self.noise.draw(0)

    def error(self, one: Iterable[int], confidence: Number = 0.95, *, simultaneous: int = 1) -> float:
        kinds = _weights(self.sizes, self.sets, read_part(one, self.sets))
        weights, times = (np.array(side) for side in zip(*kinds, strict=True))
        scale, beyond = float(self.noise.scale), share_outside(confidence, simultaneous)
        return laplace_tail_bound(weights.astype(np.float64), scale, beyond, times.astype(np.int64))

    def standard_error(self, one: Iterable[int]) -> float:
        kinds = _weights(self.sizes, self.sets, read_part(one, self.sets))
        return math.sqrt(math.fsum(times * weight**2 for weight, times in kinds) * self.noise.variance)


@lru_cache(maxsize=64)
def _noise(mechanism: Marginals) -> dict[Set, tuple[int, int]]:
    """v is the least whole number that keeps (k r)^2 t / (2 v) within the part's share of rho; k makes it fine."""
    parts = {}
    for part, share in _shares(mechanism.sizes, mechanism.sets).items():
        least = Fraction(mechanism.cells_per_unit**2 * _stretch(mechanism.sizes, part)) / (2 * mechanism.rho * share)
        k = 1 << max(0, _FINE - math.isqrt(math.ceil(least)).bit_length())
        parts[part] = k, math.ceil(k * k * least)
    return parts


@lru_cache(maxsize=64)
def _shares(sizes: Sizes, sets: tuple[Set, ...]) -> dict[Set, Fraction]:
    """The share of rho of each part that is not 0, in proportion to c_B sqrt(u_B); they sum to at most 1."""
    wanted = {part: math.sqrt(centred_norm(sizes, part) * gain) for part, gain in gains(sizes, sets).items() if gain}
    unit = (_PARTS - 2 * len(wanted)) / math.fsum(wanted.values())
    whole = {part: max(1, math.floor(weight * unit)) for part, weight in wanted.items()}
    if sum(whole.values()) > _PARTS:
        raise Bug("the shares of rho sum to more than 1")
    return {part: Fraction(share, _PARTS) for part, share in whole.items()}


def _stretch(sizes: Sizes, part: Set) -> int:
    """t_B: the squared length of the contrasts of one record."""
    return math.prod(sizes[i] * (sizes[i] - 1) for i in part)


@lru_cache(maxsize=64)
def _best_sets(sizes: Sizes, sets: tuple[Set, ...]) -> tuple[Set, ...]:
    """Of all ways to hold the asked sets in larger ones, up to the table of all attributes, the best."""
    variances = {held: _mean_variance(sizes, sets, held) for held in coverings(sizes, sets, MOST_TABLE)}
    return min(variances, key=lambda held: (variances[held], len(held)))


def _mean_variance(sizes: Sizes, sets: tuple[Set, ...], measured: tuple[Set, ...]) -> float:
    """The sum over the tables of the variance of a cell, in units that depend on neither price nor data."""
    masks = np.array([sum(1 << i for i in axes) for axes in measured], np.int64)
    sharp = 1 / np.array([cells(sizes, axes) for axes in measured], np.float64)
    total = 0.0
    for part, gain in gains(sizes, sets).items():
        mask = sum(1 << i for i in part)
        total += gain / (cells(sizes, part) * float(sharp[(masks & mask) == mask].sum()))
    return total * len(measured) ** 2


@lru_cache(maxsize=1024)
def _weights_of_part(sizes: Sizes, sets: tuple[Set, ...], part: Set) -> tuple[tuple[Set, float], ...]:
    """The measured sets that hold a part, and the weight of each in its estimate."""
    holding = [axes for axes in _best_sets(sizes, sets) if set(part) <= set(axes)]
    total = math.fsum(1 / cells(sizes, axes) for axes in holding)
    return tuple((axes, 1 / (cells(sizes, axes) * total)) for axes in holding)


def _average(sizes: Sizes, sets: tuple[Set, ...], noisy: Mapping[Set, Floats]) -> dict[Set, Floats]:
    """The tables from the noisy counts of the measured sets, by least squares."""
    if len(noisy) == 1:
        ((whole, table),) = noisy.items()
        return {axes: frozen(np.array(sum_over(table, whole, axes))) for axes in sets}
    parts = {}
    for part in closure(sets):
        mixed = _weights_of_part(sizes, sets, part)
        parts[part] = centre(sum((weight * sum_over(noisy[axes], axes, part) for axes, weight in mixed), np.zeros(())))
    return assemble(parts, sets, sizes)


@lru_cache(maxsize=1024)
def _weights(sizes: Sizes, sets: tuple[Set, ...], asked: Set) -> tuple[tuple[float, int], ...]:
    """The weights of the noisy counts in a cell of a table, and how many counts have each.

    It depends on which attributes a count shares with the cell, among those that its table shares with the asked one.
    """
    kinds = []
    for axes in _best_sets(sizes, sets):
        common = tuple(i for i in asked if i in axes)
        rest = cells(sizes, tuple(i for i in axes if i not in asked))
        weights = {part: dict(_weights_of_part(sizes, sets, part))[axes] for part in subsets(common)}
        for alike in product((True, False), repeat=len(common)):
            same = dict(zip(common, alike, strict=True))
            total = sum(w * math.prod(same[i] * sizes[i] - 1 for i in part) for part, w in weights.items())
            times = rest * math.prod(1 if same[i] else sizes[i] - 1 for i in common)
            kinds.append((total / cells(sizes, asked), times))
    return tuple((weight, times) for weight, times in kinds if times)
