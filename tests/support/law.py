"""The exact law of a draw, found by running it on every bit tape up to a depth."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import numpy as np

from support.tape import TapeEnded, Words, word_type

if TYPE_CHECKING:
    from lapwing.noise.bits import BitSource

T = TypeVar("T", bound=Hashable)
Probability = Fraction | int | tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class Law(Generic[T]):
    """What all tapes of `depth` bits decide: `mass` per outcome, and the undecided `remainder`. They sum to 1."""

    mass: Mapping[T, Fraction]
    remainder: Fraction
    depth: int
    runs: int


class Branches:
    """A bit source that walks through all tapes: one run per leaf, the last choice changes first.

    A request longer than what is left ends the run at once, so its branches are never walked.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._values: list[int] = []
        self._widths: list[int] = []
        self._cursor = 0
        self.used = 0

    def words(self, count: int, width: int) -> Words:
        dtype = word_type(width)
        self._require(count * width)
        return np.array([self._choose(width) for _ in range(count)], dtype=dtype)

    def integer(self, width: int) -> int:
        self._require(width)
        return self._choose(width) if width else 0

    def advance(self) -> bool:
        """Go to the next tape; False after the last."""
        if self._cursor != len(self._values):
            raise ValueError("the draw is not a function of its bits: it asked for fewer on the same tape.")
        while self._values and self._values[-1] == (1 << self._widths[-1]) - 1:
            self._values.pop()
            self._widths.pop()
        if not self._values:
            return False
        self._values[-1] += 1
        self._cursor = self.used = 0
        return True

    def _require(self, bits: int) -> None:
        if self.used + bits > self._depth:
            raise TapeEnded

    def _choose(self, width: int) -> int:
        if self._cursor == len(self._values):
            self._values.append(0)
            self._widths.append(width)
        elif self._widths[self._cursor] != width:
            raise ValueError("the draw is not a function of its bits: it asked for another width on the same tape.")
        value = self._values[self._cursor]
        self._cursor += 1
        self.used += width
        return value


def exact_law(draw: Callable[[BitSource], T], depth: int) -> Law[T]:
    """Run `draw` on all tapes of `depth` bits. It must keep no state between runs.

    Each run ends with an outcome after k bits, or asks for more than `depth`; either way its tape weighs 2**-k.
    """
    weights: dict[T, int] = {}
    source = Branches(depth)
    undecided, runs, more = 0, 0, True
    while more:
        runs += 1
        try:
            outcome = _plain(draw(source))
        except TapeEnded:
            undecided += 1 << (depth - source.used)
        else:
            weights[outcome] = weights.get(outcome, 0) + (1 << (depth - source.used))
        more = source.advance()
    mass = {outcome: Fraction(weight, 1 << depth) for outcome, weight in weights.items()}
    return Law(mass, Fraction(undecided, 1 << depth), depth, runs)


def assert_law(
    law: Law[T],
    pmf: Callable[[T], Probability],
    *,
    undecided: Fraction = Fraction(1, 4),
    support: Iterable[T] = (),
) -> None:
    """Every outcome has mass <= pmf <= mass + remainder, where pmf may be an enclosure (low, high).

    The first inequality over all outcomes already implies the second if the pmf sums to 1. `support` names outcomes
    to check even if no tape reached them. At most `undecided` may remain: a law that decides nothing shows nothing.
    """
    assert law.remainder <= undecided, f"{float(law.remainder):.3g} is undecided at depth {law.depth}"
    total = Fraction(0)
    for outcome in dict.fromkeys([*law.mass, *support]):
        low, high = _enclosure(pmf(outcome))
        mass = law.mass.get(outcome, Fraction(0))
        assert mass <= high, f"{outcome!r} has mass {float(mass):.9g}, above its probability {float(high):.9g}"
        reach = mass + law.remainder
        assert reach >= low, f"{outcome!r} has mass at most {float(reach):.9g}, below {float(low):.9g}"
        total += low
    assert total <= 1, f"the pmf sums to {float(total):.9g}; it is no probability"


def _enclosure(probability: Probability) -> tuple[Fraction, Fraction]:
    if isinstance(probability, tuple):
        return probability
    return Fraction(probability), Fraction(probability)


def _plain(outcome: T) -> T:
    """A numpy scalar as its Python number, so that pmfs may use it in exact arithmetic."""
    return cast(T, outcome.item()) if isinstance(outcome, np.generic) else outcome
