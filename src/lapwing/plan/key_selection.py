"""Keys whose values are not public: which of those that occur may be shown.

A group appears only if someone is in it, so the list of groups is private itself. It is released by a mechanism that
counts distinct units (mechanisms/keys*.py) and takes a delta. Every unit is held to groups_per_unit groups before
(query.py), and the same groups of a unit serve the selection and every measure, so their losses add and no more.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from lapwing.errors import Bug
from lapwing.mechanisms.cells import Cells, KeySelection, mechanisms_for
from lapwing.mechanisms.keys.threshold import MOST_CONFIDENCE, CountThreshold, WeightedGaussian
from lapwing.plan.kind import CellBand
from lapwing.privacy.loss import Loss

MOST_WEIGHTS = 256
"""Up to this many groups per unit the weights are listed in the engine's query."""


def choose_selection(loss: Loss, groups: int, *, counted: bool) -> KeySelection:
    """The mechanism that shows a key of the fewest units; with `counted` it must release the number of units too."""
    return mechanisms_for(loss).keys(groups, counted=counted or groups > MOST_WEIGHTS)


def unit_weight(selection: KeySelection | None) -> Callable[[int], int] | None:
    """What a unit in a number of groups adds to each, where units are weighed; None where they are counted."""
    return selection.weight if isinstance(selection, WeightedGaussian) else None


def shown_intervals(selection: KeySelection | None, counts: Cells, confidence: Fraction) -> CellBand | None:
    """Counts that were shown because they were large: the interval allows for that. None above what it can say."""
    if not isinstance(selection, CountThreshold):
        raise Bug("the selection released no counts")
    if confidence > MOST_CONFIDENCE:
        return None
    low, high = selection.interval(counts, confidence)
    return low.astype(float), high.astype(float)


def units_needed(selection: KeySelection) -> tuple[int, int]:
    """How many units show a key every second time, and 95 times in 100, if each is in as many groups as it may be."""
    if isinstance(selection, WeightedGaussian):
        keys = selection.keys_per_unit
        return selection.half(keys=keys), selection.error(0.95, keys=keys)
    return selection.half(), selection.error(0.95)


def selection_words(selection: KeySelection) -> str:
    half, _ = units_needed(selection)
    return (
        f"Groups were selected privately among those that occur ({type(selection).__name__}, {selection.loss}); "
        f"a group of {half:,} units is shown about every second time, a smaller one more rarely"
    )
