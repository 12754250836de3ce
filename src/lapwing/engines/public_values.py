"""Evaluates expressions over public values: constants, declared values and released numbers. DuckDB does the work.

Operators mean the same below the aggregation, where the engine evaluates them, and above it. The connection
here is empty and locked: no private row can be reached from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from lapwing.engines.connection import LOCK, connect, run
from lapwing.engines.dialect import ARROW_TYPES
from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.expressions.expression import Column, Expression, Key, Slot
from lapwing.expressions.to_sqlglot import Leaf, emit
from lapwing.expressions.types import Type

Emit = Callable[[Expression, Leaf], exp.Expression]
"""`emit`, or `whole` for keys."""

_ROWS = "lw_public"


def calculate(
    expressions: Sequence[Expression],
    columns: Mapping[str, Any],
    types: Mapping[str, Type],
    rows: int,
    form: Emit = emit,
) -> list[pa.Array]:
    """The value of each expression in every row. `name_of` gives the names of columns."""
    arrays = {name: pa.array(values, ARROW_TYPES[types[name]], from_pandas=True) for name, values in columns.items()}
    table = pa.table({**arrays, "lw_row": pa.array(range(rows), pa.int64())})
    outputs = [exp.alias_(form(e, _leaf), f"o{i}", quoted=True) for i, e in enumerate(expressions)]
    query = exp.Select(expressions=outputs).from_(exp.table_(_ROWS, quoted=True), copy=False).order_by('"lw_row"')
    with calculator().cursor() as cursor:
        cursor.register(_ROWS, table)
        found = cursor.sql(DUCKDB.write(query).text).to_arrow_table()
    return [found.column(i).combine_chunks() for i in range(len(expressions))]


def name_of(leaf: Column | Key | Slot) -> str:
    """The calculator's name for a column, a key or a released number."""
    match leaf:
        case Column(name=name):
            return name
        case Key(index=index):
            return f"key {index}"
        case Slot(index=index):
            return f"slot {index}"


def _leaf(leaf: Column | Key | Slot) -> exp.Expression:
    return exp.column(name_of(leaf), table=_ROWS, quoted=True)


@cache
def calculator() -> duckdb.DuckDBPyConnection:
    """The empty engine: it has no table, no file and no setting that a query could change."""
    connection = connect(memory_limit="1GB", temp_directory="", threads="1")
    for statement in LOCK:
        run(connection, statement)
    return connection
