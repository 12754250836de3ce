"""Which databases are neighbours: the relation behind a guarantee."""

from __future__ import annotations

from enum import Enum

from lapwing.errors import Misconfigured


class Neighbours(Enum):
    """A guarantee holds for every pair of databases that differ by one step of this kind.

    One change is a removal and an addition, so what is eps-DP under ADD_OR_REMOVE is 2 eps-DP under CHANGE_ONE.
    """

    ADD_OR_REMOVE = "add or remove one unit"
    CHANGE_ONE = "change one unit"


def read_neighbours(value: object) -> Neighbours:
    if isinstance(value, Neighbours):
        return value
    raise Misconfigured("`neighbours` is not a relation; it must be Neighbours.ADD_OR_REMOVE or .CHANGE_ONE.")
