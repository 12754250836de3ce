"""The table of aggregates over private rows, and which measures answer a list of them.

Aggregates of the same values share one measure where they can: where a mean is asked, its count and its sum come with
it; where a variance is asked, the mean does too; quantiles of one argument are one release.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Column
from lapwing.expressions.table import Table
from lapwing.plan import moments
from lapwing.plan.distinct import COUNT_DISTINCT
from lapwing.plan.kind import Kind, Reading
from lapwing.plan.moments import MEAN, MOMENTS
from lapwing.plan.pair import PAIRS
from lapwing.plan.quantiles import QUANTILE
from lapwing.plan.total import COUNT_VALUES, COUNTS, SUM

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
    averaged = {a.arguments for a in aggregates if FUNCTIONS[a.name].family == moments.FAMILY}
    found: dict[tuple[str, object], list[Kind]] = {}
    places: dict[tuple[str, object], int] = {}
    levels: dict[tuple[str, object], set[tuple[Fraction, ...]]] = {}
    for one in aggregates:
        levels.setdefault((one.name, one.arguments), set()).add(one.parameters)
    ranks = {key: {level: rank for rank, level in enumerate(sorted(of))} for key, of in levels.items()}
    readings = []
    for aggregate in aggregates:
        function = FUNCTIONS[aggregate.name]
        shared = aggregate.arguments in averaged and _comes_along(table, aggregate)
        family = moments.FAMILY if shared else function.family
        source = Aggregate(MEAN.name, aggregate.arguments) if shared and not function.family else aggregate
        kind = FUNCTIONS[source.name].kind(table, source)
        key = (family, aggregate.arguments) if family else ("", aggregate)
        found.setdefault(key, []).append(kind)
        place = places.setdefault(key, len(places))
        rank = ranks[aggregate.name, aggregate.arguments][aggregate.parameters]
        readings.append(Reading(place, aggregate.name if family else "total", rank))
    kinds = (first.merge(others) for first, *others in found.values())
    return tuple(kind.fit(group_count, confidence) for kind in kinds), tuple(readings)


def _comes_along(table: Table, aggregate: Aggregate) -> bool:
    """Whether the moments of its argument answer it: not where a unit's sum is clipped to bounds of its own."""
    argument = aggregate.arguments[0]
    own = isinstance(argument, Column) and table.field(argument.name).unit_bounds is not None
    average = FUNCTIONS[aggregate.name].family == moments.FAMILY
    return average or aggregate.name == COUNT_VALUES.name or (aggregate.name == SUM.name and not own)
