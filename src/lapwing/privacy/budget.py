"""How much may ever leak, and how much of it a question costs.

A budget is a value. It fixes once, before the first question, in which currency losses are added up:

    Budget(epsilon=E)                                  pure    epsilons add up to at most E
    Budget(epsilon=E, delta=D)                         zcdp    rhos add up to at most the largest rho that converts to
                                                               (E, D/2); deltas add up to at most D/2
    Budget(epsilon=E, delta=D, accounting="basic")     basic   epsilons add up to at most E, deltas to at most D

Theorem. Whatever an analyst asks, each question and price chosen after seeing all earlier answers, all answers
together are (E, D)-DP as long as the sums stay within these capacities.
Proof. Let D' be the capacity in delta (0, D/2 or D). By the definitions in loss.py step i has the laws
P_i = (1 - delta_i) P_i' + delta_i P_i'' and Q_i alike. Draw for each step which part it comes from. The product of
the 1 - delta_i along a path is at least 1 - D'; add one last coin so that "no exceptional part" has probability exactly
1 - D' on every path. Given that, the answers have the laws of the adaptive composition of the P_i' and of the Q_i'.
Pure and basic: along a path the log ratios are at most the sum of epsilon_i <= E, so P' and Q' are E-indistinguishable.
zCDP: for a fixed a, the product of (P_i'/Q_i')^a e^(-a (a-1) rho_i) is a supermartingale under Q' that starts at 1, and
the rho_i of a path add up to at most rho; so D_a(P', Q') <= a rho for every a: rho-zCDP, and (E, D/2)-DP by convert.py.
In all cases P[S] <= (1 - D') P'[S] + D' turns this into (E, D) as in loss.py. [WRRW23] (arXiv 2203.05481)

Exact numbers: a cost is the exact rational, unless its denominator exceeds 10^40; then it is rounded up to 10^-40.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any

from lapwing.errors import Misconfigured, Refused, WeakBudget
from lapwing.numbers import Number, below_one, nonnegative, positive, round_down, round_up, shown
from lapwing.privacy.convert import epsilon_of_rho, rho_of_epsilon
from lapwing.privacy.loss import ZCDP, Loss, Pure, read_loss, set_fields
from lapwing.privacy.phrases import at_least_text, at_most_text, decimal_text, meaning, short_repr, weakness

FINEST = 40
"""Amounts are exact fractions with denominators up to 10^40, or rounded to 40 decimals."""
_ROOT_DIGITS = FINEST - 4  # of amounts that are roots: a share of four decimals of them is exact too


class Rules:
    """Basic accounting: epsilons add up and deltas add up. The other currencies override what differs.

    Amounts are in the currency: epsilon or rho. `delta` is the whole budget's.
    """

    unit = "epsilon"
    """The unit of amounts."""
    has_delta = True
    """Whether losses with a delta can be paid."""
    composes_lists = True
    """Whether a list that is fixed before the first answer may cost less than its parts."""

    def check(self, delta: Fraction) -> None:
        """Raises Misconfigured if no such budget has this delta."""

    def amount(self, epsilon: Fraction, delta: Fraction) -> Fraction:  # noqa: ARG002 (of zCDP)
        """The most that one question at this epsilon may take, rounded down."""
        return epsilon

    def spendable(self, delta: Fraction) -> Fraction:
        """The part of the delta that questions may take."""
        return delta

    def affordable(self, amount: Fraction, delta: Fraction) -> Fraction:  # noqa: ARG002 (of zCDP)
        """The largest epsilon whose amount is at most this, to six decimals where it is a root."""
        return amount

    def loss(self, amount: Fraction, delta: Fraction = Fraction(0)) -> Loss:
        """The loss that a question of this amount and delta may have."""
        return Pure(amount).with_delta(delta)

    def convert(self, loss: Loss) -> Loss:
        """The loss in this currency; refused if no rule proves a bound."""
        return loss.to_approximate()


class PureRules(Rules):
    """Epsilons add up; there is no delta."""

    has_delta = composes_lists = False

    def check(self, delta: Fraction) -> None:
        if delta > 0:
            raise Misconfigured(f"`delta` is {delta}; pure accounting has none. Leave it out, or use another one.")

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


class ZCDPRules(Rules):
    """Rhos add up and deltas add up. Half of the delta turns rho into epsilon, the other half may be spent."""

    unit, composes_lists = "rho", False

    def check(self, delta: Fraction) -> None:
        if not delta:
            raise Misconfigured("`delta` is 0; zcdp needs one above 0. Pass delta=1e-6, or leave out `accounting`.")

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


_QUESTION_SHARE = 100  # by default a question that needs a delta takes this fraction of what is left
_DELTA_DIGITS = 3
_SHORT = 4096  # bits of a number that is certainly short enough to print
_RULES: dict[str, Rules] = {"pure": PureRules(), "zcdp": ZCDPRules(), "basic": Rules()}


class Accounting(Enum):
    """The currency in which a budget adds up losses."""

    PURE = "pure"
    ZCDP = "zcdp"
    BASIC = "basic"

    def __init__(self, name: str) -> None:
        self.rules = _RULES[name]
        """How losses are converted and added up: all that depends on the currency."""


@dataclass(frozen=True, slots=True, init=False)
class Cost:
    """An amount of a budget's own currency: epsilon (pure, basic) or rho (zcdp), and delta."""

    accounting: Accounting
    amount: Fraction
    delta: Fraction

    __repr__ = short_repr

    def __init__(self, accounting: Accounting, amount: Number, delta: Number = 0) -> None:
        kind = _accounting(accounting)
        set_fields(
            self, accounting=kind, amount=nonnegative(amount, kind.rules.unit), delta=nonnegative(delta, "delta")
        )

    @property
    def unit(self) -> str:
        """The unit of `amount`: "epsilon" or "rho"."""
        return self.accounting.rules.unit

    @property
    def zero(self) -> Cost:
        """No cost, in the same currency."""
        return _nothing(self.accounting)

    def _require_same(self, other: Cost) -> None:
        if self.accounting is not other.accounting:
            raise Misconfigured(f"({self}) and ({other}) belong to budgets of different kinds. Use costs of one.")

    def fits(self, room: Cost) -> bool:
        """Whether both parts are within the room."""
        self._require_same(room)
        return self.amount <= room.amount and self.delta <= room.delta

    def __add__(self, other: Cost) -> Cost:
        self._require_same(other)
        if not other.amount and not other.delta:
            return self
        amount, delta = self.amount + other.amount, self.delta + other.delta
        if max(amount.denominator, delta.denominator, amount.numerator) >> _SHORT:
            return Cost(self.accounting, amount, delta)
        cost = Cost.__new__(Cost)  # both were read before, so their short sum needs no reading
        set_fields(cost, accounting=self.accounting, amount=amount, delta=delta)
        return cost

    def __sub__(self, other: Cost) -> Cost:
        self._require_same(other)
        if self is other:
            return _nothing(self.accounting)
        return Cost(self.accounting, self.amount - other.amount, self.delta - other.delta)

    def __bool__(self) -> bool:
        return bool(self.amount or self.delta)

    def __iter__(self) -> Iterator[Fraction]:
        yield self.amount
        yield self.delta

    def __str__(self) -> str:
        delta = f", delta = {at_most_text(self.delta)}" if self.delta else ""
        return f"{self.unit} = {at_most_text(self.amount)}{delta}"


@lru_cache(maxsize=8)
def _nothing(accounting: Accounting) -> Cost:
    return Cost(accounting, 0)


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """How much may ever leak about one unit. Two budgets are the same if all three fields are."""

    epsilon: Fraction
    delta: Fraction
    accounting: Accounting
    capacity: Cost = field(init=False, compare=False, repr=False)
    """All that may be spent, in the budget's own currency."""

    __repr__ = short_repr

    def __init__(self, epsilon: Number, delta: Number = 0, *, accounting: Accounting | str | None = None) -> None:
        self._set(epsilon, delta, accounting)
        if self.weakness:
            warnings.warn(self.weakness, WeakBudget, stacklevel=2)

    @classmethod
    def from_record(cls, epsilon: Number, delta: Number, accounting: Accounting | str) -> Budget:
        """The same budget, read back from a ledger: without the warning, which was given when it was declared."""
        budget = cls.__new__(cls)
        budget._set(epsilon, delta, accounting)
        return budget

    def _set(self, epsilon: Number, delta: Number, accounting: Accounting | str | None) -> None:
        set_fields(self, epsilon=positive(epsilon, "epsilon"), delta=below_one(delta, "delta"))
        kind = (Accounting.ZCDP if self.delta else Accounting.PURE) if accounting is None else _accounting(accounting)
        kind.rules.check(self.delta)
        capacity = Cost(kind, kind.rules.amount(self.epsilon, self.delta), kind.rules.spendable(self.delta))
        set_fields(self, accounting=kind, capacity=capacity)
        if not capacity.amount:
            raise Misconfigured("`epsilon` and `delta` are too small to pay for any question. Use larger ones.")

    @property
    def weakness(self) -> str:
        """Why this budget promises almost nothing, in a sentence; empty if it is a real promise."""
        return weakness(self.epsilon, self.delta)

    def question_delta(self, left: Fraction | None = None, *, many: int = 1) -> Fraction:
        """The default delta of each of `many` questions at once that need one (key selection).

        It is d = left / (99 + many), rounded down to three digits: a hundredth of what the others leave, since then
        left - (many - 1) d >= 100 d. So the delta never runs out: what is left falls by a hundredth per question.
        Without `left`, of the whole budget.
        """
        spendable = self.capacity.delta if left is None else left
        return _leading_digits(spendable / (_QUESTION_SHARE - 1 + many))

    def price(self, *, epsilon: Number, delta: Number = 0) -> Loss:
        """The loss that a question asked at this epsilon may have.

        pure:   Pure(epsilon).
        zcdp:   the largest rho for which this question alone is (epsilon, D/2)-DP; so the budget's own epsilon costs
                the whole budget, and many more than E/x questions at x fit.
        basic:  Pure(epsilon), or Approximate(epsilon, delta) if it also takes a delta.
        """
        return _loss_at(self.accounting, self.delta, positive(epsilon, "epsilon"), below_one(delta, "delta"))

    def share(self, part: Number, *, delta: Number = 0) -> Loss:
        """The loss that a question may have if it takes this part of the whole capacity, in the budget's own currency.

        Twenty questions at 0.05 fill the budget exactly; amounts with more than 40 decimals are rounded down.
        """
        asked, rules, whole = positive(part, "share"), self.accounting.rules, self.capacity.amount
        if asked > 1:
            raise Misconfigured(f"`share` is {shown(part)}; the whole budget is 1. Pass for example share=0.05.")
        amount = asked * whole
        exactly = amount if amount.denominator <= 10**FINEST else round_down(amount, digits=FINEST)
        if not exactly:
            raise Misconfigured("`share` is too small to pay for anything. Pass for example share=0.05.")
        return rules.loss(exactly, below_one(delta, "delta"))

    def cost(self, loss: Loss) -> Cost:
        """The cost of a loss here, rounded up. Refused if no rule proves a bound in this currency."""
        own = self.accounting.rules.convert(read_loss(loss))
        return Cost(self.accounting, _keep_or_round_up(own.amount), _keep_or_round_up(own.delta))

    def affordable(self, room: Cost) -> Fraction:
        """The largest epsilon, to six decimals, at which one question still fits into the room; 0 if none does."""
        return self.accounting.rules.affordable(room.amount, self.delta)

    def __str__(self) -> str:
        delta = f", delta = {decimal_text(self.delta)}" if self.delta else ""
        kind = f"{self.accounting.value} accounting: {self.capacity}"
        lines = [f"epsilon = {decimal_text(self.epsilon)}{delta} ({kind})", meaning(self.epsilon, self.delta)]
        return "\n".join([*lines, self.weakness] if self.weakness else lines)


def read_cost(amounts: Mapping[str, Any]) -> Cost:
    """The cost whose JSON this is, {"rho": 0.02, "delta": 0.0}, in an accounting that has this unit."""
    fitting = [kind for kind in Accounting if kind.rules.unit in amounts]
    if not fitting:
        raise Misconfigured("these amounts have no known unit. The versions of client and server differ.")
    delta = amounts.get("delta", 0)
    accounting = next((kind for kind in fitting if kind.rules.has_delta), fitting[0]) if delta else fitting[0]
    return Cost(accounting, amounts[accounting.rules.unit], delta)


def read_budget(facts: Mapping[str, Any]) -> Budget:
    """The budget in the JSON of a statement, where epsilon and delta are decimals."""
    return Budget.from_record(Fraction(facts["epsilon"]), Fraction(facts["delta"]), facts["accounting"])


@lru_cache(maxsize=1024)
def _loss_at(accounting: Accounting, whole: Fraction, epsilon: Fraction, delta: Fraction) -> Loss:
    """The loss of a question at this epsilon and delta, from a budget with this whole delta."""
    return accounting.rules.loss(accounting.rules.amount(epsilon, whole), delta)


def _leading_digits(value: Fraction) -> Fraction:
    """The value rounded down to three significant digits; 0 stays 0."""
    if not value:
        return value
    first = len(str(value.numerator)) - len(str(value.denominator))
    first -= value < Fraction(10) ** first  # now 10^first <= value < 10^(first + 1)
    unit = Fraction(10) ** (first + 1 - _DELTA_DIGITS)
    return value // unit * unit


def remaining_text(room: Cost) -> str:
    """The rest in words, rounded down."""
    delta = f", delta = {at_least_text(room.delta)}" if room.accounting.rules.has_delta else ""
    return f"{room.unit} = {at_least_text(room.amount)}{delta}"


def _accounting(value: object) -> Accounting:
    if isinstance(value, Accounting):
        return value
    choices = {kind.value: kind for kind in Accounting}
    if isinstance(value, str) and value in choices:
        return choices[value]
    raise Misconfigured(f"`accounting` is {shown(value)}; it must be one of {', '.join(map(repr, choices))}.")


def _keep_or_round_up(value: Fraction) -> Fraction:
    """The exact value if it is short, so that n questions at 1/n fill 1; otherwise rounded up."""
    return value if value.denominator <= 10**FINEST else round_up(value, digits=FINEST)
