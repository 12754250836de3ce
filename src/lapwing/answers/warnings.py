"""What limits cut, and why an answer says little or nothing. A useless question is refused unless asked `anyway`.

Cut:        a check counts all rows under the keys, before WHERE; of a filtered question it is an upper bound, and is
            worded as one. No more units exceed a limit than there are, so a count is shown as at most their number.
            A direction is stated for counts without a filter only: means, and sums of both signs, may move either way.
Useless:    a sum, mean or other moment whose bounds are those of DATE_DIFF, 10,000 years either way, with nothing
            declared or clipped: its noise is as wide. With `assume_rows` also a number whose interval, in groups of so
            many rows, is as wide as its bounds allow.
Guarantee:  every sentence is a function of the plan and of released numbers, and a count is within its stated error
            with the confidence, all counts together.
Proof:      how many units a group needs, and how many a search overlooks, follow from the price; the counts of a check,
            the shown groups, and the powers and the number of units of a search were released with noise before.
Checked by: tests/answers/test_warnings.py, tests/curator/test_check_price.py
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from lapwing.answers.columns import half_width
from lapwing.answers.limit_advice import limit_costs
from lapwing.expressions.expression import Column, walk
from lapwing.expressions.operators.dates import DATES
from lapwing.mechanisms.cells import KeySelection
from lapwing.plan.aggregates import rests_on_dates, unit_plural
from lapwing.plan.bounds_search import BoundsOf, SearchResult, overlooked
from lapwing.plan.key_selection import units_needed
from lapwing.plan.kind import Reading
from lapwing.plan.plan import Plan
from lapwing.plan.question import Question
from lapwing.plan.total import COUNT_ROWS, COUNT_UNITS
from lapwing.plan.units_exceeding import Checked
from lapwing.privacy.phrases import decimal_text, percent

NO_SIGN = "No limit appears to remove data."
HIGHER = "True counts are higher"


def left_out(question: Question, checked: Checked, confidence: Fraction) -> str:
    """How much limits cut, or at most could."""
    error, level = checked.result.error(confidence), percent(confidence)
    if cut := cut_note(question, checked, confidence):
        return f"{cut} Each number is within {error:,} with {level} confidence."
    units, all_units = unit_plural(question.table), max(0, checked.result.units)
    most = sum(max(0, min(all_units, count) + error) for count in checked.counts)
    if most >= all_units:
        return f"The check is too weak to tell what limits cut: any of about {all_units:,} {units} could exceed one."
    return f"{NO_SIGN} With {level} confidence at most {most:,} of about {all_units:,} {units} exceed one."


def cut_note(question: Question, checked: Checked, confidence: Fraction) -> str:
    """Which limits cut something, with how many units; empty if the check saw none."""
    error, all_units = checked.result.error(confidence), max(0, checked.result.units)
    pairs = [(words, min(all_units, n)) for words, n in zip(checked.target.words, checked.counts, strict=True)]
    seen = [(words, count) for words, count in pairs if count > error]
    if not seen:
        return ""
    (words, first), *others = seen
    limit = "a limit" if len(pairs) == 1 else words
    more = "".join(f", about {count:,} {words}" for words, count in others)
    said = f"about {first:,} of {all_units:,} {unit_plural(question.table)} exceed {limit}{more}"
    if question.where is not None:
        return f"Before WHERE, {said}; this filter cuts at most those."
    higher = _is_higher(question, [words for words, _ in seen])
    return f"{HIGHER}: {said}." if higher else f"{said[0].upper()}{said[1:]}."


def check_facts(checked: Checked | None, confidence: Fraction) -> dict[str, Any] | None:
    """The same, ready for JSON."""
    if checked is None:
        return None
    over = dict(zip(checked.target.words, checked.counts, strict=True))
    within = checked.result.error(confidence)
    return {"units": checked.result.units, "exceed": over, "within": within, "loss": str(checked.result.loss)}


def _is_higher(question: Question, seen: list[str]) -> bool:
    """Whether every number of the answer is a count that the seen limits lower."""
    names = {aggregate.name if not aggregate.arguments else "" for aggregate in question.aggregates}
    return names <= ({COUNT_ROWS.name, COUNT_UNITS.name} if "the limit on groups" in seen else {COUNT_ROWS.name})


def none_shown(selection: KeySelection | None) -> str:
    """Why an answer whose keys were selected has no rows."""
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
    for slot, (aggregate, reading) in enumerate(zip(outline.question.aggregates, outline.readings, strict=True)):
        if rests_on_dates(aggregate, outline.question.table) and not outline.kinds[reading.measure].releases_intervals:
            parts = [part for argument in aggregate.arguments for part in walk(argument)]
            dates = sorted({f"`{part.name}`" for part in parts if isinstance(part, Column) and part.type in DATES})
            of = f" of {' and '.join(dates)}" if dates else ""
            why = f"differences of the dates{of} have no bounds, so its noise is thousands of years wide."
            clip = "Clip it to what it can be: CLIP(..., 0, 120) for an age in years, CLIP(..., 0, 44000) in days."
            yield aggregate.words(), why, f"{clip} Or pass anyway=True."
        elif rows is not None and _fills_its_range(plan, reading, confidence, rows):
            why = f"in groups of {rows:,} rows its interval is as wide as its bounds allow."
            advice = limit_costs(plan, confidence, rows, slot).sentence
            instead = "Ask at a larger epsilon, or about larger groups. Or pass anyway=True."
            yield aggregate.words(), why, " ".join([*advice, instead])


def _fills_its_range(plan: Plan, reading: Reading, confidence: Fraction, rows: int) -> bool:
    measure = plan.measures[reading.measure]
    width, level = measure.kind.range_width(reading.statistic), plan.outline.confidence_of(reading.measure, confidence)
    error = None if width is None else half_width(measure, reading.statistic, level, rows=rows)
    return width is not None and error is not None and 2 * error >= width
