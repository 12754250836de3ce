"""Ranks: what all quantile releases share.

A quantile is a rank T among the rows, such as q n. A cell with `below` rows before it and `up_to` rows up to its end is
off T by max(below - T, T - up_to, 0), its loss. Cells between two neighbouring values have the same loss, so the axis
is cut into pieces: the exponential law takes a piece by its number of cells, and then one of its cells uniformly.
Checked by: tests/mechanisms/quantiles/test_single_quantile.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from lapwing.arrays import Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.quantiles.axis import Tally
from lapwing.noise import uniform_integer
from lapwing.noise.exponential_race import sample_race

FINEST = 10**6
"""The largest denominator of a quantile: with at most 2^42 rows every loss fits into int64."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The pieces of an axis whose cells all have the same rank: the gaps, and the values by themselves.

    `below` and `up_to` are how many rows lie below a cell of the piece, and how many at or below it.
    """

    starts: Integers
    lengths: Integers
    below: Integers
    up_to: Integers

    def losses(self, rank: int, scale: int = 1) -> Integers:
        """The loss of each piece times `scale`, for the rank T = rank / scale."""
        return rank_losses(self.below * scale, self.up_to * scale, rank)

    def each(self, losses: Integers) -> Integers:
        """The loss of every cell, in order, from those of the pieces."""
        order = np.argsort(self.starts, kind="stable")  # two ascending runs: fast
        return np.repeat(losses[order], self.lengths[order])

    def draw(self, losses: Integers, rate: Fraction) -> tuple[int, int]:
        """A piece and a cell of it: P[cell] proportional to exp(-rate loss)."""
        (piece,) = sample_race(losses, rate, self.lengths)
        return piece, int(self.starts[piece]) + uniform_integer(int(self.lengths[piece]))


def pieces(tally: Tally, size: int) -> Pieces:
    """Cuts an axis of this many cells where the ranks change; gaps without cells are left out."""
    up_to = np.cumsum(tally.counts)
    ends = np.concatenate([np.array([-1]), tally.cells, np.array([size])])
    gaps = np.diff(ends) - 1
    ranks = np.concatenate([np.zeros(1, np.int64), up_to])
    some = gaps > 0
    starts = np.concatenate([ends[:-1][some] + 1, tally.cells])
    lengths = np.concatenate([gaps[some], np.ones_like(tally.cells)])
    return Pieces(starts, lengths, np.concatenate([ranks[some], ranks[:-1]]), np.concatenate([ranks[some], up_to]))


def rank_losses(below: Integers, up_to: Integers, rank: int) -> Integers:
    """max(below - rank, rank - up_to, 0)."""
    losses: Integers = np.maximum(np.maximum(below - rank, rank - up_to), 0)
    return losses


def read_quantiles(at: object, read: Callable[[object], Fraction]) -> tuple[Fraction, ...]:
    """Reads an ascending list of quantiles, each with `read`."""
    if isinstance(at, str | bytes) or not isinstance(at, Sequence) or not at:
        raise Misconfigured("`at` must be a list of quantiles, such as at=[0.25, 0.5, 0.75].")
    quantiles = tuple(read(quantile) for quantile in at)
    if any(low >= high for low, high in pairwise(quantiles)):
        raise Misconfigured("`at` is not ascending; pass each quantile once, smallest first.")
    return quantiles
