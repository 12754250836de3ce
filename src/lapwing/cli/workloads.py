"""`lapwing distribution` and `lapwing marginals`: many counts at one price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lapwing.cli.opened import curator_at
from lapwing.cli.options import (
    DEFAULT,
    CsvOption,
    ExplainOption,
    FileOption,
    JsonOption,
    PreviewOption,
    check_formats,
    read_number,
    read_terms,
    takes_options,
)
from lapwing.cli.output import after_answer, csv_of, echo, in_flags, show
from lapwing.cli.progress import waiting
from lapwing.errors import Misconfigured
from lapwing.terms import AskDistributionTerms, AskMarginalsTerms

if TYPE_CHECKING:
    from pathlib import Path

    from lapwing.curator.request import Request


@takes_options(AskDistributionTerms)
def distribution(
    column: Annotated[str, typer.Argument(help="A column with declared values or bounds.")],
    only_preview: PreviewOption = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    explain: ExplainOption = False,
    file: FileOption = DEFAULT,
    **terms: Any,
) -> None:
    """Count the rows in every range of a column, with its distribution function, at one price."""
    from lapwing.curator.request import DistributionRequest, cells_of, make_request

    check_formats(as_json, as_csv)
    named = read_terms(AskDistributionTerms, terms)
    request = make_request(DistributionRequest(column, **cells_of(named)), named)
    answer_request(request, file, only_preview=only_preview, as_json=as_json, as_csv=as_csv, explain=explain)


@takes_options(AskMarginalsTerms)
def marginals(
    columns: Annotated[list[str], typer.Argument(help="Columns with declared values or bounds, one per argument.")],
    cells: Annotated[
        list[str] | None, typer.Option("--cells", help="Cells of a column with bounds, age=5; or one number for all.")
    ] = None,
    only_preview: PreviewOption = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    explain: ExplainOption = False,
    file: FileOption = DEFAULT,
    **terms: Any,
) -> None:
    """Count the rows over every set of up to so many columns, consistent with each other, at one price."""
    from lapwing.curator.request import MarginalsRequest, cells_of, make_request

    check_formats(as_json, as_csv)
    named = read_terms(AskMarginalsTerms, terms)
    request = make_request(MarginalsRequest(columns, **cells_of(named), cells=_cells(cells or [])), named)
    answer_request(request, file, only_preview=only_preview, as_json=as_json, as_csv=as_csv, explain=explain)


def answer_request(
    request: Request, file: Path, *, only_preview: bool = False, as_json: bool, as_csv: bool, explain: bool
) -> None:
    """Prints the answers to a request, or its preview."""
    if only_preview:
        seen = curator_at(file).preview_request(request)
        return show(seen.to_dict(), as_json, in_flags(seen.explain() if explain else str(seen)))
    with waiting("reading the rows"):
        answer: Any = curator_at(file).answer(request)
    with after_answer(answer.cost):
        if as_csv:
            tables = list(answer.values()) if hasattr(answer, "values") else getattr(answer, "releases", [answer])
            echo("\n".join(map(csv_of, tables)), nl=False)  # an empty line between tables
        else:
            text = "" if as_json else f"{answer}\n\n{answer.explain()}" if explain else str(answer)
            show(answer.to_dict() if as_json else None, as_json, text)


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
