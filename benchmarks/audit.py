"""Audits: Lapwing, OpenDP and diffprivlib under the same auditor, and what it found.

Peers run in environments of their own under benchmarks/.venvs/, made on first use. Each mechanism makes 20,000
releases on either of two neighbours; alpha is 0.001 for each row. Writes benchmarks/results/audit.md.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lapwing as lw
from lapwing.lab import Audit, Claim, audit_outputs
from noise import HERE, environment

RUNS = 20_000
NEEDS = {"diffprivlib": ["diffprivlib==0.6.6", "scikit-learn<1.6"], "OpenDP": ["opendp==0.16.0"]}
PURE, APPROXIMATE, GAUSSIAN = Claim.dp(1), Claim.dp(1, 1e-5), Claim.gaussian(1)
REAL, WHOLE, ROWS = ("0.0", "1.0"), ("0", "1"), ("[0.5, 0.5]", "[0.5, NaN]")
TASKS: tuple[tuple[str, str, Claim, tuple[str, str]], ...] = (
    ("Lapwing", "Laplace, reals", PURE, REAL),
    ("Lapwing", "Laplace, integers", PURE, WHOLE),
    ("Lapwing", "Gaussian, reals", APPROXIMATE, REAL),
    ("Lapwing", "Gaussian, integers", APPROXIMATE, WHOLE),
    ("OpenDP", "Laplace, reals", PURE, REAL),
    ("OpenDP", "Laplace, integers", PURE, WHOLE),
    ("OpenDP", "Gaussian, reals", GAUSSIAN, REAL),
    ("OpenDP", "Gaussian, integers", GAUSSIAN, WHOLE),
    ("diffprivlib", "Laplace, reals", PURE, REAL),
    ("diffprivlib", "Laplace, integers", PURE, WHOLE),
    ("diffprivlib", "Gaussian, reals", APPROXIMATE, REAL),
    ("diffprivlib", "snapping", PURE, REAL),
    ("diffprivlib", "mean with a NaN row", PURE, ROWS),
)
NOTES = """
- A row that is not rejected is not shown to be private. One that is rejected has an epsilon above its claim, with
  confidence 0.999.
- The neighbours of the mean are two rows, one of which is NaN on one side; all others release 0 or 1.
- diffprivlib draws reals in floating point. No violation was found in its `Snapping`, made against this attack.
  Its `nanmean` is made for data with NaN.
- To reproduce: `python benchmarks/audit.py`. Any program that prints releases can be audited, see docs/lab.md.
"""


def ours(task: str) -> Callable[[Any], Any]:
    return lw.Laplace(epsilon=1) if task.startswith("Laplace") else lw.Gaussian(epsilon=1, delta=1e-5)


def releases(library: str, task: str, value: str) -> list[Any]:
    """So many releases on one neighbour."""
    if library == "Lapwing":
        mechanism, data = ours(task), json.loads(value)
        return [mechanism(data) for _ in range(RUNS)]
    script = HERE / "peers" / f"audit_{library.lower()}.py"
    command = [environment(f"audit-{library}", NEEDS[library]), script, task, value, str(RUNS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def line(library: str, task: str, claim: Claim, found: Audit) -> str:
    verdict = "**rejected**" if found.rejected else "no violation found"
    bound = f"{max(found.epsilon_lower, 0):.2f}"
    event = found.best.event.split(" in ")[0].split(" is ")[0] if found.best else ""
    return f"| {library} | {task} | {claim.text} | {verdict} | {bound} | {event} |"


def main() -> Path:
    """Audits everything, prints and writes the table."""
    rows = []
    for library, task, claim, pair in TASKS:
        found = audit_outputs(*(releases(library, task, value) for value in pair), claim)
        rows.append(line(library, task, claim, found))
        print(rows[-1], file=sys.stderr)
    versions = f"Lapwing {importlib.metadata.version('lapwing')}, OpenDP 0.16.0, diffprivlib 0.6.6"
    head = "| library | mechanism | claim | verdict | epsilon is at least | by |\n|---|---|---|---|---|---|"
    text = f"# Audits\n\n{RUNS:,} releases on each of two neighbours; alpha = 0.001. {versions}.\n\n{head}\n"
    path = HERE / "results" / "audit.md"
    path.write_text(text + "\n".join(rows) + "\n" + NOTES, encoding="utf-8")
    print(path.read_text(encoding="utf-8"))
    return path


if __name__ == "__main__":
    main()
