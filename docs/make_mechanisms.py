"""Writes docs/mechanisms/ from the docstrings of the mechanisms, a page each; a test compares the two."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import lapwing
from lapwing import mechanisms

FOLDER = Path(__file__).with_name("mechanisms")
EXAMPLES = runpy.run_path(str(Path(__file__).with_name("mechanism_examples.py")))
OUTPUTS = runpy.run_path(str(Path(__file__).with_name("make_outputs.py")))
HEAD = """\
# Mechanisms

Each page has the guarantee, the error, the proof and an example. A mechanism is an immutable object with a `.loss`;
those that answer a series of questions begin with `.start()`. All are in `lw.mechanisms`.

| mechanism | when to use it |
|---|---|
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


def pages() -> dict[str, str]:
    """Every page by its file name."""
    index = HEAD + "".join(
        f"| [{c.__name__}]({c.__name__}.md) | {_first(_part(c, 'Use')).replace('|', chr(92) + '|')} |\n"
        for c in described()
    )
    return {"index.md": index} | {f"{cls.__name__}.md": _page(cls) for cls in described()}


def _page(cls: type) -> str:
    name, summary = cls.__name__, inspect.cleandoc(cls.__doc__ or "").split("\n")[0]
    code = OUTPUTS["filled"](f"```python\nimport lapwing as lw\n\n{EXAMPLES['CODE'][name].strip()}\n```\n").strip()
    parts = [f"# {name}", summary, f"**When to use it.** {_part(cls, 'Use')}", code]
    parts += [f"![{text}](../pictures/{file})" for file, (text, names) in EXAMPLES["PICTURES"].items() if name in names]
    parts += [f"**{label}.** {_part(cls, label)}" for label in ("Law", "Guarantee", "Error", "Proof")]
    parts += [f"**Figure.** {_part(cls, 'Figure')}", f"**Checked by** {_part(cls, 'Checked by')}."]
    return "\n\n".join(parts) + "\n"


def _part(cls: type, label: str) -> str:
    text = sections(cls.__doc__ or "").get(label, "")
    return text if label == "Checked by" else text[:1].upper() + text[1:]


def _first(text: str) -> str:
    """The first sentence."""
    return re.split(r"(?<=[.;]) ", text)[0].rstrip(".;") + "."


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(described())} mechanisms written to {FOLDER.name}/")


if __name__ == "__main__":
    main()
