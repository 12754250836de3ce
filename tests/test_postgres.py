"""Addresses of PostgreSQL databases: what is understood, what is refused, and that a password is never shown."""

from __future__ import annotations

from typing import Any

import pytest

from lapwing.errors import Misconfigured
from lapwing.postgres import is_postgres, read_address


@pytest.mark.parametrize(
    ("url", "parameters", "name"),
    [
        ("postgresql://db/health", {"host": "db", "dbname": "health"}, "postgresql://db/health"),
        ("postgres://db:5433/h", {"host": "db", "port": "5433", "dbname": "h"}, "postgresql://db:5433/h"),
        ("postgresql:///h", {"dbname": "h"}, "postgresql:///h"),
        ("postgresql://", {}, "postgresql:///"),
        (
            "postgresql://ann:s%2Fe%40c@db/h",
            {"user": "ann", "password": "s/e@c", "host": "db", "dbname": "h"},
            "postgresql://db/h",
        ),
        (
            "postgresql://one:1,two:2/h?target_session_attrs=read-write",
            {"host": "one,two", "port": "1,2", "dbname": "h", "target_session_attrs": "read-write"},
            "postgresql://one:1,two:2/h",
        ),
        ("postgresql://[::1]:5432/h", {"host": "::1", "port": "5432", "dbname": "h"}, "postgresql://[::1]:5432/h"),
        ("postgresql://%2Ftmp/h", {"host": "/tmp", "dbname": "h"}, "postgresql://%2Ftmp/h"),
        ("postgresql:///?service=prod", {"service": "prod"}, "postgresql:///?service=prod"),
        ("postgresql://ann@db/h?password=word", {"user": "ann", "host": "db", "dbname": "h", "password": "word"}, None),
    ],
)
def test_an_address_is_understood(url: str, parameters: dict[str, str], name: str | None) -> None:
    address = read_address(url)
    assert dict(address.parameters) == parameters
    assert address.schema is None
    assert name is None or address.name == str(address) == name


def test_a_schema_is_ours() -> None:
    address = read_address("postgresql://db/h?sslmode=require&schema=trial_2")
    assert (address.schema, address.parameters["sslmode"]) == ("trial_2", "require")
    assert "schema" not in address.parameters
    assert address.name == "postgresql://db/h?schema=trial_2"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@db:5432x/h",
        "postgresql://ann:hunt/er2@db/h",
        "postgresql://ann:hunt#er2@db/h",
        "postgresql://ann:hunter2@db/h/more",
        "postgresql://ann:hunter2@db/h?schema=Ann's",
        "postgresql://ann:hunter2@db/h?sslmode",
        "postgresql://ann:hunter2@[::1/h",
        "postgresql://ann:hunter2%00@db/h",
    ],
)
def test_what_cannot_be_read_is_refused_and_not_quoted(url: str) -> None:
    """threat:A13."""
    with pytest.raises(Misconfigured) as caught:
        read_address(url)
    assert "hunt" not in str(caught.value)
    assert "Write " in str(caught.value)


@pytest.mark.parametrize("url", ["postgresql://ann:hunter2@db/h", "postgresql://ann@db/h?password=hunter2"])
def test_a_password_in_a_file_is_refused_with_the_fix(url: str) -> None:
    """threat:A13."""
    with pytest.raises(Misconfigured, match=r"postgresql://db/h holds a password.*PGPASSWORD.*pgpass") as caught:
        read_address(url, public=True)
    assert "hunter2" not in str(caught.value)
    address = read_address(url)
    assert address.parameters["password"] == "hunter2"
    assert "hunter2" not in f"{address} {address!r} {address.name}"


@pytest.mark.parametrize(
    ("place", "answer"),
    [
        ("postgresql://db/h", True),
        ("POSTGRES://db", True),
        ("ledger.db", False),
        (None, False),
        ("postgresql:/x", False),
    ],
)
def test_an_address_is_told_from_a_path(place: Any, answer: bool) -> None:
    assert is_postgres(place) is answer
