"""How much limits cut: a private count of all units, and of those that exceed each limit.

Guarantee:  a check loses at most its price, pure DP with its epsilon or zCDP with its rho, for adding or removing all
            rows of one unit (one row, where rows are units).
Law:        m counts of units: all of them, and those that exceed each of the m - 1 limits that can bind; each gets
            noise of its own, Laplace noise of scale m / epsilon or Gaussian noise for the l2 norm sqrt(m).
Proof:      whether a unit counts, and whether it exceeds a limit, is a function of its own rows, of public tables and
            of declared facts. So a unit more adds 0 or 1 to each count: at most m in the l1 norm and sqrt(m) in the l2
            norm, as a unit in m groups with sensitivity 1 does, which is what the noise is made for (plan.py). Which
            limits there are, the keys and the price are declared facts. The query fails on no row: NaN and NULL are
            beyond no bound, and totals are exact sums of whole numbers, so that no order of rows can change them.
About:      the rows of a relation that lie under its list of keys, before WHERE. WHERE takes rows away, so a unit that
            exceeds a limit after it does so before: of a filtered question the counts are upper bounds.
            Rows: in some group it has more. Groups: it is in more. Bounds: one of its values lies beyond. Totals:
            some of its rows in a group add up to a number beyond (the positive ones, the negative ones, or one alone).
Checked by: tests/plan/test_units_exceeding.py
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sqlglot import exp

from lapwing.expressions.expression import Column, Expression
from lapwing.expressions.forms import ExactSum, Wide
from lapwing.expressions.identity import (
    Facts,
    Identity,
    compact_json,
    domain_facts,
    expression_facts,
    interval_facts,
    rows_facts,
)
from lapwing.expressions.operators.base import cast, number
from lapwing.expressions.table import Field, Table
from lapwing.expressions.to_sqlglot import literal, real, value
from lapwing.expressions.types import Type, Value
from lapwing.mechanisms.cells import CellColumns, mechanisms_for
from lapwing.plan.add_noise import FetchedRows
from lapwing.plan.aggregates import Bounded, Limits, limits_of
from lapwing.plan.kind import Kind, Measure
from lapwing.plan.plan import Outline, Plan, plan_release
from lapwing.plan.query import UnitRows, key_node, listed, unit_rows
from lapwing.plan.row_values import UNIT, RowColumn, aliased, named, select, source, step_of, whole_steps
from lapwing.privacy.loss import Loss

_MANY = "lw_many"


@dataclass(frozen=True)
class UnitsExceeding(Kind):
    """Counts of units: those of a relation under a list of keys, and of them those that exceed each limit."""

    limits: Limits
    keys: tuple[Expression, ...]
    domain: tuple[tuple[Value, ...], ...] | None
    apart: ClassVar[bool] = True
    cells: ClassVar[int] = 1
    """One column: all units, then those that exceed each limit."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Taken once: it goes through all that is declared of the table."""
        return hash((self.limits, self.keys, self.domain))

    @cached_property
    def identity(self) -> Identity:
        """The relation and its keys. Which limits were checked is stored with each result: one may serve for fewer."""
        table = self.limits.table
        keys = tuple([expression_facts(key, table) for key in self.keys])
        return Identity("check", (rows_facts(table), table.unit, keys, domain_facts(self.domain)))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Each limit by its exact facts, in the order of the counts."""
        limits, table = self.limits, self.limits.table
        facts: list[Facts] = [] if limits.rows is None else [("rows", limits.rows)]
        facts += [] if limits.groups is None else [("groups", limits.groups)]
        facts += [("bounds", rows_facts(b.table), _column_facts(b.table, b.field)) for b in limits.bounds]
        facts += [("total", _column_facts(table, f), interval_facts(f.unit_bounds)) for f in limits.totals]
        return tuple(map(compact_json, facts))

    @property
    def facts(self) -> Facts:
        return self.labels

    def sensitivity(self, step: Fraction) -> int:
        """Of each count."""
        return 1

    def columns(self, step: Fraction) -> list[RowColumn]:
        return []

    def query(self, measure: Measure, rows: UnitRows) -> exp.Select:
        return check_query(self)

    def arrange(self, measure: Measure, fetched: FetchedRows) -> CellColumns:
        return (np.concatenate([fetched.integers(f"c{i}") for i in range(self.many)]),)

    def empty(self, measure: Measure, groups: int) -> CellColumns:
        return (np.zeros(self.many, np.int64),)

    def plan(self, price: Loss) -> Plan:
        """The check at this price; raises Refused. A unit is in as many of the counts as there are."""
        return plan_release(self, price, self.limits.table, cells=self.many)

    @property
    def words(self) -> tuple[str, ...]:
        """Each limit as it is called in a sentence, in the same order."""
        limits = self.limits
        rows = [] if limits.rows is None else ["the limit on rows"]
        groups = [] if limits.groups is None else ["the limit on groups"]
        bounds = [f"the bounds of `{bounded.field.name}`" for bounded in limits.bounds]
        return (*rows, *groups, *bounds, *(f"the bounds of the total of `{field.name}`" for field in limits.totals))

    @cached_property
    def many(self) -> int:
        """How many counts there are."""
        return 1 + len(self.labels)

    def joined(self, other: UnitsExceeding) -> UnitsExceeding:
        """One check for both: of the same relation and keys."""
        mine, yours = self.limits, other.limits
        rows = yours.rows if mine.rows is None else mine.rows
        groups = yours.groups if mine.groups is None else mine.groups
        bounds = tuple(dict.fromkeys((*mine.bounds, *yours.bounds)))
        totals = tuple(dict.fromkeys((*mine.totals, *yours.totals)))
        return UnitsExceeding(Limits(mine.table, rows, groups, bounds, totals), self.keys, self.domain)

    def __str__(self) -> str:
        return f"check what limits cut in `{self.limits.table.name}`"


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked for an answer, and what came out."""

    target: UnitsExceeding
    result: CheckResult

    @property
    def counts(self) -> list[int]:
        """For each limit of the target the units that exceed it."""
        known = dict(self.result.over)
        return [known[name] for name in self.target.labels]


def check_target(outline: Outline) -> UnitsExceeding | None:
    """What must be checked for an answer; None if no limit can bind."""
    if outline.is_declared:
        return None
    groups = outline.groups_per_unit if outline.limit_groups else None
    limits = limits_of(outline.table, outline.question.shown, groups)
    return UnitsExceeding(limits, outline.question.keys, outline.domain) if limits else None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Noisy counts of units: all, and those that exceed each limit, by its name."""

    loss: Loss
    units: int
    over: tuple[tuple[str, int], ...]

    def covers(self, target: UnitsExceeding) -> bool:
        """Whether every limit of the target was checked, with the same value."""
        return set(target.labels) <= {name for name, _ in self.over}

    def error(self, confidence: Fraction) -> int:
        """How far off all counts together are at most, with this confidence."""
        many = 1 + len(self.over)
        noise = mechanisms_for(self.loss).additive(sensitivity=1, groups=many)
        return math.floor(noise.error(confidence, simultaneous=many))


def check_result(price: Loss, labels: Sequence[str], counts: Iterable[Any]) -> CheckResult:
    """What was counted for this price: all units, then those that exceed each limit; as whole numbers or as texts."""
    units, *over = map(int, counts)
    return CheckResult(price, units, tuple(zip(labels, over, strict=True)))


def check_query(target: UnitsExceeding) -> exp.Select:
    """One row of counts: c0 of all units, then c1, c2, ... of those that exceed each limit."""
    limits, table = target.limits, target.limits.table
    flags: list[exp.Expression] = []
    over = [_counted(f"r{i}") for i in range((limits.rows is not None) + (limits.groups is not None))]
    for bounded in limits.bounds:
        if bounded.table == table:
            over.append(_counted(f"f{len(flags)}"))
            flags.append(_beyond(bounded.field))
        else:
            over.append(_within(bounded))
    over += [_counted(f"t{i}") for i in range(len(limits.totals))]
    units = _rows_flagged(target, flags) if table.by_row else _units_flagged(target, flags)
    columns = [aliased(Wide(this=exp.Count(this=exp.Star())), "c0")]
    columns += [aliased(Wide(this=node), f"c{i}") for i, node in enumerate(over, start=1)]
    return select(*columns).from_(units.subquery("u", copy=False), copy=False)


def _units_flagged(target: UnitsExceeding, flags: list[exp.Expression]) -> exp.Select:
    """One row for each unit under the keys, of 0 and 1: r0, r1 for limits, f0, ... for bounds, t0, ... for totals."""
    limits, keys = target.limits, [named(f"k{i}") for i in range(len(target.keys))]
    seen = [f"f{i}" for i in range(len(flags))]
    by_group = [aliased(exp.Max(this=named(name)), name) for name in seen]
    for i, field in enumerate(limits.totals):
        seen.append(f"t{i}")
        by_group.append(aliased(_total_beyond(field, f"v{i}"), f"t{i}"))
    groups = select(named(UNIT), aliased(exp.Count(this=exp.Star()), _MANY), *by_group)
    groups = groups.from_(_listed_rows(target, flags).subquery("r", copy=False), copy=False)
    groups = groups.group_by(named(UNIT), *keys, copy=False)
    over = []
    if limits.rows is not None:
        over.append(exp.GT(this=exp.Max(this=named(_MANY)), expression=exp.Literal.number(limits.rows)))
    if limits.groups is not None:
        over.append(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(limits.groups)))
    columns = [aliased(_one_if(node), f"r{i}") for i, node in enumerate(over)]
    columns += [aliased(exp.Max(this=named(name)), name) for name in seen]
    query = select(named(UNIT), *columns).from_(groups.subquery("g", copy=False), copy=False)
    return query.group_by(named(UNIT), copy=False)


def _rows_flagged(target: UnitsExceeding, flags: list[exp.Expression]) -> exp.Select:
    """The same where every row is a unit."""
    places = [named(f"f{i}") for i in range(len(flags))]
    rows = _listed_rows(target, flags).subquery("r", copy=False)
    return select(*places or [exp.Literal.number(1)]).from_(rows, copy=False)


def _listed_rows(target: UnitsExceeding, flags: list[exp.Expression]) -> exp.Select:
    """Unit, keys, flags and amounts of every row under the list of keys; rows of no unit are dropped."""
    public = target.domain is not None
    keys = [aliased(key_node(key, public=public), f"k{i}") for i, key in enumerate(target.keys)]
    columns = [*keys, *(aliased(flag, f"f{i}") for i, flag in enumerate(flags))]
    columns += [aliased(whole_steps(_column(field), source), f"v{i}") for i, field in enumerate(target.limits.totals)]
    return listed(unit_rows(target.limits.table, [*columns] or [exp.Literal.number(1)]), target.keys, target.domain)


def _within(bounded: Bounded) -> exp.Expression:
    """How many units have a value beyond bounds that clip it in a subquery, before they are applied."""
    flag = aliased(_beyond(bounded.field), "f0")
    rows = unit_rows(bounded.table, [flag]).subquery("r", copy=False)
    units = select(aliased(exp.Max(this=named("f0")), "f0")).from_(rows, copy=False).group_by(named(UNIT), copy=False)
    inner = select(_counted("f0")).from_(units.subquery("i", copy=False), copy=False)
    return exp.Subquery(this=inner)


def _beyond(field: Field) -> exp.Expression:
    """1 if the value of a row lies beyond the bounds of its column, else 0."""
    if field.bounds is None:
        return exp.Literal.number(0)
    held = value(_column(field), source)
    if field.type is Type.INTEGER:
        low, high = literal(math.ceil(field.bounds.low)), literal(math.floor(field.bounds.high))
        typed = cast(held, exp.DType.BIGINT)
    else:
        low, high, typed = real(field.bounds.low), real(field.bounds.high), number(held)
    under, above = exp.LT(this=typed, expression=low), exp.GT(this=typed.copy(), expression=high)
    return _one_if(exp.Or(this=under, expression=above))


def _total_beyond(field: Field, name: str) -> exp.Expression:
    """1 if some rows of a unit in a group have a total beyond `unit_bounds`, else 0; in whole steps, exactly."""
    if field.unit_bounds is None:
        return exp.Literal.number(0)
    step = step_of(_column(field))
    low, high = math.ceil(field.unit_bounds.low / step), math.floor(field.unit_bounds.high / step)
    least, most = exp.Min(this=named(name)), exp.Max(this=named(name))
    under = exp.LT(this=_extreme(name, least, exp.LT), expression=exp.Literal.number(low))
    above = exp.GT(this=_extreme(name, most, exp.GT), expression=exp.Literal.number(high))
    return _one_if(exp.Or(this=under, expression=above))


def _extreme(name: str, one: exp.Expression, beyond: type[exp.Expression]) -> exp.Expression:
    """The sum of all values beyond 0, or the outermost value if there is none."""
    zero = exp.Literal.number(0)
    kept = exp.Case(ifs=[exp.If(this=beyond(this=named(name), expression=zero), true=named(name))], default=zero.copy())
    some = beyond(this=one, expression=zero.copy())
    return exp.Case(ifs=[exp.If(this=some, true=ExactSum(this=kept))], default=one.copy())


def _counted(name: str) -> exp.Expression:
    """How many rows have a 1 in this column."""
    one = exp.EQ(this=named(name), expression=exp.Literal.number(1))
    return exp.Count(this=exp.Case(ifs=[exp.If(this=one, true=exp.Literal.number(1))]))


def _one_if(condition: exp.Expression) -> exp.Expression:
    return exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))], default=exp.Literal.number(0))


def _column(field: Field) -> Column:
    return Column(field.name, field.type, field.bounds)


def _column_facts(table: Table, field: Field) -> Facts:
    return expression_facts(_column(field), table, clipped=True)
