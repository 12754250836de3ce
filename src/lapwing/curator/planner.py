"""From a request to a plan that can be paid: what it needs found is looked up first. Charges nothing, reads no rows.

needs -> stored search results -> the question read with them -> plan
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from lapwing.asking.automatic import Automatic, QuestionReader, is_refused, needs_of
from lapwing.asking.batch import BatchPlan, BatchRequest, split_price
from lapwing.asking.pricing import Terms, plan_on_terms
from lapwing.asking.request import QuestionRequest, Request, StatementPart, WorkloadRequest
from lapwing.catalog.identity import Facts
from lapwing.catalog.table import Catalog, Table
from lapwing.cells.bounds_search import SearchResult, Target, overlooked
from lapwing.curator.search import Search, stored_results
from lapwing.errors import Misconfigured, Refused
from lapwing.language.refusal import inside, refuse
from lapwing.ledger import Ledger
from lapwing.numbers import Number, inside_unit
from lapwing.planning.plan import Plan, equal_prices, priced
from lapwing.planning.question import Question
from lapwing.privacy.budget import Cost
from lapwing.reading.ibis import read_ibis
from lapwing.reading.sql import read_sql
from lapwing.reading.sql.statement import read_statement

REMEMBERED = 256
"""Questions and stored answers in memory."""
_LEAST_CONFIDENCE = Fraction(1, 10**9)


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A plan, and what is missing before it can be paid."""

    plan: Plan
    least: Plan
    """What the question gets if all that it needs has to be found: a stored answer that is as good will do."""
    confidence: Fraction
    facts: Facts
    """What is asked, by declared facts alone: nothing that was found is part of it."""
    charged: Cost
    """What was charged for searches now."""
    found: tuple[SearchResult, ...] = ()
    missing: tuple[Target, ...] = ()
    search: Search | None = None

    @property
    def to_pay(self) -> Cost:
        """What the missing searches will cost."""
        free = self.charged - self.charged
        return free if self.search is None else sum((self.search.cost_of_each for _ in self.missing), free)

    @property
    def overlooked(self) -> int:
        """The most units that a missing search may overlook; 0 if none is missing."""
        each = None if self.search is None else self.search.each
        return 0 if each is None else max((overlooked(target, each) for target in self.missing), default=0)


class Planner:
    """Plans requests with what the catalog declares and what the ledger has. Everything here raises Refused."""

    def __init__(self, catalog: Catalog, ledger: Ledger) -> None:
        self._catalog, self._ledger = catalog, ledger
        self._read_sql = lru_cache(maxsize=REMEMBERED)(partial(read_sql, catalog=catalog))

    def read(self, question: Any, today: date | None = None) -> Question:
        """The question in SQL or as an Ibis expression, asked on this date."""
        if isinstance(question, str):
            return self._read_sql(question, today=today)
        return reader_of(question, today)(self._catalog)

    def plan(self, asked: QuestionRequest | WorkloadRequest, request: Request) -> PlannedRequest:
        """The plan of what is asked, and what must be found before it can be paid."""
        terms, free = request.terms, self._ledger.total - self._ledger.total
        if not isinstance(asked, QuestionRequest):
            plan, confidence = self._plan_workload(asked, terms)
            return PlannedRequest(plan, plan, confidence, None, free)
        question = asked.question
        read = reader_of(question, request.today)
        needs = needs_of(read, self._catalog, terms.automatic)
        if not needs.many:
            plan, confidence = self._plan_or_hint(question, read, request)
            return PlannedRequest(plan, plan, confidence, plan.question.facts, free)
        stored, budget = partial(stored_results, self._ledger, request), self._ledger.budget
        return self.survey(Search(read, self._catalog, needs, budget=budget, terms=terms, stored=stored), free)

    def survey(self, search: Search, charged: Cost) -> PlannedRequest:
        """The plan with all that was found by now."""
        seen = search.look()
        if seen.missing and search.within:
            refuse(
                "search-needs-epsilon",
                "`within`",
                "bounds or limits must be found first, and what precision costs depends on them.",
                "Ask with epsilon= once; afterwards they are known, and `within` works.",
            )
        plan, confidence = self._plan(seen.question, search.terms(len(seen.missing)))
        least = plan if search.terms() == search.least() else self._plan(seen.question, search.least())[0]
        return PlannedRequest(plan, least, confidence, search.facts, charged, seen.found, seen.missing, search)

    def plan_batch(self, asked: BatchRequest, terms: Terms, today: date | None = None) -> BatchPlan:
        """The plans of a batch, with its price split."""
        questions = []
        for name, question in zip(asked.names, asked.questions, strict=True):
            with inside(f"question {name}"):
                questions.append(self.read(question, today))
        confidences = [_confidence(question.table, terms.confidence) for question in questions]
        return split_price(questions, asked, self._ledger.budget, terms, confidences=confidences, left=self._delta_left)

    def _plan_workload(self, asked: WorkloadRequest, terms: Terms) -> tuple[Plan, Fraction]:
        """The plan of a workload at its price, and the confidence that its errors are stated at."""
        outline = asked.outline(self._catalog)
        plan = priced(outline, equal_prices(outline, terms.price(self._ledger.budget)))
        return plan, _confidence(plan.table, terms.confidence)

    def _plan(self, question: Question, terms: Terms) -> tuple[Plan, Fraction]:
        """The plan on these terms, and the confidence that its errors are stated at."""
        confidence = _confidence(question.table, terms.confidence)
        return plan_on_terms(question, self._ledger.budget, terms, confidence, self._delta_left), confidence

    def _plan_or_hint(self, asked: Any, read: QuestionReader, request: Request) -> tuple[Plan, Fraction]:
        """The plan; a refusal says so if bounds or limits that can be found are all that is missing."""
        question = None
        try:
            question = self.read(asked, request.today)
            return self._plan(question, request.terms)
        except Refused as error:
            hint = "" if question is not None and not is_refused(question) else self._hint(read)
            refuse(error.code, error.part, error.why, f"{error.instead}{hint}")

    def _hint(self, read: QuestionReader) -> str:
        """What finds all that is missing, if something does."""
        try:
            needs = needs_of(read, self._catalog, Automatic(bounds=True, limits=True))
        except Refused:
            return ""
        words = (["bounds"] if needs.columns else []) + (["limits"] if needs.limits else [])
        asked = " and ".join(f'{word}="auto"' for word in words)
        return asked and f" Or pass {asked}: a share of the price finds what is missing."

    def confidence(self, question: Question, terms: Terms) -> Fraction:
        """The confidence that errors of a question on these terms are stated at."""
        return _confidence(question.table, terms.confidence)

    def _delta_left(self) -> Fraction:
        return self._ledger.remaining.delta


def reader_of(question: Any, today: date | None) -> QuestionReader:
    """Reads a question in SQL, a part of a statement or an Ibis expression with what a catalog declares."""
    match question:
        case str():
            return partial(read_sql, question, today=today)
        case StatementPart(text=text, place=place):
            return lambda catalog: read_statement(text, catalog, today).parts[place]
        case _:
            return partial(read_ibis, question, today=today)


def _confidence(table: Table, confidence: Number | None) -> Fraction:
    confidence = table.confidence if confidence is None else inside_unit(confidence, "confidence")
    if not _LEAST_CONFIDENCE <= confidence <= 1 - _LEAST_CONFIDENCE:
        raise Misconfigured("`confidence` must lie between 1e-9 and 1 - 1e-9. Pass 0.95. Nothing was charged.")
    return confidence
