"""Where a table's rows are, and how to notice that they changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from lapwing.errors import Misconfigured


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
    """Columns whose stored type says nothing: a missing value makes floats of the integers of a pandas column."""
    mark: bytes = b"memory"
    """What the data look like, for a ledger that outlives them."""


Source = Parquet | Csv | DuckDBTable | Frame


def file_source(path: Path, table: str | None = None) -> Source:
    """The source for a file, by its ending."""
    match path.suffix.lower():
        case ".parquet" | ".pq":
            return Parquet(path)
        case ".csv" | ".tsv" | ".txt":
            return Csv(path)
        case ".duckdb" | ".db" | ".ddb":
            return DuckDBTable(path, table or path.stem)
        case other:
            raise Misconfigured(f"`{path.name}` ends in `{other}`; known are .parquet, .csv and .duckdb files.")


def frame_source(data: Any) -> Frame:
    """The source for a pandas, polars or Arrow frame."""
    import pyarrow as pa

    try:
        if isinstance(data, pa.Table):
            return Frame(_typed(data))
        if type(data).__module__.partition(".")[0] == "pandas":
            return Frame(_typed(pa.Table.from_pandas(_with_texts(data), preserve_index=False)), _numbers(data))
        if hasattr(data, "__arrow_c_stream__"):
            return Frame(_typed(pa.table(data)))
        problem = "the data are of an unknown kind; pass a path, or a pandas, polars or Arrow frame."
    except pa.ArrowException:
        problem = "a column of the frame mixes types. Convert it to one type first."
    raise Misconfigured(problem)  # outside the handler: Arrow's own message quotes a value


def marked(frame: Frame) -> Frame:
    """The frame with a mark of its content."""
    import pyarrow as pa

    digest = blake2b(digest_size=16)
    with pa.ipc.new_stream(pa.PythonFile(_Sink(digest), mode="w"), frame.data.schema) as stream:
        stream.write_table(frame.data)
    return replace(frame, mark=digest.digest())


class _Sink:
    """A file that only digests what is written to it."""

    closed = False

    def __init__(self, digest: Any) -> None:
        self.digest = digest

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""


def _with_texts(data: Any) -> Any:
    """Columns of Python objects as texts: what they hold must not decide their type. A missing value makes objects of
    truth values, so these are texts as well."""
    names = [name for name, kind in data.dtypes.items() if isinstance(kind, np.dtype) and kind.kind in "Ob"]
    return data.assign(**{name: data[name].map(_text, na_action="ignore") for name in names}) if names else data


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _numbers(data: Any) -> frozenset[str]:
    """Columns of numpy numbers; the types of other columns do not change with a missing value."""
    kinds = ((str(name), kind) for name, kind in data.dtypes.items())
    return frozenset(name for name, kind in kinds if isinstance(kind, np.dtype) and kind.kind in "iuf")


def _typed(table: Any) -> Any:
    """The table with columns that hold nothing but NULL as text, so that they have a type like any other."""
    import pyarrow as pa

    fields = [pa.field(f.name, pa.string()) if pa.types.is_null(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def fingerprint(source: Source) -> bytes:
    """What a file looks like from outside: its size and the time it was last written."""
    match source:
        case Frame(mark=mark):
            return mark
        case Parquet() | Csv() | DuckDBTable():
            try:
                status = source.path.stat()
            except OSError:
                raise Misconfigured(f"`{source.path}` cannot be read. Check the path and its rights.") from None
            return f"{status.st_size}:{status.st_mtime_ns}".encode()
