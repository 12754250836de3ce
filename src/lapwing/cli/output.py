"""Printing to standard output. If that fails, standard error says so, and what was charged."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lapwing.errors import Code, LapwingError

if TYPE_CHECKING:
    from lapwing.privacy.budget import Cost


class Unwritten(LapwingError):
    """Standard output, or a picture, could not be written."""

    code: Code = "output-failed"


_ARGUMENT = re.compile(
    r"\b(epsilon|within|share|delta|confidence|assume_rows|rows|groups|bounds|limits|find_share|check|refresh|combine|anyway)"
    r"=(\{[^}]*\}|\"auto\"|True|[0-9][0-9.]*(?:e-?[0-9]+)?)?"
)
_ENDS = re.compile(r'"([^"]+)": \(([^,]+), ([^)]+)\)')


def in_flags(text: str) -> str:
    """A message as the command line says it: --limits auto for limits="auto"."""

    def flag(argument: re.Match[str]) -> str:
        value = re.sub(r'[{}"() ]', "", _ENDS.sub(r"\1=\2:\3", argument[2] or ""))
        end = "." if value.endswith(".") else ""  # of the sentence
        shown = value.removesuffix(".")
        name = f"--{argument[1].replace('_', '-')}"
        return f"{name}{'' if shown in ('', 'True') else f' {shown}'}{end}"

    text = re.sub(r"params=\{(.*?)\}", lambda params: re.sub(r'"(.*?)": (\w+),?', r"--param \1=\2", params[1]), text)
    return _ARGUMENT.sub(flag, text)


def echo(text: str, *, nl: bool = True) -> None:
    try:
        if sys.stdout is None:
            raise OSError("it is closed")
        typer.echo(text, nl=nl)
        sys.stdout.flush()
    except OSError as error:
        _discard()
        raise Unwritten(f"The output could not be written ({error.strerror or error}).") from error


def csv_of(answer: Any) -> str:
    """CSV; for a terminal, from which it is pasted into spreadsheets, without formulas."""
    text: str = answer.to_csv(sheet=sys.stdout.isatty())
    return text


def show(value: Any, as_json: bool, text: str) -> None:
    echo(json.dumps(value, default=str) if as_json else text)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines; its last column is not padded."""
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    return ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in rows]


def check_picture(plot: Path | None) -> None:
    """Refuses a file that is no picture, before long work."""
    if plot is not None:
        from lapwing.answers.formats import picture_path

        picture_path(plot)


@contextmanager
def after_answer(cost: Cost) -> Iterator[None]:
    """While an answer is shown: if that fails, says that it is stored and what it cost."""
    try:
        yield
    except (OSError, LapwingError) as error:
        why = str(error) if isinstance(error, LapwingError) else f"The picture could not be written ({error.strerror})."
        price = f"The answer was charged ({cost})" if cost else "The answer cost nothing"
        failed = Unwritten(f"{why} {price} and is stored: ask again without --refresh to get it for free.")
        failed.charged = cost or None
        raise failed from error


def _discard() -> None:
    """Discards pending output: Python would try again at exit, and fail."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
