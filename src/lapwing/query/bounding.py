"""From a plan to one engine query that returns clipped integer cells.

    WITH rows AS (                                      keys and arguments, computed once for each row
      SELECT unit, <key> AS k0, ..., <argument> AS a0, ... FROM table WHERE <where> AND unit IS NOT NULL),
    totals AS (                                         one row per unit and group, integers
      SELECT unit, keys, <totals of the unit's rows> AS t0, ... FROM rows
      WHERE key IN (<public values>) GROUP BY unit, keys),
    chosen AS (                                         only if a unit may be in too many groups
      SELECT *, ROW_NUMBER() OVER (PARTITION BY unit ORDER BY <keyed hash of unit and keys>, keys) AS place FROM totals)
    SELECT keys, SUM(<cell of a unit, clipped>) AS c0, ... FROM chosen WHERE place <= groups GROUP BY keys

Every row adds one integer to each total, and a unit's cells are a clipped function of its totals. Row level: every row
is its own unit, so the middle steps vanish and the cells are made of each row by itself.

Stability: every row of `totals` and every choice in `chosen` depends on the rows of one unit and on the secret salt
only, so removing a unit removes its own contributions and changes nobody else's. Two order keys make the choice a
function. The selection of keys, where there is one, sees the same chosen groups as every measure.
Missing values: NaN becomes NULL and NULL is left out *before* clipping, since LEAST and GREATEST skip NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor

from sqlglot import exp

from lapwing.errors import Bug
from lapwing.mechanisms.keys_weighted import WeightedGaussian
from lapwing.mechanisms.soft_values import GRID
from lapwing.query.aggregates import Soft, Total
from lapwing.query.catalog import UNIT_ID
from lapwing.query.emission import between, cut, emit, literal, real, value, whole
from lapwing.query.expression import Column, Expression, Key, Slot
from lapwing.query.operators import bounds_of, cast, number
from lapwing.query.plan import Measure, Plan
from lapwing.query.types import Type

Hash = Callable[[list[exp.Expression]], exp.Expression]
"""The engine's keyed hash of these columns."""

UNITS = "lw_units"
"""The column of the cells query that the selection of keys reads: how many units are in the group, or their weight."""

_UNIT, _PLACE, _HELD = "lw_unit", "lw_place", "lw_held"
_ROWS = "lw_rows"  # every column is read through this name, so that no alias can be taken for a column
_MOST_STEPS = Fraction(1 << 62)  # of one row: a wider value is cut here, so that no cast to BIGINT can fail


def cells_query(plan: Plan, keyed_hash: Hash) -> exp.Select:
    """The query whose rows are the cells: key columns k0, k1, ... and integer columns c0, c1, ..."""
    if plan.table.by_row:
        columns = _cells(plan, [part for measure in plan.measures for part in _row_parts(plan, measure)])
        return _grouped(plan, _selected(*_keys(plan), *columns, *_units(plan)), _rows(plan))
    totals = _totals(plan)
    inner = _chosen(plan, totals, keyed_hash) if plan.outline.limit_groups else totals
    columns = _cells(plan, [_column(f"t{i}") for i in range(_count_totals(plan))])
    query = _grouped(plan, _selected(*_keys(plan), *columns, *_units(plan)), inner)
    if plan.outline.limit_groups:
        query = _where(query, exp.LTE(this=_column(_PLACE), expression=exp.Literal.number(plan.groups)))
    return query


def _rows(plan: Plan) -> exp.Select:
    """Every row's unit, keys and arguments; rows of no unit and of other keys are dropped."""
    keys = [_aliased(whole(key, _source), f"k{i}") for i, key in enumerate(plan.question.keys)]
    arguments = [
        _aliased(value(argument, _source, clipped=clipped), f"a{i}")
        for i, (argument, clipped) in enumerate(_arguments(plan))
    ]
    unit = exp.column(UNIT_ID, table=_ROWS, quoted=True)
    units = [] if plan.table.by_row else [_aliased(unit, _UNIT)]
    query = _selected(*units, *keys, *arguments) if units or keys or arguments else _selected(exp.Literal.number(1))
    query = query.from_(exp.table_(plan.table.name, alias=_ROWS, quoted=True), copy=False)
    if plan.question.where is not None:
        query = _where(query, emit(plan.question.where, _source))
    if units:
        query = _where(query, exp.Not(this=exp.Is(this=unit.copy(), expression=exp.Null())))
    return query


def _totals(plan: Plan) -> exp.Select:
    gathered = [total for measure in plan.measures for total in _unit_totals(plan, measure)]
    columns = [_aliased(total, f"t{i}") for i, total in enumerate(gathered)]
    query = _selected(_column(_UNIT), *_keys(plan), *columns).from_(_rows(plan).subquery("r", copy=False), copy=False)
    return _listed(plan, query).group_by(_column(_UNIT), *_keys(plan), copy=False)


def _grouped(plan: Plan, query: exp.Select, inner: exp.Select) -> exp.Select:
    query = query.from_(inner.subquery("t", copy=False), copy=False)
    if plan.table.by_row:
        query = _listed(plan, query)
    return query.group_by(*_keys(plan), copy=False) if plan.question.keys else query


def _chosen(plan: Plan, totals: exp.Select, keyed_hash: Hash) -> exp.Select:
    order = [keyed_hash([_column(_UNIT), *_keys(plan)]), *_keys(plan)]
    place = exp.Window(
        this=exp.RowNumber(),
        partition_by=[_column(_UNIT)],
        order=exp.Order(expressions=[exp.Ordered(this=by) for by in order]),
    )
    columns = [exp.Star(), _aliased(place, _PLACE)]
    if isinstance(plan.selection, WeightedGaussian):
        held = exp.Window(this=exp.Count(this=exp.Star()), partition_by=[_column(_UNIT)])
        columns.append(_aliased(held, _HELD))
    return _selected(*columns).from_(totals.subquery("u", copy=False), copy=False)


def _units(plan: Plan) -> list[exp.Expression]:
    """The number of units in each group, or their weight, for the selection of keys."""
    if plan.selection is None:
        return []
    if not isinstance(plan.selection, WeightedGaussian):
        return [_aliased(exp.Count(this=exp.Star()), UNITS)]
    if not plan.outline.limit_groups:
        held: exp.Expression = exp.Literal.number(plan.selection.weight(1))  # rows are units, each in one group
    else:
        branches = [
            exp.If(this=exp.Literal.number(k), true=exp.Literal.number(plan.selection.weight(k)))
            for k in range(1, plan.groups)
        ]
        fewest = exp.Literal.number(plan.selection.weight(plan.groups))
        held = exp.Case(this=_column(_HELD), ifs=branches, default=fewest) if branches else fewest
    return [_summed(held, UNITS)]


def _listed(plan: Plan, query: exp.Select) -> exp.Select:
    """Only the public values of each key, where they are public."""
    for i, values in enumerate(plan.domain):
        key = _column(f"k{i}")
        known = [literal(value) for value in values if value is not None]
        listed: exp.Expression = exp.In(this=key, expressions=known) if known else exp.false()
        if None in values:
            listed = exp.Or(this=listed, expression=exp.Is(this=key.copy(), expression=exp.Null()))
        query = _where(query, listed)
    return query


def _arguments(plan: Plan) -> list[tuple[Expression, bool]]:
    """What the measures read of each row, and whether its columns are clipped first: only where it is added up."""
    read = dict.fromkeys(_argument_of(m) for m in plan.measures if m.shape.argument is not None)
    return [(argument, clipped) for argument, clipped in read if argument is not None]


def _argument_of(measure: Measure) -> tuple[Expression | None, bool]:
    shape = measure.shape
    return shape.argument, not (isinstance(shape, Total) and (not shape.summed or _is_whole_column(measure)))


def _is_whole_column(measure: Measure) -> bool:
    """An integer column in steps of 1 is clipped as an integer, so that nothing is lost beyond 2^53."""
    argument = measure.shape.argument
    return measure.step == 1 and isinstance(argument, Column) and argument.type is Type.INTEGER


def _read(plan: Plan, measure: Measure) -> exp.Expression:
    """The column of `rows` that holds the measure's argument."""
    argument, clipped = _argument_of(measure)
    if argument is None:
        raise Bug("a measure without an argument reads no column")
    return _column(f"a{_arguments(plan).index((argument, clipped))}")


def _count_totals(plan: Plan) -> int:
    return sum(2 if isinstance(measure.shape, Soft) else 1 for measure in plan.measures)


def _unit_totals(plan: Plan, measure: Measure) -> list[exp.Expression]:
    """What the rows of one unit add up to within one group."""
    match measure.shape:
        case Total(argument=None):
            return [exp.Count(this=exp.Star())]
        case Total(summed=False):
            return [exp.Count(this=_read(plan, measure))]
        case Total():
            return [exp.Sum(this=_amount(plan, measure))]
        case Soft():
            return [_added(exp.Sum(this=_share(plan, measure))), exp.Count(this=_read(plan, measure))]


def _row_parts(plan: Plan, measure: Measure) -> list[exp.Expression]:
    """The same totals where every row is a unit: of one row."""
    match measure.shape:
        case Total(argument=None):
            return [exp.Literal.number(1)]
        case Total(summed=False):
            return [_one_if_present(_read(plan, measure))]
        case Total():
            return [_amount(plan, measure)]
        case Soft():
            return [_added(_share(plan, measure)), _one_if_present(_read(plan, measure))]


def _cells(plan: Plan, totals: list[exp.Expression]) -> list[exp.Expression]:
    """The cells of each measure, summed over units."""
    cells: list[exp.Expression] = []
    for measure in plan.measures:
        match measure.shape:
            case Total(summed=summed):
                low, high = map(exp.Literal.number, measure.shape.steps(measure.step))
                cells.append(_zero_if_missing(totals.pop(0), low, high) if summed else cut(totals.pop(0), low, high))
            case Soft(rows=rows):
                cells += _soft_cells(totals.pop(0), totals.pop(0), rows)
    return [_summed(cell, f"c{i}") for i, cell in enumerate(cells)]


def _zero_if_missing(total: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    """The total cut to [low, high]; a unit without any value adds nothing."""
    gone = exp.Is(this=total, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=gone, true=exp.Literal.number(0))], default=cut(total.copy(), low, high))


def _soft_cells(total: exp.Expression, held: exp.Expression, rows: int) -> list[exp.Expression]:
    """(A, w M - A) for a unit whose `held` values add up to `total`: w = min(held, rows), A in [0, w M]."""
    zero, limit, grid = exp.Literal.number(0), exp.Literal.number(rows), exp.Literal.number(GRID)
    weight = exp.Anonymous(this="LEAST", expressions=[held, limit])
    most = exp.Paren(this=exp.Mul(this=weight, expression=grid))
    divisor = exp.Nullif(this=number(held.copy()), expression=exp.Literal.number(0))
    scaled = exp.Div(this=exp.Mul(this=number(total.copy()), expression=number(limit.copy())), expression=divisor)
    floored = cast(exp.Floor(this=cut(scaled, real(Fraction(0)), real(_MOST_STEPS))), exp.DType.BIGINT)
    fits = exp.LTE(this=held.copy(), expression=limit.copy())
    share = exp.Case(ifs=[exp.If(this=fits, true=total)], default=floored)
    first = cut(share, zero, most)
    return [first, exp.Sub(this=most.copy(), expression=first.copy())]


def _amount(plan: Plan, measure: Measure) -> exp.Expression:
    """What one row adds to a sum, in whole steps, clipped; NULL where it is missing."""
    column = _read(plan, measure)
    bounds = bounds_of(measure.shape.argument) if measure.shape.argument is not None else None
    if bounds is None:
        raise Bug("a sum without bounds was planned")
    if _is_whole_column(measure):
        sides = exp.Literal.number(floor(bounds.low)), exp.Literal.number(ceil(bounds.high))
        return _where_present(column, cut(column.copy(), *sides))
    low, high = (max(-_MOST_STEPS, min(_MOST_STEPS, side / measure.step)) for side in (bounds.low, bounds.high))
    scaled = exp.Mul(this=number(column.copy()), expression=real(1 / measure.step))
    return _where_present(column, cast(exp.Round(this=between(scaled, low, high)), exp.DType.BIGINT))


def _share(plan: Plan, measure: Measure) -> exp.Expression:
    """Where a row's value lies between the bounds, in 0..M; NULL where it is missing."""
    if not isinstance(measure.shape, Soft):
        raise Bug("only soft cells have shares")
    column, bounds = _read(plan, measure), measure.shape.bounds
    moved = exp.Paren(this=exp.Sub(this=number(column.copy()), expression=real(bounds.low)))
    scaled = exp.Mul(this=moved, expression=real(GRID / (bounds.high - bounds.low)))
    rounded = exp.Round(this=between(scaled, Fraction(0), Fraction(GRID)))
    return _where_present(column, cast(rounded, exp.DType.BIGINT))


def _where_present(column: exp.Expression, result: exp.Expression) -> exp.Expression:
    """The result where the column has a value, else NULL."""
    gone = exp.Is(this=column, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=gone, true=exp.Null())], default=result)


def _one_if_present(column: exp.Expression) -> exp.Expression:
    gone = exp.Is(this=column, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=gone, true=exp.Literal.number(0))], default=exp.Literal.number(1))


def _added(node: exp.Expression) -> exp.Expression:
    return exp.Coalesce(this=node, expressions=[exp.Literal.number(0)])


def _selected(*columns: exp.Expression) -> exp.Select:
    return exp.Select(expressions=list(columns))


def _where(query: exp.Select, condition: exp.Expression) -> exp.Select:
    return query.where(exp.Paren(this=condition), copy=False)


def _keys(plan: Plan) -> list[exp.Expression]:
    return [_column(f"k{i}") for i in range(len(plan.question.keys))]


def _source(leaf: Column | Key | Slot) -> exp.Expression:
    """A column of the private table."""
    if not isinstance(leaf, Column):
        raise Bug("the result of an aggregate stands below the aggregation")
    return exp.column(leaf.name, table=_ROWS, quoted=True)


def _column(name: str) -> exp.Expression:
    return exp.column(name, quoted=True)


def _aliased(node: exp.Expression, name: str) -> exp.Alias:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def _summed(node: exp.Expression, name: str) -> exp.Alias:
    """A sum over units as an integer of 38 digits: no engine wraps or rounds it."""
    return _aliased(exp.cast(_added(exp.Sum(this=node)), "DECIMAL(38, 0)"), name)
