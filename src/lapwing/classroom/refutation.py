"""Refuting a claim of differential privacy by enumeration.

An algorithm is given by its law: a function from the list of records to the probability of each output, as a number or
as proven bounds (low, high). `refute` tries every pair of neighbours over a small universe. What it finds is a proof;
finding nothing proves the claim only for these databases, and only up to the width of the bounds.

Ints, fractions and decimals are exact. A float is rarely the number that was meant: 1 / (1 + e) is off by 1e-17, and
1 - p by 1e-16 however small it is. So a float x stands for every number within 1e-9 |x| + 1e-15 of it, and a claim is
refuted only if all of them refute it. The same goes for a float epsilon, such as math.log(2), and a float delta, of
which 0.0 is exact. An output that is left out has probability 0 exactly.

Randomization is essential. A deterministic algorithm that is not constant has two databases with different outputs, and
one can walk from one to the other in single steps. Somewhere on the way the output changes: there it has probability 1
before the step and 0 after it, which no epsilon and no delta below 1 allow.
Checked by: tests/classroom/test_refutation.py
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_UP
from fractions import Fraction
from typing import Any

import numpy as np

from lapwing.classroom.database import Database, Record, databases, distinct, number_of_databases, require_feasible
from lapwing.errors import Misconfigured
from lapwing.numbers import Number, ball, below_one, count, enclose, exact, nonnegative, shown
from lapwing.privacy.neighbours import Neighbours
from lapwing.privacy.phrases import at_least_text, at_most_text, decimal_text

Chance = Number | tuple[Number, Number]
"""A probability, or bounds (low, high) of one."""
Algorithm = Callable[[list[Any]], Mapping[Hashable, Chance]]
_Law = dict[Hashable, tuple[Fraction, Fraction]]

_SHOWN = 6  # outputs of an event that are printed
_SLACK = Fraction(1, 10**9)  # of a float; probabilities that miss 1 by more are not a law
_LEAST_SLACK = Fraction(1, 10**15)
_ROUNDINGS = 4  # of a shorter float of numpy, whose slack is larger
_NO_LAW = (
    "{}; `refute` needs the law of the algorithm, not a draw from it. Return a dict with the probability of every "
    'output, such as {{"yes": 0.75, "no": 0.25}}. A function that draws its outputs is tested by `lapwing.lab.audit`.'
)


@dataclass(frozen=True, slots=True)
class Refutation:
    """Two neighbours and an event with P[event | first] > e^epsilon P[event | second] + delta.

    `likely` bounds the first probability from below, `rare` the second from above.
    """

    first: Database
    second: Database
    event: tuple[Hashable, ...]
    likely: Fraction
    rare: Fraction
    epsilon: Fraction
    """What was claimed."""
    delta: Fraction

    @property
    def allowed(self) -> Fraction:
        """The most that the claim allows for the first probability, given the second."""
        return _factor(self.epsilon) * self.rare + self.delta

    def __str__(self) -> str:
        delta = f", delta = {at_most_text(self.delta)}" if self.delta else ""
        likely, rare, allowed = at_least_text(self.likely), at_most_text(self.rare), at_most_text(self.allowed)
        if Fraction(likely) <= Fraction(allowed):  # too few digits to show that it is more
            likely = decimal_text(self.likely, rounding=ROUND_DOWN)
            rare, allowed = (decimal_text(value, rounding=ROUND_UP) for value in (self.rare, self.allowed))
        chances = f"at least {likely} on the first and at most {rare} on the second"
        return (
            f"epsilon = {at_most_text(self.epsilon)}{delta} is not true. These neighbours refute it:\n"
            f"  first   {list(self.first.records)}\n  second  {list(self.second.records)}\n"
            f"The output is {_outputs(self.event)} with probability {chances}.\n"
            f"The claim allows {allowed} on the first."
        )


def refute(
    algorithm: Algorithm,
    universe: Iterable[Record],
    *,
    epsilon: Number,
    delta: Number = 0,
    size: int,
    least: int = 0,
    neighbours: Neighbours = Neighbours.ADD_OR_REMOVE,
) -> Refutation | None:
    """Two neighbours of at most `size` records that refute (epsilon, delta)-DP, if there are any; print the result.

    The event is the best one there is: all outputs that are more than e^epsilon times as likely on the first.
    """
    values, most, fewest = distinct(universe), count(size, "size", least=0), count(least, "least", least=0)
    claim = nonnegative(epsilon, "epsilon"), below_one(delta, "delta")
    spare = _slack(delta, claim[1]) if claim[1] else 0
    limits = _factor(claim[0] + _slack(epsilon, claim[0])), claim[1] + spare
    require_feasible(number_of_databases(len(values), up_to=most, least=fewest), len(values))
    if not callable(algorithm):
        raise Misconfigured(_NO_LAW.format(f"`algorithm` is {shown(algorithm)}"))
    laws = {x: _law(algorithm(list(x.records))) for x in databases(values, up_to=most, least=fewest)}
    pairs = ((x, y) for x in laws for y in x.neighbours(neighbours, values) if y in laws)
    return next((refutation for x, y in pairs if (refutation := _compare(x, y, laws, limits, claim))), None)


def deterministic(function: Callable[[list[Any]], Hashable]) -> Algorithm:
    """A function as an algorithm: its output has probability 1."""
    return lambda records: {function(records): 1}


def _compare(
    first: Database,
    second: Database,
    laws: Mapping[Database, _Law],
    limits: tuple[Fraction, Fraction],
    claim: tuple[Fraction, Fraction],
) -> Refutation | None:
    (factor, delta), here, there = limits, laws[first], laws[second]
    most = {output: there.get(output, (Fraction(0), Fraction(0)))[1] for output in here}
    event = tuple(output for output, (low, _) in here.items() if low > factor * most[output])
    likely = sum((here[output][0] for output in event), Fraction(0))
    rare = sum((most[output] for output in event), Fraction(0))
    return Refutation(first, second, event, likely, rare, *claim) if likely > factor * rare + delta else None


def _outputs(event: tuple[Hashable, ...]) -> str:
    """The event in words, the first few outputs of it."""
    if len(event) == 1:
        return repr(event[0])
    shown = ", ".join(map(repr, event[:_SHOWN]))
    return f"one of {shown}" if len(event) <= _SHOWN else f"one of {shown} and {len(event) - _SHOWN} others"


def _law(given: object) -> _Law:
    if not isinstance(given, Mapping):
        raise Misconfigured(_NO_LAW.format(f"the algorithm returned {shown(given)}"))
    law = {output: _bounds(chance) for output, chance in given.items()}
    lows, highs = sum(low for low, _ in law.values()), sum(high for _, high in law.values())
    if any(not 0 <= low <= high for low, high in law.values()) or lows > 1 or highs < 1 - _SLACK:
        raise Misconfigured(
            "the algorithm returns numbers that are not probabilities; they must be at least 0 and sum to 1."
        )
    return law


def _bounds(chance: Chance) -> tuple[Fraction, Fraction]:
    if isinstance(chance, tuple):
        if len(chance) != 2:
            raise Misconfigured(f"`probability` is {shown(chance)}; bounds are a pair. Return (low, high) or a number.")
        low, high = chance
        return exact(low, "probability"), exact(high, "probability")
    number = exact(chance, "probability")
    slack = _slack(chance, number)
    return (max(Fraction(0), number - slack), number + slack) if number + slack >= 0 else (number, number)


def _slack(given: object, number: Fraction) -> Fraction:
    """How far a float may be from the number that was meant."""
    if not isinstance(given, float | np.floating):
        return Fraction(0)
    kind = type(given) if isinstance(given, np.floating) else float
    rounding = Fraction(float(np.finfo(kind).eps)) * _ROUNDINGS
    return max(_SLACK, rounding) * abs(number) + max(_LEAST_SLACK, rounding)


def _factor(epsilon: Fraction) -> Fraction:
    """A number just above e^epsilon."""
    return enclose(lambda: ball(epsilon).exp())[1]
