"""CSV files, line by line, so that no row can touch another one.

The rules are fixed and nothing is inferred from the rows: the first line names the columns; one line is one row; fields
are separated by a comma (a tab in .tsv files) and may be quoted by double quotes. Every column is text, an empty field
is NULL. A line that does not fit concerns only itself: missing fields are NULL; a line with too many fields, an open
quote or bytes that are not UTF-8 is dropped. So a quoted line break is not read: its two halves are two lines.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as csv_reader

from lapwing.errors import Misconfigured

_LONGEST_HEADER = 1 << 20  # bytes
_CHUNK = 200_000  # lines
_SPECIAL = re.compile(rb'["\r\x00\x80-\xff]')  # quotes, stray line ends, and what may not be UTF-8


def read_lines(path: Path) -> Any:
    """The rows of a CSV file as an Arrow table of texts. Their order is not kept."""
    names, delimiter = column_names(path), _delimiter(path)
    schema = pa.schema([(name, pa.string()) for name in names])
    tables = [table for part in _parts(path) for table in _tables(part, schema, delimiter)]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _tables(lines: list[bytes], schema: Any, delimiter: str) -> Iterator[Any]:
    """Plain lines by the fast reader, all others one by one; both follow the same rules."""
    mark, cuts = delimiter.encode(), len(schema) - 1
    stripped = [line.rstrip(b"\r\n") for line in lines]
    plain = [line for line in stripped if line.count(mark) == cuts and line and not _SPECIAL.search(line)]
    rest = [line for line in stripped if line.count(mark) != cuts or not line or _SPECIAL.search(line)]
    if plain:
        yield csv_reader.read_csv(
            BytesIO(b"\n".join(plain)),
            read_options=csv_reader.ReadOptions(column_names=schema.names, use_threads=False),
            parse_options=csv_reader.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=False),
            convert_options=csv_reader.ConvertOptions(column_types=schema, null_values=[""], strings_can_be_null=True),
        )
    if rest:
        yield pa.table(_columns(rest, len(schema), delimiter), schema=schema)


def column_names(path: Path) -> list[str]:
    """The names in the first line."""
    names: list[str] | None
    try:
        with path.open("rb") as file:
            first = file.readline(_LONGEST_HEADER).decode("utf-8-sig")
        names = next(csv.reader([first.rstrip("\r\n")], delimiter=_delimiter(path), strict=True), [])
    except OSError:
        names = None
    except (UnicodeDecodeError, csv.Error):
        names = []
    if names is None:
        raise Misconfigured(f"`{path.name}` cannot be opened. Check path and rights.")
    if not names or len({name.lower() for name in names}) != len(names) or not all(names):
        raise Misconfigured(f"`{path.name}`: the first line must name every column, each once, separated by commas.")
    return names


def _parts(path: Path) -> Iterator[list[bytes]]:
    """The lines after the first, so many at a time."""
    with path.open("rb") as file:
        file.readline(_LONGEST_HEADER)
        part: list[bytes] = []
        for line in file:
            part.append(line)
            if len(part) == _CHUNK:
                yield part
                part = []
        yield part


def _columns(lines: list[bytes], width: int, delimiter: str) -> list[Any]:
    rows = [row for row in (_fields(line, width, delimiter) for line in lines) if row is not None]
    columns = zip(*rows, strict=True) if rows else ((),) * width
    return [pa.array([field or None for field in column], pa.string()) for column in columns]


def _fields(line: bytes, width: int, delimiter: str) -> list[str] | None:
    """The fields of one line, or None if it is dropped."""
    try:
        text = line.decode()
        fields = (
            next(csv.reader([text], delimiter=delimiter, strict=True), []) if '"' in text else text.split(delimiter)
        )
    except (UnicodeDecodeError, csv.Error):
        return None
    if len(fields) > width or not text:
        return None
    return fields + [""] * (width - len(fields))


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","
