"""The private rows: the only door to the engine. What comes out of it is noisy, or one bit of a session.

Whatever reads rows takes two steps. The first, `prepare_...`, comes before the charge: queries are written and parsed,
noise is drawn, an answer is made from no rows. What cannot be prepared is a fault of ours and costs nothing. It returns
the second, which reads the rows, to be called once after the charge. Whatever goes wrong there is reported by one
constant sentence, and stays charged: the cause may hold data, so only its kind goes to the operator's log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from lapwing.answers.computed import rehearse_statement
from lapwing.answers.stored import encode
from lapwing.curator.policy import declaration
from lapwing.curator.query_cache import QueryCache
from lapwing.curator.watch import Look
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.engine import Engine
from lapwing.engines.time_limit import prolonged
from lapwing.errors import Bug, DataChanged, EngineFailed, LapwingError
from lapwing.expressions.table import Catalog, Table
from lapwing.ledger import Ledger
from lapwing.ledger.entry import LedgerView
from lapwing.noise import SYSTEM
from lapwing.plan.add_noise import Released, fetched, release
from lapwing.plan.plan import Plan
from lapwing.plan.postprocessed import SplitStatement
from lapwing.plan.query import queries
from lapwing.plan.question import Question, steps

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
        self._public = [table for table in catalog.tables if table.public]
        self._engine = engine
        self._prepared = QueryCache(engine)
        self._ledger = ledger
        self._declare_versions()

    def prepare_release(
        self, plan: Plan, confidence: Fraction, questions: Sequence[Question] | None = None
    ) -> Callable[[], tuple[Released, bytes]]:
        """For the noisy cells of a plan, off which its own question is read, or these, and their bytes."""
        asked = _prepare(lambda: self._prepared.rehearse(plan, confidence, questions)).prepared(_in_time(plan.question))

        def read() -> tuple[Released, bytes]:
            with self._engine.snapshot() as fetch:
                cells = fetched(plan, asked, fetch)
            released = release(plan, cells)
            return released, encode(plan, released)

        return lambda: _run(read)

    def check_forms(self, plan: Plan) -> None:
        """Refuses a plan that the engine lacks a form for. Asks the engine nothing."""
        if not self._engine.dialect.is_whole:
            for query in queries(plan).all:
                if not isinstance(query, EngineQuery):
                    self._engine.dialect.check(query)

    def prepare_steps(self, statement: SplitStatement, confidence: Fraction) -> None:
        """For the steps above the release: they run on tables without rows first."""
        _prepare(lambda: rehearse_statement(statement, confidence))

    def prepare_probe(self, plan: Plan) -> Callable[[Look], bool]:
        """For one bit of the exact cells, in a session that was paid before."""
        asked = _prepare(lambda: self._prepared.queries(plan))

        def read(look: Look) -> bool:
            with self._engine.snapshot() as fetch:
                cells = fetched(plan, asked, fetch)
            return look(cells)

        return lambda look: _run(lambda: read(look))

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

    def _declare_versions(self) -> None:
        """Tells the ledger which tables are asked about, before anything is charged; new data are checked first."""
        for table in self._private:
            if self._ledger.version(table.name) != table.version:
                self._engine.check(table)
        private, public = (
            [declaration(table, self._engine.origin(table)) for table in side] for side in (self._private, self._public)
        )
        self._ledger.declare(private, public=public)


def _in_time(question: Question) -> Callable[[EngineQuery], EngineQuery]:
    """Gives a query the time of a question."""
    many = steps(question)
    return lambda query: query if many == 1 else replace(query, seconds=prolonged(query.seconds, many))


def _prepare(work: Callable[[], _T]) -> _T:
    """The result of what needs no rows. If it fails, its cause is a function of the question and may be seen."""
    try:
        return work()
    except LapwingError:  # such as a form that the engine lacks, or a server that cannot be reached
        raise
    except Exception as error:
        raise Bug(UNREADY.format(kind=type(error).__name__), free=True) from error


def _run(work: Callable[[], _T]) -> _T:
    """The result of what reads rows."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 (any message could depend on the data)
        kind = type(error).__name__
    incident = f"{SYSTEM.integer(48):012x}"
    _LOG.error("incident %s: %s", incident, kind)
    raise EngineFailed(incident)  # outside the handler: the cause must not travel along as __context__
