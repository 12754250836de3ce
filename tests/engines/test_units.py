"""Units of every stored type: every way to ask works, and counts each unit once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest

import lapwing as lw
from support.hosts import PostgresHost
from support.postgres import PostgresServer

DAY = date(2020, 2, 29)
ARROW = {
    "int8": pa.array([1, 2, 3], pa.int8()),
    "int64": pa.array([1, 2**62, -3], pa.int64()),
    "uint64": pa.array([1, 2**63, 2**64 - 1], pa.uint64()),
    "float": pa.array([0.5, -0.0, 7.25], pa.float32()),
    "double": pa.array([0.5, -0.0, 1e300]),
    "decimal": pa.array([1, 2, 3], pa.decimal128(20, 3)),
    "text": pa.array(["a", "A", ""]),
    "boolean": pa.array([True, False, True]),
    "date": pa.array([DAY, date(1, 1, 1), date(9999, 12, 31)]),
    "time": pa.array([datetime(2020, 1, 1) + timedelta(hours=i) for i in range(3)], pa.timestamp("us")),  # noqa: DTZ001
    "zoned": pa.array([DAY, date(1970, 1, 1), date(2021, 7, 4)]).cast(pa.timestamp("us", "UTC")),
}
POSTGRES = {
    "smallint": "{}",
    "bigint": "{}",
    "real": "{} / 4.0",
    "double precision": "{} / 4.0",
    "numeric": "{}",
    "numeric(20, 3)": "{}",
    "text": "'a' || {}",
    "varchar(9)": "'a' || {}",
    "char(5)": "'a' || {}",
    "name": "'a' || {}",
    "uuid": "('00000000-0000-0000-0000-00000000000' || {})::uuid",
    "boolean": "{} % 2 = 1",
    "date": "DATE '2020-02-28' + {}",
    "timestamp": "TIMESTAMP '2020-02-28' + {} * INTERVAL '1 hour'",
    "timestamptz": "TIMESTAMPTZ '2020-02-28 00:00:00+02' + {} * INTERVAL '1 hour'",
    "mood": "(ENUM_RANGE(NULL::mood))[{}]",
    "whole": "{}",
}
DUCKDB = {
    "UUID": [UUID(int=i) for i in range(3)],
    "HUGEINT": [1, 2**100, -5],
    "DECIMAL(30, 2)": [1, 2, 3],
    "ENUM('x', 'y', 'z')": ["x", "y", "z"],
    "TIMESTAMP_S": ["2020-01-01", "2020-01-02", "2020-01-03"],
    "TIMESTAMP_NS": ["2020-01-01", "2020-01-02", "2020-01-03"],
}
QUESTIONS = (
    "SELECT COUNT(DISTINCT u) AS n FROM t",
    "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k",
    "SELECT town, COUNT(DISTINCT u) AS n FROM t GROUP BY town",
    "SELECT MEDIAN(x) AS m FROM t",
    "SELECT COUNT(*) AS n FROM (SELECT u, COUNT(*) AS c FROM t GROUP BY u) AS v WHERE c >= 2",
    "SELECT COUNT(DISTINCT u) AS n FROM t WHERE u IN (SELECT u FROM t WHERE x > 1)",
    "SELECT AVG(c) AS a FROM (SELECT u, k, COUNT(*) AS c FROM t GROUP BY u, k) AS v",
)


def units_of(source: Any, folder: Path, **more: Any) -> set[int]:
    """Every question, with limits that all units keep and noise far below 1; how many units two of them counted."""
    facts: dict[str, Any] = {
        "rows_per_unit": 6,
        "groups_per_unit": 4,
        "bounds": {"x": (0, 10)},
        "values": {"k": [0, 1]},
    }
    budget = lw.Budget(epsilon=1e6, delta=1e-5)
    curator = lw.open(source, unit="u", name="t", budget=budget, ledger=folder / "ledger.db", **facts, **more)
    try:
        answers = [curator.sql(text, epsilon=10_000) for text in QUESTIONS]
    finally:
        curator.close()
    return {answers[place].to_arrow()["n"][0].as_py() for place in (0, 4)}


def rows(units: pa.Array) -> pa.Table:
    """Four rows of each unit."""
    places = pa.array([i for i in range(len(units)) for _ in range(4)])
    many = len(places)
    parts = {"k": [i % 2 for i in range(many)], "x": [float(i % 3) for i in range(many)], "town": ["oslo"] * many}
    return pa.table({"u": units.take(places), **parts})


@pytest.mark.parametrize("kind", ARROW)
def test_units_of_a_frame(kind: str, tmp_path: Path) -> None:
    assert units_of(rows(ARROW[kind]), tmp_path) == {len(ARROW[kind].unique())}


@pytest.mark.parametrize("kind", DUCKDB)
def test_units_of_a_duckdb_file(kind: str, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t (u {kind}, k BIGINT, x DOUBLE, town VARCHAR)")
        for one in DUCKDB[kind] * 4:
            connection.execute("INSERT INTO t VALUES (?, 1, 2.0, 'oslo')", [one])
    assert units_of(tmp_path / "t.duckdb", tmp_path) == {3}


@pytest.fixture(scope="module")
def host(postgres: PostgresServer) -> Iterator[PostgresHost]:
    made = PostgresHost(postgres)
    made.run("CREATE TYPE mood AS ENUM ('ok', 'sad', 'glad')")
    made.run("CREATE DOMAIN whole AS integer CHECK (VALUE > 0)")
    yield made
    made.close()


@pytest.mark.parametrize("kind", POSTGRES)
def test_units_of_postgresql(kind: str, host: PostgresHost, tmp_path: Path) -> None:
    name = f"units_{list(POSTGRES).index(kind)}"
    host.run(f"CREATE TABLE {name} (u {kind}, k bigint, x double precision, town text)")
    host.run(
        f"INSERT INTO {name} SELECT {POSTGRES[kind].format('i')}, j % 2, j, 'oslo' FROM "
        "generate_series(1, 3) AS i, generate_series(1, 4) AS j"
    )
    host.run(f"GRANT SELECT ON {name} TO {host.user}")
    assert units_of(host.url, tmp_path, table=name) == {2 if kind == "boolean" else 3}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in ARROW if kind != "uint64"])
def test_units_of_spark(kind: str, spark: Any, tmp_path: Path) -> None:
    assert units_of(spark.createDataFrame(rows(ARROW[kind])), tmp_path) == {len(ARROW[kind].unique())}
