"""What joins, unions and subqueries per unit share: names, limits and versions of the resulting table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from lapwing.expressions.derived import MOST_LEVELS, MOST_TABLES, Derived, levels_of, scans_of
from lapwing.expressions.expression import Call, Column, Expression, Key, Slot
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import UNIT_ID, Field, Table
from lapwing.expressions.types import Interval, Type
from lapwing.sql.relation import Relation, Rows

_MOST_BOUND = Fraction(1 << 62)

Meanings = Mapping[Column | Key | Slot, Expression]
"""The replacement for each leaf."""


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
