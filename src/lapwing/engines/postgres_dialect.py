r"""How PostgreSQL writes every form, from version 15 on, without a function of our own.

Text is compared byte by byte: columns, constants and casts have the collation "C", whatever that of the database is.
LOWER and UPPER need another one, which knows letters beyond ASCII; where the server has none, they are refused.

Regular expressions (expressions/operators/text.py) mean what they mean in RE2: `\d`, `\w` and `\s` are ASCII, `.` is
any character but a line break, `[^a]` matches line breaks, `^` and `$` are the ends of the text. PostgreSQL's own
classes follow the locale and its `.` matches line breaks, so classes and dots are written out as ranges of characters.

Guarantee:  a written pattern compiles, and matches what RE2 matches, in linear time.
Proof:      PostgreSQL runs patterns without back references by an automaton, and `~` captures nothing. The rest of the
            subset is written alike in both.
Checked by: tests/engines/test_postgres_patterns.py
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache
from hashlib import sha256

import pyarrow as pa
from sqlglot import exp

from lapwing.engines import postgres_arithmetic as arithmetic
from lapwing.engines.dialect import (
    SPACES,
    Dialect,
    Lacking,
    Write,
    Writer,
    call,
    local_time,
    quote,
    template,
    write_listed,
)
from lapwing.engines.postgres_casts import SQL_TYPES, cast_to, nearest_whole
from lapwing.expressions import forms
from lapwing.expressions.operators.text import CLASSES, RANGE
from lapwing.expressions.types import Type

SALT = "lw_salt"
"""The table with the one number that keyed hashes depend on. It travels beside the text, which servers may log."""

C = 'COLLATE "C"'
_PARTS = {"DAYOFWEEK": "DOW", "DAYOFYEAR": "DOY"}
_SECONDS = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}
_TYPES = {sql: kind for kind, sql in SQL_TYPES.items()}


def _try_read(writer: Writer, form: exp.Expression) -> str:
    kind = _TYPES[writer.sql(form.args["to"]).replace("VARCHAR", "TEXT")]
    value = writer.sql(form.this)
    if kind is Type.INTEGER and value in writer.rounded:
        return f"({nearest_whole(writer.rounded[value])})"
    read = cast_to(value, form.args.get("known"), kind)
    return f"({read} {C})" if kind is Type.TEXT else f"({read})"


def _pick(writer: Writer, form: exp.Expression) -> str:
    listed = ", ".join(map(writer.sql, form.expressions))
    place, many = f"({writer.sql(form.this)})", len(form.expressions)
    return arithmetic.named(
        [place], lambda n: f"(CASE WHEN {n} BETWEEN 1 AND {many} THEN (ARRAY[{listed}])[CAST({n} AS INTEGER)] END)"
    )


_RANGES = {
    "d": [(0x30, 0x39)],
    "w": [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)],
    "s": [(0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20)],
}
_TRANSLATED = re.compile(r"\\.|\[(\^?)((?:\\.|[^\]\\])+)\]|\.", re.DOTALL)


def translate(pattern: str) -> str:
    """An admitted pattern, as PostgreSQL writes it."""
    return _TRANSLATED.sub(_translate_element, pattern)


def _translate_element(element: re.Match[str]) -> str:
    if element[0] == ".":
        return r"[^\n]"
    if element[0].startswith("\\"):
        return f"[{_characters(element[0])}]" if element[0] in CLASSES else element[0]
    return f"[{element[1]}{''.join(_characters(*ends) for ends in RANGE.findall(element[2]))}]"


def _characters(low: str, high: str = "") -> str:
    """A character, a range or a class such as \\d or \\D, inside brackets."""
    if low not in CLASSES:
        ranges = [(ord(low[-1]), ord((high or low)[-1]))]
    elif low[1].islower():
        ranges = _RANGES[low[1]]
    else:  # all others
        ends = [1, *(code for start, end in _RANGES[low[1].lower()] for code in (start - 1, end + 1)), 0x10FFFF]
        ranges = list(zip(ends[::2], ends[1::2], strict=True))
    return "".join(_character(start) + (f"-{_character(end)}" if start < end else "") for start, end in ranges)


def _character(code: int) -> str:
    return chr(code) if chr(code).isalnum() and code < 0x80 else f"\\U{code:08X}"


def _has_match(writer: Writer, form: exp.Expression) -> str:
    return f"({writer.sql(form.this)} ~ {quote(translate(form.expression.name))})"


def _date_part(writer: Writer, form: exp.Expression) -> str:
    unit = form.args["unit"].name
    part = f"EXTRACT({_PARTS.get(unit, unit)} FROM CAST({writer.sql(form.this)} AS TIMESTAMP))"
    return f"CAST(FLOOR({part}) AS BIGINT)"


def _start_of(writer: Writer, form: exp.Expression) -> str:
    return f"DATE_TRUNC('{form.args['unit'].name}', CAST({writer.sql(form.this)} AS TIMESTAMP))"


def _units_between(writer: Writer, form: exp.Expression) -> str:
    """The unit of each as a number, counted from the year 0 or 1; the difference of the two."""
    later, earlier = (_ordinal(form.args["unit"].name, writer.sql(date)) for date in (form.this, form.expression))
    return f"(({later}) - ({earlier}))"


def _ordinal(unit: str, text: str) -> str:
    year, month = (f"CAST(EXTRACT({part} FROM CAST({text} AS TIMESTAMP)) AS BIGINT)" for part in ("YEAR", "MONTH"))
    days = f"CAST(CAST({text} AS DATE) - DATE '0001-01-01' AS BIGINT)"  # which was a Monday
    ordinals = {
        "YEAR": year,
        "QUARTER": f"{year} * 4 + ({month} - 1) / 3",
        "MONTH": f"{year} * 12 + {month}",
        "WEEK": f"{days} / 7",
        "DAY": days,
    }
    seconds = f"EXTRACT(EPOCH FROM CAST({text} AS TIMESTAMP))"
    return ordinals.get(unit) or f"CAST(FLOOR({seconds} / {_SECONDS[unit]}) AS BIGINT)"


def _shifted(writer: Writer, form: exp.Expression) -> str:
    """NULL where the result would lie before the year 1; timestamps begin in 4713 BC, and what comes before fails."""
    step = form.expression
    count, unit = int(step.this.name), step.args["unit"].name
    text, first = f"CAST({writer.sql(form.this)} AS TIMESTAMP)", _first(count, unit)
    moved = f"{text} + {writer.sql(step)}"
    if first is None:
        return moved
    if first == "":
        return "CAST(NULL AS TIMESTAMP)"
    return f"CASE WHEN {text} >= TIMESTAMP '{first}' THEN {moved} END"


def _first(count: int, unit: str) -> str | None:
    """The first day that a step back leaves near the year 1 or later; empty if there is none, None if all do."""
    if count >= 0:
        return None
    if unit == "MONTH":
        years = -count // 12
        return None if years < 1 else "" if years > date.max.year else f"{years:04}-01-01"
    days = (-count if unit == "DAY" else -count // 86400) - 366
    if days <= 0:
        return None
    return (date.min + timedelta(days=days)).isoformat() if days <= (date.max - date.min).days else ""


def _keyed_hash(writer: Writer, form: exp.Expression) -> str:
    """PostgreSQL's own hash of a row, in 64 bits, with a secret seed."""
    seed = int.from_bytes(sha256(writer.salt.encode()).digest()[:8], signed=True)
    writer.tables[SALT] = pa.table({"v": pa.array([seed], pa.int64())})
    columns = ", ".join(map(writer.sql, form.expressions))
    return f'HASH_RECORD_EXTENDED(ROW({columns}), (SELECT "v" FROM "{SALT}"))'


def _case_of_letters(name: str, collation: str | None) -> Write | Lacking:
    if collation is None:
        return Lacking(
            f"{name} needs a collation that knows letters beyond ASCII, and the server has none.",
            "Have the steward install one, such as C.UTF-8, or compare the texts as they are.",
        )
    sharp = "REPLACE({0}, 'ß', 'ẞ')" if name == "UPPER" else "{0}"  # the one letter that these collations leave alone
    return lambda writer, form: f"({name}({sharp.format(writer.sql(form.this))} COLLATE {collation}) {C})"


def _text(_: Writer, node: exp.Expression) -> str:
    """A text constant with the collation of columns; dates and intervals are written as they are."""
    parent = node.parent
    plain = not node.args.get("is_string") or isinstance(parent, exp.Interval | exp.Cast)
    plain = plain or (parent is not None and forms.form_of(parent) in (forms.HasMatch, forms.Matches))
    return "" if plain else f"(TEXT {quote(node.name)} {C})"


def _as_text(writer: Writer, node: exp.Expression) -> str:
    return f"(CAST({writer.sql(node.this)} AS TEXT) {C})" if writer.sql(node.args["to"]) == "TEXT" else ""


def _trim(writer: Writer, node: exp.Expression) -> str:
    name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(node.args.get("position") or "", "BTRIM")
    return f"{name}({writer.sql(node.this)}, {quote(SPACES)})"


@lru_cache(maxsize=8)
def postgres_dialect(collation: str | None) -> Dialect:
    """The dialect of a server; `collation` is the one, in quotes, by which letters are changed, if it has one."""
    return Dialect(
        "postgres",
        {
            forms.Real: lambda _, form: f"FLOAT8 '{form.this}'",
            forms.IsNaN: template("(({}) = FLOAT8 'NaN')"),
            forms.Plus: arithmetic.PLUS,
            forms.Minus: arithmetic.MINUS,
            forms.Times: arithmetic.TIMES,
            forms.Quotient: arithmetic.QUOTIENT,
            forms.Modulo: arithmetic.modulo,
            forms.Power: arithmetic.power,
            forms.Exponential: arithmetic.exponential,
            forms.Log2: arithmetic.log2,
            forms.Log10: arithmetic.log10,
            forms.RoundTo: arithmetic.round_to,
            forms.Greatest: call("GREATEST"),
            forms.Least: call("LEAST"),
            forms.ExactSum: template("SUM({})"),  # of bigint and numeric it is numeric
            forms.Wide: template("CAST({} AS NUMERIC(38, 0))"),
            forms.WideProduct: template("CAST({} AS NUMERIC) * {}"),
            forms.WholeQuotient: template("DIV(CAST({} AS NUMERIC), {})"),
            forms.TryRead: _try_read,
            forms.TruthAs: template("CAST(CAST({} AS INTEGER) AS {})"),
            forms.Let: template(f'(SELECT {{1}} FROM (SELECT {{0}} AS "{forms.LOCAL}" OFFSET 0) AS lw_let)'),
            forms.Pick: _pick,
            forms.Lower: _case_of_letters("LOWER", collation),
            forms.Upper: _case_of_letters("UPPER", collation),
            forms.Matches: template("({} LIKE {} ESCAPE '')"),
            forms.StartsWith: call("STARTS_WITH"),
            forms.EndsWith: template("(RIGHT({0}, LENGTH({1})) = {1})"),
            forms.Contains: template("(STRPOS({}, {}) > 0)"),
            forms.HasMatch: _has_match,
            forms.Replace: call("REPLACE"),
            forms.SplitPart: call("SPLIT_PART"),
            forms.DatePart: _date_part,
            forms.StartOf: _start_of,
            forms.UnitsBetween: _units_between,
            forms.Shift: _shifted,
            forms.LocalTime: local_time("TIMESTAMP", "{} + MAKE_INTERVAL(secs => {})"),
            forms.KeyedHash: _keyed_hash,
            forms.Listed: write_listed,
            forms.GroupingId: call("GROUPING"),
            forms.FirstOf: template("(ARRAY_AGG({}))[1]"),
        },
        {exp.Literal: _text, exp.Cast: _as_text, exp.Trim: _trim},
    )
