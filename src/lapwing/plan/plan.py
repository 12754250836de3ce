"""From a question and a price to a plan: limits, steps, noise, cost and error, all before any row is read.

Price, noise, keys, types and order are functions of the question and of declared facts only.

Sensitivity. One unit adds to at most g = groups_per_unit groups, and to the cells of one measure in one group integers
whose l1 norm is at most its sensitivity s (kind.py), and nothing else: rows of no unit are dropped, groups beyond the
limit are dropped per unit (query.py). Adding or removing one unit therefore changes the cells of a measure by at
most g s in the l1 norm and sqrt(g) s in the l2 norm. Each measure is released by a mechanism made for exactly that, at
its share of the price, and so are the keys where they are not public; shares add up to the price (sequential
composition). Where only the names of the best groups are told, what counts is that one unit changes each cell by at
most s, in however many groups it is.
Checked by: tests/plan/test_neighbours.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, reduce
from operator import add

from lapwing.errors import Code, Misconfigured
from lapwing.expressions.expression import Call, Column, Expression, Literal, Slot, walk
from lapwing.expressions.identity import Identity, domain_facts
from lapwing.expressions.phrases import expression_text, name_text, units_text
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Table
from lapwing.expressions.types import Type, Value
from lapwing.mechanisms.cells import KeySelection
from lapwing.plan.aggregates import choose_kinds, limit_notes
from lapwing.plan.date_ranges import is_date, range_of
from lapwing.plan.domain import MOST_RANGE, public_groups
from lapwing.plan.key_selection import choose_selection, units_needed
from lapwing.plan.kind import Kind, Measure, Reading
from lapwing.plan.question import Order, Question
from lapwing.plan.row_values import RowColumn
from lapwing.privacy.loss import Loss, Pure

MOST_GROUPS = 1_000_000

MADE_UP = "DUMMY: the rows are made up, and the numbers say nothing about the data."
"""What every answer over made-up rows says first."""


@dataclass(frozen=True)
class Outline:
    """What will be read and how it is bounded; everything but the price."""

    question: Question
    kinds: tuple[Kind, ...]
    readings: tuple[Reading, ...]
    """How each aggregate of the question is read off the measures."""
    groups_per_unit: int
    """How many groups one unit may count in."""
    limit_groups: bool
    """Whether some unit could be in more groups than that, so that the engine must choose among them."""
    domain: tuple[tuple[Value, ...], ...] | None
    """The public values of each key, in their order; None if the keys that occur are selected privately."""
    counted: int | None
    """The measure whose noisy cells come from the selection of the keys itself, if there is one."""
    intervals: bool = True
    """Whether quantiles were asked for with intervals."""
    groups: tuple[int, ...] | None = None
    """The public groups, if not every combination of values is one: the places of their values, as digits."""
    table: Table = field(init=False, repr=False, compare=False)
    group_count: int | None = field(init=False, repr=False, compare=False)
    """How many rows the answer has before HAVING and LIMIT; None if the keys are selected."""
    parts: int = field(init=False, repr=False, compare=False)
    """How many shares of the price there are."""
    is_declared: bool = field(init=False, repr=False, compare=False)
    """Whether it asks for public keys and nothing else: no row is read, and nothing is paid."""

    def __post_init__(self) -> None:
        domain, groups = self.domain, self.groups
        known = None if domain is None else math.prod(map(len, domain)) if groups is None else len(groups)
        parts = len(self.kinds) + (domain is None and self.counted is None)
        vars(self).update(table=self.question.table, group_count=known, parts=parts, is_declared=not parts)

    @cached_property
    def choosing(self) -> frozenset[int]:
        """The measures by whose noisy numbers rows are chosen, by HAVING or LIMIT, or values, by a condition."""
        return _choosing(self.question, self.readings, self.group_count)

    def is_quantile(self, measure: int) -> bool:
        """Whether its intervals are released with it, so that their confidence must be settled before."""
        return self.kinds[measure].releases_intervals

    def confidence_of(self, measure: int, confidence: Fraction) -> Fraction:
        """The confidence at which a number of this measure is shown; with rows chosen by it, all groups hold together.

        Of rows that were chosen by their noise the interval of one number at 95 % fails more often than 1 time in 20.
        The intervals of all groups at 1 - (1 - confidence) / groups hold together, and so do those of any choice.
        """
        if measure not in self.choosing or self.group_count is None:
            return confidence
        return 1 - (1 - confidence) / self.group_count

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is said with every answer, in every format: a sentence each, or some on one matter."""
        aggregates, grouped = self.question.shown, bool(self.question.keys)
        groups = self.groups_per_unit if self.limit_groups else None
        group = next((kind.group_word for kind in self.kinds), "group")
        left_out = (kind.left_out for kind in self.kinds if kind.left_out)
        limits = limit_notes(self.table, aggregates, groups, grouped=grouped, group=group)
        made_up = (MADE_UP,) if self.table.made_up else ()
        return (*made_up, *left_out, *self.question.notes, *self.never_equal, *limits)

    @property
    def never_equal(self) -> tuple[str, ...]:
        """Which columns are compared with a text that none of their rows has, because it is read as OTHER."""
        names = []
        for call in (part for expression in self.question.below for part in walk(expression)):
            if isinstance(call, Call) and call.operator.compares:
                constants = {part.value for part in call.arguments if isinstance(part, Literal)} - {None}
                columns = [part.name for part in call.arguments if isinstance(part, Column)]
                fields = [self.table.field(name) for name in dict.fromkeys(columns)]
                names += [f.name for f in fields if f.other and not constants <= set(f.values)]
        said = "`{}` is compared with a text that is not declared. Such texts are read as 'OTHER', so no row has it."
        return tuple(said.format(name) for name in dict.fromkeys(names))

    @property
    def undeclared(self) -> list[str]:
        """Which rows are in no group, because a key has a value that is not declared."""
        if self.domain is None:
            return []
        used = [part.name for key in self.question.keys for part in walk(key) if isinstance(part, Column)]
        fields = [self.table.field(name) for name in dict.fromkeys(used)]
        lost = [f for f in fields if f.values and not (f.other and None in f.values)]
        what = ((f.name, "NULL" if f.other else "not a declared value") for f in lost)
        said = [f"Rows whose `{name}` is {value} are not counted." for name, value in what]
        keys = "Keys are those of `{}` in {}; rows with other keys are not counted."
        return said + [keys.format(f.name, f.span) for f in fields if f.span is not None]

    @cached_property
    def identity(self) -> Identity:
        """Everything but the price that an answer is made by, in the order in which it is stored.

        A step of the noisy cells follows from it, so that cells are never read in another step.
        """
        if self.kinds and (own := self.kinds[0].identity) is not None:
            return own
        table, (rows, where, keys, aggregates) = self.table, self.question.facts
        domain, kinds = domain_facts(self.domain, self.groups), tuple(kind.facts for kind in self.kinds)
        limits = (table.unit, table.row_limit, self.groups_per_unit, self.limit_groups)
        return Identity("cells", (rows, where, keys, domain, aggregates, kinds, self.counted, limits))


@dataclass(frozen=True, slots=True)
class Prices:
    """What each share of the price may lose: one for each measure (None for the counted one), and one for the keys."""

    measures: tuple[Loss | None, ...]
    selection: Loss | None = None

    @property
    def loss(self) -> Loss:
        """All of them together; nothing if there is none, where public keys are listed without a number."""
        parts: list[Loss] = [part for part in (*self.measures, self.selection) if part is not None]
        return reduce(add, parts) if parts else Pure(0)


@dataclass(frozen=True)
class Plan:
    """Everything that is decided before rows are read."""

    outline: Outline
    prices: Prices
    measures: tuple[Measure, ...]
    selection: KeySelection | None
    question: Question = field(init=False, repr=False, compare=False)
    table: Table = field(init=False, repr=False, compare=False)
    groups_per_unit: int = field(init=False, repr=False, compare=False)
    """How many groups one unit may count in."""
    domain: tuple[tuple[Value, ...], ...] = field(init=False, repr=False, compare=False)
    """The public values of each key; nothing if the keys are selected."""
    group_count: int | None = field(init=False, repr=False, compare=False)
    """How many rows the answer has before HAVING and LIMIT; None if the keys are selected."""

    def __post_init__(self) -> None:
        outline = self.outline
        vars(self).update(question=outline.question, table=outline.table, group_count=outline.group_count)
        vars(self).update(groups_per_unit=outline.groups_per_unit, domain=outline.domain or ())

    @cached_property
    def loss(self) -> Loss:
        return self.prices.loss

    @cached_property
    def row_columns(self) -> dict[RowColumn, int]:
        """The columns that the measures read of each row, each once, with its number."""
        columns = dict.fromkeys([column for one in self.measures for column in one.kind.columns(one.step)])
        return {column: number for number, column in enumerate(columns)}

    def is_as_good_as(self, other: Plan, confidence: Fraction) -> bool:
        """Whether no error of this plan is larger than the other's, at this confidence, for the same outline."""
        mine, yours = self._errors(confidence), other._errors(confidence)
        return all(a <= b for a, b in zip(mine, yours, strict=True))

    def _errors(self, confidence: Fraction) -> list[Fraction]:
        errors = [error for measure in self.measures for error in measure.errors(confidence, self.group_count)]
        if self.selection is not None:
            errors += map(Fraction, units_needed(self.selection))
        return errors


def make_plan(question: Question, loss: Loss) -> Plan:
    """The plan of a question at this price, in equal shares; raises Refused if there is none."""
    outline = make_outline(question)
    return priced(outline, equal_prices(outline, loss))


def make_outline(
    question: Question, *, counted: bool = True, confidence: Fraction | None = None, intervals: bool = True
) -> Outline:
    """What a question reads and how it is bounded; raises Refused.

    With `counted` the selection of keys may release the number of units as well, where that is asked. The intervals of
    quantiles are released too, so their confidence is settled here; without `intervals` their whole price buys the
    estimate.
    """
    table, stated = question.table, None
    if intervals:
        stated = table.confidence if confidence is None else confidence
    for key in question.keys:
        _check_key(key, table)
    public = public_groups(question.keys, table, question.where)
    group_count = public.count
    domain = tuple([values for values in public.values if values is not None])
    if group_count is not None and group_count > MOST_GROUPS:
        why = f"the declared keys make {group_count:,} groups; at most {MOST_GROUPS:,} are answered at once."
        refuse("too-many-groups", "GROUP BY", why, "Group by fewer columns, or by columns with fewer values.")
    groups, limit = _groups_per_unit(table, group_count)
    kinds, readings = choose_kinds(table, question.aggregates, group_count=group_count, confidence=stated)
    if group_count is None:
        kinds = _for_all_groups(kinds, question, readings, None, stated)
        counts = (i for i, kind in enumerate(kinds) if kind.counts_units(by_row=table.by_row))
        count = next(counts, None) if counted else None
        return Outline(question, kinds, readings, groups, limit, None, count, intervals)
    if (best := _best(question, kinds, groups, group_count)) is not None:
        return Outline(question, (best,), readings, group_count, False, domain, None, groups=public.codes())
    kinds = _for_all_groups(kinds, question, readings, group_count, stated)
    return Outline(question, kinds, readings, groups, limit, domain, None, intervals, public.codes())


def plan_release(kind: Kind, price: Loss, table: Table, *, where: Expression | None = None, cells: int = 1) -> Plan:
    """The plan of a release that is no question's, such as a check of limits or a search: one group, and a query of its
    own, to each of whose `cells` a unit adds at most the sensitivity; raises Refused."""
    outline = Outline(Question(table, where, (), (), ()), (kind,), (), cells, False, (), None)
    return priced(outline, Prices((price,)))


def equal_prices(outline: Outline, loss: Loss) -> Prices:
    """The price in equal shares; nothing if there is nothing to pay for."""
    if not outline.parts:
        return Prices(())
    share = loss if outline.parts == 1 and not loss.delta else loss.with_delta(0).scaled(Fraction(1, outline.parts))
    parts = len(outline.kinds)
    if outline.domain is not None:
        if loss.delta:
            why = "every key of this question is public, so no delta is needed."
            refuse("delta-not-needed", "`delta`", why, "Leave `delta` out.")
        return Prices((share,) * parts)
    if not loss.delta:
        refuse(*unknown_keys(outline.question))
    shares = tuple(None if i == outline.counted else share for i in range(parts))
    return Prices(shares, share.with_delta(loss.delta))


def priced(outline: Outline, prices: Prices) -> Plan:
    """The plan at these prices; raises Refused if noise for them cannot be drawn."""
    pairs = zip(outline.kinds, prices.measures, strict=True)
    measures = tuple([kind.price(outline.groups_per_unit, share) for kind, share in pairs])
    selection = None
    if prices.selection is not None:
        try:
            selection = choose_selection(prices.selection, outline.groups_per_unit, counted=outline.counted is not None)
        except Misconfigured:
            why = f"no key can be selected for {prices.selection}."
            refuse("price-out-of-range", "`epsilon`", why, "Choose another one.")
    return Plan(outline, prices, measures, selection)


def unknown_keys(question: Question) -> tuple[Code, str, str, str, str]:
    """The refusal of keys that are not public where no delta can be spent."""
    public = public_groups(question.keys, question.table, question.where).values
    key = next(key for key, values in zip(question.keys, public, strict=True) if values is None)
    names = " and ".join(dict.fromkeys(f"`{part.name}`" for part in walk(key) if isinstance(part, Column)))
    rewrite, undeclared = "Use a budget with a delta, which selects them", f"values for {names}"
    clip = (
        "" if isinstance(key, Column) or key.type is not Type.INTEGER else "Clip it to a range: CLIP(..., low, high). "
    )
    if advice := _bounds_advice(key, question):
        rewrite, undeclared = f"{advice}; or a budget with a delta selects them.", ""
    rewrite = f"{clip}{rewrite}"
    return (
        "keys-not-public",
        f"GROUP BY {names if isinstance(key, Column) else 'an expression'}",
        "its values are not public, and a group that appears only if someone is in it would expose them.",
        rewrite,
        undeclared,
    )


def _bounds_advice(key: Expression, question: Question) -> str:
    """How a key over dates becomes public; nothing if it has none."""
    part = next((part for part in walk(key) if is_date(part)), None)
    if part is None:
        return ""
    (name,) = (column.name for column in walk(part) if isinstance(column, Column))
    written = name_text(name)
    coarser = f"For coarser groups, use MONTH({written}) or BUCKET({written}, [DATE '2020-01-01', DATE '2020-07-01'])"
    if range_of(part, question.table, question.where) is not None:
        month = f"DATE_TRUNC('month', {expression_text(part)}), or a shorter range in WHERE"
        return f"At most {MOST_RANGE:,} values are listed: use {month}. {coarser}"
    first = f"Group by CAST({written} AS DATE), and have" if key == part and key.type is Type.TIMESTAMP else "Have"
    fixed = f"WHERE {written} >= DATE '2024-01-01' AND {written} < DATE '2024-07-01'"
    declared = f'bounds = ["2024-01-01", "2024-06-30"] for `{name}`'
    return f"{first} the steward declare {declared}, or write {fixed}. {coarser}"


def _choosing(question: Question, readings: tuple[Reading, ...], group_count: int | None) -> frozenset[int]:
    """The measures by which rows or values are chosen. A condition, or a text made of a number, chooses values."""
    by = [] if question.having is None else [question.having]
    if question.limit is not None and (group_count is None or question.limit < group_count):
        by += [order.expression for order in question.order]
    slots = {part.index for expression in by for part in walk(expression) if isinstance(part, Slot)}
    todo = [(output.expression, False) for output in question.outputs]
    while todo:
        part, deciding = todo.pop()
        deciding = deciding or (part.type is not None and not part.type.is_number)
        if isinstance(part, Slot) and deciding:
            slots.add(part.index)
        if isinstance(part, Call):
            todo += [(argument, deciding) for argument in part.arguments]
    return frozenset(readings[slot].measure for slot in slots)


def _for_all_groups(
    kinds: tuple[Kind, ...],
    question: Question,
    readings: tuple[Reading, ...],
    group_count: int | None,
    confidence: Fraction | None,
) -> tuple[Kind, ...]:
    """Quantiles by which something is chosen have intervals that hold for all groups together: each group's fails with
    probability (1 - confidence) / groups at most. Without a number of groups there is no such interval, and the whole
    price buys the estimate."""
    if confidence is None or not [kind for kind in kinds if kind.releases_intervals]:
        return kinds
    choosing = _choosing(question, readings, group_count)
    each = None if group_count is None else 1 - (1 - confidence) / group_count
    return tuple(
        kind.fit(group_count, each) if place in choosing and kind.releases_intervals else kind
        for place, kind in enumerate(kinds)
    )


def _best(question: Question, kinds: tuple[Kind, ...], groups: int, group_count: int | None) -> Kind | None:
    """The kind of a question that only asks which groups have the most, or the least, if that is chosen privately.

    k names cost as much as the cells of k groups of one unit, whatever groups a unit is in; where units are in fewer
    groups than that, noisy cells err less.
    """
    match question.limit, question.order, kinds:
        case int(limit), (Order(expression=Slot(), descending=most), *others), (kind,) if limit and group_count:
            shown = [output.expression for output in question.outputs] + [order.expression for order in others]
            hidden = question.having is None and not any(isinstance(part, Slot) for e in shown for part in walk(e))
            count = min(limit, group_count)
            return kind.best(count, largest=most) if hidden and count <= groups else None
        case _:
            return None


def _check_key(key: Expression, table: Table) -> None:
    if key.type is Type.REAL:
        name = f"`{key.name}`" if isinstance(key, Column) else "an expression"
        refuse(
            "real-key",
            f"GROUP BY {name}",
            "cannot group by a real number: 0.0 and -0.0 compare equal.",
            "Group by FLOOR(...) of it, one group for each whole number, or have the steward declare it as integer.",
        )
    if table.unit in [part.name for part in walk(key) if isinstance(part, Column)]:
        why = "it is the protected unit: every group would be one person."
        refuse("unit-grouping", f"GROUP BY `{table.unit}`", why, f"Ask for {units_text(table.unit)}.")


def _groups_per_unit(table: Table, group_count: int | None) -> tuple[int, bool]:
    """In how many groups one unit may count, and whether that must be enforced."""
    if table.by_row:
        return 1, False
    if table.groups_per_unit is None and group_count is None:
        why = "one unit could be in any number of groups, and the groups are not public."
        instead = "Group by columns whose values are declared, or ask with groups=5"
        refuse("unbounded-groups", "GROUP BY", why, instead, f"groups_per_unit for `{table.name}`")
    if group_count is None:
        return table.groups_per_unit or 1, True
    groups = group_count if table.groups_per_unit is None else min(group_count, table.groups_per_unit)
    return groups, groups < group_count
