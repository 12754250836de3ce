"""FROM as analysts write it: commas, parentheses, and the date of the request."""

from __future__ import annotations

from datetime import date
from random import Random

import pytest

from lapwing.curator.pricing import Terms
from lapwing.curator.request import QuestionRequest, Request
from lapwing.errors import Refused
from lapwing.sql import read_sql
from lapwing.sql.ibis import read_ibis, unbound_table
from support.refusals import attempt
from support.relations import make_world
from support.visits import open_visits, visits_catalog, visits_table

CATALOG = make_world(Random(1)).catalog
TODAY = date(2024, 2, 29)

SAME = {
    "visits v, sites p WHERE v.site = p.code": "visits v JOIN sites p ON v.site = p.code",
    "visits v, sites p WHERE p.code = v.site AND size > 5": "visits v JOIN sites p ON v.site = p.code WHERE size > 5",
    "visits v, stays s WHERE v.pid = s.pid AND v.site = s.site": (
        "visits v JOIN stays s ON v.pid = s.pid AND v.site = s.site"
    ),
    "visits v, stays s, sites p WHERE v.pid = s.pid AND s.site = code": (
        "visits v JOIN stays s ON v.pid = s.pid JOIN sites p ON s.site = p.code"
    ),
    "visits v CROSS JOIN sites p WHERE v.site = p.code": "visits v JOIN sites p ON v.site = p.code",
    "(visits v JOIN sites p ON v.site = p.code)": "visits v JOIN sites p ON v.site = p.code",
    "(visits)": "visits",
    "((visits)) AS v WHERE v.sick": "visits v WHERE v.sick",
    "(visits v JOIN stays s ON v.pid = s.pid) JOIN sites p ON s.site = p.code": (
        "visits v JOIN stays s ON v.pid = s.pid JOIN sites p ON s.site = p.code"
    ),
}


@pytest.mark.parametrize("written", SAME)
def test_commas_and_parentheses_ask_the_same_as_joins(written: str) -> None:
    asked, plain = (read_sql(f"SELECT COUNT(*) FROM {text}", CATALOG) for text in (written, SAME[written]))
    assert asked.facts == plain.facts


def test_a_name_after_parentheses_is_that_of_all_columns() -> None:
    text = "SELECT q.ward, AVG(q.cost) FROM (visits JOIN stays USING (pid)) AS q GROUP BY q.ward"
    refused = attempt(read_sql, text, CATALOG)
    assert isinstance(refused, Refused)  # both have a column `site`
    assert refused.code == "duplicate-name"
    text = "SELECT q.name, AVG(q.cost) FROM (visits JOIN sites ON site = code) AS q GROUP BY q.name"
    assert len(read_sql(text, CATALOG).keys) == 1


@pytest.mark.parametrize(
    "source",
    [
        "visits, sites",
        "visits v, sites p WHERE v.site > p.code",
        "visits v, sites p WHERE v.site = 1",
        "visits v, sites p WHERE v.site = p.code OR v.sick",
        "visits v, sites p WHERE v.site + p.code = 2",
        "visits v LEFT JOIN sites p WHERE v.site = p.code",
    ],
)
def test_comma_without_an_equality_of_both_tables_is_refused(source: str) -> None:
    refused = attempt(read_sql, f"SELECT COUNT(*) FROM {source}", CATALOG)
    assert isinstance(refused, Refused)
    assert refused.code == "unsupported-join"


def test_commas_do_not_join_private_tables_on_other_columns() -> None:
    refused = attempt(read_sql, "SELECT COUNT(*) FROM visits v, stays s WHERE v.site = s.site", CATALOG)
    assert isinstance(refused, Refused)
    assert refused.code == "join-not-on-unit"


def test_current_date_is_the_date_of_the_request_and_part_of_the_identity() -> None:
    text = "SELECT COUNT(*) FROM visits WHERE day >= CURRENT_DATE - INTERVAL 30 DAY"
    asked = read_sql(text, visits_catalog(), TODAY)
    assert asked.facts == read_sql(text.replace("CURRENT_DATE", "DATE '2024-02-29'"), visits_catalog()).facts
    assert asked.facts != read_sql(text, visits_catalog(), date(2024, 3, 1)).facts
    (note,) = asked.notes
    assert note.startswith("CURRENT_DATE is 2024-02-29")
    assert isinstance(attempt(read_sql, text, visits_catalog()), Refused)


def test_today_of_ibis_is_the_date_of_the_request() -> None:
    import ibis

    visits = unbound_table(visits_table())
    asked = read_ibis(visits.filter(visits.day < ibis.today()).count(), visits_catalog(), TODAY)
    text = "SELECT COUNT(*) FROM visits WHERE day < CURRENT_DATE"
    assert asked.facts == read_sql(text, visits_catalog(), TODAY).facts
    assert asked.notes == read_sql(text, visits_catalog(), TODAY).notes


def test_answer_says_which_date_it_took() -> None:
    curator = open_visits()
    question = QuestionRequest("SELECT COUNT(*) FROM visits WHERE CURRENT_DATE > DATE '2024-01-01' OR age > 30")
    answers = [curator.answer(Request(question, Terms(epsilon=0.1), today=day)) for day in (TODAY, date(2024, 3, 1))]
    for answer, day in zip(answers, ("2024-02-29", "2024-03-01"), strict=True):
        assert f"CURRENT_DATE is {day}" in answer.explain()
        assert f"CURRENT_DATE is {day}" in answer.to_json()


def test_an_answer_of_yesterday_is_not_given_again_today() -> None:
    """The second answer is stored and kept at hand for its words, which mean something else on the next day."""
    curator = open_visits()
    question = QuestionRequest("SELECT COUNT(*) FROM visits WHERE CURRENT_DATE > DATE '2024-01-01' OR age > 30")
    days = (TODAY, TODAY, date(2024, 3, 1))
    first, again, next_day = (curator.answer(Request(question, Terms(epsilon=0.1), today=day)) for day in days)
    assert (bool(first.cost), bool(again.cost), bool(next_day.cost)) == (True, False, True)
    assert "CURRENT_DATE is 2024-03-01" in next_day.explain()
    assert "CURRENT_DATE is 2024-03-01" in next_day.to_json()


@pytest.mark.parametrize("clock", ["NOW()", "CURRENT_TIMESTAMP", "GET_CURRENT_TIMESTAMP()", "LOCALTIMESTAMP"])
def test_the_time_of_day_stays_refused(clock: str) -> None:
    text = f"SELECT COUNT(*) FROM visits WHERE at > {clock}"
    assert isinstance(attempt(read_sql, text, visits_catalog(), TODAY), Refused)


def test_having_means_a_selected_column_where_the_name_is_no_key() -> None:
    """As in DuckDB: the name is that of a column of the table too, which HAVING cannot use."""
    text = "SELECT sex, SUM(cost) AS cost FROM visits GROUP BY sex HAVING {} > 100"
    named, written = (read_sql(text.format(term), visits_catalog()) for term in ("cost", "SUM(cost)"))
    assert named.having == written.having
    keyed = read_sql(
        "SELECT sex AS site, site AS sex, COUNT(*) FROM visits GROUP BY sex, site HAVING site > 9", visits_catalog()
    )
    assert keyed.having is not None
