"""Constants that are not there yet: what is made of an expression with holes is the same for every value in them.

Guarantee:  a function that is given an expression with holes, and ends, does the same for all constants of their types;
            putting constants into the holes of its result gives what it would have made of them.
Proof:      a hole has a type and a number, and no value. Whoever asks for the value, compares the hole with another
            constant, hashes or prints it, is stopped by `Looked`, which nobody but the maker of the hole catches. So
            nothing in the result follows from a value. To everything else a hole is a `Literal`.
Checked by: tests/language/test_holes.py
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NoReturn

from lapwing.language.expression import Call, Expression, Literal, Operator
from lapwing.language.types import Type

_PLAIN = (Type.INTEGER, Type.REAL, Type.TEXT)


class Looked(BaseException):
    """The value of a hole was needed. No error of ours or of Python's, so that no handler takes it for one."""


class Hole(Literal):
    """A constant of this type whose value is not known."""

    __slots__ = ("place",)
    place: int

    def __init__(self, place: int, kind: Type) -> None:
        object.__setattr__(self, "place", place)
        object.__setattr__(self, "type", kind)

    @property
    def value(self) -> NoReturn:
        raise Looked

    def __eq__(self, other: object) -> bool:
        if self is not other and isinstance(other, Literal):
            raise Looked
        return self is other

    def __hash__(self) -> int:
        raise Looked

    def __repr__(self) -> str:
        raise Looked

    def __reduce__(self) -> Any:
        raise Looked


class Unseen:
    """Stands for an expression of which nothing may be known but that it is there.

    To ask for its class, as `isinstance` and `match` do, is to look at it. `is None` is not, nor is `type(...)`, which
    no rule of plans asks of an expression.
    """

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        raise Looked

    def __eq__(self, other: object) -> bool:
        raise Looked

    def __hash__(self) -> int:
        raise Looked

    def __bool__(self) -> bool:
        raise Looked

    def __repr__(self) -> str:
        raise Looked


def dig(expression: Expression, operators: frozenset[Operator]) -> tuple[Expression, tuple[Literal, ...]]:
    """The expression with a hole for each text and each number from 0 on that one of these operators is applied to,
    and these constants. Others stay: as a tree they have more than one node."""
    found: list[Literal] = []
    return _dug(expression, operators, found), tuple(found)


def _dug(part: Expression, operators: frozenset[Operator], found: list[Literal]) -> Expression:
    if not isinstance(part, Call):
        return part
    here = part.operator in operators
    arguments: list[Expression] = []
    for argument in part.arguments:
        if here and isinstance(argument, Literal) and argument.type in _PLAIN and not _is_negative(argument):
            arguments.append(Hole(len(found), argument.type))
            found.append(argument)
        else:
            arguments.append(_dug(argument, operators, found))
    return Call(part.operator, tuple(arguments), part.type, part.size, part.depth)


def _is_negative(literal: Literal) -> bool:
    return isinstance(literal.value, int | Fraction) and literal.value < 0


def fill(expression: Expression, constants: Sequence[Literal]) -> Expression:
    """The expression with these constants in its holes."""
    if isinstance(expression, Hole):
        return constants[expression.place]
    if not isinstance(expression, Call):
        return expression
    arguments = tuple([fill(argument, constants) for argument in expression.arguments])
    return Call(expression.operator, arguments, expression.type, expression.size, expression.depth)


def has_holes(expression: Expression) -> bool:
    """Whether there is a hole in it."""
    todo = [expression]
    while todo:
        part = todo.pop()
        if isinstance(part, Hole):
            return True
        if isinstance(part, Call):
            todo.extend(part.arguments)
    return False
