"""Curators and ledgers that a command opened. They are closed at its end, not left to the garbage collector."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lapwing.curator import Curator
    from lapwing.ledger import Ledger

OPENED = ExitStack()


def curator_at(file: Path) -> Curator:
    """The curator that a settings file declares."""
    from lapwing.curator import load

    return OPENED.enter_context(load(file))


def ledger_at(file: Path) -> Ledger:
    """The ledger of a settings file."""
    from lapwing.curator.settings import read_settings
    from lapwing.ledger import open_ledger

    settings = read_settings(file)
    return OPENED.enter_context(open_ledger(settings.ledger, settings.budget, witness=settings.witnesses))
