"""lapwing.toml: every complaint names the file, the key, the rule and the fix."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lapwing.cli.draft import draft
from lapwing.curator import load, open_data
from lapwing.curator.settings import Settings, read_memory, read_settings, read_values
from lapwing.engines.source import Csv, DuckDBTable, Parquet
from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.types import Type
from lapwing.privacy import Budget
from support.visits import CANARY, interval, write_visits

GOOD = """
[budget]
epsilon = 2
delta = 1e-6

[tables.visits]
source = "visits.parquet"
unit = "pid"
rows_per_unit = 10
groups_per_unit = 3
version = "2026-01"
confidence = 0.9

[tables.visits.columns]
pid = { type = "integer" }
sex = { type = "text", values = ["F", "M"] }
cost = { type = "real", bounds = [0, 5000.5], unit_bounds = [0, 9000] }
day = { type = "date", values = [2020-01-01, "2020-01-02"] }
at = { type = "timestamp", values = [2020-01-01T10:00:00, "2020-01-02 11:00:00"] }
site = { type = "integer", values = [1, 2], null = true }
age = { type = "integer", edges = [0, 18, 65] }
sick = { type = "boolean", values = [true] }

[tables.stays]
source = "stays.csv"
unit = "row"
[tables.stays.columns]
days = { type = "integer" }

[tables.old]
source = "old.duckdb"
table = "visits_2019"
unit = "row"
[tables.old.columns]
days = { type = "integer" }
"""


def settings(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "lapwing.toml"
    path.write_text(text)
    return read_settings(path)


def test_the_unit_is_found_as_sql_finds_it(tmp_path: Path) -> None:
    (visits, _), *_ = settings(tmp_path, GOOD.replace('unit = "pid"', 'unit = "PID"', 1)).tables
    assert visits.unit == "pid"
    pq.write_table(pa.table({"Pid": [1], "x": [1]}), tmp_path / "t.parquet")
    text = draft([tmp_path / "t.parquet"], "pid", Decimal(1), Decimal(0), tmp_path / "lapwing.toml")
    assert 'unit = "Pid"' in text


def test_reads_what_is_declared(tmp_path: Path) -> None:
    found = settings(tmp_path, GOOD)
    assert found.budget == Budget(epsilon=2, delta=1e-6)
    assert found.ledger == tmp_path / ".lapwing" / "ledger.db"
    (visits, parquet), (stays, csv), (_, old) = found.tables
    assert (parquet, csv) == (Parquet(tmp_path / "visits.parquet"), Csv(tmp_path / "stays.csv"))
    assert old == DuckDBTable(tmp_path / "old.duckdb", "visits_2019")
    assert (visits.unit, visits.rows_per_unit, visits.groups_per_unit) == ("pid", 10, 3)
    assert (visits.version, visits.confidence, stays.unit) == ("2026-01", Fraction(9, 10), None)
    assert visits.field("cost").bounds == interval(0, 5000.5)
    assert visits.field("cost").unit_bounds == interval(0, 9000)
    assert visits.field("site").values == (1, 2, None)
    assert visits.field("day").values == (date(2020, 1, 1), date(2020, 1, 2))
    assert visits.field("at").values == (datetime(2020, 1, 1, 10), datetime(2020, 1, 2, 11))  # noqa: DTZ001
    assert [witness.name for witness in found.witnesses] == [
        "visits.parquet.lapwing", "stays.csv.lapwing", "old.duckdb.lapwing",
    ]  # fmt: skip


def test_decimals_are_read_as_written(tmp_path: Path) -> None:
    """0.1 in the file is a tenth."""
    found = settings(tmp_path, GOOD.replace("epsilon = 2\ndelta = 1e-6", "epsilon = 0.1"))
    assert found.budget.epsilon == Fraction(1, 10)


BROKEN = {
    "not TOML": ("[budget", "nonsense [", "not valid TOML"),
    "no budget": ("[budget]", "[budgets]", "`budgets` is not a known key. Did you mean `budget`?"),
    "typo in a key": ("rows_per_unit", "row_per_unit", "`tables.visits.row_per_unit` is not a known key. Did you mean"),
    "typo in a column": ("bounds = [0, 5000.5]", "bound = [0, 1]", "`columns.cost.bound` is not a known key. Did you"),
    "no epsilon": ("epsilon = 2\n", "", "`budget.epsilon` is missing. Set how much"),
    "negative epsilon": ("epsilon = 2\n", "epsilon = -2\n", "budget: `epsilon` is -2; it must be above 0"),
    "no unit": ('unit = "pid"\n', "", "`tables.visits.unit` is missing. Name the column"),
    "wrong unit": ('unit = "pid"', 'unit = "pidd"', "but `visits` has no such column. Did you mean `pid`?"),
    "unit is a number": ('unit = "pid"', "unit = 3", "`tables.visits.unit` must be text. Put it in quotes."),
    "no source": ('source = "visits.parquet"\n', "", "`tables.visits.source` is missing"),
    "unknown file": (
        "visits.parquet",
        "visits.sav",
        "tables.visits.source: `visits.sav` has the unsupported extension `.sav`",
    ),
    "no columns": ("[tables.stays.columns]\ndays = { type = \"integer\" }", "", "`tables.stays.columns` is missing"),
    "no type": ('pid = { type = "integer" }', "pid = { }", "`columns.pid.type` is missing. Use integer, real"),
    "wrong type": ('sick = { type = "boolean"', 'sick = { type = "bool"', "columns.sick.type: `type` is 'bool'; it mu"),
    "column is no section": ('pid = { type = "integer" }', 'pid = "integer"', "`tables.visits.columns.pid` is a"),
    "three bounds": ("[0, 5000.5]", "[0, 1, 2]", "columns.cost.bounds: bounds must be two numbers"),
    "bounds in words": ("[0, 5000.5]", '["a", "b"]', "columns.cost.bounds: `the lower bound` is 'a'"),
    "endless bounds": ("[0, 5000.5]", "[0, inf]", "columns.cost.bounds: `the upper bound` is Infinity; it must be f"),
    "turned bounds": ("[0, 5000.5]", "[9, 1]", "columns.cost: `cost.bounds` is [9, 1]; the lower bound exceeds"),
    "bounds on text": ('values = ["F", "M"]', "bounds = [0, 1]", "columns.sex: `sex.bounds` is set, but the type is t"),
    "value of another type": ('["F", "M"]', '["F", 1]', "columns.sex.values: a value is not of the column's type text"),
    "value twice": (
        '["F", "M"]',
        '["F", "F"]',
        "columns.sex: `sex.values` contains a value twice. List each value once.",
    ),
    "null without values": ('values = ["F", "M"]', "null = true", "columns.sex.null` says whether NULL is one of the"),
    "null is no truth value": ("null = true", 'null = "yes"', "columns.site.null` says whether NULL is one of the"),
    "values are no list": ('["F", "M"]', '"F"', "columns.sex.values: values must be a list"),
    "turned edges": ("[0, 18, 65]", "[18, 0]", "columns.age: `age.edges` must be ascending numbers, dates or times"),
    "edges of another type": ("[0, 18, 65]", "[0, 17.5]", "columns.age.edges: a value is not of the column's type int"),
    "edges are no list": ("[0, 18, 65]", "18", "columns.age.edges: edges must be a list, for example [0, 18, 65]."),
    "no such day": ('"2020-01-02"]', '"2020-13-02"]', "columns.day.values: a value is not of the column's type date"),
    "zone": ("2020-01-01T10:00:00", "2020-01-01T10:00:00Z", "columns.at.values: a value is not of the column's type"),
    "no rows": ("rows_per_unit = 10", "rows_per_unit = 0", "tables.visits.rows_per_unit: `rows_per_unit` is 0; it mu"),
    "half a group": ("groups_per_unit = 3", "groups_per_unit = 1.5", "groups_per_unit` is 1.5; it must be a whole"),
    "too confident": ("confidence = 0.9", "confidence = 1", "tables.visits.confidence: `confidence` is 1; it must lie"),
    "odd version": ('version = "2026-01"', "version = 3", "`tables.visits.version` must be text. Put it in quotes."),
    "odd table": ('table = "visits_2019"', "table = 3", "`tables.old.table` must be text. Put it in quotes."),
    "odd accounting": ("delta = 1e-6", 'accounting = "lax"', "budget: "),
    "names that differ in case": ("[tables.stays", "[tables.Visits", "tables: two tables have the same name"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_complaints_name_file_key_rule_and_fix(name: str, tmp_path: Path) -> None:
    old, new, message = BROKEN[name]
    assert old in GOOD
    with pytest.raises(Misconfigured) as caught:
        settings(tmp_path, GOOD.replace(old, new))
    words = str(caught.value)
    assert words.startswith(f"{tmp_path / 'lapwing.toml'}: ")
    assert message in words
    assert words.endswith((".", "?"))


PUBLIC = {
    "typo": ('source = "regions.csv"\nkeys = ["code"]', "`public.regions.keys` is not a known key. Did you mean"),
    "no source": ('key = ["code"]', "`public.regions.source` is missing"),
    "no list": ('source = "regions.csv"\nkey = "code"', "`public.regions.key` must be a list of columns"),
    "no column": ('source = "regions.csv"\nkey = ["cod"]', "but `regions` has no such column. Did you mean `code`?"),
    "double": ('source = "regions.csv"\nkey = ["land"]', "two rows of `regions` have the same land"),
    "no file": ('source = "region.csv"', "`region.csv` cannot be opened"),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_complaints_about_public_tables_name_key_rule_and_fix(name: str, tmp_path: Path) -> None:
    lines, message = PUBLIC[name]
    (tmp_path / "regions.csv").write_text("code,land\nN,NO\nS,NO\n")
    with pytest.raises(Misconfigured) as caught:
        settings(tmp_path, f"{GOOD}\n[public.regions]\n{lines}\n")
    assert str(caught.value).startswith(f"{tmp_path / 'lapwing.toml'}: ")
    assert message in str(caught.value)


def test_public_tables_are_read_from_their_files(tmp_path: Path) -> None:
    (tmp_path / "regions.csv").write_text("code,land\nN,NO\nS,NO\n")
    found = settings(tmp_path, f'{GOOD}\n[public.regions]\nsource = "regions.csv"\nkey = ["land", "code"]\n')
    [(table, _)] = found.public
    assert (table.public, table.unit, table.keys) == (True, None, (("land", "code"), ("code",)))
    assert table.field("code").values == ("N", "S")
    assert len(found.witnesses) == 3


def test_a_public_table_cannot_have_the_name_of_a_private_one(tmp_path: Path) -> None:
    (tmp_path / "regions.csv").write_text("code\nN\n")
    with pytest.raises(Misconfigured, match="two tables have the same name"):
        settings(tmp_path, f'{GOOD}\n[public.Visits]\nsource = "regions.csv"\n')


SEVERAL = """
[budget]
epsilon = 1
[tables.visits]
source = "visits.csv"
unit = "pid"
rows_per_unit = 2
[tables.visits.columns]
pid = { type = "text" }
code = { type = "text" }
[tables.stays]
source = "stays.csv"
unit = "pid"
rows_per_unit = 2
[tables.stays.columns]
pid = { type = "text" }
[public.regions]
source = "regions.csv"
"""


def test_a_question_over_several_tables_needs_all_of_them_unchanged(tmp_path: Path) -> None:
    """gate:G51 one budget for all tables; a changed one stops every question that reads it."""
    for name, text in (("visits", "pid,code\n1,N\n2,S\n"), ("stays", "pid\n1\n"), ("regions", "code\nN\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "lapwing.toml").write_text(SEVERAL)
    curator = load(tmp_path / "lapwing.toml")
    joined = "SELECT COUNT(*) AS n FROM visits v JOIN stays s ON v.pid = s.pid JOIN regions r ON r.code = v.code"
    assert curator.sql(joined, epsilon=0.1).plan.table.version.startswith("visits 1, stays 1, regions ")
    (tmp_path / "regions.csv").write_text("code\nN\nS\n")
    assert len(curator.sql(joined, epsilon=0.2)) == 1
    (tmp_path / "stays.csv").write_text("pid\n1\n2\n")
    with pytest.raises(Misconfigured, match="changed without a new version"):
        curator.sql(joined, epsilon=0.3)
    assert len(curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.1)) == 1
    assert curator.budget.spent.amount == Fraction(4, 10)
    curator.close()


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="lapwing init"):
        read_settings(tmp_path / "lapwing.toml")


def test_times_of_pandas_are_plain_times() -> None:
    """Finer than microseconds no engine compares them, and NaT is none: found when declared, not when asked."""
    found = read_values([pd.Timestamp("2020-01-01 10:00:00.000005")], Type.TIMESTAMP)
    assert found == (datetime(2020, 1, 1, 10, 0, 0, 5),)  # noqa: DTZ001
    assert type(found[0]) is datetime
    for value in (pd.Timestamp("2020-01-01 10:00:00.000000005"), pd.NaT, pd.Timestamp("2020-01-01", tz="UTC")):
        with pytest.raises(Misconfigured, match="not of the column's type timestamp"):
            read_values([value], Type.TIMESTAMP)


def test_values_may_hold_null_in_python() -> None:
    assert read_values([None, "a"], Type.TEXT) == (None, "a")
    assert read_values([0.1, Decimal("0.2"), 1], Type.REAL) == (Fraction(1, 10), Fraction(1, 5), 1)


@pytest.mark.parametrize("ending", ["parquet", "csv", "duckdb"])
def test_a_draft_can_be_loaded_and_holds_nothing_from_the_rows(ending: str, tmp_path: Path) -> None:
    """threat:A20 gate:G16 `init` reads names and types; what a person must decide is marked REVIEW."""
    path = write_visits(tmp_path)
    if ending == "csv":
        path = tmp_path / "visits.csv"
        path.write_text(f"pid,name,cost\n1,{CANARY},417.25\n")
    if ending == "duckdb":
        import duckdb

        path = tmp_path / "visits.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute(f"CREATE TABLE visits AS SELECT 1 AS pid, '{CANARY}' AS name, 417.25::DOUBLE AS cost")
    file = tmp_path / "lapwing.toml"
    file.write_text(draft([path], "pid", Decimal("0.5"), Decimal("1e-6"), file))
    text = file.read_text()
    assert CANARY not in text
    assert "417" not in text
    assert "REVIEW" in text
    found = read_settings(file)
    assert found.budget == Budget(epsilon=0.5, delta=1e-6)
    [(table, _)] = found.tables
    assert table.unit == "pid"
    assert (table.field("name").type, table.field("cost").type) == (Type.TEXT, Type.REAL)
    curator = load(file)
    assert curator.preview("SELECT COUNT(DISTINCT pid) AS n FROM visits", epsilon=0.1).fits
    with pytest.raises(Refused, match="rows_per_unit"):
        curator.preview("SELECT COUNT(*) AS n FROM visits", epsilon=0.1)


def test_a_draft_is_the_same_for_neighbours(tmp_path: Path) -> None:
    """threat:A20 for typed files the draft is a function of the schema."""
    drafts = []
    for people in (1, 40):
        path = write_visits(tmp_path, people=people)
        drafts.append(draft([path], "pid", Decimal(1), Decimal(0), tmp_path / "lapwing.toml"))
    assert drafts[0] == drafts[1]


def test_a_draft_quotes_hostile_names(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ['a"b', "c\\d", "e\nf", "ü 🦆", "[x]", "#"]
    path = tmp_path / 'odd "name".parquet'
    pq.write_table(pa.table({name: [1] for name in names}), path)
    file = tmp_path / "lapwing.toml"
    file.write_text(draft([path], "row", Decimal(1), Decimal(0), file), encoding="utf-8")
    [(table, _)] = read_settings(file).tables
    assert [field.name for field in table.fields] == names
    assert load(file).catalog.tables == (table,)


def test_a_draft_of_an_unknown_unit_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"Did you mean `pid`\?"):
        draft([write_visits(tmp_path)], "pidd", Decimal(1), Decimal(0), tmp_path / "lapwing.toml")


@pytest.mark.parametrize("what", ["bounds", "unit_bounds", "values", "edges"])
def test_what_is_declared_must_name_its_column(what: str) -> None:
    with pytest.raises(Misconfigured, match=f"`{what}` must be a mapping by column"):
        open_data(pd.DataFrame({"age": [1]}), unit=None, budget=Budget(epsilon=1), **{what: [0, 18]})


def test_memory_of_the_engine_is_a_size(tmp_path: Path) -> None:
    write_visits(tmp_path)
    for wrong in ("lots", "20MB", "4", 4):
        with pytest.raises(Misconfigured, match=r"must be a size .* at least 100MB"):
            open_data(tmp_path / "visits.parquet", unit="pid", budget=Budget(epsilon=1), memory=wrong)
    assert read_memory("1 gb") == "1GB"
    curator = open_data(tmp_path / "visits.parquet", unit="pid", budget=Budget(epsilon=1), memory="500MB")
    (limit,) = curator._engine._connection.execute("SELECT current_setting('memory_limit')").fetchone() or ("",)
    assert limit == "476.8 MiB"
