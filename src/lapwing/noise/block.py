"""The block sampler: exact integer noise at hundreds of millions of draws a second, whatever the scale.

Law:        n independent draws with P[x] proportional to exp(-rate |x|^power), exactly, given uniform bits: discrete
            Laplace and Gaussian noise of any rational scale, and geometric noise on 0, 1, 2, ... [CKS20]
Proof:
  1. The category is the inverse of the exact distribution function at one lazy uniform: a guide cell without a
     threshold decides for every continuation, otherwise the 64-bit word decides unless it equals a threshold, and
     equality is decided by `is_below` with the same digits.
  2. The offset L inside a block is uniform and independent of the category (mirroring a block keeps it uniform).
  3. w falls with |x|, so w(x) / w(left end) <= 1 may be an acceptance probability, and the tail's hat lies above w
     (noise_table.py). Rejection from a hat gives the law proportional to w.
  4. v < guide_accept accepts only if the first 16 bits of the acceptance uniform lie below a lower bound of the
     acceptance probability of the whole block; the other lanes extend the same uniform (bernoulli.decide_exp).
     Both answers equal 1[V < acceptance].
  5. A rejected lane is drawn again on its own; which lanes are rejected depends on discarded values only.
Tails beyond 2^62 (probability below exp(-2^11)) saturate, which the mechanisms do again after adding.
`laplace_integer` and `cauchy_integer` need no table: where the scale depends on the data, every draw has its own.
Not constant time: about one lane in fifty takes the slow path, and tails and large scales most. Draw many at once.
Checked by: tests/noise/test_block.py, tests/noise/test_laplace.py, tests/noise/test_gaussian.py,
            tests/noise/test_single_draw.py
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from lapwing.arrays import Flags, Integers
from lapwing.noise.bernoulli import LazyUniform, decide_exp, flip_exp, is_below, run_exp
from lapwing.noise.bits import SYSTEM, BitSource, Words, uniform_integer
from lapwing.noise.noise_table import UNDECIDED, NoiseLaw, NoiseTable, table_of

OpenLanes = tuple[npt.NDArray[np.intp], Words, Words, Words]
"""Lanes without a value yet, with the words that were drawn for them: guide, accept, offset."""

_CHUNK = 1 << 15  # lanes at a time: the working set stays in the second-level cache
_MOST = 1 << 62


def sample_block(table: NoiseTable, count: int, bits: BitSource) -> Integers:
    """`count` independent draws from the law of the table."""
    if count == 1:
        return np.array([_draw(table, bits)], np.int64)
    out = np.empty(count, np.int64)
    sample = _sample_chunk if table.block_bits else _sample_chunk_direct
    parts: list[OpenLanes] = []
    for start in range(0, count, _CHUNK):
        lanes, guide, accept, offset = sample(table, out[start : start + _CHUNK], bits)
        if lanes.size:
            parts.append((lanes + start, guide, accept, offset))
    if parts:
        lanes, guide, accept, offset = map(np.concatenate, zip(*parts, strict=True))
        values, rejected = _settle(table, guide, accept, offset, bits)
        out[lanes] = values
        if rejected.any():
            out[lanes[rejected]] = sample_block(table, int(rejected.sum()), bits)
    return out


def _draw(table: NoiseTable, bits: BitSource) -> int:
    """One draw: the same decisions as below, without the cost of arrays in all but a few cases."""
    sizes, more = table.sizes, table.block_bits
    while True:
        guide = bits.integer(sizes.guide)
        accept = bits.integer(sizes.accept + more) if more else 0
        offset, accept = accept & ((1 << more) - 1), accept >> more
        value = int(table.guide_base[guide])
        if accept < int(table.guide_accept[guide]) if more else value != UNDECIDED:
            return value + offset
        guides, accepts, offsets = np.array([[guide], [accept], [offset]], np.uint64)
        values, rejected = _settle(table, guides, accepts, offsets, bits)
        if not rejected[0]:
            return int(values[0])


def _sample_chunk_direct(table: NoiseTable, out: Integers, bits: BitSource) -> OpenLanes:
    """Blocks of one value: a guide cell gives the value or nothing."""
    guide = bits.words(out.size, table.sizes.guide)
    np.take(table.guide_base, guide, out=out, mode="clip")
    lanes = np.flatnonzero(out == UNDECIDED)
    none = np.zeros(lanes.size, np.uint16)
    return lanes, guide[lanes], none, none


def _sample_chunk(table: NoiseTable, out: Integers, bits: BitSource) -> OpenLanes:
    """Blocks of 2^m values: base + offset, accepted at once in all but a few lanes."""
    offset = bits.words(out.size, table.block_bits)
    guide = bits.words(out.size, table.sizes.guide)
    accept = bits.words(out.size, table.sizes.accept)
    cells = guide.astype(np.intp)
    np.take(table.guide_base, cells, out=out, mode="clip")
    out += offset.view(np.int64) if offset.dtype == np.uint64 else offset
    lanes = np.flatnonzero(accept >= np.take(table.guide_accept, cells, mode="clip"))
    return lanes, guide[lanes], accept[lanes], offset[lanes]


def _settle(table: NoiseTable, guide: Words, accept: Words, offset: Words, bits: BitSource) -> tuple[Integers, Flags]:
    """Decides the lanes that the guide left open. Returns their values and which of them are rejected."""
    category = _category(table, guide, bits)
    values = table.base[category] + offset.astype(np.int64)
    rejected = np.zeros(values.size, np.bool_)
    if table.block_bits:
        rejected = ~_accept(table, values, accept, bits)
    for sign, tail in zip((1, -1), table.tails, strict=False):
        for lane in np.flatnonzero(category == tail):
            drawn = _tail(table, sign, bits)
            rejected[lane] = drawn is None
            values[lane] = 0 if drawn is None else max(-_MOST, min(_MOST, drawn))
    return values, rejected


def _category(table: NoiseTable, guide: Words, bits: BitSource) -> npt.NDArray[np.intp]:
    """The category that a uniform with these first digits falls into."""
    sizes, thresholds = table.sizes, table.thresholds
    more = sizes.threshold - sizes.guide
    words = guide.astype(np.uint64) << np.uint64(more) | bits.words(guide.size, more)
    category = np.searchsorted(thresholds, words, "left")
    for lane in np.flatnonzero(thresholds[np.minimum(category, thresholds.size - 1)] == words):
        uniform = LazyUniform(bits, int(words[lane]), sizes.threshold)
        at = int(category[lane])
        while at < thresholds.size and thresholds[at] == words[lane] and not is_below(uniform, table.bounds(at)):
            at += 1
        category[lane] = at
    return category


def _accept(table: NoiseTable, values: Integers, accept: Words, bits: BitSource) -> Flags:
    """1[V < w(x) / w(left end)], where `accept` holds the first digits of V."""
    law, sizes = table.law, table.sizes
    mirrored = values < 0
    rank = np.where(mirrored, ~values, values)  # 0, 1, 2, ... along its own side
    inside = rank & ((1 << table.block_bits) - 1)
    left = rank - inside + mirrored
    grown = inside.astype(np.float64)
    if law.power == 2:
        grown *= 2.0 * left + inside
    more = sizes.accept_more - sizes.accept
    prefix = accept.astype(np.uint64) << np.uint64(more) | bits.words(values.size, more)

    def exponent(lane: int) -> tuple[int, int]:
        start, _ = law.exponent(int(left[lane]))
        end, denominator = law.exponent(int(left[lane]) + int(inside[lane]))
        return end - start, denominator

    return decide_exp(prefix, sizes.accept_more, grown * float(law.rate), exponent, bits, band=sizes.band)


def _tail(table: NoiseTable, sign: int, bits: BitSource) -> int | None:
    """A value behind the blocks, or None if the hat's draw is rejected."""
    law = table.law
    start = (table.blocks << table.block_bits) + (sign < 0)
    beyond = run_exp(*law.tail_rate(start), bits)
    if law.power == 2 and not flip_exp(*law.exponent(beyond), bits):
        return None
    return sign * (start + beyond)


def sample_geometric(scale: Fraction, count: int, *, bits: BitSource = SYSTEM) -> Integers:
    return sample_block(table_of(NoiseLaw(1 / scale, 1, two_sided=False)), count, bits)


def sample_laplace(scale: Fraction, count: int, *, bits: BitSource = SYSTEM) -> Integers:
    return sample_block(table_of(NoiseLaw(1 / scale, 1)), count, bits)


def sample_gaussian(variance: Fraction, count: int, *, bits: BitSource = SYSTEM) -> Integers:
    return sample_block(table_of(NoiseLaw(1 / (2 * variance), 2)), count, bits)


def laplace_integer(scale: Fraction, bits: BitSource = SYSTEM) -> int:
    """One draw with P[z] proportional to exp(-|z| / scale): a geometric size and a fair sign.

    The zero with a minus is rejected, so that zero occurs once.
    """
    while True:
        size = run_exp(scale.denominator, scale.numerator, bits)
        negative = bits.integer(1)
        if size or not negative:
            return -size if negative else size


def cauchy_integer(scale: Fraction, bits: BitSource = SYSTEM) -> int:
    """One draw with P[z] proportional to 1 / (z^2 + scale^2), which sums to (pi / scale) coth(pi scale).

    Sizes are proposed from blocks: block 0 holds 0..B-1, block j >= 1 holds 2^(j-1) B .. 2^j B - 1, with B =
    ceil(scale). A block is chosen with probability 1/3, 1/3, 1/6, 1/12, ..., so a size in block j >= 1 is proposed with
    weight 4^-(j-1) and one in block 0 with weight 1. It is kept with probability scale^2 4^(j-1) / (z^2 + scale^2),
    j = 1 for block 0: a fraction, at most 1 since z >= 2^(j-1) scale in block j. So every size has weight
    scale^2 / (z^2 + scale^2). About half are kept.
    """
    while (drawn := propose_cauchy(scale, bits)) is None:
        pass
    return drawn


def propose_cauchy(scale: Fraction, bits: BitSource) -> int | None:
    """One proposal: z with probability scale^2 / (6 B (z^2 + scale^2)), None if it is rejected."""
    top, bottom = scale.numerator, scale.denominator
    start, width, doublings = 0, -(-top // bottom), 0
    if uniform_integer(3, bits):  # a block beyond the first
        while bits.integer(1):
            doublings += 1
        start = width = width << doublings
    size = start + uniform_integer(width, bits)
    negative = bits.integer(1)
    if uniform_integer((size * bottom) ** 2 + top**2, bits) >= top**2 << 2 * doublings or (negative and not size):
        return None
    return -size if negative else size
