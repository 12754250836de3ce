"""The private rows: the only door to the engine for answers. What comes out is noisy, or one bit of a session.

Whatever reads rows takes two steps. The first, `prepare` or `prepare_probe`, comes before the charge: queries are
written and parsed, noise is drawn, an answer is made from no rows. What fails here is a fault of ours and is free. It
returns the second, which reads the rows, to be called once after the charge. Whatever fails there is reported by one
constant sentence, and stays charged: the cause may hold data, so only its kind goes to the operator's log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

from lapwing.answers.computed import rehearse_statement
from lapwing.answers.stored import encode
from lapwing.curator.purchase import PlannedCharge, Purchase
from lapwing.curator.query_cache import QueryCache
from lapwing.curator.watch import Look
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.engine import Engine, Origin
from lapwing.engines.time_limit import prolonged
from lapwing.errors import Bug, DataChanged, EngineFailed, LapwingError
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Interval, Span, Value
from lapwing.ledger import Declaration, Ledger
from lapwing.ledger.entry import LedgerView
from lapwing.noise import SYSTEM
from lapwing.plan.add_noise import Arranged, Released, fetched, release
from lapwing.plan.plan import Plan
from lapwing.plan.postprocessed import SplitStatement
from lapwing.plan.query import Queries, queries
from lapwing.plan.question import steps

_LOG = logging.getLogger("lapwing.curator")
_T = TypeVar("_T")

CHANGED = (
    "The data changed without a new version, or another version was opened since, so nothing is answered. Nothing was "
    "charged. Have the steward open the table again, with a new `version` if its data changed."
)
UNREADY = (
    "This question could not be prepared ({kind}). "
    "This is a fault of Lapwing or of a package it uses; please report it."
)


class PrivateData:
    """Reads the rows of what was paid for, and adds the noise."""

    def __init__(self, catalog: Catalog, engine: Engine, ledger: Ledger) -> None:
        self._private = [table for table in catalog.tables if not table.public]
        self._engine, self._ledger, self._queries = engine, ledger, QueryCache(engine)
        for table in self._private:  # new data are checked before anything is charged
            if ledger.version(table.name) != table.version:
                engine.check(table)
        private, public = (
            [declaration(table, engine.origin(table)) for table in catalog.tables if table.public == side]
            for side in (False, True)
        )
        ledger.declare(private, public=public)

    def prepare(self, charges: Sequence[PlannedCharge]) -> list[Purchase]:
        """What these charges buy: noisy cells and their bytes."""
        purchases = []
        for charge in charges:
            plan = charge.plan
            with _preparing():
                asked = self._queries.rehearse(plan, charge.confidence, charge.questions)
            if (factor := steps(plan.question)) > 1:
                asked = asked.prepared(partial(_in_time, factor))
            read = partial(self._read, plan, asked, partial(_release, plan))
            purchases.append(Purchase(charge.charge, plan, charge.confidence, read))
        return purchases

    def check_forms(self, plan: Plan) -> None:
        """Refuses a plan that the engine lacks a form for. Asks the engine nothing."""
        if not self._engine.dialect.is_whole:
            for query in queries(plan).all:
                if not isinstance(query, EngineQuery):
                    self._engine.dialect.check(query)

    def prepare_steps(self, statement: SplitStatement, confidence: Fraction) -> None:
        """For the steps above the release: they run on tables without rows first."""
        with _preparing():
            rehearse_statement(statement, confidence)

    def prepare_probe(self, plan: Plan) -> Callable[[Look], bool]:
        """For one bit of the exact cells, in a session that was paid before."""
        with _preparing():
            asked = self._queries.queries(plan)
        return partial(self._read, plan, asked)

    def _read(self, plan: Plan, asked: Queries, use: Callable[[Arranged], _T]) -> _T:
        """The use of the exact cells, which no frame of an error holds."""
        try:
            return use(self._cells(plan, asked))
        except Exception as error:  # noqa: BLE001 (any message could depend on the data)
            kind = type(error).__name__
        incident = f"{SYSTEM.integer(48):012x}"
        _LOG.error("incident %s: %s", incident, kind)
        raise EngineFailed(incident)  # outside the handler: the cause must not travel along as __context__

    def _cells(self, plan: Plan, asked: Queries) -> Arranged:
        with self._engine.snapshot() as fetch:
            return fetched(plan, asked, fetch)

    def check(self, table: Table, view: LedgerView | None = None) -> None:
        """Refuses if the data are not those that the version was declared for, as the ledger has it then or now."""
        if not self.is_unchanged(table, view):
            raise DataChanged(CHANGED)

    def check_all(self) -> None:
        """Refuses if the data of any private table are not those that its version was declared for."""
        for table in self._private:
            self.check(table)

    def is_unchanged(self, table: Table, view: LedgerView | None = None) -> bool:
        """Whether the data are those that the version was declared for."""
        private = [base for base in table.bases if not base.public]
        seen = [self._engine.origin(base).fingerprint for base in private]
        known = (view or self._ledger.look(tables=[base.name for base in private])).versions
        pairs = zip(private, seen, strict=True)
        return all(self._ledger.is_version(known[one.name], one.name, one.version, mark) for one, mark in pairs)

    def fingerprints(self, table: Table) -> tuple[bytes, ...]:
        """What the data of a table look like now."""
        return tuple(self._engine.origin(base).fingerprint for base in table.bases)

    def close(self) -> None:
        self._engine.close()


def _release(plan: Plan, cells: Arranged) -> tuple[Released, bytes]:
    released = release(plan, cells)
    return released, encode(plan, released)


def _in_time(factor: int, query: EngineQuery) -> EngineQuery:
    """The query with the time of a question of this many steps."""
    return replace(query, seconds=prolonged(query.seconds, factor))


@contextmanager
def _preparing() -> Iterator[None]:
    """If what needs no rows fails inside, its cause is a function of the question and may be seen."""
    try:
        yield
    except LapwingError:  # such as a form that the engine lacks, or a server that cannot be reached
        raise
    except Exception as error:
        raise Bug(UNREADY.format(kind=type(error).__name__), free=True) from error


_LISTED = 50  # values that an entry of the ledger lists; of more it keeps their number and hash


def declaration(table: Table, origin: Origin) -> Declaration:
    """What a steward declared of a table, as the ledger records it."""
    limits = {
        "rows_per_unit": table.rows_per_unit,
        "groups_per_unit": table.groups_per_unit,
        "auto": sorted(limit.value for limit in table.auto),
        "columns": {field.name: _column(field) for field in table.fields},
        **({"csv": dict(origin.csv)} if origin.csv else {}),
    }
    seen, place, part = origin.fingerprint, origin.place, origin.part
    return Declaration(table.name, table.version, table.unit, seen, place, part, limits, origin.files)


def _column(field: Field) -> dict[str, Any]:
    declared = {
        "bounds": "auto" if field.auto else _interval(field.bounds or field.span),
        "unit_bounds": _interval(field.unit_bounds),
        "values": _values(field.values),
        "edges": _values(field.edges),
        "other": field.other,
        "zone": field.zone,
    }
    return {"type": field.type.value, **{name: value for name, value in declared.items() if value}}


def _interval(interval: Interval | Span | None) -> list[str] | None:
    return None if interval is None else [str(interval.low), str(interval.high)]


def _values(values: Sequence[Value]) -> list[str | None] | dict[str, Any]:
    listed = [None if value is None else str(value) for value in values]
    if len(listed) <= _LISTED:
        return listed
    return {"count": len(listed), "sha256": sha256(repr(listed).encode()).hexdigest()}
