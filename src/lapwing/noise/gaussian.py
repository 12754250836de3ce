"""Discrete Gaussian noise of any rational variance parameter.

Law:        P[z] proportional to exp(-z^2 / (2 variance)) on all integers. Exact by block.py. [CKS20]
Checked by: tests/noise/test_gaussian.py
"""

from __future__ import annotations

from fractions import Fraction

from lapwing.arrays import Integers
from lapwing.noise.bits import SYSTEM, BitSource
from lapwing.noise.block import sample_block
from lapwing.noise.noise_table import NoiseLaw, table_of


def sample_gaussian(variance: Fraction, count: int, *, bits: BitSource = SYSTEM) -> Integers:
    """`count` independent draws of discrete Gaussian noise."""
    return sample_block(table_of(NoiseLaw(1 / (2 * variance), 2)), count, bits)
