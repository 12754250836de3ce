"""Why an answer says little or nothing: no group was shown, or a search for bounds or limits found nothing.

Guarantee:  every sentence is a function of the plan and of released numbers.
Proof:      how many units a group needs, and how many a search overlooks, follow from the price; which groups are
            shown, and the powers and the number of units of a search, were released with noise before.
Checked by: tests/answers/test_doubts.py
"""

from __future__ import annotations

from fractions import Fraction

from lapwing.cells.bounds_search import BoundsOf, SearchResult, overlooked
from lapwing.measures.selection import units_needed
from lapwing.mechanisms.fitting import KeySelection
from lapwing.privacy.wording import decimal_text


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
