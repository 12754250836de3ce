"""L40, L41: the same count again and again, until the noise averages out; everyone, minus everyone but one."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from lapwing.arrays import Array, Flags, Floats
from lapwing.errors import BudgetExceeded
from lapwing.lab.attacks.attempt import LAPWING, NAIVE, Attacked, View, compare, presence_cap, record_cap
from lapwing.lab.random_people import draw_whole_laplace, flip_coins
from lapwing.lab.targets import open_experiment

if TYPE_CHECKING:
    from lapwing.curator import Curator

TOWN = "town"
HOSPITALS, PATIENTS, ASKED, PRICE = 300, 50, 10_000, 0.1
PLACES, OTHERS, LEAST, TIMES = 400, 20, 5, 200
BUDGET = 1.0


def run_averaging() -> Attacked:
    """Hospitals that report how many patients they have: 50, or 51 if she is one of them."""
    hidden = flip_coins(HOSPITALS)
    truth = PATIENTS + hidden.astype(np.int64)
    noise = draw_whole_laplace(Fraction(str(1 / PRICE)), HOSPITALS, ASKED)
    means = truth + noise.mean(axis=1)
    with closing(open_town(settle(hidden, PATIENTS, absent=True), HOSPITALS, BUDGET)) as curator:
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
            ("the exact count", truth > PATIENTS),
            (f"epsilon = {PRICE} each time, asked {ASKED:,} times", means > PATIENTS + 0.5),
            (f"asked again: {stored} answer, free; fresh answers end after {refused}", ours > PATIENTS + 0.5),
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


def run_differencing() -> Attacked:
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
