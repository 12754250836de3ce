"""The columns of a PostgreSQL table or view: how they are stored, and each as its declared type.

Guarantee:  reading a declared column fails on no row. Every column has the engine's type for its declared one: in
            particular never float4, in which integers above 2^24 equal their neighbours, never a domain, and never a
            collation but "C".
Proof:      stored types are of a closed list; for each and each declared type the text is a cast that PostgreSQL
            defines for all values, or one behind a condition (postgres_casts.py). A text is at most LONGEST bytes,
            or as long as its type allows; a longer one is NULL, so that no function of it needs too much memory.
Checked by: tests/engines/test_postgres_columns.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from lapwing.engines.dialect import identifier
from lapwing.engines.engine import StoredColumn, check_unit_types, stored_column
from lapwing.engines.postgres_casts import SQL_TYPES, cast_to, decimal_as_real
from lapwing.engines.postgres_dialect import C
from lapwing.engines.postgres_session import ReadTransaction
from lapwing.engines.source import PostgresTable, check_names
from lapwing.errors import Misconfigured
from lapwing.expressions.table import UNIT_ID, Field, Table
from lapwing.expressions.types import Type

_KINDS = {
    **dict.fromkeys(("int2", "int4", "int8"), Type.INTEGER),
    **dict.fromkeys(("float4", "float8", "numeric"), Type.REAL),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid"), Type.TEXT),
    "bool": Type.BOOLEAN,
    "date": Type.DATE,
    **dict.fromkeys(("timestamp", "timestamptz"), Type.TIMESTAMP),
}
"""Stored types, and what they are read as."""
_READ_AS = {
    Type.INTEGER: (Type.INTEGER, Type.REAL, Type.TEXT, Type.BOOLEAN),
    Type.REAL: (Type.REAL, Type.INTEGER),
    Type.TEXT: tuple(Type),
    Type.BOOLEAN: (Type.BOOLEAN, Type.INTEGER, Type.TEXT),
    Type.DATE: (Type.DATE, Type.TIMESTAMP, Type.TEXT),
    Type.TIMESTAMP: (Type.TIMESTAMP, Type.DATE, Type.TEXT),
}
"""As which declared types a stored one can be read."""
_NARROW = 300  # digits of a decimal on either side of the point that float64 always holds
LONGEST = 1 << 23
"""Bytes of a text that is read. LOWER, TRIM and patterns need up to 8 times as much, and fail from 2^30 bytes on."""


@dataclass(frozen=True, slots=True)
class PostgresColumn(StoredColumn):
    """A column as it is stored. The type of a domain is that of its base; one that is not PostgreSQL's own has its
    schema before it."""

    is_enum: bool
    modifier: int
    ignores: bool
    """Whether its collation takes different texts for equal."""

    @property
    def kind(self) -> Type | None:
        return Type.TEXT if self.is_enum else _KINDS.get(self.type)

    @property
    def is_endless(self) -> bool:
        """Whether it is text of any length. A length is at most 10,485,760 characters, of up to 4 bytes."""
        return self.type == "text" or (self.type == "varchar" and self.modifier < 0)

    @property
    def unit_type(self) -> str:
        return {Type.INTEGER: "bigint", Type.TEXT: "text"}.get(self.kind or Type.REAL, self.type)


@dataclass(frozen=True, slots=True)
class DescribedTable:
    """A table or view, as the catalog of its database has it."""

    columns: dict[str, PostgresColumn]
    """By lower-case name."""
    fingerprint: bytes
    """Changes with the table itself, its columns and their types, and the text of a view; not with rows."""


_RELATION = """
SELECT c.oid::bigint, d.oid::bigint, c.relkind::text, a.attname::text,
       CASE WHEN COALESCE(b.typnamespace, t.typnamespace) = 'pg_catalog'::regnamespace THEN ''
            ELSE COALESCE(b.typnamespace, t.typnamespace)::regnamespace || '.' END
            || COALESCE(b.typname, t.typname)::text,
       COALESCE(b.typtype, t.typtype)::text, CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END,
       NOT COALESCE(l.collisdeterministic, true), t.oid::bigint,
       CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) ELSE '' END
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_database AS d ON d.datname = current_database()
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_type AS b ON t.typtype = 'd' AND b.oid = t.typbasetype
LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
ORDER BY a.attnum
"""


def relation_of(session: ReadTransaction, source: PostgresTable) -> DescribedTable:
    rows = session.rows(_RELATION, [source.schema, source.table])
    if not rows:
        raise Misconfigured(
            f"the database {source.address.name} has no table `{source.schema}.{source.table}`. Names are written as "
            'they are stored, usually in small letters: table = "clinic.visits".'
        )
    check_names(row[3] for row in rows)
    columns = {row[3].lower(): PostgresColumn(row[3], row[4], row[5] == "e", row[6], row[7]) for row in rows}
    return DescribedTable(columns, sha256(repr(rows).encode()).digest())


def select_rows(table: Table, source: PostgresTable, relation: DescribedTable) -> str:
    """The declared columns in their declared types, and the unit as it is stored."""
    columns = [f"{_read(field, relation, table)} AS {identifier(field.name)}" for field in table.fields]
    if table.unit is not None:
        unit = relation.columns[table.unit.lower()]
        text = _as_text(unit) if unit.unit_type == "text" else f"CAST({identifier(unit.name)} AS {unit.unit_type})"
        columns.append(f"{text} AS {identifier(UNIT_ID)}")
    return f"SELECT {', '.join(columns)} FROM {identifier(source.schema)}.{identifier(source.table)}"


def check_units(tables: Sequence[tuple[Table, DescribedTable]]) -> None:
    """Refuses units that are stored in different types: one person could be two units."""
    units = []
    for table, relation in tables:
        column = None if table.unit is None else relation.columns.get(table.unit.lower())
        if column is None:
            continue
        if column.ignores:
            raise Misconfigured(
                f"the unit `{table.unit}` is stored with a collation under which different texts can be one unit. "
                "Store it with an ordinary collation, with one spelling per unit."
            )
        units.append((table, column.unit_type))
    check_unit_types(units, text="text")


def _read(field: Field, relation: DescribedTable, table: Table) -> str:
    column = stored_column(field, table, relation.columns)
    kind = column.kind
    if kind is None:
        raise Misconfigured(
            f"`{field.name}` is stored as {column.type}, which is not supported. Leave it out, or declare a view that "
            "casts it."
        )
    if field.type not in _READ_AS[kind]:
        fitting = ", ".join(readable.value for readable in _READ_AS[kind])
        raise Misconfigured(
            f"`{field.name}` is stored as {column.type}, which cannot be read as {field.type.value}. Declare it as one "
            f"of {fitting}."
        )
    if column.type == "timestamptz":
        field.check_stored_zone()
    return _as_declared(column, field.type, kind)


def _as_declared(column: PostgresColumn, declared: Type, kind: Type) -> str:
    name = identifier(column.name)
    if column.type == "numeric":
        return _decimal(name, column.modifier, declared)
    if column.type == "timestamptz":
        value = f"({name} AT TIME ZONE 'UTC')"
    elif kind is Type.TEXT:
        value = _as_text(column)
        if column.is_endless:
            value = f"CASE WHEN OCTET_LENGTH({name}) <= {LONGEST} THEN {value} END"
    else:
        value = f"CAST({name} AS {SQL_TYPES[kind]})"
    if declared is kind:
        return value
    read = cast_to(value, kind, declared)
    if declared is not Type.TEXT:
        return read
    if kind in (Type.DATE, Type.TIMESTAMP):
        read = f"CASE WHEN {value} >= DATE '0001-01-01' AND {value} < DATE '10000-01-01' THEN {read} END"
    return f"(({read}) {C})"


def _decimal(name: str, modifier: int, declared: Type) -> str:
    if declared is Type.INTEGER:
        rounded = f"ROUND({name})"
        return f"CASE WHEN {rounded} BETWEEN {-(2**63)} AND {2**63 - 1} THEN CAST({rounded} AS BIGINT) END"
    digits, scale = ((modifier - 4) >> 16) & 0xFFFF, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
    cast = f"CAST({name} AS DOUBLE PRECISION)"
    if modifier > 0 and max(digits, digits - scale, scale) <= _NARROW:
        return cast
    return f"CASE WHEN {name} = 'NaN' THEN FLOAT8 'NaN' ELSE {decimal_as_real(name, cast)} END"


def _as_text(column: PostgresColumn) -> str:
    """An enum by its label: the owner of its type may have defined a cast, which may fail."""
    name = identifier(column.name)
    if column.is_enum:
        return f"(CASE WHEN {name} IS NOT NULL THEN CONCAT({name}) END {C})"
    return f"(CAST({name} AS TEXT) {C})"
