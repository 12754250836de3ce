"""Connections to DuckDB, from 1.5 to 2.0: the versions that `make test-oldest` and `make test-newest` ask.

Another version is refused when this module is loaded, so before any charge: what a query means and what the lock of
the engine covers are known for these.
"""

from __future__ import annotations

import re
from typing import Any

import duckdb

from lapwing.errors import Misconfigured

LEAST, BEYOND = (1, 5), (2, 1)
LOCK = ("SET enable_external_access = false", "SET lock_configuration = true")
"""From then on no other file is read, no extension loaded and no setting changed."""


def check_version(version: str) -> None:
    """Refuses a version of DuckDB that is not tested."""
    found = tuple(map(int, re.findall(r"[0-9]+", version)[:2]))
    if not LEAST <= found < BEYOND:
        raise Misconfigured(
            f'duckdb is {version}; Lapwing works with 1.5 to 2.0. Install one: pip install "duckdb>=1.5,<2.1".'
        )


check_version(duckdb.__version__)
IS_FIRST = duckdb.__version__.startswith("1.")


def connect(**settings: str) -> duckdb.DuckDBPyConnection:
    """An empty engine. It resolves no table from Python variables, downloads no extension, and divides by 0 without
    an error."""
    alone: dict[str, Any] = {"python_enable_replacements": "false", "autoinstall_known_extensions": "false"}
    if not IS_FIRST:
        alone["error_on_division_by_zero"] = "false"
    return duckdb.connect(":memory:", config=alone | settings)


def run(connection: duckdb.DuckDBPyConnection, text: str) -> list[Any]:
    """All rows of a statement: DuckDB 2 does nothing else on a connection while a result is open."""
    return connection.execute(text).fetchall()
