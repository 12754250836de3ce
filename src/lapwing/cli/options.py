"""Options that commands share, and how their numbers are read: as exact decimals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lapwing.errors import Misconfigured

DEFAULT = Path("lapwing.toml")

FileOption = Annotated[Path, typer.Option("--file", "-f", help="The settings file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CsvOption = Annotated[
    bool,
    typer.Option("--csv", help="Print CSV with intervals; formulas are guarded on a terminal."),
]
EpsilonOption = Annotated[str | None, typer.Option("--epsilon", "-e", help="The price to pay, such as 0.1.")]
ShareOption = Annotated[
    str | None, typer.Option("--share", "-s", help="The part of the whole budget to pay, such as 0.05.")
]
ConfidenceOption = Annotated[
    str | None, typer.Option("--confidence", help="The confidence of intervals, such as 0.95.")
]
CheckOption = Annotated[
    str | None, typer.Option("--check", help="The share of the price that tells how much limits cut; 0 for none.")
]
RefreshOption = Annotated[bool, typer.Option("--refresh", help="Pay for a new answer even if one is stored.")]
AnywayOption = Annotated[bool, typer.Option("--anyway", help="Ask even if the answer would say nothing.")]
PreviewOption = Annotated[bool, typer.Option("--preview", help="Only show price and errors. Free.")]
AnalystOption = Annotated[str, typer.Option("--as", help="Who asks.")]
KeyOption = Annotated[str | None, typer.Option("--key", help="Make a retry safe: the same key never pays twice.")]


def read_numbers(**texts: str | None) -> dict[str, Any]:
    """Options that were passed, as numbers by name."""
    return {name: None if text is None else read_number(text, name) for name, text in texts.items()}


def read_number(text: str, name: str) -> Any:
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(text)
    except InvalidOperation:
        raise Misconfigured(f"`--{name}` is {text!r}; it must be a number, for example 0.1.") from None


def check_formats(as_json: bool, as_csv: bool) -> None:
    """Refuses two formats at once, before anything is asked."""
    if as_json and as_csv:
        raise Misconfigured("--json and --csv are two formats of one answer. Pass one of them. Nothing was charged.")
