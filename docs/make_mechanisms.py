"""Writes docs/mechanisms.md from the docstrings of the mechanisms. Run it after a change; a test compares the two."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import lapwing
from lapwing import mechanisms

PAGE = Path(__file__).with_name("mechanisms.md")
HEAD = """\
# The mechanisms

One row per mechanism, generated from its docstring by `python docs/make_mechanisms.py`; the docstring also has the law
and the proof. The figure is the value of the expression before it. All are in `lw.mechanisms`. Every mechanism is a
frozen value with a `.loss`; running mechanisms start with `.start()`.

| mechanism | when to use it | guarantee | error | figure |
|---|---|---|---|---|
"""


def sections(docstring: str) -> dict[str, str]:
    """The labelled paragraphs of a docstring, each on one line."""
    found = re.split(r"^([A-Z][a-z]+(?: by)?):\s+", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return {label: " ".join(text.split()) for label, text in zip(found[1::2], found[2::2], strict=True)}


def described() -> list[type]:
    """Every public class of `lapwing.mechanisms` that states a guarantee."""
    classes = (getattr(mechanisms, name) for name in mechanisms.__all__)
    return [c for c in classes if isinstance(c, type) and "Guarantee" in sections(c.__doc__ or "")]


def figures(cls: type) -> list[tuple[str, object, object]]:
    """The expressions of a `Figure:` line with the value stated and the value now."""
    stated = re.findall(r"`([^`]+)` = ([\d.]+)", sections(cls.__doc__ or "").get("Figure", ""))
    names = {name: getattr(mechanisms, name) for name in mechanisms.__all__} | {"lw": lapwing}
    return [(text, eval(value), eval(text, names)) for text, value in stated]


def page() -> str:
    """The whole page."""
    return HEAD + "".join(map(_row, described()))


def _row(cls: type) -> str:
    parts = sections(cls.__doc__ or "")
    cells = [f"`{cls.__name__}`", *(parts.get(label, "") for label in ("Use", "Guarantee", "Error", "Figure"))]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{len(described())} mechanisms written to {PAGE.name}")
