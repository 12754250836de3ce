"""How far apart the inputs of a mechanism are in two runs, and how far it allows.

For each mechanism one check: from the mechanism and both inputs to a sentence about what is wrong, or None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from lapwing.lab.equality import same
from lapwing.privacy.neighbours import Neighbours

Check = Callable[[Any, tuple[Any, ...], tuple[Any, ...]], str | None]


def check_sum(mechanism: Any, left: tuple[Any, ...], right: tuple[Any, ...]) -> str | None:
    """The l1 distance, for Laplace noise."""
    return _additive(mechanism, left[0], right[0], lambda gaps: sum(map(abs, gaps), Fraction(0)), "l1")


def check_root(mechanism: Any, left: tuple[Any, ...], right: tuple[Any, ...]) -> str | None:
    """The l2 distance, for Gaussian noise; squares are compared."""
    return _additive(mechanism, left[0], right[0], lambda gaps: sum((g * g for g in gaps), Fraction(0)), "l2", power=2)


def check_scores(mechanism: Any, left: tuple[Any, ...], right: tuple[Any, ...]) -> str | None:
    """The largest change of a score, and its sign if all must move the same way."""
    if not same(_listed(left[0]), _listed(right[0])):
        return "the candidates depend on the data"
    gaps = _gaps(left[1], right[1])
    if gaps is None:
        return "the number or the type of the scores depends on the data, or a score is not finite"
    most = max(map(abs, gaps), default=Fraction(0))
    if most > mechanism.sensitivity:
        return f"a score moves by {float(most):.6g}, and the sensitivity is {float(mechanism.sensitivity):.6g}"
    if mechanism.monotone and min(gaps, default=0) < 0 < max(gaps, default=0):
        return "scores move both ways, and `monotone` is claimed"
    return None


def check_rows(mechanism: Any, left: tuple[Any, ...], right: tuple[Any, ...]) -> str | None:
    """How many rows are added or removed, for mechanisms that clip rows themselves."""
    most = getattr(mechanism, "rows_per_unit", 1)
    if getattr(mechanism, "neighbours", Neighbours.ADD_OR_REMOVE) is Neighbours.CHANGE_ONE:
        most *= 2
    rows = [Counter(map(repr, zip(*map(_listed, inputs), strict=True))) for inputs in (left, right)]
    moved = (rows[0] - rows[1]).total() + (rows[1] - rows[0]).total()
    return f"{moved} rows differ, and one unit has at most {most}" if moved > most else None


def check_truths(_: Any, left: tuple[Any, ...], right: tuple[Any, ...]) -> str | None:
    """At most one person's answer may differ, in whatever way."""
    if not isinstance(left[0], list | np.ndarray):
        return None
    a, b = _listed(left[0]), _listed(right[0])
    if len(a) != len(b):
        return "the number of answers depends on the data"
    moved = sum(x != y for x, y in zip(a, b, strict=True))
    return f"the truths of {moved} people differ" if moved > 1 else None


def check_value(mechanism: Any, left: tuple[Any, ...], right: tuple[Any, ...]) -> str | None:
    """One number of a sparse-vector run."""
    return _additive(mechanism, left[0], right[0], lambda gaps: abs(gaps[0]), "value")


def _additive(
    mechanism: Any, left: Any, right: Any, norm: Callable[[Sequence[Fraction]], Fraction], name: str, power: int = 1
) -> str | None:
    if type(left) is not type(right) or np.asarray(left).dtype.kind != np.asarray(right).dtype.kind:
        return "the type of the value depends on the data"
    if np.shape(left) != np.shape(right):
        return f"the number of values depends on the data: {np.shape(left)} and {np.shape(right)}"
    gaps = _gaps(left, right)
    if gaps is None:
        return "a value is not a finite number"
    moved = norm(gaps)
    if moved <= mechanism.sensitivity**power:
        return None
    return (
        f"the value moves by {float(moved) ** (1 / power):.6g} in {name}, "
        f"and the sensitivity is {float(mechanism.sensitivity):.6g}"
    )


def _gaps(left: Any, right: Any) -> list[Fraction] | None:
    """Exact differences; None if they have no common length or are not finite."""
    a, b = (np.ravel(np.asarray(value, dtype=object)).tolist() for value in (left, right))
    try:
        return [Fraction(x) - Fraction(y) for x, y in zip(a, b, strict=True)]
    except (ValueError, OverflowError, TypeError):
        return None


def _listed(values: Any) -> list[Any]:
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    return list(values.to_pylist()) if hasattr(values, "to_pylist") else list(values)
