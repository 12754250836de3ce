"""A lecture: a page, its cells, and running them one after the other."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from lapwing.errors import Misconfigured

_NAMES = ("definition", "budget", "local-or-global", "choosing", "attacks")
LECTURES = {name: f"{number}-{name}.md" for number, name in enumerate(_NAMES, 1)}

_BLOCK = re.compile(r"^```(python)?\n(.*?)^```\n", flags=re.DOTALL | re.MULTILINE)
_SOLUTIONS = "\n## Solutions\n"


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of a page: text, Python code, or what the code before it prints."""

    kind: Literal["text", "code", "output"]
    text: str


@dataclass(frozen=True, slots=True)
class Lecture:
    name: str
    page: str

    @property
    def title(self) -> str:
        return self.page.split("\n", 1)[0].removeprefix("# ")

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The whole page, with the solutions."""
        return tuple(_cells(self.page))

    def run(self, *, solutions: bool = False) -> Iterator[str]:
        """Runs the code from top to bottom. Yields each text, and each block of code with what it printed this time."""
        page = self.page if solutions else self.page.split(_SOLUTIONS)[0]
        names: dict[str, Any] = {"__name__": self.name}
        for cell in _cells(page):
            if cell.kind == "text":
                shown = re.sub(r"^!\[.*?\]\(.*?\)\n", "", cell.text, flags=re.MULTILINE)  # no pictures
                yield re.sub(r"\[(.*?)\]\(.*?\)", r"\1", shown).strip()
            elif cell.kind == "code":
                printed = io.StringIO()
                with redirect_stdout(printed):
                    exec(compile(cell.text, f"lecture {self.name}", "exec"), names)
                yield f"{_quoted(cell.text)}\n{printed.getvalue()}".rstrip()


def read_lecture(name: str) -> Lecture:
    names = list(LECTURES)
    if name.isdecimal() and 1 <= int(name) <= len(names):
        name = names[int(name) - 1]
    if name not in LECTURES:
        raise Misconfigured(f"no lecture is called {name!r}. There are {', '.join(names)}.")
    return Lecture(name, files(__package__).joinpath(LECTURES[name]).read_text(encoding="utf-8"))


def _cells(page: str) -> Iterator[Cell]:
    end = 0
    for block in [*_BLOCK.finditer(page), None]:
        text = page[end : block.start()] if block else page[end:]
        if text.strip():
            yield Cell("text", text.strip("\n") + "\n")
        if block:
            yield Cell("code" if block[1] else "output", block[2])
            end = block.end()


def _quoted(code: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in code.splitlines())
