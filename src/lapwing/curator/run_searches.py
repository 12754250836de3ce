"""Searches for what a planned request is missing: bounds and limits, each charged before its rows are read.

With a key, a retry finds its own charges again, so it pays once.
"""

from __future__ import annotations

from fractions import Fraction

from lapwing.curator.charging import Purchase, after_charge, buy
from lapwing.curator.planner import PlannedRequest, Planner
from lapwing.curator.private_data import PrivateData
from lapwing.curator.request import Request
from lapwing.curator.search import Search, search_key
from lapwing.curator.stages import AfterSearch, BeforeCharge, RequestSteps
from lapwing.errors import Bug
from lapwing.ledger import Charge, Ledger
from lapwing.plan.bounds_search import SearchResult, Target, decode_search, mechanism_for
from lapwing.privacy.budget import Budget, Cost


def find_missing(
    planned: PlannedRequest, request: Request, planner: Planner, ledger: Ledger, private_data: PrivateData
) -> RequestSteps[PlannedRequest]:
    """The same request with all that was missing: found, charged and stored. The whole price was checked before.

    It ends with the first search that finds nothing to rely on. How many there are, and what is charged, follows from
    the plan and from what was released.
    """
    while planned.missing and not planned.nothing:
        if planned.search is None:
            raise Bug("something is missing and nobody looks for it")
        more = len(planned.found) + len(planned.missing) + (planned.check is not None)
        with after_charge(planned.charged):
            search = prepare_search(planned.search, planned.missing[0], request, ledger, private_data)
            yield BeforeCharge(price_of(planned, ledger.budget), (planned.plan,), more)
            (paid,) = yield from buy(ledger, [search], request.analyst)
        yield AfterSearch(planned.plan)
        planned.search.paid.add(paid.entry)
        charged = planned.charged + paid.cost
        with after_charge(charged):  # a refusal by what was found, which is public now
            planned = planner.survey(planned.search, request, charged)
    return planned


def price_of(planned: PlannedRequest, budget: Budget) -> Cost:
    """What the answer will cost, and all that it still needs."""
    return budget.cost(planned.plan.loss) + planned.to_pay(budget)


def prepare_search(
    search: Search, target: Target, request: Request, ledger: Ledger, private_data: PrivateData
) -> Purchase[SearchResult]:
    """One search, its query written and rehearsed."""
    mechanism = mechanism_for(target, search.each or Fraction(0))
    charge = Charge(
        ledger.budget.cost(mechanism.loss),
        body=body_of(request, target, mechanism.epsilon),
        key=search_key(request.key, target),
        note={"question": f"find {target}"},
    )
    read = private_data.prepare_search(mechanism)
    return Purchase(charge, target.identity.text, read, lambda payload: decode_search(target, payload, 0))


def check_search_keys(planned: PlannedRequest, request: Request, ledger: Ledger) -> None:
    """Refuses a key that was used for another request, where no answer is charged that would be refused for it."""
    for found in planned.found if request.key is not None else ():
        key, body = search_key(request.key, found.target), body_of(request, found.target, found.epsilon)
        if key is not None:
            ledger.check_key(request.analyst, key, body)


def body_of(request: Request, target: Target, epsilon: Fraction) -> str:
    """What the ledger knows a search by."""
    return request.body(("find", target.identity.facts, str(epsilon)))
