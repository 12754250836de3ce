"""The curator: the one place that joins a question, the engine, the mechanisms and the ledger.

    read -> plan -> reserve (durable) -> engine -> release (noise) -> settle -> Release

Nothing reads private rows before the charge is durable, and nothing is refunded after. Refusals happen before the
charge and depend on the question and on declared facts only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, TypeVar

from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.source import Source, fingerprint
from lapwing.errors import BudgetExceeded, EngineFailed, LedgerFailed, Misconfigured
from lapwing.ledger import Charge, Reservation, SqliteLedger
from lapwing.ledger.wording import shortage
from lapwing.mechanisms.auto_bounds import AutoBounds
from lapwing.noise import SYSTEM
from lapwing.privacy.budget import Cost
from lapwing.privacy.statement import Statement
from lapwing.query.answer import Release
from lapwing.query.automatic import SHARE, Read, read_automatic
from lapwing.query.batch import Named, Shared, read_batch, share
from lapwing.query.batch_answer import Batch, BatchPreview, batch_of, preview_of
from lapwing.query.bounding import queries
from lapwing.query.catalog import Catalog, Table
from lapwing.query.charging import Bought, Buyer, bought
from lapwing.query.combine import combined, refusal_to_combine
from lapwing.query.finding import Found, Target, powers_query
from lapwing.query.finding import released as found_by
from lapwing.query.ibis import read_ibis, unbound
from lapwing.query.plan import Plan
from lapwing.query.preparing import Preparer
from lapwing.query.preview import Preview
from lapwing.query.pricing import Terms, Within, plan_on_terms
from lapwing.query.question import Question
from lapwing.query.release import Arranged, Released, fetched, release, release_tables
from lapwing.query.sql import read_sql
from lapwing.query.stored import decode, encode
from lapwing.query.strategies import Strategies
from lapwing.query.strategy import Answer, Counted, Strategy, exact_tables, make_strategy
from lapwing.query.verdict import Refusal, Stop, raised
from lapwing.query.watch import Look, Watch, make_session
from lapwing.rational import Number, exact, inside_unit

_LOG = logging.getLogger("lapwing.curator")
_Found = TypeVar("_Found")

_REMEMBERED = 256  # questions and stored answers in memory

STEWARD = "steward"
"""Who asks when nobody is named."""


class Curator(Strategies):
    """Answers questions about private tables within a budget."""

    def __init__(self, tables: Sequence[tuple[Table, Source]], ledger: SqliteLedger) -> None:
        self._catalog = Catalog(tuple(table for table, _ in tables))
        self._sources = {table.name: source for table, source in tables}
        self._ledger = ledger
        self._engine = DuckDBEngine(tables, salt=int.from_bytes(ledger.salt))
        self._read_sql = lru_cache(maxsize=_REMEMBERED)(partial(read_sql, catalog=self._catalog))
        self._kept: dict[Hashable, tuple[Hashable, Release]] = {}
        self._preparer = Preparer(self._catalog, ledger, planned=self._planned, find=self._found)
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
        bounds: str | None = None,
        limits: str | None = None,
        find_share: Number = SHARE,
        refresh: bool = False,
    ) -> Preview:
        """Price and error of a question, in SQL or as an Ibis expression. Free; reads no data."""
        automatic = read_automatic(bounds, limits, find_share)
        terms = Terms(within, epsilon, delta, confidence, assume_rows, intervals, automatic)
        ready = self._preparer.prepare(self._read(question), _reader(question), terms)
        stored = None if refresh or ready.missing else self._stored(ready.least, ready.level)
        cost = self._ledger.budget.cost(ready.plan.loss) + ready.to_pay
        shown, price = (ready.plan, cost) if stored is None else (stored.plan, _nothing(cost))
        room, words = self._ledger.remaining, tuple(map(str, ready.missing))
        return Preview(shown, self._ledger.budget, price, room, ready.level, assume_rows, words)

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
        bounds: str | None = None,
        limits: str | None = None,
        find_share: Number = SHARE,
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
        bounds="auto" finds bounds of columns that have none, limits="auto" limits of units, for `find_share` of the
        price; what was found is stored, and the next question that needs it has it for nothing.
        """
        automatic = read_automatic(bounds, limits, find_share)
        terms = Terms(within, epsilon, delta, confidence, assume_rows, intervals, automatic)
        question, read = self._read_sql(sql), _reader(sql)
        if refresh or combine or key is not None or isinstance(question, Refusal):
            return self._answer(question, sql, terms, refresh, analyst, key, combine=combine, read=read)
        name, seen = (sql, repr(terms)), (self._ledger.state, self._marks(question.table))
        before, kept = self._kept.get(name, (None, None))
        if kept is not None and before == seen:
            return kept
        answer = self._answer(question, sql, terms, refresh, analyst, key, combine=combine, read=read)
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
        bounds: str | None = None,
        limits: str | None = None,
        find_share: Number = SHARE,
        refresh: bool = False,
        combine: bool = False,
        analyst: str = STEWARD,
        key: str | None = None,
    ) -> Release:
        """The same for an Ibis expression over `curator.table(...)`."""
        automatic = read_automatic(bounds, limits, find_share)
        terms = Terms(within, epsilon, delta, confidence, assume_rows, intervals, automatic)
        question, read = read_ibis(expression, self._catalog), _reader(expression)
        return self._answer(question, str(expression), terms, refresh, analyst, key, combine=combine, read=read)

    def batch(
        self,
        questions: Sequence[Any] | Mapping[str, Any],
        *,
        epsilon: Number,
        delta: Number | None = None,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        confidence: Number | None = None,
        refresh: bool = False,
        analyst: str = STEWARD,
        key: str | None = None,
    ) -> Batch:
        """Answers to several questions at one price, in SQL or Ibis, as a list or by name.

        Questions over the same rows and keys are answered together. The price is split so that the worst relative error
        is least; a question with a weight of 2 errs half as much as one with 1. What is stored already is not paid.
        """
        named = read_batch(questions, weights)
        shared = self._shared(named, confidence, epsilon, delta)
        for plan in shared.plans:
            self._check_version(plan.table)
        found = self._stored_of(shared, refresh=refresh)
        missing = [place for place, answer in enumerate(found) if answer is None]
        if missing:
            title, plans = named.title(), shared.plans
            charges = [
                Charge(cost, plans[i].identity(), key and f"{key}/{i + 1}", _note(plans[i], title))
                for i, cost in zip(missing, shared.costs(missing), strict=True)
            ]
            for i, bought in zip(missing, self._ledger.reserve_all(charges, analyst=analyst), strict=True):
                found[i] = self._bought(shared.plans[i], shared.merged[i].level, bought)
        return batch_of(named.names, shared, [answer for answer in found if answer is not None])

    def _shared(self, named: Named, confidence: Number | None, epsilon: Number, delta: Number | None) -> Shared:
        asked = [self._read(question) for question in named.questions]
        questions = [question for question in asked if isinstance(question, Question)]
        for number, question in enumerate(asked, start=1):
            if isinstance(question, Refusal):
                raise raised(replace(question, part=f"question {number}, {question.part}"))
        levels, budget = [_level(question.table, confidence) for question in questions], self._ledger.budget
        made = share(questions, budget, epsilon=epsilon, delta=delta, levels=levels, weights=named.weights)
        if isinstance(made, Refusal):
            raise raised(made)
        return made

    def _stored_of(self, shared: Shared, *, refresh: bool) -> list[Release | None]:
        pairs = zip(shared.plans, shared.merged, strict=True)
        return [None if refresh else self._stored(plan, one.level) for plan, one in pairs]

    def preview_batch(
        self,
        questions: Sequence[Any] | Mapping[str, Any],
        *,
        epsilon: Number,
        delta: Number | None = None,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        confidence: Number | None = None,
        refresh: bool = False,
    ) -> BatchPreview:
        """Price and error of each question of a batch. Free; reads no data."""
        named = read_batch(questions, weights)
        shared = self._shared(named, confidence, epsilon, delta)
        stored = self._stored_of(shared, refresh=refresh)
        return preview_of(named.names, shared, stored, self._ledger.remaining)

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
        read: Read,
    ) -> Release:
        ready = self._preparer.prepare(question, read, terms, analyst=analyst, key=key)
        if combine:
            _check_combine(ready.plan, refresh)
        self._check_version(ready.plan.table)
        if ready.missing:
            self._check_room(self._ledger.budget.cost(ready.plan.loss) + ready.to_pay, analyst)
            ready = self._preparer.find_missing(ready, analyst=analyst, key=key)
        stored = None if refresh else self._stored(ready.plan, ready.level, analyst, key)
        if stored is None and not refresh and ready.least is not ready.plan:
            stored = self._stored(ready.least, ready.level)
        if stored is None:  # not by its truth: an answer without rows is false
            stored = self._answered(ready.plan, ready.level, text, analyst, key, combine=combine)
        if not ready.found:
            return stored
        return replace(stored, found=ready.found, cost=stored.cost + ready.charged)

    def _answered(
        self, plan: Plan, level: Fraction, text: str, analyst: str, key: str | None, *, combine: bool
    ) -> Release:
        """A new answer, charged; or the one that this key was charged for before."""
        cost = self._ledger.budget.cost(plan.loss)
        body, note = plan.identity(), _note(plan, text)
        reservation = self._ledger.reserve(cost, analyst=analyst, body=body, key=key, note=note)
        answer = self._bought(plan, level, reservation)
        return self._combined(answer) if combine else answer

    def _bought(self, plan: Plan, level: Fraction, reservation: Reservation) -> Release:
        """What a charge buys: a new answer, or the one that it bought before."""
        if reservation.answer is not None:
            made, released = decode(plan.outline, reservation.answer)
            return Release(made, released, _nothing(reservation.cost), reservation.seq, level)
        if not reservation.fresh:
            raise LedgerFailed(_UNANSWERED)
        released = self._paid(plan)
        self._ledger.settle(reservation, encode(plan, released), match=plan.outline.match())
        return Release(plan, released, reservation.cost, reservation.seq, level)

    def _found(self, target: Target, mechanism: AutoBounds) -> Found:
        """Reads the rows of a finding and adds the noise."""
        return self._guarded(lambda: found_by(target, mechanism, self._engine.cells(powers_query(target))))

    def _check_room(self, cost: Cost, analyst: str) -> None:
        """Refuses what does not fit into the budget or into the analyst's allowance."""
        rooms: list[tuple[str | None, Cost]] = [(None, self._ledger.remaining)]
        allowance, used = self._ledger.allowance(analyst), self._ledger.spent_by(analyst)
        if allowance is not None:
            amount, delta = (max(Fraction(0), all_ - part) for all_, part in zip(allowance, used, strict=True))
            rooms.append((analyst, Cost(allowance.accounting, amount, delta)))
        for whose, room in rooms:
            if not cost.fits(room):
                raise BudgetExceeded(shortage(self._ledger.budget, cost, room, whose), asked=cost, remaining=room)

    def _buy(
        self, counted: Counted, words: str, *, epsilon: Number, confidence: Number | None, buyer: Buyer
    ) -> tuple[Bought, Fraction]:
        level = _level(counted.table, confidence)
        strategy = make_strategy(counted, self._ledger.budget.price(epsilon=epsilon))
        self._check_version(counted.table)
        who = replace(buyer, analyst=STEWARD if buyer.analyst is None else buyer.analyst)
        return bought(strategy, words, who, self._ledger, self._read_tables), level

    def _read_tables(self, strategy: Strategy) -> Answer:
        """Reads the rows of a strategy and adds the noise."""
        hashed, fetch = self._engine.keyed_hash, self._engine.cells
        return self._guarded(lambda: release_tables(strategy.mechanism, exact_tables(strategy, hashed, fetch)))

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


def _reader(question: Any) -> Read:
    return partial(read_sql if isinstance(question, str) else read_ibis, question)


_UNANSWERED = (
    "A question with this key was charged before and has no stored answer. It stays charged and is not run again. "
    "Ask with another key to pay again."
)

_CHANGED = (
    "The data changed without a new version, so nothing is answered. Nothing was charged. "
    "Have the steward declare a new `version` for the table."
)


def _note(plan: Plan, text: str) -> dict[str, str]:
    return {"question": text, "plan": plan.question.canonical(), "version": plan.table.version}


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
