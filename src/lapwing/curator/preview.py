"""What a question would cost and how good its answer would be, before anything is spent. Reads no data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from lapwing.answers.answer import describe
from lapwing.answers.columns import half_width
from lapwing.answers.limit_advice import LimitCosts, error_text, limit_costs
from lapwing.answers.preview import PricePreview
from lapwing.answers.warnings import cut_note, left_out, useless
from lapwing.curator.pricing import Terms, price_words
from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Slot, walk
from lapwing.numbers import exact
from lapwing.plan.key_selection import units_needed
from lapwing.plan.kind import Reading
from lapwing.plan.plan import MADE_UP, Plan, equal_prices, priced
from lapwing.plan.total import COUNT_UNITS, COUNT_VALUES
from lapwing.plan.units_exceeding import Checked
from lapwing.privacy.budget import Budget, Cost
from lapwing.privacy.loss import Loss
from lapwing.privacy.phrases import at_most_text, decimal_text, percent, round_text, share_text

ASSUMED = (100, 1_000, 10_000)
"""Numbers of rows for which the error of a mean is shown, unless one is assumed."""


@dataclass(frozen=True, slots=True, repr=False)
class Preview(PricePreview):
    """Price and error of a plan, beside what is left."""

    plan: Plan
    budget: Budget
    cost: Cost
    remaining: Cost
    confidence: Fraction
    assume_rows: int | None = None
    missing: tuple[str, ...] = ()
    """What a share of the price finds first; how exact the answer is depends on it and is not known before."""
    overlooked: int = 0
    """The most units that one of these searches may overlook."""
    delta_named: bool = field(default=False, kw_only=True)
    """Whether the question says which delta selects its keys. Otherwise it is a hundredth of what is left."""
    check: Loss | None = field(default=None, kw_only=True)
    """What of the price checks how much limits cut; None if nothing does."""
    checked: Checked | None = field(default=None, kw_only=True)
    """What a check told before."""
    terms: Terms = field(default_factory=Terms, kw_only=True)
    """What was said about the price."""
    nothing: str = field(default="", kw_only=True)
    """Why the answer is NULL: a search found nothing to rely on before."""

    @property
    def errors(self) -> dict[str, float]:
        """Half the width of each released number's interval at the confidence; of means, for the rows assumed."""
        if self.missing or self.nothing:
            return {}
        pairs = zip(self.plan.question.aggregates, self.plan.outline.readings, strict=True)
        known = {a.words(): self._error(r, self.assume_rows or ASSUMED[1]) for a, r in pairs}
        return {words: error for words, error in known.items() if error is not None} | self._named_errors

    @property
    def smallest(self) -> dict[str, int]:
        """For each count the size of a group below which the noise exceeds half the count."""
        if self.missing or self.nothing:
            return {}
        pairs = zip(self.plan.question.aggregates, self.plan.outline.readings, strict=True)
        counts = [(a.words(), r) for a, r in pairs if a.name.startswith(COUNT_VALUES.name)]
        errors = [(words, self._error(reading, ASSUMED[1])) for words, reading in counts]
        return {words: math.ceil(2 * error) for words, error in errors if error is not None}

    @property
    def keys(self) -> dict[str, float]:
        """For keys that are selected: the delta that this takes, and the units of a group shown so often."""
        if self.plan.selection is None or self.plan.prices.selection is None:
            return {}
        half, most = units_needed(self.plan.selection)
        delta = float(self.plan.prices.selection.delta)
        return {"delta": delta, "units_shown_every_second_time": half, "units_shown_95_in_100": most}

    @property
    def share(self) -> float:
        return float(self.cost.amount / self.budget.capacity.amount)

    @property
    def more(self) -> int | None:
        """About how many such questions fit into what is left; None if it is free.

        A hundredth of the delta that is left never ends, so it limits them only if it was named.
        """
        pairs = list(zip(self.remaining, self.cost, strict=True))[: 2 if self.delta_named else 1]
        amounts = [left / price for left, price in pairs if price]
        return int(min(amounts)) if amounts else None

    def facts(self) -> dict[str, Any]:
        return {
            "share_of_budget": self.share,
            "about_how_many_more": self.more,
            "confidence": float(self.confidence),
            "errors": self.errors,
            "noise_exceeds_half_below": self.smallest,
            "groups": self.plan.group_count,
            "measures": [] if self.missing or self.nothing else describe(self.plan),
            "finds_first": list(self.missing),
            "finds_nothing_below": self.overlooked,
            "keys": self.keys,
            "null_because": self.nothing or None,
            "notes": [] if self.missing or self.nothing else self.notes(),
            "check": None if self.check is None else str(self.check),
            "limits": self._limit_costs.to_dict(),
        }

    def lines(self) -> list[str]:
        return [*self.made_up, *self._lines()]

    @property
    def made_up(self) -> tuple[str, ...]:
        return (MADE_UP,) if self.plan.table.made_up else ()

    def _lines(self) -> list[str]:
        if self.plan.outline.is_declared:
            return ["Price: nothing. The keys are public."]
        if self.nothing:
            return ["Price: nothing.", self.nothing]
        if self.stored:
            return ["Price: nothing. A stored answer is at least this good.", *self.brief()]
        many = "1 such question fits" if self.more == 1 else f"{self.more or 0:,} such questions fit"
        fits = f"{many} in what is left" if self.fits else "more than is left"
        few = f"may find nothing among fewer than about {self.overlooked:,} units"
        search = [f"Finds {' and '.join(self.missing)} first, and {few}."]
        brief = search if self.missing else self.brief()
        return [f"Price: {price_words(self.terms, self.cost, self.budget)}; {fits}.", *self._epsilon(), *brief]

    def brief(self) -> list[str]:
        """The error of each number, which keys are shown, and what is known to be cut or useless."""
        cut = "" if self.checked is None else cut_note(self.plan.question, self.checked, self.confidence)
        many = self.plan.groups_per_unit * (self.plan.table.row_limit or 1) >= 20  # rows of a unit
        last = self._refused() or [*(self._limit_costs.sentence if many else []), *filter(None, [cut])]
        return [*self._short_numbers(), *self._named(), *self._shown_keys(), *last]

    def _refused(self) -> list[str]:
        lost = [] if self.stored else useless(self.plan, self.confidence, self.assume_rows)
        return [f"{part} is refused: {why} {instead}" for part, why, instead in lost]

    def _named(self) -> list[str]:
        return [f"{name}: within {error_text(error)}" for name, error in self._named_errors.items()]

    def _short_numbers(self) -> list[str]:
        """One line for each number: its error; of means for several sizes of groups."""
        lines = []
        for aggregate, reading in self._used():
            measure, words, each = self.plan.measures[reading.measure], aggregate.words(), self._each(reading)
            if (promise := measure.promise(reading, self.confidence, self.plan.group_count, each=each)) is not None:
                lines.append(f"{words}: {promise.format(self._level)}")
            elif measure.kind.is_known_beforehand(reading.statistic):
                error = self._error(reading, 1)
                lines += [] if error is None else [f"{words}: within {error_text(error)} ({self._level}){each}"]
            elif measure.mechanism is not None:
                lines.append(f"{words}: {self._by_size(reading) or 'its interval comes with the answer'}")
        return lines

    def _by_size(self, reading: Reading) -> str:
        """The error for groups of the rows assumed, or of several sizes."""
        sizes = (self.assume_rows,) if self.assume_rows else ASSUMED
        errors = [(rows, error) for rows in sizes if (error := self._error(reading, rows)) is not None]
        lost = self._useless(reading, errors)
        told = [f"useless in groups of {max(lost):,} rows or fewer"] if lost else []
        told += [f"within {error_text(error)} in groups of {rows:,} rows" for rows, error in errors if rows not in lost]
        return f"{', '.join(told)} ({self._level})" if told else ""

    def _useless(self, reading: Reading, errors: Sequence[tuple[int, float]]) -> list[int]:
        """The sizes of groups for which the interval is as wide as the bounds allow."""
        width = self.plan.measures[reading.measure].kind.range_width(reading.statistic)
        return [rows for rows, error in errors if width is not None and 2 * error >= width]

    def _shown_keys(self) -> list[str]:
        if self.plan.selection is None or self.plan.prices.selection is None:
            return []
        return [f"Groups of {units_needed(self.plan.selection)[1]:,} or more units are shown, 95 times in 100."]

    def details(self) -> list[str]:
        if self.plan.outline.is_declared or self.nothing:
            return self.lines()
        price = self._price(f", {self.share:.2%} of the budget; about {self.more or 0:,} such questions are left")
        known = [] if self.missing else [*self._split(), *self.accuracy(), *self.notes()]
        return [price, *self._epsilon(), *known, *self._first()]

    def accuracy(self) -> list[str]:
        """How good each number is, with which limits it would be better, and which keys are shown."""
        costs = self._limit_costs
        return [*self._numbers(), *self._named(), *costs.table, *costs.sentence, *self._keys()]

    @property
    def _limit_costs(self) -> LimitCosts:
        if self.stored or self.missing or self.nothing or self.plan.outline.is_declared:
            return LimitCosts()
        return limit_costs(self.plan, self.confidence, self.assume_rows or ASSUMED[1])

    def notes(self) -> list[str]:
        """What the answer will say of its limits, what of the price says how much they cut, and why it is refused."""
        told = [] if self.checked is None else [left_out(self.plan.question, self.checked, self.confidence)]
        told += [] if self.check is None else [f"{self.check} of the price reports clipping; check=0 skips it."]
        return [*self._refused(), *self.plan.outline.notes, *told]

    def _epsilon(self) -> list[str]:
        """What share of the budget an epsilon is where there is a delta, and what a share of the pure size buys."""
        if self.terms.epsilon is None or self.stored or not self.budget.delta:
            return []
        epsilon, whole = exact(self.terms.epsilon, "epsilon"), self.budget.capacity.amount
        part, pure = self.budget.price(epsilon=epsilon).amount / whole, round_text(epsilon / self.budget.epsilon)
        said = f"With a delta, epsilon = {decimal_text(epsilon)} is {share_text(part)} of the budget"
        bought = self._bought(Fraction(pure))
        return [f"{said}; share={pure} buys {bought}." if bought else f"{said}."]

    def _bought(self, share: Fraction) -> str:
        """The error of the first number if the answer took this share of the budget; empty if it is not known."""
        if self.missing or not 0 < share <= 1:
            return ""
        delta = Fraction(0) if self.plan.prices.selection is None else self.plan.prices.selection.delta
        checking = Fraction(0) if self.check is None else self.check.amount / self.cost.amount
        try:
            price = self.budget.share(share, delta=delta)
            taken = self.budget.accounting.rules.loss(price.amount * checking)
            prices = equal_prices(self.plan.outline, price.minus(taken))
            errors = replace(self, plan=priced(self.plan.outline, prices)).errors
        except (Refused, Misconfigured):
            return ""
        return next((f"within {error_text(error)}" for error in errors.values()), "")

    def _first(self) -> list[str]:
        if not self.missing:
            return []
        first = f"A share of the price first finds {' and '.join(self.missing)}."
        few = f"Among fewer than about {self.overlooked:,} units it may find nothing: the answer is NULL then"
        few += ", and only the search is charged."
        return [first, few, "How exact the answer is depends on what is found, and cannot be told before."]

    def _split(self) -> list[str]:
        parts = describe(self.plan)
        if len(parts) == 1:
            return []
        shares = (f"{' and '.join(part['aggregates'])}: {part['loss']}" for part in parts if "loss" in part)
        return [f"The price is shared. {'; '.join(shares)}."]

    def _numbers(self) -> list[str]:
        lines = []
        for aggregate, reading in self._used():
            lines += self._about(aggregate.words(), reading)
            if size := self.smallest.get(aggregate.words()):
                what = "units" if aggregate.name == COUNT_UNITS.name else "rows"
                lines.append(f"  in groups of fewer than {size:,} {what} the noise exceeds half the count")
        return lines

    def _used(self) -> list[tuple[Aggregate, Reading]]:
        """The aggregates that the answer shows or computes with."""
        question, readings = self.plan.question, self.plan.outline.readings
        used = sorted({part.index for e in question.above for part in walk(e) if isinstance(part, Slot)})
        return [(question.aggregates[slot], readings[slot]) for slot in used]

    def _about(self, words: str, reading: Reading) -> list[str]:
        """What can be said beforehand about one number."""
        measure, each = self.plan.measures[reading.measure], self._each(reading)
        promise = measure.promise(reading, self.confidence, self.plan.group_count, each=each)
        if promise is not None:
            return [f"{words}: {promise.format(self._level)}"]
        depends = not measure.kind.is_known_beforehand(reading.statistic)
        assumed = (self.assume_rows,) if self.assume_rows else ASSUMED if depends else (1,)
        errors = [(rows, error) for rows in assumed if (error := self._error(reading, rows)) is not None]
        if not errors and measure.mechanism is not None:
            return [f"{words}: its interval comes with the answer and depends on the data{each}"]
        lost = self._useless(reading, errors)
        lines = [
            f"{words}: within {error_text(error)} with {self._level} confidence"
            + (f", if a group has at least {rows:,} rows" if depends else each)
            for rows, error in errors
            if rows not in lost
        ]
        return [*lines, *([f"{words}: {_useless(max(lost))}"] if lost else [])]

    def _keys(self) -> list[str]:
        if self.plan.selection is None or self.plan.prices.selection is None:
            return []
        half, most = units_needed(self.plan.selection)
        share = "" if self.delta_named or self.stored else ", a hundredth of what is left"
        price = f"for delta = {at_most_text(self.plan.prices.selection.delta)}{share}"
        shown = f"one of {half:,} units is shown every second time, one of {most:,} units 95 times in 100"
        return [f"Groups are selected privately {price}: {shown}; smaller ones rarely or never."]

    def _each(self, reading: Reading) -> str:
        cells = self.plan.group_count
        if reading.measure in self.plan.outline.choosing:
            together = "" if cells is None else f", in all {cells:,} groups together"
            return together or ", before rows are chosen by it: then intervals hold for all groups together, and widen"
        return ", in each group" if cells is None else f", in each of {cells:,} groups" if cells > 1 else ""

    @property
    def _named_errors(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for measure in self.plan.measures:
            found |= measure.kind.named_errors(measure, self.confidence)
        return found

    @property
    def _level(self) -> str:
        return percent(self.confidence)

    def _error(self, reading: Reading, rows: int) -> float | None:
        level = self.plan.outline.confidence_of(reading.measure, self.confidence)
        found = half_width(self.plan.measures[reading.measure], reading.statistic, level, rows=rows)
        return None if found is None else float(found)


def _useless(rows: int) -> str:
    return (
        f"useless in groups of {rows:,} rows or fewer, where the interval is as wide as the bounds allow. "
        "Ask at a larger epsilon or about larger groups, or have narrower bounds declared"
    )
