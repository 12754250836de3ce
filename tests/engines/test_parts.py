"""Several Parquet files as one table: which they are, and that another part is other data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lapwing as lw
from lapwing.engines import duckdb as engine_module
from lapwing.engines.duckdb import DuckDBEngine, stored_types
from lapwing.engines.source import Parquet, file_source, fingerprint, read_source, title_of
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type

COUNT = "SELECT COUNT(DISTINCT p) AS n FROM visits"


def write(path: Path, *people: int, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"p": pa.array(people, pa.int64()), **columns}), path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """visits/ with two parts, and what is no part."""
    write(tmp_path / "visits" / "2024.parquet", 1, 2, 3)
    write(tmp_path / "visits" / "2025.parquet", 3, 4)
    write(tmp_path / "visits" / ".hidden.parquet", 9)
    write(tmp_path / "visits" / "_temporary.parquet", 9)
    write(tmp_path / "visits" / "inside" / "old.parquet", 9)
    (tmp_path / "visits" / "_SUCCESS").touch()
    return tmp_path / "visits"


def people(source: Any) -> list[int]:
    engine = DuckDBEngine([(Table("t", (Field("p", Type.INTEGER),), None), source)], salt=1)
    listed = [row[0] for row in engine._connection.execute("SELECT p FROM t ORDER BY p").fetchall()]
    engine.close()
    return listed


@pytest.mark.parametrize("size", [1 << 22, 0], ids=["loaded", "in place"])
def test_a_folder_a_pattern_and_a_list_are_one_table(folder: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(engine_module, "SMALL", size)
    listed = [str(folder / "2024.parquet"), str(folder / "2025.parquet")]
    expected = sorted(pl.concat(map(pl.read_parquet, listed))["p"].to_list())
    for place in (str(folder), f"{folder}/", f"{folder}/*.parquet", f"{folder}/20*.parquet", listed):
        source = read_source(place)
        assert people(source) == expected == [1, 2, 3, 3, 4]
        assert stored_types(source) == {"p": Type.INTEGER}
        assert fingerprint(source) == fingerprint(read_source(str(folder)))
    assert [title_of(read_source(place)) for place in (str(folder), f"{folder}/*.parquet")] == ["visits", "visits"]
    assert people(read_source(f"{folder}/*4.parquet")) == [1, 2, 3]


def test_only_a_star_is_special_and_a_file_of_that_name_is_that_file(folder: Path) -> None:
    write(folder / "a[1].parquet", 10)
    write(folder / "a1.parquet", 11)
    assert people(read_source(f"{folder}/a[1]*.parquet")) == [10]
    with pytest.raises(lw.Misconfigured, match="cannot be opened"):
        people(read_source(f"{folder}/a?.parquet"))
    write(folder / "20*.parquet", 7)
    assert people(read_source(f"{folder}/20*.parquet")) == [7]
    with pytest.raises(lw.Misconfigured, match="cannot be opened"):
        people(file_source(folder / "x*.parquet"))


def test_a_folder_such_as_year_is_no_column(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / "year=2024" / f"{name}.parquet", 1, 2)
    assert people(read_source("year=2024", folder=tmp_path)) == [1, 1, 2, 2]
    assert list(stored_types(read_source("year=2024/*.parquet", folder=tmp_path))) == ["p"]


@pytest.mark.parametrize("place", ["empty", "empty/*.parquet", "nowhere/*.parquet", []])
def test_no_part_is_refused(tmp_path: Path, place: Any) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(lw.Misconfigured, match=r"names no \.parquet file"):
        read_source(place, folder=tmp_path)


def test_parts_of_other_kinds_are_refused(folder: Path) -> None:
    (folder / "x.csv").write_text("p\n1\n")
    with pytest.raises(lw.Misconfigured, match="Only Parquet files are one table"):
        read_source([str(folder / "2024.parquet"), str(folder / "x.csv")])
    (folder / "_delta_log").mkdir()
    with pytest.raises(lw.Misconfigured, match="is a Delta table"):
        read_source(str(folder))


@pytest.mark.parametrize("link", [None, Path.symlink_to, Path.hardlink_to])
def test_a_file_that_is_named_or_linked_twice_is_refused(folder: Path, link: Any) -> None:
    """Where every row is a unit, each of its rows would be two units."""
    first = folder / "2024.parquet"
    if link is not None:
        link(folder / "again.parquet", first)
    with pytest.raises(lw.Misconfigured, match=r"named twice, or linked to another\. Name each file once\."):
        people(read_source([first, first] if link is None else str(folder)))


@pytest.mark.parametrize("columns", [{"q": [1]}, {"p": ["x"]}, {"p": pa.array([1], pa.int32())}])
def test_parts_with_other_columns_are_refused_by_a_constant_sentence(folder: Path, columns: dict[str, Any]) -> None:
    pq.write_table(pa.table(columns), folder / "2026.parquet")
    for use in (people, stored_types):
        with pytest.raises(lw.Misconfigured) as caught:
            use(read_source(str(folder)))
        assert str(caught.value) == "the files of one table have different columns or types. Write them all alike."


def test_a_changed_missing_or_added_part_is_other_data(folder: Path) -> None:
    before = fingerprint(read_source(str(folder)))
    write(folder / "2024.parquet", 1, 2)
    changed = fingerprint(read_source(str(folder)))
    added = fingerprint(read_source([folder / "2024.parquet", folder / "2025.parquet"]))
    assert changed == added != before
    (folder / "2025.parquet").unlink()
    assert fingerprint(read_source(str(folder))) not in (before, changed)


def opened(data: Any, **given: Any) -> Any:
    return lw.open(data, unit="p", budget=lw.Budget(epsilon=9), rows_per_unit=2, **given)


def test_an_added_part_needs_a_new_version(folder: Path) -> None:
    with opened(folder) as curator:
        curator.sql(COUNT, epsilon=1)
        write(folder / "2026.parquet", 5)
        curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)  # the parts are those of the opening
    with pytest.raises(lw.Misconfigured, match="declare a new `version`"):
        opened(folder)
    with opened(folder, version="2") as curator:
        assert curator.sql(COUNT, epsilon=1).cost
    (folder / "2024.parquet").unlink()
    with pytest.raises(lw.Misconfigured, match="declare a new `version`"):
        opened(folder, version="2")


def test_a_part_that_changes_stops_a_running_curator(folder: Path) -> None:
    with opened(f"{folder}/*.parquet") as curator:
        curator.sql(COUNT, epsilon=1)
        write(folder / "2025.parquet", 3, 4, 5)
        with pytest.raises(lw.Misconfigured, match="changed"):
            curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)


def test_a_part_alone_keeps_the_unit_of_its_table(folder: Path, tmp_path: Path) -> None:
    """A private part is never a public table, and never has another unit, wherever it is copied."""
    ledger = tmp_path / "ledger.db"
    for part in folder.glob("20*"):
        write(part, 1, len(part.name), q=[1, 2], r=[part.name] * 2)
    opened(folder, ledger=ledger).close()
    copy = tmp_path / "copy.parquet"
    copy.write_bytes((folder / "2025.parquet").read_bytes())
    other = write(tmp_path / "other.parquet", 1, 2)
    for part in (folder / "2025.parquet", copy):
        both = {"visits": folder, "x": part}
        with pytest.raises(lw.Misconfigured, match="The data of table `x` had the unit `p` before"):
            lw.open(both, unit={"visits": "p", "x": "q"}, budget=lw.Budget(epsilon=9), ledger=ledger)
        with pytest.raises(lw.Misconfigured, match="private"):
            opened({"visits": folder}, public={"x": part}, ledger=ledger)
    opened({"visits": folder}, public={"x": other}, ledger=ledger).close()


def test_several_tables_may_be_parts(folder: Path, tmp_path: Path) -> None:
    parts = [folder / "2024.parquet", str(folder / "2025.parquet")]
    with opened({"visits": parts, "again": str(folder)}, ledger=tmp_path / "l.db") as curator:
        assert curator.sql(COUNT, epsilon=1).cost
    with pytest.raises(lw.Misconfigured, match="is a list of values"):
        opened({"p": ["F", "M"]})
    with opened(parts, name="visits", ledger=tmp_path / "l.db", version="2") as curator:
        assert [table.name for table in curator.catalog.tables] == ["visits"]


def test_settings_declare_parts(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "lapwing.toml"
    text = (
        '[budget]\nepsilon = 9\n[tables.visits]\nsource = SOURCE\nunit = "p"\n'
        '[tables.visits.columns]\np = { type = "integer" }\n'
    )
    for source in ('"visits"', '"visits/*.parquet"', '["visits/2024.parquet", "visits/2025.parquet"]'):
        file.write_text(text.replace("SOURCE", source))
        with lw.load(file) as curator:
            assert len(curator.sql(COUNT, epsilon=1)) == 1
    for source in ("[]", "[3]", "3", '["visits/2024.parquet", "x.csv"]'):
        file.write_text(text.replace("SOURCE", source))
        with pytest.raises(lw.Misconfigured, match=r"tables\.visits\.source"):
            lw.load(file)
    assert isinstance(read_source("visits", folder=tmp_path), Parquet)
