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
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from sqlglot import exp

from lapwing.errors import Bug
from lapwing.mechanisms.grid_quantile import UNIT
from lapwing.mechanisms.keys_weighted import WeightedGaussian
from lapwing.mechanisms.soft_values import GRID
from lapwing.query.catalog import UNIT_ID
from lapwing.query.derived_rows import from_node
from lapwing.query.emission import between, cut, emit, literal, real, value, whole
from lapwing.query.expression import Column, Expression, Key, Slot
from lapwing.query.operators import bounds_of, cast, number
from lapwing.query.operators_base import let
from lapwing.query.plan import Measure, Plan
from lapwing.query.shapes import Distinct, Grid, Pair, Soft, Total
from lapwing.query.types import Interval, Type

Hash = Callable[[list[exp.Expression]], exp.Expression]
"""The engine's keyed hash of these columns."""

LONGEST_KEY = 300
"""Characters of a text key whose values are not public."""

UNITS = "lw_units"
"""The column of the cells query that the selection of keys reads: how many units are in the group, or their weight."""

_UNIT, _PLACE, _HELD = "lw_unit", "lw_place", "lw_held"
_CELL, _TIMES = "lw_cell", "lw_times"
_ROWS = "lw_rows"  # every column is read through this name, so that no alias can be taken for a column
_MOST_STEPS = Fraction(1 << 62)  # of one row: a wider value is cut here, so that no cast to BIGINT can fail


@dataclass(frozen=True, slots=True)
class Queries:
    """What the engine runs: the cells of sums over units, and a query of its own for every other shape."""

    cells: exp.Select | None
    others: tuple[tuple[int, exp.Select], ...]
    """The number of the measure, and its query."""


def queries(plan: Plan, keyed_hash: Hash) -> Queries:
    """Every query of a plan. As a rule it is one."""
    others = tuple(
        (
            index,
            _histogram(plan, measure, keyed_hash)
            if isinstance(measure.shape, Grid)
            else _distinct(plan, measure, keyed_hash),
        )
        for index, measure in enumerate(plan.measures)
        if isinstance(measure.shape, Grid | Distinct)
    )
    wanted = plan.selection is not None or len(others) < len(plan.measures)
    return Queries(cells_query(plan, keyed_hash) if wanted else None, others)


def cells_query(plan: Plan, keyed_hash: Hash) -> exp.Select:
    """The query whose rows are the cells: key columns k0, k1, ... and integer columns c0, c1, ..."""
    if plan.table.by_row:
        columns = _cells(plan, [part for measure in _summed_measures(plan) for part in _row_parts(plan, measure)])
        return _grouped(plan, _selected(*_keys(plan), *columns, *_units(plan)), _rows(plan))
    totals = _totals(plan)
    inner = _chosen(plan, totals, keyed_hash) if plan.outline.limit_groups else totals
    columns = _cells(plan, [_column(f"t{i}") for i in range(_count_totals(plan))])
    query = _grouped(plan, _selected(*_keys(plan), *columns, *_units(plan)), inner)
    return _within_groups(plan, query)


def _within_groups(plan: Plan, query: exp.Select) -> exp.Select:
    """Only the chosen groups of each unit."""
    if not plan.outline.limit_groups:
        return query
    return _where(query, exp.LTE(this=_column(_PLACE), expression=exp.Literal.number(plan.groups)))


def _histogram(plan: Plan, measure: Measure, keyed_hash: Hash) -> exp.Select:
    """Keys, cell number b0 and weight c0: a row of a unit with n values counts min(1, rows / n), in units of 2^-20."""
    if not isinstance(measure.shape, Grid):
        raise Bug("only quantiles are read off a histogram")
    cell, one = _read(plan, measure), exp.Literal.number(UNIT)
    seen = exp.Not(this=exp.Is(this=_column(_CELL), expression=exp.Null()))
    if plan.table.by_row:
        inner = _listed(
            plan,
            _selected(*_keys(plan), _aliased(cell, _CELL)).from_(_rows(plan).subquery("r", copy=False), copy=False),
        )
        weight: exp.Expression = one
    else:
        inner = _binned(plan, cell, keyed_hash)
        limit = exp.Anonymous(this="LEAST", expressions=[_column(_HELD), exp.Literal.number(measure.shape.rows)])
        share = exp.IntDiv(this=exp.Paren(this=exp.Mul(this=limit, expression=one)), expression=_column(_HELD))
        weight = exp.Mul(this=_column(_TIMES), expression=exp.Paren(this=share))
    columns = [*_keys(plan), _aliased(_column(_CELL), "b0"), _summed(weight, "c0")]
    query = _where(_selected(*columns).from_(inner.subquery("t", copy=False), copy=False), seen)
    return _within_groups(plan, query).group_by(*_keys(plan), _column(_CELL), copy=False)


def _binned(plan: Plan, cell: exp.Expression, keyed_hash: Hash) -> exp.Select:
    """Per unit, group and cell: how many rows, how many values the unit has in the group, and the group's place."""
    columns = [_column(_UNIT), *_keys(plan), _aliased(cell, _CELL), _aliased(exp.Count(this=exp.Star()), _TIMES)]
    counted = _listed(plan, _selected(*columns).from_(_rows(plan).subquery("r", copy=False), copy=False))
    counted = counted.group_by(_column(_UNIT), *_keys(plan), cell.copy(), copy=False)
    present = exp.Case(
        ifs=[exp.If(this=exp.Is(this=_column(_CELL), expression=exp.Null()), true=exp.Literal.number(0))],
        default=_column(_TIMES),
    )
    held = exp.Window(this=exp.Sum(this=present), partition_by=[_column(_UNIT), *_keys(plan)])
    return _placed(plan, counted, [_aliased(held, _HELD)], keyed_hash)


def _distinct(plan: Plan, measure: Measure, keyed_hash: Hash) -> exp.Select:
    """Keys and c0, the number of different values; of each unit and group only as many as the limit says."""
    if not isinstance(measure.shape, Distinct):
        raise Bug("only different values are counted here")
    value = _read(plan, measure)
    many = _aliased(exp.cast(exp.Count(this=exp.Distinct(expressions=[_column(_CELL)])), "DECIMAL(38, 0)"), "c0")
    columns = [*_keys(plan), _aliased(value, _CELL)]
    if plan.table.by_row:
        return _grouped(
            plan,
            _selected(*_keys(plan), many),
            _selected(*columns).from_(_rows(plan).subquery("r", copy=False), copy=False),
        )
    once = _listed(plan, _selected(_column(_UNIT), *columns).from_(_rows(plan).subquery("r", copy=False), copy=False))
    once = once.group_by(_column(_UNIT), *_keys(plan), value.copy(), copy=False)
    mine = [_column(_UNIT), *_keys(plan)]
    gone = exp.Is(this=_column(_CELL), expression=exp.Null())
    order = [gone, keyed_hash([*mine, _column(_CELL)]), _column(_CELL)]
    number = exp.Window(
        this=exp.RowNumber(),
        partition_by=[column.copy() for column in mine],
        order=exp.Order(expressions=[exp.Ordered(this=by) for by in order]),
    )
    inner = _placed(plan, once, [_aliased(number, _HELD)], keyed_hash)
    query = _grouped(plan, _selected(*_keys(plan), many), inner)
    query = _where(query, exp.LTE(this=_column(_HELD), expression=exp.Literal.number(measure.shape.rows)))
    return _within_groups(plan, query)


def _placed(plan: Plan, counted: exp.Select, more: list[exp.Expression], keyed_hash: Hash) -> exp.Select:
    """All columns, some more, and the place of the group among the unit's groups, as in `_chosen`."""
    columns = [exp.Star(), *more]
    if plan.outline.limit_groups:
        order = [keyed_hash([_column(_UNIT), *_keys(plan)]), *_keys(plan)]
        place = exp.Window(
            this=exp.Anonymous(this="DENSE_RANK"),
            partition_by=[_column(_UNIT)],
            order=exp.Order(expressions=[exp.Ordered(this=by) for by in order]),
        )
        columns.append(_aliased(place, _PLACE))
    return _selected(*columns).from_(counted.subquery("u", copy=False), copy=False)


def _rows(plan: Plan) -> exp.Select:
    """Every row's unit, keys and arguments; rows of no unit and of other keys are dropped."""
    keys = [_aliased(_key(plan, key), f"k{i}") for i, key in enumerate(plan.question.keys)]
    arguments = [_aliased(_computed(column), f"a{i}") for i, column in enumerate(_arguments(plan))]
    unit = exp.column(UNIT_ID, table=_ROWS, quoted=True)
    units = [] if plan.table.by_row else [_aliased(unit, _UNIT)]
    query = _selected(*units, *keys, *arguments) if units or keys or arguments else _selected(exp.Literal.number(1))
    query = query.from_(from_node(plan.table, _ROWS), copy=False)
    if plan.question.where is not None:
        query = _where(query, emit(plan.question.where, _source))
    if units:
        query = _where(query, exp.Not(this=exp.Is(this=unit.copy(), expression=exp.Null())))
    return query


def _key(plan: Plan, key: Expression) -> exp.Expression:
    """A key; text that nobody listed is cut, so that long texts cannot fill the memory."""
    node = whole(key, _source)
    if plan.outline.domain is not None or key.type is not Type.TEXT:
        return node
    return exp.Anonymous(this="LEFT", expressions=[node, exp.Literal.number(LONGEST_KEY)])


def _totals(plan: Plan) -> exp.Select:
    gathered = [total for measure in _summed_measures(plan) for total in _unit_totals(plan, measure)]
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


@dataclass(frozen=True, slots=True)
class _Argument:
    """What a measure reads of each row: the value, its place between bounds in so many steps, or its cell of a grid."""

    expression: Expression
    clipped: bool = False
    """Whether its columns are clipped first: where it is added up."""
    bounds: Interval | None = None
    steps: int = 0
    floored: bool = False


def _arguments(plan: Plan) -> list[_Argument]:
    return list(dict.fromkeys(column for measure in plan.measures for column in _columns(measure)))


def _columns(measure: Measure) -> list[_Argument]:
    match measure.shape:
        case Total(argument=None):
            return []
        case Total(argument=argument, summed=summed) if argument is not None:
            return [_Argument(argument, summed and not _is_whole_column(measure))]
        case Soft(argument=argument, bounds=bounds):
            return [_Argument(argument, True, bounds, GRID)]
        case Pair(x=x, y=y, x_bounds=x_bounds, y_bounds=y_bounds):
            return [_Argument(x, True, x_bounds, GRID), _Argument(y, True, y_bounds, GRID)]
        case Grid(argument=argument, bounds=bounds, bins=bins, points=points):
            return [_Argument(argument, True, bounds, bins - 1 if points else bins, not points)]
        case Distinct(argument=argument):
            return [_Argument(argument)]
        case _:
            raise Bug("a shape without columns")


def _computed(column: _Argument) -> exp.Expression:
    """The column of `rows`; NULL where the value is missing or not a number."""
    node = value(column.expression, _source, clipped=column.clipped)
    if column.bounds is None:
        return node
    width = column.bounds.high - column.bounds.low

    def placed(one: Callable[[], exp.Expression]) -> exp.Expression:
        moved = exp.Paren(
            this=exp.Sub(this=number(one()), expression=real(column.bounds.low if column.bounds else Fraction(0)))
        )
        scaled = exp.Mul(this=moved, expression=real(column.steps / width))
        most = Fraction(column.steps - 1 if column.floored else column.steps)
        whole_ = exp.Floor(this=scaled) if column.floored else exp.Round(this=scaled)
        return _where_present(one(), cast(between(whole_, Fraction(0), most), exp.DType.BIGINT))

    return let(node, placed)


def _is_whole_column(measure: Measure) -> bool:
    """An integer column in steps of 1 is clipped as an integer, so that nothing is lost beyond 2^53."""
    shape = measure.shape
    if not isinstance(shape, Total) or measure.step != 1:
        return False
    return isinstance(shape.argument, Column) and shape.argument.type is Type.INTEGER


def _read(plan: Plan, measure: Measure, place: int = 0) -> exp.Expression:
    """The column of `rows` that holds the measure's argument."""
    return _column(f"a{_arguments(plan).index(_columns(measure)[place])}")


def _summed_measures(plan: Plan) -> list[Measure]:
    """The measures whose cells are sums over units."""
    return [measure for measure in plan.measures if isinstance(measure.shape, Total | Soft | Pair)]


def _count_totals(plan: Plan) -> int:
    return sum(len(_unit_totals(plan, measure)) for measure in _summed_measures(plan))


def _unit_totals(plan: Plan, measure: Measure) -> list[exp.Expression]:
    """What the rows of one unit add up to within one group."""
    match measure.shape:
        case Total(argument=None):
            return [exp.Count(this=exp.Star())]
        case Total(summed=False):
            return [exp.Count(this=_read(plan, measure))]
        case Total():
            return [exp.Sum(this=_amount(plan, measure))]
        case _:
            parts = _soft_parts(plan, measure)
            return [*(_added(exp.Sum(this=part)) for part in parts[:-1]), exp.Count(this=parts[0].copy())]


def _row_parts(plan: Plan, measure: Measure) -> list[exp.Expression]:
    """The same totals where every row is a unit: of one row."""
    match measure.shape:
        case Total(argument=None):
            return [exp.Literal.number(1)]
        case Total(summed=False):
            return [_one_if_present(_read(plan, measure))]
        case Total():
            return [_amount(plan, measure)]
        case _:
            parts = _soft_parts(plan, measure)
            return [*map(_added, parts[:-1]), _one_if_present(exp.Paren(this=parts[0].copy()))]


def _soft_parts(plan: Plan, measure: Measure) -> list[exp.Expression]:
    """What one row adds to the totals of soft cells, NULL where a value is missing; the last, 1, stands for the row."""
    match measure.shape:
        case Soft(squares=squares):
            a = _read(plan, measure)
            return [a, *([_halved(a.copy(), a.copy())] if squares else []), exp.Literal.number(1)]
        case Pair():
            a, b = _read(plan, measure), _read(plan, measure, 1)
            there = exp.Not(this=exp.Is(this=b, expression=exp.Null()))
            first = exp.Case(ifs=[exp.If(this=there, true=a)])
            square = exp.Case(ifs=[exp.If(this=there.copy(), true=_halved(a.copy(), a.copy()))])
            (b0, _, b2), sides = _thirds(b), _thirds(a)
            products = [_halved(side.copy(), end.copy()) for side in sides for end in (b0, b2)]
            return [first, square, *products, exp.Literal.number(1)]
        case _:
            raise Bug("these are not soft cells")


def _thirds(a: exp.Expression) -> tuple[exp.Expression, exp.Expression, exp.Expression]:
    """A row's shares of three cells, from its place a in 0..M: M - 2a + s, 2(a - s), s with s = a * a >> 30."""
    square, two = _halved(a.copy(), a.copy()), exp.Literal.number(2)
    double = exp.Mul(this=two, expression=a.copy())
    first = exp.Add(this=exp.Sub(this=exp.Literal.number(GRID), expression=double), expression=square)
    middle = exp.Mul(this=two.copy(), expression=exp.Paren(this=exp.Sub(this=a.copy(), expression=square.copy())))
    return exp.Paren(this=first), exp.Paren(this=middle), square.copy()


def _halved(a: exp.Expression, b: exp.Expression) -> exp.Expression:
    """a * b >> 30 for integers up to 2^30, so within 2^60."""
    product = exp.Paren(this=exp.Mul(this=a, expression=b))
    return exp.Paren(this=exp.BitwiseRightShift(this=product, expression=exp.Literal.number(30)))


def _cells(plan: Plan, totals: list[exp.Expression]) -> list[exp.Expression]:
    """The cells of each measure, summed over units."""
    cells: list[exp.Expression] = []
    for measure in _summed_measures(plan):
        mine = [totals.pop(0) for _ in _unit_totals(plan, measure)]
        match measure.shape:
            case Total(summed=summed):
                low, high = map(exp.Literal.number, measure.shape.steps(measure.step))
                cells.append(_zero_if_missing(mine[0], low, high) if summed else cut(mine[0], low, high))
            case Soft(rows=rows, squares=False):
                first, held = mine
                cells += _weighed([first, _left(held, [first])], held, rows, rest=1)
            case Soft(rows=rows):
                first, square, held = mine
                cells += _weighed(list(_sides(first, square, held)), held, rows, rest=1)
            case Pair(rows=rows):
                first, square, *products, held = mine
                cells += _weighed(_tensor(_sides(first, square, held), products), held, rows, rest=4)
    return [_summed(cell, f"c{i}") for i, cell in enumerate(cells)]


def _sides(first: exp.Expression, square: exp.Expression, held: exp.Expression) -> tuple[exp.Expression, ...]:
    """The three cells of a unit from its totals of a and s: n M - 2 A + S, 2 (A - S), S."""
    two = exp.Literal.number(2)
    lowest = exp.Add(this=_left(held, [exp.Mul(this=two, expression=first.copy())]), expression=square.copy())
    middle = exp.Mul(this=two.copy(), expression=exp.Paren(this=exp.Sub(this=first.copy(), expression=square.copy())))
    return exp.Paren(this=lowest), exp.Paren(this=middle), square.copy()


def _tensor(sides: tuple[exp.Expression, ...], products: list[exp.Expression]) -> list[exp.Expression]:
    """Nine cells: of each side the two products at the ends, and between them what is left of the side."""
    cells = []
    for side, (low, high) in zip(sides, zip(products[::2], products[1::2], strict=True), strict=True):
        middle = exp.Sub(this=exp.Sub(this=side.copy(), expression=low.copy()), expression=high.copy())
        cells += [low.copy(), exp.Paren(this=middle), high.copy()]
    return cells


def _left(held: exp.Expression, taken: list[exp.Expression]) -> exp.Expression:
    """What is left of M for each of the values."""
    node: exp.Expression = exp.Mul(this=held.copy(), expression=exp.Literal.number(GRID))
    for part in taken:
        node = exp.Sub(this=node, expression=part.copy())
    return exp.Paren(this=node)


def _weighed(cells: list[exp.Expression], held: exp.Expression, rows: int, *, rest: int) -> list[exp.Expression]:
    """Whole numbers of at least 0 that sum to min(held, rows) M exactly, whatever the rows hold.

    A unit with more values is scaled down: every cell but one becomes floor(cell rows / held), in exact integers. The
    floors sum to at most rows M, since the cells sum to held M; the last cell takes what is left.
    """
    limit = exp.Literal.number(rows)
    weight = exp.Anonymous(this="LEAST", expressions=[held.copy(), limit])
    scaled: list[exp.Expression] = []
    for cell in cells:
        fits = exp.LTE(this=held.copy(), expression=limit.copy())
        much = exp.Paren(this=exp.Mul(this=cast(cell.copy(), exp.DType.INT128), expression=limit.copy()))
        floor_ = exp.IntDiv(this=much, expression=exp.Nullif(this=held.copy(), expression=exp.Literal.number(0)))
        scaled.append(exp.Case(ifs=[exp.If(this=fits, true=cell.copy())], default=floor_))
    scaled[rest] = _left(weight, [cell for i, cell in enumerate(scaled) if i != rest])
    return scaled


def _zero_if_missing(total: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    """The total cut to [low, high]; a unit without any value adds nothing."""
    gone = exp.Is(this=total, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=gone, true=exp.Literal.number(0))], default=cut(total.copy(), low, high))


def _amount(plan: Plan, measure: Measure) -> exp.Expression:
    """What one row adds to a sum, in whole steps, clipped; NULL where it is missing."""
    column = _read(plan, measure)
    shape = measure.shape
    bounds = bounds_of(shape.argument) if isinstance(shape, Total) and shape.argument is not None else None
    if bounds is None:
        raise Bug("a sum without bounds was planned")
    if _is_whole_column(measure):
        sides = exp.Literal.number(floor(bounds.low)), exp.Literal.number(ceil(bounds.high))
        return _where_present(column, cut(column.copy(), *sides))
    low, high = (max(-_MOST_STEPS, min(_MOST_STEPS, side / measure.step)) for side in (bounds.low, bounds.high))
    scaled = exp.Mul(this=number(column.copy()), expression=real(1 / measure.step))
    return _where_present(column, cast(exp.Round(this=between(scaled, low, high)), exp.DType.BIGINT))


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
