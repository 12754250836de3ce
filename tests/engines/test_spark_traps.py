"""Every expression on which some engine fails for some value, asked on Spark over neighbours of which one holds it.

Status, price, what remains and the next grant are the same; exact cells are those of DuckDB; and nothing of a row is
in what the driver and the executors write.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lapwing as lw
from engines.test_spark import plan_of
from lapwing.catalog.table import Field, Table
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.frames import frame_source
from lapwing.engines.source import SparkFrame
from lapwing.engines.spark import SparkEngine
from lapwing.language.types import Interval, Type
from support.cells import exact_cells

CANARY = "ZZCANARY7731"
TABLE = Table(
    "t",
    (
        Field("u", Type.INTEGER),
        Field("n", Type.INTEGER, Interval(-(2**62), 2**62)),
        Field("x", Type.REAL, Interval(-5, 5)),
        Field("s", Type.TEXT),
        Field("d", Type.DATE),
        Field("at", Type.TIMESTAMP),
    ),
    "u",
    rows_per_unit=9,
    groups_per_unit=9,
)
PLAIN = {"u": 1, "n": 7, "x": 0.5, "s": "12", "d": date(2020, 2, 29), "at": datetime(2020, 2, 29, 12)}  # noqa: DTZ001
ODD: dict[str, list[Any]] = {
    "n": [2**63 - 1, -(2**63), 0, None],
    "x": [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, -1.0, 1e19, 2.5, None],
    "s": [CANARY, "", " ", "9" * 40, "1e400", "-", "12.5", "nan", "x" * 20_000, "\N{SNOWMAN}é\0", "1.5f", None],
    "d": [date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10), None],
    "at": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), None],  # noqa: DTZ001
}
NUMBERS = (
    "n + n", "n * n * n", "n - 9000000000000000000", "ABS(n)", "x / n", "n % x", "x / 0", "LN(x)", "LOG10(x)",
    "LOG2(n)", "SQRT(x)", "EXP(x)", "EXP(n)", "POWER(x, 16)", "ROUND(x)", "ROUND(x, 15)", "FLOOR(x)", "CEIL(x * 10)",
    "x * x * x", "CAST(x AS INTEGER)", "CAST(s AS INTEGER)", "CAST(s AS DOUBLE)", "SIGN(x)", "LENGTH(s)",
    "GREATEST(x, n)",
)  # fmt: skip
OTHERS = (
    "CAST(s AS DATE)", "CAST(s AS TIMESTAMP)", "CAST(s AS BOOLEAN)", "d + INTERVAL 9999 YEAR",
    "d - INTERVAL 3652059 DAY", "at + INTERVAL 999999999 SECOND", "YEAR(d)", "WEEK(d)", "SECOND(at)",
    "DATE_TRUNC('quarter', d)", "DATE_TRUNC('minute', at)",
    "DATE_DIFF('second', at, TIMESTAMP '2020-01-01 00:00:00')", "SUBSTRING(s, 9999, 9)",
    "SPLIT_PART(s, 'C', 9)", "REPLACE(s, 'Z', '')", "s || s", "UPPER(s)", "LOWER(s)", "RIGHT(s, 3)", "s LIKE '%Z%Z'",
    "CAST(n AS TEXT)", "STRFTIME(d, '%Y-%j')", "WIDTH_BUCKET(x, [0, 1, 2])", "s IN ('12', 'a')",
)  # fmt: skip
SAME = frozenset(NUMBERS) - {"EXP(x)", "LN(x)", "LOG10(x)", "LOG2(n)", "POWER(x, 16)", "ROUND(x, 15)"}


def rows(*, odd: bool) -> pa.Table:
    """Unit 2 has every odd value, one a row; without it the table is an ordinary one."""
    found = [PLAIN]
    if odd:
        found += [{**PLAIN, "u": 2, name: value} for name, values in ODD.items() for value in values]
    kinds = (pa.int64(), pa.int64(), pa.float64(), pa.string(), pa.date32(), pa.timestamp("us"))
    return pa.Table.from_pylist(found, pa.schema(list(zip(PLAIN, kinds, strict=True))))


def opened(spark: Any, data: pa.Table) -> lw.Curator:
    facts: dict[str, Any] = {"bounds": {"n": (-(2**62), 2**62), "x": (-5, 5)}, "rows_per_unit": 9, "groups_per_unit": 9}
    return lw.open(spark.createDataFrame(data), unit="u", name="t", budget=lw.Budget(epsilon=100), check=0, **facts)


def asked(names: tuple[str, ...]) -> str:
    return "SELECT " + ", ".join(f"COUNT({name}) AS c{place}" for place, name in enumerate(names)) + " FROM t"


@pytest.mark.parametrize("half", [NUMBERS[:13], NUMBERS[13:], OTHERS[:13], OTHERS[13:]], ids=str)
def test_no_value_can_be_told_from_status_price_or_what_remains(spark: Any, half: tuple[str, ...]) -> None:
    """threat:A11 threat:A12 gate:G17"""
    seen = []
    for odd in (False, True):
        curator = opened(spark, rows(odd=odd))
        answer = curator.sql(asked(half), epsilon=50)
        with pytest.raises(lw.BudgetExceeded):
            curator.sql("SELECT COUNT(*) FROM t", epsilon=51)
        again = curator.sql("SELECT SUM(x) FROM t WHERE " + " AND ".join(f"{name} IS NULL" for name in half), epsilon=1)
        seen.append((answer.cost, again.cost, curator.budget.remaining, [c.name for c in answer.columns]))
    assert seen[0] == seen[1]


def test_cells_of_odd_values_are_those_of_duckdb(spark: Any) -> None:
    data = rows(odd=True)
    spread = data.set_column(0, "u", pa.array(range(data.num_rows), pa.int64()))  # no unit exceeds a limit
    engines = [
        SparkEngine([(TABLE, SparkFrame(spark.createDataFrame(spread)))], salt=1),
        DuckDBEngine([(TABLE, frame_source(spread))], salt=1),
    ]
    text = "SELECT " + ", ".join(f"SUM(CLIP({name}, -3, 3)) AS c{i}" for i, name in enumerate(sorted(SAME))) + " FROM t"
    plan = plan_of(text, TABLE)
    mine, other = ([[c.tolist() for c in columns] for columns in exact_cells(one, plan).cells] for one in engines)
    assert dict(zip(sorted(SAME), mine, strict=True)) == dict(zip(sorted(SAME), other, strict=True))


def test_logs_and_folders_of_driver_and_executors_hold_no_value(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """threat:A13 whatever was asked above, and what is asked here, over rows with a canary in them."""
    curator = opened(spark, rows(odd=True))
    curator.sql("SELECT COUNT(CAST(s AS DATE)), SUM(n * n), AVG(x) FROM t WHERE CAST(s AS INTEGER) IS NULL", epsilon=1)
    files = [path for path in Path(spark.folder).rglob("*") if path.is_file() and not path.is_symlink()]
    texts = {path: path.read_bytes() for path in files if path.suffix in (".log", "") or "std" in path.name}
    assert any(path.name == "spark.log" and len(text) > 1000 for path, text in texts.items())
    assert not [path for path, text in texts.items() if CANARY.encode() in text]
    assert CANARY not in "".join(capfd.readouterr())
