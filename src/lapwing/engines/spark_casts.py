r"""Values as other types on Spark: texts are read as DuckDB and PostgreSQL read them, or not at all.

Spark itself reads '1.5f' as a number, '2020' as a date and 2^63 as the largest integer, but neither '12.5' as an
integer nor '2020/02/29' as a date.

Guarantee:  no text here fails, whatever the value is: what cannot be converted is NULL. It takes time in proportion to
            the length of the value.
Proof:      every cast is a TRY_CAST. Its text matches a pattern in which digits are counted or possessive, so that no
            part gives up what it matched, and an exponent has at most 3 digits: no decimal is longer than 1,200 digits.
What is read: postgres_casts.py has the list; numbers with any number of digits as DOUBLE. A number in exponent form
            as an integer goes through 18 decimals, so that 0.4999999999999999999e0 is 1, and without one it is 0.
Checked by: tests/engines/test_spark_casts.py
"""

from __future__ import annotations

from collections.abc import Callable

from lapwing.engines.date_pattern import TIME, TO_TIME, ZONE
from lapwing.expressions.types import Type

_SHORT = 200  # characters of a text that is repeated rather than named

_SPACES = r"[ \\t\\n\\x0b\\f\\r]*+"
_DIGITS = r"[0-9]{1,60}+"
_EXPONENT = r"(?:[eE][+-]?[0-9]{1,3}+)"
_INTEGER = rf"\\A{_SPACES}[+-]?(?:{_DIGITS}(?:[.][0-9]{{0,60}}+)?|[.]{_DIGITS}){_EXPONENT}?{_SPACES}\\z"
_TAIL = r"\\A([^.eE]*+[.][0-9]{18})[0-9]++(\\s*+)\\z"
_REAL = rf"\\A{_SPACES}[+-]?(?:[0-9]++(?:[.][0-9]*+)?|[.][0-9]++)(?:[eE][+-]?[0-9]++)?{_SPACES}\\z"
_ODD = rf"\\A{_SPACES}[+-]?(?i:inf|infinity|nan){_SPACES}\\z"
_TRUE, _FALSE = r"\\A(?i:t|true|y|yes|1)\\z", r"\\A(?i:f|false|n|no|0)\\z"
_DAY = r"([0-9]{1,4}+)([-/ ])([0-9]{1,2}+)\\2([0-9]{1,2}+)"
_DATE = rf"\\A{_SPACES}{_DAY}(?:{TO_TIME}({TIME}))?{ZONE}{_SPACES}\\z"

_ZEROS = r"\\A0{1,3}(?=[0-9]{4}-)"


def named(text: str, body: Callable[[str], str]) -> str:
    """The body, with the text in several places. A long one is computed once, by a one-element list."""
    if len(text) <= _SHORT:
        return body(text)
    return f"GET(TRANSFORM(ARRAY({text}), lw_once -> {body('lw_once')}), 0)"


def cast_to(value: str, known: Type | None, kind: str) -> str:
    """The value of a known type as another one, or NULL."""
    if kind == "BIGINT" and known is Type.REAL:
        return named(f"({value})", _whole)
    if known is Type.TEXT and kind in _FROM_TEXT:
        return named(value, _FROM_TEXT[kind])
    return f"TRY_CAST({value} AS {kind})"


def _whole(x: str) -> str:
    """2^63 is not a BIGINT, but Spark takes it for the largest."""
    return f"CASE WHEN {x} < 9223372036854775808e0D THEN TRY_CAST(RINT({x}) AS BIGINT) END"


def _integer(x: str) -> str:
    """Halves away from 0. Decimals beyond 18 are cut off: rounded to 18 they could reach a half."""
    cut = f"REGEXP_REPLACE({x}, '{_TAIL}', '$1')"
    return f"CASE WHEN {x} RLIKE '{_INTEGER}' THEN TRY_CAST(ROUND(TRY_CAST({cut} AS DECIMAL(38, 18)), 0) AS BIGINT) END"


def _real(x: str) -> str:
    return f"CASE WHEN {x} RLIKE '{_REAL}' OR {x} RLIKE '{_ODD}' THEN TRY_CAST({x} AS DOUBLE) END"


def _truth(x: str) -> str:
    return f"CASE WHEN {x} RLIKE '{_TRUE}' THEN TRUE WHEN {x} RLIKE '{_FALSE}' THEN FALSE END"


def _date(x: str) -> str:
    """With zeros before the year, since Spark wants four to seven digits of it."""
    made = f"TRY_CAST(REGEXP_REPLACE({x}, '{_DATE}', '000$1-$3-$4') AS DATE)"
    return f"CASE WHEN {x} RLIKE '{_DATE}' THEN {made} END"


def _timestamp(x: str) -> str:
    """Four digits of the year, since Spark wants four to six of it in a timestamp."""
    made = f"REGEXP_REPLACE(REGEXP_REPLACE({x}, '{_DATE}', '000$1-$3-$4 $5'), '{_ZEROS}', '')"
    return f"CASE WHEN {x} RLIKE '{_DATE}' THEN TRY_CAST({made} AS TIMESTAMP_NTZ) END"


_FROM_TEXT: dict[str, Callable[[str], str]] = {
    "BIGINT": _integer,
    "DOUBLE": _real,
    "BOOLEAN": _truth,
    "DATE": _date,
    "TIMESTAMP_NTZ": _timestamp,
}
