"""A query that runs again gives the same rows, whoever else asks and whatever failed before."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import duckdb
import pytest

from lapwing.engines import statements
from lapwing.engines.statements import Statements

QUERY = "SELECT k, SUM(v) AS s FROM rows GROUP BY k ORDER BY k"


@pytest.fixture
def made() -> Iterator[Statements]:
    with duckdb.connect(":memory:") as connection:
        connection.execute("CREATE TABLE rows AS SELECT i % 3 AS k, i AS v FROM range(100) t(i)")
        yield Statements(connection)


def run(made: Statements, text: str, general: str = "", arguments: str = "") -> list[tuple[object, ...]]:
    with made.entered(text, general, arguments) as (cursor, ready):
        return cursor.execute(ready()).fetchall()


def test_every_run_gives_what_the_first_gave(made: Statements) -> None:
    others = [f"SELECT COUNT(*) FROM rows WHERE v < {i}" for i in range(5)]
    first = [run(made, text) for text in (QUERY, *others)]
    for _ in range(3):
        assert [run(made, text) for text in (QUERY, *others)] == first


def test_it_is_planned_when_it_runs_again(made: Statements) -> None:
    told = []
    for _ in range(3):
        run(made, QUERY)
        told.append(made._names[QUERY])
    assert told == [None, "lw_0", "lw_0"]


GENERAL = "SELECT COUNT(*) FROM rows WHERE v < (SELECT CAST($1 AS BIGINT))"


def test_queries_that_differ_in_a_constant_share_a_plan(made: Statements) -> None:
    found = [run(made, f"SELECT COUNT(*) FROM rows WHERE v < {i}", GENERAL, f"(CAST({i} AS BIGINT))") for i in range(9)]
    assert found == [[(i,)] for i in range(9)]
    assert made._names == {GENERAL: "lw_0"}


def test_what_the_engine_cannot_plan_for_all_values_is_planned_for_each(made: Statements) -> None:
    general = "SELECT LIST_TRANSFORM([1], lambda x: x < (SELECT CAST($1 AS BIGINT)))[1]"
    for i in (0, 5, 1, 2):
        assert run(made, f"SELECT 1 < {i}", general, f"(CAST({i} AS BIGINT))") == [(i > 1,)]
    assert made._names == {general: ""}


def test_old_ones_are_forgotten(made: Statements, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "REMEMBERED", 3)
    for _ in range(3):
        for i in range(10):
            for _ in range(3):
                assert run(made, f"SELECT {i}") == [(i,)]


@pytest.mark.parametrize("before", [0, 1, 2])
def test_one_that_failed_leaves_nothing_behind(made: Statements, before: int) -> None:
    expected = [(0, 1683), (1, 1617), (2, 1650)]
    for _ in range(before):
        assert run(made, QUERY) == expected
    for _ in range(3):
        with pytest.raises(duckdb.Error):
            run(made, "SELECT CAST('x' AS INTEGER) FROM rows")
    for _ in range(3):
        assert run(made, QUERY) == expected


def test_a_second_question_does_not_wait_for_the_first(made: Statements) -> None:
    expected = run(made, QUERY)
    found: list[object] = []
    with made.entered(QUERY) as (cursor, ready):
        thread = threading.Thread(target=lambda: found.append(run(made, QUERY)))
        thread.start()
        thread.join(10)
        assert found == [expected]
        assert cursor.execute(ready()).fetchall() == expected
