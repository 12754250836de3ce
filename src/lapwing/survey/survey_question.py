"""What every question of a survey is, and the kinds that ask for one answer: yes or no, one of k, two coins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lapwing.collect.encodings import DirectEncoding, UnaryEncoding
from lapwing.collect.estimate import Frequencies, Of
from lapwing.collect.local import ReportRows, Reports
from lapwing.collect.probabilities import WORD, SymbolCoin, read_epsilon
from lapwing.collect.protocol import FrequencyProtocol
from lapwing.errors import Misconfigured
from lapwing.numbers import ball, enclose, round_up
from lapwing.survey.program import Program, bits, coins, whole

NO_ANSWER = "No answer"
MOST_OPTIONS = 60
LN_3 = round_up(enclose(lambda: ball(3).log())[1], digits=5)
"""ln 3 rounded up: what an answer by two coins costs at most."""
_ALIKE = 1.02  # a variance within 2 % of the least is as good: then the simpler program is used


@dataclass(frozen=True, slots=True)
class ShareEstimate:
    """The estimated share of the respondents who hold a value. Unbiased, so it may lie outside [0, 1]."""

    label: str
    share: float
    low: float
    high: float
    n: int
    """Reports that it is estimated from."""


@dataclass(frozen=True, slots=True)
class MeanOfAnswers:
    """The estimated mean of those who answered."""

    mean: float
    low: float
    high: float
    unit: str


@dataclass(frozen=True, slots=True)
class Estimated:
    """What the reports to one question say."""

    values: tuple[ShareEstimate, ...]
    moved_by_one: float
    """The most that one respondent who sends what they like can move a share."""
    mean: MeanOfAnswers | None = None
    note: str = ""


@dataclass(frozen=True)
class SurveyQuestion(ABC):
    """One question, with its own epsilon.

    Guarantee:  the report to it is pure DP with epsilon for any change of the answer, also from or to no answer,
                before anyone sees it. Each kind proves it.
    """

    kind: ClassVar[str]

    id: str
    text: str
    epsilon: Fraction
    help: str = ""

    def __post_init__(self) -> None:
        read_epsilon(self.epsilon)

    @property
    @abstractmethod
    def options(self) -> tuple[str, ...]:
        """What respondents choose from; empty for a number."""

    @abstractmethod
    def program(self, width: int = WORD) -> Program:
        """How a browser randomizes the answer."""

    @abstractmethod
    def estimate(self, rows: ReportRows, confidence: Fraction) -> Estimated:
        """Shares and their intervals from at least one valid report."""

    @abstractmethod
    def joint_protocol(self) -> FrequencyProtocol:
        """The protocol for a joint table with another question."""

    @abstractmethod
    def variance(self) -> float:
        """n times the variance of an estimated share, in the worst case."""

    @property
    @abstractmethod
    def odds(self) -> dict[str, Any]:
        """How often a report is true, as natural frequencies."""

    @property
    def number(self) -> dict[str, Any] | None:
        """The range of a number, as the page shows it."""
        return None


@dataclass(frozen=True)
class OneOf(SurveyQuestion):
    """One of k options.

    Law:        over k + 1 values, the last being "no answer": direct encoding by one word, or, where more than about
                3 e^epsilon + 2 values make it err more, unary encoding by one word for each value.
    Guarantee:  that of the protocol: pure DP with epsilon for any change of the answer.
    Proof:      `DirectEncoding` and `UnaryEncoding` in collect/, whose thresholds the program carries; "no answer" is
                one of their values.
    Checked by: tests/survey/test_programs.py, tests/survey/test_results.py
    """

    kind: ClassVar[str] = "choice"
    listed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self.options, 2)

    @property
    def options(self) -> tuple[str, ...]:
        return self.listed

    @cached_property
    def protocol(self) -> FrequencyProtocol:
        return self.protocol_of(WORD)

    def protocol_of(self, width: int) -> FrequencyProtocol:
        values = (*self.options, NO_ANSWER)
        direct, unary = (kind(values, epsilon=self.epsilon) for kind in (DirectEncoding, UnaryEncoding))
        better = DirectEncoding if direct.variance() <= unary.variance() * _ALIKE else UnaryEncoding
        return better(values, epsilon=self.epsilon, width=width)

    def program(self, width: int = WORD) -> Program:
        protocol = self.protocol_of(width)
        if isinstance(protocol, UnaryEncoding):
            return bits(protocol.rare, len(protocol.values))
        return whole(coin_of(protocol), len(protocol.values))

    def estimate(self, rows: ReportRows, confidence: Fraction) -> Estimated:
        found = self.protocol.estimate(Reports(self.protocol.name, rows), confidence=confidence, of=self._of)
        return Estimated(shares_of(found), found.moved_by(1))

    def joint_protocol(self) -> FrequencyProtocol:
        return self.protocol

    def variance(self) -> float:
        return max(self.protocol.variance(0.0), self.protocol.variance(1.0))

    @property
    def odds(self) -> dict[str, Any]:
        return odds_of(self.protocol)

    @property
    def _of(self) -> Of:
        return "respondents"


@dataclass(frozen=True)
class YesNo(OneOf):
    """Yes or no: a choice of two."""

    kind: ClassVar[str] = "yes-no"
    listed: tuple[str, ...] = ("No", "Yes")


@dataclass(frozen=True, init=False)
class TwoCoins(DirectEncoding):
    """Tails: the truth. Heads: a second coin answers. p = 3/4 and q = 1/4 exactly, so epsilon = ln 3 (lecture:L10)."""

    kind: ClassVar[str] = "two coins"

    @cached_property
    def coin(self) -> SymbolCoin:
        return SymbolCoin(3 << self.width - 2, 1 << self.width - 2, self.width)


@dataclass(frozen=True)
class Coins(OneOf):
    """Yes or no by two fair coins, as in the classroom. Who does not answer sends one fair coin, and counts half.

    Law:        P[yes] is 3/4 for yes, 1/4 for no, 1/2 without an answer.
    Guarantee:  pure DP with epsilon = ln 3, stated as 1.09862, for any change of the answer, also from or to none.
    Proof:      every P[yes] and every P[no] lies between 1/4 and 3/4, so no ratio exceeds 3.
    Estimate:   2 y / n - 1/2 is unbiased for the share of yes plus half the share without an answer.
    Interval:   Clopper and Pearson's: the number of yes varies no more than the binomial of its mean. [H56, Thm 4]
    Checked by: tests/survey/test_programs.py, tests/survey/test_results.py
    """

    kind: ClassVar[str] = "two-coins"
    listed: tuple[str, ...] = ("No", "Yes")

    def protocol_of(self, width: int) -> FrequencyProtocol:
        return TwoCoins(self.options, epsilon=self.epsilon, width=width)

    def program(self, width: int = WORD) -> Program:
        return coins(coin_of(self.protocol_of(width)))

    def estimate(self, rows: ReportRows, confidence: Fraction) -> Estimated:
        found = super().estimate(rows, confidence)
        return Estimated(found.values, found.moved_by_one, note="Who did not answer counts as half a yes.")

    @property
    def _of(self) -> Of:
        return "population"


def coin_of(protocol: FrequencyProtocol) -> SymbolCoin:
    if not isinstance(protocol, DirectEncoding):
        raise TypeError("only direct encoding has a coin over symbols")
    return protocol.coin


def shares_of(found: Frequencies) -> tuple[ShareEstimate, ...]:
    """Every value of an estimate."""
    table = found.table()
    low, high = table.columns[1].low, table.columns[1].high
    ends = zip(np.asarray(low).tolist(), np.asarray(high).tolist(), strict=True)
    rows = zip(found.protocol.values, found.shares.tolist(), ends, strict=True)
    return tuple(ShareEstimate(str(label), share, a, b, found.n) for label, share, (a, b) in rows)


def odds_of(protocol: FrequencyProtocol) -> dict[str, Any]:
    """How many of 100 reports are true, and how many say each other value."""
    p, q, many = protocol.p, protocol.q, len(protocol.values)
    if isinstance(protocol, UnaryEncoding):
        text = (
            f"Your device marks some of the {many} answers. It marks yours {_of_100(p)}, and each of the others "
            f"{_of_100(q)}, whether they are true or not."
        )
        return {"truth": round(100 * p), "other": round(100 * q), "symbols": many, "heads": None, "sentence": text}
    each = f"{many - 1} other answers" if many > 2 else "other answer"
    text = f"Of 100 people with the same answer, {_many(p)} send it and {_many(q)} send {_each(many)}{each}."
    return {
        "truth": round(100 * p),
        "other": round(100 * q),
        "symbols": many,
        "heads": round(100 * (p - q)),
        "sentence": text,
    }


def _each(many: int) -> str:
    return "each of the " if many > 2 else "the "


def _many(share: Fraction) -> str:
    return f"about {round(100 * share)}" if 100 * share >= 1 else "fewer than 1"


def _of_100(share: Fraction) -> str:
    return f"in {_many(share)} of 100 cases"


def check_options(options: tuple[Hashable, ...], least: int, most: int = MOST_OPTIONS) -> None:
    """Raises Misconfigured unless these can be told apart by who reads them."""
    texts = [str(value).strip().casefold() for value in options]
    if not least <= len(options) <= most or "" in texts:
        raise Misconfigured(f"`options` must list {least} to {most} texts. Write options = ['one', 'another'].")
    if len(set(texts)) < len(texts):
        raise Misconfigured("`options` lists one text twice. Leave out the second.")
    if NO_ANSWER.casefold() in texts:
        raise Misconfigured(f'`options` lists "{NO_ANSWER}", which every question has anyway. Leave it out.')
