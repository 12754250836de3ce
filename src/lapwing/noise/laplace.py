"""Geometric and discrete Laplace noise of any rational scale.

Law:        geometric P[g] proportional to exp(-g / scale), g = 0, 1, 2, ...; Laplace P[z] proportional to
            exp(-|z| / scale) on all integers. Exact by block.py.
Checked by: tests/noise/test_laplace.py
"""

from __future__ import annotations

from fractions import Fraction

from lapwing.arrays import Integers
from lapwing.noise.bits import SYSTEM, BitSource
from lapwing.noise.block import sample_block
from lapwing.noise.noise_table import NoiseLaw, table_of


def sample_geometric(scale: Fraction, count: int, *, bits: BitSource = SYSTEM) -> Integers:
    """`count` independent draws of geometric noise, at least 0."""
    return sample_block(table_of(NoiseLaw(1 / scale, 1, two_sided=False)), count, bits)


def sample_laplace(scale: Fraction, count: int, *, bits: BitSource = SYSTEM) -> Integers:
    """`count` independent draws of discrete Laplace noise."""
    return sample_block(table_of(NoiseLaw(1 / scale, 1)), count, bits)
