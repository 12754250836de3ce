"""kill -9 at every step of a question, and many processes at one budget."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lapwing.errors import LedgerFailed
from lapwing.ledger import verify_ledger
from support.crash import QUESTION, STEPS, open_in
from support.visits import write_visits

TESTS = Path(__file__).resolve().parent.parent


def run(kind: str, folder: Path) -> Any:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-m", "support.crash", kind, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=["file", "database"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where the ledger of the visits in this folder is."""
    write_visits(tmp_path)
    if request.param == "file":
        return tmp_path / ".lapwing" / "ledger.db"
    server: Any = request.getfixturevalue("ledger_server")
    address: str = server.url(server.new_database())
    (tmp_path / "ledger.url").write_text(address)
    return address


def test_no_answer_without_a_charge_wherever_the_process_dies(ledger: Path | str, tmp_path: Path) -> None:
    """ledger:B1 ledger:B3 ledger:B5 gate:G34 and the ledger is whole afterwards."""
    found = run("kill", tmp_path)
    assert set(found) == set(STEPS)
    assert [step for step, end in found.items() if not end["killed"]] == ["nothing"]
    assert [step for step, end in found.items() if end["sent"]] == ["nothing"]

    assert verify_ledger(ledger, witness=[tmp_path / "visits.parquet.lapwing"]).ok
    curator = open_in(tmp_path / "visits.parquet")
    charged = [entry.key for entry in curator.ledger.entries() if entry.kind == "reserve"]
    assert charged == [step for step in STEPS if step != "before reserve"]
    assert curator.budget.spent.amount * 10 == len(charged)

    again = curator.sql(QUESTION, epsilon=0.1, key="nothing")
    assert (again.to_arrow().to_pylist(), bool(again.cost)) == (found["nothing"]["sent"], False)
    stored = curator.sql(QUESTION, epsilon=0.1, key="after settle")
    assert not stored.cost
    for step in ("after reserve", "before cells", "after cells", "after release", "before settle"):
        with pytest.raises(LedgerFailed, match="stays charged and is not run again"):
            curator.sql(QUESTION, epsilon=0.1, key=step, refresh=True)
        assert not curator.sql(QUESTION, epsilon=0.1, key=step).cost
    assert curator.budget.spent.amount * 10 == len(charged)


def test_racing_processes_never_exceed_the_budget(ledger: Path | str, tmp_path: Path) -> None:
    """ledger:B2 gate:G32 gate:G51 lecture:L35 eight processes, room for exactly ten questions."""
    found = run("race", tmp_path)
    assert len(found) == 8
    assert not any(end["killed"] for end in found)
    assert sum(end["sent"] for end in found) == 10
    curator = open_in(tmp_path / "visits.parquet")
    assert (curator.budget.spent.amount, curator.budget.remaining.amount) == (1, 0)
    assert curator.ledger.verify().ok
