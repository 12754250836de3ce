"""Histograms over declared edges: every row has one bucket, and the list of buckets comes from the question."""

from __future__ import annotations

import inspect
import sys
from bisect import bisect_right
from datetime import date, datetime
from fractions import Fraction
from itertools import product
from math import inf, isnan, nan, nextafter
from typing import Any

import duckdb
import ibis
import pandas as pd
import pyarrow as pa
import pytest
from sqlglot import exp

from lapwing.curator import open_data
from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.engines.public_values import calculate
from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.expression import Column, Expression, Literal
from lapwing.expressions.operators.base import maybe_nan
from lapwing.expressions.operators.buckets import MOST_BUCKETS, bucket_label, bucket_number, equal_edges
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.to_sqlglot import whole
from lapwing.expressions.types import Type, type_of
from lapwing.plan.domain import domain_of
from lapwing.plan.question import Question
from lapwing.privacy import Budget
from lapwing.sql import read_sql
from lapwing.sql.ibis import read_ibis, unbound_table
from support.refusals import attempt
from support.visits import visits_catalog, visits_table

HOSTILE = [0.0, -0.0, 0.1, 0.3, 18.0, nextafter(18, 0), 65, 1e308, -1e308, 5e-324, -5e-324, inf, -inf, nan, None]
CATALOG = visits_catalog()
T = unbound_table(visits_table())


def part() -> str:
    return "test"


def literals(edges: Any) -> list[Literal]:
    values = [Fraction(repr(edge)) if isinstance(edge, float) else edge for edge in edges]
    return [Literal(value, type_of(value)) for value in values]


def computed(expression: Expression, values: list[Any], kind: Type = Type.REAL) -> list[Any]:
    (found,) = calculate([expression], {"x": values}, {"x": kind}, len(values), whole)
    return list(found.to_pylist())


def question(key: str) -> Question:
    found = attempt(read_sql, f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY k", CATALOG)
    assert isinstance(found, Question), found
    return found


X = Column("x", Type.REAL)


@pytest.mark.parametrize("edges", [[0], [0, 18, 65], [-1e308, 0.1, 0.3, 1e308], list(range(-500, 501))], ids=len)
def test_a_bucket_is_the_number_of_edges_up_to_the_value(edges: list[float]) -> None:
    """gate:G14 whatever the row holds; what is no number has no bucket."""
    expected = [None if x is None or isnan(x) else bisect_right(edges, x) for x in HOSTILE]
    given = [float("nan") if x is None else x for x in HOSTILE]
    assert computed(bucket_number(X, literals(edges), part=part), given) == expected


def test_whole_numbers_are_compared_exactly() -> None:
    """Also where float64 has no room for them."""
    bucket = bucket_number(Column("x", Type.INTEGER), literals([2**53, 2**53 + 1, 2**62]), part=part)
    values = [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), None]
    assert computed(bucket, values, Type.INTEGER) == [0, 1, 2, 3, 0, None]


def test_long_expressions_are_computed_once() -> None:
    """The engine's form does not grow by the number of edges times the value."""
    one, two = (
        question(f"WIDTH_BUCKET(loose * cost / age + LN(cost) * SQRT(loose), {edges})").keys[0]
        for edges in ([1], list(range(1000)))
    )
    shorter, longer = (len(DUCKDB.write(whole(key, lambda leaf: exp.column("x"))).text) for key in (one, two))
    assert longer < shorter + 1000 * 50


def test_dates_have_buckets_too() -> None:
    key = question("WIDTH_BUCKET(day, ['2020-01-01', DATE '2021-01-01'])").keys[0]
    assert domain_of(key, CATALOG.tables[0]) == (0, 1, 2, None)
    days = bucket_number(Column("x", Type.DATE), literals([date(2020, 1, 1), date(2021, 1, 1)]), part=part)
    found = computed(days, [date(1, 1, 1), date(2020, 1, 1), date(9999, 1, 1), None], Type.DATE)
    assert found == [0, 1, 2, None]


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("WIDTH_BUCKET(loose, [0, 18, 65])", (0, 1, 2, 3, None)),
        ("WIDTH_BUCKET(loose, 0, 100, 4)", (0, 1, 2, 3, 4, 5, None)),
        ("COALESCE(WIDTH_BUCKET(loose, [5]), -1)", (0, 1, -1)),
        ("BUCKET(loose, [0, 18.5, 65])", ("< 0", "[0, 18.5)", "[18.5, 65)", ">= 65", None)),
        ("BUCKET(loose, 0, 1, 2)", ("< 0", "[0, 0.5)", "[0.5, 1)", ">= 1", None)),
        ("BUCKET(day, [DATE '2020-01-01'])", ("< 2020-01-01", ">= 2020-01-01", None)),
    ],
)
def test_buckets_are_public_keys_whatever_the_rows_hold(key: str, values: tuple[Any, ...]) -> None:
    """threat:A15 threat:A20 reals are no keys, their buckets are; bounds of the column play no part."""
    assert domain_of(question(key).keys[0], CATALOG.tables[0]) == values


def test_labels_and_numbers_name_the_same_bucket() -> None:
    edges = literals([0, 18, 65])
    given = [float("nan") if x is None else x for x in HOSTILE]
    numbers, labels = (computed(f(X, edges, part=part), given) for f in (bucket_number, bucket_label))
    names = ["< 0", "[0, 18)", "[18, 65)", ">= 65"]
    assert labels == [None if n is None else names[n] for n in numbers]


def test_buckets_of_one_width_are_exact() -> None:
    """0.3 lies in the fourth tenth, though float64 arithmetic says (0.3 - 0) * 10 / 1 is below 3 for its neighbours."""
    edges = equal_edges(*literals([0, 1, 10]), part=part)
    assert [edge.value for edge in edges] == [Fraction(i, 10) for i in range(11)]
    tenths = [i / 10 for i in range(11)]
    assert computed(bucket_number(X, edges, part=part), tenths) == list(range(1, 12))
    one, other = question("WIDTH_BUCKET(loose, 0, 100, 2)"), question("WIDTH_BUCKET(loose, [0, 50.0, 100])")
    assert one.canonical() == other.canonical()


@pytest.mark.parametrize(
    "key",
    [
        "WIDTH_BUCKET(loose, [])",
        "WIDTH_BUCKET(loose, [1, 1])",
        "WIDTH_BUCKET(loose, [2, 1])",
        "WIDTH_BUCKET(loose, [1, NULL])",
        "WIDTH_BUCKET(loose, [1, age])",
        "WIDTH_BUCKET(loose, age)",
        "WIDTH_BUCKET(loose)",
        "WIDTH_BUCKET(loose, [[1, 2]])",
        "WIDTH_BUCKET(name, ['a', 'b'])",
        "WIDTH_BUCKET(sick, [1])",
        "WIDTH_BUCKET(loose, ['a'])",
        "WIDTH_BUCKET(day, ['a'])",
        "WIDTH_BUCKET(loose, 100, 0, 10)",
        "WIDTH_BUCKET(loose, 0, 100, 0)",
        "WIDTH_BUCKET(loose, 0, 100, 2.5)",
        "WIDTH_BUCKET(loose, 0, 100, age)",
        "WIDTH_BUCKET(loose, TRUE, 100, 3)",
        f"WIDTH_BUCKET(loose, 0, 1, {MOST_BUCKETS + 1})",
        f"WIDTH_BUCKET(loose, {list(range(MOST_BUCKETS + 2))})",
        "WIDTH_BUCKET(loose, 0, 100)",
        "WIDTH_BUCKET(pid, [0, 18])",
        "BUCKET(loose)",
        "BUCKET(loose, [2, 1])",
        "HISTOGRAM(loose)",
    ],
)
def test_edges_are_ascending_constants(key: str) -> None:
    """gate:G19 anything else is refused before a row is read."""
    found = attempt(read_sql, f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY k", CATALOG)
    assert isinstance(found, Refused), found
    assert str(found).endswith("Nothing was charged.")


def test_the_most_buckets_are_answered() -> None:
    assert len(domain_of(question(f"WIDTH_BUCKET(loose, 0, 1, {MOST_BUCKETS})").keys[0], CATALOG.tables[0]) or ()) == (
        MOST_BUCKETS + 3
    )
    with pytest.raises(Refused):
        equal_edges(*literals([0, 1, MOST_BUCKETS + 1]), part=part)


OPTIONS = [
    (edges, closed, extreme, under, over)
    for edges in ([5], [0, 5], [0, 5, 10], [0, 0.5, 5, 10])
    for closed, extreme, under, over in product(("left", "right"), *[(False, True)] * 3)
    if len(edges) > 1 or (under and over)
]


@pytest.mark.parametrize(("edges", "closed", "extreme", "under", "over"), OPTIONS)
def test_ibis_buckets_mean_what_ibis_says(
    edges: list[float], closed: Any, extreme: bool, under: bool, over: bool
) -> None:
    """Computed by Ibis itself on DuckDB and by Lapwing, on, below and above every edge."""
    values = sorted({nextafter(e, side) for e in edges for side in (-inf, inf)} | set(map(float, edges)) | {-9.0, 99.0})
    options = {"closed": closed, "close_extreme": extreme, "include_under": under, "include_over": over}
    key = T.loose.bucket(edges, **options)
    read = read_ibis(T.group_by(k=key).agg(n=T.count()), CATALOG)
    assert isinstance(read, Question), read
    (found,) = calculate(read.keys, {"loose": values}, {"loose": Type.REAL}, len(values), whole)
    text = str(ibis.to_sql(T.select(k=key), dialect="duckdb"))
    with duckdb.connect() as connection:
        connection.register("visits", pa.table({"loose": values}))
        expected = [row[0] for row in connection.sql(text).fetchall()]
    assert found.to_pylist() == expected
    assert set(expected) <= set(domain_of(read.keys[0], CATALOG.tables[0]) or ())


def test_ibis_histograms_that_read_the_largest_value_are_refused() -> None:
    """The widths would come from the rows."""
    for key in (T.loose.histogram(nbins=5, base=0), T.loose.histogram(nbins=5), T.loose.bucket([2, 1])):
        assert isinstance(attempt(read_ibis, T.group_by(k=key).agg(n=T.count()), CATALOG), Refused)


def test_a_histogram_leaves_no_row_out() -> None:
    """From a frame of reals without any declaration to an answer: every row is in one of the groups."""
    frame = pd.DataFrame({"x": [-5.0, 0.0, 17.5, 18.0, 64.9, 65.0, 1e9, None, nan, inf] * 300})
    curator = open_data(frame, name="t", unit=None, ledger=":memory:", budget=Budget(epsilon=100))
    release = curator.sql("SELECT BUCKET(x, [0, 18, 65]) AS bucket, COUNT(*) AS n FROM t GROUP BY 1", epsilon=50)
    found = release.to_pandas()
    assert found["bucket"].tolist()[:4] == ["< 0", "[0, 18)", "[18, 65)", ">= 65"]
    assert found["bucket"].isna().tolist() == [False] * 4 + [True]
    assert [round(n / 300) for n in found["n"]] == [1, 2, 2, 3, 2]


def declared(**edges: list[Any]) -> Catalog:
    kinds = {"pid": Type.INTEGER, "age": Type.INTEGER, "cost": Type.REAL, "day": Type.DATE, "name": Type.TEXT}
    return Catalog((Table("t", tuple(Field(n, k, edges=tuple(edges.get(n, ()))) for n, k in kinds.items()), "pid", 1),))


@pytest.mark.parametrize("form", ["BUCKET", "WIDTH_BUCKET"])
@pytest.mark.parametrize(
    ("column", "edges", "written"),
    [
        ("age", [0, 18, 65], "[0, 18, 65]"),
        ("cost", [Fraction(1, 2), Fraction(100)], "[0.5, 100]"),
        ("day", [date(2020, 1, 1), date(2021, 1, 1)], "[DATE '2020-01-01', DATE '2021-01-01']"),
    ],
)
def test_declared_edges_are_those_that_could_be_written(form: str, column: str, edges: list[Any], written: str) -> None:
    """One question in both forms, so one price and one stored answer; also in a sub-query, a join and a union."""
    catalog = declared(**{column: edges})
    for source in (
        "t",
        f"(SELECT pid, {column} FROM t) AS s",
        "t JOIN t AS u USING (pid)",
        f"(SELECT pid, {column} FROM t UNION ALL SELECT pid, {column} FROM t) AS s",
    ):
        name = f"t.{column}" if "JOIN" in source else column
        short, long = (
            read_sql(f"SELECT {form}({arguments}) AS k, COUNT(DISTINCT pid) AS n FROM {source} GROUP BY k", catalog)
            for arguments in (name, f"{name}, {written}")
        )
        assert isinstance(short, Question)
        assert short == long


@pytest.mark.parametrize("key", ["BUCKET(age + 1)", "BUCKET(cost)", "WIDTH_BUCKET(cost)", "BUCKET(name)"])
def test_buckets_without_edges_say_where_edges_come_from(key: str) -> None:
    found = attempt(read_sql, f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY k", declared(age=[0, 18]))
    assert isinstance(found, Refused)
    assert "have the steward declare `edges`" in str(found)


@pytest.mark.parametrize(
    ("column", "edges"),
    [
        ("age", [18, 0]),
        ("age", [0, 0]),
        ("age", [0, None]),
        ("age", [Fraction(1, 2)]),
        ("age", [True, 2]),
        ("age", [2**63]),
        ("age", list(range(MOST_BUCKETS + 2))),
        ("name", ["a"]),
        ("day", [datetime(2020, 1, 1)]),  # noqa: DTZ001
    ],
)
def test_edges_that_no_histogram_can_have_are_refused_to_the_steward(column: str, edges: list[Any]) -> None:
    with pytest.raises(Misconfigured, match=r"edges|64 bits"):
        declared(**{column: edges})


def test_the_deepest_buckets_can_be_printed_and_computed() -> None:
    """gate:G53 what reading lets through cannot run out of stack after the charge."""
    nested: Expression = X
    with pytest.raises(Refused, match="nested too deeply"):  # noqa: PT012
        while True:
            nested = bucket_number(nested, literals(range(-500, 501)), part=part)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 700)
    try:
        text = DUCKDB.write(whole(nested, lambda leaf: maybe_nan(exp.column("x")))).text
    finally:
        sys.setrecursionlimit(before)
    with duckdb.connect(config={"threads": "1"}) as connection:
        found = connection.sql(f"SELECT {text} FROM (VALUES (3.5::DOUBLE), ('nan'::DOUBLE)) t(x)").fetchall()
    assert found == [(1001,), (None,)]
