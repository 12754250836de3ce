"""Every place that refuses with advice, outside of the reading of SQL: the advice is followed, and does what it says.

A case asks what is refused, applies what the refusal says to do, the argument, the declared line or the rewrite, and
compares what that gives with what was meant. Where the advice means something else, the case checks that it says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.answers.computed import check_combinable
from lapwing.answers.distribution import ask_distribution
from lapwing.curator import Curator
from lapwing.curator.pricing import Terms
from lapwing.curator.request import QuestionRequest, Request
from lapwing.engines.spark_dialect import SPARK
from lapwing.errors import BudgetExceeded, LapwingError, Refused
from lapwing.expressions import phrases
from lapwing.expressions.expression import Column
from lapwing.expressions.operators import logic, text
from lapwing.plan.plan import make_outline, make_plan
from lapwing.plan.query import cells_query
from lapwing.privacy import Budget, Pure
from lapwing.privacy.filter import Filter
from lapwing.privacy.loss import ZCDP, Approximate
from lapwing.server.timing import check_operators
from lapwing.sql import read_sql
from support.advice import advising, recorded, refusing
from support.exact import EPSILON, VISITS, asked, open_exact, truth
from test_advice import DIFFERS, SAME

N = "SELECT COUNT(*) AS n FROM visits"
HUGE = 10**7
FACTS: dict[str, Any] = {
    "unit": "pid",
    "rows_per_unit": 8,
    "bounds": {"cost": (0, 64), "age": (0, 127), "site": (0, 9)},
    "values": {
        "name": ["Ann", "bob", "a_b", "a*b", None],
        "sex": ["F", "M", None],
        "site": [1, 2, 3, 4, None],
        "code": list("01234"),
        "sick": [False, True, None],
    },
}
ADVISERS: list[Callable[..., Any]] = [
    phrases.cure_of,
    phrases.cure_of_cast,
    logic._constants,
    text._regular_expression,
    text._pattern,
    text._plain,
    text._positions,
    text._amount,
    text._replaced,
    text._split,
]
"""Functions that write advice for others to refuse with: each of their returns is a case."""
CODES = {function.__code__ for function in ADVISERS}


def world(rows: Any = VISITS, *, budget: Budget | None = None, **facts: Any) -> Curator:
    """The visits with these facts declared, besides or in place of the usual ones; None takes one away."""
    known = {}
    for name, usual in FACTS.items():
        changed = facts.pop(name, {} if isinstance(usual, dict) else usual)
        merged = {**usual, **changed} if isinstance(usual, dict) and isinstance(changed, dict) else changed
        known[name] = {k: v for k, v in merged.items() if v is not None} if isinstance(merged, dict) else merged
    usual_budget = Budget(epsilon=HUGE * EPSILON)
    return lw.open(rows, name="visits", budget=budget or usual_budget, ledger=":memory:", check=0, **known, **facts)


@cache
def usual() -> Curator:
    return world()


@cache
def placed() -> Curator:
    """A curator for distributions, in which a unit counts in one cell."""
    return world(groups_per_unit=1)


@cache
def selecting() -> Curator:
    """A curator that selects keys: names are not declared, and the budget has a delta."""
    budget = Budget(epsilon=HUGE, delta=1e-3, accounting="basic")
    return world(budget=budget, values={"name": None}, groups_per_unit=4)


PLACES: set[str] = set()


def advised(says: str, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """The refusal of a call, whose advice says this; notes where it was made."""
    with recorded(CODES) as made:
        try:
            call(*args, **named)
        except (Refused, BudgetExceeded) as error:
            refused: LapwingError = error
        else:
            raise AssertionError("nothing was refused")
    assert says in str(refused.instead), refused.instead
    PLACES.update(place for place, instead in made if instead in str(refused.instead))
    return refused


def rewritten(says: str, question: str, rewrite: str, meant: str | None = None) -> None:
    """A question whose rewrite means the same, by DuckDB."""
    advised(says, usual().preview, f"SELECT {question}", epsilon=1)
    assert asked(usual(), f"SELECT {rewrite}") == truth(f"SELECT {meant or question}")


def declared(says: str, question: str, *, before: Curator, after: Curator, **terms: Any) -> None:
    """A question that is answered, as it is, after the steward declared a line."""
    advised(says, before.preview, f"SELECT {question}", **(terms or {"epsilon": 1}))
    assert asked(after, f"SELECT {question}") == truth(f"SELECT {question}")


def answered(curator: Curator, question: str, **terms: Any) -> Any:
    return curator.sql(question, **terms)


# Answers


def combine_of_a_workload() -> None:
    outline = ask_distribution(placed().catalog, "age", table=None, where=None, cells=None)
    advised("Leave `combine` out", check_combinable, outline)
    assert len(placed().distribution("age", epsilon=1).cdf()) == 128


def combine_of_selected_keys() -> None:
    asks = partial(answered, question="SELECT name, COUNT(*) AS n FROM visits GROUP BY name", epsilon=9, refresh=True)
    advised("declare the values of the keys", asks, selecting(), combine=True)
    assert asks(selecting()) is not None
    asks(usual())
    assert len(asks(usual(), combine=True).entries) == 2


def combine_of_a_mean() -> None:
    asks = partial(answered, usual(), epsilon=EPSILON, refresh=True, combine=True)
    advised("SUM(x) / COUNT(x)", asks, "SELECT AVG(age) AS a FROM visits")
    assert asked(usual(), "SELECT SUM(age) / COUNT(age) AS a FROM visits") == truth("SELECT AVG(age) AS a FROM visits")
    assert asks("SELECT SUM(age) / COUNT(age) AS a FROM visits").entries


def distribution_of_one_value_and_null() -> None:
    advised("Count its groups with GROUP BY", placed().preview_distribution, "sex", epsilon=1)
    sexes = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
    assert asked(usual(), sexes) == truth(sexes)


def wide() -> Curator:
    rows = VISITS.select(["pid"])
    for i in range(61):
        rows = rows.append_column(f"b{i}", VISITS["age"])
    bounds = {f"b{i}": (0, 99) for i in range(61)}
    return world(rows, bounds={**bounds, "age": None, "cost": None, "site": None}, values=_NONE, groups_per_unit=1)


_NONE = dict.fromkeys(FACTS["values"])


def marginals_of_too_many_tables() -> None:
    names, curator = [f"b{i}" for i in range(45)], wide()
    advised("Ask for fewer.", curator.preview_marginals, names, epsilon=1, cells=2)
    assert curator.preview_marginals(names, ways=1, epsilon=1, cells=2)
    assert curator.preview_marginals(names[:20], epsilon=1, cells=2)


def marginals_of_too_many_columns() -> None:
    names, curator = [f"b{i}" for i in range(61)], wide()
    advised("Name fewer.", curator.preview_marginals, names, epsilon=1)
    assert curator.preview_marginals(names[:9], epsilon=1)


def marginals_of_too_many_ways() -> None:
    names, curator = [f"b{i}" for i in range(9)], wide()
    advised("tables of at most 8", curator.preview_marginals, [names], epsilon=1, cells=2)
    assert curator.preview_marginals([names[:8]], epsilon=1, cells=2)


def marginals_of_too_many_cells() -> None:
    names, curator = [f"b{i}" for i in range(5)], wide()
    ask = partial(curator.preview_marginals, names, epsilon=1)
    advised("fewer `ways`, or fewer `cells`", ask, ways=5, cells=50)
    assert ask(ways=2, cells=50)
    assert ask(ways=5, cells=4)


def cells_of_another_column() -> None:
    ask = partial(placed().preview_marginals, ["age", "site"], epsilon=1)
    advised("Did you mean `age`?", ask, cells={"ages": 4})
    assert ask(cells={"age": 4})


# Curator


def keys_alone_in_a_batch() -> None:
    keys, others = "SELECT name FROM visits GROUP BY name", {"all": N}
    ask = partial(selecting().preview_batch, epsilon=1)
    advised("Ask it by itself, or add COUNT(*)", ask, {"keys": keys, **others})
    assert selecting().preview(keys, epsilon=1)
    assert ask({"keys": "SELECT name, COUNT(*) AS n FROM visits GROUP BY name", **others})


def delta_of_a_batch_of_public_keys() -> None:
    curator = world(budget=Budget(epsilon=9, delta=1e-6, accounting="zcdp"))
    ask = partial(curator.preview_batch, {"a": N, "b": f"{N} WHERE age > 30"}, epsilon=1)
    advised("Leave `delta` out", ask, delta=1e-9)
    assert ask()


LOOSE = "SELECT SUM(loose) AS s FROM visits"


def precision_before_the_bounds() -> None:
    curator = world()
    ask = partial(curator.sql, LOOSE, bounds="auto")
    advised("Ask with epsilon= once", ask, within=50)
    ask(epsilon=EPSILON)
    assert ask(within=50) is not None


def groups_without_a_delta() -> None:
    days = "SELECT code, COUNT(*) AS n FROM visits GROUP BY code"
    before, budget = world(values={"code": None}), Budget(epsilon=HUGE, delta=1e-3)
    advised("or pass values={'code': ['A', 'B']} to lw.open", before.preview, days, epsilon=1)
    assert asked(usual(), days) == truth(days)
    assert world(values={"code": None}, groups_per_unit=2, budget=budget).preview(days, epsilon=1)


def keys_without_a_delta() -> None:
    """The same where one unit may be in so many groups: by the terms of a question, and in a batch."""
    codes, before = (
        "SELECT code, COUNT(*) AS n FROM visits GROUP BY code",
        world(values={"code": None}, groups_per_unit=2),
    )
    for ask in (before.preview, lambda text, epsilon: before.preview_batch({"a": text, "b": N}, epsilon=epsilon)):
        advised("or pass values={'code': ['A', 'B']} to lw.open", ask, codes, epsilon=1)
    advised("have the steward declare values for `code`", make_plan, read_sql(codes, before.catalog), Pure(1))
    assert asked(usual(), codes) == truth(codes)


def days_without_a_delta() -> None:
    advised("coarser groups", usual().preview, "SELECT day, COUNT(*) AS n FROM visits GROUP BY day", epsilon=1)
    months = "SELECT MONTH(day) AS m, COUNT(*) AS n FROM visits GROUP BY MONTH(day)"
    assert [row for row in asked(usual(), months) if row[1]] == truth(months)
    edges = "BUCKET(day, [DATE '2020-01-01', DATE '2020-07-01'])"
    assert asked(usual(), f"SELECT {edges} AS b, COUNT(*) AS n FROM visits GROUP BY {edges}")


def keys_that_are_computed() -> None:
    loose = "SELECT {} AS k, COUNT(*) AS n FROM visits GROUP BY {}"
    advised("CLIP(..., low, high)", usual().preview, loose.format(*["CAST(loose AS INTEGER)"] * 2), epsilon=1)
    clipped = asked(usual(), loose.format(*["CLIP(CAST(loose AS INTEGER), -4, 12)"] * 2))
    assert [row for row in clipped if row[1]] == truth(loose.format("CAST(loose AS INTEGER)", "1"))


def a_hint_that_searches() -> None:
    advised('bounds="auto"', usual().preview, LOOSE, epsilon=1)
    assert usual().preview(LOOSE, epsilon=1, bounds="auto")


TWO = "SELECT a.s - b.s AS d FROM (SELECT SUM(loose) AS s FROM visits) a, (SELECT SUM(age) AS s FROM visits) b"


def a_search_in_a_statement() -> None:
    advised("Ask each sub-query by itself", usual().preview, TWO, epsilon=1, bounds="auto")
    assert usual().preview(LOOSE, epsilon=1, bounds="auto")
    assert asked(world(bounds={"loose": (-20, 20)}), TWO) == truth(TWO)


SHIFTED = "SELECT sex, SUM(n) OVER (ORDER BY sex) AS m FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) t"


def precision_of_what_is_computed() -> None:
    curator = world()
    advised("ask for the sub-queries first, with within=", curator.sql, SHIFTED, within=5)
    curator.sql("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", within=5)
    spent = curator.budget.spent
    curator.sql(SHIFTED, epsilon=Fraction(1, 1000))
    assert curator.budget.spent == spent


def a_delta_that_is_too_small() -> None:
    ask = partial(selecting().preview, "SELECT name, COUNT(*) AS n FROM visits GROUP BY name", epsilon=1)
    advised("delta=1e-9", ask, delta=1e-200)
    assert ask(delta=1e-9)
    assert ask()


def a_delta_that_is_spent() -> None:
    names = "SELECT name, COUNT(*) AS n FROM visits GROUP BY name"
    budget = Budget(epsilon=HUGE, delta=1e-6, accounting="basic")
    curator = world(budget=budget, values={"name": None}, groups_per_unit=4)
    curator.sql(names, epsilon=1, delta=1e-6)
    advised("questions with public keys need no delta", curator.preview, names, epsilon=2)
    sexes = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
    assert asked(curator, sexes) == truth(sexes)
    assert asked(usual(), names) == truth(names)


def precision_of_keys_alone() -> None:
    ask = partial(selecting().preview, "SELECT name FROM visits GROUP BY name")
    advised("Ask with epsilon=", ask, within=5)
    assert ask(epsilon=1)


def precision_of_an_unknown_column() -> None:
    advised("Name its numbers: 'n'", usual().preview, N, within={"m": 5})
    assert usual().preview(N, within={"n": 5})


def precision_of_what_is_not_shown() -> None:
    question = "SELECT COUNT(*) AS n, SUM(age) / COUNT(age) AS a FROM visits"
    advised("Select ", usual().preview, question, within={"n": 5})
    assert usual().preview(
        "SELECT COUNT(*) AS n, SUM(age) AS s, COUNT(age) AS m FROM visits", within={"n": 5, "s": 90, "m": 5}
    )
    assert usual().preview(question, epsilon=1)


BEST = "SELECT {}, COUNT(*) AS n FROM visits GROUP BY {} ORDER BY n DESC LIMIT 2"


def precision_of_what_chooses() -> None:
    best = BEST.format("name", "name")
    advised("declare the values of the keys", selecting().preview, best, within=5)
    assert selecting().preview(best, epsilon=1)
    assert usual().preview(best, within=5)


def precision_of_a_median() -> None:
    median = "SELECT MEDIAN(age) AS m FROM visits"
    advised("Ask with epsilon=", usual().preview, median, within=5)
    assert usual().preview(median, epsilon=1)


def precision_of_a_mean() -> None:
    mean = "SELECT AVG(age) AS m FROM visits"
    advised("assume_rows=1000", usual().preview, mean, within=5)
    assert usual().preview(mean, within=5, assume_rows=1000)
    assert usual().preview(mean, epsilon=1)


def precision_that_nothing_buys() -> None:
    sums = "SELECT SUM(cost) AS s FROM visits"
    advised("larger half-width", usual().preview, sums, within=Fraction(1, 10**30))
    assert usual().preview(sums, within=5)


AGE = "DATE_DIFF('year', day, DATE '2021-01-01')"


def an_answer_that_says_nothing() -> None:
    advised("CLIP(..., 0, 120)", usual().sql, f"SELECT AVG({AGE}) AS a FROM visits", epsilon=1)
    clipped = f"SELECT AVG(CLIP({AGE}, 0, 120)) AS a FROM visits"
    assert asked(usual(), clipped) == truth(f"SELECT AVG(GREATEST(0, LEAST({AGE}, 120))) AS a FROM visits")
    assert usual().sql(f"SELECT AVG({AGE}) AS a FROM visits", epsilon=1, anyway=True)


def an_answer_about_few_rows() -> None:
    mean = "SELECT AVG(age) AS a FROM visits"
    curator = world()
    ask = partial(curator.sql, mean, assume_rows=2)
    advised("a larger epsilon, or about larger groups", ask, epsilon=0.1)
    assert ask(epsilon=EPSILON)
    assert curator.sql(mean, assume_rows=10**6, epsilon=0.1)
    assert ask(epsilon=0.1, anyway=True)


def bounds_of_no_column() -> None:
    advised("Did you mean `age`?", usual().preview, N, epsilon=1, bounds={"agee": (0, 5)})
    assert usual().preview(N, epsilon=1, bounds={"age": (0, 5)})


def bounds_of_a_column_of_two_tables() -> None:
    data = {name: pa.table({"pid": [1, 2], "x": [1, 2]}) for name in ("a", "b")}
    curator = lw.open(data, unit="pid", rows_per_unit=2, budget=Budget(epsilon=1), ledger=":memory:")
    ask = partial(curator.preview, "SELECT SUM(x) AS s FROM a", epsilon=1)
    advised('Write bounds={"a.x": (0, 500)}', ask, bounds={"x": (0, 500)})
    assert ask(bounds={"a.x": (0, 500)})


def choices_above_a_ceiling() -> None:
    ask = partial(world(most_rows=9, most_groups=9, widest={"age": (-5, 150)}).preview, N, epsilon=1)
    advised("Write rows=9", ask, rows=10)
    advised("Write groups=9", ask, groups=10)
    advised('Write bounds={"age": (-5, 150)}', ask, bounds={"age": (0, 151)})
    assert ask(rows=9, groups=9, bounds={"age": (-5, 150)})


def rows_where_every_row_is_a_unit() -> None:
    curator = world(unit=None, rows_per_unit=None)
    advised("Leave it out", curator.preview, N, epsilon=1, rows=2)
    assert curator.preview(N, epsilon=1)


def a_price_that_changed() -> None:
    price = usual().preview(N, epsilon=2).cost
    agreed = Request(QuestionRequest(N), Terms(epsilon=Fraction(2)), at_most=usual().preview(N, epsilon=1).cost)
    advised("Preview it again", usual().answer, agreed)
    assert usual().answer(replace(agreed, at_most=price))


# Sessions


def watching(question: str, **terms: Any) -> Any:
    return usual().watch(threshold=1, epsilon=EPSILON, **terms).above(question)


def a_session_of_medians() -> None:
    advised("one COUNT or SUM", watching, "SELECT MEDIAN(age) FROM visits")
    assert watching(N) is True


def a_session_that_units_lower() -> None:
    lowered = "SELECT SUM(site - 5) AS s FROM visits"
    said = advised("Start a session with signed=True", watching, lowered)
    assert "counts negative numbers as 0" in said.instead
    assert watching(lowered, signed=True) in (True, False)
    assert watching("SELECT SUM(CLIP(site - 5, 0, 100)) AS s FROM visits") in (True, False)


def a_session_of_groups() -> None:
    advised("ask for each group with WHERE", watching, "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex")
    assert watching(f"{N} WHERE sex = 'F'") is True


def a_session_of_two_numbers() -> None:
    advised("Select one of them", watching, "SELECT COUNT(*) AS n, SUM(age) AS s FROM visits")
    assert watching("SELECT SUM(age) AS s FROM visits") is True


def a_session_with_a_limit() -> None:
    advised("Leave it out", watching, f"{N} LIMIT 1")
    assert watching(N) is True


# Engines and expressions


def a_form_that_an_engine_lacks() -> None:
    query = partial(cells_of, usual())
    advised("Use LIKE, STARTS_WITH, CONTAINS or SUBSTRING", SPARK.check, query("REGEXP_MATCHES(name, '^a')"))
    for meant in ("name LIKE 'a%'", "STARTS_WITH(name, 'a')", "SUBSTRING(name, 1, 1) = 'a'"):
        SPARK.check(query(meant))
        assert asked(usual(), f"{N} WHERE {meant}") == truth(f"{N} WHERE REGEXP_MATCHES(name, '^a')")
    SPARK.check(query("CONTAINS(name, 'b')"))
    assert asked(usual(), f"{N} WHERE CONTAINS(name, 'b')") == truth(f"{N} WHERE REGEXP_MATCHES(name, 'b')")


def cells_of(curator: Curator, condition: str) -> Any:
    return cells_query(make_plan(read_sql(f"{N} WHERE {condition}", curator.catalog), Pure(1)))


def a_median_per_unit() -> None:
    inner = "SELECT AVG(m) AS a FROM (SELECT pid, {}(age) AS m FROM visits GROUP BY pid) t"
    advised("other questions", usual().preview, inner.format("MEDIAN"), epsilon=1)
    for name in ("COUNT", "SUM", "AVG", "MIN", "MAX"):
        clipped = inner.format(name).replace("AVG(m)", "AVG(CLIP(m, 0, 600))")
        assert asked(usual(), clipped) == truth(inner.format(name))


def a_question_nested_too_deeply() -> None:
    deep = "age" + " + 1" * 70
    advised("fewer levels of nesting, or use IN", usual().preview, f"{N} WHERE {deep} > 100", epsilon=1)
    assert asked(usual(), f"{N} WHERE age + 70 > 100") == truth(f"{N} WHERE {deep} > 100")


def a_text_that_is_no_date() -> None:
    advised("Write DATE '2020-12-31'", usual().preview, f"{N} WHERE day > '31.12.2020'", epsilon=1)
    meant = f"{N} WHERE day > DATE '2020-12-31'"
    assert asked(usual(), meant) == truth(meant)


def a_constant_with_a_zone() -> None:
    zoned = f"{N} WHERE \"at\" > TIMESTAMP '2020-01-05 12:00:00+02:00'"
    advised("Write the time in UTC", usual().preview, zoned, epsilon=1)
    meant = f"{N} WHERE \"at\" > TIMESTAMP '2020-01-05 10:00:00'"
    assert asked(usual(), meant) == truth(meant)


def buckets_by_a_column() -> None:
    buckets = "SELECT WIDTH_BUCKET(age, 0, {}, 10) AS b, COUNT(*) AS n FROM visits GROUP BY 1"
    advised("WIDTH_BUCKET(x, 0, 100, 10)", usual().preview, buckets.format("site"), epsilon=1)
    found = [row for row in asked(usual(), buckets.format(100)) if row[1]]
    assert found == truth("SELECT age // 10 + 1 AS b, COUNT(*) AS n FROM visits GROUP BY 1")


def a_timestamp_as_text() -> None:
    rewritten(
        "STRFTIME(",
        "COUNT(*) AS n FROM visits WHERE CAST(\"at\" AS TEXT) = '2020-01-01 10:00:00'",
        "COUNT(*) AS n FROM visits WHERE STRFTIME(\"at\", '%Y-%m-%d %H:%M:%S') = '2020-01-01 10:00:00'",
    )


def a_cast_that_engines_lack() -> None:
    rewritten(
        "DATE_DIFF('day', DATE '1970-01-01', CAST(day AS DATE))",
        "COUNT(*) AS n FROM visits WHERE CAST(day AS INTEGER) > 18300",
        "COUNT(*) AS n FROM visits WHERE DATE_DIFF('day', DATE '1970-01-01', day) > 18300",
        "COUNT(*) AS n FROM visits WHERE DATE_DIFF('day', DATE '1970-01-01', day) > 18300",
    )
    advised("YEAR, MONTH and DAY", usual().preview, f"{N} WHERE CAST(age AS DATE) > day", epsilon=1)
    assert asked(usual(), f"{N} WHERE age > DAY(day)") == truth(f"{N} WHERE age > DAY(day)")


def a_format_that_is_no_constant() -> None:
    years = "COUNT(*) AS n FROM visits WHERE STRFTIME(day, {}) = '2020-02'"
    rewritten("STRFTIME(d, '%Y-%m')", years.format("'%Y' || '-%m'"), years.format("'%Y-%m'"))


def a_format_without_a_code() -> None:
    advised("STRFTIME(d, '%Y-%m')", usual().preview, f"{N} WHERE STRFTIME(day, 'x') = '2020-02'", epsilon=1)
    meant = f"{N} WHERE STRFTIME(day, '%Y-%m') = '2020-02'"
    assert asked(usual(), meant) == truth(meant)


def a_format_with_another_code() -> None:
    shown = "COUNT(*) AS n FROM visits WHERE STRFTIME(day, '{}') = '{}'"
    rewritten("Use %Y %m %d %H %M %S %j", shown.format("%y-%m", "20-02"), shown.format("%Y-%m", "2020-02"))


def zoned(zone: str | None) -> Curator:
    return world(zones={} if zone is None else {"at": zone})


LATE = "COUNT(*) AS n FROM visits WHERE HOUR(\"at\" AT TIME ZONE '{}') = 11"


def a_zone_that_is_unknown() -> None:
    advised("Did you mean `Europe/Oslo`?", zoned("UTC").preview, f"SELECT {LATE.format('Europe/Osloo')}", epsilon=1)
    meant = "SELECT COUNT(*) AS n FROM visits WHERE HOUR((\"at\" AT TIME ZONE 'UTC') AT TIME ZONE 'Europe/Oslo') = 11"
    assert asked(zoned("UTC"), f"SELECT {LATE.format('Europe/Oslo')}") == truth(meant)


def a_column_without_a_zone() -> None:
    advised('zones={"at": "UTC"}', zoned(None).preview, f"SELECT {LATE.format('Europe/Oslo')}", epsilon=1)
    a_zone_that_is_unknown()


def a_column_with_another_zone() -> None:
    """Its own zone gives the time that is stored, which is what can be asked."""
    ask = f"SELECT {LATE.format('UTC')}"
    advised("AT TIME ZONE 'Europe/Oslo'", zoned("Europe/Oslo").preview, ask, epsilon=1)
    stored = asked(zoned("Europe/Oslo"), f"SELECT {LATE.format('Europe/Oslo')}")
    assert stored == truth('SELECT COUNT(*) AS n FROM visits WHERE HOUR("at") = 11')
    assert asked(zoned("UTC"), ask) == stored


def a_zone_twice() -> None:
    twice = "(\"at\" AT TIME ZONE 'Europe/Oslo') AT TIME ZONE 'UTC'"
    advised("once", zoned("UTC").preview, f"{N} WHERE HOUR({twice}) = 11", epsilon=1)
    a_zone_that_is_unknown()


def a_column_that_is_unknown() -> None:
    advised("Did you mean `age`?", placed().preview_distribution, "agee", epsilon=1)
    assert placed().preview_distribution("age", epsilon=1)


def a_table_that_is_unknown() -> None:
    advised("Did you mean `visits`?", usual().preview, "SELECT COUNT(*) AS n FROM visit", epsilon=1)
    assert asked(usual(), N) == truth(N)


def a_schema_that_is_unknown() -> None:
    assert asked(usual(), "SELECT COUNT(*) AS n FROM clinic.visits") == truth(N)
    advised(
        "Write clinic.visits.", world(schema="clinic").preview, "SELECT COUNT(*) AS n FROM clinics.visits", epsilon=1
    )
    assert asked(world(schema="clinic"), "SELECT COUNT(*) AS n FROM clinic.visits") == truth(N)


# Plans


def rows_without_a_limit() -> None:
    before = world(rows_per_unit=None)
    declared("pass rows_per_unit=5 to lw.open", "COUNT(*) AS n FROM visits", before=before, after=usual())
    people = "SELECT COUNT(DISTINCT pid) AS n FROM visits"
    advised("COUNT(DISTINCT pid)", before.preview, N, epsilon=1)
    assert asked(before, people) == truth(people)


def values_without_bounds() -> None:
    after = world(bounds={"loose": (-20, 20)})
    declared("pass bounds={'loose': (0, 100)} to lw.open", "SUM(loose) AS s FROM visits", before=usual(), after=after)
    rewritten("SUM(CLIP(...", "SUM(loose) AS s FROM visits", "SUM(CLIP(loose, -20, 20)) AS s FROM visits")


def bounds_of_one_number() -> None:
    ages = "AVG(age) AS a FROM visits"
    declared("wider bounds", ages, before=world(bounds={"age": (40, 40)}), after=usual())


def bounds_too_far_apart() -> None:
    ages, far = "AVG(age) AS a FROM visits", world(bounds={"age": None, "cost": (0, 10**200)})
    advised("Clip it: CLIP(", far.preview, "SELECT AVG(cost) AS a FROM visits", epsilon=1)
    clipped = asked(far, "SELECT AVG(CLIP(cost, 0, 64)) AS a FROM visits")
    assert clipped == truth("SELECT AVG(cost) AS a FROM visits")
    assert asked(usual(), f"SELECT {ages}") == truth(f"SELECT {ages}")


def an_axis_of_units() -> None:
    advised("Name another column", placed().preview_distribution, "pid", epsilon=1)
    assert placed().preview_distribution("age", epsilon=1)


def an_axis_without_facts() -> None:
    advised("pass bounds={'loose': (0, 100)} to lw.open", placed().preview_distribution, "loose", epsilon=1)
    assert world(bounds={"loose": (0, 100)}, groups_per_unit=1).preview_distribution("loose", epsilon=1)
    bare = world(values={"code": None}, groups_per_unit=1)
    advised("pass values={'code': ['A', 'B']} to lw.open", bare.preview_distribution, "code", epsilon=1)
    assert placed().preview_distribution("code", epsilon=1)


def cells_of_declared_values() -> None:
    advised("Pass none for `code`", placed().preview_distribution, "code", epsilon=1, cells=3)
    assert placed().preview_distribution("code", epsilon=1)


def an_axis_beyond_float64() -> None:
    far = world(bounds={"site": (0, 2**60)}, values={"site": None}, groups_per_unit=1)
    advised("BUCKET(", far.preview_distribution, "site", epsilon=1)
    buckets = "SELECT BUCKET(site, [0, 3, 9]) AS b, COUNT(*) AS n FROM visits GROUP BY 1"
    found = dict(row for row in asked(world(bounds={"site": (0, 2**60)}, values={"site": None}), buckets) if row[1])
    assert sorted(found.values()) == sorted(
        n for _, n in truth("SELECT site < 3 AS b, COUNT(*) AS n FROM visits GROUP BY 1")
    )


def an_axis_too_far_apart() -> None:
    far = world(bounds={"cost": (0, 10**301)}, groups_per_unit=1)
    advised("Have the steward change them", far.preview_distribution, "cost", epsilon=1)
    assert placed().preview_distribution("cost", epsilon=1)


def an_axis_of_too_many_cells() -> None:
    said = advised("Pass cells=", placed().preview_distribution, "cost", epsilon=1, cells=10**6)
    most = int(said.instead.split("cells=")[1].split()[0])
    assert placed().preview_distribution("cost", epsilon=1, cells=most)


def an_axis_of_one_value() -> None:
    one = world(bounds={"age": (40, 40)}, groups_per_unit=1)
    advised("have the steward widen them", one.preview_distribution, "age", epsilon=1)
    assert placed().preview_distribution("age", epsilon=1)


def sums_that_are_not_exact() -> None:
    after = world(bounds={"cost": (0, 64)})
    before = world(bounds={"cost": (0, 10**290)})
    declared("bounds and rows_per_unit of ordinary size", "SUM(cost) AS s FROM visits", before=before, after=after)


def a_price_without_noise() -> None:
    advised("Choose another one", usual().preview, N, epsilon=Fraction(1, 10**30))
    assert usual().preview(N, epsilon=1)


def a_delta_for_public_keys() -> None:
    ask = partial(selecting().preview, "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", epsilon=1)
    advised("Leave `delta` out", ask, delta=1e-9)
    assert ask()


def a_price_that_selects_nothing() -> None:
    """It may be too large as well as too small."""
    ask = partial(selecting().preview, "SELECT name FROM visits GROUP BY name")
    for epsilon in (Fraction(1, 10**60), 10**6):
        advised("Choose another one", ask, epsilon=epsilon)
    assert ask(epsilon=1)


def too_many_groups() -> None:
    many = world(bounds={"age": (0, 999), "site": (0, 999)}, values={"site": None})
    keys = ["age", "site", "sex"]
    ask = "SELECT {}, COUNT(*) AS n FROM visits GROUP BY {}"
    advised("fewer columns", many.preview, ask.format(*[", ".join(keys)] * 2), epsilon=1)
    fewer = ask.format(*["site, sex"] * 2)
    assert [row for row in asked(many, fewer) if row[-1]] == truth(fewer)


def groups_of_reals() -> None:
    costs = "SELECT {} AS c, COUNT(*) AS n FROM visits GROUP BY 1"
    said = advised("FLOOR(...)", usual().preview, costs.format("cost"), epsilon=1)
    assert "one group for each whole number" in said.instead
    found = [row for row in asked(usual(), costs.format("FLOOR(cost)")) if row[1]]
    assert found == truth(costs.format("FLOOR(cost)"))
    whole = world(types={"loose": "integer"}, bounds={"loose": (-20, 20)})
    found = [row for row in asked(whole, costs.format("loose")) if row[1]]
    assert found == truth(costs.format("loose"))


def groups_of_units() -> None:
    """SQL is refused before; a question that is made elsewhere is refused by the plan."""
    question = read_sql("SELECT age, COUNT(*) AS n FROM visits GROUP BY age", usual().catalog)
    field = question.table.field("pid")
    units = replace(question, keys=(Column(field.name, field.type, field.bounds),))
    advised("COUNT(DISTINCT pid)", make_outline, units)
    people = "SELECT COUNT(DISTINCT pid) AS n FROM visits"
    assert asked(usual(), people) == truth(people)


def groups_without_a_limit() -> None:
    names = "SELECT name, COUNT(*) AS n FROM visits GROUP BY name"
    before = world(budget=Budget(epsilon=HUGE, delta=1e-3), values={"name": None})
    advised("pass groups_per_unit=3 to lw.open", before.preview, names, epsilon=1)
    assert selecting().preview(names, epsilon=1)
    assert asked(usual(), names) == truth(names)


UNREACHED = ("no quantile can be drawn", "nothing can be chosen")
"""Refusals that no plan meets, whatever its price."""


def prices_of_choices() -> None:
    best = "SELECT site FROM visits GROUP BY site ORDER BY COUNT(*) DESC LIMIT 1"
    for asks in ("SELECT MEDIAN(age) AS m FROM visits", best):
        question = read_sql(asks, usual().catalog)
        assert all(make_plan(question, Pure(Fraction(10) ** power)) for power in (-1000, -60, 0, 60, 1000))


def a_sum_of_nothing() -> None:
    advised("Leave it out", usual().preview, "SELECT COUNT(*) AS n, SUM(age * 0) AS s FROM visits", epsilon=1)
    assert asked(usual(), N) == truth(N)


# Losses and budgets


def a_delta_of_a_pure_budget() -> None:
    advised("Leave `delta` out", usual().preview, N, epsilon=1, delta=1e-9)
    assert usual().preview(N, epsilon=1)


def a_group_beyond_any_promise() -> None:
    advised("a smaller group, or use a smaller epsilon or delta", Approximate(1, Fraction(1, 10**6)).group, 50)
    assert Approximate(1, Fraction(1, 10**6)).group(5).delta < 1
    assert Approximate(Fraction(1, 10), Fraction(1, 10**6)).group(50).delta < 1
    assert Approximate(1, Fraction(1, 10**40)).group(50).delta < 1


RHO = ZCDP(Fraction(1, 2), Fraction(1, 10**6))


def a_group_of_approximate_zcdp() -> None:
    advised("loss.to_approximate(delta=...).group(size)", RHO.group, 2)
    assert RHO.to_approximate(delta=Fraction(1, 10**5)).group(2).delta < 1


def zcdp_as_pure() -> None:
    advised("a budget with a delta: Budget(epsilon=..., delta=1e-6)", ZCDP(1).to_pure)
    assert Budget(epsilon=9, delta=1e-6).cost(ZCDP(1))
    assert Budget(epsilon=9).cost(Pure(1))


def zcdp_at_a_delta_too_small() -> None:
    said = advised("Call to_approximate(delta=...) with more than 1e-6", RHO.to_approximate, Fraction(1, 10**7))
    assert RHO.to_approximate(Fraction(2, 10**6)).epsilon > 0, said


def approximate_as_pure() -> None:
    loss = Approximate(1, Fraction(1, 10**6))
    advised("a budget with a delta: Budget(epsilon=..., delta=1e-6)", loss.to_pure)
    assert Budget(epsilon=9, delta=1e-6, accounting="basic").cost(loss)


def approximate_at_a_delta_too_small() -> None:
    loss = Approximate(1, Fraction(1, 10**6))
    advised("Ask for a larger delta", loss.to_approximate, Fraction(1, 10**7))
    assert loss.to_approximate(Fraction(1, 10**5)).epsilon <= 1


def losses_of_two_kinds() -> None:
    one, two = Approximate(1, Fraction(1, 10**6)), ZCDP(1)
    advised("approximate.to_zcdp(), or zcdp.to_approximate(delta=...)", lambda: one + two)
    assert one.to_zcdp() + two
    assert one + two.to_approximate(delta=Fraction(1, 10**6))


def too_many_losses() -> None:
    one = Approximate(Fraction(1, 10), Fraction(9, 10))
    advised("Combine fewer losses", lambda: one + one)
    assert one.to_approximate(delta=Fraction(9, 10)) == one


def a_question_too_large_for_a_server() -> None:
    names = [f"s{i}" for i in range(14)]
    sums = [f"COUNT_IF({' OR '.join(f'age % {i + 2} = {k}' for k in range(12))}) AS s{i}" for i in range(14)]
    ask = partial(usual().preview, epsilon=1)
    advised("Ask for its parts", lambda: check_operators(ask(f"SELECT {', '.join(sums)} FROM visits"), 1))
    for part in sums:
        check_operators(ask(f"SELECT {part} FROM visits"), 1)
    (whole,) = truth(f"SELECT {', '.join(sums)} FROM visits")
    assert list(whole) == [asked(usual(), f"SELECT {part} FROM visits")[0][0] for part in sums], names


def a_price_beyond_the_budget() -> None:
    curator = world(budget=Budget(epsilon=3))
    said = advised("Ask for epsilon = 3 or less", curator.sql, N, epsilon=4)
    assert said.remaining.amount == 3
    assert curator.sql(N, epsilon=3)
    advised("No question fits any more", curator.sql, f"{N} WHERE age > 30", epsilon=1)


def a_delta_beyond_the_budget() -> None:
    names = "SELECT name, COUNT(*) AS n FROM visits GROUP BY name"
    curator = world(budget=Budget(epsilon=9, delta=1e-6, accounting="basic"), values={"name": None}, groups_per_unit=4)
    advised("Ask for delta = 1e-6 or less", curator.sql, names, epsilon=1, delta=1e-5)
    assert curator.sql(names, epsilon=1, delta=1e-6) is not None
    advised("Group by columns whose values are declared", curator.sql, names, epsilon=2, delta=1e-6)
    assert curator.sql("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", epsilon=1)


def more_than_is_left_as_it_was_asked_for() -> None:
    """Each says what is left in the words of the question."""
    for terms, says in (
        ({"share": Fraction(1, 2)}, "Ask for share=0.1 or less."),
        ({"epsilon": 50}, "Ask for epsilon = "),
        ({"within": 1}, "The best this budget still buys is within "),
    ):
        curator = world(budget=Budget(epsilon=50, delta=1e-6))
        curator.sql("SELECT SUM(age) AS s FROM visits", share=Fraction(9, 10))
        refused = advised(says, curator.sql, N, **terms)
        (name,) = terms
        best = Fraction(re.findall(r"[0-9][0-9.,]*", str(refused.instead))[0].rstrip("."))
        assert len(curator.sql(N, **{name: best})) == 1


def a_loss_beyond_a_filter() -> None:
    spending = Filter(Budget(epsilon=1))
    advised("Ask for epsilon = 1 or less", spending.spend, Pure(2))
    assert spending.spend(Pure(1))
    with_delta = Filter(Budget(epsilon=1, delta=1e-6, accounting="basic"))
    advised("Ask for delta = 1e-6 or less", with_delta.spend, Approximate(Fraction(1, 2), Fraction(1, 10**5)))
    assert with_delta.spend(Approximate(Fraction(1, 2), Fraction(1, 10**6)))


# Advice of operators


WRITTEN: list[tuple[str, ...]] = [
    ("IN ('a', 'b')", "site IN (age, 2)", "(site = age OR site = 2)"),
    (
        "such as '^[A-Z][0-9]+$'",
        "REGEXP_MATCHES(name, sex)",
        "REGEXP_MATCHES(name, '^[a-z]+$')",
        "REGEXP_MATCHES(name, '^[a-z]+$')",
    ),
    (
        "% or _ in a pattern, not both",
        "name LIKE 'a_b%'",
        "SUBSTRING(name, 1, 1) = 'a' AND SUBSTRING(name, 3, 1) = 'b'",
    ),
    ("such as 'A'", "CONTAINS(name, sex)", "CONTAINS(name, 'b')", "CONTAINS(name, 'b')"),
    ("such as 'A%'", "name LIKE sex", "name LIKE 'A%'", "name LIKE 'A%'"),
    (
        "as in SUBSTRING(s, 1, 3)",
        "SUBSTRING(name, site, 1) = 'n'",
        "SUBSTRING(name, 2, 1) = 'n'",
        "SUBSTRING(name, 2, 1) = 'n'",
    ),
    ("as in RIGHT(s, 3)", "RIGHT(name, site) = 'b'", "RIGHT(name, 1) = 'b'", "RIGHT(name, 1) = 'b'"),
    (
        "not longer than what it replaces",
        "REPLACE(name, 'b', 'bb') = 'bbobb'",
        "REPLACE(name, 'bo', 'b') = 'bb'",
        "name = 'bob'",
    ),
    (
        "as in REPLACE(s, 'ab', '')",
        "REPLACE(name, sex, '') = 'bob'",
        "REPLACE(name, 'b', '') = 'o'",
        "REPLACE(name, 'b', '') = 'o'",
    ),
    (
        "as in SPLIT_PART(s, '-', 1)",
        "SPLIT_PART(name, '_', site) = 'a'",
        "SPLIT_PART(name, '_', 1) = 'a'",
        "SPLIT_PART(name, '_', 1) = 'a'",
    ),
    ("Compare with a date", "day > 2020", "day >= DATE '2021-01-01'", "YEAR(day) > 2020"),
    ("or use YEAR(day)", "day > 2020", "YEAR(day) > 2020", "YEAR(day) > 2020"),
    ("Compare with a number: age = 40", "age = 'x40'", "age = 40", "age = 40"),
    ("Write CAST(code AS INTEGER)", "site = code", "site = CAST(code AS INTEGER)"),
    ("Write CAST(code AS INTEGER) IN (1, 2)", "code IN (1, 2)", "CAST(code AS INTEGER) IN (1, 2)"),
    ("or code = '3' to compare texts", "code = 3", "code = '3'"),
    ("Write WHERE NOT sick", "sick = 'no'", "NOT sick"),
    ("Write CAST(day AS TIMESTAMP)", 'day > "at"', 'CAST(day AS TIMESTAMP) > "at"'),
    (
        "Write LOWER(CAST(age AS TEXT))",
        "LOWER(age) = '30'",
        "LOWER(CAST(age AS TEXT)) = '30'",
        "CAST(age AS TEXT) = '30'",
    ),
    (
        "Write CAST(age AS TEXT) LIKE '3%'",
        "age LIKE '3%'",
        "CAST(age AS TEXT) LIKE '3%'",
        "CAST(age AS TEXT) LIKE '3%'",
    ),
    ("Write age <> 0", "NOT age", "NOT age <> 0", "NOT CAST(age AS BOOLEAN)"),
    ("Write day + INTERVAL 3 DAY", "day + 3 > DATE '2020-03-01'", "day + INTERVAL 3 DAY > DATE '2020-03-01'"),
    ("Write CAST(code AS INTEGER)", "code + 1 > 3", "CAST(code AS INTEGER) + 1 > 3", "CAST(code AS INTEGER) + 1 > 3"),
    ("|| joins texts", "name + sex = 'bobM'", "name || sex = 'bobM'", "name || sex = 'bobM'"),
    ("Pass a number", "ABS(name) > 3", "ABS(age) > 3", "age > 3"),
    (
        "CAST(cost AS INTEGER), which rounds",
        "CAST(cost AS TEXT) = '1.25'",
        "CAST(CAST(cost AS INTEGER) AS TEXT) = '1'",
        "ROUND(cost) = 1",
    ),
]
"""What the advice says, a condition that is refused, one that follows the advice, and the meaning if it is another."""


def conditions() -> None:
    for says, condition, rewrite, *meant in WRITTEN:
        where = "COUNT(*) AS n FROM visits WHERE "
        rewritten(says, where + condition, where + rewrite, where + (meant or [condition])[0])


def others() -> None:
    """The questions of the tests of SQL, which also go through places of other rooms."""
    for question in [*(f"SELECT {one[1]}" for one in SAME), *DIFFERS]:
        advised("", open_once().preview, question, epsilon=1)


@cache
def open_once() -> Curator:
    return open_exact()


CASES = {
    name: case
    for name, case in list(globals().items())
    if callable(case) and getattr(case, "__module__", "") == __name__ and case.__annotations__ == {"return": "None"}
}
assert len(CASES) > 80


@cache
def followed(name: str) -> bool:
    CASES[name]()
    return True


@pytest.mark.parametrize("name", CASES)
def test_the_advice_is_followed(name: str) -> None:
    assert followed(name)


def test_every_place_that_refuses_is_a_case() -> None:
    assert all(map(followed, CASES))
    places = {**refusing(outside="sql"), **advising(ADVISERS)}
    missing = set(places.values()) - {places[place] for place in PLACES if place in places}
    assert sorted(one for one in missing if not any(words in one for words in UNREACHED)) == []
