"""Which rows have a public key. Few keys are written into the query, many are a table beside it.

Guarantee:  a row is kept if and only if each key of it is one of the declared values, written out or in a table alike.
Proof:      both forms are `key IN (...)` over the same values, in the engine's type of the key, NULL apart. The table
            is made of declared values alone, so what it holds, and whether it can be made, depends on no private row.
Checked by: tests/engines/test_key_tables.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from lapwing.engines.calculator import ARROW_TYPES
from lapwing.language.emission import literal
from lapwing.language.types import Type, Value

MANY = 250
"""Values, from which on a table takes less time than their text."""

_COLUMN = "v"
_VALUES = "lw_values"


@dataclass(frozen=True, slots=True)
class Written:
    """A query as an engine runs it: its text, and the tables of public values beside it."""

    text: str
    tables: Mapping[str, pa.Table]


def listed(key: exp.Expression, values: Sequence[Value], kind: Type | None, *, place: int) -> exp.Expression:
    """Whether the key at this place is one of its public values; NULL may be one of them."""
    known = [value for value in values if value is not None]
    found: exp.Expression = exp.false()
    if len(known) > MANY and kind is not None:
        found = exp.In(this=key.copy(), query=_table(pa.array(known, ARROW_TYPES[kind]), f"lw_keys_{place}"))
    elif known:
        found = exp.In(this=key.copy(), expressions=[literal(value) for value in known])
    if len(known) < len(values):
        found = exp.Or(this=found, expression=exp.Is(this=key.copy(), expression=exp.Null()))
    return exp.Paren(this=found)


def _table(values: pa.Array, name: str) -> exp.Expression:
    """A sub-query for the values, which travel with the node that names their table."""
    table = exp.table_(name, quoted=True)
    table.meta[_VALUES] = values
    column = exp.column(_COLUMN, quoted=True)
    return exp.Subquery(this=exp.Select(expressions=[column]).from_(table, copy=False))


def key_tables(query: exp.Select) -> dict[str, pa.Table]:
    """The tables of public values that a query reads, by name."""
    held = [node for node in query.find_all(exp.Table) if _VALUES in node.meta]
    return {node.name: pa.table({_COLUMN: node.meta[_VALUES]}) for node in held}
