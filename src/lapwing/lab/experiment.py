"""A curator on data that the lab made, with a budget of its own for every experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lapwing.numbers import Number

if TYPE_CHECKING:
    from lapwing.curator import Curator


def open_experiment(data: Any, *, epsilon: Number, **facts: Any) -> Curator:
    """Opens a frame with a fresh budget, which may be weak: the data are synthetic or public."""
    from lapwing.curator import open_data
    from lapwing.privacy.budget import Budget

    return open_data(data, budget=Budget.from_record(epsilon, 0, "pure"), ledger=":memory:", **facts)
