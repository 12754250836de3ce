"""What attacks share: systems, how often an attempt succeeded, the cap that epsilon puts on any attack, and data.

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

from lapwing.arrays import Array, Flags, Floats
from lapwing.lab.success_rate import Rate
from lapwing.lab.targets import open_experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lapwing.curator import Curator

TOWN = "town"
UNPROTECTED, NAIVE, LAPWING = "unprotected", "naive noise", "Lapwing"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One system under attack."""

    system: str
    how: str
    """What the system does, in a few words."""
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


def health_of_one_year() -> Any:
    """The bundled health data: one row for each person, of the first study year."""
    from lapwing.data import health

    table = health()
    return table.filter([year == 1 for year in table["year"].to_pylist()])


def settle(hidden: Flags, others: int, *, absent: bool) -> dict[str, Array]:
    """Columns place, name, ill: `others` people in each place, and a target named "target".

    Each place is a group with a secret of its own, and no person is in two. So one question with GROUP BY attacks all
    of them, and each target is protected by the same epsilon. The target is ill, and there only if the secret is true
    (`absent`), or there in any case and ill if it is.
    """
    places = np.arange(len(hidden))
    here = places[hidden] if absent else places
    place = np.concatenate([np.repeat(places, others), here])
    name = np.array(["other"] * (others * len(places)) + ["target"] * len(here))
    ill = np.concatenate([np.tile(np.arange(others) % 3 == 0, len(places)), np.ones(len(here), bool) & hidden[here]])
    return {"place": place, "name": name, "ill": ill.astype(np.int64)}


def open_town(columns: dict[str, Array], places: int, epsilon: float) -> Curator:
    import pyarrow as pa

    return open_experiment(
        pa.table(columns), name=TOWN, unit=None, groups_per_unit=1, bounds={"ill": (0, 1)},
        values={"place": list(range(places)), "name": ["other", "target"]}, epsilon=epsilon,
    )  # fmt: skip


def ask(curator: Curator, what: str, epsilon: float, *, where: str = "", refresh: bool = False) -> Floats:
    """One number for each place, in order."""
    condition = f" WHERE {where}" if where else ""
    question = f"SELECT place, {what} AS n FROM {TOWN}{condition} GROUP BY place"
    answer: Any = curator.sql(question, epsilon=epsilon, refresh=refresh).to_arrow().sort_by("place")
    return np.asarray(answer["n"].to_numpy(zero_copy_only=False).astype(np.float64))
