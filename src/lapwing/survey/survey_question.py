"""Questions of a survey, and the kinds that ask for one answer: yes or no, one of k, two coins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lapwing.collect.encodings import DirectEncoding, UnaryEncoding
from lapwing.collect.local import ReportRows, Reports
from lapwing.collect.probabilities import WORD, SymbolCoin, read_epsilon
from lapwing.collect.protocol import Frequencies, FrequencyProtocol, Of
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
    """The estimates of one question."""

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
    options: tuple[str, ...] = ()
    """What respondents choose from; empty for a number."""

    def __post_init__(self) -> None:
        read_epsilon(self.epsilon)

    @abstractmethod
    def program(self, width: int = WORD) -> Program:
        """How a browser randomizes the answer."""

    @abstractmethod
    def estimate(self, rows: ReportRows, confidence: Fraction) -> Estimated:
        """Shares and their intervals from at least one valid report."""

    @property
    @abstractmethod
    def protocol(self) -> FrequencyProtocol:
        """The protocol of the reports over all answers; refused if each report is about a part of the answer."""

    def variance(self) -> float:
        """n times the variance of an estimated share, in the worst case."""
        return max(self.protocol.variance(0.0), self.protocol.variance(1.0))

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
    of: ClassVar[Of] = "respondents"
    note: ClassVar[str] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self.options, 2)

    @cached_property
    def protocol(self) -> DirectEncoding | UnaryEncoding:
        return self.protocol_of(WORD)

    def protocol_of(self, width: int) -> DirectEncoding | UnaryEncoding:
        values = (*self.options, NO_ANSWER)
        direct, unary = (kind(values, epsilon=self.epsilon) for kind in (DirectEncoding, UnaryEncoding))
        better = DirectEncoding if direct.variance() <= unary.variance() * _ALIKE else UnaryEncoding
        return better(values, epsilon=self.epsilon, width=width)

    def program(self, width: int = WORD) -> Program:
        protocol = self.protocol_of(width)
        if isinstance(protocol, UnaryEncoding):
            return bits(protocol.rare, len(protocol.values))
        return whole(protocol.coin, len(protocol.values))

    def estimate(self, rows: ReportRows, confidence: Fraction) -> Estimated:
        shares = self.protocol.estimate(Reports(self.protocol.name, rows), confidence=confidence, of=self.of)
        return Estimated(shares_of(shares), shares.moved_by(1), note=self.note)

    @property
    def odds(self) -> dict[str, Any]:
        return odds_of(self.protocol)


@dataclass(frozen=True)
class YesNo(OneOf):
    """Yes or no: a choice of two."""

    kind: ClassVar[str] = "yes-no"
    options: tuple[str, ...] = ("No", "Yes")


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
    of: ClassVar[Of] = "population"
    note: ClassVar[str] = "Who did not answer counts as half a yes."
    options: tuple[str, ...] = ("No", "Yes")

    def protocol_of(self, width: int) -> TwoCoins:
        return TwoCoins(self.options, epsilon=self.epsilon, width=width)

    def program(self, width: int = WORD) -> Program:
        return coins(self.protocol_of(width).coin)


def shares_of(estimate: Frequencies) -> tuple[ShareEstimate, ...]:
    """Every value of an estimate."""
    column = estimate.table().columns[1]
    numbers = (np.asarray(values).tolist() for values in (column.values, column.low, column.high))
    rows = zip(estimate.protocol.values, *numbers, strict=True)
    return tuple(ShareEstimate(str(label), share, low, high, estimate.n) for label, share, low, high in rows)


def odds_of(protocol: FrequencyProtocol) -> dict[str, Any]:
    """How many of 100 reports are true, and how many say each other value."""
    p, q, k = protocol.p, protocol.q, len(protocol.values)
    often, rarely = (f"about {round(100 * x)}" if 100 * x >= 1 else "fewer than 1" for x in (p, q))
    heads: int | None = None
    if isinstance(protocol, UnaryEncoding):
        text = (
            f"Your device marks some of the {k} answers. It marks yours in {often} of 100 cases, and each of the "
            f"others in {rarely} of 100 cases, whether they are true or not."
        )
    else:
        heads, others = round(100 * (p - q)), f"each of the {k - 1} other answers" if k > 2 else "the other answer"
        text = f"Of 100 people with the same answer, {often} send it and {rarely} send {others}."
    return {"truth": round(100 * p), "other": round(100 * q), "symbols": k, "heads": heads, "sentence": text}


def check_options(options: tuple[str, ...], least: int, most: int = MOST_OPTIONS) -> None:
    """Raises Misconfigured unless readers can tell these apart."""
    texts = [text.strip().casefold() for text in options]
    if not least <= len(options) <= most or "" in texts:
        raise Misconfigured(f"`options` must list {least} to {most} texts. Write options = ['one', 'another'].")
    if len(set(texts)) < len(texts):
        raise Misconfigured("`options` lists one text twice. Leave out the second.")
    if NO_ANSWER.casefold() in texts:
        raise Misconfigured(f'`options` lists "{NO_ANSWER}", which every question has anyway. Leave it out.')
