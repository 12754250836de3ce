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
from lapwing.query.operators import IN, IS_NULL, MOST_DEPTH, NOT, OPERATORS
from lapwing.query.plan import Plan, make_plan
from lapwing.query.question import Question
from lapwing.query.sql import BINARY, read_sql
from lapwing.query.verdict import Refusal
from support.visits import CANARY, Spy, open_visits, visits_catalog

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


def test_every_operator_can_be_written() -> None:
    """The table of binary nodes and the three special forms cover all operators there are."""
    assert {*BINARY.values(), NOT, IS_NULL, IN} == set(OPERATORS)


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
    "SELECT MIN(age) FROM visits",
    "SELECT MAX(age) FROM visits",
    "SELECT FIRST(age) FROM visits",
    "SELECT LAST(age) FROM visits",
    "SELECT ANY_VALUE(name) FROM visits",
    "SELECT ARG_MAX(name, age) FROM visits",
    "SELECT MODE(name) FROM visits",
    "SELECT LIST(name) FROM visits",
    "SELECT ARRAY_AGG(name) FROM visits",
    "SELECT STRING_AGG(name, ',') FROM visits",
    "SELECT MEDIAN(age) FROM visits",
    "SELECT QUANTILE_CONT(age, 0.5) FROM visits",
    "SELECT AVG(age) FROM visits",
    "SELECT STDDEV(age) FROM visits",
    "SELECT APPROX_COUNT_DISTINCT(pid) FROM visits",
    "SELECT HISTOGRAM(age) FROM visits",
    "SELECT stats(age) FROM visits",
    "SELECT COUNT(*) FROM visits USING SAMPLE 3",
    "SELECT COUNT(*) FROM visits TABLESAMPLE 10%",
    "SELECT DISTINCT sex FROM visits",
    "SELECT DISTINCT ON (sex) name FROM visits",
    "SELECT COUNT(DISTINCT name) FROM visits",
    "SELECT COUNT(DISTINCT pid, age) FROM visits",
    "SELECT SUM(DISTINCT age) FROM visits",
    "SELECT COUNT(*) OVER () FROM visits",
    "SELECT ROW_NUMBER() OVER (ORDER BY age) FROM visits",
    "SELECT COUNT(*) FROM visits QUALIFY ROW_NUMBER() OVER () = 1",
    "SELECT COUNT(*) FILTER (WHERE age > 1) FROM visits",
    "SELECT SUM(age ORDER BY age) FROM visits",
    "SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 1) t",
    "SELECT COUNT(*) FROM (SELECT * FROM visits ORDER BY age LIMIT 1) t",
    "WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT COUNT(*) FROM r",
    "WITH t AS (SELECT * FROM visits) SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM visits, LATERAL (SELECT name) l",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.pid = b.pid",
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
    "SELECT COUNT(*) FROM visits WHERE name LIKE 'Z%'",
    "SELECT COUNT(*) FROM visits WHERE length(repeat(name, 60000000)) > 0",
    "SELECT COUNT(*) FROM visits WHERE CASE WHEN sick THEN error('x') ELSE TRUE END",
    "SELECT COUNT(*) FROM visits WHERE random() < 0.5",
    "SELECT COUNT(*) FROM visits WHERE CAST(name AS INTEGER) = 1",
    "SELECT COUNT(*) FROM visits WHERE name::INTEGER = 1",
    "SELECT COUNT(*) FROM visits WHERE TRY_CAST(name AS INTEGER) = 1",
    "SELECT COUNT(*) FROM visits WHERE ln(age) > 1",
    "SELECT COUNT(*) FROM visits WHERE age % 2 = 0",
    "SELECT COUNT(*) FROM visits WHERE age // 2 = 0",
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
    "SELECT COUNT(*) FROM visits GROUP BY age + 1",
    "SELECT sex, COUNT(*) FROM visits GROUP BY 1",
    "SELECT COUNT(*) FROM visits GROUP BY ALL",
    "SELECT COUNT(*) FROM visits GROUP BY ROLLUP (sex)",
    "SELECT COUNT(*) FROM visits GROUP BY CUBE (sex)",
    "SELECT COUNT(*) FROM visits GROUP BY GROUPING SETS ((sex), ())",
    "SELECT COUNT(*) AS n FROM visits HAVING COUNT(*) > 3",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex ORDER BY name",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex ORDER BY 3",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex LIMIT 1 OFFSET 1",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex LIMIT 10 PERCENT",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex LIMIT (SELECT 1)",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex FETCH FIRST 1 ROWS WITH TIES",
    "SELECT COUNT(*) > 5 AS b FROM visits",
    "SELECT COUNT(*) + NULL AS b FROM visits",
    "SELECT NOT (COUNT(*) IN (1)) AS b FROM visits",
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
    "doubling": "SELECT COUNT(*) FROM visits WHERE " + "(" * 40 + "sick" + " BETWEEN sick AND sick)" * 40,
}


@pytest.mark.parametrize("name", LONG)
def test_huge_questions_are_refused_in_bounded_time(name: str) -> None:
    """gate:G53 neither the stack nor the clock is at the analyst's mercy."""
    start = time.process_time()
    assert "Nothing was charged" in str(refusal(LONG[name]))
    assert time.process_time() - start < 5


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
        sql._Reading(statement, CATALOG)


def test_every_aggregate_is_planned() -> None:
    read = question("SELECT COUNT(*) a, COUNT(age) b, COUNT(DISTINCT pid) c, SUM(age) d FROM visits")
    assert {aggregate.name for aggregate in read.aggregates} == set(FUNCTIONS)
    assert isinstance(make_plan(read, Pure(1)), Plan)
