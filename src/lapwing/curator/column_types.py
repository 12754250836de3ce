"""The types of columns that are opened from Python: declared, recorded in the ledger, or those of the source.

Rule:   `types=` decides. A column that it leaves out has the type that the ledger recorded for it when the table was
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
from collections.abc import Mapping
from datetime import date
from typing import Any, NoReturn

from lapwing.curator.settings import read_type
from lapwing.engines.backends import stored_types
from lapwing.engines.engine import StoredTypes
from lapwing.engines.source import Csv, Frame, Source
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type, type_of
from lapwing.ledger import Ledger

GUESS = "guess"
"""Written in place of types that are read off a CSV file."""


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
    """As it is written in Python."""
    return f"types={json.dumps(dict(types), ensure_ascii=False)}"


def refuse_types(what: str) -> NoReturn:
    raise Misconfigured(f'`{what}` must be types by column, types={{"cost": "real"}}, or types="guess" for a CSV file.')


def _tell(sentence: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{sentence}\n")
