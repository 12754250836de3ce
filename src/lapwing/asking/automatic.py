"""What a question needs found before it can be answered: bounds of columns and limits that are "auto".

Only what is needed is found. A column is needed if the question is refused without bounds of it; a limit of rows if it
is refused without one; a limit of groups wherever one unit could be in several. All of this follows from the question
and from declared facts. Once something is found, the question is read again as if it had been declared, so that bounds,
joins, plans and stored answers need no rule of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from lapwing.catalog.table import Catalog, Limit, Table
from lapwing.cells.bounds_search import BoundsOf, LimitOf, SearchResult, Target
from lapwing.errors import Misconfigured, Refused
from lapwing.language.types import Interval
from lapwing.numbers import Number, inside_unit
from lapwing.planning.plan import Outline, make_outline
from lapwing.planning.question import Question

AUTO = "auto"
"""Written in place of bounds or limits to search for."""
SHARE = 0.35
"""The default share of the price for all searches together."""

QuestionReader = Callable[[Catalog], Question]
"""Reads one question with what a catalog declares; raises Refused."""


@dataclass(frozen=True, slots=True)
class Automatic:
    """What an analyst lets be found, besides what the steward does, and for which share of the price."""

    bounds: bool = False
    limits: bool = False
    share: Fraction = Fraction(7, 20)


NOTHING = Automatic()
"""Only what the steward lets be found."""


def read_automatic(bounds: Any, limits: Any, find_share: Number) -> Automatic:
    """What the words of a question ask for."""
    if bounds is limits is None and find_share is SHARE:
        return NOTHING
    for name, word in (("bounds", bounds), ("limits", limits)):
        if word is not None and not (isinstance(word, str) and word == AUTO):
            raise Misconfigured(
                f'`{name}` must be "auto" here; what is known is declared by the steward. Leave it out.'
            )
    return Automatic(bounds is not None, limits is not None, inside_unit(find_share, "find_share"))


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be found for a question, in the order in which it is."""

    columns: tuple[BoundsOf, ...] = ()
    limits: tuple[Limit, ...] = ()
    widest: Question | None = None
    """The question with the widest bounds of these columns, if something must be found."""

    @property
    def many(self) -> int:
        return len(self.columns) + len(self.limits)


def needs_of(read: QuestionReader, catalog: Catalog, automatic: Automatic) -> Needs:
    """What must be found; raises Refused if the question is refused whatever is found."""
    columns = _candidates(catalog, automatic)
    if not columns and not automatic.limits and not any(table.auto for table in catalog.tables):
        return Needs()
    widest = _widest(read, catalog, columns, automatic)
    names = {base.name for base in widest.table.bases}
    columns = tuple(column for column in columns if column.table.name in names)
    for column in columns:
        fewer = tuple(other for other in columns if other is not column)
        with suppress(Refused):
            _widest(read, catalog, fewer, automatic)
            columns = fewer
    question = read(_declaring(catalog, {column: column.widest for column in columns}))
    return Needs(columns, _limits(question, automatic), question)


def is_refused(question: Question) -> bool:
    """Whether the question is refused at every price."""
    try:
        make_outline(question)
    except Refused:
        return True
    return False


def _candidates(catalog: Catalog, automatic: Automatic) -> tuple[BoundsOf, ...]:
    """Columns whose bounds may be found."""
    return tuple(
        BoundsOf(table, field)
        for table in catalog.tables
        for field in table.fields
        if not table.public and field.bounds is None and field.type.is_number and field.name != table.unit
        if field.auto or automatic.bounds
    )


def _limits(question: Question, automatic: Automatic) -> tuple[Limit, ...]:
    """The limits that must be found: of rows if there is no other way, of groups if a unit may be in several."""
    wanted = _open_limits(question.table, automatic)
    outline = make_outline(_with_limits(question, dict.fromkeys(wanted, 1)))
    if outline.is_declared:
        return ()
    needed = []
    others: dict[Limit, int] = {limit: 1 for limit in wanted if limit is not Limit.ROWS}
    if Limit.ROWS in wanted and is_refused(_with_limits(question, others)):
        needed.append(Limit.ROWS)
    chosen = any(kind.chosen_groups for kind in outline.kinds)
    if Limit.GROUPS in wanted and outline.group_count != 1 and not chosen:
        needed.append(Limit.GROUPS)
    return tuple(needed)


def _open_limits(table: Table, automatic: Automatic) -> tuple[Limit, ...]:
    """Limits of a question's rows that may be found: asked for, or left open by the steward, and not declared."""
    if table.by_row:
        return ()
    declared = {Limit.ROWS: table.rows_per_unit, Limit.GROUPS: table.groups_per_unit}
    left_open = {limit for base in table.bases for limit in base.auto}
    return tuple(limit for limit in Limit if declared[limit] is None and (automatic.limits or limit in left_open))


def _widest(read: QuestionReader, catalog: Catalog, columns: Sequence[BoundsOf], automatic: Automatic) -> Outline:
    """The question with the widest bounds of these columns and the least limits."""
    question = read(_declaring(catalog, {column: column.widest for column in columns}))
    return make_outline(_with_limits(question, dict.fromkeys(_open_limits(question.table, automatic), 1)))


def _declaring(catalog: Catalog, found: Mapping[BoundsOf, Interval]) -> Catalog:
    """The catalog with these bounds declared."""
    known = {(column.table.name, column.field.name): interval for column, interval in found.items()}

    def declared(table: Table) -> Table:
        fields = (
            replace(field, bounds=known[table.name, field.name], auto=False)
            if (table.name, field.name) in known
            else field
            for field in table.fields
        )
        return replace(table, fields=tuple(fields))

    return Catalog(tuple(declared(table) if not table.public else table for table in catalog.tables))


def _with_limits(question: Question, limits: Mapping[Limit, int]) -> Question:
    """The question with these limits declared for the rows that it aggregates."""
    table = question.table
    rows, groups = limits.get(Limit.ROWS, table.rows_per_unit), limits.get(Limit.GROUPS, table.groups_per_unit)
    return replace(question, table=replace(table, rows_per_unit=rows, groups_per_unit=groups, auto=frozenset()))


@dataclass(frozen=True, slots=True)
class Overview:
    """The question with all that is known by now; what is not found stands at its widest bounds and at 1."""

    question: Question
    found: tuple[SearchResult, ...]
    missing: tuple[Target, ...]


def survey(
    read: QuestionReader, catalog: Catalog, needs: Needs, known: Callable[[Target], SearchResult | None]
) -> Overview:
    """What is known and what is missing; raises Refused if what is known rules the question out.

    Bounds come first: a limit may be one of rows that they play a part in.
    """
    found: list[SearchResult] = []
    missing: list[Target] = []
    bounds = {}
    for column in needs.columns:
        one = known(column)
        bounds[column] = column.widest if one is None or one.is_nothing else column.interval(*one.powers)
        _sort(column, one, found, missing)
    question = read(_declaring(catalog, bounds)) if bounds else read(catalog)
    least = make_outline(_with_limits(question, dict.fromkeys(needs.limits, 1)))
    limits = {}
    for limit in needs.limits:
        target = LimitOf(question, least.domain, limit)
        one = known(target)
        limits[limit] = 1 if one is None or one.is_nothing else target.most(*one.powers)
        _sort(target, one, found, missing)
    return Overview(_with_limits(question, limits) if limits else question, tuple(found), tuple(missing))


def _sort(target: Target, one: SearchResult | None, found: list[SearchResult], missing: list[Target]) -> None:
    if one is None:
        missing.append(target)
    else:
        found.append(one)
