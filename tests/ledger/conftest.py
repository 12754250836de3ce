"""What the tests of the ledger share: a folder with a ledger and its witness, and ways to run other processes."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lapwing.ledger import Report, SqliteLedger, verify_ledger
from lapwing.ledger.store import SCHEMA
from lapwing.privacy import Budget

WORKERS = Path(__file__).parent / "workers.py"


@dataclass
class Place:
    """A folder with a ledger, its witness and, perhaps, an older copy."""

    folder: Path
    budget: Budget = field(default_factory=lambda: Budget(1))
    opened: list[SqliteLedger] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def witness(self) -> Path:
        return self.folder / "data.witness"

    def open(self, budget: Budget | None = None, *, timeout: float = 5.0) -> SqliteLedger:
        """The ledger of this folder; closed when the test ends."""
        ledger = SqliteLedger.open(self.path, budget or self.budget, witness=self.witness, timeout=timeout)
        self.opened.append(ledger)
        return ledger

    def verify(self) -> Report:
        """A check from outside."""
        return verify_ledger(self.path, witness=[self.witness])

    def tamper(self, *statements: str) -> None:
        """Changes the closed ledger as someone with the file and an SQLite shell can."""
        triggers = {name: sql for name, sql in SCHEMA.items() if sql.startswith("CREATE TRIGGER")}
        with closing(sqlite3.connect(self.path, isolation_level=None)) as shell:
            for statement in ("PRAGMA synchronous = OFF", "BEGIN", *(f"DROP TRIGGER {name}" for name in triggers)):
                shell.execute(statement)
            for statement in (*statements, *triggers.values(), "COMMIT"):
                shell.execute(statement)

    def close(self) -> None:
        for ledger in self.opened:
            ledger.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """An empty folder for a ledger with a budget of epsilon = 1."""
    here = Place(tmp_path)
    yield here
    here.close()


@pytest.fixture(scope="session")
def workers() -> Iterator[subprocess.Popen[str]]:
    """A process that has all imports done and forks for each piece of work."""
    command = [sys.executable, str(WORKERS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def work(workers: subprocess.Popen[str]) -> Callable[..., Any]:
    """Runs a function of workers.py in a process of its own and gives back what it returned."""

    def run(name: str, *arguments: object) -> Any:
        assert workers.stdin is not None
        assert workers.stdout is not None
        workers.stdin.write(json.dumps([name, *map(str, arguments)]) + "\n")
        workers.stdin.flush()
        result = json.loads(workers.stdout.readline())
        assert "failed" not in result, result["failed"]
        return result

    return run
