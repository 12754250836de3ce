"""`lapwing distribution` and `lapwing marginals`: many counts at one price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lapwing.cli.opened import curator_at
from lapwing.cli.options import (
    DEFAULT,
    AnalystOption,
    CheckOption,
    ConfidenceOption,
    CsvOption,
    EpsilonOption,
    FileOption,
    JsonOption,
    KeyOption,
    PreviewOption,
    RefreshOption,
    ShareOption,
    check_formats,
    read_number,
    read_numbers,
)
from lapwing.cli.output import after_answer, csv_of, echo, in_flags, show
from lapwing.cli.progress import waiting
from lapwing.errors import Misconfigured

if TYPE_CHECKING:
    from pathlib import Path

    from lapwing.curator.request import Request

TableOption = Annotated[str | None, typer.Option("--table", help="The table, if there are several.")]
WhereOption = Annotated[str | None, typer.Option("--where", help="Which rows count: a condition in SQL.")]


def distribution(
    column: Annotated[str, typer.Argument(help="A column with declared values or bounds.")],
    epsilon: EpsilonOption = None,
    share: ShareOption = None,
    table: TableOption = None,
    where: WhereOption = None,
    cells: Annotated[
        int | None, typer.Option("--cells", help="Into how many cells to cut the bounds of reals.")
    ] = None,
    confidence: ConfidenceOption = None,
    check: CheckOption = None,
    refresh: RefreshOption = False,
    only_preview: PreviewOption = False,
    analyst: AnalystOption = "steward",
    key: KeyOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    file: FileOption = DEFAULT,
) -> None:
    """Count the rows in every range of a column, with its distribution function, at one price."""
    from lapwing.curator.pricing import Terms
    from lapwing.curator.request import DistributionRequest, Request

    check_formats(as_json, as_csv)
    terms = Terms(**read_numbers(epsilon=epsilon, share=share, confidence=confidence, check=check))
    asked = DistributionRequest(column, table, where, cells)
    _answer(Request(asked, terms, refresh, analyst=analyst, key=key), file, only_preview, as_json, as_csv)


def marginals(
    columns: Annotated[list[str], typer.Argument(help="Columns with declared values or bounds, one per argument.")],
    epsilon: EpsilonOption = None,
    share: ShareOption = None,
    ways: Annotated[int, typer.Option("--ways", help="The most columns that are counted together.")] = 2,
    table: TableOption = None,
    where: WhereOption = None,
    cells: Annotated[
        list[str] | None, typer.Option("--cells", help="Cells of a column with bounds, age=5; or one number for all.")
    ] = None,
    confidence: ConfidenceOption = None,
    check: CheckOption = None,
    refresh: RefreshOption = False,
    only_preview: PreviewOption = False,
    analyst: AnalystOption = "steward",
    key: KeyOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    file: FileOption = DEFAULT,
) -> None:
    """Count the rows over every set of up to so many columns, consistent with each other, at one price."""
    from lapwing.curator.pricing import Terms
    from lapwing.curator.request import MarginalsRequest, Request

    check_formats(as_json, as_csv)
    terms = Terms(**read_numbers(epsilon=epsilon, share=share, confidence=confidence, check=check))
    asked = MarginalsRequest(columns, table, where, ways, _cells(cells or []))
    _answer(Request(asked, terms, refresh, analyst=analyst, key=key), file, only_preview, as_json, as_csv)


def _answer(request: Request, file: Path, only_preview: bool, as_json: bool, as_csv: bool) -> None:
    if only_preview:
        seen = curator_at(file).preview_request(request)
        return show(seen.to_dict(), as_json, in_flags(str(seen)))
    with waiting("reading the rows"):
        answer: Any = curator_at(file).answer(request)
    with after_answer(answer.cost):
        if as_csv:
            tables = list(answer.values()) if hasattr(answer, "values") else [answer]
            echo("\n".join(map(csv_of, tables)), nl=False)
        else:
            show(answer.to_dict() if as_json else None, as_json, "" if as_json else str(answer))


def _cells(texts: list[str]) -> int | dict[str, int] | None:
    """One number for all columns, or one by column."""
    if len(texts) == 1 and "=" not in texts[0]:
        return _count(texts[0])
    pairs = [text.rpartition("=") for text in texts]
    if not all(name for name, _, _ in pairs):
        raise Misconfigured("`--cells` must be one number, --cells 5, or by column: --cells age=5 --cells cost=10.")
    return {name: _count(many) for name, _, many in pairs} or None


def _count(text: str) -> int:
    number = read_number(text, "cells")
    if number != int(number):
        raise Misconfigured(f"`--cells` is {text!r}; it must be a whole number, for example 5.")
    return int(number)
