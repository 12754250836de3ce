"""Code that is built on sound mechanisms and breaks them: six faults found in real libraries, and a sound twin.

Each takes a list of numbers and claims epsilon = 1. [Cebere and others: Re:cord-play, PETS 2026]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lapwing.mechanisms import Laplace
from lapwing.privacy.budget import Budget
from lapwing.privacy.filter import Filter

MOST = 100
"""Values are meant to lie between 0 and this."""


def sound_mean(rows: list[float]) -> float:
    """The sum and the count with noise, half of epsilon each."""
    total = Laplace(epsilon=0.5, sensitivity=MOST)(float(sum(min(max(x, 0.0), MOST) for x in rows if x == x)))
    count = Laplace(epsilon=0.5)(sum(x == x for x in rows))
    return float(total / max(count, 1))


def private_mean(rows: list[float]) -> float:
    """Divides by the true number of rows."""
    return float(
        Laplace(epsilon=1, sensitivity=MOST)(float(sum(min(max(x, 0.0), MOST) for x in rows))) / max(len(rows), 1)
    )


def inferred_domain(rows: list[float]) -> dict[float, int]:
    """Counts the values that it finds."""
    values = sorted(set(rows))
    return dict(zip(values, Laplace(epsilon=1)([rows.count(value) for value in values]), strict=True))


def double_spending(rows: list[float]) -> list[int]:
    """Charges once and releases twice."""
    budget, noisy = Filter(Budget(epsilon=1)), Laplace(epsilon=1)
    budget.spend(noisy.loss)
    return [noisy(len(rows)), noisy(sum(x > 50 for x in rows))]


def nan_injection(rows: list[float]) -> float:
    """Clips by sorting, which lets a NaN through."""
    total = float(sum(sorted((0.0, x, float(MOST)))[1] for x in rows))
    return float(Laplace(epsilon=1, sensitivity=MOST)(total))


def noise_miscalibrated(rows: list[float]) -> int:
    """Noise for epsilon = 2 is called epsilon = 1."""
    return int(Laplace(epsilon=2)(len(rows)))


def sensitivity_miscalibrated(rows: list[float]) -> float:
    """A sum of values up to 100 with a sensitivity of 1."""
    return float(Laplace(epsilon=1)(float(sum(min(max(x, 0.0), MOST) for x in rows if x == x))))


_WITH, _WITHOUT = [20.0, 50.0, 90.0, 100.0], [20.0, 50.0, 90.0]

FAULTS: dict[str, tuple[Callable[[list[float]], Any], tuple[list[float], list[float]]]] = {
    "private mean": (private_mean, (_WITH, _WITHOUT)),
    "inferred domain": (inferred_domain, (_WITH, _WITHOUT)),
    "double spending": (double_spending, (_WITH, _WITHOUT)),
    "NaN injection": (nan_injection, ([*_WITHOUT, float("nan")], _WITHOUT)),
    "noise miscalibrated": (noise_miscalibrated, (_WITH, _WITHOUT)),
    "sensitivity miscalibrated": (sensitivity_miscalibrated, (_WITH, _WITHOUT)),
}
"""Each fault with two neighbours that show it."""
