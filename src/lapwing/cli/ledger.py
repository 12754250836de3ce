"""`lapwing ledger`: what was spent, question by question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lapwing.cli.options import DEFAULT, FileOption, JsonOption, ledger_at
from lapwing.cli.output import aligned, echo, show

if TYPE_CHECKING:
    from lapwing.ledger import Entry, Report

app = typer.Typer(help="Inspect what was spent, question by question.", no_args_is_help=True)

AgainstOption = Annotated[Path | None, typer.Option(help="An earlier export that the ledger must continue.")]
_LONGEST = 70  # characters of a question


@app.command("show")
def show_ledger(
    file: FileOption = DEFAULT,
    as_json: JsonOption = False,
    every: Annotated[bool, typer.Option("--all", help="List every entry, also declarations and answers.")] = False,
) -> None:
    """List the questions that were charged, one a line. With --json, every entry."""
    entries = list(ledger_at(file).entries())
    if as_json:
        return show([asdict(entry) for entry in entries], as_json, "")
    rows = list(_entries(entries) if every else _questions(entries))
    if len(rows) == 1:
        return echo("No question was charged yet. `lapwing ledger show --all` lists every entry.")
    return echo("\n".join(aligned(rows)))


@app.command("verify")
def verify(against: AgainstOption = None, file: FileOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Verify the chain of entries; exit code 1 if one was changed, removed or added."""
    from lapwing.curator.settings import read_settings
    from lapwing.ledger import read_head, verify_ledger

    settings, head = read_settings(file), None if against is None else read_head(against)
    report = verify_ledger(settings.ledger, witness=settings.witnesses, against=head)
    _show_report(report, str(report), as_json)


@app.command("accept")
def accept(against: AgainstOption = None, file: FileOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Accept a ledger after its database server changed, if no charge is missing; exit code 1 if one is."""
    from lapwing.curator.settings import read_settings
    from lapwing.ledger import accept_ledger, read_head

    settings, head = read_settings(file), None if against is None else read_head(against)
    report = accept_ledger(settings.ledger, settings.budget, witness=settings.witnesses, against=head)
    text = f"{report}\nAccepted: the ledger is served from this server on." if report.ok else str(report)
    _show_report(report, text, as_json)


@app.command("export")
def export(to: Path, file: FileOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Write all entries and the head of the chain to a file."""
    ledger_at(file).export(to)
    text = f"Wrote {to}. Keep it elsewhere: `lapwing ledger verify --against {to}` proves the ledger up to now."
    show({"written": str(to)}, as_json, text)


def _show_report(report: Report, text: str, as_json: bool) -> None:
    show({"ok": report.ok, "entries": report.entries, "message": text}, as_json, text)
    if not report.ok:
        raise typer.Exit(1)


def _questions(entries: Iterable[Entry]) -> Iterator[tuple[str, ...]]:
    """A line for each charge; a charge whose answer was not stored says so."""
    listed = list(entries)
    answered = {entry.remark("of") for entry in listed if entry.kind == "settle"}
    yield "entry", "time (UTC)", "analyst", "price", "spent so far", "question"
    for entry in listed:
        if entry.kind == "reserve":
            question = _question(entry) + ("" if entry.seq in answered or entry.remark("watch") else " (no answer)")
            yield str(entry.seq), _when(entry), entry.analyst, _text(entry.amount), _text(entry.spent_amount), question


def _entries(entries: Iterable[Entry]) -> Iterator[tuple[str, ...]]:
    yield "entry", "time (UTC)", "what", "analyst", "price", "spent so far", "question"
    for entry in entries:
        price = _text(entry.amount) if entry.kind == "reserve" else ""
        words = _question(entry) or _declaration(entry)
        yield str(entry.seq), _when(entry), entry.kind, entry.analyst, price, _text(entry.spent_amount), words


def _question(entry: Entry) -> str:
    question = " ".join(str(entry.remark("question") or "").split())
    return question if len(question) <= _LONGEST else question[: _LONGEST - 3] + "..."


def _declaration(entry: Entry) -> str:
    """What an entry declares about a table, in one line."""
    if entry.kind != "version":
        return ""
    limits = entry.remark("limits") or {}
    shown = [f"{name} {limits[name]}" for name in ("rows_per_unit", "groups_per_unit") if limits.get(name)]
    unit = entry.remark("unit")
    return ", ".join([f"{entry.remark('table')} version {entry.remark('version')}", f"unit {unit or 'row'}", *shown])


def _when(entry: Entry) -> str:
    return entry.at[:19].replace("T", " ")


def _text(amount: str) -> str:
    from lapwing.privacy.phrases import at_most_text

    return at_most_text(Fraction(amount))
