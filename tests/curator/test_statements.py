"""Statements that go on above the release, through the whole path: prices, stored parts, refusals and formats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lapwing.answers.computed import Computed
from lapwing.curator import Curator
from lapwing.engines import public_values
from lapwing.errors import LapwingError, Misconfigured, Refused, Unfinished
from lapwing.privacy import Budget
from lapwing.sql.split import read_statement
from support.visits import CANARY, Spy, open_visits

SITES = "SELECT site, COUNT(*) AS n FROM visits GROUP BY site"
SHARE = "SELECT site, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY site"
PERCENT = "SELECT site, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM visits) AS p FROM visits GROUP BY site"
ROLLUP = "SELECT sex, site, COUNT(*) AS n, GROUPING(site) AS total FROM visits GROUP BY ROLLUP (sex, site)"
NESTED = f"SELECT COUNT(*) AS many, MAX(n) AS most FROM ({SITES}) WHERE n > 10"
EVERY = [SHARE, PERCENT, ROLLUP, NESTED]


def opened(**changes: Any) -> Curator:
    return open_visits(
        budget=changes.pop("budget", Budget(epsilon=100)), values={"site": [9, 10, 11], "sex": ["F", "M"]}, **changes
    )


def computed(curator: Curator, text: str, **terms: Any) -> Computed:
    answer = curator.sql(text, **(terms or {"epsilon": 1}))
    assert isinstance(answer, Computed)
    return answer


def test_a_statement_with_one_part_is_that_question_with_its_price_and_identity() -> None:
    curator = opened()
    plain, share = curator.sql(SITES, epsilon=1), computed(curator, SHARE)
    assert (share.cost.amount, share.entries) == (0, (plain.entry,)), "it is computed from what is stored"
    assert share.parts[0].plan.outline.identity == plain.plan.outline.identity
    assert share.parts[0].plan.prices == plain.plan.prices
    other = opened()
    assert computed(other, SHARE).cost == other.ledger.spent == curator.ledger.spent
    assert not other.sql(SITES, epsilon=1).cost


@pytest.mark.parametrize("text", EVERY)
def test_parts_are_planned_as_if_they_were_asked_alone(text: str) -> None:
    """What is read, which limits hold and what one unit adds are those of each question by itself."""
    curator = opened()
    for part in computed(curator, text).parts:
        question = part.plan.question
        keys = ", ".join(key.name for key in question.keys)  # type: ignore[union-attr]
        alone = curator.sql(
            f"SELECT {keys}{', ' if keys else ''}COUNT(*) AS n FROM visits" + (f" GROUP BY {keys}" if keys else ""),
            epsilon=1,
        )
        assert part.plan.outline.identity == alone.plan.outline.identity
        assert part.plan.groups_per_unit == alone.plan.groups_per_unit


def test_epsilon_is_the_price_of_all_new_parts_and_stored_ones_are_free() -> None:
    curator = opened()
    answer = computed(curator, ROLLUP, epsilon=1)
    assert (answer.cost.amount, len(answer.parts), len(answer.entries)) == (1, 3, 3)
    assert curator.budget.spent.amount == 1
    assert computed(curator, ROLLUP, epsilon=1).cost.amount == 0
    curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)
    again = computed(curator, PERCENT, epsilon=1)
    assert again.cost.amount < 1, "the total is stored"
    preview = curator.preview(ROLLUP, epsilon=1, refresh=True)
    assert (preview.cost.amount, len(preview)) == (1, 3)


def test_a_retry_with_a_key_pays_once() -> None:
    curator = opened()
    first = computed(curator, ROLLUP, epsilon=1, key="a", refresh=True)
    assert computed(curator, ROLLUP, epsilon=1, key="a").cost.amount == 0
    assert curator.budget.spent.amount == first.cost.amount
    with pytest.raises(Misconfigured, match="This key was used for another question"):
        curator.sql(PERCENT, epsilon=1, key="a")


def test_totals_are_told_from_null_and_say_that_they_need_not_add_up() -> None:
    answer = computed(opened(), ROLLUP, epsilon=50)
    rows = answer.to_dict()["rows"]
    assert sorted((row["sex"] is None, row["total"]) for row in rows) == [(False, 0)] * 6 + [(False, 1)] * 2 + [
        (True, 1)
    ]
    assert "Totals and groups have noise of their own, so they need not add up." in answer.notes
    assert "need not add up" in answer.explain()
    assert "need not add up" in answer.to_json()
    total = next(row for row in rows if row["sex"] is None)
    assert abs(total["n"] - 80) < 20
    assert total["n_low"] < total["n"] < total["n_high"]


@pytest.mark.parametrize("text", EVERY)
def test_every_format_shows_it(text: str) -> None:
    answer = computed(opened(), text)
    rows = len(answer)
    assert len(answer.to_pandas()) == len(answer.to_polars()) == answer.to_arrow().num_rows == rows
    assert len(answer.to_csv().splitlines()) == rows + 1
    read = json.loads(answer.to_json())
    assert (len(read["rows"]), read["price"]["epsilon"], read["ledger_entries"]) == (rows, 1.0, list(answer.entries))
    assert f"ledger entr{'y' if len(answer.entries) == 1 else 'ies'} " in answer.explain()
    assert "\n95% intervals; price epsilon = 1, " in str(answer) or "\nno intervals; price epsilon = 1, " in str(answer)
    assert "<table" in answer._repr_html_()
    assert "The answer is computed from these released numbers" in answer.methods()
    assert answer.intervals(0.5).num_rows == answer.intervals(simultaneous=True).num_rows == rows


@pytest.mark.parametrize("text", EVERY)
def test_what_is_above_reads_no_rows(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine sees the queries of the parts, after their charge, and nothing else."""
    curator = opened()
    spy = Spy(curator, monkeypatch)
    answer = computed(curator, text)
    assert len(spy.queries) == len(answer.parts)
    assert CANARY not in f"{answer} {answer.to_json()} {answer.methods()}"


REFUSED = {
    "SELECT site, RANK() OVER (ORDER BY SUM(loose)) AS r FROM visits GROUP BY site": "loose",
    f"SELECT n, (SELECT SUM(loose) FROM visits) AS s FROM ({SITES})": "loose",
    "SELECT site, COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits) GROUP BY site": "Ask it first",
    "SELECT cost, SUM(cost) OVER () AS s FROM visits": "window functions mix rows of different units",
    f"SELECT n FROM ({SITES}) AS a JOIN visits ON a.site = visits.site": "Aggregate the rows first",
    f"SELECT LISTAGG(n) OVER () AS s FROM ({SITES})": "not supported",
    f"SELECT RANDOM() + n AS x FROM ({SITES}) UNION ALL SELECT 1": "",
    f"SELECT n, NOW() AS t, SUM(n) OVER () AS s FROM ({SITES})": "",
    f"SELECT SUM(n) AS s FROM ({SITES}), RANGE(10)": "",
    f"SELECT SUM(n + site || 'x') AS s FROM ({SITES})": "",
    f"SELECT SUM(n) OVER (ORDER BY site RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) AS s FROM ({SITES})": "ROWS",
    f"SELECT LAG(n, site) OVER () AS s FROM ({SITES})": "constant",
    f"SELECT (SELECT n FROM ({SITES})) AS n, SUM(n) AS s FROM ({SITES})": "one row",
    f"SELECT SUM(m) FROM ({SITES})": "`n`",
    "SELECT COUNT(*) AS n FROM visits GROUP BY CUBE (sex, site, sick, age, name)": "more than 16 grouping sets",
    f"SELECT n AS a, n AS A FROM ({SITES}) OFFSET 1": "two columns",
}


@pytest.mark.parametrize("text", REFUSED)
def test_one_refused_part_or_step_refuses_all_for_nothing(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    curator = opened()
    spy = Spy(curator, monkeypatch)
    with pytest.raises(Refused) as caught:
        curator.sql(text, epsilon=1)
    assert REFUSED[text] in str(caught.value)
    assert str(caught.value).endswith("Nothing was charged.")
    assert (curator.budget.spent.amount, spy.queries) == (0, [])


def test_at_most_sixteen_parts() -> None:
    text = " UNION ALL ".join(f"SELECT COUNT(*) AS n FROM visits WHERE age > {age}" for age in range(17))
    with pytest.raises(Refused, match="17 questions at once; at most 16"):
        opened().sql(text, epsilon=1)
    assert len(computed(opened(), text.rsplit(" UNION ALL ", 1)[0]).parts) == 16


@pytest.mark.parametrize("terms", [{"within": 10}, {"epsilon": 1, "limits": "auto"}, {"epsilon": 1, "combine": True}])
def test_terms_that_cannot_be_kept_are_refused(terms: dict[str, Any]) -> None:
    curator = opened()
    with pytest.raises(LapwingError, match="Nothing was charged"):
        curator.sql(ROLLUP, **terms)
    assert curator.budget.spent.amount == 0


def test_limits_are_found_for_a_statement_with_one_part() -> None:
    curator = opened(groups_per_unit=None, rows_per_unit=None)
    answer = computed(curator, SHARE, epsilon=50, limits="auto")
    assert answer.cost.amount == 50
    assert any("Found privately" in note for note in answer.notes)


def test_what_takes_too_long_stays_charged_and_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only failure after the charge: a constant sentence, and the parts are stored."""
    curator = opened()
    ready = public_values.Calculation.check
    monkeypatch.setattr(public_values, "SECONDS", 20.0)
    calls: list[int] = []

    def slow(self: public_values.Calculation, rows: int) -> None:
        calls.append(rows)
        if rows == 3:  # the released table; the rehearsals have fewer rows
            raise public_values.OverrunError
        ready(self, rows)

    monkeypatch.setattr(public_values.Calculation, "check", slow)
    with pytest.raises(Unfinished, match="asking again for them is free") as caught:
        curator.sql(SHARE, epsilon=1)
    assert caught.value.charged == curator.budget.spent
    monkeypatch.undo()
    assert calls
    assert computed(curator, SHARE, epsilon=1).cost.amount == 0


def test_what_a_statement_drops_is_not_paid() -> None:
    text = (
        "SELECT SUM(n) AS t FROM (SELECT site, COUNT(*) AS n, SUM(cost) AS s, AVG(age) AS a FROM visits GROUP BY site)"
    )
    (part,) = read_statement(text, opened().catalog).parts
    assert [aggregate.words() for aggregate in part.aggregates] == ["COUNT(*)"]


def test_one_question_stays_one_question() -> None:
    curator = opened()
    for text in (SITES, f"SELECT n FROM ({SITES}) WHERE n > 3 ORDER BY n LIMIT 2", SITES + " HAVING COUNT(*) > 3"):
        assert not isinstance(curator.sql(text, epsilon=1), Computed)


def ibis_questions(curator: Curator) -> dict[str, tuple[Any, str]]:
    """Ibis expressions that go on above the release, and the same in SQL."""
    import ibis

    visits = curator.table("visits")
    sites = visits.group_by("site").agg(n=visits.count())
    return {
        "aggregate": (
            sites.agg(total=sites.n.sum(), most=sites.n.max()),
            f"SELECT SUM(n) AS total, MAX(n) AS most FROM ({SITES})",
        ),
        "window": (
            sites.mutate(share=sites.n * 100 / sites.n.sum().over(), r=ibis.rank().over(order_by=ibis.desc("n"))),
            f"SELECT site, n, n * 100 / SUM(n) OVER () AS share, RANK() OVER (ORDER BY n DESC) - 1 AS r FROM ({SITES})",
        ),
        "scalar": (
            sites.mutate(p=sites.n / visits.count().as_scalar()),
            f"SELECT site, n, n / (SELECT COUNT(*) FROM visits) AS p FROM ({SITES})",
        ),
        "offset": (
            sites.order_by("site").limit(1, offset=1),
            f"SELECT * FROM ({SITES}) ORDER BY site LIMIT 1 OFFSET 1",
        ),
    }


@pytest.mark.parametrize("name", ["aggregate", "window", "scalar", "offset"])
def test_ibis_gets_the_same_answer_for_nothing(name: str) -> None:
    curator = opened()
    expression, text = ibis_questions(curator)[name]
    first, second = computed(curator, text), computed(curator, expression)
    assert (first.cost.amount, second.cost.amount) == (1, 0)
    assert first.to_dict()["rows"] == second.to_dict()["rows"]
    assert not curator.preview(expression, epsilon=1).cost


WITHIN = [
    "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) = 1",
    f"SELECT x.site, x.n FROM ({SITES}) AS x ORDER BY n DESC LIMIT 1 OFFSET 1",
]


@pytest.mark.parametrize("text", WITHIN)
def test_within_promises_the_width_that_is_shown(text: str) -> None:
    curator = opened()
    answer = computed(curator, text, within=50)
    rows = answer.to_dict()["rows"]
    assert rows
    assert all(row["n_high"] - row["n_low"] <= 100 for row in rows)
    alone = SITES if SITES in text else text.split(" QUALIFY")[0]
    assert answer.cost.amount > curator.preview(alone, within=50, refresh=True).cost.amount
    assert not computed(curator, text, within={"n": 50}).cost.amount


def test_group_by_all_is_an_ordinary_question() -> None:
    curator = opened()
    first = curator.sql(SITES, within=50)
    again = curator.sql("SELECT site, 'all' AS label, COUNT(*) AS n FROM visits GROUP BY ALL", within=50)
    assert (again.cost.amount, again.entry) == (0, first.entry)


def test_a_select_without_from_is_one_row_of_sub_queries() -> None:
    women, everybody = "(SELECT COUNT(*) FROM visits WHERE sex = 'F')", "(SELECT COUNT(*) FROM visits)"
    answer = computed(opened(), f"SELECT {women} * 100.0 / {everybody} AS share, {everybody} AS n", epsilon=50)
    assert (len(answer.parts), len(answer)) == (2, 1)
    (row,) = answer.to_dict()["rows"]
    assert row["share_low"] < row["share"] < row["share_high"]
    with pytest.raises(Refused):
        opened().sql("SELECT 1 AS x, 2 AS y", epsilon=1)
