"""A PostgreSQL server of our own: a spare port on loopback, an empty data directory, stopped by its process id."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from support.needs import missing

_NAMES = count(1)
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def binaries() -> Path:
    """The folder of the newest PostgreSQL that Debian's packages installed; skips without one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else missing("PostgreSQL", "postgresql")


@dataclass
class PostgresServer:
    """A running server. `postgres` is its superuser; every test makes databases and roles of its own."""

    folder: Path
    port: int
    password: str
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the server, again if it was stopped or killed, and waits until it answers."""
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [binaries() / "postgres", "-D", self.folder / "data", "-p", str(self.port), "-k", self.folder]
                + [f"--{name.replace('_', '-')}={value}" for name, value in self.settings.items()],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=_die_with_parent,
                **_user(),
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT ends it at once, SIGINT in order; SIGKILL is a crash."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def url(self, database: str = "postgres", user: str = "postgres", password: str | None = None) -> str:
        word = self.password if password is None else password
        return f"postgresql://{user}:{word}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres", **more: Any) -> psycopg.Connection[Any]:
        """A connection as superuser that commits every statement by itself."""
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=10, **more)

    def run(self, *statements: str, database: str = "postgres") -> None:
        with self.connect(database) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]

    def new_database(self) -> str:
        """The name of a new, empty database."""
        name = f"test{next(_NAMES)}"
        with self.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return name

    def log(self) -> str:
        return (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")


@contextmanager
def running(**settings: str) -> Iterator[PostgresServer]:
    """A new server with these settings, such as fsync="off", gone at the end with everything in it."""
    folder = Path(tempfile.mkdtemp(prefix="lapwing-postgres-"))
    server = PostgresServer(folder, _spare_port(), secrets.token_hex(16), {"listen_addresses": "127.0.0.1", **settings})
    try:
        (folder / "password").write_text(server.password)
        user = _user()
        if user:
            for path in (folder, folder / "password"):
                shutil.chown(path, user["user"], user["group"])
        subprocess.run(
            [
                binaries() / "initdb",
                "-D",
                folder / "data",
                "-U",
                "postgres",
                "--auth=scram-sha-256",
                "--no-sync",
                f"--pwfile={folder / 'password'}",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
            ],
            check=True,
            capture_output=True,
            cwd=folder,
            **user,
        )
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def copied(server: PostgresServer, *options: str) -> Iterator[PostgresServer]:
    """A copy of a running server as it is now, not started. Its folder is not pytest's, which only root may enter."""
    folder = Path(tempfile.mkdtemp(prefix="lapwing-postgres-"))
    user = _user()
    if user:
        shutil.chown(folder, user["user"], user["group"])
    subprocess.run(
        [binaries() / "pg_basebackup", "-d", server.url(), "-D", folder / "data", "-c", "fast", *options],
        check=True,
        capture_output=True,
        cwd=folder,
        **user,
    )
    copy = replace(server, folder=folder, port=_spare_port(), process=None)
    try:
        yield copy
    finally:
        copy.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGQUIT)


def _spare_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
