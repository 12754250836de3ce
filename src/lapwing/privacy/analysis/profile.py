"""The privacy profile of two laws: the tightest delta for each epsilon, and the tightest epsilon for each delta.

P and Q are the laws of a finite mechanism's output on two neighbours. With x = e^epsilon, the hockey-stick divergence
    f(x) = sum over outcomes y of max(0, P(y) - x Q(y))
is the least delta for which P[S] <= e^epsilon Q[S] + delta holds for every set S of outcomes.
Proof. P[S] - x Q[S] is largest for S = {y: P(y) > x Q(y)}, and there it is f(x).

Inverse. Order the outcomes by falling P/Q; let A_k and B_k be the mass of the first k under P and under Q. The least x
with f(x) <= delta is max_k (A_k - delta) / B_k, and infinite if outcomes with Q = 0 have more than delta under P.
Proof. f(x) = max_k (A_k - x B_k), so f(x) <= delta says x B_k >= A_k - delta for every k.

Bounds. f(x) grows with every P(y) and falls with every Q(y). Where probabilities are known by bounds, the largest P and
the least Q give an upper bound of f, of its inverse and of the Renyi divergence; the other ends give a lower bound.
An outcome with bounds (0, t) under both laws may stand for a whole set of outcomes of mass at most t: from above it
counts as infinite loss, from below as nothing.

A law is a mapping from outcomes to probabilities, or a list of them, outcome by outcome. A probability is a Fraction,
an int or a Decimal (exact), bounds (low, high) as `law` of a mechanism returns them (proven), or a float. Floats are
read as their shortest decimals and need to add up to 1 only within 1e-9: the result is as good as the floats.
Checked by: tests/privacy/analysis/test_profile.py
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from lapwing.arrays import Floats
from lapwing.errors import Misconfigured
from lapwing.numbers import Enclosure, Number, ball, below_one, enclose, flag, nonnegative, round_down, round_up

Law = Mapping[Any, Number | Enclosure] | Sequence[Number | Enclosure] | Floats
"""The probability of every outcome."""
OutcomePair = tuple[Enclosure, Enclosure]
"""Bounds of the probability of one outcome, under P and under Q."""
Atom = tuple[Fraction, Fraction]
"""Mass under P and under Q."""
Amount = Fraction | float
"""An exact number, or math.inf."""

_BITS = 192  # bounds are kept to this many significant bits
_SHORT, _SIGNIFICANT = 64, 24  # a result is exact if this many bits suffice, otherwise it has this many digits
_ROUGH = Fraction(1, 10**9)


def tightest_delta(p: Law, q: Law, epsilon: Number, *, one_way: bool = False) -> Fraction:
    """The least delta, rounded up, for which two neighbours with these output laws are (epsilon, delta)-DP.

    The definition covers both orders of the neighbours; `one_way` checks only P[S] <= e^epsilon Q[S] + delta.
    """
    orders, size = _orders(p, q, one_way), nonnegative(epsilon, "epsilon")
    return Fraction(short(max(hockey_stick(highest(pairs), size)[1] for pairs in orders), up=True))


def tightest_epsilon(p: Law, q: Law, delta: Number = 0, *, one_way: bool = False) -> Amount:
    """The least epsilon, rounded up, for which two neighbours with these output laws are (epsilon, delta)-DP.

    Infinite (math.inf) if outcomes that only one of the two can give have more than delta.
    """
    orders, exact_delta = _orders(p, q, one_way), below_one(delta, "delta")
    return short(max(inverse(highest(pairs), exact_delta)[1] for pairs in orders), up=True)


def _orders(p: Law, q: Law, one_way: bool) -> list[tuple[OutcomePair, ...]]:
    pairs = read_pairs(p, q)
    return [pairs] if flag(one_way, "one_way") else [pairs, swap(pairs)]


def read_pairs(p: Law, q: Law) -> tuple[OutcomePair, ...]:
    """The outcomes of both laws, each with its two probabilities; 0 where a law does not name an outcome."""
    first, second, none = _read(p, "p"), _read(q, "q"), (Fraction(0), Fraction(0))
    outcomes = dict.fromkeys([*first, *second])
    pairs = ((first.get(outcome, none), second.get(outcome, none)) for outcome in outcomes)
    return tuple(pair for pair in pairs if pair != (none, none))


def swap(pairs: Iterable[OutcomePair]) -> tuple[OutcomePair, ...]:
    return tuple((q, p) for p, q in pairs)


def highest(pairs: Iterable[OutcomePair]) -> list[Atom]:
    """The masses that bound every divergence of P from Q from above."""
    return [(high, low) for (_, high), (low, _) in pairs if high]


def lowest(pairs: Iterable[OutcomePair]) -> list[Atom]:
    """The masses that bound every divergence of P from Q from below."""
    return [(low, high) for (low, _), (_, high) in pairs if low]


def hockey_stick(atoms: Sequence[Atom], epsilon: Fraction) -> Enclosure:
    """Bounds of f(e^epsilon), at most 1."""
    if epsilon > 1 + max((log_ratio(p, q) for p, q in atoms if q), default=0.0):
        never = sum((p for p, q in atoms if not q), Fraction(0))
        return min(never, Fraction(1)), min(never, Fraction(1))
    least, most = enclose(lambda: ball(epsilon).exp())
    low, high = (sum((p - x * q for p, q in atoms if p > x * q), Fraction(0)) for x in (most, least))
    return min(low, Fraction(1)), min(high, Fraction(1))


def inverse(atoms: Iterable[Atom], delta: Fraction) -> tuple[Amount, Amount]:
    """Bounds of the least epsilon >= 0 with f(e^epsilon) <= delta."""
    a, b, best = Fraction(0), Fraction(0), Fraction(1)
    for p, q in sorted(atoms, key=lambda atom: atom[0] / atom[1] if atom[1] else math.inf, reverse=True):
        a, b = a + p, b + q
        if a > delta and not b:
            return math.inf, math.inf
        best = max(best, (a - delta) / b if b else best)
    low, high = enclose(lambda: ball(best).log())
    return max(low, Fraction(0)), max(high, Fraction(0))


def renyi_divergence(atoms: Sequence[Atom], order: Fraction) -> tuple[Amount, Amount]:
    """Bounds of ln sum(P^order Q^(1 - order)) / (order - 1), order > 1; infinite if P puts mass where Q has none."""
    if not all(q for _, q in atoms):
        return math.inf, math.inf

    def formula() -> arb:
        powers = ((ball(p) * (ball(p / q).log() * ball(order - 1)).exp()) for p, q in atoms)
        return sum(powers, arb(0)).log() / ball(order - 1)

    return enclose(formula)


def log_ratio(p: Fraction, q: Fraction) -> float:
    """ln(p / q) in floats, for fractions of any size."""
    above, below = p.numerator * q.denominator, p.denominator * q.numerator
    shift = above.bit_length() - below.bit_length()
    return math.log((above << max(0, -shift)) / (below << max(0, shift))) + shift * math.log(2)


def short(value: Amount, *, up: bool) -> Amount:
    """The value if its denominator has at most 64 bits, otherwise 24 significant digits, rounded to one side."""
    if isinstance(value, float) or value.denominator.bit_length() <= _SHORT:
        return value
    power = value.numerator.bit_length() - value.denominator.bit_length()
    power -= Fraction(2) ** power > value
    digits = max(0, _SIGNIFICANT - math.floor(power * 0.30103))
    return round_up(value, digits=digits) if up else round_down(value, digits=digits)


def _read(law: Law, name: str) -> dict[Hashable, Enclosure]:
    chances = dict(law) if isinstance(law, Mapping) else dict(enumerate(_as_list(law, name)))
    read = {outcome: _bounds(chance, name) for outcome, chance in chances.items()}
    slack = _ROUGH if any(isinstance(chance, float) for chance in chances.values()) else Fraction(0)
    low, high = (sum((bounds[end] for bounds in read.values()), Fraction(0)) for end in (0, 1))
    if not low - slack <= 1 <= high + slack:
        raise Misconfigured(
            f"the probabilities of `{name}` do not add up to 1. Name every outcome; the tail of an infinite law is one "
            "more outcome, with the bounds (0, its mass)."
        )
    return read


def _as_list(law: object, name: str) -> list[Any]:
    if isinstance(law, np.ndarray) and law.ndim == 1:
        return list(law.tolist())
    if isinstance(law, Sequence) and not isinstance(law, str | bytes):
        return list(law)
    raise Misconfigured(f"`{name}` is not a probability law. Pass a mapping from outcomes to probabilities, or a list.")


def _bounds(chance: object, name: str) -> Enclosure:
    """Reads one probability. Bounds that are not exact keep 192 significant bits, rounded outward."""
    ends = chance if isinstance(chance, tuple) and len(chance) == 2 else (chance, chance)
    with suppress(Misconfigured):  # its message shows the value
        low, high = (nonnegative(end, name) for end in ends)
        if low <= high:
            return (low, high) if low == high else (_cut(low, up=False), _cut(high, up=True))
    raise Misconfigured(f"`{name}` holds what is not a probability. Pass numbers of at least 0, or pairs (low, high).")


def _cut(value: Fraction, *, up: bool) -> Fraction:
    above, below = value.as_integer_ratio()
    shift = _BITS + below.bit_length() - above.bit_length()
    above, below = above << max(0, shift), below << max(0, -shift)
    return Fraction(-(-above // below) if up else above // below) / Fraction(2) ** shift
