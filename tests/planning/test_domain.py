"""Which keys are public, and which values they take."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from lapwing.catalog.table import Catalog, Field, Table
from lapwing.language.types import Type
from lapwing.planning.domain import MOST_RANGE, domain_of
from lapwing.planning.question import Question
from lapwing.reading.sql import read_sql
from support.visits import interval, visits_catalog


def domain(key: str, catalog: Catalog | None = None) -> Any:
    question = read_sql(f"SELECT {key} AS k, COUNT(*) FROM visits GROUP BY {key}", catalog or visits_catalog())
    assert isinstance(question, Question), question
    return domain_of(question.keys[0], question.table)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("sex", ("F", "M")),
        ("site", (9, 10, 1000)),
        ("sick", (False, True)),
        ("age > 65", (False, True)),
        ("site + 1", (10, 11, 1001)),
        ("LOWER(sex)", ("f", "m")),
        ("CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' END", ("child", "adult", None)),
        ("CASE WHEN cost > 5 THEN 'dear' ELSE 'cheap' END", ("dear", "cheap")),
        ("COALESCE(sex, 'unknown')", ("F", "M", "unknown")),
        ("EXTRACT(quarter FROM day)", (1, 2, 3, 4)),
        ("FLOOR(age / 50)", (0, 1, 2)),
        ("CLIP(LENGTH(name), 1, 3)", (1, 2, 3)),
        ("age", tuple(range(121))),
        ("name", None),
        ("LOWER(name)", None),
        ("day", None),
        ("EXTRACT(year FROM day)", None),
        ("DATE_TRUNC('month', at)", None),
        ("CASE WHEN sick THEN name ELSE 'x' END", None),
    ],
)
def test_domains_follow_from_declared_facts(key: str, values: tuple[Any, ...] | None) -> None:
    """threat:A15 threat:A20 the list of groups never comes from the rows."""
    assert domain(key) == values


def test_reals_with_declared_values_have_public_functions() -> None:
    table = Table("visits", (Field("x", Type.REAL, values=(Fraction(1, 10), Fraction(17, 10), None)),), None)
    assert domain("FLOOR(x)", Catalog((table,))) == (0, 1, None)
    assert domain("x > 1", Catalog((table,))) == (False, True)


def test_long_ranges_are_not_listed() -> None:
    table = Table("visits", (Field("n", Type.INTEGER, interval(0, MOST_RANGE)),), None)
    assert domain("n", Catalog((table,))) is None
    shorter = Table("visits", (Field("n", Type.INTEGER, interval(1, MOST_RANGE)),), None)
    assert len(domain("n", Catalog((shorter,)))) == MOST_RANGE
