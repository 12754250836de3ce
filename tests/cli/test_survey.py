"""`lapwing survey` from the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from lapwing.cli.main import app
from lapwing.cli.survey import _links, _words
from lapwing.errors import Misconfigured
from lapwing.survey import read_survey
from lapwing.survey.report_store import hash_code, make_code
from lapwing.survey.simulate import Simulated
from lapwing.survey.sqlite_store import SqliteSurveyStore
from lapwing.survey.survey_app import Listening, make_app
from lapwing.survey.wire import Reader
from support.surveys import survey_text
from support.tape import SeededBits

Run = Callable[..., str]


@pytest.fixture
def lapwing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in an empty folder and gives back what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        result = CliRunner().invoke(app, ["survey", *words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    return run


def write(*names: str, **settings: Any) -> None:
    Path("survey.toml").write_text(survey_text(*names, **settings))


def answered(many: int = 60) -> None:
    """A store beside survey.toml with so many reports."""
    asked = read_survey("survey.toml")
    with closing(SqliteSurveyStore("survey.db")) as kept:
        kept.prepare(Reader(asked).id, make_code())
        Simulated(asked, kept, SeededBits(many)).arrive([{"overtime": 1, "mood": 0}] * many)


def test_new_writes_a_survey_and_overwrites_none(lapwing: Run) -> None:
    assert "lapwing survey serve survey.toml" in lapwing("new")
    assert read_survey("survey.toml").title == "How we work"
    with pytest.raises(Misconfigured, match="already exists"):
        lapwing("new")
    assert json.loads(lapwing("new", "other.toml", "--json")) == {"written": "other.toml"}
    with pytest.raises(Misconfigured, match="cannot be written"):
        lapwing("new", "no/such/folder.toml")


def test_results_print_estimates_in_every_format(lapwing: Run) -> None:
    write("overtime", "mood")
    answered()
    assert "overtime?" in lapwing("results")
    assert json.loads(lapwing("results", "--json"))["n"] == 60
    assert lapwing("results", "--csv").splitlines()[0] == "question,value,estimate,low,high,reports"
    assert "No answer" in lapwing("results", "--joint", "overtime,mood")
    assert "share" in lapwing("results", "--joint", "overtime, mood", "--csv").splitlines()[0]
    for wrong, said in ((("--joint", "mood"), "two ids"), (("--joint", "mood,nobody"), "no question")):
        with pytest.raises(Misconfigured, match=said):
            lapwing("results", *wrong)


def test_results_of_nothing_and_of_another_survey_say_so(lapwing: Run) -> None:
    write("overtime", "mood")
    with pytest.raises(Misconfigured, match="no reports yet"):
        lapwing("results")
    with pytest.raises(Misconfigured, match="not a supported store"):
        lapwing("results", "--store", "mysql://host/database")
    answered(3)
    assert "Do not report" in lapwing("results")
    assert "Do not report" in lapwing("results", "--store", "survey.db")
    write("overtime", "mood", title="Changed")
    with pytest.raises(Misconfigured, match="undo the change"):
        lapwing("results")


def test_invitations_are_printed_once_and_kept_as_hashes(lapwing: Run) -> None:
    write("overtime", invitations=True)
    with pytest.raises(Misconfigured, match="--link"):
        lapwing("invite", "survey.toml", "3")
    links = lapwing("invite", "survey.toml", "3", "--link", "https://s.example.org/").splitlines()
    codes = [link.removeprefix("https://s.example.org/#") for link in links]
    assert all(re.fullmatch(r"[a-z2-7]{26}", code) for code in codes)
    with closing(SqliteSurveyStore("survey.db")) as kept:
        assert kept.invited() == (3, 0)
    written = Path("survey.db").read_bytes()
    assert not any(code.encode() in written for code in codes)
    assert all(hash_code(code) in written for code in codes)
    write("overtime")
    with pytest.raises(Misconfigured, match="open link"):
        lapwing("invite", "survey.toml", "3", "--link", "https://s.example.org/")


def test_an_exported_form_is_whole_and_sends_to_its_server(lapwing: Run) -> None:
    write("overtime")
    with pytest.raises(Misconfigured, match="url"):
        lapwing("export", "survey.toml", "copy")
    write("overtime", url="https://survey.example.org")
    told = lapwing("export", "survey.toml", "copy")
    listed = dict(reversed(line.split("  ")) for line in Path("copy/SHA256SUMS").read_text().splitlines())
    names = {"index.html", "form.js", "randomize.js", "survey.css", "favicon.svg", "survey.json"}
    assert set(listed) == names
    for name in names:
        assert sha256(Path("copy", name).read_bytes()).hexdigest() == listed[name]
    assert listed["form.js"] in told
    page = Path("copy/index.html").read_text()
    assert json.loads(Path("copy/survey.json").read_text())["post"] == "https://survey.example.org/reports"
    assert "connect-src &#39;self&#39; https://survey.example.org" in page
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page)
    assert not re.findall(r'(?:src|href)="/', page)


def started(*words: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    command = [sys.executable, "-m", "lapwing", "survey", *words, "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    return process.returncode, err


def test_the_demo_estimates_live_what_a_class_would_say() -> None:
    """lecture:L10 simulated respondents arrive while the results are read, and the interval shrinks."""
    process, told = started("demo", "--simulate", "300", "--per-second", "300")
    try:
        seen: dict[int, dict[str, Any]] = {}
        with httpx.Client() as client:
            assert client.get(told["form"]).status_code == 200
            while not seen or max(seen) < 300:
                found = client.get(told["results"].replace("results", "results.json")).json()
                seen[found["n"]] = found
    finally:
        code, err = ended(process)
    assert (code, err) == (0, "")
    assert len(seen) > 1
    last = seen[300]["questions"][0]["values"][1]
    assert last["label"] == "Yes"
    assert last["high"] - last["low"] < 0.3
    enough = [found["questions"][0]["values"] for found in seen.values() if found["enough"]]
    assert max(values[1]["high"] - values[1]["low"] for values in enough) >= last["high"] - last["low"]


def test_serve_listens_on_this_machine_only(lapwing: Run) -> None:
    write("overtime")
    command = [sys.executable, "-m", "lapwing", "survey", "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [""]
    while "Ctrl-C" not in lines[-1]:
        lines.append(process.stdout.readline())
    assert ended(process) == (0, "")
    text = "".join(lines)
    assert re.search(r"http://127\.0\.0\.1:\d+/results\?key=[a-z2-7]{26}", text)
    assert re.search(r"[0-9a-f]{64}  form.js", text)
    assert "Only this machine" in text
    assert "Plain http" not in text


def test_a_network_address_comes_with_what_plain_http_means(lapwing: Run) -> None:
    write("overtime")
    made = make_app(read_survey("survey.toml"), SqliteSurveyStore())
    where = Listening("192.0.2.7", 8640)
    text = _words(_links(made, where), where, [])
    assert "http://192.0.2.7:8640/" in text
    assert "Plain http" in text
    assert "Only this machine" not in text
    assert [Listening(host, 1).is_local for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "host.example")] == [
        *(True, True, True, False, False)
    ]
    assert Listening("::1", 5).link == "http://[::1]:5/"


def test_a_port_that_is_taken_says_so(lapwing: Run) -> None:
    write("overtime")
    process, told = started("serve")
    try:
        port = told["form"].rsplit(":", 1)[1].strip("/")
        with pytest.raises(Misconfigured, match="--port"):
            lapwing("serve", "--port", port)
    finally:
        assert ended(process) == (0, "")
    with pytest.raises(Misconfigured, match="--port"):
        lapwing("serve", "--port", "99999")
    with pytest.raises(Misconfigured, match="--host"):
        lapwing("serve", "--host", "no.such.host.invalid", "--port", "0")
