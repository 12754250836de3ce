"""Which limits can bind, and what every answer says of them, wherever a person looks."""

from __future__ import annotations

import json

import pytest

from lapwing.plan.aggregates import limits_of
from lapwing.plan.plan import make_outline
from lapwing.sql import read_sql
from support.visits import open_visits, visits_catalog

COVERED = "The interval covers the clipped data only."


def notes(text: str, **changes: object) -> tuple[str, ...]:
    return make_outline(read_sql(text, visits_catalog(**changes))).notes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT COUNT(*) AS n FROM visits", "Counts at most 5 rows of a pid; the rest is left out."),
        (
            "SELECT site, COUNT(*) AS n FROM visits GROUP BY site",
            "Counts at most 5 rows of a pid in a group, and a pid in at most 2 groups; the rest is left out.",
        ),
        (
            "SELECT site, COUNT(DISTINCT pid) AS n FROM visits GROUP BY site",
            "Counts a pid in at most 2 groups; the rest is left out.",
        ),
        (
            "SELECT COUNT(DISTINCT site) AS n FROM visits",
            "Counts at most 5 different values of a pid; the rest is left out.",
        ),
        (
            "SELECT sex, SUM(cost) AS s FROM visits GROUP BY sex",
            "The total of `cost` for a pid in a group is cut to [0, 500]. Values of `cost` are cut to [0, 100].",
        ),
        (
            "SELECT AVG(cost) AS m, SUM(cost) AS s FROM visits",
            "More than 5 rows of a pid weigh as much as 5. Values of `cost` are cut to [0, 100].",
        ),
        (
            "SELECT MEDIAN(age + cost) AS m FROM visits",
            "More than 5 rows of a pid weigh as much as 5. Values of `age` are cut to [0, 120], of `cost` to [0, 100].",
        ),
        (
            "SELECT AVG(s) AS m FROM (SELECT pid, SUM(cost) AS s FROM visits GROUP BY pid)",
            "Values of `SUM(cost)` are cut to [0, 500], of `cost` to [0, 100].",
        ),
    ],
)
def test_limits_that_can_bind_are_said(text: str, said: str) -> None:
    assert notes(text) == (f"{said} {COVERED}",)


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("SELECT COUNT(DISTINCT pid) AS n FROM visits", {}),
        ("SELECT sex, COUNT(DISTINCT pid) AS n FROM visits GROUP BY sex", {}),  # two groups, and two are allowed
        ("SELECT sex, COUNT(DISTINCT pid) AS n FROM visits GROUP BY sex", {"groups_per_unit": None}),
        ("SELECT site, COUNT(*) AS n FROM visits GROUP BY site", {"unit": None}),
        ("SELECT SUM(CASE WHEN cost > 50 THEN 1 ELSE 0 END) AS n FROM visits", {"unit": None}),
        (
            "SELECT n, COUNT(*) AS m FROM (SELECT pid, CLIP(COUNT(*), 0, 9) AS n FROM visits GROUP BY pid) GROUP BY n",
            {},
        ),
    ],
)
def test_limits_that_cannot_bind_are_not_said(text: str, changes: dict[str, object]) -> None:
    assert notes(text, **changes) == ()


def test_rows_as_units_are_only_clipped() -> None:
    said = f"Values of `cost` are cut to [0, 100]. {COVERED}"
    assert notes("SELECT SUM(cost) AS s, COUNT(*) AS n FROM visits", unit=None) == (said,)


def test_totals_with_bounds_of_their_own_do_not_depend_on_rows() -> None:
    visits = open_visits(unit_bounds={"cost": (0, 60)}, bounds={"cost": (0, 50)})
    question = visits._planner.read("SELECT SUM(cost) AS s FROM visits")
    limits = limits_of(question.table, question.aggregates, None)
    assert limits.rows is None
    assert [field.name for field in limits.totals] == ["cost"]


def test_an_answer_says_what_its_limits_leave_out_wherever_a_person_looks() -> None:
    visits = open_visits()
    text = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
    said = f"Counts at most 2 rows of a pid in a group; the rest is left out. {COVERED}"
    preview = visits.preview(text, epsilon=0.1)
    answer, batch = visits.sql(text, epsilon=0.1), visits.batch([text], epsilon=0.1)
    for shown in (preview.explain(), answer.explain(), answer.methods(), batch.explain()):
        assert said in shown
    for read in (preview.to_dict(), json.loads(answer.to_json()), batch.to_dict()["answers"]["1"]):
        assert read["notes"] == [said]
    assert answer.notes == (said,)
    assert answer.to_pandas().attrs["notes"] == [said]
    assert "Rows whose `sex` is not a declared value are not counted." in answer.explain()
    assert said in visits.preview_batch([text], epsilon=0.1).explain()


def test_a_workload_says_what_its_limits_leave_out() -> None:
    visits = open_visits(groups_per_unit=1, bounds={"cost": (0, 50)})
    said = f"Counts at most 2 rows of a pid in a cell, and a pid in at most 1 cell; the rest is left out. {COVERED}"
    ages, tables = visits.distribution("cost", cells=5, epsilon=0.1), visits.marginals(["sex", "site"], epsilon=0.1)
    assert said in ages.methods()
    assert said in tables.methods()
    for answer in (ages, tables["sex", "site"]):
        assert said in answer.explain()
        assert said in answer.to_dict()["notes"]
    assert said in visits.preview_distribution("cost", cells=5, epsilon=0.1).explain()
