"""From a question to a plan that can be paid: what it needs found is looked up, or found and charged first.

    needs -> stored findings -> the question read with them -> plan
                 missing: check the whole price -> reserve -> engine -> AutoBounds -> settle, one by one

Each finding is charged before its rows are read. With a key, a retry finds its own charges again, so it pays once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from hashlib import sha256

from lapwing.asking.automatic import Automatic, Read, needs_of
from lapwing.asking.pricing import Terms
from lapwing.catalog.identity import Identity
from lapwing.catalog.table import Catalog
from lapwing.cells.finding import Found, Target, decode_found, mechanism_for
from lapwing.curator.charging import NOTHING, bought, instead_of_nothing
from lapwing.curator.private_data import Paid
from lapwing.curator.search import WITHIN, Search, Stored
from lapwing.errors import Bug, Refused
from lapwing.language.refusal import Refusal, raised
from lapwing.ledger import Ledger
from lapwing.mechanisms.quantiles.auto_bounds import AutoBounds
from lapwing.planning.plan import Plan, make_outline
from lapwing.planning.question import Question
from lapwing.privacy.budget import Cost


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan, and what is missing before it can be paid."""

    plan: Plan
    least: Plan
    """What the question gets if all that it needs has to be found: a stored answer that is as good will do."""
    level: Fraction
    charged: Cost
    """What was charged for findings now."""
    found: tuple[Found, ...] = ()
    missing: tuple[Target, ...] = ()
    search: Search | None = None

    @property
    def to_pay(self) -> Cost:
        """What the missing findings will be charged."""
        free = self.charged - self.charged
        return free if self.search is None else sum((self.search.cost_of_each for _ in self.missing), free)


class Preparer:
    """Makes questions ready. `planned` raises refusals, `find` prepares what reads the rows of a finding."""

    def __init__(
        self,
        catalog: Catalog,
        ledger: Ledger,
        *,
        planned: Callable[[Question | Refusal, Terms], tuple[Plan, Fraction]],
        find: Callable[[Target, AutoBounds], Paid[Found]],
    ) -> None:
        self._catalog, self._ledger, self._planned, self._find = catalog, ledger, planned, find

    def prepare(
        self, question: Question | Refusal, read: Read, terms: Terms, *, analyst: str = "", key: str | None = None
    ) -> Prepared:
        """The plan of a question, and what must be found before it can be paid. Charges nothing."""
        needs = needs_of(read, self._catalog, terms.automatic)
        if isinstance(needs, Refusal):
            raise raised(needs)
        if not needs.many:
            plan, level = self._planned_or_told(question, read, terms)
            return Prepared(plan, plan, level, self._free)
        stored = partial(self._stored, analyst=analyst, key=key)
        search = Search(read, self._catalog, needs, budget=self._ledger.budget, terms=terms, stored=stored)
        return self._surveyed(search)

    def find_missing(self, ready: Prepared, *, analyst: str, key: str | None) -> Prepared:
        """The same with all that was missing: found, charged and stored. The whole price was checked before."""
        charged = self._free
        while ready.missing:
            if ready.search is None:
                raise Bug("something is missing and nobody looks for it")
            with instead_of_nothing(STAYS if charged else NOTHING):
                charged += self._paid(ready.search, ready.missing[0], analyst, key)
            with instead_of_nothing(STAYS if charged else NOTHING):  # a refusal by what was found, which is public now
                ready = self._surveyed(ready.search)
        return replace(ready, charged=charged)

    def _planned_or_told(self, question: Question | Refusal, read: Read, terms: Terms) -> tuple[Plan, Fraction]:
        """The plan; a refusal says so if bounds or limits that can be found are all that is missing."""
        try:
            return self._planned(question, terms)
        except Refused as error:
            drawn = question if isinstance(question, Refusal) else make_outline(question)
            needs = needs_of(read, self._catalog, Automatic(bounds=True, limits=True))
            if not isinstance(drawn, Refusal) or isinstance(needs, Refusal) or not needs.many:
                raise
            words = (["bounds"] if needs.columns else []) + (["limits"] if needs.limits else [])
            asked = " and ".join(f'{word}="auto"' for word in words)
            raise Refused(f"{error} Or pass {asked}: a share of the price finds what is missing.") from None

    def _surveyed(self, search: Search) -> Prepared:
        seen = search.look()
        if seen.missing and search.within:
            raise raised(WITHIN)
        plan, level = self._planned(seen.question, search.terms(len(seen.missing)))
        least = plan if search.terms() == search.least() else self._planned(seen.question, search.least())[0]
        return Prepared(plan, least, level, self._free, seen.found, seen.missing, search)

    def _paid(self, search: Search, target: Target, analyst: str, key: str | None) -> Cost:
        """One finding: charged, released and stored. What was charged now."""
        mechanism = mechanism_for(target, search.each or Fraction(0))
        price, own = self._ledger.budget.cost(mechanism.loss), _key_of(key, target)
        request = Identity("find", (target.identity.facts, str(mechanism.epsilon)))
        note = {"question": f"find {target}"}
        read = self._find(target, mechanism)
        reservation = self._ledger.reserve(price, analyst=analyst, body=request.text, key=own, note=note)
        _, cost = bought(
            self._ledger,
            reservation,
            match=target.identity.text,
            read=read,
            decode=lambda payload: decode_found(target, payload),
        )
        search.paid.add(reservation.seq)
        return cost

    def _stored(self, target: Target, analyst: str, key: str | None) -> list[Stored]:
        """The stored findings, the oldest first, and whether this analyst paid them with this key."""
        own = _key_of(key, target)
        return [
            (
                answer.charge.seq,
                own is not None and (answer.charge.analyst, answer.charge.key) == (analyst, own),
                decode_found(target, answer.payload),
            )
            for answer in reversed(self._ledger.find_answers(target.identity.text))
        ]

    @property
    def _free(self) -> Cost:
        return self._ledger.total - self._ledger.total


STAYS = "What was found for it is stored and stays charged; the answer was not charged."


def _key_of(key: str | None, target: Target) -> str | None:
    """The key of a finding that is part of a request with this key."""
    return None if key is None else f"find:{sha256(repr((key, target.identity.text)).encode()).hexdigest()}"
