"""What an analyst gets back: a noisy table that carries its intervals, its price and how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, Self

from lapwing.answers.columns import present, unanswered
from lapwing.answers.formats import label, price, to_dict
from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.answers.tabular import AnyRelease, paid, price_line
from lapwing.answers.warnings import check_facts, cut_note, left_out, none_shown
from lapwing.expressions.expression import Column, Expression, Key
from lapwing.expressions.phrases import expression_text, shorten
from lapwing.numbers import Number
from lapwing.plan.add_noise import Released
from lapwing.plan.bounds_search import SearchResult
from lapwing.plan.key_selection import selection_words, units_needed
from lapwing.plan.plan import MADE_UP, Plan
from lapwing.plan.question import Question
from lapwing.plan.units_exceeding import Checked
from lapwing.privacy.budget import Cost
from lapwing.privacy.phrases import percent

_LONGEST = 150  # characters of a condition
_NOT_COVERED = "Intervals do not cover what that cuts."


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release(AnyRelease):
    """A released answer. Whatever is done with it costs nothing more."""

    plan: Plan
    released: Released
    cost: Cost
    entry: int
    confidence: Fraction
    found: tuple[SearchResult, ...] = field(default=(), kw_only=True)
    """Bounds and limits that were found privately for it, now or before."""
    check: Checked | None = field(default=None, kw_only=True)
    """How many units exceed its limits, as far as a check shows, now or before."""
    nothing: str = field(default="", kw_only=True)
    """Why there is no answer: a search found nothing to rely on. Then all numbers are NULL, and `entry` is its own."""
    bought: str = field(default="", kw_only=True)
    """The price in the caller's words, such as "within 50, for 16% of the budget"."""

    @classmethod
    def of(cls, other: Release, **more: Any) -> Self:
        """The same answer, read in another way."""
        return cls(**{field.name: getattr(other, field.name) for field in fields(Release)}, **more)

    def table(self, confidence: Number | None = None, *, simultaneous: bool = False) -> AnswerTable:
        level, question = self._level(confidence), self.plan.question
        return AnswerTable(
            tuple(self._columns(level, simultaneous=simultaneous)),
            level,
            paid(self.cost, self.entry),
            self._notes(),
            asked(question),
            "" if question.where is None else condition(question.where),
            facts=self.to_dict,  # a joined answer says more than `facts`
            gaps=self.plan.selection is not None or question.having is not None or question.limit is not None,
            null_because=self.nothing,
            price=price_line(self.cost, self.bought, declared=not self.entry),
            warnings=self._warnings(),
        )

    def _columns(self, confidence: Fraction, *, simultaneous: bool) -> list[AnswerColumn]:
        if self.nothing:
            return unanswered(self.plan)
        return present(self.plan, self.released, confidence, simultaneous=simultaneous)

    def to_dict(self) -> dict[str, Any]:
        return to_dict(replace(self.table(), facts=self.facts))

    def facts(self) -> dict[str, Any]:
        """Price, limits and methods, ready for JSON."""
        return {
            "price": price(self.cost),
            "ledger_entry": self.entry or None,
            "measures": self.measures(),
            "unit": self.plan.table.unit or "one row",
            "limits": {"rows_per_unit": self.plan.table.row_limit, "groups_per_unit": self.plan.groups_per_unit},
            "found": [
                {"what": str(result), "epsilon": float(result.epsilon), "relied_on": not result.is_nothing}
                for result in self.found
            ],
            "check": check_facts(self.check, self.confidence),
            "methods": self.methods(),
        }

    def measures(self) -> list[dict[str, Any]]:
        return [] if self.nothing else describe(self.plan)

    def methods(self) -> str:
        entry = f"Lapwing ledger entry {self.entry}." if self.entry else ""
        return f"{self._methods('Answers', _methods(self.plan))}{entry}"

    def _methods(self, subject: str, noise: Sequence[str], condition: str = "") -> str:
        table = self.plan.table
        if self.nothing:
            return " ".join([*self._made_up(), f"{self._found()}{self.nothing} "])
        if self.plan.outline.is_declared:
            keys = f"The keys are public, as declared for `{table.name}` (version {table.version}). No row was read."
            return " ".join([*self._made_up(), keys])
        unit = "one row" if table.unit is None else f"all rows of one `{table.unit}`"
        outline = self.plan.outline
        limits = "".join(f" {note}" for note in (*outline.undeclared, *outline.notes, *self._check()))
        return (
            f"{subject} are differentially private for adding or removing {unit} of `{table.name}` "
            f"(version {table.version}) at a price of {self.plan.loss}.{limits} {'. '.join(noise)}. "
            f"{self._covered(condition)}{self._found()}"
            f"{'' if self.check is None else f'Limits were checked at {self.check.result.loss}. '}"
        )

    def _found(self) -> str:
        """What was found privately before the answer, and its price."""
        results = "".join(f"Found privately at {r.loss}: {r}. " for r in self.found if not r.is_nothing)
        return f"{results}{_NOT_COVERED} " if results else ""

    def _covered(self, condition: str = "") -> str:
        """What the intervals promise, if there are any."""
        shown = [column for column in self.columns if column.low is not None]
        if not shown:
            return ""
        chosen = [f"`{column.name}`" for column in shown if column.chosen]
        together = f"of {' and '.join(chosen)}, by which rows or values were chosen, for all groups together"
        each = "per number" if len(chosen) < len(shown) else together
        more = f"; {together}" if 0 < len(chosen) < len(shown) else ""
        level = f"{percent(self.confidence)} confidence"
        return f"Intervals cover the clipped statistic with {level}, {each}{more}{condition}. "

    def _notes(self) -> tuple[str, ...]:
        if self.plan.outline.is_declared:
            return (*self._made_up(), "Every public key is listed, whether or not a row has it.")
        notes = [self._found().strip(), self._nothing()]
        if not self.nothing:
            notes += [*self.plan.outline.notes, *self._check()]
        return tuple(dict.fromkeys((*self._made_up(), *filter(None, notes))))

    def _warnings(self) -> tuple[str, ...]:
        """The notes shown below the rows: why the answer is useless, or what is cut."""
        if nothing := self._nothing():
            return (*self._made_up(), nothing)
        results = "; ".join(result.words for result in self.found)
        clipped = f"Found privately: {results}. {_NOT_COVERED}" if results else ""
        cut = "" if self.check is None else cut_note(self.plan.question, self.check, self.confidence)
        return (*self._made_up(), *self.plan.outline.never_equal, *filter(None, [clipped, cut]))

    def _made_up(self) -> tuple[str, ...]:
        return (MADE_UP,) if self.plan.table.made_up else ()

    def _nothing(self) -> str:
        """Why no number is known, or no group is shown; empty if neither is so."""
        hidden = self.plan.selection is not None and not self.nothing and not self.released.keys[0].size
        return none_shown(self.plan.selection) if hidden else self.nothing

    def _check(self) -> tuple[str, ...]:
        return () if self.check is None else (left_out(self.plan.question, self.check, self.confidence),)


def declared_answer(plan: Plan, nothing: Cost, confidence: Fraction) -> Release:
    """The public keys of a question that asks for nothing else: read off the plan, without an entry."""
    return Release(plan, Released((), ()), nothing, 0, confidence)


def null_answer(plan: Plan, found: Sequence[SearchResult], cost: Cost, confidence: Fraction, why: str) -> Release:
    """The answer to a question whose search found nothing to rely on: every number is NULL."""
    entry = max(result.entry for result in found if result.is_nothing)
    return Release(plan, Released((), ()), cost, entry, confidence, found=tuple(found), nothing=why)


def asked(question: Question) -> str:
    """What was asked, in a few words; a computed key has the name of its column in the answer."""
    names = {o.expression.index: o.name for o in question.outputs if isinstance(o.expression, Key)}
    by = [
        key.name if isinstance(key, Column) else names.get(index) or shorten(expression_text(key))
        for index, key in enumerate(question.keys)
    ]
    numbers = ", ".join(aggregate.words() for aggregate in question.aggregates)
    return f"{numbers} of {question.table.name}" + (f" by {', '.join(by)}" if by else "")


def condition(where: Expression) -> str:
    """Which rows count, in one line, cut short if it is long."""
    return shorten(label(f"where {expression_text(where)}"), _LONGEST)


def describe(plan: Plan) -> list[dict[str, Any]]:
    """Mechanism, scale and bounds of each measure: functions of the plan, not of the data."""
    described = [_describe(plan, index) for index in range(len(plan.measures))]
    if plan.selection is None:
        return described
    half, most = units_needed(plan.selection)
    name, loss = type(plan.selection).__name__, str(plan.selection.loss)
    keys = {"aggregates": ["keys"], "mechanism": name, "loss": loss, "units_for_half": half, "units_for_95": most}
    return [*described, keys]


def _describe(plan: Plan, index: int) -> dict[str, Any]:
    measure, share = plan.measures[index], plan.prices.measures[index]
    asked = {"aggregates": _aggregates(plan, index), "bounding": str(measure.kind)}
    if measure.mechanism is None:
        return {**asked, "mechanism": "selection of the keys"}
    return {**asked, **measure.kind.describe(measure, share)}


def _aggregates(plan: Plan, index: int) -> list[str]:
    pairs = zip(plan.question.aggregates, plan.outline.readings, strict=True)
    return [aggregate.words() for aggregate, reading in pairs if reading.measure == index]


def _methods(plan: Plan) -> list[str]:
    words = []
    for index, measure in enumerate(plan.measures):
        counted = measure.mechanism is None
        noise = "the noisy counts of the selection are shown" if counted else measure.kind.methods(measure)
        words.append(f"For {' and '.join(_aggregates(plan, index))} {noise}")
    return words if plan.selection is None else [*words, selection_words(plan.selection)]
