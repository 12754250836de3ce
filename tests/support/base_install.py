"""Runs a program as after `pip install .`: whatever only an extra or a test brings is not there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement

_BLOCKER = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""


PROJECT = Path(__file__).parents[2] / "pyproject.toml"
OWN: list[str] = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
"""What Lapwing itself needs, as it is declared now."""


def needed() -> set[str]:
    """The distributions that the base install brings."""
    found, left = set(), ["lapwing"]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        for text in OWN if name == "lapwing" else distribution(name).requires or ():
            required = Requirement(text)
            if required.marker is None or required.marker.evaluate({"extra": ""}):
                left.append(_plain(required.name))
    return found


@cache
def hidden() -> frozenset[str]:
    """The modules of all other distributions."""
    base = needed()
    owners = packages_distributions().items()
    return frozenset(module for module, names in owners if not base & {_plain(name) for name in names})


def run_base(code: str, folder: Path, arguments: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """The program in this folder, in a process that has only the base install."""
    program = f"HIDDEN = {sorted(hidden())!r}{_BLOCKER}{code}"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
