"""From what is passed to `lw.open` to a declared table. Every error names the argument, the rule and the fix.

Types:  `types=` decides. A column that it leaves out has the type that the ledger recorded for it when the table was
        first opened, whatever the new data look like: they are cast, and what does not cast is NULL. Otherwise it has
        the type of its column: of a frame by its dtype alone, of a file by its schema, of a CSV file text; or
        timestamp, if its bounds are dates.
        No value is read, unless types="guess" asks for it, which only the first open of a ledger may.
Why:    a type that followed the rows would tell of them: in numpy one missing value makes integers float64, and the
        next question is refused or priced otherwise. What the first frame looked like is believed, as the unit is
        (docs/threat-model.md).
Checked by: tests/curator/test_column_types.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any, NoReturn

from lapwing.curator.automatic import AUTO
from lapwing.curator.settings import (
    read_auto_limits,
    read_bounds,
    read_edges,
    read_ends,
    read_limit,
    read_type,
    read_values,
)
from lapwing.engines.backends import stored_types
from lapwing.engines.engine import StoredTypes
from lapwing.engines.source import Csv, Frame, LocalSource, Source
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import nearest
from lapwing.expressions.table import OTHER, Field, Table, unit_advice
from lapwing.expressions.types import Type, type_of
from lapwing.ledger import Ledger
from lapwing.numbers import count, inside_unit, shown

GUESS = "guess"
"""Written in place of types that are read off a CSV file."""

COLUMN_FACTS = ("bounds", "unit_bounds", "widest", "values", "edges", "zones", "types")
"""What is declared by column."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What is declared of one table."""

    unit: Any
    rows_per_unit: Any
    groups_per_unit: Any
    most_rows: Any
    most_groups: Any
    version: Any
    bounds: Any
    unit_bounds: Any
    widest: Any
    values: Any
    edges: Any
    zones: Any
    types: Any
    csv: Any


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
    stored = settle_types(title, source, found, _types(facts.types, found), declared, ledger)
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
        most_rows=None if facts.most_rows is None else count(facts.most_rows, "most_rows"),
        most_groups=None if facts.most_groups is None else count(facts.most_groups, "most_groups"),
        version="1" if facts.version is None else _text(facts.version, "version"),
        confidence=inside_unit(confidence, "confidence"),
    ).check_ceilings()


def read_facts(titles: Iterable[str], given: Mapping[str, Any]) -> dict[str, TableFacts]:
    """The facts of each of several tables: of a table one for all or by table, of columns always by table."""
    names = list(titles)
    for what, fact in given.items():
        one_word = what == "types" and isinstance(fact, str)
        by_column = fact.values() if isinstance(fact, Mapping) else [fact]
        if what in (*COLUMN_FACTS, "csv") and not one_word and not all(_is_by_column(own) for own in by_column):
            then = "" if what == "csv" else ", then by column"
            raise Misconfigured(f"`{what}` must be by table{then}. Write {what}={{{names[0]!r}: {{...}}}}.")
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
    written = declared["bounds"].get(column)
    bounds, span = read_bounds(written, kind)
    return Field(
        column,
        kind,
        bounds,
        read_ends(declared["unit_bounds"].get(column)),
        read_values(declared["values"].get(column, ()), kind),
        read_edges(declared["edges"].get(column, ()), kind),
        auto=isinstance(written, str) and written == AUTO,
        other=OTHER in declared["values"].get(column, ()),
        widest=read_ends(declared["widest"].get(column)),
        zone=zone,
        span=span,
    )


def _by_column(what: str, declared: Any, names: Iterable[str]) -> Mapping[str, Any]:
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


def settle_types(
    title: str,
    source: Source,
    found: StoredTypes,
    declared: Mapping[str, object] | str,
    facts: Mapping[str, Mapping[str, Any]],
    ledger: Ledger | None,
) -> dict[str, Type]:
    """The type of every column. `found` has the stored types, `facts` what else is declared by column; `ledger` is the
    existing ledger, if any."""
    guess = declared == GUESS
    if guess:
        _check_guess(title, source, ledger)
        found = stored_types(source, guess=True)
    recorded = {} if ledger is None else ledger.declared_facts(title, "type")
    known = {name: read_type(recorded[name.lower()]) for name in found if name.lower() in recorded}
    named = {} if isinstance(declared, str) else {name: read_type(kind) for name, kind in declared.items()}
    settled = {**found, **_by_facts(source, found, facts), **known, **named}
    if not recorded and (guess or not named):
        _tell_types(title, source, settled, guess=guess)
    return settled


def settle_zones(
    title: str, found: StoredTypes, types: Mapping[str, Type], declared: Mapping[str, Any], ledger: Ledger | None
) -> dict[str, str]:
    """The time zones of columns, by the same rule: declared, recorded, or UTC for those that are stored with one."""
    recorded = {} if ledger is None else ledger.declared_facts(title, "zone")
    kept = {name: recorded[name.lower()] for name in types if name.lower() in recorded}
    times = {name for name, kind in types.items() if kind is Type.TIMESTAMP}
    settled = {name: zone for name, zone in {**dict.fromkeys(found.zoned, "UTC"), **kept}.items() if name in times}
    if not all(isinstance(zone, str) for zone in declared.values()):
        raise Misconfigured('`zones` must be names by column, such as zones={"at": "UTC"}.')
    return {**settled, **declared}


def _by_facts(source: Source, found: Mapping[str, Type], facts: Mapping[str, Mapping[str, Any]]) -> dict[str, Type]:
    """What bounds say of texts in a CSV file, and values of pandas columns whose dtype a missing value has changed."""
    if isinstance(source, Csv):
        pairs = [(name, own) for name, own in facts["bounds"].items() if isinstance(own, list | tuple)]
        dated = [name for name, own in pairs if all(isinstance(end, date | str) for end in own)]
        return {name: Type.TIMESTAMP for name in dated if found.get(name) is Type.TEXT}
    settled: dict[str, Type] = {}
    if not isinstance(source, Frame):
        return settled
    for name, listed in facts["values"].items():
        kinds = {type_of(value) for value in listed if isinstance(value, int)} if isinstance(listed, list) else set()
        if name in source.numbers and kinds == {Type.INTEGER}:
            settled[name] = Type.INTEGER
        if found.get(name) is Type.TEXT and kinds == {Type.BOOLEAN}:
            settled[name] = Type.BOOLEAN
    return settled


def _check_guess(title: str, source: Source, ledger: Ledger | None) -> None:
    if not isinstance(source, Csv):
        raise Misconfigured('types="guess" is for CSV files; other data have types. Leave `types` out.')
    if ledger is None or not ledger.declared_facts(None, "type"):
        return
    recorded = ledger.declared_facts(title, "type")
    instead = f"what was recorded: {types_line(recorded)}" if recorded else 'them: types={"age": "integer"}'
    raise Misconfigured(f'types="guess" reads the rows, so only the first open of a ledger may. Write {instead}.')


def _tell_types(title: str, source: Source, settled: Mapping[str, Type], *, guess: bool) -> None:
    """Says once, on standard error, which types were taken from where, as a line to paste."""
    line = types_line({name: kind.value for name, kind in settled.items()})
    if guess:
        _tell(f"`{title}`: {line} was guessed from the rows. Review it, and write it instead of types={GUESS!r}.")
    elif isinstance(source, Frame) and source.is_pandas:
        _tell(f"`{title}`: types are those of the dtypes: {line}. Pass this line to declare them yourself.")
    elif isinstance(source, Csv):
        _tell(
            f'`{title}`: the columns of a CSV file are text. Declare what is not: types={{"age": "integer", '
            f'"cost": "real"}}; or types="guess" guesses them from the rows, for you to review.'
        )


def types_line(types: Mapping[str, str]) -> str:
    return f"types={json.dumps(dict(types), ensure_ascii=False)}"


def refuse_types(what: str) -> NoReturn:
    raise Misconfigured(f'`{what}` must be types by column, types={{"cost": "real"}}, or types="guess" for a CSV file.')


def _tell(sentence: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{sentence}\n")
