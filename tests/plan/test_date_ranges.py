"""Keys over dates with declared bounds, or a range in WHERE, against DuckDB's own DISTINCT over all of the range."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any

import duckdb
import pytest

from lapwing.engines import public_values
from lapwing.errors import Refused
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Span, Type
from lapwing.plan import date_ranges
from lapwing.plan.domain import MOST_TRIED, domain_of
from lapwing.plan.plan import make_plan
from lapwing.plan.question import Question
from lapwing.privacy.loss import Pure
from lapwing.sql import read_sql


def times(low: str, high: str) -> Span:
    return Span(datetime.fromisoformat(low), datetime.fromisoformat(high))


DAYS = Span(date(2023, 12, 28), date(2024, 3, 2))
TIMES = times("2023-12-28 22:30", "2024-03-02 01:15")


def table(days: Span | None = DAYS, seen: Span | None = TIMES, **facts: Any) -> Table:
    fields = (
        Field("pid", Type.INTEGER),
        Field("sex", Type.TEXT, values=("F", "M")),
        Field("day", Type.DATE, span=days),
        Field("seen", Type.TIMESTAMP, zone="UTC", span=seen),
    )
    return Table("visits", fields, "pid", **({"rows_per_unit": 3, "groups_per_unit": 2} | facts))


def question(key: str, where: str = "TRUE", of: Table | None = None) -> Question:
    condition = "" if where == "TRUE" else f"WHERE {where} "
    text = f"SELECT {key} AS k, COUNT(*) AS n FROM visits {condition}GROUP BY {key}"
    read = read_sql(text, Catalog((of or table(),)))
    assert isinstance(read, Question), read
    return read


def keys(key: str, where: str = "TRUE", of: Table | None = None) -> Any:
    asked = question(key, where, of)
    return domain_of(asked.keys[0], asked.table, asked.where)


def every_key(
    key: str, where: str = "TRUE", seen: Span = TIMES, days: Span = DAYS, every: str = "INTERVAL 1 MINUTE"
) -> set[Any]:
    """What DuckDB finds in all days of the range, in the first and the last microsecond of all minutes, and in NULL."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            f"CREATE TABLE visits AS SELECT day::DATE AS day, NULL::TIMESTAMP AS seen FROM generate_series("
            f"DATE '{days.low}', DATE '{days.high}', INTERVAL 1 DAY) AS t(day)"
        )
        if "seen" in key:
            connection.execute(
                f"INSERT INTO visits SELECT NULL, t.x - INTERVAL (n) MICROSECOND FROM generate_series(TIMESTAMP "
                f"'{seen.low}', TIMESTAMP '{seen.high}', {every}) AS t(x), (VALUES (0), (1)) AS u(n)"
            )
            connection.execute(f"DELETE FROM visits WHERE seen < TIMESTAMP '{seen.low}'")
        connection.execute("INSERT INTO visits VALUES (NULL, NULL)")
        text = key.replace("seen AT TIME ZONE 'Europe/Oslo'", "(seen AT TIME ZONE 'UTC') AT TIME ZONE 'Europe/Oslo'")
        found = connection.sql(f"SELECT DISTINCT {text} FROM visits WHERE {where}").fetchall()
    return {row[0] for row in found}


OF_DAYS = [
    "day",
    "CAST(day AS TEXT)",
    "day + INTERVAL 1 MONTH",
    "DATE_DIFF('month', DATE '2024-01-01', day)",
    "DAYNAME(day)",
    "MONTHNAME(day)",
    "YEAR(day) * 100 + MONTH(day)",
    "CASE WHEN day < DATE '2024-01-15' THEN 'before' ELSE STRFTIME(day, '%Y') END",
]
"""Keys over dates alone."""
BOTH = [
    *(f"DATE_TRUNC('{unit}', {{}})" for unit in ("year", "quarter", "month", "week", "day")),
    *(f"EXTRACT({part} FROM {{}})" for part in ("year", "quarter", "month", "week", "day", "dow", "doy")),
    "ISODOW({})",
    "DATE_PART('year', {})",
    "STRFTIME({}, '%Y-%m')",
    "STRFTIME({}, '%d.%m.%Y')",
]
"""Keys over dates and timestamps."""
OF_TIMES = [
    "CAST(seen AS DATE)",
    "seen::DATE",
    "HOUR(seen)",
    "MINUTE(seen)",
    "STRFTIME(seen, '%m %H')",
    "DATE_TRUNC('week', CAST(seen AS DATE))",
    "DATE_TRUNC('month', DATE_TRUNC('hour', seen))",
    "DATE_TRUNC('month', seen AT TIME ZONE 'Europe/Oslo')",
    "CAST(seen AT TIME ZONE 'Europe/Oslo' AS DATE)",
    "YEAR(seen) * 100 + MONTH(seen)",
    "DATE_DIFF('month', seen, TIMESTAMP '2024-06-01')",
]
"""Keys over timestamps alone."""
KEYS = [*OF_DAYS, *OF_TIMES, *(key.format(column) for key in BOTH for column in ("day", "seen"))]


@pytest.mark.parametrize("key", KEYS)
def test_keys_are_those_that_duckdb_finds_in_all_days_or_minutes_of_the_range(key: str) -> None:
    """threat:A15 no listed key is impossible and no possible one is missing; leap day, edges inside a day and NULL."""
    expected = {_same(value) for value in every_key(key)}
    listed = keys(key)
    assert {_same(value) for value in listed} == expected
    assert len(listed) == len(set(listed))
    assert None not in listed[:-1]


def _same(value: Any) -> Any:
    """A date as DuckDB returns it from some functions."""
    return value.date() if isinstance(value, datetime) and value.time() == time() else value


def test_seconds_have_keys_of_their_own() -> None:
    brief = times("2023-12-31 23:59:57.250000", "2024-01-01 00:00:01.500000")
    for key in ("DATE_TRUNC('second', seen)", "SECOND(seen)", "DATE_TRUNC('minute', seen)"):
        assert set(keys(key, of=table(seen=brief))) == every_key(key, seen=brief, every="INTERVAL 250 MILLISECOND"), key


OSLO = "seen AT TIME ZONE 'Europe/Oslo'"
RANGES = [
    ("day >= DATE '2024-02-28' AND day < DATE '2024-03-02'", "day"),
    ("DATE '2024-02-28' < day AND '2024-03-02' >= day", "day"),
    ("day BETWEEN '2024-01-30' AND '2024-02-02' AND sex = 'F'", "day"),
    ("day IN (DATE '2024-01-01', DATE '2024-01-02')", "day"),
    ("day = DATE '2024-02-29'", "day"),
    ("YEAR(day) = 2024 AND day <= DATE '2024-01-05'", "day"),
    ("day >= DATE '2024-02-01' + INTERVAL 1 MONTH AND day < DATE '2024-03-03'", "day"),
    ("seen >= DATE '2024-01-01' AND seen < DATE '2024-02-01'", "CAST(seen AS DATE)"),
    ("seen > TIMESTAMP '2023-12-31 23:59:59' AND seen <= TIMESTAMP '2024-01-02 00:00:00'", "DATE_TRUNC('hour', seen)"),
    ("CAST(seen AS DATE) >= DATE '2024-01-01' AND seen::DATE < DATE '2024-01-03'", "DATE_TRUNC('hour', seen)"),
    ("CAST(seen AS DATE) > DATE '2024-01-01' AND seen::DATE <= DATE '2024-01-03'", "DATE_TRUNC('hour', seen)"),
    ("YEAR(seen) IN (2024)", "CAST(seen AS DATE)"),
    ("YEAR(seen) < 2024 AND seen >= DATE '2023-12-30'", "DATE_TRUNC('hour', seen)"),
    ("seen BETWEEN '2024-01-01' AND '2024-01-01 10:30:00'", "DATE_TRUNC('minute', seen)"),
    (f"{OSLO} >= DATE '2024-01-01' AND {OSLO} < DATE '2024-02-01'", f"CAST({OSLO} AS DATE)"),
]


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize(("where", "key"), RANGES)
def test_a_range_in_where_gives_the_keys_that_duckdb_finds_in_it(where: str, key: str, declared: bool) -> None:
    wide = times("2023-12-01", "2025-01-02"), Span(date(2023, 12, 1), date(2025, 1, 2))
    condition = where.replace("sex = 'F'", "TRUE").replace(
        OSLO, "((seen AT TIME ZONE 'UTC') AT TIME ZONE 'Europe/Oslo')"
    )
    seen, days = (TIMES, DAYS) if declared else wide
    expected = {_same(value) for value in every_key(key, condition, seen, days)}
    of = table() if declared else table(None, None)
    listed = keys(key, where, of)
    assert {_same(value) for value in listed} == expected
    assert None not in listed


@pytest.mark.parametrize(
    "where",
    [
        "TRUE",
        "day >= DATE '2024-01-01'",
        "day >= DATE '2024-01-01' OR day < DATE '2024-02-01'",
        "NOT (day >= DATE '2024-01-01' AND day < DATE '2024-02-01')",
        "day <> DATE '2024-01-01'",
        "day + INTERVAL 1 DAY > DATE '2024-01-01' AND day < DATE '2024-02-01'",
        "YEAR(day) >= 2024 AND YEAR(day) <= 20000",
        "YEAR(day) > 2023.5 AND day < DATE '2024-02-01'",
        "seen >= DATE '2024-01-01' AND seen < DATE '2024-02-01'",
        "day >= DATE '2024-02-01' AND day < DATE '2024-01-01'",
        "day = NULL",
    ],
)
def test_conditions_that_fix_no_range_make_no_key_public(where: str) -> None:
    assert keys("day", where, table(None, None)) is None


def test_only_so_many_conditions_on_a_date_are_looked_at() -> None:
    """Each may be computed, so a long question takes no longer; what it lists stays a function of the question."""
    ends = "day >= DATE '2024-01-01' AND day < DATE '2024-02-01'"
    more = "".join(f" AND day > DATE '2023-01-01' + INTERVAL {i} DAY" for i in range(40))
    of = table(None, None)
    assert keys("day", ends + more, of) in (None, keys("day", ends, of))
    others = "".join(f" AND seen > TIMESTAMP '2023-01-01 00:00:{i}'" for i in range(10, 40))
    assert keys("day", ends + others, of) == keys("day", ends, of)


def test_a_constant_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused question is read many times and costs nothing; each computed constant takes milliseconds."""
    computed: list[Any] = []

    def calculate(expressions: Any, *facts: Any) -> Any:
        computed.extend(expressions)
        return public_values.calculate(expressions, *facts)

    date_ranges._constant.cache_clear()
    monkeypatch.setattr(date_ranges, "calculate", calculate)
    asked = question("day", "day >= DATE '2024-01-01' + INTERVAL 1 DAY AND day < DATE '2024-01-01' + INTERVAL 3 DAY")
    first = [domain_of(asked.keys[0], table(None, None), asked.where) for _ in range(5)]
    assert first == [(date(2024, 1, 2), date(2024, 1, 3))] * 5
    assert len(computed) == 2


def test_where_changes_no_key_that_is_public_without_it() -> None:
    """Answers that were stored before stay what they are."""
    assert keys("MONTH(day)", "day >= DATE '2024-01-01' AND day < DATE '2024-02-01'", table(None, None)) == (
        *range(1, 13),
        None,
    )


def test_declared_values_count_and_not_bounds() -> None:
    field = Field("day", Type.DATE, values=(date(2020, 2, 29), date(2020, 3, 1)), span=DAYS)
    of = Table("visits", (Field("pid", Type.INTEGER), field), "pid", 3)
    assert keys("MONTH(day)", of=of) == (2, 3)


@pytest.mark.parametrize("high", [date(2026, 9, 22), date(2026, 9, 23), date(9999, 12, 31)])
def test_a_range_with_too_many_keys_is_refused_with_longer_steps(high: date) -> None:
    of = table(Span(date(2023, 12, 29), high), times("0001-01-01", "9999-12-31 23:00"))
    many = (high - date(2023, 12, 29)).days + 1
    listed = keys("day", of=of)
    assert (listed is None) == (many > 1_000)
    if listed is not None:
        return
    with pytest.raises(Refused, match="At most 1,000 values are listed: use DATE_TRUNC\\('month', day\\)"):
        make_plan(question("day", of=of), Pure(1))
    assert make_plan(question("DATE_TRUNC('month', day)", "YEAR(day) = 2024", of), Pure(1)).group_count == 12
    assert make_plan(question("day", "day < DATE '2024-02-01' AND day > DATE '2024-01-01'", of), Pure(1)).group_count
    if many <= MOST_TRIED:
        assert make_plan(question("DATE_TRUNC('month', day)", of=of), Pure(1)).group_count


def test_a_local_time_at_the_ends_of_the_calendar_is_not_public() -> None:
    of = table(seen=times("0001-01-01", "9999-12-31 23:00"))
    assert keys(f"DATE_TRUNC('year', {OSLO})", of=of) is None


def test_two_keys_of_a_day_and_a_value_are_listed_together() -> None:
    listed = keys("sex || STRFTIME(day, '%Y')")
    assert set(listed) == {"F2023", "F2024", "M2023", "M2024", None}


def test_a_subquery_by_unit_keeps_the_range_of_its_dates() -> None:
    first = "SELECT pid, MIN(seen) AS first FROM visits GROUP BY pid"
    read = read_sql(
        f"SELECT DATE_TRUNC('month', first) AS m, COUNT(*) AS n FROM ({first}) GROUP BY m", Catalog((table(),))
    )
    assert isinstance(read, Question)
    months = [datetime.fromisoformat("2023-12-01") + timedelta(days=days) for days in (0, 31, 62, 91)]
    assert domain_of(read.keys[0], read.table) == (*months, None)
