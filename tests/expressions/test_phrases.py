"""Expressions in words: they mean what was asked, and stay short."""

from __future__ import annotations

import pytest

from lapwing.expressions.phrases import expression_text, name_text, shorten, units_text
from lapwing.plan.question import Question
from lapwing.sql import read_sql
from support.visits import visits_catalog


@pytest.mark.parametrize(
    "sql",
    [
        "cost * (age + 1)",
        "cost - (age - 1)",
        "cost - age - 1",
        "sick or sex = 'F' and age > 5",
        "(sick or sex = 'F') and age > 5",
        "not (sick or age > 5)",
        "name = 'O''Brien'",
        "sex in ('F', 'M')",
        "cost is not null",
        "day - INTERVAL 90 DAY",
        "day + INTERVAL 3 MONTH < DATE '2020-12-31'",
        "at > TIMESTAMP '2020-12-31 10:00:00'",
        "CASE WHEN sick THEN cost WHEN age > 5 THEN age ELSE 0 END",
    ],
)
def test_words_read_as_the_same_expression(sql: str) -> None:
    def read(text: str) -> Question:
        found = read_sql(f"SELECT COUNT(CASE WHEN ({text}) IS NULL THEN 1 END) AS n FROM visits", visits_catalog())
        assert isinstance(found, Question), found
        return found

    argument = read(sql).aggregates[0].arguments[0]
    inner = argument.arguments[0].arguments[0]  # type: ignore[union-attr]
    assert read(expression_text(inner)).aggregates == read(sql).aggregates


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("age", "age"),
        ("Größe", "Größe"),
        ("Customer ID", '"Customer ID"'),
        ("select", '"select"'),
        ("5th", '"5th"'),
        ('a"b', '"a""b"'),
    ],
)
def test_names_are_quoted_where_sql_needs_it(name: str, written: str) -> None:
    assert (name_text(name), units_text(name)) == (written, f"COUNT(DISTINCT {written})")


def test_the_words_of_an_aggregate_keep_their_brackets() -> None:
    found = read_sql("SELECT SUM(cost * (age + 1)) AS n FROM visits", visits_catalog())
    assert isinstance(found, Question)
    assert found.aggregates[0].words() == "SUM(cost * (age + 1))"


def test_long_words_are_cut() -> None:
    assert shorten("a" * 60) == "a" * 60
    assert shorten("a" * 61) == "a" * 57 + "..."
