"""Breaks the privacy core on purpose, one line at a time, and sees whether the tests notice.

    python tests/mutation/run.py [word ...]      only the mutants whose name holds one of the words

Each mutant is one changed line in a copy of the package; the tests named for it run against the copy until the first
failure. A mutant that no test kills is a hole in the tests. The result is written to docs/mutants.md.
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
    """Runs them, prints the survivors, and writes the list if all of them ran."""
    words = sys.argv[1:]
    chosen = [m for m in MUTANTS if not words or any(word in m.name for word in words)]
    with ThreadPoolExecutor(WORKERS) as pool:
        verdicts = list(pool.map(_tried, chosen))
    survivors = [v for v in verdicts if not v.killed]
    share = 1 - len(survivors) / len(verdicts)
    print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} mutants killed ({share:.0%})")
    for verdict in survivors:
        print(f"  survived: {verdict.mutant.name}: {verdict.mutant.why}")
    if not words:
        PAGE.write_text(_page(verdicts), encoding="utf-8")
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


def _page(verdicts: list[Verdict]) -> str:
    killed = sum(v.killed for v in verdicts)
    rows = "\n".join(
        f"| {v.mutant.name} | `{v.mutant.file}` | {v.mutant.why} | {_code(v.by) if v.killed else '**survived**'} |"
        for v in verdicts
    )
    head = PAGE.read_text(encoding="utf-8").split(MARK)[0]
    return (
        f"{head}{MARK}\n{killed} of {len(verdicts)} are noticed ({killed / len(verdicts):.0%}).\n\n"
        "| mutant | file | what it breaks | noticed by |\n|---|---|---|---|\n" + rows + "\n"
    )


def _code(text: str) -> str:
    short = text if len(text) <= 110 else text[:107] + "..."
    return "`" + short.replace("|", "\\|") + "`"


if __name__ == "__main__":
    sys.exit(main())
