"""CSV files, line by line, so that no row can affect another.

The rules are fixed, and nothing is inferred from rows: the first line names the columns; one line is one row; fields
are separated by a comma (a tab in .tsv files) and may be quoted by double quotes. Every column is text, an empty field
is NULL. A malformed line affects only itself: missing fields are NULL; a line with too many fields, a broken
quotation or bytes that are not UTF-8 is dropped.

Guarantee:  each row is a function of its own line. Lines are never joined, so a text with line breaks would be several
            rows, and several units where every row is one: a file with an odd number of quotes in any line is refused.
Proof:      blocks end at line ends, and every line has an even number of quotes, so outside and inside of quotes are
            determined by the quotes of the same line. A line goes to Arrow's reader only if its quotes open and close
            whole fields and its delimiters outside of quotes are counted; there Arrow and `_fields` agree. All others
            are read by `_fields`, one at a time.
Checked by: tests/engines/test_csv_rows.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from lapwing.engines.source import check_file
from lapwing.errors import Misconfigured

_LONGEST_HEADER = 1 << 20  # bytes
_LONGEST_LINE = 1 << 26  # bytes
_BLOCK = 1 << 21  # bytes, so that its masks stay in the processor's cache
_TOGETHER = 1 << 25  # bytes, so that the engine gets several of its own row groups at once
_NEWLINE, _RETURN, _QUOTE = b'\n\r"'
_BOM = b"\xef\xbb\xbf"

_Bytes = npt.NDArray[np.uint8]
_Places = npt.NDArray[np.intp]
_Lines = npt.NDArray[np.bool_]


def read_csv_rows(path: Path, block: int = _BLOCK) -> Iterator[pa.Table]:
    """The rows of a CSV file as Arrow tables of texts. Their order is not kept."""
    schema, delimiter = csv_schema(path), _delimiter(path)
    tables, held = [schema.empty_table()], 0
    for part in _blocks(path, block):
        tables += _Block(part, path.name, delimiter).tables(schema)
        held += len(part)
        if held >= _TOGETHER:
            yield pa.concat_tables(tables)
            tables, held = [schema.empty_table()], 0
    yield pa.concat_tables(tables)


def drops_rows(path: Path) -> bool:
    """True if any line is dropped. For the steward only: it depends on the rows."""
    schema, delimiter = csv_schema(path), _delimiter(path)
    blocks = (_Block(part, path.name, delimiter) for part in _blocks(path, _BLOCK))
    return any(sum(table.num_rows for table in block.tables(schema)) < block.filled.sum() for block in blocks)


def csv_schema(path: Path) -> pa.Schema:
    """The columns that the first line names, all of them text. A carriage return inside is refused: in a file whose
    lines end with those alone, every row would be part of a name."""
    check_file(path)
    with path.open("rb") as file:
        first = file.readline(_LONGEST_HEADER)
    line = first.removeprefix(_BOM).rstrip(b"\r\n")
    names = _fields(line, _delimiter(path)) if len(first) < _LONGEST_HEADER else None
    if (
        not names
        or b"\0" in line
        or b"\r" in line
        or len({name.lower() for name in names}) != len(names)
        or not all(names)
    ):
        raise Misconfigured(
            f"`{path.name}`: the first line must name every column, separated by commas (in .tsv files by tabs), each "
            "name once, in UTF-8; case is ignored. Fix the first line."
        )
    return pa.schema([(name, pa.string()) for name in names])


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    """Whole lines after the first, about this many bytes at a time."""
    with path.open("rb") as file:
        file.readline(_LONGEST_HEADER)
        rest = b""
        while read := file.read(size):
            cut = read.rfind(b"\n") + 1
            if cut:
                yield rest + read[:cut]
                rest = b""
            rest += read[cut:]
            if len(rest) > _LONGEST_LINE:
                raise Misconfigured(
                    f"`{path.name}`: a line is longer than {_LONGEST_LINE >> 20} MiB. Save the table as Parquet."
                )
        if rest:
            yield rest + b"\n"


class _Block:
    """Some lines, each with the newline that ends it."""

    def __init__(self, text: bytes, name: str, delimiter: str) -> None:
        self.text, self.delimiter = text, delimiter
        self.data: _Bytes = np.frombuffer(text, np.uint8)
        self.quotes = self._places(_QUOTE)
        self.ends, self.cuts = self._split(name)
        self.starts: _Places = np.concatenate(([0], self.ends[:-1] + 1)).astype(np.intp)

    def tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Parses lines with the same number of fields together, with the fast reader, and the others one by one."""
        odd, fits = self._odd(), self.filled & (self.cuts < len(schema))
        if not odd.any() and fits.all() and (self.cuts == len(schema) - 1).all():
            yield self._parse(self.text, schema, len(schema))
            return
        for cuts in np.unique(self.cuts[fits & ~odd]):
            lines = np.repeat(fits & ~odd & (self.cuts == cuts), self.ends + 1 - self.starts)
            yield self._parse(self.data[lines].tobytes(), schema, int(cuts) + 1)
        if odd.any():
            yield self._one_by_one(odd, schema)

    def _places(self, byte: int) -> _Places:
        return np.flatnonzero(self.data == byte) if byte in self.text else np.zeros(0, np.intp)

    def _split(self, name: str) -> tuple[_Places, _Places]:
        """Where lines end, and how many delimiters outside quotes each has."""
        newlines, marks = self.data == _NEWLINE, self.data == ord(self.delimiter)
        if self.quotes.size:
            inside = _inside(self.data == _QUOTE)
            if (newlines & inside).any():
                raise Misconfigured(
                    f"`{name}`: a line has an odd number of quotes, as text with line breaks does. Lines are never "
                    "joined, because one row must not affect another. Save the table as Parquet."
                )
            marks &= ~inside
        places = np.flatnonzero(marks | newlines)
        last = np.flatnonzero(self.data[places] == _NEWLINE)
        return places[last], np.diff(last, prepend=-1) - 1

    @property
    def filled(self) -> _Lines:
        length = self.ends - self.starts
        return np.asarray((length > 1) | ((length == 1) & (self.data[self.starts] != _RETURN)))

    def _odd(self) -> _Lines:
        """Lines the fast reader might parse differently: stray carriage returns, invalid bytes, unusual quoting."""
        returns, zeros = self._places(_RETURN), self._places(0)
        places = [returns[self.data[returns + 1] != _NEWLINE], zeros, *self._loose_quotes()]
        odd = np.zeros(len(self.ends), np.bool_)
        odd[np.searchsorted(self.ends, np.concatenate(places))] = True
        if not self.text.isascii() and _decode(self.text) is None:
            odd[np.searchsorted(self.ends, np.flatnonzero(self.data >= 0x80))] = True
        return odd

    def _loose_quotes(self) -> tuple[_Places, _Places]:
        """Quotes that open other than at the start of a field, and those that close other than at its end. Inside
        quotes, two quotes mean one; each is then next to the other."""
        opening, closing = self.quotes[::2], self.quotes[1::2]
        before = np.where(opening > 0, self.data[opening - 1], _NEWLINE)
        after = self.data[closing + 1]
        around = [_NEWLINE, ord(self.delimiter), _QUOTE]
        return opening[~np.isin(before, around)], closing[~np.isin(after, [*around, _RETURN])]

    def _parse(self, text: bytes, schema: pa.Schema, width: int) -> pa.Table:
        """Lines with `width` fields; missing ones are NULL. A leading empty line, which is skipped, keeps Arrow from
        taking the first bytes of a row for a byte order mark."""
        names, size = schema.names[:width], len(text) + 1
        table = csv.read_csv(
            pa.BufferReader(b"\n" + text if text.startswith(_BOM) else text),
            read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=size),
            parse_options=csv.ParseOptions(delimiter=self.delimiter),
            convert_options=csv.ConvertOptions(column_types=schema, null_values=[""], strings_can_be_null=True),
        )
        missing = [pa.nulls(table.num_rows, pa.string())] * (len(schema) - width)
        return pa.Table.from_arrays([*table.columns, *missing], schema=schema)

    def _one_by_one(self, lines: _Lines, schema: pa.Schema) -> pa.Table:
        width, rows = len(schema), []
        for start, end in zip(self.starts[lines], self.ends[lines], strict=True):
            fields = _fields(self.text[start:end].rstrip(b"\r"), self.delimiter)
            if fields is not None and len(fields) <= width:
                rows.append([field or None for field in fields] + [None] * (width - len(fields)))
        columns = zip(*rows, strict=True) if rows else ((),) * width
        return pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], schema=schema)


_FIELDS = {mark: re.compile(rf'(?:"([^"]*(?:""[^"]*)*)"|([^{mark}"][^{mark}]*)?)({mark}|\Z)') for mark in (",", "\t")}


def _fields(line: bytes, delimiter: str) -> list[str] | None:
    """The fields of one line, or None if it is dropped. A quote in an unquoted field is text."""
    text = _decode(line)
    fields: list[str] = []
    end = 0
    while text and (field := _FIELDS[delimiter].match(text, end)):
        fields.append(field[2] or (field[1] or "").replace('""', '"'))
        if not field[3]:
            return fields
        end = field.end()
    return None


def _inside(quotes: _Lines) -> _Lines:
    """For each position, whether the number of quotes so far is odd: the prefix XOR of all bits, in 64-bit words."""
    bits = np.packbits(quotes, bitorder="little")
    words = np.pad(bits, (0, -len(bits) % 8)).view("<u8")
    for shift in (1, 2, 4, 8, 16, 32):
        words = words ^ (words << np.uint64(shift))
    carried = np.bitwise_xor.accumulate(words >> np.uint64(63))
    words[1:] ^= np.uint64(0) - carried[:-1]
    return np.unpackbits(words.view(np.uint8), count=len(quotes), bitorder="little").view(np.bool_)


def _decode(line: bytes) -> str | None:
    with suppress(UnicodeDecodeError):
        return line.decode()
    return None


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","
