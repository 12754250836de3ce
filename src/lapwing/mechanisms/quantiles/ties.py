"""Ties spread out: equal rows get places of their own, so that a cut can pass between them.

Every point of the axis is divided into S = 2^bits places. The i-th row with the same value (i = 0, 1, ...) sits at
place reversed(i mod S): the number whose binary digits are those of i backwards. So the rows of one value lie evenly:
any S / 2^b places in a row that start at a multiple of S / 2^b hold ceil(t / 2^b) of its t rows at most, for every b.

Lemma (spread). One more row in the data is one more row on the places, and none of the others moves.
Proof. With t rows of its value before, it takes place reversed(t mod S); the rows 0 .. t - 1 stay where they are.
Checked by: tests/mechanisms/quantiles/test_spread.py
"""

from __future__ import annotations

import numpy as np

from lapwing.arrays import Integers
from lapwing.mechanisms.quantiles.axis import Tally

_STEPS = 64  # edges to each side of a rank


class Spread:
    """Rows on the places p = S cell + place, known by how many lie below any p."""

    def __init__(self, tally: Tally, bits: int) -> None:
        self._cells, self._counts, self._bits = tally.cells, tally.counts, bits
        self._up_to = np.cumsum(tally.counts)
        self._below = self._up_to - tally.counts

    def ranks(self, places: Integers) -> Integers:
        """How many rows lie below each place."""
        cells, inner = places >> self._bits, places & ((1 << self._bits) - 1)
        index = np.searchsorted(self._cells, cells)
        ranks: Integers = np.append(self._below, self._up_to[-1:].sum())[index]
        inside = np.flatnonzero((inner > 0) & (np.append(self._cells, -1)[index] == cells))
        ranks[inside] += rows_before(self._counts[index[inside]], inner[inside], self._bits)
        return ranks

    def edges(self, start: int, stop: int, rank: float, step: float) -> tuple[Integers, Integers]:
        """Ascending places from `start` to `stop`, and their ranks.

        The ends of all values lie among them, and both sides of the rows of about rank + i step, |i| <= 64.
        """
        first, last = (int(np.searchsorted(self._cells, end >> self._bits)) for end in (start, stop))
        cells, size = self._cells[first : last + 1], 1 << self._bits
        edges = np.stack([cells * size, (cells + 1) * size], axis=1).ravel()
        ranks = np.stack([self._below[first : last + 1], self._up_to[first : last + 1]], axis=1).ravel()
        inside = (edges > start) & (edges < stop)
        edges, ranks = edges[inside], ranks[inside]
        near = self._places(np.unique(np.floor(rank + step * np.arange(-_STEPS, _STEPS + 1)).astype(np.int64)))
        extra = np.unique(np.concatenate([near, near + 1, [start, stop]]).clip(start, stop))
        where = np.searchsorted(edges, extra)
        return np.insert(edges, where, extra), np.insert(ranks, where, self.ranks(extra))

    def _places(self, ranks: Integers) -> Integers:
        """Where the rows of these ranks (0, 1, ...) sit; ranks that no row has are left out."""
        ranks = ranks[(ranks >= 0) & (ranks < self._up_to[-1:].sum())]
        index = np.searchsorted(self._up_to, ranks, side="right")
        inner = place_of(self._counts[index], ranks - self._below[index], self._bits)
        return (self._cells[index] << self._bits) + inner


def rows_before(rows: Integers, place: Integers, bits: int) -> Integers:
    """#{i < rows: reversed(i mod S) < place}, for 0 <= place < S = 2^bits.

    reversed(i) < place if for some d they agree in the first d digits, and then `place` has a 1 where it has a 0: that
    is i = c modulo 2^(d+1), c the first d digits of `place` backwards. For each d the i of that kind below rows mod S
    are counted; and every full round of S rows has `place` of them.
    """
    d = np.arange(bits)
    digits = place[:, None] >> (bits - 1 - d) & 1
    first = np.cumsum(digits << d, axis=1) - (digits << d)
    rest = (rows & ((1 << bits) - 1))[:, None]
    total: Integers = (rows >> bits) * place + (digits * ((rest - first + (2 << d) - 1) >> (d + 1))).sum(axis=1)
    return total


def place_of(rows: Integers, rank: Integers, bits: int) -> Integers:
    """The place p < S with rows_before(rows, p) <= rank < rows_before(rows, p + 1), for 0 <= rank < rows.

    Digit by digit: the half that starts with a 0 holds a known number of rows; a rank beyond it lies in the other half.
    """
    rest, rounds = rows & ((1 << bits) - 1), rows >> bits
    place, backwards, rank = np.zeros_like(rank), np.zeros_like(rank), rank.copy()
    for d in range(bits):
        lower = ((rest - backwards + (2 << d) - 1) >> (d + 1)) + (rounds << (bits - 1 - d))
        digit = (rank >= lower).astype(np.int64)
        rank -= digit * lower
        backwards += digit << d
        place += digit << (bits - 1 - d)
    return place
