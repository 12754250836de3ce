"""Where a request stops: nothing is charged before the first stop, and no step both charges and reads rows."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from lapwing.curator.automatic import read_automatic
from lapwing.curator.batch import read_batch
from lapwing.curator.pricing import Terms
from lapwing.curator.purchase import BeforeCharge, BeforeRows, BeforeStore, run
from lapwing.curator.request import DistributionRequest, MarginalsRequest, QuestionRequest, Request
from lapwing.errors import BudgetExceeded, EngineFailed, LedgerFailed, PriceChanged
from lapwing.ledger.entry import LedgerView
from lapwing.privacy import Accounting, Budget, Cost
from lapwing.server.timing import slot_of
from support.visits import crowd, frame, open_visits

COUNT, BY_SEX = "SELECT COUNT(*) AS n FROM visits", "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
RATIO = "SELECT sex, n, n / SUM(n) OVER () AS part FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) AS t"
TWICE = f"WITH a AS ({BY_SEX}), b AS ({COUNT} WHERE age > 30) SELECT a.sex, a.n, b.n AS m FROM a CROSS JOIN b"
AUTO = read_automatic("auto", "auto", Fraction(3, 10))
ASKED: dict[str, Any] = {
    "question": (QuestionRequest(BY_SEX), {}),
    "computed": (QuestionRequest(RATIO), {}),
    "computed from two": (QuestionRequest(TWICE), {}),
    "batch": (read_batch([COUNT, BY_SEX, "SELECT MEDIAN(age) AS m FROM visits"]), {}),
    "distribution": (DistributionRequest("age", None, None, None), {}),
    "marginals": (MarginalsRequest(["sex", "age"], None, None, 2, 4), {}),
    "searched": (QuestionRequest("SELECT AVG(age) AS a FROM visits"), {"automatic": AUTO}),
    "searched twice": (QuestionRequest("SELECT AVG(age) AS a, MEDIAN(cost) AS m FROM visits"), {"automatic": AUTO}),
}
SEARCHES = {"searched": 1, "searched twice": 2}


def request_of(name: str, **changes: Any) -> Request:
    asked, terms = ASKED[name]
    return Request(asked, Terms(epsilon=1, **terms), **changes)


class Watched:
    """A curator whose queries are counted."""

    def __init__(self, name: str, **changes: Any) -> None:
        bounds = {"searched": {"bounds": {"cost": (0, 100)}}, "searched twice": {"bounds": {}}}.get(name, {})
        self.curator = open_visits(
            crowd() if bounds else frame(40),
            budget=Budget(epsilon=50),
            check=None,
            groups_per_unit=2,
            **bounds,
            **changes,
        )
        self.read, inner = 0, self.curator._engine.fetch

        def fetch(query: Any) -> Any:
            self.read += 1
            return inner(query)

        self.curator._engine.fetch = fetch  # type: ignore[method-assign]

    @property
    def seen(self) -> tuple[Fraction, int]:
        """What is charged, and how many queries have run."""
        return self.curator.ledger.spent.amount, self.read


@pytest.mark.parametrize("name", ASKED)
def test_charges_and_rows_never_come_in_one_step(name: str) -> None:
    """threat:A9: whoever sees the budget cannot see when rows were read, if each step comes at a time of its own."""
    watched = Watched(name)
    steps = watched.curator.steps(request_of(name))
    kinds, before = [], watched.seen
    while True:
        try:
            stop = next(steps)
        except StopIteration as end:
            answer = end.value
            break
        charged, read = watched.seen
        if isinstance(stop, BeforeRows):
            assert read == before[1]
        else:
            assert charged == before[0]
        if not isinstance(kinds[-1] if kinds else None, BeforeRows):
            assert read == before[1]
        kinds.append(stop)
        before = watched.seen
    assert watched.seen == before
    assert before[0] == answer.cost.amount == 1
    purchases = 1 + SEARCHES.get(name, 0)
    assert [type(stop) for stop in kinds] == [BeforeCharge, BeforeRows, BeforeStore] * purchases
    assert [stop.search is None for stop in kinds if isinstance(stop, BeforeStore)] == [False] * (purchases - 1) + [
        True
    ]
    assert {slot_of(stop, {}, 2.0) for stop in kinds if isinstance(stop, BeforeCharge)} == {slot_of(answer, {}, 2.0)}


@pytest.mark.parametrize("name", ASKED)
def test_the_price_is_known_before_anything_is_charged(name: str) -> None:
    watched = Watched(name)
    steps = watched.curator.steps(request_of(name))
    first = next(steps)
    assert isinstance(first, BeforeCharge)
    assert first.price == Cost(Accounting.PURE, 1)
    assert watched.seen == (0, 0)
    steps.close()
    assert watched.seen == (0, 0)


@pytest.mark.parametrize("name", ASKED)
def test_what_is_stored_has_no_stop(name: str) -> None:
    watched = Watched(name)
    first = run(watched.curator.steps(request_of(name)))
    before = watched.seen
    with pytest.raises(StopIteration) as end:
        next(watched.curator.steps(request_of(name)))
    assert not end.value.value.cost
    assert str(end.value.value.to_arrow() if hasattr(first, "to_arrow") else "") == (
        str(first.to_arrow()) if hasattr(first, "to_arrow") else ""
    )
    assert watched.seen == before


@pytest.mark.parametrize("name", ASKED)
def test_a_price_above_what_was_agreed_to_is_refused_before_the_first_stop(name: str) -> None:
    watched = Watched(name)
    with pytest.raises(PriceChanged):
        next(watched.curator.steps(request_of(name, at_most=Cost(Accounting.PURE, Fraction(99, 100)))))
    assert watched.seen == (0, 0)


@pytest.mark.parametrize("name", ASKED)
def test_what_no_longer_fits_is_refused_at_the_charge_as_a_whole(name: str) -> None:
    """Somebody else spends the rest in between: check and answer are refused together."""
    watched = Watched(name)
    steps = watched.curator.steps(request_of(name))
    next(steps)
    ledger = watched.curator.ledger
    ledger.reserve(Cost(Accounting.PURE, Fraction(499, 10)), analyst="other", body="x")
    before = watched.seen
    with pytest.raises(BudgetExceeded):
        next(steps)
    assert watched.seen == before


def up_to_the_store(watched: Watched, request: Request) -> tuple[Any, BeforeStore]:
    """The request at its first stop before a store."""
    steps = watched.curator.steps(request)
    stop = next(stop for stop in steps if isinstance(stop, BeforeStore))
    return steps, stop


@pytest.mark.parametrize("name", ASKED)
def test_what_was_read_is_seen_by_nobody_before_it_is_stored(name: str) -> None:
    """threat:A9: not by its own curator, not by its ledger, and the same question still has its price."""
    watched = Watched(name)
    ledger = watched.curator.ledger
    steps, stop = up_to_the_store(watched, request_of(name))
    assert stop.answers
    matches = [str(one.match) for one in stop.answers]
    assert [ledger.look(offers=[match], answers=[match]) for match in matches] == [
        LedgerView({match: ()}, {match: ()}, {}) for match in matches
    ]
    assert watched.curator.preview_request(request_of(name)).cost
    next(steps, None)
    assert [ledger.find_answers(match)[0].payload for match in matches] == [one.payload for one in stop.answers]
    assert ledger.verify().ok


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_that_was_not_stored_is_lost_and_its_charge_is_not(name: str) -> None:
    """As if the process had ended there."""
    watched = Watched(name)
    steps, stop = up_to_the_store(watched, request_of(name))
    spent, read = watched.seen
    steps.close()
    assert watched.seen == (spent, read)
    assert spent == sum(one.reservation.cost.amount for one in stop.answers) > 0
    assert [watched.curator.ledger.answer(one.reservation.seq) for one in stop.answers] == [None] * len(stop.answers)
    again = run(watched.curator.steps(request_of(name)))
    assert again.cost.amount == 1
    assert watched.seen[0] == spent + 1


def test_a_request_goes_on_with_its_own_search_also_if_an_older_one_was_stored_meanwhile() -> None:
    """Two that were asked at the same time are both paid. Each goes on with what it paid for."""
    watched = Watched("searched")
    older, first = up_to_the_store(watched, request_of("searched", analyst="bob"))
    newer, second = up_to_the_store(watched, request_of("searched"))
    answers = [run(older), run(newer)]
    paid = [[one.reservation.seq for one in stop.answers] for stop in (first, second)]
    assert [[one.entry for one in answer.found] for answer in answers] == paid
    assert paid[0] < paid[1]
    assert answers[0].cost.amount == 1
    assert answers[1].cost.amount in (Fraction(3, 10), 1)  # if both found the same, the first answer will do


@pytest.mark.parametrize("broken", [RuntimeError(), KeyboardInterrupt()], ids=["engine", "interrupt"])
def test_what_was_read_before_a_failure_is_stored_and_the_failure_is_raised_after_that(broken: BaseException) -> None:
    watched = Watched("batch")
    inner = watched.curator._engine.fetch

    def fetch(query: Any) -> Any:
        if watched.read == 1:
            raise broken
        return inner(query)

    watched.curator._engine.fetch = fetch  # type: ignore[method-assign]
    steps, stop = up_to_the_store(watched, request_of("batch"))
    assert (len(stop.answers), stop.search) == (1, None)
    with pytest.raises((EngineFailed, KeyboardInterrupt)):
        next(steps)
    ledger = watched.curator.ledger
    assert [ledger.answer(one.reservation.seq) for one in stop.answers] == [one.payload for one in stop.answers]
    assert watched.seen[0] == 1


def test_answers_are_stored_all_or_none() -> None:
    """One of them was settled before, so neither is stored now."""
    watched = Watched("batch")
    ledger = watched.curator.ledger
    steps, stop = up_to_the_store(watched, request_of("batch"))
    first, *others = stop.answers
    ledger.settle(others[-1].reservation, b"another")
    with pytest.raises(LedgerFailed, match="could not be stored"):
        next(steps)
    assert ledger.answer(first.reservation.seq) is None
    assert ledger.verify().ok
