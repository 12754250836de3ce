"""DuckDB: locked after loading, types from the catalog, what does not cast is NULL."""

from __future__ import annotations

import logging
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

from lapwing.curator import Curator, open_data
from lapwing.engines.connection import BEYOND, LEAST, check_version
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.duckdb import DuckDBEngine, hide_progress, stored_types
from lapwing.engines.source import Csv, DuckDBTable, Frame, Parquet, file_source, fingerprint
from lapwing.errors import Bug, Misconfigured
from lapwing.expressions.forms import KeyedHash, form_of
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type
from lapwing.plan.add_noise import arrange
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.query import cells_query
from lapwing.plan.question import Question
from lapwing.privacy import Budget, Pure
from lapwing.sql import read_sql
from support.cells import run
from support.visits import CANARY, frame, interval, open_visits, write_visits

LOCKED = [
    "SELECT * FROM read_csv('{other}')",
    "SELECT * FROM '{other}'",
    "SELECT * FROM read_text('/etc/hostname')",
    "SELECT * FROM glob('/*')",
    "COPY (SELECT 1) TO '{out}'",
    "COPY visits TO '{out}'",
    "ATTACH '{out}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 1",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "PRAGMA threads = 1",
    "SET allowed_paths = ['/']",
    "SET temp_directory = '/tmp'",
    "EXPORT DATABASE '{out}'",
    "IMPORT DATABASE '{out}'",
    "SET allowed_configs = ['threads']",
    "SET error_on_division_by_zero = true",
    "SET current_dialect = 'postgres'",
    "SELECT * FROM read_single_csv_file('{other}')",
    "SELECT * FROM sniff_csv('{other}')",
    "SELECT * FROM create_external_resource('a', 'b')",
]


def parquet_curator(folder: Path) -> Curator:
    return open_visits(write_visits(folder))


def csv_curator(folder: Path) -> Curator:
    path = folder / "visits.csv"
    path.write_text("pid,sex,cost,age,site\n1,F,1.5,20,9\n2,M,2.5,30,10\n")
    return open_visits(path, types={"pid": "integer", "cost": "real", "age": "integer", "site": "integer"})


def duckdb_curator(folder: Path) -> Curator:
    with duckdb.connect(str(folder / "visits.duckdb")) as connection:
        connection.register("data", frame())
        connection.execute("CREATE TABLE visits AS SELECT * FROM data")
    return open_visits(folder / "visits.duckdb")


def frame_curator(_: Path) -> Curator:
    return open_visits()


SOURCES = [parquet_curator, csv_curator, duckdb_curator, frame_curator]


@pytest.mark.parametrize("make", SOURCES)
def test_the_engine_is_locked_after_loading(make: Any, tmp_path: Path) -> None:
    """gate:G21 threat:A10 files, ATTACH, COPY, SET and INSTALL are blocked for whatever would get that far."""
    curator = make(tmp_path)
    (tmp_path / "other.csv").write_text("secret\n1\n")
    names = {"other": tmp_path / "other.csv", "out": tmp_path / "out"}
    for statement in LOCKED:
        with pytest.raises(duckdb.Error):
            curator._engine._connection.execute(statement.format(**names)).fetchall()
    assert not (tmp_path / "out").exists()
    assert len(curator.sql("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", epsilon=0.5)) == 2


def test_division_by_zero_is_no_error() -> None:
    """An error that one row causes would tell of it; DuckDB 2 has one by default."""
    engine = open_visits()._engine._connection
    assert engine.execute("SELECT 5 // 0, 5 % 0").fetchall() == [(None, None)]


@pytest.mark.parametrize("version", ["1.4.5", "0.10.3", "2.1.0", "2.1.0.dev7", "3.0.0", "10.5"])
def test_a_duckdb_that_is_not_tested_is_refused_before_any_charge(version: str) -> None:
    code = f"import duckdb\nduckdb.__version__ = {version!r}\nimport lapwing as lw\n"
    code += "try:\n    lw.open\nexcept lw.Misconfigured as told:\n    print(told)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    told = f'duckdb is {version}; Lapwing works with 1.5 to 2.0. Install one: pip install "duckdb>=1.5,<2.1".'
    assert found.strip() == told


def test_the_tested_versions_are_those_that_are_declared() -> None:
    for version in ("1.5", "1.5.6", "1.6.0", "1.10.1", "2.0.0", "2.0.9"):
        check_version(version)
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert "duckdb>=1.5,<2.1" in project["dependencies"]
    assert (LEAST, BEYOND) == ((1, 5), (2, 1))


def test_a_local_variable_is_no_table() -> None:
    """DuckDB would otherwise find frames of the calling program by their names."""
    curator = open_visits()
    visible_frame = frame()
    assert visible_frame.num_rows
    with pytest.raises(duckdb.Error):
        curator._engine._connection.execute("SELECT * FROM visible_frame")


@pytest.mark.parametrize("make", SOURCES)
def test_every_source_gives_the_same_shape(make: Any, tmp_path: Path) -> None:
    answer = make(tmp_path).sql("SELECT site, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY site", epsilon=1)
    assert answer.to_arrow(intervals=False).schema == pa.schema(
        {"site": pa.int64(), "n": pa.int64(), "c": pa.float64()}
    )
    assert answer.to_arrow()["site"].to_pylist() == [9, 10, 1000]


def exact(curator: Curator, text: str) -> list[list[int]]:
    plan = curator.preview(text, epsilon=1).plan
    engine = curator._engine
    arranged = arrange(plan, run(engine, cells_query(plan)))
    return [cells.tolist() for (cells,) in arranged.cells]


def test_what_does_not_cast_is_null(tmp_path: Path) -> None:
    """threat:A12 a row that does not fit its column is a missing value, not an error."""
    path = tmp_path / "t.csv"
    path.write_text(
        "p,age,cost,ok,day\n"
        "a,20,1.5,true,2020-01-01\n"
        f"b,{CANARY},{CANARY},{CANARY},{CANARY}\n"
        "c,99999999999999999999999,nan,perhaps,2020-13-45\n"
        "d,,inf,0,\n"
    )
    curator = open_data(
        path,
        unit=None,
        types={"age": "integer", "cost": "real", "ok": "boolean", "day": "date"},
        bounds={"age": (0, 100), "cost": (0, 10)},
        budget=Budget(epsilon=10),
    )
    assert exact(curator, "SELECT COUNT(*) AS n FROM t") == [[4]]
    assert exact(curator, "SELECT COUNT(age) AS n FROM t") == [[1]]
    assert exact(curator, "SELECT COUNT(cost) AS n FROM t") == [[2]]
    assert exact(curator, "SELECT COUNT(ok) AS n FROM t") == [[2]]
    assert exact(curator, "SELECT COUNT(day) AS n FROM t WHERE day >= '2020-01-01'") == [[1]]
    assert exact(curator, "SELECT SUM(age) AS n FROM t WHERE p <> 'zz'") == [[20]]


def test_types_come_from_the_catalog_and_not_from_the_rows(tmp_path: Path) -> None:
    """threat:A20 a CSV that looks like numbers is text until somebody says otherwise."""
    numbers, words = tmp_path / "numbers.csv", tmp_path / "words.csv"
    numbers.write_text("a,b\n1,2\n")
    words.write_text("a,b\nx,\n")
    assert stored_types(Csv(numbers)) == stored_types(Csv(words)) == {"a": Type.TEXT, "b": Type.TEXT}
    assert stored_types(Csv(numbers), guess=True)["a"] is Type.INTEGER


def test_stored_types_are_read_from_the_schema(tmp_path: Path) -> None:
    table = pa.table(
        {
            "i": pa.array([1], pa.uint16()),
            "u": pa.array([1], pa.uint64()),
            "f": pa.array([1.5], pa.float32()),
            "d": pa.array([1], pa.int64()).cast(pa.decimal128(21, 2)),
            "s": ["x"],
            "b": [True],
            "day": pa.array([1], pa.date32()),
            "at": pa.array([1], pa.timestamp("ns")),
            "e": pa.array(["x"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    expected = ["integer", "real", "real", "real", "text", "boolean", "date", "timestamp", "text"]
    assert [kind.value for kind in stored_types(Parquet(tmp_path / "t.parquet")).values()] == expected
    assert [kind.value for kind in stored_types(Frame(table)).values()] == expected


def test_keys_of_every_type_are_found(tmp_path: Path) -> None:
    from datetime import date, datetime

    at = datetime(2020, 1, 2, 3, 4, 5)  # noqa: DTZ001
    table = pa.table(
        {
            "flag": [True, False, None],
            "day": [date(2020, 1, 1), date(2021, 1, 1), None],
            "at": pa.array([at, at, None], pa.timestamp("ns")),
            "small": pa.array([1, 2, None], pa.uint8()),
            "word": pa.array(["a", "b", None]).dictionary_encode(),
        }
    )
    values = {"flag": [True], "day": ["2020-01-01"], "at": [at], "small": [2, 70_000], "word": ["b", None]}
    curator = open_data(table, name="t", unit=None, values=values, ledger=":memory:", budget=Budget(epsilon=10))
    expected = {"flag": [1], "day": [1], "at": [2], "small": [1, 0], "word": [1, 1]}
    for key, cells in expected.items():
        assert exact(curator, f"SELECT {key}, COUNT(*) AS n FROM t GROUP BY {key}") == [cells]
        assert curator.sql(f"SELECT {key}, COUNT(*) AS n FROM t GROUP BY {key}", epsilon=0.1).to_pandas().shape[1] == 4


def test_missing_columns_are_named(tmp_path: Path) -> None:
    table = Table("visits", (Field("sexx", Type.TEXT),), None)
    with pytest.raises(Misconfigured, match=r"no column `sexx`\. Did you mean `sex`"):
        DuckDBEngine([(table, Parquet(write_visits(tmp_path)))], salt=1)


@pytest.mark.parametrize("name", ["nowhere.parquet", "broken.parquet", "broken.duckdb", "nowhere.csv"])
def test_what_cannot_be_opened_is_told_without_content(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / name
    if name.startswith("broken"):
        path.write_text(CANARY)
    table = Table("t", (Field("a", Type.TEXT),), None)
    with caplog.at_level(logging.INFO), pytest.raises(Misconfigured, match="cannot be opened") as caught:
        DuckDBEngine([(table, file_source(path))], salt=1)
    assert CANARY not in str(caught.value) + caplog.text


def test_a_file_is_told_from_another(tmp_path: Path) -> None:
    path = write_visits(tmp_path)
    before = fingerprint(Parquet(path))
    assert fingerprint(Parquet(path)) == before
    write_visits(tmp_path, people=41)
    assert fingerprint(Parquet(path)) != before
    with pytest.raises(Misconfigured, match="cannot be opened"):
        fingerprint(DuckDBTable(tmp_path / "gone.duckdb", "t"))


def test_threads_do_not_change_the_cells() -> None:
    """gate:G10 threat:A14 exact integers do not depend on the order of addition."""
    rows = [(i, float(i % 97) / 7) for i in range(50_000)]
    data = pa.table({"p": [r[0] for r in rows], "x": [r[1] for r in rows]})
    table = Table("t", (Field("p", Type.INTEGER), Field("x", Type.REAL, interval(0, 10))), None)
    found = set()
    for order in (data, data.take(list(reversed(range(data.num_rows))))):
        curator = open_data(
            order, name="t", unit=None, bounds={"x": (0, 10)}, ledger=":memory:", budget=Budget(epsilon=1)
        )
        found.add(exact(curator, "SELECT SUM(x) AS s FROM t")[0][0])
    assert len(found) == 1
    assert table.by_row


def test_what_does_not_fit_into_memory_goes_to_a_private_folder_that_is_removed(tmp_path: Path) -> None:
    """Three million units in 96 MB: the answer is right, and nobody else can read the files on the way."""
    path, many = tmp_path / "t.parquet", 3_000_000
    duckdb.execute(f"COPY (SELECT i AS p, hash(i) % 1000 AS k, i % 7 AS x FROM range({many}) t(i)) TO '{path}'")
    fields = (Field("p", Type.INTEGER), Field("k", Type.INTEGER, values=tuple(range(1000))), Field("x", Type.INTEGER))
    table = Table("t", fields, "p", 1, 2)
    question = read_sql("SELECT k, COUNT(*) AS n FROM t GROUP BY k", Catalog((table,)))
    assert isinstance(question, Question)
    plan = make_plan(question, Pure(1))
    assert isinstance(plan, Plan)
    engine = DuckDBEngine([(table, Parquet(path))], salt=1, memory="96MB")
    (folder,) = engine._connection.execute("SELECT current_setting('temp_directory')").fetchone() or ("",)
    assert Path(folder).stat().st_mode & 0o777 == 0o700
    rows = run(engine, cells_query(plan))
    assert sum(int(n) for n in rows.column("c0").to_pylist()) == many
    engine.close()
    assert not Path(folder).exists()


def test_a_forgotten_engine_removes_its_folder(tmp_path: Path) -> None:
    engine = DuckDBEngine([(Table("t", (Field("x", Type.INTEGER),), None), Frame(pa.table({"x": [1]})))], salt=1)
    (folder,) = engine._connection.execute("SELECT current_setting('temp_directory')").fetchone() or ("",)
    assert Path(folder).is_dir()
    del engine
    assert not Path(folder).exists()


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT", '"NOCASE.NOACCENT"', "NFC"])
def test_units_with_a_collation_are_refused(collation: str, tmp_path: Path) -> None:
    """threat:A34 'Ann' and 'ann' would be one unit in this table and two in another, and one would meet both."""
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t (who VARCHAR COLLATE {collation}, other VARCHAR COLLATE {collation})")
        connection.execute("CREATE TABLE plain (who VARCHAR, other VARCHAR COLLATE NOCASE)")
    fields = Field("who", Type.TEXT), Field("other", Type.TEXT)
    with pytest.raises(Misconfigured, match="`who` is stored with a collation"):
        DuckDBEngine([(Table("t", fields, "who", 1), DuckDBTable(tmp_path / "t.duckdb", "t"))], salt=1)
    DuckDBEngine([(Table("plain", fields, "who", 1), DuckDBTable(tmp_path / "t.duckdb", "plain"))], salt=1).close()


def test_units_of_two_lists_are_refused_without_telling_them(tmp_path: Path) -> None:
    """threat:A13 the type of an ENUM lists its values, and here they are people."""
    fields, place = (Field("who", Type.TEXT),), tmp_path / "t.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.execute("CREATE TABLE a (who ENUM('ZZCANARY'))")
        connection.execute("CREATE TABLE b (who ENUM('ZZCANARY', 'bob'))")
    with pytest.raises(Misconfigured, match=r"in different types \(ENUM\), so") as caught:
        DuckDBEngine([(Table(name, fields, "who", 1), DuckDBTable(place, name)) for name in "ab"], salt=1)
    assert "ZZCANARY" not in str(caught.value)


@pytest.mark.parametrize("kind", ["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP"])
@pytest.mark.parametrize("declared", [Type.DATE, Type.TIMESTAMP, Type.TEXT])
def test_times_without_end_are_no_failure(kind: str, declared: Type, tmp_path: Path) -> None:
    """threat:A12 the engine casts the largest value of a column while it plans a query."""
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t (v {kind})")
        connection.execute("INSERT INTO t VALUES ('infinity'), ('-infinity'), ('2020-01-02 00:00:00')")
    table = Table("t", (Field("v", declared),), None)
    engine = DuckDBEngine([(table, DuckDBTable(tmp_path / "t.duckdb", "t"))], salt=1)
    engine.check(table)
    day = "CAST(v AS VARCHAR) LIKE '2020-01-02%'"
    assert engine._connection.execute(f"SELECT COUNT(*) FROM t WHERE {day}").fetchone() == (1,)


@pytest.mark.parametrize("rows", [1, 20], ids=["among rows", "among totals"])
def test_groups_with_the_same_hash_are_chosen_by_their_keys(rows: int) -> None:
    """threat:A34 the hash has 32 bits, so groups of a unit may share one; then as many are chosen, the first by key."""
    data = pa.table({"p": [1] * 6 + [2] * 2, "k": [5, 3, 4, 0, 2, 1, 5, 4]})
    table = Table("t", (Field("p", Type.INTEGER), Field("k", Type.INTEGER, values=tuple(range(6)))), "p", rows, 2)
    question = read_sql("SELECT k, COUNT(*) AS n FROM t GROUP BY k", Catalog((table,)))
    assert isinstance(question, Question)
    plan = make_plan(question, Pure(1))
    assert isinstance(plan, Plan)
    engine = DuckDBEngine([(table, Frame(data))], salt=1)
    query = cells_query(plan).transform(lambda node: exp.Literal.number(7) if form_of(node) is KeyedHash else node)
    arranged = arrange(plan, run(engine, query))
    assert arranged.cells[0][0].tolist() == [1, 1, 0, 0, 1, 1]


def test_the_keyed_hash_has_32_bits_and_depends_on_the_salt() -> None:
    frames = [(Table("t", (Field("x", Type.INTEGER),), None), Frame(pa.table({"x": range(100)})))]
    found = []
    for salt in (1, 1, 2):
        engine = DuckDBEngine(frames, salt=salt)
        query = exp.select(exp.alias_(KeyedHash(expressions=[exp.column("x")]), "h")).from_("t").order_by("x")
        found.append([int(h) for h in run(engine, query).column("h").to_pylist()])
    assert found[0] == found[1] != found[2]
    assert max(found[0]) < 2**32
    assert len(set(found[0])) > 95


def test_a_query_runs_by_its_text_whatever_was_parsed_before() -> None:
    frames = [(Table("t", (Field("x", Type.INTEGER),), None), Frame(pa.table({"x": range(9)})))]
    engine = DuckDBEngine(frames, salt=1)
    few, all_ = (engine.prepare(EngineQuery(f"SELECT x FROM t WHERE x < {most}", {})) for most in (3, 9))
    for _ in range(2):
        assert sorted(engine.fetch(few).column("x").to_pylist()) == [0, 1, 2]
        assert engine.fetch(all_).num_rows == 9
        assert engine.fetch(replace(few, text=all_.text)).num_rows == 9
    with pytest.raises(Bug):
        engine.prepare(EngineQuery("SELECT 1; SELECT 2", {}))


def test_a_progress_bar_is_turned_off() -> None:
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = true")
        hide_progress(connection)
        assert connection.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (False,)


def test_a_progress_bar_that_is_off_is_left_alone() -> None:
    """In a notebook without ipywidgets DuckDB refuses the setting, whatever it is set to."""

    class InNotebook:
        def execute(self, statement: str) -> Any:
            if statement.startswith("SET"):
                raise duckdb.InvalidInputException("required package 'ipywidgets' is missing")
            return SimpleNamespace(fetchall=lambda: [(False,)])

    notebook: Any = InNotebook()
    assert hide_progress(notebook) is None
