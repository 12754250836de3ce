"""Identities are exact and stay what they are: if a golden text changes, everybody pays for stored answers again.

identities.json holds one identity of every kind. If a change of it is meant, raise `FORMAT` in expressions/identity.py.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from lapwing.answers.distribution import ask_distribution
from lapwing.answers.marginals import ask_marginals
from lapwing.curator import Curator
from lapwing.curator.automatic import Automatic
from lapwing.curator.batch import read_batch
from lapwing.curator.pricing import Terms
from lapwing.curator.request import DistributionRequest, MarginalsRequest, QuestionRequest, Request
from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Column
from lapwing.expressions.identity import FORMAT, Identity, expression_facts, rows_facts, value_facts
from lapwing.expressions.operators.table import OPERATORS
from lapwing.expressions.table import Catalog, Field, Limit, Table
from lapwing.expressions.types import Interval, Type
from lapwing.plan.bounds_search import BoundsOf, LimitOf
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.question import Question
from lapwing.privacy.loss import ZCDP
from lapwing.sql import read_sql
from support.visits import interval, open_visits, visits_table

GOLDEN = Path(__file__).with_name("identities.json")
SITES = Table(
    "sites", (Field("code", Type.INTEGER), Field("town", Type.TEXT)), None, version="3f", public=True, keys=(("code",),)
)
STAYS = Table(
    "stays", (Field("pid", Type.INTEGER), Field("nights", Type.INTEGER, interval(0, 30))), "pid", rows_per_unit=3
)
CATALOG = Catalog((visits_table(), SITES, STAYS))
QUESTIONS = {
    "count": "SELECT COUNT(*) FROM visits",
    "units": "SELECT COUNT(DISTINCT pid) FROM visits WHERE sick",
    "groups": "SELECT site, COUNT(*), SUM(cost) FROM visits WHERE age >= 18 AND sex = 'F' GROUP BY site",
    "constants": "SELECT COUNT(*) FROM visits WHERE day < DATE '2020-02-29' AND cost / 3 > 0.1 AND name IS NULL",
    "mean": "SELECT sex, AVG(cost) FROM visits GROUP BY sex",
    "variance": "SELECT VARIANCE(cost) FROM visits",
    "correlation": "SELECT CORR(cost, age) FROM visits",
    "quantile": "SELECT QUANTILE_CONT(age, 0.25) FROM visits",
    "distinct": "SELECT COUNT(DISTINCT name) FROM visits",
    "largest": "SELECT site FROM visits GROUP BY site ORDER BY COUNT(*) DESC LIMIT 1",
    "selected": "SELECT name, COUNT(DISTINCT pid) FROM visits GROUP BY name",
    "public": "SELECT COUNT(*) FROM visits v JOIN sites s ON v.site = s.code WHERE town = 'York'",
    "private": "SELECT SUM(nights) FROM visits v LEFT JOIN stays s ON v.pid = s.pid",
    "union": "SELECT SUM(x) FROM (SELECT pid, age AS x FROM visits UNION ALL SELECT pid, nights AS x FROM stays)",
    "per unit": "SELECT COUNT(*) FROM (SELECT pid, SUM(age) AS total FROM visits GROUP BY pid) WHERE total > 40",
}


def read(text: str, catalog: Catalog = CATALOG) -> Question:
    question = read_sql(text, catalog)
    assert isinstance(question, Question), question
    return question


def planned(text: str, catalog: Catalog = CATALOG) -> Plan:
    plan = make_plan(read(text, catalog), ZCDP(Fraction(1, 2), Fraction(1, 10**6) if " name," in text else 0))
    assert isinstance(plan, Plan), plan
    return plan


def every_kind() -> dict[str, Identity]:
    found = {name: planned(text).outline.identity for name, text in QUESTIONS.items()}
    for name, outline in (
        ("distribution", ask_distribution(CATALOG, "age", table="visits", where="sick", cells=None)),
        ("marginals", ask_marginals(CATALOG, ["sex", "cost"], table="visits", where=None, ways=2, cells=4)),
    ):
        found[name] = outline.identity
    question = read(QUESTIONS["groups"])
    found["bounds search"] = BoundsOf(question.table, question.table.field("loose")).identity
    found["limit search"] = LimitOf(question, ((9, 10, 1000),), Limit.ROWS).identity
    return found | {name: request.identity for name, request in requests().items()}


def requests() -> dict[str, Request]:
    texts, terms = {"a": QUESTIONS["count"], "b": QUESTIONS["units"]}, Terms(epsilon=Fraction(1, 3), confidence=0.9)
    exactly = Terms(within={"n": 50, "m": 2.5}, delta=1e-6, assume_rows=100, automatic=Automatic(bounds=True))
    return {
        "request": Request(QuestionRequest(QUESTIONS["selected"]), exactly, refresh=True, combine=True),
        "batch request": Request(read_batch(texts, {"b": 2}), terms),
        "distribution request": Request(DistributionRequest("age", "visits", "sick", None), terms),
        "marginals request": Request(MarginalsRequest(["sex", "cost"], cells={"cost": 4}), terms),
    }


def golden() -> Any:
    return json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("name", golden())
def test_an_identity_stays_what_it_is(name: str) -> None:
    assert json.loads(every_kind()[name].text) == golden()[name]


def test_there_is_a_golden_identity_of_every_kind() -> None:
    assert list(golden()) == list(every_kind())
    assert {text[0] for text in golden().values()} == {FORMAT}
    kinds = {text[1] for text in golden().values()}
    assert kinds == {"cells", "bounds", "limit", "request"}


def test_identities_of_different_questions_differ() -> None:
    assert len({identity.text for identity in every_kind().values()}) == len(every_kind())


def test_values_of_different_types_are_different_facts() -> None:
    values = [None, 1, Fraction(1), "1", True, "True", date(2020, 1, 1), datetime(2020, 1, 1), "2020-01-01", "None"]  # noqa: DTZ001
    assert len({value_facts(value) for value in values}) == len(values)


def test_a_bound_counts_in_every_digit_where_it_clips() -> None:
    ends = [Fraction(1310716, 10), Fraction(1310716, 10) + Fraction(1, 10**30)]
    columns = [Column("cost", Type.REAL, Interval(Fraction(0), end)) for end in ends]
    assert len({expression_facts(column, visits_table(), clipped=True) for column in columns}) == 2
    assert len({expression_facts(column, visits_table()) for column in columns}) == 1


@pytest.mark.parametrize("name", ["version", "unit", "name"])
def test_rows_of_other_data_are_other_facts(name: str) -> None:
    one, two = visits_table(), visits_table(**({name: "other"} if name == "version" else {}))
    if name == "unit":
        two = visits_table(unit="age")
    if name == "name":
        two = Table("others", one.fields, one.unit)
    assert rows_facts(one) != rows_facts(two)


def test_operators_have_names_of_their_own() -> None:
    """An operator is told apart by its name alone."""
    assert len({operator.name for operator in OPERATORS}) == len(OPERATORS)


def test_words_are_no_part_of_an_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: identity.text for name, identity in every_kind().items()}
    monkeypatch.setattr(Aggregate, "words", lambda aggregate: f"other {aggregate.name}")
    for kind in (Interval, Question, Table, Field):
        for method in ("__str__", "__repr__"):
            monkeypatch.setattr(kind, method, lambda _: "other words")
    assert {name: identity.text for name, identity in every_kind().items()} == before


def test_a_batch_is_told_apart_by_its_questions_weights_and_price() -> None:
    def bodies(epsilon: float, weights: list[int]) -> tuple[str, ...]:
        asked = read_batch([QUESTIONS["count"], QUESTIONS["units"]], weights)
        return tuple(Request(asked, Terms(epsilon=epsilon)).body(place) for place in range(2))

    assert bodies(1, [1, 1]) == bodies(1, [1, 1])
    assert len({*bodies(1, [1, 1]), *bodies(2, [1, 1]), *bodies(1, [1, 2])}) == 6


def test_the_ledger_finds_an_answer_by_its_identity() -> None:
    curator: Curator = open_visits()
    release = curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.1)
    assert len(curator.ledger.find_answers(release.plan.outline.identity.text)) == 1
    assert curator.ledger.find_answers(release.plan.outline.identity.text + " ") == ()
