"""What the tests of the ledger share: a folder with a ledger and its witness, and ways to run other processes."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from lapwing.ledger import Ledger, Report, verify_ledger
from lapwing.ledger.sqlite import SqliteStore
from lapwing.ledger.sqlite_book import SCHEMA, Memory, MemoryStore
from lapwing.ledger.store import Store
from lapwing.ledger.verify import verify
from lapwing.ledger.witness import Witness
from lapwing.postgres import read_address
from lapwing.privacy import Budget

if TYPE_CHECKING:
    from support.postgres import PostgresServer

WORKERS = Path(__file__).parent / "workers.py"


@dataclass
class Place(ABC):
    """A ledger in one kind of store, and its witness in a folder."""

    keeps: ClassVar[str]
    """The class of its store."""
    folder: Path
    budget: Budget = field(default_factory=lambda: Budget(1))
    opened: list[Ledger] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)

    @abstractmethod
    def store(self, timeout: float = 5.0) -> Store:
        """A new connection to the same place."""

    @property
    def witness(self) -> Path:
        return self.folder / "data.witness"

    def open(self, budget: Budget | None = None, *, timeout: float = 5.0, witness: bool = True) -> Ledger:
        """The ledger of this place; closed when the test ends."""
        witnesses = [Witness(self.witness)] if witness else []
        ledger = Ledger.open(self.store(timeout), self.budget if budget is None else budget, witnesses)
        self.opened.append(ledger)
        return ledger

    def verify(self) -> Report:
        """A check from outside."""
        return verify(self.store().inspecting, [Witness(self.witness)])

    def close(self) -> None:
        for ledger in self.opened:
            ledger.close()


@dataclass
class MemoryPlace(Place):
    """Some memory."""

    keeps: ClassVar[str] = "MemoryStore"
    memory: Memory = field(default_factory=Memory)
    ways_out: ClassVar[list[str]] = ["Use a ledger for each"]

    def store(self, timeout: float = 5.0) -> Store:
        return MemoryStore(self.memory)


@dataclass
class SqlitePlace(Place):
    """A folder with a ledger and, perhaps, an older copy."""

    keeps: ClassVar[str] = "SqliteStore"

    @property
    def path(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def ways_out(self) -> list[str]:
        """What is said to whoever declares another unit before the first charge."""
        return ["start a new ledger", f"delete {self.path}*, {self.witness}"]

    def store(self, timeout: float = 5.0) -> Store:
        return SqliteStore(self.path, timeout=timeout)

    def verify(self) -> Report:
        return verify_ledger(self.path, witness=[self.witness])

    def tamper(self, *statements: str) -> None:
        """Changes the closed ledger as someone with the file and an SQLite shell can."""
        triggers = {name: sql for name, sql in SCHEMA.items() if sql.startswith("CREATE TRIGGER")}
        with closing(sqlite3.connect(self.path, isolation_level=None)) as shell:
            for statement in ("PRAGMA synchronous = OFF", "BEGIN", *(f"DROP TRIGGER {name}" for name in triggers)):
                shell.execute(statement)
            for statement in (*statements, *triggers.values(), "COMMIT"):
                shell.execute(statement)


@dataclass
class PostgresPlace(Place):
    """A schema of its own in a database of the server for ledgers."""

    keeps: ClassVar[str] = "PostgresStore"
    server: PostgresServer | None = None
    schema: str = field(default_factory=lambda: f"ledger{next(_SCHEMAS)}")
    ways_out: ClassVar[list[str]] = ["Use a ledger for each"]

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"{self.server.url()}?schema={self.schema}"

    def store(self, timeout: float = 5.0) -> Store:
        from lapwing.ledger.postgres import PostgresStore

        made = PostgresStore(read_address(self.url), timeout=timeout)
        self.stores.append(made)
        return made

    def verify(self) -> Report:
        return verify_ledger(self.url, witness=[self.witness])

    def run(self, *statements: str) -> None:
        """As a superuser does, who can switch triggers off."""
        assert self.server is not None
        self.server.run(f"SET search_path = {self.schema}", *statements)

    def tamper(self, *statements: str) -> None:
        self.run("SET session_replication_role = replica", *statements)

    def close(self) -> None:
        super().close()
        for store in self.stores:
            store.close()
        self.run(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")


_SCHEMAS = count(1)
STORES: dict[str, type[Place]] = {"sqlite": SqlitePlace, "memory": MemoryPlace, "postgres": PostgresPlace}
"""Every store keeps every promise; another one is another line."""


@pytest.fixture(scope="session")
def held_to_its_word() -> set[str]:
    """The stores that `place` stands for."""
    return {place.keeps for place in STORES.values()}


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty place for a ledger with a budget of epsilon = 1, in each kind of store."""
    here = STORES[request.param](tmp_path)
    if isinstance(here, PostgresPlace):
        here.server = request.getfixturevalue("ledger_server")
    yield here
    here.close()


@pytest.fixture
def base(ledger_server: PostgresServer, tmp_path: Path) -> Iterator[PostgresPlace]:
    """The same in a database, for what only a server can suffer."""
    here = PostgresPlace(tmp_path, server=ledger_server)
    yield here
    here.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SqlitePlace]:
    """The same in a file, for what only a file can suffer."""
    here = SqlitePlace(tmp_path)
    yield here
    here.close()


@pytest.fixture
def ledger(place: Place) -> Ledger:
    """A ledger without a witness."""
    return place.open(witness=False)


@pytest.fixture
def another(place: Place) -> Iterator[Callable[[Budget], Ledger]]:
    """Opens a new ledger with each call, in the same kind of store."""
    made: list[Place] = []

    def make(budget: Budget) -> Ledger:
        folder = place.folder / str(len(made))
        folder.mkdir()
        made.append(type(place)(folder))
        if isinstance(place, PostgresPlace):
            made[-1].server = place.server
        return made[-1].open(budget, witness=False)

    yield make
    for here in made:
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
