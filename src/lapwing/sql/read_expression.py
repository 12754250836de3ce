"""Reads one SQL expression, node type by node type. What is not in these tables is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from sqlglot import exp

from lapwing.expressions.expression import Column, Expression, Literal, Operator
from lapwing.expressions.operators import dates, logic, numbers
from lapwing.expressions.operators import text as texts
from lapwing.expressions.operators.base import call, join_terms
from lapwing.expressions.operators.buckets import bucket_label, bucket_number, equal_edges
from lapwing.expressions.operators.casts import convert, day_name, month_name
from lapwing.expressions.operators.text import REGEXP_MATCHES
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import Type, type_of
from lapwing.sql.date_parts import (
    add,
    at_zone,
    date_diff,
    date_part,
    extract,
    interval_added,
    iso_weekday,
    made_date,
    strftime,
    subtract,
    truncate,
)
from lapwing.sql.nodes import (
    NULL,
    WHOLE,
    ZERO,
    Apply,
    ReadForm,
    SqlLeaf,
    SqlNode,
    SqlReader,
    bare,
    is_semi_join,
    terms_of,
)
from lapwing.sql.refusals import NODES, check_modifiers, part_of, refuse_node

EMPTY, ONE, TWO = Literal("", Type.TEXT), Literal(1, Type.INTEGER), Literal(2, Type.INTEGER)
PI, DEGREES, RADIANS = (Literal(Fraction(repr(x)), Type.REAL) for x in (math.pi, 180 / math.pi, math.pi / 180))

PLAIN: dict[type[SqlNode], tuple[Operator, tuple[str, ...]]] = {
    exp.EQ: (logic.EQUAL, ("this", "expression")),
    exp.NEQ: (logic.UNEQUAL, ("this", "expression")),
    exp.LT: (logic.LESS, ("this", "expression")),
    exp.LTE: (logic.AT_MOST, ("this", "expression")),
    exp.GT: (logic.GREATER, ("this", "expression")),
    exp.GTE: (logic.AT_LEAST, ("this", "expression")),
    exp.Not: (logic.NOT, ("this",)),
    exp.NullSafeNEQ: (logic.DISTINCT, ("this", "expression")),
    exp.In: (logic.IN, ("this", "expressions")),
    exp.Coalesce: (logic.COALESCE, ("this", "expressions")),
    exp.Nullif: (logic.NULLIF, ("this", "expression")),
    exp.Least: (logic.LEAST, ("this", "expressions")),
    exp.Greatest: (logic.GREATEST, ("this", "expressions")),
    exp.Mul: (numbers.MULTIPLY, ("this", "expression")),
    exp.Div: (numbers.DIVIDE, ("this", "expression")),
    exp.Mod: (numbers.REMAINDER, ("this", "expression")),
    exp.Floor: (numbers.FLOOR, ("this",)),
    exp.Ceil: (numbers.CEIL, ("this",)),
    exp.Round: (numbers.ROUND, ("this", "decimals")),
    exp.Abs: (numbers.ABS, ("this",)),
    exp.Sign: (numbers.SIGN, ("this",)),
    exp.Ln: (numbers.LN, ("this",)),
    exp.Exp: (numbers.EXP, ("this",)),
    exp.Sqrt: (numbers.SQRT, ("this",)),
    exp.Pow: (numbers.POWER, ("this", "expression")),
    exp.StartsWith: (texts.STARTS_WITH, ("this", "expression")),
    exp.EndsWith: (texts.ENDS_WITH, ("this", "expression")),
    exp.Contains: (texts.CONTAINS, ("this", "expression")),
    exp.Lower: (texts.LOWER, ("this",)),
    exp.Upper: (texts.UPPER, ("this",)),
    exp.Length: (texts.LENGTH, ("this",)),
    exp.Substring: (texts.SUBSTRING, ("this", "start", "length")),
    exp.Right: (texts.RIGHT, ("this", "expression")),
    exp.Replace: (texts.REPLACE, ("this", "expression", "replacement")),
    exp.SplitPart: (texts.SPLIT_PART, ("this", "delimiter", "part_index")),
    exp.RegexpLike: (REGEXP_MATCHES, ("this", "expression")),
    exp.DPipe: (texts.JOIN, ("this", "expression")),
    exp.Year: (dates.YEAR, ("this",)),
    exp.Quarter: (dates.QUARTER, ("this",)),
    exp.Month: (dates.MONTH, ("this",)),
    exp.Week: (dates.WEEK, ("this",)),
    exp.WeekOfYear: (dates.WEEK, ("this",)),
    exp.Day: (dates.DAY, ("this",)),
    exp.DayOfMonth: (dates.DAY, ("this",)),
    exp.DayOfWeek: (dates.DAY_OF_WEEK, ("this",)),
    exp.DayOfYear: (dates.DAY_OF_YEAR, ("this",)),
    exp.Hour: (dates.HOUR, ("this",)),
    exp.Minute: (dates.MINUTE, ("this",)),
    exp.Second: (dates.SECOND, ("this",)),
}
"""Nodes that map to one operator, and which of their parts are its arguments."""

TYPES = {
    **dict.fromkeys([exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT], Type.INTEGER),
    **dict.fromkeys([exp.DType.FLOAT, exp.DType.DOUBLE], Type.REAL),
    **dict.fromkeys([exp.DType.TEXT, exp.DType.VARCHAR], Type.TEXT),
    **dict.fromkeys([exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ], Type.TIMESTAMP),
    exp.DType.BOOLEAN: Type.BOOLEAN,
    exp.DType.DATE: Type.DATE,
}
"""The types a value can be cast to."""


NODES_ABOVE = (exp.Window, exp.Subquery, exp.Grouping, exp.IgnoreNulls, exp.ArgMax, exp.ArgMin, exp.AnyValue)
"""Nodes that may be read over released numbers only."""
ReadAbove = Callable[[SqlNode], Expression | None]


def read(node: SqlNode, leaf: SqlLeaf, above: ReadAbove | None = None) -> Expression:
    """Reads a node and everything below it; `above` reads those of `NODES_ABOVE` that it has a meaning for."""
    if isinstance(node, exp.In | exp.Exists) and is_semi_join(node):
        return leaf(node)
    if above is not None and isinstance(node, NODES_ABOVE) and (meaning := above(node)) is not None:
        return meaning
    plain, form = PLAIN.get(type(node)), FORMS.get(type(node))
    is_leaf = isinstance(node, exp.Column | exp.AggFunc | exp.Filter | exp.WithinGroup)
    if type(node) in NODES or not (plain or form or is_leaf):
        refuse_node(node)
    check_modifiers(node)
    if not (plain or form):
        return leaf(node)
    inner, apply = partial(read, leaf=leaf, above=above), partial(call, part=partial(part_of, node))
    if form is not None:
        return form(node, inner, apply)
    operator, names = plain or PLAIN[type(node)]
    arguments: list[Expression] = []
    for part in map(node.args.get, names):
        arguments += map(inner, part) if isinstance(part, list) else [] if part is None else [inner(part)]
    return apply(operator, *arguments)


def _chain(node: SqlNode, inner: SqlReader, _: Apply) -> Expression:
    operator = logic.AND if isinstance(node, exp.And) else logic.OR
    return join_terms(operator, [inner(term) for term in terms_of(node, type(node))], part=lambda: part_of(node))


def read_number(text: str) -> Literal:
    """The constant that a number in a question stands for."""
    if WHOLE.fullmatch(text) and int(text) < 1 << 63:
        return Literal(int(text), Type.INTEGER)
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if not math.isfinite(value):
        refuse("wrong-argument", f"`{text[:20]}`", "it is not a number of ordinary size.", "Use a smaller number.")
    return Literal(Fraction(repr(value)), Type.REAL)


def _constant(node: SqlNode, *_: object) -> Expression:
    return Literal(node.name, Type.TEXT) if node.args.get("is_string") else read_number(node.name)


def _negate(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    value = inner(node.this)
    if isinstance(value, Literal) and isinstance(value.value, int | Fraction) and not isinstance(value.value, bool):
        return Literal(-value.value, value.type)
    return apply(numbers.SUBTRACT, ZERO, value)


def _is(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    value = inner(node.this)
    match bare(node.expression):
        case exp.Null():
            return apply(logic.IS_NULL, value)
        case exp.Boolean() as truth:
            return apply(logic.NOT, apply(logic.DISTINCT, value, Literal(bool(truth.this), Type.BOOLEAN)))
        case _:
            refuse(
                "wrong-argument",
                part_of(node),
                "IS takes NULL, TRUE or FALSE.",
                "Write x = y or x IS NOT DISTINCT FROM y.",
            )


def _between(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    value, low, high = (inner(node.args[name]) for name in ("this", "low", "high"))
    return apply(logic.AND, apply(logic.AT_LEAST, value, low), apply(logic.AT_MOST, value, high))


def _case(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    subject = None if node.this is None else inner(node.this)
    arguments = []
    for branch in node.args["ifs"]:
        check_modifiers(branch)
        condition = inner(branch.this)
        arguments += [condition if subject is None else apply(logic.EQUAL, subject, condition)]
        arguments += [inner(branch.args["true"])]
    default = node.args.get("default")
    return apply(logic.CASE, *arguments, NULL if default is None else inner(default))


def _if(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    false = node.args.get("false")
    otherwise = NULL if false is None else inner(false)
    return apply(logic.CASE, inner(node.this), inner(node.args["true"]), otherwise)


def _cast(node: SqlNode, inner: SqlReader, _: Apply) -> Expression:
    kind = TYPES.get(node.args["to"].this)
    if kind is None:
        known = "INTEGER, DOUBLE, TEXT, BOOLEAN, DATE or TIMESTAMP"
        refuse(
            "wrong-type",
            part_of(node),
            "casts to this type are not supported.",
            f"Cast to {known}; ROUND(x, 2) keeps two digits.",
        )
    return convert(inner(node.this), kind, part=lambda: part_of(node))


def _like(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    operator = texts.LIKE if isinstance(node, exp.Like) else texts.ILIKE
    like = apply(operator, inner(node.this), inner(node.expression))
    return apply(logic.NOT, like) if node.args.get("negate") else like


def _log(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    base, value = (node.this, node.expression) if node.args.get("expression") else (None, node.this)
    operator = {None: numbers.LOG10, "10": numbers.LOG10, "2": numbers.LOG2}.get(base and base.name)
    if operator is None:
        refuse("wrong-argument", part_of(node), "only the bases e, 2 and 10 are supported.", "Write LN(x) / LN(3).")
    return apply(operator, inner(value))


def _drop_decimals(value: Expression, apply: Apply) -> Expression:
    """The number without its fraction."""
    return apply(numbers.MULTIPLY, apply(numbers.SIGN, value), apply(numbers.FLOOR, apply(numbers.ABS, value)))


def _trim(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    operator = {"LEADING": texts.LTRIM, "TRAILING": texts.RTRIM}.get(str(node.args.get("position")), texts.TRIM)
    return apply(operator, inner(node.this))


def _concat(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    written = [convert(term, Type.TEXT, part=lambda: part_of(node)) for term in map(inner, node.expressions)]
    terms = [term if isinstance(term, Literal) else apply(logic.COALESCE, term, EMPTY) for term in written]
    if not terms:
        refuse("wrong-argument", part_of(node), "it has no arguments.", "Write CONCAT(s, 'a').")
    return join_terms(texts.JOIN, [EMPTY if term == NULL else term for term in terms], part=lambda: part_of(node))


def _width_bucket(node: SqlNode, inner: SqlReader, _: Apply) -> Expression:
    limits = [node.args[name] for name in ("min_value", "max_value", "num_buckets") if node.args.get(name) is not None]
    value = inner(node.this)
    return bucket_number(value, _edges(node, value, limits, inner), part=lambda: part_of(node))


def _edges(node: SqlNode, value: Expression, limits: list[SqlNode], inner: SqlReader) -> list[Expression]:
    """The edges in WIDTH_BUCKET(x, [0, 18, 65]) or WIDTH_BUCKET(x, 0, 100, 10), or those declared for the column."""
    match limits:
        case [] if isinstance(value, Column) and value.edges:
            return [Literal(edge, type_of(edge)) for edge in value.edges]
        case []:
            refuse(
                "wrong-argument",
                part_of(node),
                "it has no edges, and none are declared for its argument.",
                "Write BUCKET(x, [0, 18, 65]), or have the steward declare `edges` for the column.",
            )
        case [exp.Array() as array]:
            return [inner(edge) for edge in array.expressions]
        case [low, high, many]:
            return [*equal_edges(inner(low), inner(high), inner(many), part=lambda: part_of(node))]
    refuse(
        "wrong-argument",
        part_of(node),
        "it needs edges.",
        "Write WIDTH_BUCKET(x, [0, 18, 65]), or WIDTH_BUCKET(x, 0, 100, 10).",
    )


def _function(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    """Functions for which the parser has no node class."""
    name, arguments = str(node.this).lower(), node.expressions
    match name, arguments:
        case "bucket", [value, *limits]:
            read = inner(value)
            return bucket_label(read, _edges(node, read, limits, inner), part=lambda: part_of(node))
        case "clip", [value, low, high]:
            return apply(numbers.CLIP, inner(value), inner(low), inner(high))
        case "date_part" | "datepart", [exp.Literal() as part, value]:
            return date_part(node, part, value, inner, apply)
        case "weekday", [value]:
            return apply(dates.DAY_OF_WEEK, inner(value))
        case "suffix" | "ends_with", [value, end]:
            return apply(texts.ENDS_WITH, inner(value), inner(end))
        case "prefix", [value, start]:
            return apply(texts.STARTS_WITH, inner(value), inner(start))
        case "square", [value]:
            return apply(numbers.POWER, inner(value), TWO)
    refuse_node(node)


FORMS: dict[type[SqlNode], ReadForm] = {
    exp.Paren: lambda node, inner, _: inner(bare(node)),
    exp.Literal: _constant,
    exp.Boolean: lambda node, *_: Literal(bool(node.this), Type.BOOLEAN),
    exp.Null: lambda *_: NULL,
    exp.Neg: _negate,
    exp.And: _chain,
    exp.Or: _chain,
    exp.Is: _is,
    exp.NullSafeEQ: lambda node, inner, apply: apply(
        logic.NOT, apply(logic.DISTINCT, inner(node.this), inner(node.expression))
    ),
    exp.Between: _between,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Add: add,
    exp.AtTimeZone: at_zone,
    exp.Sub: subtract,
    exp.DateAdd: interval_added(1),
    exp.DateSub: interval_added(-1),
    exp.Extract: extract,
    exp.DateTrunc: truncate,
    exp.TimestampTrunc: truncate,
    exp.DateDiff: date_diff,
    exp.DateFromParts: made_date,
    exp.TimestampFromParts: made_date,
    exp.Log: _log,
    exp.IntDiv: lambda node, inner, apply: _drop_decimals(
        apply(numbers.DIVIDE, inner(node.this), inner(node.expression)), apply
    ),
    exp.Trunc: lambda node, inner, apply: _drop_decimals(inner(node.this), apply),
    exp.Trim: _trim,
    exp.WidthBucket: _width_bucket,
    exp.Left: lambda node, inner, apply: apply(texts.SUBSTRING, inner(node.this), ONE, inner(node.expression)),
    exp.Concat: _concat,
    exp.DayOfWeekIso: iso_weekday,
    exp.Dayname: lambda node, inner, _: day_name(inner(node.this), part=partial(part_of, node)),
    exp.Monthname: lambda node, inner, _: month_name(inner(node.this), part=partial(part_of, node)),
    exp.TimeToStr: strftime,
    exp.Pi: lambda *_: PI,
    exp.Degrees: lambda node, inner, apply: apply(numbers.MULTIPLY, inner(node.this), DEGREES),
    exp.Radians: lambda node, inner, apply: apply(numbers.MULTIPLY, inner(node.this), RADIANS),
    exp.Date: lambda node, inner, _: convert(inner(node.this), Type.DATE, part=partial(part_of, node)),
    exp.Anonymous: _function,
}
"""Nodes that need special handling."""
