"""The fourteen promises of a budget ledger, in every store; tests/ledger/test_copies.py has what happens to files."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest

from lapwing.errors import BudgetExceeded, LedgerFailed, Misconfigured
from lapwing.ledger import Declaration, EntryKind, Ledger, entry
from lapwing.ledger.witness import Witness
from lapwing.privacy import Accounting, Budget, Cost

PURE = Accounting.PURE
NOTHING = Cost(PURE, 0)
New = Callable[[Budget], Ledger]


def ask(ledger: Ledger, amount: Any = 0.1, **more: Any) -> Any:
    return ledger.reserve(Cost(PURE, amount), **{"analyst": "ann", "body": "q", **more})


def test_no_reservation_is_given_if_the_witness_cannot_be_told(place: Any) -> None:
    """ledger:B1 ledger:B3: the charge stands, there is no answer, and once repaired the ledger goes on."""
    ledger = place.open()
    ask(ledger, 0.1)

    def fails(self: Witness, head: object) -> None:
        raise LedgerFailed("no space")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Witness, "advance", fails)
        with pytest.raises(LedgerFailed):
            ask(ledger, 0.1, key="k")
    assert ledger.spent == Cost(PURE, 0.2)
    again = ask(ledger, 0.1, key="k")
    assert (again.fresh, again.unanswered) == (False, True)
    assert ask(ledger, 0.1).fresh
    assert ledger.verify().ok


def test_a_witness_that_stays_locked_leaves_a_charge_without_an_answer(place: Any) -> None:
    """ledger:B1 ledger:B13: what the message says is what the ledger has; before the lock, nothing was charged."""
    place.open()
    ledger = Ledger.open(place.store(), place.budget, [Witness(place.witness, timeout=0.1)])
    place.opened.append(ledger)
    with open(place.witness, "r+b") as hung:
        fcntl.flock(hung, fcntl.LOCK_EX)
        told = r"The price stays charged \(entry 2\).*locked by another process for more than 0.1 seconds"
        with pytest.raises(LedgerFailed, match=told) as caught:
            ask(ledger, 0.1, key="k")
        assert caught.value.charged == Cost(PURE, 0.1)
        assert ledger.spent == Cost(PURE, 0.1)
    again = ask(ledger, 0.1, key="k")
    assert (again.fresh, again.unanswered) == (False, True)
    assert ask(ledger, 0.1).fresh
    assert ledger.verify().ok


def test_check_and_charge_are_one_step(place: Any) -> None:
    """ledger:B2: two ledgers on one file take turns; together they get the budget and not more."""
    two, granted = [place.open(), place.open()], 0
    for number in range(30):
        try:
            ask(two[number % 2], 0.07)
            granted += 1
        except BudgetExceeded:
            assert two[number % 2].remaining.amount < Fraction(7, 100)
    assert granted == 14
    assert two[0].spent == two[1].spent == Cost(PURE, 0.98)


def test_nothing_gives_a_charge_back(place: Any) -> None:
    """ledger:B3: there is no method for it; not settling, closing and opening again keep it."""
    ledger = place.open()
    ask(ledger, 0.3)
    ledger.close()
    again = place.open()
    assert again.spent == Cost(PURE, 0.3)
    names = [name for name in dir(Ledger) if not name.startswith("_")]
    assert not [
        name for name in names if any(word in name for word in ("refund", "delete", "reset", "release", "undo"))
    ]


def test_what_is_spent_never_falls(place: Any) -> None:
    """ledger:B4: over answers, allowances, versions, refusals, retries and a new opening."""
    ledger, seen = place.open(), [Fraction(0)]
    steps = [
        lambda: ask(ledger, 0.1, key="a"),
        lambda: ledger.settle(ask(ledger, 0.2), b"x"),
        lambda: ledger.allow("ann", Cost(PURE, 0.5)),
        lambda: ledger.declare([Declaration("visits", "2", "pid", b"new file")]),
        lambda: ask(ledger, 0.1, key="a"),
        lambda: ask(ledger, 0.3),
        lambda: ask(ledger, 0.2),
        lambda: place.open().close(),
    ]
    for step in steps:
        with suppress(BudgetExceeded):
            step()
        seen.append(ledger.spent.amount)
    assert seen == sorted(seen)
    assert seen[-1] == Fraction(5, 10)
    running = [Fraction(line.spent_amount) for line in ledger.entries()]
    assert running == sorted(running)


def test_a_retry_gives_the_stored_answer_and_is_charged_once(place: Any) -> None:
    """ledger:B5: also from another process, and also when nothing is left."""
    ledger = place.open()
    ledger.settle(ask(ledger, 1, key="k", body="question"), b"the answer")
    for again in (ledger, place.open()):
        retry = ask(again, 1, key="k", body="question")
        assert (retry.fresh, retry.answer, retry.seq) == (False, b"the answer", 2)
        assert retry.cost == Cost(PURE, 1)
        with pytest.raises(Misconfigured, match="repeats"):
            again.settle(retry, b"another answer")
    assert ledger.spent == Cost(PURE, 1)


def test_a_key_belongs_to_one_question_of_one_analyst(place: Any) -> None:
    """ledger:B5: another body under the same key is a conflict; another analyst has keys of their own."""
    ledger = place.open()
    ask(ledger, key="k", body="question")
    with pytest.raises(Misconfigured, match="used for another question"):
        ask(ledger, key="k", body="other question")
    assert ledger.spent == Cost(PURE, 0.1)
    assert ask(ledger, key="k", body="other question", analyst="bob").fresh
    assert ask(ledger, body="question").fresh
    assert ask(ledger, body="question").fresh


def test_a_lost_charge_is_never_run_again_for_free(place: Any) -> None:
    """ledger:B5: its process ended before the answer was stored; it stays charged and unanswered."""
    first = place.open()
    ask(first, key="k")
    first.close()
    for _ in range(3):
        again = place.open()
        retry = ask(again, key="k")
        assert (retry.fresh, retry.answer, retry.unanswered) == (False, None, True)
        again.close()
    report = place.verify()
    assert report.unanswered == (2,)
    assert report.entries == 2


def test_a_charge_of_a_living_process_is_not_called_lost(place: Any) -> None:
    """ledger:B5: another process opens the ledger and retries; the first one still settles."""
    working, other = place.open(), place.open()
    reservation = ask(working, key="k")
    assert ask(other, key="k").unanswered
    working.settle(reservation, b"late answer")
    assert ask(other, key="k").answer == b"late answer"


def test_all_analysts_share_one_budget(place: Any) -> None:
    """ledger:B6 gate:G51: allowances above the total do not add to it."""
    ledger = place.open()
    for name in ("ann", "bob", "eve"):
        ledger.allow(name, Cost(PURE, 0.9))
    ask(ledger, 0.6, analyst="ann")
    ask(ledger, 0.4, analyst="bob")
    with pytest.raises(BudgetExceeded, match=r"epsilon = 0 is left\. Nothing was charged"):
        ask(ledger, 0.1, analyst="eve")
    assert ledger.spent == ledger.total


def test_ten_tenths_fill_one_exactly(place: Any) -> None:
    """ledger:B7 gate:G28: then not even a billionth more."""
    ledger = place.open()
    for _ in range(10):
        ask(ledger, 0.1)
    assert ledger.spent == ledger.total
    assert ledger.remaining == NOTHING
    with pytest.raises(BudgetExceeded):
        ask(ledger, 1e-9)


def test_three_at_a_third_leave_a_thousandth(place: Any) -> None:
    """ledger:B7 gate:G28."""
    ledger = place.open()
    for _ in range(3):
        ask(ledger, 0.333)
    with pytest.raises(BudgetExceeded):
        ask(ledger, 0.333)
    assert ledger.remaining == Cost(PURE, 0.001)


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 280), (0.5, 13), (2, 1)])
def test_far_more_small_questions_fit_a_zcdp_budget(another: New, epsilon: float, times: int) -> None:
    """ledger:B7 lecture:L35: the same counts as the filter in memory."""
    ledger, granted = another(Budget(2, 1e-6)), 0
    cost = ledger.budget.cost(ledger.budget.price(epsilon=epsilon))
    for _ in range(times + 3):
        try:
            ledger.reserve(cost, analyst="ann", body="q")
            granted += 1
        except BudgetExceeded:
            assert not cost.fits(ledger.remaining)
    assert granted == times


def test_the_decision_uses_the_price_and_the_ledger_only(another: New) -> None:
    """ledger:B8: two ledgers, the same prices, other questions, notes, answers, times: the same decisions."""

    def decisions(salt: str) -> list[object]:
        ledger, made = another(Budget(1)), []
        for number, amount in enumerate([0.3, 0.5, 0.3, 0.1, 0.2, 0.1, 0.05]):
            try:
                reservation = ask(ledger, amount, body=f"{salt}{number}", note={"question": salt * number})
                ledger.settle(reservation, salt.encode() * (number + 1))
                made.append(reservation.cost)
            except BudgetExceeded as refusal:
                made.append((str(refusal), refusal.remaining))
        return made

    assert decisions("x") == decisions("quite different")


def test_an_over_ask_has_no_side_effects(place: Any) -> None:
    """ledger:B9 gate:G29: 2 of 1 is refused, then a half is granted."""
    ledger = place.open()
    before = (place.witness.read_bytes(), list(ledger.entries()))
    with pytest.raises(BudgetExceeded) as refusal:
        ask(ledger, 2, key="k")
    assert (refusal.value.asked, refusal.value.remaining) == (Cost(PURE, 2), Cost(PURE, 1))
    assert (place.witness.read_bytes(), list(ledger.entries())) == before
    assert ask(ledger, 0.5, key="k").fresh


def test_the_clock_decides_nothing(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B10 gate:G37: ten years back, ten years on, the same second twice; no budget comes back."""
    times: Iterator[str] = iter(["2026-11-16T00:00:00Z", "2016-01-01T00:00:00Z", "2036-01-01T00:00:00Z"] * 9)
    monkeypatch.setattr(entry, "now", lambda: next(times))
    ledger = place.open()
    for _ in range(10):
        ask(ledger, 0.1)
    ledger.close()
    again = place.open()
    with pytest.raises(BudgetExceeded):
        ask(again, 0.1)
    assert again.verify().ok
    told = [line.at for line in again.entries()]
    assert told == sorted(told)
    assert set(told) == {"2026-11-16T00:00:00Z", "2036-01-01T00:00:00Z"}


def test_a_ledger_ahead_of_its_witness_goes_on(place: Any) -> None:
    """ledger:B12: the process ended between the two; the witness catches up when the ledger is opened."""
    ledger = place.open()
    behind = place.witness.read_bytes()
    ask(ledger)
    ledger.settle(ask(ledger), b"answer")
    ledger.close()
    place.witness.write_bytes(behind)
    ledger = place.open()
    known = Witness(place.witness).read()
    assert known is not None
    assert known.seq == 3  # the last charge; the answer after it may not be on the disk yet
    assert ask(ledger).seq == 5
    assert ledger.verify().notes == ("2 charges have no stored answer. They stay charged.",)


def test_a_missing_witness_is_written_anew_and_reported_for_ever(place: Any) -> None:
    """ledger:B12: the steward sees in the chain that for a while only one of the two was there."""
    ledger = place.open()
    ledger.settle(ask(ledger), b"answer")
    place.witness.unlink()
    assert "is missing" in str(ledger.verify())
    ask(ledger)
    place.witness.unlink()
    ledger.close()
    ledger = place.open()
    kinds = [line.kind for line in ledger.entries()]
    assert kinds == ["open", "reserve", "settle", "witness", "reserve", "witness"]
    report = ledger.verify()
    assert report.ok
    assert [note for note in report.notes if note.startswith("Entry ")] == [
        f"Entry {line.seq} ({line.at}): a witness was missing and was written again."
        for line in ledger.entries()
        if line.kind == EntryKind.WITNESS
    ]


def test_entries_hold_nothing_that_depends_on_the_data(another: New, monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B14: two runs on other data: other answers, another duration; all else in the entries is the same."""

    def run(answer: bytes, seconds: int) -> list[dict[str, Any]]:
        clock = iter(["2026-01-01T00:00:00Z"] * 2 + [f"2026-01-01T00:00:{seconds:02d}Z"] * 9)
        monkeypatch.setattr(entry, "now", lambda: next(clock))
        ledger = another(Budget(1))
        ledger.settle(ask(ledger, note={"question": "SELECT COUNT(*)"}), answer, match="plan")
        lines = [json.loads(line.content) for line in ledger.entries()][1:]
        return [{name: value for name, value in line.items() if name != "body"} for line in lines]

    assert run(b"12", 1) == run(b"40,000", 59)
