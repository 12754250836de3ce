"""Breaks the privacy core on purpose, one line at a time, and sees whether the tests notice.

    python tests/mutation/run.py [word ...]      only the mutants whose name holds one of the words

Each mutant is one changed line in a copy of the package; the tests named for it run against the copy until the first
failure. A mutant that no test kills is a hole in the tests. The result is written to docs/mutants.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from mutants import MUTANTS, Mutant  # noqa: E402

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
        (ROOT / "docs" / "mutants.md").write_text(_page(verdicts), encoding="utf-8")
    return 0 if share >= 0.95 else 1


def _tried(mutant: Mutant) -> Verdict:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(
            ROOT / "src" / "lapwing", Path(folder) / "lapwing", ignore=shutil.ignore_patterns("__pycache__")
        )
        file = Path(folder) / "lapwing" / mutant.file
        file.write_text(mutant.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
        by = _first_failure(folder, mutant)
    verdict = Verdict(mutant, by is not None, by or "", time.monotonic() - started)
    print(
        f"{'killed  ' if verdict.killed else 'SURVIVED'} {mutant.name} ({verdict.seconds:.0f} s) {verdict.by}",
        flush=True,
    )
    return verdict


def _first_failure(folder: str, mutant: Mutant) -> str | None:
    """The first test that fails against the copy in the folder."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-m",
               "not slow", *mutant.tests]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return "the tests never end"
    if done.returncode == 0:
        return None
    lines = done.stdout.splitlines()
    failed = [
        line for line in lines if line.startswith("FAILED") or (line.startswith("ERROR") and "errors.Bug" in line)
    ]
    if not failed:
        print(f"tests that cannot start notice nothing: {mutant.name}", flush=True)
        return None
    return failed[0].split(" - ")[0].split(" ", 1)[1]


def _page(verdicts: list[Verdict]) -> str:
    killed = sum(v.killed for v in verdicts)
    rows = "\n".join(
        f"| {v.mutant.name} | `{v.mutant.file}` | {v.mutant.why} | {_code(v.by) if v.killed else '**survived**'} |"
        for v in verdicts
    )
    return (
        "# Mutants of the privacy core\n\n"
        "Each line of this table is one deliberate mistake in the code that privacy rests on, and the first test that "
        "notices it.\nMade by `python tests/mutation/run.py`; the mistakes are listed in tests/mutation/mutants.py.\n\n"
        f"{killed} of {len(verdicts)} are noticed ({killed / len(verdicts):.0%}).\n\n"
        "| mutant | file | what it breaks | noticed by |\n|---|---|---|---|\n" + rows + "\n"
    )


def _code(text: str) -> str:
    short = text if len(text) <= 110 else text[:107] + "..."
    return "`" + short.replace("|", "\\|") + "`"


if __name__ == "__main__":
    sys.exit(main())
