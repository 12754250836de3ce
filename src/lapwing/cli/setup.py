"""What a steward declares first, asked column by column: in the terminal, or on a page (setup_page.py).

Only names and types of columns are read. The types of a CSV file are guessed from its first rows, as `init` does, and
the file says so for review; nothing else is proposed from values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from lapwing.cli.draft import GUESSED, declared_source, quote_toml, source_of
from lapwing.cli.options import read_number
from lapwing.curator.settings import ROW
from lapwing.engines.source import Csv, title_of
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type

LISTED = (Type.TEXT, Type.INTEGER)


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What is declared of one column, as it was typed."""

    type: str
    bounds: str = ""
    """Two numbers, such as "0, 120"."""
    values: str = ""
    """Public values, with commas between."""


@dataclass(frozen=True, slots=True)
class SetupFacts:
    """What is declared of one file."""

    data: Path
    unit: str = ""
    epsilon: str = "1"
    delta: str = "0"
    rows_per_unit: str = ""
    groups_per_unit: str = ""
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)

    def toml(self, file: Path) -> str:
        """The text of a lapwing.toml with these facts."""
        epsilon, delta = read_number(self.epsilon, "epsilon"), read_number(self.delta, "delta")
        lines = ["# What is protected and what may be asked.", "", "[budget]", f"epsilon = {epsilon}"]
        lines += [f"delta = {delta}"] if delta else []
        source = source_of(str(self.data))
        name = quote_toml(title_of(source))
        lines += ["", f"[tables.{name}]", declared_source(source, file).rstrip(), f"unit = {quote_toml(self.unit)}"]
        for limit in ("rows_per_unit", "groups_per_unit"):
            given = getattr(self, limit)
            lines += [f"{limit} = {_whole(given, limit)}"] if given and self.unit != ROW else []
        lines += ['version = "1"', "", f"[tables.{name}.columns]", *([GUESSED] if isinstance(source, Csv) else [])]
        return "\n".join([*lines, *(_column(name, facts) for name, facts in self.columns.items()), ""])


def ask_facts(data: Path, types: Mapping[str, Type], unit: str | None, epsilon: str | None, delta: str) -> SetupFacts:
    """Asks in the terminal what is not given; Enter skips."""
    names = ", ".join(types)
    while unit is None or (unit != ROW and unit.lower() not in (name.lower() for name in types)):
        unit = typer.prompt(f'Which column identifies a person? ({names}; or "row" if every row is another person)')
    unit = next((name for name in types if name.lower() == unit.lower()), unit)
    epsilon = epsilon or typer.prompt("How much may ever leak about one person (epsilon)?", default="1")
    rows = groups = ""
    if unit != ROW:
        rows = _prompt("At most how many rows of one person count in one group? Needed for COUNT(*) and SUM")
        groups = _prompt("In at most how many groups is one person? Needed to keep noise small in GROUP BY")
    columns = {name: ColumnFacts(kind.value) for name, kind in types.items()}
    for name, kind in types.items():
        if name != unit:
            bounds = _prompt(f"{name} ({kind.value}): public bounds, such as 0, 120") if kind.is_number else ""
            listed = kind in LISTED and not bounds
            values = _prompt(f"{name} ({kind.value}): public values to group by, such as F, M") if listed else ""
            columns[name] = ColumnFacts(kind.value, bounds, values)
    return SetupFacts(data, unit, epsilon, delta, rows, groups, columns)


def _prompt(question: str) -> str:
    return str(typer.prompt(f"{question} (Enter to skip)", default="", show_default=False)).strip()


def _column(name: str, facts: ColumnFacts) -> str:
    said = [f"type = {quote_toml(facts.type)}"]
    for what, given in (("bounds", facts.bounds), ("values", facts.values)):
        texts = what == "values" and facts.type == Type.TEXT.value
        parts = [quote_toml(part) if texts else str(read_number(part, what)) for part in _parts(given)]
        said += [f"{what} = [{', '.join(parts)}]"] if given else []
    return f"{quote_toml(name)} = {{ {', '.join(said)} }}"


def _parts(text: str) -> Iterator[str]:
    return (part.strip() for part in text.strip("[] ").split(",") if part.strip())


def _whole(text: str, name: str) -> int:
    if not text.strip().isdigit():
        raise Misconfigured(f"`{name}` is {text!r}; it must be a whole number, such as 5.")
    return int(text)


def facts_from(data: Path, told: Mapping[str, Any]) -> SetupFacts:
    """The facts of a filled form."""
    columns = {
        name: ColumnFacts(**{fact: str(value) for fact, value in facts.items()})
        for name, facts in told["columns"].items()
    }
    return SetupFacts(data, **{name: str(told[name]) for name in _FORM}, columns=columns)


_FORM = ("unit", "epsilon", "delta", "rows_per_unit", "groups_per_unit")
