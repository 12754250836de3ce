"""Answers from released answers, free: a statement with steps above the release, and the mean of several answers.

Checked by: tests/answers/test_postprocess.py, tests/answers/test_combine.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from lapwing.answers.answer import Release, asked, describe
from lapwing.answers.columns import UNFOUND
from lapwing.answers.evaluate_steps import evaluate
from lapwing.answers.formats import price, to_dict
from lapwing.answers.step_rows import Missing, StepRows
from lapwing.answers.table import AnswerColumn, AnswerTable, shown_box
from lapwing.answers.tabular import AnyRelease, paid, price_line
from lapwing.engines.public_values import Calculation, OverrunError
from lapwing.errors import Bug, Unfinished
from lapwing.expressions.expression import Slot
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import Type
from lapwing.mechanisms.additive.tails import WHOLE, Part, mean_error, variance_of, weigh_variances
from lapwing.mechanisms.cells import Cells, narrowed
from lapwing.numbers import Number
from lapwing.plan.add_noise import Released
from lapwing.plan.kind import Measure
from lapwing.plan.plan import Outline, Plan, Prices
from lapwing.plan.postprocessed import ReleasedPart, SplitStatement, steps_of
from lapwing.plan.question import Question
from lapwing.privacy.budget import Cost
from lapwing.privacy.loss import Loss
from lapwing.privacy.phrases import percent

Tables = Callable[[int, Fraction, bool], AnswerTable]
"""The released table of a part with intervals at a confidence, per number or for all groups together."""

_SELECTED = "Groups were selected privately: what is computed from them leaves out the groups that are not shown."
_TOGETHER = "its intervals hold for all groups together"
Stored = tuple[int, Plan, Released]
"""One paid answer: its ledger entry, the plan that it was made by, and its noisy cells."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Computed(AnyRelease):
    """The answer to a statement with steps above the release: one table, computed from the answers to its parts.

    A column computed row by row from m released numbers takes each at confidence 1 - (1 - c) / m. A column computed
    from whole groups, or in rows chosen by noisy numbers, takes the box of all released numbers: each of the k columns
    at 1 - (1 - c) / k for all its groups together. So all that is computed from them holds with probability c at least,
    whatever was chosen.
    """

    statement: SplitStatement
    parts: tuple[Release, ...]
    """The answers it was computed from, in the order of the statement."""
    cost: Cost
    """What all new parts cost now; 0 if all were stored."""
    confidence: Fraction
    bought: str = ""
    _cache: dict[tuple[Fraction, bool], tuple[AnswerColumn, ...]] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[int, ...]:
        return tuple(sorted({part.entry for part in self.parts if part.entry}))

    @property
    def entry(self) -> int:  # type: ignore[override]
        return max(self.entries, default=0)

    def table(self, confidence: Number | None = None, *, simultaneous: bool = False) -> AnswerTable:
        level = self._level(confidence)
        if (level, simultaneous) not in self._cache:
            self._cache[level, simultaneous] = (
                _unknown(self.statement)
                if self._nothing
                else compute(self.statement, self._tables, level, simultaneous=simultaneous)
            )
        title = asked(self.parts[0].plan.question) if len(self.parts) == 1 else ""
        selected = [_SELECTED] if any(part.plan.outline.domain is None for part in self.parts) else []
        notes = [*(note for part in self.parts for note in part.notes), *self.statement.notes, *selected]
        return AnswerTable(
            self._cache[level, simultaneous],
            level,
            paid(self.cost, *self.entries),
            tuple(dict.fromkeys(notes)),
            title,
            facts=self.to_dict,
            null_because=self._nothing,
            price=price_line(self.cost, self.bought, declared=not self.entry),
            warnings=tuple(dict.fromkeys(warning for part in self.parts for warning in part._warnings())),
        )

    @property
    def _nothing(self) -> str:
        """Why a part, and so the whole, has no answer."""
        return next((part.nothing for part in self.parts if part.nothing), "")

    def to_dict(self) -> dict[str, Any]:
        return to_dict(replace(self.table(), facts=self._facts))

    def methods(self) -> str:
        parts = [part.methods() for part in self.parts]
        if self._nothing:
            return " ".join(dict.fromkeys(parts))
        how = "The answer is computed from these released numbers, which costs nothing"
        shown = any(column.low is not None for column in self.columns)
        carried = f", and intervals are carried by interval arithmetic with {percent(self.confidence)} confidence"
        return " ".join([*dict.fromkeys(parts), f"{how}{carried if shown else ''}."])

    def _facts(self) -> dict[str, Any]:
        return {
            "price": price(self.cost),
            "ledger_entries": list(self.entries),
            "parts": [{"ledger_entry": part.entry or None, "measures": part.measures()} for part in self.parts],
            "methods": self.methods(),
        }

    def _tables(self, part: int, level: Fraction, together: bool) -> AnswerTable:
        return self.parts[part].table(level, simultaneous=together)


Answered = Release | Computed


def compute(
    statement: SplitStatement, tables: Tables, confidence: Fraction, *, simultaneous: bool = False
) -> tuple[AnswerColumn, ...]:
    """The columns of the answer; raises Unfinished if that takes too long, and nothing else, whatever the numbers."""
    calculation, released = Calculation(), _released_columns(statement)
    together = 1 - (1 - confidence) / max(1, released)

    def rows(used: int | None) -> StepRows:
        level = together if used is None else 1 - (1 - confidence) / max(1, used)
        return evaluate(statement.root, lambda part: tables(part, level, used is None), calculation)

    try:
        with np.errstate(all="ignore"):
            whole = rows(None)
            needs_all = whole.chosen or simultaneous  # then boxes must hold for all released numbers together
            levels = {n: None if needs_all else whole.columns[n].used or None for _, n, _ in statement.columns}
            by_level = {used: whole if used is None else rows(used) for used in set(levels.values())}
    except OverrunError:
        raise Unfinished from None
    return tuple(_column(title, by_level[levels[n]], n, kind, levels[n]) for title, n, kind in statement.columns)


def _unknown(statement: SplitStatement) -> tuple[AnswerColumn, ...]:
    """One row of NULLs: what is computed from a part without an answer is not known."""
    null, columns = np.full(1, None, object), statement.columns
    return tuple(AnswerColumn(n, kind, null, reason=UNFOUND if kind.is_number else None) for n, _, kind in columns)


def _column(title: str, rows: StepRows, name: str, kind: Type, used: int | None) -> AnswerColumn:
    shown, cells = np.flatnonzero(rows.shown), rows.columns[name]
    values = cells.values[shown]
    if not cells.noisy:
        return AnswerColumn(title, kind, values)
    if cells.bare:
        return AnswerColumn(title, kind, values, bare=True, remark=cells.remark)
    chosen = rows.chosen
    if cells.low is None or cells.high is None or not kind.is_number:
        reason = cells.reason or "a value chosen by noisy numbers has no interval"
        return AnswerColumn(title, kind, values, reason=reason, chosen=chosen, remark=cells.remark)
    ends = shown_box((cells.low[shown], cells.high[shown]))
    remark = cells.remark if used is not None or chosen else "; ".join(filter(None, (cells.remark, _TOGETHER)))
    missing = (cells.reason or Missing.NO_ENDS) if np.isnan(cells.low[shown]).any() else None
    return AnswerColumn(title, kind, values, *ends, missing, chosen=chosen, remark=remark)


def _released_columns(statement: SplitStatement) -> int:
    read = set()
    for step in steps_of(statement.root):
        if isinstance(step, ReleasedPart):
            numbers = {o.name for o in statement.parts[step.place].outputs if isinstance(o.expression, Slot)}
            read |= {(step.place, output) for _, output, _ in step.columns if output in numbers}
    return len(read)


def rehearse_statement(statement: SplitStatement, confidence: Fraction) -> tuple[AnswerColumn, ...]:
    """The columns of the answer on tables with one row, after a run without rows: what cannot run fails uncharged."""

    def run(rows: int) -> tuple[AnswerColumn, ...]:
        blank = [_blank(part, rows if part.keys else 1) for part in statement.parts]
        return compute(statement, lambda part, level, _: AnswerTable(blank[part], level), confidence)

    run(0)
    return run(1)


def _blank(question: Question, rows: int) -> tuple[AnswerColumn, ...]:
    """The question's columns with NULLs for keys and zeros for numbers."""
    columns = []
    for output in question.outputs:
        kind = output.expression.type or Type.TEXT
        if isinstance(output.expression, Slot):
            zeros = np.zeros(rows, float if kind is Type.REAL else np.int64)
            columns.append(AnswerColumn(output.name, kind, zeros, zeros - 1.0, zeros + 1.0))
        else:
            columns.append(AnswerColumn(output.name, kind, np.full(rows, None, object)))
    return tuple(columns)


@dataclass(frozen=True, slots=True)
class JoinedAnswers(Measure):
    """A measure of several answers. `mechanism` is that of the newest; `parts` say how all of them add up."""

    parts: tuple[Part, ...]

    def error(self, confidence: Fraction, *, simultaneous: int = 1) -> Fraction:
        """Half the interval of a cell, or of several together, in the units of the answer."""
        return mean_error(self.parts, confidence, simultaneous) * self.step

    def mean(self, columns: Sequence[Cells]) -> Cells:
        """The weighted mean of one column of cells, each in steps of its own, rounded to steps; halves up."""
        pairs = zip(self.parts, columns, strict=True)
        total = reduce(add, (column.astype(object) * (part.weight * part.steps) for part, column in pairs))
        return narrowed((total + WHOLE // 2) // WHOLE)


@dataclass(frozen=True, slots=True, eq=False)
class Combined(Release):
    """Several paid answers to one question as one. `entry` and `cost` are those of the newest.

    Weights.    Functions of prices alone, and the error of the mean: mechanisms/additive/tails.py.
    Honest if   the number of answers and their prices were not chosen by looking at the answers: asking again until a
                number pleases chooses its noise. Nothing here can see that, so every combined answer says it.
    Private     as functions of released numbers are: the prices of all joined answers add up, and all were paid.
    """

    joined: tuple[tuple[int, Plan], ...]
    """The ledger entry and the plan of each answer, the newest first."""

    @property
    def entries(self) -> tuple[int, ...]:
        return tuple(sorted(entry for entry, _ in self.joined))

    def to_dict(self) -> dict[str, Any]:
        """As for every answer; `joined` says how each answer was made."""
        joined = [{"ledger_entry": entry, "measures": describe(plan)} for entry, plan in self.joined]
        facts = Release.to_dict(self)
        del facts["measures"]  # each answer has its own
        return {**facts, "ledger_entries": list(self.entries), "joined": joined}

    def methods(self) -> str:
        noise = [self._noise_words(index) for index in range(len(self.plan.measures))]
        return self._methods(f"{self._joined_words()}. Together they", noise, f", {_IF}").strip()

    def _notes(self) -> tuple[str, ...]:
        return (*Release._notes(self), f"{self._joined_words()}. Intervals hold {_IF}.")

    def _warnings(self) -> tuple[str, ...]:
        return (*Release._warnings(self), f"Combined {len(self.joined)} answers; valid {_IF}.")

    def _joined_words(self) -> str:
        return f"Joined {len(self.joined)} answers by inverse variance: ledger entries {_list_words(self.entries)}"

    def _noise_words(self, index: int) -> str:
        measures = [describe(plan)[index] for _, plan in self.joined]
        scales = _list_words([f"{measure['scale']:.6g}" for measure in measures])
        newest, aggregates = measures[0], " and ".join(measures[0]["aggregates"])
        noise = f"discrete {str(newest['mechanism']).capitalize()} noise of scale {scales}"
        return f"For {aggregates} {newest['bounding']}, and {noise} is added in each group"


_IF = "if the number of answers and their prices were not chosen by looking at them"


def check_combinable(outline: Outline) -> None:
    """Refuses a question whose answers cannot be combined. Called before the charge."""
    if not outline.question.outputs:
        why = "a distribution and marginals are many counts with one noise, which have no mean yet."
        refuse("not-combinable", "`combine`", why, "Leave `combine` out.")
    if outline.domain is None:
        why = "every answer selects its keys again, so the mean of a group would depend on which answers show it."
        fix = "Leave `combine` out, or have the steward declare the values of the keys."
        refuse("not-combinable", "`combine`", why, fix)
    for aggregate, reading in zip(outline.question.aggregates, outline.readings, strict=True):
        if outline.kinds[reading.measure].unit_interval is None:
            why = "only counts and sums are means of noisy numbers whose error is known beforehand."
            fix = "Leave `combine` out, or ask for COUNT and SUM alone; SUM(x) / COUNT(x) gives the mean."
            refuse("not-combinable", f"`combine` with {aggregate.words()}", why, fix)


def combined(newest: Release, answers: Sequence[Stored]) -> Combined:
    ordered = sorted(answers, key=lambda answer: -answer[0])
    plans = [plan for _, plan, _ in ordered]
    measures = tuple(_join([plan.measures[i] for plan in plans]) for i in range(len(newest.plan.measures)))
    columns = ([released.cells[i][0] for _, _, released in ordered] for i in range(len(measures)))
    cells = tuple((measure.mean(column),) for measure, column in zip(measures, columns, strict=True))
    prices = Prices(tuple(_sum_losses([plan.prices.measures[i] for plan in plans]) for i in range(len(measures))))
    plan = Plan(newest.plan.outline, prices, measures, None)
    joined = tuple((entry, paid) for entry, paid, _ in ordered)
    return Combined(plan, Released((), cells), newest.cost, newest.entry, newest.confidence, joined)


def _join(measures: Sequence[Measure]) -> JoinedAnswers:
    noises = [measure.noise for measure in measures]
    step = min(measure.step for measure in measures)
    steps = [measure.step / step for measure in measures]
    if any(ratio.denominator != 1 for ratio in steps) or len({type(noise) for noise in noises}) > 1:
        raise Bug("answers of one question differ in more than their price")
    weights = weigh_variances([variance_of(noise) * ratio**2 for noise, ratio in zip(noises, steps, strict=True)])
    parts = tuple(Part(w, int(ratio), noise) for w, ratio, noise in zip(weights, steps, noises, strict=True))
    return JoinedAnswers(measures[0].kind, step, measures[0].mechanism, parts)


def _sum_losses(shares: Sequence[Loss | None]) -> Loss:
    paid = [share for share in shares if share is not None]
    if len({share.kind for share in paid}) != 1:
        raise Bug("answers of one question have prices of several kinds")
    return reduce(add, paid)


def _list_words(words: Sequence[object]) -> str:
    *most, last = map(str, words)
    return f"{', '.join(most)} and {last}" if most else last
