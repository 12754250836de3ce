"""What a steward declares: tables, who is protected, types, bounds, values and limits.

Nothing here is read from rows, and no declaration is trusted: the engine enforces limits, bounds and values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import nearest, refuse
from lapwing.expressions.types import MOST_EDGES, Interval, Span, Type, Value, ascending, type_of
from lapwing.expressions.zones import zone_names
from lapwing.numbers import shown

if TYPE_CHECKING:
    from lapwing.expressions.derived import Derived

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1  # the range of the engine's integers


class Other(Enum):
    """Stands in a list of values for all other ones, which are one key: the text OTHER."""

    OTHER = "OTHER"


OTHER = Other.OTHER
UNIT_ID = "lw_unit_id"
"""The column of every engine table with the unit as stored, so that no cast merges two units."""

USUAL_SCHEMAS = "main", "public"
"""Schemas that may stand before every table."""


class Limit(Enum):
    """A limit on what one unit contributes to an answer."""

    ROWS = "rows_per_unit"
    GROUPS = "groups_per_unit"


@dataclass(frozen=True, slots=True)
class Field:
    """One column: its type, and what is publicly known about it."""

    name: str
    type: Type
    bounds: Interval | None = None
    """Bounds to which each row's value is clipped."""
    unit_bounds: Interval | None = None
    """Bounds to which one unit's total in a group is clipped; by default rows_per_unit times `bounds`."""
    values: tuple[Value, ...] = ()
    """The public list of values; as a key, the column drops rows with other values."""
    edges: tuple[Value, ...] = field(default=(), repr=False)
    """The default edges of a histogram over this column."""
    auto: bool = field(default=False, repr=False)
    """True if the first question that needs bounds searches for them privately, for a share of its price."""
    other: bool = field(default=False, repr=False)
    """True if a text that is not declared is read as OTHER, the last of `values` but for NULL."""
    widest: Interval | None = field(default=None, compare=False, repr=False)
    """The widest bounds that a question may choose; None for any."""
    zone: str | None = field(default=None, repr=False)
    """The time zone of its timestamps: UTC, or the one whose local times they are; None if that is not known."""
    span: Span | None = field(default=None, repr=False)
    """Bounds of its dates or timestamps; keys computed from it are those of this range."""

    def __post_init__(self) -> None:
        if self.zone is not None and self.type is not Type.TIMESTAMP:
            raise Misconfigured(
                f"`{self.name}.zone` is set, but the type is {self.type.value}. Only timestamps have a time zone."
            )
        if self.zone is not None and self.zone not in zone_names().values():
            known = nearest(self.zone, zone_names().values())
            raise Misconfigured(f"`{self.name}.zone` is `{self.zone}`, which is no time zone. {known}")
        if self.other and (self.type is not Type.TEXT or len(set(self.values) - {None}) < 2):
            raise Misconfigured(f"`{self.name}` cannot have OTHER: only text with `values` can. Leave it out.")
        if self.auto and (self.bounds is not None or not self.type.is_number):
            raise Misconfigured(
                f'`{self.name}.bounds` is "auto", only for numbers without other bounds. Remove one of the two.'
            )
        for name, interval in (("bounds", self.bounds), ("unit_bounds", self.unit_bounds), ("widest", self.widest)):
            if interval is not None and not self.type.is_number:
                raise Misconfigured(
                    f"`{self.name}.{name}` is set, but the type is {self.type.value}. "
                    "Declare the type as integer or real, or remove the bounds."
                )
            if interval is not None and interval.low > interval.high:
                raise Misconfigured(
                    f"`{self.name}.{name}` is {interval}; the lower bound exceeds the upper bound. Swap them."
                )
        numbers = [Fraction(value) for value in (*self.values, *self.edges) if isinstance(value, int)]
        numbers += [] if self.bounds is None else [self.bounds.low, self.bounds.high]
        if self.type is Type.INTEGER and any(not _LEAST <= number <= _MOST for number in numbers):
            raise Misconfigured(f"`{self.name}` declares an integer beyond 64 bits. Declare its type as real.")
        ordered = self.type not in (Type.TEXT, Type.BOOLEAN) and all(type_of(edge) is self.type for edge in self.edges)
        if self.edges and not (ordered and ascending(self.edges) and len(self.edges) <= MOST_EDGES):
            raise Misconfigured(
                f"`{self.name}.edges` must be ascending numbers, dates or timestamps of the column's type, at most "
                f"{MOST_EDGES:,}. For example: [0, 18, 65]."
            )
        if len(set(self.values)) != len(self.values):
            raise Misconfigured(f"`{self.name}.values` contains a value twice. List each value once.")
        if self.name.lower() == UNIT_ID:
            raise Misconfigured(f"the column name `{self.name}` is reserved by Lapwing. Rename the column.")
        for value in self.values:
            if isinstance(value, str) and any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
                raise Misconfigured(f"`{self.name}.values` contains an invalid character. Remove it.")
            if value is not None and type_of(value) is not self.type:
                raise Misconfigured(
                    f"`{self.name}.values` contains a value that is not of type {self.type.value}. Fix either one."
                )

    def check_stored_zone(self) -> None:
        """For a column that is stored with a time zone: it is read in UTC."""
        if self.zone not in (None, "UTC"):
            raise Misconfigured(
                f"`{self.name}` is stored with a time zone, so its times are in UTC, but its zone is declared as "
                f"{self.zone}. Declare UTC, and ask for {self.name} AT TIME ZONE '{self.zone}'."
            )


def unit_advice(unit: object, names: Iterable[str]) -> str:
    """What to name instead of a unit that is no column: the nearest one, or one made of several."""
    given = re.split(r"\s*,\s*", unit) if isinstance(unit, str) else unit
    parts = [part for part in given if isinstance(part, str)] if isinstance(given, list | tuple | set) else []
    if len(parts) > 1:
        joined = ", ".join(part if part.isidentifier() else '"' + part.replace('"', '""') + '"' for part in parts)
        return (
            f"A unit is one column. Make one of these, SELECT *, concat_ws('|', {joined}) AS the_unit FROM data, and "
            "name that one."
        )
    return nearest(parts[0], names) if parts else "Put its name in quotes; unit=None makes every row a unit."


@dataclass(frozen=True, slots=True)
class Table:
    """One table: private unless declared public, stored unless derived from others."""

    name: str
    fields: tuple[Field, ...]
    unit: str | None
    """The column that identifies the unit of a row; None if every row is its own unit."""
    rows_per_unit: int | None = None
    """How many rows of one unit count in one group."""
    groups_per_unit: int | None = None
    """In how many groups one unit counts; None means all of them."""
    version: str = "1"
    confidence: Fraction = field(default=Fraction(19, 20))
    public: bool = False
    """True if its rows belong to no unit, so that private rows can be joined to them."""
    keys: tuple[tuple[str, ...], ...] = ()
    """For a public table: its unique keys, as checked by the engine when it was loaded."""
    rows: Mapping[str, tuple[Value, ...]] | None = field(default=None, compare=False, repr=False)
    """For a public table of few rows: its columns that can be keys. `version` is a hash of its content."""
    source: Derived | None = None
    """How its rows are derived from other tables; None if they are stored."""
    auto: frozenset[Limit] = field(default=frozenset(), repr=False)
    """Limits that questions search for privately, for a share of their price."""
    schema: str | None = field(default=None, compare=False, repr=False)
    """What questions may write before its name, besides main and public; None for any word. No fact about the rows."""
    dummy: bool = field(default=False, compare=False, repr=False)
    """True if its rows are made up, to try questions on. Every answer says so."""
    most_rows: int | None = field(default=None, compare=False, repr=False)
    """The largest limit of rows that a question may choose; None for any."""
    most_groups: int | None = field(default=None, compare=False, repr=False)
    """The same of groups."""
    answer_time: float | None = field(default=None, compare=False, repr=False)
    """Seconds in which a pass over its rows is usually done, if that is declared. No fact about the rows."""
    by_row: bool = field(init=False, compare=False, repr=False)
    """True if every row is its own unit."""
    row_limit: int | None = field(init=False, compare=False, repr=False)
    """How many rows one unit can add to one group."""
    has_other: bool = field(init=False, compare=False, repr=False)
    """Whether some column reads undeclared texts as OTHER."""
    _named: Mapping[str, Field] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        names = [f.name for f in self.fields]
        object.__setattr__(self, "by_row", self.unit is None)
        object.__setattr__(self, "row_limit", 1 if self.unit is None else self.rows_per_unit)
        object.__setattr__(self, "has_other", any(f.other for f in self.fields))
        object.__setattr__(self, "_named", {f.name.lower(): f for f in self.fields})
        for limit, declared in ((Limit.ROWS, self.rows_per_unit), (Limit.GROUPS, self.groups_per_unit)):
            if limit in self.auto and declared is not None:
                raise Misconfigured(f'`{limit.value}` is both a number and "auto". Declare one of the two.')
        if len(self._named) != len(names):
            raise Misconfigured(
                f"table `{self.name}` declares two columns whose names differ only in case. Rename one."
            )
        if self.unit is not None and self.unit not in names:
            raise Misconfigured(
                f"`unit` is `{self.unit}`, but `{self.name}` has no such column. {unit_advice(self.unit, names)}"
            )

    def ceiling(self, limit: Limit) -> int | None:
        return self.most_rows if limit is Limit.ROWS else self.most_groups

    def check_ceilings(self) -> Table:
        """The table; raises Misconfigured if it declares more than questions may choose."""
        limits = {"rows": (self.rows_per_unit, self.most_rows), "groups": (self.groups_per_unit, self.most_groups)}
        above = [f"{name}_per_unit" for name, (own, most) in limits.items() if own and most and own > most]
        above += [f"{f.name}.bounds" for f in self.fields if f.widest and f.bounds and not f.widest.holds(f.bounds)]
        if above:
            ceilings = "`most_rows`, `most_groups` or `widest`"
            raise Misconfigured(f"`{above[0]}` is more than questions may choose. Raise {ceilings}, or lower it.")
        return self

    @property
    def bases(self) -> tuple[Table, ...]:
        """The stored tables its rows come from, each once."""
        if self.source is None:
            return (self,)
        return tuple(dict.fromkeys(base for table in self.source.tables for base in table.bases))

    @property
    def made_up(self) -> bool:
        return any(base.dummy for base in self.bases)

    @property
    def canonical(self) -> str:
        """Its name; for a derived table also its definition, with every bound and version involved."""
        if self.source is None:
            return self.name
        return f"{self.name}#{sha256(repr(self.source).encode()).hexdigest()}"

    def field(self, name: str) -> Field:
        """The column with this name; SQL names are case-insensitive."""
        field = self._named.get(name.lower())
        if field is not None:
            return field
        refuse(
            "unknown-column",
            f"column `{name}`",
            f"table `{self.name}` has no such column.",
            nearest(name, (known.name for known in self.fields)),
        )

    def check_schema(self, written: str) -> None:
        """Refuses a schema before the name that is neither the declared nor a usual one. Undeclared, it may be any."""
        if self.schema and written.lower() not in (*USUAL_SCHEMAS, self.schema.lower()):
            refuse(
                "unknown-table",
                f"schema `{written}`",
                f"table `{self.name}` is declared with `{self.schema}`.",
                f"Write {self.schema}.{self.name}.",
            )


@dataclass(frozen=True, slots=True)
class Catalog:
    """All tables covered by one ledger."""

    tables: tuple[Table, ...]

    def __post_init__(self) -> None:
        if len({table.name.lower() for table in self.tables}) != len(self.tables):
            raise Misconfigured("two tables have the same name. Rename one.")

    def table(self, name: Any) -> Table:
        for known in self.tables:
            if isinstance(name, str) and known.name.lower() == name.lower():
                return known
        refuse(
            "unknown-table",
            f"table `{name if isinstance(name, str) else shown(name)}`",
            "there is no such table.",
            nearest(str(name), (known.name for known in self.tables)),
        )
