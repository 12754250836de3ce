"""Opens a curator from a data file, a frame or a steward's lapwing.toml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from lapwing.asking.automatic import AUTO
from lapwing.asking.checks import read_check
from lapwing.catalog.table import Catalog, Field, Table
from lapwing.curator import Curator
from lapwing.engines.duckdb import DuckDBEngine, stored_types
from lapwing.engines.frames import frame_source, with_fingerprint
from lapwing.engines.public import read_public
from lapwing.engines.source import Frame, Source, file_source
from lapwing.errors import Misconfigured
from lapwing.language.refusal import nearest
from lapwing.language.types import Type, type_of
from lapwing.ledger import Ledger, open_ledger
from lapwing.numbers import Number, inside_unit
from lapwing.privacy.budget import Budget
from lapwing.settings import (
    read_auto_limits,
    read_edges,
    read_interval,
    read_limit,
    read_memory,
    read_settings,
    read_type,
    read_values,
    witness_of,
)


def open_data(
    data: Any,
    *,
    unit: str | None,
    budget: Budget,
    name: str | None = None,
    rows_per_unit: int | str | None = None,
    groups_per_unit: int | str | None = None,
    bounds: Mapping[str, tuple[Number, Number] | str] | None = None,
    unit_bounds: Mapping[str, tuple[Number, Number]] | None = None,
    values: Mapping[str, Sequence[Any]] | None = None,
    edges: Mapping[str, Sequence[Any]] | None = None,
    types: Mapping[str, str] | None = None,
    version: str = "1",
    confidence: Number = 0.95,
    check: Number | None = None,
    ledger: str | Path | None = None,
    public: Mapping[str, Any] | None = None,
    public_keys: Mapping[str, Sequence[str]] | None = None,
    memory: str | None = None,
) -> Curator:
    """Opens a curator on one table: a Parquet, CSV or DuckDB file, or a pandas, polars or Arrow frame.

    `unit` names the column that identifies the unit of a row; None makes every row its own unit. A file keeps its
    ledger in `.lapwing/ledger.db` next to it, a frame in memory, unless `ledger` is given.
    `types` declares column types, types={"cost": "real"}; by default the columns of a CSV file are text.
    `values` are publicly known groups; `edges` are those of histograms, GROUP BY BUCKET(age).
    With "auto", questions that need bounds or a limit search for them privately, for a share of their
    price; declare what you know instead, if you can.
    Questions whose limits can cut something spend 5 % of their price on saying how much; check=0 turns that off.
    `public` holds public tables to join with, files or frames by name; `public_keys` names the columns of a composite
    key, if no single column is unique. `memory`, such as "4GB", is what the engine may use before it writes to disk.
    """
    source = _source_of(data)
    if isinstance(source, Frame) and ledger is not None:
        source = with_fingerprint(source)
    title = _title(name, source)
    found = stored_types(source)
    if unit == "row" and _stored_name(unit, found) not in found:
        raise Misconfigured("`unit` is `row`, but the data have no such column. Pass unit=None if every row is a unit.")
    given = {"bounds": bounds, "unit_bounds": unit_bounds, "values": values, "edges": edges, "types": types}
    facts = {what: _by_column(what, declared, found) for what, declared in given.items()}
    kinds = {column: read_type(kind) for column, kind in facts.pop("types").items()}
    stored = {**_settled_types(source, found, facts["values"]), **kinds}
    for what, declared in facts.items():
        for column in declared:
            if column not in stored:
                raise Misconfigured(
                    f"`{what}` names `{column}`, but the data have no such column. {nearest(column, stored)}"
                )
    open_ends = {column for column, interval in facts["bounds"].items() if interval == AUTO}
    fields = tuple(
        Field(
            column,
            kind,
            read_interval(facts["bounds"][column]) if column in facts["bounds"] and column not in open_ends else None,
            read_interval(facts["unit_bounds"][column]) if column in facts["unit_bounds"] else None,
            read_values(_as_list(facts["values"].get(column, ())), kind),
            read_edges(_as_list(facts["edges"].get(column, ())), kind),
            auto=column in open_ends,
        )
        for column, kind in stored.items()
    )
    table = Table(
        title,
        fields,
        None if unit is None else _stored_name(unit, found),
        rows_per_unit=read_limit(rows_per_unit, "rows_per_unit"),
        groups_per_unit=read_limit(groups_per_unit, "groups_per_unit"),
        auto=read_auto_limits({"rows_per_unit": rows_per_unit, "groups_per_unit": groups_per_unit}),
        version=version,
        confidence=inside_unit(confidence, "confidence"),
    )
    others = {known: _source_of(found) for known, found in (public or {}).items()}
    keys = public_keys or {}
    for known in keys:
        if known not in others:
            raise Misconfigured(f"`public_keys` names `{known}`, which is not a public table. {nearest(known, others)}")
    shared = [(read_public(known, found, keys.get(known, ())), found) for known, found in others.items()]
    place = None if ledger is None else Path(ledger)
    size = None if memory is None else read_memory(memory)
    told = None if check is None else read_check(check)
    return curator_of([(table, source), *shared], _ledger_for(source, budget, place), memory=size, check=told)


def _title(name: Any, source: Source) -> str:
    """The table's name in questions: as given, or that of its file."""
    if name is None:
        return "data" if isinstance(source, Frame) else source.path.stem
    if not (isinstance(name, str) and name):
        raise Misconfigured("`name` must be text: the table's name in questions, for example name='visits'.")
    return name


def _by_column(what: str, declared: Any, names: Iterable[str]) -> Mapping[str, Any]:
    """What is declared, by stored column name."""
    if declared is not None and not isinstance(declared, Mapping):
        raise Misconfigured(f"`{what}` must be a mapping by column. Write {what}={{'age': ...}}.")
    known = {_stored_name(column, names): fact for column, fact in (declared or {}).items()}
    if len(known) < len(declared or {}):
        raise Misconfigured(f"`{what}` names a column twice; SQL ignores case. Name each column once.")
    return known


def _stored_name(column: Any, names: Iterable[str]) -> str:
    """The stored name of the column that SQL finds by this name; the name itself if there is none."""
    if not isinstance(column, str):
        raise Misconfigured("a column name is not text. Put the name in quotes.")
    return next((name for name in names if name.lower() == column.lower()), column)


def _as_list(values: Any) -> Any:
    """Arrays and series as lists; anything else, including text, unchanged."""
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else values


def _source_of(data: Any) -> Source:
    return file_source(Path(data)) if isinstance(data, str | Path) else frame_source(data)


def _settled_types(source: Source, found: Mapping[str, Type], values: Mapping[str, Sequence[Any]]) -> dict[str, Type]:
    """The types. In a pandas frame one missing value would change the dtype, so numbers are real whatever their
    dtype and booleans are text, unless the declared values say otherwise."""
    stored = dict(found)
    if isinstance(source, Frame):
        stored |= dict.fromkeys(source.numbers, Type.REAL)
        for name, listed in values.items():
            kinds = {type_of(value) for value in listed if isinstance(value, int)}
            if name in source.numbers and kinds == {Type.INTEGER}:
                stored[name] = Type.INTEGER
            if stored.get(name) is Type.TEXT and kinds == {Type.BOOLEAN}:
                stored[name] = Type.BOOLEAN
    return stored


def load(path: str | Path = "lapwing.toml") -> Curator:
    """Opens a curator as declared in a steward's file."""
    settings = read_settings(Path(path))
    ledger = open_ledger(settings.ledger, settings.budget, witness=settings.witnesses)
    return curator_of([*settings.tables, *settings.public], ledger, memory=settings.memory, check=settings.check)


def curator_of(
    tables: Sequence[tuple[Table, Source]],
    ledger: Ledger,
    *,
    memory: str | None = None,
    check: Fraction | None = None,
) -> Curator:
    """A curator on declared tables, whose rows DuckDB reads from their sources."""
    catalog = Catalog(tuple(table for table, _ in tables))
    engine = DuckDBEngine(tables, salt=int.from_bytes(ledger.salt), memory=memory)
    return Curator(catalog, engine, ledger, check=check)


def _ledger_for(source: Source, budget: Budget, path: Path | None) -> Ledger:
    if isinstance(source, Frame):
        return open_ledger(path, budget)
    place = path or source.path.parent / ".lapwing" / "ledger.db"
    return open_ledger(place, budget, witness=(witness_of(source),))
