"""Spark: what it shares with the caller, what it shows, what it leaves behind, and what stops it."""

from __future__ import annotations

import logging
import os
import re
import signal
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

import lapwing as lw
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.engine import Engine
from lapwing.engines.frames import frame_source
from lapwing.engines.source import SparkFrame, SparkTable, read_source
from lapwing.engines.spark import SparkEngine, stored_types
from lapwing.engines.spark_dialect import SALT_TABLE, SPARK
from lapwing.engines.spark_session import MEANING, Sessions, check_java, read_spark_address
from lapwing.errors import EngineFailed, Misconfigured, Refused
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Interval, Type
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.question import Question
from lapwing.privacy.loss import ZCDP
from lapwing.sql import read_sql
from support.cells import exact_cells, run

SALT = 0x5A17_5EC7E7
HERE = read_spark_address(os.environ.get("LAPWING_SPARK_MASTER", "local[2]"), public=True)

VISITS = Table(
    "visits",
    (
        Field("pid", Type.INTEGER),
        Field("cost", Type.REAL, Interval(Fraction(0), Fraction(100))),
        Field("town", Type.TEXT, values=("oslo", "a\\b", "Oslo", "o'x")),
        Field("at", Type.TIMESTAMP),
        Field("day", Type.DATE),
    ),
    "pid",
    rows_per_unit=3,
    groups_per_unit=4,
)
ROWS = pa.table(
    {
        "pid": pa.array([1, 1, 2, 3, 4, None], pa.int64()),
        "cost": pa.array([1.5, 200.0, float("nan"), float("-inf"), 0.1, 1.0], pa.float64()),
        "town": pa.array(["oslo", "a\\b", "Oslo", None, "o'x", "oslo"]),
        "at": pa.array(
            [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), None, datetime(2021, 3, 28, 2, 30)] * 1  # noqa: DTZ001
            + [datetime(1969, 12, 31, 23), datetime(2020, 2, 29)],  # noqa: DTZ001
            pa.timestamp("us"),
        ),
        "day": pa.array([date(1, 1, 1), date(9999, 12, 31), None, date(2021, 3, 28), date(1582, 10, 10), None]),
    }
)
QUESTIONS = (
    "SELECT town, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY town",
    "SELECT HOUR(at) AS h, COUNT(*) AS n FROM visits GROUP BY HOUR(at)",
    "SELECT COUNT(*) AS n FROM visits WHERE town = 'a\\b' OR at < TIMESTAMP '1970-01-01 00:00:00'",
    "SELECT COUNT(*) AS n FROM visits WHERE DATE_TRUNC('hour', at) = TIMESTAMP '2021-03-28 02:00:00'",
    "SELECT COUNT(DISTINCT pid) AS n FROM visits WHERE YEAR(day) < 1583 AND cost IS NOT NULL",
)


def plan_of(text: str, table: Table = VISITS) -> Plan:
    question = read_sql(text, Catalog((table,)))
    assert isinstance(question, Question)
    return make_plan(question, ZCDP(Fraction(1, 2)))


def cells(engine: Engine, text: str) -> Any:
    found = exact_cells(engine, plan_of(text))
    return [[column.tolist() for column in columns] for columns in found.cells]


@pytest.fixture
def engine(spark: Any) -> SparkEngine:
    return SparkEngine([(VISITS, SparkFrame(spark.createDataFrame(ROWS)))], salt=SALT)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Parquet files with statistics, as other programs write them."""
    where = tmp_path / "visits"
    where.mkdir()
    pq.write_table(ROWS, where / "one.parquet")
    return where


def opened(source: Any, **more: Any) -> lw.Curator:
    return lw.open(
        source,
        unit="pid",
        budget=lw.Budget(epsilon=10),
        name="visits",
        rows_per_unit=3,
        groups_per_unit=4,
        bounds={"cost": (0, 100)},
        values={"town": ["oslo", "rome"]},
        check=0,
        **more,
    )


# What it shares with the caller.


@pytest.fixture
def odd(spark: Any) -> Iterator[Any]:
    """A session of the caller whose settings change the meaning of almost everything."""
    session = spark.newSession()
    for name, value in {
        "spark.sql.session.timeZone": "Asia/Kolkata",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.shuffle.partitions": "3",
    }.items():
        session.conf.set(name, value)
    session.sql("SELECT 7 AS mine").createOrReplaceTempView("visits")
    yield session
    session.catalog.dropTempView("visits")


def test_settings_of_the_caller_change_no_cell_and_stay_as_they_were(odd: Any, spark: Any) -> None:
    """Whatever the caller's time zone, mode and literals are, cells are DuckDB's."""
    data = odd.createDataFrame(ROWS)
    before, active = dict(odd.conf.getAll), type(spark)._activeSession
    engine = SparkEngine([(VISITS, SparkFrame(data))], salt=SALT)
    duckdb = DuckDBEngine([(VISITS, frame_source(ROWS))], salt=SALT)
    for text in QUESTIONS:
        assert cells(engine, text) == cells(duckdb, text), text
    assert dict(odd.conf.getAll) == before
    assert type(spark)._activeSession is active
    assert odd.table("visits").collect()[0].mine == 7
    assert [table.name for table in odd.catalog.listTables()] == ["visits"]


def test_every_setting_that_gives_meaning_is_set_in_the_session_of_an_answer(spark: Any) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    with Sessions(spark).fresh() as session:
        assert {name: session.conf.get(name) for name in MEANING} == MEANING
        assert session.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.parametrize("variable", ["${spark.sql.session.timeZone}", "${env:LAPWING_SECRET}", "${system:os.name}"])
def test_variables_in_constants_and_names_stay_as_they_are(
    variable: str, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """threat:A10 Spark would write its settings and the environment of its driver in their place, secrets too."""
    monkeypatch.setenv("LAPWING_SECRET", "hunter2")
    rows = pa.table({"pid": [1, 2, 3, 4], variable: ["UTC", os.environ["LAPWING_SECRET"], "Linux", variable]})
    table = Table("visits", (Field("pid", Type.INTEGER), Field(variable, Type.TEXT)), "pid", 1)
    engine = SparkEngine([(table, SparkFrame(spark.createDataFrame(rows)))], salt=SALT)
    text = f"SELECT COUNT(*) AS n FROM visits WHERE \"{variable}\" = '{variable}'"
    found = exact_cells(engine, plan_of(text, table))
    assert [[column.tolist() for column in columns] for columns in found.cells] == [[[1]]]


@pytest.mark.parametrize("chance", ["rand()", "rand(7)", "uuid()", "monotonically_increasing_id()", "randn(1)"])
def test_columns_that_are_no_functions_of_their_row_are_refused(chance: str, spark: Any) -> None:
    """threat:A34 without one person, the rows behind hers would have other values: anybody's contribution changes."""
    data = spark.createDataFrame(ROWS).selectExpr("pid", "town", f"{chance} AS cost")
    for frame in (data, data.where("cost IS NOT NULL").select("pid", "town")):
        with pytest.raises(Misconfigured, match="not functions of the row"):
            opened(frame)


def test_a_cluster_in_another_zone_changes_no_meaning(spark: Any) -> None:
    """New sessions begin with the settings of the cluster, not with those of the caller's session."""
    cluster, name = spark.sparkContext._jsc.sc().conf(), "spark.sql.session.timeZone"
    cluster.set(name, "Asia/Kolkata")
    try:
        assert spark.newSession().conf.get(name) == "Asia/Kolkata"
        with Sessions(spark).fresh() as session:
            assert session.conf.get(name) == "UTC"
    finally:
        cluster.remove(name)


def test_times_with_a_zone_are_read_in_utc(odd: Any) -> None:
    """As DuckDB reads TIMESTAMP WITH TIME ZONE, whatever the zone of the caller's session is."""
    data = odd.sql("SELECT 1L AS pid, CAST('2020-01-01 03:00:00+05:30' AS TIMESTAMP_LTZ) AS at")
    assert stored_types(SparkFrame(data)).zoned == {"at"}
    assert stored_types(SparkFrame(odd.sql("SELECT TIMESTAMP_NTZ '2020-01-01 03:00:00' AS at"))).zoned == frozenset()
    oslo = Table("visits", (Field("at", Type.TIMESTAMP, zone="Europe/Oslo"),), None)
    with pytest.raises(Misconfigured, match="Declare UTC"):
        SparkEngine([(oslo, SparkFrame(data))], salt=SALT)
    table = Table("visits", (Field("at", Type.TIMESTAMP),), None)
    engine = SparkEngine([(table, SparkFrame(data))], salt=SALT)
    query = exp.select(exp.column("at", quoted=True)).from_("visits")
    assert run(engine, query).column(0).to_pylist() == [datetime(2019, 12, 31, 21, 30)]  # noqa: DTZ001


def test_stored_types_are_read_as_declared(spark: Any) -> None:
    data = spark.sql(
        "SELECT CAST(1 AS TINYINT) AS a, CAST(2.5 AS DECIMAL(9, 1)) AS b, CAST(1.5 AS FLOAT) AS c, '12' AS d, "
        "DATE '2020-01-01' AS e, ARRAY(1) AS f, CAST('x' AS BINARY) AS g"
    )
    assert stored_types(SparkFrame(data)) == {
        "a": Type.INTEGER, "b": Type.REAL, "c": Type.REAL, "d": Type.TEXT, "e": Type.DATE,
    }  # fmt: skip
    kinds = {"a": Type.REAL, "b": Type.INTEGER, "c": Type.INTEGER, "d": Type.INTEGER, "e": Type.TIMESTAMP}
    table = Table("t", tuple(Field(name, kind) for name, kind in kinds.items()), None)
    [row] = run(SparkEngine([(table, SparkFrame(data))], salt=SALT), exp.select("*").from_("t")).to_pylist()
    assert row == {"a": 1.0, "b": 2, "c": 2, "d": 12, "e": datetime(2020, 1, 1)}  # noqa: DTZ001


def test_units_with_a_collation_are_refused(spark: Any) -> None:
    """Under UTF8_LCASE Ann and ann are one."""
    data = spark.sql("SELECT 'Ann' COLLATE UTF8_LCASE AS pid, 1 AS x")
    table = Table("t", (Field("x", Type.INTEGER), Field("pid", Type.TEXT)), "pid")
    with pytest.raises(Misconfigured, match="one spelling per unit"):
        SparkEngine([(table, SparkFrame(data))], salt=SALT)
    assert "pid" not in stored_types(SparkFrame(data))


def test_columns_that_differ_by_case_alone_are_refused(spark: Any) -> None:
    with pytest.raises(Misconfigured, match="ignores case"):
        stored_types(SparkFrame(spark.sql("SELECT 1 AS a, 2 AS A")))


ODD = pa.table(
    {
        "pid": pa.array(range(12), pa.int64()),
        "n": pa.array([2**63 - 1, -(2**63), 0, None, *[7] * 8], pa.int64()),
        "x": [float("nan"), float("inf"), float("-inf"), -0.0, 1e308, -1e308, 5e-324, -1.0, 1e19, 2.5, 0.5, None],
        "s": ["", " 12 ", "9" * 40, "1e400", "-", "12.5", "nan", "x" * 20_000, "\N{SNOWMAN}é", "1.5f", "007", None],
    }
)
ODD_TABLE = Table(
    "t",
    (Field("pid", Type.INTEGER), Field("n", Type.INTEGER), Field("x", Type.REAL), Field("s", Type.TEXT)),
    "pid",
    rows_per_unit=1,
)
NUMBERS = (
    "n + n", "n * n * n", "n - 9000000000000000000", "ABS(n)", "x / n", "x % 2", "n % x", "x % n", "x / 0", "SQRT(x)",
    "ROUND(x)", "FLOOR(x)", "CEIL(x * 10)", "x * x * x", "CAST(x AS INTEGER)", "SIGN(x)", "LENGTH(s)", "GREATEST(x, n)",
    "CAST(s AS DOUBLE)", "CAST(s AS INTEGER)", "CLIP(LENGTH(UPPER(s)), 0, 3)", "COALESCE(x, n)", "NULLIF(n, 7)",
    "POWER(x, 2)",
)  # fmt: skip


def test_odd_values_in_compiled_queries_give_the_cells_of_duckdb(spark: Any) -> None:
    """NaN, infinities, -0.0, the largest integers, texts that are no number: whole-stage compiled, from columns."""
    engines = [
        SparkEngine([(ODD_TABLE, SparkFrame(spark.createDataFrame(ODD)))], salt=SALT),
        DuckDBEngine([(ODD_TABLE, frame_source(ODD))], salt=SALT),
    ]
    sums = ", ".join(f"SUM(CLIP({name}, -3, 3)) AS c{i}" for i, name in enumerate(NUMBERS))
    plan = plan_of(f"SELECT {sums} FROM t", ODD_TABLE)
    kinds = [measure.kind for measure in plan.measures]  # in an order of their own, so each is looked up
    places = {
        name: kinds.index(plan_of(f"SELECT SUM(CLIP({name}, -3, 3)) FROM t", ODD_TABLE).measures[0].kind)
        for name in NUMBERS
    }
    mine, other = ([[c.tolist() for c in columns] for columns in exact_cells(one, plan).cells] for one in engines)
    assert {name: mine[place] for name, place in places.items()} == {
        name: other[place] for name, place in places.items()
    }


# What it shows.


def test_no_text_and_no_plan_has_the_salt(engine: SparkEngine, spark: Any) -> None:
    """threat:A13 Spark stores the texts and plans of queries in its event log."""
    from lapwing.plan.query import queries

    plan = plan_of(QUESTIONS[0], replace(VISITS, groups_per_unit=1))
    (query,) = queries(plan).prepared(engine.prepare).all
    assert query.tables[SALT_TABLE].to_pylist() == [{"v": f"{SALT:x}"}]
    with engine._sessions.fresh() as session:
        engine._make_views(session)
        engine._sessions.rows(query.tables[SALT_TABLE], session).createOrReplaceTempView(SALT_TABLE)
        data = session.sql(query.text)
        data.collect()
        shown = data._jdf.queryExecution().toString()
    assert "xxhash64" in shown
    assert f"{SALT:x}" not in query.text + shown


def test_patterns_of_like_take_linear_time() -> None:
    """No part gives back what it matched, so a text is read about once; threat:A26."""
    from lapwing.expressions import forms
    from lapwing.expressions.to_sqlglot import literal

    form = forms.Matches(this=exp.column("s"), expression=literal("a%b.c%d%e"))
    assert SPARK.write(form).text == r"s RLIKE '(?s)\\Aa(?>.*?b\\x2ec)(?>.*?d).*e\\z'"


def test_regular_expressions_are_refused_before_the_charge(spark: Any) -> None:
    curator = opened(spark.createDataFrame(ROWS))
    with pytest.raises(Refused, match="backtracking") as refused:
        curator.sql("SELECT COUNT(*) FROM visits WHERE REGEXP_MATCHES(town, 'o+')", epsilon=1)
    assert "Nothing was charged" in str(refused.value)
    with pytest.raises(Refused) as before:
        curator.preview("SELECT COUNT(*) FROM visits WHERE REGEXP_MATCHES(town, 'o+')", epsilon=1)
    assert str(before.value) == str(refused.value)
    assert curator.budget.remaining.amount == 10


def test_an_error_of_spark_reaches_neither_message_nor_log(
    spark: Any, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """threat:A13 a DataFrame of the caller that fails on a value: constant sentence, nothing in Python's log.

    What Spark's own log says of the caller's expression is the caller's; docs/warehouse-spark.md says so."""
    spark.conf.set("spark.sql.ansi.enabled", "true")
    data = spark.sql("SELECT id AS pid, CAST(CONCAT('ZZCANARY', id) AS DOUBLE) AS cost, 'oslo' AS town FROM RANGE(3)")
    failing = SparkEngine([(Table("v", (Field("cost", Type.REAL),), None), SparkFrame(data))], salt=SALT)
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "py4j")
    with pytest.raises(Misconfigured, match="cannot be read") as told:
        failing.check(Table("v", (Field("cost", Type.REAL),), None))
    out, err = capfd.readouterr()
    assert "ZZCANARY" not in str(told.value) + out + err + caplog.text
    spark.range(1).count()
    assert "Command to send" in caplog.text  # the caller's own


def test_the_log_of_the_caller_speaks_again_afterwards(engine: SparkEngine, spark: Any) -> None:
    from pyspark.logger import PySparkLogger

    heard: list[str] = []
    ear = logging.Handler()
    ear.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.addHandler(ear)
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        with pytest.raises(Exception, match="ZZOURS"):
            engine.fetch(EngineQuery("SELECT CAST('ZZOURS' AS INT) AS v", {}))
        with pytest.raises(Exception, match="ZZTHEIRS"):
            spark.sql("SELECT CAST('ZZTHEIRS' AS INT)").collect()
    finally:
        logger.removeHandler(ear)
    assert ["ZZOURS" in line or "ZZTHEIRS" in line for line in heard] == [True]
    assert "ZZTHEIRS" in heard[0]


# Snapshots and versions.


def test_an_answer_reads_one_list_of_files(folder: Path, spark: Any) -> None:
    engine = SparkEngine([(VISITS, SparkTable(HERE, str(folder)))], salt=SALT)
    count = engine.prepare(exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_("visits"))
    with engine.snapshot() as fetch:
        first = fetch(count).to_pylist()
        pq.write_table(ROWS, folder / "two.parquet")
        assert fetch(count).to_pylist() == first == [{"n": 6}]
    assert engine.fetch(count).to_pylist() == [{"n": 12}]


def test_a_changed_column_pauses_and_nothing_is_charged(folder: Path, spark: Any, tmp_path: Path) -> None:
    curator = opened(HERE.url, table=str(folder), ledger=tmp_path / "ledger.db")
    curator.sql("SELECT COUNT(*) FROM visits", epsilon=1)
    assert curator.budget.remaining.amount == 9
    (folder / "one.parquet").unlink()
    pq.write_table(ROWS.set_column(1, "cost", ROWS["cost"].cast(pa.string())), folder / "two.parquet")
    with pytest.raises(Misconfigured, match="with a new `version` if its data changed"):
        curator.sql("SELECT SUM(cost) FROM visits", epsilon=1)
    assert curator.budget.remaining.amount == 9


def test_statistics_of_files_decide_nothing(tmp_path: Path, spark: Any) -> None:
    """NaN is no part of them. By them a row would count or not by the rows beside it in its file. threat:A34"""
    table = Table("t", (Field("x", Type.REAL),), None)
    pq.write_table(pa.table({"x": [1.0, float("nan")]}), tmp_path / "one.parquet")
    pq.write_table(pa.table({"x": [900.0, float("nan")]}), tmp_path / "two.parquet")
    engine = SparkEngine([(table, SparkTable(HERE, f"{tmp_path}/"))], salt=SALT)
    with engine._sessions.fresh() as session:
        engine._make_views(session)
        assert session.sql("SELECT x FROM t WHERE x >= 300").count() == 3  # NaN is the largest number there
    usual = spark.newSession()
    usual.conf.set("spark.sql.parquet.filterPushdown", "true")
    assert usual.read.parquet(str(tmp_path)).where("x >= 300").count() == 2


def test_parquet_files_give_the_same_cells(folder: Path, spark: Any) -> None:
    engine = SparkEngine([(VISITS, SparkTable(HERE, str(folder)))], salt=SALT)
    duckdb = DuckDBEngine([(VISITS, frame_source(ROWS))], salt=SALT)
    for text in QUESTIONS[:3]:
        assert cells(engine, text) == cells(duckdb, text), text


def test_a_folder_that_duckdb_opened_is_read_without_its_witness(folder: Path, spark: Any, tmp_path: Path) -> None:
    lw.open(folder / "one.parquet", unit="pid", rows_per_unit=3, budget=lw.Budget(epsilon=1)).close()
    assert (folder / "one.parquet.lapwing").exists()
    pq.write_table(ROWS, folder / "two.lapwingg")  # any other name is data
    opened(HERE.url, table=str(folder), ledger=tmp_path / "ledger.db").close()
    engine = SparkEngine([(VISITS, SparkTable(HERE, str(folder)))], salt=SALT)
    count = engine.prepare(exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_("visits"))
    assert engine.fetch(count).to_pylist() == [{"n": 12}]


def test_a_place_that_is_not_there_is_refused_without_spark_s_words(spark: Any, tmp_path: Path) -> None:
    for table in (str(tmp_path / "none"), "nowhere.visits"):
        with pytest.raises(Misconfigured, match=r"Spark cannot open .* \(AnalysisException\)"):
            opened(HERE.url, table=table, ledger=tmp_path / "ledger.db")


def test_another_master_in_this_process_is_refused(spark: Any) -> None:
    with pytest.raises(Misconfigured, match=r"runs Spark on .* already"):
        stored_types(read_source("local[7]", "visits"))


# What stops it.


def active_jobs(spark: Any) -> int:
    return len(spark.sparkContext.statusTracker().getActiveJobsIds())


SLOW = "SELECT COUNT(*) AS n FROM RANGE(1000000) AS a CROSS JOIN RANGE(1000000) AS b WHERE XXHASH64(a.id, b.id) = 7"


def test_an_interrupt_stops_the_query_on_the_cluster(engine: SparkEngine, spark: Any) -> None:
    over = threading.Event()

    def interrupt() -> None:
        while not active_jobs(spark) and not over.wait(0.05):
            pass
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    other = threading.Thread(target=interrupt)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        other.start()
        with pytest.raises(KeyboardInterrupt):
            engine.fetch(EngineQuery(SLOW, {}))
    finally:
        over.set()
        other.join()
        signal.signal(signal.SIGINT, handler)
    assert not active_jobs(spark)
    assert run(engine, exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_("visits")).to_pylist() == [
        {"n": 6}
    ]


def test_a_query_that_takes_too_long_is_cancelled(engine: SparkEngine, spark: Any) -> None:
    """From its first moment on, when no job of it runs yet that could be cancelled."""
    with pytest.raises(Exception, match="cancel"):
        engine.fetch(EngineQuery(SLOW, {}, seconds=0))
    assert not active_jobs(spark)


# Where Spark is.


def test_addresses_show_no_secret() -> None:
    url = "sc://spark.example.org:15002/;user_id=ann;token=ZZTOKEN;use_ssl=true"
    address = read_spark_address(url, public=False)
    assert str(address) == "sc://spark.example.org:15002"
    assert "ZZTOKEN" not in repr(address) + repr(SparkTable(address, "visits"))
    with pytest.raises(Misconfigured, match="SPARK_CONNECT_AUTHENTICATE_TOKEN") as refused:
        read_spark_address(url, public=True)
    assert "ZZTOKEN" not in str(refused.value)


@pytest.mark.parametrize(
    ("version", "refused"), [("1.8.0_392", True), ("17.0.9", False), ("21.0.1", False), ("25", True)]
)
def test_another_java_is_refused_in_one_sentence(
    version: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if not refused:
        assert check_java() is None
        return
    with pytest.raises(Misconfigured, match=r"Spark 4.0 runs on Java 17 or 21, and this is Java (8|25)\. Install"):
        check_java()


def test_a_machine_without_java_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Misconfigured, match=r"this machine has none\. Install Java 17"):
        check_java()


# Spark Connect.


@pytest.fixture
def remote(spark: Any) -> str:
    """A Spark Connect server in the same JVM."""
    pytest.importorskip("grpc")
    return str(spark.remote)


def test_a_connect_server_gives_the_same_cells(remote: str, spark: Any, folder: Path) -> None:
    engine = SparkEngine([(VISITS, SparkTable(read_spark_address(remote, public=True), str(folder)))], salt=SALT)
    duckdb = DuckDBEngine([(VISITS, frame_source(ROWS))], salt=SALT)
    for text in QUESTIONS[:3]:
        assert cells(engine, text) == cells(duckdb, text), text


def test_a_dataframe_of_a_connect_session_is_read_in_our_own(remote: str, spark: Any, folder: Path) -> None:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession(connection=remote)
    session.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        engine = SparkEngine([(VISITS, SparkFrame(session.read.parquet(str(folder))))], salt=SALT)
        duckdb = DuckDBEngine([(VISITS, frame_source(ROWS))], salt=SALT)
        assert cells(engine, QUESTIONS[1]) == cells(duckdb, QUESTIONS[1])
        assert session.conf.get("spark.sql.session.timeZone") == "Asia/Kolkata"
        assert session.catalog.listTables() == []
    finally:
        session.stop()


def test_a_server_that_is_not_there_is_refused_without_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc")
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "ZZTOKEN")
    with pytest.raises(Misconfigured, match=r"no Spark answers at sc://127\.0\.0\.1:1 ") as refused:
        stored_types(read_source("sc://127.0.0.1:1", "visits"))
    assert "ZZTOKEN" not in str(refused.value)


def test_a_failure_after_the_charge_stays_charged(spark: Any) -> None:
    """threat:A11 the caller's own expression fails on a row: one constant sentence, and the price is gone."""
    spark.conf.set("spark.sql.ansi.enabled", "true")
    sound = "SELECT id AS pid, CAST(1 AS DOUBLE) AS cost, 'oslo' AS town FROM RANGE(3)"
    curator = opened(spark.sql(sound))
    engine = curator._private_data._engine
    engine._tables[0] = (engine._tables[0][0], SparkFrame(spark.sql(sound.replace("1 AS", "CONCAT('ZZ', id) AS"))))
    with pytest.raises(EngineFailed) as failed:
        curator.sql("SELECT SUM(cost) FROM visits", epsilon=1)
    assert "ZZ" not in str(failed.value)
    assert curator.budget.remaining.amount == 9


# Its page.

PAGE = (Path(__file__).parents[2] / "docs" / "warehouse-spark.md").read_text(encoding="utf-8")


def test_the_code_of_the_page_runs(spark: Any) -> None:
    rows = "SELECT id % 7 AS patient, IF(id % 2 = 0, 'F', 'M') AS sex, CAST(id AS DOUBLE) AS cost FROM RANGE(40)"
    spark.sql(rows).createOrReplaceTempView("visits")
    names: dict[str, Any] = {"spark": spark}
    try:
        for text in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE):
            exec(compile(text, "warehouse-spark.md", "exec"), names)
    finally:
        spark.catalog.dropTempView("visits")
    assert names["answer"].columns


def test_the_plan_of_the_page_is_spark_s(spark: Any) -> None:
    """Totals of a unit are added up on each node before they cross the network, and so are cells."""
    plan = steps_of(spark)
    assert plan in PAGE
    kinds = re.findall(r"HashAggregate|Exchange|Window", plan)  # from the last step to the first
    cells, groups, totals = ["HashAggregate", "Exchange", "HashAggregate"], ["Window", "Exchange"], ["HashAggregate"]
    assert kinds == [*cells, *groups, *totals, "Exchange", *totals]


PURCHASES = Table(
    "purchases",
    (
        Field("uid", Type.INTEGER),
        Field("category", Type.INTEGER, values=tuple(range(50))),
        Field("amount", Type.REAL, Interval(Fraction(0), Fraction(500))),
    ),
    "uid",
    rows_per_unit=9,
    groups_per_unit=5,
)


def test_rows_of_a_unit_cross_the_network_once_where_few_are_in_a_group(spark: Any) -> None:
    """The other order that the page tells of: no totals before the groups are chosen."""
    plan = steps_of(spark, replace(PURCHASES, rows_per_unit=5))
    assert re.findall(r"Exchange by .*", plan) == ["Exchange by k0", "Exchange by lw_unit"]


def steps_of(spark: Any, table: Table = PURCHASES) -> str:
    """The plan of the question on the page, one line a step, without expressions."""
    from lapwing.plan.query import queries

    data = spark.createDataFrame(pa.table({"uid": [1], "category": [1], "amount": [1.0]}))
    engine = SparkEngine([(table, SparkFrame(data))], salt=SALT)
    text = "SELECT category, COUNT(*) AS n, SUM(amount) AS s FROM purchases GROUP BY category"
    (query,) = queries(plan_of(text, table)).prepared(engine.prepare).all
    with engine._sessions.fresh() as session:
        session.conf.set("spark.sql.adaptive.enabled", "false")
        engine._make_views(session)
        engine._sessions.rows(query.tables[SALT_TABLE], session).createOrReplaceTempView(SALT_TABLE)
        shown = session.sql(query.text)._jdf.queryExecution().executedPlan().toString()
    return shortened(shown)


def shortened(plan: str) -> str:
    """The steps of a plan: their names, and what they are keyed or partitioned by."""
    found = []
    for line in plan.splitlines():
        name = re.search(r"(HashAggregate|Exchange|Window|Sort|WindowGroupLimit|Filter|Project|Scan \w+)\b", line)
        if name is None or "Subquery" in line or line.startswith(("      :", "   :")):
            continue
        keys = re.search(r"keys=\[(.*?)\]|hashpartitioning\((.*?), \d+\)", line)
        stage = "partial " if "functions=[partial_" in line else ""
        by = re.sub(r"#\d+L?", "", (keys[1] or keys[2]) if keys else "")
        found.append(f"{stage}{name[1]}{f' by {by}' if by else ''}")
    return "\n".join(found)
