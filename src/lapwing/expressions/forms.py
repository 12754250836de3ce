"""Forms: what engines disagree on, each with the one meaning that every engine must give it.

Expressions and cells queries are built from these and from sqlglot's own nodes, independent of any engine. A dialect
(engines/dialect.py) says how an engine writes each form; a dialect that lacks one cannot be constructed.
A call of a form makes a plain sqlglot node that carries the form; sqlglot itself refuses to write it.

Guarantee:  a form is total: it never fails, and is NULL where it has no value. Numbers are float64 unless a form says
            integer; overflow gives infinity, underflow gives 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

FORM = "form"
"""The argument of a node that holds its form."""
LOCAL = "lw_value"
"""The column that a `Let` gives its body."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """Something engines write differently: the names of its arguments, in order, and its meaning."""

    name: str
    arguments: tuple[str, ...]
    meaning: str

    def __call__(self, **arguments: Any) -> exp.Expression:
        return exp.Unary(**{FORM: self}, **arguments)


def form_of(node: exp.Expr) -> Form | None:
    """The form of a node, if it has one."""
    return node.args.get(FORM)


_ONE, _TWO, _LIST, _UNIT = ("this",), ("this", "expression"), ("expressions",), ("this", "unit")

# Numbers
Real = Form("Real", _ONE, "A non-negative float64 constant: the shortest decimal text that reads back as it.")
IsNaN = Form("IsNaN", _ONE, "True if a float64 is NaN; NULL for NULL.")
Plus = Form("Plus", _TWO, "The sum of two float64 numbers.")
Minus = Form("Minus", _TWO, "The difference of two float64 numbers.")
Times = Form("Times", _TWO, "The product of two float64 numbers.")
Quotient = Form("Quotient", _TWO, "The quotient of two float64 numbers; the divisor is never 0, but may be NULL.")
Modulo = Form(
    "Modulo", _TWO, "The remainder of a float64 division, with the sign of the dividend; the divisor as for `Quotient`."
)
Power = Form("Power", _TWO, "A float64 raised to a constant integer power.")
Exponential = Form("Exponential", _ONE, "e to the power of a float64.")
Log2 = Form("Log2", _ONE, "The logarithm to base 2 of a positive float64.")
Log10 = Form("Log10", _ONE, "The logarithm to base 10 of a positive float64.")
RoundTo = Form(
    "RoundTo", ("this", "digits"), "Rounded to `digits` decimals or an integer, halves away from 0. NaN, infinity stay."
)
Greatest = Form("Greatest", _LIST, "The largest non-NULL value.")
Least = Form("Least", _LIST, "The smallest non-NULL value.")

# Whole numbers
ExactSum = Form(
    "ExactSum",
    ("this", "most"),
    "The sum of integers over rows or a window. It never wraps or fails, however many there are. `most`, if it is "
    "there, is the largest absolute value that one of them can have, and the sum is over rows.",
)
Wide = Form("Wide", _ONE, "A count or an exact sum, returned as an integer of up to 38 digits.")
WideProduct = Form("WideProduct", _TWO, "The product of two integers, exact up to 127 bits.")
WholeQuotient = Form(
    "WholeQuotient", _TWO, "The quotient of two non-negative integers, rounded down; the divisor as for `Quotient`."
)

# Values of several types
TryRead = Form(
    "TryRead",
    ("this", "to", "known"),
    "The value as another type; NULL if it cannot be converted. Reals are rounded to the nearest integer. `known` "
    "is the declared type of the value, None for NULL: an engine whose casts can fail needs it.",
)
TruthAs = Form("TruthAs", ("this", "to"), "A condition as a number: 1 if true, 0 if false.")
Let = Form("Let", ("this", "body"), "The body, in which the column `LOCAL` is the value of `this`, computed once.")
Pick = Form("Pick", ("this", "expressions"), "The constant at a position, counted from 1; NULL if there is none.")

# Text, by characters
Lower = Form("Lower", _ONE, "In lower case, letter by letter: İ is i.")
Upper = Form("Upper", _ONE, "In upper case, letter by letter: ß is ẞ; ŉ, which has no capital letter, stays.")
Matches = Form("Matches", _TWO, "True if a text matches a constant pattern, in which only % and _ are special.")
StartsWith = Form("StartsWith", _TWO, "True if a text starts with another.")
EndsWith = Form("EndsWith", _TWO, "True if a text ends with another.")
Contains = Form("Contains", _TWO, "True if a text contains another.")
HasMatch = Form(
    "HasMatch", _TWO, "True if a constant regular expression (operators/text.py) matches a part, in linear time."
)
Replace = Form(
    "Replace",
    ("this", "expression", "replacement"),
    "A text with every occurrence of a constant replaced by another, from left to right.",
)
SplitPart = Form(
    "SplitPart",
    ("this", "expression", "place"),
    "The part of a text at a constant place, counted from 1, between constant separators; empty if there is none.",
)

# Dates and timestamps in the years 1 to 9999
DatePart = Form(
    "DatePart", _UNIT, "A part as an integer: ISO weeks, days of the week from 0 for Sunday, seconds without fractions."
)
StartOf = Form("StartOf", _UNIT, "The start of the unit that contains a date or timestamp, in the same type.")
UnitsBetween = Form(
    "UnitsBetween", ("this", "expression", "unit"), "How many times a unit begins after `expression` and up to `this`."
)
Shift = Form("Shift", _TWO, "A date or timestamp plus a constant interval, as a timestamp.")
LocalTime = Form(
    "LocalTime",
    ("this", "zone"),
    "The local time in a zone at a timestamp in UTC; NULL if either is infinite or outside the years 1 to 9999.",
)

# Queries
KeyedHash = Form(
    "KeyedHash",
    _LIST,
    "A pseudorandom number derived from the columns and the engine's secret salt. Collisions are rare: "
    "a sort by it breaks ties by the columns.",
)
Listed = Form(
    "Listed",
    ("this", "values", "kind", "place"),
    "True if a key, in the engine's type for its kind, is one of its public values, which may include NULL.",
)
GroupingId = Form(
    "GroupingId",
    _LIST,
    "The grouping set as a number: one bit per key that is aggregated away, the first key's the highest.",
)
FirstOf = Form("FirstOf", _ONE, "The value of any one row of the group, which may be NULL.")

FORMS = tuple(form for form in list(globals().values()) if isinstance(form, Form))
"""Every form."""
