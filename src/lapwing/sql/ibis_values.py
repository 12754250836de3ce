"""Reads one Ibis value by its class name. What is not in these tables is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from fractions import Fraction
from functools import partial
from typing import Any

from lapwing.errors import LapwingError
from lapwing.expressions.expression import Expression, Literal, Operator
from lapwing.expressions.operators import dates, logic, numbers
from lapwing.expressions.operators import text as texts
from lapwing.expressions.operators.base import IN_UTC, MOST_TEXT, call, is_whole, join_terms
from lapwing.expressions.operators.buckets import between_edges
from lapwing.expressions.operators.casts import convert
from lapwing.expressions.operators.date_texts import day_name, format_date
from lapwing.expressions.operators.patterns import REGEXP_MATCHES
from lapwing.expressions.refusal import nearest, refuse
from lapwing.expressions.types import Type, Value, type_of
from lapwing.numbers import exact

IbisLeaf = Callable[[Any], Expression]
"""The meaning of fields and aggregates in the value's context."""
IbisReader = Callable[[Any], Expression]

NULL, ZERO, ONE = Literal(None, None), Literal(0, Type.INTEGER), Literal(1, Type.INTEGER)

PLAIN: dict[str, tuple[Operator, tuple[str, ...]]] = {
    "Equals": (logic.EQUAL, ("left", "right")),
    "NotEquals": (logic.UNEQUAL, ("left", "right")),
    "Xor": (logic.UNEQUAL, ("left", "right")),
    "Less": (logic.LESS, ("left", "right")),
    "LessEqual": (logic.AT_MOST, ("left", "right")),
    "Greater": (logic.GREATER, ("left", "right")),
    "GreaterEqual": (logic.AT_LEAST, ("left", "right")),
    "Not": (logic.NOT, ("arg",)),
    "IsNull": (logic.IS_NULL, ("arg",)),
    "InValues": (logic.IN, ("value", "options")),
    "Coalesce": (logic.COALESCE, ("arg",)),
    "NullIf": (logic.NULLIF, ("arg", "null_if_expr")),
    "Least": (logic.LEAST, ("arg",)),
    "Greatest": (logic.GREATEST, ("arg",)),
    "IfElse": (logic.CASE, ("bool_expr", "true_expr", "false_null_expr")),
    "Add": (numbers.ADD, ("left", "right")),
    "Subtract": (numbers.SUBTRACT, ("left", "right")),
    "Multiply": (numbers.MULTIPLY, ("left", "right")),
    "Divide": (numbers.DIVIDE, ("left", "right")),
    "Modulus": (numbers.REMAINDER, ("left", "right")),
    "Floor": (numbers.FLOOR, ("arg",)),
    "Ceil": (numbers.CEIL, ("arg",)),
    "Abs": (numbers.ABS, ("arg",)),
    "Sign": (numbers.SIGN, ("arg",)),
    "Ln": (numbers.LN, ("arg",)),
    "Log10": (numbers.LOG10, ("arg",)),
    "Log2": (numbers.LOG2, ("arg",)),
    "Exp": (numbers.EXP, ("arg",)),
    "Sqrt": (numbers.SQRT, ("arg",)),
    "Power": (numbers.POWER, ("left", "right")),
    "StringLength": (texts.LENGTH, ("arg",)),
    "Lowercase": (texts.LOWER, ("arg",)),
    "Uppercase": (texts.UPPER, ("arg",)),
    "Strip": (texts.TRIM, ("arg",)),
    "LStrip": (texts.LTRIM, ("arg",)),
    "RStrip": (texts.RTRIM, ("arg",)),
    "StrRight": (texts.RIGHT, ("arg", "nchars")),
    "StartsWith": (texts.STARTS_WITH, ("arg", "start")),
    "EndsWith": (texts.ENDS_WITH, ("arg", "end")),
    "StringContains": (texts.CONTAINS, ("haystack", "needle")),
    "StringReplace": (texts.REPLACE, ("arg", "pattern", "replacement")),
    "RegexSearch": (REGEXP_MATCHES, ("arg", "pattern")),
    "ExtractYear": (dates.YEAR, ("arg",)),
    "ExtractQuarter": (dates.QUARTER, ("arg",)),
    "ExtractMonth": (dates.MONTH, ("arg",)),
    "ExtractWeekOfYear": (dates.WEEK, ("arg",)),
    "ExtractDay": (dates.DAY, ("arg",)),
    "ExtractDayOfYear": (dates.DAY_OF_YEAR, ("arg",)),
    "ExtractHour": (dates.HOUR, ("arg",)),
    "ExtractMinute": (dates.MINUTE, ("arg",)),
    "ExtractSecond": (dates.SECOND, ("arg",)),
}
"""Nodes that map to one operator, and which of their parts are its arguments."""

AGGREGATES = {"Count": "count", "Sum": "sum", "Mean": "mean"}
QUANTILES = {"Min": Fraction(0), "Median": Fraction(1, 2), "Max": Fraction(1)}
"""Aggregates with one argument, by the name of their entry in aggregates.py."""
SPREADS = {
    ("Variance", "pop"): "var_pop",
    ("Variance", "sample"): "var_samp",
    ("StandardDev", "pop"): "stddev_pop",
    ("StandardDev", "sample"): "stddev_samp",
}
PAIRS = {("Covariance", "pop"): "covar_pop", ("Covariance", "sample"): "covar_samp"}
LEAVES = {
    "Field", "InSubquery", "CountStar", "CountDistinct", "Quantile", "Variance", "StandardDev", "Covariance",
    "Correlation", *AGGREGATES, *QUANTILES,
}  # fmt: skip

_ROWS = "the answer would be one of the rows, which are private."
_CHOICE = "it returns the value of a single row, which is private."
_USE = "Use mean(), sum() or count()."
_WINDOW = ("window functions mix rows of different units.", "Use group_by.")
_INSIDE = (
    "a query inside an expression would read rows without being charged.",
    "Ask it first, then use the released number as a constant.",
)
_CHANCE = ("it is not a function of the row.", "Leave it out, or use a constant.")
REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(["ArrayCollect", "GroupConcat"], (_ROWS, _USE)),
    **dict.fromkeys(["First", "Last", "Arbitrary", "ArgMax", "ArgMin", "Mode"], (_CHOICE, _USE)),
    **dict.fromkeys(["WindowFunction", "RowNumber", "Lag", "Lead", "CumeDist"], _WINDOW),
    **dict.fromkeys(["ScalarSubquery", "ExistsSubquery"], _INSIDE),
    **dict.fromkeys(["RandomScalar", "RandomUUID", "TimestampNow", "DateNow"], _CHANCE),
    **dict.fromkeys(["DateDiff", "TimestampDiff"], ("a difference needs a unit.", "Use a.delta(b, unit='day').")),
    **dict.fromkeys(["IsNan", "IsInf"], ("NaN is NULL here.", "Use isnull().")),
    "InSubquery": ("here it would read rows without being charged.", "Use it in filter."),
    "ApproxCountDistinct": ("it is only supported for the protected unit.", "Use nunique() of the unit."),
}
"""By class name: why it is refused, and what to write instead."""

_ALLOWED = "Use comparisons, &, |, ~, cases, cast, arithmetic, and functions of numbers, text and dates."


class Values:
    """Reads values, given the meaning of their leaves. A node that occurs several times is read once."""

    def __init__(self, leaf: IbisLeaf) -> None:
        self._leaf = leaf
        self._known: dict[int, tuple[Any, Expression]] = {}  # keeps the node alive, so that no other gets its id

    def read(self, node: Any) -> Expression:
        if id(node) not in self._known:
            self._known[id(node)] = node, self._read(node)
        return self._known[id(node)][1]

    def _read(self, node: Any) -> Expression:
        kind = kind_of(node)
        if kind in LEAVES:
            return self._leaf(node)
        if kind in PLAIN:
            operator, names = PLAIN[kind]
            arguments = [self.read(part) for name in names for part in _as_list(getattr(node, name))]
            return call(operator, *arguments, part=lambda: part_of(node))
        if kind not in FORMS:
            refuse_node(node)
        return FORMS[kind](node, self.read)


def terms_of(node: Any, kind: str) -> list[Any]:
    """The terms of a chain of And or Or, without recursion: chains can be long."""
    terms, todo = [], [node]
    while todo:
        current = todo.pop()
        if kind_of(current) == kind:
            todo += [current.right, current.left]
        else:
            terms.append(current)
    return terms


def kind_of(node: Any) -> str:
    return type(node).__name__


def part_of(node: Any) -> str:
    return f"`{kind_of(node)}`"


def refuse_node(node: Any) -> Any:
    """Refuses a node that is not supported here."""
    refuse(
        "unsupported-function",
        part_of(node),
        *REFUSED.get(kind_of(node), ("this operation is not supported.", _ALLOWED)),
    )


def _as_list(part: Any) -> tuple[Any, ...]:
    return part if isinstance(part, tuple) else (part,)


def _split_part(node: Any, read: IbisReader) -> Expression:
    """text.split("-")[0]: places are counted from 0 here, and a place beyond the last part has none."""
    place = read(node.index)
    if kind_of(node.arg) != "StringSplit" or not isinstance(place, Literal) or not is_whole(place, 0, MOST_TEXT - 1):
        refuse("unsupported-function", part_of(node), "only a split text has parts.", "Write text.split('-')[0].")
    first = Literal(int(str(place.value)) + 1, Type.INTEGER)
    return call(texts.SPLIT_PART, read(node.arg.arg), read(node.arg.delimiter), first, part=lambda: part_of(node))


def _chain(node: Any, read: IbisReader) -> Expression:
    operator = logic.AND if kind_of(node) == "And" else logic.OR
    return join_terms(operator, [read(term) for term in terms_of(node, kind_of(node))], part=lambda: part_of(node))


def _literal(node: Any, _: IbisReader) -> Expression:
    if node.dtype.is_interval():
        refuse(
            "wrong-argument",
            "an interval",
            "it must be added to or subtracted from a date.",
            "Write day + ibis.interval(days=3).",
        )
    return _constant(node.value)


def _constant(value: Any) -> Literal:
    known: Value
    match value:
        case datetime() if value.tzinfo is not None:
            refuse("wrong-argument", "a constant", "a constant has no time zone.", IN_UTC)
        case str() if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
            refuse("wrong-argument", "a constant", "it contains an invalid character.", "Remove the character.")
        case None | bool() | str() | date() | datetime():
            known = value
        case int() if abs(value) < 10**18:
            known = value
        case _:
            known = _real(value)
    return Literal(known, type_of(known))


def _real(value: Any) -> Fraction:
    try:
        return exact(float(value) if isinstance(value, int) else value, "the constant")
    except (LapwingError, OverflowError):
        refuse(
            "wrong-argument",
            "a constant",
            "it is not a number of ordinary size, text, a boolean or a date.",
            "Pass one.",
        )


def _negate(node: Any, read: IbisReader) -> Expression:
    value = read(node.arg)
    if isinstance(value, Literal) and isinstance(value.value, int | Fraction) and not isinstance(value.value, bool):
        return Literal(-value.value, value.type)
    return call(numbers.SUBTRACT, ZERO, value, part=lambda: part_of(node))


def _not_null(node: Any, read: IbisReader) -> Expression:
    apply = partial(call, part=lambda: part_of(node))
    return apply(logic.NOT, apply(logic.IS_NULL, read(node.arg)))


def _same(node: Any, read: IbisReader) -> Expression:
    apply = partial(call, part=lambda: part_of(node))
    return apply(logic.NOT, apply(logic.DISTINCT, read(node.left), read(node.right)))


def _between(node: Any, read: IbisReader) -> Expression:
    apply = partial(call, part=lambda: part_of(node))
    value, low, high = read(node.arg), read(node.lower_bound), read(node.upper_bound)
    return apply(logic.AND, apply(logic.AT_LEAST, value, low), apply(logic.AT_MOST, value, high))


def _case(node: Any, read: IbisReader) -> Expression:
    apply = partial(call, part=lambda: part_of(node))
    arguments = []
    for condition, value in zip(node.cases, node.results, strict=True):
        met = read(condition)
        arguments += [met if kind_of(node) == "SearchedCase" else apply(logic.EQUAL, read(node.base), met), read(value)]
    return apply(logic.CASE, *arguments, read(node.default))


def _cast(node: Any, read: IbisReader) -> Expression:
    if node.to.is_timestamp() and node.to.timezone is not None:
        return dates.at_time_zone(read(node.arg), node.to.timezone, part=lambda: part_of(node))
    tests = {
        Type.INTEGER: node.to.is_integer(),
        Type.REAL: node.to.is_floating(),
        Type.TEXT: node.to.is_string(),
        Type.BOOLEAN: node.to.is_boolean(),
        Type.DATE: node.to.is_date(),
        Type.TIMESTAMP: node.to.is_timestamp(),
    }
    kind = next((kind for kind, fits in tests.items() if fits), None)
    if kind is None:
        refuse(
            "wrong-type",
            "cast",
            "casts to this type are not supported.",
            "Cast to int64, float64, string, boolean, date or timestamp.",
        )
    return convert(read(node.arg), kind, part=lambda: part_of(node))


def _like(node: Any, read: IbisReader) -> Expression:
    if node.escape is not None:
        refuse("unsupported-clause", "like", "`escape` is not supported.", "Use startswith, endswith or contains.")
    operator = texts.LIKE if kind_of(node) == "StringSQLLike" else texts.ILIKE
    return call(operator, read(node.arg), read(node.pattern), part=lambda: part_of(node))


def _weekday(node: Any, read: IbisReader) -> Expression:
    """Ibis counts from 0, which is Monday."""
    apply = partial(call, part=lambda: part_of(node))
    move = apply(numbers.ADD, apply(dates.DAY_OF_WEEK, read(node.arg)), Literal(6, Type.INTEGER))
    return apply(numbers.REMAINDER, move, Literal(7, Type.INTEGER))


def _truncate(node: Any, read: IbisReader) -> Expression:
    value, unit = read(node.arg), node.unit.name.lower()
    operator = dates.TRUNCATED.get((unit, value.type)) if value.type is not None else None
    if operator is None:
        refuse(
            "wrong-argument",
            "truncate",
            f"truncation to `{unit}` is not supported.",
            "Use year, quarter, month, week or day.",
        )
    return call(operator, value, part=lambda: part_of(node))


def _delta(node: Any, read: IbisReader) -> Expression:
    unit = str(getattr(node.part, "value", ""))
    if unit not in dates.DIFFERENCES:
        refuse(
            "wrong-argument",
            "delta",
            f"the unit `{unit[:20]}` is not supported.",
            nearest(unit, dates.DIFFERENCES),
        )
    return call(dates.DIFFERENCES[unit], read(node.right), read(node.left), part=lambda: part_of(node))


def _shift(node: Any, read: IbisReader) -> Expression:
    value, interval = read(node.left), node.right
    is_constant = kind_of(interval) == "Literal" and isinstance(interval.value, int)
    unit = interval.dtype.unit.name.lower() if is_constant else ""
    steps, factor = dates.STEPS.get(unit, ("", 0))
    operator = dates.SHIFTED.get((steps, value.type)) if value.type is not None else None
    if operator is None:
        refuse(
            "wrong-argument",
            part_of(node),
            "an interval must be an integer with one unit.",
            "Write day + ibis.interval(days=3).",
        )
    count = interval.value * (factor if kind_of(node).endswith("Add") else -factor)
    return call(operator, value, Literal(count, Type.INTEGER), part=lambda: part_of(node))


def _substring(node: Any, read: IbisReader) -> Expression:
    """Ibis counts from 0."""
    start, length = read(node.start), None if node.length is None else read(node.length)
    if isinstance(start, Literal) and isinstance(start.value, int):
        start = Literal(start.value + 1, Type.INTEGER)
    arguments = (read(node.arg), start) if length is None else (read(node.arg), start, length)
    return call(texts.SUBSTRING, *arguments, part=lambda: part_of(node))


def _concat(node: Any, read: IbisReader) -> Expression:
    terms = [read(term) for term in node.arg]
    found = terms[0]
    for term in terms[1:]:
        found = call(texts.JOIN, found, term, part=lambda: part_of(node))
    return found


def _round(node: Any, read: IbisReader) -> Expression:
    digits = None if node.digits is None else read(node.digits)
    rest = () if digits is None or digits == ZERO else (digits,)
    return call(numbers.ROUND, read(node.arg), *rest, part=lambda: part_of(node))


def _quotient(node: Any, read: IbisReader) -> Expression:
    apply = partial(call, part=lambda: part_of(node))
    return apply(numbers.FLOOR, apply(numbers.DIVIDE, read(node.left), read(node.right)))


def _log(node: Any, read: IbisReader) -> Expression:
    apply = partial(call, part=lambda: part_of(node))
    value = read(node.arg)
    if node.base is None:
        return apply(numbers.LN, value)
    return apply(numbers.DIVIDE, apply(numbers.LN, value), apply(numbers.LN, read(node.base)))


def _clip(node: Any, read: IbisReader) -> Expression:
    limits = [NULL if limit is None else read(limit) for limit in (node.lower, node.upper)]
    return call(numbers.CLIP, read(node.arg), *limits, part=lambda: part_of(node))


def _bucket(node: Any, read: IbisReader) -> Expression:
    return between_edges(
        read(node.arg),
        [_constant(edge) for edge in node.buckets],
        right=node.closed == "right",
        closed=node.close_extreme,
        under=node.include_under,
        over=node.include_over,
        part=lambda: part_of(node),
    )


FORMS: dict[str, Callable[[Any, IbisReader], Expression]] = {
    "Alias": lambda node, read: read(node.arg),
    "Literal": _literal,
    "Negate": _negate,
    "And": _chain,
    "Or": _chain,
    "NotNull": _not_null,
    "IdenticalTo": _same,
    "Between": _between,
    "SearchedCase": _case,
    "SimpleCase": _case,
    "Cast": _cast,
    "TryCast": _cast,
    "StringSQLLike": _like,
    "StringSQLILike": _like,
    "DayOfWeekIndex": _weekday,
    "DateTruncate": _truncate,
    "TimestampTruncate": _truncate,
    "Date": lambda node, read: convert(read(node.arg), Type.DATE, part=lambda: part_of(node)),
    "DateDelta": _delta,
    "TimestampDelta": _delta,
    "DateAdd": _shift,
    "DateSub": _shift,
    "TimestampAdd": _shift,
    "TimestampSub": _shift,
    "Substring": _substring,
    "ArrayIndex": _split_part,
    "Strftime": lambda node, read: format_date(read(node.arg), read(node.format_str), part=lambda: part_of(node)),
    "DayOfWeekName": lambda node, read: day_name(read(node.arg), part=lambda: part_of(node)),
    "Pi": lambda _node, _: Literal(Fraction(repr(math.pi)), Type.REAL),
    "StringConcat": _concat,
    "Round": _round,
    "FloorDivide": _quotient,
    "Log": _log,
    "Clip": _clip,
    "Bucket": _bucket,
}
"""Nodes that need special handling."""
