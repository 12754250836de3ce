r"""How Spark 4.0 writes every form.

Guarantee:  no text here fails on any row, with ANSI mode on or off: what could raise is a try_ function, whose result
            is NULL. So no value can reach an error message or a log.
Numbers.    Integers beyond 64 bits are DECIMAL(38, 0). NaN equals NaN and is the largest number, so `=` tells it.
            FLOOR and CEIL give integers there, which have ends; RINT, to the nearest even one, does not.
Times.      A timestamp is a TIMESTAMP_NTZ, so that no time zone of a session moves it.
Text.       Spark matches patterns by backtracking. A LIKE has atomic parts, each at its first place, so that no text is
            read twice; other regular expressions it does not have.
Casts.      Texts are read as DuckDB and PostgreSQL read them (postgres_casts.py), or not at all: Spark itself reads
            '1.5f' as a number, '2020' as a date and 2^63 as the largest integer, but neither '12.5' as an integer nor
            '2020/02/29' as a date. A number in exponent form as an integer goes through 18 decimals, so that
            0.4999999999999999999e0 is 1, and without one it is 0. Every cast is a TRY_CAST behind a pattern in which
            digits are counted or possessive, so that no part gives up what it matched, and an exponent of an integer
            has at most 3 digits: no decimal is longer than 1,200 digits, and the time is in proportion to the text. A
            DOUBLE is read from any number of digits.
Secrets.    Spark shows and stores the texts of queries and plans. The salt is a row of a table beside the query.
Checked by: tests/engines/test_dialect.py, tests/engines/test_spark.py, tests/engines/test_spark_casts.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from lapwing.engines.dialect import (
    SPACES,
    TIME,
    TO_TIME,
    ZONE,
    Dialect,
    Lacking,
    Write,
    Writer,
    call,
    local_time,
    template,
    write_listed,
)
from lapwing.expressions import forms
from lapwing.expressions.types import Type

SALT_TABLE = "lw_salt"

_PART = 16  # bits
_LONG = 2000  # characters of a number that is not written once for each of its parts: Spark would read for seconds
_WIDE = "DECIMAL(38, 0)"

_SHORT = 200  # characters of a text that is repeated rather than named


def _named(text: str, body: Callable[[str], str]) -> str:
    """The body, with the text in several places. A long one is computed once, by a one-element list."""
    if len(text) <= _SHORT:
        return body(text)
    return f"GET(TRANSFORM(ARRAY({text}), lw_once -> {body('lw_once')}), 0)"


def _call_of_two(name: str) -> Write:
    return lambda writer, node: f"{name}({writer.sql(node.this)}, {writer.sql(node.expression)})"


def _pick(writer: Writer, form: exp.Expression) -> str:
    """GET counts from 0, and is NULL outside."""
    return f"GET(ARRAY(NULL, {', '.join(map(writer.sql, form.expressions))}), TRY_CAST({writer.sql(form.this)} AS INT))"


def _extreme(name: str) -> Write:
    def write(writer: Writer, form: exp.Expression) -> str:
        texts = list(map(writer.sql, form.expressions))
        return texts[0] if len(texts) == 1 else f"{name}({', '.join(texts)})"

    return write


def _whole_beside(sign: str, beyond: str) -> Write:
    """Rounded down or up: the nearest whole number, or the next one if that lies beyond."""

    def write(writer: Writer, node: exp.Expression) -> str:
        body = "(RINT({0}) {1} CASE WHEN RINT({0}) {2} {0} THEN 1e0D ELSE 0e0D END)"
        return _named(f"({writer.sql(node.this)})", lambda x: body.format(x, sign, beyond))

    return write


def _round_to(writer: Writer, form: exp.Expression) -> str:
    """Halves away from 0. ROUND goes through decimal texts, so whole numbers are found by RINT, which is exact."""
    value, digits = f"({writer.sql(form.this)})", form.args.get("digits")
    if digits is not None:
        return f"ROUND({value}, {writer.sql(digits)})"
    half = "CASE WHEN {0} > 0 AND {0} - RINT({0}) = 5e-1D THEN 1e0D WHEN {0} < 0 AND RINT({0}) - {0} = 5e-1D THEN -1e0D"
    return _named(value, lambda x: f"(RINT({x}) + {half.format(x)} ELSE 0e0D END)")


def _whole_quotient(writer: Writer, form: exp.Expression) -> str:
    """By what is left without the remainder: a quotient of decimals would be rounded."""
    above, below = (f"CAST({writer.sql(part)} AS {_WIDE})" for part in (form.this, form.expression))
    both = f"TRY_SUBTRACT({above}, TRY_MOD({above}, {below}))"
    return f"TRY_CAST(TRY_DIVIDE({both}, {below}) AS {_WIDE})"


def _exact_sum(writer: Writer, form: exp.Expression) -> str:
    """Numbers of up to 62 bits are cut into parts of 16, each of which is added up as BIGINT: sums of decimals take
    three times as long. A part is at most 2^16 in absolute value, so below 2^47 rows no sum overflows."""
    value, most = writer.sql(form.this), form.args.get("most")
    if most is None or most >= 1 << 62 or len(value) > _LONG:
        return f"TRY_SUM(CAST({value} AS {_WIDE}))"
    value = f"TRY_CAST({value} AS BIGINT)"
    places = range(0, max(1, most.bit_length()), _PART)
    if len(places) == 1:
        return f"TRY_SUM({value})"
    *lower, last = (f"SHIFTRIGHT({value}, {place})" if place else value for place in places)
    parts = [*(f"({part} & {(1 << _PART) - 1})" for part in lower), last]  # only the last one can be negative
    sums = [f"CAST(TRY_SUM({part}) AS {_WIDE})" for part in parts]
    scaled = [f"TRY_MULTIPLY({x}, {1 << place})" if place else x for x, place in zip(sums, places, strict=True)]
    return reduce("TRY_ADD({}, {})".format, scaled)


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


def cast_to(value: str, known: Type | None, kind: str) -> str:
    """The value of a known type as another one, or NULL."""
    if kind == "BIGINT" and known is Type.REAL:
        return _named(f"({value})", _whole)
    if known is Type.TEXT and kind in _FROM_TEXT:
        return _named(value, _FROM_TEXT[kind])
    return f"TRY_CAST({value} AS {kind})"


def _whole(x: str) -> str:
    """2^63 is not a BIGINT, but Spark takes it for the largest."""
    return f"CASE WHEN {x} < 9223372036854775808e0D THEN TRY_CAST(RINT({x}) AS BIGINT) END"


def _integer(x: str) -> str:
    """Halves away from 0. Decimals beyond 18 are cut off: rounded to 18 they could reach a half."""
    cut = f"REGEXP_REPLACE({x}, '{_TAIL}', '$1')"
    return f"CASE WHEN {x} RLIKE '{_INTEGER}' THEN TRY_CAST(ROUND(TRY_CAST({cut} AS DECIMAL(38, 18)), 0) AS BIGINT) END"


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
    "DOUBLE": lambda x: f"CASE WHEN {x} RLIKE '{_REAL}' OR {x} RLIKE '{_ODD}' THEN TRY_CAST({x} AS DOUBLE) END",
    "BOOLEAN": lambda x: f"CASE WHEN {x} RLIKE '{_TRUE}' THEN TRUE WHEN {x} RLIKE '{_FALSE}' THEN FALSE END",
    "DATE": _date,
    "TIMESTAMP_NTZ": _timestamp,
}

_IOTA = "".join(map(chr, (*range(0x1F80, 0x1F88), *range(0x1F90, 0x1F98), *range(0x1FA0, 0x1FA8), 0x1FB3, 0x1FC3)))
_LETTERS = {"LOWER": ("\u0130", "i"), "UPPER": (f"ß{_IOTA}ῳ", f"ẞ{''.join(map(str.title, _IOTA))}ῼ")}
"""Letters that Spark makes several or leaves alone, and what they become on other engines."""


def _letters(name: str) -> Write:
    """Letter by letter: some letters become several, or depend on the next one, if a whole text is converted."""
    special, become = _LETTERS[name]

    def write(writer: Writer, form: exp.Expression) -> str:
        each = f"CASE WHEN CONTAINS('{special}', lw_c) THEN TRANSLATE(lw_c, '{special}', '{become}')"
        each = f"lw_c -> {each} WHEN LENGTH({name}(lw_c)) = 1 THEN {name}(lw_c) ELSE lw_c END"
        joined = f"ARRAY_JOIN(TRANSFORM(SPLIT({{0}}, ''), {each}), '')"
        body = f"CASE WHEN LENGTH({{0}}) = OCTET_LENGTH({{0}}) THEN {name}({{0}}) ELSE {joined} END"
        return _named(writer.sql(form.this), body.format)

    return write


def _matches(writer: Writer, form: exp.Expression) -> str:
    """Every part between two % matches at its first place after the one before, which is never given up again."""
    first, *rest = ("".join("." if c == "_" else _literal(c) for c in part) for part in form.expression.name.split("%"))
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1] if part)
    last = f".*{rest[-1]}" if rest else ""
    pattern = exp.Literal.string(rf"(?s)\A{first}{middle}{last}\z")
    return f"{writer.sql(form.this)} RLIKE {writer.sql(pattern)}"


def _literal(character: str) -> str:
    return character if re.fullmatch(r"\w", character) or ord(character) > 127 else rf"\x{ord(character):02x}"


def _day(text: str) -> str:
    return f"CAST({text} AS DATE)"


def _time(text: str) -> str:
    return f"CAST({text} AS TIMESTAMP_NTZ)"


def _date_part(writer: Writer, form: exp.Expression) -> str:
    value, unit = _time(writer.sql(form.this)), form.args["unit"].name
    if unit == "DAYOFWEEK":
        return f"(DAYOFWEEK({value}) - 1)"  # 1 is Sunday there
    return f"{'WEEKOFYEAR' if unit == 'WEEK' else unit}({value})"


def _start_of(writer: Writer, form: exp.Expression) -> str:
    """DATE_TRUNC would go through the session's time zone."""
    value, unit = _time(writer.sql(form.this)), form.args["unit"].name
    if unit == "DAY":
        return _time(_day(value))
    if unit not in ("HOUR", "MINUTE", "SECOND"):
        return _time(f"TRUNC({_day(value)}, '{unit}')")
    minutes = "MINUTE({0})" if unit == "HOUR" else "0"
    seconds = "EXTRACT(SECOND FROM {0})" + (" - SECOND({0})" if unit == "SECOND" else "")
    return _named(value, lambda t: f"({t} - MAKE_DT_INTERVAL(0, 0, {minutes}, {seconds}))".format(t))


_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_PER_DAY = {"HOUR": ("HOUR",), "MINUTE": ("HOUR", "MINUTE"), "SECOND": ("HOUR", "MINUTE", "SECOND")}


def _units_between(writer: Writer, form: exp.Expression) -> str:
    first, second = (f"({_time(writer.sql(part))})" for part in (form.expression, form.this))
    unit = form.args["unit"].name
    return f"({_number_of(unit, second)} - {_number_of(unit, first)})"


def _number_of(unit: str, time: str) -> str:
    """How many times the unit has begun since some fixed day."""
    days = f"CAST(DATEDIFF({_day(time)}, DATE '0001-01-01') AS BIGINT)"  # which is a Monday
    if unit == "DAY":
        return days
    if unit == "WEEK":
        return f"CAST(RINT(DATEDIFF(TRUNC({_day(time)}, 'WEEK'), DATE '0001-01-01') / 7e0D) AS BIGINT)"
    if unit in _MONTHS:
        part = {"YEAR": "0", "QUARTER": f"QUARTER({time})", "MONTH": f"MONTH({time})"}[unit]
        return f"(CAST(YEAR({time}) AS BIGINT) * {12 // _MONTHS[unit]} + {part})"
    total = f"({days} * 24 + HOUR({time}))"
    for part in _PER_DAY[unit][1:]:
        total = f"({total} * 60 + {part}({time}))"
    return total


def _shifted(writer: Writer, form: exp.Expression) -> str:
    step = form.expression
    count, unit = int(step.this.name), step.args["unit"].name
    if unit == "MONTH":
        return f"({_time(writer.sql(form.this))} + MAKE_YM_INTERVAL(0, {count}))"
    days, seconds = (count, 0) if unit == "DAY" else (int(count / 86400), count - int(count / 86400) * 86400)
    return f"({_time(writer.sql(form.this))} + MAKE_DT_INTERVAL({days}, 0, 0, {seconds}))"


def _keyed_hash(writer: Writer, form: exp.Expression) -> str:
    writer.tables[SALT_TABLE] = pa.table({"v": [writer.salt]})
    columns = ", ".join(map(writer.sql, form.expressions))
    return f"XXHASH64((SELECT `v` FROM `{SALT_TABLE}`), {columns})"


def _grouping_id(writer: Writer, form: exp.Expression) -> str:
    """Bit by bit: GROUPING_ID wants its columns in the order of the clause."""
    texts = [f"CAST(GROUPING({writer.sql(key)}) AS BIGINT)" for key in form.expressions]
    bits = [f"{text} * {1 << (len(texts) - 1 - place)}" for place, text in enumerate(texts)]
    return f"({' + '.join(bits)})"


def _cast(writer: Writer, node: exp.Expression) -> str:
    """Casts of numbers in BIGINT's range; in ANSI mode any other would raise."""
    return f"TRY_CAST({writer.sql(node.this)} AS {writer.sql(node.args['to'])})"


SPARK = Dialect(
    "spark",
    {
        forms.Real: lambda _, form: f"{form.this}D",
        forms.IsNaN: template("({} = DOUBLE('NaN'))"),
        forms.Plus: template("({} + {})"),
        forms.Minus: template("({} - {})"),
        forms.Times: template("({} * {})"),
        forms.Quotient: call("TRY_DIVIDE"),
        forms.Modulo: call("TRY_MOD"),
        forms.Power: call("POWER"),
        forms.Exponential: call("EXP"),
        forms.Log2: call("LOG2"),
        forms.Log10: call("LOG10"),
        forms.RoundTo: _round_to,
        forms.Greatest: _extreme("GREATEST"),
        forms.Least: _extreme("LEAST"),
        forms.ExactSum: _exact_sum,
        forms.Wide: template(f"TRY_CAST({{}} AS {_WIDE})"),
        forms.WideProduct: template(f"TRY_MULTIPLY(CAST({{}} AS {_WIDE}), {{}})"),
        forms.WholeQuotient: _whole_quotient,
        forms.TryRead: lambda writer, form: cast_to(
            writer.sql(form.this), form.args.get("known"), writer.sql(form.args["to"])
        ),
        forms.TruthAs: _cast,
        forms.Let: template(f"GET(TRANSFORM(ARRAY({{}}), `{forms.LOCAL}` -> {{}}), 0)"),
        forms.Pick: _pick,
        forms.Lower: _letters("LOWER"),
        forms.Upper: _letters("UPPER"),
        forms.Matches: _matches,
        forms.StartsWith: call("STARTSWITH"),
        forms.EndsWith: call("ENDSWITH"),
        forms.Contains: call("CONTAINS"),
        forms.HasMatch: Lacking(
            "Spark matches regular expressions by backtracking: the text of a row would decide how long it takes.",
            "Use LIKE, STARTS_WITH, CONTAINS or SUBSTRING.",
        ),
        forms.Replace: call("REPLACE"),
        forms.SplitPart: call("SPLIT_PART"),
        forms.DatePart: _date_part,
        forms.StartOf: _start_of,
        forms.UnitsBetween: _units_between,
        forms.Shift: _shifted,
        forms.LocalTime: local_time("TIMESTAMP_NTZ", "{} + MAKE_DT_INTERVAL(0, 0, 0, {})"),
        forms.KeyedHash: _keyed_hash,
        forms.Listed: write_listed,
        forms.GroupingId: _grouping_id,
        forms.FirstOf: call("ANY_VALUE"),
    },
    {
        exp.Floor: _whole_beside("-", ">"),
        exp.Ceil: _whole_beside("+", "<"),
        exp.Add: _call_of_two("TRY_ADD"),
        exp.Sub: _call_of_two("TRY_SUBTRACT"),
        exp.Mul: _call_of_two("TRY_MULTIPLY"),
        exp.DataType: lambda _, node: "TIMESTAMP_NTZ" if node.this is exp.DType.TIMESTAMP else "",
        exp.Cast: _cast,
        exp.Trim: lambda writer, node: (
            f"TRIM({node.args.get('position') or 'BOTH'} '{SPACES}' FROM {writer.sql(node.this)})"
        ),
    },
)
