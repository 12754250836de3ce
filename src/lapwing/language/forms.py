"""Forms: what engines disagree on, one class each, with the one meaning that every engine must give it.

Expressions and cells queries are built from these and from sqlglot's own nodes, and know no engine. A dialect
(engines/dialect.py) says how an engine writes each form; one that leaves a form out cannot be made.
A form is a plain node of sqlglot that carries the name of its class, since the classes of compiled sqlglot have no
subclasses; sqlglot itself refuses to write it.

Guarantee:  a form is total: it fails on no value, and is NULL where it has none. Numbers are float64 unless a form says
            whole number; what is too large is infinite, what is too small is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp

if TYPE_CHECKING:
    _Node = exp.Expression
else:
    _Node = object


class Form(_Node):
    """Something that engines write differently."""

    if not TYPE_CHECKING:

        def __new__(cls, **arguments: Any) -> exp.Expression:
            return exp.Unary(form=cls.__name__, **arguments)


def form_of(node: exp.Expr) -> type[Form] | None:
    """The form that a node stands for, if it does."""
    name = node.args.get("form")
    return None if name is None else _BY_NAME[name]


def arguments_of(node: exp.Expr) -> list[exp.Expression]:
    """The nodes inside a form, in the order of its arguments."""
    form = form_of(node) or Form
    parts = [node.args.get(name) for name in form.arg_types]
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
    """A float64 constant of at least 0: the shortest decimal text that reads back as it."""


class IsNaN(_OfOne):
    """Whether a float64 is not a number; NULL for NULL."""


class Plus(_OfTwo):
    """The sum of two float64 numbers."""


class Minus(_OfTwo):
    """The difference of two float64 numbers."""


class Times(_OfTwo):
    """The product of two float64 numbers."""


class Quotient(_OfTwo):
    """The quotient of two float64 numbers; the divisor is not 0, or it is NULL."""


class Modulo(_OfTwo):
    """The remainder of a division in float64, with the sign of the first; the second is not 0, or it is NULL."""


class Power(_OfTwo):
    """A float64 to a constant whole power."""


class Exponential(_OfOne):
    """e to the power of a float64."""


class Log2(_OfOne):
    """The logarithm to base 2 of a positive float64."""


class Log10(_OfOne):
    """The logarithm to base 10 of a positive float64."""


class RoundTo(Form):
    """A float64 rounded to whole numbers or to so many digits, halves away from 0."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "digits": False}


class Greatest(_OfSeveral):
    """The largest value that is not NULL."""


class Least(_OfSeveral):
    """The smallest value that is not NULL."""


# Whole numbers


class ExactSum(_OfOne):
    """The sum of whole numbers over rows or a window: it neither wraps nor fails, whatever their number."""


class Wide(_OfOne):
    """A count or an exact sum, given to the reader as a whole number of up to 38 digits."""


class WideProduct(_OfTwo):
    """The product of two whole numbers, exact up to 127 bits."""


class WholeQuotient(_OfTwo):
    """The quotient of two whole numbers of at least 0, rounded down; the divisor is not 0, or it is NULL."""


# Values of several types


class TryRead(_As):
    """The value as another type; NULL where it does not read as one. Reals become the nearest whole number."""


class TruthAs(_As):
    """A condition as a number: 1 where it holds, 0 where it does not."""


class Let(Form):
    """The body, in which the column `LOCAL` is the value of `this`, computed once."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "body": True}


LOCAL = "lw_value"


class Pick(Form):
    """The constant at a place, counted from 1; NULL if there is none."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expressions": True}


# Text, by characters


class Lower(_OfOne):
    """In small letters, one for each letter."""


class Upper(_OfOne):
    """In capital letters."""


class Matches(_OfTwo):
    """Whether a text fits a constant pattern with % or _, and no other special character."""


class StartsWith(_OfTwo):
    """Whether a text starts with another."""


class EndsWith(_OfTwo):
    """Whether a text ends with another."""


class Contains(_OfTwo):
    """Whether a text holds another."""


# Dates and times of the years 1 to 9999


class DatePart(_ByUnit):
    """A part as a whole number: weeks by ISO, days of the week from 0 for Sunday, seconds without decimals."""


class StartOf(_ByUnit):
    """The start of the unit that a date or time lies in, as a date or a time."""


class UnitsBetween(Form):
    """How many times a unit begins after `expression` and up to `this`."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expression": True, "unit": True}


class Shifted(_OfTwo):
    """A date or time moved by a constant interval, as a time."""


# Queries


class KeyedHash(_OfSeveral):
    """A pseudorandom number of the columns and the engine's secret salt. Two rows with one hash are rare: whoever
    sorts by it sorts by the columns next."""


class Listed(Form):
    """Whether a key is one of its public values, of which NULL may be one."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "values": True, "kind": False, "place": True}


class GroupingId(_OfSeveral):
    """Of a grouping set a number with one bit for each key that is summed over, the first key's highest."""


class FirstOf(_OfOne):
    """The value of one row of the group, NULL included."""


FORMS: tuple[type[Form], ...] = tuple(
    form
    for name, form in list(globals().items())
    if isinstance(form, type) and issubclass(form, Form) and form is not Form and not name.startswith("_")
)
"""All of them."""
_BY_NAME = {form.__name__: form for form in FORMS}
