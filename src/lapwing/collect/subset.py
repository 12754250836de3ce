"""Subset selection: the report is a set of w values, which holds the true one more often than chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from lapwing.arrays import Flags, Integers
from lapwing.collect.probabilities import WORD, ceil_share, require_bits
from lapwing.collect.protocol import FrequencyProtocol, pack, padding_is_clear, unpack
from lapwing.collect.reports import ReportRows, Reports
from lapwing.noise.bits import BitSource
from lapwing.noise.uniform import sample_uniform

_CHUNK = 1 << 22  # flags made at a time


@dataclass(frozen=True, init=False)
class SubsetSelection(FrequencyProtocol):
    """Each respondent sends a set of w of the k values.

    Law:        w is k / (1 + e^epsilon), rounded to whichever side errs less. The set holds the true value with
                probability p = w e^epsilon / (w e^epsilon + k - w), rounded down; all sets that hold it are equally
                likely, and all that do not.
    Guarantee:  pure DP with epsilon for a change of the respondent's value, before anyone sees it.
    Error:      the least variance of all; with w = 1 it is direct encoding.
    Proof:      a set that holds v and not v' has probability p / C(k-1, w-1) under v and (1 - p) / C(k-1, w) under v',
                a ratio of p (k - w) / ((1 - p) w). It is at most e^epsilon since 1 - p is rounded up from (k - w) /
                (w e^epsilon + k - w), and at least 1. Sets that hold both or neither have the same probability under
                both. q = (p (w - 1) + (1 - p) w) / (k - 1) by symmetry. [YB18]
    [YB18] Ye, Barg: Optimal schemes for discrete distribution estimation under locally differential privacy.
    Checked by: tests/collect/test_laws.py, tests/collect/test_protocols.py
    """

    kind: ClassVar[str] = "subset selection"

    @cached_property
    def chosen(self) -> int:
        """How many values a report holds: w."""
        wanted = len(self.values) / (1 + math.exp(float(self.epsilon)))
        sizes = {max(1, math.floor(wanted)), min(max(1, math.ceil(wanted)), len(self.values) - 1)}
        return min(sizes, key=self._variance_with)

    def _variance_with(self, size: int) -> float:
        """n Var of a rare value if a report held this many; it only decides which size is used."""
        many, odds = len(self.values), math.exp(float(self.epsilon))
        p = size * odds / (size * odds + many - size)
        q = (p * (size - 1) + (1 - p) * size) / (many - 1)
        return q * (1 - q) / (p - q) ** 2

    @cached_property
    def absent(self) -> int:
        """Of 2^width words, those that leave the true value out."""
        rest = len(self.values) - self.chosen  # (1 - p) 2^width = rest 2^width / (w e^epsilon + rest), rounded up
        made = ceil_share(self.epsilon, rest, per=rest, times=self.chosen, width=self.width)
        require_bits(made * len(self.values) <= rest << self.width, self.width)  # p (k - w) >= (1 - p) w
        return made

    @property
    def size(self) -> int:
        return -(-len(self.values) // 8)

    @property
    def p(self) -> Fraction:
        return 1 - Fraction(self.absent, 1 << self.width)

    @property
    def q(self) -> Fraction:
        p, w = self.p, self.chosen
        return (p * (w - 1) + (1 - p) * w) / (len(self.values) - 1)

    def randomize(self, places: Integers, bits: BitSource) -> ReportRows:
        step = max(1, _CHUNK // len(self.values))
        parts = [self._randomize(places[start : start + step], bits) for start in range(0, places.size, step)]
        return np.concatenate([np.empty((0, self.size), np.uint8), *parts])

    def _randomize(self, places: Integers, bits: BitSource) -> ReportRows:
        many, w = len(self.values), self.chosen
        holds = bits.words(places.size, self.width) >= self.absent
        others = np.zeros((places.size, many - 1), np.bool_)
        for side, size in ((holds, w - 1), (~holds, w)):
            others[side] = sample_subsets(many - 1, size, int(np.count_nonzero(side)), bits, self.width)
        flags = np.zeros((places.size, many), np.bool_)
        columns = np.arange(many - 1)
        np.put_along_axis(flags, columns + (columns >= places[:, np.newaxis]), others, axis=1)
        flags[np.arange(places.size), places] = holds
        return pack(flags)

    def supported(self, rows: ReportRows, places: Sequence[int]) -> Flags:
        return unpack(rows, places)

    def valid(self, reports: Reports) -> Flags:
        ones = np.bitwise_count(reports.rows).sum(axis=1)
        flags: Flags = padding_is_clear(reports.rows, len(self.values)) & (ones == self.chosen)
        return flags


def sample_subsets(many: int, size: int, count: int, bits: BitSource, width: int = WORD) -> Flags:
    """Independent uniform subsets of this size, a row of flags each.

    Proof: after the step of j the chosen elements are a uniform subset of 0..j of their number: j is chosen with the
    right probability, being taken exactly if the uniform draw from 0..j is j or was chosen before. [Floyd]
    """
    flags = np.zeros((count, many), np.bool_)
    rows = np.arange(count)
    for last in range(many - size, many):
        drawn = sample_uniform(last + 1, count, bits=bits, width=width)
        taken = flags[rows, drawn]
        flags[rows, np.where(taken, last, drawn)] = True
    return flags
