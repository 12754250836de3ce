"""Bounds and limits that were not declared, found privately: a release of its own, paid and stored like any answer.

Guarantee:  a search is pure DP with its epsilon for adding or removing all rows of one unit (one row, where rows are
            units). What was found is public from then on, and is used like a declared fact.
Law:        the engine puts one number of each unit to its power of two, floor(log2), and counts units by power;
            AutoBounds (mechanisms/quantiles/auto_bounds.py) finds a power that few of them reach, for nine tenths of
            the epsilon. The last tenth counts all units with Laplace noise.
            Bounds of a column: a unit's largest value and its least, over the whole stored table, so that every later
            question finds them. Rows: the most rows that a unit has in one group of the question. Groups: in how many
            it is. Both after WHERE, among the public keys where these are public.
Proof:      each number is a function of the rows of one unit, so a unit more adds one to the count of one power: of
            each side for bounds, where a unit with values of both signs counts twice (values_per_unit = 2) and a row,
            which has one sign, once. That is what AutoBounds is proved for. The query fails on no row: NaN becomes
            NULL, a unit without values has no power, infinite values have the last one. Powers are exact, by
            comparison with 2^k and never by a logarithm. Which powers there are, and the epsilon, are declared facts.
            A unit more adds one to the count of all units. Both releases together lose the sum of their epsilons.
Nothing:    whether a search found something to rely on is decided by its released powers, its released count and its
            price. That is post-processing, so to charge the answer, or not to, tells nothing more of the rows.
From 2^i:   few values are 2^i or more, so reals are bounded by 2^i, whole numbers by 2^i - 1; a side that stops at its
            first power by 0, and if both do, the upper one at its first power. A limit is 2^i - 1, and at least 1.
            Functions of the released powers alone.
Checked by: tests/plan/test_bounds_search.py
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, assert_never

import numpy as np
from sqlglot import exp

from lapwing.expressions.expression import Column
from lapwing.expressions.forms import Listed, Wide
from lapwing.expressions.identity import Facts, Identity, domain_facts, expression_facts, rows_facts
from lapwing.expressions.operators.base import cast, number
from lapwing.expressions.table import Field, Limit, Table
from lapwing.expressions.to_sqlglot import emit, literal, real, value
from lapwing.expressions.types import Interval, Type, Value
from lapwing.mechanisms.cells import CellColumns, UnitPowers, unit_powers
from lapwing.plan.add_noise import FetchedRows
from lapwing.plan.kind import Kind, Measure, require_noise
from lapwing.plan.plan import Plan, plan_release
from lapwing.plan.query import UnitRows, key_node, unit_rows
from lapwing.plan.question import Question
from lapwing.plan.row_values import UNIT, RowColumn, aliased, named, select, source
from lapwing.privacy.loss import Loss, Pure

POWERS = {Type.INTEGER: (0, 62), Type.REAL: (-20, 62)}
"""First and last power of two for bounds. Whole numbers of 64 bits end at 2^62, and so do sums of them that are still
exact; reals alike: larger ones need declared bounds. What lies below a millionth is 0 for a sum."""
LIMIT_POWERS = (0, 16)
"""The same for limits. A unit with 2^16 rows in a group is no longer one of many."""

_CONFIDENCE = Fraction(19, 20)
_VALUE, _MANY = "lw_value", "lw_many"
_LOW, _HIGH = "low", "high"


class SearchKind(Kind):
    """Whatever can be found: powers of two that few units reach, on one side or on both."""

    __slots__ = ()
    apart: ClassVar[bool] = True
    sides: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def powers(self) -> tuple[int, int]:
        """The first power and the last."""

    @property
    @abstractmethod
    def values_per_unit(self) -> int:
        """On all sides together."""

    @property
    @abstractmethod
    def identity(self) -> Identity:
        """What is asked for, whatever it costs."""

    @abstractmethod
    def numbers(self) -> tuple[exp.Select, Type]:
        """The query of one number of each unit on each side, and their type."""

    @abstractmethod
    def plan(self, price: Loss) -> Plan:
        """The search at this price; raises Refused."""

    @property
    def facts(self) -> Facts:
        return self.identity.facts

    @property
    def cells(self) -> int:
        """The power of each side, and the number of units."""
        return len(self.sides) + 1

    def sensitivity(self, step: Fraction) -> int:
        """Of the count of one power."""
        return 1

    def columns(self, step: Fraction) -> list[RowColumn]:
        return []

    def powers_at(self, price: Loss) -> UnitPowers:
        """What finds the powers and counts the units."""
        return unit_powers(price, self.powers, values_per_unit=self.values_per_unit)

    def make_mechanism(self, step: Fraction, groups_per_unit: int, share: Loss) -> UnitPowers:
        mechanism = self.powers_at(share)
        require_noise(mechanism, share)
        return mechanism

    def query(self, measure: Measure, rows: UnitRows) -> exp.Select:
        return powers_query(self)

    def arrange(self, measure: Measure, fetched: FetchedRows) -> CellColumns:
        having = [(side, fetched.having(side)) for side in self.sides]
        counts = [column for side, rows in having for column in (rows.integers(side), rows.integers(_MANY))]
        return (*counts, np.array([sum(fetched.integers(_MANY).tolist())]))

    def empty(self, measure: Measure, groups: int) -> CellColumns:
        return (*(np.zeros(0, np.int64) for _ in range(2 * len(self.sides))), np.zeros(1, np.int64))


@dataclass(frozen=True, slots=True)
class BoundsOf(SearchKind):
    """Bounds of one column of a stored table."""

    table: Table
    field: Field
    sides: ClassVar[tuple[str, ...]] = (_LOW, _HIGH)

    @property
    def powers(self) -> tuple[int, int]:
        return POWERS[self.field.type]

    @property
    def values_per_unit(self) -> int:
        return 1 if self.table.by_row else 2

    def numbers(self) -> tuple[exp.Select, Type]:
        return _extremes(self), self.field.type

    def plan(self, price: Loss) -> Plan:
        return plan_release(self, price, self.table)

    @property
    def identity(self) -> Identity:
        """Which bounds are asked for, whatever they cost."""
        return Identity("bounds", (rows_facts(self.table), self.field.name, self.field.type.value, self.powers))

    @property
    def widest(self) -> Interval:
        return self.interval(self.powers[1], self.powers[1])

    def interval(self, low: int, high: int) -> Interval:
        first, _ = self.powers
        less = 1 if self.field.type is Type.INTEGER else 0
        sides = [Fraction(0) if power == first else Fraction(2) ** power - less for power in (low, high)]
        return Interval(-sides[0], sides[1] if any(sides) else Fraction(2) ** first)

    def __str__(self) -> str:
        return f"the bounds of `{self.field.name}` in `{self.table.name}`"


@dataclass(frozen=True, slots=True)
class LimitOf(SearchKind):
    """How many rows of a unit count in a group of a question, or in how many groups a unit counts."""

    question: Question
    domain: tuple[tuple[Value, ...], ...] | None
    limit: Limit
    sides: ClassVar[tuple[str, ...]] = (_HIGH,)
    powers: ClassVar[tuple[int, int]] = LIMIT_POWERS
    values_per_unit: ClassVar[int] = 1

    def numbers(self) -> tuple[exp.Select, Type]:
        return _counted(self), Type.INTEGER

    def plan(self, price: Loss) -> Plan:
        return plan_release(self, price, self.question.table, where=self.question.where)

    @property
    def identity(self) -> Identity:
        """Which limit is asked for, whatever it costs; what is counted does not depend on the aggregates."""
        asked, table = self.question, self.question.table
        keys = tuple(expression_facts(key, table) for key in asked.keys)
        rows = rows_facts(table), table.unit, expression_facts(asked.where, table)
        return Identity("limit", (self.limit.value, rows, keys, domain_facts(self.domain), self.powers))

    def most(self, power: int) -> int:
        return max(1, (1 << power) - 1)

    def __str__(self) -> str:
        what = "the rows of one unit in a group" if self.limit is Limit.ROWS else "the groups of one unit"
        return f"a limit for {what} of `{self.question.table.name}`"


Target = BoundsOf | LimitOf
"""Whatever can be found."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What was found, and for which price."""

    target: Target
    epsilon: Fraction
    powers: tuple[int, ...]
    """Of the lower and the upper bound, or of the limit."""
    units: int | None = None
    """About how many units there are."""
    entry: int = 0
    """The number of its entry in the ledger, once it has one."""

    @property
    def loss(self) -> Loss:
        return Pure(self.epsilon)

    @property
    def beyond(self) -> int | None:
        """The most units that reach beyond, on each side, with 95 % confidence; None if the scan went to its end."""
        return None if self.target.powers[1] in self.powers else overlooked(self.target, self.epsilon)

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to rely on: no side got beyond its first power, so nothing shows that a value is
        that large, or that one exists; or all units may reach beyond."""
        return set(self.powers) == {self.target.powers[0]} or self.may_overlook_all

    @property
    def may_overlook_all(self) -> bool:
        return self.beyond is not None and self.units is not None and self.beyond >= self.units

    @property
    def most_units(self) -> int:
        """How many units there may be: those counted, and at least what their noise hides."""
        error = self.target.powers_at(self.loss).count.noise.error(_CONFIDENCE, simultaneous=1)
        return max(self.units or 0, math.floor(error), 1)

    @property
    def words(self) -> str:
        match self.target:
            case BoundsOf() as bounds:
                return f"{bounds}, {bounds.interval(*self.powers)}, where values are clipped"
            case LimitOf() as limit:
                return f"{limit}, {limit.most(*self.powers)}"
            case _:
                assert_never(self.target)

    def __str__(self) -> str:
        if self.is_nothing:
            return f"{self.target}, in vain"
        text = self.words
        beyond, side = self.beyond, " on a side" if isinstance(self.target, BoundsOf) else ""
        many = "" if self.units is None else f" of about {max(0, self.units):,}"
        return text if beyond is None else f"{text} (units beyond: at most {beyond:,}{many}{side}, 95% sure)"


def search_result(target: Target, price: Loss, cells: CellColumns, entry: int = 0) -> SearchResult:
    """What was found for this price, under this entry of the ledger."""
    *powers, units = (int(column[0]) for column in cells)
    return SearchResult(target, price.amount, tuple(powers), units, entry)


def overlooked(target: Target, epsilon: Fraction) -> int:
    """The most units that a search at this price overlooks on each side, with 95 % confidence; of fewer it finds
    nothing. A function of the price."""
    return math.floor(target.powers_at(Pure(epsilon)).scan.error())


def powers_query(target: SearchKind) -> exp.Select:
    """How many units (lw_many) have which power: columns low and high for bounds, high alone for a limit."""
    inner, kind = target.numbers()
    (first, last), names = target.powers, target.sides
    powers = [aliased(_power(name, kind, first, last - 1), name) for name in names]
    placed = select(*powers).from_(inner.subquery("t", copy=False), copy=False)
    many = aliased(Wide(this=exp.Count(this=exp.Star())), _MANY)
    query = select(*map(named, names), many).from_(placed.subquery("p", copy=False), copy=False)
    return query.group_by(*map(named, names), copy=False)


def _extremes(target: BoundsOf) -> exp.Select:
    """The least and the largest value of each unit; NULL if it has none."""
    table, field = target.table, target.field
    held = value(Column(field.name, field.type), source)
    typed = cast(held, exp.DType.BIGINT) if field.type is Type.INTEGER else number(held)
    rows = unit_rows(table, [aliased(typed, _VALUE)])
    least, largest = named(_VALUE), named(_VALUE)
    if not table.by_row:
        least, largest = exp.Min(this=least), exp.Max(this=largest)
    query = select(aliased(least, _LOW), aliased(largest, _HIGH)).from_(rows.subquery("r", copy=False), copy=False)
    return query if table.by_row else query.group_by(named(UNIT), copy=False)


def _counted(target: LimitOf) -> exp.Select:
    """Each unit's largest number of rows in a group, or its number of groups."""
    question, domain = target.question, target.domain
    keys = [named(f"k{i}") for i in range(len(question.keys))]
    pairs = zip(question.keys, keys, strict=True)
    rows = unit_rows(question.table, [aliased(key_node(k, public=domain is not None), name.name) for k, name in pairs])
    if question.where is not None:
        rows = rows.where(exp.Paren(this=emit(question.where, source)), copy=False)
    many = aliased(exp.Count(this=exp.Star()), _MANY)
    groups = select(named(UNIT), many).from_(rows.subquery("r", copy=False), copy=False)
    for place, values in enumerate(domain or ()):
        kind = question.keys[place].type
        groups = groups.where(Listed(this=keys[place].copy(), values=values, kind=kind, place=place), copy=False)
    groups = groups.group_by(named(UNIT), *(key.copy() for key in keys), copy=False)
    most = exp.Max(this=named(_MANY)) if target.limit is Limit.ROWS else exp.Count(this=exp.Star())
    query = select(aliased(most, _HIGH)).from_(groups.subquery("g", copy=False), copy=False)
    return query.group_by(named(UNIT), copy=False)


def _power(name: str, kind: Type, first: int, last: int) -> exp.Expression:
    """The largest k from first to last with 2^k <= x, or x <= -2^k on the low side; NULL if there is none."""
    return exp.Case(ifs=[exp.If(this=_reaches(name, kind, first), true=_halved(name, kind, first, last))])


def _halved(name: str, kind: Type, first: int, last: int) -> exp.Expression:
    """The same for a number that reaches the first, by halving."""
    if first == last:
        return exp.Literal.number(first)
    middle = (first + last + 1) // 2
    above = exp.If(this=_reaches(name, kind, middle), true=_halved(name, kind, middle, last))
    return exp.Case(ifs=[above], default=_halved(name, kind, first, middle - 1))


def _reaches(name: str, kind: Type, power: int) -> exp.Expression:
    sign = -1 if name == _LOW else 1
    bar = sign * Fraction(2) ** power
    constant = literal(int(bar)) if kind is Type.INTEGER else real(bar)
    return (exp.LTE if sign < 0 else exp.GTE)(this=named(name), expression=constant)
