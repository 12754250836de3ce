"""What Lapwing requires of an engine. Its tables are declared when it is created, and do not change afterwards.

Only curator/private_data.py runs queries on an engine for answers; curator/fit.py counts for the steward alone.
Everything that can fail without rows fails in `prepare`, which is called before the charge; `fetch` comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from sqlglot import exp

from lapwing.engines.dialect import Dialect, EngineQuery
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import nearest
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type


class StoredTypes(dict[str, Type]):
    """The type of each column of a source."""

    zoned: frozenset[str] = frozenset()
    """Columns with a time zone: their timestamps are read in UTC."""
    left_out: Mapping[str, str] = MappingProxyType({})
    """The stored type of each column whose type is not supported."""
    unread_dates: Collection[str] = ()
    """Columns of a CSV file whose dates are not written as they are read, so that they are texts."""

    def __init__(self, types: Mapping[str, Type], zoned: Iterable[str]) -> None:
        super().__init__(types)
        self.zoned = frozenset(zoned)
        if not types:
            raise Misconfigured(
                "the data have no column of a supported type: numbers, text, booleans, dates, timestamps."
            )


Fetch = Callable[[EngineQuery], pa.Table]
"""The rows of a query."""


def check_unit_types(units: Sequence[tuple[Table, str]], *, text: str, integers: Collection[str] = ()) -> bool:
    """Whether the stored units of several tables must be cast to one integer type; other mixed types are refused: if a
    person were stored as 7 and as '7.0', she would be two units of one ledger, and an answer over both tables could
    change by twice its sensitivity."""
    types = {stored for _, stored in units}
    if len(units) < 2 or (len(types) == 1 and types != {text}):
        return False
    if types == {text} and all(table.field(table.unit or "").type is Type.TEXT for table, _ in units):
        return False
    if types <= set(integers):
        return True
    names = ", ".join(f"`{table.name}`" for table, _ in units)
    listed = ", ".join(sorted({stored.split("(")[0] for stored in types}))  # an ENUM lists its values in parentheses
    raise Misconfigured(
        f"{names} store units in different types ({listed}), so one person could be two units. "
        "Store the unit as integer in all of them, or as text in all of them and declare it as text."
    )


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column as it is stored."""

    name: str
    type: str
    """The engine's own type, without parameters."""


_Column = TypeVar("_Column", bound=StoredColumn)


def stored_column(field: Field, table: Table, stored: Mapping[str, _Column], *, hide: bool = False) -> _Column:
    """The stored column of a declared one, whatever its case; `hide` keeps stored names out of the message."""
    column = stored.get(field.name.lower())
    if column is None:
        advice = "Fix the declaration." if hide else nearest(field.name, (known.name for known in stored.values()))
        raise Misconfigured(f"the data of `{table.name}` have no column `{field.name}`. {advice}")
    return column


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the rows of a table are, and their fingerprint, as the ledger records them."""

    fingerprint: bytes
    place: str | None
    """None for rows in memory."""
    part: str = ""
    """Which table in that file."""
    files: tuple[tuple[bytes, str], ...] = ()
    """The fingerprint and place of each file, where those above are not of one file alone."""
    csv: Mapping[str, Any] = field(default_factory=dict)
    """How a CSV file is declared to be written."""


class Engine(Protocol):
    """Runs cells queries on declared tables. It never sees an analyst's text."""

    @property
    def dialect(self) -> Dialect: ...

    def prepare(self, query: exp.Select | EngineQuery) -> EngineQuery:
        """The query as the engine runs it, written already or not, checked as far as possible without a row."""
        ...

    def fetch(self, query: EngineQuery) -> pa.Table:
        """The rows: integers as int64 or decimal128(38, 0), other values as in ARROW_TYPES. Ctrl-C stops it."""
        ...

    def snapshot(self) -> AbstractContextManager[Fetch]:
        """Inside, `fetch` for several queries that all see one state of the rows: those of one answer."""
        ...

    def check(self, table: Table) -> None:
        """Reads every value once: a damaged file fails for the steward and not for a question."""
        ...

    def origin(self, table: Table) -> Origin:
        """Where the rows of a declared table are, and their current fingerprint."""
        ...

    def close(self) -> None: ...
