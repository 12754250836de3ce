"""Breaks the privacy core on purpose, one mistake at a time, and sees whether the tests notice.

    python tests/mutation/run.py [word ...]      only the mutants whose name holds one of the words
    python tests/mutation/run.py --changed       those that were never tried as they are now
    python tests/mutation/run.py --list          none: brings docs/mutants.md up to date with the list

Each mutant is one mistake in a copy of the package; the tests named for it run against the copy until the first
failure. It counts if the test fails again by itself, and passes on the unchanged package. A mutant that no test kills
is a hole in the tests. Results are kept in results.json, and docs/mutants.md is written from them: a partial run
changes its own rows only.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import results
from mutants import MUTANTS, Mutant
from results import Result
from trial import OutOfTime, failed_test, first_failure, passes_unchanged

LIMIT = 600  # seconds; a mutant that makes the tests hang is killed too
WORKERS = int(os.environ.get("WORKERS", "2"))
_lock = threading.Lock()


def main() -> int:
    """Runs them, prints the survivors, and writes the page."""
    chosen = chosen_by(sys.argv[1:])
    with ThreadPoolExecutor(WORKERS) as pool:
        found = dict(zip((mutant.name for mutant in chosen), pool.map(_tried, chosen), strict=True))
    results.keep(found)  # also if it is none: the list may have changed
    survivors = [mutant for mutant in chosen if found[mutant.name].by is None]
    share = 1 - len(survivors) / max(1, len(chosen))
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed ({share:.0%})")
    for mutant in survivors:
        print(f"  survived: {mutant.name}: {mutant.why}")
    return 0 if share >= 0.95 else 1


def chosen_by(words: list[str]) -> list[Mutant]:
    """The mutants that the command line asks for."""
    if words == ["--list"]:
        return []
    if words == ["--changed"]:
        known = results.read()
        return [m for m in MUTANTS if m.name not in known or known[m.name].mistake != m.mark]
    return [m for m in MUTANTS if not words or any(word in m.name for word in words)]


def _tried(mutant: Mutant) -> Result:
    started = time.monotonic()
    by = _noticed_by(mutant)
    seconds = time.monotonic() - started
    print(f"{'killed  ' if by else 'SURVIVED'} {mutant.name} ({seconds:.0f} s) {by or ''}", flush=True)
    result = Result(mutant.mark, datetime.now(UTC).date().isoformat(), by)
    with _lock:  # at once, so that an interrupted run keeps its results
        results.keep({mutant.name: result})
    return result


def _noticed_by(mutant: Mutant) -> str | None:
    """The first test that fails, fails again by itself, and passes on the unchanged package.

    A test that cannot even start notices nothing, unless it found a bug.
    """
    file, text = mutant.mistake.applied()
    doubtful: list[str] = []
    try:
        while found := first_failure(file, text, mutant.tests, limit=LIMIT, but=doubtful):
            if not (found.startswith("FAILED") or "errors.Bug" in found):
                break
            test = failed_test(found)
            whole = test.split("[")[0]
            if passes_unchanged(test) and first_failure(file, text, [whole], limit=LIMIT) is not None:
                return test
            doubtful.append(whole)
    except OutOfTime:
        return "the tests never end"
    print(f"{mutant.name}: {found or 'no test failed'} {' '.join(doubtful)}", flush=True)
    return None


if __name__ == "__main__":
    sys.exit(main())
