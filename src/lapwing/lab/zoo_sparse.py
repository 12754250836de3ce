"""Sparse vector gone wrong: the published variants that Lyu, Su and Li refute, and faults that code might have.

Numbers follow figure 1 of their paper, where only 1 and 2 are private. All claim epsilon = 1 for values that move by at
most 1, and compare with a threshold of 0. Noise is whole, so that ties happen. Each outcome is coded as one number.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from lapwing.arrays import Array, Integers
from lapwing.lab.random_people import draw_whole_laplace

BELOW, ABOVE, NOT_ASKED = 0, 1, 2
_LARGEST_VALUE = 40

Exhibit = tuple[str, str, Callable[[Any, int], Array], tuple[int, ...], tuple[int, ...], int]
"""Name, what is wrong, mechanism, left, right, runs."""


def sparse(bar: int | Fraction, query: int | Fraction, cutoff: int | None) -> Callable[[Any, int], Array]:
    """Tells "above" or "below" with these noise scales, one bar, and a halt after `cutoff` aboves or none at all."""

    def run(values: Any, n: int) -> Array:
        noisy = np.asarray(values, dtype=np.int64) + draw_whole_laplace(query, n, len(values))
        above = noisy >= draw_whole_laplace(bar, n, 1)
        answers = np.where(above, ABOVE, BELOW)
        if cutoff is not None:
            answers[np.cumsum(above, axis=1) - above >= cutoff] = NOT_ASKED
        return coded(answers)

    return run


def compared_value_released(values: Any, n: int) -> Array:
    """SVT-3: gives q + N of the first "above", the very number that was compared."""
    noisy = np.asarray(values, dtype=np.int64) + draw_whole_laplace(2, n, len(values))
    above = noisy >= draw_whole_laplace(2, n, 1)
    first = np.argmax(above, axis=1)
    released = np.clip(noisy[np.arange(n), first], -_LARGEST_VALUE, _LARGEST_VALUE)
    return np.where(above.any(axis=1), 1000 * (first + 1) + released, 0)


def coded(answers: Integers) -> Array:
    """One number for a row of answers: its digits to base 3."""
    return np.asarray(answers @ 3 ** np.arange(answers.shape[1], dtype=np.int64))


def both_ways(belows: int, aboves: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Values that rise to the threshold, to be answered "below", then values that fall from it, to be "above"."""
    return (*(-1,) * belows, *(0,) * aboves), (*(0,) * belows, *(-1,) * aboves)


_FOUR_THIRDS = Fraction(4, 3)

SPARSE_BROKEN: tuple[Exhibit, ...] = (
    ("SVT-3", "releases the value it compared", compared_value_released, *both_ways(6, 1), 100_000),
    ("SVT-4, one answer", "noise not scaled: 1.75 epsilon", sparse(4, _FOUR_THIRDS, 1), *both_ways(6, 1), 100_000),
    ("SVT-4, four answers", "noise not scaled: 6.25 epsilon", sparse(4, _FOUR_THIRDS, 4), *both_ways(4, 4), 10_000),
    ("SVT-5", "no noise on the questions", sparse(2, 0, None), (0, 1), (1, 0), 1_000),
    ("SVT-6", "never halts", sparse(2, 2, None), *both_ways(4, 4), 10_000),
    ("sparse vector, one above too many", "halts too late", sparse(2, 4, 2), *both_ways(5, 2), 500_000),
    ("sparse vector, half the noise", "1.5 epsilon", sparse(2, 2, 1), *both_ways(5, 1), 100_000),
)

SPARSE_SOUND: tuple[Exhibit, ...] = (
    ("sparse vector, one answer", "", sparse(2, 4, 1), *both_ways(5, 1), 100_000),
    ("sparse vector, two answers", "", sparse(2, 8, 2), *both_ways(5, 2), 100_000),
    ("sparse vector, four answers", "", sparse(2, 16, 4), *both_ways(4, 4), 100_000),
)
