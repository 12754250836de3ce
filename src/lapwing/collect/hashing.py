"""Local hashing: a report is a hash function of the respondent's own and, by randomized response, a hash.

[T15] Thorup: High speed hashing for integers and strings, sections 3.3 and 3.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from lapwing.arrays import Array, Flags, Integers
from lapwing.collect.encodings import spread_symbols
from lapwing.collect.local import ReportRows, Reports, as_bytes, as_numbers
from lapwing.collect.probabilities import WORD, SymbolCoin, spread
from lapwing.collect.protocol import FrequencyProtocol
from lapwing.noise.bits import BitSource
from lapwing.numbers import ball, enclose

Keys = npt.NDArray[np.uint16]
"""Values to hash: a row each, 16 bits a column."""

_MOST_BUCKETS = 1 << 12
_CHUNK = 1 << 20  # pairs of report and value at a time


@dataclass(frozen=True, slots=True)
class Hashing:
    """A family of hash functions to g buckets, and randomized response over the buckets.

    Law:        functions are drawn as 32-bit numbers a_1 ... a_m, b, uniformly; key (x_1 ... x_m) of 16-bit numbers
                falls into bucket ((sum a_i x_i + b mod 2^32) >> 16) g >> 16. The report names its bucket with
                probability P, each other one with Q. (Tests take 2 and 4 bits for 16 and 32.)
    Guarantee:  pure DP with epsilon: the functions do not depend on the key, and P <= e^epsilon Q (probabilities.py).
    Support:    a report (a, b, y) supports every key in bucket y. p = P. For a key that is not held q is the sum over
                buckets of c_y P[y] / 2^16, c_y of the 2^16 numbers being in bucket y: two different keys are hashed to
                independent uniform numbers (32 >= 16 + 16 - 1 bits, [T15]), so q is exact.
    """

    buckets: int
    coin: SymbolCoin
    columns: int = 1
    bits: int = 16
    """Of a hash, and of each part of a key; a function's numbers have twice as many."""

    @property
    def size(self) -> int:
        return 4 * (self.columns + 1) + (1 if self.buckets <= 1 << 8 else 2)

    @property
    def p(self) -> Fraction:
        return self.coin.p

    @property
    def q(self) -> Fraction:
        sizes = np.diff(-(-(np.arange(self.buckets + 1) << self.bits) // self.buckets)).tolist()
        whole = 1 << self.bits
        named = [self.coin.q + (self.coin.p - self.coin.q) * Fraction(c, whole) for c in sizes]
        return sum((Fraction(c, whole) * chance for c, chance in zip(sizes, named, strict=True)), Fraction(0))

    def randomize(self, keys: Keys, bits: BitSource) -> ReportRows:
        drawn = bits.words(len(keys) * (self.columns + 1), 2 * self.bits).astype("<u4") << np.uint32(32 - 2 * self.bits)
        functions = drawn.reshape(len(keys), self.columns + 1)
        buckets = self._buckets(functions, keys)
        named = spread_symbols(buckets.astype(np.int64), self.coin, bits)
        head = functions.view(np.uint8).reshape(len(keys), 4 * (self.columns + 1))
        return np.concatenate([head, as_bytes(named, self.size - head.shape[1])], axis=1)

    def supported(self, rows: ReportRows, keys: Keys) -> Flags:
        functions, named = self._split(rows)
        return np.asarray(self._buckets(functions[:, np.newaxis, :], keys[np.newaxis, :, :]) == named[:, np.newaxis])

    def count(self, rows: ReportRows, keys: Keys) -> Integers:
        functions, named = self._split(rows)
        counts = np.zeros(len(keys), np.int64)
        step = max(1, _CHUNK // max(1, min(len(keys), 64)))
        parts = [np.ascontiguousarray(functions[:, i]) for i in range(self.columns + 1)]
        for start in range(0, len(rows), step):
            *factors, shift = (part[start : start + step] for part in parts)
            bucket, room = named[start : start + step], np.empty(len(shift), np.uint32)
            for i, key in enumerate(keys):
                self._hash(factors, shift, key, room)
                counts[i] += np.count_nonzero(room == bucket)
        return counts

    def valid(self, rows: ReportRows) -> Flags:
        return self._split(rows)[1] < self.buckets

    def _hash(self, factors: Sequence[Array], shift: Array, key: Keys, out: Array) -> None:
        """The buckets of one key under many functions, without arrays in between."""
        np.multiply(factors[0], np.uint32(key[0]), out=out)
        for factor, part in zip(factors[1:], key[1:], strict=True):
            if part:
                out += factor * np.uint32(part)
        out += shift
        out >>= np.uint32(32 - self.bits)
        out *= np.uint32(self.buckets)
        out >>= np.uint32(self.bits)

    def _buckets(self, functions: Array, keys: Keys) -> Array:
        hashed = (functions[..., :-1] * keys.astype(np.uint32)).sum(axis=-1, dtype=np.uint32) + functions[..., -1]
        return np.asarray((hashed >> np.uint32(32 - self.bits)) * np.uint32(self.buckets) >> np.uint32(self.bits))

    def _split(self, rows: ReportRows) -> tuple[Array, Array]:
        head = 4 * (self.columns + 1)
        functions = np.ascontiguousarray(rows[:, :head]).view("<u4").reshape(len(rows), self.columns + 1)
        return functions, as_numbers(rows[:, head:]).astype(np.uint32)


def make_hashing(epsilon: Fraction, *, columns: int = 1, width: int = WORD) -> Hashing:
    """Hashing to the number of buckets with the least variance, e^epsilon + 1 rounded down or up. [WBLJ17, OLH]"""
    low, _ = enclose(lambda: ball(epsilon).exp())
    sizes = {min(int(low) + more, _MOST_BUCKETS) for more in (1, 2)}
    families = [Hashing(buckets, spread(epsilon, buckets, width=width), columns) for buckets in sorted(sizes)]
    return min(families, key=lambda hashing: hashing.q * (1 - hashing.q) / (hashing.p - hashing.q) ** 2)


@dataclass(frozen=True, init=False)
class LocalHashing(FrequencyProtocol):
    """Each respondent draws a hash function and sends it with the hash of their value, which is randomized.

    Law:        that of `Hashing` over the places of the values.
    Guarantee:  pure DP with epsilon for a change of the respondent's value, before anyone sees it.
    Error:      n Var = 4 e^epsilon / (e^epsilon - 1)^2 for rare values, as unary encoding, in 9 bytes whatever k is;
                the collector hashes every value for every report.
    Proof:      `Hashing`. [WBLJ17]
    Checked by: tests/collect/test_laws.py, tests/collect/test_protocols.py
    """

    kind: ClassVar[str] = "local hashing"

    @cached_property
    def hashing(self) -> Hashing:
        return make_hashing(self.epsilon, width=self.width)

    @property
    def size(self) -> int:
        return self.hashing.size

    @property
    def p(self) -> Fraction:
        return self.hashing.p

    @cached_property
    def q(self) -> Fraction:
        return self.hashing.q

    def randomize(self, places: Integers, bits: BitSource) -> ReportRows:
        return self.hashing.randomize(_keys(places), bits)

    def supported(self, rows: ReportRows, places: Sequence[int]) -> Flags:
        return self.hashing.supported(rows, _keys(places))

    def count(self, rows: ReportRows) -> Integers:
        return self.hashing.count(rows, _keys(range(len(self.values))))

    def valid(self, reports: Reports) -> Flags:
        return self.hashing.valid(reports.rows)


def _keys(places: Integers | Sequence[int]) -> Keys:
    return np.array(places, np.uint16).reshape(-1, 1)
