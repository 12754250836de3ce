"""Reading Ibis expressions: the same question as from SQL, and the same refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import ibis as ib
import pyarrow as pa
import pytest

from lapwing.errors import Refused
from lapwing.expressions.expression import Call, walk
from lapwing.expressions.operators.table import OPERATORS
from lapwing.plan.question import Question
from lapwing.sql import read_sql
from lapwing.sql.ibis import as_sql, read_ibis, unbound_table
from lapwing.sql.split import NOT_ONE
from support.refusals import attempt
from support.visits import Spy, open_visits, visits_catalog, visits_table

CATALOG = visits_catalog(zone="UTC")
T = unbound_table(visits_table())


def count(condition: Any) -> Any:
    return T.filter(condition).aggregate(n=lambda t: t.count())


def where(condition: str) -> str:
    return f"SELECT COUNT(*) AS n FROM visits WHERE {condition}"


SAME: dict[str, Callable[[], Any]] = {
    where("age = 1"): lambda: count(T.age == 1),
    where("age <> 1"): lambda: count(T.age != 1),
    where("age < 1"): lambda: count(T.age < 1),
    where("age <= 1"): lambda: count(T.age <= 1),
    where("age > 1"): lambda: count(T.age > 1),
    where("age >= 1"): lambda: count(T.age >= 1),
    where("age > 1 AND sick"): lambda: count((T.age > 1) & T.sick),
    where("age > 1 OR sick"): lambda: count((T.age > 1) | T.sick),
    where("NOT sick"): lambda: count(~T.sick),
    where("cost IS NULL"): lambda: count(T.cost.isnull()),
    where("cost IS NOT NULL"): lambda: count(T.cost.notnull()),
    where("sex IN ('F', 'X')"): lambda: count(T.sex.isin(["F", "X"])),
    where("age + 1 > cost"): lambda: count(T.age + 1 > T.cost),
    where("age - 1 > cost"): lambda: count(T.age - 1 > T.cost),
    where("age * 2 > cost"): lambda: count(T.age * 2 > T.cost),
    where("age / 2 > cost"): lambda: count(T.age / 2 > T.cost),
    where("age BETWEEN 1 AND 5"): lambda: count(T.age.between(1, 5)),
    where("cost > 0.1"): lambda: count(T.cost > 0.1),
    where("cost > 0.25"): lambda: count(T.cost > Decimal("0.25")),
    where("cost > -2.5"): lambda: count(T.cost > -2.5),
    where("day > DATE '2020-12-31'"): lambda: count(T.day > date(2020, 12, 31)),
    where("at > TIMESTAMP '2020-12-31 10:30:00'"): lambda: count(T.at > datetime(2020, 12, 31, 10, 30)),  # noqa: DTZ001
    where("sick = (age > 3)"): lambda: count(T.sick == (T.age > 3)),
    where("age IS NOT DISTINCT FROM site"): lambda: count(T.age.identical_to(T.site)),
    where("age NOT IN (1, 2)"): lambda: count(T.age.notin([1, 2])),
    where("sick AND age > 1 AND site > 2"): lambda: (
        T.filter(T.sick, T.age > 1).filter(lambda t: t.site > 2).aggregate(n=lambda t: t.count())
    ),
    where("CASE WHEN sick THEN 1 WHEN age > 3 THEN 2 ELSE 3 END = 2"): lambda: count(
        ib.cases((T.sick, 1), (T.age > 3, 2), else_=3) == 2
    ),
    where("CASE sex WHEN 'F' THEN 1 END = 1"): lambda: count(T.sex.cases(("F", 1)) == 1),
    where("IF(sick, 1, 2) = 1"): lambda: count(T.sick.ifelse(1, 2) == 1),
    where("COALESCE(loose, cost, 0) > 1"): lambda: count(ib.coalesce(T.loose, T.cost, 0) > 1),
    where("COALESCE(loose, 0) > 1"): lambda: count(T.loose.fill_null(0) > 1),
    where("NULLIF(age, 0) > 1"): lambda: count(T.age.nullif(0) > 1),
    where("LEAST(age, site) > 1"): lambda: count(ib.least(T.age, T.site) > 1),
    where("GREATEST(age, 0) > 1"): lambda: count(ib.greatest(T.age, 0) > 1),
    where("CLIP(loose, 0, 5) > 1"): lambda: count(T.loose.clip(0, 5) > 1),
    where("CLIP(loose, NULL, 5) > 1"): lambda: count(T.loose.clip(upper=5) > 1),
    where("WIDTH_BUCKET(loose, [0, 2.5]) = 1"): lambda: count(
        T.loose.bucket([0, 2.5], close_extreme=False, include_under=True, include_over=True) == 1
    ),
    where("CASE WHEN loose >= 0 AND loose < 5 THEN 0 WHEN loose >= 5 AND loose <= 9 THEN 1 END = 1"): lambda: count(
        T.loose.bucket([0, 5, 9]) == 1
    ),
    where("age % 2 = 0"): lambda: count(T.age % 2 == 0),
    where("FLOOR(age / 2) = 0"): lambda: count(T.age // 2 == 0),
    where("FLOOR(cost) = 0"): lambda: count(T.cost.floor() == 0),
    where("CEIL(cost) = 0"): lambda: count(T.cost.ceil() == 0),
    where("ROUND(cost) = 0"): lambda: count(T.cost.round() == 0),
    where("ROUND(cost, 2) = 0"): lambda: count(T.cost.round(2) == 0),
    where("ABS(cost) = 0"): lambda: count(T.cost.abs() == 0),
    where("SIGN(cost) = 0"): lambda: count(T.cost.sign() == 0),
    where("LN(cost) = 0"): lambda: count(T.cost.ln() == 0),
    where("LOG10(cost) = 0"): lambda: count(T.cost.log10() == 0),
    where("LOG2(cost) = 0"): lambda: count(T.cost.log2() == 0),
    where("LN(cost) / LN(3) = 0"): lambda: count(T.cost.log(3) == 0),
    where("EXP(cost) = 0"): lambda: count(T.cost.exp() == 0),
    where("SQRT(cost) = 0"): lambda: count(T.cost.sqrt() == 0),
    where("POWER(cost, 2) = 0"): lambda: count(T.cost**2 == 0),
    where("name LIKE 'A%'"): lambda: count(T.name.like("A%")),
    where("name NOT ILIKE 'a_'"): lambda: count(~T.name.ilike("a_")),
    where("STARTS_WITH(name, 'a')"): lambda: count(T.name.startswith("a")),
    where("ENDS_WITH(name, 'a')"): lambda: count(T.name.endswith("a")),
    where("REPLACE(name, 'ab', 'a') = 'a'"): lambda: count(T.name.replace("ab", "a") == "a"),
    where("REGEXP_MATCHES(name, '^a+')"): lambda: count(T.name.re_search("^a+")),
    where("SPLIT_PART(name, '-', 2) = 'a'"): lambda: count(T.name.split("-")[1] == "a"),
    where("STRFTIME(day, '%Y-%m') = '2020-01'"): lambda: count(T.day.strftime("%Y-%m") == "2020-01"),
    where("DAYNAME(day) = 'Monday'"): lambda: count(T.day.day_of_week.full_name() == "Monday"),
    where("age > PI()"): lambda: count(T.age > ib.pi),
    where("CONTAINS(name, 'a')"): lambda: count(T.name.contains("a")),
    where("LENGTH(name) > 1"): lambda: count(T.name.length() > 1),
    where("LOWER(name) = UPPER(sex)"): lambda: count(T.name.lower() == T.sex.upper()),
    where("TRIM(name) = LTRIM(sex)"): lambda: count(T.name.strip() == T.sex.lstrip()),
    where("RTRIM(name) = 'a'"): lambda: count(T.name.rstrip() == "a"),
    where("SUBSTRING(name, 2, 3) = 'a'"): lambda: count(T.name.substr(1, 3) == "a"),
    where("LEFT(name, 3) = RIGHT(sex, 2)"): lambda: count(T.name.left(3) == T.sex.right(2)),
    where("name || 'a' = sex"): lambda: count(T.name + "a" == T.sex),
    where("YEAR(day) = 2020"): lambda: count(T.day.year() == 2020),
    where("QUARTER(day) = MONTH(day)"): lambda: count(T.day.quarter() == T.day.month()),
    where("WEEK(day) = DAY(day)"): lambda: count(T.day.week_of_year() == T.day.day()),
    where("(DAYOFWEEK(day) + 6) % 7 = 0"): lambda: count(T.day.day_of_week.index() == 0),
    where("DAYOFYEAR(day) = 1"): lambda: count(T.day.day_of_year() == 1),
    where("HOUR(at) = MINUTE(at)"): lambda: count(T.at.hour() == T.at.minute()),
    where("SECOND(at) = 1"): lambda: count(T.at.second() == 1),
    **{
        where(f"DATE_TRUNC('{unit}', day) = day"): lambda unit=unit: count(T.day.truncate(unit) == T.day)
        for unit in ("year", "quarter", "month", "week", "day")
    },
    **{
        where(f"DATE_TRUNC('{unit}', at) = at"): lambda unit=unit: count(T.at.truncate(unit) == T.at)
        for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    },
    **{
        where(f"DATE_DIFF('{unit}', day, DATE '2020-01-01') > 3"): lambda unit=unit: count(
            ib.date("2020-01-01").delta(T.day, unit=unit) > 3
        )
        for unit in ("year", "quarter", "month", "week", "day")
    },
    **{
        where(f"DATE_DIFF('{unit}', at, at) > 3"): lambda unit=unit: count(T.at.delta(T.at, unit=unit) > 3)
        for unit in ("hour", "minute", "second")
    },
    where("day + INTERVAL 3 DAY > day - INTERVAL 2 YEAR"): lambda: count(
        T.day + ib.interval(days=3) > T.day - ib.interval(years=2)
    ),
    where("at + INTERVAL 3 WEEK > at - INTERVAL 2 MONTH"): lambda: count(
        T.at + ib.interval(weeks=3) > T.at - ib.interval(months=2)
    ),
    where("at + INTERVAL 3 HOUR > at"): lambda: count(T.at + ib.interval(hours=3) > T.at),
    where("CAST(name AS INTEGER) = 1"): lambda: count(T.name.cast("int64") == 1),
    where("CAST(cost AS INTEGER) = 1"): lambda: count(T.cost.cast("int32") == 1),
    where("TRY_CAST(name AS DOUBLE) = 1"): lambda: count(T.name.try_cast("float64") == 1),
    where("CAST(sick AS INTEGER) = 1"): lambda: count(T.sick.cast("int64") == 1),
    where("CAST(age AS TEXT) = CAST(sick AS TEXT)"): lambda: count(T.age.cast("string") == T.sick.cast("string")),
    where("CAST(day AS TEXT) = 'a'"): lambda: count(T.day.cast("string") == "a"),
    where("CAST(name AS BOOLEAN)"): lambda: count(T.name.cast("boolean")),
    where("CAST(name AS DATE) = CAST(at AS DATE)"): lambda: count(T.name.cast("date") == T.at.date()),
    where("at AT TIME ZONE 'Europe/Oslo' > TIMESTAMP '2020-12-31 10:30:00'"): lambda: count(
        T.at.cast("timestamp('Europe/Oslo')") > datetime(2020, 12, 31, 10, 30)  # noqa: DTZ001
    ),
    where("CAST(name AS TIMESTAMP) = at"): lambda: count(T.name.cast("timestamp") == T.at),
    "SELECT COUNT(*) AS count FROM visits WHERE age IS NOT NULL": lambda: T.drop_null("age").count(),
    "SELECT DISTINCT sex, site FROM visits": lambda: T.select("sex", "site").distinct(),
    "SELECT DISTINCT * EXCLUDE (site) FROM (SELECT sex, site FROM visits)": lambda: (
        T.select("sex", "site").drop("site").distinct()
    ),
    "SELECT CORR(age, cost) AS c FROM visits": lambda: T.aggregate(c=T.age.corr(T.cost)),
    "SELECT COUNT(*) AS count FROM visits": lambda: T.count(),
    "SELECT AVG(cost) AS avg FROM visits": lambda: T.cost.mean(),
    "SELECT COUNT(*) + 1 AS value FROM visits": lambda: T.count() + 1,
    "SELECT COUNT(*) FILTER (WHERE sick) AS n FROM visits": lambda: T.aggregate(n=T.count(where=T.sick)),
    "SELECT AVG(cost) FILTER (WHERE sick) AS n FROM visits": lambda: T.aggregate(n=T.cost.mean(where=T.sick)),
    "SELECT COUNT(age) FILTER (WHERE sick) AS n FROM visits": lambda: T.aggregate(n=T.age.count(where=T.sick)),
    "SELECT COUNT(DISTINCT pid) FILTER (WHERE sick) AS n FROM visits": lambda: T.aggregate(
        n=T.pid.nunique(where=T.sick)
    ),
    "SELECT SUM(CASE WHEN sick THEN age ELSE 0 END) AS n FROM visits": lambda: T.aggregate(
        n=ib.ifelse(T.sick, T.age, 0).sum()
    ),
    "SELECT FLOOR(age / 10) AS decade, COUNT(*) AS n FROM visits GROUP BY decade": lambda: T.group_by(
        decade=(T.age / 10).floor()
    ).agg(n=T.count()),
    "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex HAVING n > 3": lambda: (
        T.group_by("sex").agg(n=T.count()).filter(lambda t: t.n > 3)
    ),
    "SELECT sex, AVG(twice) AS m FROM (SELECT *, age * 2 AS twice FROM visits) WHERE twice > 3 GROUP BY sex": lambda: (
        T.mutate(twice=T.age * 2).filter(lambda t: t.twice > 3).group_by("sex").agg(m=lambda t: t.twice.mean())
    ),
    "SELECT SUM(x) AS s FROM (SELECT age + 1 AS x FROM (SELECT loose AS age FROM visits))": lambda: (
        T.select(age=T.loose).select(x=lambda t: t.age + 1).aggregate(s=lambda t: t.x.sum())
    ),
    "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex ORDER BY sex": lambda: (
        T.drop("name").group_by("sex").agg(n=lambda t: t.count(), m=lambda t: t.age.mean()).drop("m").order_by("sex")
    ),
    "SELECT COUNT(age) AS n FROM visits": lambda: T.aggregate(n=T.age.count()),
    "SELECT COUNT(DISTINCT pid) AS n FROM visits": lambda: T.aggregate(n=T.pid.nunique()),
    "SELECT SUM(cost) AS s FROM visits": lambda: T.aggregate(s=T.cost.sum()),
    "SELECT SUM(-cost) AS s FROM visits": lambda: T.aggregate(s=(-T.cost).sum()),
    "SELECT SUM(cost * age + 1) AS s FROM visits": lambda: T.aggregate(s=(T.cost * T.age + 1).sum()),
    "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex": lambda: T.group_by("sex").agg(n=T.count()),
    "SELECT site, sex, SUM(cost) AS s, COUNT(*) AS n FROM visits WHERE age > 3 GROUP BY site, sex": lambda: (
        T.filter(T.age > 3).group_by("site", "sex").agg(s=lambda t: t.cost.sum(), n=lambda t: t.count())
    ),
    "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex ORDER BY n DESC, sex LIMIT 1": lambda: (
        T.group_by("sex").agg(n=T.count()).order_by(ib.desc("n"), "sex").limit(1)
    ),
    "SELECT sex, SUM(cost) / COUNT(*) AS mean FROM visits GROUP BY sex": lambda: T.group_by("sex").agg(
        mean=T.cost.sum() / T.count()
    ),
    "SELECT sex, COUNT(*) * 2 AS twice FROM visits GROUP BY sex": lambda: (
        T.group_by("sex").agg(n=T.count()).select("sex", twice=lambda a: a.n * 2)
    ),
}


@pytest.mark.parametrize("text", SAME)
def test_sql_and_ibis_ask_the_same_question(text: str) -> None:
    """One plan whatever the language: keys, aggregates, outputs, order and limit agree."""
    one, two = read_sql(text, CATALOG), read_ibis(SAME[text](), CATALOG)
    assert isinstance(one, Question), one
    assert isinstance(two, Question), two
    assert one.canonical() == two.canonical()
    assert one == two


def test_every_operator_is_compared() -> None:
    """The pairs above hold each operator at least once."""
    read = [read_ibis(make(), CATALOG) for make in SAME.values()]
    expressions = [e for q in read if isinstance(q, Question) for e in (q.where, *q.keys, *q.above) if e is not None]
    seen = {part.operator for expression in expressions for part in walk(expression) if isinstance(part, Call)}
    assert {operator.name for operator in OPERATORS} - {operator.name for operator in seen} == set()


OTHER = ib.table({"pid": "int64"}, name="other")
REFUSED: dict[str, Callable[[], Any]] = {
    "the rows": lambda: T,
    "a column": lambda: T.name,
    "a projection": lambda: T.select("name"),
    "max": lambda: T.name.max(),
    "first": lambda: T.aggregate(x=T.name.first()),
    "collect": lambda: T.aggregate(x=T.name.collect()),
    "arbitrary": lambda: T.aggregate(x=T.name.arbitrary()),
    "distinct": lambda: T.distinct(),
    "limit below": lambda: T.limit(1).count(),
    "order below": lambda: T.order_by("age").limit(1).aggregate(n=lambda t: t.age.sum()),
    "sample": lambda: T.sample(0.5).count(),
    "join": lambda: T.join(OTHER, "pid").count(),
    "union": lambda: T.union(T, distinct=True).count(),
    "unknown table": lambda: OTHER.count(),
    "unknown column": lambda: ib.table({"salary": "int64"}, name="visits").salary.sum(),
    "window": lambda: T.mutate(n=T.age.sum().over(group_by="sex")).count(),
    "sub-query": lambda: T.filter(T.age > T.age.mean()).count(),
    "unit inside a key": lambda: T.group_by(k=T.pid % 2).agg(n=T.count()),
    "unit renamed as a key": lambda: T.select(k=T.pid).group_by("k").agg(n=lambda t: t.count()),
    "constant key": lambda: T.group_by(k=ib.literal(1)).agg(n=T.count()),
    "escape": lambda: T.filter(T.name.re_search("(?i)a")).count(),
    "pattern of a column": lambda: T.filter(T.name.like(T.sex)).count(),
    "substring of a column": lambda: T.filter(T.name.substr(T.age, 1) == "a").count(),
    "digits of a column": lambda: T.filter(T.cost.round(T.age) == 1).count(),
    "power of a column": lambda: T.filter(T.cost**T.age == 1).count(),
    "difference without a unit": lambda: T.filter((T.day - T.day) > ib.interval(days=1)).count(),
    "interval of a column": lambda: T.filter(T.day + T.age.as_interval("D") > T.day).count(),
    "decimal": lambda: T.filter(T.name.cast("decimal(10, 2)") > 1).count(),
    "now": lambda: T.filter(T.at > ib.now()).count(),
    "not a number as a test": lambda: T.filter(T.cost.isnan()).count(),
    "nulls first": lambda: T.group_by("sex").agg(n=T.count()).order_by(ib.asc("n", nulls_first=True)),
    "order below alone": lambda: T.order_by("age").count(),
    "filter after limit": lambda: T.group_by("sex").agg(n=T.count()).limit(1).filter(lambda t: t.n > 3),
    "other catalog": lambda: ib.table({"age": "int64"}, name="visits", catalog="other", database="clinic").count(),
    "random": lambda: T.filter(ib.random() < 0.5).count(),
    "unit as a key": lambda: T.group_by("pid").agg(n=T.count()),
    "offset": lambda: T.group_by("sex").agg(n=T.count()).limit(1, offset=1),
    "aggregate of aggregates": lambda: T.group_by("sex").agg(n=T.count()).n.sum(),
    "in memory": lambda: ib.memtable(pa.table({"pid": [1]})).count(),
    "zone": lambda: count(T.at > datetime(2020, 1, 1, tzinfo=UTC)),
    "not a number": lambda: count(T.cost > float("nan")),
    "infinite": lambda: count(T.cost > float("inf")),
    "most of a count": lambda: count(T.sick == (T.name == "x")).n.max(),
}
REASONS: dict[str, list[str]] = {
    "the rows themselves are private.": ["the rows", "a projection", "a column"],
    "window functions mix rows of different units.": ["window"],
    "`name` is text, and it only takes numbers.": ["max"],
    "it returns the value of a single row, which is private.": ["first", "arbitrary"],
    "the answer would be one of the rows, which are private.": ["collect"],
    "sorting or limiting rows depends on all of them, so one unit could change every result.": [
        "limit below",
        "order below",
        "order below alone",
    ],
    "a sample of rows has no known price.": ["sample"],
    "there is no such table.": ["join", "unknown table"],
    "UNION, EXCEPT and INTERSECT compare rows of different units, and released numbers cannot be combined.": ["union"],
    "table `visits` has no such column.": ["unknown column"],
    "a query inside an expression would read rows without being charged.": ["sub-query"],
    "it uses the protected unit `pid`, so every group would be one person.": [
        "unit inside a key",
        "unit renamed as a key",
        "unit as a key",
        "distinct",
    ],
    "cannot group by a constant.": ["constant key"],
    "it does not take these arguments.": [
        "escape",
        "pattern of a column",
        "substring of a column",
        "digits of a column",
        "power of a column",
    ],
    "an interval must be added to or subtracted from a date.": ["difference without a unit"],
    "an interval must be an integer with one unit.": ["interval of a column"],
    "casts to this type are not supported.": ["decimal"],
    "it is not a function of the row.": ["now", "random"],
    "NaN is NULL here.": ["not a number as a test"],
    "NULLs always come last.": ["nulls first"],
    "it is not supported.": ["other catalog"],
    NOT_ONE[1]: ["aggregate of aggregates", "most of a count", "offset", "filter after limit"],
    "it is not a table in the catalog.": ["in memory"],
    "a constant has no time zone.": ["zone"],
    "it is not a number of ordinary size.": ["not a number", "infinite"],
}
"""Why each of them is refused."""


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_everything_else_for_its_reason(name: str) -> None:
    """gate:G19 in the other language."""
    found = attempt(read_ibis, REFUSED[name](), CATALOG)
    assert isinstance(found, Refused), found
    assert str(found).endswith("Nothing was charged.")
    assert name in REASONS[found.why]


def test_a_part_that_stands_in_many_places_is_not_written_too_often() -> None:
    """gate:G53 Fifteen sums of a thing with itself are 32,768 things: refused before anything of that size is made."""
    few = many = T.age
    for _ in range(4):
        few = few + few
    for _ in range(15):  # Ibis itself doubles its work
        many = many + many
    assert isinstance(read_ibis(count(few > 1), CATALOG), Question)
    found = attempt(read_ibis, count(many > 1), CATALOG)
    assert isinstance(found, Refused)
    assert found.code == "too-large"


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_tables_of_the_catalog(name: str) -> None:
    """Ibis numbers tables, t0 and t1; analysts never see that."""
    found = attempt(read_ibis, REFUSED[name](), CATALOG)
    assert not re.search(r"\bt[0-9]+\b", str(found)), found


def test_tables_keep_their_names() -> None:
    two = T.join(T.view(), "pid").filter(lambda t: t.age > t.age_right)
    text = as_sql(two.count())
    assert "FROM visits INNER JOIN visits AS visits_2 ON visits.pid = visits_2.pid" in text
    inside = T.filter(T.pid.isin(T.filter(T.sick).pid))
    assert "FROM visits WHERE visits.pid IN (SELECT visits.pid FROM visits WHERE visits.sick)" in as_sql(inside.count())
    odd = ib.table({"order": "int64", "a b": "int64"}, name="Select")
    assert as_sql(odd.filter(odd["a b"] > 1).order.sum()) == (
        'SELECT SUM("Select"."order") AS sum FROM (SELECT * FROM "Select" WHERE "Select"."a b" > 1) AS "Select"'
    )


def test_a_table_that_is_read_twice_keeps_its_name() -> None:
    """Ibis makes a WITH of it."""
    sick = T.filter(T.sick).select("pid", "age", "cost").distinct()
    both = sick.union(sick, distinct=False)
    assert not re.search(r"\bt[0-9]+\b", as_sql(both.count()))


MORE: dict[str, str] = {
    "MAKE_DATE(2020, 12, 31) = day": "DATE '2020-12-31' = day",
    "MAKE_TIMESTAMP(2020, 12, 31, 10, 30, 1.5) = at": "TIMESTAMP '2020-12-31 10:30:01.5' = at",
}
"""What Ibis writes for DuckDB: SQL from `ibis.to_sql` is read as well."""


@pytest.mark.parametrize("text", MORE)
def test_reads_what_ibis_writes_for_duckdb(text: str) -> None:
    assert read_sql(where(text), CATALOG) == read_sql(where(MORE[text]), CATALOG)


@pytest.mark.parametrize(
    "text", ["MAKE_DATE(2020, 13, 1)", "MAKE_DATE(age, 1, 1)", "MAKE_DATE(2020, 1.5, 1)", "MAKE_DATE('2020', 1, 1)"]
)
def test_a_date_is_made_of_constants(text: str) -> None:
    found = attempt(read_sql, where(f"day = {text}"), CATALOG)
    assert isinstance(found, Refused)
    assert found.code == "wrong-argument"
    at = where(f"at = {text.replace('DATE', 'TIMESTAMP').replace(')', ', 1, 1, 1)')}")
    assert isinstance(attempt(read_sql, at, CATALOG), Refused)


@pytest.mark.parametrize("thing", [None, 3, "SELECT 1", object(), T.op()])
def test_refuses_what_is_no_expression(thing: object) -> None:
    assert isinstance(attempt(read_ibis, thing, CATALOG), Refused)


def test_depth_is_limited() -> None:
    value = T.age
    for i in range(300):
        value = value + i
    assert isinstance(attempt(read_ibis, count(value > 1), CATALOG), Refused)


def test_long_chains_of_conditions_are_read() -> None:
    condition = T.age > 0
    for i in range(150):
        condition = condition | (T.age > i)
    assert isinstance(read_ibis(count(condition), CATALOG), Question)


def test_an_unbound_table_cannot_execute() -> None:
    with pytest.raises(Exception, match=r"[Uu]nbound|backend"):
        T.count().execute()


def test_a_refused_expression_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = open_visits()
    spy = Spy(curator, monkeypatch)
    visits = curator.table("visits")
    with pytest.raises(Refused):
        curator.ask(visits.age.mode(), epsilon=0.1)
    with pytest.raises(Refused, match="Did you mean `visits`"):
        curator.table("visit")
    assert (spy.queries, curator.budget.spent.amount) == ([], 0)
    assert len(curator.ask(visits.group_by("sex").agg(n=visits.count()), epsilon=0.1)) == 2
    assert len(spy.queries) == 1
