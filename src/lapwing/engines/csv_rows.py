"""CSV files, line by line, so that no row can affect another.

Nothing is inferred from rows. The first line names the columns, all of them text; one line is one row. Fields are
separated by a comma (a tab in .tsv files) and may be quoted by double quotes, or as declared; an empty field, or what
is declared to mean it, is NULL. A malformed line affects only itself: missing fields are NULL; a line with too many
fields, a broken quotation or bytes that are no text in UTF-8, or the declared encoding, is dropped.

Guarantee:  each row is a function of its own line and of what is declared. Lines are never joined, so a text with line
            breaks would be several rows, and several units where every row is one: a file with an odd number of quotes
            in any line is refused.
Proof:      blocks end at line ends, and every line has an even number of quotes, so outside and inside of quotes are
            determined by the quotes of the same line. A line goes to Arrow's reader only if its quotes open and close
            whole fields and its delimiters outside of quotes are counted; there Arrow and `_fields` agree. All others
            are read by `_fields`, one at a time. Declared encodings read each byte by itself and ASCII as it is, and a
            byte without a character stays, which is not UTF-8 behind any text: so a line in UTF-8 follows from itself.
Checked by: tests/engines/test_csv_rows.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from io import BufferedReader
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from lapwing.engines.source import COMPRESSED, Csv, check_file
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import hide_errors

_LONGEST_HEADER = 1 << 20  # bytes
_LONGEST_LINE = 1 << 26  # bytes
_BLOCK = 1 << 21  # bytes, so that its masks stay in the processor's cache
_TOGETHER = 1 << 25  # bytes, so that the engine gets several of its own row groups at once
_NEWLINE, _RETURN = b"\n\r"
_BOM = b"\xef\xbb\xbf"

_Bytes = npt.NDArray[np.uint8]
_Places = npt.NDArray[np.intp]
_Lines = npt.NDArray[np.bool_]


def read_csv_rows(source: Csv, block: int = _BLOCK) -> Iterator[pa.Table]:
    """The rows of a CSV file as Arrow tables of texts. Their order is not kept."""
    schema = csv_schema(source)
    tables, held = [schema.empty_table()], 0
    for part in _blocks(source, block):
        tables += _Block(part, source).tables(schema)
        held += len(part)
        if held >= _TOGETHER:
            yield pa.concat_tables(tables)
            tables, held = [schema.empty_table()], 0
    yield pa.concat_tables(tables)


def drops_rows(source: Csv) -> bool:
    """True if any line is dropped. For the steward only: it depends on the rows."""
    return any(kept < lines for kept, lines in _kept(source))


def dropped_rows(source: Csv) -> tuple[int, int]:
    """How many lines are dropped, and how many there are. For the steward only, too."""
    counts = list(_kept(source))
    lines = sum(lines for _, lines in counts)
    return lines - sum(kept for kept, _ in counts), lines


def _kept(source: Csv) -> Iterator[tuple[int, int]]:
    """How many lines of each block are rows, and how many it has."""
    schema = csv_schema(source)
    for part in _blocks(source, _BLOCK):
        block = _Block(part, source)
        yield sum(table.num_rows for table in block.tables(schema)), int(block.filled.sum())


def csv_schema(source: Csv) -> pa.Schema:
    """The columns that the first line names, all of them text. No message quotes it: without a header it is a row."""
    first = _first_line(source.path)
    line = _utf8(first.removeprefix(_BOM).rstrip(b"\r\n"), source)
    names = _fields(line, source) or []
    if fault := _header_fault(first, line, names, source):
        raise Misconfigured(f"`{source.path.name}`: the first line must name every column, but {fault}")
    return pa.schema([(name, pa.string()) for name in names])


def _header_fault(first: bytes, line: bytes, names: list[str], source: Csv) -> str:
    """What is wrong with the first line, and what to do; nothing if it names columns."""
    lower, encoding = [name.lower() for name in names], source.encoding
    twice = next((n for n, name in enumerate(lower) if name in lower[:n]), 0)
    bad_text = _decode(line) is None or (first.startswith(_BOM) and encoding != "utf-8")
    bad_end = len(first) >= _LONGEST_HEADER or b"\0" in line or b"\r" in line  # all rows, where lines end with \r
    other = find_facts(source).delimiter if len(names) == 1 and not source.facts else source.delimiter
    faults = {
        "the file is empty. Write them there.": not first,
        "the file is in UTF-16. Save it as UTF-8.": first.startswith((b"\xff\xfe", b"\xfe\xff")),
        f'it is not in {encoding}. Save it as UTF-8, or declare csv = {{ encoding = "windows-1252" }}.': bad_text,
        "it is blank, too long, or a quote or line in it does not end. Correct it.": bad_end or not names,
        "a column has no name. Write one.": not all(names),
        f"column {twice + 1} has the name of another; case is ignored. Rename it.": twice > 0,
        f"it has another delimiter. Declare csv = {{ delimiter = {json.dumps(other)} }}.": other != source.delimiter,
    }
    return next((fault for fault, holds in faults.items() if holds), "")


def find_facts(source: Csv) -> Csv:
    """The source with delimiter and encoding as the byte-order mark and the first line suggest, and no row."""
    first = _first_line(source.path)
    outside = re.sub(rb'"[^"]*"', b"", first)
    delimiter = max((source.delimiter, *",;\t|"), key=lambda mark: outside.count(mark.encode()))
    encoding = "utf-8" if first.startswith(_BOM) or _decode(first) is not None else "windows-1252"
    return replace(source, delimiter=delimiter, encoding=encoding)


def _first_line(path: Path) -> bytes:
    with _open(path) as file:
        return file.readline(_LONGEST_HEADER)


@contextmanager
def _open(path: Path) -> Iterator[BufferedReader]:
    """The file; .gz and .zst are decompressed."""
    check_file(path)
    message = f"`{path.name}` is damaged or incomplete. Write it again."
    packing = COMPRESSED.get(path.suffix.lower())
    with hide_errors(OSError, lambda _: message), BufferedReader(pa.input_stream(str(path), packing)) as file:
        yield file


def _utf8(text: bytes, source: Csv) -> bytes:
    """Lines in UTF-8, except for bytes that are no character in the declared encoding."""
    encoding = source.encoding
    return text if encoding == "utf-8" else text.decode(encoding, "surrogateescape").encode("utf-8", "surrogateescape")


def _blocks(source: Csv, size: int) -> Iterator[bytes]:
    """Whole lines after the first, about this many bytes at a time, in UTF-8."""
    with _open(source.path) as file:
        file.readline(_LONGEST_HEADER)
        rest = b""
        while read := file.read(size):
            cut = read.rfind(b"\n") + 1
            if cut:
                yield _utf8(rest + read[:cut], source)
                rest = b""
            rest += read[cut:]
            if len(rest) > _LONGEST_LINE:
                raise Misconfigured(
                    f"`{source.path.name}`: a line is longer than {_LONGEST_LINE >> 20} MiB. Save the table as Parquet."
                )
        if rest:
            yield _utf8(rest + b"\n", source)


class _Block:
    """Some lines, each with the newline that ends it."""

    def __init__(self, text: bytes, source: Csv) -> None:
        self.text, self.source, self.delimiter = text, source, source.delimiter
        self.data: _Bytes = np.frombuffer(text, np.uint8)
        self.quote, self.nulls = source.quote, ["", *source.null]
        self.quotes = self._places(ord(self.quote)) if self.quote else np.zeros(0, np.intp)
        self.ends, self.cuts = self._split(source.path.name)
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
            inside = _inside(self.data == ord(self.quote))
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
        around = [_NEWLINE, ord(self.delimiter), *self.quote.encode()]
        return opening[~np.isin(before, around)], closing[~np.isin(after, [*around, _RETURN])]

    def _parse(self, text: bytes, schema: pa.Schema, width: int) -> pa.Table:
        """Lines with `width` fields; missing ones are NULL. A leading empty line, which is skipped, keeps Arrow from
        taking the first bytes of a row for a byte order mark."""
        names, size = schema.names[:width], len(text) + 1
        table = csv.read_csv(
            pa.BufferReader(b"\n" + text if text.startswith(_BOM) else text),
            read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=size),
            parse_options=csv.ParseOptions(delimiter=self.delimiter, quote_char=self.quote or False),
            convert_options=csv.ConvertOptions(column_types=schema, null_values=self.nulls, strings_can_be_null=True),
        )
        missing = [pa.nulls(table.num_rows, pa.string())] * (len(schema) - width)
        return pa.Table.from_arrays([*table.columns, *missing], schema=schema)

    def _one_by_one(self, lines: _Lines, schema: pa.Schema) -> pa.Table:
        width, rows = len(schema), []
        for start, end in zip(self.starts[lines], self.ends[lines], strict=True):
            fields = _fields(self.text[start:end].rstrip(b"\r"), self.source)
            if fields is not None and len(fields) <= width:
                rows.append([None if f in self.nulls else f for f in fields] + [None] * (width - len(fields)))
        columns = zip(*rows, strict=True) if rows else ((),) * width
        return pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], schema=schema)


@lru_cache
def _field(delimiter: str, quote: str) -> re.Pattern[str]:
    """One field and what ends it. Without quotes, the quote is a character that no text has."""
    mark, q = re.escape(delimiter), quote or "\udfff"
    return re.compile(rf"(?:{q}([^{q}]*(?:{q}{q}[^{q}]*)*){q}|([^{mark}{q}][^{mark}]*)?)({mark}|\Z)")


def _fields(line: bytes, source: Csv) -> list[str] | None:
    """The fields of one line, or None if it is dropped. A quote in an unquoted field is text."""
    text, quote = _decode(line), source.quote
    pattern = _field(source.delimiter, quote)
    fields: list[str] = []
    end = 0
    while text and (field := pattern.match(text, end)):
        fields.append(field[2] or (field[1] or "").replace(quote * 2, quote))
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
