"""What an attack tried on several systems, how often it succeeded, and the cap that epsilon puts on any attack.

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapwing.arrays import Array, Flags
from lapwing.lab.success_rate import Rate

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
    """What the attacker looks at: lines over x, or the distribution of a number with the secret false and true."""

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
    """What the unprotected system, naive noise and Lapwing do, with the guesses of the secret on each."""
    pairs = zip((UNPROTECTED, NAIVE, LAPWING), systems, (None, naive_cap, cap), strict=True)
    return tuple(Attempt(system, how, rate_of(guesses, hidden), cap) for system, (how, guesses), cap in pairs)
