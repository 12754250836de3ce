"""The tests of what changed: `make quick` runs them.

Changed is what differs from the commit where this branch left `main` (from HEAD on `main` itself), and what git does
not know yet. A file of a room, `src/lapwing/<room>/` or `tests/<room>/`, stands for the tests of that room.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ALWAYS = ("tests/test_shape.py", "tests/test_errors.py")
"""The rules of the house read every file."""
LONG = (
    *("tests/server/test_signals.py", "tests/server/test_schema.py", "tests/server/test_two_servers.py"),
    *("tests/server/test_processes.py", "tests/ledger/test_postgres_crash.py", "tests/ledger/test_postgres_standby.py"),
    *("tests/e2e/test_shared_ledger.py", "tests/e2e/test_crash.py", "tests/e2e/test_base_install.py"),
    *("tests/plan/test_neighbours.py", "tests/plan/test_relations_neighbours.py", "tests/engines/test_suite.py"),
)
"""Files of ten seconds and more: they are run after a change of their own. `make test` runs them all."""
PAGES = ("tests/test_docs.py", "tests/test_pages.py", "tests/test_docs_sql.py")


def chosen(paths: Iterable[str], root: Path = ROOT) -> list[str]:
    """What pytest runs after these files changed. A file is not repeated if its folder is there."""
    found = {test for path in paths for test in _chosen(path, root)} | set(ALWAYS)
    return sorted(test for test in found if not any(str(parent) in found for parent in Path(test).parents))


def arguments(paths: Iterable[str], root: Path = ROOT) -> list[str]:
    """What pytest is called with: the chosen tests without those that take long."""
    known = set(paths)
    return [*chosen(known, root), *(f"--ignore={file}" for file in LONG if file not in known)]


def _chosen(path: str, root: Path) -> list[str]:
    match path.split("/"):
        case ["src", "lapwing", str(name)] if name.endswith(".py"):
            candidates = [f"tests/test_{name}"]
        case ["src", "lapwing", str(room), *_]:
            candidates = [f"tests/{room}", f"tests/test_{room}.py"]
        case ["tests", "support", str(helper)]:
            candidates = [*_users(Path(helper).stem, root), "tests/test_support.py"]
        case ["tests", str(name)]:
            candidates = [path] if name.startswith("test_") else []
        case ["tests", str(room), *_]:
            candidates = [f"tests/{room}"]
        case [str(name)] | ["docs", *_, str(name)] if name.endswith(".md"):
            candidates = [*PAGES]
        case _:
            candidates = []
    return [candidate for candidate in candidates if (root / candidate).exists()]


def _users(helper: str, root: Path) -> list[str]:
    """Test files that import a module of tests/support."""
    imports = re.compile(rf"(?m)^\s*from support(\.{helper}\b| import .*\b{helper}\b)")
    files = sorted((root / "tests").rglob("test_*.py"))
    return [file.relative_to(root).as_posix() for file in files if imports.search(file.read_text(encoding="utf-8"))]


def changed(root: Path = ROOT) -> list[str]:
    """Files that differ from where this branch left main, and those that git does not know."""
    base = _git(root, "merge-base", "HEAD", "main") or ["HEAD"]
    return sorted(
        {*_git(root, "diff", "--name-only", *base), *_git(root, "ls-files", "--others", "--exclude-standard")}
    )


def _git(root: Path, *words: str) -> list[str]:
    """Lines that git prints; none if it fails, as it does where there is no branch `main`."""
    told = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return told.stdout.splitlines() if told.returncode == 0 else []


if __name__ == "__main__":
    print(" ".join(arguments(changed())))
