"""Sparse vector gone wrong: the published variants that Lyu, Su and Li refute, and faults that code might have.

Numbers follow figure 1 of their paper, where only 1 and 2 are private. All claim epsilon = 1 for values that move by at
most 1, and compare with a threshold of 0. Noise is whole, so that ties happen. Each outcome is coded as one number.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from support.broken import Control, Mechanism, Samples, Value

BELOW, ABOVE, NOT_ASKED = 0, 1, 2
_LARGEST_VALUE = 40


def laplace(scale: float, shape: tuple[int, ...], rng: Generator) -> Samples:
    """Discrete Laplace noise; scale 0 is no noise."""
    if not scale:
        return np.zeros(shape, dtype=np.int64)
    stop = -np.expm1(-1 / scale)
    return np.asarray(rng.geometric(stop, shape) - rng.geometric(stop, shape))


def sparse(bar: float, query: float, cutoff: int | None) -> Mechanism:
    """Tells "above" or "below" with these noise scales, one bar, and a halt after `cutoff` aboves or none at all."""

    def run(value: Value, n: int, rng: Generator) -> Samples:
        noisy = np.asarray(value, dtype=np.int64) + laplace(query, (n, len(np.atleast_1d(value))), rng)
        above = noisy >= laplace(bar, (n, 1), rng)
        answers = np.where(above, ABOVE, BELOW)
        if cutoff is not None:
            answers[np.cumsum(above, axis=1) - above >= cutoff] = NOT_ASKED
        return coded(answers)

    return run


def releasing_the_compared_value(bar: float, query: float) -> Mechanism:
    """SVT-3: gives q + N of the first "above", the very number that was compared."""

    def run(value: Value, n: int, rng: Generator) -> Samples:
        noisy = np.asarray(value, dtype=np.int64) + laplace(query, (n, len(np.atleast_1d(value))), rng)
        above = noisy >= laplace(bar, (n, 1), rng)
        first = np.argmax(above, axis=1)
        released = np.clip(noisy[np.arange(n), first], -_LARGEST_VALUE, _LARGEST_VALUE)
        return np.where(above.any(axis=1), 1000 * (first + 1) + released, 0)

    return run


def coded(answers: Samples) -> Samples:
    """One number for a row of answers: its digits to base 3."""
    return np.asarray(answers @ 3 ** np.arange(answers.shape[1], dtype=np.int64))


def both_ways(belows: int, aboves: int) -> tuple[Value, Value]:
    """Values that rise to the threshold, to be answered "below", then values that fall from it, to be "above"."""
    return (*(-1.0,) * belows, *(0.0,) * aboves), (*(0.0,) * belows, *(-1.0,) * aboves)


BROKEN_SPARSE = {
    "SVT-3, the compared value released": Control(releasing_the_compared_value(2, 2), *both_ways(6, 1), runs=100_000),
    "SVT-4, noise not scaled, one answer": Control(sparse(4, 4 / 3, 1), *both_ways(6, 1), runs=100_000),
    "SVT-4, noise not scaled by four answers": Control(sparse(4, 4 / 3, 4), *both_ways(4, 4), runs=10_000),
    "SVT-5, no noise on questions": Control(sparse(2, 0, None), (0.0, 1.0), (1.0, 0.0), runs=1_000),
    "SVT-6, no cut-off": Control(sparse(2, 2, None), *both_ways(4, 4), runs=10_000),
    "one above too many": Control(sparse(2, 4, 2), *both_ways(5, 2), runs=500_000),
    "half the noise on questions": Control(sparse(2, 2, 1), *both_ways(5, 1), runs=100_000),
}

SOUND_SPARSE = {
    "SVT-1 and 2, one answer": Control(sparse(2, 4, 1), *both_ways(5, 1), runs=100_000),
    "SVT-1, two answers": Control(sparse(2, 8, 2), *both_ways(5, 2), runs=100_000),
    "SVT-1, four answers": Control(sparse(2, 16, 4), *both_ways(4, 4), runs=100_000),
}
