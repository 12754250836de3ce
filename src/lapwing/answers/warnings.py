"""Why an answer says little or nothing: no group was shown, a search for bounds or limits found nothing, or the plan
alone shows that it would be useless. Such a question is refused, for nothing, unless it is asked `anyway`.

Useless:    a sum, mean or other moment is useless if its bounds are those of DATE_DIFF, 10,000 years either way, with
            nothing declared or clipped: its noise is as wide. With `assume_rows` a number is useless too if in groups
            of so many rows its interval is as wide as its bounds allow.
Guarantee:  every sentence is a function of the plan and of released numbers.
Proof:      how many units a group needs, and how many a search overlooks, follow from the price; which groups are
            shown, and the powers and the number of units of a search, were released with noise before.
Checked by: tests/answers/test_warnings.py
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from lapwing.answers.columns import half_width
from lapwing.expressions.expression import Column, walk
from lapwing.expressions.operators.dates import DATES
from lapwing.mechanisms.cells import KeySelection
from lapwing.plan.aggregates import rests_on_dates
from lapwing.plan.bounds_search import BoundsOf, SearchResult, overlooked
from lapwing.plan.key_selection import units_needed
from lapwing.plan.kind import Reading
from lapwing.plan.plan import Plan
from lapwing.privacy.phrases import decimal_text


def none_shown(selection: KeySelection | None) -> str:
    """Why an answer has no rows though its keys were selected."""
    if selection is None:
        return ""
    half, most = units_needed(selection)
    return (
        f"No group was large enough to be shown: one of {half:,} units is shown every second time, one of {most:,} "
        "units 95 times in 100. Ask at a larger epsilon or delta, group more coarsely, or have the keys declared."
    )


def nothing_found(found: SearchResult, again: Fraction) -> str:
    """Why there is no answer after a search that found nothing to rely on, and the price that searches again."""
    target, units = found.target, f"{max(0, found.units or 0):,} unit{'' if found.units == 1 else 's'}"
    if found.may_overlook_all:
        why = f"nothing to rely on: there are about {units}, and it may overlook {found.beyond:,}"
    else:
        sign = f"a value of {2.0 ** target.powers[0]:,.6g} or more" if isinstance(target, BoundsOf) else "any unit"
        why = f"nothing: no sign of {sign}, and it may overlook {overlooked(target, found.epsilon):,} units"
    return (
        f"The search for {target} found {why}. So the answer is NULL, and only the search is charged. "
        f"Epsilon = {decimal_text(again)} or more searches again; or have the steward declare what is missing."
    )


def useless(plan: Plan, confidence: Fraction, rows: int | None) -> Iterator[tuple[str, str, str]]:
    """Each number that would say nothing, why, and what to write instead; `rows` are assumed in a group."""
    outline = plan.outline
    for aggregate, reading in zip(outline.question.aggregates, outline.readings, strict=True):
        if rests_on_dates(aggregate, outline.question.table) and not outline.kinds[reading.measure].releases_intervals:
            parts = [part for argument in aggregate.arguments for part in walk(argument)]
            dates = sorted({f"`{part.name}`" for part in parts if isinstance(part, Column) and part.type in DATES})
            of = f" of {' and '.join(dates)}" if dates else ""
            why = f"no bounds are known for the dates{of}, so its noise is thousands of years wide."
            clip = "Clip it to what it can be: CLIP(..., 0, 120) for an age in years, CLIP(..., 0, 44000) in days."
            yield aggregate.words(), why, f"{clip} Or pass anyway=True."
        elif rows is not None and _fills_its_range(plan, reading, confidence, rows):
            why = f"in groups of {rows:,} rows its interval is as wide as its bounds allow."
            yield aggregate.words(), why, "Ask at a larger epsilon, or about larger groups. Or pass anyway=True."


def _fills_its_range(plan: Plan, reading: Reading, confidence: Fraction, rows: int) -> bool:
    measure = plan.measures[reading.measure]
    width, level = measure.kind.range_width(reading.statistic), plan.outline.confidence_of(reading.measure, confidence)
    error = None if width is None else half_width(measure, reading.statistic, level, rows=rows)
    return width is not None and error is not None and 2 * error >= width
