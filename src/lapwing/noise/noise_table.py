"""Tables for the block sampler: exact thresholds of integer laws with weight w(x) = exp(-rate |x|^power).

Each side of the law is cut into blocks of B = 2^m values: x = qB + L on the side of 0, x = -(1 + qB + L) on the other
(so zero occurs once), 0 <= L < B, q < Q; beyond lies a tail. The *hat* of a block has mass B w(its left end), that of a
tail w(J) / (1 - exp(-a)) with J the first value behind the blocks. Categories stand in the order +0 .. +(Q-1), +tail,
-tail, -(Q-1) .. -0, and F_j is the exact share of hat mass in categories 0..j. `thresholds[j]` = floor(F_j 2^64),
computed in integers with outward rounding until both bounds agree. Checked by: tests/noise/test_noise_table.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from lapwing.arrays import Integers
from lapwing.errors import Bug, Misconfigured
from lapwing.noise.bernoulli import BAND, BoundsAt, exp_neg
from lapwing.noise.bits import Words

SMALLEST, LARGEST = Fraction(1, 1024), Fraction(1 << 50)
"""The scales that the samplers support."""

UNDECIDED = np.iinfo(np.int64).min
"""Marks a guide cell that does not decide the value."""

_MOST_POWER = 13  # thresholds are computed to at most 2^13 bits
_ACCEPT_BITS = 128


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """P[x] proportional to exp(-rate |x|^power) on the integers, or on 0, 1, 2, ... if one-sided."""

    rate: Fraction
    power: int
    two_sided: bool = True

    def exponent(self, x: int) -> tuple[int, int]:
        """rate x^power as integers (numerator, denominator)."""
        return self.rate.numerator * x**self.power, self.rate.denominator

    def tail_rate(self, start: int) -> tuple[int, int]:
        """(n, d) with w(start + k) <= w(start) exp(-k n / d): for power 2, (start + k)^2 >= start^2 + 2 start k."""
        return self.rate.numerator * (1 if self.power == 1 else 2 * start), self.rate.denominator

    @property
    def width(self) -> float:
        """The scale of the Laplace law, the sigma of the Gaussian law."""
        return 1 / float(self.rate) if self.power == 1 else math.sqrt(1 / (2 * float(self.rate)))


@dataclass(frozen=True, slots=True)
class WordSizes:
    """How many bits each decision takes at first. Tests shrink them to make ties and fallbacks common."""

    guide: int = 16
    threshold: int = 64
    accept: int = 16
    accept_more: int = 53
    tail: int = 18
    """Blocks extend out to a hat tail of about 2^-18."""
    band: float = BAND
    block_bits: int | None = None


@dataclass(frozen=True, eq=False)
class NoiseTable:
    """The lookup tables of the sampler. Get one from `table_of`."""

    law: NoiseLaw
    sizes: WordSizes
    block_bits: int
    blocks: int
    thresholds: Words
    base: Integers = field(repr=False)
    """Category -> the smallest value of its block; the mirrored side counts its block from the far end."""
    guide_base: Integers = field(repr=False)
    """Guide cell -> base of the one category it lies in, else UNDECIDED."""
    guide_accept: Words = field(repr=False)
    """Guide cell -> floor(2^16 a lower bound of the acceptance probability in that block), 0 where undecided."""

    def bounds(self, category: int) -> BoundsAt:
        return lambda precision: tuple(side[category] for side in _shares(self, precision))  # type: ignore[return-value]

    @property
    def tails(self) -> tuple[int, ...]:
        return (self.blocks, self.blocks + 1) if self.law.two_sided else (self.blocks,)


@lru_cache(maxsize=64)
def table_of(law: NoiseLaw) -> NoiseTable:
    """The table of a law; the last 64 are kept, 0.7 MB each."""
    return build_table(law, WordSizes())


def build_table(law: NoiseLaw, sizes: WordSizes) -> NoiseTable:
    """The table of a law for words of these sizes."""
    require_supported(law)
    extent, direct = sizes.tail * math.log(2), 64
    if law.power == 2:
        extent, direct = math.sqrt(2 * extent), 160
    block_bits = sizes.block_bits
    if block_bits is None:
        block_bits = 0 if law.width <= direct else int(math.log2(law.width / 64))
    blocks = max(2, math.ceil(extent * law.width / (1 << block_bits)))
    thresholds = _thresholds(law, block_bits, blocks, sizes.threshold)
    base = _bases(law, block_bits, blocks)
    accept = _least_acceptance(law, sizes, block_bits, blocks)
    guide_base, guide_accept = _guide(law, sizes, accept, thresholds, base, block_bits)
    return NoiseTable(law, sizes, block_bits, blocks, thresholds, base, guide_base, guide_accept)


def require_supported(law: NoiseLaw) -> None:
    """Raises Misconfigured outside the limits. Rationals decide: a scale may not fit a float."""
    squared = 1 / law.rate**2 if law.power == 1 else 1 / (2 * law.rate)
    if law.rate <= 0 or not SMALLEST**2 <= squared <= LARGEST**2:
        raise Misconfigured(
            f"the noise scale is {'above 2^50' if 0 < law.rate < 1 else 'below 2^-10'}; "
            "it must lie between 2^-10 and 2^50. Change epsilon or the unit in which the sensitivity is stated."
        )


def _side(law: NoiseLaw, block_bits: int, blocks: int, first: int, precision: int) -> list[tuple[int, int]]:
    """Enclosures, times 2^precision, of the hat masses of one side that starts at |x| = first.

    w(first + qB) by recurrence: w_{q+1} = w_q r_q, r_{q+1} = r_q c with c constant, every product rounded outward.
    """
    size = 1 << block_bits
    (e0, d), (e1, _), (e2, _) = (law.exponent(first + q * size) for q in range(3))
    w_low, w_high = exp_neg(e0, d, precision)
    r_low, r_high = exp_neg(e1 - e0, d, precision)
    c_low, c_high = exp_neg(e2 - 2 * e1 + e0, d, precision)
    masses = []
    for _ in range(blocks):
        masses.append((w_low << block_bits, w_high << block_bits))
        w_low, w_high = w_low * r_low >> precision, -(-w_high * r_high >> precision)
        if law.power == 2:  # for power 1 the ratio stays the same
            r_low, r_high = r_low * c_low >> precision, -(-r_high * c_high >> precision)
    one = 1 << precision
    t_low, t_high = exp_neg(*law.tail_rate(first + blocks * size), precision)
    masses.append(((w_low << precision) // (one - t_low), -(-(w_high << precision) // (one - t_high))))
    return masses


def _cumulative(law: NoiseLaw, block_bits: int, blocks: int, precision: int) -> tuple[list[int], list[int]]:
    masses = _side(law, block_bits, blocks, 0, precision)
    if law.two_sided:
        masses += reversed(_side(law, block_bits, blocks, 1, precision))
    lows, highs = zip(*masses, strict=True)
    return list(accumulate(lows)), list(accumulate(highs))


def _thresholds(law: NoiseLaw, block_bits: int, blocks: int, width: int) -> Words:
    """floor(F_j 2^width) for every category but the last. F_j < 1, so no threshold reaches 2^width."""
    most = (1 << width) - 1
    for power in range(7, _MOST_POWER + 1):
        lows, highs = _cumulative(law, block_bits, blocks, 1 << power)
        floors = [(low << width) // highs[-1] for low in lows[:-1]]
        if floors == [min(most, (high << width) // lows[-1]) for high in highs[:-1]]:
            return np.array(floors, np.uint64)
    raise Bug("a threshold of a noise table does not converge")


@lru_cache(maxsize=8)
def _shares(table: NoiseTable, precision: int) -> tuple[list[int], list[int]]:
    """Enclosures of every F_j, times 2^precision."""
    lows, highs = _cumulative(table.law, table.block_bits, table.blocks, precision + 96)
    low = [(value << precision) // highs[-1] for value in lows[:-1]]
    high = [min(1 << precision, -(-(value << precision) // lows[-1])) for value in highs[:-1]]
    return low, high


def _bases(law: NoiseLaw, block_bits: int, blocks: int) -> Integers:
    starts = np.arange(blocks, dtype=np.int64) << block_bits
    tail = np.zeros(1, np.int64)
    if not law.two_sided:
        return np.concatenate([starts, tail])
    return np.concatenate([starts, tail, tail, (-starts - (1 << block_bits))[::-1]])


def _guide(
    law: NoiseLaw, sizes: WordSizes, accept: Words, thresholds: Words, base: Integers, block_bits: int
) -> tuple[Integers, Words]:
    """A cell without a threshold belongs to one category whatever digits follow; a cell with one decides nothing."""
    of_threshold = (thresholds >> np.uint64(sizes.threshold - sizes.guide)).astype(np.intp)
    inside = np.bincount(of_threshold, minlength=1 << sizes.guide)  # how many thresholds each cell holds
    category = np.cumsum(inside)  # of a cell that holds none
    tails = base.size // 2 if law.two_sided else base.size - 1
    undecided = (inside > 0) | (category == tails) | (law.two_sided & (category == tails - 1))
    guide_base, guide_accept = base[category], accept[category]
    guide_base[undecided] = 0 if block_bits else UNDECIDED
    guide_accept[undecided] = 0
    return guide_base, guide_accept


def _least_acceptance(law: NoiseLaw, sizes: WordSizes, block_bits: int, blocks: int) -> Words:
    """floor(2^accept p) with p below the acceptance probability of every value of the block: that of its far end.

    For a block that starts at s the exponent there is rate ((s + B - 1)^power - s^power). It is the same for all blocks
    if power = 1 and grows by a constant if power = 2, so p follows by recurrence. Integers, always rounded down.
    """
    size, most = 1 << block_bits, (1 << sizes.accept) - 1
    sides = []
    for first in (0, 1):
        (e0, d), (e1, _), (e2, _), (e3, _) = (law.exponent(first + x) for x in (0, size - 1, size, 2 * size - 1))
        least, _ = exp_neg(e1 - e0, d, _ACCEPT_BITS)
        ratio, _ = exp_neg(e3 - e2 - e1 + e0, d, _ACCEPT_BITS)
        side = []
        for _ in range(blocks):
            side.append(min(most, least >> _ACCEPT_BITS - sizes.accept))
            least = least * ratio >> _ACCEPT_BITS
        sides.append([*side, 0])
    return np.array(sides[0] + sides[1][::-1] if law.two_sided else sides[0], np.uint16)
