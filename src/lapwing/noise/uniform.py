"""Uniform integers.

Law:        P[X = i] = 1 / below for 0 <= i < below, exactly.
Proof:      draws outside a whole number of cycles are rejected, so every residue keeps the same number of words.
Checked by: tests/noise/test_uniform.py
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lapwing.errors import Misconfigured
from lapwing.noise.bits import SYSTEM, BitSource


def uniform_integer(below: int, bits: BitSource = SYSTEM) -> int:
    """One uniform integer in [0, below), of any size."""
    if below < 1:
        raise Misconfigured(f"`below` is {below}; it must be at least 1.")
    width = (below - 1).bit_length()
    while (drawn := bits.integer(width) if width else 0) >= below:
        pass
    return drawn


def sample_uniform(below: int, count: int, *, bits: BitSource = SYSTEM, width: int = 64) -> npt.NDArray[np.int64]:
    """`count` independent uniform integers in [0, below), below at most 2^(width - 1)."""
    if not 1 <= below <= 1 << (width - 1):
        raise Misconfigured(f"`below` is {below}; it must lie between 1 and 2^{width - 1}.")
    whole = (1 << width) - (1 << width) % below  # the largest multiple of `below`
    words = bits.words(count, width).astype(np.uint64)
    if whole < 1 << width:
        while (over := np.flatnonzero(words >= np.uint64(whole))).size:
            words[over] = bits.words(over.size, width)
    return (words % np.uint64(below)).astype(np.int64)
