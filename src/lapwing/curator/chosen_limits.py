"""The limits and bounds that an analyst chooses for a question, in place of those that the steward declared.

Guarantee:  an answer on chosen limits has the guarantee of an answer on declared ones, at the same price.
Proof:      the question is read with a catalog whose tables have the chosen limits and bounds, and everything that
            follows is made from it: sensitivity, noise, identity, and the query by which the engine enforces limits and
            bounds. No proof uses that a limit was declared; each uses that plan and query have the same one. Defaults
            and ceilings are declared facts, so neither a refusal nor a price depends on rows.
Meaning:    the limits of every table are replaced, and of joined or grouped rows what follows from them, if it is more.
Checked by: tests/curator/test_chosen_limits.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lapwing.curator.automatic import declaring
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import nearest, refuse
from lapwing.expressions.table import Catalog, Limit, Table
from lapwing.expressions.types import Interval, text_of
from lapwing.numbers import count, exact
from lapwing.plan.bounds_search import BoundsOf
from lapwing.plan.question import Question, with_limits


@dataclass(frozen=True, slots=True)
class ChosenLimits:
    """What an analyst chooses; None, and columns that are not named, stay as declared."""

    rows: int | None = None
    groups: int | None = None
    bounds: tuple[tuple[str, Interval], ...] = ()

    def __bool__(self) -> bool:
        return self != DECLARED

    @property
    def limits(self) -> dict[Limit, int]:
        named = ((Limit.ROWS, self.rows), (Limit.GROUPS, self.groups))
        return {limit: number for limit, number in named if number is not None}

    def declare(self, catalog: Catalog) -> Catalog:
        """The catalog with these limits and bounds in place of the declared ones; raises Refused above a ceiling."""
        columns = [(_column(catalog, name, ends), ends) for name, ends in self.bounds]
        limits: dict[str, Any] = {limit.value: number for limit, number in self.limits.items()}

        def limited(table: Table) -> Table:
            return replace(table, auto=frozenset(table.auto - self.limits.keys()), **limits)

        tables = declaring(catalog, columns).tables
        return Catalog(tuple(table if table.public or table.by_row else limited(table) for table in tables))

    def limit(self, question: Question) -> Question:
        """A question that was read with the chosen catalog, with these limits; raises Refused above a ceiling."""
        table = question.table
        self.check(table)
        limits = {limit: min(number, getattr(table, limit.value) or number) for limit, number in self.limits.items()}
        is_limited = all(getattr(table, limit.value) == number for limit, number in limits.items())
        return question if is_limited else with_limits(question, limits)

    def check(self, table: Table) -> None:
        """Refuses limits that have no effect, and those above a ceiling of a table that its rows come from."""
        for limit, number in self.limits.items():
            name = limit.name.lower()
            if table.by_row:
                refuse("wrong-argument", f"`{name}`", "every row is its own unit, in one group.", "Leave it out.")
            ceilings = [most for base in table.bases if (most := getattr(base, f"most_{name}")) is not None]
            if number > min(ceilings, default=number):
                why = f"{number:,} was chosen, and at most {min(ceilings):,} may be."
                refuse("wrong-argument", f"`{name}`", why, f"Write {name}={min(ceilings)}.")


DECLARED = ChosenLimits()
"""Nothing is chosen."""


def read_chosen(rows: Any, groups: Any, bounds: Any) -> ChosenLimits:
    """The limits that were named; raises Misconfigured."""
    named = bounds if isinstance(bounds, Mapping) else {}
    return ChosenLimits(
        None if rows is None else count(rows, "rows"),
        None if groups is None else count(groups, "groups"),
        tuple(sorted((str(name), read_interval(ends)) for name, ends in named.items())),
    )


def read_interval(value: object) -> Interval:
    """Two numbers, the lower first."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise Misconfigured("bounds must be two numbers, the lower first, for example [0, 100].")
    return Interval(exact(value[0], "the lower bound"), exact(value[1], "the upper bound"))


def _column(catalog: Catalog, name: str, ends: Interval) -> BoundsOf:
    """The column that bounds name: by itself if one private table has it, else as table.column."""
    private = [table for table in catalog.tables if not table.public]
    numbers = [BoundsOf(t, f) for t in private for f in t.fields if f.type.is_number and f.name != t.unit]
    long = [f"{column.table.name}.{column.field.name}" for column in numbers]
    same = [i for i, one in enumerate(numbers) if name.lower() in (one.field.name.lower(), long[i].lower())]
    part = f"the bounds of `{name}`"
    if not same:
        known = nearest(name, (column.field.name for column in numbers))
        refuse("unknown-column", part, "no private table has such a column of numbers.", known)
    if len(same) > 1:
        refuse("ambiguous", part, f"{len(same)} tables have it.", f'Write bounds={{"{long[same[0]]}": (0, 500)}}.')
    widest = numbers[same[0]].field.widest
    if widest is not None and not widest.holds(ends):
        written = f'Write bounds={{"{name}": ({text_of(widest.low)}, {text_of(widest.high)})}}.'
        refuse("wrong-argument", part, f"{ends} was chosen, and at most {widest} may be.", written)
    return numbers[same[0]]
