"""Where a table's rows are, and how changes are detected."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lapwing.engines.engine import Origin
from lapwing.engines.files import digest_of
from lapwing.engines.spark_session import SparkAddress, is_spark_address, read_spark_address
from lapwing.errors import Misconfigured
from lapwing.postgres import PostgresAddress, is_postgres, read_address


@dataclass(frozen=True, slots=True)
class Parquet:
    """A Parquet file, read in place."""

    path: Path


@dataclass(frozen=True, slots=True)
class Csv:
    """A CSV file with a header. Columns are read as text and cast to their declared types."""

    path: Path


@dataclass(frozen=True, slots=True)
class DuckDBTable:
    """A table in a DuckDB file, opened read-only."""

    path: Path
    table: str


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """An Arrow table in memory."""

    data: Any
    numbers: frozenset[str] = frozenset()
    """Columns of numpy numbers: a missing value turns integers into floats."""
    is_pandas: bool = False
    mark: bytes = b""
    """A fingerprint of the data; none if they are made up."""


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A table or view of a PostgreSQL database."""

    address: PostgresAddress
    schema: str
    table: str


@dataclass(frozen=True, slots=True)
class SparkTable:
    """A table of Spark's catalog, or Parquet files at a path with a slash."""

    address: SparkAddress
    table: str


@dataclass(frozen=True, slots=True, eq=False)
class SparkFrame:
    """A DataFrame of Spark, in a session of the caller."""

    data: Any


FileSource = Parquet | Csv | DuckDBTable
LocalSource = FileSource | Frame
"""Rows that this process reads itself, by DuckDB."""

ServedSource = PostgresTable | SparkTable | SparkFrame
"""Rows that stay where they are."""

Source = LocalSource | ServedSource
"""Which engine reads it says engines/backends.py."""


def read_source(place: str, table: str | None = None, folder: Path | None = None, *, public: bool = False) -> Source:
    """The source with this address or path, from this folder on; `public` if others read the address too."""
    if is_postgres(place):
        return _postgres_table(read_address(place, public=public), table)
    if is_spark_address(place):
        return _spark_table(read_spark_address(place, public=public), table, folder)
    path = Path(place) if folder is None else folder / place
    return file_source(path, table)


_PART = r'([^".]+|"(?:[^"]|"")+")'


def _postgres_table(address: PostgresAddress, table: str | None) -> PostgresTable:
    found = None if table is None else re.fullmatch(rf"(?:{_PART}\.)?{_PART}", table)
    if found is None:
        raise Misconfigured(
            'say which table of the database: table = "visits", or table = "clinic.visits". A name that has a dot or a '
            "quote stands in double quotes: table = 'clinic.\"visits.2026\"'."
        )
    schema, name = (None if part is None else _unquoted(part) for part in found.groups())
    return PostgresTable(address, schema or address.schema or "public", str(name))


def _spark_table(address: SparkAddress, table: str | None, folder: Path | None) -> SparkTable:
    if table is None:
        raise Misconfigured(
            'say which table Spark reads: table = "clinic.visits", or a path, table = "s3a://data/visits".'
        )
    if address.is_local and "/" in table and "://" not in table:
        return SparkTable(address, str((folder or Path()).resolve() / table))
    return SparkTable(address, table)


def spark_frame(data: Any) -> SparkFrame | None:
    """The source of a DataFrame of Spark. pyspark is not imported for this."""
    kind = type(data)
    if kind.__module__.startswith("pyspark.pandas"):
        raise Misconfigured("this is a frame of pandas on Spark. Pass data.to_spark().")
    return SparkFrame(data) if kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame" else None


def _unquoted(part: str) -> str:
    """Names are written as they are stored; in double quotes they may hold a dot."""
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def file_source(path: Path, table: str | None = None) -> LocalSource:
    """The source for a file, by its extension."""
    match path.suffix.lower():
        case ".parquet" | ".pq":
            return Parquet(path)
        case ".csv" | ".tsv" | ".txt":
            return Csv(path)
        case ".duckdb" | ".db" | ".ddb":
            return DuckDBTable(path, table or path.stem)
        case other:
            raise Misconfigured(
                f"`{path.name or path}` has the unsupported extension `{other}`. Use a .parquet, .csv or .duckdb file."
            )


def check_names(names: Iterable[str]) -> None:
    """Refuses column names that SQL cannot express or distinguish: it ignores case."""
    seen: dict[str, str] = {}
    for name in names:
        if not name or any(c == "\0" or "\ud800" <= c <= "\udfff" for c in name):
            raise Misconfigured("a column name is empty or not text. Rename the column.")
        if name.lower() in seen:
            pair = f"`{seen[name.lower()]}` and `{name}`"
            raise Misconfigured(
                f"the columns {pair} have the same name in SQL, which ignores case. Rename one of them."
            )
        seen[name.lower()] = name


def origin_of(source: LocalSource) -> Origin:
    """Where the rows are, and what they look like now.

    Table names in a file are case-insensitive. Frames without a fingerprint are distinguished by object identity.
    """
    match source:
        case Frame(data=data, mark=mark):
            return Origin(mark, None, "" if mark else str(id(data)))
        case DuckDBTable(path=path, table=table):
            return Origin(fingerprint(source), str(path.resolve()), table.lower())
        case Parquet(path=path) | Csv(path=path):
            return Origin(fingerprint(source), str(path.resolve()))


def fingerprint(source: LocalSource) -> bytes:
    """A hash of the whole file, and of its write-ahead log if it has one."""
    match source:
        case Frame(mark=mark):
            return mark
        case Parquet(path=path) | Csv(path=path):
            return digest_of(path)
        case DuckDBTable(path=path):
            held = digest_of(path)
            log = path.resolve().with_name(f"{path.resolve().name}.wal")
            return held + (digest_of(log) if log.exists() else b"")
