"""A picture with intervals, drawn by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lapwing.answers.formats.optional import load
from lapwing.answers.table import AnswerTable
from lapwing.errors import Misconfigured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")


def plot(table: AnswerTable, path: str | Path | None = None) -> Figure:
    """Draws an answer with its intervals, into a PNG or SVG file if `path` says so. The figure shows in a notebook."""
    from lapwing.answers.picture import arrange

    target = None if path is None else picture_path(Path(path))
    picture = arrange(table)
    load("matplotlib", what="Pictures", install="'lapwing[plot]'")
    from lapwing.answers.chart import drawn, save

    figure = drawn(picture)
    if target is not None:
        save(figure, target)
    return figure


def picture_path(path: Path) -> Path:
    """The path, if a picture can be written there."""
    if path.suffix.lower() not in SUFFIXES:
        raise Misconfigured(f"The picture {str(path)!r} must end in .png or .svg. Write for example answer.png.")
    if not path.parent.is_dir():
        raise Misconfigured(f"The picture {str(path)!r} is in no folder that exists. Create the folder first.")
    is_new = not path.exists()
    try:
        path.open("ab").close()
    except OSError:
        raise Misconfigured(f"The picture {str(path)!r} cannot be written there. Name another folder.") from None
    if is_new:
        path.unlink()
    return path
