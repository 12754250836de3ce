"""The curator: the one place that joins a question, the engine, the mechanisms and the ledger.

    read -> plan -> reserve (durable) -> engine -> release (noise) -> settle -> Release

Nothing reads private rows before the charge is durable, and nothing is refunded after. Refusals happen before the
charge and depend on the question and on declared facts only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, TypeVar

from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.source import Source, fingerprint
from lapwing.errors import EngineFailed, LedgerFailed, Misconfigured
from lapwing.ledger import SqliteLedger
from lapwing.noise import SYSTEM
from lapwing.privacy.budget import Cost
from lapwing.privacy.statement import Statement
from lapwing.query.answer import Release
from lapwing.query.bounding import queries
from lapwing.query.catalog import Catalog, Table
from lapwing.query.combine import combined, refusal_to_combine
from lapwing.query.ibis import read_ibis, unbound
from lapwing.query.plan import Plan
from lapwing.query.preview import Preview
from lapwing.query.pricing import Terms, Within, plan_on_terms
from lapwing.query.question import Question
from lapwing.query.release import Arranged, Released, fetched, release
from lapwing.query.sql import read_sql
from lapwing.query.stored import decode, encode
from lapwing.query.verdict import Refusal, Stop, raised
from lapwing.query.watch import Look, Watch, make_session
from lapwing.rational import Number, exact, inside_unit

_LOG = logging.getLogger("lapwing.curator")
_Found = TypeVar("_Found")

_REMEMBERED = 256  # questions and stored answers in memory

STEWARD = "steward"
"""Who asks when nobody is named."""


class Curator:
    """Answers questions about private tables within a budget."""

    def __init__(self, tables: Sequence[tuple[Table, Source]], ledger: SqliteLedger) -> None:
        self._catalog = Catalog(tuple(table for table, _ in tables))
        self._sources = {table.name: source for table, source in tables}
        self._ledger = ledger
        self._engine = DuckDBEngine(tables, salt=int.from_bytes(ledger.salt))
        self._read_sql = lru_cache(maxsize=_REMEMBERED)(partial(read_sql, catalog=self._catalog))
        self._kept: dict[Hashable, tuple[Hashable, Release]] = {}
        self._declare_versions()

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    @property
    def budget(self) -> Statement:
        """What was spent and what is left, in plain words when printed."""
        return Statement(self._ledger.budget, self._ledger.spent)

    @property
    def ledger(self) -> SqliteLedger:
        """What was spent, entry by entry. For the steward."""
        return self._ledger

    def preview(
        self,
        question: Any,
        *,
        within: Within | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        confidence: Number | None = None,
        assume_rows: int | None = None,
        intervals: bool = True,
        refresh: bool = False,
    ) -> Preview:
        """Price and error of a question, in SQL or as an Ibis expression. Free; reads no data."""
        terms = Terms(within, epsilon, delta, confidence, assume_rows, intervals)
        plan, level = self._planned(self._read(question), terms)
        stored = None if refresh else self._stored(plan, level)
        cost = self._ledger.budget.cost(plan.loss)
        shown, price = (plan, cost) if stored is None else (stored.plan, _nothing(cost))
        return Preview(shown, self._ledger.budget, price, self._ledger.remaining, level, assume_rows)

    def sql(
        self,
        sql: str,
        *,
        within: Within | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        confidence: Number | None = None,
        assume_rows: int | None = None,
        intervals: bool = True,
        refresh: bool = False,
        combine: bool = False,
        analyst: str = STEWARD,
        key: str | None = None,
    ) -> Release:
        """The noisy answer to a question, charged before any row is read.

        `within` asks for the lowest price at which counts and sums are that exact, `epsilon` names the price. An answer
        that was paid before and is at least as good costs nothing; `refresh` pays for a new one, and with `combine`
        joins it with all that were paid before. `key` makes a retry safe: it pays once.
        With intervals=False quantiles come without one and err less: half of their price would buy it.
        """
        terms = Terms(within, epsilon, delta, confidence, assume_rows, intervals)
        question = self._read_sql(sql)
        if refresh or combine or key is not None or isinstance(question, Refusal):
            return self._answer(question, sql, terms, refresh, analyst, key, combine=combine)
        name, seen = (sql, repr(terms)), (self._ledger.state, self._marks(question.table))
        before, kept = self._kept.get(name, (None, None))
        if kept is not None and before == seen:
            return kept
        answer = self._answer(question, sql, terms, refresh, analyst, key, combine=combine)
        if not answer.cost:
            self._keep(name, seen, answer)
        return answer

    def ask(
        self,
        expression: Any,
        *,
        within: Within | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        confidence: Number | None = None,
        assume_rows: int | None = None,
        intervals: bool = True,
        refresh: bool = False,
        combine: bool = False,
        analyst: str = STEWARD,
        key: str | None = None,
    ) -> Release:
        """The same for an Ibis expression over `curator.table(...)`."""
        terms = Terms(within, epsilon, delta, confidence, assume_rows, intervals)
        question = read_ibis(expression, self._catalog)
        return self._answer(question, str(expression), terms, refresh, analyst, key, combine=combine)

    def watch(
        self,
        *,
        threshold: Number,
        epsilon: Number,
        answers: int = 1,
        queries: int = 100,
        signed: bool = False,
        analyst: str = STEWARD,
    ) -> Watch:
        """A session that tells of counts and sums whether they are above a threshold, until `answers` of them were.

        The full price is charged here, once; the session dies with its process and stays charged. `queries` is how many
        questions below you expect, which is no limit; `signed` admits sums that a unit may lower, with more noise.
        """
        bar = exact(threshold, "threshold")
        session = make_session(self._ledger.budget, epsilon=epsilon, answers=answers, queries=queries, signed=signed)
        price, many = self._ledger.budget.cost(session.loss), session.answers
        note = {"question": f"watch for {many} above {bar}", "watch": {"threshold": str(bar), "answers": many}}
        body = repr(("watch", bar, session))
        reservation = self._ledger.reserve(price, analyst=analyst, body=body, note=note)
        return Watch(session, bar, (reservation.cost, reservation.seq), read=self._read, looked=self._looked)

    def table(self, name: str) -> Any:
        """An unbound Ibis table for writing questions: schema only, it cannot execute."""
        try:
            return unbound(self._catalog.table(name))
        except Stop as stop:
            raise raised(stop.refusal) from None

    def close(self) -> None:
        self._engine.close()
        self._ledger.close()

    def _read(self, question: Any) -> Question | Refusal:
        return self._read_sql(question) if isinstance(question, str) else read_ibis(question, self._catalog)

    def _planned(self, question: Question | Refusal, terms: Terms) -> tuple[Plan, Fraction]:
        """The plan on these terms, and the confidence that its errors are stated at."""
        if isinstance(question, Refusal):
            raise raised(question)
        level = _level(question.table, terms.confidence)
        plan = plan_on_terms(question, self._ledger.budget, terms, level)
        if isinstance(plan, Refusal):
            raise raised(plan)
        return plan, level

    def _answer(
        self,
        question: Question | Refusal,
        text: str,
        terms: Terms,
        refresh: bool,
        analyst: str,
        key: str | None,
        *,
        combine: bool,
    ) -> Release:
        plan, level = self._planned(question, terms)
        if combine:
            _check_combine(plan, refresh)
        self._check_version(plan.table)
        stored = None if refresh else self._stored(plan, level, analyst, key)
        if stored is not None:
            return stored
        cost = self._ledger.budget.cost(plan.loss)
        note = {"question": text, "plan": plan.question.canonical(), "version": plan.table.version}
        reservation = self._ledger.reserve(cost, analyst=analyst, body=plan.identity(), key=key, note=note)
        if reservation.answer is not None:
            made, released = decode(plan.outline, reservation.answer)
            again = Release(made, released, _nothing(cost), reservation.seq, level)
            return self._combined(again) if combine else again
        if not reservation.fresh:
            raise LedgerFailed(_UNANSWERED)
        released = self._paid(plan)
        self._ledger.settle(reservation, encode(plan, released), match=plan.outline.match())
        answer = Release(plan, released, cost, reservation.seq, level)
        return self._combined(answer) if combine else answer

    def _combined(self, newest: Release) -> Release:
        """The answer joined with all that are stored for the same question, itself among them."""
        outline = newest.plan.outline
        found = self._ledger.find_answers(outline.match())
        return combined(newest, [(answer.charge.seq, *decode(outline, answer.payload)) for answer in found])

    def _looked(self, plan: Plan, look: Look) -> bool:
        """One bit of the exact cells, for a session that was paid before."""
        self._check_version(plan.table)
        return self._guarded(lambda: look(self._arranged(plan)))

    def _keep(self, name: Hashable, seen: Hashable, answer: Release) -> None:
        """Keeps a stored answer at hand for the same words, as long as the ledger and the data stay as they were."""
        if len(self._kept) >= _REMEMBERED:
            self._kept.clear()
        self._kept[name] = seen, answer

    def _marks(self, table: Table) -> tuple[bytes, ...]:
        return tuple(fingerprint(self._sources[base.name]) for base in table.bases)

    def _stored(self, plan: Plan, level: Fraction, analyst: str = STEWARD, key: str | None = None) -> Release | None:
        """The best answer paid before, if none of its errors is larger than asked; of equal ones the first.

        A key that was used before for this question and price gives its own answer back.
        """
        best: Release | None = None
        for answer in self._ledger.find_answers(plan.outline.match()):
            made, released = decode(plan.outline, answer.payload)
            found = Release(made, released, _nothing(self._ledger.budget.cost(made.loss)), answer.charge.seq, level)
            same = (answer.charge.analyst, answer.charge.key, made.prices) == (analyst, key, plan.prices)
            if key is not None and same:
                return found
            if made.is_as_good_as(plan, level) and (best is None or not best.plan.is_as_good_as(made, level)):
                best = found
        return best

    def _paid(self, plan: Plan) -> Released:
        """Reads the rows and adds the noise."""
        return self._guarded(lambda: release(plan, self._arranged(plan)))

    def _arranged(self, plan: Plan) -> Arranged:
        """The exact cells of a plan, still private."""
        return fetched(plan, queries(plan, self._engine.keyed_hash), self._engine.cells)

    def _guarded(self, work: Callable[[], _Found]) -> _Found:
        """Does what touches private rows. Whatever goes wrong is told by one constant sentence and stays charged.

        The cause may hold data, so only its kind goes to the operator's log.
        """
        try:
            return work()
        except Exception as error:  # noqa: BLE001 (any message could depend on the data)
            kind = type(error).__name__
        incident = f"{SYSTEM.integer(48):012x}"
        _LOG.error("incident %s: %s", incident, kind)
        raise EngineFailed(incident)  # outside the handler: the cause must not travel along as __context__

    def _declare_versions(self) -> None:
        """Tells the ledger which data each version stands for; the same version must keep the same data."""
        for table in self._catalog.tables:
            if table.public:
                continue
            if self._ledger.version(table.name) != table.version:
                self._engine.check(table)
            self._ledger.declare_version(table.name, table.version, fingerprint(self._sources[table.name]))

    def _check_version(self, table: Table) -> None:
        for base in table.bases:
            if not base.public and not self._ledger.is_unchanged(base.name, fingerprint(self._sources[base.name])):
                raise Misconfigured(_CHANGED)


_UNANSWERED = (
    "A question with this key was charged before and has no stored answer. It stays charged and is not run again. "
    "Ask with another key to pay again."
)

_CHANGED = (
    "The data changed without a new version, so nothing is answered. Nothing was charged. "
    "Have the steward declare a new `version` for the table."
)


def _level(table: Table, confidence: Number | None) -> Fraction:
    level = table.confidence if confidence is None else inside_unit(confidence, "confidence")
    if not _LEAST_LEVEL <= level <= 1 - _LEAST_LEVEL:
        raise Misconfigured("`confidence` must lie between 1e-9 and 1 - 1e-9. Pass 0.95. Nothing was charged.")
    return level


_LEAST_LEVEL = Fraction(1, 10**9)


def _check_combine(plan: Plan, refresh: bool) -> None:
    if not refresh:
        raise Misconfigured("`combine` joins a new answer with stored ones. Pass refresh=True. Nothing was charged.")
    refusal = refusal_to_combine(plan.outline)
    if refusal is not None:
        raise raised(refusal)


def _nothing(cost: Cost) -> Cost:
    return cost - cost
