"""What limits cost: which adds most to the noise, and the errors with others, by planning the question again.

Guarantee:  a function of the plan: of the question, its price and declared facts. No row is read.
Checked by: tests/answers/test_limit_advice.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from lapwing.answers.columns import half_width
from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.expression import Column
from lapwing.expressions.table import Limit
from lapwing.expressions.to_sqlglot import clipped_columns
from lapwing.expressions.types import Interval, text_of
from lapwing.plan.aggregates import has_one_row
from lapwing.plan.plan import Plan, make_outline, priced
from lapwing.plan.question import Question, with_limits
from lapwing.sql.relation import substitute

_SHOWN = (1, 2, 5, 10)
_WORTH = Fraction(1, 2)
"""Advice is given if it at least halves the error."""


@dataclass(frozen=True, slots=True)
class LimitAdvice:
    """The limit that adds most to the noise of a number, the argument that helps most, and the error with it."""

    limit: str
    write: str
    within: Fraction


@dataclass(frozen=True, slots=True)
class LimitCosts:
    """What limits cost the number of an answer whose error is largest."""

    number: str = ""
    by_groups: tuple[tuple[int, Fraction], ...] = ()
    """Its error for several limits on groups, where these matter."""
    advice: LimitAdvice | None = None


def limit_costs(plan: Plan, confidence: Fraction, rows: int) -> LimitCosts:
    """The errors with other limits at the price of the plan, of means in groups of so many rows."""
    question, outline, table = plan.question, plan.outline, plan.table
    errors = _errors(plan, confidence, rows)
    if not question.outputs or not errors:  # a workload, or numbers of which no error is known before
        return LimitCosts()
    place = max(errors, key=errors.__getitem__)

    def error(other: Question) -> Fraction | None:
        try:
            made = make_outline(
                other, counted=outline.counted is not None, confidence=confidence, intervals=outline.intervals
            )
            if len(made.kinds) != len(outline.kinds):
                return None
            return _errors(priced(made, plan.prices), confidence, rows).get(place)
        except (Refused, Misconfigured):
            return None

    choices = [(*texts, new) for *texts, other in _choices(plan, place) if (new := error(other)) is not None]
    limit, write, within = min(choices, key=lambda choice: choice[-1], default=("", "", errors[place]))
    advice = LimitAdvice(limit, write, within) if within <= _WORTH * errors[place] else None
    by_groups: list[tuple[int, Fraction]] = []
    if outline.group_count != 1 and not table.by_row and not has_one_row(table):
        most = [base.most_groups for base in table.bases if base.most_groups is not None]
        most += [] if outline.group_count is None else [outline.group_count]
        for groups in sorted({*_SHOWN, outline.groups_per_unit}):
            new = error(with_limits(question, {Limit.GROUPS: groups})) if groups <= min(most, default=groups) else None
            by_groups += [] if new is None else [(groups, new)]
    return LimitCosts(question.aggregates[place].words(), tuple(by_groups) if len(by_groups) > 1 else (), advice)


def _errors(plan: Plan, confidence: Fraction, rows: int) -> dict[int, Fraction]:
    """The error of each aggregate, where it is known before."""
    readings = enumerate(plan.outline.readings)
    halves = {
        place: half_width(
            plan.measures[reading.measure],
            reading.statistic,
            plan.outline.confidence_of(reading.measure, confidence),
            rows=rows,
        )
        for place, reading in readings
    }
    shown = plan.question.shown
    return {p: half for p, half in halves.items() if half is not None and plan.question.aggregates[p] in shown}


def _choices(plan: Plan, place: int) -> Iterator[tuple[str, str, Question]]:
    """Each limit of a number, a smaller one as it is written, and the question with that."""
    question, table, groups, rows = plan.question, plan.table, plan.groups_per_unit, plan.table.row_limit
    if not table.by_row and groups > 1:
        yield f"groups_per_unit = {groups:,}", "groups=1", with_limits(question, {Limit.GROUPS: 1})
    if not table.by_row and rows is not None and rows > 1:
        fewer = max(1, rows // 4)
        yield f"rows_per_unit = {rows:,}", f"rows={fewer}", with_limits(question, {Limit.ROWS: fewer})
    columns = [column for argument in question.aggregates[place].arguments for column in clipped_columns(argument)]
    for column in columns if table.source is None else ():
        bounds = column.bounds
        if bounds is not None and (half := _halved(bounds)) is not None:
            written = f'bounds={{"{column.name}": ({text_of(half.low)}, {text_of(half.high)})}}'
            yield f"the interval {bounds} of `{column.name}`", written, _with_bounds(question, column, half)


def _halved(bounds: Interval) -> Interval | None:
    half = Interval(
        bounds.low if bounds.low >= 0 else bounds.low / 2, bounds.high if bounds.high <= 0 else bounds.high / 2
    )
    return half if half.low < half.high else None


def _with_bounds(question: Question, column: Column, bounds: Interval) -> Question:
    new = replace(column, bounds=bounds)
    fields = tuple(replace(f, bounds=bounds) if f.name == column.name else f for f in question.table.fields)
    aggregates = tuple(
        replace(one, arguments=tuple(substitute(argument, {column: new}) for argument in one.arguments))
        for one in question.aggregates
    )
    return replace(question, table=replace(question.table, fields=fields), aggregates=aggregates)
