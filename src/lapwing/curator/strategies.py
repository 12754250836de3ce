"""Distributions and marginals: one strategy answers what would be many questions, for one price."""

from __future__ import annotations

from fractions import Fraction

from lapwing.asking.request import Request
from lapwing.cells.release import Answer
from lapwing.curator.charging import paid_answer, reading_terms
from lapwing.curator.private_data import PrivateData
from lapwing.ledger import Ledger
from lapwing.privacy.budget import Cost
from lapwing.workloads.preview import StrategyPreview
from lapwing.workloads.strategy import Bought, Counted, Strategy, decode_strategy


class Strategies:
    """Answers by one strategy: stored ones, or new ones that are charged, read and stored."""

    def __init__(self, ledger: Ledger, private_data: PrivateData) -> None:
        self._ledger, self._private_data = ledger, private_data

    def stored(self, strategy: Strategy, request: Request) -> Bought | None:
        """The best answer paid before, if it is no worse than asked; of equal ones the newest.

        A key that this request was paid with gives its own answer back.
        """
        counted, match = strategy.counted, strategy.counted.identity.text
        own = None if request.key is None else self._ledger.paid_with(match, request.analyst, request.key)
        if own is not None:
            return self._again(counted, *own)
        with reading_terms():
            offers = [(Fraction(offer.terms), offer.seq, offer) for offer in self._ledger.offers(match)]
        price, seq, offer = max(offers, key=lambda known: known[:2], default=(Fraction(0), 0, None))
        if offer is None or price < strategy.price:
            return None
        return self._again(counted, seq, self._ledger.read_offer(match, offer))

    def new(self, strategy: Strategy, where: str | None, request: Request) -> Bought:
        """A new answer, charged; or the one that this request was charged for before."""
        counted, cost = strategy.counted, self._ledger.budget.cost(strategy.loss)
        words, plan = _words(counted, where), counted.outline.question.canonical()
        note = {"question": words, "plan": plan, "version": counted.table.version}
        ready = self._private_data.prepare_tables(strategy)
        reservation = self._ledger.reserve(
            cost, analyst=request.analyst, body=request.body(), key=request.key, note=note
        )

        def read() -> tuple[tuple[Strategy, Answer], bytes]:
            released, payload = ready()
            return (strategy, released), payload

        (made, released), paid = paid_answer(
            self._ledger,
            reservation,
            match=counted.identity.text,
            terms=str(strategy.price),
            read=read,
            decode=lambda payload: decode_strategy(counted, payload),
        )
        return Bought(made, released, paid, reservation.seq)

    def preview(self, strategy: Strategy, confidence: Fraction, request: Request) -> StrategyPreview:
        """Price and error; free if an answer to it is stored."""
        found = None if request.refresh else self.stored(strategy, request)
        made, cost = (strategy, self._cost(strategy)) if found is None else (found.strategy, found.cost)
        return StrategyPreview(made, cost, self._ledger.remaining, confidence)

    def _cost(self, strategy: Strategy) -> Cost:
        return self._ledger.budget.cost(strategy.loss)

    def _again(self, counted: Counted, entry: int, payload: bytes) -> Bought:
        strategy, released = decode_strategy(counted, payload)
        cost = self._cost(strategy)
        return Bought(strategy, released, cost - cost, entry)


def _words(counted: Counted, where: str | None) -> str:
    """What was asked, for the reader of the ledger."""
    names = ", ".join(axis.name for axis in counted.axes)
    kind = "distribution" if counted.sets is None else f"{len(counted.sets)} marginals"
    return f"{kind} of {names} in {counted.table.name}{'' if where is None else f' where {where}'}"
