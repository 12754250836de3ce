"""What an engine does with the cells of a unit that has too many rows."""

from __future__ import annotations

from collections.abc import Sequence

from lapwing.mechanisms.moments.moment_values import GRID


def scale_down(cells: Sequence[int], rows: int, most: int, rest: int) -> tuple[int, ...]:
    """Scales the cells of a unit of `rows` rows down to `most` rows; cell number `rest` takes the remainder.

    They are at least 0 and sum to M min(rows, most): lemma (scaling) of mean.py.
    """
    if rows <= most:
        return tuple(cells)
    floors = [cell * most // rows for cell in cells]
    floors[rest] += most * GRID - sum(floors)
    return tuple(floors)
