"""Reading SQL: what is allowed gives one question. What is refused stands in test_sql_refused.py."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from lapwing.errors import Refused
from lapwing.expressions.expression import Call, Column, Expression, Key, Operator, Slot, walk
from lapwing.expressions.operators.base import MOST_DEPTH
from lapwing.expressions.operators.table import OPERATORS, bounds_of
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type
from lapwing.plan.aggregates import FUNCTIONS
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.postprocessed import SplitStatement
from lapwing.plan.question import Question
from lapwing.privacy import Pure
from lapwing.sql import read_sql, reader
from lapwing.sql.split import read_query, read_statement
from support.refusals import attempt
from support.visits import interval, open_visits, visits_catalog

CATALOG = visits_catalog()


def question(text: str) -> Question:
    read = read_sql(text, CATALOG)
    assert isinstance(read, Question), f"{text}: {read}"
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
                Field("t", Type.TIMESTAMP, zone="UTC"),
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


def test_a_star_excludes_columns() -> None:
    few = "SELECT AVG(cost) AS m FROM (SELECT sex, cost FROM visits) WHERE cost > 1"
    text = "SELECT AVG(cost) AS m FROM (SELECT * EXCLUDE (name, Sick) FROM visits) WHERE cost > 1"
    assert read_sql(text, CATALOG) == read_sql(few, CATALOG)
    groups = "(SELECT sex, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY sex)"
    assert [o.name for o in read_sql(f"SELECT t.* EXCLUDE (m) FROM {groups} AS t", CATALOG).outputs] == ["sex", "n"]
    above = read_statement(f"SELECT * EXCLUDE (m), RANK() OVER (ORDER BY n) AS r FROM {groups}", CATALOG)
    assert [name for name, _, _ in above.columns] == ["sex", "n", "r"]


@pytest.mark.parametrize("column", ["nothing", "visits.name"])
def test_a_star_excludes_only_columns_that_it_has(column: str) -> None:
    text = f"SELECT AVG(cost) FROM (SELECT * EXCLUDE ({column}) FROM visits)"
    assert isinstance(attempt(read_sql, text, CATALOG), Refused)
    assert isinstance(attempt(read_sql, "SELECT COUNT(* EXCLUDE (name)) FROM visits", CATALOG), Refused)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SELECT COUNT(*) FROM visits", Question),
        ("(SELECT COUNT(*) FROM visits)", Question),
        ("SELECT DISTINCT sex FROM visits", Question),
        ("SELECT sex, COUNT(*) FROM visits GROUP BY ALL", Question),
        ("SELECT n FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) WHERE n > 1 ORDER BY n LIMIT 1", Question),
        ("SELECT AVG(n) FROM (SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid)", Question),
        ("SELECT AVG(n) FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex)", SplitStatement),
        ("SELECT 2 * n AS m, m + 1 AS k FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex)", SplitStatement),
        ("SELECT sex, COUNT(*), RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY sex", SplitStatement),
        ("SELECT sex, COUNT(*) FROM visits GROUP BY ROLLUP (sex)", SplitStatement),
        ("SELECT COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*) FROM visits WHERE sick", SplitStatement),
        ("SELECT (SELECT COUNT(*) FROM visits) AS n", SplitStatement),
        ("SELECT name FROM visits", type(None)),
        ("SELECT AVG(name) FROM visits", type(None)),
    ],
)
def test_a_select_is_a_question_or_a_statement_by_what_it_reads(text: str, kind: type) -> None:
    """None is refused below the release, where a question would be."""
    assert type(read_query(CATALOG, text, None)) is kind


def test_every_select_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[str]()
    original = reader.read_source

    def counting(select: exp.Select, *arguments: Any) -> Any:
        read.append(select.sql())
        return original(select, *arguments)

    monkeypatch.setattr(reader, "read_source", counting)
    inner = "SELECT pid, sex, COUNT(*) AS visits FROM visits WHERE age > 3 GROUP BY pid, sex"
    middle = f"SELECT sex, COUNT(*) AS n FROM ({inner}) WHERE visits > 1 GROUP BY sex"
    found = read_query(CATALOG, f"SELECT sex, RANK() OVER (ORDER BY n) AS r FROM ({middle})", None)
    assert isinstance(found, SplitStatement)
    assert len(read) == len(set(read)) == 2
