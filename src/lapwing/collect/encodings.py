"""Direct encoding, unary encoding, subset selection and RAPPOR: one of k values in one report.

[KBR16] Kairouz, Bonawitz, Ramage: Discrete distribution estimation under local privacy.
[YB18] Ye, Barg: Optimal schemes for discrete distribution estimation under locally differential privacy.
[EPK14] Erlingsson, Pihur, Korolova: RAPPOR: randomized aggregatable privacy-preserving ordinal response.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lapwing.arrays import Flags, Integers
from lapwing.collect.local import ReportRows, Reports, as_bytes, as_numbers
from lapwing.collect.probabilities import WORD, SymbolCoin, ceil_share, flip, read_epsilon, require_bits, spread
from lapwing.collect.protocol import FrequencyProtocol
from lapwing.errors import Misconfigured
from lapwing.noise.bits import SYSTEM, BitSource, sample_uniform
from lapwing.numbers import Number, shown
from lapwing.privacy.loss import Pure, set_fields

_CHUNK = 1 << 21  # bits of reports made at a time


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
        return np.asarray(as_numbers(rows)[:, np.newaxis] == np.array(places))

    def count(self, rows: ReportRows) -> Integers:
        return np.bincount(as_numbers(rows), minlength=len(self.values))

    def valid(self, reports: Reports) -> Flags:
        return as_numbers(reports.rows) < len(self.values)


def spread_symbols(truths: Integers, coin: SymbolCoin, bits: BitSource) -> Integers:
    """One symbol for each truth: word w gives the truth if w < truth, else other number (w - truth) // other."""
    words = bits.words(truths.size, coin.width).astype(np.uint64, copy=False)
    away = words >= np.uint64(coin.truth)
    symbols = truths.copy()
    others = ((words[away] - np.uint64(coin.truth)) // np.uint64(coin.other)).astype(np.int64)
    symbols[away] = others + (others >= truths[away])
    return symbols


class BitVectorProtocol(FrequencyProtocol):
    """A report has one bit for each value, and supports the values whose bit is 1."""

    @abstractmethod
    def randomize_bits(self, places: Integers, bits: BitSource) -> Flags:
        """The bits of respondents who hold the values in these places: a row each."""

    @property
    def size(self) -> int:
        return -(-len(self.values) // 8)

    def randomize(self, places: Integers, bits: BitSource) -> ReportRows:
        step = max(1, _CHUNK // len(self.values))
        chunks = [self.randomize_bits(places[i : i + step], bits) for i in range(0, places.size, step)]
        return np.concatenate([np.empty((0, self.size), np.uint8), *map(pack, chunks)])

    def supported(self, rows: ReportRows, places: Sequence[int]) -> Flags:
        if places == range(len(places)):
            return np.unpackbits(rows, axis=1, count=len(places), bitorder="little").view(np.bool_)
        at = np.array(places)
        return (rows[:, at >> 3] >> (at & 7).astype(np.uint8) & 1).view(np.bool_)

    def valid(self, reports: Reports) -> Flags:
        """Whether the bits after the last value are 0."""
        spare = self.size * 8 - len(self.values)
        return reports.rows[:, -1] >> np.uint8(8 - spare) == 0 if spare else np.ones(len(reports), np.bool_)


def pack(flags: Flags) -> ReportRows:
    return np.packbits(flags, axis=1, bitorder="little")


@dataclass(frozen=True, init=False)
class UnaryEncoding(BitVectorProtocol):
    """Each respondent sends k bits: a fair coin for the value they hold, a rare 1 for every other value.

    Law:        bit v is 1 with probability p = 1/2 if v is held, and q = 1 / (1 + e^epsilon), rounded up, if not.
    Guarantee:  pure DP with epsilon for a change of the respondent's value, before anyone sees it.
    Error:      n Var = 4 e^epsilon / (e^epsilon - 1)^2 for rare values, whatever k is.
    Proof:      values v and v' give reports that differ in the laws of two bits only. The ratio of their probabilities
                is at most (p / q) ((1 - q) / (1 - p)) = (1 - q) / q <= e^epsilon (probabilities.py). [WBLJ17, OUE]
    Checked by: tests/collect/test_laws.py, tests/collect/test_protocols.py
    """

    kind: ClassVar[str] = "unary encoding"
    p: ClassVar[Fraction] = Fraction(1, 2)

    @cached_property
    def rare(self) -> int:
        """Of 2^width words, those that give a 1 where the value is not held."""
        return flip(self.epsilon, width=self.width)

    @property
    def q(self) -> Fraction:
        return Fraction(self.rare, 1 << self.width)

    def randomize_bits(self, places: Integers, bits: BitSource) -> Flags:
        words = bits.words(places.size * len(self.values), self.width).reshape(places.size, len(self.values))
        ones: Flags = words < self.rare
        held = np.arange(places.size), places
        ones[held] = words[held] < 1 << (self.width - 1)
        return ones


@dataclass(frozen=True, init=False)
class SubsetSelection(BitVectorProtocol):
    """Each respondent sends a set of w of the k values, which holds the true one more often than chance.

    Law:        w is k / (1 + e^epsilon), rounded to whichever side errs less. The set holds the true value with
                probability p = w e^epsilon / (w e^epsilon + k - w), rounded down; all sets that hold it are equally
                likely, and all that do not.
    Guarantee:  pure DP with epsilon for a change of the respondent's value, before anyone sees it.
    Error:      the least variance of all; with w = 1 it is direct encoding.
    Proof:      a set that holds v and not v' has probability p / C(k-1, w-1) under v and (1 - p) / C(k-1, w) under v',
                a ratio of p (k - w) / ((1 - p) w). It is at most e^epsilon since 1 - p is rounded up from (k - w) /
                (w e^epsilon + k - w), and at least 1. Sets that hold both or neither have the same probability under
                both. q = (p (w - 1) + (1 - p) w) / (k - 1) by symmetry. [YB18]
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
        k, odds = len(self.values), math.exp(float(self.epsilon))
        p = size * odds / (size * odds + k - size)
        q = (p * (size - 1) + (1 - p) * size) / (k - 1)
        return q * (1 - q) / (p - q) ** 2

    @cached_property
    def absent(self) -> int:
        """Of 2^width words, those that leave the true value out."""
        rest = len(self.values) - self.chosen  # (1 - p) 2^width = rest 2^width / (w e^epsilon + rest), rounded up
        absent = ceil_share(self.epsilon, rest, per=rest, times=self.chosen, width=self.width)
        require_bits(absent * len(self.values) <= rest << self.width, self.width)  # p (k - w) >= (1 - p) w
        return absent

    @property
    def p(self) -> Fraction:
        return 1 - Fraction(self.absent, 1 << self.width)

    @property
    def q(self) -> Fraction:
        p, w = self.p, self.chosen
        return (p * (w - 1) + (1 - p) * w) / (len(self.values) - 1)

    def randomize_bits(self, places: Integers, bits: BitSource) -> Flags:
        k, w = len(self.values), self.chosen
        holds = bits.words(places.size, self.width) >= self.absent
        others = np.zeros((places.size, k - 1), np.bool_)
        for side, size in ((holds, w - 1), (~holds, w)):
            others[side] = sample_subsets(k - 1, size, int(np.count_nonzero(side)), bits, self.width)
        flags = np.zeros((places.size, k), np.bool_)
        columns = np.arange(k - 1)
        np.put_along_axis(flags, columns + (columns >= places[:, np.newaxis]), others, axis=1)
        flags[np.arange(places.size), places] = holds
        return flags

    def valid(self, reports: Reports) -> Flags:
        return np.asarray(super().valid(reports) & (np.bitwise_count(reports.rows).sum(axis=1) == self.chosen))


def sample_subsets(elements: int, size: int, count: int, bits: BitSource, width: int = WORD) -> Flags:
    """Independent uniform subsets of this size, a row of flags each.

    Proof: after the step of j the chosen elements are a uniform subset of 0..j of their number: j is chosen with the
    right probability, being taken exactly if the uniform draw from 0..j is j or was chosen before. [Floyd]
    """
    flags = np.zeros((count, elements), np.bool_)
    rows = np.arange(count)
    for last in range(elements - size, elements):
        drawn = sample_uniform(last + 1, count, bits=bits, width=width)
        flags[rows, np.where(flags[rows, drawn], last, drawn)] = True
    return flags


@dataclass(frozen=True, init=False)
class Rappor(BitVectorProtocol):
    """Bits for each value, flipped once for ever and once more for each report.

    Law:        a respondent's k bits (1 for the value held) are each flipped with probability a, once, and kept: the
                permanent bits. Every report flips each permanent bit with probability b, anew.
    Guarantee:  pure DP with `epsilon` for one report and with `forever` for all reports of one client together, however
                many, for the one value that it was enrolled with. A change over time is not protected: a respondent
                who enrols again, or stops, because their value changed shows when it did.
    Error:      that of unary encoding with p = 1 - r and q = r, r = a + b - 2 a b.
    Proof:      all reports are computed from the permanent bits, whose law for two values differs in two bits, by the
                ratio ((1 - a) / a)^2 <= e^forever; one report has the ratio ((1 - r) / r)^2 <= e^epsilon. Both a and b
                are rounded up, and r grows with each of them while they are at most 1/2. [EPK14]
    Checked by: tests/collect/test_protocols.py
    """

    kind: ClassVar[str] = "RAPPOR"

    forever: Fraction = field(default=Fraction(1))

    def __init__(self, values: Sequence[Hashable], *, epsilon: Number, forever: Number, width: int = WORD) -> None:
        super().__init__(values, epsilon=epsilon, width=width)
        set_fields(self, forever=read_epsilon(forever))
        if self.forever <= self.epsilon:
            raise Misconfigured(
                f"`forever` is {shown(forever)}; it must exceed `epsilon`, what one report costs. "
                "Pass for example epsilon=1, forever=2."
            )

    @property
    def loss(self) -> Pure:
        """The loss of all reports of one client together."""
        return Pure(self.forever)

    @property
    def facts(self) -> dict[str, Any]:
        return {**super().facts, "forever": str(self.forever)}

    @cached_property
    def permanent(self) -> int:
        """Of 2^width words, those that flip a permanent bit: a."""
        return flip(self.forever / 2, width=self.width)

    @cached_property
    def instant(self) -> int:
        """Of 2^width words, those that flip a bit of one report: b = (r - a) / (1 - 2 a), rounded up."""
        whole, wanted = 1 << self.width, flip(self.epsilon / 2, width=self.width)
        return -(-(wanted - self.permanent) * whole // (whole - 2 * self.permanent))

    @property
    def p(self) -> Fraction:
        return 1 - self.q

    @property
    def q(self) -> Fraction:
        a, b = Fraction(self.permanent, 1 << self.width), Fraction(self.instant, 1 << self.width)
        return a + b - 2 * a * b

    def enroll(self, value: Any, *, bits: BitSource = SYSTEM) -> RapporClient:
        """A respondent who holds this value, with permanent bits of their own."""
        return RapporClient(self, value, bits)

    def permanent_bits(self, places: Integers, bits: BitSource) -> Flags:
        """Permanent bits of respondents who hold the values in these places."""
        return self._flip(places[:, np.newaxis] == np.arange(len(self.values)), self.permanent, bits)

    def report_bits(self, permanent: Flags, bits: BitSource) -> Flags:
        """The bits of a report from each row of permanent bits."""
        return self._flip(permanent, self.instant, bits)

    def randomize_bits(self, places: Integers, bits: BitSource) -> Flags:
        return self.report_bits(self.permanent_bits(places, bits), bits)

    def _flip(self, flags: Flags, threshold: int, bits: BitSource) -> Flags:
        return flags ^ (bits.words(flags.size, self.width).reshape(flags.shape) < threshold)


class RapporClient:
    """The state of a respondent: one value and its permanent bits, never the reports' own randomness.

    The value is kept in the clear, to refuse another one: a client stays on the device.
    """

    def __init__(self, protocol: Rappor, value: Any, bits: BitSource = SYSTEM) -> None:
        self._protocol, self._place = protocol, protocol.places([value])
        self._permanent = protocol.permanent_bits(self._place, bits)

    def report(self, *value: Any, bits: BitSource = SYSTEM) -> bytes:
        """A report from the permanent bits. A value is compared with the one enrolled with; another is refused."""
        if value and self._protocol.places([*value]).tolist() != self._place.tolist():
            raise Misconfigured(
                "a client of RAPPOR reports one value for ever: reports of a second one would show when it changed. "
                "Call report() to send the first again: silence shows the change too. For answers that change, use "
                "lw.collect.choose_panel, or lw.collect.choose at epsilon / epochs, with a report in every epoch."
            )
        return pack(self._protocol.report_bits(self._permanent, bits)).tobytes()

    @property
    def loss(self) -> Pure:
        """The loss of all reports together, for the value that the client was enrolled with."""
        return self._protocol.loss
