"""What a server gives back, shown as the curator shows it: rebuilt from JSON, without an engine.

Checked by: tests/client/test_transport.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

from lapwing.answers.formats import Explanation, dump, footer
from lapwing.answers.preview import Sheet, budget_lines, html_text, text_lines
from lapwing.answers.table import AnswerTable, read_table
from lapwing.answers.tabular import AnyRelease, Together
from lapwing.errors import Misconfigured
from lapwing.numbers import Number, exact
from lapwing.privacy.budget import Cost, read_budget, read_cost
from lapwing.privacy.filter import Statement

Json = Mapping[str, Any]
Again = Callable[[Fraction, bool], Json]
"""The same answer with intervals at another confidence, or for all rows of a column together; free."""


class _FromJson:
    __slots__ = ()
    body: Json

    @property
    def cost(self) -> Cost:
        """What it costs now; 0 if an answer that is at least as good is stored."""
        return read_cost(self.body["price"])

    def to_dict(self) -> dict[str, Any]:
        """Rows with intervals, price and methods, as the curator writes them."""
        return dict(self.body)

    def to_json(self) -> str:
        return dump(self.to_dict())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RemoteRelease(_FromJson, AnyRelease):  # type: ignore[override]
    """A released answer. Whatever is done with it costs nothing more."""

    body: Json
    """Its JSON."""
    again: Again
    id: str | None = None
    """What the server knows it by."""

    @property
    def confidence(self) -> Fraction:  # type: ignore[override]
        return exact(self.body["confidence"], "confidence")

    @property
    def entry(self) -> int:  # type: ignore[override]
        entries = self.body.get("ledger_entries") or [self.body.get("ledger_entry")]
        return max((entry for entry in entries if entry is not None), default=0)

    def methods(self) -> str:
        return str(self.body["methods"])

    def table(self, confidence: Number | None = None, *, simultaneous: bool = False) -> AnswerTable:
        """The answer with intervals at this confidence, per number or for all rows of a column together."""
        level = self._level(confidence)
        same = level == self.confidence and not simultaneous
        return read_table(self.body if same else self.again(level, simultaneous))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RemoteBatch(Together[RemoteRelease]):
    """The answers to a batch, in the order of the questions, by number or by name."""

    names: tuple[str, ...]
    releases: tuple[RemoteRelease, ...]
    cost: Cost
    words: str
    """Number and price of the answers, below them."""
    id: str | None = None
    bought: str = ""

    def _footer(self) -> str:
        return self.words


@dataclass(frozen=True, eq=False, repr=False)
class RemoteMarginals(_FromJson, Mapping[tuple[str, ...], RemoteRelease]):
    """All tables of counts, by the names of their columns."""

    body: Json
    id: str | None = None

    def __getitem__(self, names: str | tuple[str, ...]) -> RemoteRelease:
        asked = {name.lower() for name in ([names] if isinstance(names, str) else names)}
        shared = {name: fact for name, fact in self.body.items() if name != "tables"}
        for table in self.body["tables"]:
            if {name.lower() for name in table["over"]} == asked:
                return RemoteRelease({**shared, **table}, _fixed)
        raise Misconfigured("these columns are no table of this answer. `list(...)` of it names the tables.")

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return (tuple(table["over"]) for table in self.body["tables"])

    def __len__(self) -> int:
        return len(self.body["tables"])

    def methods(self) -> str:
        """A sentence to put into a paper."""
        return str(self.body["methods"])

    def explain(self) -> Explanation:
        """The exact price, what limits leave out and the method."""
        return next(iter(self.values())).explain()

    def __repr__(self) -> str:
        tables = dict(self)
        lines = [f"{', '.join(names)}: {len(table):,} cells" for names, table in tables.items()]
        return "\n".join([*lines, *footer(next(iter(tables.values())).table())])


def _fixed(*_: object) -> Json:
    raise Misconfigured(
        "The intervals of these tables are those that were asked for. Ask again with another `confidence`; it is free."
    )


@dataclass(frozen=True, slots=True, repr=False)
class RemotePreview(_FromJson):
    """Price and error of what would be asked. Nothing was charged."""

    body: Json
    id: str | None = None
    """What the server knows it by; asking with it is refused if the price has changed since."""

    @property
    def stored(self) -> bool:
        """Whether an answer that is at least as good has been paid for before."""
        return bool(self.body["stored"])

    @property
    def fits(self) -> bool:
        """Whether it could be paid now."""
        return bool(self.body["fits"])

    @property
    def errors(self) -> dict[str, float]:
        """Half the width of each released number's interval at the confidence, as far as it is known beforehand."""
        questions = self.body.get("questions")
        if questions is None:
            return dict(self.body.get("errors", {}))
        return {f"{name}: {words}": e for name, part in questions.items() for words, e in part["errors"].items()}

    def __str__(self) -> str:
        return str(self.body["in_words"])

    def explain(self) -> Explanation:
        """The exact price, how it is shared, every error, and what the answer will leave out."""
        return Explanation(self.body["explained"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True, slots=True, repr=False)
class RemoteDescription:
    """Everything that was declared, and what is left of the budget."""

    tables: Mapping[str, Json]
    budget: Statement

    def to_dict(self) -> dict[str, Any]:
        return {"tables": dict(self.tables), "budget": self.budget.to_dict()}

    def __str__(self) -> str:
        return "\n".join([*text_lines(self._sheets()), *budget_lines(self.budget)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_text(self._sheets(), budget_lines(self.budget))

    def _sheets(self) -> list[Sheet]:
        return [
            Sheet(name, tuple(t["about"]), tuple((c, f["type"], f["declared"]) for c, f in t["columns"].items()))
            for name, t in self.tables.items()
        ]


@dataclass(frozen=True, slots=True)
class RemoteStatement(Statement):
    """A budget and the sum of its charges, in the words of the server."""

    words: str = ""
    explained: str = ""

    def __str__(self) -> str:
        return self.words

    def explain(self) -> str:
        """Exact amounts, and what the whole budget promises one person, in the words of the server."""
        return self.explained


def statement_of(body: Json) -> Statement:
    """The budget as a server tells it. Amounts are those of the JSON, so they have the digits of a float64."""
    budget = read_budget(body)
    spent, most = read_cost(body["spent"]), budget.capacity
    amount, delta = min(spent.amount, most.amount), min(spent.delta, most.delta)
    words, explained = body["in_words"], body["explained"]
    return RemoteStatement(budget, Cost(most.accounting, amount, delta), words=words, explained=explained)
