"""Where a table's rows are: only named files are read, and changed content is detected.

A folder, or a pattern with `*` that is no file's name, stands for the Parquet files in it when it is opened; they and a
list of files are one table. A part added later is not read until the table is opened again, and then it is other data.

Guarantee:  a changed byte is noticed when the file is opened and before every question, unless the system reports the
            same device, inode, size and times as before. A copy with the same bytes is the same data.
Proof:      the fingerprint is the SHA-256 of all bytes; of several files, that of their hashes in order, and of a CSV
            file with declared facts, that of its hash and them. It is computed once for each state that the system
            reports, of which the time of change (ctime) cannot be set by a program and also follows who may read the
            file; a state that began less than two seconds ago is not remembered, since a write in the same tick of the
            clock would not change it.
Checked by: tests/engines/test_files.py
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb

from lapwing.engines.connection import run
from lapwing.engines.engine import Origin
from lapwing.engines.spark_session import SparkAddress, is_spark_address, read_spark_address
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import nearest
from lapwing.postgres import PostgresAddress, is_postgres, read_address


@dataclass(frozen=True, slots=True)
class Parquet:
    """A Parquet file, read in place, or several: those of a folder or pattern, or of a list with this first path."""

    path: Path
    parts: tuple[Path, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        return self.parts or (self.path,)


@dataclass(frozen=True, slots=True)
class Csv:
    """A CSV file with a header. Columns are read as text and cast to their declared types. How it is written is
    declared, never found in rows; `null` is what means NULL besides the empty field."""

    path: Path
    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    quote: str = '"'
    null: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """What is declared of how it is written, beyond the defaults."""
        usual, own = asdict(file_source(self.path)), asdict(self)
        return {name: list(own[name]) if name == "null" else own[name] for name in _RULES if own[name] != usual[name]}


_ENCODINGS = ("utf-8", "latin-1", "iso-8859-15", "windows-1250", "windows-1252")
"""UTF-8, and some of one byte per character: ASCII keeps its bytes; a byte without a character begins none in UTF-8."""

_RULES = {
    "delimiter": (r"(?!['\"])[!-/:-@\[-`{-~ \x01-\x09]", 'one character, such as ";"'),
    "encoding": ("|".join(_ENCODINGS), f"one of {', '.join(_ENCODINGS)}"),
    "decimal": ("[.,]", '"." or ","'),
    "quote": ("[\"']?", """'"' or "'", or "" if nothing is quoted"""),
    "null": (r"(?s).*", 'a list of texts, such as ["NA"]'),
}


def declare_csv(source: Source, given: object) -> Csv:
    """The source with what is declared of how its file is written."""
    if not (isinstance(source, Csv) and isinstance(given, Mapping)):
        raise Misconfigured('`csv` says how a CSV file is written: csv = { delimiter = ";", decimal = "," }.')
    for name, value in given.items():
        if name not in _RULES:
            raise Misconfigured(f"`csv` has no `{name}`. {nearest(str(name), _RULES)}")
        texts = value if name == "null" else [value]
        rule, words = _RULES[name]
        if not isinstance(texts, list | tuple) or not all(isinstance(t, str) and re.fullmatch(rule, t) for t in texts):
            raise Misconfigured(f"`{name}` of `csv` must be {words}.")
    return replace(source, **{**given, "null": tuple(given.get("null", ()))})


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


def schema_of(source: Source) -> str | None:
    """The schema that may stand before the name of its table in questions."""
    return source.schema if isinstance(source, PostgresTable) else None


def read_source(
    place: str | Sequence[str | Path], table: str | None = None, folder: Path = Path(), *, public: bool = False
) -> Source:
    """The source with this address or path, or these, from this folder on; `public` if others read the address too."""
    if not isinstance(place, str):
        return _parts(folder / (*place, "")[0], [folder / part for part in place])
    if is_postgres(place):
        return _postgres_table(read_address(place, public=public), table)
    if is_spark_address(place):
        return _spark_table(read_spark_address(place, public=public), table, folder)
    path = folder / place
    if os.path.isdir(path) or ("*" in path.name and _ending(path) in _PARQUET and not os.path.exists(path)):
        return _parts(Path(os.path.abspath(path)), None)
    return file_source(path, table)


_PARQUET = (".parquet", ".pq")


def _parts(path: Path, parts: Sequence[Path] | None) -> Parquet:
    """These files, or those in a folder or of a pattern, in order; only `*` is special. Spark's marks are no parts."""
    folder, pattern = (path, "*") if path.is_dir() else (path.parent, path.name)
    if parts is None:
        matching = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
        found = sorted(folder.iterdir()) if folder.is_dir() else []
        parts = [p for p in found if matching.fullmatch(p.name) and _ending(p) in _PARQUET and p.name[0] not in "._"]
        if (folder / "_delta_log").exists():
            raise Misconfigured(f"`{folder.name}` is a Delta table, with deleted rows in it. Write it to one file.")
    if not parts or any(_ending(part) not in _PARQUET for part in parts):
        raise Misconfigured(f"`{path.name}` names no .parquet file, or others too. Only Parquet files are one table.")
    return Parquet(path, tuple(parts))


def title_of(source: FileSource) -> str:
    """The name of a table without a declared one: that of its file or folder."""
    starred = isinstance(source, Parquet) and source.parts and "*" in source.path.name
    path = source.path.parent if starred else source.path
    return Path(path.stem).stem if path.suffix.lower() in COMPRESSED else path.stem


_PART = r'([^".]+|"(?:[^"]|"")+")'


def _postgres_table(address: PostgresAddress, table: str | None) -> PostgresTable:
    parts = None if table is None else re.fullmatch(rf"(?:{_PART}\.)?{_PART}", table)
    if parts is None:
        raise Misconfigured(
            'say which table of the database: table = "visits", or table = "clinic.visits". Put a name that has a dot '
            "or a quote in double quotes: table = 'clinic.\"visits.2026\"'."
        )
    schema, name = (part and re.sub(r'(?s)^"(.*)"$', r"\1", part).replace('""', '"') for part in parts.groups())
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


def file_source(path: Path, table: str | None = None) -> LocalSource:
    """The source for a file, by its extension."""
    match _ending(path):
        case ".csv" | ".tsv" | ".txt":
            return Csv(path, "\t" if _ending(path) == ".tsv" else ",")
        case ".parquet" | ".pq":
            return Parquet(path)
        case ".duckdb" | ".db" | ".ddb":
            return DuckDBTable(path, table or path.stem)
        case ".xlsx" | ".xls" | ".ods" | ".json" | ".jsonl" | ".ndjson" as other:
            reader = "json" if "json" in other else "excel"
            lines = ", lines=True" * (other in (".jsonl", ".ndjson"))
            raise Misconfigured(
                f"`{path.name}` is for pandas. Open its frame, lw.open(frame, ...), or the file of the last line:\n"
                f"frame = pandas.read_{reader}({str(path)!r}{lines})\n"
                f"frame.to_parquet({str(path.with_suffix('.parquet'))!r})"
            )
        case "":
            raise Misconfigured(
                f"`{path.name or path}` is no folder here, and has no extension. Use a folder of Parquet files, or a "
                ".parquet, .csv or .duckdb file."
            )
        case other:
            raise Misconfigured(
                f"`{path.name or path}` has the unsupported extension `{other}`. Use a .parquet, .csv or .duckdb file."
            )


COMPRESSED = {".gz": "gzip", ".zst": "zstd"}


def _ending(path: Path) -> str:
    """The extension, without that of a compressed CSV file."""
    inner = Path(path.stem).suffix.lower() if path.suffix.lower() in COMPRESSED else ""
    return inner if inner in (".csv", ".tsv", ".txt") else path.suffix.lower()


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
    """Where the rows are, and what they look like now. Table names in a file are case-insensitive. Frames without a
    fingerprint are distinguished by object identity."""
    match source:
        case Frame(data=data, mark=mark):
            return Origin(mark, None, "" if mark else str(id(data)))
        case DuckDBTable(path=path, table=table):
            return Origin(fingerprint(source), str(path.resolve()), table.lower())
        case Parquet(path=path) | Csv(path=path):
            facts = source.facts if isinstance(source, Csv) else {}
            parts = source.parts if isinstance(source, Parquet) else (path,) * bool(facts)
            files = tuple((digest_of(part), str(part.resolve())) for part in parts)
            return Origin(fingerprint(source), str(path.resolve()), files=files, csv=facts)


def fingerprint(source: LocalSource) -> bytes:
    """A hash of all bytes of the files, and of a database's write-ahead log; and of how a CSV file is read."""
    match source:
        case Frame(mark=mark):
            return mark
        case Parquet(parts=parts) if parts:
            return hashlib.sha256(b"".join(map(digest_of, parts))).digest()
        case Csv(path=path, facts=facts) if facts:
            return hashlib.sha256(digest_of(path) + repr(facts).encode()).digest()
        case Parquet(path=path) | Csv(path=path):
            return digest_of(path)
        case DuckDBTable(path=path):
            digest = digest_of(path)  # first, since it refuses a path that cannot be resolved
            log = path.resolve().with_name(f"{path.resolve().name}.wal")
            return digest + (digest_of(log) if log.exists() else b"")


_TICK = 2_000_000_000
"""Nanoseconds; no file system has coarser timestamps."""

_State = tuple[int, int, int, int, int]


def check_file(path: Path) -> None:
    """Refuses anything but a readable regular file: opening a pipe could block forever."""
    name = path.name.encode(errors="replace").decode()
    try:
        mode = path.stat().st_mode
        readable = not stat.S_ISREG(mode) or os.access(path, os.R_OK)
        str(path.resolve()).encode()
    except (OSError, ValueError):  # ValueError: a null byte, or bytes that are not UTF-8
        readable, mode = False, 0
    if not readable:
        raise Misconfigured(f"`{name}` cannot be opened. Check the path and the permissions.")
    if stat.S_ISDIR(mode):
        raise Misconfigured(f"`{name}` is a folder. Pass one file.")
    if not stat.S_ISREG(mode):
        raise Misconfigured(f"`{name}` is a pipe or a device. Write the rows to a file and pass that.")


def pattern_of(path: Path, connection: duckdb.DuckDBPyConnection) -> str:
    """A glob pattern that matches only this file: the engine treats every file name as a pattern. Its matches are
    compared with the name, so nothing depends on knowing all its special characters."""
    check_file(path)
    whole = str(path.resolve())
    pattern = re.sub(r"[*?\[]", r"[\g<0>]", whole)
    quoted = pattern.replace("'", "''")  # a query parameter would make the engine load pandas
    if run(connection, f"SELECT file FROM glob('{quoted}')") != [(whole,)]:
        raise Misconfigured(
            f"the engine cannot read a file named `{path.name}`. Rename it, with letters and digits only."
        )
    return pattern


def digest_of(path: Path) -> bytes:
    """The SHA-256 of a file's content."""
    try:
        state = _state(path.stat())
    except (OSError, ValueError):
        check_file(path)
        raise Misconfigured(f"`{path.name}` changed while being read. Try again when the write has finished.") from None
    stable = time.time_ns() - state[-1] > _TICK
    return _remembered(path, state) if stable else _digest(path, state)


def _digest(path: Path, state: _State) -> bytes:
    check_file(path)  # its kind and who may read it are part of its state
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        if _state(os.fstat(file.fileno())) != state:
            raise Misconfigured(f"`{path.name}` changed while being read. Try again when the write has finished.")
    return digest


_remembered = lru_cache(maxsize=4096)(_digest)


def _state(status: os.stat_result) -> _State:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
