"""Declarations: contradictions are found at once, names are found without regard to case."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import Any

import pytest

from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.refusal import nearest
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Interval, Type, type_of
from support.visits import interval, visits_table


@pytest.mark.parametrize(
    ("kind", "facts", "message"),
    [
        (Type.TEXT, {"bounds": interval(0, 1)}, "the type is text"),
        (Type.DATE, {"unit_bounds": interval(0, 1)}, "the type is date"),
        (Type.REAL, {"bounds": interval(2, 1)}, "the lower bound exceeds the upper bound"),
        (Type.REAL, {"unit_bounds": interval(2, 1)}, "the lower bound exceeds the upper bound"),
        (Type.TEXT, {"values": ("a", "a")}, "twice"),
        (Type.INTEGER, {"values": ("a",)}, "not of type integer"),
        (Type.INTEGER, {"values": (True,)}, "not of type integer"),
        (Type.INTEGER, {"values": (2**63,)}, "beyond 64 bits"),
        (Type.INTEGER, {"bounds": interval(0, 2**64)}, "beyond 64 bits"),
    ],
)
def test_contradictions_are_refused(kind: Type, facts: dict[str, Any], message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        Field("x", kind, **facts)


def test_tables_need_a_unit_that_exists_and_names_that_differ() -> None:
    with pytest.raises(Misconfigured, match="Did you mean `pid`"):
        Table("t", (Field("pid", Type.INTEGER),), "pidd")
    with pytest.raises(Misconfigured, match="only in case"):
        Table("t", (Field("a", Type.TEXT), Field("A", Type.TEXT)), None)
    with pytest.raises(Misconfigured, match="same name"):
        Catalog((Table("t", (), None), Table("T", (), None)))


def test_names_are_found_without_regard_to_case() -> None:
    table = visits_table()
    assert table.field("COST").name == "cost"
    assert Catalog((table,)).table("VISITS") is table
    with pytest.raises(Refused, match="Did you mean `cost`"):
        table.field("cos")
    with pytest.raises(Refused, match="no such table"):
        Catalog((table,)).table("x")


def test_a_row_is_a_unit_of_one_row() -> None:
    assert visits_table(unit=None, rows_per_unit=9).row_limit == 1
    assert visits_table(rows_per_unit=9).row_limit == 9
    assert visits_table(rows_per_unit=None).row_limit is None


def test_nearest_names_one_or_lists_all() -> None:
    assert nearest("sxe", ["sex", "age"]) == "Did you mean `sex`?"
    assert nearest("zzz", ["sex", "age"]) == "Known: `age`, `sex`."
    assert nearest("zzz", [f"column{i}" for i in range(20)]).endswith(", ...")
    assert nearest("x", []) == "None are declared."


def test_intervals_know_what_several_numbers_add_up_to() -> None:
    assert Interval(Fraction(2), Fraction(5)).times(3) == Interval(Fraction(0), Fraction(15))
    assert Interval(Fraction(-2), Fraction(-1)).times(3) == Interval(Fraction(-6), Fraction(0))
    assert Interval(Fraction(-7), Fraction(5)).magnitude == 7
    assert str(Interval(Fraction(0), Fraction(5, 2))) == "[0, 2.5]"


def test_every_literal_has_a_type() -> None:
    assert type_of(None) is None
    assert type_of(True) is Type.BOOLEAN
    assert type_of(3) is Type.INTEGER
    assert type_of(Fraction(1, 2)) is Type.REAL
    assert type_of("x") is Type.TEXT
    assert type_of(date(2020, 1, 1)) is Type.DATE
