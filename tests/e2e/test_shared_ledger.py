"""Curators and commands on one ledger in PostgreSQL, as docs/shared-ledger.md describes them."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lapwing.curator import load
from lapwing.errors import BudgetExceeded, LapwingError, Misconfigured
from lapwing.privacy import Accounting, Budget, Cost
from support.commands import lapwing
from support.visits import frame, open_visits, write_visits

QUESTION = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
TOML = """
ledger = "{ledger}"
check = 0
[budget]
epsilon = 1
[tables.visits]
source = "visits.parquet"
unit = "pid"
rows_per_unit = 2
[tables.visits.columns]
pid = {{ type = "integer" }}
sex = {{ type = "text", values = ["F", "M"] }}
cost = {{ type = "real", bounds = [0, 100] }}
"""


@pytest.fixture
def url(ledger_server: Any) -> str:
    return str(ledger_server.url(ledger_server.new_database()))


@pytest.fixture
def home(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data and a lapwing.toml whose ledger is in the database; the password is in the environment."""
    write_visits(tmp_path)
    start, word, place = (
        url.replace("@", ":").split(":", 4)[1].strip("/"),
        url.split(":")[2].split("@")[0],
        url.split("@")[1],
    )
    (tmp_path / "lapwing.toml").write_text(TOML.format(ledger=f"postgresql://{start}@{place}"))
    monkeypatch.setenv("PGPASSWORD", word)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def in_a_process(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from lapwing.cli.main import run; run()", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_an_answer_that_one_process_paid_is_free_for_another(url: str, tmp_path: Path) -> None:
    """ledger:B5: the same numbers, and one charge."""
    write_visits(tmp_path)
    curator = open_visits(tmp_path / "visits.parquet", ledger=url)
    paid = curator.sql(QUESTION, epsilon=0.1, analyst="ann")
    assert float(paid.cost.amount) == 0.1
    (tmp_path / "ledger.url").write_text(url)
    command = [sys.executable, "-m", "support.crash", "ask", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout) == [paid.to_arrow().to_pylist(), 0]
    assert curator.budget.spent.amount * 10 == 1
    curator.close()


def test_teams_and_their_retry_keys_hold_across_processes(url: str, tmp_path: Path) -> None:
    """ledger:B2 ledger:B5: eight processes, one of them killed after its charge: each key is charged once, every answer
    to it is the same, and no team gets more than its allowance."""
    write_visits(tmp_path)
    (tmp_path / "ledger.url").write_text(url)
    with open_visits(tmp_path / "visits.parquet", ledger=url) as curator:
        for team, most in (("@team0", 0.4), ("@team1", 0.3), ("p1@team1", 0.1)):
            curator.ledger.allow(team, Cost(Accounting.PURE, most))
    command = [sys.executable, "-m", "support.crash", "teams", str(tmp_path), "8"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    found = json.loads(done.stdout)
    assert [one["killed"] for one in found] == [True] + [False] * 7
    answers: dict[tuple[str, str], list[Any]] = {}
    for analyst, key, sent in (sent for one in found for sent in one["sent"] or []):
        if not isinstance(sent, str):
            answers.setdefault((analyst, key), []).append(sent)
    assert all(one == same[0] for same in answers.values() for one in same)
    with open_visits(tmp_path / "visits.parquet", ledger=url) as curator:
        ledger = curator.ledger
        charged = [(entry.analyst, entry.key) for entry in ledger.entries() if entry.kind == "reserve"]
        assert len(charged) == len(set(charged)) == 7
        assert answers.keys() <= set(charged)
        assert [float(ledger.spent_by(team).amount) for team in ("@team0", "@team1")] == [0.4, 0.3]
        assert ledger.spent_by("p1@team1").amount * 10 <= 1
        assert ledger.verify().ok


def test_frames_may_have_a_shared_ledger(url: str) -> None:
    """They have no witness; the ledger keeps the budget all the same."""
    for _ in range(2):
        curator = open_visits(frame(), ledger=url, budget=Budget(epsilon=0.15))
        with suppress(BudgetExceeded):
            curator.sql(QUESTION, epsilon=0.1, refresh=True)
        with pytest.raises(BudgetExceeded):
            curator.sql(QUESTION, epsilon=0.1, refresh=True)
        assert curator.budget.spent.amount * 10 == 1
        curator.close()


def test_the_commands_work_on_a_shared_ledger(home: Path) -> None:
    """ask, budget, doctor, ledger show, verify, export and accept; no output has the password."""
    word = os.environ["PGPASSWORD"]
    steps = [
        (("doctor",), "none yet"),
        (("ask", QUESTION, "--epsilon", "0.1"), "price epsilon = 0.1"),
        (("budget",), "Spent 10% of the budget; one more question may cost up to epsilon = 0.9."),
        (("budget", "--explain"), "Spent: epsilon = 0.1 of epsilon = 1."),
        (("doctor",), "a question would be answered"),
        (("ledger", "show"), "SELECT sex"),
        (("ledger", "verify"), "The ledger is intact"),
        (("ledger", "export", "out.jsonl"), "Wrote out.jsonl"),
        (("ledger", "verify", "--against", "out.jsonl"), "The ledger is intact"),
        (("ledger", "accept"), "Accepted"),
    ]
    for words, told in steps:
        done = (in_a_process if words[0] == "ask" else lapwing)(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        assert told in done.stdout
        assert word not in done.stdout + done.stderr
    assert (home / ".lapwing" / "ledger.witness").exists()
    assert (home / "visits.parquet.lapwing").exists()
    assert word not in (home / "out.jsonl").read_text()
    assert not (home / ".lapwing" / "ledger.db").exists()


def test_the_doctor_changes_nothing_and_finds_what_stops_a_question(home: Path, ledger_server: Any) -> None:
    assert in_a_process("ask", QUESTION, "--epsilon", "0.1").returncode == 0
    database = (home / "lapwing.toml").read_text().split('"')[1].rpartition("/")[2]
    with ledger_server.connect(database) as shell:
        before = shell.execute("SELECT * FROM lapwing.head").fetchone()
        assert lapwing("doctor").returncode == 0
        assert shell.execute("SELECT * FROM lapwing.head").fetchone() == before
        shell.execute("ALTER TABLE lapwing.entry DISABLE TRIGGER entry_no_update")
        done = lapwing("doctor")
        assert done.returncode == 1
        assert "append-only, were changed" in done.stdout
        shell.execute("ALTER TABLE lapwing.entry ENABLE TRIGGER entry_no_update")
        shell.execute("UPDATE lapwing.head SET server = '1/1'")
        done = lapwing("doctor")
        assert done.returncode == 1
        assert "lapwing ledger accept" in done.stdout


def test_a_password_in_the_file_is_refused_and_not_repeated(home: Path, url: str) -> None:
    """threat:A13."""
    word = os.environ["PGPASSWORD"]
    (home / "lapwing.toml").write_text(TOML.format(ledger=url))
    with pytest.raises(
        Misconfigured, match=r"lapwing.toml: ledger: The address .* holds a password.*PGPASSWORD"
    ) as caught:
        load(home / "lapwing.toml")
    assert word not in str(caught.value)
    done = lapwing("doctor")
    assert done.returncode != 0
    assert word not in done.stdout + done.stderr


def test_a_lost_server_is_refused_without_secrets_in_messages_or_logs(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """threat:A13: with all of psycopg's own log switched on."""
    caplog.set_level(logging.DEBUG)
    word = os.environ["PGPASSWORD"]
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    with pytest.raises(LapwingError, match="refused this user or password") as caught:
        load(home / "lapwing.toml")
    for secret in ("hunter2", word):
        assert secret not in f"{caught.value} {caught.value.to_dict()} {caplog.text}"
    assert json.dumps(caught.value.to_dict())
