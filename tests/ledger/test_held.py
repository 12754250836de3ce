"""Answers that are held: paid, known to their own request, and seen by nobody until they are stored."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

from lapwing.curator import open_data
from lapwing.errors import Misconfigured
from lapwing.ledger.held import HeldAnswer, holding, settle_held
from lapwing.privacy import Accounting, Budget, Cost
from support.visits import open_visits


def test_a_held_answer_is_seen_by_its_own_request_only(place: Any) -> None:
    """threat:A9: no other thread, no other connection, and not this one after it."""
    ledger, other = place.open(), place.open()
    seen: list[Any] = []
    held: list[HeldAnswer] = []
    with holding(held):
        reservation = ledger.reserve(Cost(Accounting.PURE, 0.1), analyst="ann", body="q")
        ledger.settle(reservation, b"answer", match="m", terms="t")
        assert [one.payload for one in ledger.find_answers("m")] == [b"answer"]
        thread = Thread(target=lambda: seen.append(ledger.find_answers("m")))
        thread.start()
        thread.join()
    assert seen == [()]
    assert ledger.find_answers("m") == other.find_answers("m") == ()
    assert ledger.offers("m") == ()
    assert ledger.spent == Cost(Accounting.PURE, 0.1)
    settle_held(held)
    assert [one.payload for one in other.find_answers("m")] == [b"answer"]
    assert ledger.verify().ok
    with pytest.raises(Misconfigured, match="settled before"):
        settle_held(held)


def test_the_newest_of_what_a_request_holds_comes_first_and_only_of_its_own_ledger(another: Any) -> None:
    """As for stored answers. Two ledgers are about different people, whatever is asked of both."""
    ledger, other = another(Budget(1)), another(Budget(1))
    held: list[HeldAnswer] = []
    with holding(held):
        for payload in (b"older", b"newer"):
            reservation = ledger.reserve(Cost(Accounting.PURE, 0.1), analyst="ann", body=payload)
            ledger.settle(reservation, payload, match="m")
        other.reserve(Cost(Accounting.PURE, 0.1), analyst="ann", body="q")
        assert [one.payload for one in ledger.find_answers("m")] == [b"newer", b"older"]
        assert other.find_answers("m") == ()
    settle_held(held)
    assert [one.payload for one in ledger.find_answers("m")] == [b"newer", b"older"]
    assert other.find_answers("m") == ()


def test_a_question_is_not_free_before_its_answer_is_stored() -> None:
    question = "SELECT COUNT(*) AS n FROM visits"
    with open_visits() as curator:
        held: list[HeldAnswer] = []
        with holding(held):
            answer = curator.sql(question, epsilon=0.1)
        assert not curator.preview(question, epsilon=0.1).stored
        settle_held(held)
        assert curator.sql(question, epsilon=0.1)["n"] == answer["n"]
        assert curator.ledger.spent == Cost(Accounting.PURE, 0.1)


@pytest.mark.parametrize("more", [{"bounds": "auto"}, {"check": 0.1}, {"refresh": True, "combine": True}])
def test_a_request_finds_what_it_holds_itself(more: dict[str, Any]) -> None:
    """Bounds that it found, its check, and the answer that it combines."""
    import pyarrow as pa

    frame = pa.table({"pid": range(5_000), "loose": [float(i % 7) for i in range(5_000)]})
    bounds = None if "bounds" in more else {"loose": (0, 10)}
    with open_data(
        frame, name="t", unit="pid", rows_per_unit=1, bounds=bounds, ledger=":memory:", budget=Budget(5)
    ) as curator:
        held: list[HeldAnswer] = []
        with holding(held):
            curator.sql("SELECT SUM(loose) AS s FROM t", epsilon=1, **more)
        spent = curator.ledger.spent
        assert spent == Cost(Accounting.PURE, 1)
        settle_held(held)
        assert curator.ledger.verify().ok
        more.pop("refresh", None), more.pop("combine", None)
        assert not curator.sql("SELECT SUM(loose) AS s FROM t", epsilon=1, **more).cost
