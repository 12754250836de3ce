"""L41: everyone, minus everyone but one."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from lapwing.lab.attacks.attempt import Attacked, View, ask, compare, open_town, record_cap, settle
from lapwing.lab.random_people import draw_whole_laplace, flip_coins

PLACES, OTHERS, LEAST, TIMES = 400, 20, 5, 200
BUDGET = 1.0


def run() -> Attacked:
    """Two counts of ill people in each place, with and without the target; neither is small."""
    hidden = flip_coins(PLACES)
    ill = np.full(PLACES, int(np.sum(np.arange(OTHERS) % 3 == 0)))
    both = ill + hidden, ill
    suppressed = [np.where(count < LEAST, np.nan, count) for count in both]
    noisy = [count + draw_whole_laplace(1, TIMES, PLACES).mean(axis=0) for count in both]
    with closing(open_town(settle(hidden, OTHERS, absent=False), PLACES, BUDGET)) as curator:
        everyone = ask(curator, "SUM(ill)", BUDGET / 2)
        gap = everyone - ask(curator, "SUM(ill)", BUDGET / 2, where="name <> 'target'")
    return Attacked(
        "differencing",
        "Differencing",
        "is she ill? Counts of ill people are published with her and without her",
        compare(
            hidden,
            (f"exact counts, those below {LEAST} suppressed", suppressed[0] - suppressed[1] > 0.5),
            (f"epsilon = 1 a question, no budget, asked {TIMES} times", noisy[0] - noisy[1] > 0.5),
            ("two questions fill a budget of 1", gap > 0.5),
            cap=record_cap(BUDGET),
        ),
        View(
            "The difference that Lapwing's answers show",
            "count of everyone minus count of everyone but her",
            "share of places",
            {"healthy": (gap[~hidden], hidden[:0]), "ill": (gap[hidden], hidden[:0])},
            kind="distributions",
        ),
        "Suppressing small counts does not help: both counts are large, and only their difference is small.",
    )
