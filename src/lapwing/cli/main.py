"""The command line. It parses, calls and prints; everything it does is also available from Python.

Exit codes: 0 success, 1 failure, 2 usage error, 3 refused, 4 over budget, 130 interrupted.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lapwing.cli.check import check
from lapwing.cli.course import lecture, tour
from lapwing.cli.lab import attack, audit
from lapwing.cli.ledger import app as ledger_app
from lapwing.cli.opened import OPENED, curator_at, ledger_at
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
from lapwing.cli.output import Unwritten, after_answer, csv_of, echo, in_flags, show
from lapwing.cli.plan import plan
from lapwing.cli.progress import waiting
from lapwing.cli.serve import serve
from lapwing.cli.survey import app as survey_app
from lapwing.cli.tokens import app as tokens_app
from lapwing.cli.workloads import answer_request, distribution, marginals
from lapwing.errors import BudgetExceeded, LapwingError, Misconfigured, Refused
from lapwing.terms import TERMS, AskBatchTerms, AskTerms, PreviewTerms

if TYPE_CHECKING:
    from lapwing.curator.request import Request

EXIT_CODES = (
    "Exit codes: 0 answered; 1 failed, or an audited claim was rejected; 2 wrong usage or settings; "
    "3 refused; 4 over budget; 130 interrupted."
)

app = typer.Typer(
    help="Answer questions about private data without exposing anyone in it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for name, group in (("ledger", ledger_app), ("survey", survey_app), ("token", tokens_app)):
    app.add_typer(group, name=name, hidden=True)
for command in (check, plan, audit, attack, lecture, tour, serve):
    app.command(hidden=True)(command)

QuestionArgument = Annotated[str, typer.Argument(help="One SELECT, or - to read it from standard input.")]
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
        known: Any = context.command
        lines = [f"{name:14}{one.get_short_help_str(100)}" for name, one in known.commands.items()]
        echo("\n".join([*lines, "", EXIT_CODES]))
        raise typer.Exit
    if version:
        from importlib.metadata import version as installed

        echo(f"lapwing {installed('lapwing')}")
        raise typer.Exit


@app.command()
def demo(
    as_json: JsonOption = False,
    console: Annotated[bool, typer.Option("--serve", help="Open the console on the same data.")] = False,
) -> None:
    """Ask real data, and attack the answers."""
    from lapwing.cli.demo import run as story
    from lapwing.cli.demo import run_console

    if console:
        return run_console()
    return story(as_json=as_json)


@app.command()
def init(
    data: Annotated[
        list[str], typer.Argument(help="Parquet, CSV or DuckDB files about the same units, or a PostgreSQL address.")
    ],
    table: Annotated[str | None, typer.Option(help="Of a PostgreSQL address: which table.")] = None,
    unit: Annotated[str | None, typer.Option(help='The column that identifies the person, or "row".')] = None,
    epsilon: Annotated[str | None, typer.Option(help="How much may ever leak about one unit.")] = None,
    delta: Annotated[str, typer.Option(help="0 for pure DP, else far below 1 / number of units.")] = "0",
    browser: Annotated[bool, typer.Option("--browser", help="Declare facts on a page of this machine.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: write a draft to edit.")] = False,
    file: FileOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Draft a lapwing.toml for review."""
    from lapwing.cli.draft import draft, draft_served
    from lapwing.postgres import is_postgres
    from lapwing.privacy.budget import Budget

    is_file = len(data) == 1 and table is None and not is_postgres(data[0])
    asks = not (yes or as_json) and unit is None and sys.stdin.isatty()
    if is_file and (browser or asks):
        return _set_up(Path(data[0]), unit, epsilon, delta, file, browser=browser)
    if unit is None:
        raise Misconfigured(_UNIT)
    if epsilon is None:
        raise Misconfigured(_EPSILON)
    if file.exists():
        raise Misconfigured(f"{file} already exists. Move it, or choose another with --file.")
    size, slip = read_number(epsilon, "epsilon"), read_number(delta, "delta")
    if table is not None or any(map(is_postgres, data)):
        if len(data) > 1:
            raise Misconfigured("pass one address with one --table; add other tables to the file by hand.")
        text = draft_served(data[0], table, unit, size, slip)
    else:
        text = draft([Path(one) for one in data], unit, size, slip, file)
    weak = Budget(size, slip).weakness
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Misconfigured(f"{file} cannot be written ({error.strerror}). Choose another with --file.") from None
    told = f"Wrote {file}. Review every line marked REVIEW before asking questions.\n{weak}".rstrip()
    show({"written": str(file), "warning": weak or None}, as_json, told)


def _set_up(data: Path, unit: str | None, epsilon: str | None, delta: str, file: Path, *, browser: bool) -> None:
    """Asks for the facts of one file, and writes them."""
    from lapwing.cli.setup import Facts, ask_facts, check_text, first_questions
    from lapwing.engines.backends import stored_types
    from lapwing.engines.source import file_source

    if file.exists():
        raise Misconfigured(f"{file} already exists. Move it, or choose another with --file.")
    types = stored_types(file_source(data), guess=True)
    if browser:
        from lapwing.cli.doctor import need_server

        need_server("Pages")
        from lapwing.cli.setup_page import serve_setup

        return serve_setup(Facts(data, unit or "", epsilon or "1", delta), types, file, say=echo)
    text = ask_facts(data, types, unit, epsilon, delta).toml(file)
    ((table, _),) = check_text(text, file).tables
    file.write_text(text, encoding="utf-8")
    asked = "\n".join(f'  lapwing ask "{question}" --share 0.05' for question in first_questions(table))
    return echo(f"Wrote {file}. Try:\n{asked}")


@app.command()
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
    if plot is not None:
        from lapwing.answers.formats import picture_path

        picture_path(plot)
    with waiting("reading the rows"):
        release: Any = curator_at(file).answer(request)
    with after_answer(release.cost):
        if as_csv:
            echo(csv_of(release), nl=False)
        else:  # each needs its own imports
            text = "" if as_json else f"{release}\n\n{release.explain()}" if explain else str(release)
            show(release.to_dict() if as_json else None, as_json, text)
        if plot is not None:
            release.plot(plot)


@app.command()
@takes_options(PreviewTerms)
def preview(
    question: QuestionArgument,
    as_json: JsonOption = False,
    explain: ExplainOption = False,
    file: FileOption = DEFAULT,
    **terms: Any,
) -> None:
    """Show the price and the error of an answer. Free."""
    seen = curator_at(file).preview_request(_question(question, PreviewTerms, terms))
    show(seen.to_dict(), as_json, in_flags(seen.explain() if explain else str(seen)))


@app.command(hidden=True)
@takes_options(AskBatchTerms)
def batch(
    questions: Annotated[list[str], typer.Argument(help="SELECT statements, one per argument.")],
    weights: Annotated[list[str] | None, typer.Option("--weight", help=TERMS["weights"].help)] = None,
    only_preview: PreviewOption = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    explain: ExplainOption = False,
    file: FileOption = DEFAULT,
    **terms: Any,
) -> None:
    """Answer several questions at one price, split to minimize the worst relative error."""
    from lapwing.curator.batch import read_batch
    from lapwing.curator.request import make_request

    check_formats(as_json, as_csv)
    asked = read_batch(questions, [read_number(text, "weight") for text in weights] if weights else None)
    request = make_request(asked, read_terms(AskBatchTerms, terms))
    answer_request(request, file, only_preview=only_preview, as_json=as_json, as_csv=as_csv, explain=explain)


app.command(hidden=True)(distribution)
app.command(hidden=True)(marginals)


@app.command()
def budget(file: FileOption = DEFAULT, as_json: JsonOption = False, explain: ExplainOption = False) -> None:
    """Show what was spent and what is left."""
    from lapwing.privacy.statement import Statement

    ledger = ledger_at(file)
    statement = Statement(ledger.budget, ledger.spent)
    show(statement.to_dict(), as_json, statement.explain() if explain else str(statement))


@app.command()
def doctor(file: FileOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Check the setup."""
    from lapwing.cli.doctor import CHECKS

    results = _without_repeats([_run_check(name, check, file) for name, check in CHECKS.items()])
    lines = [f"{'ok  ' if result['ok'] else 'FAIL'}  {result['check']}: {result['detail']}" for result in results]
    show(results, as_json, "\n".join(lines))
    if not all(result["ok"] for result in results):
        raise typer.Exit(1)


def _run_check(name: str, check: Callable[[Path], str], file: Path) -> dict[str, Any]:
    try:
        return {"check": name, "ok": True, "detail": check(file)}
    except LapwingError as error:
        return {"check": name, "ok": False, "detail": str(error)}


def _without_repeats(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An error that several checks meet is told once."""
    first: dict[str, str] = {}
    for result in results:
        said = first.setdefault(result["detail"], result["check"])
        if not result["ok"] and said != result["check"]:
            result["detail"] = f"the same as {said}"
    return results


def _read(question: str) -> str:
    """The question, or that on standard input."""
    if question != "-":
        return question
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise Misconfigured("standard input is not UTF-8 text. Nothing was charged.") from None


def _question(question: str, kind: Any, options: dict[str, Any]) -> Request:
    from lapwing.curator.request import QuestionRequest, make_request

    terms = read_terms(kind, options)
    if len(terms.keys() & {"within", "epsilon", "share"}) != 1:
        raise Misconfigured(
            "pass one of three: the error you can accept, --within 50; the price, --epsilon 0.1; or a share of the "
            "whole budget, --share 0.05. `lapwing preview` shows what each gives. Nothing was charged."
        )
    return make_request(QuestionRequest(_read(question)), terms)


def _complain(error: dict[str, Any], *, printable: bool = True) -> None:
    """Prints an error in the words of the command line, as JSON if requested; on standard error if that fails."""
    error = {name: in_flags(said) if isinstance(said, str) else said for name, said in error.items()}
    said = json.dumps(error) if "--json" in sys.argv else error["message"]
    try:
        if "--json" in sys.argv and printable:
            return echo(said)
    except Unwritten:
        pass
    with suppress(OSError):
        typer.echo(said, err=True)
