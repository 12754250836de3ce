"""How far an answer can move a belief about one person.

An observer gives a statement about a person the probability `prior`, sees the output of a private mechanism and updates
by Bayes' rule. The statement must have two sides that are neighbours, whatever the rest of the data: "she is in the
data" under add-or-remove, "her record is r and not r'" under change-one. Budgets and mechanisms here use add-or-remove,
where two records are two steps apart: pass twice the epsilon for what her record says.

What is *not* bounded is what the answer teaches about the world, and through it about everyone. Learning that smoking
causes cancer changes what you believe about every smoker, including those who stayed out of the study.
Checked by: tests/privacy/test_posterior.py
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from lapwing.errors import Misconfigured
from lapwing.numbers import Number, ball, below_one, enclose, exact, nonnegative, positive
from lapwing.privacy.phrases import at_most_text

_MOST_EPSILON = 10_000
_MOST_PLACES = 12


@dataclass(frozen=True, slots=True)
class Belief:
    """A belief of `prior` before, and between `low` and `high` after, except with probability at most `outside`."""

    prior: Fraction
    low: Fraction
    high: Fraction
    outside: Fraction

    def __str__(self) -> str:
        prior, low, high = _percent(self.prior, up=False), _percent(self.low, up=False), _percent(self.high, up=True)
        when = f"except with probability {at_most_text(self.outside)}" if self.outside else "whatever the answer"
        return f"A belief of {prior} becomes {low} to {high}, {when}."

    __repr__ = __str__


def posterior(prior: Number, epsilon: Number, delta: Number = 0, *, slack: Number = 0.1) -> Belief:
    """The beliefs that an (epsilon, delta)-DP answer can lead to about a statement whose two sides are neighbours.

    Rounded outward. "She is in the data" is such a statement; for what her record says, pass `2 * epsilon`.

    Guarantee:  delta = 0: the odds change by at most a factor e^epsilon, whatever the output. delta > 0: by at most
                e^(epsilon + slack), except with a probability of at most `outside`; more slack makes that smaller.
    Proof:      Let P and Q be the laws of the output if the statement is true and if it is false, and L = ln P/Q.
                Bayes: the odds are multiplied by e^L, and odds o are the probability o / (1 + o). Pure DP says
                |L| <= epsilon. If the rest of the data is unknown, P and Q are mixtures, with the same weights, of laws
                that are neighbours pair by pair, so the same bounds hold for them.
                Otherwise let B be the outputs with L > epsilon + t. P[B] <= e^epsilon Q[B] + delta, and Q[B] <=
                e^-(epsilon + t) P[B], so P[B] <= delta / (1 - e^-t). Let B' be those with L < -(epsilon + t). Then
                e^(epsilon + t) P[B'] <= Q[B'] <= e^epsilon P[B'] + delta, so P[B'] <= delta e^-epsilon / (e^t - 1).
                Both together bound the probability to leave the interval if the statement is true; exchange P and Q
                if it is false.
    """
    before, size, exact_delta = exact(prior, "prior"), nonnegative(epsilon, "epsilon"), below_one(delta, "delta")
    margin = positive(slack, "slack")
    if not 0 <= before <= 1:
        raise Misconfigured(f"`prior` is {prior}; it must lie between 0 and 1. Pass a probability.")
    if size > _MOST_EPSILON:
        raise Misconfigured(f"`epsilon` is {epsilon}; above {_MOST_EPSILON} it does not bound any belief. Pass less.")
    if before in (0, 1):
        return Belief(before, before, before, Fraction(0))  # certainty does not move
    shift = size + margin if exact_delta else size
    low, high = _shift_odds(before, -shift)[0], _shift_odds(before, shift)[1]
    return Belief(before, low, high, _outside(size, exact_delta, margin))


def _shift_odds(prior: Fraction, shift: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of the probability whose odds are e^shift times those of the prior, cut to [0, 1]."""
    if not shift:
        return prior, prior
    low, high = enclose(lambda: ball(prior) / (ball(prior) + ball(1 - prior) * (-ball(shift)).exp()))
    return max(low, Fraction(0)), min(high, Fraction(1))


def _outside(epsilon: Fraction, delta: Fraction, slack: Fraction) -> Fraction:
    if not delta:
        return Fraction(0)
    above = enclose(lambda: ball(delta) / -(-ball(slack)).expm1())[1]
    below = enclose(lambda: ball(delta) * (-ball(epsilon)).exp() / ball(slack).expm1())[1]
    return min(above + below, Fraction(1))


def _percent(share: Fraction, *, up: bool) -> str:
    """A percentage with four digits of the share, or of its distance to 1, whichever is smaller."""
    rest = min(share, 1 - share)
    places = next((p for p in range(2, _MOST_PLACES) if not rest or rest * 10**p >= 10), _MOST_PLACES)
    scaled = share * 100 * 10**places
    ticks = -(-scaled.numerator // scaled.denominator) if up else scaled.numerator // scaled.denominator
    return f"{Decimal(ticks).scaleb(-places).normalize():f}%"
