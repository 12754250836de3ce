"""How long a query may take: by what it reads and what is declared. When its time is up: charged, one sentence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

import lapwing as lw
from lapwing.curator import load
from lapwing.curator.settings import read_settings
from lapwing.engines.source import SparkFrame
from lapwing.engines.time_limit import FACTOR, LEAST, time_limit
from lapwing.errors import EngineFailed
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type
from lapwing.server.timing import longest
from support.hosts import Host, PostgresHost
from support.postgres import PostgresServer

VISITS = Table("visits", (Field("pid", Type.INTEGER),), "pid", rows_per_unit=2, answer_time=90.0)
CASES = replace(VISITS, name="cases", answer_time=60.0)
QUICK = replace(VISITS, name="quick", answer_time=None)
CODES = Table("codes", (Field("code", Type.INTEGER),), None, public=True, answer_time=3600.0)
ROWS = pa.table({"pid": pa.array([1, 2], pa.int64())})
PUBLIC = pa.table({"code": pa.array([1, 2], pa.int64())})
TOML = """
[budget]
epsilon = 10

[tables.visits]
source = "{url}"
table = "visits"
unit = "pid"
rows_per_unit = 2
{more}

[tables.visits.columns]
pid = {{ type = "integer" }}
"""


@pytest.mark.parametrize(
    ("tables", "seconds"),
    [
        ([], LEAST),
        ([QUICK], LEAST),
        ([replace(VISITS, answer_time=1.0)], LEAST),
        ([VISITS], 90 * FACTOR),
        ([VISITS, CASES], 150 * FACTOR),
        ([VISITS, QUICK, CODES], 90 * FACTOR),
        ([replace(VISITS, answer_time=56.26)], 3601),
        ([replace(VISITS, answer_time=3600.0)] * 9, 7 * 24 * 3600),
    ],
)
def test_the_limit_follows_from_declared_facts(tables: list[Table], seconds: int) -> None:
    """All private tables that are read take their time; public ones travel with the question. Never below an hour."""
    assert time_limit(tables) == seconds


def test_the_factor_is_how_long_a_server_waits() -> None:
    assert longest(1.0) == FACTOR


def test_what_is_declared_of_time_makes_no_other_table() -> None:
    """Stored answers are found whatever is declared, and no name of a relation holds it."""
    other = replace(VISITS, answer_time=1.0)
    assert other == VISITS
    assert repr(other) == repr(VISITS)


@pytest.mark.parametrize(
    ("names", "seconds"),
    [
        (["quick"], LEAST),
        (["visits"], 90 * FACTOR),
        (["cases"], 60 * FACTOR),
        (["visits", "cases"], 150 * FACTOR),
        (["visits", "codes"], 90 * FACTOR),
    ],
)
def test_engines_limit_a_query_by_the_tables_that_it_reads(suite_host: Host, names: list[str], seconds: int) -> None:
    """Also when it is prepared again, as queries of one shape are. DuckDB runs in this process, and has no limit."""
    engine = suite_host.engine([(VISITS, ROWS), (CASES, ROWS), (QUICK, ROWS), (CODES, PUBLIC)])
    query = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(names[0])
    for name in names[1:]:
        query = query.join(name, join_type="cross")
    prepared = engine.prepare(query)
    if suite_host.name != "duckdb":
        assert prepared.seconds == seconds
        assert engine.prepare(prepared).seconds == seconds
    assert engine.fetch(prepared).to_pylist() == [{"n": 2 ** len(names)}]
    engine.close()


@pytest.fixture
def host(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresHost]:
    made = PostgresHost(postgres)
    for statement in (
        "CREATE TABLE stored AS SELECT i AS pid FROM generate_series(1, 40) AS i",
        "CREATE VIEW visits AS SELECT pid FROM stored WHERE pg_sleep(CASE WHEN pid = 7 THEN 30 ELSE 0 END) IS NOT NULL",
        f"GRANT SELECT ON visits TO {made.user}",
    ):
        made.run(statement)
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    yield made
    made.close()


def written(host: PostgresHost, folder: Path, more: str = "") -> Path:
    url = host.url.replace(":" + host.url.split(":")[2].split("@")[0], "", 1)
    path = folder / "lapwing.toml"
    path.write_text(TOML.format(url=url, more=more))
    return path


def still_active(host: PostgresHost) -> int:
    text = "SELECT COUNT(*) FROM pg_stat_activity WHERE usename = %s AND state = 'active'"
    deadline = time.monotonic() + 20
    while (many := int(host.run(text, host.user).fetchone()[0])) and time.monotonic() < deadline:
        time.sleep(0.05)
    return many


def test_a_steward_declares_the_time_of_a_table(host: PostgresHost, tmp_path: Path) -> None:
    [(table, _)] = read_settings(written(host, tmp_path, "answer_time = 90")).tables
    assert time_limit([table]) == 90 * FACTOR
    [(table, _)] = read_settings(written(host, tmp_path)).tables
    assert time_limit([table]) == LEAST


@pytest.mark.parametrize("where", ["", " WHERE pid > 3"])
def test_an_answer_whose_time_is_up_is_charged_and_told_in_one_sentence(
    host: PostgresHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    """threat:A13 threat:A5 one row keeps the server busy; the query ends there, and nothing tells of the row."""
    monkeypatch.setattr("lapwing.engines.time_limit.LEAST", 1)
    monkeypatch.setattr("lapwing.engines.time_limit.FACTOR", 1)
    question: dict[str, Any] = {"epsilon": 1, "check": 0}
    with load(written(host, tmp_path, "answer_time = 1")) as curator:
        before = curator.ledger.remaining
        with pytest.raises(EngineFailed) as ended:
            curator.sql(f"SELECT COUNT(*) AS n FROM visits{where}", **question)
        assert not still_active(host)
        assert curator.ledger.remaining != before
        host.run(f"REVOKE SELECT ON visits FROM {host.user}")
        with pytest.raises(EngineFailed) as failed:
            curator.sql(f"SELECT COUNT(*) AS n FROM visits{where}", **question)
    assert str(ended.value).replace(ended.value.incident, "") == str(failed.value).replace(failed.value.incident, "")
    assert "sleep" not in str(ended.value) + caplog.text


def test_on_spark_an_answer_whose_time_is_up_is_charged_too(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A13 and its jobs are cancelled."""
    columns = "CAST(1 AS DOUBLE) AS cost, 'oslo' AS town FROM RANGE(3) AS a"
    facts: dict[str, Any] = {"unit": "pid", "name": "visits", "rows_per_unit": 3, "bounds": {"cost": (0, 100)}}
    with lw.open(spark.sql(f"SELECT id AS pid, {columns}"), budget=lw.Budget(epsilon=10), check=0, **facts) as curator:
        engine = curator._private_data._engine
        many = columns.replace("1 AS", "XXHASH64(a.id, b.id) AS").replace("RANGE(3) AS a", "RANGE(1000000) AS a")
        slow = spark.sql(f"SELECT a.id AS pid, {many} CROSS JOIN RANGE(1000000) AS b")
        engine._tables[0] = (engine._tables[0][0], SparkFrame(slow))
        monkeypatch.setattr("lapwing.engines.time_limit.LEAST", 1)
        with pytest.raises(EngineFailed, match="could not finish this question"):
            curator.sql("SELECT SUM(cost) FROM visits", epsilon=1)
        assert not spark.sparkContext.statusTracker().getActiveJobsIds()
        assert curator.budget.remaining.amount == 9
