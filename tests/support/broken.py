"""Mechanisms that are not as private as they claim, and sound twins: negative and positive controls of the auditor.

All claim epsilon = 1 unless their control says otherwise. Inputs and sample sizes follow the table of known-wrong
algorithms of the threat model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Samples = NDArray[Any]
Value = float | tuple[float, ...]
Mechanism = Callable[[Value, int, Generator], Samples]


@dataclass(frozen=True, slots=True)
class Control:
    """A mechanism, two neighbouring inputs, the claim, and the runs per input that must suffice to refute it."""

    mechanism: Mechanism
    left: Value
    right: Value
    runs: int
    epsilon: float = 1.0
    delta: float = 0.0

    def samples(self, seed: int, runs: int | None = None) -> tuple[Samples, Samples]:
        """One sample per input, from a stream fixed by the seed."""
        rng, n = np.random.default_rng(seed), runs or self.runs
        return self.mechanism(self.left, n, rng), self.mechanism(self.right, n, rng)


def geometric_noise(scale: float) -> Mechanism:
    """Discrete Laplace noise on every coordinate, as the difference of two geometrics. Sound."""

    def run(value: Value, n: int, rng: Generator) -> Samples:
        centre = np.asarray(value, dtype=np.int64)
        stop = -np.expm1(-1 / scale)
        shape = (n, *centre.shape)
        return centre + rng.geometric(stop, shape) - rng.geometric(stop, shape)

    return run


def float_laplace(value: Value, n: int, rng: Generator) -> Samples:
    """The inverse cdf of a 53-bit uniform: porous, and its precision depends on the value. [threat:A1, threat:A3]"""
    u = rng.random(n) - 0.5
    return np.asarray(value - np.sign(u) * np.log1p(-2 * np.abs(u)))


def box_muller(value: Value, n: int, rng: Generator) -> Samples:
    """Gaussian noise in doubles, with the classic sigma for (1, 1e-5). [threat:A2]"""
    sigma = np.sqrt(2 * np.log(1.25e5))
    radius = np.sqrt(-2 * np.log1p(-rng.random(n)))
    return np.asarray(value + sigma * radius * np.cos(2 * np.pi * rng.random(n)))


def narrow_gaussian(value: Value, n: int, rng: Generator) -> Samples:
    """sigma = sensitivity / epsilon, as if it were Laplace. Rounded, so that only the width is wrong."""
    return np.asarray(value + np.rint(rng.normal(0.0, 1.0, n)).astype(np.int64))


def noisy_max(scale: float) -> Mechanism:
    """The index of the largest score plus Laplace noise; for general scores only scale 2 / epsilon is sound."""

    def run(value: Value, n: int, rng: Generator) -> Samples:
        scores = np.asarray(value, dtype=np.float64)
        return np.asarray(np.argmax(scores + rng.laplace(0.0, scale, (n, len(scores))), axis=1))

    return run


def exponential(factor: float) -> Mechanism:
    """An index with P proportional to exp(factor * score); for general scores only epsilon / 2 is sound."""

    def run(value: Value, n: int, rng: Generator) -> Samples:
        weights = np.exp(factor * np.asarray(value, dtype=np.float64))
        return rng.choice(len(weights), size=n, p=weights / weights.sum())

    return run


# One unit moves every score by 1, the last one's up and the others' down: the worst case of a selection.
LAST_LOW = (*(3.0,) * 9, 2.0)
LAST_HIGH = (*(2.0,) * 9, 3.0)

BROKEN = {
    "float Laplace": Control(float_laplace, 0.0, 1.0, runs=20_000),
    "Box-Muller Gaussian": Control(box_muller, 0.0, 1.0, runs=20_000, delta=1e-5),
    "Gaussian with too small a sigma": Control(narrow_gaussian, 0, 1, runs=10_000, delta=1e-5),
    "half-scale Laplace": Control(geometric_noise(0.5), 0, 1, runs=10_000),
    "noisy max without the factor two": Control(noisy_max(1.0), LAST_LOW, LAST_HIGH, runs=10_000),
    "exponential without the factor two": Control(exponential(1.0), LAST_LOW, LAST_HIGH, runs=10_000),
    "three rows with sensitivity one": Control(geometric_noise(1.0), 0, 3, runs=1_000),
    "two aggregates, budget not split": Control(geometric_noise(1.0), (0, 0), (1, 1), runs=10_000),
    "add/remove noise for replace-one": Control(geometric_noise(1.0), (1, 0), (0, 1), runs=10_000),
}

SOUND = {
    "geometric": Control(geometric_noise(1.0), 0, 1, runs=100_000),
    "noisy max": Control(noisy_max(2.0), LAST_LOW, LAST_HIGH, runs=100_000),
    "exponential": Control(exponential(0.5), LAST_LOW, LAST_HIGH, runs=100_000),
    "two aggregates, budget split": Control(geometric_noise(2.0), (0, 0), (1, 1), runs=100_000),
    "replace-one noise": Control(geometric_noise(2.0), (1, 0), (0, 1), runs=100_000),
}
