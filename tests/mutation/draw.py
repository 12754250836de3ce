"""Draws mutants at random from the rooms that privacy and answers rest on, and lists those that no test notices.

    python tests/mutation/draw.py [--count 100] [--seed 1] [--only privacy/loss.py] [--limit 900] [--near]

The draw is fixed by the seed and the source: every line of code has a rank, the hash of seed, file and line, and the
lines of least rank get one mistake each. A change elsewhere in the source leaves the other draws as they are. The
tests nearest to a line run first, all others after them, until one fails; it counts if it passes on the unchanged
package. Mutants that change nothing that matters are in equivalent.py, with the reason. What has run is kept in
.mutants.jsonl: an interrupted run goes on where it was as long as no source and no test has changed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import functools
import hashlib
import itertools
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import equivalent
from changes import Change, changes
from trial import PACKAGE, ROOT, OutOfTime, failed_test, first_failure, passes_unchanged

ROOMS = (
    *("numbers.py", "noise", "privacy", "mechanisms", "classroom", "ledger", "curator"),
    *("plan", "answers", "sql/derive.py", "sql/grouping.py", "sql/joins.py", "sql/relation.py"),
)
PICTURES = ("answers/picture.py", "answers/chart.py")
"""Where a mark stands in a picture is no answer."""
EACH = 120  # seconds: a test that takes longer has failed
NEAR = 8  # files of tests that run before all others are even read
KEPT = ROOT / ".mutants.jsonl"
WORKERS = int(os.environ.get("WORKERS", "2"))
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Drawn:
    """A change of one file."""

    file: str
    change: Change

    @property
    def before(self) -> str:
        return source(self.file)

    @property
    def after(self) -> str:
        return self.change.applied(self.before)

    @property
    def place(self) -> str:
        return f"{self.file}:{self.change.line}"

    @property
    def lines(self) -> tuple[str, str]:
        """What was taken out and what was put in, without the space around it; stable under edits elsewhere."""
        text, start, end = self.before, self.change.start, self.change.end
        first, last = text.rfind("\n", 0, start) + 1, (text + "\n").index("\n", end)
        return _joined(text[first:last]), _joined(text[first:start] + self.change.after + text[end:last])

    @property
    def reason(self) -> str | None:
        """Why it changes nothing that matters, if that is known."""
        if self.file not in {file for file, _ in equivalent.known()}:
            return None
        return equivalent.known().get((self.file, ast.dump(ast.parse(self.after))))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant."""

    drawn: Drawn
    by: str | None
    """The test that noticed it."""
    note: str = ""


def _joined(text: str) -> str:
    return " ".join(text.split())


@functools.cache
def source(file: str) -> str:
    return (PACKAGE / file).read_text(encoding="utf-8")


def files() -> list[str]:
    """All files of the rooms."""
    found = [path for room in ROOMS for path in sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / room]]
    return [name for path in found if (name := path.relative_to(PACKAGE).as_posix()) not in PICTURES]


def rank(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def drawn(seed: int) -> Iterator[Drawn]:
    """One mistake a line, without end until the lines are used up."""
    lines: dict[str, list[Drawn]] = {}
    for file in files():
        texts = source(file).splitlines()
        for change in changes(source(file)):
            nth = texts[: change.line].count(texts[change.line - 1])
            lines.setdefault(rank(seed, file, texts[change.line - 1].strip(), nth), []).append(Drawn(file, change))
    for name in sorted(lines):
        ordered = sorted(lines[name], key=lambda mutant: rank(seed, *mutant.lines))
        programs = (mutant for mutant in ordered if mutant.change.makes_another_program(mutant.before))
        yield from itertools.islice(programs, 1)


def nearest(file: str) -> list[str]:
    """Every test file, the most likely to notice a mistake in the file first."""
    room, stem = Path(file).parent.as_posix(), Path(file).stem
    module = "lapwing." + file.removesuffix(".py").replace("/", ".")
    names = [
        name
        for name in re.findall(r"(?m)^(?:class|def) ([A-Za-z]\w+)", source(file))
        if "_" in name or name[0].isupper()
    ]
    words = re.compile("|".join([re.escape(module) + r"\b", *(rf"\b{name}\b" for name in names)]))

    def distance(path: Path) -> tuple[int, int, int, str]:
        name, text = path.relative_to(ROOT / "tests").as_posix(), path.read_text(encoding="utf-8")
        mirrored = name.startswith(f"{room}/test_") and stem in path.stem
        mirrored = mirrored or name in (f"test_{stem}.py", f"test_{room}.py")
        said = len(words.findall(text))
        kin = 2 if Path(name).parent.as_posix() == room else 3 if said else 4 if name.split("/")[0] in room else 5
        near = 0 if mirrored else 1 if module in text else kin
        return near, -said, name.count("/"), name

    every = [path for path in (ROOT / "tests").rglob("test_*.py") if "mutation" not in path.parts]
    return [path.relative_to(ROOT).as_posix() for path in sorted(every, key=distance) if path.name != "test_shape.py"]


def tried(mutant: Drawn, limit: float, near: bool) -> Verdict:
    """Runs the tests against it; if `near`, only those that come first."""
    ordered, found = nearest(mutant.file), None
    try:
        for tests in (ordered[:NEAR],) if near else (ordered[:NEAR], ordered[NEAR:]):
            found = found or first_failure(mutant.file, mutant.after, tests, limit=limit, each=EACH)
    except OutOfTime:
        return Verdict(mutant, None, f"(no test failed in {limit:.0f} s)")
    if found is None:
        return Verdict(mutant, None)
    test = failed_test(found)
    return Verdict(mutant, test) if passes_unchanged(test) else Verdict(mutant, None, f"({test} fails anyway)")


def main() -> int:
    """Draws, tries, and prints what survived."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("--count", type=int, default=100)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--only", default="")
    asked.add_argument("--limit", type=float, default=900)
    asked.add_argument("--near", action="store_true", help="a quick look: only the nearest tests")
    terms = asked.parse_args()
    wanted = (mutant for mutant in drawn(terms.seed) if mutant.file.startswith(terms.only))
    chosen = list(itertools.islice(wanted, terms.count))
    with ThreadPoolExecutor(WORKERS) as pool:
        verdicts = list(pool.map(lambda mutant: _known_or_tried(mutant, terms.limit, terms.near), chosen))
    return report(verdicts)


def report(verdicts: list[Verdict]) -> int:
    """Prints the survivors and the sum of it; 1 if any mutant survived that has no reason."""
    survived = [v for v in verdicts if v.by is None and v.drawn.reason is None]
    same = [v for v in verdicts if v.by is None and v.drawn.reason is not None]
    for verdict in same:
        print(f"\nequivalent {verdict.drawn.place}: {verdict.drawn.reason}\n{shown(verdict.drawn)}")
    for verdict in survived:
        print(f"\nSURVIVED {verdict.drawn.place} {verdict.note}\n{shown(verdict.drawn)}")
    noticed = len(verdicts) - len(survived) - len(same)
    print(f"\n{len(verdicts)} drawn, {noticed} noticed, {len(same)} equivalent, {len(survived)} survived")
    return 1 if survived else 0


def shown(mutant: Drawn) -> str:
    """The change as a diff."""
    diff = difflib.unified_diff(mutant.before.splitlines(), mutant.after.splitlines(), n=0, lineterm="")
    return "\n".join(f"    {line}" for line in list(diff)[3:])


def _known_or_tried(mutant: Drawn, limit: float, near: bool) -> Verdict:
    if mutant.reason is not None:
        return Verdict(mutant, None)
    key = rank(tree(), mutant.place, mutant.after, limit, near)
    known = {line["key"]: line for line in map(json.loads, KEPT.read_text().splitlines())} if KEPT.exists() else {}
    if key in known:
        return Verdict(mutant, known[key]["by"], known[key]["note"])
    verdict = tried(mutant, limit, near)
    with _lock, KEPT.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"key": key, "by": verdict.by, "note": verdict.note}) + "\n")
        print(f"{'noticed ' if verdict.by else 'SURVIVED'} {mutant.place} {verdict.by or verdict.note}", flush=True)
    return verdict


@functools.cache
def tree() -> str:
    """One hash of all sources and tests."""
    every = [path for folder in (PACKAGE, ROOT / "tests") for path in sorted(folder.rglob("*.py"))]
    return rank(*(path.read_text(encoding="utf-8") for path in every if "mutation" not in path.parts))


if __name__ == "__main__":
    sys.exit(main())
