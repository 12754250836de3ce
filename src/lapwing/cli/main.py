"""The command line. It parses, calls and prints; everything it does is also available from Python.

Exit codes: 0 success, 1 failure, 2 usage error, 3 refused, 4 over budget, 130 interrupted.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from lapwing.cli.ask import ask, batch, distribution, marginals, preview, summary
from lapwing.cli.check import check
from lapwing.cli.lab import attack, audit
from lapwing.cli.ledger import app as ledger_app
from lapwing.cli.options import (
    DEFAULT,
    OPENED,
    FileOption,
    JsonOption,
    ledger_at,
    need_server,
    read_number,
)
from lapwing.cli.output import Unwritten, echo, in_flags, show
from lapwing.cli.plan import plan
from lapwing.cli.survey import app as survey_app
from lapwing.cli.tokens import app as tokens_app
from lapwing.errors import BudgetExceeded, LapwingError, Misconfigured, Refused

EXIT_CODES = (
    "Exit codes: 0 answered; 1 failed, or an audited claim was rejected; 2 wrong usage or settings; "
    "3 refused; 4 over budget; 130 interrupted."
)

app = typer.Typer(
    help="Answer questions about private data without exposing anyone in it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for name, group in (("ledger", ledger_app), ("survey", survey_app), ("token", tokens_app)):
    app.add_typer(group, name=name, hidden=True)
INTERRUPTED = 130
"""The exit code for Ctrl-C."""

_UNIT = (
    "say who is protected. `--unit` names the column that identifies a person (or a patient, a user, a household): all "
    "rows with one value of it are one unit, and no answer changes much with or without it. "
    "Write --unit row if every row is a different person."
)
_EPSILON = (
    "say how much may ever leak about one unit, over all questions, for ever: --epsilon 1, or less where you can. "
    "It cannot be raised later."
)
_STOPPED = "Interrupted. What was charged stays charged: see `lapwing budget`."

CODES: tuple[tuple[type[LapwingError], int], ...] = ((BudgetExceeded, 4), (Refused, 3), (Misconfigured, 2))


def run() -> None:
    """Runs the `lapwing` command."""
    gc.set_threshold(1_000_000)  # garbage collection takes a part of the time of `lapwing ask`
    if not sys.warnoptions:  # python -W shows them
        warnings.simplefilter("ignore")  # of other libraries; of a weak budget `init`, `budget` and `doctor` tell
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
        OPENED.close()


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    everything: Annotated[bool, typer.Option("--commands", help="List every command and exit code.")] = False,
) -> None:
    """Answer questions about private data without exposing anyone in it."""
    if everything:
        group: Any = context.command
        lines = [f"{name:14}{command.get_short_help_str(100)}" for name, command in group.commands.items()]
        echo("\n".join([*lines, "", EXIT_CODES]))
        raise typer.Exit
    if version:
        from importlib.metadata import version as installed

        echo(f"lapwing {installed('lapwing')}")
        raise typer.Exit


app.command(hidden=True)(audit)
app.command(hidden=True)(attack)


@app.command(hidden=True)
def lecture(
    name: Annotated[str | None, typer.Argument(help="The lecture, or its number; without one, all are listed.")] = None,
    solutions: Annotated[bool, typer.Option("--solutions", help="Also show the solutions of the exercises.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a lecture on differential privacy: text, code and what it prints, item by item."""
    from lapwing.lab.course import LECTURES, read_lecture

    if name is None:
        titles = {key: read_lecture(key).title for key in LECTURES}
        echo(json.dumps(titles) if as_json else "\n".join(f"{key:16} {title}" for key, title in titles.items()))
        return
    parts = read_lecture(name).run(solutions=solutions)
    if as_json:
        echo(json.dumps(list(parts)))
        return
    for part in parts:
        echo(f"{part}\n")


@app.command(hidden=True)
def tour(
    plot: Annotated[Path | None, typer.Option("--plot", help="Also draw names to a .png or .svg file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the mechanisms on real data: names, an auction, two coins, a budget."""
    from lapwing.lab.course import draw_tour
    from lapwing.lab.course import tour as story

    if plot is not None:
        draw_tour(plot)
    if as_json:
        echo(json.dumps(list(story())))
        return
    for part in story():
        echo(f"{part}\n")


@app.command(hidden=True)
def serve(
    file: FileOption = DEFAULT,
    check: Annotated[bool, typer.Option("--check", help="Check the settings, make the first token, and stop.")] = False,
) -> None:
    r"""Answer questions over HTTP, for people who do not trust each other. \[serve] in lapwing.toml says how."""
    need_server("Servers")
    from lapwing.curator.settings import open_marks
    from lapwing.server.run import prepare, run

    settings, token = prepare(file)
    if marks := open_marks(file):
        echo(
            f"Warning: lines of {file} still marked REVIEW: {len(marks)}. `lapwing check` compares facts with the data."
        )
    if token is not None:
        echo(f"The first steward's token is in {token}. Only its owner can read it; keep it that way.")
    if check:
        return echo(f"{file} can be served: {settings.workers} worker(s) on {settings.host}, port {settings.port}.")
    run(file, settings, say=echo)


@app.command()
def demo(
    as_json: JsonOption = False,
    console: Annotated[bool, typer.Option("--serve", help="Open the console on the same data.")] = False,
) -> None:
    """Ask real data, and attack the answers."""
    if console:
        from lapwing.cli.demo_console import run_console

        return run_console()
    from lapwing.cli.demo import run as story

    return story(as_json=as_json)


@app.command()
def init(
    data: Annotated[
        list[str], typer.Argument(help="Parquet (or folders of it), CSV or DuckDB files, or a PostgreSQL address.")
    ],
    table: Annotated[str | None, typer.Option(help="Of a PostgreSQL address: which table.")] = None,
    unit: Annotated[str | None, typer.Option(help='The column that identifies the person, or "row".')] = None,
    epsilon: Annotated[str | None, typer.Option(help="How much may ever leak about one unit.")] = None,
    delta: Annotated[str, typer.Option(help="0 for pure DP, else far below 1 / number of units.")] = "0",
    since: Annotated[str | None, typer.Option(help="The first day of all dates, such as 2023-01-01.")] = None,
    until: Annotated[str | None, typer.Option(help="Their last day: declares both as their bounds.")] = None,
    public: Annotated[list[str] | None, typer.Option(help="A public file to join with; can be repeated.")] = None,
    decimal: Annotated[str | None, typer.Option(help="The decimal sign of CSV files: a comma.")] = None,
    quote: Annotated[str | None, typer.Option(help="The quote of CSV files: ' or none.")] = None,
    null: Annotated[list[str] | None, typer.Option(help="What means NULL in CSV files; can be repeated.")] = None,
    browser: Annotated[bool, typer.Option("--browser", help="Declare facts on a page of this machine.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: write a draft to edit.")] = False,
    file: FileOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Draft a lapwing.toml for review."""
    from lapwing.cli.draft import draft, draft_served
    from lapwing.postgres import is_postgres
    from lapwing.privacy.budget import Budget

    if file.exists():
        raise Misconfigured(f"{file} already exists. Move it, or choose another with --file.")
    plain = not (table or public or decimal or null or since or until) and quote is None
    is_file = plain and len(data) == 1 and not is_postgres(data[0])
    asks = not (yes or as_json) and unit is None and sys.stdin.isatty()
    if is_file and (browser or asks):
        return _set_up(Path(data[0]), unit, epsilon, delta, file, browser=browser)
    if bool(since) != bool(until):
        raise Misconfigured("Pass both --since and --until, the first and the last day of all dates.")
    if unit is None:
        raise Misconfigured(_UNIT)
    if epsilon is None:
        raise Misconfigured(_EPSILON)
    size, slip = read_number(epsilon, "epsilon"), read_number(delta, "delta")
    days = (since, until) if since and until else None
    weak = Budget(size, slip).weakness
    if table is not None or any(map(is_postgres, data)):
        if len(data) > 1:
            raise Misconfigured("pass one address with one --table; add other tables to the file by hand.")
        text = draft_served(data[0], table, unit, size, slip, days)
    else:
        csv = {"decimal": decimal, "quote": quote, "null": null or None}
        text = draft(data, unit, size, slip, file, days=days, public=public or (), **csv)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Misconfigured(f"{file} cannot be written ({error.strerror}). Choose another with --file.") from None
    message = f"Wrote {file}. Review every line marked REVIEW before asking questions.\n{weak}".rstrip()
    show({"written": str(file), "warning": weak or None}, as_json, message)


def _set_up(data: Path, unit: str | None, epsilon: str | None, delta: str, file: Path, *, browser: bool) -> None:
    """Asks for the facts of one file, and writes them."""
    from lapwing.cli.draft import source_of
    from lapwing.cli.setup import SetupFacts, ask_facts
    from lapwing.curator.settings import settings_of
    from lapwing.curator.summary import first_questions
    from lapwing.engines.backends import stored_types

    types = stored_types(source_of(str(data)), guess=True)
    if browser:
        from lapwing.cli.options import need_server

        need_server("Pages")
        from lapwing.cli.setup_page import serve_setup

        return serve_setup(SetupFacts(data, unit or "", epsilon or "1", delta), types, file, say=echo)
    text = ask_facts(data, types, unit, epsilon, delta).toml(file)
    ((table, _),) = settings_of(text, file).tables
    file.write_text(text, encoding="utf-8")
    asked = "\n".join(f'  lapwing ask "{question}" --share 0.05' for question in first_questions(table))
    return echo(f"Wrote {file}. Try:\n{asked}")


app.command()(ask)
app.command()(preview)
app.command(hidden=True)(batch)
app.command(hidden=True)(summary)
app.command(hidden=True)(distribution)
app.command(hidden=True)(marginals)
for command in (check, plan):
    app.command(hidden=True)(command)


@app.command()
def budget(
    file: FileOption = DEFAULT,
    as_json: JsonOption = False,
    explain: Annotated[bool, typer.Option("--explain", help="Also show the details.")] = False,
) -> None:
    """Show what was spent and what is left."""
    from lapwing.privacy.filter import Statement

    ledger = ledger_at(file)
    statement = Statement(ledger.budget, ledger.spent)
    show(statement.to_dict(), as_json, statement.explain() if explain else str(statement))


@app.command()
def doctor(file: FileOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Check the setup."""
    from lapwing.cli.doctor import CHECKS

    results: list[dict[str, Any]] = []
    first: dict[str, str] = {}  # an error that several checks meet is printed once
    for name, run_check in CHECKS.items():
        try:
            results.append({"check": name, "ok": True, "detail": run_check(file)})
        except LapwingError as error:
            original = first.setdefault(str(error), name)
            detail = str(error) if original == name else f"the same as {original}"
            results.append({"check": name, "ok": False, "detail": detail})
    lines = [f"{'ok  ' if result['ok'] else 'FAIL'}  {result['check']}: {result['detail']}" for result in results]
    show(results, as_json, "\n".join(lines))
    if not all(result["ok"] for result in results):
        raise typer.Exit(1)


def _complain(error: dict[str, Any], *, printable: bool = True) -> None:
    """Prints an error in the words of the command line, as JSON if requested; on standard error if that fails."""
    error = {name: in_flags(text) if isinstance(text, str) else text for name, text in error.items()}
    text = json.dumps(error) if "--json" in sys.argv else error["message"]
    try:
        if "--json" in sys.argv and printable:
            return echo(text)
    except Unwritten:
        pass
    with suppress(OSError):
        typer.echo(text, err=True)
