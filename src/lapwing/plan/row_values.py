"""What a measure reads of each row, and the small forms that its query is made of.

Missing values: NaN becomes NULL and NULL is left out *before* clipping, since LEAST and GREATEST skip NULL.

Every derived table is a sub-query with the declared columns and, unless rows are units, the unit as it is stored. Every
column is read through the name of its side, and has the engine's type for its declared one.

Joins. Both sides of every condition are cast to one type, `common` of their declared types:

    integer = integer  BIGINT      text = text          VARCHAR, byte by byte     date = date            DATE
    real = any number  DOUBLE      boolean = boolean    BOOLEAN                   timestamp = timestamp  TIMESTAMP

Guarantee:  a private row has at most one public partner, whatever the public table holds.
Proof:      the public side is grouped by its compared values, so no two of its rows are equal in all of them. Both
            sides are of one engine type, where `=` is an equivalence and the same one as that of GROUP BY (0.0 and
            -0.0 are equal in both; NaN and NULL are NULL, and meet nothing). Two partners of one row would be equal to
            it, so to each other, so they are one row.
This does not rest on `Table.keys`, by which a join that needs it is refused (sql/joins.py).
Checked by: tests/sql/test_joined_types.py

A stored text that is not declared is read as OTHER, if its column says so.

Guarantee:  sensitivities, prices and keys are those of a stored column with the declared value OTHER beside its own.
Proof:      each stored row becomes one row of the same unit, a function of that row and of declared values alone, below
            everything else that reads it. So a unit has as many rows as before, and no key follows from the data.
Checked by: tests/engines/test_other_values.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from hashlib import sha256

from sqlglot import exp

from lapwing.errors import Bug
from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.derived import Derived, Joined, PerUnit, Selected, United, per_unit_kind
from lapwing.expressions.expression import Column, Expression, Key, Slot
from lapwing.expressions.forms import ExactSum, FirstOf, Least, Listed, Minus, Plus, Quotient, RoundTo, Times, Wide
from lapwing.expressions.operators.base import cast, common, let, number
from lapwing.expressions.operators.base import where as if_met
from lapwing.expressions.operators.table import bounds_of
from lapwing.expressions.table import OTHER, UNIT_ID, Table
from lapwing.expressions.to_sqlglot import Leaf, between, emit, real, typed, value
from lapwing.expressions.types import Interval, Type

ROWS = "lw_rows"
"""Every column is read through this name, so that no alias can be taken for a column."""

UNIT, HELD, CELL = "lw_unit", "lw_held", "lw_cell"
"""Columns inside a query: the unit, how much of something it has, and a value of its rows."""

Read = Callable[[int], exp.Expression]
"""The column of `rows` that holds the measure's first value, its second, ..."""


@dataclass(frozen=True, slots=True)
class RowColumn:
    """What a measure reads of each row: the value, its place between bounds in steps, or its cell of a grid."""

    expression: Expression
    clipped: bool = False
    """Whether its columns are clipped first: where it is added up."""
    bounds: Interval | None = None
    steps: int = 0
    floored: bool = False


def compute(column: RowColumn) -> exp.Expression:
    """The column of `rows`; NULL where the value is missing or not a number."""
    node = value(column.expression, source, clipped=column.clipped)
    if column.bounds is None:
        return node
    low, width = column.bounds.low, column.bounds.high - column.bounds.low

    def placed(one: Callable[[], exp.Expression]) -> exp.Expression:
        moved = exp.Paren(this=Minus(this=number(one()), expression=real(low)))
        scaled = Times(this=moved, expression=real(column.steps / width))
        most = Fraction(column.steps - 1 if column.floored else column.steps)
        whole = exp.Floor(this=scaled) if column.floored else RoundTo(this=scaled)
        return where_present(one(), cast(between(whole, Fraction(0), most), exp.DType.BIGINT))

    return let(node, placed)


def _read(side: str) -> Leaf:
    def leaf(part: Column | Key | Slot) -> exp.Expression:
        if not isinstance(part, Column):
            raise Bug("the result of an aggregate is read below the aggregation")
        return named(part.name, side)

    return leaf


source = _read(ROWS)
"""A column of the private table."""

named: Callable[..., exp.Expression] = partial(exp.column, quoted=True)
"""A column of the query inside, or of a side of a join."""


def aliased(node: exp.Expression, name: str) -> exp.Alias:
    """The node under a name."""
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def select(*columns: exp.Expression) -> exp.Select:
    """A query for these columns."""
    return exp.Select(expressions=list(columns))


def sum_units(node: exp.Expression, name: str, most: int | None = None) -> exp.Alias:
    """A sum over units, each of at most so much, as an integer of 38 digits: no engine wraps or rounds it."""
    return aliased(Wide(this=zero_if_null(ExactSum(this=node, most=most))), name)


def number_rows(number: exp.Expression, within: list[exp.Expression], order: list[exp.Expression]) -> exp.Expression:
    """The place of a row among those of its part, in this order."""
    by = exp.Order(expressions=[exp.Ordered(this=part) for part in order])
    return exp.Window(this=number, partition_by=within, order=by)


def where_present(column: exp.Expression, result: exp.Expression) -> exp.Expression:
    """The result where the column has a value, else NULL."""
    gone = exp.Is(this=column, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=gone, true=exp.Null())], default=result)


def one_if_present(column: exp.Expression) -> exp.Expression:
    """1 where the column has a value, else 0."""
    gone = exp.Is(this=column, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=gone, true=exp.Literal.number(0))], default=exp.Literal.number(1))


def zero_if_null(node: exp.Expression) -> exp.Expression:
    """0 in place of NULL."""
    return exp.Coalesce(this=node, expressions=[exp.Literal.number(0)])


def or_null(name: str) -> exp.Expression:
    """The column, NULL where it is 0."""
    return exp.Nullif(this=named(name), expression=exp.Literal.number(0))


_LEFT, _RIGHT, _INNER, _EACH = "lw_left", "lw_right", "lw_inner", "lw_each"
_BITS = 52  # of a value inside a sum for each unit: sums of integers do not depend on the order of rows
_FINEST = -900  # the exponent of the finest step, so that a step and its inverse are ordinary float64 numbers


def from_node(table: Table, alias: str) -> exp.Expression:
    """What to select the rows of a table from, known by this name."""
    if table.source is None and not table.has_other:
        return exp.table_(table.name, alias=alias, quoted=True)
    query = _with_others(table) if table.source is None else _query(table, table.source)
    return exp.Subquery(this=query, alias=_alias(alias))


def _with_others(table: Table) -> exp.Select:
    """The stored rows, with OTHER in place of every text that is not declared."""
    names = [*(field.name for field in table.fields), *([] if table.unit is None else [UNIT_ID])]
    columns: dict[str, exp.Expression] = {name: exp.column(name, table=_INNER, quoted=True) for name in names}
    for field in table.fields:
        if field.other:
            known = tuple(dict.fromkeys((*field.values, None)))
            place = sha256(repr(known).encode()).hexdigest()[:16]
            kept = Listed(this=columns[field.name].copy(), values=known, kind=field.type, place=place)
            other = exp.Literal.string(OTHER.value)
            columns[field.name] = exp.Case(ifs=[exp.If(this=kept, true=columns[field.name])], default=other)
    query = exp.Select(expressions=[aliased(node, name) for name, node in columns.items()])
    return query.from_(exp.table_(table.name, alias=_INNER, quoted=True), copy=False)


def _query(table: Table, source: Derived) -> exp.Query:
    match source:
        case Joined():
            return _joined(table, source)
        case United():
            return _united(table, source)
        case PerUnit():
            return _per_unit(table, source)


def _joined(table: Table, source: Joined) -> exp.Select:
    names = [field.name for field in table.fields]
    left = [named(field.name, _LEFT) for field in source.left.fields]
    right = [named(field.name if source.by_unit else f"c{i}", _RIGHT) for i, field in enumerate(source.right.fields)]
    columns = [aliased(node, name) for node, name in zip([*left, *right], names, strict=False)]
    if source.outer:
        columns.append(aliased(exp.Coalesce(this=named(names[-1], _RIGHT), expressions=[exp.false()]), names[-1]))
    if table.unit is not None:
        columns.append(aliased(named(UNIT_ID, _LEFT), UNIT_ID))
    partners = exp.Join(
        this=_of_the_unit(source, names[-1]) if source.by_unit else _one_a_key(source, names[-1]),
        side="LEFT" if source.outer else None,
        kind=None if source.outer else "INNER",
        on=exp.and_(*_met(source), copy=False),
    )
    query = select(*columns).from_(from_node(source.left, _LEFT), copy=False)
    query.append("joins", partners)
    return query


def _met(source: Joined) -> list[exp.Expression]:
    """The conditions of a join, each between two values of one type."""
    mine = [_compared(a, b, _LEFT) for a, b in source.on]
    if not source.by_unit:
        return [exp.EQ(this=node, expression=named(f"o{i}", _RIGHT)) for i, node in enumerate(mine)]
    yours = [_compared(b, a, _RIGHT) for a, b in source.on]
    units = exp.EQ(this=named(UNIT_ID, _LEFT), expression=named(UNIT_ID, _RIGHT))
    return [*(exp.EQ(this=a, expression=b) for a, b in zip(mine, yours, strict=True)), units]


def _compared(expression: Expression, other: Expression, side: str) -> exp.Expression:
    """One side of a condition, as the type in which both are compared."""
    return typed(expression, common((expression.type, other.type)), _read(side))


def _of_the_unit(source: Joined, mark: str) -> exp.Expression:
    """The private rows that can be partners; where rows without one stay, each has a mark that says so."""
    if not source.outer:
        return from_node(source.right, _RIGHT)
    columns = [exp.Column(this=exp.Star(), table=exp.to_identifier(_INNER, quoted=True)), aliased(exp.true(), mark)]
    query = select(*columns).from_(from_node(source.right, _INNER), copy=False)
    return exp.Subquery(this=_filtered(query, source.right_where), alias=_alias(_RIGHT))


def _one_a_key(source: Joined, mark: str) -> exp.Expression:
    """The public rows that can be partners, one for each combination of the compared values."""
    compared = [aliased(_compared(b, a, _INNER), f"o{i}") for i, (a, b) in enumerate(source.on)]
    stored = [aliased(named(field.name, _INNER), f"c{i}") for i, field in enumerate(source.right.fields)]
    rows = select(*compared, *stored).from_(from_node(source.right, _INNER), copy=False)
    rows = _filtered(rows, source.right_where)
    keys = [named(f"o{i}", _EACH) for i in range(len(compared))]
    first = [FirstOf(this=named(f"c{i}", _EACH)) for i in range(len(stored))]
    shown = [aliased(key, f"o{i}") for i, key in enumerate(keys)]
    shown += [aliased(node, f"c{i}") for i, node in enumerate(first)]
    shown += [aliased(exp.true(), mark)] if source.outer else []
    query = select(*shown).from_(rows.subquery(_EACH, copy=False), copy=False)
    query = query.group_by(*(key.copy() for key in keys), copy=False)
    return exp.Subquery(this=query, alias=_alias(_RIGHT))


def _united(table: Table, source: United) -> exp.Query:
    first, *others = [_side(table, side) for side in source.sides]
    query: exp.Query = first
    for other in others:
        query = exp.Union(this=query, expression=other, distinct=False)
    return query


def _side(table: Table, side: Selected) -> exp.Select:
    columns = [
        aliased(typed(column, field.type, _read(_INNER)), field.name)
        for column, field in zip(side.columns, table.fields, strict=True)
    ]
    query = exp.Select(expressions=[*columns, aliased(named(UNIT_ID, _INNER), UNIT_ID)])
    return _filtered(query.from_(from_node(side.table, _INNER), copy=False), side.where)


def _per_unit(table: Table, source: PerUnit) -> exp.Select:
    """Keys and arguments of each row first, then one row for each unit and key."""
    unit = source.table.unit
    if unit is None:
        raise Bug("rows without a unit were grouped by it")
    inner = [aliased(named(unit, _INNER), "u"), aliased(named(UNIT_ID, _INNER), UNIT_ID)]
    inner += [aliased(typed(key, key.type, _read(_INNER)), f"k{i}") for i, key in enumerate(source.keys)]
    inner += [aliased(_argument(a), f"a{i}") for i, a in enumerate(source.aggregates) if a.arguments]
    rows = select(*inner).from_(from_node(source.table, _INNER), copy=False)
    rows = _filtered(rows, source.where)
    present = exp.Not(this=exp.Is(this=named(UNIT_ID, _INNER), expression=exp.Null()))
    rows = rows.where(present, copy=False)
    keys = [named(f"k{i}", _EACH) for i in range(len(source.keys))]
    results = [_result(aggregate, f"a{i}") for i, aggregate in enumerate(source.aggregates)]
    names = [field.name for field in table.fields]
    any_of = FirstOf if source.table.field(unit).type is Type.BOOLEAN else exp.Min  # PostgreSQL has no MIN of truths
    columns = [any_of(this=named("u", _EACH)), *keys, *results]
    shown = [aliased(column, name) for column, name in zip(columns, names, strict=True)]
    query = exp.Select(expressions=[*shown, aliased(named(UNIT_ID, _EACH), UNIT_ID)])
    query = query.from_(rows.subquery(_EACH, copy=False), copy=False)
    return query.group_by(named(UNIT_ID, _EACH), *(key.copy() for key in keys), copy=False)


def _argument(aggregate: Aggregate) -> exp.Expression:
    """What one row gives to an aggregate: of sums a whole number of steps, so that every order gives the same total."""
    (argument,) = aggregate.arguments
    kind = per_unit_kind(aggregate)
    if kind in ("sum", "mean"):
        return whole_steps(argument, _read(_INNER))
    if kind in ("min", "max") and argument.type is not Type.REAL:
        return typed(argument, argument.type, _read(_INNER))
    if kind in ("min", "max"):
        zero = real(Fraction(0))  # -0.0 and 0.0 are one number; added to 0 they are one text as well
        return Plus(this=number(exp.Paren(this=value(argument, _read(_INNER)))), expression=zero)
    return value(argument, _read(_INNER))


def whole_steps(argument: Expression, leaf: Leaf) -> exp.Expression:
    """A number of whole steps, clipped: its sums are exact in any order."""
    bounds, step = bounds_of(argument), step_of(argument)
    if bounds is None:
        raise Bug("a sum without bounds was planned")
    held = value(argument, leaf, clipped=True)
    gone = exp.Is(this=held, expression=exp.Null())
    scaled = Times(this=number(held.copy()), expression=real(1 / step))
    kept = RoundTo(this=between(scaled, bounds.low / step, bounds.high / step))
    return if_met(exp.Not(this=gone), cast(kept, exp.DType.BIGINT))


def step_of(argument: Expression) -> Fraction:
    """A power of two, so fine that a value has 52 bits; 1 for whole numbers that are exact in float64."""
    bounds = bounds_of(argument)
    reach = Fraction(1) if bounds is None or not bounds.magnitude else bounds.magnitude
    bits = reach.numerator.bit_length() - reach.denominator.bit_length() + 1
    finest = 0 if argument.type is Type.INTEGER and bits <= _BITS else bits - _BITS
    return Fraction(2) ** max(finest, _FINEST)


def _result(aggregate: Aggregate, name: str) -> exp.Expression:
    """The aggregate over the rows of one unit; it cannot fail."""
    held = named(name, _EACH)
    match per_unit_kind(aggregate):
        case "count_rows":
            return exp.Count(this=exp.Star())
        case "count_units" if not aggregate.arguments:
            return cast(exp.Literal.number(1), exp.DType.BIGINT)
        case "count_units":
            return Least(expressions=[exp.Count(this=held), exp.Literal.number(1)])
        case "count":
            return exp.Count(this=held)
        case "count_distinct":
            return exp.Count(this=exp.Distinct(expressions=[held]))
        case "min":
            return exp.Min(this=held)
        case "max":
            return exp.Max(this=held)
        case "sum" | "mean" as kind:
            total = Times(this=number(ExactSum(this=held)), expression=real(step_of(aggregate.arguments[0])))
            if kind == "sum":
                return total
            many = exp.Nullif(this=number(exp.Count(this=held.copy())), expression=exp.Literal.number(0))
            return Quotient(this=exp.Paren(this=total), expression=many)
    raise Bug("an aggregate inside has no form")


def _filtered(query: exp.Select, condition: Expression | None) -> exp.Select:
    if condition is None:
        return query
    return query.where(exp.Paren(this=emit(condition, _read(_INNER))), copy=False)


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name, quoted=True))
