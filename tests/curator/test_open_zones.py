"""Time zones from the data to the answer: 00:30 in Oslo is in hour 0 of its day, wherever the rows come from."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lapwing as lw
from lapwing.cli.draft import draft
from lapwing.curator import Curator
from lapwing.errors import Misconfigured, Refused

PEOPLE = 300
HALF_PAST = datetime(2026, 7, 1, 0, 30, tzinfo=ZoneInfo("Europe/Oslo"))
ARROW = pa.table(
    {
        "pid": pa.array(range(PEOPLE), pa.int64()),
        "at": pa.array([HALF_PAST] * PEOPLE, pa.timestamp("us", "Europe/Oslo")),
    }
)
LOCAL = "at AT TIME ZONE 'Europe/Oslo'"


def parquet(folder: Path) -> Any:
    pq.write_table(ARROW, folder / "visits.parquet")
    return folder / "visits.parquet"


def database(folder: Path) -> Any:
    rows = ARROW  # noqa: F841 (DuckDB reads it by its name)
    with duckdb.connect(str(folder / "visits.duckdb")) as connection:
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
    return folder / "visits.duckdb"


def stepped(step: str, _: Path) -> Any:
    """Times in other steps, which DuckDB has other types for."""
    return ARROW.set_column(1, "at", ARROW["at"].cast(pa.timestamp(step, "Europe/Oslo")))


SOURCES: dict[str, Callable[[Path], Any]] = {
    "arrow": lambda _: ARROW,
    **{f"arrow {step}": partial(stepped, step) for step in ("s", "ms", "ns")},
    "pandas": lambda _: pd.DataFrame({"pid": range(PEOPLE), "at": [HALF_PAST] * PEOPLE}),
    "polars": lambda _: pl.from_arrow(ARROW),
    "parquet": parquet,
    "duckdb": database,
}


def opened(data: Any, **facts: Any) -> Curator:
    return lw.open(
        data, name="visits", unit="pid", budget=lw.Budget(epsilon=8), rows_per_unit=1, groups_per_unit=1, **facts
    )


def fullest(curator: Curator, key: str) -> Any:
    answer = curator.ask(f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT 1", epsilon=2)
    return answer.to_dict()["rows"][0]["k"]


@pytest.mark.parametrize("source", SOURCES)
def test_half_past_midnight_in_oslo_is_in_hour_0_of_its_day(source: str, tmp_path: Path) -> None:
    with opened(SOURCES[source](tmp_path)) as curator:
        assert "in UTC" in str(curator.describe())
        assert fullest(curator, "HOUR(at)") == 22
        assert fullest(curator, f"HOUR({LOCAL})") == 0
        assert fullest(curator, f"DAY({LOCAL})") == 1


def test_the_zone_of_the_process_changes_no_answer(tmp_path: Path) -> None:
    """DuckDB's own casts go through it. Of a file that is not loaded, the casts run with each question."""
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from curator.test_open_zones import SOURCES, fullest, opened, LOCAL
for source in ("duckdb", "arrow"):
    with opened(SOURCES[source](Path({str(tmp_path)!r}))) as curator:
        print(fullest(curator, "HOUR(at)"), fullest(curator, "HOUR(" + LOCAL + ")"), fullest(curator, "DAY(at)"))
"""
    environment = {**os.environ, "TZ": "Asia/Kolkata"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["22", "0", "30"] * 2, done.stderr


NAIVE = ARROW.set_column(1, "at", pa.array([HALF_PAST.replace(tzinfo=None)] * PEOPLE, pa.timestamp("us")))


def test_a_column_without_a_zone_is_refused_with_the_line_to_declare() -> None:
    with opened(NAIVE) as curator, pytest.raises(Refused, match=r'zones=\{"at": "UTC"\}, or zone = "UTC"'):
        fullest(curator, LOCAL)
    with opened(NAIVE, zones={"at": "UTC"}) as curator:
        assert fullest(curator, f"HOUR({LOCAL})") == 2


def test_a_column_of_local_times_serves_its_own_zone_alone() -> None:
    """From there to another zone there is no function: an hour of autumn comes twice."""
    with opened(NAIVE, zones={"AT": "Europe/Oslo"}) as curator:
        assert fullest(curator, f"HOUR({LOCAL})") == fullest(curator, "HOUR(at)") == 0
        assert "in Europe/Oslo" in str(curator.describe())
        with pytest.raises(Refused, match=r"Use AT TIME ZONE 'Europe/Oslo'"):
            fullest(curator, "at AT TIME ZONE 'UTC'")


@pytest.mark.parametrize(
    ("zones", "problem"),
    [
        ({"at": "Europe/Olso"}, "Did you mean `Europe/Oslo`"),
        ({"at": "europe/oslo"}, "Did you mean `Europe/Oslo`"),
        ({"at": 2}, "must be names"),
        ({"pid": "UTC"}, "Only timestamps have a time zone"),
        ({"when": "UTC"}, "no such column"),
        ("UTC", "by column"),
    ],
)
def test_a_wrong_zone_is_refused(zones: Any, problem: str) -> None:
    with pytest.raises(Misconfigured, match=problem):
        opened(NAIVE, zones=zones)


def test_a_column_that_is_stored_with_a_zone_is_in_utc() -> None:
    with pytest.raises(Misconfigured, match="Declare UTC, and ask for at AT TIME ZONE 'Europe/Oslo'"):
        opened(ARROW, zones={"at": "Europe/Oslo"})


QUESTIONS = {
    "(at + INTERVAL 2 HOUR) AT TIME ZONE 'Europe/Oslo'": 2,
    "COALESCE(at, TIMESTAMP '2020-01-01') AT TIME ZONE 'Europe/Oslo'": 0,
    "at AT TIME ZONE 'europe/oslo' + INTERVAL 1 HOUR": 1,
    "at AT TIME ZONE 'Etc/UTC'": 22,
}


@pytest.mark.parametrize("text", QUESTIONS)
def test_what_is_computed_from_a_column_keeps_its_zone(text: str) -> None:
    with opened(ARROW) as curator:
        assert fullest(curator, f"HOUR({text})") == QUESTIONS[text]


REFUSED = {
    f"({LOCAL}) AT TIME ZONE 'UTC'": "where t is the column",
    "TIMESTAMP '2020-01-01' AT TIME ZONE 'UTC'": "where t is the column",
    "at AT TIME ZONE 'Mars/Base'": "no such time zone",
    "at AT TIME ZONE LOWER('UTC')": "must be a constant",
    "CAST(at AS DATE) AT TIME ZONE 'UTC'": "where t is the column",
    "at + INTERVAL 1 HOUR AT TIME ZONE 'UTC'": "interval",
}


@pytest.mark.parametrize("text", REFUSED)
def test_other_uses_are_refused(text: str) -> None:
    with opened(ARROW) as curator, pytest.raises(Refused, match=REFUSED[text]):
        curator.ask(f"SELECT COUNT(*) FROM visits WHERE ({text}) IS NULL", epsilon=1)


def test_derived_rows_keep_the_zone() -> None:
    per_person = "SELECT pid, MAX(at) AS at FROM visits GROUP BY pid"
    both = "SELECT pid, at FROM visits UNION ALL SELECT pid, at FROM visits"
    with opened(ARROW) as curator:
        for inner in (per_person, both):
            text = f"SELECT HOUR({LOCAL}) AS k, COUNT(*) AS n FROM ({inner}) GROUP BY k ORDER BY n DESC LIMIT 1"
            assert curator.ask(text, epsilon=2).to_dict()["rows"][0]["k"] == 0


def test_public_columns_keep_the_zone() -> None:
    trips = pa.table({"trip": pa.array([1], pa.int64()), "at": ARROW.column("at").slice(0, 1)})
    rows = pa.table({"pid": ARROW.column("pid"), "trip": pa.array([1] * PEOPLE, pa.int64())})
    text = f"SELECT HOUR({LOCAL}) AS k, COUNT(*) AS n FROM visits JOIN trips USING (trip) GROUP BY k ORDER BY n DESC"
    with opened(rows, public={"trips": trips}) as curator:
        assert curator.ask(text, epsilon=2).to_dict()["rows"][0]["k"] == 0


def test_answers_say_in_which_zone_they_are_and_by_which_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another version of the database it is another question."""
    text = f"SELECT COUNT(*) AS n FROM visits WHERE HOUR({LOCAL}) = 0"
    from lapwing.expressions import zones
    from lapwing.expressions.operators import dates

    with opened(ARROW) as curator:
        plain = curator.ask("SELECT COUNT(*) AS n FROM visits WHERE HOUR(at) = 0", epsilon=1)
        assert "Times of `at` are in UTC." in plain.notes
        first = curator.ask(text, epsilon=1)
        assert f"Local times are by version {zones.VERSION} of the tz database." in first.notes
        assert not any("UTC" in note for note in first.notes)
        assert curator.ask(text, epsilon=1).to_dict()["rows"] == first.to_dict()["rows"]
        left = curator.budget.remaining
        curator.ask(text, epsilon=1)
        assert curator.budget.remaining == left
        monkeypatch.setattr(dates, "VERSION", "1999a")
        dates._local_time.cache_clear()
        curator.ask(f"{text} ", epsilon=1)
        assert curator.budget.remaining != left
    dates._local_time.cache_clear()


def test_the_draft_and_the_file_state_the_zone(tmp_path: Path) -> None:
    data, file = parquet(tmp_path), tmp_path / "lapwing.toml"
    text = draft([data], "pid", Decimal(8), Decimal(0), file)
    assert '"at" = { type = "timestamp", zone = "UTC" }' in text
    file.write_text(text.replace("# rows_per_unit = 5", "rows_per_unit = 1").replace("# groups", "groups"), "utf-8")
    with lw.load(file) as curator:
        assert fullest(curator, f"HOUR({LOCAL})") == 0
    file.write_text(text.replace(', zone = "UTC"', ', zone = "Europe/Oslo"'), "utf-8")
    with pytest.raises(Misconfigured, match="Declare UTC"):
        lw.load(file)


def test_the_draft_of_a_csv_file_says_that_offsets_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("pid,at\n1,2026-07-01T00:30:00+02:00\n", "utf-8")
    text = draft([tmp_path / "visits.csv"], "pid", Decimal(1), Decimal(0), tmp_path / "lapwing.toml")
    assert "offsets in these texts are ignored" in text
    assert '"at" = { type = "timestamp" }' in text


def test_the_zone_of_the_first_frame_is_recorded(tmp_path: Path) -> None:
    """A frame without rows has no zone; the next question must not follow from that."""
    ledger = tmp_path / "ledger.db"
    with opened(ARROW, ledger=ledger):
        pass
    with opened(NAIVE.slice(0, 0), ledger=ledger, version="2") as curator:
        assert "in UTC" in str(curator.describe())
