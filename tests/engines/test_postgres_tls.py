"""TLS with an authority of our own: `verify-full` lets in the server it signed, under its name, and nobody else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lapwing.engines.postgres_session import Connections
from lapwing.errors import Misconfigured
from lapwing.postgres import read_address
from support.needs import missing
from support.postgres import PostgresServer, running

DAYS = "3650"


def openssl(folder: Path, *arguments: str) -> None:
    program = shutil.which("openssl") or missing("openssl", "openssl")
    subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True)


def authority(folder: Path, name: str) -> None:
    subject, key = ["-subj", f"/CN={name}"], ["-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key"]
    openssl(folder, "req", "-x509", *key, *subject, "-days", DAYS, "-out", f"{name}.crt")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PostgresServer, Path]]:
    folder = tmp_path_factory.mktemp("tls")
    for name in ("authority", "stranger"):
        authority(folder, name)
    openssl(
        folder, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-subj", "/CN=localhost", "-out", "s"
    )
    (folder / "names").write_text("subjectAltName = DNS:localhost\n")
    signed = ["-CA", "authority.crt", "-CAkey", "authority.key", "-CAcreateserial", "-extfile", "names"]
    openssl(folder, "x509", "-req", "-in", "s", *signed, "-days", DAYS, "-out", "server.crt")
    with running(fsync="off", max_connections="20") as made:
        made.stop()
        for name in ("server.crt", "server.key"):
            shutil.copy(folder / name, made.folder / "data" / name)
            owner = (made.folder / "data").stat()
            shutil.chown(made.folder / "data" / name, owner.st_uid, owner.st_gid)
            (made.folder / "data" / name).chmod(0o600)
        made.settings["ssl"] = "on"
        made.start()
        yield made, folder


def reach(server: PostgresServer, host: str, certificate: Path) -> list[tuple[object, ...]]:
    url = server.url().replace("127.0.0.1", host)
    held = Connections(read_address(f"{url}?sslmode=verify-full&sslrootcert={certificate}&hostaddr=127.0.0.1"))
    try:
        with held.begin() as session:
            return session.rows("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    finally:
        held.close()


def test_the_server_that_was_signed_is_reached(server: tuple[PostgresServer, Path]) -> None:
    made, folder = server
    assert reach(made, "localhost", folder / "authority.crt") == [(True,)]


@pytest.mark.parametrize(("host", "signer"), [("localhost", "stranger"), ("db.example.org", "authority")])
def test_nobody_else_is(host: str, signer: str, server: tuple[PostgresServer, Path]) -> None:
    """Another authority, and another name: the password is not even sent."""
    made, folder = server
    with pytest.raises(Misconfigured, match="cannot be reached"):
        reach(made, host, folder / f"{signer}.crt")
