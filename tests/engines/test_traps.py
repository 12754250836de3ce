"""Traps: expressions that fail, overflow or differ on some engine, asked on neighbours of which one triggers them.

An error that only one person's row causes would tell that she is there. So status, text, charge and the next grant are
the same on both, on every engine; and the engine's log has nothing of the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.curator import Curator
from lapwing.engines.backends import open_engine
from lapwing.errors import LapwingError
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Interval, Type
from lapwing.ledger import open_ledger
from support.hosts import Host

CANARY = "ZZCANARY7"

TRAPS = [
    "x / y > 0",
    "x % y = 1",
    "1 / x > 0",
    "EXP(x) > 1",
    "EXP(-x) > 1",
    "x * x * x * x > 1",
    "x * 1e300 * 1e300 > 1",
    "x + 1.7e308 > 1",
    "-x - 1.7e308 > 1",
    "y * 1e-300 * 1e-300 > 1",
    "LN(x) > 1",
    "LN(-x) > 1",
    "LOG10(y) > 1",
    "LOG2(x - x) > 1",
    "SQRT(-x) > 1",
    "POWER(x, 16) > 1",
    "POWER(y, 16) > 0",
    "n + n > 1",
    "n * n > 1",
    "-n > 1",
    "ABS(n) > 1",
    "ROUND(x, 15) > 1",
    "ROUND(x, -15) > 1",
    "ROUND(x) > 1",
    "FLOOR(x) > 1",
    "CAST(x AS INTEGER) > 1",
    "CAST(s AS INTEGER) > 1",
    "CAST(s AS DOUBLE) > 1",
    "CAST(s AS BOOLEAN)",
    "CAST(s AS DATE) > DATE '2020-01-01'",
    "CAST(s AS TIMESTAMP) > TIMESTAMP '2020-01-01 00:00:00'",
    "CAST(n AS TEXT) = '1'",
    "SUBSTRING(s, 1, 3) = 'abc'",
    "LEFT(s, 0) = ''",
    "RIGHT(s, 2) = 'ab'",
    "LENGTH(s || s || s) > 3",
    "UPPER(s) = LOWER(s)",
    "s LIKE '%Z%'",
    "REGEXP_MATCHES(s, '^(a|Z)+$')",
    "REPLACE(s, 'ZZ', 'Z') = 'Z'",
    "SPLIT_PART(s, 'Z', 2) = ''",
    "d + INTERVAL 9000 YEAR > DATE '2020-01-01'",
    "d - INTERVAL 9999 YEAR > DATE '0001-01-01'",
    "d + INTERVAL 3000000 DAY > DATE '2020-01-01'",
    "d - INTERVAL 3000000 DAY > DATE '2020-01-01'",
    "DATE_TRUNC('week', d) = d",
    "DATE_DIFF('day', d, DATE '9999-12-31') > 1",
    "YEAR(d) > 2000",
    "CASE WHEN x > 1e308 THEN 1e308 * 1e308 ELSE 0 END > 1",
    "CASE WHEN s = 'ZZ' THEN CAST('abc' AS INTEGER) ELSE 1 END = 1",
    "GREATEST(x, y, n) > 1",
    "COALESCE(x / y, 1) > 1",
    "NULLIF(x, y) > 1",
    "CLIP(x, 0, 1) > 0",
    "WIDTH_BUCKET(x, 0, 1, 10) > 5",
    "x IN (1, 2) OR s IN ('a', 'ZZ')",
]
SUMS = ["x", "y", "n", "x * y", "n * n", "x / y", "EXP(x)", "LENGTH(s)", "POWER(x, 3)", "CAST(s AS INTEGER)"]

VALUES: list[tuple[Any, ...]] = [
    (1.7976931348623157e308, 5e-324, 2**63 - 1, CANARY, "9999-12-31"),
    (float("nan"), 0.0, -(2**63), CANARY + "\\", "0001-01-01"),
    (float("inf"), float("-inf"), 0, "1e999" + CANARY, None),
    (-1.7976931348623157e308, -0.0, -1, "2020-13-77", "2020-02-29"),
]
TYPES = {"p": pa.int64(), "x": pa.float64(), "y": pa.float64(), "n": pa.int64(), "s": pa.string(), "d": pa.date32()}
BOUNDS = Interval(Fraction(-100), Fraction(100))
TABLE = Table(
    "t",
    (
        Field("p", Type.INTEGER),
        *(Field(name, Type.REAL, BOUNDS) for name in "xy"),
        Field("n", Type.INTEGER, BOUNDS),
        Field("s", Type.TEXT),
        Field("d", Type.DATE),
    ),
    "p",
    rows_per_unit=3,
)


def rows(*more: tuple[Any, ...]) -> pa.Table:
    found = [(1, 1.0, 2.0, 3, "abc", "2020-01-01"), *((9, *one) for one in more)]
    columns = dict(zip(TYPES, zip(*found, strict=True), strict=True))
    columns["d"] = tuple(None if day is None else date.fromisoformat(day) for day in columns["d"])
    return pa.table({name: pa.array(columns[name], kind, from_pandas=False) for name, kind in TYPES.items()})


def opened(host: Host, data: pa.Table) -> Curator:
    tables = host.sources([(TABLE, data)])
    ledger = open_ledger(None, lw.Budget(epsilon=1000))
    return Curator(Catalog((TABLE,)), open_engine(tables, salt=1), ledger)


@pytest.fixture(scope="module")
def pair(suite_host: Host) -> Iterator[tuple[Curator, Curator]]:
    """With the rows that trigger traps, and without."""
    made = opened(suite_host, rows(*VALUES)), opened(suite_host, rows())
    yield made
    for curator in made:
        curator.close()


def outcome(curator: Curator, text: str) -> tuple[Any, ...]:
    """What an analyst sees of it beside the numbers, and what is left afterwards."""
    try:
        release = curator.sql(text, epsilon=0.5)
    except LapwingError as error:
        return type(error).__name__, error.code, str(error), str(curator.ledger.remaining)
    return "answered", len(release), str(release.cost), str(curator.ledger.remaining)


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_in_a_condition_is_the_same_on_neighbours(
    suite_host: Host, pair: tuple[Curator, Curator], trap: str
) -> None:
    """threat:A11 threat:A12 gate:G18 Spark has no regular expressions that take linear time, and refuses them."""
    one, two = (outcome(curator, f"SELECT COUNT(*) FROM t WHERE {trap}") for curator in pair)
    assert one == two
    assert one[0] == ("Refused" if trap.startswith("REGEXP") and suite_host.name == "spark" else "answered")


@pytest.mark.parametrize("first", range(0, len(TRAPS), 12))
def test_traps_together_are_the_same_on_neighbours(pair: tuple[Curator, Curator], first: int) -> None:
    """threat:A12 a dozen in one question, which every engine has time for; on Spark each alone is a slow test."""
    some = [trap for trap in TRAPS[first : first + 12] if not trap.startswith("REGEXP")]
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {trap}) AS c{place}" for place, trap in enumerate(some))
    one, two = (outcome(curator, f"SELECT {counts} FROM t") for curator in pair)
    assert one == two
    assert one[0] == "answered"


@pytest.mark.parametrize("value", SUMS)
def test_a_trap_in_a_sum_is_the_same_on_neighbours(pair: tuple[Curator, Curator], value: str) -> None:
    """threat:A4 threat:A12 gate:G11 gate:G18"""
    text = f"SELECT SUM(CLIP({value}, -9, 9)) AS s, AVG(CLIP({value}, -9, 9)) AS a FROM t"
    one, two = (outcome(curator, text) for curator in pair)
    assert one == two
    assert one[0] == "answered"


def test_the_log_of_the_engine_has_nothing_of_a_row(
    suite_host: Host, pair: tuple[Curator, Curator], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """threat:A13 after all traps: neither a failure nor a value in the logs of the server or of this process."""
    with caplog.at_level("DEBUG"):
        for trap in TRAPS[::5]:
            outcome(pair[0], f"SELECT COUNT(*) FROM t WHERE NOT ({trap})")
    output = capfd.readouterr()
    assert CANARY not in caplog.text + output.out + output.err + suite_host.log()
