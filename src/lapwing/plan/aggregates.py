"""The table of aggregates over private rows, which measures answer a list of them, and which limits can cut these.

Aggregates of the same values share one measure where they can: where a mean is asked, its count and its sum come with
it; where a variance is asked, the mean does too; quantiles of one argument are one release.

A limit can bind if some table within the declared facts has a unit that it cuts. What an answer says of its limits
follows from the question and from declared facts alone, whatever the rows hold:

    rows     a unit has more rows in a group than rows_per_unit, and the aggregate reads them all
             (COUNT(DISTINCT unit) does not, and one row per unit is never too many)
    groups   a unit is in more groups than groups_per_unit, and there are more
    bounds   a column holds a value beyond its bounds where its number is used, in the answer or in a subquery
    totals   a unit's total in a group lies beyond `unit_bounds`
Checked by: tests/plan/test_contribution_limits.py
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.derived import Joined, PerUnit, United
from lapwing.expressions.expression import Call, Column, Expression
from lapwing.expressions.operators.dates import DIFFERENCES
from lapwing.expressions.operators.table import bounds_of, extent_of
from lapwing.expressions.phrases import expression_text, shorten
from lapwing.expressions.table import Field, Table
from lapwing.expressions.to_sqlglot import clipped_columns
from lapwing.expressions.types import Interval, Type
from lapwing.plan import moments
from lapwing.plan.kind import Kind, Reading, Surplus
from lapwing.plan.moments import MEAN, MOMENTS, PAIRS
from lapwing.plan.quantiles import QUANTILE
from lapwing.plan.total import COUNT_DISTINCT, COUNT_VALUES, COUNTS, SUM

FUNCTIONS = {function.name: function for function in (*COUNTS, COUNT_DISTINCT, SUM, *MOMENTS, *PAIRS, QUANTILE)}
"""Every aggregate there is."""


def choose_kinds(
    table: Table,
    aggregates: Sequence[Aggregate],
    *,
    group_count: int | None = None,
    confidence: Fraction | None = Fraction(19, 20),
) -> tuple[tuple[Kind, ...], tuple[Reading, ...]]:
    """The measures that answer these aggregates, as few as possible, and how each aggregate is read off them.

    Without `confidence` quantiles have no intervals.
    """
    averaged = _averaged(aggregates)
    families: dict[tuple[str, object], list[Kind]] = {}
    places: dict[tuple[str, object], int] = {}
    levels: dict[tuple[str, object], set[tuple[Fraction, ...]]] = {}
    for aggregate in aggregates:
        levels.setdefault((aggregate.name, aggregate.arguments), set()).add(aggregate.parameters)
    ranks = {key: {level: rank for rank, level in enumerate(sorted(of))} for key, of in levels.items()}
    readings = []
    for aggregate in aggregates:
        function = FUNCTIONS[aggregate.name]
        shared = aggregate.arguments in averaged and _comes_along(table, aggregate)
        family = moments.FAMILY if shared else function.family
        source = Aggregate(MEAN.name, aggregate.arguments) if shared and not function.family else aggregate
        key = (family, aggregate.arguments) if family else ("", aggregate)
        families.setdefault(key, []).append(FUNCTIONS[source.name].kind(table, source))
        rank = ranks[aggregate.name, aggregate.arguments][aggregate.parameters]
        place = places.setdefault(key, len(places))
        readings.append(Reading(place, aggregate.name if family else "total", rank))
    kinds = [first.merge(others).fit(group_count, confidence) for first, *others in families.values()]
    return tuple(kinds), tuple(readings)


def _averaged(aggregates: Sequence[Aggregate]) -> set[object]:
    """The arguments of which a mean or a variance is asked."""
    return {a.arguments for a in aggregates if FUNCTIONS[a.name].family == moments.FAMILY}


def _comes_along(table: Table, aggregate: Aggregate) -> bool:
    """Whether the moments of its argument answer it: not where a unit's sum is clipped to bounds of its own."""
    argument = aggregate.arguments[0]
    own = isinstance(argument, Column) and table.field(argument.name).unit_bounds is not None
    average = FUNCTIONS[aggregate.name].family == moments.FAMILY
    return average or aggregate.name == COUNT_VALUES.name or (aggregate.name == SUM.name and not own)


_DIFFERENCES = set(DIFFERENCES.values())
COVERED = "The interval covers the clipped data only."


@dataclass(frozen=True, slots=True)
class Bounded:
    """A column of a table, stored or derived, whose numbers are clipped to bounds."""

    table: Table
    field: Field


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that can bind."""

    table: Table
    rows: int | None = None
    """More rows of a unit in a group do not count in full."""
    groups: int | None = None
    """More groups of a unit do not count."""
    bounds: tuple[Bounded, ...] = ()
    totals: tuple[Field, ...] = ()
    """Columns whose total for a unit in a group is clipped to `unit_bounds`."""

    def __bool__(self) -> bool:
        return self.rows is not None or self.groups is not None or bool(self.bounds or self.totals)


def limits_of(table: Table, aggregates: Sequence[Aggregate], groups: int | None) -> Limits:
    """The limits that can bind for these aggregates; `groups` if the engine must choose that many for each unit."""
    bounds = tuple(dict.fromkeys(_bounds(table, aggregates)))
    if table.by_row:
        return Limits(table, bounds=bounds)
    totals = tuple(dict.fromkeys([field for a in aggregates if (field := _total_field(table, a)) is not None]))
    if has_one_row(table):
        return Limits(table, bounds=bounds, totals=totals)
    capped = [a for a in aggregates if _surplus(a) is not Surplus.NONE and _total_field(table, a) is None]
    return Limits(table, table.rows_per_unit if capped else None, groups, bounds, totals)


def has_one_row(table: Table) -> bool:
    """Whether no unit can have two rows: grouped by the unit alone, and joined with at most one row each."""
    match table.source:
        case PerUnit(keys=keys):
            return not keys
        case Joined(left=left, right=right, by_unit=by_unit):
            return has_one_row(left) and (not by_unit or has_one_row(right))
        case _:
            return False


def limit_notes(
    table: Table, aggregates: Sequence[Aggregate], groups: int | None, *, grouped: bool, group: str = "group"
) -> tuple[str, ...]:
    """What an answer says of its limits; nothing if none can bind."""
    limits, unit = limits_of(table, aggregates, groups), unit_words(table)
    if not limits:
        return ()
    inside = f" in a {group}" if grouped else ""
    said = [_counted(limits, aggregates, unit, inside, group), *_weighed(limits, aggregates, unit, inside)]
    said += [_totalled(limits, a, unit, inside) for a in aggregates if _is_total(table, a, aggregates)]
    said += [_clipped(limits.bounds)]
    return (" ".join([*filter(None, dict.fromkeys(said)), COVERED]),)


def rests_on_dates(aggregate: Aggregate, table: Table) -> bool:
    """Whether the bounds of what it aggregates are those of DATE_DIFF over all dates that there are.

    They are if they change with those: not where CLIP, a condition or a remainder bounds the difference.
    """
    if not aggregate.arguments or not FUNCTIONS[aggregate.name].clips:
        return False
    return any(_rests(argument, table) for argument in aggregate.arguments)


def _rests(expression: Expression, table: Table) -> bool:
    if isinstance(expression, Column) and table.source is None:
        return False
    return extent_of(expression) != extent_of(_widened(expression, _resting(table)))


def _widened(expression: Expression, resting: Collection[str]) -> Expression:
    """The expression with twice the bounds wherever they are those of dates."""
    match expression:
        case Column(bounds=Interval()) as column if column.name in resting:
            return replace(column, bounds=column.bounds and column.bounds.times(2))
        case Call(operator=operator) if operator in _DIFFERENCES:
            bounds = bounds_of(expression)
            return Column("", Type.INTEGER, bounds and bounds.times(2))
        case Call(arguments=arguments) as call:
            return replace(call, arguments=tuple(_widened(argument, resting) for argument in arguments))
        case _:
            return expression


def _resting(table: Table) -> frozenset[str]:
    """The columns of a derived table whose bounds are those of dates."""
    match table.source:
        case Joined(left=left, right=right):
            flags = [field.name in _resting(side) for side in (left, right) for field in side.fields]
        case United(sides=sides):
            columns = zip(*(side.columns for side in sides), strict=True)
            flags = [any(_rests(e, side.table) for e, side in zip(each, sides, strict=True)) for each in columns]
        case PerUnit(table=inner, keys=keys, aggregates=aggregates):
            numbers = [() if a.name.startswith("count") else a.arguments for a in aggregates]
            read = [(), *((key,) for key in keys), *numbers]
            flags = [any(_rests(e, inner) for e in expressions) for expressions in read]
        case _:
            return frozenset()
    return frozenset(field.name for field, flag in zip(table.fields, flags, strict=False) if flag)


def unit_words(table: Table) -> str:
    """One unit: "a tailnum", "an id"."""
    name = table.unit or "row"
    return f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"


def unit_plural(table: Table) -> str:
    """Several units: "tailnums", or "rows" where these are units."""
    name = table.unit or "row"
    return "people" if name == "person" else name if name[-1].lower() == "s" else f"{name}s"


def _surplus(aggregate: Aggregate) -> Surplus:
    return FUNCTIONS[aggregate.name].surplus


def _counted(limits: Limits, aggregates: Sequence[Aggregate], unit: str, inside: str, group: str) -> str:
    """How many rows, values and groups count."""
    kinds = dict.fromkeys(map(_surplus, aggregates))
    counts = {Surplus.DROPPED: "rows", Surplus.DIFFERENT: "different values"}
    parts = []
    if limits.rows is not None:
        what = [words if limits.rows > 1 else words[:-1] for kind, words in counts.items() if kind in kinds]
        parts += [f"at most {limits.rows:,} {one} of {unit}{inside}" for one in what]
    if limits.groups is not None:
        parts += [f"{unit} in at most {limits.groups:,} {group}{'s' if limits.groups > 1 else ''}"]
    return f"Counts {', and '.join(parts)}; the rest is left out." if parts else ""


def _weighed(limits: Limits, aggregates: Sequence[Aggregate], unit: str, inside: str) -> list[str]:
    if limits.rows is None or not any(_surplus(a) is Surplus.WEIGHED for a in aggregates):
        return []
    return [f"More than {limits.rows:,} rows of {unit}{inside} weigh as much as {limits.rows:,}."]


def _totalled(limits: Limits, aggregate: Aggregate, unit: str, inside: str) -> str:
    """To what the total of a unit is clipped."""
    (argument,) = aggregate.arguments
    field, bounds = _total_field(limits.table, aggregate), bounds_of(argument)
    own = None if field is None else field.unit_bounds
    if own is None and (limits.rows is None or bounds is None):
        return ""
    interval = own if own is not None or bounds is None else bounds.times(limits.rows or 1)
    return f"The total of {_quoted(aggregate)} for {unit}{inside} is cut to {interval}."


def _is_total(table: Table, aggregate: Aggregate, aggregates: Sequence[Aggregate]) -> bool:
    """Whether a unit's total is clipped: not where the sum comes along with a mean, whose rows weigh less."""
    alone = aggregate.arguments not in _averaged(aggregates) or _total_field(table, aggregate) is not None
    return _surplus(aggregate) is Surplus.CLIPPED and alone


def _quoted(aggregate: Aggregate) -> str:
    return f"`{shorten(expression_text(aggregate.arguments[0]))}`"


def _clipped(bounds: Sequence[Bounded]) -> str:
    if not bounds:
        return ""
    first, *others = bounds
    more = "".join(f", of `{one.field.name}` to {one.field.bounds}" for one in others)
    return f"Values of `{first.field.name}` are cut to {first.field.bounds}{more}."


def _total_field(table: Table, aggregate: Aggregate) -> Field | None:
    """The column whose total is clipped to bounds that the steward declared for it."""
    if _surplus(aggregate) is not Surplus.CLIPPED or not isinstance(aggregate.arguments[0], Column):
        return None
    field = table.field(aggregate.arguments[0].name)
    return None if field.unit_bounds is None else field


def _bounds(table: Table, aggregates: Sequence[Aggregate]) -> Iterator[Bounded]:
    """The columns that these aggregates clip, and those that subqueries below them do."""
    for aggregate in aggregates:
        if FUNCTIONS[aggregate.name].clips:
            for argument in aggregate.arguments:
                yield from (Bounded(table, table.field(column.name)) for column in clipped_columns(argument))
    match table.source:
        case PerUnit(table=inner, aggregates=within):
            yield from _bounds(inner, [a for a in within if a.name in (SUM.name, MEAN.name)])
        case None:
            return
        case source:
            for one in source.tables:
                if not one.public:
                    yield from _bounds(one, ())
