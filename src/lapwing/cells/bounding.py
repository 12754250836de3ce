"""From a plan to one engine query that returns clipped integer cells.

    WITH rows AS (                                      keys and arguments, computed once for each row
      SELECT unit, <key> AS k0, ..., <argument> AS a0, ... FROM table
      WHERE <where> AND unit IS NOT NULL AND key IN (<public values>)),
    totals AS (                                         one row per unit and group, integers
      SELECT unit, keys, <totals of the unit's rows> AS t0, ... FROM rows GROUP BY unit, keys),
    chosen AS (                                         only if a unit may be in too many groups
      SELECT *, ROW_NUMBER() OVER (PARTITION BY unit ORDER BY <keyed hash of unit and keys>, keys) AS place FROM totals)
    SELECT keys, SUM(<cell of a unit, clipped>) AS c0, ... FROM chosen WHERE place <= groups GROUP BY keys

Every row adds one integer to each total, and a unit's cells are a clipped function of its totals. Row level: every row
is its own unit, so the middle steps vanish and the cells are made of each row by itself.

Which comes first: a unit that may have FEW rows in a group has hardly fewer groups than rows, and its totals cost about
as much as sorting its rows. Then the groups are chosen among `rows`, DENSE_RANK in place of ROW_NUMBER, and only the
chosen rows are added up. It is the same choice, in the same order of the same groups; the limit is a declared fact.

Stability: every row of `totals` and every choice in `chosen` depends on the rows of one unit and on the secret salt
only, so removing a unit removes its own contributions and changes nobody else's. Two order keys make the choice a
function. The selection of keys, where there is one, sees the same chosen groups as every measure.
Missing values: NaN becomes NULL and NULL is left out *before* clipping, since LEAST and GREATEST skip NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lapwing.catalog.table import UNIT_ID
from lapwing.cells.contributions import (
    ROWS,
    aliased,
    arguments,
    cells_of,
    computed,
    count_totals,
    named,
    read,
    row_parts,
    source,
    summed,
    summed_measures,
    unit_totals,
)
from lapwing.cells.derived_rows import from_node
from lapwing.engines.dialect import EngineQuery
from lapwing.errors import Bug
from lapwing.language.emission import emit, whole
from lapwing.language.expression import Expression
from lapwing.language.forms import ExactSum, KeyedHash, Least, Listed, WholeQuotient, Wide
from lapwing.language.types import Type
from lapwing.measures.measure import Measure
from lapwing.measures.shapes import Distinct, Grid
from lapwing.mechanisms.keys.weighted import WeightedGaussian
from lapwing.mechanisms.quantiles.grid_quantile import UNIT
from lapwing.planning.plan import Plan

LONGEST_KEY = 300
"""Characters of a text key whose values are not public."""

FEW = 8
"""Up to so many rows of a unit in a group the groups are chosen among rows. Measured: it takes 3/4 of the time if every
row is a group of its own, and 3/2 if a unit has 7 rows in each."""

UNITS = "lw_units"
"""The column of the cells query that the selection of keys reads: how many units are in the group, or their weight."""

_UNIT, _PLACE, _HELD = "lw_unit", "lw_place", "lw_held"
_CELL, _TIMES = "lw_cell", "lw_times"


@dataclass(frozen=True, slots=True)
class Queries:
    """What the engine runs: the cells of sums over units, and a query of its own for every other shape."""

    cells: exp.Select | EngineQuery | None
    others: tuple[tuple[int, exp.Select | EngineQuery], ...]
    """The number of the measure, and its query."""

    def prepared(self, prepare: Callable[[Any], EngineQuery]) -> Queries:
        """The same as the engine runs them."""
        cells = None if self.cells is None else prepare(self.cells)
        return Queries(cells, tuple((index, prepare(query)) for index, query in self.others))


def queries(plan: Plan) -> Queries:
    """Every query of a plan. As a rule it is one."""
    others = tuple(
        (
            index,
            _histogram(plan, measure) if isinstance(measure.shape, Grid) else _distinct(plan, measure),
        )
        for index, measure in enumerate(plan.measures)
        if isinstance(measure.shape, Grid | Distinct)
    )
    wanted = plan.selection is not None or len(others) < len(plan.measures)
    return Queries(cells_query(plan) if wanted else None, others)


def cells_query(plan: Plan) -> exp.Select:
    """The query whose rows are the cells: key columns k0, k1, ... and integer columns c0, c1, ..."""
    if plan.table.by_row:
        columns = cells_of(plan, [part for measure in summed_measures(plan) for part in row_parts(plan, measure)])
        return _grouped(plan, _selected(*_keys(plan), *columns, *_units(plan)), _rows(plan))
    inner = _chosen(plan, _totals(plan))
    columns = cells_of(plan, [named(f"t{i}") for i in range(count_totals(plan))])
    query = _grouped(plan, _selected(*_keys(plan), *columns, *_units(plan)), inner)
    return _within_groups(plan, query)


def _among_rows(plan: Plan) -> bool:
    """Whether the groups of a unit are chosen among its rows, before these are added up."""
    limit = plan.table.row_limit
    return plan.outline.limit_groups and limit is not None and limit <= FEW


def _among_totals(plan: Plan) -> bool:
    return plan.outline.limit_groups and not _among_rows(plan)


def _within_groups(plan: Plan, query: exp.Select) -> exp.Select:
    """Only the chosen groups of each unit, where they are chosen among totals."""
    return _placed_within(plan, query) if _among_totals(plan) else query


def _placed_within(plan: Plan, query: exp.Select) -> exp.Select:
    return _where(query, exp.LTE(this=named(_PLACE), expression=exp.Literal.number(plan.groups)))


def _histogram(plan: Plan, measure: Measure) -> exp.Select:
    """Keys, cell number b0 and weight c0: a row of a unit with n values counts min(1, rows / n), in units of 2^-20.

    Rows without a value are in the cell NULL, which nobody reads: to drop them here computes every cell twice.
    """
    if not isinstance(measure.shape, Grid):
        raise Bug("only quantiles are read off a histogram")
    cell, one = read(plan, measure), exp.Literal.number(UNIT)
    if plan.table.by_row:
        inner = _selected(*_keys(plan), aliased(cell, _CELL)).from_(_rows(plan).subquery("r", copy=False), copy=False)
        many = exp.Mul(this=exp.Count(this=exp.Star()), expression=one)
        total = aliased(Wide(this=many), "c0")
    else:
        inner = _binned(plan, cell)
        limit = Least(expressions=[named(_HELD), exp.Literal.number(measure.shape.rows)])
        share = WholeQuotient(this=exp.Paren(this=exp.Mul(this=limit, expression=one)), expression=_or_null(_HELD))
        weight = exp.Mul(this=named(_TIMES), expression=exp.Paren(this=share))
        total = summed(weight, "c0")
    columns = [*_keys(plan), aliased(named(_CELL), "b0"), total]
    query = _selected(*columns).from_(inner.subquery("t", copy=False), copy=False)
    return _within_groups(plan, query).group_by(*_keys(plan), named(_CELL), copy=False)


def _or_null(name: str) -> exp.Expression:
    return exp.Nullif(this=named(name), expression=exp.Literal.number(0))


def _binned(plan: Plan, cell: exp.Expression) -> exp.Select:
    """Per unit, group and cell: how many rows, how many values the unit has in the group, and the group's place."""
    columns = [named(_UNIT), *_keys(plan), aliased(cell, _CELL), aliased(exp.Count(this=exp.Star()), _TIMES)]
    counted = _selected(*columns).from_(_kept(plan).subquery("r", copy=False), copy=False)
    counted = counted.group_by(named(_UNIT), *_keys(plan), cell.copy(), copy=False)
    present = exp.Case(
        ifs=[exp.If(this=exp.Is(this=named(_CELL), expression=exp.Null()), true=exp.Literal.number(0))],
        default=named(_TIMES),
    )
    held = exp.Window(this=ExactSum(this=present), partition_by=[named(_UNIT), *_keys(plan)])
    return _placed(plan, counted, [aliased(held, _HELD)])


def _distinct(plan: Plan, measure: Measure) -> exp.Select:
    """Keys and c0, the number of different values; of each unit and group only as many as the limit says."""
    if not isinstance(measure.shape, Distinct):
        raise Bug("only different values are counted here")
    value = read(plan, measure)
    many = aliased(Wide(this=exp.Count(this=exp.Distinct(expressions=[named(_CELL)]))), "c0")
    columns = [*_keys(plan), aliased(value, _CELL)]
    if plan.table.by_row:
        return _grouped(
            plan,
            _selected(*_keys(plan), many),
            _selected(*columns).from_(_rows(plan).subquery("r", copy=False), copy=False),
        )
    rows = _kept(plan).subquery("r", copy=False)
    once = _selected(named(_UNIT), *columns).from_(rows, copy=False)
    once = once.group_by(named(_UNIT), *_keys(plan), value.copy(), copy=False)
    mine = [named(_UNIT), *_keys(plan)]
    gone = exp.Is(this=named(_CELL), expression=exp.Null())
    order = [gone, KeyedHash(expressions=[*mine, named(_CELL)]), named(_CELL)]
    number = _numbered(exp.RowNumber(), [column.copy() for column in mine], order)
    inner = _placed(plan, once, [aliased(number, _HELD)])
    query = _grouped(plan, _selected(*_keys(plan), many), inner)
    query = _where(query, exp.LTE(this=named(_HELD), expression=exp.Literal.number(measure.shape.rows)))
    return _within_groups(plan, query)


def _placed(plan: Plan, counted: exp.Select, more: list[exp.Expression]) -> exp.Select:
    """All columns, some more, and the place of the group among the unit's groups, as in `_chosen`."""
    columns = [exp.Star(), *more]
    if _among_totals(plan):
        columns.append(_place(plan, exp.DenseRank()))
    return _selected(*columns).from_(counted.subquery("u", copy=False), copy=False)


def _kept(plan: Plan) -> exp.Select:
    """The rows that are added up: all, or those of the chosen groups where the choice is among rows."""
    rows = _rows(plan)
    if not _among_rows(plan):
        return rows
    place = _place(plan, exp.DenseRank())
    placed = _selected(exp.Star(), place).from_(rows.subquery("s", copy=False), copy=False)
    return _placed_within(plan, _selected(exp.Star()).from_(placed.subquery("p", copy=False), copy=False))


def _rows(plan: Plan) -> exp.Select:
    """Every row's unit, keys and arguments; rows of no unit and of other keys are dropped."""
    public = plan.outline.domain is not None
    keys = [aliased(key_node(key, public=public), f"k{i}") for i, key in enumerate(plan.question.keys)]
    values = [aliased(computed(column), f"a{i}") for i, column in enumerate(arguments(plan))]
    unit = exp.column(UNIT_ID, table=ROWS, quoted=True)
    units = [] if plan.table.by_row else [aliased(unit, _UNIT)]
    query = _selected(*units, *keys, *values) if units or keys or values else _selected(exp.Literal.number(1))
    query = query.from_(from_node(plan.table, ROWS), copy=False)
    if plan.question.where is not None:
        query = _where(query, emit(plan.question.where, source))
    if units:
        query = _where(query, exp.Not(this=exp.Is(this=unit.copy(), expression=exp.Null())))
    if not plan.domain:
        return query
    return _listed(plan, _selected(exp.Star()).from_(query.subquery("q", copy=False), copy=False))


def key_node(key: Expression, *, public: bool) -> exp.Expression:
    """A key; text that nobody listed is cut, so that long texts cannot fill the memory."""
    node = whole(key, source)
    if public or key.type is not Type.TEXT:
        return node
    return exp.Left(this=node, expression=exp.Literal.number(LONGEST_KEY))


def _totals(plan: Plan) -> exp.Select:
    gathered = [total for measure in summed_measures(plan) for total in unit_totals(plan, measure)]
    columns = [aliased(total, f"t{i}") for i, total in enumerate(gathered)]
    rows = _kept(plan).subquery("r", copy=False)
    query = _selected(named(_UNIT), *_keys(plan), *columns).from_(rows, copy=False)
    return query.group_by(named(_UNIT), *_keys(plan), copy=False)


def _grouped(plan: Plan, query: exp.Select, inner: exp.Select) -> exp.Select:
    query = query.from_(inner.subquery("t", copy=False), copy=False)
    return query.group_by(*_keys(plan), copy=False) if plan.question.keys else query


def _chosen(plan: Plan, totals: exp.Select) -> exp.Select:
    """The totals, with the place of each group, and with how many groups its unit has where that is its weight.

    Of a unit in too many groups all of them or only the chosen ones are there: the weight of both is the same.
    """
    columns: list[exp.Expression] = [exp.Star()]
    if _among_totals(plan):
        columns.append(_place(plan, exp.RowNumber()))
    if plan.outline.limit_groups and isinstance(plan.selection, WeightedGaussian):
        held = exp.Window(this=exp.Count(this=exp.Star()), partition_by=[named(_UNIT)])
        columns.append(aliased(held, _HELD))
    if len(columns) == 1:
        return totals
    return _selected(*columns).from_(totals.subquery("u", copy=False), copy=False)


def _place(plan: Plan, number: exp.Expression) -> exp.Expression:
    """The place of a group among those of its unit, in an order that only the unit, its keys and the salt decide."""
    order = [KeyedHash(expressions=[named(_UNIT), *_keys(plan)]), *_keys(plan)]
    return aliased(_numbered(number, [named(_UNIT)], order), _PLACE)


def _numbered(number: exp.Expression, within: list[exp.Expression], order: list[exp.Expression]) -> exp.Expression:
    by = exp.Order(expressions=[exp.Ordered(this=part) for part in order])
    return exp.Window(this=number, partition_by=within, order=by)


def _units(plan: Plan) -> list[exp.Expression]:
    """The number of units in each group, or their weight, for the selection of keys."""
    if plan.selection is None:
        return []
    if not isinstance(plan.selection, WeightedGaussian):
        return [aliased(exp.Count(this=exp.Star()), UNITS)]
    if not plan.outline.limit_groups:
        held: exp.Expression = exp.Literal.number(plan.selection.weight(1))  # rows are units, each in one group
    else:
        branches = [
            exp.If(this=exp.Literal.number(k), true=exp.Literal.number(plan.selection.weight(k)))
            for k in range(1, plan.groups)
        ]
        fewest = exp.Literal.number(plan.selection.weight(plan.groups))
        held = exp.Case(this=named(_HELD), ifs=branches, default=fewest) if branches else fewest
    return [summed(held, UNITS)]


def _listed(plan: Plan, query: exp.Select) -> exp.Select:
    """Only the public values of each key, where they are public."""
    for i, (key, values) in enumerate(zip(plan.question.keys, plan.domain, strict=True)):
        query = query.where(Listed(this=named(f"k{i}"), values=values, kind=key.type, place=i), copy=False)
    return query


def _selected(*columns: exp.Expression) -> exp.Select:
    return exp.Select(expressions=list(columns))


def _where(query: exp.Select, condition: exp.Expression) -> exp.Select:
    return query.where(exp.Paren(this=condition), copy=False)


def _keys(plan: Plan) -> list[exp.Expression]:
    return [named(f"k{i}") for i in range(len(plan.question.keys))]
