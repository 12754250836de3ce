"""Dates as text are what DuckDB writes, though they are made of our own parts."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from sqlglot import exp

from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.errors import Refused
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.to_sqlglot import emit
from lapwing.expressions.types import Type
from lapwing.sql import read_sql
from support.hostile import engine, leaf
from support.refusals import attempt

CATALOG = Catalog((Table("lw_rows", (Field("d", Type.DATE), Field("t", Type.TIMESTAMP)), None),))
_FIRST = datetime.fromisoformat("0001-01-01 00:00:00")
TIMES = [_FIRST + timedelta(days=1237 * i % 3_652_058, seconds=9_973 * i % 86_400) for i in range(3_000)]
WRITTEN = (
    "STRFTIME({}, '%Y-%m-%d')",
    "STRFTIME({}, '%H:%M:%S')",
    "STRFTIME({}, 'day %j of %Y')",
    "DAYNAME({})",
    "MONTHNAME({})",
)


@pytest.mark.parametrize("column", ["d", "t"])
@pytest.mark.parametrize("written", WRITTEN)
def test_text_of_a_date_is_that_of_duckdb(written: str, column: str) -> None:
    sql = written.format(column)
    [argument] = read_sql(f"SELECT COUNT({sql}) FROM lw_rows", CATALOG).aggregates[0].arguments
    rows = pa.table({"d": pa.array([when.date() for when in TIMES]), "t": pa.array(TIMES, pa.timestamp("us"))})
    with engine().cursor() as cursor:
        cursor.register("lw_rows", rows)
        ours = cursor.execute(DUCKDB.write(exp.Select(expressions=[emit(argument, leaf)]).from_("lw_rows")).text)
        found = ours.fetchall()
        assert found == cursor.execute(f"SELECT {sql} FROM lw_rows").fetchall()


@pytest.mark.parametrize("form", ["'%c'", "'%'", "'x'", "''", "d", "'%Y" + "-" * 40 + "'", "NULL"])
def test_other_formats_are_refused(form: str) -> None:
    refused = attempt(read_sql, f"SELECT COUNT(STRFTIME(d, {form})) FROM lw_rows", CATALOG)
    assert isinstance(refused, Refused)
    assert refused.code == "wrong-argument"
