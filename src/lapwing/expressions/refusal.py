"""Refuses a question: with a code, the part, the reason, and what to write instead. The caller words it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import NoReturn

from lapwing.errors import Code, Refused


def refuse(code: Code, part: str, why: str, instead: str) -> NoReturn:
    """Raises a refusal."""
    refused = Refused(code, part, why, instead)
    try:
        raise refused
    finally:
        refused.__context__ = None  # what a parser or a mechanism said is not for the analyst


@contextmanager
def inside(place: str) -> Iterator[None]:
    """Prefixes the refused part with this location."""
    try:
        yield
    except Refused as error:
        refuse(error.code, f"{place}, {error.part}", error.why, error.instead)


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence with the closest known name, or with all of them if there are few."""
    names = sorted(known)
    close = get_close_matches(name.lower(), [known.lower() for known in names], n=1)
    if close:
        return f"Did you mean `{next(n for n in names if n.lower() == close[0])}`?"
    listed = ", ".join(f"`{known}`" for known in names[:12])
    return f"Known: {listed}{', ...' if len(names) > 12 else '.'}" if names else "None are declared."
