"""What `lapwing doctor` checks. Each check returns a sentence or raises a LapwingError that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lapwing.errors import Misconfigured
from lapwing.noise import SYSTEM
from lapwing.noise.bernoulli import exp_is_sound
from lapwing.settings import read_settings


def _settings(file: Path) -> str:
    settings = read_settings(file)
    weak = f". {settings.budget.weakness}" if settings.budget.weakness else ""
    return f"{file} declares {len(settings.tables)} table(s){weak}"


def _data(file: Path) -> str:
    from lapwing.engines.duckdb import DuckDBEngine

    settings = read_settings(file)
    DuckDBEngine(settings.tables, salt=0).close()
    return "every declared column is there"


def _randomness(_: Path) -> str:
    if SYSTEM.integer(128) == SYSTEM.integer(128):
        raise Misconfigured("the system's randomness repeats itself. Do not release anything.")
    return "the system gives fresh bits"


def _arithmetic(_: Path) -> str:
    if not exp_is_sound():
        return "numpy's exp is imprecise here; every draw is decided by exact integers and slower"
    return "numpy's exp keeps its error bound"


def _ledger(file: Path) -> str:
    from lapwing.ledger import verify_ledger
    from lapwing.ledger.wording import budget_text

    settings = read_settings(file)
    if not settings.ledger.exists() and not any(path.exists() for path in settings.witnesses):
        return "none yet; the first question makes it"
    report = verify_ledger(settings.ledger, witness=settings.witnesses)
    if not report.ok:
        raise Misconfigured(str(report))
    if report.budget is not None and report.budget != settings.budget:
        first, now = budget_text(report.budget), budget_text(settings.budget)
        raise Misconfigured(f"it was created with {first}, and {file} now declares {now}. Use the first one.")
    return str(report).splitlines()[0]


CHECKS: dict[str, Callable[[Path], str]] = {
    "settings": _settings,
    "data": _data,
    "randomness": _randomness,
    "arithmetic": _arithmetic,
    "ledger": _ledger,
}
