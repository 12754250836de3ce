"""The budgets of frames that no file keeps.

Guarantee:  in one process, tables of the same name are the same people: all that is charged for them, by however many
            curators, one after the other or at once, adds up in one ledger. Its budget and its unit are the first ones.
Proof:      a name is given a ledger once, under a lock, and keeps it; a child of a fork has the same names, whose
            ledgers refuse it (ledger/sqlite_book.py). Two names that have ledgers of their own are never joined.
Versions:   data that were seen under a name before have the version that they had then; others are a new one.
Checked by: tests/curator/test_populations.py
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from itertools import count

from lapwing.errors import Misconfigured
from lapwing.ledger.sqlite_book import Memory

FRESH = ":memory:"
"""Written in place of a path: a ledger of its own for every open."""
_FRESH = "This budget is in memory, for this curator only: opening the data again starts another one."
_ENDS = "This budget is in memory and ends with the process. Pass ledger='ledger.db' to keep it."


class Population(Memory):
    """A ledger in memory, and the data that were opened with it."""

    def __init__(self, *, fresh: bool = False) -> None:
        super().__init__(_FRESH if fresh else _ENDS)
        self._seen: dict[str, dict[object, str]] = {}

    def version(self, table: str, mark: object, declared: str | None) -> str:
        """The version of a table with these contents: the declared one, the one they had, or the next number."""
        with _Known.lock:
            seen = self._seen.setdefault(table.lower(), {})
            if declared is None:
                return seen.setdefault(mark, next(n for n in map(str, count(1)) if n not in seen.values()))
            if declared not in seen.values():
                seen[mark] = declared
            return declared


class _Known:
    """The populations of this process by the names of their tables. A signal handler may open one too."""

    by_name: dict[str, Population] = {}  # noqa: RUF012 (shared by the whole process on purpose)
    lock = threading.RLock()

    @classmethod
    def renew(cls) -> None:
        cls.lock = threading.RLock()


os.register_at_fork(after_in_child=_Known.renew)  # a thread that does not exist here may hold the parent's lock


def population_of(tables: Sequence[str]) -> Population:
    """Whose rows these tables have, as long as the process runs."""
    names = [table.lower() for table in tables]
    with _Known.lock:
        known = {_Known.by_name[name] for name in names if name in _Known.by_name}
        if len(known) > 1:
            raise Misconfigured(
                f"{', '.join(f'`{table}`' for table in tables)} were opened before with a budget each. Open them one "
                "by one, or all of them with one ledger: ledger='ledger.db'. The budgets of two ledgers add up."
            )
        population = known.pop() if known else Population()
        _Known.by_name |= dict.fromkeys(names, population)
        return population
