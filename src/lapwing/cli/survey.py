"""`lapwing survey`: surveys whose answers are randomized in the respondent's browser."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lapwing.cli.options import JsonOption, check_formats, need_server
from lapwing.cli.output import echo, show
from lapwing.errors import Misconfigured
from lapwing.sockets import listen

if TYPE_CHECKING:
    from lapwing.survey.definition import Survey
    from lapwing.survey.survey_app import Listening, SurveyApp

app = typer.Typer(help="Run surveys that randomize answers in the browser.", no_args_is_help=True)

SurveyArgument = Annotated[Path, typer.Argument(help="The survey's file.")]
StoreOption = Annotated[
    str | None, typer.Option("--store", help="Where reports are kept; beside the survey's file if left out.")
]
HostOption = Annotated[str, typer.Option("--host", help="The address to listen on; 0.0.0.0 for the whole network.")]
PortOption = Annotated[int, typer.Option("--port", help="The port; 0 takes any free one.")]

FILE = Path("survey.toml")
_LOOPBACK = "127.0.0.1"
_PORT = 8640
_LOCAL = (
    "Only this machine can open the link. Put a web server with https in front of it, or pass --host 0.0.0.0 to let "
    "the network in."
)
_PLAIN = (
    "Plain http: whoever is on the network between can read reports, which are randomized, and could change the "
    "script, which must not be. Use it in a room you trust; put https in front of it for everything else."
)


@app.command("new")
def new(file: SurveyArgument = FILE, as_json: JsonOption = False) -> None:
    """Write a first survey.toml, with every kind of question, to be changed."""
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(DRAFT)
    except FileExistsError:
        raise Misconfigured(f"{file} already exists. Move it, or name another file.") from None
    except OSError as error:
        raise Misconfigured(f"{file} cannot be written ({error.strerror}). Name another file.") from None
    show(
        {"written": str(file)}, as_json, f"Wrote {file}. Change the questions, then run `lapwing survey serve {file}`."
    )


@app.command("serve")
def serve(
    file: SurveyArgument = FILE,
    store: StoreOption = None,
    host: HostOption = _LOOPBACK,
    port: PortOption = _PORT,
    as_json: JsonOption = False,
) -> None:
    """Host the form, keep randomized reports, and show what they say. Ends with Ctrl-C."""
    from lapwing.survey.read_toml import read_survey
    from lapwing.survey.report_store import open_survey_store

    survey = read_survey(file)
    kept = open_survey_store(file, store)
    need_server("Surveys")
    from lapwing.survey.survey_app import Listening, make_app
    from lapwing.survey.survey_app import serve as run

    survey_app = make_app(survey, kept)
    with listen(host, port) as at, suppress(KeyboardInterrupt):
        where = Listening(host, at.getsockname()[1])
        links = _links(survey_app, where)
        more = [f"Reports:  {kept.name}, {kept.count():,} so far"]
        if survey.invitations:
            more.append(f"Invited:  {kept.invited().made:,}; make links with `lapwing survey invite {file} 100`")
        show(links | {"reports": kept.count(), "store": kept.name}, as_json, _words(links, where, more))
        run(survey_app, at)
    kept.close()
    if not as_json:
        echo(f"Stopped. The reports are in {kept.name}: `lapwing survey results {file}`.")


@app.command("results")
def results(
    file: SurveyArgument = FILE,
    store: StoreOption = None,
    joint: Annotated[str | None, typer.Option("--joint", help="Two ids, such as overtime,mood: their table.")] = None,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Print what the reports say, with intervals. Also while the survey is served."""
    from lapwing.survey.read_toml import read_survey
    from lapwing.survey.results import joint_csv, joint_results
    from lapwing.survey.results import results as found_in

    check_formats(as_json, as_csv)
    survey = read_survey(file)
    reports = _kept_reports(survey, file, store)
    if joint is None:
        tables = found_in(survey, reports)
        echo(json.dumps(tables.to_dict()) if as_json else tables.to_csv() if as_csv else str(tables), nl=not as_csv)
        return
    names = [name.strip() for name in joint.split(",")]
    if len(names) != 2:
        raise Misconfigured("--joint needs two ids with a comma between them, such as --joint overtime,mood.")
    table = joint_results(survey, reports, *names)
    echo(table.to_json() if as_json else joint_csv(table) if as_csv else str(table), nl=not as_csv)


@app.command("invite")
def invite(
    file: SurveyArgument = FILE,
    many: Annotated[int, typer.Argument(help="How many links to make.")] = 1,
    link: Annotated[str | None, typer.Option("--link", help="The address of the form; `url` if left out.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print links that can be used once each. They are shown now and never again: only hashes are kept."""
    from lapwing.numbers import count
    from lapwing.survey.read_toml import read_survey
    from lapwing.survey.report_store import hash_code, make_code, open_survey_store
    from lapwing.survey.wire import Reader

    survey = read_survey(file)
    if not survey.invitations:
        raise Misconfigured(f"{file} has an open link. Write invitations = true to ask for invitations.")
    where = link or survey.url
    if where is None:
        raise Misconfigured("Say where the form is: --link https://survey.example.org, or `url` in the survey's file.")
    if not 1 <= count(many, "many") <= 100_000:
        raise Misconfigured(f"{many} links are too many at once. Make at most 100,000.")
    codes = [make_code() for _ in range(many)]
    kept = open_survey_store(file, store)
    kept.prepare(Reader(survey).id, make_code())
    kept.invite(hash_code(code) for code in codes)
    kept.close()
    links = [f"{where.rstrip('/')}/#{code}" for code in codes]
    show({"links": links}, as_json, "\n".join(links))


@app.command("export")
def export(file: SurveyArgument, folder: Path, as_json: JsonOption = False) -> None:
    """Write the form to a folder that can be hosted elsewhere, with the hash of every file."""
    from lapwing.survey.read_toml import read_survey

    survey = read_survey(file)
    need_server("Surveys")
    from lapwing.survey.site import Site

    site = Site(survey)
    written = site.export(folder)
    sums = "\n".join(f"  {site.hashes[name]['sha256']}  {name}" for name in ("form.js", "randomize.js", "survey.json"))
    text = (
        f"Wrote {len(written)} files to {folder}. Host them with https; `origins` must list where.\n{sums}\n"
        "Publish these hashes where respondents can compare them."
    )
    show({"written": [str(path) for path in written], "hashes": site.hashes}, as_json, text)


@app.command("demo")
def demo(
    simulate: Annotated[int, typer.Option("--simulate", help="How many respondents to simulate.")] = 400,
    per_second: Annotated[float, typer.Option("--per-second", help="How many of them arrive in a second.")] = 20.0,
    host: HostOption = _LOOPBACK,
    port: PortOption = _PORT,
    as_json: JsonOption = False,
) -> None:
    """The class survey with two coins: a link for phones, simulated respondents, and an estimate that sharpens live.

    Reports are in memory only, and gone with Ctrl-C. Phones on the same network need --host 0.0.0.0.
    """
    from lapwing.survey.simulate import SHARE, Simulated, class_answers, class_survey
    from lapwing.survey.sqlite_store import SqliteSurveyStore

    if simulate < 0 or not 0 < per_second <= 10_000:
        raise Misconfigured("--simulate must be at least 0, and --per-second between 0 and 10,000.")
    need_server("Surveys")
    from lapwing.survey.results import results as found_in
    from lapwing.survey.survey_app import Listening, make_app
    from lapwing.survey.survey_app import serve as run

    survey, kept, stop = class_survey(), SqliteSurveyStore(), threading.Event()
    survey_app = make_app(survey, kept)

    def arrive() -> None:
        crowd = Simulated(survey, kept)
        sent = crowd.arrive(class_answers(simulate), pause=1 / per_second, stop=stop)
        if sent == simulate and not as_json:
            echo(f"\nAll {sent} have arrived.\n{found_in(survey, kept.reports())}\n")

    with listen(host, port) as at, suppress(KeyboardInterrupt):
        where = Listening(host, at.getsockname()[1])
        links = _links(survey_app, where)
        more = ["Reports:  in memory, gone when this ends"]
        if simulate:
            more.append(f"Now {simulate} simulated people answer; {SHARE} of 100 would say yes. Watch the results.")
        show(links | {"simulated": simulate}, as_json, _words(links, where, more))
        crowd = threading.Thread(target=arrive, daemon=True)
        if simulate:
            crowd.start()
        try:
            run(survey_app, at)
        finally:
            stop.set()


def _kept_reports(survey: Survey, file: Path, store: str | None) -> list[bytes]:
    from lapwing.survey.report_store import OTHER_SURVEY, open_survey_store
    from lapwing.survey.wire import Reader

    kept = open_survey_store(file, store, exists=True)
    try:
        if kept.survey() != Reader(survey).id:
            raise Misconfigured(OTHER_SURVEY.format(name=kept.name))
        return kept.reports()
    finally:
        kept.close()


def _links(survey_app: SurveyApp, where: Listening) -> dict[str, Any]:
    public = survey_app.server.survey.results == "public"
    key = "" if public else f"?key={survey_app.server.key}"
    hashes = survey_app.server.site.hashes
    return {
        "form": where.link,
        "results": f"{where.link}results{key}",
        "scripts": {name: hashes[name] for name in ("form.js", "randomize.js", "survey.json")},
    }


def _words(links: dict[str, Any], where: Listening, more: list[str]) -> str:
    scripts = [f"          {hashes['sha256']}  {name}" for name, hashes in links["scripts"].items()]
    secret = "  (anyone with this link)" if "?key=" in links["results"] else "  (public)"
    lines = [
        f"Form:     {links['form']}",
        f"Results:  {links['results']}{secret}",
        "SHA-256 of the scripts and of the survey, for respondents to compare:",
        *scripts,
        *more,
        _LOCAL if where.is_local else _PLAIN,
        "Ctrl-C ends it.",
    ]
    return "\n".join(lines)


DRAFT = """\
# A survey whose answers are randomized in the respondent's browser.
# Change every line that does not fit. docs/survey.md explains each of them.

title = "How we work"
about = "Five questions about your work. They take two minutes."
run_by = "The statistics group"            # who asks, as respondents know you
contact = "survey@example.org"             # where they can ask back
epsilon = 4.5                              # what one respondent loses in all: the sum over the questions
report_from = 100                          # minimum reports before results are shown
invitations = false                        # true: only who has a link of `lapwing survey invite` can answer
# results = "public"                       # without it, only who has the link that `serve` prints sees them
# url = "https://survey.example.org"       # for a copy of the form that is hosted elsewhere
# origins = ["https://forms.example.org"]  # where that copy is

[[questions]]
id = "overtime"
text = "Did you work overtime last week without recording it?"
kind = "yes-no"
epsilon = 1

[[questions]]
id = "mood"
text = "How do you feel about your work?"
kind = "choice"
options = ["good", "fair", "poor"]
epsilon = 1

[[questions]]
id = "trouble"
text = "Which of these have you had in the last year?"
kind = "several"                           # one epsilon for the whole selection
options = ["a conflict", "sleepless nights", "thoughts of leaving"]
epsilon = 1

[[questions]]
id = "hours"
text = "How many hours did you work last week?"
kind = "number"                            # its mean, and points = 9 for a finer picture
range = [0, 80]
step = 1
unit = "hours"
epsilon = 1

[[questions]]
id = "again"
text = "Would you join us again?"
kind = "yes-no"
epsilon = 0.5
"""
