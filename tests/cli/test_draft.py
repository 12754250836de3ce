"""What `lapwing init` writes about files: how they are written, what it leaves out, and what it never reads."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lapwing.cli.draft import draft
from lapwing.cli.setup import ColumnFacts, SetupFacts
from lapwing.curator import load
from lapwing.curator.settings import read_settings, settings_of
from lapwing.engines.source import Csv
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type

GERMAN = "pid;größe;bereit\n1;1,75;true\n2;1,80;false\n3;NA;true\n"


def drafted(folder: Path, *data: Path, unit: str = "pid", **facts: Any) -> str:
    file = folder / "lapwing.toml"
    file.write_text(draft(list(data), unit, Decimal(1), Decimal(0), file, **facts), encoding="utf-8")
    return file.read_text(encoding="utf-8")


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text(GERMAN, encoding="windows-1252")
    return path


def test_the_first_line_says_how_a_file_is_written(visits: Path, tmp_path: Path) -> None:
    line = next(line for line in drafted(tmp_path, visits).splitlines() if line.startswith("csv"))
    assert line.startswith('csv = { delimiter = ";", encoding = "windows-1252" }  # REVIEW')
    ((table, source),) = read_settings(tmp_path / "lapwing.toml").tables
    assert source == Csv(visits, ";", "windows-1252")
    assert table.field("größe").type is Type.TEXT


def test_a_flag_says_what_the_first_line_does_not_show(visits: Path, tmp_path: Path) -> None:
    text = drafted(tmp_path, visits, decimal=",", null=["NA"])
    assert 'decimal = ",", null = ["NA"] }' in text
    ((table, source),) = read_settings(tmp_path / "lapwing.toml").tables
    assert (table.field("größe").type, source.decimal) == (Type.REAL, ",")
    load(tmp_path / "lapwing.toml").close()


def test_no_row_says_how_a_file_is_written(visits: Path, tmp_path: Path) -> None:
    """Neighbours: whatever a row holds, the line is the same."""
    lines = set()
    for row in ("", "4;1,5;NA\n", "4,5,6,7,8,9\n", "4|5|6\n", "'4';1.5;''\n", "4\t5\n"):
        visits.write_bytes(GERMAN.encode("windows-1252") + row.encode())
        lines |= {line for line in drafted(tmp_path, visits).splitlines() if line.startswith("csv")}
    assert len(lines) == 1


def test_booleans_get_their_values_and_others_none(visits: Path, tmp_path: Path) -> None:
    text = drafted(tmp_path, visits)
    assert '"bereit" = { type = "boolean", values = [false, true] }' in text
    assert text.count("values = [") == 2  # and the hint for texts
    with load(tmp_path / "lapwing.toml") as curator:
        answer = curator.sql("SELECT bereit, COUNT(DISTINCT pid) AS n FROM visits GROUP BY bereit", epsilon=0.5)
        assert answer["bereit"] == [False, True]


def test_every_column_that_is_left_out_is_listed_with_its_type(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT 1 AS pid, ['x'] AS icd, {'a': 1} AS s, TIME '10:00' AS at, 'b'::BLOB AS \"b\nb\""
        )
    text = drafted(tmp_path, path)
    listed = [line for line in text.splitlines() if line.endswith("; cast it in a view")]
    assert listed == [
        '# "icd": list; cast it in a view',
        '# "s": struct(a integer); cast it in a view',
        '# "at": time; cast it in a view',
        '# "b\\nb": blob; cast it in a view',
    ]
    load(tmp_path / "lapwing.toml").close()


def test_public_files_are_declared(visits: Path, tmp_path: Path) -> None:
    regions = tmp_path / "regions.csv"
    regions.write_text("code|people\n01|12\n", encoding="utf-8")
    text = drafted(tmp_path, visits, public=[str(regions)])
    assert '[public."regions"]\nsource = "regions.csv"\ncsv = { delimiter = "|" }  # REVIEW' in text
    ((table, _),) = read_settings(tmp_path / "lapwing.toml").public
    assert [(field.name, field.type) for field in table.fields] == [("code", Type.TEXT), ("people", Type.INTEGER)]


def test_parts_and_compressed_files_are_drafted(tmp_path: Path) -> None:
    import gzip

    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "stays").mkdir()
    pq.write_table(pa.table({"pid": [1]}), tmp_path / "stays" / "1.parquet")
    packed = tmp_path / "visits.csv.gz"
    packed.write_bytes(gzip.compress(b"pid,n\n1,2\n"))
    text = drafted(tmp_path, tmp_path / "stays", packed, unit="row")
    assert '[tables."stays"]\nsource = "stays"\n' in text
    assert '[tables."visits"]\nsource = "visits.csv.gz"\n' in text
    assert 'source = "stays/*.parquet"' in drafted(tmp_path, tmp_path / "stays" / "*.parquet")
    assert [table.name for table, _ in read_settings(tmp_path / "lapwing.toml").tables] == ["stays"]


def test_what_is_asked_in_the_terminal_has_the_same_line(visits: Path, tmp_path: Path) -> None:
    file = tmp_path / "lapwing.toml"
    text = SetupFacts(visits, "pid", columns={"pid": ColumnFacts("text")}).toml(file)
    assert 'csv = { delimiter = ";", encoding = "windows-1252" }  # REVIEW' in text
    ((_, source),) = settings_of(text, file).tables
    assert source.path.name == "visits.csv"


def test_a_spreadsheet_is_refused_with_what_opens_it(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"pandas\.read_excel"):
        drafted(tmp_path, tmp_path / "visits.xlsx")


def test_the_command_takes_what_the_first_line_does_not_show(visits: Path, tmp_path: Path) -> None:
    (tmp_path / "regions.csv").write_text("code;people\n01;12\n", encoding="utf-8")
    flags = ["--decimal", ",", "--null", "NA", "--null", "-", "--quote", "'", "--public", "regions.csv"]
    command = [sys.executable, "-m", "lapwing", "init", "visits.csv", "--unit", "pid", "--epsilon", "1", *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "")
    settings = read_settings(tmp_path / "lapwing.toml")
    assert settings.tables[0][1] == Csv(visits, ";", "windows-1252", ",", "'", ("NA", "-"))
    assert [table.name for table, _ in settings.public] == ["regions"]


def test_a_server_warns_of_marks_that_are_left(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("p,x\na,1\n", encoding="utf-8")
    text = '# REVIEW: x\n[budget]\nepsilon = 1\n[tables.v]\nsource = "v.csv"\nunit = "p"\n'
    text += '[tables.v.columns]\np = { type = "text" }\n'
    (tmp_path / "lapwing.toml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "lapwing", "serve", "--check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "lines of lapwing.toml still marked REVIEW: 1." in done.stdout
