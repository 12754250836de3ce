"""CSV files as other programs write them: what is declared of them, and which fault a file has."""

from __future__ import annotations

import codecs
import gzip
import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lapwing.engines import source as module
from lapwing.engines.csv_rows import csv_schema, drops_rows, find_facts, read_csv_rows
from lapwing.engines.duckdb import DuckDBEngine, stored_types
from lapwing.engines.source import Csv, declare_csv, file_source, fingerprint
from lapwing.errors import Misconfigured
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type

GERMAN = {"delimiter": ";", "encoding": "latin-1", "decimal": ",", "null": ["NA"]}
GERMAN_ROWS = 'größe;ort;kosten\n1,75;München;"3,5"\n1,80;NA;-1e3\n;Köln;NA\n1.5;"a;b";7\n'
CANARY = "hemlock417"


def declared(path: Path, **facts: Any) -> Csv:
    return declare_csv(file_source(path), facts)


def rows(source: Csv, block: int = 1 << 20) -> list[tuple[str | None, ...]]:
    table = pa.concat_tables(read_csv_rows(source, block))
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def loaded(source: Csv, **types: Type) -> list[tuple[Any, ...]]:
    """What the engine keeps of these columns."""
    fields = tuple(Field(name, kind) for name, kind in types.items())
    engine = DuckDBEngine([(Table("t", fields, None), source)], salt=1)
    listed = engine._connection.execute(f"SELECT {', '.join(types)} FROM t").fetchall()
    engine.close()
    return sorted(listed, key=repr)


def write_german(path: Path) -> Path:
    path.write_bytes(GERMAN_ROWS.encode("latin-1"))
    return path


def test_a_german_file_is_read_as_pandas_and_polars_read_it(tmp_path: Path) -> None:
    path = write_german(tmp_path / "t.csv")
    found = loaded(declared(path, **GERMAN), größe=Type.REAL, ort=Type.TEXT, kosten=Type.REAL)
    frame = pd.read_csv(path, sep=";", encoding="latin-1", decimal=",", na_values=["NA"], keep_default_na=False)
    assert frame["kosten"].tolist()[:2] == [3.5, -1000.0]
    text = path.read_bytes().decode("latin-1").encode()
    other = pl.read_csv(text, separator=";", decimal_comma=True, null_values=["NA"], schema_overrides={"kosten": float})
    assert sorted(row[2] or 0.0 for row in found) == sorted(value or 0.0 for value in other["kosten"])
    assert {row[1] for row in found} == set(other["ort"]) == {None if v != v else v for v in frame["ort"]}
    assert sorted((row[0] for row in found), key=repr) == [1.75, 1.8, None, None]  # 1.5 is no number there


def test_what_is_declared_is_needed(tmp_path: Path) -> None:
    path = write_german(tmp_path / "t.csv")
    source = declared(path, **{**GERMAN, "decimal": ".", "null": []})
    found = loaded(source, größe=Type.REAL, ort=Type.TEXT, kosten=Type.REAL)
    assert ("NA" in {row[1] for row in found}, {row[0] for row in found}) == (True, {None, 1.5})
    assert not drops_rows(source)
    assert drops_rows(declared(path.with_name("t.csv"), delimiter=";", encoding="windows-1250")) is False


@pytest.mark.parametrize(
    ("block", "facts"),
    [
        (64, GERMAN),
        (1 << 20, {"quote": "'"}),
        (64, {"quote": ""}),
        (1 << 20, {"delimiter": "|", "null": ["x", "7"], "encoding": "windows-1252"}),
    ],
)
def test_a_row_is_a_function_of_its_line_alone(tmp_path: Path, facts: dict[str, Any], block: int) -> None:
    """threat:A6 in every dialect, any line among any others is read as in a file of its own."""
    choice = random.Random(17)
    quote, mark = facts.get("quote", '"').encode(), facts.get("delimiter", ",").encode()
    parts = [b"x", b"7", mark, mark, quote * 2, b" ", b"\r", b"\0", b"\xe9", b"\x81", b"\xc3\xa9", b"NA", b"'", b'"']
    lines = []
    for _ in range(400):
        line = b"".join(choice.choice(parts) for _ in range(choice.randrange(9)))
        lines.append(line + quote if quote and line.count(quote) % 2 else line)
    path, single = tmp_path / "all.csv", tmp_path / "one.csv"
    header = mark.join([b"a", b"b", b"c"]) + b"\n"
    path.write_bytes(header + b"\n".join(lines) + b"\n")
    expected = []
    for line in lines:
        single.write_bytes(header + line + b"\n")
        expected += rows(declared(single, **facts))
    assert rows(declared(path, **facts), block) == sorted(expected, key=repr)
    assert 100 < len(expected) < 400


@pytest.mark.parametrize("quote", ["'", ""])
def test_quotes_are_those_that_are_declared(tmp_path: Path, quote: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n'x, y',5\" pipe\n" if quote else b"a,b\n5\" pipe,o'clock\n")
    frame = pd.read_csv(path, quotechar=quote or '"', quoting=0 if quote else 3, dtype=str)
    assert rows(declared(path, quote=quote)) == [tuple(frame.iloc[0])]


@pytest.mark.parametrize("encoding", module._ENCODINGS)
def test_every_encoding_reads_each_byte_by_itself(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.csv"
    listed = [bytes([byte]) for byte in range(256) if byte not in b'\r\n",']
    path.write_bytes(b"a,b\n" + b"".join(b"x" + byte + b"y,1\n" for byte in listed))
    source = declared(path, encoding=encoding)
    expected = []
    for byte in listed:
        try:
            expected.append((f"x{byte.decode(encoding)}y", "1"))
        except UnicodeDecodeError:
            continue
    assert rows(source) == sorted(expected, key=repr)
    assert drops_rows(source) is (len(expected) < len(listed))


def test_a_byte_without_a_character_is_no_text_behind_any_other(tmp_path: Path) -> None:
    """The proof of csv_rows.py: in UTF-8 the bytes that an encoding leaves out only continue a character."""
    for encoding in module._ENCODINGS[1:]:
        table = bytes(range(256)).decode(encoding, "surrogateescape")
        assert table[:128] == bytes(range(128)).decode()
        assert all(0x80 <= ord(c) - 0xDC00 <= 0xBF for c in table if "\ud800" <= c <= "\udfff")


@pytest.mark.parametrize("ending", ["csv.gz", "csv.zst", "tsv.gz", "CSV.GZ"])
def test_compressed_files_are_read_and_named_as_others(tmp_path: Path, ending: str) -> None:
    mark = b"\t" if ending.startswith("tsv") else b","
    plain = b"a%sb\n" % mark + b"".join(b"%d%sx\n" % (i, mark) for i in range(70_000))
    path = tmp_path / f"visits.{ending}"
    half = len(plain) // 2  # two members, as `cat a.gz b.gz` writes them
    for part in (plain[:half], plain[half:]):
        with path.open("ab") as file:
            file.write(
                gzip.compress(part) if ending.lower().endswith("gz") else pa.compress(part, "zstd", asbytes=True)
            )
    source = file_source(path)
    assert isinstance(source, Csv)
    assert rows(source) == sorted(((str(i), "x") for i in range(70_000)), key=repr)
    assert module.title_of(source) == "visits"
    assert stored_types(source, guess=True) == {"a": Type.INTEGER, "b": Type.TEXT}
    assert stored_types(source) == {"a": Type.TEXT, "b": Type.TEXT}


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_damaged_file_is_refused_without_its_content(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.csv.{ending}"
    text = b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * 7919) for i in range(50_000))
    whole = gzip.compress(text) if ending == "gz" else pa.compress(text, "zstd", asbytes=True)
    for content in (whole[:-9], whole[: len(whole) // 2], CANARY.encode()):
        path.write_bytes(content)
        with pytest.raises(Misconfigured) as caught:
            rows(declared(path))
        assert str(caught.value) == f"`t.csv.{ending}` is damaged or incomplete. Write it again."


FAULTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "blank": (b"\n1,2\n", "it is blank"),
    "duplicate": (f"a,{CANARY},b,{CANARY.upper()}\n1,2,3,4\n".encode(), "column 4 has the name of another"),
    "unnamed": (f"{CANARY},,b\n".encode(), "a column has no name"),
    "encoding": (f"{CANARY},größe\n".encode("latin-1"), "it is not in utf-8"),
    "utf-16": (codecs.BOM_UTF16_LE + f"{CANARY},b\n".encode("utf-16-le"), "the file is in UTF-16"),
    "delimiter": (f"{CANARY};b;c\n1;2;3\n".encode(), 'Declare csv = { delimiter = ";" }'),
    "tab": (f"{CANARY}\tb\n1\t2\n".encode(), 'Declare csv = { delimiter = "\\t" }'),
    "quote": (f'{CANARY},"b\n'.encode(), "a quote or line in it does not end"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_message_names_the_fault_and_no_value(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "t.csv"
    content, words = FAULTS[fault]
    path.write_bytes(content)
    with pytest.raises(Misconfigured) as caught:
        csv_schema(declared(path))
    assert words in str(caught.value)
    assert CANARY not in str(caught.value).lower()
    named = {other for other, (_, said) in FAULTS.items() if said in str(caught.value)}
    assert named == ({"blank", "quote"} if fault in ("blank", "quote") else {fault})


@pytest.mark.parametrize("fault", ["delimiter", "tab", "encoding"])
def test_the_fact_that_a_message_proposes_opens_the_file(tmp_path: Path, fault: str) -> None:
    import tomllib

    path = tmp_path / "t.csv"
    path.write_bytes(FAULTS[fault][0])
    with pytest.raises(Misconfigured, match=r"[dD]eclare") as caught:
        csv_schema(declared(path))
    line = str(caught.value)[str(caught.value).lower().index("declare ") + 8 :].rstrip(".")
    assert len(csv_schema(declared(path, **tomllib.loads(line)["csv"])).names) > 1


def test_a_file_of_one_column_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'"a; b"\n1;2\n')
    assert rows(declared(path)) == [("1;2",)]
    path.write_bytes(b"a;b\n1;2\n")
    assert rows(declared(path, delimiter="|")) == [("1;2",)]


@pytest.mark.parametrize(
    ("first", "ending", "facts"),
    [
        (b"a,b,c", "csv", {}),
        (b"a;b;c", "csv", {"delimiter": ";"}),
        (b'"a;x;y",b,c', "csv", {}),
        (b"a|b", "csv", {"delimiter": "|"}),
        (b"a\tb", "tsv", {}),
        (b"a\tb", "txt", {"delimiter": "\t"}),
        (b"a;b", "tsv", {"delimiter": ";"}),
        (b"alone", "csv", {}),
        (b"gr\xf6\xdfe;b", "csv", {"delimiter": ";", "encoding": "windows-1252"}),
        (codecs.BOM_UTF8 + "größe;b".encode(), "csv", {"delimiter": ";"}),
    ],
)
def test_a_dialect_is_found_in_the_first_line_and_in_no_row(
    tmp_path: Path, first: bytes, ending: str, facts: dict[str, str]
) -> None:
    path = tmp_path / f"t.{ending}"
    for others in (b"", b"1;2;3;4\n", b"1,5\t7|M\xfcller\n" * 9, b"'1'\n\xff\xfe;;;;\n"):
        path.write_bytes(first + b"\n" + others)
        assert find_facts(declared(path)).facts == facts


def test_dates_that_are_not_read_are_guessed_as_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a;b;c\n" + b"31.12.2024;31.12.2024 10:00:00;7\n" * 3)
    types = stored_types(declared(path, delimiter=";"), guess=True)
    assert types == {"a": Type.TEXT, "b": Type.TEXT, "c": Type.INTEGER}
    assert list(types.unread_dates) == ["a", "b"]
    for line in (b"2024-12-31;2024-12-31 10:00:00;\n", b"2024/12/31;2024-12-31T10:00:00;\n"):
        path.write_bytes(b"a;b;c\n" + line * 3)
        types = stored_types(declared(path, delimiter=";"), guess=True)
        assert types == {"a": Type.DATE, "b": Type.TIMESTAMP, "c": Type.TEXT}
        assert list(types.unread_dates) == []


def test_types_are_guessed_in_the_declared_dialect(tmp_path: Path) -> None:
    path = write_german(tmp_path / "t.csv")
    path.write_bytes(path.read_bytes().replace(b"1.5;", b"1,5;"))
    assert stored_types(declared(path, **GERMAN), guess=True) == {
        "größe": Type.REAL, "ort": Type.TEXT, "kosten": Type.REAL,
    }  # fmt: skip
    path.write_bytes(b"a|b\n'1'|x\n'2'|y|z\n")
    assert stored_types(declared(path, delimiter="|", quote="'"), guess=True)["a"] is Type.INTEGER


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"delimiter": ";;"}, "`delimiter` of `csv` must be one character"),
        ({"delimiter": '"'}, "`delimiter` of `csv` must be one character"),
        ({"delimiter": "x"}, "`delimiter` of `csv` must be one character"),
        ({"delimiter": "\n"}, "`delimiter` of `csv` must be one character"),
        ({"delimiter": 3}, "`delimiter` of `csv` must be one character"),
        ({"encoding": "utf-16"}, "`encoding` of `csv` must be one of utf-8, latin-1"),
        ({"decimal": ";"}, "`decimal` of `csv` must be"),
        ({"quote": "x"}, "`quote` of `csv` must be"),
        ({"null": "NA"}, "`null` of `csv` must be a list of texts"),
        ({"null": [0]}, "`null` of `csv` must be a list of texts"),
        ({"delimeter": ";"}, "Did you mean `delimiter`?"),
        ([";"], "`csv` says how a CSV file is written"),
    ],
)
def test_other_facts_are_refused(tmp_path: Path, facts: Any, words: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        declare_csv(file_source(tmp_path / "t.csv"), facts)
    assert words in str(caught.value)
    with pytest.raises(Misconfigured, match="`csv` says how a CSV file is written"):
        declare_csv(file_source(tmp_path / "t.parquet"), {})


def test_the_fingerprint_is_of_bytes_and_facts(tmp_path: Path) -> None:
    path = write_german(tmp_path / "t.csv")
    marks = [fingerprint(declared(path, **facts)) for facts in ({}, GERMAN, {"null": ["NA"]}, {"quote": ""})]
    assert len(set(marks)) == 4
    assert fingerprint(declared(path, delimiter=",", quote='"', null=[])) == fingerprint(Csv(path)) == marks[0]


@pytest.mark.parametrize(("ending", "write"), [("json", {}), ("jsonl", {"lines": True, "orient": "records"})])
def test_the_lines_for_json_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, write: dict[str, Any]
) -> None:
    path = tmp_path / f"it's.{ending}"
    frame = pd.DataFrame({"n": [1, 2]})
    frame.to_json(path, **write)
    assert run_proposed(path).equals(frame)
    assert pd.read_parquet(path.with_suffix(".parquet")).equals(frame)


@pytest.mark.parametrize("ending", ["xlsx", "xls", "ods"])
def test_the_lines_for_a_spreadsheet_open_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    frame = pd.DataFrame({"n": [1, 2]})
    monkeypatch.setattr(pd, "read_excel", lambda name: frame if name == str(tmp_path / f"t.{ending}") else None)
    assert run_proposed(tmp_path / f"t.{ending}") is frame


def run_proposed(path: Path) -> Any:
    """The frame that the last two lines of the refusal make."""
    with pytest.raises(Misconfigured) as caught:
        file_source(path)
    names: dict[str, Any] = {"pandas": pd}
    exec("\n".join(str(caught.value).splitlines()[-2:]), names)
    return names["frame"]


def test_numbers_with_a_comma_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    texts = {"1,5": 1.5, "-0,25": -0.25, "1.5": None, "1.234,5": None, "1,2,3": None, "1e2": 100.0, "x": None, "7": 7.0}
    path.write_text("a;b\n" + "".join(f"{text};{json.dumps(text)}\n" for text in texts), encoding="utf-8")
    found = loaded(declared(path, delimiter=";", decimal=","), a=Type.REAL, b=Type.TEXT)
    assert {text: number for number, text in found} == texts
    assert sum(Fraction(number) for number, _ in found if number is not None) == Fraction("108.25")
    path.write_text("a;b\n3;x\n4,0;y\n5.0;z\n", encoding="utf-8")
    assert loaded(declared(path, delimiter=";", decimal=","), a=Type.INTEGER) == [(3,), (4,), (None,)]
