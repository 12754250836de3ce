"""Free questions on made-up rows (curator/dummy.py): when their ledger is spent, a new one begins."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from lapwing.curator import Curator
from lapwing.curator.dummy import dummy_rows
from lapwing.curator.request import Request
from lapwing.errors import BudgetExceeded
from lapwing.server.timing import check_operators


class DummyAnswers:
    """Answers to whatever the real curator would be asked."""

    def __init__(self, curator: Curator) -> None:
        self._real = curator
        self._lock = threading.Lock()
        self._made: Curator | None = None

    def answer(self, request: Request, questions: int = 1) -> dict[str, Any]:
        """The answer over made-up rows, marked, ready for JSON."""
        free = replace(request, analyst="dummy", key=None, at_most=None)
        with self._lock:
            check_operators(self._curator().preview_request(free), questions)
            try:
                answer = self._curator().answer(free)
            except BudgetExceeded:
                self.close()
                answer = self._curator().answer(free)
            return {"dummy": True, **answer.to_dict()}

    def tables(self) -> dict[str, Any]:
        """The made-up rows of every private table, ready for JSON."""
        rows_by_table = dummy_rows(self._real.catalog)
        return {
            "dummy": True,
            "tables": {table.name: rows.to_pylist() for table, rows in rows_by_table.items() if not table.public},
        }

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
        self._made = None

    def _curator(self) -> Curator:
        if self._made is None:
            self._made = self._real.dummy()
        return self._made
