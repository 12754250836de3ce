"""All facts that a question still needs, in the words of those who opened the data.

Guarantee:  what is listed is a function of the question, the catalog and whether the budget has a delta.
Proof:      questions are read again with constants declared in their place; nothing here reads a row.
Checked by: tests/curator/test_missing_facts.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from functools import reduce
from typing import Any

from lapwing.curator.automatic import least_facts
from lapwing.errors import Refused
from lapwing.expressions.table import Catalog, Field, Limit, Table
from lapwing.expressions.types import Interval, Type

_MOST = 24  # facts that are tried, each with the question read again: a refusal stays cheap
_BOUNDS = Interval(Fraction(0), Fraction(100))
_DAYS = {Type.DATE: (date(2020, 1, 1),), Type.TIMESTAMP: (datetime.fromisoformat("2020-01-01"),)}
_LISTED: dict[Type, tuple[Any, ...]] = {Type.TEXT: ("A", "B"), Type.INTEGER: (1, 2), **_DAYS}


@dataclass(frozen=True, slots=True)
class MissingFact:
    """A fact that is not declared, with a placeholder: a limit of a table, or bounds or values of a column."""

    name: str
    example: Any
    table: Table
    field: Field | None = None


Declaring = Callable[[Sequence[MissingFact]], str]
"""How to declare facts: a sentence that begins with a verb in lower case."""


def missing_facts(catalog: Catalog, asked: str, check: Callable[[Catalog], object]) -> list[MissingFact]:
    """The facts that `check`, which raises Refused, needs beside those of the catalog; none if facts do not help, or if
    what is asked has many columns without facts.

    Values are left out where something else does, since they take most words; those of days always: groups are coarser.
    """

    def accepted(facts: tuple[MissingFact, ...]) -> bool:
        return accepts(check, Catalog(tuple(_with(table, facts) for table in catalog.tables)))

    asked, private = asked.lower(), [table for table in catalog.tables if not table.public]
    tables = [table for table in private if table.name.lower() in asked] or private
    columns = [(t, f) for t in tables for f in t.fields if f.name != t.unit and f.name.lower() in asked]
    listed = [MissingFact("values", _LISTED[f.type], t, f) for t, f in columns if f.type in _LISTED and not f.values]
    numbers = [(t, f) for t, f in columns if f.type.is_number and f.bounds is None and not f.auto]
    limits = [
        MissingFact(limit.value, example, table)
        for limit, example in ((Limit.GROUPS, 3), (Limit.ROWS, 5))
        for table in tables
        if not table.by_row and getattr(table, limit.value) is None and limit not in table.auto
    ]
    facts = (*listed, *(MissingFact("bounds", _BOUNDS, t, f) for t, f in numbers), *limits)
    found = least_facts(facts, accepted) if len(facts) <= _MOST and accepted(facts) else ()
    return [fact for fact in reversed(found) if fact.field is None or fact.field.type not in _DAYS]


def accepts(check: Callable[[Catalog], object], catalog: Catalog) -> bool:
    try:
        check(catalog)
    except Refused:
        return False
    return True


def _with(table: Table, facts: Sequence[MissingFact]) -> Table:
    """The table with these facts declared."""
    own = [fact for fact in facts if fact.table is table]
    fields = {field.name: field for field in table.fields}
    for fact in own:
        if fact.field is not None:
            fields[fact.field.name] = replace(fields[fact.field.name], **{fact.name: fact.example})
    limits = {fact.name: fact.example for fact in own if fact.field is None}
    return replace(table, fields=tuple(fields.values()), **limits)


def ask_steward(facts: Sequence[MissingFact]) -> str:
    """For analysts, who cannot declare facts."""
    *first, last = [f"{fact.name} for `{(fact.field or fact.table).name}`" for fact in facts]
    return f"have the steward declare {', '.join(first)}{' and ' if first else ''}{last}."


def pass_to_open(facts: Sequence[MissingFact], *, by_table: bool = False) -> str:
    """For those who called `lw.open`, with one table or with several by name."""
    passed: dict[str, Any] = {}
    for fact in facts:
        example = (0, 100) if fact.name == "bounds" else list(fact.example) if fact.field else fact.example
        *outer, last = [fact.name, *([fact.table.name] if by_table else []), *([fact.field.name] if fact.field else [])]
        reduce(lambda inner, name: inner.setdefault(name, {}), outer, passed)[last] = example
    return f"pass {', '.join(f'{name}={given!r}' for name, given in passed.items())} to lw.open, with your own values."


def write_toml(facts: Sequence[MissingFact]) -> str:
    """For those with a lapwing.toml: its lines. A line of a column takes the place of the one that is there."""
    lines: dict[str, list[str]] = {}
    for fact in facts:
        name, section = json.dumps(fact.table.name, ensure_ascii=False), "" if fact.field is None else ".columns"
        example = json.dumps(fact.example) if fact.name == "values" else fact.example
        line = f"{fact.name} = {example}"
        if fact.field is not None:
            bare, kind = Field(fact.field.name, fact.field.type), f'type = "{fact.field.type.value}"'
            column = json.dumps(fact.field.name, ensure_ascii=False)
            line = f"{column} = {{ {kind if fact.field == bare else '...'}, {line} }}"
        lines.setdefault(f"[tables.{name}{section}]", []).append(line)
    listed = "\n".join("\n".join([title, *below]) for title, below in lines.items())
    where = (
        "put these lines under their headers in lapwing.toml, with your own values; a column's line replaces the old"
    )
    return f"{where}:\n{listed}\n"
