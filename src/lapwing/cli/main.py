"""The command line. It parses, calls and prints; everything it does is also available from Python.

Exit codes: 0 success, 1 failure, 2 usage error, 3 refused, 4 over budget, 130 interrupted.
"""

from __future__ import annotations

import atexit
import gc
import json
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lapwing.cli.lab import attack, audit
from lapwing.cli.output import Unwritten, after_answer, echo
from lapwing.cli.progress import waiting
from lapwing.errors import BudgetExceeded, LapwingError, Misconfigured, Refused, WeakBudget

if TYPE_CHECKING:
    from lapwing.asking.pricing import Terms
    from lapwing.curator import Curator

app = typer.Typer(
    help="Answer questions about private data without exposing anyone in it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
ledger_app = typer.Typer(help="Inspect what was spent, entry by entry.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")
app.command()(audit)
app.command()(attack)

FileOption = Annotated[Path, typer.Option("--file", "-f", help="The settings file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
EpsilonOption = Annotated[str | None, typer.Option("--epsilon", "-e", help="The price to pay, such as 0.1.")]
ShareOption = Annotated[
    str | None, typer.Option("--share", "-s", help="The part of the whole budget to pay, such as 0.05.")
]
WithinOption = Annotated[
    str | None, typer.Option("--within", "-w", help="The largest error of counts and sums, such as 50.")
]
DeltaOption = Annotated[str | None, typer.Option("--delta", help="How much delta private key selection may spend.")]
AssumeRowsOption = Annotated[
    int | None, typer.Option("--assume-rows", help="The least rows per group, to estimate errors of means.")
]
RefreshOption = Annotated[bool, typer.Option("--refresh", help="Pay for a new answer even if one is stored.")]
ConfidenceOption = Annotated[
    str | None, typer.Option("--confidence", help="The confidence of intervals, such as 0.95.")
]
NoIntervalsOption = Annotated[
    bool, typer.Option("--no-intervals", help="Return quantiles without intervals, with less error at the same price.")
]
BoundsOption = Annotated[
    str | None, typer.Option("--bounds", help='Pass "auto" to find missing column bounds privately.')
]
LimitsOption = Annotated[str | None, typer.Option("--limits", help='Pass "auto" to find limits per unit privately.')]
FindShareOption = Annotated[
    str, typer.Option("--find-share", help="The share of the price spent on finding bounds and limits.")
]
CheckOption = Annotated[
    str | None, typer.Option("--check", help="The share of the price that tells how much limits cut; 0 for none.")
]
DEFAULT = Path("lapwing.toml")
INTERRUPTED = 130
"""The exit code for Ctrl-C."""

_OPENED = ExitStack()
"""Curators and ledgers opened by this command. They are closed at its end, not left to the garbage collector."""

_STOPPED = "Interrupted. Charges stand, and asking again pays again: see `lapwing budget`."

CODES: tuple[tuple[type[LapwingError], int], ...] = ((BudgetExceeded, 4), (Refused, 3), (Misconfigured, 2))


def run() -> None:
    """Runs the `lapwing` command."""
    # Garbage collection takes a fifth of the time of `lapwing ask`, most of it at exit.
    gc.set_threshold(1_000_000)
    atexit.register(gc.freeze)
    warnings.simplefilter("ignore", WeakBudget)  # `init`, `budget` and `doctor` print it themselves
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:
            _complain({"error": "Interrupted", "message": _STOPPED})
        sys.exit(code)
    except LapwingError as error:
        code = next((code for kind, code in CODES if isinstance(error, kind)), 1)
        _complain(error.to_dict(), printable=not isinstance(error, Unwritten))
        sys.exit(code)
    except OSError as error:
        message = f"{error.filename or 'a file'}: {error.strerror or error}. Check the path and its permissions."
        _complain({"error": "OSError", "message": message})
        sys.exit(1)
    except Exception as error:
        if type(error).__module__.startswith(("click", "typer")):
            _complain({"error": "usage", "message": getattr(error, "message", None) or str(error)})
            sys.exit(2)
        raise
    finally:
        _OPENED.close()


@app.callback(invoke_without_command=True)
def start(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Answer questions about private data without exposing anyone in it."""
    if version:
        from importlib.metadata import version as installed

        echo(f"lapwing {installed('lapwing')}")
        raise typer.Exit


@app.command()
def demo(as_json: JsonOption = False) -> None:
    """Show the whole story on real data: ask, see price and interval, ask again for free, attack it."""
    from lapwing.cli.demo import run as story

    story(as_json=as_json)


@app.command()
def init(
    data: Annotated[Path, typer.Argument(help="A Parquet, CSV or DuckDB file.")],
    unit: Annotated[str, typer.Option(help='The column that identifies the person, or "row".')],
    epsilon: Annotated[str, typer.Option(help="How much may ever leak about one unit.")],
    delta: Annotated[str, typer.Option(help="0 for pure DP, else far below 1 / number of units.")] = "0",
    file: FileOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Draft a lapwing.toml for review. Reads column names and types from the data, no values."""
    from lapwing.cli.draft import draft
    from lapwing.privacy.budget import Budget

    if file.exists():
        raise Misconfigured(f"{file} already exists. Move it, or choose another with --file.")
    size, slip = _number(epsilon, "epsilon"), _number(delta, "delta")
    text, weak = draft(data, unit, size, slip, file), Budget(size, slip).weakness
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Misconfigured(f"{file} cannot be written ({error.strerror}). Choose another with --file.") from None
    told = f"Wrote {file}. Review every line marked REVIEW before asking questions.\n{weak}".rstrip()
    _print({"written": str(file), "warning": weak or None}, as_json, told)


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="One SELECT.")],
    within: WithinOption = None,
    epsilon: EpsilonOption = None,
    share: ShareOption = None,
    delta: DeltaOption = None,
    confidence: ConfidenceOption = None,
    assume_rows: AssumeRowsOption = None,
    bare: NoIntervalsOption = False,
    bounds: BoundsOption = None,
    limits: LimitsOption = None,
    find_share: FindShareOption = "0.35",
    check: CheckOption = None,
    refresh: RefreshOption = False,
    analyst: Annotated[str, typer.Option("--as", help="Who asks.")] = "steward",
    key: Annotated[str | None, typer.Option(help="Make a retry safe: the same key never pays twice.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Also plot the answer to this .png or .svg file.")] = None,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with intervals.")] = False,
    file: FileOption = DEFAULT,
) -> None:
    """Answer a question and charge its price. The same question is free the second time."""
    from lapwing.asking.request import QuestionRequest, Request

    terms = _terms((within, epsilon, share), delta, confidence, assume_rows, bare, (bounds, limits, find_share), check)
    if plot is not None:
        from lapwing.answers.formats.plot import picture_path

        picture_path(plot)
    with waiting("reading the rows"):
        release: Any = _curator(file).answer(
            Request(QuestionRequest(question), terms, refresh=refresh, analyst=analyst, key=key)
        )
    with after_answer(release.cost):
        if as_csv:
            echo(release.to_csv(), nl=False)
        else:  # each needs its own imports
            _print(release.to_dict() if as_json else None, as_json, "" if as_json else str(release))
        if plot is not None:
            release.plot(plot)


@app.command()
def preview(
    question: Annotated[str, typer.Argument(help="One SELECT.")],
    within: WithinOption = None,
    epsilon: EpsilonOption = None,
    share: ShareOption = None,
    delta: DeltaOption = None,
    confidence: ConfidenceOption = None,
    assume_rows: AssumeRowsOption = None,
    bare: NoIntervalsOption = False,
    bounds: BoundsOption = None,
    limits: LimitsOption = None,
    find_share: FindShareOption = "0.35",
    check: CheckOption = None,
    refresh: RefreshOption = False,
    as_json: JsonOption = False,
    file: FileOption = DEFAULT,
) -> None:
    """Show what a question would cost and how accurate its answer would be. Free."""
    from lapwing.asking.request import QuestionRequest, Request

    terms = _terms((within, epsilon, share), delta, confidence, assume_rows, bare, (bounds, limits, find_share), check)
    seen = _curator(file).preview_request(Request(QuestionRequest(question), terms, refresh=refresh))
    _print(seen.to_dict(), as_json, str(seen))


@app.command()
def batch(
    questions: Annotated[list[str], typer.Argument(help="SELECT statements, one per argument.")],
    epsilon: EpsilonOption = None,
    share: ShareOption = None,
    delta: DeltaOption = None,
    weight: Annotated[list[str] | None, typer.Option(help="The weight of each question, in order.")] = None,
    confidence: ConfidenceOption = None,
    check: CheckOption = None,
    refresh: RefreshOption = False,
    only_preview: Annotated[bool, typer.Option("--preview", help="Only show price and errors. Free.")] = False,
    analyst: Annotated[str, typer.Option("--as", help="Who asks.")] = "steward",
    key: Annotated[str | None, typer.Option(help="Make a retry safe: the same key never pays twice.")] = None,
    as_json: JsonOption = False,
    file: FileOption = DEFAULT,
) -> None:
    """Answer several questions at one price, split to minimize the worst relative error."""
    from lapwing.asking.batch import read_batch
    from lapwing.asking.pricing import Terms
    from lapwing.asking.request import Request

    asked = read_batch(questions, [_number(text, "weight") for text in weight] if weight else None)
    terms = Terms(**_numbers(epsilon=epsilon, share=share, delta=delta, confidence=confidence, check=check))
    request = Request(asked, terms, refresh=refresh, analyst=analyst, key=key)
    if only_preview:
        seen = _curator(file).preview_request(request)
        _print(seen.to_dict(), as_json, str(seen))
        return
    with waiting("reading the rows"):
        answers: Any = _curator(file).answer(request)
    with after_answer(answers.cost):
        _print(answers.to_dict() if as_json else None, as_json, "" if as_json else str(answers))


@app.command()
def budget(file: FileOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Show what was spent and what is left."""
    from lapwing.privacy.statement import Statement

    ledger = _ledger(file)
    statement = Statement(ledger.budget, ledger.spent)
    _print(statement.to_dict(), as_json, str(statement))


@ledger_app.command("show")
def ledger_show(file: FileOption = DEFAULT, as_json: JsonOption = False) -> None:
    """List the entries."""
    entries = list(_ledger(file).entries())
    head = ("entry", "time (UTC)", "what", "analyst", "price", "spent so far", "question")
    rows = [head, *(_line(entry) for entry in entries)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head) - 1)]
    lines = ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in rows]
    _print([asdict(entry) for entry in entries], as_json, "\n".join(lines))


@ledger_app.command("verify")
def ledger_verify(
    against: Annotated[Path | None, typer.Option(help="An earlier export that the ledger must continue.")] = None,
    file: FileOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Verify the chain of entries; exit code 1 if one was changed, removed or added."""
    from lapwing.ledger import read_head, verify_ledger
    from lapwing.settings import read_settings

    settings, head = read_settings(file), None if against is None else read_head(against)
    report = verify_ledger(settings.ledger, witness=settings.witnesses, against=head)
    _print({"ok": report.ok, "entries": report.entries, "message": str(report)}, as_json, str(report))
    if not report.ok:
        raise typer.Exit(1)


@ledger_app.command("export")
def ledger_export(to: Path, file: FileOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Write all entries and the head of the chain to a file."""
    _ledger(file).export(to)
    text = f"Wrote {to}. Keep it elsewhere: `lapwing ledger verify --against {to}` proves the ledger up to now."
    _print({"written": str(to)}, as_json, text)


@app.command()
def doctor(file: FileOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Check the settings, the data, the engine, the randomness and the ledger."""
    from lapwing.cli.checks import CHECKS

    results = [_run_check(name, check, file) for name, check in CHECKS.items()]
    lines = [f"{'ok  ' if result['ok'] else 'FAIL'}  {result['check']}: {result['detail']}" for result in results]
    _print(results, as_json, "\n".join(lines))
    if not all(result["ok"] for result in results):
        raise typer.Exit(1)


def _run_check(name: str, check: Callable[[Path], str], file: Path) -> dict[str, Any]:
    try:
        return {"check": name, "ok": True, "detail": check(file)}
    except LapwingError as error:
        return {"check": name, "ok": False, "detail": str(error)}


def _curator(file: Path) -> Curator:
    from lapwing.opening import load

    return _OPENED.enter_context(closing(load(file)))


def _ledger(file: Path) -> Any:
    from lapwing.ledger import open_ledger
    from lapwing.settings import read_settings

    settings = read_settings(file)
    return _OPENED.enter_context(open_ledger(settings.ledger, settings.budget, witness=settings.witnesses))


def _line(entry: Any) -> tuple[str, ...]:
    from fractions import Fraction

    from lapwing.privacy.wording import at_most_text

    price = at_most_text(Fraction(entry.amount)) if entry.kind == "reserve" else ""
    question = " ".join(str(entry.remark("question") or _declaration_text(entry)).split())
    shown = question if len(question) <= 70 else question[:67] + "..."
    when = entry.at[:19].replace("T", " ")
    return str(entry.seq), when, entry.kind, entry.analyst, price, at_most_text(Fraction(entry.spent_amount)), shown


def _declaration_text(entry: Any) -> str:
    """What an entry declares about a table, in one line."""
    if entry.kind != "version":
        return ""
    limits = entry.remark("limits") or {}
    shown = [f"{name} {limits[name]}" for name in ("rows_per_unit", "groups_per_unit") if limits.get(name)]
    unit = entry.remark("unit")
    return ", ".join([f"{entry.remark('table')} version {entry.remark('version')}", f"unit {unit or 'row'}", *shown])


def _terms(
    price: tuple[str | None, str | None, str | None],
    delta: str | None,
    confidence: str | None,
    assume_rows: int | None,
    bare: bool,
    automatic: tuple[str | None, str | None, str],
    check: str | None,
) -> Terms:
    from lapwing.asking.automatic import read_automatic
    from lapwing.asking.pricing import Terms

    within, epsilon, share = price
    if sum(named is not None for named in price) != 1:
        raise Misconfigured(
            "pass either the error you can accept, --within 50, or the price: --epsilon 0.1, or a share of the whole "
            "budget, --share 0.05. Pass one of the three. `lapwing preview` shows what each gives. Nothing was charged."
        )
    numbers = _numbers(within=within, epsilon=epsilon, share=share, delta=delta, confidence=confidence, check=check)
    found = read_automatic(*automatic[:2], _number(automatic[2], "find-share"))
    return Terms(**numbers, assume_rows=assume_rows, intervals=not bare, automatic=found)


def _numbers(**texts: str | None) -> dict[str, Any]:
    return {name: None if text is None else _number(text, name) for name, text in texts.items()}


def _number(text: str, name: str) -> Any:
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(text)
    except InvalidOperation:
        raise Misconfigured(f"`--{name}` is {text!r}; it must be a number, for example 0.1.") from None


def _print(value: Any, as_json: bool, text: str) -> None:
    echo(json.dumps(value, default=str) if as_json else text)


def _complain(error: dict[str, Any], *, printable: bool = True) -> None:
    """Prints an error, as JSON if requested; on standard error if standard output fails."""
    said = json.dumps(error) if "--json" in sys.argv else error["message"]
    try:
        if "--json" in sys.argv and printable:
            return echo(said)
    except Unwritten:
        pass
    with suppress(OSError):
        typer.echo(said, err=True)
