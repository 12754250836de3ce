"""Local times on every engine are those of Python's zoneinfo, whatever zone the process, server or session is in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from sqlglot import exp

from expressions.test_zones import USUAL, instants, oracle
from lapwing.expressions.expression import Column, Literal
from lapwing.expressions.operators.base import call
from lapwing.expressions.operators.dates import SHIFTED, at_time_zone
from lapwing.expressions.table import Field, Table
from lapwing.expressions.to_sqlglot import emit
from lapwing.expressions.types import Type
from lapwing.expressions.zones import offsets_of
from support.cells import run
from support.hosts import Host

AT = Column("at", Type.TIMESTAMP, zone="UTC")
TABLE = Table("t", (Field("i", Type.INTEGER), Field("at", Type.TIMESTAMP, zone="UTC")), None)
ENDS = [datetime(1, 1, 1), datetime(1, 1, 1, 12), datetime(9999, 12, 31, 23, 59, 59, 999_999)]  # noqa: DTZ001


def expected(zone: ZoneInfo, name: str, instant: datetime | None) -> datetime | None:
    if instant is None:
        return None
    try:
        if instant.year >= 2100:
            return instant + timedelta(seconds=offsets_of(name)[1][-1])
        return instant.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        return None  # not in the years 1 to 9999


def check(host: Host, names: Sequence[str], step: int) -> None:
    """On one table, of the column as it is and of an expression over it."""
    times = [None, *ENDS, *(time for name in names for time in instants(name, Random(3), 1000)[::step])]
    at = pa.array(times, pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    engine = host.engine([(TABLE, pa.table({"i": pa.array(range(len(times)), pa.int64()), "at": at}))])
    moved = call(SHIFTED["seconds", Type.TIMESTAMP], AT, Literal(0, Type.INTEGER), part=str)
    for name, value in [*((name, AT) for name in names), (names[0], moved)]:
        local = emit(at_time_zone(value, name, part=str), lambda column: exp.column(column.name, quoted=True))
        rows = run(engine, exp.select("i", exp.alias_(local, "local")).from_("t")).to_pylist()
        zone, found = oracle(name), {row["i"]: row["local"] for row in rows}
        assert len(found) == len(times)
        for place, instant in enumerate(times):
            assert found[place] == expected(zone, name, instant), (name, instant)
    engine.close()


def test_local_times_are_those_of_zoneinfo(host: Host) -> None:
    check(host, ("Pacific/Apia",), 17)


@pytest.mark.slow
def test_local_times_around_every_change_are_those_of_zoneinfo(host: Host) -> None:
    check(host, USUAL[:7], 1)
