"""What a steward's program holds: every way to ask, and nothing that touches rows or the ledger by itself."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from lapwing.answers.answer import Release
from lapwing.answers.combine import refusal_to_combine
from lapwing.asking.automatic import SHARE, Read, read_automatic
from lapwing.asking.batch import Named, Shared, read_batch, share
from lapwing.asking.batch_answer import Batch, BatchPreview, batch_of, preview_of
from lapwing.asking.preview import Preview
from lapwing.asking.pricing import Terms, Within, plan_on_terms
from lapwing.asking.watch import Watch, make_session
from lapwing.catalog.identity import Identity
from lapwing.catalog.table import Catalog, Table
from lapwing.curator.answering import Answers, nothing
from lapwing.curator.charging import NOTHING, instead_of_nothing
from lapwing.curator.preparing import STAYS, Preparer
from lapwing.curator.private_data import PrivateData
from lapwing.curator.strategies import Make, Strategies
from lapwing.engines.engine import Engine
from lapwing.errors import Misconfigured
from lapwing.language.refusal import Refusal, Stop, raised
from lapwing.ledger import Ledger
from lapwing.numbers import Number, exact, inside_unit
from lapwing.planning.plan import Plan
from lapwing.planning.question import Question
from lapwing.privacy.statement import Statement
from lapwing.reading.ibis import read_ibis, unbound
from lapwing.reading.sql import read_sql
from lapwing.workloads.distribution import Distribution, ask_distribution
from lapwing.workloads.marginals import Cells, MarginalTables, ask_marginals
from lapwing.workloads.preview import StrategyPreview
from lapwing.workloads.strategy import Bought

_REMEMBERED = 256  # questions and stored answers in memory
_LEAST_LEVEL = Fraction(1, 10**9)

STEWARD = "steward"
"""Who asks when nobody is named."""


class Curator:
    """Answers questions about private tables within a budget."""

    def __init__(self, catalog: Catalog, engine: Engine, ledger: Ledger) -> None:
        self._catalog, self._engine, self._ledger = catalog, engine, ledger
        self._private_data = PrivateData(catalog, engine, ledger)
        self._answers = Answers(ledger, self._private_data)
        self._strategies = Strategies(ledger, self._private_data)
        self._preparer = Preparer(self._catalog, ledger, planned=self._planned, find=self._private_data.prepare_search)
        self._read_sql = lru_cache(maxsize=_REMEMBERED)(partial(read_sql, catalog=self._catalog))
        self._kept: dict[Hashable, tuple[str | None, Hashable, Release]] = {}

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    @property
    def engine(self) -> Engine:
        """Where the rows are. For the steward: what it returns has no noise and is not charged."""
        return self._engine

    @property
    def budget(self) -> Statement:
        """What was spent and what is left, in plain words when printed."""
        return Statement(self._ledger.budget, self._ledger.spent)

    @property
    def ledger(self) -> Ledger:
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
        stored = None if refresh or ready.missing else self._answers.stored(ready.least, ready.level)
        cost = self._ledger.budget.cost(ready.plan.loss) + ready.to_pay
        shown, price = (ready.plan, cost) if stored is None else (stored.plan, nothing(cost))
        room, words = self._ledger.remaining, tuple(map(str, ready.missing))
        named = delta is not None
        return Preview(shown, self._ledger.budget, price, room, ready.level, assume_rows, words, delta_named=named)

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
        if not isinstance(sql, str):
            raise raised(_NO_TEXT)
        question, read = self._read_sql(sql), _reader(sql)
        if refresh or combine or key is not None or isinstance(question, Refusal):
            return self._answer(question, sql, terms, refresh, analyst, key, combine=combine, read=read)
        name, marks = (sql, repr(terms)), self._private_data.fingerprints(question.table)
        match, seen, kept = self._kept.get(name, (None, None, None))
        if kept is not None and seen == (self._settled(match), marks):
            return kept
        before = self._ledger.state
        answer = self._answer(question, sql, terms, refresh, analyst, key, combine=combine, read=read)
        if not answer.cost:
            self._keep(name, before, marks, answer)
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
        is least; a question with a weight of 2 errs half as much as one with 1. What is stored already is not paid, if
        it is at least as good as its part of the price would be.
        """
        named = read_batch(questions, weights)
        shared = self._shared(named, confidence, epsilon, delta)
        for plan in shared.plans:
            self._private_data.check(plan.table)
        stored = None if refresh else self._answers.all_stored(shared, analyst=analyst, key=key)
        found = stored or [None] * len(shared.plans)
        missing = [place for place, answer in enumerate(found) if answer is None]
        bought = iter(self._answers.all_new(shared, missing, named, analyst=analyst, key=key))
        return batch_of(named.names, shared, [next(bought) if answer is None else answer for answer in found])

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
        stored = [None] * len(shared.plans) if refresh else self._answers.all_stored(shared)
        return preview_of(named.names, shared, stored, self._ledger.remaining)

    def distribution(
        self,
        column: str,
        *,
        epsilon: Number,
        table: str | None = None,
        where: str | None = None,
        cells: int | None = None,
        confidence: Number | None = None,
        refresh: bool = False,
        analyst: str = STEWARD,
        key: str | None = None,
    ) -> Distribution:
        """How many rows lie in every range of a column, its distribution function and its quantiles, for one price.

        The column has declared values, in their order, or bounds: whole numbers count one by one and reals in `cells`
        of one width. Rows without a value, or with one that is not declared, are not counted; numbers beyond the bounds
        count in the first or last cell. A unit counts in at most groups_per_unit cells. `where` is a condition in SQL,
        without the word WHERE. Asked again, it costs nothing; `refresh` and `key` are those of `sql`.
        """
        make = partial(ask_distribution, self._catalog, column, table=table, where=where, cells=cells)
        found = self._by_strategy(make, epsilon, where, confidence, refresh=refresh, analyst=analyst, key=key)
        return Distribution(*found)

    def marginals(
        self,
        columns: Sequence[str | Sequence[str]],
        *,
        epsilon: Number,
        ways: int = 2,
        table: str | None = None,
        where: str | None = None,
        cells: Cells = None,
        confidence: Number | None = None,
        refresh: bool = False,
        analyst: str = STEWARD,
        key: str | None = None,
    ) -> MarginalTables:
        """The counts over every set of up to `ways` of these columns, consistent with each other, for one price.

        `columns` may also list the tables: [("sex", "site"), ("age",)]. Columns have declared values or bounds, as for
        `distribution`; `cells` is one number, or one for each column that has bounds: {"age": 5}. Rows without a value,
        or with one that is not declared, in any of the columns are not counted in any table; numbers beyond the bounds
        count in the first or last cell. A unit counts in at most groups_per_unit cells of all columns together, and
        with at most rows_per_unit rows in each.
        """
        make = partial(ask_marginals, self._catalog, columns, table=table, where=where, ways=ways, cells=cells)
        found = self._by_strategy(make, epsilon, where, confidence, refresh=refresh, analyst=analyst, key=key)
        return MarginalTables(*found)

    def preview_distribution(
        self,
        column: str,
        *,
        epsilon: Number,
        table: str | None = None,
        where: str | None = None,
        cells: int | None = None,
        confidence: Number | None = None,
    ) -> StrategyPreview:
        """Price and error of a distribution. Free; reads no data."""
        make = partial(ask_distribution, self._catalog, column, table=table, where=where, cells=cells)
        return self._previewed(make, epsilon, confidence)

    def preview_marginals(
        self,
        columns: Sequence[str | Sequence[str]],
        *,
        epsilon: Number,
        ways: int = 2,
        table: str | None = None,
        where: str | None = None,
        cells: Cells = None,
        confidence: Number | None = None,
    ) -> StrategyPreview:
        """Price and error of marginals. Free; reads no data."""
        make = partial(ask_marginals, self._catalog, columns, table=table, where=where, ways=ways, cells=cells)
        return self._previewed(make, epsilon, confidence)

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
        self._private_data.check_all()
        session = make_session(self._ledger.budget, epsilon=epsilon, answers=answers, queries=queries, signed=signed)
        price, many = self._ledger.budget.cost(session.loss), session.answers
        note = {"question": f"watch for {many} above {bar}", "watch": {"threshold": str(bar), "answers": many}}
        body = Identity("watch", (str(bar), many, queries, signed, session.loss.encode()))
        reservation = self._ledger.reserve(price, analyst=analyst, body=body.text, note=note)
        paid = reservation.cost, reservation.seq
        return Watch(
            session,
            bar,
            paid,
            read=self._read,
            unchanged=self._private_data.is_unchanged,
            ready=self._private_data.prepare_probe,
        )

    def table(self, name: str) -> Any:
        """An unbound Ibis table for writing questions: schema only, it cannot execute."""
        try:
            return unbound(self._catalog.table(name))
        except Stop as stop:
            raise raised(stop.refusal) from None

    def close(self) -> None:
        self._private_data.close()
        self._ledger.close()

    def _read(self, question: Any) -> Question | Refusal:
        return self._read_sql(question) if isinstance(question, str) else read_ibis(question, self._catalog)

    def _delta_left(self) -> Fraction:
        return self._ledger.remaining.delta

    def _planned(self, question: Question | Refusal, terms: Terms) -> tuple[Plan, Fraction]:
        """The plan on these terms, and the confidence that its errors are stated at."""
        if isinstance(question, Refusal):
            raise raised(question)
        level = _level(question.table, terms.confidence)
        plan = plan_on_terms(question, self._ledger.budget, terms, level, self._delta_left)
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
        self._private_data.check(ready.plan.table)
        if ready.missing:
            self._ledger.check_fits(self._ledger.budget.cost(ready.plan.loss) + ready.to_pay, analyst=analyst)
            ready = self._preparer.find_missing(ready, analyst=analyst, key=key)
        answer = None if refresh else self._answers.stored(ready.plan, ready.level, analyst=analyst, key=key)
        if answer is None and not refresh and ready.least is not ready.plan:
            answer = self._answers.stored(ready.least, ready.level)
        if answer is None:  # not by its truth: an answer without rows is false
            with instead_of_nothing(STAYS if ready.charged else NOTHING):
                delta = None if terms.delta is None else exact(terms.delta, "delta")
                answer = self._answers.new(ready.plan, ready.level, text, delta=delta, analyst=analyst, key=key)
            answer = self._answers.joined(answer) if combine else answer
        if not ready.found:
            return answer
        return replace(answer, found=ready.found, cost=answer.cost + ready.charged)

    def _keep(self, name: Hashable, before: Hashable, marks: Hashable, answer: Release) -> None:
        """Keeps a stored answer at hand for the same words, as long as no other answer to its question is stored, no
        table is declared anew and the data stay as they were. With findings: as long as nothing is written at all."""
        match = None if answer.found else answer.plan.outline.identity.text
        seen = self._settled(match), marks
        if self._ledger.state != before:
            return  # an answer may have come since this one was chosen
        if len(self._kept) >= _REMEMBERED:
            self._kept.clear()
        for column in (*answer.released.keys, *(cell for cells in answer.released.cells for cell in cells)):
            column.flags.writeable = False  # everybody who asks gets this answer
        self._kept[name] = match, seen, answer

    def _settled(self, match: str | None) -> Hashable:
        return self._ledger.state if match is None else self._ledger.settled(match)

    def _shared(self, named: Named, confidence: Number | None, epsilon: Number, delta: Number | None) -> Shared:
        asked = [self._read(question) for question in named.questions]
        questions = [question for question in asked if isinstance(question, Question)]
        for name, question in zip(named.names, asked, strict=True):
            if isinstance(question, Refusal):
                raise raised(replace(question, part=f"question {name}, {question.part}"))
        levels, budget = [_level(question.table, confidence) for question in questions], self._ledger.budget
        made = share(questions, named, budget, epsilon=epsilon, delta=delta, levels=levels, left=self._delta_left)
        if isinstance(made, Refusal):
            raise raised(made)
        return made

    def _by_strategy(
        self,
        make: Make,
        epsilon: Number,
        where: str | None,
        confidence: Number | None,
        *,
        refresh: bool,
        analyst: str,
        key: str | None,
    ) -> tuple[Bought, Fraction]:
        strategy = self._strategies.made(make, epsilon)
        level = _level(strategy.counted.table, confidence)
        self._private_data.check(strategy.counted.table)
        stored = None if refresh else self._strategies.stored(strategy, analyst=analyst, key=key)
        if stored is None:
            stored = self._strategies.new(strategy, where, analyst=analyst, key=key)
        return stored, level

    def _previewed(self, make: Make, epsilon: Number, confidence: Number | None) -> StrategyPreview:
        strategy = self._strategies.made(make, epsilon)
        return self._strategies.preview(strategy, _level(strategy.counted.table, confidence))


_NO_TEXT = Refusal(
    "the question", "it is not a text.", "Write one SELECT in quotes; Ibis expressions go to curator.ask."
)


def _reader(question: Any) -> Read:
    return partial(read_sql if isinstance(question, str) else read_ibis, question)


def _level(table: Table, confidence: Number | None) -> Fraction:
    level = table.confidence if confidence is None else inside_unit(confidence, "confidence")
    if not _LEAST_LEVEL <= level <= 1 - _LEAST_LEVEL:
        raise Misconfigured("`confidence` must lie between 1e-9 and 1 - 1e-9. Pass 0.95. Nothing was charged.")
    return level


def _check_combine(plan: Plan, refresh: bool) -> None:
    if not refresh:
        raise Misconfigured("`combine` joins a new answer with stored ones. Pass refresh=True. Nothing was charged.")
    refusal = refusal_to_combine(plan.outline)
    if refusal is not None:
        raise raised(refusal)
