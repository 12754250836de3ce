"""Unary encoding: the report has one bit for each value, and each bit is flipped by a coin of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from lapwing.arrays import Flags, Integers
from lapwing.collect.probabilities import flip
from lapwing.collect.protocol import FrequencyProtocol, pack, padding_is_clear, unpack
from lapwing.collect.reports import ReportRows, Reports
from lapwing.noise.bits import BitSource

_CHUNK = 1 << 21  # words drawn at a time


@dataclass(frozen=True, init=False)
class UnaryEncoding(FrequencyProtocol):
    """Each respondent sends k bits: a fair coin for the value they hold, a rare 1 for every other value.

    Law:        bit v is 1 with probability p = 1/2 if v is held, and q = 1 / (1 + e^epsilon), rounded up, if not.
    Guarantee:  pure DP with epsilon for a change of the respondent's value, before anyone sees it.
    Error:      n Var = 4 e^epsilon / (e^epsilon - 1)^2 for rare values, whatever k is.
    Proof:      values v and v' give reports that differ in the laws of two bits only. The ratio of their probabilities
                is at most (p / q) ((1 - q) / (1 - p)) = (1 - q) / q <= e^epsilon (probabilities.py). [WBLJ17, OUE]
    Checked by: tests/collect/test_laws.py, tests/collect/test_protocols.py
    """

    kind: ClassVar[str] = "unary encoding"

    @cached_property
    def rare(self) -> int:
        """Of 2^width words, those that give a 1 where the value is not held."""
        return flip(self.epsilon, width=self.width)

    @property
    def size(self) -> int:
        return -(-len(self.values) // 8)

    @property
    def p(self) -> Fraction:
        return Fraction(1, 2)

    @property
    def q(self) -> Fraction:
        return Fraction(self.rare, 1 << self.width)

    def randomize(self, places: Integers, bits: BitSource) -> ReportRows:
        many, step = len(self.values), max(1, _CHUNK // len(self.values))
        rows = np.empty((places.size, self.size), np.uint8)
        for start in range(0, places.size, step):
            held = places[start : start + step]
            words = bits.words(held.size * many, self.width).reshape(held.size, many)
            ones = words < self.rare
            at = np.arange(held.size), held
            ones[at] = words[at] < 1 << (self.width - 1)
            rows[start : start + step] = pack(ones)
        return rows

    def supported(self, rows: ReportRows, places: Sequence[int]) -> Flags:
        return unpack(rows, places)

    def valid(self, reports: Reports) -> Flags:
        return padding_is_clear(reports.rows, len(self.values))
