"""From a request to a plan that can be paid: what it needs found is looked up first. Charges nothing, reads no rows.

needs -> stored search results -> the question read with them -> plan

Checks of what limits cut: what one costs, and which stored one serves a question.

Price:      a share of the price of the question, in it and not on top of it. A question that names a precision pays so
            much more. What is already stored costs nothing, and its part goes to the answer.
Stored:     rules as for bounds that were found (search.py). A stored check serves if it is about the same relation and
            keys, covers every limit of the question, and cost a quarter or more of what the question would pay for one;
            of several the oldest, so that later ones never change what an earlier question got, and a cheap one spoils
            nothing.
Checked by: tests/curator/test_check_price.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from lapwing.answers.stored import decode_check
from lapwing.answers.warnings import nothing_found
from lapwing.curator.automatic import QuestionReader, is_refused, needs_of, words_needed
from lapwing.curator.batch import BatchPlan, BatchRequest, split_price
from lapwing.curator.pricing import Terms, outline_on_terms, price_on_terms, read_check, require_one_price
from lapwing.curator.purchase import PlannedCharge
from lapwing.curator.request import QuestionRequest, Request, StatementPart, WorkloadRequest
from lapwing.curator.search import WORSE, Search, stored_results
from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.identity import Facts
from lapwing.expressions.refusal import inside, refuse
from lapwing.expressions.table import Catalog, Table
from lapwing.ledger import Ledger
from lapwing.ledger.entry import LedgerView
from lapwing.numbers import Number, inside_unit, round_down
from lapwing.plan.bounds_search import SearchResult, Target, overlooked
from lapwing.plan.plan import Outline, Plan, unknown_keys
from lapwing.plan.postprocessed import SplitStatement
from lapwing.plan.question import Question
from lapwing.plan.units_exceeding import Checked, CheckResult, UnitsExceeding, check_target
from lapwing.privacy.budget import FINEST, Budget, Cost
from lapwing.privacy.loss import Loss
from lapwing.sql import read_sql
from lapwing.sql.ibis import as_sql
from lapwing.sql.split import read_query, read_statement


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """What is checked for a request, at which price, and what the ledger has of it."""

    target: UnitsExceeding
    price: Loss
    plan: Plan = field(compare=False)
    result: CheckResult | None
    """The result that serves, if there is one."""
    own: bool = False
    """Whether this request paid for it, so that its price is part of this request's."""
    weaker: CheckResult | None = None
    """The best one that is stored, if none serves: told with a stored answer, for which nothing new is paid."""

    @property
    def missing(self) -> bool:
        return self.result is None

    @property
    def taken(self) -> Fraction:
        """What it takes of the request's price, in the budget's currency."""
        return self.price.amount if self.missing or self.own else Fraction(0)

    @property
    def told(self) -> CheckResult | None:
        """What can be told."""
        return self.weaker if self.result is None else self.result

    @property
    def checked(self) -> Checked | None:
        """What can be told of the target's limits."""
        return None if self.told is None else Checked(self.target, self.told)

    def charge(self, request: Request, budget: Budget, confidence: Fraction) -> PlannedCharge:
        """What buys it. With a key, a retry finds its own charge again, so it pays once."""
        target, price = self.target, self.price
        body = request.body(("check", target.identity.facts, target.labels, price.encode()))
        key = request.part_key(target.identity)
        return PlannedCharge(self.plan, budget.cost(price), confidence, str(target), body, key, questions=())


def check_plan(budget: Budget, price: Loss, share: Fraction, target: UnitsExceeding) -> Plan:
    """The check at this share of a price; refused if its noise cannot be drawn.

    Rounded down to the digits of a cost, so that check and answer never cost more than the price together.
    """
    amount = price.amount * share
    exactly = amount if amount.denominator <= 10**FINEST else round_down(amount, digits=FINEST)
    try:
        return target.plan(budget.accounting.rules.loss(exactly))
    except (Misconfigured, Refused):
        raise Misconfigured(
            "the price leaves a part for which limits cannot be checked: it is too small or too large. "
            "Pass check=0, or choose another price. Nothing was charged."
        ) from None


def find_check(view: LedgerView, request: Request, target: UnitsExceeding, plan: Plan) -> PlannedCheck:
    """The check of a request, with what is stored of it."""
    mine, price = request.part_key(target.identity), plan.loss
    stored = reversed(view.answers[target.identity.text])
    known = [(one.charge, result) for one in stored if (result := decode_check(one.payload)).covers(target)]
    own = [result for charge, result in known if mine and (charge.analyst, charge.key) == (request.analyst, mine)]
    enough = [result for _, result in known if WORSE * result.loss.amount >= price.amount]
    if own or enough:
        return PlannedCheck(target, price, plan, (own or enough)[0], own=bool(own))
    best = max((result for _, result in known), key=lambda result: result.loss.amount, default=None)
    return PlannedCheck(target, price, plan, None, weaker=best)


REMEMBERED = 256
"""Questions and stored answers in memory."""
_LEAST_CONFIDENCE = Fraction(1, 10**9)


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A plan, and what is missing before it can be paid."""

    plan: Plan
    lesser: Callable[[], Plan] | None
    """Makes what the question gets if all that it needs has to be found and checked: a stored answer that is as good
    will do. None if that is the plan."""
    check: PlannedCheck | None
    """How much limits cut, where they can."""
    view: LedgerView
    """What the ledger has of it."""
    confidence: Fraction
    facts: Facts
    """What is asked, by declared facts alone: nothing that was found is part of it."""
    charged: Cost
    """What was charged for searches and checks now."""
    found: tuple[SearchResult, ...] = ()
    missing: tuple[Target, ...] = ()
    search: Search | None = None

    @property
    def least(self) -> Plan:
        return self.plan if self.lesser is None else self.lesser()

    def price(self, budget: Budget) -> Cost:
        """What the answer will cost, and the searches and the check that it still needs."""
        cost = budget.cost(self.plan.loss)
        if self.check is not None and self.check.missing:
            cost = cost + budget.cost(self.check.price)
        return cost if self.search is None else sum((self.search.cost_of_each for _ in self.missing), cost)

    @property
    def nothing(self) -> str:
        """Why there is no answer: a search found nothing to rely on. By the plan and what was released alone."""
        one = next((found for found in self.found if found.is_nothing), None)
        return "" if one is None or self.search is None else nothing_found(one, self.search.again(one))

    @property
    def overlooked(self) -> int:
        """The most units that a missing search may overlook; 0 if none is missing."""
        each = None if self.search is None else self.search.each
        return 0 if each is None else max((overlooked(target, each) for target in self.missing), default=0)


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch with its price split, and the checks of its questions."""

    batch: BatchPlan
    lesser: Callable[[], BatchPlan] | None
    """The same if everything had to be checked; None if that is no other."""
    checks: tuple[PlannedCheck | None, ...]
    """For each plan, the check that tells of its limits. Plans over the same rows and keys share one."""
    view: LedgerView
    """What the ledger has of them."""


class Planner:
    """Plans requests with what the catalog declares and what the ledger has. Everything here raises Refused."""

    def __init__(self, catalog: Catalog, ledger: Ledger, *, check: Fraction) -> None:
        self._catalog, self._ledger, self._check = catalog, ledger, check
        self.read_query = lru_cache(maxsize=REMEMBERED)(partial(read_query, catalog))

    def read(self, question: Any, today: date | None = None) -> Question:
        """The question in SQL or as an Ibis expression, asked on this date."""
        if isinstance(question, StatementPart):
            statement = self.read_query(question.text, today)
            if isinstance(statement, SplitStatement):
                return statement.parts[question.place]
            return reader_of(question, today)(self._catalog)
        text = as_sql(question)
        found = self.read_query(text, today)
        return found if isinstance(found, Question) else read_sql(text, self._catalog, today)

    def plan(self, asked: QuestionRequest | WorkloadRequest, request: Request) -> PlannedRequest:
        """The plan of what is asked, and what must be found before it can be paid."""
        terms, free = request.terms, self._ledger.total.zero
        if not isinstance(asked, QuestionRequest):
            outline = asked.outline(self._catalog)
            terms.price(self._ledger.budget)  # refused first if none is named, since no precision can be
            confidence = _confidence(outline.table, terms.confidence)
            return PlannedRequest(*self._checked(outline, confidence, terms, terms, request), confidence, None, free)
        question = asked.question
        read = reader_of(question, request.today)
        needs = needs_of(read, self._catalog, terms.automatic)
        if not needs.many:
            return self._plan_or_hint(question, read, request, free)
        stored, budget = partial(stored_results, self._ledger, request), self._ledger.budget
        search = Search(read, self._catalog, needs, budget=budget, terms=terms, stored=stored)
        return self.survey(search, request, free)

    def survey(self, search: Search, request: Request, charged: Cost) -> PlannedRequest:
        """The plan with all that was found by now."""
        seen = search.look()
        if seen.missing and search.within:
            refuse(
                "search-needs-epsilon",
                "`within`",
                "bounds or limits must be found first, and what precision costs depends on them.",
                "Ask with epsilon= once; afterwards they are known, and `within` works.",
            )
        confidence = _confidence(seen.question.table, request.terms.confidence)
        outline, terms = outline_on_terms(seen.question, request.terms, confidence), search.terms(len(seen.missing))
        priced = self._checked(outline, confidence, terms, search.least(), request)
        return PlannedRequest(*priced, confidence, search.facts, charged, seen.found, seen.missing, search)

    def plan_batch(self, asked: BatchRequest, request: Request) -> PlannedBatch:
        """The plans of a batch, with its price split, and one check for each list of rows and keys."""
        terms, budget = request.terms, self._ledger.budget
        batch = self._share(asked, terms, request.today)
        targets = [check_target(one.outline) if self.check_share(terms) else None for one in batch.merged]
        joined: dict[str, UnitsExceeding] = {}
        for target in filter(None, targets):
            name = target.identity.text
            joined[name] = joined[name].joined(target) if name in joined else target
        view = self._look([one.outline for one in batch.merged], joined)
        share = self.check_share(terms) / max(1, len(joined))
        checks = {
            name: find_check(view, request, one, check_plan(budget, terms.price(budget), share, one))
            for name, one in joined.items()
        }
        each = tuple(None if one is None else checks[one.identity.text] for one in targets)
        taken = sum((check.taken for check in checks.values()), Fraction(0))
        most = sum((check.price.amount for check in checks.values()), Fraction(0))
        lesser = None if taken == most else partial(self._share, asked, replace(terms, taken=most), request.today)
        return PlannedBatch(
            self._share(asked, replace(terms, taken=taken), request.today) if taken else batch, lesser, each, view
        )

    def _share(self, asked: BatchRequest, terms: Terms, today: date | None) -> BatchPlan:
        """The plans of a batch, with its price split."""
        questions = []
        for name, question in zip(asked.names, asked.questions, strict=True):
            with inside(f"question {name}"):
                questions.append(self.read(question, today))
        confidences = [_confidence(question.table, terms.confidence) for question in questions]
        return split_price(questions, asked, self._ledger.budget, terms, confidences=confidences, left=self._delta_left)

    def _checked(
        self,
        outline: Outline,
        confidence: Fraction,
        terms: Terms,
        least: Terms,
        request: Request,
    ) -> tuple[Plan, Callable[[], Plan] | None, PlannedCheck | None, LedgerView]:
        """The plan on these terms and what it is at the least, with the check of its limits and what is stored.

        A price that is named pays for the check; with a precision the check comes on top of what that costs.
        """
        budget, target = self._ledger.budget, check_target(outline) if self.check_share(terms) else None

        def made(on: Terms, more: Fraction = Fraction(0)) -> Plan:
            on = replace(on, taken=on.taken + more) if more else on
            return price_on_terms(outline, budget, on, confidence, self._delta_left)

        if target is None:
            lesser = None if terms.taken == least.taken else partial(made, least)
            return made(terms), lesser, None, self._look([outline])
        require_one_price(terms)
        plan = None if terms.within is None else made(terms)
        whole = terms.price(budget) if plan is None else plan.loss
        try:
            checking = check_plan(budget, whole, self.check_share(terms), target)
        except Misconfigured:
            made(terms)  # if no answer has such a price, that is said
            raise
        view = self._look([outline], [target.identity.text])
        check = find_check(view, request, target, checking)
        if plan is not None:
            return plan, None, check, view
        lesser = None if terms.taken == least.taken and check.taken else partial(made, least, check.price.amount)
        return made(terms, check.taken), lesser, check, view

    def _look(self, outlines: Sequence[Outline], checks: Iterable[str] = ()) -> LedgerView:
        """What the ledger has of these questions and checks: in one read."""
        tables = dict.fromkeys(base.name for one in outlines for base in one.table.bases if not base.public)
        offers = [one.identity.text for one in outlines if not one.is_declared]
        return self._ledger.look(offers=offers, answers=checks, tables=tables)

    def check_share(self, terms: Terms) -> Fraction:
        """The share of the price that a check takes."""
        return self._check if terms.check is None else read_check(terms.check)

    def _plan_or_hint(self, asked: Any, read: QuestionReader, request: Request, free: Cost) -> PlannedRequest:
        """The plan; a refusal says so if bounds or limits that can be found are all that is missing."""
        question, terms = None, request.terms
        try:
            question = self.read(asked, request.today)
            confidence = _confidence(question.table, terms.confidence)
            outline = outline_on_terms(question, terms, confidence)
            priced = self._checked(outline, confidence, terms, terms, request)
            return PlannedRequest(*priced, confidence, question.facts, free)
        except Refused as error:
            if error.code == "unbounded-groups" and question is not None and not self._ledger.budget.capacity.delta:
                refuse(*unknown_keys(question))  # a limit on groups would not help: no delta selects them
            hint = "" if question is not None and not is_refused(question) else self._hint(read)
            refuse(error.code, error.part, error.why, f"{error.instead}{hint}")

    def _hint(self, read: QuestionReader) -> str:
        """What finds all that is missing, if something does."""
        try:
            words = words_needed(read, self._catalog)
        except Refused:
            return ""
        asked = " and ".join(f'{word}="auto"' for word in words)
        return asked and f" Or pass {asked}: a share of the price finds what is missing."

    def confidence(self, question: Question, terms: Terms) -> Fraction:
        """The confidence that errors of a question on these terms are stated at."""
        return _confidence(question.table, terms.confidence)

    def _delta_left(self) -> Fraction:
        return self._ledger.remaining.delta


def reader_of(question: Any, today: date | None) -> QuestionReader:
    """Reads a question in SQL, a part of a statement or an Ibis expression with what a catalog declares."""
    if isinstance(question, StatementPart):
        return lambda catalog: read_statement(question.text, catalog, today).parts[question.place]
    return partial(read_sql, as_sql(question), today=today)


def _confidence(table: Table, confidence: Number | None) -> Fraction:
    confidence = table.confidence if confidence is None else inside_unit(confidence, "confidence")
    if not _LEAST_CONFIDENCE <= confidence <= 1 - _LEAST_CONFIDENCE:
        raise Misconfigured("`confidence` must lie between 1e-9 and 1 - 1e-9. Pass 0.95. Nothing was charged.")
    return confidence
