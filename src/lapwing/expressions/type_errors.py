"""What to say if an operator does not take its arguments: the types by name, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence

from lapwing.expressions.expression import Column, Expression, Key, Literal, Slot
from lapwing.expressions.phrases import expression_text, shorten
from lapwing.expressions.types import Type

_NOUNS = {
    Type.INTEGER: "an integer",
    Type.REAL: "a real number",
    Type.TEXT: "text",
    Type.BOOLEAN: "boolean",
    Type.DATE: "a date",
    Type.TIMESTAMP: "a timestamp",
}
_NO = frozenset({"no", "n", "false", "f", "0", "off"})
_COMPARED = frozenset({"=", "<>", "<", "<=", ">", ">="})
_OF_TEXT = frozenset({"lower", "upper", "trim", "ltrim", "rtrim", "length"})


def types_of(arguments: Sequence[Expression]) -> str:
    """Each argument with its type: `medicaid` is boolean and 'yes' is text."""
    known = dict.fromkeys(f"{_shown(part)} is {_NOUNS[part.type]}" for part in arguments if part.type is not None)
    if not known:
        return "it has no values but NULL."
    *first, last = list(known)[:4]
    return f"{', '.join(first)} and {last}." if first else f"{last}."


def cure_of(operator: str, arguments: Sequence[Expression], takes: str) -> str:
    """A rewrite that works for these types, or what the operator takes."""
    match operator, tuple(arguments):
        case ("=" | "<>", (Column(type=Type.BOOLEAN) as one, Literal() as other)) | (
            "=" | "<>",
            (Literal() as other, Column(type=Type.BOOLEAN) as one),
        ):
            opposite = (str(other.value).lower() in _NO) != (operator == "<>")
            return f"Write WHERE {'NOT ' if opposite else ''}{_bare(one)}."
        case "in", (Column(type=Type.TEXT) as one, *others) if all(map(_is_number, others)):
            numbers = ", ".join(_bare(other) for other in others[:3])
            more = ", ..." if len(others) > 3 else ""
            return f"Write CAST({_bare(one)} AS {_number_type(others)}) IN ({numbers}{more})."
        case name, (Column(type=Type.TEXT) as one, Literal() as other) if name in _COMPARED and _is_number(other):
            text = expression_text(other)
            texts = f", or {_bare(one)} {name} '{text}' to compare texts" if name in ("=", "<>") else ""
            return f"Write CAST({_bare(one)} AS {_number_type([other])}) {name} {text}{texts}."
        case name, (one, other) if name in _COMPARED and {one.type, other.type} == {Type.DATE, Type.TIMESTAMP}:
            day = one if one.type is Type.DATE else other
            return f"Write CAST({_bare(day)} AS TIMESTAMP)."
        case name, (one, other) if name in _COMPARED and _is_day(one) != _is_day(other):
            day = one if _is_day(one) else other
            return f"Compare with a date: {_bare(day)} >= DATE '2020-12-31', or use YEAR({_bare(day)})."
        case name, (one, other, *_) if name in _COMPARED and _is_number(one) and other.type is Type.TEXT:
            if isinstance(other, Literal):
                return f"Compare with a number: {_bare(one)} = 40."
            return f"Write CAST({_bare(other)} AS INTEGER)."
        case name, (one,) if name in _OF_TEXT and one.type in (Type.INTEGER, Type.BOOLEAN, Type.DATE):
            return f"Write {name.upper()}(CAST({_bare(one)} AS TEXT))."
        case "like" | "ilike" as name, (one, pattern) if one.type in (Type.INTEGER, Type.BOOLEAN, Type.DATE):
            return f"Write CAST({_bare(one)} AS TEXT) {name.upper()} {_bare(pattern)}."
        case "and" | "or" | "not", parts if any(_is_number(part) for part in parts):
            one = next(part for part in parts if _is_number(part))
            return f"Write {_bare(one)} <> 0 where a condition stands."
        case "+" | "-", (one, Literal(type=Type.INTEGER) as days) if _is_day(one):
            return f"Write {_bare(one)} {operator} INTERVAL {_bare(days)} DAY."
        case "+" | "-" | "*" | "/" | "%", parts if any(part.type is Type.TEXT for part in parts):
            one = next(part for part in parts if part.type is Type.TEXT)
            return f"Write CAST({_bare(one)} AS INTEGER); || joins texts."
    return f"Pass {takes}."


def cure_of_cast(value: Expression, kind: Type) -> str:
    """What to write instead of a cast that engines do in different ways."""
    match value.type, kind:
        case Type.REAL, Type.TEXT:
            return f"Write CAST({_bare(value)} AS INTEGER), which rounds."
        case Type.TIMESTAMP, Type.TEXT:
            return f"Write STRFTIME({_bare(value)}, '%Y-%m-%d %H:%M:%S'), which leaves out fractions of a second."
        case ((Type.DATE | Type.TIMESTAMP), (Type.INTEGER | Type.REAL)):
            return f"Write DATE_DIFF('day', DATE '1970-01-01', CAST({_bare(value)} AS DATE)), which counts days."
    return "Use a comparison, or YEAR, MONTH and DAY of a date, which are numbers."


def _shown(part: Expression) -> str:
    if isinstance(part, Literal):
        return shorten(expression_text(part), 40)
    return f"`{_bare(part)}`"


def _bare(part: Expression) -> str:
    if isinstance(part, Key | Slot):
        return "a key" if isinstance(part, Key) else "a released number"
    return shorten(expression_text(part), 40)


def _number_type(parts: Sequence[Expression]) -> str:
    return "INTEGER" if all(part.type is Type.INTEGER for part in parts) else "DOUBLE"


def _is_number(part: Expression) -> bool:
    return part.type is not None and part.type.is_number


def _is_day(part: Expression) -> bool:
    return part.type in (Type.DATE, Type.TIMESTAMP)
