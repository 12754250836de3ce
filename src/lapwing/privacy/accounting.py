"""The rules by which a budget adds up losses: one class for each currency. The theorem is in budget.py."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from lapwing.errors import Misconfigured, Refused
from lapwing.numbers import round_down
from lapwing.privacy.convert import epsilon_of_rho, rho_of_epsilon
from lapwing.privacy.loss import ZCDP, Loss, Pure
from lapwing.privacy.phrases import decimal_text

FINEST = 40
"""Amounts are exact fractions with denominators up to 10^40, or rounded to 40 decimals."""
_ROOT_DIGITS = FINEST - 4  # of amounts that are roots: a share of four decimals of them is exact too


class Rules(Protocol):
    """What differs between currencies. Amounts are in the currency: epsilon or rho. `delta` is the whole budget's."""

    @property
    def unit(self) -> str:
        """What an amount counts."""

    @property
    def has_delta(self) -> bool:
        """Whether losses with a delta can be paid."""

    @property
    def composes_lists(self) -> bool:
        """Whether a list that is fixed before the first answer may cost less than its parts."""

    def check(self, delta: Fraction) -> None:
        """Raises Misconfigured if no such budget has this delta."""

    def amount(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        """The most that one question at this epsilon may take, rounded down."""

    def spendable(self, delta: Fraction) -> Fraction:
        """The part of the delta that questions may take."""

    def affordable(self, amount: Fraction, delta: Fraction) -> Fraction:
        """The largest epsilon whose amount is at most this, to six decimals where it is a root."""

    def loss(self, amount: Fraction, delta: Fraction = Fraction(0)) -> Loss:
        """The loss that a question of this amount and delta may have."""

    def convert(self, loss: Loss) -> Loss:
        """The loss in this currency; refused if no rule proves a bound."""


class BasicRules:
    """Epsilons add up and deltas add up."""

    unit, has_delta, composes_lists = "epsilon", True, True

    def check(self, delta: Fraction) -> None: ...

    def amount(self, epsilon: Fraction, delta: Fraction) -> Fraction:  # noqa: ARG002 (of Rules)
        return epsilon

    def spendable(self, delta: Fraction) -> Fraction:
        return delta

    def affordable(self, amount: Fraction, delta: Fraction) -> Fraction:  # noqa: ARG002 (of Rules)
        return amount

    def loss(self, amount: Fraction, delta: Fraction = Fraction(0)) -> Loss:
        return Pure(amount).with_delta(delta)

    def convert(self, loss: Loss) -> Loss:
        return loss.to_approximate()


class PureRules(BasicRules):
    """Epsilons add up; there is no delta."""

    has_delta = composes_lists = False

    def check(self, delta: Fraction) -> None:
        if delta > 0:
            raise Misconfigured(
                f"`delta` is {delta}; pure accounting has none. Leave out `delta`, or use another accounting."
            )

    def loss(self, amount: Fraction, delta: Fraction = Fraction(0)) -> Loss:
        if delta:
            raise Refused(
                "delta-not-available",
                "`delta`",
                f"A pure budget has no delta to spend; {decimal_text(delta)} was requested.",
                "Leave `delta` out.",
            )
        return Pure(amount)

    def convert(self, loss: Loss) -> Loss:
        return loss.to_pure()


class ZCDPRules:
    """Rhos add up and deltas add up. Half of the delta turns rho into epsilon, the other half may be spent."""

    unit, has_delta, composes_lists = "rho", True, False

    def check(self, delta: Fraction) -> None:
        if not delta:
            raise Misconfigured(
                "`delta` is 0; zcdp accounting needs one above 0. Pass delta=1e-6, or leave out `accounting`."
            )

    def amount(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        return round_down(rho_of_epsilon(epsilon, delta / 2), digits=_ROOT_DIGITS)

    def spendable(self, delta: Fraction) -> Fraction:
        return delta / 2

    def affordable(self, amount: Fraction, delta: Fraction) -> Fraction:
        asked = round_down(epsilon_of_rho(amount, delta / 2) + Fraction(1, 2 * 10**6), digits=6)
        return asked if asked == 0 or self.amount(asked, delta) <= amount else asked - Fraction(1, 10**6)

    def loss(self, amount: Fraction, delta: Fraction = Fraction(0)) -> Loss:
        return ZCDP(amount, delta)

    def convert(self, loss: Loss) -> Loss:
        return loss.to_zcdp()
