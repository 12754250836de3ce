r"""Values as other types on PostgreSQL, where a cast that does not fit is an error and version 15 has no TRY_CAST.

Guarantee:  no text here fails, whatever the value is: what cannot be converted is NULL.
Proof:      every cast is in a CASE, behind a condition on the same value: a pattern that only castable texts match,
            or a range that fits. A constant value is folded in the order of the branches, so that a cast behind a
            condition that is false is neither folded nor run. Patterns have no back references, so PostgreSQL matches
            them by an automaton; their digits are counted, so that no number is too long for the type that reads it.
What is read: numbers with up to 60 digits on each side of the point and an exponent of up to 3 digits, spaces around
            them, `nan`, `inf` and `infinity`; truths as t, true, y, yes, 1 and f, false, n, no, 0. Case does not
            matter. dialect.py has the dates and timestamps.
Checked by: tests/engines/test_postgres_casts.py, tests/engines/test_dialect.py
"""

from __future__ import annotations

from lapwing.engines.dialect import DAY, TIME, TO_TIME, ZONE, quote
from lapwing.engines.postgres_arithmetic import computed_once, named, rounded
from lapwing.errors import Bug
from lapwing.expressions.types import Type

_SPACES = r"[ \t\n\v\f\r]*"
_NUMBER = rf"^{_SPACES}[+-]?([0-9]{{1,60}}(\.[0-9]{{0,60}})?|\.[0-9]{{1,60}})([eE][+-]?[0-9]{{1,3}})?{_SPACES}$"
_DATE = rf"^{_SPACES}{DAY}({TO_TIME}{TIME})?{ZONE}{_SPACES}$"
_LEAST, _MOST = -(2**63), 2**63 - 1
_INTEGERS = f"BETWEEN {_LEAST} AND {_MOST}"

LARGEST, SMALLEST = "1.797693134862315807e308", "2.4703282292062328e-324"
"""From the first on a decimal rounds to infinity; below the second it rounds to 0."""

_NAMES = {
    "NaN": ("nan", "+nan", "-nan"),
    "Infinity": ("inf", "+inf", "infinity", "+infinity"),
    "-Infinity": ("-inf", "-infinity"),
}
_TRUTHS = {"TRUE": ("t", "true", "y", "yes", "1"), "FALSE": ("f", "false", "n", "no", "0")}

SQL_TYPES = {
    Type.INTEGER: "BIGINT",
    Type.REAL: "DOUBLE PRECISION",
    Type.TEXT: "TEXT",
    Type.BOOLEAN: "BOOLEAN",
    Type.DATE: "DATE",
    Type.TIMESTAMP: "TIMESTAMP",
}
"""The engine's type for each type."""


def cast_to(value: str, known: Type | None, kind: Type) -> str:
    """The value of a known type as another one, or NULL."""
    if known is None or known is kind is not Type.INTEGER:
        return f"CAST({value} AS {SQL_TYPES[kind]})"
    if known is Type.TEXT:
        return named([f"({value})"], _FROM_TEXT[kind])
    match known, kind:
        case ((Type.INTEGER | Type.REAL), Type.INTEGER):
            return _whole(value)
        case Type.INTEGER, (Type.REAL | Type.TEXT):
            return f"CAST({value} AS {SQL_TYPES[kind]})"
        case Type.BOOLEAN, (Type.INTEGER | Type.REAL):
            return f"CAST(CAST({value} AS INTEGER) AS {SQL_TYPES[kind]})"
        case ((Type.BOOLEAN | Type.DATE | Type.TIMESTAMP), Type.TEXT):
            return f"CAST({value} AS TEXT)"
        case ((Type.INTEGER | Type.REAL), Type.BOOLEAN):
            return f"(({value}) <> 0)"
        case Type.DATE, Type.TIMESTAMP:
            return named([f"({value})"], _midnight)
        case Type.TIMESTAMP, Type.DATE:
            return f"CAST({value} AS DATE)"
        case _:
            raise Bug(f"a cast from {known.value} to {kind.value} was not refused")


def _whole(value: str) -> str:
    """A bigint or a float64 as a bigint; halves go to even numbers. Constants in quotes have the type of the value. For
    float64 the last condition excludes 2^63, which is what 2^63 - 1 is as a float64; every bigint meets it. Numbers
    near 0 come first, since half of the smallest float64 is an error.
    """

    def body(x: str) -> str:
        return (
            f"CASE WHEN {x} < '1000' AND {x} > '-1000' THEN CAST({x} AS BIGINT) "
            f"WHEN {x} >= '{_LEAST}' AND {x} <= '{_MOST}' THEN "
            f"CASE WHEN {x} / '2' < '{2**62}' THEN CAST({x} AS BIGINT) END END"
        )

    return named([f"({value} + CAST(0 AS BIGINT))"], body)


def nearest_whole(value: str) -> str:
    """A bigint as it is; a float64 as the nearest bigint, halves away from 0. From 2^52 on every float64 is whole."""
    most = 1 << 52

    def body(x: str) -> str:
        return f"CASE WHEN {x} < '{most}' AND {x} > '-{most}' THEN CAST({rounded(x)} AS BIGINT) ELSE {_whole(x)} END"

    return computed_once([f"({value} + CAST(0 AS BIGINT))"], body)


def _midnight(x: str) -> str:
    """Timestamps end in the year 294276, dates later."""
    last = "DATE '294276-12-31'"
    return f"CASE WHEN {x} <= {last} OR {x} = DATE 'infinity' THEN CAST({x} AS TIMESTAMP) END"


def _number(x: str) -> str:
    return f"{x} ~ {quote(_NUMBER)}"


def _integer(x: str) -> str:
    rounded = f"ROUND(CAST({x} AS NUMERIC))"
    return f"CASE WHEN {_number(x)} THEN CASE WHEN {rounded} {_INTEGERS} THEN CAST({rounded} AS BIGINT) END END"


def _real(x: str) -> str:
    trimmed = f"LOWER(BTRIM({x}, E' \\t\\n\\v\\f\\r'))"
    named_ones = " ".join(f"WHEN {trimmed} IN ({_listed(texts)}) THEN FLOAT8 '{v}'" for v, texts in _NAMES.items())
    decimal = decimal_as_real(f"CAST({x} AS NUMERIC)", f"CAST({x} AS FLOAT8)")
    return f"CASE WHEN {_number(x)} THEN {decimal} {named_ones} END"


def decimal_as_real(decimal: str, cast: str) -> str:
    """A finite decimal as float64: `cast` where it has one."""
    return (
        f"CASE WHEN ABS({decimal}) < {SMALLEST} THEN FLOAT8 '0' WHEN {decimal} >= {LARGEST} THEN FLOAT8 'Infinity' "
        f"WHEN {decimal} <= -{LARGEST} THEN FLOAT8 '-Infinity' ELSE {cast} END"
    )


def _truth(x: str) -> str:
    cases = " ".join(f"WHEN LOWER({x}) IN ({_listed(texts)}) THEN {truth}" for truth, texts in _TRUTHS.items())
    return f"CASE {cases} END"


def _listed(texts: tuple[str, ...]) -> str:
    return ", ".join(map(quote, texts))


def _date(x: str) -> str:
    parts = [f"CAST({_day_part(x, place)} AS INTEGER)" for place in range(3)]
    made = computed_once(parts, lambda y, m, d: f"CASE WHEN {_is_day(y, m, d)} THEN MAKE_DATE({y}, {m}, {d}) END")
    return f"CASE WHEN {x} ~ {quote(_DATE)} THEN {made} END"


def _timestamp(x: str) -> str:
    time = rf"^{_SPACES}[0-9]+[-/ ][0-9]+[-/ ][0-9]+[ T]+"
    days = [f"CAST({_day_part(x, place)} AS INTEGER)" for place in range(3)]
    patterns = [rf"{time}([0-9]+):", rf"{time}[0-9]+:([0-9]+)", rf"{time}[0-9]+:[0-9]+:([0-9]+)"]
    times = [f"CAST(COALESCE(SUBSTRING({x} FROM {quote(one)}), '0') AS INTEGER)" for one in patterns]
    fraction = f"SUBSTRING({x} FROM {quote(rf'{time}[0-9]+:[0-9]+:[0-9]+[.]([0-9]+)')})"
    micros = f"CAST(RPAD(LEFT(COALESCE({fraction}, '0'), 6), 6, '0') AS INTEGER)"

    def body(y: str, m: str, d: str, h: str, i: str, s: str, f: str) -> str:
        made = f"MAKE_TIMESTAMP({y}, {m}, {d}, {h}, {i}, {s}) + {f} * INTERVAL '1 MICROSECOND'"
        return f"CASE WHEN {_is_day(y, m, d)} THEN {made} END"

    made = computed_once([*days, *times, micros], body)
    return f"CASE WHEN {x} ~ {quote(_DATE)} THEN {made} END"


def _day_part(x: str, place: int) -> str:
    before = "[0-9]+[-/ ]" * place
    return f"SUBSTRING({x} FROM {quote(rf'^{_SPACES}{before}([0-9]+)')})"


def _is_day(y: str, m: str, d: str) -> str:
    """Whether three whole numbers from 0 on are a date of the years 1 to 9999."""
    leap = f"CASE WHEN {y} % 4 = 0 AND ({y} % 100 <> 0 OR {y} % 400 = 0) THEN 29 ELSE 28 END"
    last = f"CASE WHEN {m} = 2 THEN {leap} ELSE 30 + ({m} + {m} / 8) % 2 END"
    return f"{y} >= 1 AND {m} BETWEEN 1 AND 12 AND {d} BETWEEN 1 AND {last}"


_FROM_TEXT = {
    Type.INTEGER: _integer,
    Type.REAL: _real,
    Type.BOOLEAN: _truth,
    Type.DATE: _date,
    Type.TIMESTAMP: _timestamp,
}
