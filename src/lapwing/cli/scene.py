"""The scenes of the demo, and how their parts look."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

MOST_WIDTH = 110


@dataclass(frozen=True, slots=True)
class Scene:
    """What is shown, and the same as facts for JSON."""

    name: str
    title: str
    shown: tuple[RenderableType, ...]
    facts: dict[str, Any]


def stage() -> Console:
    """The console for scenes: standard output, not too wide."""
    console = Console(highlight=False)
    console.width = min(console.width, MOST_WIDTH)
    return console


def show(console: Console, scene: Scene, number: int) -> None:
    console.print(Text(f"\n{number}. {scene.title}", style="bold"))
    console.print(Padding(Group(*scene.shown), (0, 0, 0, 3)))


def say(text: str) -> Text:
    return Text(text)


def command(text: str, prompt: str = "$") -> Text:
    return Text(f"{prompt} {text}", style="cyan")


def quote(text: str) -> Padding:
    return Padding(Text(text, style="italic"), (0, 0, 0, 2))


def listing(text: str, language: str) -> Padding:
    return Padding(Syntax(text.rstrip(), language, theme="ansi_dark", background_color="default"), (1, 0, 0, 2))


def table(*names: str, left: int = 1) -> Table:
    """An empty table; the first `left` columns hold words, the others numbers."""
    empty = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    for index, name in enumerate(names):
        empty.add_column(name, justify="left" if index < left else "right")
    return empty


def bullets(lines: Iterable[str]) -> Table:
    grid = Table.grid(padding=(0, 1))
    for line in lines:
        grid.add_row("-", Text(line))
    return grid


def tick(text: str, good: bool) -> Text:
    """A number with a tick or a cross."""
    return Text(f"{text} {'✓' if good else '✗'}", style="green" if good else "red")
