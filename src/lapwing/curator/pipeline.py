"""From a request to its answer: one that is at hand or stored, or a new one.

find, price, prepare, [before charge], reserve, [before rows], read, [before store], settle

The same steps for every way to ask: a question, its check of limits and the searches that it needs, a workload, each
part of a batch. What a charge buys, and who resumes the request at which stop, is in purchase.py.

A statement that computes from released tables is asked as its one question, or as a batch of its questions. So prices,
stored answers, retry keys and refusals are those of questions and batches, and one refused part refuses all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

from lapwing.answers.answer import Release, declared_answer, null_answer
from lapwing.answers.computed import Computed, Stored, check_combinable, combined, rehearse_statement
from lapwing.answers.warnings import useless
from lapwing.curator.batch import BatchPlan, BatchRequest, read_batch
from lapwing.curator.batch_answer import Batch, batch_of
from lapwing.curator.planner import REMEMBERED, PlannedBatch, PlannedCheck, PlannedRequest, Planner, confidence_of
from lapwing.curator.pricing import Terms, price_words, reworded
from lapwing.curator.private_data import PrivateData
from lapwing.curator.purchase import (
    BeforeCharge,
    PlannedCharge,
    RequestSteps,
    after_charge,
    buy,
    find_all,
    find_stored,
    saying,
)
from lapwing.curator.request import QuestionRequest, Request, StatementPart, WorkloadRequest
from lapwing.curator.search import check_search_keys
from lapwing.errors import BudgetExceeded, Bug, Misconfigured, PriceChanged
from lapwing.expressions.expression import Column
from lapwing.expressions.refusal import refuse
from lapwing.ledger import Ledger
from lapwing.plan.bounds_search import search_result
from lapwing.plan.plan import Plan, make_outline
from lapwing.plan.postprocessed import SplitStatement, released_number
from lapwing.plan.units_exceeding import Checked, CheckResult, check_result
from lapwing.privacy.budget import Cost
from lapwing.sql.parse import Sql


def parts_request(text: Sql, statement: SplitStatement, request: Request, confidence: Fraction) -> Request:
    """The request for the parts of a statement, on its terms; raises Refused if there is none."""
    terms, size = request.terms, len(statement.parts)
    if terms.within is not None:
        request = replace(request, terms=_exact_enough(statement, terms, confidence))
    if size == 1:
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
    asked = {f"part {index + 1}": StatementPart(text, index) for index in range(size)}
    return replace(request, asked=read_batch(asked))


def _exact_enough(statement: SplitStatement, terms: Terms, confidence: Fraction) -> Terms:
    """The terms on which every shown number is as exact as asked, whatever rows are chosen.

    Numbers are shown with intervals that hold for all columns and groups together at the widest, so the part is priced
    at that confidence: each of its k numbers in each of its g groups at 1 - (1 - c) / (k g).
    """
    noisy = [column.name for column in rehearse_statement(statement, confidence) if not column.is_key]
    plain = {shown: released_number(statement.root, name) for shown, name, _ in statement.columns if shown in noisy}
    groups = make_outline(statement.parts[0]).group_count
    if len(statement.parts) > 1 or None in plain.values() or groups is None:
        why = "it is promised for released numbers, and this statement shows numbers that are computed from them."
        instead = "Ask with epsilon=; or ask for the sub-queries first, with within=: what is stored is not paid again."
        refuse("within-unsupported", "`within`", why, instead)
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

    def __init__(self, ledger: Ledger, private_data: PrivateData, planner: Planner) -> None:
        self._ledger, self._private_data, self._planner = ledger, private_data, planner
        self._kept: dict[Hashable, tuple[str | None, Hashable, Release]] = {}

    def answer(self, asked: QuestionRequest, request: Request) -> RequestSteps[Release | Computed]:
        """The answer to a question, or to a statement that is computed from the answers to several."""
        statement = self._planner.statement(asked.question, request.today, request.terms.chosen)
        return self.answer_one(asked, request) if statement is None else self._computed(*statement, request)

    def _computed(self, text: Sql, statement: SplitStatement, request: Request) -> RequestSteps[Computed]:
        confidence = confidence_of(statement.parts[0].table, request.terms.confidence)
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
        elif name is not None:
            settled = not answer.found and (planned.check is None or not planned.check.missing)
            self._keep(name, before, marks, answer, settled=settled)
        return answer

    def answer_batch(self, asked: BatchRequest, request: Request) -> RequestSteps[Batch]:
        planned = self._planner.plan_batch(asked, request)
        batch = planned.batch
        request = request.canonical(*(one.outline.question.facts for one in batch.merged))
        charges = _charges(batch, asked, request)
        for charge in charges:
            if charge.key is not None:
                self._ledger.check_key(request.analyst, charge.key, charge.body)
        for plan in batch.plans:
            self._private_data.check(plan.table, planned.view)
        stored = self.find_batch(planned, asked, request)
        missing = [index for index, answer in enumerate(stored) if answer is None]
        for index in missing:
            _check_useful(charges[index].plan, charges[index].confidence, request)
        costs = zip(missing, batch.costs(missing), strict=True)
        stop = BeforeCharge(self._ledger.total.zero, tuple(batch.plans), sum(map(bool, planned.checks)))
        to_pay, to_check = [replace(charges[i], cost=cost) for i, cost in costs], [planned.checks[i] for i in missing]
        with self._short(batch.plans[0], request):
            new, results, more = yield from self._pay(to_pay, to_check, request, stop)
        checked = [None if check is None else results.get(check, check.result) for check in planned.checks]
        paid = iter(new)
        answers = [next(paid) if answer is None else answer for answer in stored]
        return batch_of(asked.names, batch, answers, checked, more, request.terms)

    def find_batch(self, planned: PlannedBatch, asked: BatchRequest, request: Request) -> list[Release | None]:
        """For each plan of a batch the stored answer that will do: as good as the plan, or as the lesser plan."""
        if request.refresh:
            return [None] * len(planned.batch.plans)
        view = planned.view
        stored = [
            find_stored(self._ledger, view, one.plan, confidence=one.confidence, analyst=request.analyst, key=one.key)
            for one in _charges(planned.batch, asked, request)
        ]
        if planned.lesser is None or None not in stored:
            return stored
        lesser = _charges(planned.lesser(), asked, request)
        return [
            find_stored(self._ledger, view, one.plan, confidence=one.confidence) if answer is None else answer
            for answer, one in zip(stored, lesser, strict=True)
        ]

    def _answer(self, title: str, planned: PlannedRequest, request: Request) -> RequestSteps[Release]:
        """The answer to a planned request: a stored one, or a new one, after all that is missing was found."""
        if planned.plan.outline.is_declared:
            return declared_answer(planned.plan, self._ledger.total.zero, planned.confidence)
        if request.combine:
            if not request.refresh:
                raise Misconfigured(
                    "`combine` joins a new answer with stored ones. Pass refresh=True. Nothing was charged."
                )
            check_combinable(planned.plan.outline)
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
        ledger, plan, check, charged = self._ledger, planned.plan, planned.check, planned.charged
        confidence, key, result = planned.confidence, request.key, None if check is None else check.result
        answer = None
        if not request.refresh:
            who: Any = {"analyst": request.analyst, "key": key}
            answer = find_stored(ledger, planned.view, plan, confidence=confidence, lesser=planned.lesser, **who)
        if answer is None:  # not by its truth: an answer without rows is false
            if planned.search is None or not charged:
                _check_useful(plan, confidence, request)
            with after_charge(charged), self._short(plan, request):
                cost = ledger.budget.cost(plan.loss)
                charge = PlannedCharge(plan, cost, confidence, title, request.body(), key)
                older = find_all(ledger, plan.outline) if request.combine else []
                stop = BeforeCharge(charged, (plan,), len(planned.found) + (check is not None))
                (answer,), results, more = yield from self._pay([charge], [check], request, stop)
                if request.combine:
                    with after_charge(more):
                        answer = _combine(answer, older)
            if check is not None and check in results:
                result, charged = results[check], charged + more
        checked = None if check is None or result is None else Checked(check.target, result)
        if not planned.found and checked is None:
            return answer
        return replace(answer, found=planned.found, check=checked, cost=answer.cost + charged)

    @contextmanager
    def _short(self, plan: Plan, request: Request) -> Iterator[None]:
        """Says in the caller's words what the budget still buys, if the price does not fit."""
        try:
            yield
        except BudgetExceeded as error:
            check = self._planner.check_share(request.terms)
            raise reworded(error, plan, request.terms, self._ledger.budget, check=check) from None

    def _find_missing(self, planned: PlannedRequest, request: Request) -> RequestSteps[PlannedRequest]:
        """The request with all that was missing: found, charged and stored. The whole price was checked before.

        It ends with the first search that finds nothing to rely on. How many there are, and what is charged, follows
        from the plan and from what was released.
        """
        while planned.missing and not planned.nothing:
            search, target = planned.search, planned.missing[0]
            if search is None:
                raise Bug("missing bounds without a search")
            more = len(planned.found) + len(planned.missing) + (planned.check is not None)
            with after_charge(planned.charged):
                new = self._private_data.prepare([search.charge(target, request, planned.confidence)])
                yield BeforeCharge(planned.price(self._ledger.budget), (planned.plan,), more)
                (paid,) = yield from buy(self._ledger, new, request.analyst, planned.plan)
            search.take(search_result(target, paid.plan.loss, paid.released.cells[0], paid.entry))
            charged = planned.charged + paid.cost
            with after_charge(charged):  # a refusal by what was found, which is public now
                planned = self._planner.survey(search, request, charged)
        return planned

    def _pay(
        self,
        charges: Sequence[PlannedCharge],
        checks: Sequence[PlannedCheck | None],
        request: Request,
        stop: BeforeCharge,
    ) -> RequestSteps[tuple[list[Release], dict[PlannedCheck, CheckResult], Cost]]:
        """New answers, results of the checks that they lack, and what those cost: all prepared, then charged at once.

        `stop` has what was charged for them before, and what is asked.
        """
        free = stop.price.zero
        if not charges:
            return [], {}, free
        lacking: dict[PlannedCheck, None] = {}
        for charge, check in zip(charges, checks, strict=True):
            if check is None or not check.missing:
                continue  # a key that was charged before buys no new answer, and so no check
            if charge.key is None or not self._ledger.knows_key(request.analyst, charge.key):
                lacking[check] = None
        planned = [check.charge(request, self._ledger.budget, charges[0].confidence) for check in lacking]
        planned += charges
        price = sum([one.cost for one in planned], free)
        _check_at_most(stop.price + price, request)
        new = self._private_data.prepare(planned)
        yield replace(stop, price=price)
        paid = yield from buy(self._ledger, new, request.analyst)
        results: dict[PlannedCheck, CheckResult] = {}
        for check, answer in zip(lacking, paid, strict=False):  # the answers follow
            results[check] = check_result(answer.plan.loss, check.target.labels, answer.released.cells[0][0])
        return paid[len(lacking) :], results, sum([one.cost for one in paid[: len(lacking)]], free)

    def _kept_answer(self, name: Hashable) -> Release | None:
        """The answer that is kept for these words, if nothing has changed since."""
        match, seen, kept = self._kept.get(name, (None, None, None))
        if kept is None or seen != (self._stamp(match), self._private_data.fingerprints(kept.plan.table)):
            return None
        return kept

    def _keep(self, name: Hashable, before: Hashable, marks: Hashable, answer: Release, *, settled: bool) -> None:
        """Keeps a stored answer at hand for the same words, as long as no other answer to its question is stored, no
        table is declared anew and the data stay as they were. If searches or a later check may add to it, it is not
        settled, and kept only until anything is written."""
        match = answer.plan.outline.identity.text if settled else None
        seen = self._stamp(match), marks
        if self._ledger.state != before:
            return  # an answer may have come since this one was chosen
        if len(self._kept) >= REMEMBERED:
            self._kept.clear()
        for column in (*answer.released.keys, *(cell for cells in answer.released.cells for cell in cells)):
            column.flags.writeable = False  # one answer for all requests
        self._kept[name] = match, seen, answer

    def _stamp(self, match: str | None) -> Hashable:
        return self._ledger.state if match is None else self._ledger.answer_stamp(match)


def _charges(batch: BatchPlan, asked: BatchRequest, request: Request) -> list[PlannedCharge]:
    """The charges that a batch is made of: one for each plan, and the questions that are read off it."""
    charges, free = [], batch.budget.capacity.zero
    for index, (plan, merged, numbers) in enumerate(zip(batch.plans, batch.merged, batch.read_off(), strict=True)):
        key = None if request.key is None else f"batch:{sha256(repr((request.key, index)).encode()).hexdigest()}"
        questions, title = tuple(batch.items[number].question for number in numbers), asked.title(numbers)
        charges.append(PlannedCharge(plan, free, merged.confidence, title, request.body(index), key, questions))
    return charges


def _combine(newest: Release, older: Sequence[Stored]) -> Release:
    others = [one for one in older if one[0] != newest.entry]
    with after_charge(newest.cost), saying(UNJOINED, newest.entry):
        return combined(newest, [(newest.entry, newest.plan, newest.released), *others])


def _check_useful(plan: Plan, confidence: Fraction, request: Request) -> None:
    """Refuses a useless answer unless it is wanted anyway. By the plan and the request alone."""
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
