"""A dummy table of the same schema, made of declared facts alone, to try questions on for nothing.

Guarantee:  it is a function of the catalog: the same bytes whatever the data are.
Proof:      `dummy_rows` has no other argument.
Questions on it run on a curator of its own, with a ledger in memory; when that is spent, a new one begins. Answers say
that they are dummies. Public tables are what they are: they may be seen anyway.
Checked by: tests/server/test_dummy.py
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import count, islice
from typing import Any

import pyarrow as pa

from lapwing.asking.request import Request
from lapwing.catalog.table import Catalog, Field, Table
from lapwing.curator import Curator
from lapwing.engines.engine import ARROW_TYPES
from lapwing.engines.frames import frame_source
from lapwing.engines.source import Source
from lapwing.errors import BudgetExceeded
from lapwing.language.types import Type
from lapwing.ledger import open_ledger
from lapwing.opening.settings import curator_of
from lapwing.privacy.budget import Budget

ROWS = 100


class DummyCurator:
    """Answers questions about made-up rows."""

    def __init__(self, catalog: Catalog, budget: Budget, public: Mapping[str, Source] | None = None) -> None:
        self._catalog, self._budget, self._public = catalog, budget, public or {}
        self._lock = threading.Lock()
        self._made: Curator | None = None

    def answer(self, request: Request) -> dict[str, Any]:
        """The answer over the dummy rows, marked, ready for JSON."""
        free = replace(request, analyst="dummy", key=None, at_most=None)
        with self._lock:
            try:
                answer = self._curator().answer(free)
            except BudgetExceeded:
                self._begin()
                answer = self._curator().answer(free)
            return {"dummy": True, **answer.to_dict()}

    def tables(self) -> dict[str, Any]:
        """The rows of every private table, ready for JSON."""
        private = [table for table in self._catalog.tables if not table.public]
        return {"dummy": True, "tables": {table.name: dummy_rows(table).to_pylist() for table in private}}

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    def _curator(self) -> Curator:
        if self._made is None:
            self._begin()
        return self._made  # type: ignore[return-value]

    def _begin(self) -> None:
        self.close()
        tables = [
            (table, self._public.get(table.name) or frame_source(dummy_rows(table))) for table in self._catalog.tables
        ]
        self._made = curator_of(tables, open_ledger(None, self._budget))


def dummy_rows(table: Table) -> pa.Table:
    """Rows that fit what is declared of a table, and follow from that alone."""
    columns = {
        field.name: pa.array(list(islice(_values(field, table), ROWS)), ARROW_TYPES[field.type])
        for field in table.fields
    }
    return pa.table(columns)


def _values(field: Field, table: Table) -> Iterator[Any]:
    """Values of a column, over and over: those that are declared, some within its bounds, or plain ones."""
    if field.name == table.unit:
        return (_plain(field.type, i // max(1, min(2, table.rows_per_unit or 1))) for i in count())
    if field.values:
        return (_as(field.type, field.values[i % len(field.values)]) for i in count())
    if field.bounds is not None and field.type in (Type.INTEGER, Type.REAL):
        low, wide = field.bounds.low, field.bounds.high - field.bounds.low
        return (_as(field.type, low + wide * (i * 37 % 101) / 101) for i in count())
    return (_plain(field.type, i % 10) for i in count())


def _as(kind: Type, value: Any) -> Any:
    match kind:
        case Type.INTEGER:
            return None if value is None else int(value)
        case Type.REAL:
            return None if value is None else float(value)
        case _:
            return value


def _plain(kind: Type, number: int) -> Any:
    match kind:
        case Type.INTEGER:
            return number
        case Type.REAL:
            return float(number)
        case Type.TEXT:
            return f"text {number}"
        case Type.BOOLEAN:
            return number % 2 == 0
        case Type.DATE:
            return date(2000, 1, 1) + timedelta(days=number)
        case Type.TIMESTAMP:
            return datetime(2000, 1, 1) + timedelta(hours=number)  # noqa: DTZ001 (timestamps have no zone)
