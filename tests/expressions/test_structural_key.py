"""A likeness holds all that a value is made of, and nothing that is not listed has one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from enum import Enum, StrEnum
from fractions import Fraction
from itertools import combinations
from random import Random
from typing import Any

from lapwing.curator.query_cache import likeness
from lapwing.expressions.expression import Call, Column, Literal, Operator
from lapwing.expressions.operators.table import OPERATORS
from lapwing.expressions.table import Field, Limit, Table
from lapwing.expressions.types import Interval, Type


class Colour(Enum):
    RED = "red"


class Word(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Pair:
    one: Any
    two: Any = field(compare=False, repr=False, default=None)


@dataclass(frozen=True, slots=True)
class Twin:
    one: Any
    two: Any = None


@dataclass(frozen=True)
class Single:
    one: Any


class Below(Single):
    """No dataclass of its own."""


@dataclass
class Mutable:
    one: Any


CONSTANTS = (
    *(None, False, True, 0, 1, -1, 2**70, Fraction(1), Fraction(1, 2), "", "1", "red", "None"),
    *(date(2020, 1, 1), datetime(2020, 1, 1), Colour.RED, Word.RED, Type.INTEGER),  # noqa: DTZ001
)
TABLE = Table("t", (Field("x", Type.INTEGER),), None)


def values_that_differ() -> list[Any]:
    bounded = [Column("x", Type.REAL, Interval(Fraction(0), Fraction(high))) for high in (1, 2)]
    shapes = [(), ((),), ((), ()), (1, (2,)), ((1, 2),), ((1,), 2), (1, 2)]
    sets = [frozenset(), frozenset({1}), frozenset({True}), frozenset({Limit.ROWS})]
    records = [Pair(1, 2), Pair(1, 3), Twin(1, 2), Pair(1, Fraction(2)), Pair((1, 2)), Single(1), Single((1,))]
    tables = [TABLE, replace(TABLE), replace(TABLE, version="2")]
    operators = [Call(operator, (), Type.REAL) for operator in OPERATORS]
    literals = [Literal(value, Type.REAL) for value in (0, 1, True, Fraction(1))]
    return [*CONSTANTS, *bounded, *shapes, *sets, *records, *tables, *operators, *literals]


def test_values_that_a_function_could_tell_apart_have_different_likenesses() -> None:
    found = [likeness(value) for value in values_that_differ()]
    assert None not in found
    assert all(one != other for one, other in combinations(found, 2))


def test_values_that_are_made_alike_have_one_likeness() -> None:
    assert all(hash(likeness(value)) == hash(likeness(value)) for value in values_that_differ())
    assert likeness(Pair((1, "x"), Fraction(2, 4))) == likeness(Pair((1, "x"), Fraction(1, 2)))
    assert likeness(frozenset({Limit.ROWS, Limit.GROUPS})) == likeness(frozenset({Limit.GROUPS, Limit.ROWS}))


def test_what_is_not_listed_has_no_likeness() -> None:
    aware = datetime(2020, 1, 1, tzinfo=UTC)
    for value in (1.0, [1], {}, {1}, b"x", aware, Mutable(1), Below(1), Single, len, object(), type("S", (str,), {})()):
        assert likeness(value) is None
        assert likeness(Pair(1, (2, value))) is None
        assert likeness(frozenset({Single(1), Pair(2, value)})) is None


def make_value(random: Random, depth: int = 4) -> Any:
    if depth == 0 or random.random() < 0.3:
        return random.choice(CONSTANTS)
    inner = [make_value(random, depth - 1) for _ in range(2)]
    return random.choice([tuple(inner), Pair(*inner), Twin(*inner), Single(inner[0]), (*inner, inner[0])])


def read_back(parts: Iterator[Any]) -> Any:
    kind = next(parts)
    if kind is tuple:
        return tuple(read_back(parts) for _ in range(next(parts)))
    if kind is Fraction:
        return Fraction(next(parts), next(parts))
    if issubclass(kind, Enum):
        return kind[next(parts)]
    if kind in (Pair, Twin, Single):
        return kind(*(read_back(parts) for _ in fields(kind)))
    return next(parts)


def test_a_likeness_can_be_read_back() -> None:
    """The proof of the guarantee: what can be read back has lost nothing. `repr` shows classes and constants."""
    for seed in range(300):
        value = Twin(make_value(Random(seed)), 0)
        found = likeness(value)
        assert isinstance(found, tuple)
        again = read_back(iter(found))
        assert in_full(again) == in_full(value)


def in_full(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(in_full, value))
    if isinstance(value, Pair | Twin | Single):
        return type(value), [in_full(getattr(value, part.name)) for part in fields(value)]
    return type(value), repr(value)


def test_every_operator_stands_for_itself() -> None:
    one = OPERATORS[0]
    other = Operator(one.name, one.result, one.emit)
    assert one == other
    assert likeness(one) != likeness(other)
