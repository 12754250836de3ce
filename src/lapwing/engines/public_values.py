"""Evaluates expressions over public values, and the steps above the release. DuckDB does the work.

Public values are constants, declared values and released numbers. Operators mean the same below the aggregation, where
the engine evaluates them, and above it. The connection here is empty and locked: no private row can be reached from it.

Steps run within limits of time and memory. sql/post_select.py decides which functions may be called; each returns a
value for any numbers. Some DuckDB aggregates fail on infinite numbers, so reals are first cut at 1e150, whose squares
can be added a million times. Groups and orders come as whole numbers, so that texts, dates and NULL are compared in one
place only, by the caller.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from lapwing.arrays import Array
from lapwing.engines.connection import LOCK, connect, run
from lapwing.engines.dialect import ARROW_TYPES
from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.expressions.expression import Column, Expression, Key, Slot
from lapwing.expressions.to_sqlglot import Leaf, emit, typed, value
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
        return [column.combine_chunks() for column in cursor.sql(DUCKDB.write(query).text).to_arrow_table().columns]


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


SECONDS = 20.0
"""How long all steps of one answer may take."""
MOST_ROWS = 2_000_000
"""How many rows a step may have."""
_FARTHEST = 1e150
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

PICKING = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})
_BY_PLACE = frozenset({"row_number", "ntile", "lag", "lead"})


class OverrunError(Exception):
    """The steps took more time, memory or rows than they may."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window function over arrays."""

    function: str
    argument: str | None
    partition: str
    order: str | None
    """The column with the place of each row in the order; rows that are equal in it have the same."""
    low: int | None
    high: int | None
    framed: bool
    number: int | None


class Calculation:
    """Steps over arrays of values: NULL is None, or NaN in reals."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._end = time.monotonic() + seconds

    def check(self, rows: int) -> None:
        """Ends the run if it takes too long, or a step has too many rows."""
        if rows > MOST_ROWS or time.monotonic() > self._end:
            raise OverrunError

    def compute(
        self, expressions: Sequence[Expression], columns: Mapping[str, Array], types: Mapping[str, Type], rows: int
    ) -> list[Array]:
        self.check(rows)
        stored = {name: _storable(values, types[name]) for name, values in columns.items()}
        kinds = {name: Type.REAL if stored[name].dtype.kind == "f" else types[name] for name in stored}
        if not expressions:
            return []
        try:
            results = calculate(expressions, stored, kinds, rows, lambda e, leaf: typed(e, e.type, leaf))
        except duckdb.Error:  # every operator is total: what is left is memory
            raise OverrunError from None
        return [_array(column, e.type or Type.TEXT) for column, e in zip(results, expressions, strict=True)]

    def fold(
        self,
        calls: Sequence[tuple[str, Sequence[str], float | None]],
        columns: Mapping[str, Array],
        types: Mapping[str, Type],
        groups: Array,
        group_count: int,
    ) -> list[list[Any]]:
        """For each aggregate its value in every group; rows are in the groups with these numbers."""
        table = _table(columns, types, {"lw_group": groups})
        outputs = [exp.alias_(_folded(*call), f"o{i}", quoted=True) for i, call in enumerate(calls)]
        query = exp.Select(expressions=[exp.column("lw_group"), *outputs]).from_("lw_rows", copy=False)
        numbers, *results = self._run(query.group_by("lw_group"), lw_rows=table).columns
        folded: list[list[Any]] = []
        for (function, *_), column in zip(calls, results, strict=True):
            values: list[Any] = [0 if function.startswith("count") else None] * group_count
            for number, result in zip(numbers.to_pylist(), column.to_pylist(), strict=True):
                values[number] = result
            folded.append(values)
        return folded

    def over(
        self, windows: Sequence[Window], columns: Mapping[str, Array], types: Mapping[str, Type], rows: int
    ) -> list[list[Any]]:
        table = _table(columns, types, {"lw_row": np.arange(rows)})
        outputs = [exp.alias_(_windowed(window), f"o{i}", quoted=True) for i, window in enumerate(windows)]
        query = exp.Select(expressions=outputs).from_("lw_rows", copy=False).order_by("lw_row")
        return [column.to_pylist() for column in self._run(query, lw_rows=table).columns]

    def pairs(
        self,
        condition: Expression | None,
        left: tuple[Mapping[str, Array], Mapping[str, Type], int],
        right: tuple[Mapping[str, Array], Mapping[str, Type], int],
        how: str,
    ) -> tuple[Array, Array]:
        """The row numbers of the pairs for which the condition holds; -1 for no partner."""
        tables = {
            f"lw_{side}": _table(columns, types, {f"lw_row_{side}": np.arange(rows)})
            for side, (columns, types, rows) in (("left", left), ("right", right))
        }
        on = exp.true() if condition is None else value(condition, lambda leaf: exp.column(name_of(leaf), quoted=True))
        query = (
            exp.select("lw_row_left", "lw_row_right")
            .from_("lw_left")
            .join("lw_right", on=on, join_type="INNER" if how == "CROSS" else how, copy=False)
            .order_by(exp.Ordered(this=exp.column("lw_row_left"), nulls_first=False))
            .order_by(exp.Ordered(this=exp.column("lw_row_right"), nulls_first=False))
            .limit(MOST_ROWS + 1)
        )
        sides = (column.to_pylist() for column in self._run(query, **tables).columns)
        left_rows, right_rows = (np.array([-1 if row is None else row for row in side], np.int64) for side in sides)
        return left_rows, right_rows

    def _run(self, query: exp.Select, **tables: pa.Table) -> pa.Table:
        left = self._end - time.monotonic()
        self.check(max(table.num_rows for table in tables.values()))
        with calculator().cursor() as cursor:
            for name, table in tables.items():
                cursor.register(name, table)
            timer = threading.Timer(left, cursor.interrupt)
            timer.daemon = True
            timer.start()
            try:
                return cursor.sql(DUCKDB.write(query).text).to_arrow_table()
            except duckdb.Error:  # out of time or memory: every function here gives a value for every number
                raise OverrunError from None
            finally:
                timer.cancel()


def _folded(function: str, arguments: Sequence[str], parameter: float | None) -> exp.Expression:
    names = [exp.column(name, quoted=True) for name in arguments]
    match function:
        case "count_rows":
            return exp.Count(this=exp.Star())
        case "count_distinct":
            return exp.Count(this=exp.Distinct(expressions=names))
        case "quantile_cont":
            return exp.Anonymous(this="quantile_cont", expressions=[*names, exp.Literal.number(parameter or 0.0)])
        case _:
            return exp.Anonymous(this=function, expressions=names)


def _windowed(window: Window) -> exp.Expression:
    names = [] if window.argument is None else [exp.column(window.argument, quoted=True)]
    numbers = [] if window.number is None else [exp.Literal.number(window.number)]
    function: exp.Expression
    if window.function == "count_rows":
        function = exp.Count(this=exp.Star())
    else:
        function = exp.Anonymous(this=window.function, expressions=[*names, *numbers])
    by = [] if window.order is None else [exp.column(window.order, quoted=True)]
    if window.function in _BY_PLACE or window.framed:
        by.append(exp.column("lw_row"))
    spec = None
    if window.framed:
        spec = exp.WindowSpec(
            kind="ROWS", **_end("start", window.low, "PRECEDING"), **_end("end", window.high, "FOLLOWING")
        )
    order = exp.Order(expressions=[exp.Ordered(this=column, nulls_first=False) for column in by]) if by else None
    return exp.Window(this=function, partition_by=[exp.column(window.partition, quoted=True)], order=order, spec=spec)


def _end(which: str, rows: int | None, unbounded: str) -> dict[str, Any]:
    if rows is None:
        return {which: "UNBOUNDED", f"{which}_side": unbounded}
    if rows == 0:
        return {which: "CURRENT ROW", f"{which}_side": None}
    return {which: exp.Literal.number(abs(rows)), f"{which}_side": "PRECEDING" if rows < 0 else "FOLLOWING"}


def _table(columns: Mapping[str, Array], types: Mapping[str, Type], whole: Mapping[str, Array]) -> pa.Table:
    arrays = {name: pa.array(values, pa.int64()) for name, values in whole.items()}
    for name, values in columns.items():
        stored = _storable(values, types[name])
        kind = Type.REAL if stored.dtype.kind == "f" else types[name]
        cut = np.clip(stored, -_FARTHEST, _FARTHEST) if kind is Type.REAL else stored
        arrays[name] = pa.array(cut, ARROW_TYPES[kind], from_pandas=True)
    return pa.table(arrays)


def _storable(values: Array, kind: Type) -> Array:
    """Reals as float64, and so integers beyond 64 bits."""
    if kind is Type.REAL or (kind is Type.INTEGER and any(v is not None and not _LEAST <= v <= _MOST for v in values)):
        return np.array([np.nan if v is None else float(v) for v in values.tolist()], float)
    return values


def _array(column: pa.Array, kind: Type) -> Array:
    if kind is Type.REAL:
        return np.array([np.nan if v is None else float(v) for v in column.to_pylist()], float)
    values = np.empty(len(column), object)
    values[:] = column.to_pylist()
    return values
