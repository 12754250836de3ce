"""Data that attacks share: the bundled health data, and a table whose groups are independent trials.

Every group of that table is a place with its own target, whose secret a coin decides. As no person is in two groups,
one question with GROUP BY attacks all of them, and each target is protected by the same epsilon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lapwing.arrays import Array, Flags, Floats
from lapwing.lab.targets import open_experiment

if TYPE_CHECKING:
    from lapwing.curator import Curator

NAME = "town"


def health_of_one_year() -> Any:
    """The bundled health data: one row for each person, of the first study year."""
    from lapwing.data import health

    table = health()
    return table.filter([year == 1 for year in table["year"].to_pylist()])


def settle(hidden: Flags, others: int, *, absent: bool) -> dict[str, Array]:
    """Columns place, name, ill: `others` people in each place, and a target named "target".

    The target is ill, and there only if the secret is true (`absent`), or there in any case and ill if it is.
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
        pa.table(columns), name=NAME, unit=None, groups_per_unit=1, bounds={"ill": (0, 1)},
        values={"place": list(range(places)), "name": ["other", "target"]}, epsilon=epsilon,
    )  # fmt: skip


def ask(curator: Curator, what: str, epsilon: float, *, where: str = "", refresh: bool = False) -> Floats:
    """One number for each place, in order."""
    condition = f" WHERE {where}" if where else ""
    question = f"SELECT place, {what} AS n FROM {NAME}{condition} GROUP BY place"
    answer: Any = curator.sql(question, epsilon=epsilon, refresh=refresh).to_arrow().sort_by("place")
    numbers: Floats = answer["n"].to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers
