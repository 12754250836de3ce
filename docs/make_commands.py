"""Writes docs/commands.md from the commands themselves. Run it after a change; a test compares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from lapwing.cli.main import EXIT_CODES, app

PAGE = Path(__file__).with_name("commands.md")
HEAD = f"""\
# Commands

What `lapwing COMMAND --help` shows. With `--json`, a command prints one JSON document.

{EXIT_CODES}
"""


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command, with the words that call it; those that `lapwing --help` lists come first."""
    listed = (typer.main.get_command(app) if group is None else group).commands
    for name, one in sorted(listed.items(), key=lambda item: item[1].hidden):
        words = (*path, name)
        yield from commands(one, words) if hasattr(one, "commands") else [(" ".join(words), one)]


def page() -> str:
    return HEAD + "".join(_section(words, command) for words, command in commands())


def _section(words: str, command: Any) -> str:
    rows = "".join(f"| `{_written(one)}` | {_text(one.help or '')} |\n" for one in command.params if one.name != "help")
    table = f"\n| | |\n|---|---|\n{rows}" if rows else ""
    return f"\n## lapwing {words}\n\n{_text(command.help or '')}\n{table}"


def _written(one: Any) -> str:
    """An option with its short form and a word for its value, or the word of an argument."""
    if one.param_type_name == "argument":
        return f"{one.name.upper()}{'...' if one.nargs != 1 else ''}"
    return f"{', '.join(one.opts)}{'' if one.is_flag else ' ' + one.name.upper()}"


def _text(text: str) -> str:
    return " ".join(text.replace("\\[", "[").split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} written")
