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
_SHAPE = (
    "Write postgresql://USER@HOST:PORT/DATABASE. In a user, a password or a database, write the characters / @ : ? # % "
    "as %2F %40 %3A %3F %23 %25."
)


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database on a server. Its text and its repr have neither user nor password."""

    parameters: Mapping[str, str] = field(repr=False)
    """The parameters of libpq, with the password."""
    schema: str | None = None

    @property
    def name(self) -> str:
        """Hosts, ports and the database, for messages."""
        own = self.parameters
        if not own.get("host") and "service" in own:
            return f"postgresql:///?service={quote(own['service'])}"
        hosts, ports = own.get("host", "").split(","), own.get("port", "").split(",")
        ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
        names = [f"[{host}]" if ":" in host else quote(host, safe="") for host in hosts]
        servers = ",".join(f"{name}:{port}" if port else name for name, port in zip(names, ports, strict=True))
        schema = f"?schema={self.schema}" if self.schema else ""
        return f"postgresql://{servers}/{quote(own.get('dbname', ''))}{schema}"

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
    """The parts of an address; a password in one that others can read (`public`) is refused.

    No error quotes it: what cannot be parsed may be a password that was not encoded.
    """
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise Misconfigured(f"The address of the PostgreSQL database cannot be read. {_SHAPE}") from None
    user, _, servers = parts.netloc.rpartition("@")
    user, _, password = user.partition(":")
    database = parts.path.removeprefix("/")
    if not is_postgres(url) or parts.fragment or "@" in database or "/" in database or "\0" in unquote(url):
        raise Misconfigured(f"The address of the PostgreSQL database cannot be read. {_SHAPE}")
    schema = options.pop("schema", None)
    if schema is not None and not _SCHEMA.fullmatch(schema):
        raise Misconfigured(
            "`schema` must be at most 40 small letters, digits and _. Write for example schema=lapwing."
        )
    if schema is not None and schema.startswith(("pg_", "information_schema")):
        raise Misconfigured(f"The schema {schema} is PostgreSQL's own. Write for example schema=lapwing.")
    hosts, ports = _hosts(servers)
    written = {"user": user, "password": password, "host": hosts, "port": ports, "dbname": database}
    parameters = {name: unquote(text) for name, text in written.items() if text} | options
    address = PostgresAddress(MappingProxyType(parameters), schema)
    if public and address.has_secret:
        raise Misconfigured(
            f"The address {address.name} holds a password, which everyone who can read the file can see. Remove it, "
            "and give it to this process in another way: the environment variable PGPASSWORD, a line in ~/.pgpass, or "
            "a service file."
        )
    return address


def load_driver() -> ModuleType:
    """psycopg, if it is installed."""
    try:
        import psycopg
    except ImportError:
        raise Misconfigured('PostgreSQL needs psycopg. Run: pip install "lapwing[postgres]"') from None
    return psycopg


def _hosts(servers: str) -> tuple[str, str]:
    """Hosts and ports as libpq takes them: several, with commas between them."""
    matches = [re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]*)(?::([0-9]*))?", server) for server in servers.split(",")]
    pairs = [(match[1].strip("[]"), match[2] or "") for match in matches if match is not None]
    if len(pairs) != len(matches):
        raise Misconfigured(f"The port in the address of the PostgreSQL database is not a number. {_SHAPE}")
    ports = ",".join(port for _, port in pairs)
    return ",".join(host for host, _ in pairs), ports if ports.strip(",") else ""
