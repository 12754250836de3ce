"""The limits and bounds that an analyst chooses for a question, in place of those that the steward declared.

Guarantee:  an answer on chosen limits has the guarantee of an answer on declared ones, at the same price.
Proof:      the question is read with a catalog whose tables have the chosen limits and bounds, and everything that
            follows is made from it: the sensitivity, the noise, the identity, and the query, by which the engine drops
            the rows and groups beyond these limits and clips to these bounds. No proof uses that a limit was declared;
            each uses that plan and query have the same one. Defaults and ceilings are declared facts, and limits are
            written by the analyst, so neither a refusal nor a price depends on rows.
Meaning:    in a question over one table its limits are replaced; in one over several, or over subqueries, those of each
            table, and those of the rows that the question aggregates where the chosen ones are lower.
Checked by: tests/curator/test_chosen_limits.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import nearest, refuse
from lapwing.expressions.table import Catalog, Field, Limit, Table
from lapwing.expressions.types import Interval, text_of
from lapwing.numbers import count, exact
from lapwing.plan.postprocessed import SplitStatement
from lapwing.plan.question import Question, with_limits

_EXAMPLE = 'Write bounds={"cost": (0, 500)}. Nothing was charged.'


@dataclass(frozen=True, slots=True)
class ChosenLimits:
    """What an analyst chooses; None, and columns that are not named, stay as declared."""

    rows: int | None = None
    groups: int | None = None
    bounds: tuple[tuple[str, Interval], ...] = ()

    def __bool__(self) -> bool:
        return self != DECLARED

    def declare(self, catalog: Catalog) -> Catalog:
        """The catalog with these limits and bounds in place of the declared ones; raises Refused above a ceiling."""
        chosen: dict[tuple[str, str], Interval] = {}
        for name, interval in self.bounds:
            table, field = _column(catalog, name)
            if field.widest is not None and not field.widest.holds(interval):
                why = f"{interval} was chosen, and at most {field.widest} may be."
                written = f"({text_of(field.widest.low)}, {text_of(field.widest.high)})"
                refuse("wrong-argument", f"the bounds of `{name}`", why, f'Write bounds={{"{name}": {written}}}.')
            chosen[table.name, field.name] = interval
        return Catalog(tuple(table if table.public else self._declared(table, chosen) for table in catalog.tables))

    def limit(self, question: Question) -> Question:
        """A question that was read with the chosen catalog, with these limits; raises Refused above a ceiling."""
        table = question.table
        self.check(table)
        named = {Limit.ROWS: self.rows, Limit.GROUPS: self.groups}
        derived = {Limit.ROWS: table.rows_per_unit, Limit.GROUPS: table.groups_per_unit}
        limits = {
            limit: number if (own := derived[limit]) is None else min(number, own)
            for limit, number in named.items()
            if number is not None
        }
        if limits == {limit: derived[limit] for limit in limits}:
            return question
        limited = with_limits(question, limits)
        return replace(limited, table=replace(limited.table, auto=table.auto - limits.keys()))

    def limit_parts(self, read: Question | SplitStatement) -> Question | SplitStatement:
        if isinstance(read, Question):
            return self.limit(read)
        return replace(read, parts=tuple(self.limit(part) for part in read.parts))

    def check(self, table: Table) -> None:
        """Refuses limits that have no effect, and those above a ceiling of a table that its rows come from."""
        for name, number, ceiling in (("rows", self.rows, "most_rows"), ("groups", self.groups, "most_groups")):
            if number is None:
                continue
            if table.by_row:
                why = "every row is its own unit, which has one row in one group."
                refuse("wrong-argument", f"`{name}`", why, "Leave it out.")
            ceilings = [most for base in table.bases if (most := getattr(base, ceiling)) is not None]
            if ceilings and number > min(ceilings):
                why = f"{number:,} was chosen, and at most {min(ceilings):,} may be."
                refuse("wrong-argument", f"`{name}`", why, f"Write {name}={min(ceilings)}.")

    def _declared(self, table: Table, chosen: Mapping[tuple[str, str], Interval]) -> Table:
        fields = tuple(
            replace(field, bounds=chosen[table.name, field.name], auto=False)
            if (table.name, field.name) in chosen
            else field
            for field in table.fields
        )
        if table.by_row:
            return replace(table, fields=fields)
        named = {Limit.ROWS: self.rows, Limit.GROUPS: self.groups}
        limits: dict[str, Any] = {limit.value: number for limit, number in named.items() if number is not None}
        auto = frozenset(limit for limit in table.auto if limit.value not in limits)
        return replace(table, fields=fields, auto=auto, **limits)


DECLARED = ChosenLimits()
"""Nothing is chosen."""


def read_chosen(rows: Any, groups: Any, bounds: Any) -> ChosenLimits:
    """The limits that were named; raises Misconfigured."""
    named = bounds if isinstance(bounds, Mapping) else {}
    if not all(isinstance(name, str) for name in named):
        raise Misconfigured(f"`bounds` must be by column. {_EXAMPLE}")
    intervals = sorted((name, read_interval(ends)) for name, ends in named.items())
    rows, groups = (
        None if limit is None else count(limit, name) for name, limit in (("rows", rows), ("groups", groups))
    )
    return ChosenLimits(rows, groups, tuple(intervals))


def read_interval(value: object) -> Interval:
    """Two numbers, the lower first."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise Misconfigured("bounds must be two numbers, the lower first, for example [0, 100].")
    return Interval(exact(value[0], "the lower bound"), exact(value[1], "the upper bound"))


def _column(catalog: Catalog, name: str) -> tuple[Table, Field]:
    """The column that bounds name: by itself if one private table has it, else as table.column."""
    private = [table for table in catalog.tables if not table.public]
    pairs = [(table, field) for table in private for field in table.fields]
    found = [
        (table, field)
        for table, field in pairs
        if name.lower() in (field.name.lower(), f"{table.name}.{field.name}".lower())
    ]
    part = f"the bounds of `{name}`"
    if not found:
        known = nearest(
            name, (field.name for table, field in pairs if field.type.is_number and field.name != table.unit)
        )
        refuse("unknown-column", part, "no private table has such a column.", known)
    table, field = found[0]
    if len(found) > 1:
        why = f"{len(found)} tables have such a column."
        refuse("ambiguous", part, why, f'Write bounds={{"{table.name}.{field.name}": (0, 500)}}.')
    if not field.type.is_number or field.name == table.unit:
        refuse("wrong-argument", part, "only columns of numbers have bounds, and no unit has.", "Leave it out.")
    return table, field
