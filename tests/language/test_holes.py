"""A hole has a type and no value: whoever needs the value is stopped, and whoever does not makes the same of all."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from fractions import Fraction

import pytest

from lapwing.catalog.identity import expression_facts
from lapwing.catalog.likeness import likeness
from lapwing.catalog.table import Field, Table
from lapwing.language.aggregate import canonical_text
from lapwing.language.expression import Call, Column, Expression, Literal
from lapwing.language.holes import Hole, Looked, dig, fill, has_holes
from lapwing.language.operators.base import call
from lapwing.language.operators.logic import AND, EQUAL, LESS
from lapwing.language.types import Type
from lapwing.language.wording import expression_text

TABLE = Table("visits", (Field("age", Type.INTEGER), Field("sex", Type.TEXT)), None)
AGE, SEX = Column("age", Type.INTEGER), Column("sex", Type.TEXT)
FIVE, WOMAN = Literal(1, Type.INTEGER), Literal("F", Type.TEXT)
COMPARED = frozenset({LESS, EQUAL})


def applied(first: Expression, second: Expression) -> Call:
    parts = [call(LESS, AGE, first, part=str), call(EQUAL, second, SEX, part=str)]
    return call(AND, *parts, part=str)


@pytest.mark.parametrize(
    "look",
    [
        lambda hole: hole.value,
        hash,
        repr,
        str,
        "{}".format,
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        lambda hole: hole == FIVE,
        lambda hole: {hole},
        lambda hole: Call(LESS, (AGE, hole), Type.BOOLEAN) == Call(LESS, (AGE, FIVE), Type.BOOLEAN),
        lambda hole: Call(LESS, (AGE, FIVE), Type.BOOLEAN) == Call(LESS, (AGE, hole), Type.BOOLEAN),
        lambda hole: hash(Call(LESS, (AGE, hole), Type.BOOLEAN)),
        canonical_text,
        expression_text,
        lambda hole: expression_facts(hole, TABLE),
        lambda hole: call(EQUAL, Column("sick", Type.BOOLEAN), hole, part=str),
    ],
)
def test_whoever_needs_the_value_is_stopped(look: Callable[[Literal], object]) -> None:
    look(FIVE)
    with pytest.raises(Looked):
        look(Hole(0, Type.INTEGER))


def test_no_handler_of_errors_takes_it_for_one() -> None:
    assert not issubclass(Looked, Exception)


def test_a_hole_is_a_constant_of_its_type_to_everybody_else() -> None:
    hole = Hole(3, Type.REAL)
    assert isinstance(hole, Literal)
    assert (hole.type, hole.place) == (Type.REAL, 3)
    assert hole != AGE
    assert hole in (hole,)
    with pytest.raises(Looked):
        assert hole != Hole(3, Type.REAL)
    with pytest.raises(AttributeError):
        hole.type = Type.TEXT  # type: ignore[misc]


def test_what_is_dug_out_can_be_put_back() -> None:
    whole = applied(FIVE, WOMAN)
    shape, constants = dig(whole, COMPARED)
    assert has_holes(shape)
    assert not has_holes(whole)
    assert constants == (FIVE, WOMAN)
    assert likeness(fill(shape, constants)) == likeness(whole)
    other = fill(shape, (Literal(7, Type.INTEGER), Literal("", Type.TEXT)))
    assert likeness(other) == likeness(applied(Literal(7, Type.INTEGER), Literal("", Type.TEXT)))


def test_only_constants_of_these_operators_are_dug_out() -> None:
    shape, constants = dig(applied(FIVE, WOMAN), frozenset({EQUAL}))
    assert constants == (WOMAN,)
    assert dig(FIVE, COMPARED) == (FIVE, ())
    for stays in (Literal(None, None), Literal(-1, Type.INTEGER), Literal(True, Type.BOOLEAN)):
        assert dig(Call(LESS, (AGE, stays), Type.BOOLEAN), COMPARED)[1] == ()
    assert has_holes(shape)


def test_conditions_with_holes_are_alike_if_their_types_and_places_are() -> None:
    """1, 1.0 and '1' leave different holes."""
    ones = [Literal(1, Type.INTEGER), Literal(Fraction(1), Type.REAL), Literal("1", Type.TEXT)]
    shapes = [dig(Call(LESS, (AGE, one), Type.BOOLEAN), COMPARED)[0] for one in ones]
    assert len({likeness(shape) for shape in shapes}) == 3
    again = dig(Call(LESS, (AGE, Literal(2, Type.INTEGER)), Type.BOOLEAN), COMPARED)[0]
    assert likeness(again) == likeness(shapes[0])
    assert likeness(Hole(0, Type.TEXT)) != likeness(Hole(1, Type.TEXT))


def test_the_same_is_read_beside_a_column_whatever_the_value() -> None:
    """A constant beside its own type is not looked at; a text beside a number, or a number beside a truth, is."""
    for column, kind in ((AGE, Type.INTEGER), (AGE, Type.REAL), (SEX, Type.TEXT)):
        assert call(LESS, column, Hole(0, kind), part=str).type is Type.BOOLEAN
    for column, kind in ((AGE, Type.TEXT), (Column("day", Type.DATE), Type.TEXT)):
        with pytest.raises(Looked):
            call(LESS, column, Hole(0, kind), part=str)
