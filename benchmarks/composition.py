"""Long lists of different releases: `compose_fixed` beside Google's dp_accounting, in one run.

    python benchmarks/composition.py

prints the table and writes it to benchmarks/results/composition.md. Seconds are CPU time of this process, making the
losses included. Both get the same releases; dp_accounting composes them one by one at its usual interval of 1e-4.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_accounting.pld import privacy_loss_distribution as peer

from lapwing.privacy.analysis.composition import Composition, compose_fixed
from lapwing.privacy.analysis.loss_distribution import PrivacyLoss
from noise import aligned

RESULTS = Path(__file__).resolve().parent / "results" / "composition.md"
DELTA, INTERVAL = 1e-6, 1e-4
HEAD = ["releases", "Lapwing s", "dp_accounting s", "ratio", "epsilon from", "to", "dp_accounting"]

Ours = Callable[[int], PrivacyLoss]
Theirs = Callable[[int], Any]


def laplace_scale(i: int) -> Fraction:
    return 20 + Fraction(7 * i, 1000)


LISTS: dict[str, tuple[int, Fraction | None, Ours, Theirs]] = {
    "1,000 Laplace, step chosen": (
        1000,
        None,
        lambda i: PrivacyLoss.laplace(scale=laplace_scale(i)),
        lambda i: peer.from_laplace_mechanism(float(laplace_scale(i)), value_discretization_interval=INTERVAL),
    ),
    "1,000 Laplace, step 1e-4": (
        1000,
        Fraction(1, 10_000),
        lambda i: PrivacyLoss.laplace(scale=laplace_scale(i)),
        lambda i: peer.from_laplace_mechanism(float(laplace_scale(i)), value_discretization_interval=INTERVAL),
    ),
    "40 Gaussian, step chosen": (
        40,
        None,
        lambda i: PrivacyLoss.gaussian(variance=400 + i),
        lambda i: peer.from_gaussian_mechanism((400 + i) ** 0.5, value_discretization_interval=INTERVAL),
    ),
}


def composed(times: int, step: Fraction | None, make: Ours) -> tuple[Composition, float]:
    start = time.process_time()
    found = compose_fixed([make(i) for i in range(times)], step=step)
    return found, time.process_time() - start


def composed_by_peer(times: int, make: Theirs) -> tuple[float, float]:
    start = time.process_time()
    total = make(0)
    for i in range(1, times):
        total = total.compose(make(i))
    return float(total.get_epsilon_for_delta(DELTA)), time.process_time() - start


def row(name: str) -> list[str]:
    times, step, ours, theirs = LISTS[name]
    found, mine = composed(times, step, ours)
    peer_epsilon, other = composed_by_peer(times, theirs)
    bounds = [f"{float(value):.4f}" for value in (found.least_epsilon(DELTA), found.epsilon(DELTA))]
    return [name, f"{mine:.1f}", f"{other:.1f}", f"{mine / other:.2f}", *bounds, f"{peer_epsilon:.4f}"]


def main() -> None:
    text = "\n".join(
        [
            "# Composition of fixed lists",
            "",
            f"All releases are different. `from` and `to` are Lapwing's proven bounds of epsilon at delta = {DELTA:g};",
            "a finer `step` brings them together. Laplace noise here is of integers, dp_accounting's is continuous.",
            "",
            *aligned([HEAD, *map(row, LISTS)]),
            "",
        ]
    )
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
