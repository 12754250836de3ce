"""From what is passed to `lw.open` to a declared table. Every error names the argument, the rule and the fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lapwing.curator.automatic import AUTO
from lapwing.curator.column_types import GUESS, refuse_types, settle_types, settle_zones
from lapwing.curator.settings import read_auto_limits, read_edges, read_interval, read_limit, read_values
from lapwing.engines.backends import stored_types
from lapwing.engines.source import Frame, LocalSource, Source
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import nearest
from lapwing.expressions.table import OTHER, Field, Table, unit_advice
from lapwing.expressions.types import Type
from lapwing.ledger import Ledger
from lapwing.numbers import inside_unit, shown

COLUMN_FACTS = ("bounds", "unit_bounds", "values", "edges", "zones", "types")
"""What is declared by column."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What is declared of one table."""

    unit: Any
    rows_per_unit: Any
    groups_per_unit: Any
    version: Any
    bounds: Any
    unit_bounds: Any
    values: Any
    edges: Any
    zones: Any
    types: Any


def declare_table(title: str, source: Source, facts: TableFacts, confidence: Any, ledger: Ledger | None) -> Table:
    """The table with these facts. `ledger` is the one that exists already, if one does: it may have recorded types."""
    found, unit = stored_types(source), facts.unit
    if unit is not None and not isinstance(unit, str):
        raise Misconfigured(
            f"`unit` has the type {type(unit).__name__}; it must name a column. {unit_advice(unit, found)}"
        )
    if unit == "row" and _stored_name(unit, found) not in found:
        raise Misconfigured("`unit` is `row`, but the data have no such column. Pass unit=None if every row is a unit.")
    declared = {what: _by_column(what, getattr(facts, what), found) for what in COLUMN_FACTS[:-1]}
    for what in ("values", "edges"):
        declared[what] = {column: _as_list(listed) for column, listed in declared[what].items()}
    stored = settle_types(title, source, found, _types(facts.types, found), declared["values"], ledger)
    zones = settle_zones(title, found, stored, declared["zones"], ledger)
    for what, by_column in declared.items():
        for column in by_column:
            if column not in stored:
                raise Misconfigured(
                    f"`{what}` names `{column}`, but the data have no such column. {nearest(column, stored)}"
                )
    if unit is not None and _stored_name(unit, found) not in stored:
        advice = f"{unit_advice(unit, stored)}{_left_out(source)}"
        raise Misconfigured(f"`unit` is `{unit}`, but `{title}` has no such column. {advice}")
    limits = {"rows_per_unit": facts.rows_per_unit, "groups_per_unit": facts.groups_per_unit}
    return Table(
        title,
        tuple(_field(column, kind, declared, zones.get(column)) for column, kind in stored.items()),
        None if unit is None else _stored_name(unit, found),
        rows_per_unit=read_limit(facts.rows_per_unit, "rows_per_unit"),
        groups_per_unit=read_limit(facts.groups_per_unit, "groups_per_unit"),
        auto=read_auto_limits(limits),
        version="1" if facts.version is None else _text(facts.version, "version"),
        confidence=inside_unit(confidence, "confidence"),
    )


def read_facts(titles: Iterable[str], given: Mapping[str, Any]) -> dict[str, TableFacts]:
    """The facts of each of several tables: of a table one for all or by table, of columns always by table."""
    names = list(titles)
    for what, fact in given.items():
        one_word = what == "types" and isinstance(fact, str)
        by_column = fact.values() if isinstance(fact, Mapping) else [fact]
        if what in COLUMN_FACTS and not one_word and not all(_is_by_column(own) for own in by_column):
            raise Misconfigured(f"`{what}` must be by table, then by column. Write {what}={{{names[0]!r}: {{...}}}}.")
        for table in fact if isinstance(fact, Mapping) else ():
            if table not in names:
                raise Misconfigured(f"`{what}` names `{table}`, which is not a table. {nearest(str(table), names)}")
    missing = [name for name in names if isinstance(given["unit"], Mapping) and name not in given["unit"]]
    if missing:
        raise Misconfigured(f"`unit` says nothing about `{missing[0]}`. Name the column that identifies its unit.")
    return {name: TableFacts(**{what: _own(fact, name) for what, fact in given.items()}) for name in names}


def _left_out(source: Source) -> str:
    """Why a column may seem to be missing."""
    if not isinstance(source, LocalSource):
        return " Columns of other types, such as json or arrays, are left out: cast the unit to text in a view."
    pandas = isinstance(source, Frame) and source.is_pandas
    return " An index is no column: data.reset_index() makes it one." if pandas else ""


def _own(fact: Any, table: str) -> Any:
    return fact.get(table) if isinstance(fact, Mapping) else fact


def _is_by_column(fact: Any) -> bool:
    return fact is None or isinstance(fact, Mapping) or (isinstance(fact, str) and fact == GUESS)


def _types(declared: Any, found: Mapping[str, Type]) -> Mapping[str, object] | str:
    if isinstance(declared, str):
        return declared if declared == GUESS else refuse_types("types")
    return _by_column("types", declared, found)


def _field(column: str, kind: Type, declared: Mapping[str, Mapping[str, Any]], zone: str | None) -> Field:
    bounds, unit_bounds = declared["bounds"].get(column), declared["unit_bounds"].get(column)
    auto = isinstance(bounds, str) and bounds == AUTO
    return Field(
        column,
        kind,
        None if bounds is None or auto else read_interval(bounds),
        None if unit_bounds is None else read_interval(unit_bounds),
        read_values(declared["values"].get(column, ()), kind),
        read_edges(declared["edges"].get(column, ()), kind),
        auto=auto,
        other=OTHER in declared["values"].get(column, ()),
        zone=zone,
    )


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
    with suppress(TypeError):  # an array of no dimension looks like one
        return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else values
    return values


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise Misconfigured(f"`{name}` is {shown(value)}; it must be text. Put it in quotes.")
    return value
