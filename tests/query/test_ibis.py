"""Reading Ibis expressions: the same question as from SQL, and the same refusals."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import ibis as ib
import pyarrow as pa
import pytest

from lapwing.errors import Refused
from lapwing.query.ibis import BINARY, read_ibis, unbound
from lapwing.query.operators import IN, IS_NULL, NOT, OPERATORS
from lapwing.query.question import Question
from lapwing.query.sql import read_sql
from lapwing.query.verdict import Refusal
from support.visits import Spy, open_visits, visits_catalog, visits_table

CATALOG = visits_catalog()
T = unbound(visits_table())


def count(condition: Any) -> Any:
    return T.filter(condition).aggregate(n=lambda t: t.count())


def test_every_operator_can_be_written() -> None:
    assert {*BINARY.values(), NOT, IS_NULL, IN} == set(OPERATORS)


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
    where("cost > -2.5"): lambda: count(T.cost > -2.5),
    where("day > DATE '2020-12-31'"): lambda: count(T.day > date(2020, 12, 31)),
    where("at > TIMESTAMP '2020-12-31 10:30:00'"): lambda: count(T.at > datetime(2020, 12, 31, 10, 30)),  # noqa: DTZ001
    "SELECT COUNT(*) AS count FROM visits": lambda: T.count(),
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
    read = [read_sql(text, CATALOG) for text in SAME]
    seen = " ".join(question.canonical() + str(question.outputs) for question in read if isinstance(question, Question))
    assert all(f"{operator.name}(" in seen or f"'{operator.name}'" in seen for operator in OPERATORS)


OTHER = ib.table({"pid": "int64"}, name="other")
REFUSED: dict[str, Callable[[], Any]] = {
    "the rows": lambda: T,
    "a column": lambda: T.name,
    "a projection": lambda: T.select("name"),
    "max": lambda: T.age.max(),
    "mean": lambda: T.age.mean(),
    "first": lambda: T.aggregate(x=T.name.first()),
    "collect": lambda: T.aggregate(x=T.name.collect()),
    "arbitrary": lambda: T.aggregate(x=T.name.arbitrary()),
    "distinct": lambda: T.distinct().count(),
    "nunique": lambda: T.aggregate(n=T.name.nunique()),
    "limit below": lambda: T.limit(1).count(),
    "order below": lambda: T.order_by("age").limit(1).aggregate(n=lambda t: t.age.sum()),
    "sample": lambda: T.sample(0.5).count(),
    "mutate below": lambda: T.mutate(age=T.age * 1000).aggregate(n=lambda t: t.age.sum()),
    "join": lambda: T.join(OTHER, "pid").count(),
    "union": lambda: T.union(T).count(),
    "unknown table": lambda: OTHER.count(),
    "unknown column": lambda: ib.table({"salary": "int64"}, name="visits").salary.sum(),
    "window": lambda: T.mutate(n=T.age.sum().over(group_by="sex")).count(),
    "sub-query": lambda: T.filter(T.age > T.age.mean()).count(),
    "where inside": lambda: T.aggregate(n=T.count(where=T.age > 1)),
    "having": lambda: T.group_by("sex").agg(n=T.count()).filter(lambda t: t.n > 3),
    "cast": lambda: T.aggregate(n=T.name.cast("int64").sum()),
    "function": lambda: T.filter(T.name.length() > 1).count(),
    "like": lambda: T.filter(T.name.like("Z%")).count(),
    "modulus": lambda: T.filter(T.age % 2 == 0).count(),
    "floor division": lambda: T.filter(T.age // 2 == 0).count(),
    "case": lambda: T.aggregate(n=ib.ifelse(T.sick, T.age, 0).sum()),
    "random": lambda: T.filter(ib.random() < 0.5).count(),
    "sum of truth": lambda: T.aggregate(n=T.sick.sum()),
    "unit as a key": lambda: T.group_by("pid").agg(n=T.count()),
    "expression as a key": lambda: T.group_by(a=T.age + 1).agg(n=T.count()),
    "offset": lambda: T.group_by("sex").agg(n=T.count()).limit(1, offset=1),
    "aggregate of aggregates": lambda: T.group_by("sex").agg(n=T.count()).n.sum(),
    "in memory": lambda: ib.memtable(pa.table({"pid": [1]})).count(),
    "zone": lambda: count(T.at > datetime(2020, 1, 1, tzinfo=UTC)),
    "not a number": lambda: count(T.cost > float("nan")),
    "infinite": lambda: count(T.cost > float("inf")),
    "text beside a number": lambda: count(T.sick == (T.name == "x")).n.max(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_everything_else(name: str) -> None:
    """gate:G19 in the other language."""
    found = read_ibis(REFUSED[name](), CATALOG)
    assert isinstance(found, Refusal), found
    assert str(found).endswith("Nothing was charged.")


@pytest.mark.parametrize("thing", [None, 3, "SELECT 1", object(), T.op()])
def test_refuses_what_is_no_expression(thing: object) -> None:
    assert isinstance(read_ibis(thing, CATALOG), Refusal)


def test_depth_is_limited() -> None:
    condition = T.age > 0
    for i in range(300):
        condition = condition | (T.age > i)
    assert isinstance(read_ibis(count(condition), CATALOG), Refusal)


def test_an_unbound_table_cannot_execute() -> None:
    with pytest.raises(Exception, match=r"[Uu]nbound|backend"):
        T.count().execute()


def test_a_refused_expression_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = open_visits()
    spy = Spy(curator, monkeypatch)
    visits = curator.table("visits")
    with pytest.raises(Refused):
        curator.ask(visits.age.max(), epsilon=0.1)
    with pytest.raises(Refused, match="Did you mean `visits`"):
        curator.table("visit")
    assert (spy.queries, curator.budget.spent.amount) == ([], 0)
    assert len(curator.ask(visits.group_by("sex").agg(n=visits.count()), epsilon=0.1)) == 2
    assert len(spy.queries) == 1
