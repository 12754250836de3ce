"""What a steward's program holds: every way to ask, and nothing that touches rows or the ledger by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Self, Unpack, assert_never, cast

from lapwing.answers.answer import Release
from lapwing.answers.computed import Computed
from lapwing.answers.distribution import Distribution
from lapwing.answers.marginals import MarginalTables
from lapwing.curator.batch import BatchRequest, read_batch
from lapwing.curator.batch_answer import Batch, BatchPreview, preview_of
from lapwing.curator.description import Description
from lapwing.curator.dummy import dummy_catalog, dummy_engine
from lapwing.curator.missing_facts import Declaring
from lapwing.curator.pipeline import Pipeline, parts_request
from lapwing.curator.planner import Planner, confidence_of
from lapwing.curator.preview import Preview
from lapwing.curator.pricing import CHECK, Terms
from lapwing.curator.private_data import PrivateData
from lapwing.curator.purchase import RequestSteps, find_stored, run
from lapwing.curator.request import (
    DistributionRequest,
    MarginalsRequest,
    QuestionRequest,
    Request,
    StatementPart,
    WorkloadRequest,
    cells_of,
    make_request,
)
from lapwing.curator.summary import summary_of
from lapwing.curator.watch import Watch, make_session
from lapwing.engines.engine import Engine
from lapwing.errors import LapwingError
from lapwing.expressions.identity import Identity
from lapwing.expressions.table import Catalog
from lapwing.ledger import Ledger, open_ledger
from lapwing.numbers import Number, exact
from lapwing.plan.units_exceeding import Checked
from lapwing.privacy.filter import Statement
from lapwing.sql.ibis import unbound_table
from lapwing.terms import (
    STEWARD,
    AskBatchTerms,
    AskDistributionTerms,
    AskMarginalsTerms,
    AskTerms,
    BatchTerms,
    PreviewDistributionTerms,
    PreviewMarginalsTerms,
    PreviewTerms,
    takes,
)


class Curator:
    """Answers questions about private tables within a budget."""

    def __init__(self, catalog: Catalog, engine: Engine, ledger: Ledger, *, check: Fraction | None = None) -> None:
        self._catalog, self._engine, self._ledger = catalog, engine, ledger
        self._private_data = PrivateData(catalog, engine, ledger)
        self._check = CHECK if check is None else check
        self._planner = Planner(catalog, ledger, check=self._check)
        self._pipeline = Pipeline(ledger, self._private_data, self._planner)

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    @property
    def budget(self) -> Statement:
        """What was spent and what is left, in plain words when printed."""
        return Statement(self._ledger.budget, self._ledger.spent, self._ledger.note)

    @property
    def ledger(self) -> Ledger:
        """What was spent, entry by entry. For the steward."""
        return self._ledger

    def describe(self) -> Description:
        """Tables, columns, declared facts, limits and the budget. Free; reads no data."""
        try:
            return Description(self._catalog, self.budget)
        except LapwingError as error:  # such as a ledger that is closed
            return Description(self._catalog, str(error))

    def __repr__(self) -> str:
        return str(self.describe())

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, request: Request) -> Release | Computed | Batch | Distribution | MarginalTables:
        """The answer to a request, charged before any row is read. Every other way to ask makes a request of it."""
        return run(self.steps(request))

    def steps(self, request: Request) -> RequestSteps[Release | Computed | Batch | Distribution | MarginalTables]:
        """The same in steps: it stops before each charge, and before rows are read."""
        match request.asked:
            case QuestionRequest() as asked:
                return (yield from self._pipeline.answer(asked, request))
            case BatchRequest() as asked:
                return (yield from self._pipeline.answer_batch(asked, request))
            case DistributionRequest() as asked:
                return Distribution.of((yield from self._pipeline.answer_one(asked, request)))
            case MarginalsRequest() as asked:
                return MarginalTables((yield from self._pipeline.answer_one(asked, request)))
            case _:
                assert_never(request.asked)

    def preview_request(self, request: Request) -> Preview | BatchPreview:
        """Price and error of the answer to a request. Free; reads no data."""
        match request.asked:
            case BatchRequest() as asked:
                return self._preview_batch(asked, request)
            case QuestionRequest() as asked:
                return self._preview_question(asked, request)
            case asked:
                return self._preview(asked, request)

    @takes(AskTerms)
    def sql(self, question: Any, **terms: Unpack[AskTerms]) -> Release | Computed:
        """The noisy answer to a question, charged before any row is read.

        The question is SQL text, or an Ibis expression over `curator.table(...)`. What it computes from released
        numbers is free; if it aggregates rows more than once, it is a batch, and the price is that of all new parts.
        `within` asks for the lowest price at which counts and sums are that exact, `epsilon` names the price, and
        `share` the part of the whole budget that it takes: twenty questions at share=0.05 fill it exactly. An answer
        that was paid before and is at least as good costs nothing; `refresh` pays for a new one, and with `combine`
        joins it with all that were paid before. `key` makes a retry safe: one request with one key is paid once.
        With intervals=False quantiles come without one and err less: half of their price would buy it.
        `rows`, `groups` and `bounds={"cost": (0, 500)}` are limits and bounds for this question, in place of the
        declared ones: with smaller ones the noise is less, and more of a unit is left out.
        bounds="auto" finds bounds of columns that have none, limits="auto" limits of units, for `find_share` of the
        price; results are stored, and later questions reuse them free.
        Where a limit can cut something, `check` of the price, 5 % by default, tells how many units exceed it. That is
        stored too, and serves every filter over the same keys; check=0 turns it off.
        A useless answer, by the plan alone, is refused free; `anyway` asks it all the same.
        """
        request = make_request(QuestionRequest(question), terms, AskTerms)
        return cast("Release | Computed", self.answer(request))

    ask = sql

    @takes(PreviewTerms)
    def preview(self, question: Any, **terms: Unpack[PreviewTerms]) -> Preview | BatchPreview:
        """Price and error of a question, in SQL or as an Ibis expression. Free; reads no data."""
        return self.preview_request(make_request(QuestionRequest(question), terms, PreviewTerms))

    @takes(AskBatchTerms)
    def batch(self, questions: Sequence[Any] | Mapping[str, Any], **terms: Unpack[AskBatchTerms]) -> Batch:
        """Answers to several questions at one price, in SQL or Ibis, as a list or by name.

        Questions over the same rows and keys are answered together. The price is split so that the worst relative error
        is least; a question with a weight of 2 errs half as much as one with 1. What is stored already is not paid, if
        it is at least as good as its part of the price would be.
        """
        asked = read_batch(questions, terms.get("weights"))
        return cast(Batch, self.answer(make_request(asked, terms, AskBatchTerms)))

    @takes(AskBatchTerms)
    def summary(self, table: str | None = None, **terms: Unpack[AskBatchTerms]) -> Batch:
        """Rows, missing values, counts of declared values, means and quartiles of a table: one batch, one price."""
        return self.batch(summary_of(self._catalog, table), **terms)

    @takes(BatchTerms)
    def preview_batch(self, questions: Sequence[Any] | Mapping[str, Any], **terms: Unpack[BatchTerms]) -> BatchPreview:
        """Price and error of each question of a batch. Free; reads no data."""
        asked = read_batch(questions, terms.get("weights"))
        return cast(BatchPreview, self.preview_request(make_request(asked, terms, BatchTerms)))

    @takes(AskDistributionTerms)
    def distribution(self, column: str, **terms: Unpack[AskDistributionTerms]) -> Distribution:
        """How many rows lie in every range of a column, its distribution function and its quantiles, for one price.

        The column has declared values, in their order, or bounds: whole numbers count one by one and reals in `cells`
        of one width. Rows without a value, or with one that is not declared, are not counted; numbers beyond the bounds
        count in the first or last cell. A unit counts in at most groups_per_unit cells. `where` is a condition in SQL,
        without the word WHERE. Asked again, it costs nothing; `refresh` and `key` are those of `sql`.
        """
        asked = DistributionRequest(column, **cells_of(terms))
        return Distribution.of(run(self._pipeline.answer_one(asked, make_request(asked, terms, AskDistributionTerms))))

    @takes(AskMarginalsTerms)
    def marginals(self, columns: Sequence[str | Sequence[str]], **terms: Unpack[AskMarginalsTerms]) -> MarginalTables:
        """The counts over every set of up to `ways` of these columns, consistent with each other, for one price.

        `columns` may also list the tables: [("sex", "site"), ("age",)]. Columns have declared values or bounds, as for
        `distribution`; `cells` is one number, or one for each column that has bounds: {"age": 5}. Rows without a value,
        or with one that is not declared, in any of the columns are not counted in any table; numbers beyond the bounds
        count in the first or last cell. A unit counts in at most groups_per_unit cells of all columns together, and
        with at most rows_per_unit rows in each.
        """
        asked = MarginalsRequest(columns, **cells_of(terms))
        return MarginalTables(run(self._pipeline.answer_one(asked, make_request(asked, terms, AskMarginalsTerms))))

    @takes(PreviewDistributionTerms)
    def preview_distribution(self, column: str, **terms: Unpack[PreviewDistributionTerms]) -> Preview:
        """Price and error of a distribution. Free; reads no data."""
        asked = DistributionRequest(column, **cells_of(terms))
        return self._preview(asked, make_request(asked, terms, PreviewDistributionTerms))

    @takes(PreviewMarginalsTerms)
    def preview_marginals(
        self, columns: Sequence[str | Sequence[str]], **terms: Unpack[PreviewMarginalsTerms]
    ) -> Preview:
        """Price and error of marginals. Free; reads no data."""
        asked = MarginalsRequest(columns, **cells_of(terms))
        return self._preview(asked, make_request(asked, terms, PreviewMarginalsTerms))

    def watch(
        self,
        *,
        threshold: Number,
        epsilon: Number | None = None,
        share: Number | None = None,
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
        price = Terms(epsilon=epsilon, share=share).price(self._ledger.budget)
        session = make_session(price, answers=answers, queries=queries, signed=signed)
        cost, many = self._ledger.budget.cost(session.loss), session.answers
        note = {"question": f"watch for {many} above {bar}", "watch": {"threshold": str(bar), "answers": many}}
        body = Identity("watch", (str(bar), many, queries, signed, session.loss.encode()))
        reservation = self._ledger.reserve(cost, analyst=analyst, body=body.text, note=note)
        paid = reservation.cost, reservation.seq
        return Watch(
            session,
            bar,
            paid,
            read=self._planner.read,
            unchanged=self._private_data.is_unchanged,
            ready=self._private_data.prepare_probe,
        )

    def table(self, name: str) -> Any:
        """An unbound Ibis table for writing questions: schema only, it cannot execute."""
        return unbound_table(self._catalog.table(name))

    def dummy(self) -> Curator:
        """A curator on made-up rows of the same tables, to try questions on: free, and it reads no data.

        It has the same declarations, refusals and prices, and a new ledger in memory with the whole budget. Its
        numbers mean nothing, and every answer says so.
        """
        known = dummy_catalog(self._catalog)
        ledger = open_ledger(None, self._ledger.budget)
        return Curator(known, dummy_engine(known), ledger, check=self._check).address(self._planner.declaring)

    def address(self, declaring: Declaring) -> Self:
        """Sets how refusals say that facts are missing; by default to analysts, who cannot declare them."""
        self._planner.declaring = declaring
        return self

    def close(self) -> None:
        self._private_data.close()
        self._ledger.close()

    def _preview_question(self, asked: QuestionRequest, request: Request) -> Preview | BatchPreview:
        found = self._planner.statement(asked.question, request.today, request.terms.chosen)
        if found is None:
            return self._preview(asked, request)
        text, statement = found
        confidence = confidence_of(statement.parts[0].table, request.terms.confidence)
        parts = parts_request(text, statement, request, confidence)
        if isinstance(parts.asked, BatchRequest):
            return self._preview_batch(parts.asked, parts)
        return self._preview(QuestionRequest(StatementPart(text, 0)), parts)

    def _preview(self, asked: QuestionRequest | WorkloadRequest, request: Request) -> Preview:
        planned = self._planner.plan(asked, request)
        budget, left, check = self._ledger.budget, self._ledger.remaining, planned.check
        if planned.found and (why := planned.nothing):
            return Preview(planned.plan, budget, left.zero, left, planned.confidence, nothing=why)
        if not planned.missing:
            self._private_data.check_forms(planned.plan)
        plan, cost, stored = planned.plan, planned.price(budget), None
        if not (request.refresh or planned.missing or plan.outline.is_declared):
            least = plan if planned.lesser is None else planned.lesser()
            stored = find_stored(self._ledger, planned.view, least, confidence=planned.confidence)
        return Preview(
            plan if stored is None else stored.plan,
            budget,
            cost if stored is None else cost.zero,
            left,
            planned.confidence,
            request.terms.assume_rows,
            tuple(map(str, planned.missing)),
            planned.overlooked,
            delta_named=request.terms.delta is not None,
            check=check.price if check is not None and check.missing and stored is None else None,
            checked=None if check is None or check.result is None else Checked(check.target, check.result),
            terms=request.terms,
        )

    def _preview_batch(self, asked: BatchRequest, request: Request) -> BatchPreview:
        planned = self._planner.plan_batch(asked, request)
        for plan in planned.batch.plans:
            self._private_data.check_forms(plan)
        stored = self._pipeline.find_batch(planned, asked, request)
        pairs = zip(planned.checks, stored, strict=True)
        missing = {check for check, answer in pairs if answer is None and check is not None and check.missing}
        more = sum((self._ledger.budget.cost(check.price) for check in missing), self._ledger.total.zero)
        results = [None if check is None else check.result for check in planned.checks]
        return preview_of(asked.names, planned.batch, stored, self._ledger.remaining, more, results, request.terms)
