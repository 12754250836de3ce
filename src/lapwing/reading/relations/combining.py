"""What joins, unions and sub-queries per unit share: names, limits and versions of the table that comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from lapwing.catalog.derived import MOST_LEVELS, MOST_TABLES, Derived, levels_of, scans_of
from lapwing.catalog.table import UNIT_ID, Field, Table
from lapwing.language.expression import Call, Column, Expression, Key, Slot
from lapwing.language.refusal import refuse
from lapwing.language.types import Interval, Type
from lapwing.reading.relations.relation import Relation, Rows

_MOST_BOUND = Fraction(1 << 62)

Meanings = Mapping[Column | Key | Slot, Expression]
"""What stands in place of each leaf."""


def rows_only(relation: Relation, what: str) -> Rows:
    """The relation, if it is rows: released numbers have none."""
    if not isinstance(relation, Rows):
        refuse(
            "released-numbers",
            what,
            "a sub-query in it gives numbers that are released already.",
            "Combine rows, or GROUP BY the protected unit inside.",
        )
    return relation


def substitute(expression: Expression, meanings: Meanings) -> Expression:
    """The expression with every leaf that has a meaning replaced by it."""
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(substitute(argument, meanings) for argument in expression.arguments))
    if isinstance(expression, Column | Key | Slot):
        return meanings.get(expression, expression)
    return expression


def column(field: Field) -> Column:
    """The column that a field declares."""
    return Column(field.name, field.type, field.bounds, field.edges)


def fresh(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken; it is taken afterwards."""
    number, found = 2, name
    while found.lower() in taken or found.lower() == UNIT_ID:
        number, found = number + 1, f"{name}_{number}"
    taken.add(found.lower())
    return found


def declarable_bounds(bounds: Interval | None, kind: Type) -> Interval | None:
    """Bounds that a field can declare: of whole numbers only within 64 bits."""
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
    """The table that comes out, with its limits. Its version names the version of every table that it is made of."""
    first = source.tables[0]
    table = Table(name, tuple(fields), unit, rows, groups, "", first.confidence, source=source)
    if scans_of(table) > MOST_TABLES:
        refuse("too-large", "FROM", f"more than {MOST_TABLES} tables are read at once.", "Ask about fewer.")
    if levels_of(table) > MOST_LEVELS:
        refuse(
            "too-large",
            "FROM",
            f"more than {MOST_LEVELS} sub-queries stand inside each other.",
            "Write it with fewer levels.",
        )
    bases = table.bases
    versions = ", ".join(f"{base.name} {base.version}" for base in bases)
    return replace(table, version=versions if len(bases) > 1 else bases[0].version)


def names_of(tables: Iterable[Table]) -> str:
    """The stored tables by name, each once."""
    return " and ".join(dict.fromkeys(base.name for table in tables for base in table.bases))
