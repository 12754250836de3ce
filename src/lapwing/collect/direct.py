"""Randomized response over k values: the report is one value, most often the true one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from lapwing.arrays import Flags, Integers
from lapwing.collect.probabilities import SymbolCoin, spread
from lapwing.collect.protocol import FrequencyProtocol
from lapwing.collect.reports import ReportRows, Reports, as_bytes, as_numbers
from lapwing.noise.bits import BitSource


@dataclass(frozen=True, init=False)
class DirectEncoding(FrequencyProtocol):
    """Each respondent names the value they hold, or by chance another one.

    Law:        one word of 64 bits decides: the truth with probability p, each of the k - 1 other values with q.
    Guarantee:  pure DP with epsilon for a change of the respondent's value, before anyone sees it.
    Error:      n Var = q (1 - q) / (p - q)^2 for rare values; least of all protocols while k < 3 e^epsilon + 2.
    Proof:      a report r has probability p under the value r and q under any other, and q <= p <= e^epsilon q
                (probabilities.py). It supports the value it names. [KBR16]
    Checked by: tests/collect/test_laws.py, tests/collect/test_protocols.py
    """

    kind: ClassVar[str] = "direct encoding"

    @cached_property
    def coin(self) -> SymbolCoin:
        return spread(self.epsilon, len(self.values), width=self.width)

    @property
    def size(self) -> int:
        return 1 if len(self.values) <= 1 << 8 else 2

    @property
    def p(self) -> Fraction:
        return self.coin.p

    @property
    def q(self) -> Fraction:
        return self.coin.q

    def randomize(self, places: Integers, bits: BitSource) -> ReportRows:
        return as_bytes(spread_symbols(places, self.coin, bits), self.size)

    def supported(self, rows: ReportRows, places: Sequence[int]) -> Flags:
        flags: Flags = as_numbers(rows)[:, np.newaxis] == np.array(places)
        return flags

    def count(self, rows: ReportRows) -> Integers:
        return np.bincount(as_numbers(rows), minlength=len(self.values))

    def valid(self, reports: Reports) -> Flags:
        return as_numbers(reports.rows) < len(self.values)


def spread_symbols(truths: Integers, coin: SymbolCoin, bits: BitSource) -> Integers:
    """One symbol for each truth: word w gives the truth if w < truth, else other number (w - truth) // other."""
    words = bits.words(truths.size, coin.width).astype(np.uint64, copy=False)
    away = words >= np.uint64(coin.truth)
    chosen = truths.copy()
    others = ((words[away] - np.uint64(coin.truth)) // np.uint64(coin.other)).astype(np.int64)
    held = truths[away]
    chosen[away] = others + (others >= held)
    return chosen
