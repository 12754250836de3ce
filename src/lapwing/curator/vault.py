"""The private rows: the only door to the engine. What comes out of it is noisy, or one bit of a session.

Every method that reads rows is called by somebody who has paid. Whatever goes wrong inside is told by one constant
sentence, and stays charged: the cause may hold data, so only its kind goes to the operator's log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.source import Source, fingerprint
from lapwing.errors import EngineFailed, Misconfigured
from lapwing.ledger import SqliteLedger
from lapwing.mechanisms.auto_bounds import AutoBounds
from lapwing.noise import SYSTEM
from lapwing.query.asking.watch import Look
from lapwing.query.catalog import Table
from lapwing.query.cells.bounding import queries
from lapwing.query.cells.finding import Found, Target, powers_query
from lapwing.query.cells.finding import released as found_by
from lapwing.query.cells.release import Answer, Arranged, Released, fetched, release, release_tables
from lapwing.query.planning.plan import Plan
from lapwing.query.strategies.strategy import Strategy, exact_tables

_LOG = logging.getLogger("lapwing.curator")
_T = TypeVar("_T")

CHANGED = (
    "The data changed without a new version, so nothing is answered. Nothing was charged. "
    "Have the steward declare a new `version` for the table."
)


class Vault:
    """Reads the rows of what was paid for, and adds the noise."""

    def __init__(self, tables: Sequence[tuple[Table, Source]], ledger: SqliteLedger, *, memory: str | None) -> None:
        self._sources = {table.name: source for table, source in tables}
        self._ledger = ledger
        before = self._fingerprints()
        self.engine = DuckDBEngine(tables, salt=int.from_bytes(ledger.salt), memory=memory)
        if self._fingerprints() != before:  # a version stands for the rows that were loaded
            self.engine.close()
            raise Misconfigured("the data were written while they were opened. Open them again when they are complete.")
        self._declare_versions([table for table, _ in tables if not table.public])

    def released(self, plan: Plan) -> Released:
        """The noisy cells of a plan."""
        return self._guarded(lambda: release(plan, self.arranged(plan)))

    def released_tables(self, strategy: Strategy) -> Answer:
        """The noisy tables of a strategy."""
        hashed, fetch = self.engine.keyed_hash, self.engine.cells
        return self._guarded(lambda: release_tables(strategy.mechanism, exact_tables(strategy, hashed, fetch)))

    def found(self, target: Target, mechanism: AutoBounds) -> Found:
        """Bounds or a limit, found privately."""
        return self._guarded(lambda: found_by(target, mechanism, self.engine.cells(powers_query(target))))

    def looked(self, plan: Plan, look: Look) -> bool:
        """One bit of the exact cells, for a session that was paid before."""
        self.check(plan.table)
        return self._guarded(lambda: look(self.arranged(plan)))

    def arranged(self, plan: Plan) -> Arranged:
        """The exact cells of a plan, still private."""
        return fetched(plan, queries(plan, self.engine.keyed_hash), self.engine.cells)

    def check(self, table: Table) -> None:
        """Refuses if the data are not those that the version was declared for."""
        for base in table.bases:
            if not base.public and not self._ledger.is_unchanged(base.name, fingerprint(self._sources[base.name])):
                raise Misconfigured(CHANGED)

    def marks(self, table: Table) -> tuple[bytes, ...]:
        """The fingerprints of the data of a table."""
        return tuple(fingerprint(self._sources[base.name]) for base in table.bases)

    def close(self) -> None:
        self.engine.close()

    def _fingerprints(self) -> list[bytes]:
        return [fingerprint(source) for source in self._sources.values()]

    def _guarded(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 (any message could depend on the data)
            kind = type(error).__name__
        incident = f"{SYSTEM.integer(48):012x}"
        _LOG.error("incident %s: %s", incident, kind)
        raise EngineFailed(incident)  # outside the handler: the cause must not travel along as __context__

    def _declare_versions(self, tables: Sequence[Table]) -> None:
        """Tells the ledger which data each version stands for; the same version must keep the same data."""
        for table in tables:
            if self._ledger.version(table.name) != table.version:
                self.engine.check(table)
            self._ledger.declare_version(table.name, table.version, fingerprint(self._sources[table.name]))
