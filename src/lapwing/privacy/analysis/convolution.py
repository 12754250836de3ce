"""Measures of privacy loss on a grid, in exact integers, rounded to one side.

A measure puts mass m_j on the loss j step, for integers j, and some on infinite loss. It stands for the pair of
measures (P, Q) with P = m_j and Q = m_j / x_j, x_j = e^(j step), whose hockey-stick divergence (profile.py) is
    f(x) = infinite + sum_j m_j max(0, 1 - x / x_j).
The measure of two independent releases is the convolution of theirs.

From above. An outcome (p, q) with x_j q <= p <= x_(j+1) q is split in two, with the ratios x_j and x_(j+1), that add up
to it. The outcome is post-processing of the two, so f grows. More mass, a larger loss or an infinite one raise f too.
From below. Every q is first made smaller by a share 2^-64, so that losses on the grid do not fall to the next point;
`NUDGE` says how to undo it. All outcomes of one cell [x_j, x_(j+1)) are merged to one. Then what was left of the cell
before and a part of this cell are merged, such that their joint ratio is x_j or a little more, and the rest of this
cell is left for the next. Merging is post-processing, so f falls. What finds no partner goes down to the grid. Less
mass, or a smaller loss, lower f too. Tails of less than 2^-70 are cut after every product, to the safe side: from above
they become infinite, or move up to the rest; from below they are dropped, or move down to the rest. Checked by:
tests/privacy/analysis/test_composition.py
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from heapq import heapify, heappop, heappush

from flint import fmpz_poly

from lapwing.errors import Misconfigured
from lapwing.numbers import Enclosure, ball, enclose, shown
from lapwing.privacy.analysis.profile import Atom, log_ratio

BITS = 96
"""Masses are integers in units of 2^-96."""
NUDGE = Fraction(1, 1 << 63)
"""A lower bound at epsilon is what k measures from below say at epsilon + k NUDGE: -ln(1 - 2^-64) is less than that."""

_UNIT = 1 << BITS
_TAIL = 1 << (BITS - 70)
_FINE = 1 << 64
_MOST_CELLS = 1 << 21


@dataclass(frozen=True, slots=True)
class LossMeasure:
    """Mass on the losses `first`, `first` + 1, ... in steps, and on infinite loss; all rounded up, or all down."""

    first: int
    finite: tuple[int, ...]
    infinite: int
    up: bool

    def __mul__(self, other: LossMeasure) -> LossMeasure:
        """Both releases together."""
        _require_feasible(len(self.finite) + len(other.finite))
        product = fmpz_poly(list(self.finite)) * fmpz_poly(list(other.finite))
        finite = [_scale_down(int(mass), up=self.up) for mass in product.coeffs()]
        here, there = sum(self.finite), sum(other.finite)
        infinite = (here + self.infinite) * (there + other.infinite) - here * there
        return _trim(self.first + other.first, finite, _scale_down(infinite, up=self.up), up=self.up)

    def __pow__(self, times: int) -> LossMeasure:
        """`times` releases of this kind, by repeated squaring."""
        if times <= 1:
            return self if times else nothing(up=self.up)
        half = self ** (times // 2)
        return half * half * self if times % 2 else half * half


def nothing(*, up: bool) -> LossMeasure:
    return LossMeasure(0, (_UNIT,), 0, up)


def product(measures: Iterable[LossMeasure], *, up: bool) -> LossMeasure:
    """All releases together, the two shortest measures first, so that most products are short.

    The order changes nothing but the time: every product rounds and cuts to the same side, and n measures need n - 1.
    """
    heap = [(len(measure.finite), i, measure) for i, measure in enumerate(measures)]
    heapify(heap)
    while len(heap) > 1:
        (_, i, first), (_, _, second) = heappop(heap), heappop(heap)
        both = first * second
        heappush(heap, (len(both.finite), i, both))
    return heap[0][2] if heap else nothing(up=up)


class LossGrid:
    """The multiples of a step. It caches bounds of x_j, which all measures on it need."""

    def __init__(self, step: Fraction) -> None:
        self.step = step
        self.power = cache(lambda j: enclose(lambda: ball(j * step).exp()))
        self.growth = enclose(lambda: ball(step).expm1())[1]


def from_above(atoms: Iterable[Atom], grid: LossGrid) -> LossMeasure:
    """A measure on the grid whose divergence is nowhere smaller."""
    power, growth, step = grid.power, grid.growth, grid.step
    masses: dict[int, int] = defaultdict(int)
    infinite = 0
    for p, q in atoms:
        if not q:
            infinite += math.ceil(p * _UNIT)
            continue
        j = math.floor(log_ratio(p, q) / float(step) - 1e-6)
        while p > q * power(j + 1)[0]:
            j += 1
        low = min(p, (q * power(j + 1)[0] - p) / growth)  # the rest has the larger loss: a smaller part is safe
        masses[j] += math.ceil(low * _UNIT)
        masses[j + 1] += math.ceil((p - low) * _UNIT)
    return _gather(masses, infinite, up=True)


def from_below(atoms: Iterable[Atom], grid: LossGrid) -> LossMeasure:
    """A measure on the grid whose divergence is nowhere larger, once `NUDGE` is undone."""
    power = grid.power
    cells, infinite = _cells(atoms, grid.step, power)
    masses: dict[int, int] = defaultdict(int)
    p_left, q_left, cell = Fraction(0), Fraction(0), 0
    for j, (p, q) in sorted(cells.items()):
        if cell != j - 1:
            masses[cell] += math.floor(p_left * _UNIT)
            p_left = q_left = Fraction(0)
        x = power(j)[1]
        need, have = max(x * q_left - p_left, Fraction(0)), p - x * q
        taken, kept = _shares(need, have)
        masses[j] += math.floor((kept * p_left + taken * p) * _UNIT)
        masses[j - 1] += math.floor((1 - kept) * p_left * _UNIT)
        p_left, q_left, cell = (1 - taken) * p, (1 - taken) * q, j
    masses[cell] += math.floor(p_left * _UNIT)
    return _gather(masses, infinite, up=False)


def _shares(need: Fraction, have: Fraction) -> tuple[Fraction, Fraction]:
    """Parts (taken, kept) with taken * have >= kept * need, one of them 1 unless nothing is needed."""
    if not need:
        return Fraction(0), Fraction(1)
    if need <= have:
        return Fraction(math.ceil(need / have * _FINE), _FINE), Fraction(1)
    return Fraction(1), Fraction(math.floor(have / need * _FINE), _FINE)


def _cells(atoms: Iterable[Atom], step: Fraction, power: Callable[[int], Enclosure]) -> tuple[dict[int, Atom], int]:
    """All outcomes with x_j q <= p < x_(j+1) q merged, for every j; and the infinite mass."""
    cells: dict[int, Atom] = {}
    infinite = 0
    for p, full in atoms:
        if not full:
            infinite += math.floor(p * _UNIT)
            continue
        q = full * (1 - Fraction(1, _FINE))
        j = math.floor(log_ratio(p, q) / float(step) + 1e-6)
        while p < q * power(j)[1]:
            j -= 1
        p_cell, q_cell = cells.get(j, (Fraction(0), Fraction(0)))
        cells[j] = p_cell + p, q_cell + q
    return cells, infinite


def _gather(masses: Mapping[int, int], infinite: int, *, up: bool) -> LossMeasure:
    occupied = [j for j, mass in masses.items() if mass] or [0]
    first, last = min(occupied), max(occupied)
    _require_feasible(last - first)
    return _trim(first, [masses.get(j, 0) for j in range(first, last + 1)], infinite, up=up)


def _trim(first: int, finite: list[int], infinite: int, *, up: bool) -> LossMeasure:
    start, bottom = _light(finite)
    kept = finite[start:]
    stop, top = _light(kept[::-1])
    kept = kept[: len(kept) - stop]
    if not kept:
        return LossMeasure(0, (0,), infinite + (bottom + top if up else 0), up)
    if up:
        kept[0] += bottom
        infinite += top
    else:
        kept[-1] += top
    return LossMeasure(first + start, tuple(kept), infinite, up)


def _light(masses: list[int]) -> tuple[int, int]:
    """How many of the first masses fit together into the tail that is cut, and their sum."""
    total = 0
    for number, mass in enumerate(masses):
        if total + mass > _TAIL:
            return number, total
        total += mass
    return len(masses), total


def _scale_down(mass: int, *, up: bool) -> int:
    return -(-mass >> BITS) if up else mass >> BITS


def _require_feasible(cells: int) -> None:
    if cells > _MOST_CELLS:
        raise Misconfigured(f"The grid has {shown(cells)} cells; at most {_MOST_CELLS} fit. Pass a larger `step`.")
