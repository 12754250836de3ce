"""What is shown of declared tables and of the budget, wherever they are declared: as text, and for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

from lapwing.answers.formats import row
from lapwing.privacy.phrases import decimal_text
from lapwing.privacy.statement import Statement


@dataclass(frozen=True, slots=True)
class Sheet:
    """What is shown of one table."""

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
        yield from ("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in sheet.rows)


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
