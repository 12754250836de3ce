"""From a plan to one engine query that returns clipped integer cells.

    WITH totals AS (                                    one row per unit and group, integers
      SELECT unit, keys, <gather> AS c0, ... FROM table
      WHERE <where> AND unit IS NOT NULL AND key IN (<declared values>) GROUP BY unit, keys),
    chosen AS (                                         only if a unit may be in too many groups
      SELECT *, ROW_NUMBER() OVER (PARTITION BY unit ORDER BY <keyed hash of unit and keys>, keys) AS place FROM totals)
    SELECT keys, SUM(clip(c0)) AS c0, ... FROM chosen WHERE place <= groups GROUP BY keys

Stability: every row of `totals` and every choice in `chosen` depends on the rows of one unit and on the secret salt
only, so removing a unit removes its own contributions and changes nobody else's. Two order keys make the choice a
function. Row level: every row is its own unit, so the inner steps vanish and each row is clipped by itself.
Missing values: NaN becomes NULL and NULL is left out *before* clipping, since LEAST and GREATEST skip NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from fractions import Fraction
from math import ceil, floor

from sqlglot import exp

from lapwing.errors import Bug
from lapwing.query.catalog import UNIT_ID
from lapwing.query.expression import Call, Column, Expression, Literal, Slot
from lapwing.query.operators import bounds_of, cast, number
from lapwing.query.plan import Measure, Plan
from lapwing.query.types import Type, Value

Hash = Callable[[list[exp.Expression]], exp.Expression]
"""The engine's keyed hash of these columns."""

_UNIT, _PLACE = "lw_unit", "lw_place"
_ROWS = "lw_rows"  # every column is read through this name, so that no alias can be taken for a column
_MOST_STEPS = Fraction(1 << 62)  # of one row: a wider value is cut here, so that no cast to BIGINT can fail


def cells_query(plan: Plan, keyed_hash: Hash) -> exp.Select:
    """The query whose rows are the cells: key columns k0, k1, ... and integer columns c0, c1, ..."""
    if plan.table.by_row:
        return _row_level(plan)
    totals = _totals(plan)
    inner = _chosen(plan, totals, keyed_hash) if plan.limit_groups else totals
    clipped = [_aliased(exp.Sum(this=_clip(_column(f"c{i}"), m)), f"c{i}") for i, m in enumerate(plan.measures)]
    query = _selected(*_keys(plan), *map(_wide, clipped)).from_(inner.subquery("t", copy=False), copy=False)
    if plan.limit_groups:
        query = _where(query, exp.LTE(this=_column(_PLACE), expression=exp.Literal.number(plan.groups)))
    return query.group_by(*_keys(plan), copy=False) if plan.domain else query


def _row_level(plan: Plan) -> exp.Select:
    columns = [_aliased(_gather(measure, clip=True), f"c{i}") for i, measure in enumerate(plan.measures)]
    keys = [_aliased(emit(key), f"k{i}") for i, key in enumerate(plan.question.keys)]
    query = _filtered(plan, _selected(*keys, *map(_wide, columns)))
    return query.group_by(*map(emit, plan.question.keys), copy=False) if keys else query


def _totals(plan: Plan) -> exp.Select:
    unit = _source(UNIT_ID)
    columns = [_aliased(_gather(measure), f"c{i}") for i, measure in enumerate(plan.measures)]
    keys = [_aliased(emit(key), f"k{i}") for i, key in enumerate(plan.question.keys)]
    query = _filtered(plan, _selected(_aliased(unit, _UNIT), *keys, *columns))
    query = _where(query, exp.Not(this=exp.Is(this=unit.copy(), expression=exp.Null())))
    return query.group_by(unit.copy(), *map(emit, plan.question.keys), copy=False)


def _chosen(plan: Plan, totals: exp.Select, keyed_hash: Hash) -> exp.Select:
    order = [keyed_hash([_column(_UNIT), *_keys(plan)]), *_keys(plan)]
    place = exp.Window(
        this=exp.RowNumber(),
        partition_by=[_column(_UNIT)],
        order=exp.Order(expressions=[exp.Ordered(this=by) for by in order]),
    )
    return _selected(exp.Star(), _aliased(place, _PLACE)).from_(totals.subquery("u", copy=False), copy=False)


def _filtered(plan: Plan, query: exp.Select) -> exp.Select:
    query = query.from_(exp.table_(plan.table.name, alias=_ROWS, quoted=True), copy=False)
    if plan.question.where is not None:
        query = _where(query, emit(plan.question.where))
    for key, values in zip(plan.question.keys, plan.domain, strict=True):
        query = _where(query, _declared(emit(key), values))
    return query


def _selected(*columns: exp.Expression) -> exp.Select:
    return exp.Select(expressions=list(columns))


def _where(query: exp.Select, condition: exp.Expression) -> exp.Select:
    return query.where(exp.Paren(this=condition), copy=False)


def _declared(key: exp.Expression, values: tuple[Value, ...]) -> exp.Expression:
    known = [literal(value) for value in values if value is not None]
    listed = exp.In(this=key, expressions=known) if known else exp.false()
    if None not in values:
        return listed
    return exp.Or(this=listed, expression=exp.Is(this=key.copy(), expression=exp.Null()))


def _gather(measure: Measure, *, clip: bool = False) -> exp.Expression:
    """One unit's total within a group; `clip` cuts each row to what a unit may add, for rows that are units."""
    argument = measure.aggregate.argument
    if argument is None:
        return measure.function.gather(None)
    value = _argument(measure, argument)
    if clip and measure.aggregate.name == "sum":
        missing = exp.Is(this=value, expression=exp.Null())
        value = exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=_clip(value.copy(), measure))
    return measure.function.gather(value)


def _argument(measure: Measure, argument: Expression) -> exp.Expression:
    """What one row adds: for SUM clipped whole steps, for COUNT anything that is NULL exactly where it is missing."""
    bounds = bounds_of(argument) if measure.aggregate.name == "sum" else None
    if bounds is None:
        return _present(argument, emit(argument))
    if measure.step == 1 and isinstance(argument, Column) and argument.type is Type.INTEGER:
        whole = exp.Literal.number(floor(bounds.low)), exp.Literal.number(ceil(bounds.high))
        return _present(argument, _between(emit(argument), *whole))
    low, high = (_float(max(-_MOST_STEPS, min(_MOST_STEPS, side / measure.step))) for side in (bounds.low, bounds.high))
    scaled = exp.Mul(this=number(emit(argument, clipped=True)), expression=_float(1 / measure.step))
    rounded = exp.Round(this=_between(scaled, low, high))
    return _present(argument, cast(rounded, exp.DType.BIGINT), clipped=True)


def _present(argument: Expression, result: exp.Expression, *, clipped: bool = False) -> exp.Expression:
    """The result where the argument is a value; NULL where it is missing or not a number."""
    value = emit(argument, clipped=clipped)
    missing: exp.Expression = exp.Is(this=value, expression=exp.Null())
    if argument.type is Type.REAL or isinstance(argument, Call):
        missing = exp.Or(this=missing, expression=exp.IsNan(this=number(value.copy())))
    return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=result)


def _clip(total: exp.Expression, measure: Measure) -> exp.Expression:
    return _between(total, exp.Literal.number(measure.low), exp.Literal.number(measure.high))


def _between(value: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    """The value cut to [low, high]; it must not be NULL."""
    return exp.Anonymous(this="GREATEST", expressions=[low, exp.Anonymous(this="LEAST", expressions=[value, high])])


def emit(expression: Expression, *, clipped: bool = False) -> exp.Expression:
    """The engine's form of an expression; `clipped` cuts every bounded column to its bounds where it is read."""
    match expression:
        case Column(name=name, bounds=bounds):
            column = _source(name)
            if not clipped or bounds is None:
                return column
            return _present(expression, _between(number(column), _float(bounds.low), _float(bounds.high)))
        case Literal(value=value):
            return literal(value)
        case Call(operator=operator, arguments=arguments):
            return operator.emit(*(emit(argument, clipped=clipped) for argument in arguments))
        case Slot():
            raise Bug("the result of an aggregate stands below the aggregation")


def literal(value: Value) -> exp.Expression:
    """A constant, quoted by the engine's own rules."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            return exp.Literal.number(value)
        case Fraction():
            return _float(value)
        case str():
            return exp.Literal.string(value)
        case datetime():
            return cast(exp.Literal.string(value.isoformat(sep=" ")), exp.DType.TIMESTAMP)
        case date():
            return cast(exp.Literal.string(value.isoformat()), exp.DType.DATE)


def _float(value: Fraction) -> exp.Expression:
    """The nearest float64, printed so that it is read back unchanged."""
    text = repr(abs(float(value)))
    digits = exp.Literal(this=text if "e" in text else f"{text}e0", is_string=False)  # an exponent makes it a float64
    return exp.Neg(this=digits) if value < 0 else digits


def _keys(plan: Plan) -> list[exp.Expression]:
    return [_column(f"k{i}") for i in range(len(plan.domain))]


def _source(name: str) -> exp.Expression:
    """A column of the private table."""
    return exp.column(name, table=_ROWS, quoted=True)


def _column(name: str) -> exp.Expression:
    return exp.column(name, quoted=True)


def _aliased(node: exp.Expression, name: str) -> exp.Alias:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def _wide(node: exp.Alias) -> exp.Alias:
    """A sum as an integer of 38 digits: no engine wraps or rounds it."""
    inner = exp.Coalesce(this=node.this, expressions=[exp.Literal.number(0)])
    return _aliased(exp.cast(inner, "DECIMAL(38, 0)"), node.alias)
