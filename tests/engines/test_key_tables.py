"""Public keys in a table beside the query keep the same rows as keys in its text."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

from lapwing.curator import Curator, open_data
from lapwing.engines import dialect as module
from lapwing.engines.dialect import MANY
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.engines.source import Frame
from lapwing.expressions import forms
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type, Value
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.query import queries
from lapwing.plan.question import Question
from lapwing.privacy import Budget, Pure
from lapwing.sql import read_sql
from support.cells import exact_cells
from support.sweeps import sweep

SOME = 40
VALUES: dict[Type, list[Any]] = {
    Type.INTEGER: [*range(-20, 18), 2**53 + 1, -(2**63), 2**63 - 1],
    Type.TEXT: ["", " ", "a", "A", "a ", "é", "e\u0301", "'", '"', *map(str, range(SOME - 8))],
    Type.DATE: [date(1, 1, 1), date(9999, 12, 31), *(date(2020, 1, 1) + timedelta(i) for i in range(SOME - 2))],
    Type.TIMESTAMP: [datetime(2020, 1, 1, 0, 0, 0, i) for i in range(SOME)],  # noqa: DTZ001
    Type.BOOLEAN: [True, False],
}
ARROW = {
    Type.INTEGER: pa.int64(),
    Type.TEXT: pa.string(),
    Type.DATE: pa.date32(),
    Type.TIMESTAMP: pa.timestamp("us"),
    Type.BOOLEAN: pa.bool_(),
}


def world(random: Random, *, by_row: bool) -> tuple[DuckDBEngine, Catalog]:
    """A table with a key of every type, of which half of the values are declared, and NULL of some."""
    columns: dict[str, pa.Array] = {"u": pa.array([random.randrange(30) for _ in range(300)], pa.int64())}
    fields = [Field("u", Type.INTEGER)]
    for kind, values in VALUES.items():
        columns[kind.value] = pa.array([random.choice([*values, None]) for _ in range(300)], ARROW[kind])
        known: list[Value] = random.sample(values, (len(values) + 1) // 2)
        fields.append(Field(kind.value, kind, values=(*known, *([None] if random.random() < 0.5 else []))))
    table = Table("t", tuple(fields), None if by_row else "u", None if by_row else 3, None if by_row else 2)
    return DuckDBEngine([(table, Frame(pa.table(columns)))], salt=1), Catalog((table,))


def planned(text: str, catalog: Catalog) -> Plan:
    question = read_sql(text, catalog)
    assert isinstance(question, Question), question
    plan = make_plan(question, Pure(1))
    assert isinstance(plan, Plan), plan
    return plan


def cells(engine: DuckDBEngine, plan: Plan) -> list[list[int]]:
    found = exact_cells(engine, plan)
    return [column.tolist() for columns in found.cells for column in columns]


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("seed", sweep(range(4), 2))
def test_a_table_of_keys_gives_the_cells_of_written_keys(
    seed: int, by_row: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every type, one key and two, with NULL among the values and without; counts, different values and quantiles."""
    random = Random(seed)
    engine, catalog = world(random, by_row=by_row)
    names = [kind.value for kind in VALUES]
    for keys in [*([name] for name in names), random.sample(names, 2)]:
        shown = ", ".join(f'"{key}"' for key in keys)
        for what in ("COUNT(*)", "COUNT(DISTINCT u)" if not by_row else "COUNT(u)", "MEDIAN(CLIP(u, 0, 9))"):
            plan = planned(f"SELECT {shown}, {what} AS n FROM t GROUP BY {shown}", catalog)
            monkeypatch.setattr(module, "MANY", 10**6)
            written = cells(engine, plan)
            monkeypatch.setattr(module, "MANY", 0)
            assert cells(engine, plan) == written, keys
            assert any(map(any, written)), keys


def test_the_text_of_a_query_does_not_grow_with_its_keys() -> None:
    texts = []
    for many in (10 * MANY, 20 * MANY):
        table = Table("t", (Field("k", Type.INTEGER, values=tuple(range(0, 2 * many, 2))),), None)
        query = queries(planned("SELECT k, COUNT(*) AS n FROM t GROUP BY k", Catalog((table,)))).cells
        assert isinstance(query, exp.Select)
        written = DUCKDB.write(query)
        assert {name: rows.num_rows for name, rows in written.tables.items()} == {"lw_keys_0": many}
        texts.append(written.text)
    assert texts[0] == texts[1]
    assert len(texts[0]) < 1000


LEAST, MOST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    "values",
    [
        *((1, 2, 3), (3, 1, 2), (0, 1, None, 2), (-2, -1, 0, 1), (1, 2, 4), (1, 3), (5,), (None,), (1, 2, 3, 5, 6, 7)),
        *(tuple(range(400)), (None, *range(-300, 10)), (LEAST, LEAST + 1, LEAST + 2), (MOST - 2, MOST - 1, MOST)),
        (LEAST, 0, MOST),
    ],
)
def test_a_range_of_whole_numbers_keeps_the_rows_of_the_list(values: tuple[int | None, ...]) -> None:
    """Every number near an end or a gap, and NULL, against membership in Python."""
    known = [value for value in values if value is not None]
    near = {n + by for n in (*known[:3], *known[-3:], 0) for by in (-1, 0, 1) if LEAST <= n + by <= MOST}
    keys = [None, LEAST, MOST, *sorted(near)]
    kept = DUCKDB.write(
        forms.Listed(this=exp.column("k", quoted=True), values=values, kind=Type.INTEGER, place=0),
    )
    with duckdb.connect() as connection:
        for name, rows in kept.tables.items():
            connection.register(name, rows)
        connection.register("t", pa.table({"k": pa.array(keys, pa.int64())}))
        found = connection.execute(f"SELECT k FROM t WHERE {kept.text}").fetchall()
    assert sorted(found, key=str) == sorted([(key,) for key in keys if key in values], key=str)


def test_only_ranges_without_a_gap_are_written_by_their_ends() -> None:
    for values, by_ends in (((1, 2, 3), True), ((3, 1, 2), True), ((1, 2, 4), False), ((1, 2), False)):
        listed = forms.Listed(this=exp.column("k", quoted=True), values=values, kind=Type.INTEGER, place=0)
        assert ("BETWEEN" in DUCKDB.write(listed).text) is by_ends
    dates = tuple(date(2020, 1, day) for day in (1, 2, 3))
    listed = forms.Listed(this=exp.column("k", quoted=True), values=dates, kind=Type.DATE, place=0)
    assert "BETWEEN" not in DUCKDB.write(listed).text


def curator(**changes: Any) -> Curator:
    data = pa.table({"u": [i % 50 for i in range(2000)], "k": [2 * (i % 700) for i in range(2000)]})
    facts = {"unit": "u", "rows_per_unit": 4, "groups_per_unit": 40, "values": {"k": list(range(0, 1200, 2))}}
    return open_data(data, name="t", budget=Budget(epsilon=10_000), ledger=":memory:", **{**facts, **changes})


def test_key_tables_are_gone_after_the_question() -> None:
    """They belong to the cursor of one question; the next one may have other keys under the same name."""
    made = curator()
    assert len(made.sql("SELECT k, COUNT(*) AS n FROM t GROUP BY k", epsilon=1)) == 600
    with pytest.raises(duckdb.CatalogException):
        made._engine._connection.execute("SELECT * FROM lw_keys_0")
    assert len(made.sql("SELECT k % 600 AS k, COUNT(*) AS n FROM t GROUP BY 1", epsilon=1)) > MANY


def test_limits_and_strategies_read_key_tables_too() -> None:
    """Every query that lists public keys finds their table."""
    found = curator(groups_per_unit="auto").sql("SELECT k, COUNT(*) AS n FROM t GROUP BY k", epsilon=1000)
    assert len(found) == 600
    assert len(curator(groups_per_unit=1).marginals(["k"], ways=1, epsilon=1)["k"]) == 600
