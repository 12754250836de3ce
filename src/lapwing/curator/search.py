"""The price of a bounds search, and which stored results a question can use.

A question with a price spends the stated share of it on searches, in equal parts; what is already stored costs
nothing, and its part goes to the answer. The parts and the answer add up to the price exactly. A search that found
nothing to rely on ends the question: the rest of the price is not charged, and the answer is NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from lapwing.answers.stored import decode
from lapwing.curator.automatic import Needs, Overview, QuestionReader, survey
from lapwing.curator.pricing import Terms
from lapwing.curator.purchase import PlannedCharge
from lapwing.curator.request import Request
from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.identity import Facts
from lapwing.expressions.table import Catalog
from lapwing.ledger import Ledger
from lapwing.plan.bounds_search import SearchResult, Target, search_result
from lapwing.privacy.budget import Budget, Cost
from lapwing.privacy.loss import Loss, Pure

WORSE = 4
"""A stored result is used if it cost at least 1 / WORSE of what the question would pay for it."""

_LEAST, _ROUNDED = Fraction(1, 10**6), Fraction(1, 10**5)  # where an epsilon is a root, it has six decimals

StoredResult = tuple[bool, SearchResult]
"""A search result in the ledger, and whether the question itself paid it."""


def stored_results(ledger: Ledger, request: Request, target: Target) -> list[StoredResult]:
    """The stored results for a target, oldest first, and whether this request paid for them."""
    own, outline, found = request.part_key(target.identity), target.plan(Pure(1)).outline, []
    for answer in reversed(ledger.find_answers(target.identity.text)):
        charge, (plan, released) = answer.charge, decode(outline, answer.payload)
        mine = own is not None and (charge.analyst, charge.key) == (request.analyst, own)
        found.append((mine, search_result(target, plan.loss, released.cells[0], charge.seq)))
    return found


def search_body(request: Request, target: Target, epsilon: Fraction) -> str:
    """What the ledger knows a search by."""
    return request.body(("find", target.identity.facts, str(epsilon)))


def check_search_keys(found: Iterable[SearchResult], request: Request, ledger: Ledger) -> None:
    """Refuses a key that was used for another request, where no answer is charged that would be refused for it."""
    for one in found if request.key is not None else ():
        key, body = request.part_key(one.target.identity), search_body(request, one.target, one.epsilon)
        if key is not None:
            ledger.check_key(request.analyst, key, body)


class Search:
    """What a question must search for, what of it the ledger has, and what the rest costs."""

    def __init__(
        self,
        read: QuestionReader,
        catalog: Catalog,
        needs: Needs,
        *,
        budget: Budget,
        terms: Terms,
        stored: Callable[[Target], Sequence[StoredResult]],
    ) -> None:
        self._read, self._catalog, self._needs, self._stored = read, catalog, needs, stored
        self._budget, self._terms = budget, terms
        self._own: set[int] = set()
        self._found: dict[str, SearchResult] = {}
        """By the text of its target what this request has found itself."""
        price = terms.price(budget) if terms.within is None else None
        self.each = None if price is None else price_of_each(price, terms.automatic.share, needs.many)
        """The epsilon of one search; None if the question has no price."""

    @property
    def facts(self) -> Facts:
        """What is asked, by declared facts alone."""
        return None if self._needs.widest is None else self._needs.widest.facts

    @property
    def within(self) -> bool:
        """Whether the question names a precision and no price."""
        return self._terms.within is not None

    def look(self) -> Overview:
        """What is known by now. With something missing, the price must be known."""
        seen = survey(self._read, self._catalog, self._needs, self._known)
        if self.each is not None and seen.missing:
            check_price(seen.missing, self.each)
        return seen

    def charge(self, target: Target, request: Request, confidence: Fraction) -> PlannedCharge:
        """What buys one search. With a key, a retry finds its own charge again, so it pays once."""
        plan = target.plan(Pure(self.each or 0))
        body = search_body(request, target, plan.loss.amount)
        cost, key = self._budget.cost(plan.loss), request.part_key(target.identity)
        return PlannedCharge(plan, cost, confidence, f"find {target}", body, key, questions=())

    def terms(self, missing: int = 0) -> Terms:
        """The terms of the answer: without what this question has paid for searches, and has yet to pay."""
        return replace(self._terms, taken=(len(self._own) + missing) * self.cost_of_each.amount)

    def least(self) -> Terms:
        """The terms of the answer if all had to be found: what the same question got the first time, or better."""
        return replace(self._terms, taken=self._needs.many * self.cost_of_each.amount)

    def again(self, found: SearchResult) -> Fraction:
        """An epsilon at which this question searches again, and overlooks fewer units than there may be."""
        times = max(Fraction(1), Fraction(found.beyond or 1, found.most_units)) if found.may_overlook_all else 1
        amount = self._budget.cost(Pure(times * found.epsilon)).amount * self._needs.many / self._terms.automatic.share
        return _above(self._budget.affordable(Cost(self._budget.accounting, amount)))

    @property
    def cost_of_each(self) -> Cost:
        """What one search costs; nothing if the question has no price."""
        return self._budget.cost(Pure(self.each or 0))

    def take(self, found: SearchResult) -> None:
        """Goes on with what this request has just found."""
        self._found[found.target.identity.text] = found
        self._own.add(found.entry)

    def _known(self, target: Target) -> SearchResult | None:
        if (found := self._found.get(target.identity.text)) is not None:
            return found
        stored = self._stored(target)
        mine = {found.entry for own, found in stored if own and found.epsilon == self.each}
        self._own |= mine
        return choose_result([found for _, found in stored], self.each, mine)


def price_of_each(price: Loss, share: Fraction, many: int) -> Fraction:
    """The pure epsilon of one of `many` searches, for this share of a question's price.

    Under zCDP its rho, epsilon^2 / 2, is a decimal of 37 digits at most, so that the rest of the price is exact too.
    """
    return price.scaled(share).pure_epsilon(many, unit=Fraction(1, 10**18))


def _above(epsilon: Fraction) -> Fraction:
    """A larger one of two digits."""
    step = Fraction(10) ** (math.floor(math.log10(max(epsilon, _LEAST))) - 1)
    return (epsilon * (1 + _ROUNDED) // step + 1) * step


def check_price(targets: Sequence[Target], each: Fraction) -> None:
    """Refuses a price at which no noise can be drawn for a search."""
    try:
        for target in targets:
            target.plan(Pure(each))
    except (Misconfigured, Refused):
        raise Misconfigured(
            "the price and `find_share` leave a price for the search that is too small or too large. "
            "Choose another one. Nothing was charged for the answer."
        ) from None


def choose_result(
    searches: Sequence[SearchResult], each: Fraction | None, mine: Container[int] = ()
) -> SearchResult | None:
    """Of stored results, oldest first, the one to use for a question that would pay `each` for a search.

    It is the oldest that cost enough: later ones never change what an earlier question got, and a cheap
    one spoils nothing for others. For a question without a price it is the most expensive. A result that found nothing
    serves a retry of the question that paid it, whose entries are `mine`; else only where there is no other, and no
    dearer question.
    """
    relied = [found for found in searches if not found.is_nothing]
    if each is None:
        return max(relied, key=lambda found: found.epsilon, default=None)
    own = [found for found in searches if found.entry in mine]
    enough = [found for found in relied if WORSE * found.epsilon >= each]
    nothing = [found for found in searches if found.epsilon >= each]
    return next(iter((*own, *enough, *nothing)), None)
