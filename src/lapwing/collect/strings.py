"""Frequent strings without a list of candidates, found letter by letter.

[WLJ19] Wang, Li, Jha: Locally differentially private heavy hitter identification (the prefix extending method).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.answers.tabular import Tabular
from lapwing.arrays import Flags, Floats, Integers
from lapwing.collect.hashing import Hashing, Keys, make_hashing
from lapwing.collect.intervals import Support, share_of_population
from lapwing.collect.local import LocalProtocol, ReportRows, Reports, as_list
from lapwing.collect.probabilities import read_epsilon
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type
from lapwing.noise.bits import BitSource, sample_uniform
from lapwing.numbers import Number, count, inside_unit
from lapwing.privacy.loss import set_fields

LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MOST_CODES = 1 << 12  # of one step
_MOST_LENGTH = 64


@dataclass(frozen=True, init=False)
class FrequentStrings(LocalProtocol):
    """Collects strings of letters from an alphabet, and finds those that many respondents hold.

    Law:        a string is cut to `length` letters and padded; `step` letters at a time make 16-bit codes. Each
                respondent draws a level, uniformly, and sends it with a report of `Hashing` on the first codes up to
                that level. The collector extends the most frequent prefixes level by level, and estimates whole strings
                from the reports of the last level.
    Guarantee:  pure DP with epsilon for any change of the respondent's string, before anyone sees it.
    Error:      a share of the last level's reports, n / levels of them, by local hashing; intervals hold for all
                candidates of that level together, so a string without holders is listed with probability
                1 - confidence at most.
    Proof:      the level does not depend on the string, and given the level the report is that of `Hashing`. Candidates
                of the last level follow from other respondents' reports, so they are fixed before it is read; its
                respondents are a random part of all, for whom the binomial interval is on the safe side. [WLJ19]
    Checked by: tests/collect/test_strings.py
    """

    kind: ClassVar[str] = "frequent strings"

    epsilon: Fraction
    alphabet: str
    length: int
    step: int

    def __init__(self, *, epsilon: Number, length: int = 8, alphabet: str = LETTERS, step: int | None = None) -> None:
        if not alphabet or len(set(alphabet)) != len(alphabet):
            raise Misconfigured("`alphabet` must be a text of different letters. Pass for example alphabet='abc'.")
        most = count(length, "length")
        if most > _MOST_LENGTH:
            raise Misconfigured(f"`length` is {most}; at most {_MOST_LENGTH} letters are collected.")
        symbols = len(alphabet) + 1
        fits = [size for size in range(1, 9) if symbols**size <= _MOST_CODES]
        if not fits:
            raise Misconfigured(f"`alphabet` has {len(alphabet)} letters; at most {_MOST_CODES - 1:,} are collected.")
        size = min(max(fits), most) if step is None else count(step, "step")
        if size not in fits:
            raise Misconfigured(f"`step` is {size}; with this alphabet it can be 1 to {max(fits)}.")
        set_fields(self, epsilon=read_epsilon(epsilon), alphabet=alphabet, length=most, step=size)

    @property
    def levels(self) -> int:
        """How many codes a string has."""
        return -(-self.length // self.step)

    @cached_property
    def hashing(self) -> Hashing:
        return make_hashing(self.epsilon, columns=self.levels)

    @property
    def size(self) -> int:
        return 1 + self.hashing.size

    @property
    def facts(self) -> dict[str, Any]:
        shape = {"alphabet": self.alphabet, "length": self.length, "step": self.step}
        return {"protocol": self.kind, "epsilon": str(self.epsilon), **shape}

    def randomize_all(self, values: Any, bits: BitSource) -> ReportRows:
        codes = self._codes(as_list(values))
        levels = sample_uniform(self.levels, len(codes), bits=bits)
        prefixes = np.where(np.arange(self.levels) <= levels[:, np.newaxis], codes, 0).astype(np.uint16)
        return np.concatenate([levels.astype(np.uint8)[:, np.newaxis], self.hashing.randomize(prefixes, bits)], axis=1)

    def find(
        self, reports: Reports | Iterable[bytes], *, confidence: Number = 0.95, breadth: int = 64
    ) -> FrequentFound:
        """The strings that certainly occur, with their shares; `breadth` prefixes are followed at each level."""
        level, keep = inside_unit(confidence, "confidence"), count(breadth, "breadth")
        rows = self.check(reports).rows
        prefixes = np.zeros((1, self.levels), np.uint16)
        estimates = np.zeros(1)
        counts, n = np.zeros(1, np.int64), 0
        for depth in range(self.levels):
            mine = rows[rows[:, 0] == depth][:, 1:]
            best = np.argsort(-estimates, kind="stable")[:keep]
            prefixes = self._extend(prefixes[best], depth)
            counts, n = self.hashing.count(mine, prefixes), len(mine)
            if not n:
                raise Misconfigured(f"Level {depth + 1} of {self.levels} has no report. Collect more, or raise `step`.")
            estimates = self.shares(counts, n)
        return FrequentFound(self, self._texts(prefixes), counts, n, len(rows), level)

    def shares(self, counts: Integers, n: int) -> Floats:
        """Unbiased shares from how many of n reports support each string."""
        return (counts / n - float(self.hashing.q)) / float(self.hashing.p - self.hashing.q)

    def valid(self, reports: Reports) -> Flags:
        return (reports.rows[:, 0] < self.levels) & self.hashing.valid(reports.rows[:, 1:])

    def _codes(self, texts: list[Any]) -> Keys:
        """Strings as codes of `step` letters each, the first letter the highest digit."""
        digit = {letter: i + 1 for i, letter in enumerate(self.alphabet)}
        digits = np.zeros((len(texts), self.levels * self.step), np.int64)
        for row, text in enumerate(texts):
            if not isinstance(text, str) or not text or any(letter not in digit for letter in text):
                raise Misconfigured("a value contains characters outside the alphabet. Replace them before it is sent.")
            digits[row, : min(len(text), self.length)] = [digit[letter] for letter in text[: self.length]]
        return (digits.reshape(len(texts), self.levels, self.step) @ self._powers).astype(np.uint16)

    @cached_property
    def _powers(self) -> Integers:
        return (len(self.alphabet) + 1) ** np.arange(self.step - 1, -1, -1)

    def _digits(self, codes: Integers) -> Integers:
        """The letters of each code, in a last axis of their own; 0 is padding."""
        return codes[..., np.newaxis] // self._powers % (len(self.alphabet) + 1)

    @cached_property
    def _steps(self) -> Integers:
        """Every code of one step: letters, then padding to the end; the first code is all padding."""
        codes = np.arange((len(self.alphabet) + 1) ** self.step)
        padding = self._digits(codes) == 0
        return np.asarray(codes[(padding == np.maximum.accumulate(padding, axis=1)).all(axis=1)])

    def _extend(self, prefixes: Keys, depth: int) -> Keys:
        """Each prefix with every next code; one that has ended continues with padding only."""
        symbols = len(self.alphabet) + 1
        last = symbols ** max(0, (depth + 1) * self.step - self.length)  # letters beyond `length` are padding
        extended = []
        for prefix in prefixes:
            ended = depth > 0 and prefix[depth - 1] % symbols == 0
            codes = self._steps[:1] if ended else self._steps[1:] if depth == 0 else self._steps
            codes = codes[codes % last == 0]
            longer = np.repeat(prefix[np.newaxis], len(codes), axis=0)
            longer[:, depth] = codes
            extended.append(longer)
        return np.concatenate(extended)

    def _texts(self, prefixes: Keys) -> tuple[str, ...]:
        digits = self._digits(prefixes.astype(np.int64)).reshape(len(prefixes), -1)
        return tuple("".join(self.alphabet[i - 1] for i in row if i) for row in digits.tolist())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FrequentFound(Tabular):
    """Strings whose share is certainly above 0, the most frequent first."""

    protocol: FrequentStrings
    candidates: tuple[str, ...] = field(repr=False)
    counts: Integers = field(repr=False)
    last: int
    """Reports of the last level."""
    n: int
    confidence: Fraction

    @property
    def strings(self) -> tuple[str, ...]:
        return tuple(self.candidates[i] for i in self._found(self.confidence)[0])

    def table(self, confidence: Number | None = None, *, simultaneous: bool = False) -> AnswerTable:  # noqa: ARG002
        """Intervals hold for all candidates together, whatever is asked."""
        level = self._level(confidence)
        chosen, low, high = self._found(level)
        shares = self.protocol.shares(self.counts, self.last)
        names = np.array([self.candidates[i] for i in chosen], object)
        columns = (
            AnswerColumn("value", Type.TEXT, names),
            AnswerColumn("share", Type.REAL, shares[chosen], low[chosen], high[chosen]),
        )
        paid = f"{self.n:,} reports, epsilon = {float(self.protocol.epsilon):.6g} each"
        least = f"{self.last:,} reports are about whole strings; they show shares of {self._least(level):.2g} or more."
        return AnswerTable(columns, level, paid, (least,))

    def _found(self, level: Fraction) -> tuple[Integers, Floats, Floats]:
        """The candidates whose interval is above 0, and the ends of all intervals."""
        hashing = self.protocol.hashing
        support, outside = Support(float(hashing.p), float(hashing.q)), float((1 - level) / len(self.counts))
        low, high = share_of_population(self.counts, self.last, support, outside)
        order = np.argsort(-self.protocol.shares(self.counts, self.last), kind="stable")
        return order[low[order] > 0], low, high

    def _least(self, level: Fraction) -> float:
        """About twice the half-width of an interval for a rare string."""
        from scipy.special import ndtri  # slow import

        hashing = self.protocol.hashing
        p, q = float(hashing.p), float(hashing.q)
        z = -float(ndtri(float((1 - level) / len(self.counts)) / 2))
        return 2 * z * float(np.sqrt(q * (1 - q) / self.last)) / (p - q)
