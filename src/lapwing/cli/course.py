"""`lapwing lecture` and `lapwing tour`: the course from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lapwing.cli.options import JsonOption
from lapwing.cli.output import echo


def lecture(
    name: Annotated[str | None, typer.Argument(help="The lecture, or its number; without one, all are listed.")] = None,
    solutions: Annotated[bool, typer.Option("--solutions", help="Also show the solutions of the exercises.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a lecture on differential privacy: text, code and what it prints, item by item."""
    from lapwing.lab.course import LECTURES, read_lecture

    if name is None:
        titles = {known: read_lecture(known).title for known in LECTURES}
        echo(json.dumps(titles) if as_json else "\n".join(f"{known:16} {title}" for known, title in titles.items()))
        return
    parts = read_lecture(name).run(solutions=solutions)
    if as_json:
        echo(json.dumps(list(parts)))
        return
    for part in parts:
        echo(f"{part}\n")


def tour(
    plot: Annotated[Path | None, typer.Option("--plot", help="Also draw names to a .png or .svg file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the mechanisms on real data: names, an auction, two coins, a budget."""
    from lapwing.lab.course import draw_tour
    from lapwing.lab.course import tour as story

    if plot is not None:
        draw_tour(plot)
    if as_json:
        echo(json.dumps(list(story())))
        return
    for part in story():
        echo(f"{part}\n")
