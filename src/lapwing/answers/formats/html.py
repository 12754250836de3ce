"""HTML for a notebook: the same texts as in a terminal, all of them escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from lapwing.answers.formats.text import footer, grid
from lapwing.answers.table import AnswerTable


def to_html(table: AnswerTable) -> str:
    header, rows = grid(table)
    body = "".join(row(cells, "td") for cells in rows)
    return f"<table><thead>{row(header, 'th')}</thead><tbody>{body}</tbody></table>{small(footer(table))}"


def small(lines: Iterable[str]) -> str:
    """Lines in small letters."""
    return f"<p><small>{'<br>'.join(map(escape, lines))}</small></p>"


def row(cells: Iterable[str], tag: str) -> str:
    """A row of a table; `tag` is that of its cells."""
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
