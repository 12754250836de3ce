"""Questions for any number of k options, with one epsilon for all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lapwing.arrays import Integers
from lapwing.collect.encodings import DirectEncoding
from lapwing.collect.local import ReportRows, as_numbers
from lapwing.collect.probabilities import WORD, SymbolCoin, spread
from lapwing.collect.protocol import Frequencies, Of
from lapwing.errors import Misconfigured
from lapwing.survey.program import Program, option, whole
from lapwing.survey.survey_question import (
    NO_ANSWER,
    Estimated,
    ShareEstimate,
    SurveyQuestion,
    check_options,
    odds_of,
    shares_of,
)

MOST_SEVERAL = 16
NONE = "None of these"
_MOST_AS_SETS = 10  # beyond it there are too many sets for one symbol each


@dataclass(frozen=True, slots=True)
class Supports:
    """How likely a report supports a value, for estimates that are not over a protocol's own values."""

    values: tuple[str, ...]
    p: Fraction
    q: Fraction
    epsilon: Fraction
    kind: str = "several"

    def variance(self, share: float) -> float:
        p, q = float(self.p), float(self.q)
        return (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2


@dataclass(frozen=True, slots=True)
class Design:
    """One of the ways to randomize a set of options with one epsilon.

    Sets:       each of the 2^k sets, and no answer, is one symbol of direct encoding. A report supports an option if
                its set holds it: with P = p + (2^(k-1) - 1) q for who chose it and Q = 2^(k-1) q for all others.
                n Var = (f P (1 - P) + (1 - f) Q (1 - Q)) / (P - Q)^2 for an option that a share f chose.
    Sampled:    one item is drawn for each respondent without looking at the answer, and randomized with the whole
                epsilon: of k items with three symbols (not chosen, chosen, no answer), or of k + 1 items with two,
                the last being whether there is no answer. Each share is estimated from the n / m reports on its item:
                n Var = m (f p (1 - p) + (1 - f) q (1 - q)) / (p - q)^2 + (m - 1) f (1 - f), the second part since
                those asked about an item are a sample of all.
    Guarantee:  pure DP with epsilon for any change of the whole set, also from or to no answer. Not k times epsilon.
    Proof:      Sets: direct encoding over the sets. Sampled: the item has the same law for all answers, and given the
                item one symbol is sent by direct encoding, so every ratio is one of its ratios, at most e^epsilon.
                A coin for each option, in contrast, would need epsilon / k each: a change of the set changes up to k
                of them.
    Checked by: tests/survey/test_programs.py, tests/survey/test_multiple_choice.py
    """

    options: int
    items: int
    """1 for sets."""
    symbols: int
    coin: SymbolCoin

    @property
    def supports(self) -> tuple[Fraction, Fraction]:
        """P[a report supports an option] for who chose it, and for others: given its item, if one is drawn."""
        if self.items > 1:
            return self.coin.p, self.coin.q
        half = 1 << self.options - 1
        return self.coin.p + (half - 1) * self.coin.q, half * self.coin.q

    def worst_variance(self) -> float:
        """n Var of an option's share, for the share at which it is largest."""
        p, q = map(float, self.supports)
        at_0, at_1 = (self.items * x * (1 - x) / (p - q) ** 2 for x in (q, p))
        # at_0 + f (at_1 - at_0) + (m - 1) f (1 - f) is largest where its slope is 0, or at an end
        more = self.items - 1
        peak = min(max(0.5 + (at_1 - at_0) / (2 * more), 0.0), 1.0) if more else float(at_1 > at_0)
        return at_0 + peak * (at_1 - at_0) + more * peak * (1 - peak)

    def program(self) -> Program:
        if self.items == 1:
            return whole(self.coin, self.symbols)
        return option(self.coin, items=self.items, options=self.options, symbols=self.symbols)


def designs(epsilon: Fraction, options: int, width: int = WORD) -> list[Design]:
    """All of them: sets, three symbols an option, two symbols an item."""
    shapes = [(options, 3), (options + 1, 2)]
    if options <= _MOST_AS_SETS:
        shapes.insert(0, (1, (1 << options) + 1))
    return [Design(options, items, symbols, spread(epsilon, symbols, width=width)) for items, symbols in shapes]


@dataclass(frozen=True)
class Several(SurveyQuestion):
    """Any number of k options, by the design with the least variance in the worst case."""

    kind: ClassVar[str] = "several"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self.options, 2, MOST_SEVERAL)
        if NONE.casefold() in (text.strip().casefold() for text in self.options):
            raise Misconfigured(f'`options` lists "{NONE}", which the form adds to every such question. Leave it out.')

    @cached_property
    def design(self) -> Design:
        return min(designs(self.epsilon, len(self.options)), key=Design.worst_variance)

    def program(self, width: int = WORD) -> Program:
        chosen = self.design
        return replace(chosen, coin=spread(self.epsilon, chosen.symbols, width=width)).program()

    def estimate(self, rows: ReportRows, confidence: Fraction) -> Estimated:
        numbers = as_numbers(rows)
        return self._from_sets(numbers, confidence) if self.design.items == 1 else self._sampled(numbers, confidence)

    def _from_sets(self, numbers: Integers, confidence: Fraction) -> Estimated:
        k, n, design = len(self.options), len(numbers), self.design
        sets = numbers[numbers < 1 << k]
        counts = np.array([np.count_nonzero(sets >> i & 1) for i in range(k)])
        chosen = self._shares(self.options, counts, n, design.supports, confidence)
        none = self._shares((NO_ANSWER,), np.array([n - len(sets)]), n, (design.coin.p, design.coin.q), confidence)
        return Estimated((*shares_of(chosen), *shares_of(none)), chosen.moved_by(1))

    def _sampled(self, numbers: Integers, confidence: Fraction) -> Estimated:
        """Those asked about an item are a random sample of all, so its interval is about where they come from."""
        items, symbols = np.divmod(numbers, self.design.symbols)
        shares: list[ShareEstimate] = []
        moved = 0.0
        for item, label in enumerate((*self.options, NO_ANSWER)):
            alone = item == len(self.options) and self.design.symbols == 3  # every report tells of no answer
            asked = symbols if alone else symbols[items == item]
            if len(asked):
                counts = np.array([np.count_nonzero(asked == (2 if alone else 1))])
                of: Of = "respondents" if alone else "population"
                estimate = self._shares((label,), counts, len(asked), self.design.supports, confidence, of)
                shares += shares_of(estimate)
                moved = max(moved, estimate.moved_by(1))
            else:
                shares.append(ShareEstimate(label, 0.5, 0.0, 1.0, 0))
                moved = 1.0
        return Estimated(tuple(shares), moved, note="Each respondent was asked about one option, drawn at random.")

    def _shares(
        self,
        values: tuple[str, ...],
        counts: Integers,
        n: int,
        supports: tuple[Fraction, Fraction],
        confidence: Fraction,
        of: Of = "respondents",
    ) -> Frequencies:
        return Frequencies(Supports(values, *supports, self.epsilon), counts, n, confidence, of)

    @property
    def protocol(self) -> DirectEncoding:
        if self.design.items > 1:
            raise Misconfigured(
                f"`{self.id}` asks each respondent about one option, so it has no joint table with another question. "
                "Ask about the option as a question of its own."
            )
        return DirectEncoding((*map(self.set_label, range(1 << len(self.options))), NO_ANSWER), epsilon=self.epsilon)

    def set_label(self, chosen: int) -> str:
        """A set of options in words."""
        return " + ".join(text for i, text in enumerate(self.options) if chosen >> i & 1) or NONE

    def variance(self) -> float:
        return self.design.worst_variance()

    @property
    def odds(self) -> dict[str, Any]:
        odds = odds_of(DirectEncoding(range(self.design.symbols), epsilon=self.epsilon))
        how = "Your whole selection is one answer."
        if self.design.items > 1:
            how = "Your device draws one of the options and answers for it alone, without telling which you chose."
        return odds | {"sentence": f"{how} {odds['sentence']}"}
