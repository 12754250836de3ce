"""Breaks the privacy core on purpose, one line at a time, and sees whether the tests notice.

    python tests/mutation/run.py [word ...]      only the mutants whose name holds one of the words
    python tests/mutation/run.py --list          none: brings docs/mutants.md up to date with the list

Each mutant is one changed line in a copy of the package; the tests named for it run against the copy until the first
failure. A mutant that no test kills is a hole in the tests. The result is written to docs/mutants.md, which keeps the
rows of the mutants that were not tried now and counts those that never were.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutants import MUTANTS, Mutant
from trial import PACKAGE, ROOT, OutOfTime, first_failure

PAGE = ROOT / "docs" / "mutants.md"
MARK = "<!-- What follows is made by tests/mutation/run.py -->\n"
SURVIVED = "**survived**"
LIMIT = 600  # seconds; a mutant that makes the tests hang is killed too
WORKERS = int(os.environ.get("WORKERS", "2"))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant."""

    mutant: Mutant
    killed: bool
    by: str
    seconds: float


def main() -> int:
    """Runs them, prints the survivors, and writes the page."""
    words = sys.argv[1:]
    if words == ["--list"]:
        PAGE.write_text(updated(PAGE.read_text(encoding="utf-8"), []), encoding="utf-8")
        return 0
    chosen = [m for m in MUTANTS if not words or any(word in m.name for word in words)]
    with ThreadPoolExecutor(WORKERS) as pool:
        verdicts = list(pool.map(_tried, chosen))
    survivors = [v for v in verdicts if not v.killed]
    share = 1 - len(survivors) / max(1, len(verdicts))
    print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} mutants killed ({share:.0%})")
    for verdict in survivors:
        print(f"  survived: {verdict.mutant.name}: {verdict.mutant.why}")
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8"), verdicts), encoding="utf-8")
    return 0 if share >= 0.95 else 1


def _tried(mutant: Mutant) -> Verdict:
    started = time.monotonic()
    text = (PACKAGE / mutant.file).read_text(encoding="utf-8")
    by = _noticed_by(mutant, mutant.applied(text))
    verdict = Verdict(mutant, by is not None, by or "", time.monotonic() - started)
    print(
        f"{'killed  ' if verdict.killed else 'SURVIVED'} {mutant.name} ({verdict.seconds:.0f} s) {verdict.by}",
        flush=True,
    )
    return verdict


def _noticed_by(mutant: Mutant, text: str) -> str | None:
    """The first test that fails. A test that cannot even start notices nothing, unless it found a bug."""
    try:
        found = first_failure(mutant.file, text, mutant.tests, limit=LIMIT)
    except OutOfTime:
        return "the tests never end"
    if found is None or not (found.startswith("FAILED") or "errors.Bug" in found):
        print(f"{mutant.name}: {found or 'no test failed'}", flush=True)
        return None
    return found.split(" - ")[0].split(" ", 1)[1]


def rows_of(page: str) -> dict[str, str]:
    """The rows of the page, by the names of their mutants."""
    lines = page.split(MARK)[1].splitlines()
    return {line[2:].split(" | ")[0]: line for line in lines if line.startswith("| ") and line.endswith(" |")}


def updated(page: str, verdicts: list[Verdict]) -> str:
    """The page with a row for each mutant of the list that was ever tried, and the number of the others."""
    rows = rows_of(page) | {v.mutant.name: _row(v) for v in verdicts}
    tried = [rows[mutant.name] for mutant in MUTANTS if mutant.name in rows]
    killed = sum(SURVIVED not in row for row in tried)
    new = [mutant.name for mutant in MUTANTS if mutant.name not in rows]
    said = f"Of {len(MUTANTS)} mutants {len(tried)} have been tried, and {killed} of them are noticed."
    said += f" Not tried yet: {'; '.join(new)}." if new else ""
    table = "\n".join(["| mutant | file | what it breaks | noticed by |", "|---|---|---|---|", *tried])
    return f"{page.split(MARK)[0]}{MARK}\n{said}\n\n{table}\n"


def _row(v: Verdict) -> str:
    return f"| {v.mutant.name} | `{v.mutant.file}` | {v.mutant.why} | {_code(v.by) if v.killed else SURVIVED} |"


def _code(text: str) -> str:
    short = text if len(text) <= 110 else text[:107] + "..."
    return "`" + short.replace("|", "\\|") + "`"


if __name__ == "__main__":
    sys.exit(main())
