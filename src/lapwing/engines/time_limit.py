"""How long one query may take on a server: a rule over what it reads and what is declared, never over rows.

Rule:       an hour, or 64 times the `answer_time` of the private tables that the query reads, whichever is longer; all
            that for each step (plan/question.py). A server waits for an answer up to 64 times its time,
            too, which has the same steps (server/timing.py). An answer has one query for each pass over the rows, so
            the time for all of them grows with the passes of its plan.
Guarantee:  when a query is ended is a function of the question and of declared facts alone.
Proof:      `time_limit` and `prolonged` have no other arguments.
Not covered: *whether* a query is ended depends on how long it takes, and so on rows. The factor is large so that
            it hardly ever is. If it is, the price stays charged, and what is said is one constant sentence.
Checked by: tests/engines/test_time_limit.py
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from lapwing.expressions.table import Table

LEAST = 3600
"""Seconds that every query may take, also about tables that declare no `answer_time`."""
FACTOR = 64
_MOST = 7 * 24 * 3600  # PostgreSQL takes at most 24 days


def time_limit(tables: Iterable[Table]) -> int:
    """Seconds that a query which reads these tables may take."""
    declared = sum(table.answer_time or 0.0 for table in tables if not table.public)
    return min(_MOST, max(LEAST, ceil(FACTOR * declared)))


def prolonged(seconds: int, steps: int) -> int:
    """The seconds of a query about a question of this many steps."""
    return min(_MOST, seconds * steps)
