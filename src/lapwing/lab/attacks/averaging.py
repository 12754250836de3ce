"""L40: the same question again and again, until the noise averages out."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction

import numpy as np

from lapwing.arrays import Floats
from lapwing.errors import BudgetExceeded
from lapwing.lab.attacks.attempt import LAPWING, NAIVE, Attacked, View, ask, compare, open_town, presence_cap, settle
from lapwing.lab.random_people import draw_whole_laplace, flip_coins

PLACES, OTHERS, ASKED = 300, 50, 10_000
PRICE, BUDGET = 0.1, 1.0


def run() -> Attacked:
    """Hospitals that report how many patients they have: 50, or 51 if she is one of them."""
    hidden = flip_coins(PLACES)
    truth = OTHERS + hidden.astype(np.int64)
    noise = draw_whole_laplace(Fraction(str(1 / PRICE)), PLACES, ASKED)
    means = truth + noise.mean(axis=1)
    with closing(open_town(settle(hidden, OTHERS, absent=True), PLACES, BUDGET)) as curator:
        answers = [ask(curator, "COUNT(*)", PRICE)]
        same = ask(curator, "COUNT(*)", PRICE)  # free, and the stored answer
        refused = 0
        while not refused:
            try:
                answers.append(ask(curator, "COUNT(*)", PRICE, refresh=True))
            except BudgetExceeded:
                refused = len(answers)
    asked = np.unique(np.geomspace(1, ASKED, 60).astype(np.int64))
    walk = truth[0] + np.cumsum(noise[0])[asked - 1] / asked
    paid = np.cumsum([answer[0] for answer in answers]) / np.arange(1, refused + 1)
    ours: Floats = np.mean(answers, axis=0)
    stored = "the same" if np.array_equal(same, answers[0]) else "another"
    return Attacked(
        "averaging",
        "Averaging",
        "is she one of the patients that the hospital counted, 51 instead of 50?",
        compare(
            hidden,
            ("the exact count", truth > OTHERS),
            (f"epsilon = {PRICE} each time, asked {ASKED:,} times", means > OTHERS + 0.5),
            (f"asked again: {stored} answer, free; fresh answers end after {refused}", ours > OTHERS + 0.5),
            cap=presence_cap(BUDGET),
        ),
        View(
            "The mean of the answers so far, in one hospital",
            "times asked",
            "mean",
            {
                NAIVE: (asked, walk),
                LAPWING: (np.arange(1, refused + 1), paid),
                f"truth: {truth[0]}": (np.array([1, ASKED]), np.full(2, truth[0])),
            },
            kind="log lines",
        ),
        "Noise that can be drawn again for free protects nobody. A budget ends the averaging.",
    )
