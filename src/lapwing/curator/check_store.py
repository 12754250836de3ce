"""Checks of what limits cut: which stored one serves a question, and how a new one is paid.

Rules as for bounds that were found (search.py). A stored check serves if it is about the same relation and keys, covers
every limit of the question, and cost a quarter or more of what the question would pay for one; of several the oldest,
so that later ones never change what an earlier question got, and a cheap one spoils nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction

from lapwing.curator.charging import Purchase
from lapwing.curator.private_data import PrivateData
from lapwing.curator.request import Request
from lapwing.curator.search import WORSE, search_key
from lapwing.ledger import Charge, Ledger
from lapwing.ledger.entry import Entry
from lapwing.plan.units_exceeding import Checked, CheckResult, CheckTarget, decode_check
from lapwing.privacy.loss import Loss

REMEMBERED = 64
"""Relations and lists of keys whose checks are kept."""


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """What is checked for a request, at which price, and what the ledger has of it."""

    target: CheckTarget
    price: Loss
    result: CheckResult | None
    """The result that serves, if there is one."""
    own: bool = False
    """Whether this request paid for it, so that its price is part of this request's."""
    weaker: CheckResult | None = None
    """The best one that is stored, if none serves: told with a stored answer, for which nothing new is paid."""

    @property
    def missing(self) -> bool:
        return self.result is None

    @property
    def taken(self) -> Fraction:
        """What it takes of the request's price, in the budget's currency."""
        return self.price.amount if self.missing or self.own else Fraction(0)

    @property
    def told(self) -> CheckResult | None:
        """What can be told."""
        return self.weaker if self.result is None else self.result

    @property
    def checked(self) -> Checked | None:
        """What can be told of the target's limits."""
        return None if self.told is None else Checked(self.target, self.told)


class StoredChecks:
    """The checks that a ledger has, decoded.

    Guarantee:  what is found is what the ledger would give now.
    Proof:      it is kept with the stamp that the ledger had before it was read. As long as the stamp is the same, this
                is the same ledger and no other answer with this match was stored (Ledger.answer_stamp); an answer that
                is stored never changes. If the stamp changed while it was read, the next look reads again.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, tuple[Hashable, tuple[tuple[Entry, CheckResult], ...]]] = {}

    def find(self, match: str) -> tuple[tuple[Entry, CheckResult], ...]:
        """Every check with this match and its charge, the oldest first."""
        stamp = self._ledger.answer_stamp(match)
        seen, found = self._known.get(match, (None, ()))
        if seen != stamp:
            stored = reversed(self._ledger.find_answers(match))
            found = tuple((answer.charge, decode_check(answer.payload)) for answer in stored)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[match] = stamp, found
        return found


def plan_check(stored: StoredChecks, request: Request, target: CheckTarget, price: Loss) -> PlannedCheck:
    """The check of a request at this price, with what is stored of it."""
    mine = search_key(request.key, target)
    known = [(charge, result) for charge, result in stored.find(target.identity.text) if result.covers(target)]
    own = [result for charge, result in known if mine and (charge.analyst, charge.key) == (request.analyst, mine)]
    enough = [result for _, result in known if WORSE * result.loss.amount >= price.amount]
    if own or enough:
        return PlannedCheck(target, price, (own or enough)[0], own=bool(own))
    best = max((result for _, result in known), key=lambda result: result.loss.amount, default=None)
    return PlannedCheck(target, price, None, weaker=best)


def prepare_check(
    planned: PlannedCheck, request: Request, ledger: Ledger, private_data: PrivateData
) -> Purchase[CheckResult]:
    """A new check, its query written and rehearsed. With a key, a retry finds its own charge again, so it pays once."""
    target, price = planned.target, planned.price
    charge = Charge(
        ledger.budget.cost(price),
        body=request.body(("check", target.identity.facts, target.names, price.encode())),
        key=search_key(request.key, target),
        note={"question": str(target)},
    )
    return Purchase(charge, target.identity.text, private_data.prepare_check(target, price), decode_check)
