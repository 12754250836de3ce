"""Texts as other types on PostgreSQL: what DuckDB reads of the common ways to write them, and NULL for the rest."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from sqlglot import exp

from lapwing.engines.engine import Engine
from lapwing.expressions.forms import RoundTo, TryRead
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type
from support.cells import run
from support.hosts import DuckDBHost, PostgresHost
from support.postgres import PostgresServer

TEXTS = [
    *("12", " 12 ", "+12", "-12", "12.5", "13.5", "-2.5", "1e3", "1e-3", "12.", "  .5", ".5", "", "  ", "0012", "abc"),
    *(
        "1e400",
        "1e-400",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "Infinity",
        "infinity",
        "1 2",
        "12d",
        "1,000",
        "--1",
        "1e",
        "1E5",
    ),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "9223372036854775807.4", "1e18", "1e19"),
    *("1.7976931348623157e308", "1.7976931348623159e308", "4.9e-324", "2e-324", "\t12\n", "12\u00a0", "\uff11\uff12"),
    *(
        "t",
        "true",
        "TRUE",
        "True",
        "1",
        "0",
        "f",
        "false",
        "yes",
        "no",
        "y",
        "n",
        "on",
        "off",
        "tr",
        " true ",
        "Y",
        "2",
    ),
    *("2020-02-29", "2020-2-9", "2020/02/29", "20200229", "  2020-02-29", "2020-02-29 10:00:00", "2020-02-29T10:00"),
    *("0001-01-01", "9999-12-31", "2020-13-01", "2020-02-30", "2021-02-29", "1900-02-29", "2000-02-29", "20-1-1"),
    *("2020-02", "2020-02-29 10:00:00+02", "2020-02-29 10:00:00.5", "2020-02-29 10:00:00.1234567", "2020-04-31"),
    *("2020-02-29 25:00:00", "2020-02-29 1:2:3", "2020-02-29 10:00", "2020-02-29 10", "2020-02-29T10:00:00Z"),
    *(
        "2020-02-29 10:00:60",
        "2020-02-29 10:00:00 UTC",
        "2020-002-1",
        "'; DROP TABLE t",
    ),
    *("\\", "\\d", "%", "🙂", "a" * 5000, "9" * 400, "1" + "0" * 70, " " * 300),
]
OTHER = {
    exp.DType.BIGINT: {"1" + "0" * 70, "9" * 400},
    exp.DType.DOUBLE: {"1" + "0" * 70, "9" * 400},
}
"""What DuckDB reads and PostgreSQL does not: more than 60 digits."""


TABLE = Table("t", (Field("i", Type.INTEGER), Field("s", Type.TEXT)), None)


def read(engine: Engine, kind: exp.DType) -> list[object]:
    node = TryRead(this=exp.column("s"), to=exp.DataType(this=kind), known=Type.TEXT)
    return run(engine, exp.select("i", exp.alias_(node, "v")).from_("t")).sort_by("i").column("v").to_pylist()


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP"])
def test_texts_are_read_as_duckdb_reads_them_or_not_at_all(kind: str, postgres: PostgresServer) -> None:
    """threat:A12 version 15 has no TRY_CAST: each cast stands behind a pattern, and none of these texts raises."""
    wanted, host = exp.DType[kind], PostgresHost(postgres)
    endless = kind in ("DATE", "TIMESTAMP")  # DuckDB has such dates, and Python does not
    texts = [*(text for text in TEXTS if not (endless and "inf" in text.lower())), None]
    data = pa.table({"i": pa.array(range(len(texts))), "s": pa.array(texts)})
    engine = host.engine([(TABLE, data)])
    ours = DuckDBHost().engine([(TABLE, data)])
    for text, mine, theirs in zip(texts, read(ours, wanted), read(engine, wanted), strict=True):
        if text in OTHER.get(wanted, ()):
            assert theirs is None
        else:
            assert mine == theirs or (mine != mine and theirs != theirs), text
    assert "invalid input" not in host.log()
    engine.close()
    host.close()


@pytest.mark.parametrize("text", ["abc", "12", "1e400", "2020-02-30", ""])
def test_constants_are_read_without_a_failure(text: str, postgres: PostgresServer) -> None:
    """A cast of a constant is folded while the query is planned; it still stands behind its condition."""
    host = PostgresHost(postgres)
    data = pa.table({"i": pa.array([1]), "s": pa.array(["x"])})
    engine, ours = host.engine([(TABLE, data)]), DuckDBHost().engine([(TABLE, data)])
    for kind in ("BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP"):
        to = exp.DataType(this=exp.DType[kind])
        node = TryRead(this=exp.Literal.string(text), to=to, known=Type.TEXT)
        query = exp.select(exp.alias_(node, "v")).from_("t")
        assert run(engine, query.copy()).to_pylist() == run(ours, query.copy()).to_pylist()
    engine.close()
    host.close()


LARGE = [2**63 - 1, -(2**63), -(2**63) + 1, 2**53 + 1, 2**52, -(2**52), 7, 0, None]


def test_whole_numbers_are_rounded_to_themselves(postgres: PostgresServer) -> None:
    """A key such as COALESCE(x, 0) is rounded and read as an integer; float64 has no 2^53 + 1."""
    host, fields = PostgresHost(postgres), (Field("x", Type.INTEGER), Field("y", Type.REAL))
    reals = [2.0**63, -(2.0**63), 0.5, -2.5, 2.0**52 + 1, -0.49999999999999994, math.nan, math.inf, None]
    data = pa.table({"x": pa.array(LARGE, pa.int64()), "y": pa.array(reals, pa.float64(), from_pandas=False)})
    table = Table("t", fields, None)
    engine, ours = host.engine([(table, data)]), DuckDBHost().engine([(table, data)])
    to = exp.DataType(this=exp.DType.BIGINT)
    for name in ("x", "y"):
        known = Type.INTEGER if name == "x" else Type.REAL
        node = TryRead(this=RoundTo(this=exp.column(name)), to=to, known=known)
        query = exp.select(exp.alias_(node, "v")).from_("t")
        found = run(engine, query.copy()).column("v").to_pylist()
        assert found == run(ours, query.copy()).column("v").to_pylist()
        assert name == "y" or found == LARGE
    engine.close()
    ours.close()
    host.close()


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**53 + 1, 0, None])
def test_the_largest_integers_stay_what_they_are(value: int | None, postgres: PostgresServer) -> None:
    host, table = PostgresHost(postgres), Table("t", (Field("x", Type.INTEGER),), None)
    engine = host.engine([(table, pa.table({"x": pa.array([value], pa.int64())}))])
    to = exp.DataType(this=exp.DType.BIGINT)
    node = TryRead(this=exp.column("x"), to=to, known=Type.INTEGER)
    assert run(engine, exp.select(exp.alias_(node, "v")).from_("t")).column("v").to_pylist() == [value]
    engine.close()
    host.close()


def test_reals_are_integers_where_they_fit_and_null_elsewhere(postgres: PostgresServer) -> None:
    """No value fails: 2^63 is one more than the largest integer, and rounds to it as a float64. Halves go to even."""
    host, table = PostgresHost(postgres), Table("t", (Field("i", Type.INTEGER), Field("x", Type.REAL)), None)
    ends = [2.0**63, 2.0**63 - 1024, -(2.0**63), -(2.0**63) - 2048, 2.0**62, 1e300, float("inf"), float("-inf")]
    reals = [*ends, float("nan"), 0.5, 1.5, 2.5, -0.5, -1.5, 5e-324, 999.5, 1000.5, None]
    rows = pa.table({"i": pa.array(range(len(reals))), "x": pa.array(reals, pa.float64())})
    engine = host.engine([(table, rows)])
    node = TryRead(this=exp.column("x"), to=exp.DataType(this=exp.DType.BIGINT), known=Type.REAL)
    found = run(engine, exp.select("i", exp.alias_(node, "v")).from_("t")).sort_by("i").column("v").to_pylist()
    fits = [x is not None and -(2.0**63) <= x < 2.0**63 for x in reals]
    assert found == [round(x) if fit else None for x, fit in zip(reals, fits, strict=True)]
    engine.close()
    host.close()
