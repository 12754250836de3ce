"""A question whose answer would say nothing, by its plan alone, is refused for nothing, unless it is asked anyway."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lapwing import magic
from lapwing.cli import main as program
from lapwing.curator import Curator, open_data
from lapwing.curator.pricing import Terms
from lapwing.curator.request import QuestionRequest, Request
from lapwing.errors import Refused
from lapwing.privacy import Budget
from support.serving import serving

AGE = "DATE_DIFF('year', born, CURRENT_DATE)"
MEAN = f"SELECT AVG({AGE}) AS a FROM visits"
CLIPPED = f"SELECT AVG(CLIP({AGE}, 0, 120)) AS a FROM visits"
pytestmark = pytest.mark.usefixtures("seeded")

USELESS = {
    "mean": MEAN,
    "sum": f"SELECT sex, SUM({AGE}) AS s FROM visits GROUP BY sex",
    "days": "SELECT SUM(DATE_DIFF('day', born, DATE '2000-01-01')) AS s FROM visits",
    "scaled": f"SELECT AVG({AGE} / 365) AS s FROM visits",
    "one side": f"SELECT AVG(LEAST({AGE}, 100)) AS s FROM visits",
    "filtered": f"SELECT AVG({AGE}) FILTER (WHERE cost > 3) AS s FROM visits",
    "spread": f"SELECT STDDEV({AGE}) AS s FROM visits",
    "pair": f"SELECT CORR(cost, {AGE}) AS s FROM visits",
    "sub-query": f"SELECT AVG(age) AS s FROM (SELECT {AGE} AS age FROM visits) AS t",
    "per unit": f"SELECT AVG(age) AS s FROM (SELECT pid, MAX({AGE}) AS age FROM visits GROUP BY pid) AS t",
    "union": f"SELECT SUM(x) AS s FROM (SELECT {AGE} AS x FROM visits UNION ALL SELECT cost AS x FROM visits) AS t",
    "join": f"SELECT SUM(age) AS s FROM (SELECT pid, MAX({AGE}) AS age FROM visits GROUP BY pid) AS t "
    "JOIN visits USING (pid)",
    "above": f"SELECT s + 1 AS s FROM (SELECT AVG({AGE}) AS s FROM visits) AS t",
}
USEFUL = {
    "clipped": CLIPPED,
    "median": f"SELECT MEDIAN({AGE}) AS s FROM visits",
    "counted": f"SELECT COUNT({AGE}) AS s FROM visits WHERE {AGE} > 50",
    "condition": f"SELECT AVG(CASE WHEN {AGE} > 50 THEN 1 ELSE 0 END) AS s FROM visits",
    "remainder": f"SELECT SUM({AGE} % 7) AS s FROM visits",
    "part": "SELECT AVG(MONTH(born)) AS m, AVG(YEAR(born)) AS y FROM visits",
    "counted per unit": f"SELECT AVG(n) AS s FROM (SELECT pid, COUNT({AGE}) AS n FROM visits GROUP BY pid) AS t",
    "beside": f"SELECT SUM(x) AS s FROM (SELECT cost AS x, {AGE} AS a FROM visits UNION ALL "
    "SELECT cost AS x, 0 AS a FROM visits) AS t",
    "dear": "SELECT AVG(cost) AS s FROM visits",
}


def rows() -> pa.Table:
    born = [date(1940 + i % 60, 1, 1) for i in range(80)]
    sexes = ["FM"[i % 2] for i in range(80)]
    return pa.table({"pid": range(80), "born": born, "cost": [float(i % 9) for i in range(80)], "sex": sexes})


def opened(**changes: Any) -> Curator:
    facts: dict[str, Any] = {"unit": "pid", "rows_per_unit": 1, "groups_per_unit": 1, "budget": Budget(epsilon=8)}
    facts |= {"bounds": {"cost": (0, 10)}, "values": {"sex": ["F", "M"]}, "check": 0}
    return open_data(rows(), name="visits", **{**facts, **changes})


@pytest.mark.parametrize("name", USELESS)
def test_a_number_whose_bounds_are_those_of_all_dates_is_refused(name: str) -> None:
    curator = opened()
    advice = r"CLIP\(..., 0, 120\) for an age in years, .* in days. Or pass anyway=True. Nothing was charged"
    with pytest.raises(Refused, match=advice) as caught:
        curator.sql(USELESS[name], epsilon=0.1)
    assert caught.value.code == "useless-answer"
    assert not curator.budget.spent
    assert curator.sql(USELESS[name], epsilon=0.1, anyway=True).cost


@pytest.mark.parametrize("name", USEFUL)
def test_what_is_bounded_otherwise_is_answered(name: str) -> None:
    assert opened().sql(USEFUL[name], epsilon=0.001).cost


def test_what_the_refusal_says_to_write_gives_what_was_meant() -> None:
    answer = opened(budget=Budget(epsilon=200)).sql(CLIPPED, epsilon=100)
    today = Request(QuestionRequest(""), Terms()).today.year
    assert answer["a"][0] == pytest.approx(sum(today - born.year for born in rows()["born"].to_pylist()) / 80, abs=0.5)


@pytest.mark.parametrize(("epsilon", "says"), [(0.01, True), (1, False)])
def test_a_mean_is_refused_where_the_assumed_rows_leave_its_whole_range(epsilon: float, says: bool) -> None:
    curator, asked = opened(), "SELECT AVG(cost) AS c FROM visits"
    assert ("is refused" in str(curator.preview(asked, epsilon=epsilon, assume_rows=100))) == says
    assert "is refused" not in str(curator.preview(asked, epsilon=epsilon))
    if says:
        with pytest.raises(Refused, match="as wide as its bounds allow"):
            curator.sql(asked, epsilon=epsilon, assume_rows=100)
    assert curator.sql(asked, epsilon=epsilon, assume_rows=100, anyway=says).cost


def test_the_preview_says_that_it_is_refused() -> None:
    curator = opened()
    said = "is refused: differences of the dates of `born` have no bounds"
    seen = curator.preview(MEAN, epsilon=0.1)
    assert said in str(seen)
    assert any(said in note for note in seen.to_dict()["notes"])
    assert said in str(curator.preview_batch([MEAN, "SELECT COUNT(*) AS n FROM visits"], epsilon=0.1))
    curator.sql(MEAN, epsilon=0.1, anyway=True)
    assert said not in str(curator.preview(MEAN, epsilon=0.1))


def test_asking_anyway_changes_no_identity_and_no_stored_answer() -> None:
    asked = QuestionRequest(MEAN)
    plain, anyway = (Request(asked, Terms(epsilon=1), key="k", anyway=value) for value in (False, True))
    assert plain == anyway
    assert plain.identity == anyway.identity
    assert plain.body() == anyway.body()
    curator = opened()
    first = curator.sql(MEAN, epsilon=0.1, anyway=True, key="k")
    for again in (curator.sql(MEAN, epsilon=0.1), curator.sql(MEAN, epsilon=0.1, key="k")):
        assert (again.entry, again.cost.amount) == (first.entry, 0)


def test_a_batch_is_refused_before_any_of_it_is_charged() -> None:
    curator, asked = opened(), ["SELECT COUNT(*) AS n FROM visits", MEAN]
    with pytest.raises(Refused, match="differences of the dates"):
        curator.batch(asked, epsilon=0.1)
    assert not curator.budget.spent
    assert len(curator.batch(asked, epsilon=0.1, anyway=True)) == 2
    assert not curator.batch(asked, epsilon=0.1).cost


def test_a_search_is_not_paid_for_a_useless_answer() -> None:
    curator = opened(bounds={})
    with pytest.raises(Refused, match="Nothing was charged"):
        curator.sql(f"SELECT SUM(cost) AS c, AVG({AGE}) AS a FROM visits", epsilon=0.1, bounds="auto")
    assert not curator.budget.spent


def test_a_server_refuses_it_and_takes_the_field() -> None:
    with serving(opened()) as asked:
        body: dict[str, Any] = {"sql": MEAN, "epsilon": "0.1"}
        refused = asked.ask(body, key="k")
        assert (refused.status_code, refused.json()["code"]) == (422, "useless-answer")
        assert not asked.spent
        assert asked.ask({**body, "anyway": True}, key="k").status_code == 200
        assert asked.ask(body).json()["price"]["epsilon"] == 0
        batch = {"questions": [f"{MEAN} WHERE cost > 3"], "epsilon": "0.1"}
        assert asked.ask(batch, "/v1/batch").json()["code"] == "useless-answer"
        assert asked.ask({**batch, "anyway": True}, "/v1/batch").status_code == 200
        assert asked.ask({**body, "anyway": "yes"}).status_code == 422


def test_the_command_line_and_the_notebook_take_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(rows(), tmp_path / "visits.parquet")
    (tmp_path / "lapwing.toml").write_text(
        '[budget]\nepsilon = 8\n[tables.visits]\nsource = "visits.parquet"\nunit = "pid"\nrows_per_unit = 1\n'
        '[tables.visits.columns]\npid = { type = "integer" }\nborn = { type = "date" }\n'
    )
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["lapwing", *arguments])
        with pytest.raises(SystemExit) as stop:
            program.run()
        return int(stop.value.code or 0), capsys.readouterr().err

    code, said = run("ask", MEAN, "-e", "0.1")
    assert code != 0
    assert "Or pass --anyway." in said
    assert run("preview", MEAN, "-e", "0.1", "--anyway")[0] == 0
    assert run("batch", MEAN, "-e", "0.1", "--anyway")[0] == 0
    assert run("ask", MEAN, "-e", "0.1")[0] == 0
    names = {"curator": opened()}
    with pytest.raises(Refused):
        magic.run("--epsilon 0.1", MEAN, names)
    assert magic.run("--epsilon 0.1 --anyway", MEAN, names).cost
