"""The lab's own chance: synthetic people, random subsets, and the float noise that other programs add.

Nothing here protects anyone. Bits come from noise/bits.py all the same, so that tests fix every experiment.
"""

from __future__ import annotations

import math
from fractions import Fraction
from math import prod

import numpy as np

from lapwing.arrays import Flags, Floats, Integers
from lapwing.noise import SYSTEM, sample_laplace, sample_uniform


def draw_uniforms(*shape: int) -> Floats:
    """Floats in [0, 1): multiples of 2^-53, as most programs make them."""
    return (SYSTEM.words(prod(shape), 53).astype(np.float64) * 2.0**-53).reshape(shape)


def flip_coins(*shape: int) -> Flags:
    return np.asarray(SYSTEM.words(prod(shape), 1).astype(np.bool_).reshape(shape))


def draw_normals(*shape: int) -> Floats:
    """Standard normals by Box and Muller, in floats."""
    radius = np.sqrt(-2 * np.log1p(-draw_uniforms(*shape)))
    return np.asarray(radius * np.cos(2 * math.pi * draw_uniforms(*shape)))


def draw_float_laplace(scale: float, *shape: int) -> Floats:
    """Laplace noise by the inverse cdf of a 53-bit uniform: what most programs do, and a leak. [threat A1]"""
    u = draw_uniforms(*shape) - 0.5
    return np.asarray(-scale * np.sign(u) * np.log1p(-2 * np.abs(u)))


def draw_whole_laplace(scale: float | Fraction, *shape: int) -> Integers:
    """Discrete Laplace noise; a scale of 0 is no noise."""
    if not scale:
        return np.zeros(shape, np.int64)
    return sample_laplace(Fraction(scale), prod(shape)).reshape(shape)


def draw_places(below: int, count: int) -> Integers:
    return sample_uniform(below, count)


def shuffled(count: int) -> Integers:
    """The places 0 ... count - 1 in random order."""
    return np.argsort(SYSTEM.words(count, 64), kind="stable").astype(np.int64)
