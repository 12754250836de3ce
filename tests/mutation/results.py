"""What became of the planned mutants, kept in results.json, and the part of docs/mutants.md that says so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mutants import MUTANTS, Mutant
from trial import ROOT

PAGE = ROOT / "docs" / "mutants.md"
KEPT = Path(__file__).with_name("results.json")
MARK = "<!-- What follows is made by tests/mutation/run.py -->\n"
SURVIVED = "**survived**"


@dataclass(frozen=True, slots=True)
class Result:
    """When a mutant was tried, and the first test that failed; nothing if none did."""

    mistake: str
    """The mark of the mutant as it was tried."""
    on: str
    by: str | None


def read() -> dict[str, Result]:
    """The results by the names of their mutants."""
    return {name: Result(**kept) for name, kept in json.loads(KEPT.read_text(encoding="utf-8")).items()}


def keep(new: Mapping[str, Result]) -> None:
    """Adds results, forgets those of mutants that are no longer on the list, and writes the page."""
    known = read() | dict(new)
    listed = {mutant.name: known[mutant.name] for mutant in MUTANTS if mutant.name in known}
    lines = (f"{_json(name)}: {_json(asdict(result))}" for name, result in listed.items())
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), listed), encoding="utf-8")


def page(text: str, results: Mapping[str, Result]) -> str:
    """The page with what is known of each mutant of the list below its mark."""
    tried = [mutant for mutant in MUTANTS if mutant.name in results]
    as_is = [mutant for mutant in tried if results[mutant.name].mistake == mutant.mark]
    noticed = sum(results[mutant.name].by is not None for mutant in as_is)
    said = [f"The list has {len(MUTANTS)} mutants. {len(as_is)} have been tried as they are; {noticed} were noticed."]
    said += _named("Changed since they were tried", (mutant for mutant in tried if mutant not in as_is))
    said += _named("Not tried yet", (mutant for mutant in MUTANTS if mutant.name not in results))
    rows = [_row(mutant, results[mutant.name]) for mutant in tried]
    table = "\n".join(["| mutant | definition | what it breaks | noticed by | tried |", "|---|---|---|---|---|", *rows])
    sums = "\n\n".join(said)
    return f"{text.split(MARK)[0]}{MARK}\n{sums}\n\n{table}\n"


def _named(what: str, mutants: Iterable[Mutant]) -> list[str]:
    names = [mutant.name for mutant in mutants]
    return [f"{what} ({len(names)}): {'; '.join(names)}."] if names else []


def _row(mutant: Mutant, result: Result) -> str:
    by = SURVIVED if result.by is None else _code(result.by)
    return f"| {mutant.name} | `{mutant.where}` | {mutant.why} | {by} | {result.on} |"


def _code(text: str) -> str:
    short = text if len(text) <= 110 else text[:107] + "..."
    return "`" + short.replace("|", "\\|") + "`"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
