"""Statements that go on above the release: which they are, and the requests that their parts make.

A statement with one part is asked as that question; one with several as a batch of them. So prices, stored answers,
retry keys and refusals are those of questions and batches, and one refused part refuses all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any

from lapwing.answers.computed import rehearse_statement
from lapwing.curator.batch import read_batch
from lapwing.curator.pricing import Terms
from lapwing.curator.request import QuestionRequest, Request, StatementPart
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import refuse
from lapwing.plan.plan import make_outline
from lapwing.plan.postprocessed import SplitStatement, released_number
from lapwing.plan.question import Question
from lapwing.sql.ibis import as_sql


class StatementFinder:
    """Tells statements from ordinary questions."""

    def __init__(self, read: Callable[[str, date | None], Question | SplitStatement | None]) -> None:
        self._read = read

    def find(self, question: Any, today: date | None) -> tuple[str, SplitStatement] | None:
        """The statement and its text, if the question is one and no ordinary question; raises Refused."""
        if isinstance(question, StatementPart):
            return None
        text = question if isinstance(question, str) else as_sql(question)
        found = self._read(text, today)
        return (text, found) if isinstance(found, SplitStatement) else None


def parts_request(text: str, statement: SplitStatement, request: Request, confidence: Fraction) -> Request:
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
