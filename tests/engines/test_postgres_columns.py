"""How stored columns of PostgreSQL are read as declared ones: no value fails, and no text is equal to another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pytest
from sqlglot import exp

from lapwing.engines.postgres import PostgresEngine, stored_types
from lapwing.engines.postgres_columns import LONGEST
from lapwing.engines.source import PostgresTable, read_source
from lapwing.errors import Misconfigured
from lapwing.expressions.table import UNIT_ID, Catalog, Field, Table
from lapwing.expressions.to_sqlglot import emit
from lapwing.expressions.types import Type
from lapwing.plan.question import Question
from lapwing.sql import read_sql
from support.cells import run
from support.hosts import PostgresHost
from support.postgres import PostgresServer


@pytest.fixture(scope="module")
def host(postgres: PostgresServer) -> Iterator[PostgresHost]:
    made = PostgresHost(postgres)
    yield made
    made.close()


def made(host: PostgresHost, name: str, columns: str, *rows: str) -> PostgresTable:
    host.run(f"CREATE TABLE {name} ({columns})")
    for row in rows:
        host.run(f"INSERT INTO {name} VALUES ({row})")
    host.run(f"GRANT SELECT ON {name} TO {host.user}")
    source = read_source(host.url, name)
    assert isinstance(source, PostgresTable)
    return source


def read(source: PostgresTable, name: str, kind: Type, column: str | None = None, unit: str | None = None) -> list[Any]:
    table = Table("t", (Field(name, kind),), unit, 5 if unit else None)
    engine = PostgresEngine([(table, source)], salt=1)
    try:
        shown = exp.alias_(exp.column(column or name, quoted=True), "v")
        return run(engine, exp.select(shown).from_("t")).column("v").to_pylist()
    finally:
        engine.close()


NUMERICS = [
    "'NaN'",
    "'Infinity'",
    "'-Infinity'",
    "1e400",
    "-1e400",
    "1e-400",
    "0",
    "2.5",
    "9223372036854775807.5",
    "NULL",
]


def test_decimals_have_no_end_that_fails(host: PostgresHost) -> None:
    """threat:A12 a decimal has more digits than float64, and since version 14 infinities."""
    source = made(host, "decimals", "x numeric", *NUMERICS)
    found = read(source, "x", Type.REAL)
    assert math.isnan(found[0])
    assert found[1:] == [math.inf, -math.inf, math.inf, -math.inf, 0.0, 0.0, 2.5, 9.223372036854775807e18, None]
    assert read(source, "x", Type.INTEGER) == [None] * 5 + [0, 0, 3, None, None]
    narrow = made(host, "narrow", "x numeric(5, 2)", "1.005", "'NaN'")
    assert read(narrow, "x", Type.REAL)[0] == 1.01


@pytest.mark.parametrize("digits", ["10, -300", "300, -300", "300, 300", "300, 0", "310, 5"])
def test_decimals_with_a_scale_below_zero_have_no_end_that_fails(host: PostgresHost, digits: str) -> None:
    """threat:A12 numeric(10, -300) holds 10^309, which no float64 does."""
    name = f"scaled{digits.replace(', -', 'm').replace(', ', 'p')}"
    precision, scale = map(int, digits.split(","))
    largest = f"{'9' * precision}e{-scale}"
    source = made(host, name, f"x numeric({digits})", largest, f"-{largest}", "NULL")
    assert read(source, "x", Type.REAL) == [float(largest), -float(largest), None]


LONG = [
    "s || s = 'a'",
    "UPPER(s) = 'A'",
    "TRIM(s) = 'a'",
    "s ILIKE 'a%'",
    "REGEXP_MATCHES(s, 'b$')",
    "CAST(s AS INTEGER) > 1",
    "CAST(s AS DATE) > DATE '2020-01-01'",
]


def test_texts_of_any_length_fail_no_function(host: PostgresHost) -> None:
    """threat:A12 functions of text need more memory than the text: one long text would be a charged failure."""
    source = made(host, "long", "p integer, s text, v varchar", f"1, repeat('x', {2**27}), repeat('x', {2**27})")
    table = Table("t", tuple(Field(name, Type.TEXT) for name in "sv"), None)
    engine = PostgresEngine([(table, source)], salt=1)
    question = read_sql(f"SELECT COUNT(*) AS n FROM t WHERE {' OR '.join(LONG)}", Catalog((table,)))
    assert isinstance(question, Question)
    assert question.where is not None
    shown = exp.alias_(emit(question.where, lambda leaf: exp.column(leaf.name, quoted=True)), "w")
    query = exp.select(shown, exp.alias_(exp.column("v"), "v")).from_("t")
    assert run(engine, query).to_pylist() == [{"w": None, "v": None}]
    engine.close()
    host.run(f"UPDATE long SET s = repeat('x', {LONGEST}), v = 'b'")
    assert len(read(source, "s", Type.TEXT)[0]) == LONGEST
    assert read(source, "v", Type.TEXT) == ["b"]


def test_dates_leave_as_integers_and_endless_ones_as_null(host: PostgresHost) -> None:
    """psycopg raises on the client for such dates, after the engine succeeded."""
    days = ["'infinity'", "'-infinity'", "'0044-03-15 BC'", "'5874897-12-31'", "'0001-01-01'", "'9999-12-31'", "NULL"]
    source = made(host, "dates", "x date", *days)
    table = Table("t", (Field("x", Type.DATE),), None)
    engine = PostgresEngine([(table, source)], salt=1)
    found = run(engine, exp.select("x").from_("t")).column("x")
    engine.close()
    assert found.type == "date32[day]"
    assert [found[i].as_py() for i in (0, 1, 4, 5, 6)] == [None, None, date(1, 1, 1), date(9999, 12, 31), None]
    assert read(source, "x", Type.TEXT) == [None, None, None, None, "0001-01-01", "9999-12-31", None]
    later = made(host, "later", "x date", "'0001-01-01'", "'5874897-12-31'", "'infinity'")
    assert read(later, "x", Type.TIMESTAMP) == [datetime(1, 1, 1), None, None]  # noqa: DTZ001
    times = made(host, "times", "x timestamptz", "'2020-01-01 01:00:00+02'", "'infinity'")
    assert read(times, "x", Type.TEXT) == ["2019-12-31 23:00:00", None]
    assert read(times, "x", Type.DATE) == [date(2019, 12, 31), None]
    assert (stored_types(times).zoned, stored_types(later).zoned) == ({"x"}, frozenset())
    oslo = Table("t", (Field("x", Type.TIMESTAMP, zone="Europe/Oslo"),), None)
    with pytest.raises(Misconfigured, match="Declare UTC"):
        PostgresEngine([(oslo, times)], salt=1)


def test_texts_are_compared_byte_by_byte(host: PostgresHost) -> None:
    """threat:A34 blanks of char(n) are no part of it; a collation that ignores case makes no two texts one."""
    host.run("CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    source = made(
        host, "texts", "x text COLLATE anycase, y char(4), z varchar(9)", "'Ann', 'a', 'b '", "'ann', 'a ', 'b'"
    )
    assert read(source, "y", Type.TEXT) == ["a", "a"]
    assert read(source, "z", Type.TEXT) == ["b ", "b"]
    table = Table("t", (Field("x", Type.TEXT), Field("y", Type.TEXT)), None)
    engine = PostgresEngine([(table, source)], salt=1)
    grouped = run(engine, exp.select("x", exp.alias_(exp.Count(this=exp.Star()), "n")).from_("t").group_by("x"))
    engine.close()
    assert sorted(grouped.to_pylist(), key=str) == [{"x": "Ann", "n": 1}, {"x": "ann", "n": 1}]
    with pytest.raises(Misconfigured, match="different texts can be one unit"):
        read(source, "x", Type.TEXT, unit="x")


def test_other_types_are_read_as_text_or_refused(host: PostgresHost) -> None:
    host.run("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    host.run("CREATE DOMAIN amount AS integer CHECK (VALUE > 0)")
    columns = "u uuid, m mood, a amount, r real, b boolean, j jsonb, w bytea, i interval"
    source = made(host, "others", columns, "gen_random_uuid(), 'ok', 3, 0.1, true, '{}', 'x', '1 day'")
    found = stored_types(source)
    assert list(map(str, found)) == ["u", "m", "a", "r", "b"]
    assert [kind.value for kind in found.values()] == ["text", "text", "integer", "real", "boolean"]
    assert read(source, "m", Type.TEXT) == ["ok"]
    assert read(source, "r", Type.REAL) == [0.10000000149011612]
    assert read(source, "b", Type.INTEGER) == [1]
    with pytest.raises(Misconfigured, match="`j` is stored as jsonb, which is not supported"):
        read(source, "j", Type.TEXT)
    with pytest.raises(Misconfigured, match="`b` is stored as bool, which cannot be read as date"):
        read(source, "b", Type.DATE)
    with pytest.raises(Misconfigured, match="no column `moood`"):
        read(source, "moood", Type.TEXT)


def test_a_type_that_has_the_name_of_a_builtin_one_is_not_read_as_it(host: PostgresHost) -> None:
    """Its casts are functions of the database, which may fail on some values."""
    host.run("CREATE SCHEMA odd")
    host.run("CREATE TYPE odd.int4 AS (a integer)")
    host.run("CREATE TYPE odd.text AS ENUM ('x', 'y')")
    source = made(host, "shadowed", "p integer, c odd.int4, e odd.text", "1, ROW(1), 'x'")
    assert list(stored_types(source)) == ["p", "e"]
    assert read(source, "e", Type.TEXT) == ["x"]
    with pytest.raises(Misconfigured, match=r"`c` is stored as odd\.int4, which is not supported"):
        read(source, "c", Type.INTEGER)


def test_a_cast_that_the_database_defines_is_not_used(host: PostgresHost) -> None:
    """threat:A12 it may fail on some values, or give two of them one text."""
    host.run("CREATE TYPE tone AS ENUM ('low', 'high')")
    host.run(
        "CREATE FUNCTION tone_text(tone) RETURNS text LANGUAGE plpgsql AS "
        "$$ BEGIN IF $1 = 'high' THEN RAISE EXCEPTION 'boom'; END IF; RETURN 'z'; END $$"
    )
    host.run("CREATE CAST (tone AS text) WITH FUNCTION tone_text(tone)")
    source = made(host, "tones", "e tone", "'low'", "'high'", "NULL")
    assert read(source, "e", Type.TEXT) == ["low", "high", None]
    assert read(source, "e", Type.TEXT, column=UNIT_ID, unit="e") == ["low", "high", None]


def test_names_are_written_as_they_are_stored(host: PostgresHost) -> None:
    host.run('CREATE SCHEMA "Mixed Case"')
    host.run(f'GRANT USAGE ON SCHEMA "Mixed Case" TO {host.user}')
    host.run('CREATE TABLE "Mixed Case"."Ünï.""Tab" AS SELECT 1 AS p, 2 AS "Wert €", 3 AS "select"')
    host.run(f'GRANT SELECT ON "Mixed Case"."Ünï.""Tab" TO {host.user}')
    for name in ('"Mixed Case"."Ünï.""Tab"', 'Mixed Case."Ünï.""Tab"'):
        source = read_source(host.url, name)
        assert isinstance(source, PostgresTable)
        assert read(source, "Wert €", Type.INTEGER) == [2]
        assert read(source, "select", Type.INTEGER) == [3]
    with pytest.raises(Misconfigured, match="in double quotes"):
        read_source(host.url, "Mixed Case.Ünï.Tab")


def test_units_are_compared_in_one_type(host: PostgresHost) -> None:
    """threat:A34 one person must not be two units."""
    small = made(host, "small", "p smallint", "7")
    large, text = made(host, "large", "p bigint", "7"), made(host, "worded", "p text", "'7'")
    fields = (Field("p", Type.INTEGER),)
    tables = [Table(name, fields, "p", 1) for name in ("a", "b")]
    PostgresEngine(list(zip(tables, (small, large), strict=True)), salt=1).close()
    with pytest.raises(Misconfigured, match="in different types"):
        PostgresEngine(list(zip(tables, (small, text), strict=True)), salt=1)
    assert read(small, "p", Type.INTEGER, column=UNIT_ID, unit="p") == [7]


def test_views_and_partitions_are_tables(host: PostgresHost) -> None:
    made(host, "base", "x integer, k text", "1, 'a'", "2, 'b'")
    host.run("CREATE VIEW seen AS SELECT x::float8 / 2 AS half FROM base")
    host.run(f"GRANT SELECT ON seen TO {host.user}")
    source = read_source(host.url, "seen")
    assert isinstance(source, PostgresTable)
    assert sorted(read(source, "half", Type.REAL)) == [0.5, 1.0]
