"""From a request to its answer: one that is at hand or stored, or a new one.

find, price, prepare, [before charge], reserve, [before rows], read, [before store], settle

The same steps for every way to ask: a question, its check of limits and the searches that it needs, a workload, each
part of a batch. What a charge buys is in purchase.py, and who resumes the request at which stop in purchase.py.

Statements that go on above the release: which they are, and the requests that their parts make.

A statement with one part is asked as that question; one with several as a batch of them. So prices, stored answers,
retry keys and refusals are those of questions and batches, and one refused part refuses all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from fractions import Fraction
from hashlib import sha256
from typing import Any

from lapwing.answers.answer import Release, declared_answer, null_answer
from lapwing.answers.computed import Computed, Stored, check_combinable, combined, rehearse_statement
from lapwing.answers.warnings import useless
from lapwing.curator.batch import BatchPlan, BatchRequest, read_batch
from lapwing.curator.batch_answer import Batch, batch_of
from lapwing.curator.planner import REMEMBERED, PlannedBatch, PlannedCheck, PlannedRequest, Planner
from lapwing.curator.pricing import Terms, price_words
from lapwing.curator.private_data import PrivateData
from lapwing.curator.purchase import (
    BeforeCharge,
    PlannedCharge,
    RequestSteps,
    after_charge,
    buy,
    find_all,
    find_stored,
    prepare,
    saying,
)
from lapwing.curator.request import QuestionRequest, Request, StatementPart, WorkloadRequest
from lapwing.curator.search import check_search_keys
from lapwing.curator.shortage import reworded
from lapwing.errors import BudgetExceeded, Bug, Misconfigured, PriceChanged
from lapwing.expressions.expression import Column
from lapwing.expressions.refusal import refuse
from lapwing.ledger import Ledger
from lapwing.plan.bounds_search import search_result
from lapwing.plan.plan import Plan, make_outline
from lapwing.plan.postprocessed import SplitStatement, released_number
from lapwing.plan.question import Question
from lapwing.plan.units_exceeding import check_result
from lapwing.privacy.budget import Cost
from lapwing.sql.ibis import as_sql
from lapwing.sql.parse import Sql


class StatementFinder:
    """Tells statements from ordinary questions."""

    def __init__(self, read: Callable[[Sql, date | None], Question | SplitStatement | None]) -> None:
        self._read = read

    def find(self, question: Any, today: date | None) -> tuple[Sql, SplitStatement] | None:
        """The statement and its text, if the question is one and no ordinary question; raises Refused."""
        if isinstance(question, StatementPart):
            return None
        text = as_sql(question)
        found = self._read(text, today)
        return (text, found) if isinstance(found, SplitStatement) else None


def parts_request(text: Sql, statement: SplitStatement, request: Request, confidence: Fraction) -> Request:
    """The request for the parts of a statement, on its terms; raises Refused if there is none."""
    terms, many = request.terms, len(statement.parts)
    if terms.within is not None:
        request = replace(request, terms=_exact_enough(statement, terms, confidence))
    if many == 1:
        return replace(request, asked=QuestionRequest(StatementPart(text, 0)))
    if request.combine:
        raise Misconfigured(
            "`combine` joins answers to one question; this statement asks several. Nothing was charged."
        )
    if terms.automatic.bounds or terms.automatic.limits:
        refuse(
            "search-needs-epsilon",
            'bounds="auto" and limits="auto"',
            "this statement asks several questions at once.",
            "Ask each sub-query by itself and compute from the answers, or have the steward declare bounds and limits.",
        )
    asked = {f"part {place + 1}": StatementPart(text, place) for place in range(many)}
    return replace(request, asked=read_batch(asked))


def _exact_enough(statement: SplitStatement, terms: Terms, confidence: Fraction) -> Terms:
    """The terms on which every number that is shown is within what was asked, whatever rows are chosen.

    Numbers are shown with intervals that hold for all columns and groups together at the widest, so the part is priced
    at that confidence: each of its k numbers in each of its g groups at 1 - (1 - c) / (k g).
    """
    noisy = [column.name for column in rehearse_statement(statement, confidence) if not column.is_key]
    plain = {shown: released_number(statement.root, name) for shown, name, _ in statement.columns if shown in noisy}
    groups = make_outline(statement.parts[0]).group_count
    if len(statement.parts) > 1 or None in plain.values() or groups is None:
        refuse(
            "within-unsupported",
            "`within`",
            "it is promised for released numbers, and this statement shows numbers that are computed from them.",
            "Ask with epsilon=; or ask for the sub-queries first, with within=: what is stored is not paid again.",
        )
    numbers = len(statement.parts[0].aggregates)
    if not numbers:
        return terms  # public keys alone, which are exact
    within = terms.within
    if isinstance(within, Mapping):
        within = {inner: within[shown] for shown, inner in plain.items() if inner is not None and shown in within}
    return replace(terms, within=within, confidence=1 - (1 - confidence) / (numbers * groups))


UNJOINED = (
    "The new answer was charged and is stored (entry {entry}): "
    "asked again without `combine` and `refresh` it costs nothing. {why}"
)


class Pipeline:
    """Answers requests, in steps (purchase.py)."""

    def __init__(
        self, ledger: Ledger, private_data: PrivateData, planner: Planner, statements: StatementFinder
    ) -> None:
        self._ledger, self._private_data, self._planner = ledger, private_data, planner
        self._statements = statements
        self._kept: dict[Hashable, tuple[str | None, Hashable, Release]] = {}

    def answer(self, asked: QuestionRequest, request: Request) -> RequestSteps[Release | Computed]:
        """The answer to a question, or to a statement that is computed from the answers to several."""
        found = self._statements.find(asked.question, request.today)
        if found is None:
            return (yield from self.answer_one(asked, request))
        text, statement = found
        confidence = self._planner.confidence(statement.parts[0], request.terms)
        parts = parts_request(text, statement, request, confidence)
        self._private_data.prepare_steps(statement, confidence)
        releases: Sequence[Release]
        if isinstance(parts.asked, BatchRequest):
            batch = yield from self.answer_batch(parts.asked, parts)
            releases, cost = batch.releases, batch.cost
        else:
            answer = yield from self.answer_one(QuestionRequest(StatementPart(text, 0)), parts)
            releases, cost = (answer,), answer.cost
        words = price_words(request.terms, cost, self._ledger.budget)
        computed = Computed(statement, releases, cost, confidence, words)
        with after_charge(cost):
            computed.table()  # what takes too long is said now
        return computed

    def answer_one(self, asked: QuestionRequest | WorkloadRequest, request: Request) -> RequestSteps[Release]:
        """The answer to one question, or a workload."""
        question = asked.question if isinstance(asked, QuestionRequest) else None
        plain = isinstance(question, Sql) and not (request.refresh or request.combine) and request.key is None
        name = (question, request.today, repr(request.terms)) if plain else None
        if name is not None and (kept := self._kept_answer(name)) is not None:
            return kept
        before = None if name is None else self._ledger.state
        planned = self._planner.plan(asked, request)
        request = request.canonical(planned.facts)
        if request.key is not None:
            self._ledger.check_key(request.analyst, request.key, request.body())
        marks = None if name is None else self._private_data.fingerprints(planned.plan.table)
        answer = yield from self._answer(asked.title(planned.plan), planned, request)
        if answer.cost:
            answer = replace(answer, bought=price_words(request.terms, answer.cost, self._ledger.budget))
        if name is not None and not answer.cost:
            settled = not answer.found and (planned.check is None or not planned.check.missing)
            self._keep(name, before, marks, answer, settled=settled)
        return answer

    def answer_batch(self, asked: BatchRequest, request: Request) -> RequestSteps[Batch]:
        """The answers to several questions."""
        planned = self._planner.plan_batch(asked, request)
        batch = planned.batch
        request = request.canonical(*(one.outline.question.facts for one in batch.merged))
        charges = _charges(batch, asked, request)
        for charge in charges:
            if charge.key is not None:
                self._ledger.check_key(request.analyst, charge.key, charge.body)
        for plan in batch.plans:
            self._private_data.check(plan.table, planned.view)
        found = self.find_batch(planned, asked, request)
        missing = [place for place, answer in enumerate(found) if answer is None]
        for place in missing:
            _check_useful(charges[place].plan, charges[place].confidence, request)
        costs = zip(missing, batch.costs(missing), strict=True)
        stop = BeforeCharge(self._ledger.total.zero, tuple(batch.plans), sum(map(bool, planned.checks)))
        to_pay, to_check = [replace(charges[p], cost=cost) for p, cost in costs], [planned.checks[p] for p in missing]
        with self._short(batch.plans[0], request):
            new, checks, more = yield from self._pay(to_pay, to_check, request, stop)
        told = [None if one is None else checks.get(one, one).told for one in planned.checks]
        paid = iter(new)
        answers = [next(paid) if answer is None else answer for answer in found]
        return batch_of(asked.names, batch, answers, told, more, request.terms)

    def find_batch(self, planned: PlannedBatch, asked: BatchRequest, request: Request) -> list[Release | None]:
        """For each plan of a batch the stored answer that will do: as good as the plan, or as it is at the least."""
        if request.refresh:
            return [None] * len(planned.batch.plans)
        view = planned.view
        found = [
            find_stored(self._ledger, view, one.plan, confidence=one.confidence, analyst=request.analyst, key=one.key)
            for one in _charges(planned.batch, asked, request)
        ]
        if planned.lesser is None or None not in found:
            return found
        lesser = _charges(planned.lesser(), asked, request)
        return [
            find_stored(self._ledger, view, one.plan, confidence=one.confidence) if answer is None else answer
            for answer, one in zip(found, lesser, strict=True)
        ]

    def find_least(self, planned: PlannedRequest) -> Release | None:
        """The stored answer to a question that will do."""
        return find_stored(self._ledger, planned.view, planned.least, confidence=planned.confidence)

    def _answer(self, title: str, planned: PlannedRequest, request: Request) -> RequestSteps[Release]:
        """The answer to a planned request: a stored one, or a new one, after all that is missing was found."""
        if planned.plan.outline.is_declared:
            return declared_answer(planned.plan, self._ledger.total.zero, planned.confidence)
        if request.combine:
            _check_combine(planned, request)
        self._private_data.check(planned.plan.table, planned.view)
        if planned.missing and not planned.nothing:
            _check_useful(planned.plan, planned.confidence, request)
            price = planned.price(self._ledger.budget)
            _check_at_most(price, request)
            with self._short(planned.plan, request):
                self._ledger.check_fits(price, analyst=request.analyst)
            planned = yield from self._find_missing(planned, request)
        if planned.found and (why := planned.nothing):
            check_search_keys(planned.found, request, self._ledger)
            return null_answer(planned.plan, planned.found, planned.charged, planned.confidence, why)
        answer = None if request.refresh else self._stored(planned, request)
        if answer is None:  # not by its truth: an answer without rows is false
            if planned.search is None or not planned.charged:
                _check_useful(planned.plan, planned.confidence, request)
            with after_charge(planned.charged), self._short(planned.plan, request):
                planned, answer = yield from self._pay_one(title, planned, request)
        check = None if planned.check is None else planned.check.checked
        if not planned.found and check is None:
            return answer
        return replace(answer, found=planned.found, check=check, cost=answer.cost + planned.charged)

    @contextmanager
    def _short(self, plan: Plan, request: Request) -> Iterator[None]:
        """Says in the caller's words what the budget still buys, if the price does not fit."""
        try:
            yield
        except BudgetExceeded as error:
            check = self._planner.check_share(request.terms)
            raise reworded(error, plan, request.terms, self._ledger.budget, check=check) from None

    def _find_missing(self, planned: PlannedRequest, request: Request) -> RequestSteps[PlannedRequest]:
        """The same request with all that was missing: found, charged and stored. The whole price was checked before.

        It ends with the first search that finds nothing to rely on. How many there are, and what is charged, follows
        from the plan and from what was released.
        """
        while planned.missing and not planned.nothing:
            search, target = planned.search, planned.missing[0]
            if search is None:
                raise Bug("missing bounds without a search")
            more = len(planned.found) + len(planned.missing) + (planned.check is not None)
            with after_charge(planned.charged):
                new = prepare(self._private_data, search.charge(target, request, planned.confidence))
                yield BeforeCharge(planned.price(self._ledger.budget), (planned.plan,), more)
                (paid,) = yield from buy(self._ledger, [new], request.analyst, planned.plan)
            search.take(search_result(target, paid.plan.loss, paid.released.cells[0], paid.entry))
            charged = planned.charged + paid.cost
            with after_charge(charged):  # a refusal by what was found, which is public now
                planned = self._planner.survey(search, request, charged)
        return planned

    def _pay_one(
        self, title: str, planned: PlannedRequest, request: Request
    ) -> RequestSteps[tuple[PlannedRequest, Release]]:
        """A new answer, with its check."""
        plan, check, confidence = planned.plan, planned.check, planned.confidence
        cost = self._ledger.budget.cost(plan.loss)
        charge = PlannedCharge(plan, cost, confidence, title, request.body(), request.key)
        known = find_all(self._ledger, plan.outline) if request.combine else []
        stop = BeforeCharge(planned.charged, (plan,), len(planned.found) + (check is not None))
        (answer,), paid, more = yield from self._pay([charge], [check], request, stop)
        with after_charge(more):
            answer = _combine(answer, known) if request.combine else answer
        if check is None or not paid:
            return planned, answer
        return replace(planned, check=paid[check], charged=planned.charged + more), answer

    def _pay(
        self,
        charges: Sequence[PlannedCharge],
        checks: Sequence[PlannedCheck | None],
        request: Request,
        stop: BeforeCharge,
    ) -> RequestSteps[tuple[list[Release], dict[PlannedCheck, PlannedCheck], Cost]]:
        """New answers, the checks that they lack, and what those cost: all prepared, then all charged at once.

        `stop` has what was charged for them before, and what is asked.
        """
        if not charges:
            return [], {}, stop.price.zero
        lacking = list(dict.fromkeys(self._lacking(charges, checks, request)))
        budget, level = self._ledger.budget, charges[0].confidence
        planned = [*(one.charge(request, budget, level) for one in lacking), *charges]
        price = sum([one.cost for one in planned], stop.price.zero)
        _check_at_most(stop.price + price, request)
        new = [prepare(self._private_data, one) for one in planned]
        yield replace(stop, price=price)
        paid = yield from buy(self._ledger, new, request.analyst)
        first, rest = paid[: len(lacking)], paid[len(lacking) :]
        told = {
            one: replace(one, result=check_result(p.plan.loss, one.target.labels, p.released.cells[0][0]), own=True)
            for one, p in zip(lacking, first, strict=True)
        }
        releases = [one.answer(charge.confidence) for charge, one in zip(charges, rest, strict=True)]
        return releases, told, sum([one.cost for one in first], stop.price.zero)

    def _lacking(
        self, charges: Sequence[PlannedCharge], checks: Sequence[PlannedCheck | None], request: Request
    ) -> Iterable[PlannedCheck]:
        """The checks that are missing. A key that was charged before buys no new answer, and so no check."""
        for charge, check in zip(charges, checks, strict=True):
            if check is None or not check.missing:
                continue
            if charge.key is None or not self._ledger.knows_key(request.analyst, charge.key):
                yield check

    def _stored(self, planned: PlannedRequest, request: Request) -> Release | None:
        """The stored answer that will do: as good as the plan, or as what the same question got the first time."""
        return find_stored(
            self._ledger,
            planned.view,
            planned.plan,
            confidence=planned.confidence,
            lesser=planned.lesser,
            analyst=request.analyst,
            key=request.key,
        )

    def _kept_answer(self, name: Hashable) -> Release | None:
        """The answer that is kept for these words, if nothing has changed since."""
        match, seen, kept = self._kept.get(name, (None, None, None))
        if kept is None or seen != (self._stamp(match), self._private_data.fingerprints(kept.plan.table)):
            return None
        return kept

    def _keep(self, name: Hashable, before: Hashable, marks: Hashable, answer: Release, *, settled: bool) -> None:
        """Keeps a stored answer at hand for the same words, as long as no other answer to its question is stored, no
        table is declared anew and the data stay as they were. Where more may be said of it later, since it has searches
        or no check serves it yet, it is not settled: it is kept as long as nothing is written at all."""
        match = answer.plan.outline.identity.text if settled else None
        seen = self._stamp(match), marks
        if self._ledger.state != before:
            return  # an answer may have come since this one was chosen
        if len(self._kept) >= REMEMBERED:
            self._kept.clear()
        for column in (*answer.released.keys, *(cell for cells in answer.released.cells for cell in cells)):
            column.flags.writeable = False  # everybody who asks gets this answer
        self._kept[name] = match, seen, answer

    def _stamp(self, match: str | None) -> Hashable:
        return self._ledger.state if match is None else self._ledger.answer_stamp(match)


def _charges(batch: BatchPlan, asked: BatchRequest, request: Request) -> list[PlannedCharge]:
    """The charges that a batch is made of: one for each plan, and the questions that are read off it."""
    found, free = [], batch.budget.capacity.zero
    for place, (plan, merged, numbers) in enumerate(zip(batch.plans, batch.merged, batch.read_off(), strict=True)):
        key = None if request.key is None else f"batch:{sha256(repr((request.key, place)).encode()).hexdigest()}"
        questions, title = tuple(batch.items[index].question for index in numbers), asked.title(numbers)
        found.append(PlannedCharge(plan, free, merged.confidence, title, request.body(place), key, questions))
    return found


def _combine(newest: Release, known: Sequence[Stored]) -> Release:
    """A new answer joined with those that were stored before it."""
    others = [one for one in known if one[0] != newest.entry]
    with after_charge(newest.cost), saying(UNJOINED, newest.entry):
        return combined(newest, [(newest.entry, newest.plan, newest.released), *others])


def _check_useful(plan: Plan, confidence: Fraction, request: Request) -> None:
    """Refuses an answer that would say nothing, unless it is wanted anyway. By the plan and what the request says."""
    question, rows = plan.outline.question, request.terms.assume_rows
    computed = [a for aggregate in question.aggregates for a in aggregate.arguments if not isinstance(a, Column)]
    if request.anyway or (rows is None and question.table.source is None and not computed):
        return  # wanted; or of stored columns, whose bounds are declared
    for part, why, instead in useless(plan, confidence, rows):
        refuse("useless-answer", part, why, instead)


def _check_at_most(price: Cost, request: Request) -> None:
    if request.at_most is not None and not price.fits(request.at_most):
        why = f"it now costs {price}, and {request.at_most} was agreed to."
        raise PriceChanged("price-changed", "the price", why, "Preview it again.", asked=price)


def _check_combine(planned: PlannedRequest, request: Request) -> None:
    if not request.refresh:
        raise Misconfigured("`combine` joins a new answer with stored ones. Pass refresh=True. Nothing was charged.")
    check_combinable(planned.plan.outline)
