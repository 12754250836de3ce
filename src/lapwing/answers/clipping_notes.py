"""Reports how many units exceed a limit, as far as noisy counts can tell.

A check is about all rows under the keys, before WHERE. So of a filtered question it is an upper bound, and is worded as
one. What is shown is within the stated error with the confidence, all counts together; no more units exceed a limit
than there are, so a count is shown as at most their number. A direction is stated only where there is one: counts
without a filter, of which limits leave something out. Means, and sums of both signs, may move either way.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from lapwing.plan.aggregates import unit_plural
from lapwing.plan.question import Question
from lapwing.plan.total import COUNT_ROWS, COUNT_UNITS
from lapwing.plan.units_exceeding import Checked
from lapwing.privacy.phrases import percent

NO_SIGN = "No limit appears to remove data."
HIGHER = "True counts are higher"


def left_out(question: Question, checked: Checked, confidence: Fraction) -> str:
    """How much limits cut, or at most could, in one sentence or two."""
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
