"""Runs the code of pages and puts what it prints below each block: `python docs/make_outputs.py [PAGE ...]`.

Noise comes from a fixed stream, so that a test can compare; lines are wrapped at 88 columns.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from lapwing.cli.main import app
from lapwing.errors import TemporaryBudget
from lapwing.noise.bits import SystemBits

DOCS = Path(__file__).resolve().parent
sys.path.append(str(DOCS.parent / "tests"))

from support.tape import SeededBits  # noqa: E402

COLUMNS = 88
OTHERWISE = {  # pages that other programs write, or whose code needs a server
    "asking-a-server.md",
    "deploying.md",
    "sql.md",
    "warehouse-spark.md",
}
BLOCK = re.compile(r"^```(?P<kind>python|sh)\n(?P<code>.*?)^```\n(?:```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE)
DAY = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?Z?")


def pages() -> list[Path]:
    """The pages with code to run: README.md and those of docs/."""
    found = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("tutorials/*.md"))]
    return [page for page in found if page.name not in OTHERWISE and BLOCK.search(page.read_text(encoding="utf-8"))]


def filled(page: str) -> str:
    """The page with the output of every block; blocks run one after the other, in one empty folder."""
    names: dict[str, Any] = {"__name__": "page"}

    def run(block: re.Match[str]) -> str:
        printed = run_python(block["code"], names) if block["kind"] == "python" else run_commands(block["code"])
        shown = f"```text\n{wrapped(printed)}```\n" if printed else ""
        return f"```{block['kind']}\n{block['code']}```\n{shown}"

    with tempfile.TemporaryDirectory() as folder, chdir(folder), fixed_noise(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", TemporaryBudget)  # every page says where a budget is kept
        return BLOCK.sub(run, page)


def run_python(code: str, names: dict[str, Any]) -> str:
    with redirect_stdout(StringIO()) as out:
        exec(compile(code, "page", "exec"), names)
    return out.getvalue()


def run_commands(text: str) -> str:
    """What the lines of a shell block print; each must succeed."""
    printed = []
    for line in text.replace("\\\n", " ").strip().splitlines():
        words = shlex.split(line)
        if words[0] != "lapwing":
            raise ValueError(f"`{line}` does not run Lapwing.")
        done = CliRunner().invoke(app, words[1:])
        if done.exit_code != 0:
            raise ValueError(f"`{line}` failed: {done.output}")
        printed.append(DAY.sub("2026-01-31 12:00:00", done.stdout))
    return "\n".join(part.strip("\n") for part in printed if part.strip()) + "\n" if any(printed) else ""


def wrapped(text: str) -> str:
    """Long lines are continued below, indented; nothing else changes."""
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "".join(f"{part}\n" for line in lines for part in wrap(line))


def wrap(line: str) -> list[str]:
    if len(line) <= COLUMNS:
        return [line]
    indent = line[: len(line) - len(line.lstrip())] + "  "
    return textwrap.wrap(
        line, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )


@contextmanager
def fixed_noise() -> Iterator[None]:
    source, kept = SeededBits(20_150), (SystemBits.words, SystemBits.integer)
    SystemBits.words = lambda _, count, width: source.words(count, width)  # type: ignore[method-assign]
    SystemBits.integer = lambda _, width: source.integer(width)  # type: ignore[method-assign]
    try:
        yield
    finally:
        SystemBits.words, SystemBits.integer = kept  # type: ignore[method-assign]


if __name__ == "__main__":
    os.environ["COLUMNS"] = str(COLUMNS)
    for page in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
