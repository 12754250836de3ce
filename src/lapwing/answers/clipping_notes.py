"""What an answer says of a check: how many units exceed a limit, as far as noisy counts can tell.

A check is about all rows under the keys, before WHERE. So of a filtered question it is an upper bound, and is worded as
one. What is shown is within the stated error with the confidence, all counts together; no more units exceed a limit
than there are, so a count is shown as at most their number. A direction is stated only where there is one: counts
without a filter, of which limits leave something out. Means, and sums of both signs, may move either way.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from lapwing.plan.contribution_limits import unit_plural
from lapwing.plan.question import Question
from lapwing.plan.total import COUNT_ROWS, COUNT_UNITS
from lapwing.plan.units_exceeding import Checked
from lapwing.privacy.phrases import percent

NO_SIGN = "No sign that a limit cuts anything."
HIGHER = "The true counts are higher."


def left_out(question: Question, checked: Checked, confidence: Fraction) -> str:
    """How much limits cut at most, in a sentence or two."""
    error, level = checked.result.error(confidence), percent(confidence).replace("%", " %")
    all_units = max(0, checked.result.units)
    units, many = unit_plural(question.table), f"{all_units:,}"
    over = [(words, min(all_units, n)) for words, n in zip(checked.target.words, checked.counts, strict=True)]
    seen = [(words, count) for words, count in over if count > error]
    if not seen:
        most, beyond = sum(max(0, count + error) for _, count in over), "it" if len(over) == 1 else "one"
        if most >= all_units:
            return f"The check is too weak to tell what limits cut: all of about {many} {units} could exceed {beyond}."
        return f"{NO_SIGN} With {level} confidence at most {most:,} of about {many} {units} exceed {beyond}."
    if len(over) == 1:
        said = f"about {seen[0][1]:,} of {many} {units} ({level}: within {error:,}) exceed a limit"
    else:
        (words, count), *others = seen
        more = "".join(f", about {count:,} {words}" for words, count in others)
        said = f"about {count:,} of {many} {units} exceed {words}{more} ({level}: each within {error:,})"
    if question.where is not None:
        return f"Before WHERE {said}; this filter cuts at most those."
    higher = f" {HIGHER}" if _is_higher(question, [words for words, _ in seen]) else ""
    return f"{said[0].upper()}{said[1:]}.{higher}"


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
