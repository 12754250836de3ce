"""Opens a curator from lapwing.toml, or from data files, frames and tables of a server."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from lapwing.curator import Curator
from lapwing.curator.declared_table import TableFacts, declare_table, read_facts
from lapwing.curator.missing_facts import pass_to_open, write_toml
from lapwing.curator.pricing import read_check
from lapwing.curator.settings import read_memory, read_settings, read_type, witnesses_of
from lapwing.engines.backends import local_source, open_engine
from lapwing.engines.frames import frame_source
from lapwing.engines.public import read_public
from lapwing.engines.source import (
    Csv,
    FileSource,
    Frame,
    LocalSource,
    PostgresTable,
    Source,
    SparkFrame,
    SparkTable,
    declare_csv,
    read_source,
    schema_of,
    spark_frame,
    title_of,
)
from lapwing.engines.spark_session import is_spark_address
from lapwing.errors import Misconfigured, TemporaryBudget
from lapwing.expressions.refusal import nearest
from lapwing.expressions.table import Catalog, Table
from lapwing.ledger import FRESH, Ledger, LedgerPlace, Population, has_ledger, open_ledger, population_of
from lapwing.numbers import Number
from lapwing.postgres import is_postgres, read_address
from lapwing.privacy.budget import Budget


def open_data(
    data: Any,
    *,
    unit: str | Mapping[str, str | None] | None,
    budget: Budget,
    name: str | None = None,
    table: str | Mapping[str, str] | None = None,
    rows_per_unit: int | str | Mapping[str, int | str | None] | None = None,
    groups_per_unit: int | str | Mapping[str, int | str | None] | None = None,
    most_rows: int | Mapping[str, int | None] | None = None,
    most_groups: int | Mapping[str, int | None] | None = None,
    bounds: Mapping[str, Any] | None = None,
    unit_bounds: Mapping[str, Any] | None = None,
    widest: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    edges: Mapping[str, Any] | None = None,
    zones: Mapping[str, Any] | None = None,
    types: Mapping[str, Any] | str | None = None,
    csv: Mapping[str, Any] | None = None,
    version: str | Mapping[str, str] | None = None,
    confidence: Number = 0.95,
    check: Number | None = None,
    ledger: str | Path | None = None,
    public: Mapping[str, Any] | None = None,
    public_keys: Mapping[str, Sequence[str]] | None = None,
    public_types: Mapping[str, Mapping[str, str]] | None = None,
    memory: str | None = None,
    schema: str | None = None,
) -> Curator:
    """Opens a curator on a table: a Parquet, CSV or DuckDB file, a pandas, polars or Arrow frame, lazy or not, or a
    table of a PostgreSQL database, lw.open("postgresql://HOST/DATABASE", table="clinic.visits", ledger="ledger.db").

    `unit` names the column that identifies the unit of a row; None makes every row its own unit. A file keeps its
    ledger in `.lapwing/ledger.db` next to it, unless `ledger` is given: a path, or the address of a database that many
    servers share, "postgresql://HOST/DATABASE". A server's table needs one. A frame without one keeps its budget until
    the process ends: frames of the same `name` are the same people, and other data are a new version of them;
    ledger=":memory:" starts a fresh budget with every open, for experiments.
    `table` is the name of the table inside a database or a DuckDB file.
    `types` declares column types, types={"cost": "real"}. Others are those of a file's schema or a frame's dtypes, and
    text in a CSV file. The ledger records them, and later data are cast to them until `types` says otherwise.
    types="guess" reads them off a CSV file, for you to review, when its ledger is first opened.
    `csv` says how a CSV file is written, csv={"delimiter": ";", "encoding": "latin-1", "decimal": ","}, and is recorded
    too. Several Parquet files, as a folder, "visits/*.parquet" or a list, are one table.
    `zones` names the time zone of timestamps, zones={"at": "UTC"}; columns with a time zone are read in UTC.
    `values` are publicly known groups, values={"icd": ["I21", "I50", lw.OTHER]}, where lw.OTHER stands for all other
    texts, which are then one group; `edges` are those of histograms, GROUP BY BUCKET(age).
    Dates have bounds too, bounds={"at": ("2023-01-01", "2024-12-31")}: then their months and days are public groups.
    Questions may choose other limits and bounds; `most_rows`, `most_groups` and `widest` say how large at most.
    With "auto", questions that need bounds or a limit search for them privately, for a share of their
    price; declare what you know instead, if you can.
    Questions whose limits can cut something spend 5 % of their price on saying how much; check=0 turns that off.
    `public` holds public tables to join with, files or frames by name; `public_keys` names the columns of a composite
    key, if no single column is unique; `public_types` the types of a CSV file's columns. `memory`, such as "4GB", is
    what the engine may use before it writes to disk. `schema` may stand before the tables in questions, as main and
    public always may.

    Several tables of the same units are a mapping by name, lw.open({"visits": ..., "stays": ...}, unit="patient").
    `unit`, limits and versions are then one for all or by table, and facts of columns are by table:
    bounds={"visits": {"cost": (0, 500)}}.
    """
    given = {"unit": unit, "rows_per_unit": rows_per_unit, "groups_per_unit": groups_per_unit, "version": version}
    given |= {"bounds": bounds, "unit_bounds": unit_bounds, "values": values, "edges": edges, "zones": zones}
    given |= {"types": types, "csv": csv, "most_rows": most_rows, "most_groups": most_groups, "widest": widest}
    if isinstance(data, Mapping):
        sources = _several(data, name, table)
        facts = read_facts(sources, given)
    else:
        source = _source_of(data, _one_name(table))
        sources = {_title(name, source): source}
        facts = dict.fromkeys(sources, TableFacts(**given))
    place = _place(sources, ledger)
    if isinstance(place, Population):
        facts = {title: _versioned(title, source, facts[title], place) for title, source in sources.items()}
    size = None if memory is None else read_memory(memory)
    check_share = None if check is None else read_check(check)
    witnesses = witnesses_of(sources.values())
    with ExitStack() as opened:
        known: Ledger | None = None
        if has_ledger(place):
            known = opened.enter_context(open_ledger(place, budget, witness=witnesses))
        sources = {title: _as_written(title, source, facts[title].csv, known) for title, source in sources.items()}
        tables = [
            (
                replace(
                    declare_table(title, source, facts[title], confidence, known), schema=schema or schema_of(source)
                ),
                source,
            )
            for title, source in sources.items()
        ]
        shared = _public(public, public_keys, public_types)
        book = opened.enter_context(open_ledger(place, budget, witness=witnesses)) if known is None else known
        if known is None and book.note and ledger is None:
            warnings.warn(book.note, TemporaryBudget, stacklevel=2)
        declaring = partial(pass_to_open, by_table=isinstance(data, Mapping))
        curator = curator_of([*tables, *shared], book, memory=size, check=check_share).address(declaring)
        opened.pop_all()  # from here on the curator closes it
        return curator


def _several(data: Mapping[Any, Any], name: str | None, table: str | Mapping[str, str] | None) -> dict[str, Source]:
    if name is not None:
        raise Misconfigured("`name` is for one table; several have the names of the mapping. Leave `name` out.")
    if not data:
        raise Misconfigured("the mapping has no tables. Pass for example {'visits': 'visits.parquet'}.")
    for title, one in data.items():
        if not (isinstance(one, str | Path) or _are_files(one)) and isinstance(one, Sequence | Mapping):
            raise Misconfigured(
                f"`{title}` is a list of values, not a table. Make a frame of the columns first: pyarrow.table(data)."
            )
    if isinstance(table, str):
        raise Misconfigured("`table` is for one table; of several it is by name: table={'visits': 'clinic.visits'}.")
    for title in table or ():
        if title not in data:
            raise Misconfigured(f"`table` names `{title}`, which is not a table. {nearest(str(title), data)}")
    inside = table or {}
    return {
        _title(title, None): _source_of(one, inside.get(title) or _served(one, title)) for title, one in data.items()
    }


def _served(data: Any, title: Any) -> str | None:
    """A table of a server has its name in the mapping there too, unless another one is given."""
    return str(title) if isinstance(data, str) and ("://" in data or is_spark_address(data)) else None


def _one_name(table: Any) -> str | None:
    if table is not None and not (isinstance(table, str) and table):
        raise Misconfigured("`table` must be text: the table's name in its database, such as table='clinic.visits'.")
    return table


def _title(name: Any, source: Source | None) -> str:
    if name is None and source is not None:
        match source:
            case Frame() | SparkFrame():
                return "data"
            case SparkTable(table=path):
                return PurePosixPath(path).stem if "/" in path else path.rsplit(".", 1)[-1].strip("`")
            case PostgresTable(table=inside):
                return inside
            case _:
                return title_of(source)
    if not (isinstance(name, str) and name):
        raise Misconfigured("`name` must be text: the table's name in questions, for example name='visits'.")
    return name


def _source_of(data: Any, table: str | None = None) -> Source:
    if isinstance(data, str | Path) or _are_files(data):
        return read_source(str(data) if isinstance(data, Path) else data, table)
    return spark_frame(data) or frame_source(data)


def _are_files(data: Any) -> bool:
    return isinstance(data, list | tuple) and all(isinstance(part, str | Path) and Path(part).suffix for part in data)


def _as_written(title: str, source: Source, csv: Any, ledger: Ledger | None) -> Source:
    """The source with what is declared of how its CSV file is written, or else with what the ledger recorded."""
    if csv is None and ledger is not None and isinstance(source, Csv):
        csv = ledger.declared_csv(title)
    return source if csv is None else declare_csv(source, csv)


def _versioned(title: str, source: Source, facts: TableFacts, population: Population) -> TableFacts:
    """With the version of these data in their population. Rows in Spark are not compared."""
    mark = source.mark if isinstance(source, Frame) else object()
    if not isinstance(facts.version, str | None):
        return facts  # refused when it is read
    return replace(facts, version=population.version(title, mark, facts.version))


def _place(sources: Mapping[str, Source], ledger: str | Path | None) -> LedgerPlace | Population:
    """Where the ledger is: as given, beside the data files, or in memory."""
    if str(ledger) == FRESH:
        if not all(isinstance(source, Frame | SparkFrame) for source in sources.values()):
            raise Misconfigured(
                f"ledger={FRESH!r} is for frames: the budget of a file or a server's table is kept. Leave it out, "
                "or pass a path: ledger='ledger.db'."
            )
        return Population(fresh=True)
    if ledger is not None:
        if not isinstance(ledger, str | Path):
            raise Misconfigured("`ledger` must be a path or an address: ledger='ledger.db'.")
        return read_address(str(ledger)) if is_postgres(ledger) else Path(ledger)
    if any(isinstance(source, PostgresTable | SparkTable) for source in sources.values()):
        raise Misconfigured("the data are on a server. Say where their ledger is: ledger='ledger.db'.")
    folders = list(dict.fromkeys(s.path.parent for s in sources.values() if isinstance(s, FileSource)))
    if len(folders) > 1:
        raise Misconfigured("the files are in different folders. Say where their ledger is: ledger='ledger.db'.")
    return folders[0] / ".lapwing" / "ledger.db" if folders else population_of(list(sources))


def _public(*given: Any) -> list[tuple[Table, LocalSource]]:
    """The public tables to join with, from what is passed as public, public_keys and public_types."""
    tables, keys, types = ({} if facts is None else facts for facts in given)
    for option, facts in (("public", tables), ("public_keys", keys), ("public_types", types)):
        if not isinstance(facts, Mapping):
            raise Misconfigured(f"`{option}` must be a mapping by table. Write {option}={{'regions': ...}}.")
        for name in facts:
            if name not in tables:
                raise Misconfigured(f"`{option}` names `{name}`, which is not a public table. {nearest(name, tables)}")
    shared = []
    for name, data in tables.items():
        source = local_source(_source_of(data, _served(data, name)))
        kinds = {column: read_type(kind) for column, kind in types.get(name, {}).items()}
        shared.append((read_public(name, source, keys.get(name, ()), kinds), source))
    return shared


def load(path: str | Path = "lapwing.toml") -> Curator:
    """Opens a curator as declared in a steward's file."""
    settings = read_settings(Path(path))
    ledger = open_ledger(settings.ledger, settings.budget, witness=settings.witnesses)
    tables = [*settings.tables, *settings.public]
    return curator_of(tables, ledger, memory=settings.memory, check=settings.check).address(write_toml)


def curator_of(
    tables: Sequence[tuple[Table, Source]], ledger: Ledger, *, memory: str | None = None, check: Fraction | None = None
) -> Curator:
    """A curator on declared tables, whose rows the engine of their sources reads."""
    catalog = Catalog(tuple(table for table, _ in tables))
    engine = open_engine(tables, salt=int.from_bytes(ledger.salt), memory=memory)
    return Curator(catalog, engine, ledger, check=check)
