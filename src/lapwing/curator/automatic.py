"""What a question needs found before it can be answered: bounds of columns and limits that are "auto".

Only what is needed is found. A column is needed if the question is refused without bounds of it; a limit of rows if it
is refused without one; a limit of groups wherever one unit could be in several. All of this follows from the question
and from declared facts. Once something is found, the question is read again as if it had been declared, so that bounds,
joins, plans and stored answers need no rule of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.expression import Column, Expression, walk
from lapwing.expressions.table import Catalog, Limit, Table
from lapwing.expressions.types import Interval
from lapwing.numbers import Number, inside_unit
from lapwing.plan.bounds_search import BoundsOf, LimitOf, SearchResult, Target
from lapwing.plan.plan import Outline, make_outline
from lapwing.plan.question import Question, with_limits
from lapwing.sql.relation import substitute
from lapwing.terms import SEARCH_SHARE

T = TypeVar("T")

AUTO = "auto"
"""Written in place of bounds or limits to search for."""

QuestionReader = Callable[[Catalog], Question]
"""Reads one question with what a catalog declares; raises Refused."""


@dataclass(frozen=True, slots=True)
class Automatic:
    """The searches that an analyst allows beside the steward's, and their share of the price."""

    bounds: bool = False
    limits: bool = False
    share: Fraction = Fraction(7, 20)


NOTHING = Automatic()
"""Only what the steward lets be found."""


def read_automatic(bounds: Any, limits: Any, find_share: Number) -> Automatic:
    if bounds is limits is None and find_share is SEARCH_SHARE:
        return NOTHING
    for name, word in (("bounds", bounds), ("limits", limits)):
        if word is not None and not (isinstance(word, str) and word == AUTO):
            numbers = 'bounds={"cost": (0, 500)}, rows=20 or groups=3'
            raise Misconfigured(f'`{name}` must be "auto" here. Numbers are written {numbers}. Nothing was charged.')
    return Automatic(bounds is not None, limits is not None, inside_unit(find_share, "find_share"))


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be found for a question, in order."""

    columns: tuple[BoundsOf, ...] = ()
    limits: tuple[Limit, ...] = ()
    widest: Question | None = None
    """The question with the widest bounds of these columns, if something must be found."""

    @property
    def many(self) -> int:
        return len(self.columns) + len(self.limits)


def needs_of(read: QuestionReader, catalog: Catalog, automatic: Automatic) -> Needs:
    """What must be found; raises Refused if no search could help."""
    columns = _candidates(catalog, automatic)
    if not columns and not automatic.limits and not any(table.auto for table in catalog.tables):
        return Needs()
    widest = _widest(read, catalog, columns, automatic)
    names = {base.name for base in widest.table.bases}
    columns = tuple(column for column in columns if column.table.name in names)
    if widest.table.source is None:
        columns = _needed_here(widest, columns, automatic)
    else:
        columns = least_facts(columns, lambda kept: _is_read(read, catalog, kept, automatic))
    question = read(declaring(catalog, [(column, column.widest) for column in columns]))
    return Needs(columns, _limits(question, automatic), question)


def words_needed(read: QuestionReader, catalog: Catalog, *, delta: bool) -> list[str]:
    """Which of bounds and limits must be found, if all may be; raises Refused if the question is refused even so.
    None if its keys need a delta, and the budget has none.

    The question is read twice, however many columns there are.
    """
    automatic = Automatic(bounds=True, limits=True)
    widest = _widest(read, catalog, _candidates(catalog, automatic), automatic)
    if not delta and make_outline(_least(widest, automatic)).domain is None:
        return []
    bounds = [] if _is_read(read, catalog, (), automatic) else ["bounds"]
    return bounds + (["limits"] if _limits(widest, automatic) else [])


def least_facts(
    facts: tuple[T, ...], accepted: Callable[[tuple[T, ...]], bool], kept: tuple[T, ...] = ()
) -> tuple[T, ...]:
    """The facts that are left if each is left out in turn, unless the question is refused without it.

    More facts never refuse a question, so those that can be left out together are; others are halved.
    """
    if not facts or accepted(kept):
        return ()
    if len(facts) == 1:
        return facts
    half = len(facts) // 2
    first = least_facts(facts[:half], accepted, kept + facts[half:])
    return first + least_facts(facts[half:], accepted, kept + first)


def least_outline(read: QuestionReader, catalog: Catalog, automatic: Automatic) -> Outline:
    """The outline if whatever may be found is found; raises Refused if the question is refused even so."""
    needs = needs_of(read, catalog, automatic)
    question = read(catalog) if needs.widest is None else needs.widest
    return make_outline(with_limits(question, dict.fromkeys(needs.limits, 1)))


def _needed_here(question: Question, columns: tuple[BoundsOf, ...], automatic: Automatic) -> tuple[BoundsOf, ...]:
    """The needed columns of a stored table. The keys, and each aggregate, need bounds of what they read themselves."""
    asked = replace(_least(question, automatic), outputs=(), having=None, order=(), limit=None)
    places = {column.field.name: place for place, column in enumerate(columns)}
    needed: set[str] = set()
    for aggregates in ((), *((aggregate,) for aggregate in question.aggregates)):
        arguments = [argument for aggregate in aggregates for argument in aggregate.arguments] or question.keys
        read = {leaf.name for argument in arguments for leaf in walk(argument) if isinstance(leaf, Column)}
        own = tuple(sorted(read & places.keys(), key=places.__getitem__))
        needed.update(least_facts(own, partial(_is_accepted, replace(asked, aggregates=aggregates), own)))
    return tuple(column for column in columns if column.field.name in needed)


def _is_accepted(question: Question, own: tuple[str, ...], kept: tuple[str, ...]) -> bool:
    """Whether the question is accepted with bounds of those of its own columns that are kept."""
    loose = {*own} - {*kept}

    def bare(expression: Expression) -> Expression:
        columns = {leaf for leaf in walk(expression) if isinstance(leaf, Column) and leaf.name in loose}
        return substitute(expression, {leaf: replace(leaf, bounds=None) for leaf in columns})

    keys = tuple(map(bare, question.keys))
    aggregates = tuple(replace(one, arguments=tuple(map(bare, one.arguments))) for one in question.aggregates)
    return not is_refused(replace(question, keys=keys, aggregates=aggregates))


def is_refused(question: Question) -> bool:
    try:
        make_outline(question)
    except Refused:
        return True
    return False


def _candidates(catalog: Catalog, automatic: Automatic) -> tuple[BoundsOf, ...]:
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
    outline = make_outline(with_limits(question, dict.fromkeys(wanted, 1)))
    if outline.is_declared:
        return ()
    needed = []
    others: dict[Limit, int] = {limit: 1 for limit in wanted if limit is not Limit.ROWS}
    if Limit.ROWS in wanted and is_refused(with_limits(question, others)):
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


def _widest(read: QuestionReader, catalog: Catalog, columns: Sequence[BoundsOf], automatic: Automatic) -> Question:
    """The question with the widest bounds of these columns; raises Refused unless the least limits answer it."""
    question = read(declaring(catalog, [(column, column.widest) for column in columns]))
    make_outline(_least(question, automatic))
    return question


def _is_read(read: QuestionReader, catalog: Catalog, columns: Sequence[BoundsOf], automatic: Automatic) -> bool:
    try:
        _widest(read, catalog, columns, automatic)
    except Refused:
        return False
    return True


def _least(question: Question, automatic: Automatic) -> Question:
    """The question with the least limits that may be found."""
    return with_limits(question, dict.fromkeys(_open_limits(question.table, automatic), 1))


def declaring(catalog: Catalog, found: Iterable[tuple[BoundsOf, Interval]]) -> Catalog:
    known = {(column.table.name, column.field.name): interval for column, interval in found}

    def declared(table: Table) -> Table:
        fields = (
            replace(field, bounds=known[table.name, field.name], auto=False)
            if (table.name, field.name) in known
            else field
            for field in table.fields
        )
        return replace(table, fields=tuple(fields))

    return Catalog(tuple(declared(table) if not table.public else table for table in catalog.tables))


@dataclass(frozen=True, slots=True)
class Overview:
    """The question with all that is known by now; what is missing has its widest bounds, or a limit of 1."""

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
    bounds = []
    for column in needs.columns:
        one = known(column)
        bounds.append((column, column.widest if one is None or one.is_nothing else column.interval(*one.powers)))
        _sort(column, one, found, missing)
    question = read(declaring(catalog, bounds)) if bounds else read(catalog)
    least = make_outline(with_limits(question, dict.fromkeys(needs.limits, 1)))
    limits = {}
    for limit in needs.limits:
        target = LimitOf(question, least.domain, limit)
        one = known(target)
        limits[limit] = 1 if one is None or one.is_nothing else target.most(*one.powers)
        _sort(target, one, found, missing)
    return Overview(with_limits(question, limits) if limits else question, tuple(found), tuple(missing))


def _sort(target: Target, one: SearchResult | None, found: list[SearchResult], missing: list[Target]) -> None:
    if one is None:
        missing.append(target)
    else:
        found.append(one)
