"""`lapwing plan`: what each budget buys, before there is data or a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lapwing.cli.options import DEFAULT, FileOption, JsonOption, read_number
from lapwing.cli.output import show
from lapwing.errors import Misconfigured, Refused

if TYPE_CHECKING:
    from lapwing.curator import Curator
    from lapwing.curator.settings import Settings
    from lapwing.privacy.budget import Budget

_SIZES = ("0.1", "0.5", "1", "2", "5")


def plan(
    questions: Annotated[Path, typer.Argument(help="SELECT statements in a file, each ended by a semicolon.")],
    units: Annotated[
        int | None, typer.Option(help="About how many units there are, to show errors relative to.")
    ] = None,
    budgets: Annotated[list[str] | None, typer.Option("--budget", help="An epsilon to compare. Repeat it.")] = None,
    file: FileOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Compare budgets before choosing one. Needs no data and no ledger."""
    from lapwing.curator.settings import read_settings

    settings = read_settings(file)
    asked = list(_statements(questions))
    sizes = [read_number(size, "budget") for size in budgets or _SIZES]
    table = {str(size): _errors(settings, asked, size, units) for size in sizes}
    whole = "The question takes the whole budget."
    lines = [
        whole if len(asked) == 1 else f"Each of {len(asked)} questions takes {1 / len(asked):.0%} of the budget.",
        "",
    ]
    for i, question in enumerate(asked):
        lines.append(" ".join(question.split()))
        said = {size: errors[i] for size, errors in table.items()}
        if len(texts := set(said.values())) == 1 and (text := texts.pop()).startswith("refused: "):
            lines.append(f"  {text}")
        else:
            lines += [f"  epsilon = {size:>4}: {text}" for size, text in said.items()]
    lines += ["", "A budget is fixed when the ledger is created. Choose the smallest that answers your questions."]
    result = {"questions": asked, "errors": table, "units": units}
    show(result, as_json, "\n".join(lines))


def _statements(path: Path) -> Iterator[str]:
    """The statements of a file."""
    from sqlglot import TokenType, tokenize
    from sqlglot.errors import SqlglotError

    from lapwing.sql.refusals import DIALECT

    try:
        text = path.read_text(encoding="utf-8")
        tokens = tokenize(text, dialect=DIALECT)
    except (OSError, UnicodeDecodeError, SqlglotError):
        raise Misconfigured(
            f"{path} is not a readable file of SQL. Write one SELECT after another, with ; between."
        ) from None
    ends = [token.start for token in tokens if token.token_type is TokenType.SEMICOLON]
    starts = [0, *(end + 1 for end in ends)]
    words = [token.start for token in tokens if token.token_type is not TokenType.SEMICOLON]
    found = [
        text[start:end].strip()
        for start, end in zip(starts, [*ends, len(text)], strict=True)
        if any(start <= word < end for word in words)
    ]
    if not found:
        raise Misconfigured(f"{path} has no question. Write SELECT statements with ; between.")
    yield from found


def _errors(settings: Settings, questions: list[str], size: Any, units: int | None) -> list[str]:
    """For each question what an equal part of this budget buys, in words."""
    from lapwing.privacy.budget import Budget as NewBudget

    budget = NewBudget(size, settings.budget.delta, accounting=settings.budget.accounting)
    with made_up(settings, budget) as curator:
        return [error_of(curator, question, Fraction(1, len(questions)), units) for question in questions]


def made_up(settings: Settings, budget: Budget) -> Curator:
    """A curator with these facts and another budget, on made-up rows."""
    from lapwing.curator import Curator
    from lapwing.curator.dummy import dummy_catalog, dummy_engine
    from lapwing.curator.missing_facts import write_toml
    from lapwing.expressions.table import Catalog
    from lapwing.ledger import open_ledger

    catalog = dummy_catalog(Catalog(tuple(table for table, _ in (*settings.tables, *settings.public))))
    ledger = open_ledger(None, budget)
    return Curator(catalog, dummy_engine(catalog), ledger, check=settings.check).address(write_toml)


def error_of(curator: Curator, question: str, share: Fraction, units: int | None) -> str:
    """What this share of the budget buys for a question, in words."""
    try:
        preview = curator.preview(question, share=share, assume_rows=units)
    except Refused as refused:
        return f"refused: {refused}"
    errors = getattr(preview, "errors", {})  # a statement of several questions has errors by question
    said = [f"{name} within {_short(error)}" for name, error in errors.items()]
    return "; ".join(said) or next(iter(str(preview).splitlines()), "")


def _short(error: float) -> str:
    return f"{error:,.0f}" if error >= 100 else f"{error:.2g}"
