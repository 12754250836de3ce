"""Refusals that say what to do instead, and nothing that a parser, a mechanism or an engine said."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import NoReturn

from lapwing.errors import Code, Misconfigured, Refused

_LOG = logging.getLogger("lapwing.engine")


def refuse(code: Code, part: str, why: str, instead: str, undeclared: str = "") -> NoReturn:
    """Refuses a question: with a code, the part, the reason, and what to write instead or, if it is for want of facts,
    to declare."""
    _raise_alone(Refused(code, part, why, instead, undeclared))


def _raise_alone(error: Exception) -> NoReturn:
    try:
        raise error
    finally:
        error.__context__ = None


@contextmanager
def hide_errors(kind: type[Exception], message: Callable[[Exception], str]) -> Iterator[None]:
    """Inside, an error of this kind becomes Misconfigured. Its own text, which may quote a value, is lost."""
    try:
        yield
    except kind as error:
        _LOG.debug("the engine failed: %s", type(error).__name__)
        _raise_alone(Misconfigured(message(error)))


@contextmanager
def inside(place: str) -> Iterator[None]:
    """Prefixes the refused part with this location."""
    try:
        yield
    except Refused as error:
        refuse(error.code, f"{place}, {error.part}", error.why, error.rewrite, error.undeclared)


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence with the closest known name, or with all of them if there are few."""
    names = sorted(known)
    close = get_close_matches(name.lower(), [known.lower() for known in names], n=1)
    if close:
        return f"Did you mean `{next(n for n in names if n.lower() == close[0])}`?"
    listed = ", ".join(f"`{known}`" for known in names[:12])
    return f"Known: {listed}{', ...' if len(names) > 12 else '.'}" if names else "None are declared."
