"""Keys without a number: public ones are free and read no row, others are selected privately for the whole price."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.curator import Curator
from lapwing.curator.pricing import Terms, plan_on_terms
from lapwing.errors import LapwingError, Refused
from lapwing.privacy import Budget
from lapwing.privacy.loss import Pure
from lapwing.sql import read_sql
from plan.test_neighbours import BASIC, ZCDP, arranged, assert_within_sensitivity, engine_on
from support.questions import catalog, make_rows, make_table, without
from support.refusals import attempt
from support.visits import Spy, frame, open_visits

DELTA = Budget(epsilon=8, delta=1e-6)


def keys_of(answer: Any, name: str) -> list[Any]:
    return [row[name] for row in answer.to_dict()["rows"]]


@pytest.mark.parametrize("text", ["SELECT site FROM visits GROUP BY site", "SELECT DISTINCT site FROM visits"])
def test_public_keys_are_listed_as_declared_for_nothing(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A15 no row is read, no entry is made, and rows play no part: 1000 is listed, which no row has."""
    curator = open_visits()
    spy, before = Spy(curator, monkeypatch), curator.budget.remaining
    for terms in ({}, {"epsilon": 0.1}, {"within": 5}):
        answer = curator.sql(text, **terms)
        assert keys_of(answer, "site") == [9, 10, 1000]
        assert not answer.cost
    assert "as declared, no price" in str(answer)
    assert answer.to_dict()["ledger_entry"] is None
    assert answer.methods().endswith("No row was read.")
    assert "Price: nothing." in str(curator.preview(text))
    assert spy.queries == []
    assert curator.budget.remaining == before


def test_public_keys_are_sorted_and_limited_like_others() -> None:
    curator = open_visits()
    answer = curator.sql("SELECT DISTINCT sex, site FROM visits ORDER BY site DESC, sex LIMIT 3")
    assert list(zip(keys_of(answer, "sex"), keys_of(answer, "site"), strict=True)) == [
        ("F", 1000),
        ("M", 1000),
        ("F", 10),
    ]
    assert keys_of(curator.sql("SELECT DISTINCT site + 1 AS s FROM visits WHERE age > 200"), "s") == [10, 11, 1001]
    assert keys_of(curator.sql("SELECT sex FROM visits GROUP BY sex HAVING sex > 'G'"), "sex") == ["M"]


@pytest.mark.parametrize("terms", [{}, {"epsilon": 0.1}, {"within": 5}, {"within": {"n": 5}}])
def test_what_is_computed_from_public_keys_is_free_and_has_no_entry(terms: dict[str, Any]) -> None:
    text = "SELECT COUNT(*) AS n FROM (SELECT DISTINCT site FROM visits)"
    curator = open_visits()
    answer = curator.sql(text, **terms)
    assert keys_of(answer, "n") == [3]
    assert not answer.cost
    assert "as declared, no price" in str(answer)
    assert "ledger entry" not in str(answer)
    assert answer.to_dict()["ledger_entries"] == []
    assert "Price: nothing." in str(curator.preview(text, **terms))


def town_visits(budget: Budget) -> Curator:
    data = frame(4000)
    towns = ["oslo" if i % 2 else f"town {i}" for i in range(data.num_rows)]
    return open_visits(data.set_column(1, "name", [towns]), budget=budget, groups_per_unit=2)


def test_other_keys_are_selected_for_the_whole_price() -> None:
    curator = town_visits(DELTA)
    answer = curator.sql("SELECT DISTINCT name FROM visits", epsilon=1)
    assert keys_of(answer, "name") == ["oslo"]
    assert answer.cost.amount == curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1).cost.amount
    assert answer.cost.delta > 0
    again = curator.sql("SELECT name FROM visits GROUP BY name", epsilon=1)
    assert not again.cost
    assert keys_of(again, "name") == ["oslo"]


@pytest.mark.parametrize(
    ("text", "terms", "said"),
    [
        ("SELECT DISTINCT name FROM visits", {"epsilon": 0.1}, "its values are not public"),
        ("SELECT DISTINCT pid FROM visits", {"epsilon": 0.1}, "it uses the protected unit `pid`"),
        ("SELECT pid FROM visits GROUP BY pid", {"epsilon": 0.1}, "it uses the protected unit `pid`"),
        ("SELECT DISTINCT cost FROM visits", {"epsilon": 0.1}, "cannot group by a real number"),
        ("SELECT DISTINCT * FROM visits", {"epsilon": 0.1}, "it uses the protected unit"),
        ("SELECT DISTINCT 1 FROM visits", {"epsilon": 0.1}, "cannot group by a constant"),
        ("SELECT sex FROM visits", {"epsilon": 0.1}, "the rows themselves are private"),
        ("SELECT 1 FROM visits HAVING TRUE", {"epsilon": 0.1}, "the rows themselves are private"),
        ("SELECT DISTINCT ON (sex) sex FROM visits", {"epsilon": 0.1}, "DISTINCT ON"),
    ],
)
def test_what_is_no_public_key_stays_refused(text: str, terms: Any, said: str) -> None:
    found = attempt(open_visits(groups_per_unit=2).sql, text, **terms)
    assert isinstance(found, Refused)
    assert said in str(found)
    assert str(found).endswith("Nothing was charged.")


def test_without_a_delta_no_limit_on_groups_is_suggested() -> None:
    found = attempt(
        open_visits(groups_per_unit=None).sql, "SELECT name, COUNT(*) FROM visits GROUP BY name", epsilon=0.1
    )
    assert isinstance(found, Refused)
    assert (found.code, "limits" in found.instead) == ("keys-not-public", False)


@pytest.mark.parametrize("key", ["day", "DATE_TRUNC('month', day)", "STRFTIME(day, '%Y-%m')"])
def test_days_that_are_not_public_are_refused_with_groups_that_are_answered(key: str) -> None:
    days = pa.table({"pid": [1, 2], "day": pa.array([19000, 19400], pa.date32())})
    curator = lw.open(
        days, name="t", unit="pid", rows_per_unit=1, groups_per_unit=1, ledger=":memory:", budget=lw.Budget(epsilon=3)
    )
    instead = "For coarser groups, use MONTH(day) or BUCKET(day, [DATE '2020-01-01', DATE '2020-07-01'])"
    with pytest.raises(Refused, match=re.escape(instead)):
        curator.sql(f"SELECT {key}, COUNT(*) AS n FROM t GROUP BY 1", epsilon=1)
    for public in instead.removeprefix("For coarser groups, use ").split(" or "):
        assert curator.sql(f"SELECT {public} AS k, COUNT(*) AS n FROM t GROUP BY 1", epsilon=1).cost


def test_keys_alone_have_no_precision_and_stand_in_no_batch() -> None:
    curator = town_visits(DELTA)
    for refused in (
        attempt(curator.sql, "SELECT DISTINCT name FROM visits", within=5),
        attempt(curator.batch, ["SELECT DISTINCT sex FROM visits", "SELECT COUNT(*) FROM visits"], epsilon=1),
    ):
        assert isinstance(refused, Refused)


def test_limits_are_not_searched_for_public_keys() -> None:
    curator = open_visits(budget=DELTA, rows_per_unit=None)
    assert not curator.sql("SELECT DISTINCT sex FROM visits", epsilon=1, limits="auto").cost


def test_the_units_behind_selected_keys_differ_by_one_unit() -> None:
    """threat:A15 threat:A34 over hostile rows, with and without a limit of groups."""
    for seed in range(12):
        random = Random(seed)
        by_row = seed % 3 == 0
        table, rows = make_table(random, by_row=by_row), make_rows(random)
        table = table if by_row else replace(table, groups_per_unit=random.choice([1, 2]))
        smaller = rows[1:] if by_row else without(rows, 1)
        question = read_sql("SELECT DISTINCT town, sex FROM visits", catalog(table))
        budget = random.choice([ZCDP, BASIC])
        plan = plan_on_terms(question, budget, Terms(epsilon=1), table.confidence, lambda b=budget: b.capacity.delta)
        assert not plan.measures
        left, right = arranged(plan, [engine_on(table, some) for some in (rows, smaller)])
        assert_within_sensitivity(plan, left, right, f"seed {seed}")


def test_nothing_to_pay_for_is_no_loss() -> None:
    question = read_sql("SELECT DISTINCT sex FROM visits", open_visits()._catalog)
    plan = plan_on_terms(question, ZCDP, Terms(), question.table.confidence, lambda: ZCDP.capacity.delta)
    assert plan.loss == Pure(0)
    assert plan.outline.is_declared


def test_ibis_lists_keys_too() -> None:
    curator = town_visits(DELTA)
    visits = curator.table("visits")
    for asked in (visits.select("sex").distinct(), visits.group_by("sex").agg()):
        answer = curator.sql(asked)
        assert keys_of(answer, "sex") == ["F", "M"]
        assert not answer.cost
    rows = visits.select("pid", "site").distinct()
    one, other = (
        curator.preview(asked, epsilon=1)
        for asked in (rows.agg(n=rows.count()), "SELECT COUNT(*) AS n FROM (SELECT DISTINCT pid, site FROM visits)")
    )
    assert str(one) == str(other)
    assert isinstance(attempt(curator.sql, visits.select("pid").distinct(), epsilon=1), LapwingError)
