"""Forms: what engines disagree on, one class each, with the one meaning every engine must give it.

Expressions and cells queries are built from these and from sqlglot's own nodes, independent of any engine. A dialect
(engines/dialect.py) says how an engine writes each form; a dialect that lacks one cannot be constructed.
A form is a plain sqlglot node that carries its class, since the classes of compiled sqlglot cannot be subclassed;
sqlglot itself refuses to write it.

Guarantee:  a form is total: it never fails, and is NULL where it has no value. Numbers are float64 unless a form says
            integer; overflow gives infinity, underflow gives 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp

if TYPE_CHECKING:
    _Node = exp.Expression
else:
    _Node = object

FORM = "form"
"""The argument of a node that holds its form."""


class Form(_Node):
    """Something engines write differently."""

    if not TYPE_CHECKING:

        def __new__(cls, **arguments: Any) -> exp.Expression:
            return exp.Unary(**{FORM: cls}, **arguments)


def form_of(node: exp.Expr) -> type[Form] | None:
    """The form that a node stands for, if it does."""
    return node.args.get(FORM)


def arguments_of(node: exp.Expr) -> list[exp.Expression]:
    """The nodes inside a form, in the order of its arguments."""
    parts = [node.args.get(name) for name in node.args[FORM].arg_types]
    return [inner for part in parts if part for inner in (part if isinstance(part, list) else [part])]


class _OfOne(Form):
    arg_types: ClassVar[dict[str, Any]] = {"this": True}


class _OfTwo(Form):
    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expression": True}


class _OfSeveral(Form):
    arg_types: ClassVar[dict[str, Any]] = {"expressions": True}


class _As(Form):
    arg_types: ClassVar[dict[str, Any]] = {"this": True, "to": True}


class _ByUnit(Form):
    arg_types: ClassVar[dict[str, Any]] = {"this": True, "unit": True}


# Numbers


class Real(_OfOne):
    """A non-negative float64 constant: the shortest decimal text that reads back as it."""


class IsNaN(_OfOne):
    """True if a float64 is NaN; NULL for NULL."""


class Plus(_OfTwo):
    """The sum of two float64 numbers."""


class Minus(_OfTwo):
    """The difference of two float64 numbers."""


class Times(_OfTwo):
    """The product of two float64 numbers."""


class Quotient(_OfTwo):
    """The quotient of two float64 numbers; the divisor is never 0, but may be NULL."""


class Modulo(_OfTwo):
    """The remainder of a float64 division, with the sign of the dividend; the divisor is never 0, but may be NULL."""


class Power(_OfTwo):
    """A float64 raised to a constant integer power."""


class Exponential(_OfOne):
    """e to the power of a float64."""


class Log2(_OfOne):
    """The logarithm to base 2 of a positive float64."""


class Log10(_OfOne):
    """The logarithm to base 10 of a positive float64."""


class RoundTo(Form):
    """A float64 rounded to an integer or to `digits` decimals, halves away from 0. NaN and infinity stay."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "digits": False}


class Greatest(_OfSeveral):
    """The largest non-NULL value."""


class Least(_OfSeveral):
    """The smallest non-NULL value."""


# Whole numbers


class ExactSum(Form):
    """The sum of integers over rows or a window. It never wraps or fails, however many there are.

    `most`, if it is there, is the largest absolute value that one of them can have, and the sum is over rows."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "most": False}


class Wide(_OfOne):
    """A count or an exact sum, returned as an integer of up to 38 digits."""


class WideProduct(_OfTwo):
    """The product of two integers, exact up to 127 bits."""


class WholeQuotient(_OfTwo):
    """The quotient of two non-negative integers, rounded down; the divisor is never 0, but may be NULL."""


# Values of several types


class TryRead(Form):
    """The value as another type; NULL if it cannot be converted. Reals are rounded to the nearest integer.

    `known` is the declared type of the value, None for NULL: an engine whose casts can fail needs it."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "to": True, "known": False}


class TruthAs(_As):
    """A condition as a number: 1 if true, 0 if false."""


class Let(Form):
    """The body, in which the column `LOCAL` is the value of `this`, computed once."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "body": True}


LOCAL = "lw_value"


class Pick(Form):
    """The constant at a position, counted from 1; NULL if there is none."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expressions": True}


# Text, by characters


class Lower(_OfOne):
    """In lower case, letter by letter: İ is i."""


class Upper(_OfOne):
    """In upper case, letter by letter: ß is ẞ, and ŉ, which has no capital of one letter, stays."""


class Matches(_OfTwo):
    """True if a text matches a constant pattern with % or _, and no other special character."""


class StartsWith(_OfTwo):
    """True if a text starts with another."""


class EndsWith(_OfTwo):
    """True if a text ends with another."""


class Contains(_OfTwo):
    """True if a text contains another."""


class Found(_OfTwo):
    """True if a constant regular expression of operators/patterns.py matches a part of a text. In linear time."""


class Replaced(Form):
    """A text with every occurrence of a constant replaced by another one, from left to right."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expression": True, "replacement": True}


class SplitPart(Form):
    """The part of a text at a constant place, counted from 1, between constant separators; empty if there is none."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expression": True, "place": True}


# Dates and timestamps in the years 1 to 9999


class DatePart(_ByUnit):
    """A part as an integer: ISO weeks, days of the week from 0 for Sunday, seconds without fractions."""


class StartOf(_ByUnit):
    """The start of the unit that contains a date or timestamp, in the same type."""


class UnitsBetween(Form):
    """How many times a unit begins after `expression` and up to `this`."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expression": True, "unit": True}


class Shifted(_OfTwo):
    """A date or timestamp plus a constant interval, as a timestamp."""


class LocalTime(Form):
    """The local time in a zone at a timestamp in UTC; NULL if one of them is infinite or beyond the years 1 to 9999."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "zone": True}


# Queries


class KeyedHash(_OfSeveral):
    """A pseudorandom number derived from the columns and the engine's secret salt. Collisions are rare: whoever
    sorts by it breaks ties by the columns."""


class Listed(Form):
    """True if a key, in the engine's type for its kind, is one of its public values, which may include NULL."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "values": True, "kind": False, "place": True}


class GroupingId(_OfSeveral):
    """The grouping set as a number: one bit per key that is aggregated away, the first key's the highest."""


class FirstOf(_OfOne):
    """The value of any one row of the group, which may be NULL."""


FORMS: tuple[type[Form], ...] = tuple(
    form
    for name, form in list(globals().items())
    if isinstance(form, type) and issubclass(form, Form) and form is not Form and not name.startswith("_")
)
"""Every form."""
