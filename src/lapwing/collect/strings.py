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
from lapwing.noise.bits import BitSource
from lapwing.noise.uniform import sample_uniform
from lapwing.numbers import Number, count, inside_unit

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
        object.__setattr__(self, "epsilon", read_epsilon(epsilon))
        object.__setattr__(self, "alphabet", alphabet)
        object.__setattr__(self, "length", most)
        object.__setattr__(self, "step", size)

    @property
    def levels(self) -> int:
        """How many codes a string has."""
        return -(-self.length // self.step)

    @cached_property
    def hashing(self) -> Hashing:
        return make_hashing(self.epsilon, columns=self.levels)

    @property
    def size(self) -> int:
        """Bytes of a report, whatever it says."""
        return 1 + self.hashing.size

    @property
    def facts(self) -> dict[str, Any]:
        shape = {"alphabet": self.alphabet, "length": self.length, "step": self.step}
        return {"protocol": self.kind, "epsilon": str(self.epsilon), **shape}

    def randomize_all(self, values: Any, bits: BitSource) -> ReportRows:
        return self._randomize(self._codes(values), bits)

    def find(
        self, reports: Reports | Iterable[bytes], *, confidence: Number = 0.95, breadth: int = 64
    ) -> FrequentFound:
        """The strings that certainly occur, with their shares; `breadth` prefixes are followed at each level."""
        level, keep = inside_unit(confidence, "confidence"), count(breadth, "breadth")
        rows = self.check(reports).rows
        prefixes = np.zeros((1, self.levels), np.uint16)
        estimates = np.zeros(1)
        counts, many = np.zeros(1, np.int64), 0
        for depth in range(self.levels):
            mine = rows[rows[:, 0] == depth][:, 1:]
            best = np.argsort(-estimates, kind="stable")[:keep]
            prefixes = self._extend(prefixes[best], depth)
            counts, many = self.hashing.count(mine, prefixes), len(mine)
            if not many:
                raise Misconfigured(
                    f"Level {depth + 1} of {self.levels} has no report. Collect more, or take a larger `step`."
                )
            estimates = (counts / many - float(self.hashing.q)) / float(self.hashing.p - self.hashing.q)
        return FrequentFound(self, self._texts(prefixes), counts, many, len(rows), level)

    def valid(self, reports: Reports) -> Flags:
        """Which reports the randomizer could have sent."""
        return (reports.rows[:, 0] < self.levels) & self.hashing.valid(reports.rows[:, 1:])

    def _randomize(self, codes: Keys, bits: BitSource) -> ReportRows:
        levels = sample_uniform(self.levels, len(codes), bits=bits)
        prefixes = np.where(np.arange(self.levels) <= levels[:, np.newaxis], codes, 0).astype(np.uint16)
        return np.concatenate([levels.astype(np.uint8)[:, np.newaxis], self.hashing.randomize(prefixes, bits)], axis=1)

    def _codes(self, values: Any) -> Keys:
        place = {letter: i + 1 for i, letter in enumerate(self.alphabet)}
        listed = as_list(values)
        numbers = np.zeros((len(listed), self.levels * self.step), np.int64)
        for row, text in enumerate(listed):
            if not isinstance(text, str) or not text or any(letter not in place for letter in text):
                raise Misconfigured("a value contains characters outside the alphabet. Replace them before it is sent.")
            letters = text[: self.length]
            numbers[row, : len(letters)] = [place[letter] for letter in letters]
        return self._join(numbers)

    def _join(self, numbers: Integers) -> Keys:
        """Letters as codes of `step` letters, the first letter the highest digit."""
        digits = (len(self.alphabet) + 1) ** np.arange(self.step - 1, -1, -1)
        return (numbers.reshape(len(numbers), self.levels, self.step) @ digits).astype(np.uint16)

    @cached_property
    def _steps(self) -> Integers:
        """Every code of one step: letters, then padding to the end; the first code is all padding."""
        symbols = len(self.alphabet) + 1
        codes = np.arange(symbols**self.step)
        digits = codes[:, np.newaxis] // symbols ** np.arange(self.step - 1, -1, -1) % symbols
        ended = np.maximum.accumulate(digits == 0, axis=1)
        made: Integers = codes[((digits == 0) == ended).all(axis=1)]
        return made

    def _extend(self, prefixes: Keys, depth: int) -> Keys:
        """Each prefix with every next code; one that has ended continues with padding only."""
        last = self._padded(depth)
        made = []
        for prefix in prefixes:
            ended = depth > 0 and prefix[depth - 1] % (len(self.alphabet) + 1) == 0
            codes = self._steps[:1] if ended else self._steps[1:] if depth == 0 else self._steps
            codes = codes[codes % last == 0]
            longer = np.repeat(prefix[np.newaxis], len(codes), axis=0)
            longer[:, depth] = codes
            made.append(longer)
        return np.concatenate(made)

    def _padded(self, depth: int) -> int:
        """Codes at this depth are multiples of it: letters beyond `length` are padding."""
        beyond = max(0, (depth + 1) * self.step - self.length)
        return int((len(self.alphabet) + 1) ** beyond)

    def _texts(self, prefixes: Keys) -> tuple[str, ...]:
        symbols, letters = len(self.alphabet) + 1, " " + self.alphabet
        digits = prefixes.astype(np.int64)[:, :, np.newaxis] // symbols ** np.arange(self.step - 1, -1, -1) % symbols
        return tuple("".join(letters[i] for i in row if i) for row in digits.reshape(len(prefixes), -1).tolist())


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
        names = np.array([self.candidates[i] for i in chosen], object)
        columns = (
            AnswerColumn("value", Type.TEXT, names),
            AnswerColumn("share", Type.REAL, self._shares[chosen], low[chosen], high[chosen]),
        )
        paid = f"{self.n:,} reports, epsilon = {float(self.protocol.epsilon):.6g} each"
        least = f"{self.last:,} reports are about whole strings; they show shares of {self._least(level):.2g} or more."
        return AnswerTable(columns, level, paid, (least,))

    @property
    def _shares(self) -> Floats:
        hashing = self.protocol.hashing
        return (self.counts / self.last - float(hashing.q)) / float(hashing.p - hashing.q)

    def _found(self, level: Fraction) -> tuple[Integers, Floats, Floats]:
        hashing = self.protocol.hashing
        support, outside = Support(float(hashing.p), float(hashing.q)), float((1 - level) / len(self.counts))
        low, high = share_of_population(self.counts, self.last, support, outside)
        order = np.argsort(-self._shares, kind="stable")
        return order[low[order] > 0], low, high

    def _least(self, level: Fraction) -> float:
        """About twice the half-width of an interval for a rare string."""
        from scipy.special import ndtri  # slow import

        hashing = self.protocol.hashing
        p, q = float(hashing.p), float(hashing.q)
        z = -float(ndtri(float((1 - level) / len(self.counts)) / 2))
        return 2 * z * float(np.sqrt(q * (1 - q) / self.last)) / (p - q)
