"""Shared by mechanisms and releases: frozen values with a short text, and parameters that several of them read."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from lapwing.errors import Misconfigured
from lapwing.numbers import Number, below_one, count, exact, flag, inside_unit, ordinary, positive, shown
from lapwing.privacy.loss import Pure
from lapwing.privacy.neighbours import Neighbours
from lapwing.privacy.phrases import short_repr

Bounds = tuple[Number, Number]
Given = Number | None
"""A parameter that may be left out."""

_MOST_EPSILON = 700


class FrozenValue:
    """A frozen value. Its constructor reads the parameters and sets the fields, once."""

    __slots__ = ()
    __repr__ = short_repr

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)


class PureMechanism(FrozenValue):
    """A mechanism that loses its epsilon, and says no more about its loss."""

    __slots__ = ()
    epsilon: Fraction

    @property
    def loss(self) -> Pure:
        return Pure(self.epsilon)


def read_epsilon(epsilon: object) -> Fraction:
    value = positive(epsilon, "epsilon")
    if value > _MOST_EPSILON:
        raise Misconfigured(f"`epsilon` is {shown(epsilon)}; above {_MOST_EPSILON} it protects nobody. Pass less.")
    return ordinary(value, "epsilon")


def read_delta(delta: object, advice: str) -> Fraction:
    """Reads a delta above 0; `advice` says what needs it."""
    value = below_one(delta, "delta")
    if not value:
        raise Misconfigured(f"`delta` is 0; {advice}")
    return ordinary(value, "delta")


def read_monotone(monotone: object, neighbours: object) -> bool:
    """Reads whether a step of these neighbours moves all scores the same way."""
    if flag(monotone, "monotone") and neighbours is Neighbours.CHANGE_ONE:
        raise Misconfigured(
            "`monotone` is True under Neighbours.CHANGE_ONE; a change takes one unit away and adds another, so it may "
            "lower one score and raise another. Leave monotone=False, or use Neighbours.ADD_OR_REMOVE."
        )
    return bool(monotone)


def read_secret(value: object, refusal: str) -> Fraction:
    """Reads a number of the data: no message shows it."""
    try:
        return exact(value, "value")
    except Misconfigured:
        raise Misconfigured(refusal) from None


def read_pair(bounds: object) -> tuple[Fraction, Fraction]:
    """Reads two bounds, in any order."""
    if not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) != 2:
        raise Misconfigured("`bounds` must be a pair (low, high). Pass for example bounds=(0, 120).")
    low, high = (exact(end, "bounds") for end in bounds)
    return low, high


def read_interval(bounds: object) -> tuple[Fraction, Fraction]:
    low, high = read_pair(bounds)
    if low >= high:
        raise Misconfigured(f"`bounds` are {shown(bounds)}; the lower bound must be below the upper bound. Swap them.")
    return low, high


def share_outside(confidence: Number, simultaneous: int) -> float:
    """The probability of error allowed for each of several answers; all together at most 1 - confidence."""
    return float((1 - inside_unit(confidence, "confidence")) / count(simultaneous, "simultaneous"))
