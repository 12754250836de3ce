"""Searches for what a planned request is missing: bounds and limits, each charged before its rows are read.

With a key, a retry finds its own charges again, so it pays once.
"""

from __future__ import annotations

from fractions import Fraction

from lapwing.asking.request import Request
from lapwing.cells.bounds_search import Target, decode_search, mechanism_for
from lapwing.curator.charging import after_charge, paid_answer
from lapwing.curator.planner import PlannedRequest, Planner
from lapwing.curator.private_data import PrivateData
from lapwing.curator.search import Search, search_key
from lapwing.errors import Bug
from lapwing.ledger import Ledger
from lapwing.privacy.budget import Cost


def find_missing(
    planned: PlannedRequest, request: Request, planner: Planner, ledger: Ledger, private_data: PrivateData
) -> PlannedRequest:
    """The same request with all that was missing: found, charged and stored. The whole price was checked before."""
    while planned.missing:
        if planned.search is None:
            raise Bug("something is missing and nobody looks for it")
        with after_charge(planned.charged):
            cost = _run_search(planned.search, planned.missing[0], request, ledger, private_data)
        charged = planned.charged + cost
        with after_charge(charged):  # a refusal by what was found, which is public now
            planned = planner.survey(planned.search, request, charged)
    return planned


def _run_search(search: Search, target: Target, request: Request, ledger: Ledger, private_data: PrivateData) -> Cost:
    """Runs one search: charged, released and stored. Returns what was charged now."""
    mechanism = mechanism_for(target, search.each or Fraction(0))
    price, read = ledger.budget.cost(mechanism.loss), private_data.prepare_search(target, mechanism)
    reservation = ledger.reserve(
        price,
        analyst=request.analyst,
        body=request.body(("find", target.identity.facts, str(mechanism.epsilon))),
        key=search_key(request.key, target),
        note={"question": f"find {target}"},
    )
    _, cost = paid_answer(
        ledger,
        reservation,
        match=target.identity.text,
        read=read,
        decode=lambda payload: decode_search(target, payload),
    )
    search.paid.add(reservation.seq)
    return cost
