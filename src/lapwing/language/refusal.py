"""Refusals as values: which part of a question, why, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn

from lapwing.errors import Refused


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a question cannot be answered. It depends on the question and on declared facts, never on the data."""

    part: str
    why: str
    instead: str

    def __str__(self) -> str:
        return f"{self.part}: {self.why} {self.instead} Nothing was charged."


class Stop(Exception):
    """Carries a refusal from deep inside a reading to the planner, which returns it as a value."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def refuse(part: str, why: str, instead: str) -> NoReturn:
    """Ends the reading with a refusal."""
    raise Stop(Refusal(part, why, instead))


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known name, or all of them if there are few."""
    names = sorted(known)
    close = get_close_matches(name.lower(), [known.lower() for known in names], n=1)
    if close:
        return f"Did you mean `{next(n for n in names if n.lower() == close[0])}`?"
    listed = ", ".join(f"`{known}`" for known in names[:12])
    return f"Known: {listed}{', ...' if len(names) > 12 else '.'}" if names else "None is declared."


def raised(refusal: Refusal) -> Refused:
    """The refusal as the error that an analyst sees."""
    return Refused(str(refusal))
