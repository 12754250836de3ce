"""Addresses of PostgreSQL databases, and their driver. A password is kept apart from everything that is shown.

    postgresql://ledger@db.example.org:5432/hospital?sslmode=verify-full&schema=lapwing

`schema` is ours; every other parameter is libpq's. What an address leaves out, libpq looks up as always: PGHOST,
PGUSER, PGPASSWORD, ~/.pgpass, PGSERVICE. So an address in a file need not hold a secret, and may not.
Checked by: tests/test_postgres.py
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, ModuleType
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from lapwing.errors import Misconfigured

SCHEMES = ("postgresql://", "postgres://")

_SECRETS = ("password", "passfile", "sslpassword")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_FIX = (
    "Remove it, and give it to this process in another way: the environment variable PGPASSWORD, a line in ~/.pgpass, "
    "or a service file."
)
_SHAPE = (
    "Write postgresql://USER@HOST:PORT/DATABASE. In a user, a password or a database, write the characters / @ : ? # % "
    "as %2F %40 %3A %3F %23 %25."
)


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database on a server. Its text and its repr have neither user nor password."""

    parameters: Mapping[str, str] = field(repr=False)
    """What libpq is told, the password too."""
    schema: str | None = None
    """The one that the address names."""

    @property
    def name(self) -> str:
        """Where it is, for messages: hosts, ports and the database."""
        found = self.parameters
        if not found.get("host") and "service" in found:
            return f"postgresql:///?service={quote(found['service'])}"
        hosts, ports = found.get("host", "").split(","), found.get("port", "").split(",")
        ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
        places = [_place(host, port) for host, port in zip(hosts, ports, strict=True)]
        schema = f"?schema={self.schema}" if self.schema else ""
        return f"postgresql://{','.join(places)}/{quote(found.get('dbname', ''))}{schema}"

    @property
    def has_secret(self) -> bool:
        """Whether a password was written into it."""
        return any(self.parameters.get(name) for name in _SECRETS if name != "passfile")

    def __str__(self) -> str:
        return self.name


def is_postgres(place: object) -> bool:
    """Whether this text is the address of a PostgreSQL database."""
    return isinstance(place, str) and place.lower().startswith(SCHEMES)


def read_address(url: str, *, public: bool = False) -> PostgresAddress:
    """The parts of an address. If it stands where others read it, `public`, a password in it is refused.

    No error quotes it: what cannot be parsed may be a password that was not encoded.
    """
    try:
        parts = urlsplit(url)
        asked = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise Misconfigured(f"The address of the PostgreSQL database cannot be read. {_SHAPE}") from None
    user, _, places = parts.netloc.rpartition("@")
    user, _, password = user.partition(":")
    database = parts.path.removeprefix("/")
    if not is_postgres(url) or parts.fragment or "@" in database or "/" in database or "\0" in unquote(url):
        raise Misconfigured(f"The address of the PostgreSQL database cannot be read. {_SHAPE}")
    schema = asked.pop("schema", None)
    if schema is not None and not _SCHEMA.fullmatch(schema):
        raise Misconfigured(
            "`schema` must be at most 40 small letters, digits and _. Write for example schema=lapwing."
        )
    if schema is not None and schema.startswith(("pg_", "information_schema")):
        raise Misconfigured(f"The schema {schema} is PostgreSQL's own. Write for example schema=lapwing.")
    hosts, ports = _hosts(places)
    written = {"user": user, "password": password, "host": hosts, "port": ports, "dbname": database}
    parameters = {name: unquote(text) for name, text in written.items() if text} | asked
    address = PostgresAddress(MappingProxyType(parameters), schema)
    if public and address.has_secret:
        raise Misconfigured(f"The address {address.name} holds a password, and whoever reads the file reads it. {_FIX}")
    return address


def load_driver() -> ModuleType:
    """psycopg, if it is installed."""
    try:
        import psycopg
    except ImportError:
        raise Misconfigured('PostgreSQL needs psycopg. Run: pip install "lapwing[postgres]"') from None
    return psycopg


def _hosts(places: str) -> tuple[str, str]:
    """Hosts and ports as libpq takes them: several, with commas between them."""
    found = [re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]*)(?::([0-9]*))?", place) for place in places.split(",")]
    read = [(match[1].strip("[]"), match[2] or "") for match in found if match is not None]
    if len(read) != len(found):
        raise Misconfigured(f"The port in the address of the PostgreSQL database is not a number. {_SHAPE}")
    ports = ",".join(port for _, port in read)
    return ",".join(host for host, _ in read), ports if ports.strip(",") else ""


def _place(host: str, port: str) -> str:
    shown = f"[{host}]" if ":" in host else quote(host, safe="")
    return f"{shown}:{port}" if port else shown
