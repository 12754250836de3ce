"""Texts as dates: the same on every engine, and on every version of one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from sqlglot import exp

from engines.test_postgres_casts import TABLE, read
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type
from support.cells import run

if TYPE_CHECKING:
    from support.hosts import Host

READ = {
    "2020-02-29": ("2020-02-29", "2020-2-29 ", " 2020/02/29", "2020 2 29", "2020-02-29Z", "2020-02-29+0100"),
    "2020-02-29T10:00:00": (
        *("2020-02-29 10:00:00", "2020-02-29T10:00", "2020-02-29 10:0", "2020/2/29  10:00", "2020 02 29 10:00"),
        *("2020-02-29 10:00:00+02", "2020-02-29 10:00Z", "2020-02-29 10:00 UTC", "2020-02-29T10:00:00-02:30"),
        *("2020-02-29 10:00:00+99", "2020-02-29 10:00:00 ", "\t2020-02-29 10:00:00\n", "\v2020-02-29 10:00"),
    ),
    "2020-02-29T10:00:00.500000": ("2020-02-29 10:00:00.5",),
    "2020-02-29T10:00:00.123456": ("2020-02-29 10:00:00.1234567",),
    "2020-02-29T10:00:00.999999": ("2020-02-29 10:00:00.999999999",),
    "2020-02-29T01:02:03": ("2020-02-29 1:2:3",),
    "2020-02-29T23:59:59": ("2020-02-29 23:59:59",),
    "0005-01-01": ("5-1-1",),
    "9999-12-31": ("9999-12-31",),
}
TIMES = {text: datetime.fromisoformat(time) for time, texts in READ.items() for text in texts}
"""Texts that are read, and as what."""
NO_TIME = (
    *("99:99", "25:00:00", "24:00:00", "24:00", "10", "10:00:60", "10:60", "10:60:00", "T", "T10:00", "foo", "-", "BC"),
    *("(BC)", "AM", "1:00:00 AM", "010:00", "10:000", "10:00:000", "10:00:00.", "10:00:00,5", "10:00:00.1234567891"),
    *("10:00:00+2", "10:00:00 +02", "10:00:00 Z", "10:00:00z", "10:00:00 utc", "10:00:00UTC", "10:00:00  UTC"),
    *("10:00:00+02:30:15", "10:00:00 Europe/Oslo", "10:00 10:00", "\t10:00", "10:00\u00a0", "10:00\u2028", "10:00\x00"),
)
NO_DAY = (
    *("2020-02-29TT10:00", "2020-02-29t10:00", "2020-02-29foo", "2020-02-29T", "2020-02-29:10:00", "2020-02-29-"),
    *("2020-02-29,", "2020-02-29\t10:00", "2020-02-290", "2020-002-29", "02020-02-29", "2020-02/29", "2020.02.29"),
    *("2020\\02\\29", "20200229", "2020-02-30", "2021-02-29 10:00", "1900-02-29", "2020-04-31", "2020-13-01"),
    *("2020-00-01", "2020-01-00", "2020-02", "2020", "", " ", "+2020-02-29", "-2020-02-29", "10000-01-01", "infinity"),
    *("-infinity", "epoch", "now", "today", "tomorrow", "Saturday 2020-02-29", "29 Feb 2020", "2020-02-29'"),
    *("\uff12\uff10\uff12\uff10-02-29", "2020-02-29 ; DROP TABLE t"),
)
TEXTS = [*TIMES, *(f"2020-02-29 {text}" for text in NO_TIME), *NO_DAY, None]


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
def test_every_engine_reads_the_same_texts_as_the_same_dates(suite_host: Host, kind: str) -> None:
    """DuckDB 2 reads '2020-02-29 99:99' as NULL, where DuckDB 1.5 and the other engines read its day."""
    texts = [text for text in TEXTS if text is None or "\x00" not in text or suite_host.name != "postgres"]
    data = pa.table({"i": pa.array(range(len(texts))), "s": pa.array(texts)})
    engine = suite_host.engine([(TABLE, data)])
    found = dict(zip(texts, read(engine, exp.DType[kind]), strict=True))
    engine.close()
    wanted = {text: TIMES.get(text) if text else None for text in texts}
    if kind == "DATE":
        assert found == {text: time and time.date() for text, time in wanted.items()}
    else:
        assert found == wanted


@pytest.mark.parametrize("kind", [Type.DATE, Type.TIMESTAMP])
def test_a_text_column_that_is_declared_as_dates_is_read_in_the_same_way(suite_host: Host, kind: Type) -> None:
    texts = [text for text in TEXTS if text is None or "\x00" not in text]
    table = Table("t", (Field("i", Type.INTEGER), Field("s", kind)), None)
    engine = suite_host.engine([(table, pa.table({"i": pa.array(range(len(texts))), "s": pa.array(texts)}))])
    stored = run(engine, exp.select("i", "s").from_("t")).sort_by("i").column("s").to_pylist()
    engine.close()
    wanted = [TIMES.get(text) if text else None for text in texts]
    assert stored == (wanted if kind is Type.TIMESTAMP else [time and time.date() for time in wanted])
