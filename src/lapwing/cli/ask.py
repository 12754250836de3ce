"""`lapwing ask`, `preview`, `batch`, `distribution` and `marginals`: questions, their prices and their answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lapwing.cli.options import (
    DEFAULT,
    CsvOption,
    ExplainOption,
    FileOption,
    JsonOption,
    check_formats,
    curator_at,
    read_number,
    read_terms,
    take_output,
    takes_options,
)
from lapwing.cli.output import after_answer, check_picture, csv_of, echo, in_flags, show
from lapwing.cli.progress import waiting
from lapwing.errors import Misconfigured
from lapwing.terms import (
    TERMS,
    AskBatchTerms,
    AskDistributionTerms,
    AskMarginalsTerms,
    AskTerms,
    PreviewTerms,
)

if TYPE_CHECKING:
    from lapwing.curator.request import Request

QuestionArgument = Annotated[str, typer.Argument(help="One SELECT, or - to read it from standard input.")]


@takes_options(AskTerms)
def ask(
    question: QuestionArgument,
    plot: Annotated[Path | None, typer.Option(help="Also plot the answer to this .png or .svg file.")] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    explain: ExplainOption = False,
    file: FileOption = DEFAULT,
    **terms: Any,
) -> None:
    """Answer a question. The same question is free the second time."""
    check_formats(as_json, as_csv)
    request = _question(question, AskTerms, terms)
    check_picture(plot)
    _answer(request, file, as_json=as_json, as_csv=as_csv, explain=explain, plot=plot)


@takes_options(PreviewTerms)
def preview(
    question: QuestionArgument,
    as_json: JsonOption = False,
    explain: ExplainOption = False,
    file: FileOption = DEFAULT,
    **terms: Any,
) -> None:
    """Show the price and the error of an answer. Free."""
    _preview(_question(question, PreviewTerms, terms), file, as_json=as_json, explain=explain)


@takes_options(AskBatchTerms, output=True)
def batch(
    questions: Annotated[list[str], typer.Argument(help="SELECT statements, one per argument.")],
    weights: Annotated[list[str] | None, typer.Option("--weight", help=TERMS["weights"].help)] = None,
    **given: Any,
) -> None:
    """Answer several questions at one price, split to minimize the worst relative error."""
    from lapwing.curator.batch import read_batch
    from lapwing.curator.request import make_request

    output = take_output(given)
    asked = read_batch(questions, [read_number(text, "weight") for text in weights] if weights else None)
    request = make_request(asked, read_terms(AskBatchTerms, given))
    _answer(request, **output)


@takes_options(AskBatchTerms, output=True, without=["weights"])
def summary(
    table: Annotated[str | None, typer.Argument(help="The table, if there are several.")] = None,
    **given: Any,
) -> None:
    """Count rows, missing values and declared values, with means and quartiles, at one price."""
    from lapwing.curator.batch import read_batch
    from lapwing.curator.request import make_request
    from lapwing.curator.settings import read_settings
    from lapwing.curator.summary import summary_of
    from lapwing.expressions.table import Catalog

    output = take_output(given)
    catalog = Catalog(tuple(one for one, _ in read_settings(output["file"]).tables))
    request = make_request(read_batch(summary_of(catalog, table), None), read_terms(AskBatchTerms, given))
    _answer(request, **output)


@takes_options(AskDistributionTerms, output=True)
def distribution(
    column: Annotated[str, typer.Argument(help="A column with declared values or bounds.")],
    **given: Any,
) -> None:
    """Count the rows in every range of a column, with its distribution function, at one price."""
    from lapwing.curator.request import DistributionRequest, cells_of, make_request

    output = take_output(given)
    named = read_terms(AskDistributionTerms, given)
    request = make_request(DistributionRequest(column, **cells_of(named)), named)
    _answer(request, **output)


@takes_options(AskMarginalsTerms, output=True)
def marginals(
    columns: Annotated[list[str], typer.Argument(help="Columns with declared values or bounds, one per argument.")],
    cells: Annotated[
        list[str] | None, typer.Option("--cells", help="Cells of a column with bounds, age=5; or one number for all.")
    ] = None,
    **given: Any,
) -> None:
    """Count the rows over every set of up to N columns, consistent with each other, at one price."""
    from lapwing.curator.request import MarginalsRequest, cells_of, make_request

    output = take_output(given)
    named = read_terms(AskMarginalsTerms, given)
    request = make_request(MarginalsRequest(columns, **cells_of(named), cells=_cells(cells or [])), named)
    _answer(request, **output)


def _question(question: str, kind: Any, options: dict[str, Any]) -> Request:
    from lapwing.curator.request import QuestionRequest, make_request

    terms = read_terms(kind, options)
    if len(terms.keys() & {"within", "epsilon", "share"}) != 1:
        raise Misconfigured(
            "pass one of three: the error you can accept, --within 50; the price, --epsilon 0.1; or a share of the "
            "whole budget, --share 0.05. `lapwing preview` shows what each gives. Nothing was charged."
        )
    try:
        return make_request(QuestionRequest(sys.stdin.read() if question == "-" else question), terms)
    except UnicodeDecodeError:
        raise Misconfigured("standard input is not UTF-8 text. Nothing was charged.") from None


def _preview(request: Request, file: Path, *, as_json: bool, explain: bool) -> None:
    seen = curator_at(file).preview_request(request)
    show(seen.to_dict(), as_json, in_flags(seen.explain() if explain else str(seen)))


def _answer(
    request: Request,
    file: Path,
    *,
    only_preview: bool = False,
    as_json: bool,
    as_csv: bool,
    explain: bool,
    plot: Path | None = None,
) -> None:
    """Prints the answers to a request, or its preview."""
    if only_preview:
        return _preview(request, file, as_json=as_json, explain=explain)
    with waiting("reading the rows"):
        answer: Any = curator_at(file).answer(request)
    with after_answer(answer.cost):
        if as_csv:
            tables = list(answer.values()) if hasattr(answer, "values") else getattr(answer, "releases", [answer])
            echo("\n".join(map(csv_of, tables)), nl=False)  # an empty line between tables
        else:  # each needs its own imports
            text = "" if as_json else f"{answer}\n\n{answer.explain()}" if explain else str(answer)
            show(answer.to_dict() if as_json else None, as_json, text)
        if plot is not None:
            answer.plot(plot)


def _cells(texts: list[str]) -> int | dict[str, int] | None:
    """One number for all columns, or one by column."""
    if len(texts) == 1 and "=" not in texts[0]:
        return _count(texts[0])
    pairs = [text.rpartition("=") for text in texts]
    if not all(name for name, _, _ in pairs):
        raise Misconfigured("`--cells` must be one number, --cells 5, or by column: --cells age=5 --cells cost=10.")
    return {name: _count(cells) for name, _, cells in pairs} or None


def _count(text: str) -> int:
    number = read_number(text, "cells")
    if number != int(number):
        raise Misconfigured(f"`--cells` is {text!r}; it must be a whole number, for example 5.")
    return int(number)
