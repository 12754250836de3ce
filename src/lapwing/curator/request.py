"""A request, as it was written: the value that every way to ask makes and the ledger knows a charge by.

A retry key belongs to its analyst and stands for one request. Requests are compared by `body`: the question and its
terms, as written. Nothing that follows from the ledger is part of it, such as what is left of the delta.
Checked by: tests/curator/test_request.py
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any

from lapwing.answers.distribution import ask_distribution
from lapwing.answers.marginals import CellsPerAxis, ask_marginals, read_columns
from lapwing.curator.automatic import read_automatic
from lapwing.curator.batch import BatchRequest
from lapwing.curator.chosen_limits import read_chosen
from lapwing.curator.pricing import Terms
from lapwing.errors import Misconfigured
from lapwing.expressions.identity import Facts, Identity, interval_facts, number_facts
from lapwing.expressions.table import Catalog
from lapwing.numbers import exact, flag
from lapwing.plan.plan import Outline, Plan
from lapwing.plan.workload import axes_of
from lapwing.privacy.budget import Cost
from lapwing.sql.parse import Sql, bind_parameters
from lapwing.terms import SEARCH_SHARE, STEWARD, check_names


@dataclass(frozen=True, slots=True)
class StatementPart:
    """One of the questions that a statement is made of (plan/postprocessed.py), by its number."""

    text: Sql
    index: int

    def __str__(self) -> str:
        return str(self.text)


@dataclass(frozen=True, slots=True)
class QuestionRequest:
    """One question: SQL text, an Ibis expression, or a part of a statement."""

    question: Any

    def title(self, _: Plan) -> str:
        """The question, for readers of the ledger."""
        return str(self.question)

    @property
    def written(self) -> tuple[Any, ...]:
        return ("question", self.question)


@dataclass(frozen=True, slots=True)
class DistributionRequest:
    """The distribution of one column."""

    column: str
    table: str | None = None
    where: str | None = None
    cells: int | None = None

    def outline(self, catalog: Catalog) -> Outline:
        """Raises Refused."""
        return ask_distribution(catalog, self.column, table=self.table, where=self.where, cells=self.cells)

    def title(self, plan: Plan) -> str:
        return _title("distribution", plan, self.where)

    @property
    def written(self) -> tuple[Any, ...]:
        return ("distribution", self.column, self.table, self.where, self.cells)


@dataclass(frozen=True, slots=True)
class MarginalsRequest:
    """The counts over sets of columns."""

    columns: Sequence[str | Sequence[str]]
    table: str | None = None
    where: str | None = None
    ways: int = 2
    cells: CellsPerAxis = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", read_columns(self.columns))

    def outline(self, catalog: Catalog) -> Outline:
        """Raises Refused."""
        return ask_marginals(
            catalog, self.columns, table=self.table, where=self.where, ways=self.ways, cells=self.cells
        )

    def title(self, plan: Plan) -> str:
        return _title(f"{plan.outline.kinds[0].cells} marginals", plan, self.where)

    @property
    def written(self) -> tuple[Any, ...]:
        return ("marginals", self.columns, self.table, self.where, self.ways, self.cells)


def _title(workload: str, plan: Plan, where: str | None) -> str:
    names = ", ".join(axis.name for axis in axes_of(plan.outline.kinds[0]))
    return f"{workload} of {names} in {plan.table.name}{'' if where is None else f' where {where}'}"


WorkloadRequest = DistributionRequest | MarginalsRequest
Asked = QuestionRequest | BatchRequest | WorkloadRequest


@dataclass(frozen=True)
class Request:
    """A question, a batch or a workload, with its terms, its analyst and its retry key."""

    asked: Asked
    terms: Terms
    refresh: bool = False
    """Whether a new answer is paid for even if one is stored."""
    combine: bool = False
    """Whether the new answer is combined with the stored ones."""
    analyst: str = STEWARD
    key: str | None = None
    today: date = field(default_factory=lambda: datetime.now(UTC).date(), compare=False)
    """The date in UTC when the request was built: what CURRENT_DATE means in it, and then part of its identity."""
    at_most: Cost | None = field(default=None, compare=False)
    """The most that may be charged for it, such as the price of its preview; None for no limit of its own."""
    anyway: bool = field(default=False, compare=False)
    """Whether even a useless answer is wanted (answers/warnings.py). It changes no price and no answer."""

    def __post_init__(self) -> None:
        for name in ("refresh", "combine", "anyway"):
            value: Any = getattr(self, name)
            if value is not True and value is not False:
                flag(value, name)

    @cached_property
    def identity(self) -> Identity:
        """The question and its terms, without analyst, key and whether a stored answer will do."""
        return Identity("request", (_facts(self.asked.written), self._terms))

    def canonical(self, *questions: Facts) -> Request:
        """The request with its questions as facts, whatever their wording."""
        match self.asked:
            case QuestionRequest():
                return replace(self, asked=QuestionRequest(*questions))
            case BatchRequest() as asked:
                return replace(self, asked=replace(asked, questions=questions))
            case _:
                return self

    def body(self, part: Facts = None) -> str:
        """What the ledger knows this request by, or one of its charges."""
        return Identity("charge", (sha256(self.identity.text.encode()).hexdigest(), part)).text

    def part_key(self, identity: Identity) -> str | None:
        """The key of a search or a check of this request, if it has a key."""
        return None if self.key is None else f"find:{sha256(repr((self.key, identity.text)).encode()).hexdigest()}"

    @property
    def _terms(self) -> Facts:
        terms, automatic = self.terms, self.terms.automatic
        numbers = (terms.within, terms.epsilon, terms.delta, terms.confidence, terms.assume_rows, terms.share)
        check = () if terms.check is None else (_facts(terms.check),)
        limits, bounds = terms.chosen, tuple((name, interval_facts(ends)) for name, ends in terms.chosen.bounds)
        chosen = (("limits", limits.rows, limits.groups, bounds),) if limits else ()
        searches = (automatic.bounds, automatic.limits, number_facts(automatic.share))
        return (_facts(numbers), terms.intervals, *searches, *check, *chosen)


_PRICE = frozenset(term.name for term in fields(Terms)) - {"automatic", "taken", "chosen"}
_HOW = frozenset(("refresh", "combine", "anyway", "analyst", "key"))
_SEARCH = ("bounds", "limits", "find_share")
_CHOSEN = ("rows", "groups", "bounds")
_CELLS = ("table", "where", "ways", "cells")


def cells_of(terms: Mapping[str, Any]) -> dict[str, Any]:
    """The terms that say what a workload counts."""
    return {name: terms[name] for name in _CELLS if name in terms}


def make_request(asked: Asked, terms: Mapping[str, Any], kind: Any = None, at_most: Cost | None = None) -> Request:
    """The request on the terms that were named; with `kind` (terms.py), raises TypeError for others."""
    if kind is not None:
        check_names(kind, terms)
    if (params := terms.get("params")) is not None:
        if isinstance(asked, QuestionRequest):
            asked = QuestionRequest(*bind_parameters([asked.question], params))
        elif isinstance(asked, BatchRequest):
            asked = replace(asked, questions=bind_parameters(asked.questions, params))
    price: dict[str, Any] = {name: terms[name] for name in _PRICE & terms.keys()}
    price["chosen"] = read_chosen(*map(terms.get, _CHOSEN))
    if not terms.keys().isdisjoint(_SEARCH):
        bounds = None if isinstance(terms.get("bounds"), Mapping) else terms.get("bounds")
        if bounds is not None and not isinstance(asked, QuestionRequest):
            raise Misconfigured('`bounds` is by column here: bounds={"cost": (0, 500)}. Nothing was charged.')
        price["automatic"] = read_automatic(bounds, terms.get("limits"), terms.get("find_share", SEARCH_SHARE))
    return Request(asked, Terms(**price), **{name: terms[name] for name in _HOW & terms.keys()}, at_most=at_most)


def _facts(written: Any) -> Facts:
    """A value as it was written; numbers exactly, Ibis expressions as they print."""
    match written:
        case None | bool() | str():
            return written
        case list() | tuple():
            return tuple([part if part is None or type(part) is str else _facts(part) for part in written])
        case numbers.Number():
            return number_facts(exact(written, "a number"))
        case Mapping():
            return tuple(sorted((str(name), _facts(value)) for name, value in written.items()))
        case _:
            return ("ibis", str(written))
