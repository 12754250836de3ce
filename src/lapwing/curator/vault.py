"""The private rows: the only door to the engine. What comes out of it is noisy, or one bit of a session.

Whatever reads rows is made in two steps. `ready` and its like prepare it, before the charge: queries are written and
parsed, noise is drawn, an answer is made from no rows. What cannot be prepared is a fault of ours and costs nothing.
They return what reads the rows, to be called once by somebody who has paid. Whatever goes wrong there is told by one
constant sentence, and stays charged: the cause may hold data, so only its kind goes to the operator's log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from lapwing.answers.rehearsal import rehearse
from lapwing.answers.stored import encode
from lapwing.asking.watch import Look
from lapwing.catalog.table import Table
from lapwing.cells.bounding import Queries, queries
from lapwing.cells.finding import Found, Target, encode_found, powers_query
from lapwing.cells.finding import released as found_by
from lapwing.cells.release import Answer, Arranged, Released, fetched, release, release_tables
from lapwing.curator.policy import declaration
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.source import Source, fingerprint
from lapwing.errors import Bug, EngineFailed, Misconfigured
from lapwing.ledger import SqliteLedger
from lapwing.mechanisms.quantiles.auto_bounds import AutoBounds
from lapwing.noise import SYSTEM
from lapwing.planning.plan import Plan
from lapwing.planning.question import Question
from lapwing.workloads.strategy import Strategy, encode_strategy, exact_tables, tables_query

_LOG = logging.getLogger("lapwing.curator")
_T = TypeVar("_T")

Paid = Callable[[], tuple[_T, bytes]]
"""Reads the rows for a charge that was made: the answer, and its bytes for the ledger."""

CHANGED = (
    "The data changed without a new version, so nothing is answered. Nothing was charged. "
    "Have the steward declare a new `version` for the table, and open it again with that version."
)
UNREADY = (
    "This question could not be prepared ({kind}). Nothing was charged for its answer, and no data were read for it. "
    "This is a fault of Lapwing or of a package it uses; please report it."
)


class Vault:
    """Reads the rows of what was paid for, and adds the noise."""

    def __init__(self, tables: Sequence[tuple[Table, Source]], ledger: SqliteLedger, *, memory: str | None) -> None:
        self._sources = {table.name: source for table, source in tables}
        self._private = [table for table, _ in tables if not table.public]
        self._ledger = ledger
        before = self._fingerprints()
        self.engine = DuckDBEngine(tables, salt=int.from_bytes(ledger.salt), memory=memory)
        if self._fingerprints() != before:  # a version stands for the rows that were loaded
            self.engine.close()
            raise Misconfigured("the data were written while they were opened. Open them again when they are complete.")
        self._declare_versions(self._private)

    def ready(self, plan: Plan, confidence: Fraction, questions: Sequence[Question] | None = None) -> Paid[Released]:
        """For the noisy cells of a plan, off which its own question is read, or these."""
        asked = _prepared(lambda: self._asked(plan))
        _prepared(lambda: rehearse(plan, confidence, (plan.question,) if questions is None else questions))

        def read() -> tuple[Released, bytes]:
            released = release(plan, fetched(plan, asked, self.engine.cells))
            return released, encode(plan, released)

        return lambda: _guarded(read)

    def ready_tables(self, strategy: Strategy) -> Paid[Answer]:
        """For the noisy tables of a strategy, whose noise was drawn when it was made."""
        query = _prepared(lambda: self.engine.written(tables_query(strategy, self.engine.keyed_hash)))

        def read() -> tuple[Answer, bytes]:
            released = release_tables(strategy.mechanism, exact_tables(strategy, self.engine.cells(query)))
            return released, encode_strategy(strategy, released)

        return lambda: _guarded(read)

    def ready_to_find(self, target: Target, mechanism: AutoBounds) -> Paid[Found]:
        """For bounds or a limit that are found privately, by a mechanism that has drawn noise before."""
        query = _prepared(lambda: self.engine.written(powers_query(target)))

        def read() -> tuple[Found, bytes]:
            found = found_by(target, mechanism, self.engine.cells(query))
            return found, encode_found(found)

        return lambda: _guarded(read)

    def ready_to_look(self, plan: Plan) -> Callable[[Look], bool]:
        """For one bit of the exact cells, in a session that was paid before."""
        asked = _prepared(lambda: self._asked(plan))
        return lambda look: _guarded(lambda: look(fetched(plan, asked, self.engine.cells)))

    def arranged(self, plan: Plan) -> Arranged:
        """The exact cells of a plan, still private."""
        return fetched(plan, self._asked(plan), self.engine.cells)

    def check(self, table: Table) -> None:
        """Refuses if the data are not those that the version was declared for."""
        if not self.is_unchanged(table):
            raise Misconfigured(CHANGED)

    def check_all(self) -> None:
        """Refuses if the data of any private table are not those that its version was declared for."""
        for table in self._private:
            self.check(table)

    def is_unchanged(self, table: Table) -> bool:
        """Whether the data are those that the version was declared for."""
        private = [base for base in table.bases if not base.public]
        marks = {base.name: fingerprint(self._sources[base.name]) for base in private}
        return all(self._ledger.is_unchanged(base.name, base.version, marks[base.name]) for base in private)

    def marks(self, table: Table) -> tuple[bytes, ...]:
        """The fingerprints of the data of a table."""
        return tuple(fingerprint(self._sources[base.name]) for base in table.bases)

    def close(self) -> None:
        self.engine.close()

    def _asked(self, plan: Plan) -> Queries:
        """The queries of a plan as the engine runs them."""
        return queries(plan, self.engine.keyed_hash).written(self.engine.written)

    def _fingerprints(self) -> list[bytes]:
        return [fingerprint(source) for source in self._sources.values()]

    def _declare_versions(self, tables: Sequence[Table]) -> None:
        """Tells the ledger which tables are asked about, before anything is charged; new data are looked at first."""
        for table in tables:
            if self._ledger.version(table.name) != table.version:
                self.engine.check(table)
        self._ledger.declare([declaration(table, self._sources[table.name]) for table in tables])


def _prepared(work: Callable[[], _T]) -> _T:
    """The result of what needs no rows. If it fails, its cause is a function of the question and may be seen."""
    try:
        return work()
    except Exception as error:
        raise Bug(UNREADY.format(kind=type(error).__name__)) from error


def _guarded(work: Callable[[], _T]) -> _T:
    """The result of what reads rows."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 (any message could depend on the data)
        kind = type(error).__name__
    incident = f"{SYSTEM.integer(48):012x}"
    _LOG.error("incident %s: %s", incident, kind)
    raise EngineFailed(incident)  # outside the handler: the cause must not travel along as __context__
