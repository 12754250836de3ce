"""What FROM reads, in SQL or Ibis: rows of one table, or an aggregation whose numbers are released.

Both compose by substitution: an outer name stands for the inner expression. So a question over subqueries becomes
one question over one table, stored or derived (joins.py, derive.py), and every bound is derived from
what is actually computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.derived import MOST_LEVELS, MOST_TABLES, Derived, levels_of, scans_of
from lapwing.expressions.expression import Call, Column, Expression, Key, Literal, Slot, walk
from lapwing.expressions.operators.base import join_terms
from lapwing.expressions.operators.logic import AND
from lapwing.expressions.phrases import types_of
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import UNIT_ID, Field, Table
from lapwing.expressions.types import Interval, Type
from lapwing.plan.question import Order, Output, Question, moved, zone_notes

NULL = Literal(None, None)
_MOST_BOUND = Fraction(1 << 62)
MOST_TOTAL = 40_000
"""The most parts of all expressions of a question together, written out in full."""

Columns = Mapping[str, Output]
"""Columns by lower-case name; SQL names are case-insensitive."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table, filtered, with columns computed row by row."""

    table: Table
    columns: Columns
    where: tuple[Expression, ...] = ()
    """Conditions, all of which must hold, inner ones first."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregation of rows; its columns are expressions over keys and released numbers."""

    rows: Rows
    keys: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]
    columns: Columns
    having: tuple[Expression, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None


Relation = Rows | Aggregation
Meanings = Mapping[Column | Key | Slot, Expression]
"""The replacement for each leaf."""


def all_rows(table: Table) -> Rows:
    """The table itself."""
    fields = [Output(f.name, Column(f.name, f.type, f.bounds, f.edges, f.zone)) for f in table.fields]
    return Rows(table, by_name(fields))


def by_name(outputs: Iterable[Output]) -> Columns:
    """Columns by name; refused if two have the same name."""
    columns: dict[str, Output] = {}
    for output in outputs:
        if output.name.lower() in columns:
            refuse("duplicate-name", f"`{output.name}`", "two columns have this name.", "Rename one of them: AS name.")
        columns[output.name.lower()] = output
    return columns


def filter_by(relation: Relation, conditions: Iterable[Expression], what: Callable[[], str]) -> Relation:
    """Only the rows, or groups, for which all conditions hold. `what` is the part a refusal names."""
    kept = tuple(conditions)
    for condition in kept:
        if condition.type not in (Type.BOOLEAN, None):
            why = f"{types_of([condition])[:-1]}, not a condition."
            refuse("wrong-type", what(), why, "Use a comparison, such as `age > 40`.")
    if isinstance(relation, Rows):
        return replace(relation, where=relation.where + kept)
    _check_unlimited(relation, what())
    return replace(relation, having=relation.having + kept)


def project(relation: Relation, outputs: Iterable[Output]) -> Relation:
    """The same rows or groups with these columns."""
    return replace(relation, columns=by_name(outputs))


def sorted_by(relation: Relation, order: tuple[Order, ...]) -> Aggregation:
    """The groups in this order; refused for rows."""
    groups = _groups(relation, "ORDER BY")
    _check_unlimited(groups, "ORDER BY")
    return replace(groups, order=order + groups.order)


def limit_to(relation: Relation, limit: int) -> Aggregation:
    """Only the first groups."""
    groups = _groups(relation, "LIMIT")
    return replace(groups, limit=limit if groups.limit is None else min(limit, groups.limit))


def question_of(relation: Relation) -> Question:
    """The question that a relation asks."""
    table = relation.table if isinstance(relation, Rows) else relation.rows.table
    if table.public:
        refuse(
            "public-rows",
            f"table `{table.name}`",
            "it is public, so noise would only make the answer worse.",
            "Read it directly.",
        )
    if isinstance(relation, Aggregation):
        check_total(relation)
    if isinstance(relation, Rows) or not (relation.keys or _shows_numbers(relation)):
        refuse(
            "private-rows",
            "SELECT",
            "the rows themselves are private.",
            "Ask for COUNT(*) or AVG(column), with GROUP BY if you like.",
        )
    groups = _prune(relation)
    rows = groups.rows
    asked = Question(
        rows.table,
        all_of(rows.where, "WHERE"),
        groups.keys,
        groups.aggregates,
        tuple(groups.columns.values()),
        all_of(groups.having, "HAVING"),
        groups.order,
        groups.limit,
    )
    return replace(asked, notes=zone_notes(asked)) if {field.zone for field in rows.table.fields} - {None} else asked


def _shows_numbers(groups: Aggregation) -> bool:
    return any(isinstance(part, Slot) for e in _above(groups) for part in walk(e))


def size_of(expressions: Iterable[Expression]) -> int:
    return sum([e.size if isinstance(e, Call) else 1 for e in expressions])


def check_total(groups: Aggregation) -> None:
    """Refuses questions that would take long to process. Sizes are known without traversal."""
    arguments = [argument for aggregate in groups.aggregates for argument in aggregate.arguments]
    check_size(size_of([*_above(groups), *groups.keys, *groups.rows.where, *arguments]))


def check_size(size: int) -> None:
    if size > MOST_TOTAL:
        refuse(
            "too-large",
            "the question",
            f"it expands to more than {MOST_TOTAL:,} parts.",
            "Split it into smaller questions.",
        )


def all_of(conditions: tuple[Expression, ...], part: str) -> Expression | None:
    """The conditions as one; None if there are none."""
    return join_terms(AND, list(conditions), part=lambda: part) if conditions else None


def _above(groups: Aggregation) -> list[Expression]:
    outputs = [output.expression for output in groups.columns.values()]
    return [*outputs, *groups.having, *[by.expression for by in groups.order]]


def _groups(relation: Relation, what: str) -> Aggregation:
    if isinstance(relation, Rows):
        refuse(
            "row-choice",
            what,
            "sorting or limiting rows depends on all of them, so one unit could change every result.",
            "Aggregate first: COUNT(*) with GROUP BY can be sorted and limited. describe() lists the columns.",
        )
    return relation


def _check_unlimited(groups: Aggregation, what: str) -> None:
    if groups.limit is not None:
        refuse(
            "unsupported-clause",
            what,
            "the inner groups already have a limit.",
            "Use ORDER BY and LIMIT in the outermost SELECT.",
        )


def _prune(groups: Aggregation) -> Aggregation:
    """Without unused aggregates, so that they are not paid for."""
    used = sorted({part.index for e in _above(groups) for part in walk(e) if isinstance(part, Slot)})
    if len(used) == len(groups.aggregates):
        return groups
    there = partial(
        moved, keys={i: i for i in range(len(groups.keys))}, slots={old: new for new, old in enumerate(used)}
    )
    return replace(
        groups,
        aggregates=tuple(groups.aggregates[i] for i in used),
        columns={name: Output(o.name, there(o.expression)) for name, o in groups.columns.items()},
        having=tuple(map(there, groups.having)),
        order=tuple(Order(there(by.expression), by.descending) for by in groups.order),
    )


def rows_only(relation: Relation, what: str) -> Rows:
    """The relation as rows; refused if it contains released numbers."""
    if not isinstance(relation, Rows):
        refuse(
            "released-numbers",
            what,
            "a subquery in it returns numbers that have already been released.",
            "Combine rows, or GROUP BY the protected unit in the subquery.",
        )
    return relation


def substitute(expression: Expression, meanings: Meanings) -> Expression:
    """The expression with every leaf replaced by its meaning, if it has one."""
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(substitute(argument, meanings) for argument in expression.arguments))
    if isinstance(expression, Column | Key | Slot):
        return meanings.get(expression, expression)
    return expression


def column(field: Field) -> Column:
    """The column for a field."""
    return Column(field.name, field.type, field.bounds, field.edges, field.zone)


def fresh(name: str, taken: set[str]) -> str:
    """The name, with a number appended if it is taken; marks it as taken."""
    number, found = 2, name
    while found.lower() in taken or found.lower() == UNIT_ID:
        number, found = number + 1, f"{name}_{number}"
    taken.add(found.lower())
    return found


def declarable_bounds(bounds: Interval | None, kind: Type) -> Interval | None:
    """The bounds if a field can declare them: for integers, only within 64 bits."""
    if bounds is None or not kind.is_number or (kind is Type.INTEGER and bounds.magnitude > _MOST_BOUND):
        return None
    return bounds


def derive_table(
    source: Derived,
    fields: Iterable[Field],
    unit: str | None,
    *,
    name: str,
    rows: int | None,
    groups: int | None,
) -> Table:
    """The resulting table, with its limits. Its version lists the version of every table it is made of."""
    first = source.tables[0]
    table = Table(name, tuple(fields), unit, rows, groups, "", first.confidence, source=source)
    if scans_of(table) > MOST_TABLES:
        refuse("too-large", "FROM", f"it reads more than {MOST_TABLES} tables.", "Use fewer tables.")
    if levels_of(table) > MOST_LEVELS:
        refuse(
            "too-large",
            "FROM",
            f"subqueries are nested more than {MOST_LEVELS} levels deep.",
            "Use fewer levels of nesting.",
        )
    bases = table.bases
    versions = ", ".join(f"{base.name} {base.version}" for base in bases)
    return replace(table, version=versions if len(bases) > 1 else bases[0].version)


def names_of(tables: Iterable[Table]) -> str:
    """The stored tables by name, each once."""
    return " and ".join(dict.fromkeys(base.name for table in tables for base in table.bases))
