"""The success of an attack on several systems, and the cap that epsilon puts on any attack.

Every attack guesses a secret bit that a fair coin chose, so guessing blindly is right half of the time.

Guarantee:  if the secret is whether a person is in the data, and all that the attacker sees is epsilon-DP, no guess is
            right with more than `presence_cap`; if it is what her record says, with more than `record_cap`.
Proof:      both values of the secret were equally likely, so by Bayes the odds after the answer are the ratio of its
            probabilities: at most e^epsilon for a person added or removed, and e^(2 epsilon) for a changed record,
            which is one removed and one added. A guess is right with the larger of the two posterior probabilities.
The cap holds for what the attacker learns from this person's part of the data. What is true of people like her the
attacker may learn from everybody else.
Checked by: tests/lab/test_attacks.py
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapwing.arrays import Array, Flags
from lapwing.errors import Misconfigured
from lapwing.lab.report import Rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNPROTECTED, NAIVE, LAPWING = "unprotected", "naive noise", "Lapwing"


@dataclass(frozen=True, slots=True)
class Attempt:
    system: str
    how: str
    success: Rate
    cap: float | None = None
    """The most that its epsilon allows; None if it promises nothing."""

    def to_dict(self) -> dict[str, Any]:
        rate = {"success": self.success.value, "interval": [self.success.low, self.success.high]}
        return {"system": self.system, "how": self.how, **rate, "trials": self.success.trials, "cap": self.cap}


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The attacker's view: lines over x, or the distribution of a number with the secret false and true."""

    title: str
    across: str
    up: str
    lines: dict[str, tuple[Array, Array]]
    kind: str = "lines"


@dataclass(frozen=True, slots=True, eq=False)
class Attacked:
    """The result of one attack."""

    name: str
    title: str
    secret: str
    attempts: tuple[Attempt, ...]
    view: View
    lesson: str

    def attempt(self, system: str) -> Attempt:
        return next(attempt for attempt in self.attempts if attempt.system == system)

    def to_dict(self) -> dict[str, Any]:
        attempts = [attempt.to_dict() for attempt in self.attempts]
        words = {"attack": self.name, "title": self.title, "secret": self.secret}
        return {**words, "attempts": attempts, "lesson": self.lesson}

    def plot(self, path: str | Path | None = None) -> Figure:
        """Success on each system with its interval and its cap; written to a PNG or SVG file if asked."""
        from lapwing.lab.pictures import draw_attack, saved

        return saved(draw_attack(self), path)

    def __str__(self) -> str:
        lines = [f"{self.title}. The secret: {self.secret}"]
        width = max(len(attempt.system) for attempt in self.attempts)
        for attempt in self.attempts:
            cap = "no promise" if attempt.cap is None else f"at most {math.ceil(1e4 * attempt.cap) / 100:.2f}% allowed"
            lines.append(f"  {attempt.system:{width}}  {attempt.success!s:26} {cap:23} {attempt.how}")
        return "\n".join([*lines, self.lesson])


def presence_cap(epsilon: float) -> float:
    """How often a guess whether someone is in the data can be right."""
    return 1 / (1 + math.exp(-epsilon))


def record_cap(epsilon: float) -> float:
    """How often a guess about one bit of a record that is in the data can be right."""
    return 1 / (1 + math.exp(-2 * epsilon))


def rate_of(guesses: Flags, hidden: Flags) -> Rate:
    return Rate(int(np.sum(guesses == hidden)), len(hidden))


def compare(
    hidden: Flags, *systems: tuple[str, Flags], cap: float | None, naive_cap: float | None = None
) -> tuple[Attempt, ...]:
    """The attempts on the unprotected system, naive noise and Lapwing, with the guesses of the secret on each."""
    pairs = zip((UNPROTECTED, NAIVE, LAPWING), systems, (None, naive_cap, cap), strict=True)
    return tuple(Attempt(system, how, rate_of(guesses, hidden), cap) for system, (how, guesses), cap in pairs)


_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #22303a; background: #fff; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: .2rem; } h2 { margin: 3rem 0 .3rem; border-top: 1px solid #d9e3ea; padding-top: 1.5rem; }
img { max-width: 100%; height: auto; } p { margin: .4rem 0 .8rem; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #d9e3ea; vertical-align: top; }
td:nth-child(2), td:nth-child(3) { white-space: nowrap; font-variant-numeric: tabular-nums; }
.over { color: #c8553d; font-weight: 600; } .lesson { font-style: italic; }
nav a { margin-right: .8rem; color: #1b6ca8; }
"""
_INTRO = (
    "Each attack guesses a secret that a coin decided, so a blind guess is right half of the time. Epsilon caps how "
    "often any guess can be right: with probability e^epsilon / (1 + e^epsilon) if the secret is whether a person is "
    "in the data, and with 2 epsilon in place of epsilon if it is what her record says. Intervals are at 95 %."
)


def write_page(attacks: Iterable[Attacked], path: Path) -> None:
    """All attacks on one page: a single HTML file without scripts, links or anything to load."""
    if not path.parent.is_dir():
        raise Misconfigured(f"The page {str(path)!r} is in no folder that exists. Create the folder first.")
    path.write_text(page_of(attacks), encoding="utf-8")


def page_of(attacks: Iterable[Attacked]) -> str:
    shown = list(attacks)
    links = " ".join(f'<a href="#{escape(result.name)}">{escape(result.title)}</a>' for result in shown)
    sections = "\n".join(map(_section, shown))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Attacks on private data</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n'
        f"<body><h1>Attacks on private data</h1>\n<p>{escape(_INTRO)}</p>\n<nav>{links}</nav>\n{sections}\n"
        "</body></html>\n"
    )


def _section(result: Attacked) -> str:
    head = "<tr><th>system</th><th>secret guessed</th><th>cap</th><th>what it does</th></tr>"
    rows = "".join(map(_row, result.attempts))
    alt = "; ".join(f"{attempt.system} {attempt.success}" for attempt in result.attempts)
    picture = BytesIO()
    result.plot().savefig(picture, format="png", dpi=120)
    return (
        f'<section><h2 id="{escape(result.name)}">{escape(result.title)}</h2>\n'
        f"<p><b>The secret:</b> {escape(result.secret)}</p>\n"
        f'<img alt="{escape(alt)}" src="data:image/png;base64,{b64encode(picture.getvalue()).decode()}">\n'
        f'<table>{head}{rows}</table>\n<p class="lesson">{escape(result.lesson)}</p></section>'
    )


def _row(attempt: Attempt) -> str:
    over = attempt.cap is not None and attempt.success.low > attempt.cap
    cap = "none promised" if attempt.cap is None else f"{attempt.cap:.1%}"
    rate = f'<span class="over">{attempt.success}</span>' if over else str(attempt.success)
    return f"<tr><td>{escape(attempt.system)}</td><td>{rate}</td><td>{cap}</td><td>{escape(attempt.how)}</td></tr>"
