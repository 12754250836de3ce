"""A server that is killed loses no report that it acknowledged, and counts none twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from lapwing.survey import Survey, parse_survey
from lapwing.survey.sqlite_store import SqliteSurveyStore
from support.survey_server import message, read_message
from support.surveys import survey_text
from support.sweeps import sweep

HEADERS = {"content-type": "text/plain;charset=UTF-8"}
SENDERS = 4


class Server:
    """`lapwing survey serve` in a process of its own."""

    def __init__(self, file: Path) -> None:
        command = [sys.executable, "-m", "lapwing", "survey", "serve", str(file), "--port", "0", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.told = json.loads(self.process.stdout.readline())
        self.url = self.told["form"]

    def end(self, how: signal.Signals) -> int:
        os.kill(self.process.pid, how)
        code = self.process.wait(30)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code


def send_until_it_dies(url: str, asked: Survey, sent: list[str], acknowledged: list[str]) -> None:
    with httpx.Client() as client:
        while True:
            body = message(asked, {"overtime": 1})
            sent.append(body)
            try:
                if client.post(f"{url}reports", content=body, headers=HEADERS).status_code == 200:
                    acknowledged.append(body)
            except httpx.HTTPError:
                return


@pytest.mark.parametrize("after", sweep([25, 1], 1))
def test_no_acknowledged_report_is_lost_or_doubled_by_a_kill(tmp_path: Path, after: int) -> None:
    """kill -9 while several respondents send; each of them sends the same message again afterwards."""
    file = tmp_path / "survey.toml"
    file.write_text(survey_text("overtime", "mood", per_minute=1_000_000))
    asked = parse_survey(file.read_text())
    server = Server(file)
    sent, acknowledged = list[str](), list[str]()
    arguments = (server.url, asked, sent, acknowledged)
    senders = [threading.Thread(target=send_until_it_dies, args=arguments) for _ in range(SENDERS)]
    for sender in senders:
        sender.start()
    while len(acknowledged) < after:
        senders[0].join(0.002)
    server.end(signal.SIGKILL)
    for sender in senders:
        sender.join()
    with closing(SqliteSurveyStore(tmp_path / "survey.db")) as kept:
        found = kept.count()
        assert len(acknowledged) <= found <= len(sent)
    again = Server(file)
    with httpx.Client() as client:
        answers = {body: client.post(f"{again.url}reports", content=body, headers=HEADERS).json() for body in sent}
    assert {answers[body]["status"] for body in acknowledged} == {"already"}
    assert [answer["status"] for answer in answers.values()].count("already") == found
    assert again.end(signal.SIGINT) == 0
    with closing(SqliteSurveyStore(tmp_path / "survey.db")) as kept:
        assert sorted(kept.reports()) == sorted(bytes.fromhex(read_message(body)["report"]) for body in sent)


def test_a_server_that_is_told_to_end_closes_its_store(tmp_path: Path) -> None:
    """A service manager sends SIGTERM. No log is left that tells the order of arrival."""
    file = tmp_path / "survey.toml"
    file.write_text(survey_text("overtime"))
    server = Server(file)
    body = message(parse_survey(file.read_text()), {"overtime": 1})
    assert httpx.post(f"{server.url}reports", content=body, headers=HEADERS).status_code == 200
    assert server.end(signal.SIGTERM) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"survey.toml", "survey.db"}


def test_a_server_says_nothing_of_respondents_while_it_runs(tmp_path: Path) -> None:
    """Neither standard output nor standard error has an address, a time or a report."""
    file = tmp_path / "survey.toml"
    file.write_text(survey_text("overtime"))
    server = Server(file)
    with httpx.Client() as client:
        body = message(parse_survey(file.read_text()), {"overtime": 1})
        assert client.post(f"{server.url}reports", content=body, headers=HEADERS).status_code == 200
        assert client.post(f"{server.url}reports", content="x", headers=HEADERS).status_code == 400
        assert client.get(f"{server.url}nothing").status_code == 404
    os.kill(server.process.pid, signal.SIGINT)
    out, err = server.process.communicate(timeout=30)
    assert (out, err) == ("", "")
    assert server.process.returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"survey.toml", "survey.db"}
