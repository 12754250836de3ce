"""Keys of public tables are the combinations that their rows allow, as DuckDB finds them over every private row."""

from __future__ import annotations

from itertools import product
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.engines.public import read_public
from lapwing.engines.source import Frame
from lapwing.expressions.expression import Key
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type, Value
from lapwing.plan.add_noise import Groups, Public
from lapwing.plan.plan import make_outline
from lapwing.sql import read_sql

SITES = pa.table(
    {
        "code": pa.array([1, 2, 3, 4, None], pa.int64()),
        "name": ["north", "south", "east", "west", "lost"],
        "region": ["a", "a", "b", "none", "a"],
        "open": [True, False, True, None, True],
    }
)
REGIONS = pa.table({"region": ["a", "b", "c"], "label": ["Alpha", "Beta", "Gamma"]})
SITE = (1, 2, 3, 4, 9, None)  # 9 is no site
HOME = ("a", "b", "c", "d")


def visits(*, declared: bool = True) -> Table:
    fields = (
        Field("pid", Type.INTEGER),
        Field("site", Type.INTEGER, values=SITE if declared else ()),
        Field("home", Type.TEXT, values=HOME),
        Field("sex", Type.TEXT, values=("F", "M")),
    )
    return Table("visits", fields, "pid", rows_per_unit=2, groups_per_unit=2)


def catalog(*, declared: bool = True) -> Catalog:
    public = read_public("sites", Frame(SITES)), read_public("regions", Frame(REGIONS))
    return Catalog((visits(declared=declared), *public))


def listed(question: str, catalog: Catalog) -> set[tuple[Value, ...]] | None:
    outline = make_outline(read_sql(question, catalog))
    if outline.domain is None:
        return None
    every = list(product(*outline.domain))
    shown = [output.expression.index for output in outline.question.outputs if isinstance(output.expression, Key)]
    groups = range(len(every)) if outline.groups is None else outline.groups
    return {tuple(every[group][place] for place in shown) for group in groups}


def possible(question: str) -> set[tuple[Any, ...]]:
    """The groups that DuckDB finds if every combination of declared values is a private row."""
    rows = list(product(SITE, HOME, ("F", "M")))
    with duckdb.connect() as connection:
        connection.register("sites", SITES)
        connection.register("regions", REGIONS)
        connection.execute("CREATE TABLE visits (pid BIGINT, site BIGINT, home TEXT, sex TEXT)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", [(i, *row) for i, row in enumerate(rows)])
        return {row[:-1] for row in connection.execute(question).fetchall()}


INNER = "FROM visits v JOIN sites s ON v.site = s.code"
LEFT = "FROM visits v LEFT JOIN sites s ON v.site = s.code"
QUESTIONS = [
    f"SELECT s.code, s.name, COUNT(*) {INNER} GROUP BY s.code, s.name",
    f"SELECT s.code, s.name, COUNT(*) {LEFT} GROUP BY s.code, s.name",
    f"SELECT v.site, s.name, COUNT(*) {INNER} GROUP BY v.site, s.name",
    f"SELECT v.site, s.name, COUNT(*) {LEFT} GROUP BY v.site, s.name",
    f"SELECT v.site, s.code, s.name, v.sex, COUNT(*) {LEFT} GROUP BY v.site, s.code, s.name, v.sex",
    f"SELECT s.name, COUNT(*) {INNER} GROUP BY s.name",
    f"SELECT s.region, s.open, COUNT(*) {INNER} GROUP BY s.region, s.open",
    f"SELECT UPPER(s.name) || s.region, v.sex, COUNT(*) {INNER} GROUP BY 1, v.sex",
    f"SELECT CASE WHEN s.open THEN s.name ELSE s.region END, s.code, COUNT(*) {LEFT} GROUP BY 1, s.code",
    f"SELECT s.name, r.label, COUNT(*) {INNER} JOIN regions r ON s.region = r.region GROUP BY s.name, r.label",
    f"SELECT s.name, r.label, COUNT(*) {INNER} LEFT JOIN regions r ON s.region = r.region GROUP BY s.name, r.label",
    f"SELECT s.name, r.label, COUNT(*) {LEFT} LEFT JOIN regions r ON s.region = r.region GROUP BY s.name, r.label",
    f"SELECT v.site, s.region, r.label, COUNT(*) {LEFT} LEFT JOIN regions r ON s.region = r.region GROUP BY 1, 2, 3",
    f"SELECT v.home, r.label, s.name, COUNT(*) {INNER} LEFT JOIN regions r ON v.home = r.region GROUP BY 1, 2, 3",
    (
        "SELECT v.site, s.name, COUNT(*) FROM visits v LEFT JOIN (SELECT * FROM sites WHERE open) AS s "
        "ON v.site = s.code GROUP BY v.site, s.name"
    ),
    (
        "SELECT s.name, s.region, COUNT(*) FROM visits v LEFT JOIN (SELECT * FROM sites WHERE open) AS s "
        "ON v.site = s.code GROUP BY s.name, s.region"
    ),
    (
        "SELECT v.site, v.home, s.name, COUNT(*) FROM visits v LEFT JOIN sites s "
        "ON v.site = s.code AND v.home = s.region GROUP BY v.site, v.home, s.name"
    ),
    (
        "SELECT v.home, s.code, s.name, COUNT(*) FROM visits v JOIN sites s "
        "ON v.site = s.code AND v.home = s.region GROUP BY v.home, s.code, s.name"
    ),
    (
        "SELECT v.site, s.name, COUNT(*) FROM visits v LEFT JOIN sites s ON v.site = s.code AND s.open "
        "GROUP BY v.site, s.name"
    ),
    (
        "SELECT v.site, s.name, COUNT(*) FROM visits v LEFT JOIN sites s ON v.site = s.code AND v.sex = 'F' "
        "GROUP BY v.site, s.name"
    ),
    (
        "SELECT a.name, b.label, COUNT(*) FROM visits v JOIN sites a ON v.site = a.code "
        "JOIN regions b ON v.home = b.region GROUP BY a.name, b.label"
    ),
    (
        "SELECT code, name, COUNT(*) FROM (SELECT v.pid, s.code AS code, s.name AS name, COUNT(*) AS n "
        f"{INNER} GROUP BY v.pid, s.code, s.name) AS t GROUP BY code, name"
    ),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_listed_groups_are_those_that_can_occur(question: str) -> None:
    """threat:A15 the oracle is DuckDB over all private rows that declared values allow."""
    assert listed(question, catalog()) == possible(question)


def test_an_undeclared_column_is_public_where_it_must_equal_a_public_one() -> None:
    question = "SELECT v.site, s.name, COUNT(*) FROM visits v {} sites s ON v.site = s.code GROUP BY v.site, s.name"
    wide = catalog(declared=False)
    assert listed(question.format("JOIN"), wide) == {(1, "north"), (2, "south"), (3, "east"), (4, "west")}
    with pytest.raises(lw.Refused, match="its values are not public"):
        lw.open(
            pa.table({"pid": [1], "site": [1]}),
            name="visits",
            unit="pid",
            rows_per_unit=1,
            groups_per_unit=1,
            budget=lw.Budget(epsilon=9),
            public={"sites": SITES},
        ).preview(question.format("LEFT JOIN"), epsilon=1)


def test_more_than_a_thousand_public_rows_need_no_private_selection() -> None:
    airports = pa.table({"faa": [f"A{i:04}" for i in range(1_458)], "place": [f"Town {i}" for i in range(1_458)]})
    flights = Table("flights", (Field("pid", Type.INTEGER), Field("dest", Type.TEXT)), "pid", 1, 1)
    tables = Catalog((flights, read_public("airports", Frame(airports))))
    for keys in ("a.faa", "a.faa, a.place", "f.dest, a.place"):
        question = f"SELECT {keys}, COUNT(*) FROM flights f JOIN airports a ON f.dest = a.faa GROUP BY {keys}"
        assert len(listed(question, tables) or ()) == 1_458


def test_a_group_that_is_not_listed_is_dropped_and_does_not_fail() -> None:
    """Should an engine compute a key otherwise than the list was, its rows are left out: nothing depends on them."""
    groups = Groups(tuple(Public((1, 2), Type.INTEGER) for _ in range(2)), np.array([0, 3]))
    rows = pa.table({"k0": pa.array([1, 1, 2], pa.int64()), "k1": pa.array([1, 2, 2], pa.int64()), "c0": [5, 6, 7]})
    kept = groups.listed(rows)
    assert kept.column("c0").to_pylist() == [5, 7]
    assert groups.places(kept).tolist() == [0, 1]


@pytest.mark.parametrize("keys", ["s.code, s.name", "v.sex, s.name, s.code", "ROLLUP (s.code, s.name)"])
def test_answers_are_those_of_duckdb(keys: str) -> None:
    rows = pa.table(
        {"pid": range(300), "site": [(1, 2, 3, 9)[i % 4] for i in range(300)], "sex": ["F", "M", "F"] * 100}
    )
    columns = keys.replace("ROLLUP (", "").replace(")", "")
    question = f"SELECT {columns}, COUNT(*) AS n FROM visits v JOIN sites s ON v.site = s.code GROUP BY {keys}"
    curator = lw.open(
        rows,
        name="visits",
        unit="pid",
        rows_per_unit=1,
        groups_per_unit=1,
        values={"sex": ["F", "M"]},
        budget=lw.Budget(epsilon=1_000),
        public={"sites": SITES},
    )
    answer = curator.sql(question, epsilon=120, check=0).to_arrow()
    names = [*(name.split(".")[1] for name in columns.split(", ")), "n"]
    found = {tuple(row[name] for name in names) for row in answer.to_pylist()}
    with duckdb.connect() as connection:
        connection.register("visits", rows)
        connection.register("sites", SITES)
        expected = set(connection.execute(question).fetchall())
    assert {row for row in found if row[-1]} == expected
    assert all("west" in row or 4 in row for row in found - expected)


@pytest.mark.parametrize("width", [3, 16, 17])
def test_many_columns_of_one_table_keep_their_labels(width: int) -> None:
    """The codes of 16 keys with 16 values lie on both sides of 2^63, where numpy would make floats of them."""
    columns = {f"c{j}": [f"{(i * (2 * j + 1) + j) % 16:x}" for i in range(16)] for j in range(width)}
    public = pa.table(columns)
    rows = pa.table({"pid": range(136), "k": [f"{i:x}" for i in range(16) for _ in range(i + 1)]})
    curator = lw.open(
        rows,
        name="visits",
        unit="pid",
        rows_per_unit=1,
        groups_per_unit=1,
        budget=lw.Budget(epsilon=1_000),
        public={"codes": public},
    )
    keys = ", ".join(f"s.{name}" for name in columns)
    question = f"SELECT {keys}, COUNT(*) AS n FROM visits v JOIN codes s ON v.k = s.c0 GROUP BY {keys}"
    answer = curator.sql(question, epsilon=100, check=0).to_arrow().to_pylist()
    found = {tuple(row[name] for name in columns): row["n"] for row in answer}
    assert found == {tuple(row.values()): int(row["c0"], 16) + 1 for row in public.to_pylist()}
