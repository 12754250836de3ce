"""A curator from what is declared: a steward's lapwing.toml, or tables with their sources."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from lapwing.curator import Curator
from lapwing.curator.missing_facts import write_toml
from lapwing.curator.settings import read_settings
from lapwing.engines.backends import open_engine
from lapwing.engines.source import Source
from lapwing.expressions.table import Catalog, Table
from lapwing.ledger import Ledger, open_ledger


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
