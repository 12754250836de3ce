"""Conditions in ON: a row that fails one has no match, and stays where unmatched rows are kept."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from lapwing.curator import Curator
from lapwing.errors import Refused
from lapwing.sql.ibis import unbound_table
from support.exact import asked, open_exact, truth
from support.refusals import attempt


@pytest.fixture(scope="module")
def curator() -> Curator:
    return open_exact()


STAYS_SHOWN = "COUNT(*) AS n, COUNT(s.pid) AS met, COALESCE(SUM(s.nights), 0) AS nights, COUNT(v.pid) AS visits"
SITES_SHOWN = "COUNT(*) AS n, COUNT(p.code) AS met, COALESCE(SUM(p.size), 0) AS size"
RIGHT = ("s.status = 'returned'", "s.nights > 1", "s.status IS NULL", "s.nights = s.site", "NOT s.nights > 1", "NULL")
LEFT = ("v.sick", "v.cost > 9", "v.sex IN ('F', 'X')", "v.site = v.age - 20", "(v.name IS NULL OR v.sick)")
BOTH = ("s.nights < v.cost", "v.site = s.site", "COALESCE(s.nights > v.site, TRUE)")
PUBLIC = ("p.size > 5", "p.label LIKE '%th'", "v.sick", "v.age > 30", "p.size + 0 = 7", "FALSE")


@pytest.mark.parametrize("how", ["JOIN", "LEFT JOIN", "RIGHT JOIN"])
@pytest.mark.parametrize("condition", [*RIGHT, *LEFT, *map(" AND ".join, product(RIGHT[:2], LEFT[:2]))])
def test_conditions_over_one_table_mean_what_they_mean_in_duckdb(curator: Curator, how: str, condition: str) -> None:
    text = f"SELECT {STAYS_SHOWN} FROM visits v {how} stays s ON v.pid = s.pid AND {condition}"
    assert asked(curator, text) == truth(text)


@pytest.mark.parametrize("condition", BOTH)
def test_conditions_over_both_tables_filter_an_inner_join(curator: Curator, condition: str) -> None:
    text = f"SELECT {STAYS_SHOWN} FROM visits v JOIN stays s ON {condition} AND s.pid = v.pid"
    assert asked(curator, text) == truth(text)


@pytest.mark.parametrize("how", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize("condition", PUBLIC)
def test_public_tables_have_conditions_too(curator: Curator, how: str, condition: str) -> None:
    text = f"SELECT {SITES_SHOWN} FROM visits v {how} sites p ON v.site = p.code AND {condition}"
    assert asked(curator, text) == truth(text)


@pytest.mark.parametrize(
    "source",
    [
        "visits v JOIN stays s ON v.pid = s.pid AND nights > 1 LEFT JOIN sites p ON p.code = s.site AND p.size > 5",
        "visits v LEFT JOIN stays s ON v.pid = s.pid AND nights > 1 LEFT JOIN sites p ON p.code = s.site AND v.sick",
        "(visits v LEFT JOIN stays s ON v.pid = s.pid AND v.sick) JOIN sites p ON p.code = v.site AND s.pid IS NULL",
        "sites p JOIN visits v ON p.code = v.site AND p.size < 9 LEFT JOIN stays s ON s.pid = v.pid AND s.nights < 3",
        "visits v JOIN sites p ON p.code = v.site AND v.age > 30 RIGHT JOIN stays s ON s.pid = v.pid AND p.size > 5",
    ],
)
def test_conditions_hold_in_chains(curator: Curator, source: str) -> None:
    text = f"SELECT COUNT(*) AS n, COUNT(v.pid) AS v, COUNT(s.pid) AS s, SUM(p.size) AS p FROM {source}"
    assert asked(curator, text) == truth(text)


def test_a_filtered_subquery_is_the_same_question(curator: Curator) -> None:
    """So the rows of a right table keep their unit, and its neighbours are those that are tested for subqueries."""
    one, two = (
        f"SELECT AVG(s.nights) AS a FROM visits v LEFT JOIN {right}"
        for right in (
            "stays s ON v.pid = s.pid AND s.status = 'returned'",
            "(SELECT * FROM stays WHERE status = 'returned') s ON v.pid = s.pid",
        )
    )
    plans = [curator.preview(text, epsilon=1).plan for text in (one, two)]
    assert plans[0].question.facts == plans[1].question.facts


def test_a_condition_that_leaves_no_equality_to_the_unit_joins_nothing(curator: Curator) -> None:
    """threat:A34 conditions never stand in for the equality of units."""
    text = "SELECT COUNT(*) FROM visits v LEFT JOIN stays s ON v.site = s.site AND v.pid = 3 AND s.pid = 3"
    refused = attempt(curator.preview, text)
    assert isinstance(refused, Refused)
    assert refused.code == "join-not-on-unit"


IBIS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "left": (
        lambda v, s: v.left_join(s, [v.pid == s.pid, s.status == "returned"]),
        "visits v LEFT JOIN stays s ON v.pid = s.pid AND s.status = 'returned'",
    ),
    "left, left": (
        lambda v, s: v.left_join(s, [v.pid == s.pid, v.sick]),
        "visits v LEFT JOIN stays s ON v.pid = s.pid AND v.sick",
    ),
    "right": (
        lambda v, s: v.right_join(s, [v.pid == s.pid, (s.nights > 1) & v.sick]),
        "visits v RIGHT JOIN stays s ON v.pid = s.pid AND s.nights > 1 AND v.sick",
    ),
    "inner": (
        lambda v, s: v.join(s, [v.pid == s.pid, s.nights < v.cost, s.nights > 1]),
        "visits v JOIN stays s ON v.pid = s.pid AND s.nights < v.cost AND s.nights > 1",
    ),
}


@pytest.mark.parametrize("name", IBIS)
def test_ibis_joins_have_conditions_too(curator: Curator, name: str) -> None:
    build, source = IBIS[name]
    visits, stays = (unbound_table(curator.catalog.table(table)) for table in ("visits", "stays"))
    joined = build(visits, stays)
    found = asked(curator, joined.aggregate(n=joined.count(), nights=joined.nights.sum()))
    assert found == truth(f"SELECT COUNT(*) AS n, SUM(s.nights) AS nights FROM {source}")


@pytest.mark.parametrize(("how", "no"), [("semi", ""), ("anti", "NOT ")])
def test_ibis_semi_joins_filter_the_right_table(curator: Curator, how: str, no: str) -> None:
    visits, stays = (unbound_table(curator.catalog.table(table)) for table in ("visits", "stays"))
    join = getattr(visits, f"{how}_join")
    found = asked(curator, join(stays, [visits.pid == stays.pid, stays.nights > 1]).count())
    assert found == truth(
        f"SELECT COUNT(*) FROM visits v WHERE {no}EXISTS (SELECT 1 FROM stays s WHERE s.pid = v.pid AND s.nights > 1)"
    )
    refused = attempt(curator.preview, join(stays, [visits.pid == stays.pid, visits.sick]).count())
    assert isinstance(refused, Refused)
    assert refused.code == "unsupported-join"


def test_ibis_outer_joins_refuse_conditions_over_both_tables(curator: Curator) -> None:
    visits, stays = (unbound_table(curator.catalog.table(table)) for table in ("visits", "stays"))
    joined = visits.left_join(stays, [visits.pid == stays.pid, stays.nights < visits.age])
    refused = attempt(curator.preview, joined.count())
    assert isinstance(refused, Refused)
    assert "leaves unmatched rows out" in refused.instead
