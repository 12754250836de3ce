"""CSV: one line is one row, read fast or one by one with the same result."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pyarrow as pa
import pytest

from lapwing.engines import csv_rows as lines
from lapwing.engines.csv_rows import csv_schema, dropped_rows, drops_rows, read_csv_rows
from lapwing.engines.source import file_source
from lapwing.errors import Misconfigured

HEADER = b"a,b,c\n"


def rows(path: Path, block: int = 1 << 20) -> list[tuple[str | None, ...]]:
    table = pa.concat_tables(read_csv_rows(file_source(path), block))
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def alone(folder: Path, line: bytes) -> list[tuple[str | None, ...]]:
    path = folder / "one.csv"
    path.write_bytes(HEADER + line + b"\n")
    return rows(path)


def random_line(choice: random.Random) -> bytes:
    parts = [
        b"x",
        b"7",
        b",",
        b",",
        b'"',
        b'""',
        b" ",
        b"\r",
        b"\t",
        b"\0",
        b"\xc3\xa9",
        b"\xff",
        b"\xef\xbb\xbf",
        b";",
    ]
    line = b"".join(choice.choice(parts) for _ in range(choice.randrange(9)))
    return line if line.count(b'"') % 2 == 0 else line + b'"'


@pytest.mark.parametrize("block", [64, 1000, 1 << 20])
def test_a_row_is_a_function_of_its_line_alone(tmp_path: Path, block: int) -> None:
    """threat:A6 any line, among any others and wherever a block ends, is read as in a file of its own."""
    choice = random.Random(13)
    found = [random_line(choice) for _ in range(700)]
    path = tmp_path / "all.csv"
    path.write_bytes(HEADER + b"\n".join(found) + b"\n")
    expected = [row for line in found for row in alone(tmp_path, line)]
    assert rows(path, block) == sorted(expected, key=repr)
    assert 200 < len(expected) < 700


def test_well_formed_lines_are_read_as_others_read_them(tmp_path: Path) -> None:
    choice = random.Random(14)
    pieces = ["x", "é", ",", '"', '""', " ", "'", "\t", "NULL", "0"]
    table = [["".join(choice.choices(pieces, k=choice.randrange(1, 6))) for _ in "abc"] for _ in range(500)]
    path = tmp_path / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["a", "b", "c"], *table])
    odd = any(line.count('"') % 2 for line in path.read_text().splitlines())
    assert not odd
    assert rows(path) == sorted(map(tuple, table), key=repr)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'1,"x, y",3', [("1", "x, y", "3")]),
        (b'1,"say ""hi""",', [("1", 'say "hi"', None)]),
        (b"1,2", [("1", "2", None)]),
        (b"1", [("1", None, None)]),
        (b",,", [(None, None, None)]),
        (b'"","",', [(None, None, None)]),
        (b"1,2,3,4", []),
        (b"", []),
        (b"\r", []),
        (b"1,2,3\r\r", [("1", "2", "3")]),
        (b"1,a\rb,3", [("1", "a\rb", "3")]),
        (b'1,5" x 6" pipe,3', [("1", '5" x 6" pipe', "3")]),
        (b'1,"x"y,3', []),
        (b'x"y,"z', []),
        (b"1,\xff,3", []),
        (b"1,\xc3\xa9,3", [("1", "é", "3")]),
        (b"\xef\xbb\xbf1,2,3", [("\ufeff1", "2", "3")]),
        (b"1,\0,3", [("1", "\0", "3")]),
        (b"NULL,NA,nan", [("NULL", "NA", "nan")]),
    ],
)
def test_the_rules_of_a_line(tmp_path: Path, line: bytes, expected: list[tuple[str | None, ...]]) -> None:
    assert alone(tmp_path, line) == expected


@pytest.mark.parametrize("line", [b'1,"hello,3', b'"', b'1,"x\ny",3', b'1,5" pipe,3', b'1,"""",3"'])
@pytest.mark.parametrize("place", [0, 5_000, 9_999])
def test_an_odd_number_of_quotes_is_refused_by_a_constant_sentence(tmp_path: Path, line: bytes, place: int) -> None:
    """threat:A6 a text with line breaks made one record as many units as it had lines."""
    others = [b"1,2,3"] * 10_000
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER + b"\n".join([*others[:place], line, *others[place:]]) + b"\n")
    with pytest.raises(Misconfigured) as caught:
        rows(path, 1 << 12)
    assert str(caught.value) == (
        "`t.csv`: a line has an odd number of quotes, as text with line breaks does. Lines are never joined, because "
        "one row must not affect another. Save the table as Parquet."
    )


def test_a_long_field_is_read_and_an_endless_line_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER + b"1," + b"x" * 20_000_000 + b',3\n4,"' + b"y" * 20_000_000 + b'",6\n7,a "b" c,9')
    assert [len(row[1] or "") for row in rows(path)] == [20_000_000, 20_000_000, 7]
    monkeypatch.setattr(lines, "_LONGEST_LINE", 1 << 20)
    with pytest.raises(Misconfigured, match=r"a line is longer than 1 MiB\. Save the table as Parquet"):
        rows(path)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\n",
        b"a,a,b\n",
        b"a,,b\n",
        b'a,"b\n',
        b"a,\xff\n",
        b"A,b,a\n",
        b"a," + b"x" * (1 << 20) + b"\n",
        b"a,b\rann,31\rbob,40\r",
    ],
    ids=["empty", "blank", "double", "nameless", "open", "no text", "case", "long", "returns"],
)
def test_a_header_that_names_no_columns_is_refused_without_quoting_it(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(header + b"1,2,3\n" if header else b"")
    with pytest.raises(Misconfigured, match="the first line must name every column") as caught:
        csv_schema(file_source(path))
    assert len(str(caught.value)) < 250


def test_names_are_read_like_fields_and_tabs_separate_tsv(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'\xef\xbb\xbf"a, b",c\r\n1,2\r\n')
    (tmp_path / "t.tsv").write_bytes(b'a\tb\n1,5\t"x\ty"\n')
    assert csv_schema(file_source(tmp_path / "t.csv")).names == ["a, b", "c"]
    assert rows(tmp_path / "t.csv") == [("1", "2")]
    assert rows(tmp_path / "t.tsv") == [("1,5", "x\ty")]


def test_a_file_without_rows_has_its_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b,c")
    assert rows(tmp_path / "t.csv") == []


@pytest.mark.parametrize(
    ("line", "dropped"),
    [(b"1,2,3", False), (b"", False), (b"\r", False), (b"1", False), (b"1,2,3,4", True), (b"M\xfcller,2,3", True)],
)
def test_whether_a_line_is_dropped_is_told(tmp_path: Path, line: bytes, dropped: bool) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER + b"4,5,6\n" + line + b"\n7,8,9\n")
    assert drops_rows(file_source(path)) is dropped
    filled = line not in (b"", b"\r")
    assert dropped_rows(file_source(path)) == (int(dropped), 2 + filled)
