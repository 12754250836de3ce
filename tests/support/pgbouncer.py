"""A PgBouncer of our own in front of a PostgreSQL server: transaction mode, a spare port on loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from support.needs import missing
from support.postgres import PostgresServer, _die_with_parent, _spare_port, _user


@contextmanager
def pooled(server: PostgresServer, *users: str, **settings: str) -> Iterator[int]:
    """The port of a pooler in transaction mode, gone at the end. It lets the superuser in, and these users, who have
    the server's password."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        missing("PgBouncer", "pgbouncer")
    folder, port = Path(tempfile.mkdtemp(prefix="lapwing-pgbouncer-")), _spare_port()
    options = {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "auth_type": "plain",
        "auth_file": str(folder / "users"),
        "pool_mode": "transaction",
        "default_pool_size": "20",
        "max_client_conn": "200",
        **settings,
    }
    (folder / "users").write_text("".join(f'"{user}" "{server.password}"\n' for user in ("postgres", *users)))
    lines = [f"{name} = {value}" for name, value in options.items()]
    text = "\n".join(["[databases]", f"* = host=127.0.0.1 port={server.port}", "[pgbouncer]", *lines])
    (folder / "pgbouncer.ini").write_text(text)
    if os.geteuid() == 0:
        for path in (folder, folder / "users", folder / "pgbouncer.ini"):
            shutil.chown(path, "postgres", "postgres")
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [program, folder / "pgbouncer.ini"], stdout=log, stderr=log, preexec_fn=_die_with_parent, **_user()
        )
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                psycopg.connect(server.url().replace(f":{server.port}/", f":{port}/"), connect_timeout=5).close()
            except psycopg.OperationalError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((folder / "log").read_text()) from None
                time.sleep(0.05)
            else:
                break
        yield port
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
