"""Interval arithmetic on released numbers: every operator here maps boxes to a box that holds all results.

Arithmetic and monotone functions only. Bounds are computed in float64; an outward step of a few units in the last place
covers rounding. NaN as a bound says that there is none, as where a divisor may be 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lapwing.arrays import Array
from lapwing.language.expression import Call, Expression

Box = tuple[Array, Array]

_BLUR = 2.0**-50


def box_of(expression: Expression, leaf: Callable[[Expression], Box | None]) -> Box | None:
    """The interval of an expression while every leaf lies in its own; None if no rule is known."""
    if not isinstance(expression, Call):
        return leaf(expression)
    rule = RULES.get(expression.operator.name)
    if rule is None:
        return None
    boxes = []
    for argument in expression.arguments:
        box = box_of(argument, leaf)
        if box is None:
            return None
        boxes.append((box[0].astype(float), box[1].astype(float)))
    with np.errstate(all="ignore"):
        return _outward(rule(*boxes))


def _outward(box: Box) -> Box:
    low, high = box
    return low - np.abs(low) * _BLUR, high + np.abs(high) * _BLUR


def _corners(function: Callable[[Array, Array], Array]) -> Callable[[Box, Box], Box]:
    def bounds(a: Box, b: Box) -> Box:
        values = np.stack([function(x, y) for x in a for y in b])
        return values.min(axis=0), values.max(axis=0)

    return bounds


def _divided(a: Box, b: Box) -> Box:
    low, high = _corners(np.divide)(a, b)
    open_ = (b[0] <= 0) & (b[1] >= 0)
    return np.where(open_, np.nan, low), np.where(open_, np.nan, high)


def _rising(function: Callable[[Array], Array]) -> Callable[[Box], Box]:
    """Of a function that never falls; where the box leaves its domain, or reaches its pole, there is no bound."""

    def bounds(a: Box) -> Box:
        low, high = function(a[0]), function(a[1])
        open_ = np.isnan(low) | np.isneginf(low)
        return np.where(open_, np.nan, low), np.where(open_, np.nan, high)

    return bounds


def _absolute(a: Box) -> Box:
    inside = (a[0] <= 0) & (a[1] >= 0)
    ends = np.abs(np.stack(a))
    return np.where(inside, 0.0, ends.min(axis=0)), ends.max(axis=0)


def _all(function: Callable[[Array, Array], Array]) -> Callable[..., Box]:
    def bounds(*boxes: Box) -> Box:
        low, high = boxes[0]
        for other in boxes[1:]:
            low, high = function(low, other[0]), function(high, other[1])
        return low, high

    return bounds


def _rounded(a: Box, digits: Box | None = None) -> Box:
    scale = 1.0 if digits is None else 10.0 ** digits[0]
    return np.floor(a[0] * scale) / scale, np.ceil(a[1] * scale) / scale


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
}
"""By the name of the operator."""
