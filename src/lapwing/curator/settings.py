"""lapwing.toml: what a steward declares, in a file that can be reviewed and diffed.

    [budget]
    epsilon = 2
    delta = 1e-6

    [tables.visits]
    source = "visits.parquet"
    unit = "patient_id"            # or: unit = "row"
    rows_per_unit = 10
    groups_per_unit = 3
    most_rows = 50                 # optional: the most that a question may choose; `widest` for bounds of columns

    [tables.visits.columns]
    patient_id = { type = "text" }
    sex = { type = "text", values = ["F", "M"] }
    age = { type = "integer", edges = [0, 18, 65] }  # default edges of GROUP BY BUCKET(age)
    cost = { type = "real", bounds = [0, 5000] }     # or bounds = "auto", rows_per_unit = "auto": found privately

    [public.regions]               # to join with; types and values are read from the file, and a CSV file holds text
    source = "regions.csv"
    key = ["code"]                 # optional: a unique key
    types = { people = "integer" }

A table of several Parquet files has source = "visits/*.parquet", a folder, or a list. A CSV file that is written in
another way has a line csv = { delimiter = ";", encoding = "latin-1", decimal = ",", quote = "'", null = ["NA"] }.
With [spark] and master = "spark://HOST:7077", or another address, a table has source = "spark" and
table = "clinic.visits", or a path of Parquet files in its place.
A line `ledger = "postgresql://HOST/DATABASE"` at the top keeps the ledger in a database that many servers share.
A line `check = 0` at the top turns off the check of what limits cut, which takes 5 % of a price. `[serve]` says how the
server runs, and `answer_time` of a table after how many seconds it sends an answer.
Every error names the file, the key, the rule and the fix.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from lapwing.curator.automatic import AUTO
from lapwing.curator.chosen_limits import read_interval
from lapwing.curator.pricing import read_check
from lapwing.engines.backends import local_source
from lapwing.engines.public import read_public
from lapwing.engines.source import FileSource, LocalSource, Source, declare_csv, read_source, schema_of
from lapwing.errors import LapwingError, Misconfigured
from lapwing.expressions.refusal import nearest
from lapwing.expressions.table import OTHER, Catalog, Field, Limit, Other, Table, unit_advice
from lapwing.expressions.types import Interval, Span, Type, Value
from lapwing.numbers import count, exact, inside_unit, positive
from lapwing.postgres import PostgresAddress, is_postgres, read_address
from lapwing.privacy.budget import Budget

T = TypeVar("T")

ROW = "row"
"""The value of `unit` that makes every row its own unit."""

_LEAST_MEMORY = 100  # megabytes
_LEAST_TIME, _MOST_TIME = Fraction(1), 3600  # seconds
_TOP = {"budget", "check", "ledger", "memory", "tables", "public", "serve", "spark"}
_SPARK = {"master"}
_BUDGET = {"epsilon", "delta", "accounting"}
_TABLE = {"source", "table", "csv", "unit", "version", "confidence", "columns", "schema", "answer_time"}
_TABLE |= {"most_rows", "most_groups", *(limit.value for limit in Limit)}
_PUBLIC = {"source", "table", "csv", "key", "types"}
_COLUMN = {"type", "bounds", "unit_bounds", "values", "null", "other", "edges", "zone", "widest"}


@dataclass(frozen=True, slots=True)
class Settings:
    """Tables with their sources, the budget, and the path of the ledger."""

    tables: tuple[tuple[Table, Source], ...]
    budget: Budget
    ledger: Path | PostgresAddress
    public: tuple[tuple[Table, LocalSource], ...] = ()
    """Public tables to join with."""
    memory: str | None = None
    """The memory the engine may use before it writes to disk."""
    check: Fraction | None = None
    """The share of a price that checks what limits cut; 0 for none, None for the default."""
    serve: Mapping[str, Any] = field(default_factory=dict)
    """How the server runs, as it is written (server/settings.py)."""
    answer_times: Mapping[str, float] = field(default_factory=dict)
    """Seconds after which the server sends an answer, for each table that declares them."""
    witness: Path | None = None
    """One more witness: of a ledger that is not on this machine."""

    @property
    def witnesses(self) -> tuple[Path, ...]:
        """A small file next to each data file that records the head of the ledger."""
        beside = witnesses_of(source for _, source in self.tables)
        return beside if self.witness is None else (*beside, self.witness)


def witnesses_of(sources: Iterable[Source]) -> tuple[Path, ...]:
    """The witness file of each data file; data in memory and on servers have none."""
    files = (source.path for source in sources if isinstance(source, FileSource))
    return tuple(path.with_name(f"{path.name}.lapwing") for path in files)


def read_memory(value: object) -> str:
    """A size such as "4GB" or "500MB". Below the minimum the engine cannot even write to disk."""
    size = re.fullmatch(r"([1-9][0-9]{0,5}) ?([MGT]B)", value.upper()) if isinstance(value, str) else None
    if size is None or (size[2] == "MB" and int(size[1]) < _LEAST_MEMORY):
        raise Misconfigured(
            f'`memory` is {value!r}; it must be a size such as "4GB" or "500MB", and at least {_LEAST_MEMORY}MB.'
        )
    return size[1] + size[2]


def read_settings(path: Path) -> Settings:
    """The settings in a file."""
    return settings_of(read_toml_text(path, "lapwing init DATA"), path)


def settings_of(text: str, path: Path) -> Settings:
    """The settings in a text that is, or will be, the content of this file."""
    return _Reader(path).settings(parse_toml(text, str(path)))


def open_marks(path: Path) -> list[str]:
    """The lines of a file of settings that are still marked REVIEW."""
    lines = read_toml_text(path, "lapwing init DATA").splitlines()
    return [f"{number}: {line.strip()}" for number, line in enumerate(lines, 1) if re.search(r"#\s*REVIEW\b", line)]


def read_toml_text(path: Path, create: str) -> str:
    """The text of a file of settings; `create` is the command that makes one."""
    try:
        if path.exists() and not path.is_file():  # opening a pipe could block forever
            raise Misconfigured(f"{path}: not a regular file. Create one with `{create}`.")
        return path.read_text(encoding="utf-8")
    except OSError:
        raise Misconfigured(f"{path}: cannot read the file. Create one with `{create}`.") from None
    except UnicodeDecodeError as error:
        raise Misconfigured(f"{path}: byte {error.start + 1} is not UTF-8. Save the file as UTF-8.") from None


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """The values in a text of TOML, with exact decimals; errors begin with `name`."""
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except ValueError as error:  # including an integer with more digits than Python accepts
        raise Misconfigured(f"{name}: not valid TOML: {error}. Fix that line.") from None
    except RecursionError:
        raise Misconfigured(f"{name}: lists and tables are nested too deeply. Flatten them.") from None


class _Reader:
    """Reads one file; every error names the file and the key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.master = ""
        """Where Spark is."""

    def settings(self, found: Mapping[str, Any]) -> Settings:
        self._known(found, _TOP, "")
        budget = self._section(found, "budget")
        self._known(budget, _BUDGET, "budget.")
        tables = self._section(found, "tables")
        spark = self._section(found, "spark") if "spark" in found else {}
        self._known(spark, _SPARK, "spark.")
        self.master = self._text(spark.get("master", "local[*]"), "spark.master")
        ledger = self._ledger(self._text(found.get("ledger", ".lapwing/ledger.db"), "ledger"))
        read = tuple(self._table(name, self._section(tables, name, "tables.")) for name in tables)
        listed = self._section(found, "public") if "public" in found else {}
        public = tuple(self._public(name, self._section(listed, name, "public.")) for name in listed)
        self._at("tables", lambda: Catalog(tuple(table for table, _ in (*read, *public))))
        return Settings(
            read,
            self._at("budget", lambda: Budget(**{"epsilon": self._required(budget, "epsilon", "budget."), **budget})),
            ledger,
            public,
            None if "memory" not in found else self._at("memory", lambda: read_memory(found["memory"])),
            None if "check" not in found else self._at("check", lambda: read_check(found["check"])),
            serve=self._section(found, "serve") if "serve" in found else {},
            answer_times={name: self._answer_time(name, one) for name, one in tables.items() if "answer_time" in one},
            witness=None if isinstance(ledger, Path) else self.path.parent / ".lapwing" / "ledger.witness",
        )

    def _answer_time(self, name: str, found: Mapping[str, Any]) -> float:
        def read() -> float:
            seconds = positive(found["answer_time"], "answer_time")
            if not _LEAST_TIME <= seconds <= _MOST_TIME:
                raise Misconfigured(
                    "`answer_time` is in seconds, from 1 to 3600. If it were shorter, the rows of one person could "
                    "make an answer late. Write for example answer_time = 2."
                )
            return float(seconds)

        return self._at(f"tables.{name}.answer_time", read)

    def _ledger(self, given: str) -> Path | PostgresAddress:
        if is_postgres(given):
            return self._at("ledger", lambda: read_address(given, public=True))
        return self.path.parent / given

    def _table(self, name: str, found: Mapping[str, Any]) -> tuple[Table, Source]:
        at = f"tables.{name}."
        self._known(found, _TABLE, at)
        columns = self._section(found, "columns", at)
        if isinstance(found.get("unit"), list):
            self._fail(f"{at}unit", "must be one column", unit_advice(found["unit"], columns))
        given = self._text(self._required(found, "unit", at), f"{at}unit")
        unit = next((column for column in columns if column.lower() == given.lower()), given)
        table = self._at(
            f"{at[:-1]}",
            lambda: Table(
                name,
                tuple(self._field(column, self._section(columns, column, f"{at}columns.")) for column in columns),
                None if given == ROW else unit,
                self._limit(found, "rows_per_unit", at),
                self._limit(found, "groups_per_unit", at),
                self._text(found.get("version", "1"), f"{at}version"),
                self._at(f"{at}confidence", lambda: inside_unit(found.get("confidence", 0.95), "confidence")),
                auto=read_auto_limits(found),
                schema=self._text(found["schema"], f"{at}schema") if "schema" in found else None,
                answer_time=self._answer_time(name, found) if "answer_time" in found else None,
                most_rows=self._ceiling(found, "most_rows", at),
                most_groups=self._ceiling(found, "most_groups", at),
            ).check_ceilings(),
        )
        source = self._source(found, at)
        return replace(table, schema=table.schema or schema_of(source)), source

    def _public(self, name: str, found: Mapping[str, Any]) -> tuple[Table, LocalSource]:
        at = f"public.{name}."
        self._known(found, _PUBLIC, at)
        source = self._at(f"{at}source", lambda: local_source(self._source(found, at)))
        key = found.get("key", [])
        if not isinstance(key, list):
            self._fail(f"{at}key", "must be a list of columns", 'Write key = ["code"].')
        names = [self._text(column, f"{at}key") for column in key]
        listed = self._section(found, "types", at) if "types" in found else {}
        types = {column: self._at(f"{at}types.{column}", partial(read_type, kind)) for column, kind in listed.items()}
        return self._at(at[:-1], lambda: read_public(name, source, names, types)), source

    def _source(self, found: Mapping[str, Any], at: str) -> Source:
        given = self._required(found, "source", at)
        for path in given if isinstance(given, list) else [given]:
            self._text(path, f"{at}source")
        place = self.master if given == "spark" else given
        name_inside = self._text(found["table"], f"{at}table") if "table" in found else None
        source = self._at(f"{at}source", lambda: read_source(place, name_inside, self.path.parent, public=True))
        return self._at(f"{at}csv", lambda: declare_csv(source, found["csv"])) if "csv" in found else source

    def _field(self, name: str, found: Mapping[str, Any]) -> Field:
        at = f"columns.{name}."
        self._known(found, _COLUMN, at)
        kind = self._at(f"{at}type", lambda: read_type(self._required(found, "type", at)))
        bounds, span = self._at(f"{at}bounds", lambda: read_bounds(found.get("bounds"), kind))
        totals = self._at(f"{at}unit_bounds", lambda: read_ends(found.get("unit_bounds")))
        values = self._at(f"{at}values", lambda: read_values(found.get("values", []), kind))
        for key, what, value in (("other", "OTHER", OTHER.value), ("null", "NULL", None)):
            if (more := found.get(key, False)) not in (False, True) or (more and not values):
                rule = f"says whether {what} is one of the `values`"
                self._fail(f"{at}{key}", rule, f"Write {key} = true beside them.")
            values = (*values, value) if more else values
        facts: dict[str, Any] = {"auto": found.get("bounds") == AUTO, "other": found.get("other", False), "span": span}
        facts["widest"] = self._at(f"{at}widest", lambda: read_ends(found.get("widest")))
        facts["edges"] = self._at(f"{at}edges", lambda: read_edges(found.get("edges", []), kind))
        facts["zone"] = self._text(found["zone"], f"{at}zone") if "zone" in found else None
        return self._at(f"columns.{name}", lambda: Field(name, kind, bounds, totals, values, **facts))

    def _limit(self, found: Mapping[str, Any], key: str, at: str) -> int | None:
        return self._at(f"{at}{key}", lambda: read_limit(found.get(key), key))

    def _ceiling(self, found: Mapping[str, Any], key: str, at: str) -> int | None:
        return self._at(f"{at}{key}", lambda: count(found[key], key)) if key in found else None

    def _required(self, found: Mapping[str, Any], key: str, at: str) -> Any:
        if key not in found:
            self._fail(f"{at}{key}", "is missing", _WHY.get(key, "Add it."))
        return found[key]

    def _section(self, found: Mapping[str, Any], key: str, at: str = "") -> Mapping[str, Any]:
        section = self._required(found, key, at)
        if not isinstance(section, Mapping):
            self._fail(f"{at}{key}", "is a single value; it must be a section", f"Write [{at}{key}].")
        return section

    def _text(self, value: Any, key: str) -> str:
        if not isinstance(value, str) or not value:
            self._fail(key, "must be text", "Put it in quotes.")
        if "\0" in value:
            self._fail(key, "contains a null character", "Remove it.")
        return value

    def _known(self, found: Mapping[str, Any], names: set[str], at: str) -> None:
        for key in found:
            if key not in names:
                self._fail(f"{at}{key}", "is not a known key", nearest(key, names))

    def _at(self, key: str, read: Callable[[], T]) -> T:
        """Reads a value; an error is prefixed with the file and the key."""
        try:
            return read()
        except LapwingError as error:
            if isinstance(error, Misconfigured) and error.located:
                raise
            raise Misconfigured(f"{self.path}: {key}: {error}", located=True) from None

    def _fail(self, key: str, rule: str, fix: str) -> NoReturn:
        raise Misconfigured(f"{self.path}: `{key}` {rule}. {fix}", located=True)


_WHY = {
    "unit": 'Name the column that identifies the person, or write unit = "row" if every row is a different person.',
    "epsilon": "Set how much may ever leak about one unit, for example epsilon = 1.",
    "source": "Give the path of the data file, relative to this file, or postgresql://HOST/DATABASE with `table`.",
    "type": "Use integer, real, text, boolean, date or timestamp.",
    "tables": "Declare at least one: [tables.NAME].",
    "columns": "Declare the columns that questions may use.",
    "budget": "Add a [budget] section with epsilon = 1.",
}


def read_type(value: object) -> Type:
    """The type with this name."""
    names = {kind.value: kind for kind in Type}
    if not isinstance(value, str) or value not in names:
        raise Misconfigured(f"`type` is {value!r}; it must be one of {', '.join(names)}.")
    return names[value]


def read_limit(value: object, name: str) -> int | None:
    """A limit per unit; None if there is none yet."""
    return None if value is None or _is_auto(value) else count(value, name)


def read_auto_limits(found: Mapping[str, object]) -> frozenset[Limit]:
    """The limits that are "auto"."""
    return frozenset(limit for limit in Limit if _is_auto(found.get(limit.value)))


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value == AUTO


def read_bounds(value: object, kind: Type) -> tuple[Interval | None, Span | None]:
    """Bounds of numbers, or of dates and timestamps; the whole last day counts if it is written without a time."""
    if kind is Type.TEXT and isinstance(value, list | tuple) and any(isinstance(end, date | str) for end in value):
        raise Misconfigured('bounds are dates, but the column is text. Declare its type as "date" or "timestamp".')
    if value is None or _is_auto(value) or kind not in (Type.DATE, Type.TIMESTAMP):
        return None if _is_auto(value) else read_ends(value), None
    if isinstance(value, list | tuple) and len(value) == 2:
        with suppress(LapwingError):
            low, high = _edge(value[0], kind, time.min), _edge(value[1], kind, time.max)
            if isinstance(low, date) and isinstance(high, date) and low <= high:
                return None, Span(low, high)
    raise Misconfigured('bounds must be two dates, the earlier first, for example ["2023-01-01", "2024-12-31"].')


def _edge(value: object, kind: Type, edge: time) -> Value:
    with suppress(ValueError):
        value = date.fromisoformat(value) if isinstance(value, str) else value
    whole = kind is Type.TIMESTAMP and isinstance(value, date) and not isinstance(value, datetime)
    return datetime.combine(value, edge) if whole else _value(value, kind)  # type: ignore[arg-type]


def read_ends(value: object) -> Interval | None:
    """Two numbers, the lower first; None if there are none."""
    return None if value is None else read_interval(value)


def read_values(values: object, kind: Type, name: str = "values", example: str = "['F', 'M']") -> tuple[Value, ...]:
    """A public list of values, or the edges of a histogram."""
    if not isinstance(values, list | tuple):
        raise Misconfigured(f"{name} must be a list, for example {example}.")
    return tuple(_value(value, kind) for value in values)


def read_edges(edges: object, kind: Type) -> tuple[Value, ...]:
    return read_values(edges, kind, "edges", "[0, 18, 65]")


def _value(value: object, kind: Type) -> Value:
    match value, kind:
        case Other(), _:
            return str(value.value)
        case None, _:
            return None  # rows without a value form their own group
        case bool(), Type.BOOLEAN:
            return value
        case bool(), _:
            pass
        case int(), Type.INTEGER:
            return value
        case int() | float() | Decimal() | Fraction(), Type.REAL:
            return exact(value, "the value")
        case str(), Type.TEXT:
            return value
        case datetime(), Type.TIMESTAMP if value.tzinfo is None and not getattr(value, "nanosecond", 0):
            with suppress(ValueError, TypeError):  # pandas timestamps, and NaT
                return datetime.combine(value.date(), value.time())
        case date(), Type.DATE if not isinstance(value, datetime):
            return value
        case str(), Type.DATE | Type.TIMESTAMP:
            with suppress(ValueError):
                read: date = (date if kind is Type.DATE else datetime).fromisoformat(value)
                if not (isinstance(read, datetime) and read.tzinfo is not None):
                    return read
        case _:
            pass
    raise Misconfigured(f"a value is not of the column's type {kind.value}. Fix the value or the type.")
