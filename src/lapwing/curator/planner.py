"""From a request to a plan that can be paid: stored search results, the question read with them, its plan, its check.

Charges nothing, reads no rows.

Check:      of how many units exceed the limits of a question, where these can cut. It takes a share of the question's
            price; with a precision it comes on top. What is stored already costs nothing, and its part goes to the
            answer. A stored check serves if it is about the same relation and keys, covers every limit of the question,
            and cost a quarter or more of what the question would pay for one; of several the oldest, so that later ones
            never change what an earlier question got, and a cheap one spoils nothing.
Checked by: tests/curator/test_check_price.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from lapwing.answers.stored import decode_check
from lapwing.answers.warnings import nothing_found
from lapwing.curator.automatic import NOTHING, Automatic, QuestionReader, least_outline, needs_of, words_needed
from lapwing.curator.batch import BatchPlan, BatchRequest, merge, split_price
from lapwing.curator.chosen_limits import DECLARED, ChosenLimits
from lapwing.curator.missing_facts import Declaring, accepts, ask_steward, missing_facts
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
from lapwing.plan.units_exceeding import CheckResult, UnitsExceeding, check_target
from lapwing.privacy.budget import FINEST, Budget, Cost
from lapwing.privacy.loss import Loss
from lapwing.sql import read_sql
from lapwing.sql.ibis import as_sql
from lapwing.sql.parse import Sql
from lapwing.sql.split import read_query, read_statement


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """What is checked for a request, at which price, and what the ledger has of it."""

    target: UnitsExceeding
    price: Loss
    plan: Plan = field(compare=False)
    result: CheckResult | None
    """The result that serves; if none does, the best one that is stored, which a stored answer shows."""
    missing: bool
    """Whether no result serves."""
    paid_here: bool = False
    """Whether this request paid for it, so that its price is part of this request's."""

    @property
    def taken(self) -> Fraction:
        """What it takes of the request's price, in the budget's currency."""
        return self.price.amount if self.missing or self.paid_here else Fraction(0)

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
    if not known:
        return PlannedCheck(target, price, plan, None, missing=True)
    own = [result for charge, result in known if mine and (charge.analyst, charge.key) == (request.analyst, mine)]
    enough = [result for _, result in known if WORSE * result.loss.amount >= price.amount]
    if own or enough:
        return PlannedCheck(target, price, plan, (own or enough)[0], missing=False, paid_here=bool(own))
    best = max((result for _, result in known), key=lambda result: result.loss.amount)
    return PlannedCheck(target, price, plan, best, missing=True)


REMEMBERED = 256
"""Questions and stored answers in memory."""
_LEAST_CONFIDENCE = Fraction(1, 10**9)


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A plan, and what is missing before it can be paid."""

    plan: Plan
    lesser: Callable[[], Plan] | None
    """Makes the plan for the case that all searches and checks must be paid: a stored answer that is as good will do.
    None if that is the plan itself."""
    check: PlannedCheck | None
    """The check of its limits, where these can cut."""
    view: LedgerView
    """What the ledger has of it."""
    confidence: Fraction
    facts: Facts
    """The question by declared facts alone, without results of searches."""
    charged: Cost
    """What was charged for searches and checks now."""
    found: tuple[SearchResult, ...] = ()
    missing: tuple[Target, ...] = ()
    search: Search | None = None

    def price(self, budget: Budget) -> Cost:
        """What the answer will cost, and the searches and the check that it still needs."""
        cost = budget.cost(self.plan.loss)
        if self.check is not None and self.check.missing:
            cost = cost + budget.cost(self.check.price)
        return cost if self.search is None else sum((self.search.cost_of_each for _ in self.missing), cost)

    @property
    def nothing(self) -> str:
        """Why there is no answer: a search found nothing to rely on. By the plan and what was released alone."""
        vain = next((result for result in self.found if result.is_nothing), None)
        return "" if vain is None or self.search is None else nothing_found(vain, self.search.again(vain))

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
    """The same if everything had to be checked; None if that is the same."""
    checks: tuple[PlannedCheck | None, ...]
    """The check of the limits of each plan. Plans over the same rows and keys share one."""
    view: LedgerView
    """What the ledger has of them."""


class Planner:
    """Plans requests with what the catalog declares and what the ledger has. Everything here raises Refused."""

    def __init__(self, catalog: Catalog, ledger: Ledger, *, check: Fraction) -> None:
        self._catalog, self._ledger, self._check = catalog, ledger, check
        self.declaring: Declaring = ask_steward
        """How refusals say that facts are missing."""
        self._chosen = lru_cache(maxsize=REMEMBERED)(lambda chosen: chosen.declare(catalog) if chosen else catalog)
        self._read_query = lru_cache(maxsize=REMEMBERED)(self._read_chosen)
        self._searches = any(table.auto or any(field.auto for field in table.fields) for table in catalog.tables)
        """Whether the steward lets bounds or limits be found."""

    def _read_chosen(self, text: Sql, today: date | None, chosen: ChosenLimits) -> Question | SplitStatement | None:
        read = read_query(self._chosen(chosen), text, today)
        if isinstance(read, SplitStatement):
            return replace(read, parts=tuple(map(chosen.limit, read.parts)))
        return None if read is None else chosen.limit(read)

    def read(self, question: Any, today: date | None = None, chosen: ChosenLimits = DECLARED) -> Question:
        """The question in SQL or as an Ibis expression, or the part of a statement, asked on this date."""
        if isinstance(question, StatementPart):
            parsed = self._read_query(question.text, today, chosen)
            if isinstance(parsed, SplitStatement):
                return parsed.parts[question.index]
        else:
            question = as_sql(question)
            parsed = self._read_query(question, today, chosen)
        return parsed if isinstance(parsed, Question) else reader_of(question, today, chosen)(self._chosen(chosen))

    def statement(self, question: Any, today: date | None, chosen: ChosenLimits) -> tuple[Sql, SplitStatement] | None:
        """The statement and its text, if the question is one and no ordinary question."""
        if isinstance(question, StatementPart):
            return None
        text = as_sql(question)
        parsed = self._read_query(text, today, chosen)
        return (text, parsed) if isinstance(parsed, SplitStatement) else None

    def plan(self, asked: QuestionRequest | WorkloadRequest, request: Request) -> PlannedRequest:
        """The plan of what is asked, and what must be found before it can be paid."""
        terms, budget = request.terms, self._ledger.budget
        free, catalog = budget.capacity.zero, self._chosen(terms.chosen)
        if not isinstance(asked, QuestionRequest):
            with self._naming_facts(asked, asked.outline, catalog):
                outline = asked.outline(catalog)
                terms.chosen.check(outline.table)
                terms.price(budget)  # refused first if none is named, since no precision can be
                confidence = confidence_of(outline.table, terms.confidence)
                priced = self._checked(outline, confidence, terms, terms, request)
                return PlannedRequest(*priced, confidence, None, free)
        read = reader_of(asked.question, request.today, terms.chosen)
        with self._naming_facts(asked, partial(self._outline, read, terms.automatic), catalog, read):
            if self._searches or terms.automatic.bounds or terms.automatic.limits:
                needs = needs_of(read, catalog, terms.automatic)
                if needs.many:
                    stored = partial(stored_results, self._ledger, request)
                    search = Search(read, catalog, needs, budget=budget, terms=terms, stored=stored)
                    return self.survey(search, request, free)
            question = self.read(asked.question, request.today, terms.chosen)
            confidence = confidence_of(question.table, terms.confidence)
            outline = outline_on_terms(question, terms, confidence)
            priced = self._checked(outline, confidence, terms, terms, request)
            return PlannedRequest(*priced, confidence, question.facts, free)

    def survey(self, search: Search, request: Request, charged: Cost) -> PlannedRequest:
        """The plan with the results of all searches by now."""
        seen = search.look()
        if seen.missing and search.within:
            why = "bounds or limits must be found first, and what precision costs depends on them."
            instead = "Ask with epsilon= once; afterwards they are known, and `within` works."
            refuse("search-needs-epsilon", "`within`", why, instead)
        confidence = confidence_of(seen.question.table, request.terms.confidence)
        outline, terms = outline_on_terms(seen.question, request.terms, confidence), search.terms(len(seen.missing))
        priced = self._checked(outline, confidence, terms, search.least(), request)
        return PlannedRequest(*priced, confidence, search.facts, charged, seen.found, seen.missing, search)

    def plan_batch(self, asked: BatchRequest, request: Request) -> PlannedBatch:
        """The plans of a batch, with its price split, and one check for each list of rows and keys."""
        chosen = request.terms.chosen
        reads = [reader_of(question, request.today, chosen) for question in asked.questions]

        def check(catalog: Catalog) -> list[Outline]:
            return [self._outline(read, NOTHING, catalog) for read in reads]

        with self._naming_facts(asked, check, self._chosen(chosen)):
            return self._plan_batch(asked, request)

    def _plan_batch(self, asked: BatchRequest, request: Request) -> PlannedBatch:
        terms, budget = request.terms, self._ledger.budget
        questions = []
        for name, question in zip(asked.names, asked.questions, strict=True):
            with inside(f"question {name}"):
                questions.append(self.read(question, request.today, terms.chosen))
        confidences = [confidence_of(question.table, terms.confidence) for question in questions]
        terms.price(budget)  # refused first if none is named
        merged, items = merge(questions, asked, confidences)

        def split(taken: Fraction) -> BatchPlan:
            return split_price(merged, items, budget, replace(terms, taken=taken), left=self._delta_left)

        targets = [check_target(one.outline) if self.check_share(terms) else None for one in merged]
        joined: dict[str, UnitsExceeding] = {}
        for target in filter(None, targets):
            name = target.identity.text
            joined[name] = joined[name].joined(target) if name in joined else target
        share = self.check_share(terms) / max(1, len(joined))
        try:
            plans = {name: check_plan(budget, terms.price(budget), share, one) for name, one in joined.items()}
        except Misconfigured:
            split(terms.taken)  # if no batch has such a price, that is said
            raise
        view = self._look([one.outline for one in merged], joined)
        checks = {name: find_check(view, request, one, plans[name]) for name, one in joined.items()}
        each = tuple(None if one is None else checks[one.identity.text] for one in targets)
        taken = sum((check.taken for check in checks.values()), Fraction(0))
        most = sum((check.price.amount for check in checks.values()), Fraction(0))
        return PlannedBatch(split(taken), None if taken == most else partial(split, most), each, view)

    def _checked(
        self, outline: Outline, confidence: Fraction, terms: Terms, least: Terms, request: Request
    ) -> tuple[Plan, Callable[[], Plan] | None, PlannedCheck | None, LedgerView]:
        """The plan on these terms and what it is at the least, with the check of its limits and what is stored.

        A price that is named pays for the check; with a precision the check comes on top of what that costs.
        """
        budget, target = self._ledger.budget, check_target(outline) if self.check_share(terms) else None

        def made(on: Terms, more: Fraction = Fraction(0)) -> Plan:
            return price_on_terms(outline, budget, on, confidence, self._delta_left, taken=on.taken + more)

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
        tables = dict.fromkeys([base.name for one in outlines for base in one.table.bases if not base.public])
        offers = [one.identity.text for one in outlines if not one.is_declared]
        return self._ledger.look(offers=offers, answers=checks, tables=tables)

    def check_share(self, terms: Terms) -> Fraction:
        return self._check if terms.check is None else read_check(terms.check)

    @contextmanager
    def _naming_facts(
        self, asked: object, check: Callable[[Catalog], object], catalog: Catalog, read: QuestionReader | None = None
    ) -> Iterator[None]:
        """Inside, a refusal names all facts that are missing, and what finds them. `check` refuses a catalog."""
        try:
            yield
        except Refused as error:
            if accepts(check, catalog):
                raise  # it is refused for its terms
            if error.code == "unbounded-groups" and read is not None and not self._ledger.budget.capacity.delta:
                error = Refused(*unknown_keys(read(catalog)))  # no delta selects groups, however limited
            facts, hint = missing_facts(catalog, repr(asked), check), "" if read is None else self._hint(read, catalog)
            start = f"{error.rewrite}, or" if facts and error.undeclared else error.instead
            instead = f"{start}{'' if error.undeclared else ' Also'} {self.declaring(facts)}" if facts else start
            refuse(error.code, error.part, error.why, f"{instead}{hint}")

    def _outline(self, read: QuestionReader, automatic: Automatic, catalog: Catalog) -> Outline:
        """The outline of a question with these facts; refused if there is none, or if its keys need a delta."""
        outline = least_outline(read, catalog, automatic)
        if outline.domain is None and not self._ledger.budget.capacity.delta:
            refuse(*unknown_keys(outline.question))
        return outline

    def _hint(self, read: QuestionReader, catalog: Catalog) -> str:
        """What finds all that is missing, if something does."""
        try:
            words = words_needed(read, catalog, delta=bool(self._ledger.budget.capacity.delta))
        except Refused:
            return ""
        asked = " and ".join(f'{word}="auto"' for word in words)
        return asked and f" Or pass {asked}: a share of the price finds what is missing."

    def _delta_left(self) -> Fraction:
        return self._ledger.remaining.delta


def reader_of(question: Any, today: date | None, chosen: ChosenLimits) -> QuestionReader:
    """Reads a question in SQL or Ibis, or a part of a statement, with a catalog that has the chosen limits."""
    if isinstance(question, StatementPart):
        return lambda catalog: chosen.limit(read_statement(question.text, catalog, today).parts[question.index])
    text = as_sql(question)
    return lambda catalog: chosen.limit(read_sql(text, catalog, today))


def confidence_of(table: Table, confidence: Number | None) -> Fraction:
    """The confidence that errors are stated at: as named, or else as declared for the table."""
    confidence = table.confidence if confidence is None else inside_unit(confidence, "confidence")
    if not _LEAST_CONFIDENCE <= confidence <= 1 - _LEAST_CONFIDENCE:
        raise Misconfigured("`confidence` must lie between 1e-9 and 1 - 1e-9. Pass 0.95. Nothing was charged.")
    return confidence
