"""Attacks that once worked against the curator, kept so that they never work again."""

from __future__ import annotations

import logging
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.plan.add_noise import arrange
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.query import cells_query
from lapwing.plan.question import Question
from lapwing.sql import read_sql
from support.cells import run

BUDGET = lw.Budget(epsilon=1000)


def cells(curator: lw.Curator, sql: str, epsilon: Any = 1) -> tuple[Plan, list[list[int]]]:
    """The plan and the exact cells, as nobody outside tests may see them."""
    question = read_sql(sql, curator.catalog)
    assert isinstance(question, Question)
    plan = make_plan(question, curator.ledger.budget.price(epsilon=epsilon))
    assert isinstance(plan, Plan)
    engine = curator._engine
    arranged = arrange(plan, run(engine, cells_query(plan)))
    return plan, [c.tolist() for (c,) in arranged.cells]


def csv_curator(folder: Path, lines: list[str | bytes]) -> lw.Curator:
    folder.mkdir()
    path = folder / "t.csv"
    path.write_bytes(b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines))
    return lw.open(path, unit="u", rows_per_unit=1, types={"x": "integer"}, bounds={"x": (0, 10)}, budget=BUDGET)


ORDINARY: list[str | bytes] = ["u,x,note", *(f"p{j},{j % 7},n{j}" for j in range(20))]
HOSTILE = [
    "u;x;note",
    "u,x,note,z",
    "u|x|note",
    "v,1",
    "v,1,a,b",
    "v\t1\ta",
    "# v",
    "",
    "v,1,\xff",
    b"\xff\xfe,1,a",
    '"v",1,"a"',
]


@pytest.mark.parametrize("row", HOSTILE, ids=lambda row: repr(row)[:20])
@pytest.mark.parametrize("place", ["first", "last"])
def test_one_csv_row_changes_its_own_cells_only(tmp_path: Path, row: str | bytes, place: str) -> None:
    """threat:A6 threat:A12 delimiter, header and number of columns are fixed, never guessed from the rows."""
    lines = [*ORDINARY, row] if place == "last" else [ORDINARY[0], row, *ORDINARY[1:]]
    _, before = cells(csv_curator(tmp_path / "a", ORDINARY), "SELECT COUNT(DISTINCT u) AS n, SUM(x) AS s FROM t")
    plan, after = cells(csv_curator(tmp_path / "b", lines), "SELECT COUNT(DISTINCT u) AS n, SUM(x) AS s FROM t")
    assert before == [[20], [57]]
    for measure, one, other in zip(plan.measures, before, after, strict=True):
        assert abs(one[0] - other[0]) <= measure.noise.sensitivity


def test_the_form_of_an_answer_does_not_depend_on_exact_cells() -> None:
    """The exact sum crosses 2^61 between two neighbours; nobody may see how it was held in memory."""
    leaks = set()
    for n in (2047, 2048):
        data = pa.table({"u": list(range(n)), "i": [2**50] * n})
        curator = lw.open(data, unit="u", rows_per_unit=1, bounds={"i": (0, 2**50)}, budget=BUDGET)
        release = curator.sql("SELECT (SUM(i) + 1) - SUM(i) AS leak FROM data", epsilon=8)
        leaks.add((release.to_arrow().schema.field("leak").type, release.to_dict()["rows"][0]["leak"]))
    assert len(leaks) == 1


@pytest.mark.parametrize("kind", [pa.uint64(), pa.decimal128(38, 0)], ids=str)
def test_no_cast_makes_two_units_one(kind: pa.DataType) -> None:
    """threat:A34 ids above 2^53 that float64 cannot tell apart stay different people."""
    first, second = 2**63 + 1, 2**63 + 2

    def total(units: list[int], values: list[int]) -> tuple[Plan, list[list[int]]]:
        data = pa.table({"u": pa.array(units, pa.uint64()).cast(kind), "x": values})
        curator = lw.open(data, unit="u", rows_per_unit=1, bounds={"x": (-100, 100)}, budget=BUDGET)
        return cells(curator, "SELECT SUM(x) AS s FROM data")

    plan, one = total([second], [-100])
    _, both = total([second, first, first, first], [-100, 100, 100, 100])
    assert abs(both[0][0] - one[0][0]) <= plan.measures[0].noise.sensitivity


@pytest.mark.parametrize(("top", "epsilon"), [(2**20, 1), (1, Fraction(1, 2**40))])
def test_reals_are_rounded_before_they_are_summed(top: int, epsilon: Any) -> None:
    """threat:A4 also where the step of the grid happens to be 1."""
    almost_half = 0.49999999999999994

    def total(values: list[float]) -> tuple[Plan, list[list[int]]]:
        data = pa.table({"u": list(range(len(values))), "x": values})
        curator = lw.open(data, unit="u", rows_per_unit=1, bounds={"x": (0, top)}, budget=BUDGET)
        return cells(curator, "SELECT SUM(x) AS s FROM data", epsilon)

    plan, one = total([almost_half])
    _, both = total([almost_half, float(top)])
    assert abs(both[0][0] - one[0][0]) <= plan.measures[0].noise.sensitivity


def test_a_failure_carries_no_cause_and_logs_no_data(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """threat:A13 neither the message, nor the chain of exceptions, nor the log holds what the engine said."""
    curator = lw.open(pa.table({"x": [1]}), unit=None, budget=BUDGET)

    def fail(_: object) -> None:
        raise RuntimeError("ZZCANARY")

    monkeypatch.setattr(curator._engine, "fetch", fail)
    with caplog.at_level(logging.DEBUG), pytest.raises(lw.EngineFailed) as caught:
        curator.sql("SELECT COUNT(*) FROM data", epsilon=1)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert "ZZCANARY" not in str(caught.value) + caplog.text


def test_a_broken_file_is_told_without_its_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """threat:A13"""
    path = tmp_path / "broken.parquet"
    path.write_bytes(b"PAR1 ZZCANARY PAR1")
    with caplog.at_level(logging.DEBUG), pytest.raises(lw.Misconfigured) as caught:
        lw.open(path, unit=None, budget=BUDGET)
    assert caught.value.__context__ is None
    assert "ZZCANARY" not in str(caught.value) + caplog.text


def test_a_frame_of_mixed_types_is_read_as_text() -> None:
    """threat:A13 no message holds a value, since there is nothing to complain about."""
    import pandas as pd

    curator = lw.open(pd.DataFrame({"x": [1, "ZZCANARY"]}), name="t", unit=None, budget=BUDGET)
    assert curator.catalog.tables[0].fields[0].type.value == "text"
    assert curator.sql("SELECT COUNT(x) AS n FROM t", epsilon=100).to_arrow()["n"][0].as_py() == 2


def test_text_that_cannot_be_sent_is_refused_before_the_charge() -> None:
    curator = lw.open(pa.table({"u": ["a"]}), unit=None, budget=BUDGET)
    with pytest.raises(lw.Refused, match="invalid characters"):
        curator.sql("SELECT COUNT(*) FROM data WHERE u = '\ud800'", epsilon=1)
    with pytest.raises(lw.Misconfigured, match="an invalid character"):
        lw.open(pa.table({"u": ["a"]}), unit=None, values={"u": ["a\0"]}, budget=BUDGET)
    assert curator.budget.spent.amount == 0


@pytest.mark.parametrize("row", ["7777,1,a\rb", '7777,1,"a"b""', 'x"7,"7777', '7777,1,5" x 6"'], ids=range(4))
@pytest.mark.parametrize("place", [0, 10, 20])
def test_odd_quotations_swallow_nobody(tmp_path: Path, row: str, place: int) -> None:
    """threat:A6 one line is one row: a stray quote once deleted everybody after it."""
    lines = [ORDINARY[0], *ORDINARY[1 : place + 1], row, *ORDINARY[place + 1 :]]
    _, without = cells(csv_curator(tmp_path / "without", ORDINARY), "SELECT COUNT(*) AS n, SUM(x) AS s FROM t")
    _, with_row = cells(csv_curator(tmp_path / "with", lines), "SELECT COUNT(*) AS n, SUM(x) AS s FROM t")
    assert 0 <= with_row[0][0] - without[0][0] <= 1
    assert abs(with_row[1][0] - without[1][0]) <= 10


@pytest.mark.parametrize("row", ['7777,1,"hello', '7777,1,"x\ny"', '"', '7777,"1'], ids=range(4))
@pytest.mark.parametrize("place", [0, 10, 20])
def test_an_open_quote_is_refused_at_open_and_nothing_is_asked(tmp_path: Path, row: str, place: int) -> None:
    """threat:A6 the lines of a text with line breaks would each be a row, and a unit, of their own."""
    lines = [ORDINARY[0], *ORDINARY[1 : place + 1], row, *ORDINARY[place + 1 :]]
    with pytest.raises(lw.Misconfigured, match="an odd number of quotes") as caught:
        csv_curator(tmp_path / "with", lines)
    assert "7777" not in str(caught.value)
    assert "Parquet" in str(caught.value)


def test_patterns_take_the_same_time_on_every_text() -> None:
    """threat:A9 % and _ together were matched by a machine whose time depends on the text."""
    curator = lw.open(pa.table({"s": ["a"]}), name="t", unit=None, budget=BUDGET)
    with pytest.raises(lw.Refused, match="not both"):
        curator.sql("SELECT COUNT(*) AS n FROM t WHERE s LIKE '%a____c'", epsilon=1)
    for pattern in ("a_c", "%a%c%", "_"):
        assert curator.sql(f"SELECT COUNT(*) AS n FROM t WHERE s LIKE '{pattern}'", epsilon=1).cost


def test_dates_beyond_the_calendar_are_no_failure() -> None:
    """threat:A12 a key that Python cannot hold would have told that the row is there."""
    import duckdb

    odd = duckdb.sql("SELECT DATE 'infinity' AS d UNION ALL SELECT DATE '29000-01-01'").to_arrow_table()
    curator = lw.open(odd, name="t", unit=None, budget=lw.Budget(epsilon=100, delta=1e-6))
    for key in ("d", "COALESCE(d, DATE '2020-01-01')", "CASE WHEN d IS NULL THEN NULL ELSE d END"):
        assert curator.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY 1", epsilon=1).cost


def test_columns_that_cannot_be_cast_safely_are_left_out(tmp_path: Path) -> None:
    """threat:A12 a time of day out of range once ended the process."""
    import pyarrow.parquet as pq

    table = pa.table({"u": [1], "t": pa.array([2**60], pa.time64("us")), "l": [[1]], "s": ["x"]})
    pq.write_table(table, tmp_path / "t.parquet")
    curator = lw.open(tmp_path / "t.parquet", unit="u", budget=BUDGET)
    assert [field.name for field in curator.catalog.tables[0].fields] == ["u", "s"]
    curator.close()
    with pytest.raises(lw.Misconfigured, match="Leave it out"):
        lw.open(tmp_path / "t.parquet", unit="u", types={"t": "text"}, budget=BUDGET)


@pytest.mark.parametrize("last", [None, 3, True, "x"], ids=str)
def test_objects_of_a_frame_are_texts_whatever_they_are(last: Any) -> None:
    """threat:A19 threat:A20 the schema does not depend on one row."""
    import pandas as pd

    frame = pd.DataFrame({"u": [1, 2], "o": pd.Series([None, last], dtype=object)})
    fields = lw.open(frame, unit="u", budget=BUDGET).catalog.tables[0].fields
    assert [(field.name, field.type.value) for field in fields] == [("u", "integer"), ("o", "text")]


@pytest.mark.parametrize("last", [True, None], ids=str)
def test_truth_values_of_a_frame_have_the_type_that_was_recorded_first(last: Any, tmp_path: Path) -> None:
    """threat:A19 threat:A20 a missing one makes objects of them, and the type stays what it was."""
    import pandas as pd

    facts: dict[str, Any] = {"name": "t", "unit": None, "budget": BUDGET, "ledger": tmp_path / "ledger.db"}
    lw.open(pd.DataFrame({"sick": [True, False]}), values={"sick": [False, True]}, **facts).close()
    frame = pd.DataFrame({"sick": [True, False, last]})
    with lw.open(frame, version="2", values={"sick": [False, True]}, **facts) as later:
        assert later.catalog.tables[0].fields[0].type.value == "boolean"
        found = later.sql("SELECT sick, COUNT(*) AS n FROM t GROUP BY sick", epsilon=100)
        assert (found["sick"], found["n"]) == ([False, True], [1, 2 if last else 1])


def test_names_with_quotes_do_not_share_a_stored_answer() -> None:
    """threat:A29 two columns, or one whose name looks like two."""
    table = pa.table({"a": ["x"] * 50, "b": ["y"] * 50, 'a","b': ["q"] * 50, "a', 'b": ["q"] * 50})
    curator = lw.open(table, name="t", unit=None, budget=lw.Budget(epsilon=100, delta=1e-6))
    assert curator.sql("SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b", epsilon=5).cost
    for name in ('"a"",""b"', "\"a', 'b\""):
        assert curator.sql(f"SELECT {name} AS k, COUNT(*) AS n FROM t GROUP BY {name}", epsilon=5).cost


def test_another_type_or_frame_is_another_question(tmp_path: Path) -> None:
    """threat:A29 the declared type of a column in WHERE, and the rows of a frame."""
    rows = pa.table({"x": ["1", "a"] * 20})

    def nulls(kind: str) -> Any:
        curator = lw.open(rows, name="t", unit=None, types={"x": kind}, budget=BUDGET, ledger=tmp_path / "ledger.db")
        try:
            return curator.sql("SELECT COUNT(*) AS n FROM t WHERE x IS NULL", epsilon=50).to_arrow()["n"][0].as_py()
        finally:
            curator.close()

    assert (nulls("text"), nulls("integer")) == (0, 20)
    with pytest.raises(lw.Misconfigured, match="other data"):
        lw.open(rows.slice(1), name="t", unit=None, types={"x": "text"}, budget=BUDGET, ledger=tmp_path / "ledger.db")


def test_computed_keys_lose_no_rows() -> None:
    """A missing value inside a function is a value of the function where it makes one."""
    table = pa.table({"s": ["F"] * 30 + ["M"] * 20 + [None] * 50})
    curator = lw.open(table, name="t", unit=None, values={"s": ["F", "M"]}, budget=BUDGET)
    found = curator.sql("SELECT LOWER(COALESCE(s, 'U')) AS k, COUNT(*) AS n FROM t GROUP BY 1", epsilon=50).to_pandas()
    assert dict(zip(found["k"], found["n"], strict=True)) == {"f": 30, "m": 20, "u": 50}


def test_integers_of_64_bits_stay_exact() -> None:
    wide = 2**53 + 1
    table = pa.table({"id": [wide, wide - 1, 2**63 - 1] * 10})
    curator = lw.open(table, name="t", unit=None, values={"id": [wide, wide - 1]}, budget=BUDGET)

    def count(text: str) -> int:
        return int(curator.sql(text, epsilon=50).to_arrow()["n"][0].as_py())

    assert count(f"SELECT COUNT(*) AS n FROM t WHERE id = {wide}") == 10
    assert count(f"SELECT COUNT(*) AS n FROM t WHERE id = {2**63 - 1}") == 10
    assert count(f"SELECT COUNT(*) AS n FROM t WHERE CAST(id AS TEXT) = '{wide}'") == 10
    assert count("SELECT COALESCE(id, 0) AS k, COUNT(*) AS n FROM t GROUP BY 1") == 10
    assert (
        count(f"SELECT CASE WHEN id < 5 THEN 1 ELSE {wide} END AS k, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY n DESC")
        == 30
    )


def test_sums_of_many_reals_are_not_biased_by_rounding() -> None:
    """A million rows at the worst place between two steps."""
    plan, found = cells(
        lw.open(
            pa.table({"x": [3 + 0.45 / 2**20] * 10_000}), name="t", unit=None, bounds={"x": (0, 10)}, budget=BUDGET
        ),
        "SELECT SUM(x) AS s FROM t",
    )
    exact = 10_000 * Fraction(3 + 0.45 / 2**20)
    assert (
        abs(found[0][0] * plan.measures[0].step - exact) * 1000 < plan.measures[0].noise.scale * plan.measures[0].step
    )


@pytest.mark.parametrize(
    "terms",
    [
        {"epsilon": 1, "confidence": Fraction(1, 10**300)},
        {"epsilon": 1, "delta": Fraction(1, 10**1000)},
    ],
    ids=["confidence", "delta"],
)
def test_numbers_of_no_ordinary_size_are_refused_in_words(terms: dict[str, Any]) -> None:
    """threat:A26"""
    for accounting in ("basic", "zcdp"):
        budget = lw.Budget(1, 1e-6, accounting=accounting)
        curator = lw.open(
            pa.table({"s": ["a"], "x": [1.0]}),
            name="t",
            unit=None,
            bounds={"x": (0, 1)},
            ledger=":memory:",
            budget=budget,
        )
        with pytest.raises(lw.LapwingError):
            curator.sql(
                "SELECT s, COUNT(*) AS n FROM t GROUP BY s" if "delta" in terms else "SELECT AVG(x) AS m FROM t",
                **terms,
            )
        assert not curator.ledger.spent


def test_a_star_with_modifiers_is_refused() -> None:
    curator = lw.open(pa.table({"x": [1]}), name="t", unit=None, budget=BUDGET)
    for star in ("* EXCLUDE (x)", "* REPLACE (1 AS x)"):
        with pytest.raises(lw.Refused):
            curator.sql(f"SELECT COUNT({star}) AS n FROM t", epsilon=1)


def test_keys_of_one_unit_stay_hidden_whatever_was_asked_before() -> None:
    """At another delta another mechanism selects the keys, and the query must follow it."""
    data = pa.table({"pid": list(range(50)), "name": [f"SECRET{i}" for i in range(50)]})
    budget = lw.Budget(epsilon=100, delta=1e-2, accounting="basic")
    curator = lw.open(data, name="t", unit="pid", rows_per_unit=5, groups_per_unit=3, budget=budget)
    question = "SELECT name, COUNT(*) AS n FROM t GROUP BY name"
    for delta in (1e-6, 1e-12, 1e-6):
        assert len(curator.sql(question, epsilon=1, delta=delta, refresh=True).to_arrow()) == 0
