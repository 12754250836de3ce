"""What is shown before a question is paid: declared tables, the budget, price and fit. It reads no data and is free."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from lapwing.answers.formats import Explanation, dump, price, row
from lapwing.privacy.budget import Cost, remaining_text
from lapwing.privacy.filter import Statement
from lapwing.privacy.phrases import decimal_text


class PricePreview(ABC):
    """The price of what would be asked, beside what is left of the budget."""

    __slots__ = ()

    cost: Cost
    """What asking would be charged now; 0 if a stored answer is at least as good."""
    remaining: Cost

    @abstractmethod
    def lines(self) -> list[str]:
        """The price, the error and how many more such questions fit."""

    @abstractmethod
    def details(self) -> list[str]:
        """The exact price and everything that is known beforehand."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """The same beyond the price, ready for JSON."""

    @property
    def stored(self) -> bool:
        """Whether an answer that is at least as good has been paid for before."""
        return not self.cost

    @property
    def fits(self) -> bool:
        """Whether it could be paid now."""
        return self.cost.fits(self.remaining)

    def explain(self) -> Explanation:
        """The exact price, how it is shared, every error, and what the answer will leave out."""
        unaffordable = [] if self.fits else [f"It does not fit: {remaining_text(self.remaining)} is left."]
        return Explanation("\n".join([*self.details(), *unaffordable, "Nothing was charged and no data were read."]))

    def to_dict(self) -> dict[str, Any]:
        known = {"price": price(self.cost), "stored": self.stored, "fits": self.fits, **self.facts()}
        return {**known, "in_words": str(self), "explained": self.explain()}

    def to_json(self) -> str:
        return dump(self.to_dict())

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _price(self, more: str = "") -> str:
        if self.stored:
            return "Price: nothing. An answer that is at least this good is stored."
        return f"Price: {self.cost}{more}."


@dataclass(frozen=True, slots=True)
class Sheet:
    name: str
    about: tuple[str, ...]
    """Who is protected, and what one of them adds."""
    rows: tuple[tuple[str, str, str], ...]
    """Name, type and declared facts of each column."""


def text_lines(sheets: Iterable[Sheet]) -> Iterator[str]:
    """Each table and its columns, as text."""
    for sheet in sheets:
        widths = [max(map(len, cells)) for cells in zip(*sheet.rows, strict=True)]
        yield f"{sheet.name}: {'; '.join(sheet.about)}"
        yield from ("  " + "  ".join(map(str.ljust, cells, widths)).rstrip() for cells in sheet.rows)


def html_text(sheets: Iterable[Sheet], budget: Iterable[str]) -> str:
    """The same for a notebook, all of it escaped."""
    return "".join(map(_html, sheets)) + f"<p>{'<br>'.join(map(escape, budget))}</p>"


def budget_lines(statement: Statement) -> list[str]:
    """A budget in two lines, or three if it is not kept or weak."""
    delta = f", delta = {decimal_text(statement.budget.delta)}" if statement.budget.delta else ""
    return [f"Budget: epsilon = {decimal_text(statement.budget.epsilon)}{delta}", *str(statement).split("\n")]


def _html(sheet: Sheet) -> str:
    body = "".join(row(cells, "td") for cells in sheet.rows)
    head = row(("column", "type", "declared"), "th")
    about = escape("; ".join(sheet.about))
    return f"<h4>{escape(sheet.name)}</h4><p>{about}</p><table><thead>{head}</thead><tbody>{body}</tbody></table>"
