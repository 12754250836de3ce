"""Interval arithmetic on released numbers: every operator here maps boxes to a box that holds all results.

Bounds are computed in float64; an outward step of a few units in the last place covers rounding. NaN as a bound says
that there is none, as where a divisor may be 0. A condition lies between 0 and 1: 1 to 1 where the boxes make it true,
0 to 0 where they make it false. CASE takes the branch that is certain, or else the least interval that holds all that
are possible. What is certainly NULL has the empty box, from infinity to minus infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from lapwing.answers.table import Box, shown_box
from lapwing.arrays import Array
from lapwing.expressions.expression import Call, Column, Expression, Slot, walk
from lapwing.expressions.types import Type

_BLUR = 2.0**-50


def is_number(part: Expression) -> bool:
    return isinstance(part, Column | Slot)


def box_of(
    expression: Expression,
    leaf: Callable[[Expression], Box | None],
    *,
    is_noisy: Callable[[Expression], bool] = is_number,
) -> Box | None:
    """The interval of an expression while every released number lies in its own; None if no rule is known.

    `leaf` gives that of a released number, and the value of what contains none.
    """
    if not isinstance(expression, Call) or not any(map(is_noisy, walk(expression))):
        return leaf(expression)
    name = expression.operator.name
    rule = RULES.get(name)
    if rule is None:
        return None
    boxes = []
    for argument in expression.arguments:
        box = box_of(argument, leaf, is_noisy=is_noisy)
        if box is None:
            return None
        boxes.append((box[0].astype(float), box[1].astype(float)))
    with np.errstate(all="ignore"):
        result = rule(*(boxes if name in _OF_NULL else map(shown_box, boxes)))
        if expression.type is Type.BOOLEAN:
            return result
        result = widened(result, _BLUR)
        if name in _OF_NULL or name in ("least", "greatest"):
            return result
        null = np.asarray(np.stack(list(map(is_empty, boxes))).any(axis=0))
        return np.where(null, np.inf, result[0]), np.where(null, -np.inf, result[1])


_OF_NULL = frozenset({"case", "coalesce", "is null"})
"""Operators that may give a value where an argument is NULL."""


def is_empty(box: Box) -> Array:
    """Where the value is certainly NULL."""
    return np.asarray(box[0].astype(float) > box[1].astype(float))


def exactly(values: Array) -> Box:
    """The box of known numbers; NaN stands for NULL."""
    missing = np.isnan(values)
    return np.where(missing, np.inf, values), np.where(missing, -np.inf, values)


def widened(box: Box, share: float) -> Box:
    """The box with room for rounding: this share of each end."""
    low, high = box
    ended = np.isfinite(low) & np.isfinite(high)
    return np.where(ended, low - np.abs(low) * share, low), np.where(ended, high + np.abs(high) * share, high)


def without_ends(box: Box, where: Array) -> Box:
    return np.where(where, np.nan, box[0]), np.where(where, np.nan, box[1])


def _corners(function: Callable[[Array, Array], Array]) -> Callable[[Box, Box], Box]:
    def bounds(a: Box, b: Box) -> Box:
        values = np.stack([function(x, y) for x in a for y in b])
        return values.min(axis=0), values.max(axis=0)

    return bounds


def _divided(a: Box, b: Box) -> Box:
    return without_ends(_corners(np.divide)(a, b), (b[0] <= 0) & (b[1] >= 0))


def _rising(function: Callable[[Array], Array]) -> Callable[[Box], Box]:
    """Of a function that never falls; where the box leaves its domain, or reaches its pole, there is no bound."""

    def bounds(a: Box) -> Box:
        low, high = function(a[0]), function(a[1])
        return without_ends((low, high), np.isnan(low) | np.isneginf(low))

    return bounds


def _absolute(a: Box) -> Box:
    inside = (a[0] <= 0) & (a[1] >= 0)
    ends = np.abs(np.stack(a))
    return np.where(inside, 0.0, ends.min(axis=0)), ends.max(axis=0)


def _all(function: Callable[[Array, Array], Array]) -> Callable[..., Box]:
    def bounds(*boxes: Box) -> Box:
        lows, highs = zip(*boxes, strict=True)
        return reduce(function, lows), reduce(function, highs)

    return bounds


def _rounded(a: Box, digits: Box | None = None) -> Box:
    scale = 1.0 if digits is None else 10.0 ** digits[0]
    return np.floor(a[0] * scale) / scale, np.ceil(a[1] * scale) / scale


def _truth(sure: Array, never: Array, *parts: Array) -> Box:
    """A condition that is true where it is sure, and false where it is never; nothing is known where a part is NaN."""
    unknown = np.isnan(np.stack(parts)).any(axis=0)
    return without_ends((np.where(sure, 1.0, 0.0), np.where(never, 0.0, 1.0)), unknown)


def _less(a: Box, b: Box) -> Box:
    return _truth(a[1] < b[0], a[0] >= b[1], *a, *b)


def _equal(a: Box, b: Box) -> Box:
    point = (a[0] == a[1]) & (b[0] == b[1]) & (a[0] == b[0])
    return _truth(point, (a[1] < b[0]) | (b[1] < a[0]), *a, *b)


def _not(a: Box) -> Box:
    return 1 - a[1], 1 - a[0]


def _or(*boxes: Box) -> Box:
    sure = np.stack([low == 1 for low, _ in boxes]).any(axis=0)
    low, high = _all(np.maximum)(*boxes)
    return np.where(sure, 1.0, low), np.where(sure, 1.0, high)


def _and(*boxes: Box) -> Box:
    return _not(_or(*map(_not, boxes)))


def _case(*boxes: Box) -> Box:
    """From the last branch to the first: each comes before what stands after it."""
    low, high = boxes[-1]
    for condition, value in reversed(list(zip(boxes[:-1:2], boxes[1:-1:2], strict=True))):
        sure, never = condition[0] == 1, condition[1] == 0
        maybe_null = ~sure & ~never & (is_empty(value) != is_empty((low, high)))
        low = np.where(sure, value[0], np.where(never, low, np.minimum(value[0], low)))
        high = np.where(sure, value[1], np.where(never, high, np.maximum(value[1], high)))
        low, high = without_ends((low, high), maybe_null)
    return low, high


def _first(*boxes: Box) -> Box:
    """COALESCE: the first that is not NULL."""
    low, high = boxes[-1]
    for box in reversed(boxes[:-1]):
        null = is_empty(box)
        low, high = np.where(null, low, box[0]), np.where(null, high, box[1])
    return low, high


def _is_null(a: Box) -> Box:
    null = is_empty(a)
    return _truth(null, ~null, *a)


def _unless(a: Box, b: Box) -> Box:
    """NULLIF: the first, where the two cannot be equal."""
    return without_ends(a, ~((a[1] < b[0]) | (b[1] < a[0])))


RULES: dict[str, Callable[..., Box]] = {
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "-": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "*": _corners(np.multiply),
    "/": _divided,
    "floor": _rising(np.floor),
    "ceil": _rising(np.ceil),
    "round": _rounded,
    "sqrt": _rising(np.sqrt),
    "ln": _rising(np.log),
    "exp": _rising(np.exp),
    "abs": _absolute,
    "least": _all(np.minimum),
    "greatest": _all(np.maximum),
    "log10": _rising(np.log10),
    "log2": _rising(np.log2),
    "sign": _rising(np.sign),
    "clip": lambda a, low, high: _all(np.maximum)(low, _all(np.minimum)(a, high)),
    "real": lambda a: a,
    "integer": _rounded,
    "truth": lambda a: a,
    "=": _equal,
    "<>": lambda a, b: _not(_equal(a, b)),
    "<": _less,
    "<=": lambda a, b: _not(_less(b, a)),
    ">": lambda a, b: _less(b, a),
    ">=": lambda a, b: _not(_less(a, b)),
    "is distinct from": lambda a, b: _not(_equal(a, b)),
    "in": lambda a, *values: _or(*(_equal(a, value) for value in values)),
    "is null": _is_null,
    "and": _and,
    "or": _or,
    "not": _not,
    "case": _case,
    "coalesce": _first,
    "nullif": _unless,
}
"""By the name of the operator."""
