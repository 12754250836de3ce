"""Bounds of dates from the declaration to the answer: a count by month, whatever the rows hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import lapwing as lw
from lapwing.cli.draft import draft_served
from lapwing.curator import Curator, load
from lapwing.curator.dummy import dummy_catalog, dummy_rows
from lapwing.curator.fit import facts_of
from lapwing.curator.settings import read_settings
from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.types import Type
from support.commands import lapwing
from support.hosts import HOSTS, PostgresHost, SparkHost

ENOUGH = 10**7
BOUNDS = (date(2023, 1, 1), date(2024, 12, 31))
MONTHS = 24
BY_MONTH = "SELECT DATE_TRUNC('month', at) AS month, COUNT(*) AS n FROM visits GROUP BY month ORDER BY month"
TIMES = [
    "2022-12-31 23:59:59.999999",
    "2023-01-01 00:00:00",
    "2024-02-29 12:00:00",
    "2024-12-31 23:59:59.999999",
    "2025-01-01 00:00:00",
    None,
]


def rows(times: list[str | None] = TIMES) -> pa.Table:
    """One visit a person."""
    moments = [None if text is None else datetime.fromisoformat(text) for text in times]
    return pa.table(
        {
            "pid": pa.array(range(len(times)), pa.int64()),
            "at": pa.array(moments, pa.timestamp("us")),
            "day": pa.array([None if at is None else at.date() for at in moments], pa.date32()),
        }
    )


def opened(data: Any = None, **changes: Any) -> Curator:
    facts: dict[str, Any] = {
        "unit": "pid",
        "rows_per_unit": 1,
        "groups_per_unit": 1,
        "bounds": {"at": BOUNDS, "day": ("2023-01-01", "2024-12-31")},
        "budget": lw.Budget(epsilon=ENOUGH),
        "ledger": ":memory:",
        "check": 0,
        "name": "visits",
    }
    return lw.open(rows() if data is None else data, **{**facts, **changes})


def counts(curator: Any, text: str = BY_MONTH) -> dict[str, int]:
    """The rows with a count, at a price without noise to speak of."""
    table = curator.sql(text, epsilon=100).to_arrow()
    return {str(k)[:10]: n for k, n in zip(*(table.column(i).to_pylist() for i in (0, 1)), strict=True)}


def found(numbers: dict[str, int]) -> dict[str, int]:
    return {key: n for key, n in numbers.items() if n}


INSIDE = {"2023-01-01": 1, "2024-02-01": 1, "2024-12-01": 1, "None": 1}


@pytest.mark.parametrize("host", ["duckdb", "postgres", pytest.param("spark", marks=pytest.mark.slow)])
def test_a_count_by_month_has_every_month_of_the_range(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Edges of the range, a leap day and NULL count; times before and after it are dropped. No delta is needed."""
    place = HOSTS[host](request)
    request.addfinalizer(place.close)
    more: dict[str, Any] = {"data": rows()}
    if isinstance(place, PostgresHost):
        more = {"data": place.url, "table": place.store(rows()), "ledger": tmp_path / "ledger.db", "version": "1"}
    elif isinstance(place, SparkHost):
        more = {"data": place.session.createDataFrame(rows()), "ledger": tmp_path / "ledger.db", "version": "1"}
    with opened(**more) as curator:
        assert found(numbers := counts(curator)) == INSIDE
        assert len(numbers) == MONTHS + 1
        year = "WHERE at >= DATE '2024-01-01' AND at < DATE '2025-01-01'"
        numbers = counts(curator, BY_MONTH.replace("GROUP BY", f"{year} GROUP BY"))
        assert list(numbers) == [f"2024-{month:02}-01" for month in range(1, 13)]
        assert found(numbers) == {"2024-02-01": 1, "2024-12-01": 1}
        days = counts(curator, "SELECT day, COUNT(*) AS n FROM visits WHERE YEAR(day) = 2024 GROUP BY day")
        assert (len(days), found(days)) == (366, {"2024-02-29": 1, "2024-12-31": 1})
        texts = counts(curator, "SELECT STRFTIME(at, '%Y-%m') AS m, COUNT(*) AS n FROM visits GROUP BY m")
        assert {f"{key}-01": n for key, n in found(texts).items() if key != "None"} | {"None": 1} == INSIDE
        hours = counts(
            curator,
            "SELECT EXTRACT(hour FROM at) AS h, COUNT(*) AS n FROM visits WHERE at < DATE '2023-01-02' GROUP BY h",
        )
        assert found(hours)["0"] == 1


def test_where_alone_is_enough() -> None:
    year = "WHERE at >= DATE '2024-01-01' AND at < DATE '2025-01-01'"
    numbers = counts(opened(bounds=None), BY_MONTH.replace("GROUP BY", f"{year} GROUP BY"))
    assert (len(numbers), found(numbers)) == (12, {"2024-02-01": 1, "2024-12-01": 1})


def test_an_answer_says_which_keys_are_not_counted() -> None:
    sentence = "Keys are those of `at` in [2023-01-01, 2024-12-31]; rows with other keys are not counted."
    assert sentence in opened().sql(BY_MONTH, epsilon=1).explain()
    assert (
        "Keys are"
        not in opened(bounds=None).sql("SELECT MONTH(at), COUNT(*) FROM visits GROUP BY 1", epsilon=1).explain()
    )
    later = opened(bounds={"at": ("2023-01-01 06:30", "2024-12-31T12:00")})
    assert "in [2023-01-01 06:30:00, 2024-12-31 12:00:00];" in later.sql(BY_MONTH, epsilon=1).explain()


NEIGHBOURS = [
    BY_MONTH,
    "SELECT day, COUNT(*) AS n FROM visits WHERE day >= DATE '2024-11-01' GROUP BY day",
    "SELECT YEAR(day) AS y, MONTH(at) AS m, COUNT(*) AS n FROM visits GROUP BY y, m",
    "SELECT at, COUNT(*) AS n FROM visits GROUP BY at",
    "SELECT DATE_TRUNC('hour', at) AS h, COUNT(*) AS n FROM visits GROUP BY h",
]


@pytest.mark.parametrize("text", NEIGHBOURS)
def test_one_unit_changes_neither_keys_nor_price_nor_refusal(text: str) -> None:
    """threat:A15 threat:A20 the list of keys is a function of the question and of declared facts."""

    def seen(times: list[str | None]) -> object:
        try:
            curator = opened(rows(times))
            errors, answer = curator.preview(text, epsilon=1).errors, curator.sql(text, epsilon=1)
        except Refused as refused:
            return refused.code, str(refused)
        table = answer.to_arrow()
        keys = [name for name in table.column_names if not name.startswith("n")]
        return table.select(keys).to_pylist(), answer.cost, errors

    every = seen(TIMES)
    assert all(seen([*TIMES[:i], *TIMES[i + 1 :]]) == every for i in (0, 2, 5))
    assert seen([]) == every


@pytest.mark.parametrize("key", ["day", "DATE_TRUNC('month', at)", "STRFTIME(at, '%Y-%m')", "YEAR(at)", "at"])
def test_a_refusal_gives_a_line_of_bounds_that_works(key: str) -> None:
    text = f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY k"
    with pytest.raises(Refused) as refused:
        opened(bounds=None).sql(text, epsilon=1)
    assert refused.value.code == "keys-not-public"
    column = "day" if key == "day" else "at"
    assert f'declare bounds = ["2024-01-01", "2024-06-30"] for `{column}`' in refused.value.instead
    if key == "at":
        assert "Group by CAST(at AS DATE)" in refused.value.instead
        text = text.replace("at AS k", "CAST(at AS DATE) AS k")
    assert opened(bounds={column: ["2024-01-01", "2024-06-30"]}).sql(text, epsilon=1)
    fixed = f"WHERE {column} >= DATE '2024-01-01' AND {column} < DATE '2024-07-01'"
    assert f"or write {fixed}" in refused.value.instead
    assert opened(bounds=None).sql(text.replace("GROUP", f"{fixed} GROUP"), epsilon=1)


def test_a_longer_range_than_can_be_listed_is_refused_with_what_works() -> None:
    text = "SELECT {} AS k, COUNT(*) AS n FROM visits {} GROUP BY k"
    with opened(bounds={"at": ("1990-01-01", "2024-12-31")}) as curator:
        with pytest.raises(
            Refused, match="At most 1,000 values are listed: use DATE_TRUNC\\('month', at\\), or a shorter"
        ):
            curator.sql(text.format("CAST(at AS DATE)", ""), epsilon=1)
        assert len(curator.sql(text.format("DATE_TRUNC('month', at)", ""), epsilon=1)) == 35 * 12 + 1
        assert len(curator.sql(text.format("CAST(at AS DATE)", "WHERE YEAR(at) = 2024"), epsilon=1)) == 366


WRONG: list[tuple[Any, str]] = [
    (("2024-12-31", "2023-01-01"), "bounds must be two dates, the earlier first"),
    ((2023, 2024), "bounds must be two dates"),
    (("2023-01-01", None), "bounds must be two dates"),
    (("2023-01-01",), "bounds must be two dates"),
    (("2023-01-01", "2023-02-30"), "bounds must be two dates"),
    (("2023-01-01", "2024-12-31T10:00+02:00"), "bounds must be two dates"),
    ("auto", "only for numbers"),
]


@pytest.mark.parametrize(("bounds", "said"), WRONG)
@pytest.mark.parametrize("column", ["at", "day"])
def test_other_bounds_of_dates_are_refused(column: str, bounds: Any, said: str) -> None:
    with pytest.raises(Misconfigured, match=said):
        opened(bounds={column: bounds})


def test_bounds_are_recorded_described_and_kept_to_by_made_up_rows() -> None:
    curator = opened()
    note = next(json.loads(entry.note) for entry in curator.ledger.entries() if entry.kind == "version")
    assert note["limits"]["columns"]["day"]["bounds"] == ["2023-01-01", "2024-12-31"]
    assert note["limits"]["columns"]["at"]["bounds"] == ["2023-01-01 00:00:00", "2024-12-31 23:59:59.999999"]
    assert "bounds [2023-01-01, 2024-12-31]" in str(curator.describe())
    (made_up,) = dummy_rows(dummy_catalog(curator.catalog)).values()
    assert all(BOUNDS[0] <= day <= BOUNDS[1] for day in made_up["day"].to_pylist())


TOML = """
[budget]
epsilon = 10000000
[tables.visits]
source = "visits.{kind}"
unit = "pid"
rows_per_unit = 1
groups_per_unit = 1
[tables.visits.columns]
pid = {{ type = "integer" }}
at = {{ type = "timestamp", bounds = {bounds} }}
day = {{ type = "date", bounds = {bounds} }}
"""


@pytest.mark.parametrize(
    ("kind", "bounds"), [("csv", '["2023-01-01", "2024-12-31"]'), ("parquet", "[2023-01-01, 2024-12-31]")]
)
def test_a_toml_file_declares_them(tmp_path: Path, kind: str, bounds: str) -> None:
    write: Callable[..., Any] = pyarrow.csv.write_csv if kind == "csv" else pq.write_table
    write(rows(), tmp_path / f"visits.{kind}")
    (tmp_path / "lapwing.toml").write_text(TOML.format(kind=kind, bounds=bounds))
    with load(tmp_path / "lapwing.toml") as curator:
        assert found(counts(curator)) == INSIDE
    facts = {
        fact.fact: fact.misfits for fact in facts_of(read_settings(tmp_path / "lapwing.toml")) if fact.column == "at"
    }
    assert facts["lie below 2023-01-01 00:00:00"] == facts["lie above 2024-12-31 23:59:59.999999"] == 1


def test_a_toml_file_with_other_bounds_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "lapwing.toml").write_text(TOML.format(kind="csv", bounds='["2023-01-01"]'))
    with pytest.raises(Misconfigured, match=r"columns\.at\.bounds: bounds must be two dates"):
        load(tmp_path / "lapwing.toml")


@pytest.mark.parametrize("column", ["at", "day"])
def test_python_reads_a_plain_csv_file_with_a_range_at_the_first_try(tmp_path: Path, column: str) -> None:
    """The column is text in the file: that its bounds are dates makes it a timestamp, also if it holds days alone."""
    pyarrow.csv.write_csv(rows(), tmp_path / "visits.csv")
    with opened(tmp_path / "visits.csv", bounds={column: BOUNDS}, ledger=None) as curator:
        numbers = counts(curator, BY_MONTH.replace("at)", f"{column})"))
        assert (found(numbers), len(numbers)) == (INSIDE, MONTHS + 1)
    with opened(tmp_path / "visits.csv", bounds=None, ledger=None) as again:
        assert again.catalog.tables[0].field(column).type is Type.TIMESTAMP
    text = {"data": tmp_path / "visits.csv", "ledger": None, "bounds": {column: BOUNDS}, "types": {column: "text"}}
    with pytest.raises(Misconfigured, match=r"the column is text\. Declare its type as \"date\" or \"timestamp\""):
        opened(**text)


def test_the_command_line_declares_them_and_counts_by_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow.csv.write_csv(rows(), tmp_path / "visits.csv")
    monkeypatch.chdir(tmp_path)
    words = ("init", "visits.csv", "--unit", "pid", "--epsilon", "1000000")
    for wrong in (("--since", "2023-01-01"), ("--since", "2024-01-01", "--until", "2023-01-01"), ("--until", "x")):
        assert lapwing(*words, *wrong).returncode
        assert not Path("lapwing.toml").exists()
    assert lapwing(*words, "--since", "2023-01-01", "--until", "2024-12-31").returncode == 0
    text = Path("lapwing.toml").read_text()
    assert '"at" = { type = "timestamp", bounds = ["2023-01-01", "2024-12-31"] }' in text
    assert '"day" = { type = "date", bounds = ["2023-01-01", "2024-12-31"] }' in text
    assert '"pid" = { type = "integer" }' in text
    done = lapwing("ask", BY_MONTH.replace("COUNT(*)", "COUNT(DISTINCT pid)"), "--epsilon", "1000", "--json")
    assert done.returncode == 0, done.stderr
    assert "2024-02-01" in done.stdout
    assert lapwing(*words, "--file", "plain.toml").returncode == 0
    assert '# REVIEW dates: bounds = ["2023-01-01", "2024-12-31"]' in Path("plain.toml").read_text()


def test_a_draft_of_a_table_of_a_server_declares_them(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = HOSTS["postgres"](request)
    request.addfinalizer(place.close)
    assert isinstance(place, PostgresHost)
    monkeypatch.setenv("PGPASSWORD", place.password)
    address = place.url.replace(f":{place.password}@", "@")
    text = draft_served(address, place.store(rows()), "pid", Decimal(1), Decimal(0), ("2023-01-01", "2024-12-31"))
    assert text.count('bounds = ["2023-01-01", "2024-12-31"] }') == 2


def test_thousands_of_rows_are_counted_exactly_by_month() -> None:
    start = datetime.fromisoformat("2022-12-01")
    many: list[str | None] = [str(start + timedelta(hours=7 * i)) for i in range(3_000)]
    expected: dict[str, int] = {}
    for text in many:
        if text is not None and text[:4] in ("2023", "2024"):
            expected[f"{text[:7]}-01"] = expected.get(f"{text[:7]}-01", 0) + 1
    assert found(counts(opened(rows(many)))) == expected
