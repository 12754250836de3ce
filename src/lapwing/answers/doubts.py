"""What to know of an answer that says little: no group was shown, or a search for bounds saw too few units.

Guarantee:  every sentence is a function of the plan and of released numbers.
Proof:      how many units a group needs, and how many a search overlooks, follow from the price; which groups are
            shown, the powers of a search and the counts here were released with noise before.
Checked by: tests/answers/test_doubts.py
"""

from __future__ import annotations

from lapwing.cells.bounds_search import BoundsOf, SearchResult
from lapwing.cells.release import Released
from lapwing.measures.selection import units_needed
from lapwing.mechanisms.fitting import KeySelection
from lapwing.planning.plan import Plan

_HELP = "Ask at a larger epsilon, or have the steward declare bounds."


def none_shown(selection: KeySelection | None) -> str:
    """Why an answer has no rows though its keys were selected."""
    if selection is None:
        return ""
    half, most = units_needed(selection)
    return (
        f"No group was large enough to be shown: one of {half:,} units is shown every second time, one of {most:,} "
        "units 95 times in 100. Ask at a larger epsilon or delta, group more coarsely, or have the keys declared."
    )


def rows_counted(plan: Plan, released: Released) -> int | None:
    """About how many rows of the table were counted, if the answer says so: all of them, without a filter."""
    if plan.question.where is not None or plan.table.source is not None or plan.selection is not None:
        return None
    pairs = zip(plan.measures, released.cells, strict=True)
    counts = [counted for measure, cells in pairs if (counted := measure.kind.rows_counted(cells)) is not None]
    return max((int(counted.sum()) for counted in counts), default=None)


def doubt_of(found: SearchResult, rows: int | None) -> str | None:
    """Why a search for bounds found nothing, if it did; `rows` were counted, about as many as it looked at or more."""
    bounds, beyond = found.target, found.beyond
    if not isinstance(bounds, BoundsOf) or beyond is None:
        return None
    if found.is_nothing:
        least = f"{2.0 ** bounds.powers[0]:,.6g}"
        why = f"nothing: no sign of a value of {least} or more, and of up to {beyond:,} units there may be none"
    elif rows is not None and rows <= beyond:
        why = f"nothing to rely on: there are about {max(0, rows):,} rows, and it may overlook {beyond:,} units"
    else:
        return None
    return f"The search for {bounds} found {why}. Values may be clipped anywhere, so do not use them. {_HELP}"
