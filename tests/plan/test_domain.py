"""Which keys are public, and which values they take."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from fractions import Fraction
from random import Random
from typing import Any

import duckdb
import pytest

from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type
from lapwing.plan.domain import MOST_RANGE, MOST_TRIED, domain_of
from lapwing.plan.question import Question
from lapwing.sql import read_sql
from support.sweeps import sweep
from support.visits import interval, visits_catalog


def domain(key: str, catalog: Catalog | None = None) -> Any:
    question = read_sql(f"SELECT {key} AS k, COUNT(*) FROM visits GROUP BY {key}", catalog or visits_catalog())
    assert isinstance(question, Question), question
    return domain_of(question.keys[0], question.table)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("sex", ("F", "M")),
        ("site", (9, 10, 1000)),
        ("sick", (False, True)),
        ("NOT sick", (False, True)),
        ("age > 65", (False, True, None)),
        ("age > 200", (False, None)),
        ("age IS NULL", (False, True)),
        ("sex = 'F'", (False, True)),
        ("sex IS NULL", (False, True)),
        ("loose > 1", (False, True, None)),
        ("name LIKE 'a%'", (False, True, None)),
        ("name IS NULL", (False, True)),
        ("name IS DISTINCT FROM 'x' AND sick", (False, True)),
        ("COALESCE(name = 'x', FALSE)", (False, True)),
        ("NULLIF(sex, 'F')", ("M", None)),
        ("site + 1", (10, 11, 1001)),
        ("LOWER(sex)", ("f", "m")),
        ("CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' END", ("child", "adult", None)),
        ("CASE WHEN cost > 5 THEN 'dear' ELSE 'cheap' END", ("dear", "cheap")),
        ("COALESCE(sex, 'unknown')", ("F", "M", "unknown")),
        ("CASE WHEN sex = 'F' THEN 'f' WHEN sex = 'M' THEN 'm' ELSE 'other' END", ("f", "m", "other")),
        ("CASE WHEN sex = 'F' THEN 'f' END", ("f", None)),
        ("CASE WHEN MONTH(day) IN (12, 1, 2) THEN 'winter' ELSE 'other' END", ("winter", "other")),
        ("EXTRACT(quarter FROM day)", (1, 2, 3, 4, None)),
        ("(MONTH(day) - 1) // 3", (0, 1, 2, 3, None)),
        ("HOUR(at) - HOUR(at) % 6", (0, 6, 12, 18, None)),
        ("YEAR(day) % 4", (0, 1, 2, 3, None)),
        ("FLOOR(age / 50)", (0, 1, 2, None)),
        ("(age // 50) * 50", (0, 50, 100, None)),
        ("100 - (age // 50) * 50", (0, 50, 100, None)),
        ("FLOOR(cost / 40)", (0, 1, 2, None)),
        ("CLIP(LENGTH(name), 1, 3)", (1, 2, 3, None)),
        ("WIDTH_BUCKET(age, [0, 18, 65])", (1, 2, 3, None)),
        ("sex || CAST(age // 100 AS TEXT)", ("F0", "F1", "M0", "M1", None)),
        ("age", (*range(121), None)),
        ("name", None),
        ("LOWER(name)", None),
        ("day", None),
        ("EXTRACT(year FROM day)", None),
        ("DATE_TRUNC('month', at)", None),
        ("CASE WHEN sick THEN name ELSE 'x' END", None),
    ],
)
def test_domains_follow_from_declared_facts(key: str, values: tuple[Any, ...] | None) -> None:
    """threat:A15 threat:A20 the list of groups never comes from the rows."""
    assert domain(key) == values


def test_reals_with_declared_values_have_public_functions() -> None:
    table = Table("visits", (Field("x", Type.REAL, values=(Fraction(1, 10), Fraction(17, 10), None)),), None)
    assert domain("FLOOR(x)", Catalog((table,))) == (0, 1, None)
    assert domain("x > 1", Catalog((table,))) == (False, True, None)


def test_long_ranges_are_not_listed() -> None:
    table = Table("visits", (Field("n", Type.INTEGER, interval(0, MOST_RANGE)),), None)
    assert domain("n", Catalog((table,))) is None
    shorter = Table("visits", (Field("n", Type.INTEGER, interval(1, MOST_RANGE)),), None)
    assert domain("n", Catalog((shorter,))) == (*range(1, MOST_RANGE + 1), None)


FACTS = (
    Field("h", Type.INTEGER, interval(0, 23)),
    Field("year", Type.INTEGER, interval(1985, 2016)),
    Field("site", Type.INTEGER, values=(9, -10, 1000)),
    Field("sex", Type.TEXT, values=("F", "M", None)),
    Field("town", Type.TEXT, values=("Oslo", "oslo", "")),
    Field("day", Type.DATE, values=(date(2019, 12, 31), date(2020, 2, 29))),
    Field("sick", Type.BOOLEAN),
)
WORLD = Catalog((Table("visits", FACTS, None),))


def possible(field: Field) -> list[Any]:
    """What a column may hold by its declaration."""
    if field.values:
        return list(field.values)
    numbers = [] if field.bounds is None else range(int(field.bounds.low), int(field.bounds.high) + 1)
    return [*(numbers or (False, True)), None]


def whole_number(random: Random, depth: int) -> str:
    if depth == 0:
        return random.choice(["h", "year", "site", "YEAR(day)", "MONTH(day)", "LENGTH(town)", "7"])
    a, b = (whole_number(random, depth - 1) for _ in range(2))
    c = random.choice([2, 3, 5, 6])
    forms = [
        f"({a} // {c}) * {c}",
        f"{a} - {a} % {c}",
        f"({a} + {b}) % {c}",
        f"ABS({a} - {c})",
        f"NULLIF({a} % {c}, 1)",
    ]
    forms += [f"COALESCE({a}, -1)", f"LEAST({a}, {b})", f"CASE WHEN {truth(random, depth - 1)} THEN {a} ELSE {c} END"]
    return f"({random.choice(forms)})"


def truth(random: Random, depth: int) -> str:
    a, b = whole_number(random, depth), random.choice([0, 1, 9, 1990, 5000])
    forms = [
        f"{a} < {b}",
        f"{a} = {b}",
        "sick",
        f"sick OR {a} > {b}",
        f"NOT {a} IN ({b}, 3)",
        "sex = 'F'",
        "sex IS NULL",
    ]
    forms += [f"{a} IS NULL", "town LIKE 'o%'", f"sick IS DISTINCT FROM ({a} > {b})", "day > DATE '2020-01-01'"]
    return f"({random.choice(forms)})"


def text(random: Random, depth: int) -> str:
    forms = [
        "LOWER(town)",
        "sex || town",
        "town || CAST(h // 12 AS TEXT)",
        "SUBSTRING(sex, 1, 1)",
        "UPPER(COALESCE(sex, 'x'))",
    ]
    branches = f"CASE WHEN {truth(random, depth)} THEN 'a' WHEN {truth(random, depth)} THEN sex END"
    return random.choice(
        [
            *forms,
            branches,
            f"CAST({truth(random, depth)} AS TEXT)",
            f"NULLIF(town, {random.choice(['sex', repr('oslo')])})",
        ]
    )


def day(random: Random, depth: int) -> str:
    return random.choice(
        ["day", "DATE_TRUNC('month', day)", "day + INTERVAL 1 YEAR", f"CASE WHEN {truth(random, depth)} THEN day END"]
    )


@pytest.mark.parametrize("seed", sweep(range(12), 4))
def test_listed_keys_are_those_that_duckdb_finds_in_the_table_of_all_values(seed: int) -> None:
    """threat:A15 no listed key is impossible and no possible one is missing; DuckDB runs the text as it is written.

    A value that is missing though NULL was not declared adds keys, but not NULL.
    """
    random = Random(seed)
    with duckdb.connect() as connection:
        for _ in range(12):
            key = random.choice([whole_number, truth, text, day])(random, random.choice([0, 1, 1, 2]))
            used = [field for field in FACTS if re.search(rf"\b{field.name}\b", key)]
            if not used:
                continue
            found = domain(key, WORLD)
            if math.prod(len(possible(field)) + 1 for field in used) > MOST_TRIED:
                continue
            kinds = {Type.INTEGER: "BIGINT", Type.TEXT: "VARCHAR", Type.DATE: "DATE", Type.BOOLEAN: "BOOLEAN"}
            seen: list[set[Any]] = []
            for more in ([], [None]):
                tables = []
                for field in used:
                    name = f"t_{field.name}"
                    connection.execute(f"CREATE OR REPLACE TABLE {name} ({field.name} {kinds[field.type]})")
                    rows = dict.fromkeys([*possible(field), *more])
                    connection.executemany(f"INSERT INTO {name} VALUES (?)", [(value,) for value in rows])
                    tables.append(name)
                seen.append(
                    {row[0] for row in connection.sql(f"SELECT DISTINCT {key} FROM {', '.join(tables)}").fetchall()}
                )
            declared, anything = ({_day(value) for value in values} for values in seen)
            assert found is not None, key
            assert set(found) == (anything - {None}) | (declared & {None}), key
            assert len(set(found)) == len(found)
            assert None not in found[:-1], key


def _day(value: Any) -> Any:
    return value.date() if isinstance(value, datetime) else value


def test_a_key_of_too_many_combinations_falls_back_to_what_its_parts_may_be() -> None:
    """The interval, the branches or private selection; never a longer calculation."""
    numbers = tuple(Field(name, Type.INTEGER, interval(0, 999)) for name in "abc")
    catalog = Catalog((Table("visits", numbers, None),))
    assert domain("(a + b + c) % 3", catalog) == (0, 1, 2, None)
    assert domain("CASE WHEN a > b THEN 'more' WHEN a + b + c < 9 THEN 'less' END", catalog) == ("more", "less", None)
    assert domain("a < b AND b < c", catalog) == (False, True, None)
    assert domain("a + b", catalog) is None
    wide = Catalog((Table("visits", (Field("n", Type.INTEGER, interval(0, MOST_TRIED - 2)),), None),))
    assert domain("CAST(n % 3 AS TEXT)", wide) == ("0", "1", "2", None)
    assert domain(f"CAST(n % 3 AS TEXT) || '{'x' * 1000}'", wide) is None
    wider = Catalog((Table("visits", (Field("n", Type.INTEGER, interval(0, MOST_TRIED)),), None),))
    assert domain("n % 3", wider) == (0, 1, 2, 3, None)
    assert domain("SUBSTRING(CAST(n AS TEXT), 1, 1)", wider) is None


def test_fives_of_years_and_quarters_of_days_are_few() -> None:
    """Seven and four groups; NULL as well, unless the steward listed the values without it."""
    fives, quarters = (1985, 1990, 1995, 2000, 2005, 2010, 2015), (0, 6, 12, 18)
    bounded = (Field("year", Type.INTEGER, interval(1985, 2016)), Field("h", Type.INTEGER, interval(0, 23)))
    listed = (
        Field("year", Type.INTEGER, values=tuple(range(1985, 2017))),
        Field("h", Type.INTEGER, values=tuple(range(24))),
    )
    for fields, null in ((bounded, (None,)), (listed, ())):
        catalog = Catalog((Table("visits", fields, None),))
        assert domain("(year // 5) * 5", catalog) == (*fives, *null)
        assert domain("h - h % 6", catalog) == (*quarters, *null)
