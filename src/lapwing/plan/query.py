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

A unit that may have at most FEW rows in a group has hardly fewer groups than rows, and its totals cost about as much as
sorting its rows. Then the groups are chosen among `rows`, DENSE_RANK in place of ROW_NUMBER, and only the chosen rows
are added up. It is the same choice, in the same order of the same groups; the limit is a declared fact.

Stability: every row of `totals` and every choice in `chosen` depends on the rows of one unit and on the secret salt
only, so removing a unit removes its own contributions and changes no others. Two order keys make the choice a
function. The selection of keys, where there is one, sees the same chosen groups as every measure.
Missing values: NaN becomes NULL and NULL is left out *before* clipping, since LEAST and GREATEST skip NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from lapwing.engines.dialect import EngineQuery
from lapwing.expressions.expression import Expression
from lapwing.expressions.forms import KeyedHash, Listed
from lapwing.expressions.table import UNIT_ID, Table
from lapwing.expressions.to_sqlglot import emit, whole
from lapwing.expressions.types import Type, Value
from lapwing.mechanisms.cells import KeySelection
from lapwing.plan.key_selection import unit_weight
from lapwing.plan.kind import Kind, Measure
from lapwing.plan.plan import Plan
from lapwing.plan.row_values import (
    HELD,
    ROWS,
    UNIT,
    aliased,
    compute,
    from_node,
    named,
    number_rows,
    select,
    source,
    sum_units,
)

LONGEST_KEY = 300
"""Characters of a text key whose values are not public."""

FEW = 8
"""Up to this many rows of a unit in a group, groups are chosen among rows. Measured: it takes 3/4 of the time if every
row is a group of its own, and 3/2 if a unit has 7 rows in each."""

UNITS = "lw_units"
"""The column of the cells query that the selection of keys reads: how many units are in the group, or their weight."""

_PLACE = "lw_place"


@dataclass(frozen=True, slots=True)
class Queries:
    """What the engine runs: the cells of sums over units, and a query of its own for every other measure."""

    cells: exp.Select | EngineQuery | None
    others: tuple[tuple[int, exp.Select | EngineQuery], ...]
    """The number of the measure, and its query."""

    @property
    def all(self) -> tuple[exp.Select | EngineQuery, ...]:
        """Every query."""
        cells = () if self.cells is None else (self.cells,)
        return (*cells, *(query for _, query in self.others))

    def prepared(self, prepare: Callable[[Any], EngineQuery]) -> Queries:
        """The same as the engine runs them."""
        cells = None if self.cells is None else prepare(self.cells)
        return Queries(cells, tuple([(index, prepare(query)) for index, query in self.others]))


def queries(plan: Plan) -> Queries:
    """Every query of a plan. As a rule it is one."""
    others: list[tuple[int, exp.Select | EngineQuery]] = []
    for index, measure in enumerate(plan.measures):
        if measure.kind.apart:
            others.append((index, measure.kind.query(measure, UnitRows(plan, measure))))
    wanted = plan.selection is not None or len(others) < len(plan.measures)
    return Queries(cells_query(plan) if wanted else None, tuple(others))


def cells_query(plan: Plan) -> exp.Select:
    """The query whose rows are the cells: key columns k0, k1, ... and integer columns c0, c1, ..."""
    cells: list[tuple[exp.Expression, int]] = []
    totals: list[exp.Expression] = []
    by_row = plan.table.by_row
    for measure in plan.measures:
        kind, step, first = measure.kind, measure.step, len(totals)
        if kind.apart:
            continue
        own = (kind.row_parts if by_row else kind.unit_totals)(step, _reader(plan, measure))
        totals += own
        inside = own if by_row else [named(f"t{first + i}") for i in range(len(own))]
        most = measure.sensitivity
        cells += [(cell, most) for cell in kind.unit_cells(step, inside)]
    columns = [sum_units(cell, f"c{i}", most) for i, (cell, most) in enumerate(cells)]
    inner = _rows(plan) if by_row else _chosen(plan, _totals(plan, totals))
    units = [] if plan.selection is None else _units(plan, plan.selection)
    query = select(*_keys(plan), *columns, *units).from_(inner.subquery("t", copy=False), copy=False)
    query = query.group_by(*_keys(plan), copy=False) if plan.question.keys else query
    return _within_groups(plan, query)


def _reader(plan: Plan, measure: Measure) -> Callable[[int], exp.Expression]:
    """The columns of `rows` that hold what a measure reads."""
    columns = measure.kind.columns(measure.step)
    return lambda place: named(f"a{plan.row_columns[columns[place]]}")


@dataclass(frozen=True, slots=True)
class UnitRows:
    """The rows that a measure with a query of its own starts from, and how it keeps to the groups of each unit."""

    plan: Plan
    measure: Measure

    @property
    def by_row(self) -> bool:
        return self.plan.table.by_row

    def keys(self) -> list[exp.Expression]:
        return _keys(self.plan)

    def read(self) -> exp.Expression:
        """The column that the measure reads."""
        return _reader(self.plan, self.measure)(0)

    def select(self, *columns: exp.Expression) -> exp.Select:
        """These columns of the rows that count."""
        return select(*columns).from_(_kept(self.plan).subquery("r", copy=False), copy=False)

    def place(self, query: exp.Select, more: list[exp.Expression]) -> exp.Select:
        """All columns of a query by unit and group, some more, and the place of the group among those of its unit."""
        place = [_place(self.plan, exp.DenseRank())] if _among_totals(self.plan) else []
        return select(exp.Star(), *more, *place).from_(query.subquery("u", copy=False), copy=False)

    def within(self, query: exp.Select) -> exp.Select:
        """Only the groups that the unit counts in."""
        return _within_groups(self.plan, query)

    def cells(self, kind: Kind) -> exp.Select:
        """The cells c0, ... of another kind in every group, as sums over units."""
        return cells_query(replace(self.plan, measures=(Measure(kind, Fraction(1), None),)))


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
    return _where(query, exp.LTE(this=named(_PLACE), expression=exp.Literal.number(plan.groups_per_unit)))


def _kept(plan: Plan) -> exp.Select:
    """The rows that are added up: all, or those of the chosen groups where the choice is among rows."""
    rows = _rows(plan)
    if not _among_rows(plan):
        return rows
    place = _place(plan, exp.DenseRank())
    placed = select(exp.Star(), place).from_(rows.subquery("s", copy=False), copy=False)
    return _placed_within(plan, select(exp.Star()).from_(placed.subquery("p", copy=False), copy=False))


def _rows(plan: Plan) -> exp.Select:
    """Every row's unit, keys and arguments; rows of no unit and of other keys are dropped."""
    public = plan.outline.domain is not None
    keys = [aliased(key_node(key, public=public), f"k{i}") for i, key in enumerate(plan.question.keys)]
    values = [aliased(compute(column), f"a{i}") for column, i in plan.row_columns.items()]
    unit = exp.column(UNIT_ID, table=ROWS, quoted=True)
    units = [] if plan.table.by_row else [aliased(unit, UNIT)]
    query = select(*units, *keys, *values) if units or keys or values else select(exp.Literal.number(1))
    query = query.from_(from_node(plan.table, ROWS), copy=False)
    if plan.question.where is not None:
        query = _where(query, emit(plan.question.where, source))
    if units:
        query = _where(query, exp.Not(this=exp.Is(this=unit.copy(), expression=exp.Null())))
    return listed(query, plan.question.keys, plan.domain)


def unit_rows(table: Table, columns: list[exp.Expression]) -> exp.Select:
    """These columns of every row, and its unit; rows of no unit are dropped."""
    if table.by_row:
        return select(*columns).from_(from_node(table, ROWS), copy=False)
    unit = exp.column(UNIT_ID, table=ROWS, quoted=True)
    query = select(aliased(unit, UNIT), *columns).from_(from_node(table, ROWS), copy=False)
    return query.where(exp.Not(this=exp.Is(this=unit.copy(), expression=exp.Null())), copy=False)


def key_node(key: Expression, *, public: bool) -> exp.Expression:
    """A key; text without declared values is cut, so that long texts cannot fill the memory."""
    node = whole(key, source)
    if public or key.type is not Type.TEXT:
        return node
    return exp.Left(this=node, expression=exp.Literal.number(LONGEST_KEY))


def _totals(plan: Plan, totals: list[exp.Expression]) -> exp.Select:
    columns = [aliased(total, f"t{i}") for i, total in enumerate(totals)]
    rows = _kept(plan).subquery("r", copy=False)
    query = select(named(UNIT), *_keys(plan), *columns).from_(rows, copy=False)
    return query.group_by(named(UNIT), *_keys(plan), copy=False)


def _chosen(plan: Plan, totals: exp.Select) -> exp.Select:
    """The totals, with the place of each group, and with how many groups its unit has where that is its weight.

    Of a unit in too many groups all of them or only the chosen ones are there: the weight of both is the same.
    """
    columns: list[exp.Expression] = [exp.Star()]
    if _among_totals(plan):
        columns.append(_place(plan, exp.RowNumber()))
    if plan.selection is not None and plan.outline.limit_groups and unit_weight(plan.selection) is not None:
        held = exp.Window(this=exp.Count(this=exp.Star()), partition_by=[named(UNIT)])
        columns.append(aliased(held, HELD))
    if len(columns) == 1:
        return totals
    return select(*columns).from_(totals.subquery("u", copy=False), copy=False)


def _place(plan: Plan, number: exp.Expression) -> exp.Expression:
    """The place of a group among those of its unit, in an order that only the unit, its keys and the salt decide."""
    order = [KeyedHash(expressions=[named(UNIT), *_keys(plan)]), *_keys(plan)]
    return aliased(number_rows(number, [named(UNIT)], order), _PLACE)


def _units(plan: Plan, selection: KeySelection) -> list[exp.Expression]:
    """The number of units in each group, or their weight, for the selection of keys."""
    weight = unit_weight(selection)
    if weight is None:
        return [aliased(exp.Count(this=exp.Star()), UNITS)]
    most = max(weight(k) for k in range(1, plan.groups_per_unit + 1))
    if not plan.outline.limit_groups:
        held: exp.Expression = exp.Literal.number(weight(1))  # rows are units, each in one group
    else:
        branches = [
            exp.If(this=exp.Literal.number(k), true=exp.Literal.number(weight(k)))
            for k in range(1, plan.groups_per_unit)
        ]
        fewest = exp.Literal.number(weight(plan.groups_per_unit))
        held = exp.Case(this=named(HELD), ifs=branches, default=fewest) if branches else fewest
    return [sum_units(held, UNITS, most)]


def listed(query: exp.Select, keys: Sequence[Expression], domain: Sequence[tuple[Value, ...]] | None) -> exp.Select:
    """Only the public values of each key, where they are public."""
    if not domain:
        return query
    query = select(exp.Star()).from_(query.subquery("q", copy=False), copy=False)
    for i, (key, values) in enumerate(zip(keys, domain, strict=True)):
        query = query.where(Listed(this=named(f"k{i}"), values=values, kind=key.type, place=i), copy=False)
    return query


def _where(query: exp.Select, condition: exp.Expression) -> exp.Select:
    return query.where(exp.Paren(this=condition), copy=False)


def _keys(plan: Plan) -> list[exp.Expression]:
    return [named(f"k{i}") for i in range(len(plan.question.keys))]
