"""Attacks that once worked against the curator, kept so that they never work again."""

from __future__ import annotations

import logging
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.query.bounding import cells_query
from lapwing.query.plan import Plan, make_plan
from lapwing.query.question import Question
from lapwing.query.release import arrange
from lapwing.query.sql import read_sql

BUDGET = lw.Budget(epsilon=1000)


def cells(curator: lw.Curator, sql: str, epsilon: Any = 1) -> tuple[Plan, list[list[int]]]:
    """The plan and the exact cells, as nobody outside tests may see them."""
    question = read_sql(sql, curator.catalog)
    assert isinstance(question, Question)
    plan = make_plan(question, curator.ledger.budget.price(epsilon=epsilon))
    assert isinstance(plan, Plan)
    engine = curator._engine
    arranged = arrange(plan, engine.cells(cells_query(plan, engine.keyed_hash)))
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

    monkeypatch.setattr(curator._engine, "cells", fail)
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


def test_a_frame_of_mixed_types_is_told_without_its_values() -> None:
    """threat:A13"""
    pandas = pytest.importorskip("pandas")
    with pytest.raises(lw.Misconfigured, match="mixes types") as caught:
        lw.open(pandas.DataFrame({"x": [1, "ZZCANARY"]}), unit=None, budget=BUDGET)
    assert caught.value.__context__ is None
    assert "ZZCANARY" not in str(caught.value)


def test_text_that_cannot_be_sent_is_refused_before_the_charge() -> None:
    curator = lw.open(pa.table({"u": ["a"]}), unit=None, budget=BUDGET)
    with pytest.raises(lw.Refused, match="no text"):
        curator.sql("SELECT COUNT(*) FROM data WHERE u = '\ud800'", epsilon=1)
    with pytest.raises(lw.Misconfigured, match="no text"):
        lw.open(pa.table({"u": ["a"]}), unit=None, values={"u": ["a\0"]}, budget=BUDGET)
    assert curator.budget.spent.amount == 0
