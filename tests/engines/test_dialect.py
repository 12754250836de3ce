"""Every engine writes every form, with the one meaning that expressions/forms.py says: the suite of any engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp
from sqlglot.errors import UnsupportedError

from lapwing.engines.backends import open_engine
from lapwing.engines.dialect import Dialect, Lacking
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.engines.engine import Engine
from lapwing.engines.postgres import PostgresEngine
from lapwing.engines.spark import SparkEngine
from lapwing.errors import Bug, Refused
from lapwing.expressions import forms
from lapwing.expressions.forms import FORMS, Form, form_of
from lapwing.expressions.operators.base import number, try_cast
from lapwing.expressions.table import Field, Table
from lapwing.expressions.to_sqlglot import literal
from lapwing.expressions.types import Type
from support.cells import run
from support.hosts import HOSTS, Host, dialects
from support.members import implementing, lacking, plant, values_in

DIALECTS = tuple(dialects().values())
HOSTED: dict[str, type[Engine]] = {"duckdb": DuckDBEngine, "postgres": PostgresEngine, "spark": SparkEngine}
"""The engine of each host."""

ROWS: dict[str, list[Any]] = {"x": [2**62, 2**62, 2**62, None], "k": ["a", "b", "b", None]}
TABLE = Table("t", (Field("x", Type.INTEGER), Field("k", Type.TEXT)), None)


@pytest.fixture(scope="module")
def engine(host: Host) -> Iterator[Engine]:
    data = pa.table({"x": pa.array(ROWS["x"], pa.int64()), "k": pa.array(ROWS["k"])})
    made = host.engine([(TABLE, data)])
    yield made
    made.close()


def real(value: float | None) -> exp.Expression:
    """A float64, infinite ones and NaN included."""
    if value is None or not math.isfinite(value):
        return try_cast(literal(None if value is None else str(value)), exp.DType.DOUBLE, Type.TEXT)
    return number(literal(Fraction(value)))


def pair(form: Form) -> Callable[[float | None, float | None], exp.Expression]:
    return lambda a, b: form(this=real(a), expression=real(b))


def several(form: Form, *values: Any) -> exp.Expression:
    return form(expressions=[literal(value) for value in values])


def texts(form: Form, one: str | None, two: str) -> exp.Expression:
    return form(this=literal(one), expression=literal(two))


def read(text: str | None, kind: exp.DType) -> Form:
    return forms.TryRead(this=literal(text), to=exp.DataType(this=kind), known=Type.TEXT)


def by_unit(form: Form, value: date | None, unit: str) -> exp.Expression:
    return form(this=literal(value) if value else exp.cast(exp.Null(), "DATE"), unit=exp.Var(this=unit))


def between(first: date, second: date, unit: str) -> exp.Expression:
    return forms.UnitsBetween(this=literal(second), expression=literal(first), unit=exp.Var(this=unit))


def shifted(value: date, count: int, unit: str) -> exp.Expression:
    step = exp.Interval(this=exp.Literal.string(str(count)), unit=exp.Var(this=unit))
    return forms.Shift(this=literal(value), expression=step)


def timestamp(text: str | None) -> exp.Expression:
    return exp.cast(literal(text), "TIMESTAMP")


def listed(value: Any, values: tuple[Any, ...], kind: Type) -> Form:
    return forms.Listed(this=literal(value), values=values, kind=kind, place=0)


def named(value: Any) -> Form:
    local = exp.column(forms.LOCAL, quoted=True)
    return forms.Let(this=literal(value), body=exp.Add(this=local, expression=local.copy()))


def picked(place: int) -> Form:
    return forms.Pick(this=literal(place), expressions=[literal(10), literal(20)])


def truth(value: bool | None) -> Form:
    return forms.TruthAs(this=exp.cast(literal(value), "BOOLEAN"), to=exp.DataType(this=exp.DType.BIGINT))


INF, NAN = math.inf, math.nan
DAY, LEAP, TIME = date(2021, 1, 3), date(2020, 2, 29), datetime(2020, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001

VALUES: dict[Form, list[tuple[exp.Expression, Any]]] = {
    forms.Real: [(real(x), x) for x in (0.0, 0.1, 5e-324, 1.7976931348623157e308, 2.0**62, 1e16)],
    forms.IsNaN: [(forms.IsNaN(this=real(x)), y) for x, y in ((NAN, True), (INF, False), (1.0, False), (None, None))],
    forms.Plus: [(pair(forms.Plus)(a, b), c) for a, b, c in ((1, 2, 3), (1e308, 1e308, INF), (INF, -INF, NAN))],
    forms.Minus: [(pair(forms.Minus)(a, b), c) for a, b, c in ((1, 2, -1), (-1e308, 1e308, -INF), (None, 1, None))],
    forms.Times: [(pair(forms.Times)(a, b), c) for a, b, c in ((2, 3, 6), (1e308, 10, INF), (1e-308, 1e-308, 0))],
    forms.Quotient: [
        (pair(forms.Quotient)(a, b), c) for a, b, c in ((5, 2, 2.5), (1e308, 1e-9, INF), (1e-308, 1e308, 0))
    ],
    forms.Modulo: [(pair(forms.Modulo)(a, b), c) for a, b, c in ((5.5, 2, 1.5), (-5, 3, -2), (5, None, None))],
    forms.Power: [(pair(forms.Power)(a, b), c) for a, b, c in ((2, 10, 1024), (0, 0, 1), (1e300, 2, INF), (-2, 3, -8))],
    forms.Exponential: [(forms.Exponential(this=real(x)), y) for x, y in ((0, 1), (1000, INF), (-1000, 0))],
    forms.Log2: [(forms.Log2(this=real(x)), y) for x, y in ((8, 3), (0.5, -1), (INF, INF))],
    forms.Log10: [(forms.Log10(this=real(x)), y) for x, y in ((1000, 3), (1, 0), (INF, INF))],
    forms.RoundTo: [
        *((forms.RoundTo(this=real(x)), y) for x, y in ((2.5, 3), (-2.5, -3), (0.5, 1), (1e300, 1e300), (INF, INF))),
        (forms.RoundTo(this=real(1.25), digits=literal(1)), 1.3),
        (forms.RoundTo(this=real(149), digits=literal(-2)), 100),
    ],
    forms.Greatest: [(several(forms.Greatest, *v), y) for v, y in (((1, None, 3), 3), ((None, None), None))],
    forms.Least: [(several(forms.Least, *v), y) for v, y in (((1, None, 3), 1), ((None, 2), 2))],
    forms.WideProduct: [(forms.Wide(this=forms.WideProduct(this=literal(2**62), expression=literal(2**60))), 2**122)],
    forms.WholeQuotient: [
        (forms.WholeQuotient(this=literal(a), expression=literal(b)), c) for a, b, c in ((7, 2, 3), (2**62, None, None))
    ],
    forms.TryRead: [
        *((read(text, exp.DType.BIGINT), y) for text, y in (("12", 12), ("abc", None), ("9" * 30, None), (None, None))),
        *((read(text, exp.DType.DATE), y) for text, y in (("2020-02-29", LEAP), ("2021-02-29", None))),
        *((try_cast(real(x), exp.DType.BIGINT, Type.REAL), y) for x, y in ((1e300, None), (-7.0, -7), (INF, None))),
    ],
    forms.TruthAs: [(truth(value), y) for value, y in ((True, 1), (False, 0), (None, None))],
    forms.Let: [(named(21), 42)],
    forms.Pick: [(picked(1), 10), (picked(2), 20), (picked(3), None)],
    forms.Lower: [(forms.Lower(this=literal("AbÉ")), "abé")],
    forms.Upper: [(forms.Upper(this=literal("abé")), "ABÉ")],
    forms.Matches: [
        (texts(forms.Matches, text, pattern), y)
        for text, pattern, y in (("abc", "a%", True), ("abc", "a_", False), ("a\\b", "a\\_", True), (None, "%", None))
    ],
    forms.StartsWith: [(texts(forms.StartsWith, "a%b", part), y) for part, y in (("a%", True), ("ab", False))],
    forms.EndsWith: [(texts(forms.EndsWith, "a%b", part), y) for part, y in (("%b", True), ("ab", False))],
    forms.Contains: [(texts(forms.Contains, text, "%"), y) for text, y in (("a%b", True), ("ab", False), (None, None))],
    forms.HasMatch: [
        (texts(forms.HasMatch, text, pattern), y)
        for text, pattern, y in (
            *(("xab1", "(b[0-9])", True), ("AB1", "(ab)", False), ("a\nb", "(a.b)", False), ("ab\n", "(b$)", False)),
            *(("é", "(^.$)", True), ("\N{ARABIC-INDIC DIGIT FOUR}", r"(\d)", False), (None, "(a)", None)),
        )
    ],
    forms.Replace: [
        (forms.Replace(this=literal(text), expression=literal("aa"), replacement=literal("b")), y)
        for text, y in (("aaa", "ba"), ("é", "é"), ("", ""), (None, None))
    ],
    forms.SplitPart: [
        (forms.SplitPart(this=literal(text), expression=literal("--"), place=literal(place)), y)
        for text, place, y in (("a--b", 2, "b"), ("a--b", 3, ""), ("---a", 2, "-a"), ("", 1, ""), (None, 1, None))
    ],
    forms.DatePart: [
        (by_unit(forms.DatePart, value, unit), y)
        for value, unit, y in (
            *((DAY, "YEAR", 2021), (DAY, "WEEK", 53), (DAY, "DAYOFWEEK", 0), (LEAP, "DAYOFYEAR", 60)),
            *((TIME, "QUARTER", 4), (TIME, "SECOND", 59), (TIME, "HOUR", 23), (None, "YEAR", None)),
        )
    ],
    forms.StartOf: [
        (exp.cast(by_unit(forms.StartOf, value, unit), "DATE"), y)
        for value, unit, y in ((LEAP, "YEAR", date(2020, 1, 1)), (DAY, "WEEK", date(2020, 12, 28)))
    ],
    forms.UnitsBetween: [
        (between(first, second, unit), y)
        for first, second, unit, y in (
            (date(2020, 12, 31), date(2021, 1, 1), "YEAR", 1),
            (date(2021, 1, 31), date(2021, 1, 1), "MONTH", 0),
            (DAY, LEAP, "DAY", -309),
            (DAY, date(2021, 1, 4), "WEEK", 1),
            (date(2021, 1, 4), date(2021, 1, 10), "WEEK", 0),
            (date(1969, 12, 29), date(1969, 12, 28), "WEEK", -1),
            (date(1, 1, 1), date(9999, 12, 31), "WEEK", 521722),
            (TIME, datetime(2021, 1, 1, 0, 0, 0), "SECOND", 1),  # noqa: DTZ001
            (date(2020, 12, 31), date(2021, 1, 1), "QUARTER", 1),
        )
    ],
    forms.Shift: [
        (exp.cast(shifted(value, count, unit), "DATE"), y)
        for value, count, unit, y in ((LEAP, 12, "MONTH", date(2021, 2, 28)), (DAY, -3, "DAY", date(2020, 12, 31)))
    ],
    forms.LocalTime: [
        (forms.LocalTime(this=timestamp(text), zone="Europe/Oslo"), y)
        for text, y in (
            ("2026-06-30 22:30:00.000001", datetime(2026, 7, 1, 0, 30, 0, 1)),  # noqa: DTZ001
            ("2026-10-25 00:59:59", datetime(2026, 10, 25, 2, 59, 59)),  # noqa: DTZ001
            ("2026-10-25 01:00:00", datetime(2026, 10, 25, 2, 0, 0)),  # noqa: DTZ001
            *(("infinity", None), ("-infinity", None), (None, None), ("9999-12-31 23:30:00", None)),
        )
    ],
    forms.Listed: [
        (listed(value, values, kind), y)
        for value, values, kind, y in (
            *((1, (1, 2), Type.INTEGER, True), (3, (1, 2), Type.INTEGER, False)),
            *((None, ("a", None), Type.TEXT, True), ("b", ("a", None), Type.TEXT, False)),
            *((999, tuple(range(1000)), Type.INTEGER, True), (1000, tuple(range(1000)), Type.INTEGER, False)),
        )
    ],
}
"""Of forms of one row."""

x, k = exp.column("x"), exp.column("k")
AGGREGATES: dict[Form, tuple[exp.Select, list[tuple[Any, ...]]]] = {
    forms.ExactSum: (exp.select(forms.Wide(this=forms.ExactSum(this=x))).from_("t"), [(3 * 2**62,)]),
    forms.Wide: (exp.select(forms.Wide(this=exp.Count(this=exp.Star()))).from_("t"), [(4,)]),
    forms.FirstOf: (
        exp.select(k, exp.alias_(forms.FirstOf(this=x), "v")).from_("t").group_by(k),
        [("a", 2**62), ("b", 2**62), (None, None)],
    ),
    forms.GroupingId: (
        exp.Select(expressions=[exp.alias_(forms.GroupingId(expressions=[x, k]), "v"), exp.Count(this=exp.Star())])
        .from_("t")
        .where("x IS NOT NULL"),
        [(0, 1), (0, 2), (1, 3), (2, 1), (2, 2)],
    ),
}
"""Of forms of several rows."""
AGGREGATES[forms.GroupingId][0].set(
    "group",
    exp.Group(grouping_sets=[exp.GroupingSets(expressions=[exp.Tuple(expressions=one) for one in ([x, k], [x], [k])])]),
)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_dialect_writes_every_form(dialect: Dialect, form: Form) -> None:
    assert form in dialect.forms


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_dialect_without_a_form_cannot_be_made(form: Form) -> None:
    with pytest.raises(Bug, match=f"does not write {form.name}$"):
        Dialect("duckdb", {known: write for known, write in DUCKDB.forms.items() if known is not form})


def lawless() -> list[str]:
    """Forms and engines, found by looking, that nothing here tries; dialects that are of no engine."""
    written = {form.name for form in values_in(Form, "lapwing").values()}
    tried = {form.name for form in {*VALUES, *AGGREGATES, forms.KeyedHash} & set(FORMS)}
    engines = implementing(Engine, "lapwing")
    hosted = {kind.__name__ for kind in HOSTED.values()}
    return lacking(written, tried) + lacking(engines, hosted) + lacking(dialects(), HOSTED.keys() & HOSTS.keys())


def test_every_form_has_a_meaning_and_a_law() -> None:
    assert lawless() == []
    assert {*VALUES, *AGGREGATES, forms.KeyedHash} == set(FORMS)
    assert all(form.meaning.endswith(".") for form in FORMS)
    assert all(getattr(forms, form.name) is form for form in FORMS)
    assert HOSTED.keys() == HOSTS.keys() == dialects().keys()


def test_a_form_a_dialect_or_an_engine_without_a_law_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Form("Sneeze", (), ""), module="lapwing.engines.postgres_dialect", name="Sneeze")
    plant(monkeypatch, type("OracleEngine", (DuckDBEngine,), {}), module="lapwing.engines.duckdb")
    plant(monkeypatch, replace(DUCKDB, name="oracle"), module="lapwing.engines.backends", name="ORACLE")
    assert lawless() == ["Sneeze", "OracleEngine", "oracle"]


def test_each_host_has_its_own_engine(host: Host, engine: Engine) -> None:
    assert type(engine) is HOSTED[host.name]
    opened = open_engine(host.sources([(TABLE, pa.table({"x": pa.array([1]), "k": pa.array(["a"])}))]), salt=1)
    assert type(opened) is HOSTED[host.name]
    opened.close()


def columns_of(form: Form) -> list[exp.Expression]:
    """A column for each value of a form."""
    return [exp.alias_(node.copy(), f"{form.name.lower()}_{place}") for place, (node, _) in enumerate(VALUES[form])]


@pytest.fixture(scope="module")
def row(engine: Engine) -> dict[str, Any]:
    """What the engine gives for the forms that it has, asked in one query: one takes Spark a second."""
    known = [form for form in VALUES if not isinstance(engine.dialect.forms[form], Lacking)]
    columns = [column for form in known for column in columns_of(form)]
    [found] = run(engine, exp.select(*columns).from_("t").limit(1)).to_pylist()
    return dict(found)


@pytest.mark.parametrize("form", VALUES, ids=lambda form: form.name)
def test_a_form_of_one_row_means_the_same_on_every_engine(engine: Engine, row: dict[str, Any], form: Form) -> None:
    assert all(any(form_of(inner) is form for inner in node.walk()) for node, _ in VALUES[form])
    columns = columns_of(form)
    if isinstance(engine.dialect.forms[form], Lacking):
        with pytest.raises(Refused, match="Nothing was charged"):
            engine.prepare(exp.select(*columns).from_("t"))
        return
    for (node, expected), column in zip(VALUES[form], columns, strict=True):
        found = row[column.alias]
        assert found == expected or (found != found and expected != expected), node
        assert found is None or not isinstance(expected, bool | str) or type(found) is type(expected), node


@pytest.mark.parametrize("form", AGGREGATES, ids=lambda form: form.name)
def test_a_form_of_several_rows_means_the_same_on_every_engine(engine: Engine, form: Form) -> None:
    query, expected = AGGREGATES[form]
    rows = [tuple(row.values()) for row in run(engine, query.copy()).to_pylist()]
    assert sorted(rows, key=str) == sorted(expected, key=str)


def test_keyed_hashes_are_a_function_of_the_columns(engine: Engine) -> None:
    query = exp.select(k, exp.alias_(forms.KeyedHash(expressions=[x, k]), "h")).from_("t")
    found = [tuple(row.values()) for row in run(engine, query).to_pylist()]
    assert len(set(found)) == len({h for _, h in found}) == 3


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_what_a_dialect_does_not_know_is_not_written(dialect: Dialect) -> None:
    with pytest.raises(KeyError, match="Unknown"):
        dialect.write(exp.Unary(form="Unknown"))
    with pytest.raises(ValueError, match="Unsupported expression type"):
        dialect.write(exp.Unary(this=x))
    with pytest.raises(UnsupportedError):
        dialect.write(exp.ToNumber(this=x))


def test_forms_cannot_be_written_by_sqlglot_alone() -> None:
    """An engine's text is made by its dialect or not at all."""
    with pytest.raises(ValueError, match="Unsupported expression type"):
        forms.IsNaN(this=x).sql(dialect="duckdb")
