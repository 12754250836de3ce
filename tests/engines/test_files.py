"""The named file is read and nothing else, and a changed byte is noticed."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lapwing as lw
from lapwing.cli.draft import draft
from lapwing.engines import duckdb as engine_module
from lapwing.engines import source
from lapwing.engines.duckdb import DuckDBEngine, stored_types
from lapwing.engines.public import read_public
from lapwing.engines.source import DuckDBTable, Parquet, digest_of, file_source, fingerprint
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type

ENDINGS = ["parquet", "csv", "tsv", "duckdb"]
STEMS = [
    "a[12]", "a*", "**", "a?", "a[!b]", "[[]", "[]", "]", "{a1,a2}", "it's \"a\"", "a b", "é", "-a", "--", "a\\b", "~",
    "$HOME", "%61", "a\nb", "s3:", "a#b", "a;b", "a=1", "1", "select", "a.b",
]  # fmt: skip


def write(path: Path, word: str) -> Path:
    """A table `t` of one row in the form that the ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".parquet":
            pq.write_table(pa.table({"v": [word]}), path)
        case ".duckdb":
            path.unlink(missing_ok=True)
            with duckdb.connect(str(path)) as connection:
                connection.execute("CREATE TABLE t AS SELECT $word AS v", {"word": word})
        case _:
            path.write_text(f"v\n{word}\n")
    return path


def words(path: Path) -> list[Any]:
    """What a locked engine reads from it."""
    engine = DuckDBEngine([(Table("t", (Field("v", Type.TEXT),), None), file_source(path, "t"))], salt=1)
    found = [row[0] for row in engine._connection.execute("SELECT v FROM t").fetchall()]
    engine.close()
    return found


@pytest.fixture(params=["loaded", "in place"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small Parquet files are loaded, large ones are read in place."""
    if request.param == "in place":
        monkeypatch.setattr(engine_module, "SMALL", 0)


def test_a_parquet_name_is_no_pattern(tmp_path: Path, size: None) -> None:
    """a[12].parquet read a1.parquet, and a*.parquet its siblings too."""
    for sibling in ("a1", "a2", "ab", "ac", "[", "b"):
        write(tmp_path / f"{sibling}.parquet", "another file")
    for stem in STEMS:
        assert (stem, words(write(tmp_path / f"{stem}.parquet", stem))) == (stem, [stem])


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_name_is_no_pattern_for_any_reader(tmp_path: Path, ending: str) -> None:
    write(tmp_path / f"a1.{ending}", "another file")
    for stem in ("a[12]", "a*", 'it\'s "a"', "é?"):
        path = write(tmp_path / f"{stem}.{ending}", "this file")
        assert words(path) == ["this file"]
        assert stored_types(file_source(path, "t")) == {"v": Type.TEXT}
        assert read_public("t", file_source(path, "t")).field("v").values == ("this file",)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_pattern_whose_own_file_is_missing_reads_no_sibling(tmp_path: Path, ending: str) -> None:
    write(tmp_path / f"a1.{ending}", "another file")
    for stem in ("a[12]", "a*", "a?"):
        with pytest.raises(lw.Misconfigured, match="cannot be opened"):
            words(tmp_path / f"{stem}.{ending}")


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("folder", ["x[12]", "year=2020"])
def test_folders_are_no_patterns_and_no_columns(tmp_path: Path, folder: str, ending: str) -> None:
    write(tmp_path / "x1" / f"t.{ending}", "another file")
    path = write(tmp_path / folder / f"t.{ending}", "this file")
    assert words(path) == ["this file"]
    assert list(stored_types(file_source(path, "t"))) == ["v"]


def test_an_unreadable_name_is_refused_and_no_sibling_read(tmp_path: Path) -> None:
    """No pattern of the engine's stands for a backslash beside a star."""
    write(tmp_path / "ab.parquet", "another file")
    with pytest.raises(lw.Misconfigured, match="Rename it"):
        words(write(tmp_path / "a\\*.parquet", "this file"))


def test_links_and_odd_paths_lead_to_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "data" / "a[1].parquet", "this file")
    (tmp_path / "link*.parquet").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    for name in ("link*.parquet", "data/../data//a[1].parquet", "data/a[1].parquet/", "./link*.parquet"):
        assert words(Path(name)) == ["this file"]
    with pytest.raises(lw.Misconfigured, match="cannot be opened"):
        words(Path("https://example.org/a.parquet"))


def test_types_are_guessed_from_the_named_file_alone(tmp_path: Path) -> None:
    (tmp_path / "a1.csv").write_text("v\nword\n")
    (tmp_path / "a[12].csv").write_text("v\n7\n")
    assert 'v" = { type = "integer" }' in draft([tmp_path / "a[12].csv"], "row", 1, 0, tmp_path / "lapwing.toml")  # type: ignore[arg-type]


def test_a_spill_folder_may_be_named_like_a_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp[1]*").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp[1]*"))
    assert words(write(tmp_path / "a.parquet", "this file")) == ["this file"]
    assert list((tmp_path / "tmp[1]*").iterdir()) == []


def special(folder: Path, kind: str, ending: str) -> Path:
    path = folder / f"t.{ending}"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(path))
        case "device":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path)
        case "empty":
            path.touch()
        case "null byte":
            return folder / f"t\0.{ending}"
        case "no text":
            return folder / f"t\udcff.{ending}"
        case "long":
            return folder / f"{'t' * 5000}.{ending}"
    return path


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    "kind", ["pipe", "folder", "socket", "device", "loop", "empty", "null byte", "no text", "long", "missing"]
)
def test_what_is_no_file_is_refused_in_one_sentence(tmp_path: Path, kind: str, ending: str) -> None:
    """A named pipe was waited for without end."""
    path = special(tmp_path, kind, ending)
    for use in (
        lambda: lw.open(path, unit=None, budget=lw.Budget(epsilon=1), name="t"),
        lambda: read_public("t", file_source(path)),
        lambda: words(path),
        lambda: draft([path], "row", 1, 0, tmp_path / "lapwing.toml"),  # type: ignore[arg-type]
    ):
        with pytest.raises(lw.Misconfigured) as caught:
            use()
        assert "\n" not in str(caught.value)
        str(caught.value).encode()
    assert not (tmp_path / ".lapwing").exists()


def test_a_file_without_read_rights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source.os, "access", lambda path, mode: mode != os.R_OK)
    for ending in ENDINGS:
        with pytest.raises(lw.Misconfigured, match=r"cannot be opened\. Check the path and the permissions"):
            words(write(tmp_path / f"t.{ending}", "this file"))


def test_a_database_of_another_kind_is_refused_without_fetching_anything(tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE t (v TEXT)")
    with pytest.raises(lw.Misconfigured, match="cannot be opened"):
        words(tmp_path / "t.db")


def put(path: Path, text: str, times: tuple[int, int] | None = None) -> None:
    path.write_text(text)
    if times:
        os.utime(path, ns=times)


def test_a_changed_byte_is_noticed_though_size_and_time_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    put(path, "v\n1\n", (10**18, 10**18))
    before = fingerprint(file_source(path))
    put(path, "v\n2\n", (10**18, 10**18))
    assert path.stat().st_mtime_ns == 10**18
    assert fingerprint(file_source(path)) != before
    put(path, "v\n1\n")
    assert fingerprint(file_source(path)) == before


def test_a_copy_is_the_same_data(tmp_path: Path) -> None:
    path, copy = tmp_path / "t.csv", tmp_path / "sub" / "copy.csv"
    copy.parent.mkdir()
    put(path, "v\n1\n")
    put(copy, "v\n1\n", (10**18, 10**18))
    assert fingerprint(file_source(path)) == fingerprint(file_source(copy))


def test_a_file_is_read_again_only_when_its_state_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    put(path, "v\n1\n")
    reads: list[str] = []
    digest = source.hashlib.file_digest

    def counted(file: Any, name: str) -> Any:
        reads.append(name)
        return digest(file, name)

    monkeypatch.setattr(source.hashlib, "file_digest", counted)
    first = digest_of(path)
    assert digest_of(path) == first
    assert len(reads) == 2  # too young to be remembered: a write in the same tick would leave no trace
    later = time.time_ns() + 10**10
    monkeypatch.setattr(source.time, "time_ns", lambda: later)
    assert [digest_of(path) for _ in range(3)] == [first] * 3
    assert len(reads) == 3
    os.utime(path)
    assert digest_of(path) == first
    assert len(reads) == 4


def test_a_file_that_is_written_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    put(path, "v\n1\n")
    digest = source.hashlib.file_digest

    def late(file: Any, name: str) -> Any:
        put(path, "v\n1\n2\n")
        return digest(file, name)

    monkeypatch.setattr(source.hashlib, "file_digest", late)
    with pytest.raises(lw.Misconfigured, match="changed while being read"):
        digest_of(path)


def test_the_log_of_a_database_belongs_to_its_fingerprint(tmp_path: Path) -> None:
    """DuckDB reads what is in the log as if it were in the file."""
    path = write(tmp_path / "t.duckdb", "this file")
    before = fingerprint(DuckDBTable(path, "t"))
    (tmp_path / "t.duckdb.wal").write_bytes(b"more")
    assert fingerprint(DuckDBTable(path, "t")) != before


def open_file(path: Path, version: str = "1") -> lw.Curator:
    ledger = path.parent / "ledger.db"
    return lw.open(path, unit=None, budget=lw.Budget(epsilon=1), name="t", version=version, ledger=ledger)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_changed_file_is_not_served_and_resets_nothing(tmp_path: Path, ending: str, size: None) -> None:
    """The same size and time once hid a change, and a plain copy once was other data."""
    path = write(tmp_path / f"t.{ending}", "aa")
    os.utime(path, ns=(10**18, 10**18))
    curator = open_file(path)
    curator.sql("SELECT COUNT(*) AS n FROM t", epsilon=0.25)
    whole = path.read_bytes()
    write(path, "bb")
    os.utime(path, ns=(10**18, 10**18))
    with pytest.raises(lw.Misconfigured, match="changed without a new version"):
        curator.sql("SELECT COUNT(*) AS n FROM t WHERE v = 'aa'", epsilon=0.25)
    with pytest.raises(lw.Misconfigured, match="declared for other data"):
        open_file(path)
    assert open_file(path, version="2").budget.spent.amount == 0.25
    os.replace(path, path.with_name("old"))
    path.write_bytes(whole)
    assert open_file(path).budget.spent.amount == 0.25


def test_rows_that_change_while_they_are_loaded_are_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.csv", "aa")
    load = DuckDBEngine._load

    def late(self: DuckDBEngine, tables: Any) -> None:
        load(self, tables)
        write(path, "bb")

    monkeypatch.setattr(DuckDBEngine, "_load", late)
    with pytest.raises(lw.Misconfigured, match="changed while being opened"):
        open_file(path)


def test_column_names_of_a_file_differ_by_more_than_case(tmp_path: Path) -> None:
    """`"a"` read A."""
    pq.write_table(pa.table({"A": [1], "x": [{"A": 1, "a": 2}], "a": [2]}), tmp_path / "t.parquet")
    for use in (
        lambda: stored_types(Parquet(tmp_path / "t.parquet")),
        lambda: read_public("t", Parquet(tmp_path / "t.parquet")),
        lambda: DuckDBEngine(
            [(Table("t", (Field("a", Type.INTEGER),), None), Parquet(tmp_path / "t.parquet"))], salt=1
        ),
    ):
        with pytest.raises(
            lw.Misconfigured, match=r"`A` and `a` have the same name in SQL, which ignores case\. Rename one"
        ):
            use()
    pq.write_table(pa.table({"x": [{"A": 1, "a": 2, "y": [{"b": 1}]}], "A": [1]}), tmp_path / "nested.parquet")
    assert stored_types(Parquet(tmp_path / "nested.parquet")) == {"A": Type.INTEGER}
