"""What limits and bounds cost: which adds most to noise, and the errors with others, by planning the question again.

Guarantee:  a function of the plan: of the question, its price and declared facts. No row is read.
Checked by: tests/answers/test_limit_advice.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_UP
from fractions import Fraction
from typing import Any

from lapwing.answers.columns import half_width
from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.table import Limit
from lapwing.expressions.to_sqlglot import clipped_columns
from lapwing.expressions.types import Interval, text_of
from lapwing.numbers import exact
from lapwing.plan.aggregates import has_one_row
from lapwing.plan.plan import Plan, make_outline, priced
from lapwing.plan.question import Question, with_limits
from lapwing.privacy.phrases import round_text
from lapwing.sql.relation import Meanings, substitute

_SHOWN = (1, 2, 5, 10)


@dataclass(frozen=True, slots=True)
class LimitCosts:
    """What limits cost a number of an answer."""

    number: str = ""
    by_groups: tuple[tuple[int, Fraction], ...] = ()
    """Its error for several limits on groups, where these matter."""
    advice: tuple[str, str, Fraction] | None = None
    """The limit that adds most to its noise, the argument that helps most, and at most half its error with that."""

    @property
    def table(self) -> list[str]:
        groups = ", ".join(f"{limit:,}" for limit, _ in self.by_groups)
        errors = ", ".join(error_text(float(error)) for _, error in self.by_groups)
        return [f"{self.number} with groups {groups}: within {errors}"] if groups else []

    @property
    def sentence(self) -> list[str]:
        if self.advice is None:
            return []
        limit, write, error = self.advice
        within = f"{write}: within {error_text(float(error))}, and less of each unit counts."
        return [f"What adds most to the noise of {self.number} is {limit}. {within}"]

    def to_dict(self) -> dict[str, Any]:
        limit, write, error = self.advice or (None, None, None)
        told = {"limit": limit, "write": write, "error": None if error is None else float(error)}
        return {"number": self.number, **told, "errors_by_groups": {str(k): float(e) for k, e in self.by_groups}}


def limit_costs(plan: Plan, confidence: Fraction, rows: int, place: int | None = None) -> LimitCosts:
    """The errors of an aggregate, or of the one that errs most, with other limits; of a mean in groups of `rows`."""
    question, outline, table = plan.question, plan.outline, plan.table
    errors = _errors(plan, confidence, rows)
    place = max(errors, key=errors.__getitem__, default=None) if place is None else place
    if place not in errors or not question.outputs:  # numbers of which no error is known before, or a workload
        return LimitCosts()

    def error(other: Question) -> Fraction | None:
        counted, intervals = outline.counted is not None, outline.intervals
        try:
            made = make_outline(other, counted=counted, confidence=confidence, intervals=intervals)
            return _errors(priced(made, plan.prices), confidence, rows, useful=True).get(place)
        except (Refused, Misconfigured):
            return None

    tried = [(limit, write, error(other)) for limit, write, other in _choices(plan, place)]
    choices = [(limit, write, new) for limit, write, new in tried if new is not None]
    best = min(choices, key=lambda choice: choice[-1], default=None)
    matters = outline.group_count != 1 and not table.by_row and not has_one_row(table)
    most = min(filter(None, (outline.group_count, *(base.most_groups for base in table.bases))), default=math.inf)
    limits = [limit for limit in sorted({*_SHOWN, outline.groups_per_unit}) if matters and limit <= most]
    pairs = [(limit, error(with_limits(question, {Limit.GROUPS: limit}))) for limit in limits]
    by_groups = tuple((limit, new) for limit, new in pairs if new is not None)
    advice = best if best is not None and 2 * best[-1] <= errors[place] else None
    return LimitCosts(question.aggregates[place].words(), by_groups if len(by_groups) > 1 else (), advice)


def error_text(error: float) -> str:
    """Three significant digits, or the whole part if that is longer; never below the error."""
    return f"{math.ceil(error):,}" if error >= 100 else round_text(exact(error, "error"), 3, rounding=ROUND_UP)


def _errors(plan: Plan, confidence: Fraction, rows: int, *, useful: bool = False) -> dict[int, Fraction]:
    """The error of each shown aggregate, where it is known before; with `useful` only below what its bounds allow."""
    errors: dict[int, Fraction] = {}
    for place, reading in enumerate(plan.outline.readings):
        measure, level = plan.measures[reading.measure], plan.outline.confidence_of(reading.measure, confidence)
        half = half_width(measure, reading.statistic, level, rows=rows)
        width = measure.kind.range_width(reading.statistic) if useful else None
        if half is not None and plan.question.aggregates[place] in plan.question.shown:
            errors |= {} if width is not None and 2 * half >= width else {place: half}
    return errors


def _choices(plan: Plan, place: int) -> Iterator[tuple[str, str, Question]]:
    """Each limit of a number, a smaller one as it is written, and the question with that."""
    question, table, groups, rows = plan.question, plan.table, plan.groups_per_unit, plan.table.row_limit or 1
    if groups > 1:
        yield f"groups_per_unit = {groups:,}", "groups=1", with_limits(question, {Limit.GROUPS: 1})
    if rows > 1:
        fewer = max(1, rows // 4)
        yield f"rows_per_unit = {rows:,}", f"rows={fewer}", with_limits(question, {Limit.ROWS: fewer})
    columns = [column for argument in question.aggregates[place].arguments for column in clipped_columns(argument)]
    for column in columns:
        if table.source is not None or (bounds := column.bounds) is None:
            continue
        half = Interval(bounds.low / (2 if bounds.low < 0 else 1), bounds.high / (2 if bounds.high > 0 else 1))
        if half.low < half.high:
            written = f'bounds={{"{column.name}": ({text_of(half.low)}, {text_of(half.high)})}}'
            meaning: Meanings = {column: replace(column, bounds=half)}
            aggregates = tuple(
                replace(one, arguments=tuple(substitute(argument, meaning) for argument in one.arguments))
                for one in question.aggregates
            )
            yield f"the bounds {bounds} of `{column.name}`", written, replace(question, aggregates=aggregates)
