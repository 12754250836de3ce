"""Reading SQL: what is allowed gives one question, everything else is refused free of charge and without the engine."""

from __future__ import annotations

import time

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import Refused
from lapwing.privacy import Pure
from lapwing.query import sql
from lapwing.query.aggregates import FUNCTIONS
from lapwing.query.catalog import Catalog, Field, Table
from lapwing.query.expression import Call, Column, Expression, Key, Operator, Slot, walk
from lapwing.query.operators import MOST_DEPTH, OPERATORS, bounds_of
from lapwing.query.plan import Plan, make_plan
from lapwing.query.question import Question
from lapwing.query.sql import read_sql
from lapwing.query.types import Type
from lapwing.query.verdict import Refusal
from support.visits import CANARY, Spy, interval, open_visits, visits_catalog

CATALOG = visits_catalog()


def question(text: str) -> Question:
    read = read_sql(text, CATALOG)
    assert isinstance(read, Question), f"{text}: {read}"
    return read


def refusal(text: str) -> Refusal:
    read = read_sql(text, CATALOG)
    if isinstance(read, Question):
        plan = make_plan(read, Pure(1))
        assert isinstance(plan, Refusal), f"{text} was accepted"
        return plan
    return read


LETTERS = Catalog(
    (
        Table(
            "t",
            (
                *(Field(name, Type.REAL) for name in "xy"),
                Field("n", Type.INTEGER),
                Field("s", Type.TEXT),
                Field("d", Type.DATE),
                Field("t", Type.TIMESTAMP),
                Field("c", Type.BOOLEAN),
            ),
            None,
        ),
    )
)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_every_operator_can_be_written_as_the_page_says(operator: Operator) -> None:
    """The example of each operator is read, and reads as that operator, below and above the aggregation."""
    below = read_sql(f"SELECT COUNT({operator.sql}) FROM t", LETTERS)
    assert isinstance(below, Question), below
    [argument] = below.aggregates[0].arguments
    assert isinstance(argument, Call)
    assert argument.operator == operator
    keys = [name for name in "xysdtcn" if any(isinstance(p, Column) and p.name == name for p in walk(argument))]
    above = read_sql(f"SELECT COUNT(*) AS k, {operator.sql} AS e FROM t GROUP BY {', '.join(keys)}", LETTERS)
    assert isinstance(above, Question), above
    assert isinstance(above.outputs[1].expression, Call)
    assert above.outputs[1].expression.operator == operator


ANSWERED = {
    "SELECT COUNT(*) FROM visits": 'visits|||count_rows()',
    "SELECT COUNT(1) FROM visits": 'visits|||count_rows()',
    "FROM visits SELECT COUNT(*)": 'visits|||count_rows()',
    "select count ( * ) as n from VISITS as v ;": 'visits|||count_rows()',
    "SELECT COUNT(*) /* what */ FROM visits -- a remark": 'visits|||count_rows()',
    'SELECT COUNT("AGE") FROM "Visits"': 'visits|||count("age")',
    "SELECT COUNT(DISTINCT pid) FROM visits": 'visits|||count_units()',
    "SELECT COUNT(DISTINCT (pid)) FROM visits": 'visits|||count_units()',
    "SELECT v.sex, SUM(v.cost) FROM visits v GROUP BY v.sex": 'visits||"sex"|sum("cost")',
    "SELECT COUNT(*) FROM visits WHERE age BETWEEN 1 AND 2":
        'visits|and(>=("age",integer:1),<=("age",integer:2))||count_rows()',
    "SELECT COUNT(*) FROM visits WHERE age NOT IN (1, -2)":
        'visits|not(in("age",integer:1,integer:-2))||count_rows()',
    "SELECT COUNT(*) FROM visits WHERE NOT (sex = 'F' OR sick) AND cost IS NOT NULL":
        'visits|and(not(or(=("sex",text:\'F\'),"sick")),not(is null("cost")))||count_rows()',
    "SELECT COUNT(*) FROM visits WHERE day > '2020-12-31' AND at <= TIMESTAMP '2020-01-01 10:00:00'":
        'visits|and(>("day",date:datetime.date(2020, 12, 31)),'
        '<=("at",timestamp:datetime.datetime(2020, 1, 1, 10, 0)))||count_rows()',
    "SELECT SUM(cost * 2 - age / 3 + 0.5) FROM visits":
        'visits|||sum(+(-(*("cost",integer:2),/("age",integer:3)),real:Fraction(1, 2)))',
    "SELECT SUM(-cost) FROM visits": 'visits|||sum(-(integer:0,"cost"))',
    "SELECT site, sex, COUNT(*) n, SUM(age) s FROM visits GROUP BY site, sex ORDER BY n DESC, 1 LIMIT 3":
        'visits||"sex","site"|count_rows(),sum("age")',
    "SELECT COUNT() FROM visits": 'visits|||count_rows()',
    "SELECT AVG(cost) FROM visits": 'visits|||mean("cost")',
    "SELECT COUNT(*) FILTER (WHERE sick) FROM visits": 'visits|||count(case("sick",integer:1,null:None))',
    "SELECT COUNT_IF(sick) FROM visits": 'visits|||count(case("sick",integer:1,null:None))',
    "SELECT COUNT(CASE WHEN sick THEN 1 END) FROM visits": 'visits|||count(case("sick",integer:1,null:None))',
    "SELECT SUM(age) FILTER (WHERE sick) FROM visits": 'visits|||sum(case("sick","age",null:None))',
    "SELECT COUNT(DISTINCT pid) FILTER (WHERE sick) FROM visits":
        'visits|||count_units(case("sick",integer:1,null:None))',
    "SELECT COUNT(DISTINCT CASE WHEN sick THEN pid END) FROM visits":
        'visits|||count_units(case("sick",integer:1,null:None))',
    "SELECT FLOOR(age / 10) AS d, COUNT(*) FROM visits GROUP BY d": 'visits||floor(/("age",integer:10))|count_rows()',
    "SELECT FLOOR(age / 10), COUNT(*) FROM visits GROUP BY 1": 'visits||floor(/("age",integer:10))|count_rows()',
    "SELECT FLOOR(age / 10) * 10, COUNT(*) FROM visits GROUP BY FLOOR(age / 10)":
        'visits||floor(/("age",integer:10))|count_rows()',
    "SELECT 1 AS sex, COUNT(*) FROM visits GROUP BY sex": 'visits||"sex"|count_rows()',
    "SELECT sex, SUM(age) FROM visits GROUP BY sex HAVING COUNT(*) > 3": 'visits||"sex"|count_rows(),sum("age")',
    "SELECT COUNT(*) AS n FROM visits HAVING n > 3": 'visits|||count_rows()',
    "SELECT COUNT(*) FROM (SELECT * FROM visits WHERE sick) WHERE age > 1":
        'visits|and("sick",>("age",integer:1))||count_rows()',
    "SELECT COUNT(*) FROM visits WHERE sick AND (age > 1 AND TRUE)":
        'visits|and(and("sick",>("age",integer:1)),boolean:True)||count_rows()',
    "WITH a AS (SELECT age AS x FROM visits), b AS (SELECT x + 1 AS x FROM a) SELECT SUM(b.x) FROM b":
        'visits|||sum(+("age",integer:1))',
    "WITH visits AS (SELECT age * 2 AS age FROM visits) SELECT SUM(age) FROM visits":
        'visits|||sum(*("age",integer:2))',
    "SELECT n FROM (SELECT sex, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY sex)": 'visits||"sex"|count_rows()',
    "SELECT * FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) WHERE n > 3 ORDER BY n LIMIT 1":
        'visits||"sex"|count_rows()',
    "SELECT COUNT(*) FROM visits WHERE name NOT LIKE 'A%' AND at::DATE = day":
        'visits|and(not(like("name",text:\'A%\')),=(date("at"),"day"))||count_rows()',
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ANSWERED.items())
def test_reads(text: str, expected: str) -> None:
    assert question(text).canonical() == expected


def test_order_of_keys_and_aggregates_is_one_question() -> None:
    """A stored answer fits every wording of its question."""
    one = question("SELECT site, sex, COUNT(*) n, SUM(age) s FROM visits GROUP BY site, sex")
    two = question("SELECT SUM(age) AS t, sex, COUNT(*) AS m, site FROM visits GROUP BY sex, site")
    assert (one.keys, one.aggregates, one.canonical()) == (two.keys, two.aggregates, two.canonical())
    slots = {output.name: output.expression for output in two.outputs}
    assert two.aggregates[slots["t"].index].name == "sum"
    assert two.aggregates[slots["m"].index].name == "count_rows"


def test_the_same_aggregate_is_paid_once() -> None:
    read = question("SELECT COUNT(*) AS a, COUNT(*) + 1 AS b, 2 * COUNT(*) AS c FROM visits")
    assert len(read.aggregates) == 1


G19 = [
    "SELECT * FROM visits",
    "FROM visits",
    "SELECT visits.* FROM visits",
    "SELECT name FROM visits",
    "SELECT name, COUNT(*) FROM visits",
    "SELECT sex FROM visits GROUP BY sex",
    "SELECT KURTOSIS(age) FROM visits",
    "SELECT MAX(name) FROM visits",
    "SELECT FIRST(age) FROM visits",
    "SELECT LAST(age) FROM visits",
    "SELECT ANY_VALUE(name) FROM visits",
    "SELECT ARG_MAX(name, age) FROM visits",
    "SELECT MODE(name) FROM visits",
    "SELECT LIST(name) FROM visits",
    "SELECT ARRAY_AGG(name) FROM visits",
    "SELECT STRING_AGG(name, ',') FROM visits",
    "SELECT APPROX_COUNT_DISTINCT(pid) FROM visits",
    "SELECT HISTOGRAM(age) FROM visits",
    "SELECT stats(age) FROM visits",
    "SELECT COUNT(*) FROM visits USING SAMPLE 3",
    "SELECT COUNT(*) FROM visits TABLESAMPLE 10%",
    "SELECT DISTINCT sex FROM visits",
    "SELECT DISTINCT ON (sex) name FROM visits",
    "SELECT COUNT(DISTINCT pid, age) FROM visits",
    "SELECT SUM(DISTINCT age) FROM visits",
    "SELECT COUNT(*) OVER () FROM visits",
    "SELECT ROW_NUMBER() OVER (ORDER BY age) FROM visits",
    "SELECT COUNT(*) FROM visits QUALIFY ROW_NUMBER() OVER () = 1",
    "SELECT SUM(age ORDER BY age) FROM visits",
    "SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 1) t",
    "SELECT COUNT(*) FROM (SELECT * FROM visits ORDER BY age LIMIT 1) t",
    "WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT COUNT(*) FROM r",
    "SELECT COUNT(*) FROM visits, LATERAL (SELECT name) l",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.site = b.site",
    "SELECT COUNT(*) FROM visits, visits v",
    "SELECT COUNT(*) FROM visits UNION SELECT SUM(age) FROM visits",
    "SELECT COUNT(*) FROM visits EXCEPT SELECT 1",
    "VALUES (1)",
    "SELECT COUNT(*) FROM (VALUES (1)) v",
    "SELECT (SELECT name FROM visits LIMIT 1), COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE age = (SELECT MAX(age) FROM visits)",
    "SELECT COUNT(*) FROM visits WHERE age IN (SELECT age FROM visits)",
    "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM visits)",
    "SELECT COUNT(*) FROM visits WHERE age > ALL (SELECT age FROM visits)",
    "SELECT COUNT(*) FROM visits WHERE length(repeat(name, 60000000)) > 0",
    "SELECT COUNT(*) FROM visits WHERE CASE WHEN sick THEN error('x') ELSE TRUE END",
    "SELECT COUNT(*) FROM visits WHERE random() < 0.5",
    "SELECT COUNT(*) FROM visits WHERE COUNT(*) > 1",
    "SELECT COUNT(*) FROM visits WHERE rowid = 1",
    "SELECT COUNT(*) FROM visits WHERE age",
    "SELECT COUNT(*) FROM visits WHERE age = 'x'",
    "SELECT SUM(name) FROM visits",
    "SELECT SUM(sick) FROM visits",
    "SELECT SUM(SUM(age)) FROM visits",
    "SELECT SUM(loose) FROM visits",
    "SELECT SUM(age / cost) FROM visits",
    "SELECT name, COUNT(*) FROM visits GROUP BY name",
    "SELECT pid, COUNT(*) FROM visits GROUP BY pid",
    "SELECT COUNT(*) FROM visits GROUP BY cost",
    "SELECT COUNT(*) FROM visits GROUP BY ALL",
    "SELECT COUNT(*) FROM visits GROUP BY ROLLUP (sex)",
    "SELECT COUNT(*) FROM visits GROUP BY CUBE (sex)",
    "SELECT COUNT(*) FROM visits GROUP BY GROUPING SETS ((sex), ())",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex ORDER BY name",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex ORDER BY 3",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex LIMIT 1 OFFSET 1",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex LIMIT 10 PERCENT",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex LIMIT (SELECT 1)",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex FETCH FIRST 1 ROWS WITH TIES",
    "SELECT SUM(0) FROM visits",
    "SELECT COUNT(*) AS n, SUM(age) AS N FROM visits",
    "SELECT COUNT(*) FROM visits FOR UPDATE",
    "SELECT COUNT(*) INTO t FROM visits",
    "SELECT COUNT(*) FROM visits AS v(a, b)",
    "SELECT COUNT(*) FROM visits AT (VERSION => 3)",
    "SELECT COUNT(*) FROM visits@1",
    "SELECT COUNT(*) FROM main.visits",
    "SELECT w.age, COUNT(*) FROM visits GROUP BY w.age",
    "SELECT COUNT(*) FROM visits PIVOT (COUNT(*) FOR sex IN ('F'))",
    "PIVOT visits ON sex USING COUNT(*)",
    'SELECT COUNT(*) FROM "visits; DROP TABLE visits"',
    "SELECT COUNT(*) FROM v\u0456sits",  # a Cyrillic letter
    "SELECT COUNT(*) FROM visits WHERE \uff41ge > 1",  # a full-width letter
    "SELECT COUNT(*) FROM visits LIMIT ²",
    "SELECT COUNT(*) FROM visits WHERE age > ٣",
    "SELECT COUNT(*) FROM visits WHERE name = 'a\0b'",
    "SELECT COUNT(*) FROM visits WHERE age > 1e999",
    "SELECT COUNT(*) FROM visits LIMIT " + "9" * 5000,
    "SELECT COUNT(*) FROM visits WHERE -'a' = 1",
    "SELECT COUNT(*) FROM visits WHERE day > 'yesterday'",
    "SELECT COUNT(*) FROM visits WHERE at > '2020-01-01 00:00:00+01:00'",
    "SELECT COUNT(*) FROM visits WHERE name LIKE sex",
    "SELECT COUNT(*) FROM visits WHERE name LIKE 'a' ESCAPE '!'",
    "SELECT COUNT(*) FROM visits WHERE name SIMILAR TO 'a.*'",
    "SELECT COUNT(*) FROM visits WHERE regexp_matches(name, '(a*)*b')",
    "SELECT COUNT(*) FROM visits WHERE repeat(name, 1000) = ''",
    "SELECT COUNT(*) FROM visits WHERE lpad(name, 1000000000, 'x') = ''",
    "SELECT COUNT(*) FROM visits WHERE substring(name, age, 1) = 'a'",
    "SELECT COUNT(*) FROM visits WHERE left(name, 1000000000) = 'a'",
    "SELECT COUNT(*) FROM visits WHERE round(cost, age) = 1",
    "SELECT COUNT(*) FROM visits WHERE power(cost, cost) = 1",
    "SELECT COUNT(*) FROM visits WHERE clip(cost, age, 5) = 1",
    "SELECT COUNT(*) FROM visits WHERE clip(cost, 9, 5) = 1",
    "SELECT COUNT(*) FROM visits WHERE CAST(cost AS TEXT) = '1'",
    "SELECT COUNT(*) FROM visits WHERE CAST(cost AS DECIMAL(10, 2)) = 1",
    "SELECT COUNT(*) FROM visits WHERE CAST(name AS BLOB) = 'a'",
    "SELECT COUNT(*) FROM visits WHERE CAST(name AS INTEGER[]) = 'a'",
    "SELECT COUNT(*) FROM visits WHERE day + INTERVAL 1 HOUR > day",
    "SELECT COUNT(*) FROM visits WHERE day + age * INTERVAL 1 DAY > day",
    "SELECT COUNT(*) FROM visits WHERE day + INTERVAL 99999999 YEAR > day",
    "SELECT COUNT(*) FROM visits WHERE day + 3 > day",
    "SELECT COUNT(*) FROM visits WHERE at - at > 1",
    "SELECT COUNT(*) FROM visits WHERE day > at",
    "SELECT COUNT(*) FROM visits WHERE extract(epoch FROM at) > 1",
    "SELECT COUNT(*) FROM visits WHERE date_trunc('hour', day) = day",
    "SELECT COUNT(*) FROM visits WHERE date_trunc('century', day) = day",
    "SELECT COUNT(*) FROM visits WHERE strftime(day, '%Y') = '2020'",
    "SELECT COUNT(*) FROM visits WHERE day > CURRENT_DATE",
    "SELECT COUNT(*) FROM visits WHERE at > now()",
    "SELECT COUNT(*) FROM visits WHERE log(3, age) > 1",
    "SELECT COUNT(*) FROM visits WHERE CASE WHEN age THEN TRUE END",
    "SELECT COUNT(*) FROM visits WHERE CASE WHEN sick THEN 1 ELSE 'a' END = 1",
    "SELECT COUNT(*) FROM visits WHERE coalesce(NULL, NULL)",
    "SELECT COUNT(*) FROM visits WHERE age = ANY([1, 2])",
    "SELECT COUNT(*) FROM visits WHERE (age, site) = (1, 2)",
    "SELECT COUNT(*) FROM visits WHERE age & 1 = 1",
    "SELECT COUNT(*) FROM visits WHERE age = $1",
    "SELECT COUNT(*) FROM visits WHERE age = ?",
    "SELECT COUNT(*) FROM visits WHERE name COLLATE NOCASE = 'a'",
    "SELECT COUNT(*) FROM visits WHERE at AT TIME ZONE 'UTC' > at",
    "SELECT COUNT(*) FROM visits WHERE age IN (1, site)",
    "SELECT COUNT(COLUMNS(*)) FROM visits",
    "SELECT AVG(DISTINCT age) FROM visits",
    "SELECT AVG(name) FROM visits",
    "SELECT AVG(loose) FROM visits",
    "SELECT COUNT(DISTINCT pid % 2) FROM visits",
    "SELECT COUNT(DISTINCT CASE WHEN sick THEN pid ELSE 1 END) FROM visits",
    "SELECT SUM(age) FILTER (WHERE COUNT(*) > 1) FROM visits",
    "SELECT SUM(age) FILTER (WHERE age) FROM visits",
    "SELECT SUM(age) FILTER (WHERE age IN (SELECT 1)) FROM visits",
    "SELECT MODE(age) FILTER (WHERE sick) FROM visits",
    "SELECT pid % 10 AS k, COUNT(*) FROM visits GROUP BY k",
    "SELECT COUNT(*) FROM visits GROUP BY CASE WHEN pid = 3 THEN 1 ELSE 0 END",
    "SELECT COUNT(*) FROM visits GROUP BY 'x'",
    "SELECT COUNT(*) FROM visits GROUP BY 2",
    "SELECT COUNT(*) AS n FROM visits GROUP BY n",
    "SELECT sex + 1, COUNT(*) FROM visits GROUP BY sex",
    "SELECT age + 1, COUNT(*) FROM visits GROUP BY age + 2",
    "SELECT *, COUNT(*) FROM visits GROUP BY sex",
    "SELECT COUNT(*) AS a, a + 1 AS b FROM visits",
    "SELECT sex FROM visits GROUP BY sex HAVING age > 1 AND COUNT(*) > 2",
    "SELECT COUNT(*) FROM visits HAVING MODE(age) > 3",
    "SELECT COUNT(*) FROM visits HAVING COUNT(*)",
    "SELECT COUNT(*) FROM visits HAVING COUNT(*) > (SELECT 3)",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex ORDER BY sex NULLS FIRST",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex ORDER BY MODE(age)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT sex FROM visits) t",
    "SELECT COUNT(*) FROM (SELECT sex FROM visits ORDER BY age) t",
    "SELECT COUNT(*) FROM (SELECT sex FROM visits LIMIT 3) t",
    "SELECT COUNT(*) FROM (SELECT sex FROM visits UNION SELECT sex FROM visits) t",
    "SELECT COUNT(*) FROM (SELECT sex, ROW_NUMBER() OVER () AS r FROM visits) t WHERE r = 1",
    "SELECT COUNT(*) FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) t",
    "SELECT SUM(n) FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) t",
    "SELECT sex FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) t",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM visits LIMIT 1) t WHERE n > 3",
    "SELECT DISTINCT n FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) t",
    "SELECT age FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) t",
    "SELECT * FROM (SELECT * FROM visits) t",
    "SELECT * EXCLUDE (name) FROM (SELECT * FROM visits) t",
    "SELECT COUNT(*) FROM (SELECT age AS a, sex AS a FROM visits) t",
    "SELECT SUM(age) FROM (SELECT sex FROM visits) t",
    "SELECT SUM(visits.age) FROM (SELECT age FROM visits) t",
    "SELECT COUNT(DISTINCT pid + 1) FROM visits",
    "SELECT p, COUNT(*) FROM (SELECT pid AS p FROM visits) t GROUP BY p",
    "SELECT COUNT(*) FROM (visits)",
    "SELECT COUNT(*) FROM (SELECT age FROM visits) AS t(a)",
    "WITH t(a) AS (SELECT age FROM visits) SELECT COUNT(*) FROM t",
    "WITH t AS MATERIALIZED (SELECT age FROM visits) SELECT COUNT(*) FROM t",
    "WITH t AS (VALUES (1)) SELECT COUNT(*) FROM t",
    "WITH t AS (SELECT MODE(age) AS m FROM visits) SELECT COUNT(*) FROM visits",
    "WITH t AS (SELECT * FROM u), u AS (SELECT * FROM visits) SELECT COUNT(*) FROM t",
    "WITH RECURSIVE t AS (SELECT * FROM visits) SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM visits WINDOW w AS (ORDER BY age)",
    "SELECT COUNT(*) FROM visits CROSS JOIN (SELECT 1)",
    "SELECT COUNT(*) FROM visits NATURAL JOIN visits",
    "SELECT COUNT(*) FROM UNNEST([1, 2])",
    "SELECT UNNEST([1]), COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM visits GROUP BY sex, ()",
]  # fmt: skip

G21 = [
    "PRAGMA database_list",
    "SET threads = 1",
    "ATTACH 'x.db'",
    "DETACH x",
    "COPY visits TO 'out.csv'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
    "SELECT COUNT(*) FROM read_parquet('x.parquet')",
    "SELECT COUNT(*) FROM 'x.parquet'",
    "SELECT COUNT(*) FROM query('SELECT 1')",
    "SELECT COUNT(*) FROM query_table('visits')",
    "SELECT setseed(0.5), COUNT(*) FROM visits",
    "SELECT getenv('HOME'), COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM information_schema.tables",
    "SELECT COUNT(*) FROM duckdb_tables()",
    "SELECT estimated_size FROM duckdb_tables",
    "EXPLAIN SELECT COUNT(*) FROM visits",
    "EXPLAIN ANALYZE SELECT COUNT(*) FROM visits",
    "SUMMARIZE visits",
    "DESCRIBE visits",
    "SHOW TABLES",
    "CALL pragma_storage_info('visits')",
    "SELECT COUNT(*) FROM visits; SELECT 1",
    "SELECT COUNT(*) FROM visits; DROP TABLE visits",
    "SELECT 1; SELECT COUNT(*) FROM visits",
    "INSERT INTO visits VALUES (1)",
    "UPDATE visits SET age = 1",
    "DELETE FROM visits",
    "DROP TABLE visits",
    "CREATE TABLE t AS SELECT * FROM visits",
    "ALTER TABLE visits ADD COLUMN x INT",
    "WITH x AS (DELETE FROM visits RETURNING *) SELECT COUNT(*) FROM x",
    "BEGIN",
    "CREATE MACRO f(x) AS x",
    "VACUUM",
    "CHECKPOINT",
    "EXPORT DATABASE 'x'",
    "USE memory",
    "SELECT COUNT(*) FROM visits WHERE pg_sleep(1)",
    "SELECT COUNT(*) FROM visits WHERE current_setting('x') = 'y'",
    "",
    " ",
    ";",
    "-- nothing",
    "/* nothing */",
    "SELECT",
    "SELECT COUNT(* FROM visits",
    "SELECT COUNT(*)",
    "select 'unended FROM visits",
    "\ufeff\u200b",
    "(SELECT COUNT(*) FROM visits)",
]  # fmt: skip


@pytest.mark.parametrize("text", [*G19, *G21])
def test_refuses_and_says_which_part_why_and_what_instead(text: str) -> None:
    """gate:G19 gate:G21 threat:A10 threat:A16 threat:A17 threat:A18 threat:A19"""
    found = refusal(text)
    assert found.part
    assert found.why.endswith(".")
    assert found.instead.endswith((".", "?"))
    assert str(found).endswith("Nothing was charged.")
    assert len(str(found)) < 500


def test_refusals_cost_nothing_and_never_reach_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """gate:G19 gate:G21 threat:A13 charge 0, no query, no word from the rows."""
    curator = open_visits()
    spy = Spy(curator, monkeypatch)
    before = len(list(curator.ledger.entries()))
    for text in [*G19, *G21]:
        with pytest.raises(Refused) as caught:
            curator.sql(text, epsilon=0.1)
        assert CANARY not in str(caught.value)
        assert caught.value.__cause__ is None
    assert spy.queries == []
    assert curator.budget.spent.amount == 0
    assert len(list(curator.ledger.entries())) == before


LONG = {
    "10,000 parentheses": "SELECT COUNT(*) FROM visits WHERE " + "(" * 10_000 + "age = 1" + ")" * 10_000,
    "10,000 NOT": "SELECT COUNT(*) FROM visits WHERE " + "NOT " * 10_000 + "sick",
    "9,000 minus signs": "SELECT COUNT(*) FROM visits WHERE age > " + "- " * 9_000 + "1",
    "100,000 constants": f"SELECT COUNT(*) FROM visits WHERE age IN ({','.join(map(str, range(100_000)))})",
    "ten megabytes": "SELECT COUNT(*) FROM visits" + " " * 10_000_000,
    "2,000 terms": f"SELECT SUM({'+'.join(['age'] * 2_000)}) FROM visits",
    "300 terms": f"SELECT SUM({'+'.join(['age'] * 300)}) FROM visits",
    "2,000 CASE": "SELECT COUNT(*) FROM visits WHERE " + "CASE WHEN " * 2_000 + "1",
    "2,000 sub-queries": "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 2_000 + "visits" + ")" * 2_000,
    "5,000 brackets": "SELECT " + "[" * 5_000 + "1" + "]" * 5_000 + " FROM visits",
    "20,000 comments": "SELECT COUNT(*) FROM visits " + "/*" * 20_000,
    "doubling columns": "WITH t0 AS (SELECT age AS x FROM visits)"
    + "".join(f", t{i + 1} AS (SELECT x + x AS x FROM t{i})" for i in range(200))
    + " SELECT SUM(x) FROM t200",
    "doubling conditions": "WITH t0 AS (SELECT sick AS x FROM visits)"
    + "".join(f", t{i + 1} AS (SELECT x OR NOT x AS x FROM t{i} WHERE x)" for i in range(200))
    + " SELECT COUNT(*) FROM t200",
    "doubling releases": "WITH t0 AS (SELECT COUNT(*) AS x FROM visits)"
    + "".join(f", t{i + 1} AS (SELECT x + x AS x FROM t{i})" for i in range(200))
    + " SELECT x FROM t200",
    "wide columns": "WITH t0 AS (SELECT age AS x FROM visits)"
    + "".join(f", t{i + 1} AS (SELECT x + x AS x FROM t{i})" for i in range(12))
    + f" SELECT {', '.join(f'SUM(x + {i}) AS s{i}' for i in range(400))} FROM t12",
    "wide outputs": "WITH t0 AS (SELECT COUNT(*) AS x FROM visits)"
    + "".join(f", t{i + 1} AS (SELECT x + x AS x FROM t{i})" for i in range(12))
    + f" SELECT {', '.join(f'x + {i} AS s{i}' for i in range(400))} FROM t12",
    "wide keys": "WITH t0 AS (SELECT age AS x FROM visits)"
    + "".join(f", t{i + 1} AS (SELECT x + x AS x FROM t{i})" for i in range(12))
    + f" SELECT COUNT(*) FROM t12 GROUP BY {', '.join(f'x + {i}' for i in range(400))}",
    "2,000 WITH": "WITH "
    + ", ".join(f"t{i} AS (SELECT * FROM {f't{i - 1}' if i else 'visits'})" for i in range(900))
    + " SELECT COUNT(*) FROM t899, t0",
    "300 levels": "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 300 + "visits" + ")" * 300 + " HAVING 1",
    "doubling": "SELECT COUNT(*) FROM visits WHERE " + "(" * 40 + "sick" + " BETWEEN sick AND sick)" * 40,
}


@pytest.mark.parametrize("name", LONG)
def test_huge_questions_are_refused_in_bounded_time(name: str) -> None:
    """gate:G53 neither the stack nor the clock is at the analyst's mercy."""
    start = time.process_time()
    assert "Nothing was charged" in str(refusal(LONG[name]))
    assert time.process_time() - start < 1


@pytest.mark.parametrize("word", ["OR", "AND"])
def test_long_chains_of_conditions_are_read(word: str) -> None:
    """A chain becomes a tree that is no deeper than it must be."""
    chain = f" {word} ".join(f"age = {i}" for i in range(500))
    read = question(f"SELECT COUNT(*) FROM visits WHERE {chain}")
    assert isinstance(read.where, Call)
    assert read.where.depth < 16


def test_names_mean_what_stands_inside() -> None:
    """gate:G15 threat:A7 bounds, units and keys follow the expression, whatever its name."""

    def argument(text: str) -> Expression:
        [aggregate] = question(text).aggregates
        return aggregate.arguments[0]

    wide = "SELECT SUM(age) FROM (SELECT age * 1000 AS age FROM visits) t"
    assert bounds_of(argument(wide)) == interval(0, 120_000)
    assert bounds_of(argument("SELECT SUM(age) FROM (SELECT loose AS age, age AS loose FROM visits) t")) is None
    assert bounds_of(argument("SELECT SUM(cost) FROM (SELECT age AS cost FROM visits) t")) == interval(0, 120)
    twice = "WITH t AS (SELECT age + 1 AS age FROM visits) SELECT SUM(age) FROM (SELECT age + 1 AS age FROM t) u"
    assert bounds_of(argument(twice)) == interval(2, 122)
    merged = question(
        "SELECT k, COUNT(*) FROM (SELECT CASE WHEN sex = 'F' THEN 1 ELSE 1 END AS k FROM visits) GROUP BY k"
    )
    assert isinstance(merged.keys[0], Call)
    renamed = question("SELECT COUNT(DISTINCT who) FROM (SELECT pid AS who FROM visits) t")
    assert renamed.canonical() == "visits|||count_units()"


def test_parts_of_keys_are_shown_and_nothing_else() -> None:
    read = question("SELECT age + 1 AS a, (age + 1) * 2 AS b, COUNT(*) FROM visits GROUP BY age + 1")
    assert [type(output.expression) for output in read.outputs] == [Key, Call, Slot]
    assert not any(isinstance(part, Column) for expression in read.above for part in walk(expression))


def test_aggregates_in_having_and_order_are_paid() -> None:
    """threat:A30 what decides over the answer is released as well."""
    read = question("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex HAVING SUM(age) > 3 ORDER BY AVG(cost)")
    assert {aggregate.name for aggregate in read.aggregates} == {"count_rows", "sum", "mean"}


def test_the_deepest_allowed_question_is_answered() -> None:
    """What reading lets through cannot run out of stack after the charge."""
    curator = open_visits()
    deep = "+".join(["age"] * (MOST_DEPTH + 1))
    assert len(curator.sql(f"SELECT SUM({deep}) AS s FROM visits", epsilon=0.1)) == 1
    assert len(curator.sql(f"SELECT {deep.replace('age', 'COUNT(*)')} AS s FROM visits", epsilon=0.1)) == 1
    with pytest.raises(Refused, match="nested too deeply"):
        curator.sql(f"SELECT SUM({deep} + age) AS s FROM visits", epsilon=0.1)


WORDS = ["SELECT", "COUNT(*)", "FROM", "visits", "WHERE", "age", "sex", "(", ")", ",", "=", "'x'", "1", "GROUP BY", "*",
         "ORDER BY", "LIMIT", "NOT", "AND", "-", "'", '"', ";", "--", "/*", "*/", "NULL", "IS", "IN", "BETWEEN", "::",
         "DATE", "CAST(", "AS", ".", "[", "]", "{", "$1", "?", "@", "#", "1e5", "U&", "E'\\n'", "\t"]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_question_or_a_refusal(text: str) -> None:
    assert isinstance(read_sql(text, CATALOG), Question | Refusal)
    assert isinstance(read_sql(f"SELECT COUNT(*) FROM visits WHERE {text}", CATALOG), Question | Refusal)


@given(st.text(max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_unicode_is_a_question_or_a_refusal(text: str) -> None:
    assert isinstance(read_sql(text, CATALOG), Question | Refusal)
    assert isinstance(read_sql(f"SELECT COUNT(*) FROM visits WHERE sex = '{text}'", CATALOG), Question | Refusal)


@pytest.mark.parametrize("error", [ValueError("secret"), KeyError("secret"), RecursionError("secret")])
def test_a_failing_parser_is_a_refusal(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(sql.sqlglot, "parse", broken)
    assert "secret" not in str(refusal("SELECT COUNT(*) FROM visits"))


def test_typos_get_the_nearest_name() -> None:
    assert "Did you mean `visits`?" in str(refusal("SELECT COUNT(*) FROM vists"))
    assert "Did you mean `cost`?" in str(refusal("SELECT SUM(costs) FROM visits"))


def test_the_unit_is_no_key() -> None:
    """threat:A16 gate:G23"""
    assert "protected unit" in str(refusal("SELECT PID, COUNT(*) FROM visits GROUP BY PID"))


def test_only_known_modifiers_pass() -> None:
    """A node that the parser learns tomorrow is refused, whatever it means."""
    statement = sqlglot.parse_one("SELECT COUNT(*) FROM visits", read="duckdb")
    statement.args["tomorrow"] = True
    with pytest.raises(Exception, match="`tomorrow` is not read"):
        sql._relation(statement, sql.Names(CATALOG, {}))


def test_every_aggregate_is_planned() -> None:
    read = question(
        "SELECT COUNT(*) a, COUNT(age) b, COUNT(DISTINCT pid) c, SUM(age) d, AVG(cost) e, COUNT(DISTINCT name) f, "
        "VAR_POP(cost) g, VARIANCE(cost) h, STDDEV_POP(cost) i, STDDEV(cost) j, COVAR_POP(age, cost) k, "
        "COVAR_SAMP(age, cost) l, CORR(age, cost) m, REGR_SLOPE(age, cost) n, REGR_INTERCEPT(age, cost) o, "
        "MEDIAN(age) p FROM visits"
    )
    assert {aggregate.name for aggregate in read.aggregates} == set(FUNCTIONS)
    plan = make_plan(read, Pure(1))
    assert isinstance(plan, Plan)
    assert len(plan.measures) == 8


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("MEDIAN(age)", "QUANTILE_CONT(age, 0.5)"),
        ("MEDIAN(age)", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age)"),
        ("MIN(age)", "QUANTILE_CONT(age, 0)"),
        ("MAX(age)", "QUANTILE_CONT(age, 1)"),
        ("VARIANCE(age)", "VAR_SAMP(age)"),
        ("STDDEV(age)", "STDDEV_SAMP(age)"),
    ],
)
def test_names_of_one_statistic_are_one_question(one: str, other: str) -> None:
    left, right = (question(f"SELECT {text} AS a FROM visits") for text in (one, other))
    assert left == right


@pytest.mark.parametrize("level", ["1.5", "-0.1", "age", "NULL", "[0.5, 0.9]"])
def test_levels_of_quantiles_are_constants(level: str) -> None:
    assert isinstance(read_sql(f"SELECT QUANTILE_CONT(age, {level}) FROM visits", CATALOG), Refusal)
